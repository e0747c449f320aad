"""Kernel sums over training rows, which are scaled and encoded once for all queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from .._compat import cached_property
from .._values import Value
from ..arrays.loops import (
    LogSum,
    exp_products,
    fast_exponential,
    in_type,
    log_sum,
    weights_from_logs,
    with_terms,
)
from ..arrays.namespaces import (
    Array,
    float_types,
    joined,
    namespace_of,
    on_host,
    place_of,
    to_namespace_of,
)
from ..arrays.validation import as_kind
from ..arrays.workspace import Workspace
from ..maps import Gaussian
from ..rows import DenseInputs, Frame, Inputs, Rows, type_for_weights
from ..samplers._kernel_parameter import RowKernel
from ._local_targets import LocalLinear
from ._sums import KernelSums, log_kernel
from ._targets import Targets

Part = tuple[Any, ...]  # rows, targets, weights and, for prototypes, second moments
_QUERY_ROWS, _KEY_ROWS = 256, 512  # shape of a block of kernel values
# number of sparse rows that are processed at a time
_SPARSE_ROWS = 2**11
_DEVICE_ROWS = 2**11, 2**13  # shape of a block in another array library, 128 MiB
# For local fits, all kernel values of a batch of queries are stored. Batches are small,
# because memory beyond the cache is slow, but have at least _LEAST_QUERIES queries.
_PAIRS, _LEAST_QUERIES = 2**22, 32
# For queries with a squared norm up to this limit, distances are computed from norms
# and inner products. The error of a log weight is then about 1e-12 in float64, and 1e-4
# in float32.
_LARGEST_NORM = {4: 2.0**10, 8: 2.0**13}


class StoredRows(NamedTuple):
    """Training rows in the array library and the data type of the queries.

    Everything that depends only on the training rows is computed when they are stored.
    """

    frame: Frame
    kind: Any  # type to which rows are converted, or None
    rows: Inputs  # multiplied by sigma
    weights: Any  # (n_rows,); None if all weights are 1
    columns: tuple[Array, ...]  # the result of ``Targets.prepared``
    # (x, -|x|^2 / 2, 1) for each row x; None if one matrix product does not suffice
    stacked: np.ndarray | None

    def queries(self, X: Rows) -> Inputs:
        """Return queries multiplied by sigma."""
        return self.frame.rows(as_kind(X, self.kind))

    def blocks(self, size: int) -> Iterator[tuple[slice, StoredRows]]:
        """Yield slices of at most ``size`` rows, with the stored rows of each slice."""
        n_rows = self.rows.shape[0]
        for start in range(0, n_rows, size):
            some = slice(start, min(start + size, n_rows))
            rows, columns = self.rows.take(some), (c[some, ...] for c in self.columns)
            stacked = None if self.stacked is None else self.stacked[some]
            found = self._replace(rows=rows, columns=tuple(columns), stacked=stacked)
            yield some, found


@dataclass(frozen=True, eq=False)
class Keys(Value):
    """Rows or prototypes with targets and weights, over which kernel sums are taken."""

    kernel: RowKernel
    sigma: float | np.ndarray
    targets: Targets
    parts: tuple[Part, ...]
    origin: np.ndarray  # (n_features,)

    @cached_property
    def _stored(self) -> dict[Any, StoredRows]:
        return {}

    def with_targets(self, targets: Targets) -> Keys:
        """Return a copy that shares the stored rows; the encoding must be the same."""
        other = replace(self, targets=targets)
        vars(other)["_stored"] = self._stored
        return other

    def sums(
        self, X: Rows, *, left_out: bool = False
    ) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums.

        With ``left_out``, training rows that are equal to a query are excluded.
        """
        stored = self.stored(X)
        stored.frame.check(X)
        workspace = Workspace() if on_host(X) else None
        size = _DEVICE_ROWS[0] if workspace is None else _QUERY_ROWS
        if isinstance(self.targets, LocalLinear):
            size = min(4 * size, max(_PAIRS // stored.rows.shape[0], _LEAST_QUERIES))
        for start in range(0, X.shape[0], size):
            rows = slice(start, min(start + size, X.shape[0]))
            queries = stored.queries(X[rows, ...])
            if stored.stacked is None or left_out:
                found = self._scaled_sums(stored, queries, workspace, left_out)
            else:
                found = self._gaussian_sums(stored, queries, cast(Workspace, workspace))
            values = self.targets.solve(found.values, queries, self.sigma)
            yield rows, KernelSums(values, found.log_scale)

    def _gaussian_sums(
        self, stored: StoredRows, queries: Inputs, workspace: Workspace
    ) -> LogSum:
        """Return the sums over all rows; only sums that underflow are rescaled."""
        n_queries, n_rows = queries.shape[0], stored.rows.shape[0]
        dtype, targets, values = queries.dtype, self.targets, cast(Any, 0.0)
        # the weights of distant queries are set to zero here and recomputed below
        is_near = queries.sq_norms <= _LARGEST_NORM[dtype.itemsize]
        row_term = np.where(is_near, _norm_term(queries), -np.inf)
        left = with_terms(queries.matrix * dtype.type(fast_exponential()[1]), row_term)
        size = max(_KEY_ROWS, _QUERY_ROWS * _KEY_ROWS // n_queries)
        are_local = isinstance(targets, LocalLinear)
        width = n_rows if are_local else min(size, n_rows)
        memory = workspace.buffer("weights", (n_queries, width), dtype)
        for rows, block in stored.blocks(size):
            out = memory[:, rows] if are_local else memory[:, : rows.stop - rows.start]
            weights = exp_products(left, cast(np.ndarray, block.stacked), out)
            if not are_local:
                weights = in_type(weights, block.columns[0].dtype, workspace)
                values = values + weights @ block.columns[0]
        if isinstance(targets, LocalLinear):
            values = targets.moments(memory, stored.weights, *stored.columns)
        limits, log_scale = np.finfo(dtype), np.zeros((n_queries, 1), dtype)
        # in sums above this limit, terms that underflow are below the rounding error
        total = n_rows if stored.weights is None else stored.weights.sum()
        is_lost = targets.weight(values) < total * float(limits.tiny / limits.eps)
        if is_lost.any():
            lost = np.flatnonzero(is_lost)
            rest = self._scaled_sums(stored, queries.take(lost), workspace)
            values[lost], log_scale[lost] = rest
        return LogSum(values, log_scale)

    def _scaled_sums(
        self,
        stored: StoredRows,
        queries: Inputs,
        workspace: Workspace | None,
        left_out: bool = False,
    ) -> LogSum:
        """Return the sums over all rows, scaled by the largest weight of each query."""
        if isinstance(self.targets, LocalLinear):
            logs = self.log_kernel(queries, stored.rows, left_out=left_out)
            weights, log_scale = weights_from_logs(logs, overwrite=True, normal=True)
            found = self.targets.moments(weights, stored.weights, *stored.columns)
            return LogSum(found, log_scale)
        total: Any = None
        size = _SPARSE_ROWS if stored.rows.is_sparse else _KEY_ROWS
        size = max(size, _QUERY_ROWS * size // queries.shape[0])
        for _, block in stored.blocks(_DEVICE_ROWS[1] if workspace is None else size):
            logs = self.log_kernel(queries, block.rows, workspace, left_out=left_out)
            options: Any = {"overwrite": True, "normal": True, "workspace": workspace}
            found = log_sum(logs, block.columns[0], **options)
            total = found if total is None else total.plus(found)
        return total

    def log_kernel(
        self,
        queries: Inputs,
        rows: Inputs,
        workspace: Workspace | None = None,
        *,
        left_out: bool = False,
    ) -> Array:
        """Return the log kernel between queries and rows, (n_queries, n_rows)."""
        logs = log_kernel(self.kernel, queries, rows, workspace)
        if left_out:
            logs[queries.equal(rows)] = -np.inf
        return logs

    def stored(self, X: Rows) -> StoredRows:
        """Return the training rows, prepared for queries like X."""
        place = place_of(X), sparse.issparse(X)
        if place not in self._stored:
            self._stored[place] = self._store(X)
        return self._stored[place]

    def _store(self, X: Rows) -> StoredRows:
        """Convert, scale and encode the rows."""
        frame, kind = self.frame(X)
        whole = (to_namespace_of(array, X) for array in joined_parts(self.parts))
        keys, y, weights, *spread = whole
        dtype, xp = type_for_weights(weights, X.dtype), namespace_of(weights)
        keys = xp.astype(as_kind(keys, kind), X.dtype, copy=False)
        rows, stacked = frame.rows(keys), None
        if isinstance(self.kernel, Gaussian) and isinstance(rows.matrix, np.ndarray):
            ends = _norm_term(rows), np.ones_like(rows.sq_norms)
            stacked = np.hstack([rows.matrix, *ends])
            rows = DenseInputs(stacked[:, :-2])
        _ = rows.sq_norms  # computed now, so that blocks of the rows can reuse them
        columns = self.targets.prepared(y, weights, dtype, rows, *spread)
        weights = xp.astype(weights, float_types(weights)[0])
        if on_host(X) and np.all(weights == 1):
            weights = None
        return StoredRows(frame, kind, rows, weights, columns, stacked)

    def frame(self, X: Any) -> tuple[Frame, Any]:
        """Return the frame of the rows, and the type to which they are converted.

        The type is a sparse type, ``numpy.ndarray``, or None if rows are not converted.
        """
        sides = [X, *(rows for rows, *_ in self.parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        # a callable takes rows that are scaled but not centred
        if callable(self.kernel):
            return Frame(self.sigma).to(X), None
        if kinds and not self.targets.n_products(X.shape[1]):
            return Frame(self.sigma), kinds[0]  # centring would make sparse rows dense
        # Centring does not change distances, and reduces their error in float32, which
        # grows with the norms. Without centring, the moments of local linear fits would
        # suffer from cancellation if rows are far from zero. Sparse rows can be made
        # dense for these fits, which use few columns.
        return Frame(self.sigma, self.origin).to(X), np.ndarray if kinds else None


def _norm_term(rows: Inputs) -> np.ndarray:
    """Return -|x|^2 / 2 for each row, times the factor of the fast exponential."""
    return rows.sq_norms * rows.dtype.type(-0.5 * fast_exponential()[1])


def joined_parts(parts: tuple[Part, ...]) -> Part:
    """Concatenate batches of rows, their targets and their weights."""
    if len(parts) == 1:
        return parts[0]
    return tuple(joined(list(blocks)) for blocks in zip(*parts, strict=True))
