"""Selection of sigma and of the penalty of local linear fits by held-out error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ..arrays.loops import LogSum, least_log, weights_from_logs
from ..arrays.namespaces import Array
from ..maps import Gaussian, RadialKernel
from ..rows import Inputs
from ..rows.sample import DistinctSample
from ..samplers._kernel_parameter import RowKernel
from ._sums import log_kernel
from ._targets import Targets

OCTAVES = 2.0 ** np.arange(-1, 6)
# the finer grids around the best octave, for averages and for local linear fits
_QUARTERS = 2.0 ** np.arange(-0.75, 1, 0.25)
_HALVES = 2.0 ** np.arange(-0.5, 1, 0.5)
# numbers of predicted rows and of training rows, for averages and for linear fits
_N_QUERIES, N_KEYS = 1000, 10_000
_N_FITS, N_KEYS_OF_FITS = 500, 5000
# maximum number of products of kernel weights and targets per multiple (about 0.3 s)
_MOST_PRODUCTS = 2**32
# For labels, this multiple of the log loss is added to the error rate. Because few rows
# are misclassified, the error rate alone would often select sigma by chance. Class
# frequencies are smoothed by adding _ADDED rows, divided equally among the classes, so
# that frequencies based on few rows are uncertain even if all labels agree.
_LOG_LOSS, _ADDED = 0.5, 0.3
TIE = 1e-6  # errors or probabilities with a smaller relative difference count as equal
_QUERY_ROWS, _KEY_ROWS = 125, 1024  # rows whose kernel values are computed at a time


class Best(NamedTuple):
    """The multiple of sigma and the targets with the lowest error, and that error."""

    multiple: float
    targets: Targets
    error: float


def best_multiple(
    kernel: RowKernel,
    rows: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    n_rows: float,
    octaves: np.ndarray = OCTAVES,
    n_queries: int = _N_QUERIES,
    *,
    refined: bool = True,
) -> Best:
    """Return the multiple of sigma, and the targets, with the lowest error.

    The error is the leave-one-out error of the first rows; rows are in random order. A
    row is predicted only from rows that differ from it, so its copies are left out,
    too. Therefore a row of weight 2 has the same effect as a repeated row, and repeated
    rows do not cause overfitting. If only m of n distinct rows with d features are
    used, the best multiple for m rows is multiplied by (n / m)^(1 / (d + 4)), the rate
    at which the optimal sigma grows with the number of rows (Scott's rule).
    """
    # encoded (m, k)
    n_keys, n_features = rows.shape
    encoded = encoded.astype(np.float64)
    is_fit = len(targets.candidates()) > 1
    n_queries = min(n_keys, n_queries, _MOST_PRODUCTS // encoded.size)
    n_queries = min(n_queries, _N_FITS) if is_fit else n_queries
    weights = targets.weight(encoded) if targets.are_labels else None
    blocks = [
        (rows.take(block), encoded[block], None if weights is None else weights[block])
        for block in gen_batches(n_keys, _KEY_ROWS)
    ]

    def batches(multiples):
        for batch in gen_batches(n_queries, _QUERY_ROWS):
            queries = rows.take(batch)
            path = _path_over_other_rows(kernel, queries, blocks, multiples)
            values = [tuple(sums.values for sums in found) for found in path]
            yield queries, encoded[batch], values

    queries = rows.take(slice(n_queries))
    copies = queries.equal(queries).argmax(axis=1)  # the first of the equal rows
    finer = (_HALVES if is_fit else _QUARTERS) if refined else np.ones(1)
    best = _search(octaves, finer, batches, encoded, targets, copies)
    factor = (n_rows / n_keys) ** (1 / (n_features + 4))
    return best._replace(multiple=best.multiple * factor)


def number_of_distinct_rows(few: DistinctSample) -> float:
    """Return the number of distinct rows, which is estimated if ``few`` is a sample.

    If exactly k of n random numbers in [0, 1) are below h, n is about k / h. The
    relative error of this estimate is about 1 / sqrt(k), or 1 % for 10,000 rows.
    """
    n_rows = len(few.keys)
    if n_rows < few.size:
        return n_rows
    return max(n_rows, (n_rows - 1) * 2.0**64 / float(few.keys[-1]))


def _log_path(
    kernel: RowKernel, queries: Inputs, keys: Inputs, multiples: np.ndarray
) -> Iterator[np.ndarray]:
    """Yield the log kernel values of the rows scaled by each multiple."""
    if isinstance(kernel, Gaussian):
        squares = queries.sq_distances(keys)  # computed once, without square roots
        with np.errstate(over="ignore"):  # overflow yields weight 0
            for multiple in multiples.tolist():
                yield squares * squares.dtype.type(-0.5 * multiple**2)
        return
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        for multiple in multiples:
            yield kernel.log_profile(distances * distances.dtype.type(multiple))
        return
    for multiple in multiples.tolist():
        yield log_kernel(kernel, queries.scaled(multiple), keys.scaled(multiple))


def path_sums(
    kernel: RowKernel,
    queries: Inputs,
    keys: Inputs,
    targets: Array,
    multiples: np.ndarray,
    gone: np.ndarray,
    row_weights: np.ndarray | None = None,
) -> Iterator[tuple[LogSum, ...]]:
    """Yield the kernel sums over training rows for each multiple.

    These are the sums of the targets and, if ``row_weights`` are given, also the sums
    of these weights times the squared kernel. Pairs marked in ``gone`` are excluded. If
    the ratios of squares of consecutive multiples are powers of two, Gaussian weights
    are computed by repeated squaring, which is faster than evaluating exponentials.
    """

    # targets (n_keys, k), gone (n_queries, n_keys), row_weights (n_keys,)
    def found(weights, log_scale):
        weights = weights.astype(targets.dtype, copy=False)
        sums = LogSum(weights @ targets, log_scale)
        if row_weights is None:
            return (sums,)
        squares = (weights * weights) @ row_weights[:, None]
        return sums, LogSum(squares, np.maximum(2 * log_scale, least_log(log_scale)))

    gaps = np.diff(2 * np.log2(multiples))
    steps = np.rint(gaps)
    doubles = np.allclose(gaps, steps, rtol=0, atol=1e-12)
    squared = isinstance(kernel, Gaussian) and doubles and np.all(steps > 0)
    for logs in _log_path(kernel, queries, keys, multiples[: 1 if squared else None]):
        logs[gone] = -np.inf
        weights, log_scale = weights_from_logs(logs, overwrite=True, normal=True)
        yield found(weights, log_scale)
    if not squared:
        return
    root = math.sqrt(1.5 * float(np.finfo(weights.dtype).tiny))  # see weights_from_logs
    has_weight = log_scale > least_log(log_scale)
    least = (has_weight * root).astype(weights.dtype)
    for step in steps.astype(int).tolist():
        for _ in range(step):
            np.maximum(weights, least, out=weights)
            weights *= weights
        with np.errstate(over="ignore"):  # overflows if no row has weight
            log_scale = np.maximum(log_scale * 2.0**step, least_log(log_scale))
        yield found(weights, log_scale)


def _path_over_other_rows(
    kernel: RowKernel,
    queries: Inputs,
    blocks: list[tuple[Inputs, np.ndarray, np.ndarray | None]],
    multiples: np.ndarray,
) -> list[tuple[LogSum, ...]]:
    """Return the kernel sums over the rows that are not copies of a query."""
    totals: list[Any] = [None for _ in multiples]
    for keys, targets, weights in blocks:
        gone = queries.equal(keys)
        path = path_sums(kernel, queries, keys, targets, multiples, gone, weights)
        for k, found in enumerate(path):
            if totals[k] is not None:
                pairs = zip(totals[k], found, strict=True)
                found = tuple(total.plus(some) for total, some in pairs)
            totals[k] = found
    return totals


def _search(octaves, finer, batches, encoded, targets, copies) -> Best:
    """Return the best multiple on a grid of octaves, refined on a finer grid.

    ``batches`` yields rows, their encoded targets, and for each multiple the kernel
    sums over the other rows (see ``path_sums``). ``copies`` has one integer per row,
    which is the same for equal rows.
    """
    weights = targets.weight(encoded)
    # inverse of a typical weight, to which tiny weights hardly contribute
    whole = weights.sum()
    rows_per_weight = whole / (weights @ weights)
    values, share = encoded[:, : targets.n_averages] / weights[:, None], weights / whole
    mean = share @ values
    spread = share @ (values - mean) ** 2
    spread = np.where(spread > 0, spread, 1.0)  # 1 for a constant target
    candidates = targets.candidates()

    def best_of(multiples):
        parts, shares = [], []
        for queries, own, path in batches(multiples):
            weights = targets.weight(own)
            truth = weighted_means(own, weights, mean)
            shares.append(weights)
            errors = np.empty((len(candidates), multiples.size, len(truth)))
            for k, (sums, *squares) in enumerate(path):
                solved = targets.solve_all(sums, queries, multiples[k])
                total = targets.weight(sums)
                found = weighted_means(solved, total, mean)
                if targets.are_labels:
                    # by Cauchy-Schwarz, n_rows is at most the total weight
                    least = np.maximum(total**2 / whole, np.finfo(float).tiny)
                    n_rows = total**2 / np.maximum(squares[0][:, 0], least)
                    n_rows *= rows_per_weight
                    errors[:, k] = _label_errors(found, truth, n_rows)
                else:
                    errors[:, k] = (found - truth) ** 2 @ (1 / spread)
            parts.append(errors)
        rows, weights = np.concatenate(parts, axis=2), np.concatenate(shares)
        errors = rows @ weights
        least = errors.min(axis=1)
        best = int((least <= least.min() * (1 + TIE)).argmax())
        plain, fits = (rows[j, errors[j].argmin()] for j in (0, best))
        if not is_significant(plain - fits, weights, copies[: len(weights)]):
            best = 0
        # If all distinct rows are equally far apart, as for a one-hot encoded category,
        # predictions with the narrowest kernel depend only on equal training rows.
        chosen = last_least(errors[best])
        error = float(errors[best, chosen] / weights.sum())
        targets_of_best = candidates[best].with_error(error)
        return Best(float(multiples[chosen]), targets_of_best, error)

    best = best_of(octaves)
    if octaves.size == 1 or finer.size == 1:
        return best
    return best_of(best.multiple * finer)


def _label_errors(found, truth, n_rows):
    """Return the error of each row's label plus a multiple of its smoothed log loss."""
    # found (n_candidates, n_queries, n_classes), truth (n_queries, n_classes), n_rows
    # (n_queries,), the effective number of rows behind each prediction
    found = np.maximum(found, 0)
    found /= found.sum(axis=2, keepdims=True)
    own = n_rows * found[:, np.arange(len(truth)), truth.argmax(axis=1)]
    smoothed = (own + _ADDED / truth.shape[1]) / (n_rows + _ADDED)
    return mistakes(found, truth) - _LOG_LOSS * np.log(smoothed)


def last_least(errors: np.ndarray) -> int:
    """Return the index of the lowest error; in a tie, that of the largest sigma."""
    return int(np.flatnonzero(errors <= errors.min() * (1 + TIE))[-1])


def mistakes(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return 1 for rows whose most probable class is wrong, and less in a tie.

    Ties are decided neither by the order of the classes nor by rounding errors.
    """
    # (..., n_rows, n_classes), (n_rows, n_classes) -> (..., n_rows)
    first = found >= (1 - TIE) * found.max(axis=-1, keepdims=True)
    right = first[..., np.arange(len(truth)), truth.argmax(axis=1)]
    return 1 - right / first.sum(axis=-1)


def is_significant(
    gain: np.ndarray, weights: np.ndarray, copies: np.ndarray, n_errors: float = 1.0
) -> bool:
    """Return whether the mean gain exceeds 0 by ``n_errors`` standard errors.

    The standard error assumes that distinct rows are independent. It depends neither on
    the unit of the weights, nor on whether a row has weight 2 or is repeated.
    """
    # gain, weights, copies (n_rows,)
    total = weights @ gain
    parts = np.bincount(copies, weights * (gain - total / weights.sum()))
    return bool(total > n_errors * np.sqrt(parts @ parts))


def weighted_means(
    sums: np.ndarray, weights: np.ndarray, mean: np.ndarray
) -> np.ndarray:
    """Return weighted means of the targets; where weights vanish, the overall mean."""
    # sums (..., n_rows, n_columns), weights (n_rows,) -> (..., n_rows, n_averages)
    weights = weights[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weights > 0, sums[..., : mean.size] / weights, mean)


WIDE_OCTAVES = 2.0 ** np.arange(-3, 6)
_HELD_OUT_ROWS = 250  # rows whose kernel values are computed at a time
_NOTHING = 1e-9  # other rows of a prototype are ignored if their share is smaller


class HeldOutRows(NamedTuple):
    """Training rows held out for validation, and the prototypes that represent them."""

    X: Any  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)
    own: np.ndarray  # (n_rows,), index of the prototype that represents a row

    def moved(self, labels: np.ndarray) -> HeldOutRows:
        """Return the same rows after merging each point g into point ``labels[g]``."""
        # labels (n_points,)
        return self._replace(own=labels[self.own])


def best_multiple_left(
    kernel: RowKernel,
    left: HeldOutRows,
    keys: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    octaves: np.ndarray = WIDE_OCTAVES,
) -> Best:
    """Return the multiple of sigma, and the targets, with the lowest held-out error.

    Before a row is predicted, it is subtracted from the prototype that represents it.
    """
    # encoded (m, k)

    def batches(multiples):
        for batch in gen_batches(len(left.own), _HELD_OUT_ROWS):
            rows, parts = left.X.take(batch), (left.y[batch], left.weights[batch])
            own = targets.encode(*parts, np.float64, rows)
            place = np.arange(len(own)), left.own[batch]
            rest = 1 - targets.weight(own) / targets.weight(encoded)[place[1]]
            # prototypes equal to the row are left out, too, as with the exact kernel
            gone = rows.equal(keys)
            gone[place] |= rest < _NOTHING
            removed = targets.contribution(own, encoded[place[1]])
            # without the row, its prototype would be farther away
            if isinstance(kernel, RadialKernel):
                distances = kernel.distances(rows, keys).astype(np.float64)
                distances[place] *= 1 / np.where(rest < _NOTHING, 1, rest)
            path = []
            for multiple in multiples:
                if isinstance(kernel, RadialKernel):
                    logs = kernel.log_profile(distances * multiple)
                else:  # a callable takes rows, so their distances cannot be adjusted
                    scaled = rows.scaled(multiple), keys.scaled(multiple)
                    logs = log_kernel(kernel, *scaled)
                logs[gone] = -np.inf
                weights, _ = weights_from_logs(logs, overwrite=True)
                sums = weights @ encoded - weights[place][:, None] * removed
                squares = weights**2 @ targets.weight(encoded)
                squares -= weights[place] ** 2 * targets.weight(removed)
                path.append((sums, squares[:, None]))
            yield rows, own, path

    finer = _QUARTERS if len(targets.candidates()) == 1 else _HALVES
    copies = np.arange(len(left.own))  # all copies of a row are held out as one row
    return _search(octaves, finer, batches, encoded, targets, copies)
