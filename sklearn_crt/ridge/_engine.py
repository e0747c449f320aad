"""Moments of the features of rows for a path over sigma, and their solutions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from .._kernels import exp_features
from .._map_engine import MapEngine, Table, map_of, third_party_features
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

_MULTIPLES = 0.25, 0.5, 1.0, 2.0  # of sigma="scale", of the default sampler
_OF_FEW = *_MULTIPLES, 4.0, 8.0  # in few columns, targets may vary as fast as this
_FEW = 2
_FEWEST, _MOST = 512, 1024  # columns of the default sampler
_ROWS_A_COLUMN = 128  # among which sigma is chosen: more would change it little


class WideEnough(TrigRBFSampler):
    """Sines and cosines, as many columns as rows, between 512 and 1024.

    Fewer would be a rough estimate of the kernel, however few the rows, and the time
    for many grows with their square.
    """

    def _make_map(self, statistics, drawn):
        width = int(np.clip(statistics.query.weight, _FEWEST, _MOST))
        if drawn is not None and drawn.n_components != width:
            drawn = None
        sampler = copy.copy(self)
        sampler.n_components = width
        return super(WideEnough, sampler)._make_map(statistics, drawn)

    def as_plain(self) -> TrigRBFSampler:
        """Return the sampler with the number of columns that it has."""
        width = self.map_.n_components
        plain = TrigRBFSampler(**{**self.get_params(), "n_components": width})
        plain.__dict__ = {**vars(self), "n_components": width}
        plain._recipe = TrigRBFSampler(**plain.get_params())
        return plain


def multiples_of(n_features: int) -> tuple[float, ...]:
    """Return the multiples of ``"scale"`` that the default sampler chooses from."""
    return _OF_FEW if n_features <= _FEW else _MULTIPLES


@dataclass(frozen=True)
class Settings:
    """What the parameters of an estimator say, from one ``fit`` to the next."""

    sigmas: tuple[Any, ...] | None  # None for that of the sampler
    relative: bool  # whether these are multiples of that of the sampler
    alphas: Any  # (n_alphas,) or "auto"
    fit_intercept: bool
    n_classes: int | None  # None for numbers
    class_weight: np.ndarray | None  # (n_classes,), weights; None where all are 1

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the matrix of targets, 1 and -1 for classes: (n,) or (n, k) -> (n, k).

        One column for two classes, as in scikit-learn.
        """
        if self.n_classes is None:
            return y
        first = 0 if self.n_classes > 2 else self.n_classes - 1
        of_columns = np.arange(first, self.n_classes)
        return np.where(y[:, None] == of_columns, 1.0, -1.0)

    def n_rows(self, moments: Moments) -> float:
        """Return the sum of the weights of rows without those of their classes."""
        if self.class_weight is None:
            return moments.weight
        shares = (moments.y_mean + 1) / 2  # of the weight
        if shares.size == 1 < self.class_weight.size:
            shares = np.append(1 - shares, shares)
        known = self.class_weight > 0  # rows of other classes are left out
        return moments.weight * float(np.sum(shares[known] / self.class_weight[known]))


class RidgeEngine(MapEngine):
    """Moments of features and targets for each sigma, until the map is fixed."""

    parameter = "sampler"

    def __init__(self, sampler: Any, settings: Settings):
        super().__init__(sampler)
        self.settings = settings
        self._sigmas = settings.sigmas  # to choose among; None once one is chosen
        self._forget()

    # ------------------------------------------------------------------- hooks
    @property
    def _empty(self):
        return not self._moments

    def _forget(self):
        self._path: tuple[Any, ...] = ()  # a sampler for each sigma
        self._moments: tuple[Moments, ...] = ()
        self._chosen_from: list[dict] = []
        self._solved: tuple[Solution, ...] = ()

    def _take(self, tables, step):
        if not self._path:
            self._path = self._members()
        for table in tables:
            self._add_moments(self._sum(self._path, table))
            step()

    def _take_over(self, other):
        super()._take_over(other)
        self._sigmas, self._path = other._sigmas, other._path

    def _merge_sums(self, other):
        self._check_same_map(other)  # of sigmas too
        self._add_moments(other._moments)

    def _check_same_map(self, other):
        mine, theirs = ([map_of(s) for s in e._path] for e in (self, other))
        if not same(mine, theirs):
            super()._check_same_map(other)
            raise ValueError(
                "merge needs the same sigmas on both sides: merge before freeze(), or "
                "give the sampler of one, FrozenEstimator(model.sampler_), to both."
            )

    # -------------------------------------------------------------------- sigma
    def _members(self):
        """Return a sampler for each sigma."""
        if self._sigmas is None:
            return (self.sampler,)
        sampler = self.sampler
        if isinstance(sampler, FrozenEstimator):
            sampler = sampler.estimator
        sigmas = self._sigmas
        if self.settings.relative:
            sigmas = tuple(sampler.sigma_ * multiple for multiple in sigmas)
        return tuple(sampler.with_sigma(sigma) for sigma in sigmas)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] = lambda: None,
    ) -> None:
        """Add rows of positive weight; ``final`` fixes the map, and sigma."""
        self.check_columns(X)
        if final and self.frozen and self._empty:
            self._choose_on_a_part(((X, y, weights),))
        super().add(X, y, weights, final=final, step=step)
        if final:
            self.freeze(step)

    def _absorb(self, step=lambda: None):
        self._choose_on_a_part(self._pending)
        super()._absorb(step)

    def _choose_on_a_part(self, tables: Sequence[Table]) -> None:
        """Choose sigma from every n-th of many rows, so that all are summed once."""
        self._path = self._members()
        n_rows = sum(X.shape[0] for X, *_ in tables)
        n_columns = self.n_components or n_rows
        step = max(1, n_rows // (_ROWS_A_COLUMN * n_columns))  # every n-th row
        if len(self._path) == 1 or step == 1:
            return
        for X, y, weights in tables:
            part = X[::step], y[::step], weights[::step]
            self._add_moments(self._sum(self._path, part))
        best = self.best
        self._chosen_from = self.table
        self._path, self._moments, self._solved = (self._path[best],), (), ()

    def freeze(self, step: Callable[[], None] = lambda: None) -> None:
        """Fix the map and sigma for good, and forget the rows kept until now."""
        if self._empty:
            self._absorb(step)
        if self._sigmas is not None:
            best = self.best
            self._chosen_from, self._sigmas = self.table, None
            if len(self._path) > 1:
                self._moments = (self._moments[best],)
                self._solved = (self._solved[best],)
            self.sampler = self._path[best]
            if isinstance(self.sampler, WideEnough):
                self.sampler = self.sampler.as_plain()
            self.source = map_of(self.sampler)
        super().freeze(step)
        self._path = (self.sampler,)

    # --------------------------------------------------------------------- sums
    def _add_moments(self, moments):
        both = zip(self._moments, moments, strict=True)
        self._moments = tuple(a + b for a, b in both) if self._moments else moments
        self._solved = ()

    @property
    def n_components(self) -> int | None:
        """Number of columns, None where only features tell."""
        source = map_of(self._path[0])
        return source.n_components if isinstance(source, FeatureMap) else None

    def _sum(self, path, table: Table) -> tuple[Moments, ...]:
        """Return the moments of rows at each sigma."""
        X, y, weights = table

        def add_up(part: slice) -> tuple[Moments, ...]:
            sums = [MomentSums() for _ in path]
            rows_of_part, y_part, own = X[part], y[part], weights[part]
            for rows, features in chunks_of(path, rows_of_part):
                Y = self.settings.targets(y_part[rows])
                for total, Z in zip(sums, features, strict=True):
                    total.add(Z, Y, own[rows])
            return tuple(total.moments() for total in sums)

        parts = zip(*self._by_threads(add_up, X), strict=True)
        return tuple(reduce(add, each) for each in parts)

    def _by_threads(self, function, X):
        """Return what a function gives for parts of rows, in order."""
        if self._path[0] is not None and self.n_components is None:
            # a transformer of others has threads of its own
            return [blas_within_processors(X.shape[0])(function, slice(None))]
        width = self.n_components or X.shape[1]
        n_threads = effective_n_threads(None, X.shape[0], width)
        return in_threads(function, X.shape[0], n_threads)

    def without_map(self) -> RidgeEngine:
        """Return the moments alone: what blocks of rows exchange."""
        other = super().without_map()
        other._path = (None,) * len(self._path)
        return other

    def with_map(self, sampler: Any) -> RidgeEngine:
        """Return these moments with the fitted sampler whose map they are of."""
        other = super().with_map(sampler)
        other._path, other._solved = other._members(), ()
        return other

    # ------------------------------------------------------------------ answers
    @property
    def solutions(self) -> tuple[Solution, ...]:
        """The solution for each sigma, computed when rows have changed."""
        if self._empty:
            self._absorb()
        if not self._solved:
            classes = self.settings.n_classes is not None
            options = {
                "fit_intercept": self.settings.fit_intercept,
                "shared": classes,
            }
            penalties = (getattr(member, "penalty_", None) for member in self._path)
            self._solved = tuple(
                Solution(
                    found,
                    penalty,
                    self.settings.alphas,
                    n_rows=self.settings.n_rows(found),
                    **options,
                )
                for found, penalty in zip(self._moments, penalties, strict=True)
            )
        return self._solved

    @property
    def best(self) -> int:
        """Place of the best sigma in the path."""
        return int(np.argmin([solution.score for solution in self.solutions]))

    @property
    def solution(self) -> Solution:
        """The solution for the best sigma."""
        return self.solutions[self.best]

    @property
    def fitted_sampler(self) -> Any:
        """The sampler of the best sigma; None where rows are features."""
        return self._path[self.best] if len(self._path) > 1 else self._path[0]

    @property
    def table(self) -> list[dict]:
        """Scores of each sigma: those of the best are of all rows."""
        solutions = self.solutions  # they make the path
        table = [
            {
                "sigma": getattr(member, "sigma_", None),
                "alpha": solution.alphas,
                "gcv": solution.scores,
                "effective_columns": solution.effective_columns,
            }
            for member, solution in zip(self._path, solutions, strict=True)
        ]
        if not self._chosen_from:
            return table
        (best,) = table
        return [
            best if same(row["sigma"], best["sigma"]) else row
            for row in self._chosen_from
        ]

    def answers(
        self, X: Rows, function: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    ) -> list[np.ndarray]:
        """Return arrays that a function makes of features in float64, row by row."""
        self.solutions  # noqa: B018 (made before threads ask for them)
        self.check_columns(X)
        path = (self.fitted_sampler,)

        def of_part(part: slice) -> list[tuple[np.ndarray, ...]]:
            found = []
            for _, (Z,) in chunks_of(path, X[part]):
                if not np.isfinite(Z).all():
                    raise ValueError(
                        f"Features of some rows are too large for {Z.dtype}. Scale the "
                        "columns, or take float64."
                    )
                found.append(function(Z.astype(np.float64, copy=False)))
            return found

        blocks = [block for part in self._by_threads(of_part, X) for block in part]
        return [np.concatenate(each) for each in zip(*blocks, strict=True)]


def chunks_of(
    path: Sequence[Any], X: Rows
) -> Iterator[tuple[slice, Iterator[np.ndarray]]]:
    """Yield rows and their features from each sampler of a path."""
    sources = [map_of(member) for member in path]
    if not isinstance(sources[0], FeatureMap):
        for rows, features, _ in third_party_features(sources[0], X):
            yield rows, iter((features,))
        return
    for source in sources:
        source.frame.check(X)
    with np.errstate(over="ignore"):  # sums and answers say what is infinite
        if len(sources) == 1:
            chunks = sources[0].iter_log_features(X, workspace=Workspace())
            for rows, *features in chunks:
                yield rows, iter((exp_features(*features),))
            return
        for rows, pairs in iter_path(sources, X):
            yield rows, (exp_features(*features) for features in pairs)
