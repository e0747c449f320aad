"""Kernel sums over training rows, which are scaled and encoded once for all queries."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse

from .._compat import cached_property
from .._values import Value
from ..arrays.loops import (
    LogSum,
    Workspace,
    exp_products,
    fast_exponential,
    in_type,
    least_normal_log,
    weights_from_logs,
    with_terms,
)
from ..arrays.namespaces import (
    Array,
    at_least,
    float_types,
    joined,
    namespace_of,
    on_host,
    place_of,
    row_slices,
    to_host,
    to_namespace_of,
    within_working_memory,
)
from ..arrays.validation import as_kind
from ..maps import Gaussian, RadialKernel
from ..rows import DenseInputs, Frame, Inputs, Rows, type_for_weights
from ..rows.row_sample import RowSample
from ..samplers._kernel_parameter import RowKernel
from ._local_fits import LocalLinear, Planes
from ._target_columns import Targets

Part = tuple[Array, ...]  # rows, targets, weights and, for prototypes, second moments
_BYTES = 2**24  # maximum size of an array of pairwise weights
_SEED = 0, 0, 0, 1  # seed of samples of training rows
CUT = 1e-13  # the smallest weights are set to zero if they sum to at most this
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


class KernelTotals(NamedTuple):
    """The total kernel weight of each query, and the number of rows that contribute."""

    logs: np.ndarray  # (n_queries,), logs of the total weights; minus infinity for 0
    # (n_queries,), effective numbers of rows: the exponential of the entropy of the
    # normalised weights relative to the sample weights; infinite for a total of 0
    sizes: np.ndarray

    @classmethod
    def of(cls, sums: LogSum) -> KernelTotals:
        """Return the totals, given the sums of weights, and of weights times logs."""
        values, scale = (to_host(part).astype(np.float64) for part in sums)
        total, entropy = values.T
        some = np.where(total > 0, total, 1)
        with np.errstate(divide="ignore"):
            logs = np.log(total) + scale[:, 0]
        sizes = np.where(total > 0, np.exp(np.log(some) - entropy / some), np.inf)
        return cls(logs, sizes)


def _measures(logs: Array, weights: Array, of_rows: Array | None) -> Array:
    """Return the sums of kernel weights, and of weights times their logs.

    Terms are multiplied by the sample weights of the rows, or by 1 if there are none.
    """
    # logs, weights (n_queries, n_rows), of_rows (n_rows,) -> (n_queries, 2)
    xp = namespace_of(logs)
    if on_host(logs):
        ones = np.ones(logs.shape[1]) if of_rows is None else of_rows
        entropy = np.einsum("ij,ij,j->i", logs, weights, ones)
        return np.stack([weights @ ones, entropy], axis=1)
    shares = weights if of_rows is None else weights * of_rows
    return xp.stack([xp.sum(shares, axis=1), xp.sum(shares * logs, axis=1)], axis=1)


def _added(one: LogSum, two: LogSum) -> LogSum:
    """Return the sums of both objects, in which logs are relative to a common scale."""
    xp = namespace_of(one.log_scale)
    log_scale = xp.maximum(one.log_scale, two.log_scale)
    values: Array = 0.0
    for part in (one, two):
        gap = at_least(part.log_scale - log_scale, -1e4)  # weights below vanish
        total, entropy = part.values[:, :1], part.values[:, 1:]
        moved = xp.concat([total, entropy + gap * total], axis=1)
        values = values + moved * xp.exp(gap)
    return LogSum(values, log_scale)


class KernelSums(NamedTuple):
    """Kernel sums for a block of queries, and standard errors of their total weights.

    The sums are ``scores * exp(log_scale)``. The error is None if terms cannot cancel.
    """

    scores: Array  # (n_rows, k)
    log_scale: Array  # (n_rows, 1)
    error: Array | None = None  # (n_rows,)
    totals: KernelTotals | None = None


class StoredRows(NamedTuple):
    """Training rows in the array library and the data type of the queries.

    Everything that depends only on the training rows is computed when they are stored.
    """

    frame: Frame
    kind: type | None  # to which rows are converted
    rows: Inputs  # multiplied by sigma
    weights: Array | None  # (n_rows,); None if all weights are 1
    columns: tuple[Array, ...]  # the result of ``Targets.prepared``
    # (x, -|x|^2 / 2, 1) for each row x; None if one matrix product does not suffice
    stacked: np.ndarray | None

    def blocks(self, size: int) -> Iterator[tuple[slice, StoredRows]]:
        """Yield slices of at most ``size`` rows, with the stored rows of each slice."""
        n_rows = self.rows.shape[0]
        for start in range(0, n_rows, size):
            some = slice(start, min(start + size, n_rows))
            weights = None if self.weights is None else self.weights[some]
            rows, columns = self.rows.take(some), (c[some, ...] for c in self.columns)
            stacked = None if self.stacked is None else self.stacked[some]
            found = self._replace(
                rows=rows, weights=weights, columns=tuple(columns), stacked=stacked
            )
            yield some, found


@dataclass(frozen=True, eq=False)
class KernelRows(Value):
    """Rows or prototypes with targets and weights, over which kernel sums are taken."""

    kernel: RowKernel
    sigma: float | np.ndarray
    targets: Targets
    parts: tuple[Part, ...]
    origin: np.ndarray  # (n_features,)

    @cached_property
    def _stored(self) -> dict[tuple[Hashable, bool], StoredRows]:
        return {}

    def with_targets(self, targets: Targets) -> KernelRows:
        """Return a copy that shares the stored rows; the encoding must be the same."""
        other = replace(self, targets=targets)
        vars(other)["_stored"] = self._stored
        return other

    def sums(
        self, X: Rows, *, own: np.ndarray | None = None, measured: bool = False
    ) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums.

        If the queries are training rows, ``own`` contains their positions, and each of
        them is left out of its own sums. If ``measured`` is True, the total kernel
        weights and the effective numbers of rows are returned, too.
        """
        # own (n_queries,)
        stored = self.stored(X)
        stored.frame.check(X)
        workspace = Workspace() if on_host(X) else None
        size = _DEVICE_ROWS[0] if workspace is None else _QUERY_ROWS
        if isinstance(self.targets, LocalLinear):
            size = min(4 * size, max(_PAIRS // stored.rows.shape[0], _LEAST_QUERIES))
        for rows in row_slices(X.shape[0], size):
            queries = stored.frame.rows(as_kind(X[rows, ...], stored.kind))
            if stored.stacked is None or own is not None:
                left = None if own is None else own[rows]
                parts = self._scaled_sums(stored, queries, workspace, left, measured)
            else:
                space = cast(Workspace, workspace)
                parts = self._gaussian_sums(stored, queries, space, measured)
            found, totals = parts
            yield (
                rows,
                KernelSums(
                    scores=self.targets.solve(found.values, queries, self.sigma),
                    log_scale=found.log_scale,
                    totals=None if totals is None else KernelTotals.of(totals),
                ),
            )

    def _gaussian_sums(
        self,
        stored: StoredRows,
        queries: Inputs,
        workspace: Workspace,
        measured: bool,
    ) -> tuple[LogSum, LogSum | None]:
        """Return sums over all rows, and the sums for ``KernelTotals`` if ``measured``.

        Only sums that underflow are rescaled.
        """
        n_queries, n_rows = queries.shape[0], stored.rows.shape[0]
        dtype, targets, values = queries.dtype, self.targets, cast(Array, 0.0)
        # the weights of distant queries are set to zero here and recomputed below
        is_near = queries.sq_norms <= _LARGEST_NORM[dtype.itemsize]
        row_term = np.where(is_near, _norm_term(queries), -np.inf)
        factor = fast_exponential()[1]
        left = with_terms(queries.matrix * dtype.type(factor), row_term)
        size = max(_KEY_ROWS, _QUERY_ROWS * _KEY_ROWS // n_queries)
        are_local = isinstance(targets, LocalLinear)
        width = n_rows if are_local else min(size, n_rows)
        memory = workspace.buffer("weights", (n_queries, width), dtype)
        measures = np.zeros((n_queries, 2))
        for rows, block in stored.blocks(size):
            out = memory[:, rows] if are_local else memory[:, : rows.stop - rows.start]
            logs = workspace.buffer("logs", out.shape, dtype) if measured else out
            weights = exp_products(left, cast(np.ndarray, block.stacked), out, logs)
            if measured:
                measures += _measures(logs, weights, block.weights) / [1, factor]
            if not are_local:
                weights = in_type(weights, block.columns[0].dtype, workspace)
                values = values + weights @ block.columns[0]
        if isinstance(targets, LocalLinear):
            values = targets.moments(memory, stored.weights, *stored.columns)
        limits, log_scale = np.finfo(dtype), np.zeros((n_queries, 1), dtype)
        totals = LogSum(measures, np.zeros((n_queries, 1))) if measured else None
        # in sums above this limit, terms that underflow are below the rounding error
        total = n_rows if stored.weights is None else stored.weights.sum()
        is_lost = targets.weight(values) < total * float(limits.tiny / limits.eps)
        if is_lost.any():
            lost = np.flatnonzero(is_lost)
            some = stored, queries.take(lost), workspace, None, measured
            rest, rest_of_totals = self._scaled_sums(*some)
            values[lost], log_scale[lost] = rest
            if totals is not None and rest_of_totals is not None:
                totals.values[lost], totals.log_scale[lost] = rest_of_totals
        return LogSum(values, log_scale), totals

    def _scaled_sums(
        self,
        stored: StoredRows,
        queries: Inputs,
        workspace: Workspace | None,
        own: np.ndarray | None,
        measured: bool,
    ) -> tuple[LogSum, LogSum | None]:
        """Return the same as ``_gaussian_sums``, scaled by each query's largest weight.

        If ``own`` contains the positions of the queries, each of them is left out.
        """
        total: LogSum | None = None
        totals: LogSum | None = None
        size = _SPARSE_ROWS if stored.rows.is_sparse else _KEY_ROWS
        size = max(size, _QUERY_ROWS * size // queries.shape[0])
        if isinstance(self.targets, LocalLinear):
            size, workspace = stored.rows.shape[0], None
        elif workspace is None:
            size = _DEVICE_ROWS[1]
        for rows, block in stored.blocks(size):
            logs = self.log_kernel(queries, block.rows, workspace)
            if own is not None:
                leave_out(logs, own, rows.start)
            options: Any = {"overwrite": not measured, "normal": True}
            weights, log_scale = weights_from_logs(logs, **options)
            if measured:
                gaps = at_least(logs - log_scale, least_normal_log(logs))
                some = LogSum(_measures(gaps, weights, block.weights), log_scale)
                totals = some if totals is None else _added(totals, some)
            if isinstance(self.targets, LocalLinear):
                sums = self.targets.moments(weights, stored.weights, *stored.columns)
            else:
                weights = in_type(weights, block.columns[0].dtype, workspace)
                sums = weights @ block.columns[0]
            found = LogSum(sums, log_scale)
            total = found if total is None else total.plus(found)
        assert total is not None  # there are rows
        return total, totals

    def log_kernel(
        self, queries: Inputs, rows: Inputs, workspace: Workspace | None = None
    ) -> Array:
        """Return the log kernel between queries and rows, (n_queries, n_rows)."""
        return log_kernel(self.kernel, queries, rows, workspace)

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
        return StoredRows(
            frame=frame,
            kind=kind,
            rows=rows,
            weights=weights,
            columns=columns,
            stacked=stacked,
        )

    def frame(self, X: Rows) -> tuple[Frame, type | None]:
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


def log_kernel(
    kernel: RowKernel,
    queries: Inputs,
    keys: Inputs,
    workspace: Workspace | None = None,
) -> Array:
    """Return the log kernel between queries and stored rows, (n_queries, n_keys).

    If a workspace is given, the next call overwrites the result.
    """
    if isinstance(kernel, Gaussian):
        buffer = None
        if workspace is not None:
            shape = queries.shape[0], keys.shape[0]
            buffer = workspace.buffer("logs", shape, queries.dtype)
        squares = queries.sq_distances(keys, buffer)
        squares *= -0.5
        return squares
    if isinstance(kernel, RadialKernel):
        return kernel.log_profile(kernel.distances(queries, keys))
    values = kernel(queries.matrix, keys.matrix)
    shape, xp = (queries.shape[0], keys.shape[0]), namespace_of(values)
    if values.shape != shape:
        raise ValueError(
            "kernel must return one value per pair of rows, an array of shape "
            f"{shape}, but returned shape {values.shape}."
        )
    if not xp.all(xp.isfinite(values) & (values >= 0)):
        raise ValueError(
            "kernel must return finite values of at least 0, because they are used as "
            "weights, but some of the returned values are negative or not finite."
        )
    with np.errstate(divide="ignore"):
        return xp.log(values)


def all_rows(keys: KernelRows) -> tuple[Rows, np.ndarray, np.ndarray]:
    """Return all training rows, their targets and their sample weights, on the host."""
    X, y, weights = map(to_host, joined_parts(keys.parts)[:3])
    return X, y, weights.astype(np.float64)


class DrawnRows(NamedTuple):
    """A random sample of the training rows, in random order.

    Rows are drawn with probabilities that increase with their weights, and ``weights``
    are Horvitz-Thompson weights (see ``RowSample``). The first rows of a sample form a
    smaller sample, which ``first`` returns with the appropriate weights.
    """

    places: np.ndarray  # (n_rows,), positions among all training rows
    weights: np.ndarray  # (n_rows,)
    all_weights: np.ndarray  # (n_all_rows,)

    @classmethod
    def of(cls, weights: np.ndarray, size: int) -> DrawnRows:
        """Draw at most ``size`` rows, given the weights of all training rows."""
        places = np.arange(len(weights))[:, None]
        drawn = RowSample.of(
            places, None, weights, seed=_SEED, size=size, by_weight=True
        )
        order = np.argsort(drawn.priorities, kind="stable")
        return cls(drawn.X[order, 0], drawn.weights[order], weights)

    def first(self, size: int) -> DrawnRows:
        """Return the sample of the first rows."""
        return self if size >= len(self.places) else self.of(self.all_weights, size)


def leave_out(logs: np.ndarray, own: np.ndarray, start: int = 0) -> None:
    """Leave each query out of its own kernel sums, and nothing else.

    The queries are training rows with the positions ``own``, and the columns of
    ``logs`` are the log kernel values for the training rows from ``start`` on. All the
    weight of a row is left out, but equal rows at other positions are not.
    """
    # logs (n_queries, n_rows), own (n_queries,)
    (here,) = np.nonzero((own >= start) & (own < start + logs.shape[1]))
    logs[here, own[here] - start] = -np.inf


def log_kernels(
    keys: KernelRows, X: Rows, own: np.ndarray | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of queries and their log kernel values for all training rows.

    If ``own`` contains the positions of the queries, each is left out (``leave_out``).
    """
    # -> (n_queries, n_rows), in float64
    stored = keys.stored(X)
    stored.frame.check(X)
    size = max(1, within_working_memory(_BYTES) // (8 * stored.rows.shape[0]))
    for batch in row_slices(X.shape[0], size):
        queries = stored.frame.rows(as_kind(X[batch], stored.kind))
        logs = keys.log_kernel(queries, stored.rows).astype(np.float64, copy=False)
        if own is not None:
            leave_out(logs, own[batch])
        yield batch, logs


def shares_of(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights of the training rows for each query, which sum to 1.

    If all kernel values of a query vanish, the prediction is the mean of all targets,
    so the normalised sample weights are returned.
    """
    # logs (n_queries, n_rows), weights (n_rows,) -> (n_queries, n_rows)
    shares, _ = weights_from_logs(logs)
    shares *= weights
    total = shares.sum(axis=1)
    none = total == 0
    shares[none], total[none] = weights, weights.sum()
    shares /= total[:, None]
    return shares


def kernel_totals(
    keys: KernelRows, X: Rows, own: np.ndarray | None = None
) -> KernelTotals:
    """Return the total kernel weights of queries; ``own`` as in ``log_kernels``."""
    found, weights = [], keys.stored(X).weights
    for _, logs in log_kernels(keys, X, own):
        shares, scale = weights_from_logs(logs)
        gaps = np.maximum(logs - scale, least_normal_log(logs))
        found.append(KernelTotals.of(LogSum(_measures(gaps, shares, weights), scale)))
    return KernelTotals(*map(np.concatenate, zip(*found, strict=True)))


def prediction_weights(keys: KernelRows, X: Rows) -> Iterator[np.ndarray]:
    """Yield the weights of all training rows in predictions, for batches of queries."""
    # -> (n_queries, n_rows)
    targets: Any = keys.targets
    rows, _, weights = all_rows(keys)
    is_fit = isinstance(targets, LocalLinear)
    if is_fit:  # a linear fit corresponds to a kernel that depends on the query
        planes = keys.with_targets(targets.solved_for(Planes))
        found = [to_host(sums.scores) for _, sums in planes.sums(X)]
        slopes, offsets = np.split(np.concatenate(found), [X.shape[1]], axis=1)
        frame, _ = keys.frame(X)
        points = frame.rows(rows).dense
    for batch, logs in log_kernels(keys, X):
        shares = shares_of(logs, weights)
        if is_fit:
            shares *= targets.kept(shares / weights, weights)
            shares /= shares.sum(axis=1, keepdims=True)
            shares *= 1 + slopes[batch] @ points.T - offsets[batch]
        yield shares
