"""Kernel sums over all the training rows, in blocks and in log space."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._arrays import namespace_of, taken, to_host
from .._dispatch import follow, on_host
from ..rows import Frame, Rows, Scratch, Statistics, UnitRows, resolve_sigma
from ._device_exact import exact_on_device
from ._learned_sigma import learn_columns
from ._leave_one_out import best_multiple, sample
from ._log_sums import Kernel, LogSum, leave_out, log_path, log_values
from ._sums import KernelSums
from ._targets import Numbers, OneHot

_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time
_FROM_TARGETS = "auto", "learned"  # sigmas that look at y

Keys = list[tuple[UnitRows, np.ndarray]]  # blocks of rows, and their targets


class ExactEngine:
    """The exact estimator: keeps the training rows.

    Parameters
    ----------
    kernel : RadialKernel or callable
        A callable takes two arrays of rows at unit bandwidth.
    sigma : float, {"auto", "learned", "scale", "median"} or ndarray (n_features,)
        Multiplier of the rows.
    seed : tuple of int
        Of the sample of rows behind ``sigma="median"``.
    targets : OneHot or Numbers
        What averages are taken of.
    """

    sampler = "exact"
    quiet = False  # whether warnings are left to others

    def __init__(
        self,
        kernel: Kernel,
        sigma: float | str | np.ndarray,
        seed: tuple[int, ...],
        targets: OneHot | Numbers,
    ):
        self.targets = targets
        self._kernel, self._sigma = kernel, sigma
        self._statistics = Statistics(seed)
        self._parts: tuple = ()
        self._number: float | np.ndarray | None = None  # sigma, once it was asked for

    def copy(self) -> ExactEngine:
        """Return an engine that further rows may be added to, apart from this one."""
        return copy.copy(self)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] | None = None,
    ) -> None:
        """Keep rows of positive weight."""
        median = isinstance(self._sigma, str) and self._sigma == "median"
        self._statistics = self._statistics.read(X, None, weights, median=median)
        self._parts += ((X, y, weights),)
        self._number = None
        automatic = isinstance(self._sigma, str) and self._sigma in _FROM_TARGETS
        if final or not automatic:  # raises for one that does not fit the columns
            self._number = self.resolve(self._sigma)

    def merge(self, other: ExactEngine) -> None:
        """Keep the rows of another engine too."""
        for part in other._all_parts():
            self.add(*part)

    def freeze(self) -> None:
        """Fix sigma for good; rows that are added later do not change it."""
        self._sigma = self.sigma
        self._statistics = self._statistics.without_rows()

    @property
    def sigma(self) -> float | np.ndarray:
        """The multiplier of the inputs for the rows seen so far."""
        if self._number is None:
            self._number = self.resolve(self._sigma)
        return self._number

    def resolve(self, sigma: float | str | np.ndarray) -> float | np.ndarray:
        """Return the number behind another sigma, for the rows seen so far."""
        if not (isinstance(sigma, str) and sigma in _FROM_TARGETS):
            return resolve_sigma(sigma, self._statistics)
        X, y, weights = self._rows()
        if sigma == "auto":
            first = resolve_sigma("scale", self._statistics)
        else:
            first = learn_columns(X, y, weights, self.targets)
        keys = sample(X.shape[0])
        frame, kind = self._frame(X, first)
        X_part, y_part, weights = (to_host(taken(a, keys)) for a in (X, y, weights))
        rows = frame.rows(_as_kind(X_part, kind))
        encoded = self.targets.encode(y_part, weights, X_part.dtype)
        best = best_multiple(self._kernel, rows, encoded, self.targets, X.shape[0])
        return first * best

    def _all_parts(self):
        """Return the rows in parts, as they came."""
        return self._parts

    def _rows(self):
        """Return all rows, their targets and weights, as single arrays."""
        parts = self._all_parts()
        if len(parts) == 1:
            return parts[0]
        X, y, weights = zip(*parts, strict=True)
        if not on_host(X[0]):
            xp = namespace_of(X[0])
            return tuple(xp.concat(list(part)) for part in (X, y, weights))
        join = sparse.vstack if any(map(sparse.issparse, X)) else np.vstack
        rows = join(X)
        if not isinstance(rows, np.ndarray):
            rows = rows.tocsr()
        return rows, np.concatenate(y), np.concatenate(weights)

    def scores(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield rows and their kernel sums, in which nothing cancels."""
        if on_host(X) != on_host(self._parts[0][0]):  # the estimator was moved
            moved = follow if not on_host(X) else lambda a, _: to_host(a)
            self._parts = tuple(tuple(moved(a, X) for a in p) for p in self._parts)
        if not on_host(X):
            frame, _ = self._frame(X, self.sigma)
            parts = self._parts, self.targets
            yield from exact_on_device(self._kernel, frame, *parts, X)
            return
        frame, kind = self._frame(X, self.sigma)
        keys = self._keys(frame, X.dtype, kind)
        scratch = Scratch()
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(_as_kind(X[rows], kind))
            total = LogSum()
            for block, targets in keys:
                logs = log_values(self._kernel, queries, block, scratch)
                total.add(logs, targets, scratch)
            yield rows, KernelSums(*total.value)

    def path_scores(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield rows, and their kernel sums for other numbers sigma.

        Distances are computed once for all of them.
        """
        frame, kind = self._frame(X, 1.0)
        keys = self._keys(frame, X.dtype, kind)
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(_as_kind(X[rows], kind))
            totals = [LogSum() for _ in sigmas]
            for block, targets in keys:
                path = log_path(self._kernel, queries, block, sigmas)
                for total, logs in zip(totals, path, strict=True):
                    total.add(logs, targets)
            yield rows, [KernelSums(*total.value) for total in totals]

    def left_out(
        self, sigmas: Sequence[float]
    ) -> Iterator[tuple[np.ndarray, list[KernelSums]]]:
        """Yield numbers of rows, and their kernel sums without themselves.

        The row is left out of the sum and not taken off: nothing cancels.
        """
        X, *_ = self._rows()
        frame, kind = self._frame(X, 1.0)
        keys = self._keys(frame, X.dtype, kind)
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(_as_kind(X[rows], kind))
            totals, own = [LogSum() for _ in sigmas], np.arange(rows.start, rows.stop)
            for block, targets in keys:
                path = log_path(self._kernel, queries, block, sigmas)
                for total, logs in zip(totals, path, strict=True):
                    leave_out(logs, own)
                    total.add(logs, targets)
                own -= len(targets)
            numbers = np.arange(rows.start, rows.stop)
            yield numbers, [KernelSums(*total.value) for total in totals]

    def _frame(self, X, sigma):
        """Return the frame of the rows, and the sparse kind that all take, or None."""
        sides = [X, *(rows for rows, *_ in self._parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        if callable(self._kernel):  # takes rows as they are
            return Frame(sigma), None
        if kinds:  # no centre: rows would become dense
            return Frame(sigma), kinds[0]
        # distances do not change, and their float32 error falls with the norms
        return Frame(sigma, self._statistics.query.mean), None

    def _keys(self, frame, dtype, kind) -> Keys:
        keys = []
        for X, y, weights in self._parts:
            targets = self.targets.encode(y, weights, dtype)
            for block in gen_batches(X.shape[0], _KEY_ROWS):
                rows = _as_kind(X[block].astype(dtype, copy=False), kind)
                keys.append((frame.rows(rows), targets[block]))
        return keys


def _as_kind(X, kind):
    return X if kind is None or sparse.issparse(X) else kind(X)
