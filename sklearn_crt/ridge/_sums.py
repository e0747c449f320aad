"""Accumulated statistics of ridge regression for each sigma, and their solutions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator

from .._compat import cached_property
from .._fitted import (
    Batch,
    Step,
    columns_of,
    computed_once,
    no_step,
    value_of,
    with_value,
)
from .._kernels import exp_features
from .._map_sums import MapSums, map_of, third_party_features
from .._state import same
from .._workers import (
    Workspace,
    blas_within_processors,
    effective_n_threads,
    in_threads,
)
from ..maps import FeatureMap, iter_path
from ..rows import Rows
from ..samplers import TrigRBFSampler
from ._solution import Moments, MomentSums, Solution

# multiples of sigma="scale" that are tried with the default sampler
_MULTIPLES = 0.25, 0.5, 1.0, 2.0
_OF_FEW = *_MULTIPLES, 4.0, 8.0  # with few input columns, targets may vary this fast
_FEW = 2
_FEWEST, _MOST = 512, 1024  # limits on the number of columns of the default sampler
# rows per column from which sigma is chosen: more rows would hardly change the choice
_ROWS_A_COLUMN = 128


class DefaultSampler(TrigRBFSampler):
    """Random Fourier features with as many columns as rows, between 512 and 1024.

    Fewer columns would approximate the kernel poorly even for few rows, and the
    fitting time grows with the square of the number of columns.
    """

    def _make_map(self, statistics, drawn):
        width = int(np.clip(statistics.query.weight, _FEWEST, _MOST))
        if drawn is not None and drawn.n_components != width:
            drawn = None
        sampler = copy.copy(self)
        sampler.n_components = width
        return super(DefaultSampler, sampler)._make_map(statistics, drawn)

    def as_plain(self) -> TrigRBFSampler:
        """Return an equal ``TrigRBFSampler`` with the number of columns in use."""
        width = self.map_.n_components
        plain = TrigRBFSampler(**{**self.get_params(), "n_components": width})
        value = replace(value_of(self), unfitted=TrigRBFSampler(**plain.get_params()))
        return with_value(plain, value, columns_of(self))


def multiples_of(n_features: int) -> tuple[float, ...]:
    """Return the multiples of ``"scale"`` that are tried with the default sampler."""
    return _OF_FEW if n_features <= _FEW else _MULTIPLES


@dataclass(frozen=True)
class Settings:
    """The validated parameters of an estimator, in effect until the next ``fit``."""

    sigmas: tuple[Any, ...] | None  # None to use the sigma of the sampler
    relative: bool  # whether sigmas are multiples of the sigma of the sampler
    alphas: Any  # (n_alphas,) or "auto"
    fit_intercept: bool
    n_classes: int | None  # None for regression
    class_weight: np.ndarray | None  # (n_classes,); None if all weights are 1

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets as a matrix (n, k), with 1 and -1 as class indicators.

        Two classes have a single column, as in scikit-learn.
        """
        if self.n_classes is None:
            return y
        first = 0 if self.n_classes > 2 else self.n_classes - 1
        of_columns = np.arange(first, self.n_classes)
        return np.where(y[:, None] == of_columns, 1.0, -1.0)

    def n_rows(self, moments: Moments) -> float:
        """Return the sum of the sample weights, without the weights of classes."""
        if self.class_weight is None:
            return moments.weight
        shares = (moments.y_mean + 1) / 2  # of each class in the total weight
        if shares.size == 1 < self.class_weight.size:
            shares = np.append(1 - shares, shares)
        known = self.class_weight > 0  # rows of classes with weight 0 were left out
        return moments.weight * float(np.sum(shares[known] / self.class_weight[known]))


@dataclass(frozen=True, eq=False, kw_only=True)
class RidgeSums(MapSums):
    """Moments of features and targets for each candidate sigma.

    Rows are kept until the feature map is fixed. ``sigmas`` are the candidates, None
    once one of them has been chosen. As soon as there are moments, ``path`` holds a
    fitted sampler for each candidate.
    """

    settings: Settings
    sigmas: tuple[Any, ...] | None
    path: tuple[Any, ...] = ()  # (n_sigmas,), fitted samplers
    moments: tuple[Moments, ...] = ()  # (n_sigmas,)
    scores_before: tuple[dict, ...] = ()  # of the candidates, when sigma was chosen
    solved: tuple[Solution, ...] = ()  # for the moments, if fit has computed them
    parameter = "sampler"

    # -------------------------------------------------------------- life cycle
    def plus(self, batch: Batch, step: Step = no_step) -> RidgeSums:
        self.check_columns(batch.X)
        return super().plus(batch, step)

    def fitted(self, batch: Batch, step: Step = no_step) -> RidgeSums:
        """Return the moments of all rows for the best sigma, with their solution."""
        if self.is_fixed:
            self.check_columns(batch.X)
            value = self._with_best_sigma_of((batch,))._with_sums_of((batch,), step)
        else:
            value = self.plus(batch, step)
        value = value.frozen(step)
        return replace(value, solved=value.solutions)

    def frozen(self, step: Step = no_step) -> RidgeSums:
        """Return the moments for the best sigma only, with a fixed map."""
        total = self.summed(step)
        if total.sigmas is not None:
            best = total.best
            sampler = total.path[best]
            if isinstance(sampler, DefaultSampler):
                sampler = sampler.as_plain()
            total = replace(
                total,
                sigmas=None,
                sampler=sampler,
                moments=(total.moments[best],),
                scores_before=total.table,
                solved=(total.solutions[best],),
            )
        frozen = super(RidgeSums, total).frozen()
        return replace(frozen, path=(frozen.sampler,))

    def _with_sums_of_kept(self, step: Step) -> RidgeSums:
        return self._with_best_sigma_of(self.kept)._with_sums_of(self.kept, step)

    def _with_sums_of(
        self, batches: tuple[Batch, ...], step: Step = no_step
    ) -> RidgeSums:
        path, moments = self.path or self._members(), self.moments
        for batch in batches:
            new = self._moments_of(path, batch)
            pairs = zip(moments, new, strict=True)
            moments = tuple(a + b for a, b in pairs) if moments else new
            step()
        return replace(self, path=path, moments=moments, solved=())

    def _with_sums_from(self, other: Self) -> RidgeSums:
        pairs = zip(self.moments, other.moments, strict=True)
        return replace(self, moments=tuple(a + b for a, b in pairs), solved=())

    def _check_same_map(self, other: Self) -> None:
        mine, theirs = ([map_of(s) for s in each.path] for each in (self, other))
        if not same(mine, theirs):
            super()._check_same_map(other)
            raise ValueError(
                "merge needs the same sigmas on both sides: merge before freeze(), or "
                "give the sampler of one, FrozenEstimator(model.sampler_), to both."
            )

    def without_map(self) -> RidgeSums:
        return replace(self, sampler=None, path=(None,) * len(self.path))

    def with_map_of(self, sampler: Any) -> RidgeSums:
        value = replace(self, sampler=sampler, solved=())
        return replace(value, path=value._members())

    # -------------------------------------------------------------------- sigma
    def _members(self) -> tuple[Any, ...]:
        """Return a fitted sampler for each candidate sigma."""
        if self.sigmas is None:
            return (self.sampler,)
        sampler = self.sampler
        if isinstance(sampler, FrozenEstimator):
            sampler = sampler.estimator
        sigmas = self.sigmas
        if self.settings.relative:
            sigmas = tuple(sampler.sigma_ * multiple for multiple in sigmas)
        return tuple(sampler.with_sigma(sigma) for sigma in sigmas)

    def _with_best_sigma_of(self, batches: tuple[Batch, ...]) -> RidgeSums:
        """Return the value with the sigma that is best on every n-th row.

        The statistics of all rows then have to be accumulated for this sigma only. If
        there are few rows, all candidates are kept.
        """
        value = replace(self, path=self._members(), kept=())
        n_rows = sum(batch.X.shape[0] for batch in batches)
        n_columns = value.n_components or n_rows
        every = max(1, n_rows // (_ROWS_A_COLUMN * n_columns))
        if len(value.path) == 1 or every == 1:
            return value
        parts = tuple(
            batch._replace(
                X=batch.X[::every], y=batch.y[::every], weights=batch.weights[::every]
            )
            for batch in batches
        )
        on_part = value._with_sums_of(parts)
        path = (value.path[on_part.best],)
        return replace(value, path=path, scores_before=on_part.table)

    # --------------------------------------------------------------------- sums
    @property
    def n_components(self) -> int | None:
        """Number of features; None if it is unknown until features are computed."""
        return _width(self.path)

    def _moments_of(self, path: tuple[Any, ...], batch: Batch) -> tuple[Moments, ...]:
        """Return the moments of the rows for each sigma."""

        def add_up(part: slice) -> tuple[Moments, ...]:
            sums = [MomentSums() for _ in path]
            X, y, weights = (array[part] for array in batch[:3])
            for rows, features in chunks_of(path, X):
                Y = self.settings.targets(y[rows])
                for total, Z in zip(sums, features, strict=True):
                    total.add(Z, Y, weights[rows])
            return tuple(total.moments() for total in sums)

        parts = zip(*_by_threads(add_up, path, batch.X), strict=True)
        return tuple(reduce(add, each) for each in parts)

    # -------------------------------------------------------------- predictions
    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The solution for each sigma, computed when it is first needed."""
        return self.solved or computed_once(self.total, "computed", self.total._solve)

    def _solve(self) -> tuple[Solution, ...]:
        penalties = (getattr(member, "penalty_", None) for member in self.path)
        return tuple(
            Solution(
                moments,
                penalty,
                self.settings.alphas,
                n_rows=self.settings.n_rows(moments),
                fit_intercept=self.settings.fit_intercept,
                shared=self.settings.n_classes is not None,
            )
            for moments, penalty in zip(self.moments, penalties, strict=True)
        )

    @cached_property
    def best(self) -> int:
        """Index of the best sigma in ``path``."""
        solutions = self.solutions
        if len(solutions) == 1:
            return 0
        return int(np.argmin([solution.score for solution in solutions]))

    @property
    def solution(self) -> Solution:
        """The solution for the best sigma."""
        return self.solutions[self.best]

    @property
    def fitted_sampler(self) -> Any:
        """The sampler of the best sigma; None if the rows are features."""
        return self.total.path[self.best]

    @cached_property
    def table(self) -> tuple[dict, ...]:
        """The scores of each sigma; those of the best sigma come from all rows."""
        total = self.total
        table = tuple(
            {
                "sigma": getattr(member, "sigma_", None),
                "alpha": solution.alphas,
                "gcv": solution.scores,
                "effective_columns": solution.effective_columns,
            }
            for member, solution in zip(total.path, self.solutions, strict=True)
        )
        if not total.scores_before:
            return table
        (best,) = table
        return tuple(
            best if same(row["sigma"], best["sigma"]) else row
            for row in total.scores_before
        )

    def predictions(
        self, X: Rows, function: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    ) -> list[np.ndarray]:
        """Return the arrays that a function computes from features in float64."""
        path = (self.fitted_sampler,)  # solve once here, not once in each thread
        self.check_columns(X)

        def of_part(part: slice) -> list[tuple[np.ndarray, ...]]:
            found = []
            for _, (Z,) in chunks_of(path, X[part]):
                if not np.isfinite(Z).all():
                    raise ValueError(
                        f"Features of some rows are too large for {Z.dtype}. Scale the "
                        "columns, or use float64."
                    )
                found.append(function(Z.astype(np.float64, copy=False)))
            return found

        blocks = [block for part in _by_threads(of_part, path, X) for block in part]
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]


def _width(path: Sequence[Any]) -> int | None:
    """Return the number of features; None if unknown until they are computed."""
    source = map_of(path[0])
    return source.n_components if isinstance(source, FeatureMap) else None


def _by_threads(function: Any, path: Sequence[Any], X: Rows) -> list[Any]:
    """Return the results of a function for consecutive parts of the rows, in order."""
    width = _width(path)
    if path[0] is not None and width is None:
        # a transformer of another package manages its own threads
        return [blas_within_processors(X.shape[0])(function, slice(None))]
    n_threads = effective_n_threads(None, X.shape[0], width or X.shape[1])
    return in_threads(function, X.shape[0], n_threads)


def chunks_of(
    path: Sequence[Any], X: Rows
) -> Iterator[tuple[slice, Iterator[np.ndarray]]]:
    """Yield chunks of rows, and the features that each sampler computes from them."""
    sources = [map_of(member) for member in path]
    if not isinstance(sources[0], FeatureMap):
        for rows, features, _ in third_party_features(sources[0], X):
            yield rows, iter((features,))
        return
    for source in sources:
        source.frame.check(X)
    with np.errstate(over="ignore"):  # the callers check for infinite values
        if len(sources) == 1:
            chunks = sources[0].iter_log_features(X, workspace=Workspace())
            for rows, *features in chunks:
                yield rows, iter((exp_features(*features),))
            return
        for rows, pairs in iter_path(sources, X):
            yield rows, (exp_features(*features) for features in pairs)
