"""Selection of sigma for a sampler by the error of the resulting kernel averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ..arrays.loops import exp_features
from ..arrays.namespaces import to_host
from ..maps import FeatureMap
from ..rows.centers import distinct_rows
from ..rows.sample import DistinctSample
from ..sums.errors import (
    find_cancelling,
    group_columns,
    group_shares,
    split_sums,
    standard_error,
    trust,
    where_cancels,
)
from ..sums.feature_sums import FeatureSums
from ._sigma import is_significant, last_least, mistakes, weighted_means
from ._sums import probabilities
from ._targets import Targets

OCTAVES = 2.0 ** np.arange(-2, 5)
_HALVES = 2.0 ** np.arange(-0.5, 1, 0.5)  # the finer grid around the best octave
N_SAMPLED = 2000  # number of rows for the selection, each of which is left out in turn
# If error rates differ by at most this many standard errors, the Brier score decides.
# The error rate alone would often select sigma by chance, because few rows are
# misclassified. The Brier score alone favours a large sigma, for which probabilities
# are less uniform, although random features then misclassify more rows.
_CLOSE = 0.5
_REMAINDER = 1e-9  # smaller remainders, relative to a sum, are rounding errors


@dataclass(frozen=True)
class SampledRows:
    """A sample of distinct rows; ``a + b`` is a sample of the rows of both."""

    few: DistinctSample
    seen: Any  # statistics of the targets, based on all rows

    @classmethod
    def of(cls, batches: Sequence[tuple[Any, ...]], targets: Targets) -> SampledRows:
        """Draw a sample from batches, which are tuples (X, y, weights, ...)."""
        seen = (targets.statistics_of(y, weights) for _, y, weights, *_ in batches)
        parts = (tuple(map(to_host, batch[:3])) for batch in batches)
        return cls(DistinctSample.of(parts, N_SAMPLED), reduce(add, seen))

    def __add__(self, other: SampledRows) -> SampledRows:
        return SampledRows(self.few + other.few, self.seen + other.seen)


def best_multiple_of_sampler(
    sampler: Any, rows: SampledRows, targets: Targets
) -> float:
    """Return the multiple of the sampler's sigma with the lowest leave-one-out error.

    A row is predicted from the sums of features over all rows, after subtracting the
    contributions of the row and its copies. The leave-one-out error therefore includes
    the error of the random features.
    """
    X, weights = rows.few.X, rows.few.weights
    encoded = targets.encode(rows.few.y, weights, np.float64)
    _, places = distinct_rows(X)
    copies = np.zeros((places.max() + 1, encoded.shape[1]))
    np.add.at(copies, places, encoded)
    wide, first = X.astype(np.float64, copy=False), sampler.sigma_
    errors_of = _errors_of_labels if targets.are_labels else _errors_of_numbers
    choose = _best_for_labels if targets.are_labels else _best_for_numbers
    best = 1.0
    for steps in (OCTAVES, _HALVES):
        errors = []
        for multiple in (best * steps).tolist():
            source = sampler.with_sigma(first * multiple).map_.astype("float64")
            own = copies[places]
            sums, share = _sums_over_other_rows(source, wide, encoded, own, targets)
            if targets.are_labels:
                sums *= _class_factors(encoded, own, rows.seen)
            errors.append(errors_of(sums, share, encoded, targets, rows.seen))
        best = float((best * steps)[choose(errors, best * steps, weights, places)])
    return best


def _class_factors(encoded, own, seen):
    """Return factors for class sums that restore the class proportions of all rows.

    If sigma is small, the class sums are close to the class proportions. Leaving out a
    row then makes its own class less probable than other classes of the same size, and
    the random class proportions of a sample have a similar effect.
    """
    # encoded, own (n_rows, n_classes)
    rest = encoded.sum(axis=0) - own
    has_others = rest > _REMAINDER * encoded.sum()
    return np.where(has_others, seen.shares / np.where(has_others, rest, 1), 0)


def _errors_of_labels(sums, share, encoded, targets, seen):
    """Return the classification error and the Brier score of each row, (2, n_rows)."""
    sums = np.where(np.any(sums > 0, axis=1, keepdims=True), sums, seen.shares)
    found = probabilities(sums, seen.shares, share[:, None])
    truth = encoded / targets.weight(encoded)[:, None]
    return np.stack([mistakes(found, truth), ((found - truth) ** 2).sum(axis=1)])


def _errors_of_numbers(sums, share, encoded, targets, seen):
    """Return squared errors relative to the variance of the targets, (n_rows,)."""
    own = targets.weight(encoded)
    truth = weighted_means(encoded, own, seen.mean)
    found = seen.clipped(weighted_means(sums, targets.weight(sums), seen.mean))
    found += (1 - share[:, None]) * (seen.mean - found)
    spread = np.average((truth - seen.mean) ** 2, axis=0, weights=own)
    return (found - truth) ** 2 @ (1 / np.where(spread > 0, spread, 1))


def _best_for_labels(errors, multiples, weights, copies):
    """Return the index of the lowest Brier score among multiples with few errors."""
    wrong, brier = np.stack(errors, axis=1)
    least = wrong[last_least(wrong @ weights)]
    close = [not is_significant(row - least, weights, copies, _CLOSE) for row in wrong]
    return last_least(np.where(close, brier @ weights, np.inf))


def _best_for_numbers(errors, multiples, weights, copies):
    """Return the index of the multiple 1 unless another is significantly better."""
    errors = np.stack(errors)
    best = last_least(errors @ weights)
    for default in np.flatnonzero(multiples == 1):
        if not is_significant(errors[default] - errors[best], weights, copies):
            return int(default)
    return best


def _sums_over_other_rows(
    source: FeatureMap,
    X: Any,
    encoded: np.ndarray,
    own: np.ndarray,
    targets: Targets,
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each row, kernel sums that exclude the row and its copies.

    The second array contains the weight of each kernel average, which is below 1 if the
    average is unreliable. ``own`` holds, for each row, the sum of the encoded targets
    of the row and its copies.
    """
    # X (n, d), encoded and own (n, k) -> (n, k), (n,)
    sums, found, share = FeatureSums(), np.zeros(encoded.shape), np.ones(len(encoded))
    for rows, mantissa, exponent in source.iter_log_features(X, key=True):
        sums = sums.with_rows(mantissa, exponent, encoded[rows])
    shift = sums.total.log_scale[:, 0]
    index = source.frequency_index()
    groups = group_columns(index, source.n_components)
    shares = group_shares(index, source.n_components)
    parts_of_sums = split_sums(targets.weight(sums.sums), groups)
    keys = source.iter_log_features(X, key=True)
    queries = source.iter_log_features(X, key=False)
    for (rows, mantissa, exponent), (_, *key) in zip(queries, keys, strict=True):
        weights, _ = sums.scaled(mantissa, exponent)
        features = exp_features(key[0], None if key[1] is None else key[1] - shift)
        kernel = np.einsum("nm,nm->n", weights, features)
        total = weights @ sums.sums
        rest = total - kernel[:, None] * own[rows]
        size = np.abs(weights) @ np.abs(sums.sums)
        found[rows] = np.where(np.abs(rest) > _REMAINDER * size, rest, 0)
        cancels = find_cancelling(mantissa, sums.signed)
        if cancels is not None:
            parts = (weights * features) @ split_sums(np.ones(groups.size), groups)
            parts = weights @ parts_of_sums - parts * targets.weight(own[rows])[:, None]
            error = where_cancels(cancels, standard_error(parts, shares))
            share[rows] = trust(targets.weight(found[rows]), error)
    return found, share
