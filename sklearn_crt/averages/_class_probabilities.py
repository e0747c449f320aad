"""Class probabilities from the kernel sums of the classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import kl_div

from ..arrays.namespaces import Array, asarray_like, at_least, namespace_of, taken
from ..life_cycle.fitted import computed_once
from ._kernel_rows import DrawnRows, all_rows

if TYPE_CHECKING:
    from ._fitted_averages import RowAverages

# candidates for the amount and the exponent
_AMOUNTS = np.geomspace(0.05, 10, 9).tolist()
_EXPONENTS = (2.0 ** np.arange(-0.75, 2.25, 0.25)).tolist()
# The leave-one-out log loss includes this number of additional rows with random labels.
# Without them, it would be too optimistic if none of a few rows is misclassified, or in
# a learned metric, which depends on the labels of all rows.
_RANDOM_ROWS = 2
# The log loss hardly depends on the totals of the probabilities of rare classes. Their
# divergence from the class shares is therefore added to it, multiplied by the number of
# rows divided by _ROWS_OF_TOTALS, but at most by _MOST_OF_TOTALS.
_ROWS_OF_TOTALS, _MOST_OF_TOTALS = 70, 10
_NEGLIGIBLE = (
    1e-5  # relative to what smoothing adds; below the precision of float32 logs
)
_MOST_ROWS, _LEAST_ROWS = 1000, 200  # limits on the number of rows left out one by one
_MOST_PRODUCTS = 2**33  # limit on the number of kernel values times target columns


def normalised(scores, prior, weight):
    """Return scores divided by the sum of the positive scores.

    ``weight`` is the weight of the scores in an average with the class prior. It is
    increased if necessary, so that the class that ``predict`` returns has the largest
    score.
    """
    xp = namespace_of(scores)
    total = xp.sum(at_least(scores, 0.0), axis=1, keepdims=True)
    shares = scores / total
    if weight is None:
        return shares
    first = xp.argmax(scores, axis=1)
    lead = xp.max(shares, axis=1, keepdims=True) - shares
    behind = at_least(prior - xp.take(prior, first)[:, None], 0.0)
    # the lower bound of the divisor turns 0 / 0 into 0
    least = behind / at_least(lead + behind, 1e-30)
    least = xp.max(least, axis=1, keepdims=True)
    weight = at_least(weight, least + 1e-3 * (1 - least))  # so that no tie remains
    return weight * shares + (1 - weight) * prior


def probabilities(scores, prior, weight):
    """Return normalised scores after replacing negative scores by 0."""
    return normalised(at_least(scores, 0.0), prior, weight)


def class_shares(scores, prior):
    """Return scores divided by their sum, and whether each sum is positive.

    Where the sum is not positive, the shares are the class prior.
    """
    xp = namespace_of(scores)
    total = xp.sum(scores, axis=1)
    known = total > 0
    divisors = xp.where(known, total, xp.ones_like(total))[:, None]
    return xp.where(known[:, None], scores / divisors, prior), known


class Smoothing(NamedTuple):
    """Additive smoothing and temperature scaling of class frequencies.

    If the frequencies p of K classes are based on effectively n training rows, the
    probabilities are proportional to ((n p + amount / K) / (n + amount))^exponent. The
    order of the classes by probability does not change, and no probability is 0 or 1.
    """

    amount: float = 1.0  # number of rows to add, divided equally among the classes
    exponent: float = 1.0
    rows_per_weight: float = 1.0  # makes results independent of the unit of the weights

    @classmethod
    def of(cls, value: RowAverages) -> Smoothing:
        """Return the smoothing with the lowest penalised leave-one-out log loss."""
        return computed_once(value, "smoothing", lambda: cls._best(value))

    @classmethod
    def _best(cls, value: RowAverages) -> Smoothing:
        keys = value.solution
        X, y, weights = all_rows(keys)
        if not value.keeps_all_rows:
            # leave-one-out frequencies cannot be computed without the rows
            return cls(rows_per_weight=max(1.0, float(len(y) / weights.sum())))
        n_columns = keys.targets.n_averages + keys.targets.n_products(X.shape[1])
        n_rows = int(_MOST_PRODUCTS // (len(y) * n_columns))
        n_rows = min(max(n_rows, _LEAST_ROWS), _MOST_ROWS)
        few = DrawnRows.of(weights, n_rows)
        # inverse of a typical weight, to which tiny weights hardly contribute
        scale = float(few.weights.sum() / (few.weights @ few.weights))
        queries = taken(X, few.places)
        found = [s for _, s in keys.sums(queries, own=few.places, measured=True)]
        scores = np.concatenate([sums.scores for sums in found])
        scores = np.maximum(scores[:, : keys.targets.n_averages], 0)
        total = scores.sum(axis=1)
        sizes = np.concatenate([s.totals.sizes for s in found if s.totals is not None])
        # the remaining rows get the class prior, which smoothing does not change
        rows = np.flatnonzero((total > 0) & np.isfinite(sizes))
        shares, sizes = scores[rows] / total[rows, None], sizes[rows]
        labels, weights = y[few.places[rows]], few.weights[rows]
        place = np.arange(len(rows)), labels
        n_effective = scale * few.weights.sum()
        added = _RANDOM_ROWS / n_effective
        expected = np.bincount(labels, weights, shares.shape[1])
        if len(few.places) < len(y):  # the class shares of all rows are less random
            expected = value.seen.shares * weights.sum()
        of_totals = min(n_effective / _ROWS_OF_TOTALS, _MOST_OF_TOTALS)

        def losses(amount: float) -> list[float]:
            """Return the loss with each exponent."""
            once = cls(amount, 1.0, scale).probabilities(shares, sizes)
            values, logs_once = [], np.log(once)
            for exponent in _EXPONENTS:
                logs = exponent * logs_once
                found = np.exp(logs)
                sums = found.sum(axis=1)
                total = weights @ (found / sums[:, None])
                logs -= np.log(sums)[:, None]
                value = weights @ (logs[place] + added * logs.mean(axis=1))
                values.append(of_totals * kl_div(expected, total).sum() - float(value))
            return values

        best = int(np.argmin(np.concatenate([losses(a) for a in _AMOUNTS])))
        amount, exponent = divmod(best, len(_EXPONENTS))
        return cls(_AMOUNTS[amount], _EXPONENTS[exponent], scale)

    def probabilities(self, shares: Array, sizes: np.ndarray) -> Array:
        """Return smoothed probabilities, given frequencies and their sample sizes."""
        # (n_rows, n_classes), (n_rows,) -> (n_rows, n_classes)
        xp, n_classes = namespace_of(shares), shares.shape[1]
        if n_classes == 1:
            return shares
        # where all kernel values vanish, the class prior remains unchanged
        powers = np.where(np.isinf(sizes), 1.0, self.exponent)
        added = self.amount / n_classes / (self.rows_per_weight * sizes)
        powers, added = (asarray_like(a[:, None], shares) for a in (powers, added))
        # Shares that hardly change the smoothed values count as zero. Otherwise,
        # rounding errors would decide the order of classes without rows nearby.
        found = at_least(shares, 0.0)
        found = xp.where(found > _NEGLIGIBLE * added, found, 0.0 * found) + added
        found = (found / xp.max(found, axis=1, keepdims=True)) ** powers
        return found / xp.sum(found, axis=1, keepdims=True)
