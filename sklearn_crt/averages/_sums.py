"""Kernel values of pairs of rows, and kernel sums over the training rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._array import Array, asarray_like, like_table, namespace_of, to_host, transposed
from .._kernels import LogSum, least_log, log_sum, log_weights
from .._workers import Workspace
from ..maps import GaussianRadial, RadialKernel
from ..rows import Inputs


class KernelSums(NamedTuple):
    """Kernel sums of some queries, and the standard error of their total weights."""

    scores: Array  # (n_rows, k)
    log_scale: Array  # (n_rows, 1)
    error: Array | None = None  # (n_rows,)


class FeatureSums(NamedTuple):
    """Sums over rows j of features times targets, ``sum_j F[j, m] T[j, k]``.

    Features are given as ``mantissa * exp(exponent)``. For each column m the sums are
    divided by ``exp`` of the largest exponent seen, so that they neither overflow nor
    vanish. This scale cancels in Nadaraya-Watson ratios, which a scale for each row
    would not.
    """

    total: Any = None  # a LogSum, None as long as there are no rows
    signed: Any = np.False_  # whether a column has negative features

    @property
    def sums(self) -> Array:
        """The sums divided by their scales, (n_components, k)."""
        return self.total.values

    def with_rows(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        targets: Any,
        workspace: Workspace | None = None,
    ) -> FeatureSums:
        """Return the sums with further rows: features (n, m), targets (n, k).

        If a workspace is given, features with an exponent are overwritten.
        """
        signed = self.signed
        if mantissa is not None and not (signed.ndim and signed.all()):
            negative = namespace_of(mantissa).min(mantissa, axis=0) < 0
            signed = signed | to_host(negative)
        if exponent is None:
            features = _cast(transposed(mantissa), targets, workspace)
            found = LogSum(features @ targets, 0.0)
        else:
            found = log_sum(
                transposed(exponent),
                targets,
                None if mantissa is None else transposed(mantissa),
                overwrite=workspace is not None,
                cast=workspace.cast if workspace else None,
            )
        sums, scale = map(to_host, found)
        scale = np.atleast_2d(np.asarray(scale, np.float64))
        total = LogSum(np.asarray(sums, np.float64), scale)
        return self.plus(FeatureSums(total, signed))

    def plus(self, other: FeatureSums) -> FeatureSums:
        """Return the sums over both sets of rows."""
        signed = self.signed | other.signed
        if self.total is None or other.total is None:
            return FeatureSums(self.total or other.total, signed)
        return FeatureSums(self.total.plus(other.total), signed)

    def to(self, X: Any, dtype: Any) -> FeatureSums:
        """Return these sums in the array library of the rows, in a data type."""
        sums, log_scale = self.total
        like = like_table(X)
        values = asarray_like(sums, namespace_of(like).astype(like, dtype))
        return FeatureSums(LogSum(values, asarray_like(log_scale, like)), self.signed)

    def with_columns(self, columns: np.ndarray) -> FeatureSums:
        """Return these sums with further columns, which have the same scale."""
        sums, log_scale = self.total
        return FeatureSums(LogSum(np.hstack([sums, columns]), log_scale), self.signed)

    def scaled(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        workspace: Workspace | None = None,
    ) -> tuple[Array, Array]:
        """Return features of queries times the scales of the sums, and a log scale.

        The log scale has been subtracted from the exponents of each row.
        """
        # -> (n_rows, n_components), (n_rows, 1)
        shift = transposed(self.total.log_scale)
        if exponent is None:
            if shift.shape[-1] == 1:  # features without exponents have one scale
                return mantissa, asarray_like(shift, mantissa)
            return log_weights(asarray_like(shift, mantissa), mantissa)
        total, shift = exponent, asarray_like(shift, exponent)
        if workspace is not None and exponent.shape[-1] >= shift.shape[-1]:
            total += shift
        else:
            total = exponent + shift
        return log_weights(total, mantissa, overwrite=workspace is not None)

    def average(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        further: np.ndarray | None = None,
        workspace: Workspace | None = None,
    ) -> tuple[Array, Array]:
        """Return the features of queries times the sums, and the log of their scale.

        ``further`` are columns like the sums, whose products are appended.
        """
        # -> (n_rows, k), (n_rows, 1)
        weights, log_scale = self.scaled(mantissa, exponent, workspace)
        scores = _cast(weights, self.sums, workspace) @ self.sums
        if further is not None:
            xp, more = namespace_of(scores), weights @ asarray_like(further, weights)
            scores = xp.concat([scores, xp.astype(more, scores.dtype)], axis=1)
        return scores, log_scale

    def prefix_averages(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        segments: Sequence[slice | np.ndarray],
    ) -> Iterator[LogSum]:
        """Yield ``average`` over the first, the first two, ... segments of columns."""
        sums, log_scale = self.total
        found = None
        for columns in segments:
            few = log_scale.shape[0] == 1
            part = LogSum(sums[columns], log_scale if few else log_scale[columns])
            terms = (_take(features, columns) for features in (mantissa, exponent))
            added, log_added = FeatureSums(part).average(*terms)
            # a sum of zero has no scale of its own and takes that of another segment
            none = ~added.any(axis=1, keepdims=True)
            log_added = np.where(none, least_log(log_added), log_added)
            added = LogSum(added, log_added)
            found = added if found is None else found.plus(added)
            yield found


def _take(values: Any, columns: Any) -> Any:
    """Return these columns of an array; None and a single column hold for all."""
    few = values is None or values.shape[-1] == 1
    return values if few else values[..., columns]


def _cast(features: Array, targets: Any, workspace: Workspace | None) -> Array:
    """Return features in the data type of the matrix that they are multiplied by."""
    dtype = getattr(targets, "dtype", features.dtype)
    if features.dtype == dtype:
        return features
    cast = namespace_of(features).astype if workspace is None else workspace.cast
    return cast(features, dtype)


class ClassWeights:
    """One-hot matrix of class labels times weights, for rows sorted by class.

    A product with it uses one vector per class instead of a matrix that is mostly zero.
    """

    __array_ufunc__ = None  # NumPy leaves the product to __rmatmul__

    def __init__(self, codes: np.ndarray, weights: np.ndarray, n_classes: int):
        self._codes, self._weights, self._n_classes = codes, weights, n_classes

    def __rmatmul__(self, columns: np.ndarray) -> np.ndarray:
        sums = np.zeros((columns.shape[0], self._n_classes), dtype=columns.dtype)
        starts = np.flatnonzero(np.diff(self._codes, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            rows = slice(start, stop)
            sums[:, self._codes[start]] = columns[:, rows] @ self._weights[rows]
        return sums


# ------------------------------------------------------- kernels of pairs of rows
Kernel = RadialKernel | Callable
_LARGEST_SIGMA = 1e18  # its square is finite in single precision


def log_kernel(
    kernel: Kernel,
    queries: Inputs,
    keys: Inputs,
    workspace: Workspace | None = None,
    sigma: float = 1.0,
) -> Array:
    """Return the log of the kernel of sigma times the rows, (n_queries, n_keys).

    If a workspace is given, the result is valid until the next call.
    """
    if isinstance(kernel, GaussianRadial):
        buffer = None
        if workspace is not None:
            shape = queries.shape[0], keys.shape[0]
            buffer = workspace.buffer("logs", shape, queries.dtype)
        squares = queries.sq_distances(keys, buffer)
        squares *= -0.5 * sigma**2
        return squares
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        if sigma != 1:
            distances *= sigma
        return kernel.log_profile(distances)
    values = kernel(queries.matrix, keys.matrix)
    xp = namespace_of(values)
    is_kernel = bool(xp.all(xp.isfinite(values) & (values >= 0)))
    check_kernel_values(values, (queries.shape[0], keys.shape[0]), is_kernel)
    with np.errstate(divide="ignore"):
        return xp.log(values)


def check_kernel_values(values: Any, shape: tuple[int, ...], is_kernel: bool) -> None:
    """Raise ValueError if a callable of the user did not return kernel values."""
    if values.shape != shape:
        raise ValueError(
            f"kernel returned an array of shape {values.shape}, not {shape}: one value "
            "for each pair of rows."
        )
    if not is_kernel:
        raise ValueError(
            "kernel returned values that are negative or not finite: weights of an "
            "average are 0 or more."
        )


def log_path(
    kernel: Kernel, queries: Inputs, keys: Inputs, sigmas: Iterable[float]
) -> Iterator[np.ndarray]:
    """Yield the log of the kernel of sigma times the rows, for each sigma."""
    sigmas = [float(sigma) for sigma in sigmas]
    if isinstance(kernel, GaussianRadial) and max(sigmas) < _LARGEST_SIGMA:
        squares = queries.sq_distances(keys)  # computed once, without square roots
        with np.errstate(over="ignore"):  # the most distant rows have weight 0
            for sigma in sigmas:
                yield squares * squares.dtype.type(-0.5 * sigma**2)
        return
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        for sigma in sigmas:
            yield kernel.log_profile(distances * distances.dtype.type(sigma))
        return
    for sigma in sigmas:
        yield log_kernel(kernel, queries.scaled(sigma), keys.scaled(sigma))


def path_sums(
    kernel: Kernel,
    queries: Inputs,
    keys: Inputs,
    targets: Array,
    sigmas: Sequence[float],
    gone: np.ndarray | None = None,
) -> Iterator[LogSum]:
    """Yield the kernel sums over keys for each sigma, without the pairs in ``gone``.

    If each sigma squared is twice the one before or a higher power of two times it, as
    on the default grids, the weights of the Gaussian kernel are repeated squares of
    those before, which cost less than exponentials.
    """
    # targets (n_keys, k), gone (n_queries, n_keys)
    gaps = np.diff(2 * np.log2(sigmas))
    steps = np.rint(gaps)
    doubles = np.allclose(gaps, steps, rtol=0, atol=1e-12)
    squared = isinstance(kernel, GaussianRadial) and doubles and np.all(steps > 0)
    path = log_path(kernel, queries, keys, sigmas[:1] if squared else sigmas)
    for logs in path:
        if gone is not None:
            logs[gone] = -np.inf
        weights, log_scale = log_weights(logs, overwrite=True, normal=True)
        yield LogSum(_cast(weights, targets, None) @ targets, log_scale)
    if not squared:
        return
    root = math.sqrt(1.5 * float(np.finfo(weights.dtype).tiny))  # see log_weights
    has_weight = log_scale > least_log(log_scale)
    least = (has_weight * root).astype(weights.dtype)
    for step in steps.astype(int).tolist():
        for _ in range(step):
            np.maximum(weights, least, out=weights)
            weights *= weights
        with np.errstate(over="ignore"):  # queries without weight overflow
            log_scale = np.maximum(log_scale * 2.0**step, least_log(log_scale))
        yield LogSum(_cast(weights, targets, None) @ targets, log_scale)


def path_over_blocks(
    kernel: Kernel,
    queries: Inputs,
    blocks: Iterable[tuple[Inputs, Array]],
    sigmas: Sequence[float],
    *,
    left_out: bool = False,
) -> list[LogSum]:
    """Return the sums over blocks of keys, for each sigma.

    ``left_out`` ignores the keys at distance 0 of a query.
    """
    totals: list[Any] = [None for _ in sigmas]
    for keys, targets in blocks:
        gone = queries.sq_distances(keys) == 0 if left_out else None
        path = path_sums(kernel, queries, keys, targets, sigmas, gone)
        for k, found in enumerate(path):
            totals[k] = found if totals[k] is None else totals[k].plus(found)
    return totals


def add_block(
    total: LogSum | None,
    logs: Array,
    targets: Array,
    workspace: Workspace | None = None,
) -> LogSum:
    """Return sums with those over further keys; logs (n, n_keys) are overwritten."""
    cast = None if workspace is None else workspace.cast
    block = log_sum(logs, targets, overwrite=True, normal=True, cast=cast)
    return block if total is None else total.plus(block)
