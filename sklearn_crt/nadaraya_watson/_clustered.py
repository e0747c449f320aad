"""The exact estimator to a tolerance: training rows in clusters, far ones skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from ..rows import Rows, UnitRows, effective_n_threads, in_threads
from ._calibration import calibrated_rule
from ._clusters import Clusters
from ._exact import ExactEngine
from ._log_sums import Kernel, radial
from ._sums import KernelSums
from ._targets import Numbers, OneHot
from ._tolerance import Near, Rule

_LEAST_ROWS = 4000  # from which clusters pay
_LARGEST = 1e15  # whose squares single precision can hold
_GROWTH = 2  # times as many rows, and the clusters are made anew
_DISTANCES = 2**22  # of queries from centres, at a time
_LEAST_QUERIES = 256


@dataclass(frozen=True, eq=False)
class Sorted:
    """Rows in clusters, and what follows from them.

    Attributes
    ----------
    clusters : Clusters
        The rows less the origin, times the unit.
    origin : ndarray of shape (n_features,)
        About the mean of the rows.
    unit : float or ndarray of shape (n_features,)
        An array of sigma, which changes the distances; 1 for a number.
    means : ndarray of shape (n_clusters, n_columns)
        Sums of the targets of the clusters, for a weight of 1.
    rules : dict
        What may be left to clouds, by sigma; None where it is to be certified.
    """

    clusters: Clusters
    origin: np.ndarray
    unit: float | np.ndarray
    means: np.ndarray
    rules: dict[float, Rule | None] = field(default_factory=dict)

    def raw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows as they came, their targets and their weights."""
        rows, y, weights = self.clusters.table()
        rows /= np.asarray(self.unit, dtype=rows.dtype)
        rows += self.origin.astype(rows.dtype)
        return rows, y, weights


class ClusteredEngine(ExactEngine):
    """The exact estimator, to a tolerance.

    Dense rows from 4000 on are kept sorted by cluster; fewer of them, and sparse ones,
    are summed as without a tolerance.

    Parameters
    ----------
    kernel : RadialKernel or callable
        Falling with the distance; a callable has a ``log_profile``.
    sigma : float, {"auto", "learned", "scale", "median"} or ndarray (n_features,)
        Multiplier of the rows.
    seed : tuple of int
        Of the sample of rows behind ``sigma="median"``.
    targets : OneHot or Numbers
        What averages are taken of.
    tol : float
        The tolerance, in (0, 1).
    certified : bool
        Whether it is proved for each query, or estimated.
    """

    _held: tuple[Any, tuple] = (None, ())  # Sorted or None, and rows that came later

    def __init__(
        self,
        kernel: Kernel,
        sigma: float | str | np.ndarray,
        seed: tuple[int, ...],
        targets: OneHot | Numbers,
        tol: float,
        certified: bool,
    ):
        self._radial = radial(kernel)
        super().__init__(self._radial, sigma, seed, targets)
        self._tol, self._certified = tol, certified

    @property
    def _parts(self):  # rows that are not sorted yet
        return self._held[1]

    @_parts.setter
    def _parts(self, parts):
        self._held = self._held[0], parts  # one value: threads see both or neither

    def _all_parts(self):
        state, parts = self._held
        return parts if state is None else (state.raw(), *parts)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] | None = None,
    ) -> None:
        """Keep rows of positive weight; ``final`` sorts them at once."""
        super().add(X, y, weights, final=final, step=step)
        if final and self._sort() is not None:
            self._prepared([_multiplier(self.sigma)])

    def _sort(self):
        """Return the rows in clusters; None where they stay as they came."""
        state, parts = self._held
        if not parts:
            return state
        unit = self.sigma if np.ndim(self.sigma) else 1.0
        if state is not None and not np.array_equal(unit, state.unit):  # learned anew
            state, parts = None, self._all_parts()
        n_old = 0 if state is None else state.clusters.rows.shape[0]
        n_rows = n_old + sum(X.shape[0] for X, *_ in parts)
        if n_rows < _LEAST_ROWS or any(sparse.issparse(X) for X, *_ in parts):
            self._held = None, self._all_parts()
            return None
        origin = self._statistics.query.mean if state is None else state.origin
        blocks = [(_moved(X, origin, unit), y, w) for X, y, w in parts]
        if not all(np.abs(X).max() < _LARGEST for X, *_ in blocks):
            self._held = None, self._all_parts()
            return None
        old = None if state is None else state.clusters
        if old is not None and n_rows > _GROWTH * old.n_built:
            blocks, old = [old.table(), *blocks], None
        X, y, weights = (
            block[0] if len(block) == 1 else np.concatenate(block)
            for block in zip(*blocks, strict=True)
        )
        if old is None:
            clusters = Clusters.of(X, y, weights, self._radial)
        else:
            clusters = old.appended(X, y, weights, self._radial)
        means = clusters.mean_targets(self.targets)
        self._held = Sorted(clusters, origin, unit, means), ()
        return self._held[0]

    def _prepared(self, sigmas):
        """Return the rows in clusters, and a rule for each sigma: None to certify."""
        state, parts = self._held
        rules = dict(state.rules)
        for sigma in sigmas:
            if not self._certified and sigma not in rules:
                rest = state.clusters, state.means, self.targets, self._tol
                rules[sigma] = calibrated_rule(self._radial, sigma, *rest)
        found = [rules.get(sigma) for sigma in sigmas]
        clusters = state.clusters
        if None in found:
            clusters = clusters.with_half_spaces(self._radial)
        state = replace(state, clusters=clusters, rules=rules)
        self._held = state, parts
        return state, found

    def scores(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield rows and their kernel sums, in which nothing cancels."""
        if self._sort() is None:
            yield from super().scores(X)
            return
        for rows, (sums,) in self._answers(X, [_multiplier(self.sigma)]):
            yield rows, sums

    def path_scores(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield rows, and their kernel sums for other numbers sigma.

        All of them share the clusters and the distances from the centres.
        """
        if self._sort() is None:
            yield from super().path_scores(X, sigmas)
        else:
            yield from self._answers(X, [float(sigma) for sigma in sigmas])

    def left_out(
        self, sigmas: Sequence[float]
    ) -> Iterator[tuple[np.ndarray, list[KernelSums]]]:
        """Yield numbers of rows, and their kernel sums without themselves."""
        if self._sort() is None:
            yield from super().left_out(sigmas)
            return
        clusters = self._held[0].clusters
        for rows, path in self._near(clusters.rows, sigmas, left_out=True):
            yield clusters.order[rows], path

    def _answers(self, X, sigmas):
        state = self._held[0]
        size = max(_LEAST_QUERIES, _DISTANCES // len(state.means))
        for rows in gen_batches(X.shape[0], size):
            queries = UnitRows(_moved(X[rows], state.origin, state.unit))
            for part, path in self._near(queries, sigmas):
                yield slice(rows.start + part.start, rows.start + part.stop), path

    def _near(self, all_queries, sigmas, left_out=False):
        """Yield slices of queries and their path of kernel sums."""
        state, rules = self._prepared(sigmas)

        def answer(part):
            own = np.arange(rows.start, rows.stop)[part] if left_out else None
            taken = queries.take(part)
            near = Near(self._radial, state.clusters, taken, self.targets, own)
            return near.answers(sigmas, rules, state.means, self._tol)

        size = max(_LEAST_QUERIES, _DISTANCES // len(state.means))
        for rows in gen_batches(all_queries.shape[0], size):
            queries, n_rows = all_queries.take(rows), rows.stop - rows.start
            parts = in_threads(answer, n_rows, effective_n_threads(None, n_rows))
            yield rows, [_stacked(sums) for sums in zip(*parts, strict=True)]


def _moved(X, origin, unit):
    """Return raw rows less the origin, times the unit, in their own type."""
    if sparse.issparse(X):
        X = X.toarray()
    rows = X - origin.astype(X.dtype)
    rows *= np.asarray(unit, dtype=X.dtype)
    return rows


def _multiplier(sigma):
    """Return what distances of the rows in clusters are multiplied by."""
    return 1.0 if np.ndim(sigma) else float(sigma)


def _stacked(parts):
    """Return the sums of several sets of queries, one below the other."""
    scores, log_scales, _ = zip(*parts, strict=True)
    return KernelSums(np.concatenate(scores), np.concatenate(log_scales))
