"""Candidates for ridge regression: one sigma per column, learned from the evidence."""

from __future__ import annotations

import math

import numpy as np

from ..arrays.threads import with_one_blas_thread
from ._candidates import TrainingRows
from ._columns import ColumnFeatures
from ._gradients import most_evidence

# Candidates are learned from up to MOST_LEARNED of N_DRAWN rows. Their leave-one-out
# errors are too small, especially if there are few rows per column. _OF_NUMBERS
# therefore maps the minimum number of rows per column to the candidates, as pairs of a
# power and a multiple. _OF_LABELS are those for labels; they require _LEAST_OF_CLASS
# rows of each class per column. The penalty is larger than for metrics, which are
# tested on held-out rows. Only the second stage of the search stops early, so that the
# first can leave a plateau.
N_DRAWN, MOST_LEARNED = 2**13, 400
_OF_NUMBERS = {200: ((1, 1),), 50: ((0.5, 1), (0.5, 2), (1, 1)), 10: ((0.5, 1),), 0: ()}
_OF_LABELS, _LEAST_OF_CLASS = ((0.5, 1), (1, 1)), 5
_PENALTY, _STAGES = 1.0, ((400, 8, 0.0), (400, 12, 0.3))


def sigmas_of_columns(
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    codes: np.ndarray | None,
    default: float,
    n_rows: float,
) -> tuple[np.ndarray, ...]:
    """Return candidates for ridge regression, each with one sigma per column.

    A Gaussian process on up to 400 rows with standardised columns learns the values
    that maximise its evidence. For each candidate, the ratios of these values to their
    geometric mean are raised to a power, and all values are multiplied by a constant.
    Constant columns, and all columns if the targets are constant, get the default.
    ``n_rows`` is the number of training rows. For classifiers, ``codes`` are the codes
    of the labels, and ``targets`` their indicators.
    """
    # X (n, d), targets (n,) or (n, k), weights, codes (n,) -> (d,) for each candidate
    tried = next(tried for n, tried in _OF_NUMBERS.items() if n_rows >= n * X.shape[1])
    rank = np.random.default_rng(0).permutation(len(X))
    if codes is not None:
        # equally many rows of each class, or all rows of classes with fewer rows
        order, fewest = np.lexsort((rank, codes)), np.bincount(codes).min()
        places = np.arange(len(X))
        rank[order] = places - np.searchsorted(codes[order], codes[order])
        tried = _OF_LABELS if fewest >= _LEAST_OF_CLASS * X.shape[1] else ()
    if not tried:
        return ()
    chosen = np.argsort(rank, kind="stable")[:MOST_LEARNED]
    X, targets, weights = X[chosen], targets[chosen], weights[chosen]
    table = TrainingRows.of(X, targets, weights, by_class=False, seed=0)
    columns = ColumnFeatures.of(table.X, table.weights, hats=False, eps=table.eps)
    same = np.full(X.shape[1], default)
    if not (table.targets.size and columns.kept.size):
        return (same,)
    known = columns.standardised(table.X), table.targets, table.weights
    # its matrices are small, so several threads would only wait for each other
    _, logs = with_one_blas_thread(most_evidence, *known, _STAGES, _PENALTY)
    # rounded to quarter octaves, which hardly ever depend on rounding errors
    octaves = np.rint(logs[:-1] * (4 / math.log(2))) / 4
    found, mean = [], octaves.mean()
    for power, multiple in tried:
        sigma = multiple * 2.0 ** (mean + power * (octaves - mean))
        found.append(same.copy())
        found[-1][columns.kept] = sigma / columns.deviation
    return tuple(found)
