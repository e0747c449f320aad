"""The bandwidth of least leave-one-out error."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from .._kernels import log_weights
from ..maps import RadialKernel
from ..rows import Inputs
from ._sums import Kernel, log_kernel, path_over_blocks
from ._targets import Targets

OCTAVES = 2.0 ** np.arange(-1, 6)
_QUARTERS = 2.0 ** np.arange(-0.75, 1, 0.25)  # about the best octave
_HALVES = 2.0 ** np.arange(-0.5, 1, 0.5)  # enough for local linear averages
_N_QUERIES, _N_KEYS = 1000, 10_000  # rows that are predicted, and averaged over
_MOST_PRODUCTS = 2**32  # of weights and targets for one multiple: 0.3 s
_BRIER = 0.2  # of the Brier score beside the mistakes, which are few: chance decides
_TIE = 1e-6  # of shares or errors: they are the same, up to rounding
_QUERY_ROWS, _KEY_ROWS = 125, 1024  # kernel values computed at a time


def sample(n_rows: int) -> np.ndarray:
    """Return which rows to average over, those to predict first."""
    return np.random.default_rng(0).permutation(n_rows)[:_N_KEYS]


def best_multiple(
    kernel: Kernel,
    rows: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    n_rows: int,
    octaves: np.ndarray = OCTAVES,
) -> tuple[float, Targets]:
    """Return the factor of the rows whose kernel averages err least on other rows.

    Rows at distance 0 are left out with a row, so weights count as repeated rows and a
    table that repeats its rows is not learned by heart. Of n rows with d columns, where
    only m are averaged over, the factor is that of m times (n / m)^(1 / (d + 4)), the
    rate at which the best bandwidth shrinks (Scott's rule).
    """
    # encoded (m, k)
    n_keys, n_features = rows.shape
    encoded = encoded.astype(np.float64)
    n_queries = min(n_keys, _N_QUERIES, _MOST_PRODUCTS // encoded.size)
    blocks = [
        (rows.take(block), encoded[block]) for block in gen_batches(n_keys, _KEY_ROWS)
    ]

    def batches(multiples):
        for batch in gen_batches(n_queries, _QUERY_ROWS):
            parts = rows.take(batch), blocks, multiples
            path = path_over_blocks(kernel, *parts, left_out=True)
            yield parts[0], encoded[batch], [sums.values for sums in path]

    best, chosen = _search(octaves, batches, encoded, targets)
    return best * (n_rows / n_keys) ** (1 / (n_features + 4)), chosen


def _search(octaves, batches, encoded, targets) -> tuple[float, Targets]:
    """Return the best of the octaves, and then of the quarters about it."""
    # batches of rows, their own sums, and those of the others at each multiple
    weights = targets.weight(encoded)
    values, share = encoded[:, : targets.n_averages], weights / weights.sum()
    values = values / weights[:, None]
    mean = share @ values
    spread = share @ (values - mean) ** 2
    spread = np.where(spread > 0, spread, 1.0)  # of a constant target
    candidates = targets.candidates()

    def best_of(multiples):
        parts, shares = [], []
        for queries, own, path in batches(multiples):
            weights = targets.weight(own)
            truth = _weighted_means(own, weights, mean)
            shares.append(weights)
            errors = np.empty((len(candidates), multiples.size, len(truth)))
            for k, sums in enumerate(path):
                solved = targets.solve_all(sums, queries, multiples[k])
                found = _weighted_means(solved, targets.weight(sums), mean)
                errors[:, k] = _row_errors(found, truth, spread, targets)
            parts.append(errors)
        rows, weights = np.concatenate(parts, axis=2), np.concatenate(shares)
        errors = rows @ weights
        least = errors.min(axis=1)
        best = int((least <= least.min() * (1 + _TIE)).argmax())
        plain, fits = (rows[j, errors[j].argmin()] for j in (0, best))
        if not _is_plainly_positive(plain - fits, weights):
            best = 0
        # the largest multiple of least error leaves the average to equal rows where all
        # others are at one distance, as on a table of categories
        ties = errors[best] <= least[best] * (1 + _TIE)
        return float(multiples[ties][-1]), candidates[best]

    best = best_of(octaves)
    if octaves.size == 1:
        return best
    return best_of(best[0] * (_QUARTERS if len(candidates) == 1 else _HALVES))


def _row_errors(found, truth, spread, targets):
    """Return the error of each row: that of numbers in units of their variances."""
    # (n_candidates, n_rows, n_averages), (n_rows, n_averages) -> (n_candidates, n_rows)
    if targets.are_labels:
        found = np.maximum(found, 0)
        found /= found.sum(axis=2, keepdims=True)
    squares = (found - truth) ** 2
    if not targets.are_labels:
        return squares @ (1 / spread)
    # of classes with equal shares none is favoured, nor does a last digit decide
    first = found >= (1 - _TIE) * found.max(axis=2, keepdims=True)
    right = first[:, np.arange(len(truth)), truth.argmax(axis=1)] / first.sum(axis=2)
    return 1 - right + _BRIER * squares.sum(axis=2)


def _is_plainly_positive(gain: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the mean of rows is more than one standard error above 0."""
    total = weights @ gain
    return bool(total > np.sqrt(weights @ (gain - total / weights.sum()) ** 2))


def _weighted_means(sums, weights, mean):
    """Return sums over weights, and where these vanish the mean of all targets."""
    # sums (..., n_rows, n_columns), weights (n_rows,) -> (..., n_rows, n_averages)
    weights = weights[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(weights > 0, sums[..., : mean.size] / weights, mean)


WIDE_OCTAVES = 2.0 ** np.arange(-3, 6)
_LEFT_ROWS = 250  # kernel values computed at a time
_NOTHING = 1e-9  # of a group is left


class Left(NamedTuple):
    """Some rows, and the group that each is in."""

    X: Any  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)
    own: np.ndarray  # (n_rows,)

    def moved(self, labels: np.ndarray) -> Left:
        """Return the same rows, where group g went into group ``labels[g]``."""
        # labels (n_groups,)
        return self._replace(own=labels[self.own])


def best_multiple_left(
    kernel: Kernel,
    left: Left,
    keys: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    octaves: np.ndarray = WIDE_OCTAVES,
) -> tuple[float, Targets]:
    """Return factor of sigma, and targets, erring least on rows left out of points."""
    # encoded (m, k)

    def batches(multiples):
        for batch in gen_batches(len(left.own), _LEFT_ROWS):
            rows, parts = left.X.take(batch), (left.y[batch], left.weights[batch])
            own = targets.encode(*parts, np.float64, rows)
            place = np.arange(len(own)), left.own[batch]
            rest = 1 - targets.weight(own) / targets.weight(encoded)[place[1]]
            # equal rows are left out too, as by the exact estimator
            gone = rows.sq_distances(keys) == 0
            gone[place] |= rest < _NOTHING
            if isinstance(kernel, RadialKernel):  # the mean moves away from the row
                distances = kernel.distances(rows, keys).astype(np.float64)
                distances[place] *= 1 / np.where(rest < _NOTHING, 1, rest)
            path = []
            for multiple in multiples:
                if isinstance(kernel, RadialKernel):
                    logs = kernel.log_profile(distances * multiple)
                else:  # the means stay where they are
                    scaled = rows.scaled(multiple), keys.scaled(multiple)
                    logs = log_kernel(kernel, *scaled)
                logs[gone] = -np.inf
                weights, _ = log_weights(logs, overwrite=True)
                path.append(weights @ encoded - weights[place][:, None] * own)
            yield rows, own, path

    return _search(octaves, batches, encoded, targets)
