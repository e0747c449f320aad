"""The choice of the bandwidth, and of the ridge of local fits, by held-out error."""

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
_QUARTERS = 2.0 ** np.arange(-0.75, 1, 0.25)  # around the best octave
_HALVES = 2.0 ** np.arange(-0.5, 1, 0.5)  # fine enough for local linear regression
_N_QUERIES, _N_KEYS = 1000, 10_000  # rows that are predicted, and training rows used
_MOST_PRODUCTS = 2**32  # of kernel weights and targets per multiple: about 0.3 s
# Share of the Brier score that is added to the error rate of labels. Few rows are
# misclassified, so the error rate alone would be decided by chance.
_BRIER = 0.2
_TIE = 1e-6  # relative difference of errors or probabilities that count as equal
_QUERY_ROWS, _KEY_ROWS = 125, 1024  # rows whose kernel values are computed at a time


def sample(n_rows: int) -> np.ndarray:
    """Return a random sample of row numbers for choosing the bandwidth.

    All of them serve as training rows; the first ones are also predicted.
    """
    return np.random.default_rng(0).permutation(n_rows)[:_N_KEYS]


def best_multiple(
    kernel: Kernel,
    rows: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    n_rows: int,
    octaves: np.ndarray = OCTAVES,
) -> tuple[float, Targets]:
    """Return the multiple of the rows with the least leave-one-out error.

    A row is predicted from the rows at a positive distance from it: its copies are left
    out too. So a weight counts as a number of repeated rows, and a table with repeated
    rows is not overfitted. If only m of n rows with d columns are used, the best
    multiple for m rows is scaled by (n / m)^(1 / (d + 4)), the rate at which the
    optimal bandwidth shrinks (Scott's rule).
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
    """Return the best multiple on a grid of octaves, refined on a finer grid."""
    # batches yields rows, their encoded targets, and for each multiple the kernel sums
    # over the other rows
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
            truth, weights = _ratio(own, targets, mean)
            shares.append(weights)
            errors = np.empty((len(candidates), multiples.size, len(truth)))
            for k, sums in enumerate(path):
                answers = targets.solve_all(sums, queries, multiples[k])
                for j, solved in enumerate(answers):
                    found, _ = _ratio(solved, targets, mean)
                    errors[j, k] = _row_errors(found, truth, spread, targets)
            parts.append(errors)
        rows, weights = np.concatenate(parts, axis=2), np.concatenate(shares)
        errors = rows @ weights
        least = errors.min(axis=1)
        best = int((least <= least.min() * (1 + _TIE)).argmax())
        plain, fits = (rows[j, errors[j].argmin()] for j in (0, best))
        if not _is_plainly_positive(plain - fits, weights):
            best = 0
        # among equal errors the largest multiple, the narrowest kernel, is taken: in a
        # table of categories, where all distinct rows are at the same distance, equal
        # rows then decide a prediction alone
        ties = errors[best] <= least[best] * (1 + _TIE)
        return float(multiples[ties][-1]), candidates[best]

    best = best_of(octaves)
    if octaves.size == 1:
        return best
    return best_of(best[0] * (_QUARTERS if len(candidates) == 1 else _HALVES))


def _row_errors(found, truth, spread, targets):
    """Return the error of each row; for numbers it is relative to their variance."""
    if targets.are_labels:
        found = np.maximum(found, 0)
        found /= found.sum(axis=1, keepdims=True)
    squares = (found - truth) ** 2
    if not targets.are_labels:
        return squares @ (1 / spread)
    # neither the order of classes nor rounding decides between equal probabilities
    first = found >= (1 - _TIE) * found.max(axis=1, keepdims=True)
    right = first[np.arange(len(first)), truth.argmax(axis=1)] / first.sum(axis=1)
    return 1 - right + _BRIER * squares.sum(axis=1)


def _is_plainly_positive(gain: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether the mean gain is more than one standard error above 0."""
    total = weights @ gain
    return bool(total > np.sqrt(weights @ (gain - total / weights.sum()) ** 2))


def _ratio(sums, targets, mean):
    """Return weighted means of the targets from their sums, and the sums of weights."""
    weights = targets.weight(sums)
    n_columns = mean.size
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = sums[:, :n_columns] / weights[:, None]
    return np.where(weights[:, None] > 0, ratio, mean), weights


WIDE_OCTAVES = 2.0 ** np.arange(-3, 6)
_HELD_OUT_ROWS = 250  # rows whose kernel values are computed at a time
_NOTHING = 1e-9  # share of the weight of a point that counts as none


class HeldOutRows(NamedTuple):
    """Training rows that are predicted without themselves, and the point of each."""

    X: Any  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)
    own: np.ndarray  # (n_rows,), number of the point that a row belongs to

    def moved(self, labels: np.ndarray) -> HeldOutRows:
        """Return the same rows after point g became part of point ``labels[g]``."""
        # labels (n_points,)
        return self._replace(own=labels[self.own])


def best_multiple_left(
    kernel: Kernel,
    left: HeldOutRows,
    keys: Inputs,
    encoded: np.ndarray,
    targets: Targets,
    octaves: np.ndarray = WIDE_OCTAVES,
) -> tuple[float, Targets]:
    """Return the multiple of sigma, and the targets, with the least held-out error.

    Each row is subtracted from the point that it belongs to before it is predicted.
    """
    # encoded (m, k)

    def batches(multiples):
        for batch in gen_batches(len(left.own), _HELD_OUT_ROWS):
            rows, parts = left.X.take(batch), (left.y[batch], left.weights[batch])
            own = targets.encode(*parts, np.float64, rows)
            place = np.arange(len(own)), left.own[batch]
            rest = 1 - targets.weight(own) / targets.weight(encoded)[place[1]]
            # points equal to the row are left out too, as in the exact estimator
            gone = rows.sq_distances(keys) == 0
            gone[place] |= rest < _NOTHING
            # without the row, the mean of its point moves away from it
            if isinstance(kernel, RadialKernel):
                distances = kernel.distances(rows, keys).astype(np.float64)
                distances[place] *= 1 / np.where(rest < _NOTHING, 1, rest)
            path = []
            for multiple in multiples:
                if isinstance(kernel, RadialKernel):
                    logs = kernel.log_profile(distances * multiple)
                else:  # a callable takes rows, so that the means stay where they are
                    scaled = rows.scaled(multiple), keys.scaled(multiple)
                    logs = log_kernel(kernel, *scaled)
                logs[gone] = -np.inf
                weights, _ = log_weights(logs, overwrite=True)
                path.append(weights @ encoded - weights[place][:, None] * own)
            yield rows, own, path

    return _search(octaves, batches, encoded, targets)
