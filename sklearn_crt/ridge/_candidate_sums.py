"""The moments of features for each candidate sigma, and the parameters they serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Literal, Self

import numpy as np
from scipy import linalg
from sklearn.base import clone

from .._values import same
from ..arrays.validation import as_kind
from ..life_cycle.fitted import (
    Batch,
    LifeCycle,
    Step,
    joined_batches,
    no_step,
    with_value,
)
from ..life_cycle.intervals import Errors, LeftOut
from ..rows import Sigma
from ..rows.row_sample import RowSample
from ..samplers import BaseFeatureSampler
from ..samplers._column_sigmas import MOST_LEARNED, N_DRAWN, sigmas_of_columns
from ..samplers._kernel_parameter import KernelLike, is_row_kernel
from ..sums.map_sums import Drawn, MapSums, Transformer, map_of
from ._calibration import ClippedIndicators, Link
from ._feature_moments import (
    Moments,
    MomentSums,
    block_size,
    by_threads,
    chunks_of,
    features_of,
    merged_rows,
    width_of,
)
from ._ridge_solution import Regression, SampledFeatures, Solution

# candidates for sigma, as multiples of sigma="scale"
_MULTIPLES = 0.25, 0.5, 1.0, 2.0
_OF_FEW = *_MULTIPLES, 4.0, 8.0  # for few columns, along which targets may vary faster
_FEW = 2
# Limits on the number of features with n_components="auto". Models with 2048 features
# are slightly more accurate than those with 1024. With more than _MANY rows, however,
# they would be too slow, because the time to fit a model grows with the square of the
# number of features.
FEWEST, MOST, _MANY = 1024, 2048, 2**14
# With at least this many features, sigma is selected with half of them, which takes a
# quarter of the time. Their frequencies are a subset of those of all features.
_WIDE = 1024
# Candidates for sigma are first compared with fewer features, which takes little time.
# With so many features, those whose score exceeds the best one by this factor are
# discarded. Narrow kernels need more features than wide ones, so the first factors are
# large: on 17 tables, the candidate that was best with 1024 features was behind by at
# most 23 % with 256 features.
_ROUNDS = {128: 2.0, 256: 1.25, 512: 1.03}
# With n_components="auto", the model has _ENOUGH features if the score falls by less
# than this proportion when their number is doubled to _ENOUGH. Later falls are ignored:
# where the score did not fall from 512 to 1024 features, errors on new rows often did.
_LEAST_FALL, _ENOUGH = 0.005, 256
# number of rows per feature that are used to select sigma; more rows hardly help
_ROWS_A_COLUMN = 16
# Maximum number of rows for which leave-one-out predictions are computed. The
# sample has at most _SAMPLED_ENTRIES entries, unless this is fewer than _LEAST_SAMPLED
# rows.
_N_SAMPLED, _LEAST_SAMPLED, _SAMPLED_ENTRIES = 4096, 256, 2**20
# With more than _MANY rows, products of features are computed in single precision if
# the bound for the rounding error of their sum is at most this proportion of the
# penalty. On nine tables, R^2 then changed by at most 4e-6.
_TOLERATED = 0.25
# draws a sample of the rows of consecutive batches by their positions
sampled_rows = partial(RowSample.of_batches, seed=0)
_LEAST_SHARE = 1e-300  # of classes without rows, since weights are divided by shares


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The validated parameters of an estimator, in effect until the next ``fit``."""

    kernel: KernelLike
    sigma: Sigma
    n_components: int | Literal["auto"]
    alpha: np.ndarray | Literal["auto"]  # (n_alphas,)
    fit_intercept: bool
    clip: bool  # whether predictions are clipped to the range of the targets
    n_classes: int | None  # None for regression
    class_weight: np.ndarray | None  # (n_classes,); None if all weights are 1
    calibrates: bool  # whether class probabilities are calibrated

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets as a matrix (n, k), with indicators of the classes.

        With two classes, the only column is the difference of the two indicators.
        """
        if self.n_classes is None:
            return y
        if self.n_classes <= 2:
            return np.where(y[:, None] == self.n_classes - 1, 1.0, -1.0)
        return (y[:, None] == np.arange(self.n_classes)).astype(np.float64)

    def calibration(
        self, rows: LeftOut, solution: Solution, shares: np.ndarray | None
    ) -> Errors | Link | ClippedIndicators:
        """Return the calibration, which is based on leave-one-out predictions.

        ``shares`` are the class proportions, (n_classes,), or None for regression.
        """
        if shares is not None and not self.calibrates:
            return ClippedIndicators(shares)
        if shares is not None:
            return Link.of(rows, shares, solution.n_rows)
        return Errors.of(rows, (solution.least, solution.most) if self.clip else None)

    def totals(self, groups: Sequence[Moments]) -> tuple[float, np.ndarray | None]:
        """Return the sum of the sample weights, and the proportions of the classes.

        The sum does not include the class weights, but the proportions do. The moments
        are those of each of two classes, or of all rows.
        """
        weight = groups[0].weight
        if self.n_classes is None:
            return weight, None
        shares = groups[0].y_mean
        if self.n_classes <= 2:
            weights = np.array([group.weight for group in groups])
            weight = float(weights.sum())
            shares = weights / weight
        if self.class_weight is not None:
            known = self.class_weight > 0  # rows of other classes were left out
            weight *= float(np.sum(shares[known] / self.class_weight[known]))
        return weight, shares


def added_moments(
    one: tuple[tuple[Moments, ...], ...], other: tuple[tuple[Moments, ...], ...]
) -> tuple[tuple[Moments, ...], ...]:
    """Return the moments of the rows of both, for each sigma and each group."""
    return tuple(tuple(map(add, *pair)) for pair in zip(one, other, strict=True))


def _with_width(sampler: Any, n_components: int | None) -> Any:
    """Return a fitted copy with a number of features; None keeps the number."""
    if n_components is None or n_components == sampler._value.unfitted.n_components:
        return sampler
    value = sampler._value.with_n_components(n_components)
    return with_value(sampler, value, {"n_components": n_components})


@dataclass(frozen=True, eq=False, kw_only=True)
class RidgeSums(MapSums[Solution]):
    """Moments of features and targets for each candidate sigma.

    Rows are kept until the feature map is fixed. Once moments have been computed,
    ``path`` contains a fitted sampler for each candidate.
    """

    settings: Settings
    selects_sigma: bool  # False once sigma has been chosen
    resizes: bool  # whether the number of rows determines the number of features
    sigmas_of_columns: tuple[np.ndarray, ...] = ()  # candidates, each (n_features,)
    path: tuple[Transformer | None, ...] = ()  # (n_sigmas,), fitted
    moments: tuple[tuple[Moments, ...], ...] = ()  # (n_sigmas, n_groups)
    # a sample of the rows from which moments have been computed, drawn by weight
    sample: RowSample | None = None
    # scores of all candidates when sigma was chosen
    scores_before: tuple[dict, ...] = ()
    # whether two classes get the same total weight; None to compare both options
    balances: bool | None = None
    # Relative rounding error of the Gram matrix of the rows from which sigma was
    # selected, if its products may be computed in single precision. It does not apply
    # to later rows.
    gram_eps: float | None = None

    # -------------------------------------------------------------- life cycle
    def plus(self, batch: Batch, step: Step = no_step) -> RidgeSums:
        value = self
        if self.resizes and not (self.is_fixed or isinstance(self.sampler, LifeCycle)):
            # Nystroem is fitted to the first batch, with at most one feature per row
            width = min(batch.X.shape[0], FEWEST)
            sampler = clone(self.sampler).set_params(n_components=width)
            value = replace(value, sampler=sampler)
        return super(RidgeSums, value).plus(batch, step)

    def fixed(self, step: Step = no_step) -> RidgeSums:
        """Return the sums for the best sigma, with a fixed feature map."""
        value, known = self.summed(step), None
        if value.selects_sigma:
            known = value.solution
            best = value.path.index(known.sampler)
            value = replace(
                value,
                selects_sigma=False,
                scores_before=known.table,
                path=value.path[best : best + 1],
                moments=value.moments[best : best + 1],
            )
        value = super(RidgeSums, replace(value, sampler=value.path[0])).fixed(step)
        return replace(value, path=(value.sampler,), balances=None, known=known)

    def frozen(self) -> RidgeSums:
        """Return only what predictions need, stored as compactly as possible."""
        value = super().frozen()
        return replace(value, known=value.solution.packed())

    def frozen_fold(self) -> RidgeSums:
        """Return a frozen copy, which is stored beside those of nine other folds."""
        value = self.frozen()
        if not self.solution.tolerates_single_precision:
            return value
        axes = value.solution.axes.astype(np.float32)
        return replace(value, known=replace(value.solution, axes=axes))

    def training_rows(self) -> Batch | None:
        given = self.settings.class_weight
        if self.kept:
            found = joined_batches(self.kept)
            return found._replace(class_weight=given)
        sample = self.sample
        if sample is None or not self.moments:
            return None
        n_rows = sum(each.n_rows for each in self.moments[0])
        if len(sample.y) < n_rows:
            return None
        return Batch(sample.X, sample.y, sample.weights, class_weight=given)

    def _without_rows(self) -> RidgeSums:
        return replace(super()._without_rows(), path=(), moments=(), sample=None)

    def _with_sums_of(
        self, batches: tuple[Batch, ...], step: Step = no_step
    ) -> RidgeSums:
        path, moments, sample = self.path or self._members(), self.moments, self.sample
        for batch in batches:
            new = self._moments_of(path, batch)
            moments = added_moments(moments, new) if moments else new
            if sample is None:
                most = _SAMPLED_ENTRIES // max(1, batch.X.shape[1])
                size = min(_N_SAMPLED, max(_LEAST_SAMPLED, most))
                options = {"size": size, "n_before": self.n_before}
                sample = sampled_rows((batch,), **options, by_weight=True)
            else:
                sample = sample.with_rows(*batch[:3])
            step()
        return replace(self, path=path, moments=moments, sample=sample, gram_eps=None)

    def _with_sums_from(self, other: Self) -> RidgeSums:
        assert self.sample is not None
        assert other.sample is not None
        moments = added_moments(self.moments, other.moments)
        return replace(self, moments=moments, sample=self.sample + other.sample)

    def _check_same_map(self, other: Self) -> None:
        mine, theirs = ([map_of(s) for s in each.path] for each in (self, other))
        if not same(mine, theirs):
            super()._check_same_map(other)
            raise ValueError(
                "merge requires the same sigma in both estimators, but each selected "
                "its own after about 4 million entries of X. Set sigma to a number, or "
                "pass kernel=FrozenEstimator(model.kernel_) to both estimators."
            )

    def without_map(self) -> RidgeSums:
        return replace(self, sampler=None, path=(None,) * len(self.path))

    def with_map_of(self, other: Self) -> RidgeSums:
        return replace(self, sampler=other.sampler, path=other.path)

    # -------------------------------------------------------------------- sigma
    def _members(self) -> tuple[Transformer | None, ...]:
        """Return a fitted sampler for each candidate sigma."""
        sampler = self.sampler
        if self.resizes and isinstance(sampler, LifeCycle):
            most = FEWEST if self._n_rows > _MANY else MOST
            width = int(np.clip(self._n_rows, FEWEST, most))
            sampler = _with_width(sampler, width)
        if not self.selects_sigma:
            return (sampler,)
        assert isinstance(sampler, BaseFeatureSampler)  # others have no sigma
        few = sampler.n_features_in_ <= _FEW
        multiples = _OF_FEW if few else _MULTIPLES
        sigmas = [sampler.sigma_ * m for m in multiples]
        sigmas += self.sigmas_of_columns
        return tuple(sampler.with_sigma(sigma) for sigma in sigmas)

    @property
    def _n_rows(self) -> float:
        """Number of training rows, or the sum of the weights if it is larger."""
        assert isinstance(self.sampler, BaseFeatureSampler)
        rows = self.sampler._value.statistics.query
        return max(rows.weight, rows.n_rows)

    def with_best_sigma_of(self, drawn: Drawn, n_rows: int = 0) -> RidgeSums:
        # The moments of all rows are then needed for this sigma only. With few rows,
        # all candidates are kept instead.
        value, settings = self, self.settings
        if self.selects_sigma and is_row_kernel(settings.kernel):
            sampler = self.sampler
            assert isinstance(sampler, BaseFeatureSampler)
            if 1 < sampler.n_features_in_ <= MOST_LEARNED:
                part = drawn(partial(sampled_rows, size=N_DRAWN))
                found = sigmas_of_columns(
                    as_kind(part.X, np.ndarray),
                    settings.targets(part.y),
                    part.weights,
                    None if settings.n_classes is None else part.y,
                    sampler.sigma_,
                    self._n_rows,
                )
                value = replace(self, sigmas_of_columns=found)
        value = replace(value, path=value._members())
        size = value._n_rows_for_sigma(n_rows)
        if size is None:
            return value
        return value._with_best_sigma_of_sample(
            drawn(partial(sampled_rows, size=size)), n_rows
        )

    def _n_rows_for_sigma(self, n_rows: int) -> int | None:
        """Return the size of the sample on which sigma is selected.

        It is None if all candidates are kept, because there are few rows or there is a
        single candidate.
        """
        if len(self.path) == 1:
            return None
        width = self.n_components or n_rows
        if self._is_wide(n_rows):
            width //= 2
        elif n_rows <= _ROWS_A_COLUMN * width:
            return None
        return _ROWS_A_COLUMN * width

    def _is_wide(self, n_rows: int) -> bool:
        """Return whether sigma is selected with half of the features."""
        width = self.n_components or n_rows
        return width >= _WIDE and n_rows > width // 2

    def _with_best_sigma_of_sample(self, part: RowSample, n_rows: int) -> RidgeSums:
        """Return a copy with the sigma that is best on a sample of all ``n_rows``.

        The number of features is also selected if the rows determine it.
        """
        width = self.n_components
        widths: list[int | None] = [width]
        if width is not None and self._is_wide(n_rows):
            widths = [width // 2]
            if is_row_kernel(self.settings.kernel):
                widths = [*(each for each in _ROUNDS if each < width // 2), *widths]
        rows = Batch(part.X, part.y, part.given_weights)
        # enough rows to compare candidates
        sample = sampled_rows((rows,), size=_N_SAMPLED // 2, by_weight=True)
        # A fall of the error matters more if there are more rows than in the sample,
        # because the noise of the coefficients is then a smaller part of the error.
        least_fall = _LEAST_FALL * min(1.0, len(part.y) / n_rows)
        places, score = [*range(len(self.path))], np.inf
        table: dict[int, dict[str, Any]] = {}
        n_components, place, balances = self.n_components, 0, None
        for width in widths:
            path = tuple(_with_width(self.path[each], width) for each in places)
            on_part = replace(self, path=path, n_before=0)._with_sums_of((rows,))
            on_part = replace(on_part, sample=sample)
            solutions = on_part._solve()
            table.update(zip(places, on_part._table(solutions), strict=True))
            best = _best_of(solutions)
            place, balances = places[best], solutions[best].is_balanced
            before, score = score, solutions[best].score
            if width is None or width not in _ROUNDS:
                continue
            hardly_falls = before - score < least_fall * abs(before)
            if self.resizes and width == _ENOUGH and hardly_falls:
                n_components = width
                break
            limit = score + abs(score) * (_ROUNDS[width] - 1)
            places = [
                each
                for each, solution in zip(places, solutions, strict=True)
                if solution.score <= limit
            ]
            if len(places) == 1 and width >= _ENOUGH:
                break  # there is no choice left
        chosen = _with_width(self.path[place], n_components)
        tolerated = None
        if is_row_kernel(self.settings.kernel) and n_rows > _MANY:  # bounded features
            given = self.settings.alpha
            penalties = solutions[best].alpha if isinstance(given, str) else given
            moments = reduce(add, on_part.moments[best])
            weights = part.given_weights
            share = np.mean(weights) ** 2 / np.mean(weights**2)  # of the effective rows
            sizes = n_rows, n_rows * float(share)
            tolerated = _tolerated_gram_eps(moments, penalties.min(), *sizes)
        return replace(
            self,
            path=(chosen,),
            balances=balances,
            scores_before=tuple(table[i] for i in sorted(table)),
            gram_eps=tolerated,
        )

    # --------------------------------------------------------------------- sums
    @property
    def n_components(self) -> int | None:
        """Number of features, or None if it is unknown until features are computed."""
        return width_of(self.path)

    def _moments_of(
        self, path: tuple[Transformer | None, ...], batch: Batch
    ) -> tuple[tuple[Moments, ...], ...]:
        """Return the moments of each group of a batch, (n_sigmas, n_groups)."""
        n_groups = 2 if self.settings.n_classes == 2 else 1
        X, Y, weights = batch.X, self.settings.targets(batch.y), batch.weights
        merged = merged_rows(X, Y, weights, by_sign=n_groups == 2)
        if merged is not None:
            X, Y, weights = merged[:3]
        # errors of the products of few distinct rows would not cancel
        gram_eps = self.gram_eps if merged is None else None

        def groups_of(Y: np.ndarray) -> list[slice | np.ndarray]:
            return [slice(None)] if n_groups == 1 else [Y[:, 0] < 0, Y[:, 0] > 0]

        def add_up(part: slice) -> tuple[tuple[Moments, ...], ...]:
            sums = [[MomentSums(gram_eps) for _ in range(n_groups)] for _ in path]
            Y_part, weights_part = Y[part], weights[part]
            for rows, features in chunks_of(path, X[part]):
                some, groups = Y_part[rows], groups_of(Y_part[rows])
                for totals, Z in zip(sums, features, strict=True):
                    for total, group in zip(totals, groups, strict=True):
                        total.add(Z[group], some[group], weights_part[rows][group])
            return tuple(tuple(total.moments() for total in each) for each in sums)

        found = reduce(added_moments, by_threads(add_up, path, X))
        if merged is None:
            return found
        groups = groups_of(Y)
        return tuple(tuple(map(merged.completed, each, groups)) for each in found)

    # ---------------------------------------------------------------- solution
    def _learn(self, step: Step = no_step) -> Solution:
        """Return the solution for the best sigma."""
        value = self.summed(step)
        solutions = value._solve()
        best = _best_of(solutions)
        found = solutions[best]
        if is_row_kernel(self.settings.kernel):  # features are bounded
            found = found.rounded()
        return replace(
            found,
            sampler=value.path[best],
            table=value._table(solutions),
        )

    def _solve(self) -> tuple[Solution, ...]:
        """Return the solution for each sigma."""
        settings, sample = self.settings, self.sample
        assert sample is not None
        features, targets = features_of(self.path, sample.X), settings.targets(sample.y)
        weight, shares = settings.totals(self.moments[0])

        def solved(place: int, balances: bool) -> tuple[Solution, LeftOut]:
            moments, factors = self.moments[place], 1.0
            if balances and shares is not None:
                units = np.maximum(shares, _LEAST_SHARE) * np.count_nonzero(shares)
                moments = tuple(map(Moments.divided_by, moments, units))
                factors = 1 / units[sample.y]
            Z = features[place].astype(np.float64, copy=False)
            regression = Regression(
                reduce(add, moments),
                getattr(self.path[place], "penalty_", None),
                settings.alpha,
                weight=weight,
                fit_intercept=settings.fit_intercept,
                class_shares=shares,
                rows=SampledFeatures(
                    Z=Z,
                    Y=targets,
                    weights=sample.given_weights * factors,
                    shares=sample.weights * factors,
                    given_shares=sample.weights,
                ),
            )
            return regression.solution(balances), regression.left_out

        places = range(len(self.path))
        found = [solved(place, bool(self.balances)) for place in places]
        solutions, left_out = map(list, zip(*found, strict=True))
        best = _best_of(solutions)
        if self.balances is None and settings.n_classes == 2 and settings.calibrates:
            solution, rows = solved(best, True)
            # log losses are comparable only if they are based on the same rows
            is_known = np.isfinite(rows.predictions).all()
            if is_known and solution.score < solutions[best].score:
                solutions[best], left_out[best] = solution, rows
        calibration = settings.calibration(left_out[best], solutions[best], shares)
        solutions[best] = replace(solutions[best], calibration=calibration)
        return tuple(solutions)

    def _table(self, solutions: Sequence[Solution]) -> tuple[dict[str, Any], ...]:
        """Return the scores of each sigma; for the best, they are based on all rows."""
        table = tuple(
            {
                "sigma": getattr(member, "sigma_", None),
                "error": solution.errors,
            }
            for member, solution in zip(self.path, solutions, strict=True)
        )
        if not self.scores_before:
            return table
        (best,) = table
        return tuple(
            best if same(row["sigma"], best["sigma"]) else row
            for row in self.scores_before
        )


def _tolerated_gram_eps(
    part: Moments, alpha: float, n_rows: int, n_effective: float
) -> float | None:
    """Return the rounding error of the Gram matrix of all rows in single precision.

    It is relative to the largest eigenvalue, and None if it is too large for a penalty
    that is selected by a part of the rows. The errors of the blocks of rows, of which
    each is at most about the machine epsilon, are independent, so they partly cancel.
    """
    largest = linalg.norm(part.gram.matrix()) * n_rows / part.n_rows  # an upper bound
    block = block_size(len(part.z_mean), np.dtype(np.float32))
    error = float(np.finfo(np.float32).eps * np.sqrt(min(1.0, block / n_effective)))
    return error if error * largest <= _TOLERATED * alpha else None


def _best_of(solutions: Sequence[Solution]) -> int:
    """Return the index of the solution with the lowest score; in a tie, the first."""
    return int(np.argmin([solution.score for solution in solutions]))
