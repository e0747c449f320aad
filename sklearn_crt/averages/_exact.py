"""Kernel sums over all the training rows, in blocks and in log space."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._array import (
    Array,
    joined,
    namespace_of,
    on_host,
    part,
    taken,
    to_host,
    to_namespace_of,
)
from .._workers import Workspace
from ..metric._diagonal import learn_columns
from ..rows import Frame, Inputs, Rows, Sigma, Statistics, resolve_sigma
from ._bandwidth import best_multiple, sample
from ._sums import Kernel, KernelSums, Targets, add_block, log_kernel, log_path

Part = tuple[Rows, Array, Array]  # rows, targets, weights
_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time
_DEVICE_ROWS = 2**11, 2**13  # the same elsewhere: 128 MiB in float64
FROM_TARGETS = "auto", "learned"  # sigmas that look at y


@dataclass(frozen=True)
class Keys:
    """Rows with targets and weights, to be summed over for any query."""

    kernel: Kernel
    targets: Targets
    parts: tuple[Part, ...]
    origin: np.ndarray  # (n_features,)

    def sums(
        self, X: Rows, sigma: float | np.ndarray
    ) -> Iterator[tuple[slice, KernelSums]]:
        """Yield queries and their kernel sums, in which nothing cancels."""
        query_rows, key_rows = (_QUERY_ROWS, _KEY_ROWS) if on_host(X) else _DEVICE_ROWS
        frame, kind = self.frame(X, sigma)
        frame.check(X)
        keys = list(self._blocks(frame, X, kind, key_rows))
        workspace = Workspace() if on_host(X) else None
        for rows in gen_batches(X.shape[0], query_rows):
            queries, total = frame.rows(as_kind(part(X, rows), kind)), None
            for block, targets in keys:
                logs = log_kernel(self.kernel, queries, block, workspace)
                total = add_block(total, logs, targets, workspace)
            assert total is not None  # there are keys
            yield rows, KernelSums(*total)

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield queries and their kernel sums for several numbers sigma."""
        frame, kind = self.frame(X, 1.0)
        frame.check(X)
        keys = list(self._blocks(frame, X, kind, _KEY_ROWS))
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(as_kind(X[rows], kind))
            totals: list[Any] = [None for _ in sigmas]
            for block, targets in keys:
                path = log_path(self.kernel, queries, block, sigmas)
                for k, logs in enumerate(path):
                    totals[k] = add_block(totals[k], logs, targets)
            yield rows, [KernelSums(*total) for total in totals]

    def frame(self, X: Any, sigma: Any) -> tuple[Frame, Any]:
        """Return the frame of the rows, and the sparse kind that all take, or None."""
        sides = [X, *(rows for rows, *_ in self.parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        if callable(self.kernel):  # takes rows as they are
            frame = Frame(sigma)
        elif kinds:  # no centre: rows would become dense
            return Frame(sigma), kinds[0]
        else:
            # distances do not change, and their float32 error falls with the norms
            frame = Frame(sigma, self.origin)
        return frame.to(X), None

    def _blocks(
        self, frame: Frame, X: Any, kind: Any, size: int
    ) -> Iterator[tuple[Inputs, Array]]:
        """Yield blocks of the rows in the type of X, and their encoded targets."""
        for some_rows in self.parts:
            rows, y, weights = (to_namespace_of(array, X) for array in some_rows)
            targets = self.targets.encode(y, weights, X.dtype)
            for block in gen_batches(rows.shape[0], size):
                some = part(rows, block)
                if on_host(X):
                    some = some.astype(X.dtype, copy=False)
                else:
                    some = namespace_of(X).astype(some, X.dtype, copy=False)
                yield frame.rows(as_kind(some, kind)), part(targets, block)


class ExactEngine:
    """The exact estimator: keeps the training rows."""

    quiet = False  # whether warnings are left to others

    def __init__(
        self,
        kernel: Kernel,
        sigma: Sigma,
        seed: tuple[int, ...],
        targets: Targets,
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
        automatic = isinstance(self._sigma, str) and self._sigma in FROM_TARGETS
        if final or not automatic:  # raises for one that does not fit the rows
            self._number = self.resolve(self._sigma)
            self._keys.frame(X, self._number)[0].check(X)

    def merge(self, other: ExactEngine) -> None:
        """Keep the rows of another engine too."""
        for rows in other._all_parts():
            self.add(*rows)

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

    def resolve(self, sigma: Sigma) -> float | np.ndarray:
        """Return the number behind another sigma, for the rows seen so far."""
        if not (isinstance(sigma, str) and sigma in FROM_TARGETS):
            return resolve_sigma(sigma, self._statistics)
        X, y, weights = self._rows()
        if sigma == "auto":
            first = resolve_sigma("scale", self._statistics)
        else:
            first = learn_columns(X, y, weights)
        keys = sample(X.shape[0])
        X_part, y_part, weights = (to_host(taken(a, keys)) for a in (X, y, weights))
        frame, kind = self._keys.frame(X_part, first)
        rows = frame.rows(as_kind(X_part, kind))
        encoded = self.targets.encode(y_part, weights, X_part.dtype)
        best = best_multiple(self._kernel, rows, encoded, self.targets, X.shape[0])
        return first * best

    def _all_parts(self) -> tuple:
        """Return the rows in parts, as they came."""
        return self._parts

    def _rows(self) -> tuple:
        """Return all rows, their targets and weights, as single arrays."""
        parts = self._all_parts()
        if len(parts) == 1:
            return parts[0]
        X, y, weights = zip(*parts, strict=True)
        if any(map(sparse.issparse, X)):
            return sparse.vstack(X).tocsr(), np.concatenate(y), np.concatenate(weights)
        return tuple(joined(list(blocks)) for blocks in (X, y, weights))

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield queries and their kernel sums, in which nothing cancels."""
        if on_host(X) != on_host(self._parts[0][0]):  # the estimator was moved
            self._parts = tuple(
                tuple(to_namespace_of(a, X) for a in rows) for rows in self._parts
            )
        yield from self._keys.sums(X, self.sigma)

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield queries and their kernel sums for several numbers sigma."""
        yield from self._keys.path_sums(X, sigmas)

    @property
    def _keys(self) -> Keys:
        origin = self._statistics.query.mean
        return Keys(self._kernel, self.targets, self._parts, origin)


def as_kind(X: Any, kind: Any) -> Any:
    """Return rows as a sparse table, where another side is one."""
    return X if kind is None or sparse.issparse(X) else kind(X)
