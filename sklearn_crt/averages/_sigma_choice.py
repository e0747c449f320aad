"""Choice of sigma and of the penalty of local linear fits by held-out error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ..arrays.loops import LogSum, exp_features, least_log, weights_from_logs
from ..arrays.namespaces import Array, to_host
from ..life_cycle.fitted import Batch
from ..life_cycle.out_of_fold import Recalibration
from ..maps import FeatureMap, Gaussian, RadialKernel
from ..rows import Frame, Inputs, Rows
from ..rows.row_sample import RowSample
from ..samplers import BaseFeatureSampler
from ..samplers._kernel_parameter import RowKernel
from ..sums.feature_sums import (
    FeatureSums,
    find_cancelling,
    group_columns,
    group_shares,
    split_sums,
    standard_error,
    trust,
    where_cancels,
)
from ._class_probabilities import probabilities
from ._kernel_rows import leave_out, log_kernel
from ._target_columns import Targets

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
# A smaller penalty than the largest is chosen if its error is lower by this number of
# standard errors, or by _ROWS_OF_BETTER / n with more than a few rows. Without this
# limit, linear fits would be chosen by chance if there are few rows.
_BETTER, _ROWS_OF_BETTER = 0.5, 40
TIE = 1e-6  # errors or probabilities with a smaller relative difference count as equal
_QUERY_ROWS, _KEY_ROWS = 125, 1024  # rows whose kernel values are computed at a time
# Limits on the squared norms of rows for which float32 is used, and on their multiples
# of the mean
_MOST_SQUARE, _MOST_RELATIVE = 1e12, 50.0


# For samplers, these multiples are tried, then half octaves around the best of them.
OCTAVES_OF_SAMPLER = 2.0 ** np.arange(-2, 5)
N_SAMPLED = 2000  # number of rows for a sampler, each of which is left out in turn
# Features are compared with the exact kernel on this number of rows. They are too few
# if the difference in accuracy, or in R^2, exceeds _COARSE, or that in the log loss of
# calibrated probabilities _COARSE_LOSS.
_N_COMPARED, _COARSE, _COARSE_LOSS = 500, 0.1, 0.02
_SEED = 0, 0, 0, 2  # seed of the sample of rows for a sampler
# tolerance of the calibrations whose log losses are compared
_COMPARED = 1e-5
_REMAINDER = 1e-9  # smaller remainders, relative to a sum, are rounding errors


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
    weights_of_first: Callable[[int], np.ndarray] | None = None,
) -> Best:
    """Return the multiple of sigma, and the targets, with the lowest error.

    The error is the leave-one-out error of the first rows; rows are in random order.
    Each row is left out with its whole weight, and nothing else is left out. If only m
    of n rows with d features are used, the best multiple for m rows is multiplied by
    (n / m)^(1 / (d + 4)), the rate at which the optimal sigma grows with the number of
    rows (Scott's rule). ``weights_of_first`` returns the weights of the errors of the
    first rows, given their number; by default, these are the weights of the rows.
    """
    # encoded (m, k)
    n_keys, n_features = rows.shape
    encoded = encoded.astype(np.float64)
    is_fit = len(targets.candidates()) > 1
    n_queries = min(n_keys, n_queries, _MOST_PRODUCTS // encoded.size)
    n_queries = min(n_queries, _N_FITS) if is_fit else n_queries
    weights = targets.weight(encoded)
    of_rows = weights if targets.are_labels else None
    of_errors = weights[:n_queries]
    if weights_of_first is not None:
        of_errors = weights_of_first(n_queries)
    of_keys, unit = encoded, 1.0
    if targets.are_labels and not is_fit and _tolerates_single_precision(kernel, rows):
        # Numbers of rows of each class need less precision than numerical targets. The
        # weights of the rows may be too small or too large for float32.
        unit = float(np.abs(encoded).max())
        rows = rows.map(lambda entries: entries.astype(np.float32))
        of_keys = (encoded / unit).astype(np.float32)
        of_rows = (weights / unit).astype(np.float32)
    blocks = []
    for block in gen_batches(n_keys, _KEY_ROWS):
        some = None if of_rows is None else of_rows[block]
        blocks.append((block, rows.take(block), of_keys[block], some))

    def batches(multiples):
        for batch in gen_batches(n_queries, _QUERY_ROWS):
            queries, own = rows.take(batch), np.arange(batch.start, batch.stop)
            totals: list[Any] = [None for _ in multiples]  # sums over all other rows
            for some, keys, own_targets, row_weights in blocks:
                left = own, some.start, row_weights
                path = path_sums(kernel, queries, keys, own_targets, multiples, *left)
                for k, found in enumerate(path):
                    if totals[k] is not None:
                        pairs = zip(totals[k], found, strict=True)
                        found = tuple(total.plus(more) for total, more in pairs)
                    totals[k] = found
            values = [
                tuple(sums.values.astype(np.float64) * unit for sums in found)
                for found in totals
            ]
            yield queries, encoded[batch], of_errors[batch], values

    finer = (_HALVES if is_fit else _QUARTERS) if refined else np.ones(1)
    best = _search(octaves, finer, batches, encoded, targets)
    factor = (n_rows / n_keys) ** (1 / (n_features + 4))
    return best._replace(multiple=best.multiple * factor)


def _tolerates_single_precision(kernel: RowKernel, rows: Inputs) -> bool:
    """Return whether sums over rows in float32 hardly affect the choice of sigma.

    Kernel values then take half the time. Kernels that are written by users get the
    dtype of the rows. If some rows are much larger than others, distances between the
    others would lose too many digits.
    """
    if rows.is_sparse or not isinstance(kernel, (Gaussian, RadialKernel)):
        return False
    squares = rows.sq_norms
    return bool(squares.max() < min(_MOST_SQUARE, _MOST_RELATIVE * squares.mean()))


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
    own: np.ndarray,
    start: int,
    row_weights: np.ndarray | None = None,
) -> Iterator[tuple[LogSum, ...]]:
    """Yield the kernel sums over training rows for each multiple.

    These are the sums of the targets and, if ``row_weights`` are given, also the sums
    of these weights times the squared kernel. ``own`` and ``start`` determine the row
    that is left out for each query (see ``leave_out``). Gaussian weights are computed
    by repeated squaring if the ratio of the squares of two multiples is a power of two,
    which is faster than evaluating exponentials.
    """

    # targets (n_keys, k), own (n_queries,), row_weights (n_keys,)
    def found(weights: np.ndarray, log_scale: np.ndarray) -> tuple[LogSum, ...]:
        weights = weights.astype(targets.dtype, copy=False)
        sums = LogSum(weights @ targets, log_scale)
        if row_weights is None:
            return (sums,)
        squares = (weights * weights) @ row_weights[:, None]
        return sums, LogSum(squares, np.maximum(2 * log_scale, least_log(log_scale)))

    # chains of consecutive multiples, and how often weights are squared between them
    chains = [(np.array([place]), [0]) for place in range(len(multiples))]
    if isinstance(kernel, Gaussian):
        chains = _chains_of_squares(multiples)
    first = multiples[[places[0] for places, _ in chains]]
    path: list[Any] = [None] * len(multiples)
    logs_of_first = _log_path(kernel, queries, keys, first)
    for (places, n_squarings), logs in zip(chains, logs_of_first, strict=True):
        leave_out(logs, own, start)
        weights, log_scale = weights_from_logs(logs, overwrite=True, normal=True)
        # see weights_from_logs
        root = math.sqrt(1.5 * float(np.finfo(weights.dtype).tiny))
        has_weight = log_scale > least_log(log_scale)
        least = (has_weight * root).astype(weights.dtype)
        for place, step in zip(places, n_squarings, strict=True):
            for _ in range(step):
                np.maximum(weights, least, out=weights)
                weights *= weights
            if step:
                with np.errstate(over="ignore"):  # overflows if no row has weight
                    scaled = log_scale * log_scale.dtype.type(2.0**step)
                log_scale = np.maximum(scaled, least_log(log_scale))
            path[place] = found(weights, log_scale)
    yield from path


def _chains_of_squares(multiples: np.ndarray) -> list[tuple[np.ndarray, list[int]]]:
    """Return the places of chains of multiples whose squares differ by powers of two.

    Each is returned with the numbers of squarings of weights between its multiples, of
    which the first is 0.
    """
    logs = 2 * np.log2(multiples)
    chains: list[tuple[np.ndarray, list[int]]] = []
    left = np.arange(len(logs))
    while left.size:
        gaps = logs[left] - logs[left[0]]
        steps = np.rint(gaps)
        fits = (np.abs(gaps - steps) < 1e-12) & (steps >= 0)
        places = left[fits]
        n_squarings = np.diff(steps[fits], prepend=0).astype(int).tolist()
        if min(n_squarings) < 0:  # the multiples are not sorted
            places, n_squarings, fits = left[:1], [0], left == left[0]
        chains.append((places, n_squarings))
        left = left[~fits]
    return chains


def _search(octaves, finer, batches, encoded, targets) -> Best:
    """Return the best multiple on a grid of octaves, refined on a finer grid.

    ``batches`` yields rows, their encoded targets, the weights of their errors, and for
    each multiple the kernel sums over the other rows (see ``path_sums``).
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
        for queries, own, weights, path in batches(multiples):
            truth = weighted_means(own, targets.weight(own), mean)
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
        n_errors = min(_BETTER, _ROWS_OF_BETTER / len(weights))
        if not is_significant(plain - fits, weights, n_errors):
            best = 0
        # If all distinct rows are equally far apart, as for a one-hot encoded category,
        # all narrow kernels make the same predictions.
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
    labels = truth.argmax(axis=1)
    own = n_rows * found[:, np.arange(len(labels)), labels]
    smoothed = (own + _ADDED / truth.shape[1]) / (n_rows + _ADDED)
    return mistakes(found, labels) - _LOG_LOSS * np.log(smoothed)


def last_least(errors: np.ndarray) -> int:
    """Return the index of the lowest error; in a tie, that of the largest sigma."""
    return int(np.flatnonzero(errors <= errors.min() * (1 + TIE))[-1])


def mistakes(found: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return 1 for rows whose most probable class is wrong, and less in a tie.

    Ties are decided neither by the order of the classes nor by rounding errors.
    """
    # found (..., n_rows, n_classes), labels (n_rows,) -> (..., n_rows)
    first = found >= (1 - TIE) * found.max(axis=-1, keepdims=True)
    right = first[..., np.arange(len(labels)), labels]
    return 1 - right / first.sum(axis=-1)


def is_significant(
    gain: np.ndarray, weights: np.ndarray, n_errors: float = 1.0
) -> bool:
    """Return whether the mean gain exceeds 0 by ``n_errors`` standard errors.

    The standard error assumes that rows are independent. It does not depend on the unit
    of the weights.
    """
    # gain, weights (n_rows,)
    total = weights @ gain
    parts = weights * (gain - total / weights.sum())
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

    X: Inputs  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    row_weights: np.ndarray  # (n_rows,), their own weights
    weights: np.ndarray  # (n_rows,), the weights of their errors
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
    """Return the multiple of sigma and the targets that give the lowest held-out error.

    Before a row is predicted, it is subtracted from the prototype that represents it.
    """
    # encoded (m, k)

    def batches(multiples):
        for batch in gen_batches(len(left.own), _HELD_OUT_ROWS):
            rows, parts = left.X.take(batch), (left.y[batch], left.row_weights[batch])
            own = targets.encode(*parts, np.float64, rows)
            place = np.arange(len(own)), left.own[batch]
            rest = 1 - targets.weight(own) / targets.weight(encoded)[place[1]]
            is_alone = rest < _NOTHING  # its prototype represents no other row
            removed = targets.contribution(own, encoded[place[1]])
            # without the row, its prototype would be farther away
            if isinstance(kernel, RadialKernel):
                distances = kernel.distances(rows, keys).astype(np.float64)
                distances[place] *= 1 / np.where(is_alone, 1, rest)
            path = []
            for multiple in multiples:
                if isinstance(kernel, RadialKernel):
                    logs = kernel.log_profile(distances * multiple)
                else:  # a callable takes rows, so their distances cannot be adjusted
                    scaled = rows.scaled(multiple), keys.scaled(multiple)
                    logs = log_kernel(kernel, *scaled)
                leave_out(logs, np.where(is_alone, place[1], -1))
                weights, _ = weights_from_logs(logs, overwrite=True)
                sums = weights @ encoded - weights[place][:, None] * removed
                squares = weights**2 @ targets.weight(encoded)
                squares -= weights[place] ** 2 * targets.weight(removed)
                path.append((sums, squares[:, None]))
            yield rows, own, left.weights[batch], path

    finer = _QUARTERS if len(targets.candidates()) == 1 else _HALVES
    return _search(octaves, finer, batches, encoded, targets)


@dataclass(frozen=True)
class SampledRows:
    """A sample of rows; ``a + b`` is a sample of the rows of a followed by those of b.

    Rows are drawn with probabilities that increase with their weights.
    """

    few: RowSample
    seen: Any  # ClassCounts or TargetMoments of all rows

    @classmethod
    def of(
        cls, batches: Sequence[Batch], targets: Targets, n_before: int = 0
    ) -> SampledRows:
        """Draw a sample from consecutive batches.

        ``n_before`` is the number of rows before the first of these rows.
        """
        seen = (targets.statistics_of(y, weights) for _, y, weights, *_ in batches)
        few: RowSample | None = None
        for batch in batches:
            rows = tuple(map(to_host, batch[:3]))
            options: Any = {"seed": _SEED, "size": N_SAMPLED, "by_weight": True}
            if few is None:
                few = RowSample.of(*rows, n_before=n_before, **options)
            else:
                few = few.with_rows(*rows)
        assert few is not None
        return cls(few, reduce(add, seen))

    def __add__(self, other: SampledRows) -> SampledRows:
        return SampledRows(self.few + other.few, self.seen + other.seen)


class Comparison(NamedTuple):
    """Scores of features and of the exact Gaussian kernel for rows that are left out.

    They are accuracies or log losses for labels, and coefficients of determination for
    numbers.
    """

    score: str  # "accuracy", "log loss" or "R^2"
    of_features: float
    of_kernel: float
    n_rows: int  # number of rows from which these rows are predicted
    are_coarse: bool  # whether the kernel is clearly better


def best_multiple_of_sampler(
    sampler: BaseFeatureSampler, rows: SampledRows, targets: Targets
) -> tuple[float, Comparison, Recalibration | None]:
    """Return the multiple of the sampler's sigma with the lowest leave-one-out error.

    A row is predicted from the sums of features over all rows, after subtracting its
    own contribution. The leave-one-out error therefore includes the error of the random
    features. The error with the exact kernel is computed for some of the rows. For
    labels, the calibration of the leave-one-out probabilities is returned, too.
    """
    X, y, weights = rows.few.X, rows.few.y, rows.few.weights
    encoded = targets.encode(y, weights, np.float64)
    wide, first = X.astype(np.float64, copy=False), sampler.sigma_
    labelled = None
    if targets.are_labels:
        # the class proportions of the sample become those of all rows
        counts = np.bincount(y, weights, len(rows.seen.shares)) / weights.sum()
        factors = rows.seen.shares / np.where(counts > 0, counts, 1)
        labelled = Batch(X, y, weights * factors[y])
        of_classes = _class_factors(encoded, rows.seen)
    best = 1.0
    for steps in (OCTAVES_OF_SAMPLER, _HALVES):
        errors, found = [], []
        for multiple in (best * steps).tolist():
            source = sampler.with_sigma(first * multiple).map_.astype("float64")
            sums, share = _sums_over_other_rows(source, wide, encoded, targets)
            if labelled is None:
                given = sums, share, encoded, targets, rows.seen
                errors.append(_errors_of_numbers(*given))
            else:
                sums *= of_classes
                found.append(_probabilities_of(sums, share, rows.seen))
                errors.append(_errors_of_labels(found[-1], labelled))
        if labelled is None:
            chosen = _best_for_numbers(errors, best * steps, weights)
        else:
            chosen = last_least(np.stack(errors) @ labelled.weights)
        best, own = float((best * steps)[chosen]), errors[chosen]
    if labelled is None:
        return best, _compared(sampler, rows, encoded, targets, own), None
    compared = _compared(sampler, rows, encoded, targets, found[chosen])
    return best, compared, Recalibration.of(found[chosen], labelled)


def _compared(
    sampler: BaseFeatureSampler,
    rows: SampledRows,
    encoded: np.ndarray,
    targets: Targets,
    of_features: np.ndarray,
) -> Comparison:
    """Compare features with the exact kernel and its best sigma on some of the rows.

    ``of_features`` contains the errors of numbers, (n_rows,), or class probabilities,
    (n_rows, n_classes), whose log losses are compared if accuracies differ little.
    """
    # encoded (n_rows, k)
    n_rows, seen = len(encoded), rows.seen
    some = np.unique(np.linspace(0, n_rows - 1, _N_COMPARED).astype(int))
    X = rows.few.X.astype(np.float64, copy=False)
    keys, of_features = Frame(sampler.sigma_).rows(X), of_features[some]
    path = path_sums(Gaussian(), keys.take(some), keys, encoded, OCTAVES, some, 0)
    kernel_sums, ones = [sums.values for (sums,) in path], np.ones(len(some))
    y, weights = rows.few.y[some], rows.few.weights[some]
    share = weights / weights.sum()
    errors = {}  # by score, of features and of the kernel for each sigma
    if targets.are_labels:
        factors, batch = _class_factors(encoded, seen)[some], Batch(X[some], y, weights)
        found = [of_features]
        found += [_probabilities_of(sums * factors, ones, seen) for sums in kernel_sums]
        errors["accuracy"] = [mistakes(each, y) for each in found]
        calibrated = [Recalibration.of(p, batch, tolerance=_COMPARED)(p) for p in found]
        errors["log loss"] = [-np.log(p[np.arange(len(y)), y]) for p in calibrated]
    else:
        given = ones, encoded[some], targets, seen
        of_kernel = [_errors_of_numbers(sums, *given) for sums in kernel_sums]
        errors["R^2"] = [of_features, *of_kernel]
    comparisons = []
    for score, (own, *others) in errors.items():
        best = min(others, key=lambda each: float(share @ each))
        gain, least = own - best, _COARSE_LOSS if score == "log loss" else _COARSE
        are_coarse = share @ gain > least and is_significant(gain, share, 2.5)
        means = np.array([share @ own, share @ best])
        if score == "R^2":  # where the kernel is useless, more features do not help
            are_coarse = are_coarse and means[1] < 0.9
        ours, exact = means if score == "log loss" else 1 - means
        comparisons.append(Comparison(score, ours, exact, n_rows, bool(are_coarse)))
    return next((each for each in comparisons if each.are_coarse), comparisons[0])


def _class_factors(encoded, seen):
    """Return factors for class sums that restore the class proportions of all rows.

    If sigma is small, the class sums are close to the class proportions. Leaving out a
    row then makes its own class less probable than other classes of the same size, and
    the random class proportions of a sample have a similar effect.
    """
    # encoded (n_rows, n_classes)
    rest = encoded.sum(axis=0) - encoded
    has_others = rest > _REMAINDER * encoded.sum()
    return np.where(has_others, seen.shares / np.where(has_others, rest, 1), 0)


def _probabilities_of(sums, share, seen):
    """Return class probabilities, given the kernel sums of the classes."""
    sums = np.where(np.any(sums > 0, axis=1, keepdims=True), sums, seen.shares)
    return probabilities(sums, seen.shares, share[:, None])


def _errors_of_labels(found, rows):
    """Return the error of each row's label plus a multiple of its calibrated log loss.

    Because few rows are misclassified, the error rate alone would often select sigma by
    chance. The log loss alone favours a large sigma, for which probabilities are less
    uniform, although random features then misclassify more rows.
    """
    calibrated = Recalibration.of(found, rows, tolerance=_COMPARED)(found)
    own = calibrated[np.arange(len(found)), rows.y]
    return mistakes(found, rows.y) - _LOG_LOSS * np.log(own)


def _errors_of_numbers(sums, share, encoded, targets, seen):
    """Return squared errors relative to the variance of the targets, (n_rows,)."""
    own = targets.weight(encoded)
    truth = weighted_means(encoded, own, seen.mean)
    found = seen.clipped(weighted_means(sums, targets.weight(sums), seen.mean))
    found += (1 - share[:, None]) * (seen.mean - found)
    spread = np.average((truth - seen.mean) ** 2, axis=0, weights=own)
    return (found - truth) ** 2 @ (1 / np.where(spread > 0, spread, 1))


def _best_for_numbers(errors, multiples, weights):
    """Return the index of the multiple 1 unless another is significantly better."""
    errors = np.stack(errors)
    best = last_least(errors @ weights)
    for default in np.flatnonzero(multiples == 1):
        if not is_significant(errors[default] - errors[best], weights):
            return int(default)
    return best


def _sums_over_other_rows(
    source: FeatureMap,
    X: Rows,
    encoded: np.ndarray,
    targets: Targets,
) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each row, kernel sums that exclude the row itself.

    The second array contains the weight of each kernel average, which is below 1 if the
    average is unreliable.
    """
    # X (n, d), encoded (n, k) -> (n, k), (n,)
    sums, found, share = FeatureSums(), np.zeros(encoded.shape), np.ones(len(encoded))
    for rows, mantissa, exponent in source.iter_log_features(X, key=True):
        sums = sums.with_rows(mantissa, exponent, encoded[rows])
    shift = sums.total.log_scale[:, 0]
    groups = None  # of the features; needed only if terms may cancel
    keys = source.iter_log_features(X, key=True)
    queries = source.iter_log_features(X, key=False)
    for (rows, mantissa, exponent), (_, *key) in zip(queries, keys, strict=True):
        weights, _ = sums.scaled(mantissa, exponent)
        features = exp_features(key[0], None if key[1] is None else key[1] - shift)
        kernel = np.einsum("nm,nm->n", weights, features)
        total = weights @ sums.sums
        rest = total - kernel[:, None] * encoded[rows]
        size = np.abs(weights) @ np.abs(sums.sums)
        found[rows] = np.where(np.abs(rest) > _REMAINDER * size, rest, 0)
        cancels = find_cancelling(mantissa, sums.signed)
        if cancels is not None:
            if groups is None:
                index = source.frequency_index()
                groups = group_columns(index, source.n_components)
                shares = group_shares(index, source.n_components)
                parts_of_sums = split_sums(targets.weight(sums.sums), groups)
            own = targets.weight(encoded[rows])[:, None]
            parts = (weights * features) @ split_sums(np.ones(groups.size), groups)
            parts = weights @ parts_of_sums - parts * own
            error = where_cancels(cancels, standard_error(parts, shares))
            share[rows] = trust(targets.weight(found[rows]), error)
    return found, share
