"""Moments of targets and rows, from which local linear fits are computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._compat import cached_property
from ..arrays.namespaces import (
    Array,
    DType,
    asarray_like,
    float_types,
    namespace_of,
    row_slices,
    taken,
    to_host,
)
from ..arrays.validation import as_kind
from ..rows import Inputs
from ._target_columns import ClassCounts, TargetMoments, Targets

if TYPE_CHECKING:
    from ._prototypes import Points

ALPHAS = np.inf, 10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 0.0  # inf: kernel average
_ROWS = 2**14  # number of rows whose products are held in memory at a time
_FLOOR = 1e-7  # smallest penalty, in units of the squared length scale
# Linear fits extrapolate over at most this many local standard deviations, unless the
# targets contain hardly any noise. Few queries near the training rows reach the limit.
_MOST_DEVIATIONS = 20.0
# If the leave-one-out error is known, the limit is _LIMIT divided by the proportion of
# the variance that is not explained, and at least _LEAST_LIMIT. Hardly any row that is
# distributed as the training rows is so far from its neighbours.
_LIMIT, _LEAST_LIMIT = 3.0, 5.0
# variances below this multiple of the mean square times machine epsilon count as zero
_ROUNDING = 1e3
# For each query, the moments of d columns take d^2 / 2 numbers. With more than
# _MOST_COLUMNS columns, slopes are therefore computed for the leading directions only.
_MOST_COLUMNS, _N_DIRECTIONS = 40, 24
# smaller variances along principal directions, relative to the largest, count as zero
_NO_VARIANCE = 1e-12
# If there are at most _ALL_ROWS training rows, each query uses all of them. Otherwise
# it uses rows whose kernel values exceed a limit. The limit is lowered, in at most
# _STEPS steps, until they have at least the share _LEAST_SHARE of the sample weights.
_ALL_ROWS, _LEAST_SHARE, _STEPS = 1000, 0.03, 7
# at least the kernel value that replaces smaller ones, see ``exp_products``
_VANISHING = 1e-307
# numbers of rows, with their products, and of queries that are processed at a time
_MOMENT_ROWS, _QUERIES = 2**10, 16


@dataclass(frozen=True)
class LocalLinear(Targets):
    """Moments of rows and targets, which determine a linear fit at each query.

    The notation is explained in ``LocalLinearRegressor``. All computations are in
    float64, because differences of moments suffer from cancellation.

    If there are more than 40 columns, the linear functions vary only along the leading
    principal directions of the rows, the ``basis``. The kernel uses all columns.
    """

    plain: Targets
    remainder: float  # maximum proportion of the kernel weight to leave out
    # candidate penalties, (n_alphas,); infinity stands for the kernel average
    alphas: tuple[float, ...] = ALPHAS
    # maximum length of an extrapolation in local standard deviations
    limit: float = field(default=_MOST_DEVIATIONS, compare=False)
    # (d, n_directions); None if there is a slope for each column
    basis: np.ndarray | None = field(default=None, compare=False, repr=False)

    def is_wide(self, n_features: int) -> bool:
        return n_features > _MOST_COLUMNS

    def adapted(self, rows: Inputs, weights: np.ndarray) -> Targets:
        if not self.is_wide(rows.shape[1]):
            return self
        x = to_host(rows.dense).astype(np.float64)
        share = to_host(weights).astype(np.float64)
        share = share / share.sum()
        x = x - share @ x
        variances, directions = np.linalg.eigh((x.T * share) @ x)
        # rounding errors determine directions along which the rows do not vary
        n_varying = int(np.sum(variances > _NO_VARIANCE * variances[-1]))
        n_directions = max(1, min(n_varying, _N_DIRECTIONS))
        # a copy, because a view would keep all directions in memory and in pickles
        return replace(self, basis=directions[:, : -n_directions - 1 : -1].copy())

    def contribution(self, own: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return what to subtract from each prototype to leave out one of its rows.

        If there are many columns, only the mean of a prototype's rows contributes to
        the moments. If one row is left out, the mean of the others is used instead.
        """
        if self.basis is None:
            return own
        n_first = self._n_plain + self.basis.shape[1]
        rest = group[:, :n_first] - own[:, :n_first]
        weight = self.weight(rest)[:, None]
        means = rest / np.where(weight > 0, weight, 1)
        products = _products(means[:, self._n_plain :], means[:, : self.n_averages])
        left = np.hstack([rest, np.maximum(weight, 0) * products])
        return group - left

    def solved_for(self, kind: type[LocalLinear]) -> LocalLinear:
        """Convert to a subclass whose ``solve`` returns other quantities."""
        return kind(**{each.name: getattr(self, each.name) for each in fields(self)})

    def _along_basis(self, x: Array) -> Array:
        """Return coordinates of rows along the directions of the fitted slopes."""
        return x if self.basis is None else x @ asarray_like(self.basis, x)

    def encode(
        self, y: Array, weights: Array, dtype: DType = None, *of_rows: Inputs | Array
    ) -> Array:
        """Return the weighted targets, rows, and products of both with the rows."""
        # (n, k), (n, d), (n, d (d + 1) / 2 + n_averages d)
        columns, *whole = self.prepared(y, weights, dtype, *of_rows)
        (whole,) = whole or [self._with_products(columns)]
        return namespace_of(whole).astype(weights, whole.dtype)[:, None] * whole

    def prepared(
        self, y: Array, weights: Array, dtype: DType, *of_rows: Inputs | Array
    ) -> tuple[Array, ...]:
        """Return targets and rows without weights and, for prototypes, their products.

        For prototypes, the products include the central second moments of their rows.
        The products of training rows are not stored, because they need too much memory.
        """
        # (n, k + d), and (n, k + d + n_products) for prototypes
        rows, *spread = of_rows
        xp, wide = namespace_of(weights), float_types(weights)[0]
        x = self._along_basis(xp.astype(rows.dense, wide))
        ones = xp.ones_like(xp.astype(weights, wide))
        columns = xp.concat([self.plain.encode(y, ones, wide), x], axis=1)
        return columns, *(self._with_products(columns, about) for about in spread)

    def _with_products(self, columns: Array, spread: Array | None = None) -> Array:
        """Return the targets, the rows and their products, without weights."""
        x = columns[:, self._n_plain :]
        products = _products(x, columns[:, : self.n_averages])
        if spread is not None:
            products = products + spread
        return namespace_of(columns).concat([columns.T, products.T], axis=0).T

    def kept(self, kernel: Array, weights: Array | None) -> Array:
        """Return which training rows are used, given kernel values and sample weights.

        The other rows account for at most a fraction ``remainder`` of the kernel weight
        of a query, because each of their kernel values is at most this fraction of the
        weighted mean. The limit is lowered for queries that would use only a few rows.
        Otherwise the slope could not be determined outside the range of the training
        rows, where the nearest row may have nearly all the weight. A row of weight 2
        has the same effect as a repeated row.
        """
        # kernel (n_queries, n_rows), weights (n_rows,) -> (n_queries, n_rows)
        xp, remainder = namespace_of(kernel), self.remainder
        n_rows = kernel.shape[1]
        if n_rows <= _ALL_ROWS or remainder == 0:
            return kernel > _VANISHING
        equal = xp.ones_like(kernel[0, :]) if weights is None else weights
        shares = equal / xp.sum(equal)
        limits = remainder * to_host(kernel @ shares)
        kept = some = kernel > asarray_like(limits[:, None], kernel)
        few = np.arange(len(limits))  # queries that still use too few rows
        for _ in range(_STEPS):
            found = [
                to_host(xp.astype(some[rows, ...], shares.dtype) @ shares)
                for rows in row_slices(len(few), _QUERIES)
            ]
            few = few[np.concatenate(found) < _LEAST_SHARE]
            if not few.size:
                break
            limits[few] = np.maximum(limits[few] * remainder, _VANISHING)
            some = taken(kernel, few) > asarray_like(limits[few, None], kernel)
            remainder **= 2
        if remainder < self.remainder:  # some limits have been lowered
            kept = kernel > asarray_like(limits[:, None], kernel)
        return kept

    def moments(
        self, kernel: Array, weights: Array | None, columns: Array, *whole: Array
    ) -> Array:
        """Return the sums of the encoded rows that are used, for each query.

        The kernel values are overwritten.
        """
        # kernel (n_queries, n_rows), weights (n_rows,) -> (n_queries, n_columns)
        kernel = namespace_of(kernel).astype(kernel, columns.dtype, copy=False)
        kept = self.kept(kernel, weights)
        if weights is not None:
            kernel *= weights
        if not isinstance(kernel, np.ndarray):
            kernel = namespace_of(kernel).where(kept, kernel, 0.0)
        else:
            (n_queries, n_rows), width = kept.shape, columns.shape[1]
            # Gathering a row takes a few times as long as including it in a product for
            # all queries, and the overhead of each query is that of gathering 250 rows.
            # Products of columns, once per batch, take as long as a few queries.
            n_gathered = np.count_nonzero(kept) + 250 * n_queries
            are_many = (2 + 50 / width) * n_gathered > (n_queries + 16) * n_rows
            if not (whole or are_many):
                return self._moments_of_kept(kernel, kept, columns)
            kernel *= kept
        if whole:
            return kernel @ whole[0]
        return sum(
            kernel[:, rows] @ self._with_products(columns[rows, ...])
            for rows in row_slices(columns.shape[0], _MOMENT_ROWS)
        )

    def _moments_of_kept(
        self, weights: np.ndarray, kept: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Return the moments, gathering the rows that each query uses."""
        # weights, kept (n_queries, n_rows), columns (n_rows, k + d)
        n_plain, (n_queries, width) = self._n_plain, (len(kept), columns.shape[1])
        sums = np.zeros((n_queries, width))
        products = np.zeros((n_queries, width, width))
        for j, own in enumerate(weights):
            index = np.flatnonzero(kept[j])
            # gathering most rows would take longer than multiplying all rows
            if are_most := 4 * index.size > 3 * own.size:
                own = own * kept[j]
            for start in range(0, own.size if are_most else index.size, _MOMENT_ROWS):
                some = slice(start, start + _MOMENT_ROWS)
                if are_most:
                    rows, shares = columns[some], own[some]
                else:  # this method is faster than indexing with an array
                    rows, shares = columns.take(index[some], axis=0), own[index[some]]
                sums[j] += shares @ rows
                products[j] += (rows * shares[:, None]).T @ rows
        i, k = _upper(width - n_plain)
        squares = products[:, n_plain + i, n_plain + k]
        mixed = products[:, : self.n_averages, n_plain:].reshape(n_queries, -1)
        return np.hstack([sums, squares, mixed])

    def n_products(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2 + self.n_averages * n_features

    def spread_of(
        self, points: Points, share: np.ndarray, labels: np.ndarray
    ) -> csr_array:
        """Return the central second moments of the rows in each group of points.

        ``share`` is the weight of each point relative to its group.
        """
        # share and labels (n,) -> (n_groups, n_products)
        rows, y = points.centers.points, points.y
        if self.is_wide(rows.shape[1]):
            # the moments would take d^2 / 2 numbers per prototype; without them, linear
            # functions are fitted to the means of the groups
            return csr_array((labels.max() + 1, points.spread.shape[1]))
        x = np.asarray(as_kind(rows, np.ndarray), np.float64)
        t = self.plain.encode(y, np.ones(len(y)), np.float64)[:, : self.n_averages]
        mean = csr_array((share, (labels, np.arange(len(y)))))
        mean_x, mean_t = mean @ x, mean @ t
        found = (mean @ points.spread).toarray()
        for some in row_slices(len(y), _ROWS):
            gaps = x[some] - mean_x[labels[some]], t[some] - mean_t[labels[some]]
            found += mean[:, some] @ _products(*gaps)
        return csr_array(found)

    def scaled(self, spread: csr_array, sigma: float | np.ndarray) -> np.ndarray:
        d = _n_features(spread.shape[1], self.n_averages, 0)
        if self.is_wide(d):  # ``spread_of`` stores no moments
            return np.zeros((spread.shape[0], 1))
        x = np.broadcast_to(np.asarray(sigma, np.float64), (1, d))
        return spread.toarray() * _products(x, np.ones((1, self.n_averages)))

    @cached_property
    def are_labels(self) -> bool:  # type: ignore[override]
        return self.plain.are_labels

    @cached_property
    def n_averages(self) -> int:  # type: ignore[override]
        return self.plain.n_averages

    @cached_property
    def _n_plain(self) -> int:
        return self.n_averages + (not self.are_labels)

    def weight(self, sums: Array) -> Array:
        return self.plain.weight(sums[:, : self._n_plain])

    def statistics_of(self, y: Array, weights: Array) -> ClassCounts | TargetMoments:
        return self.plain.statistics_of(y, weights)

    def candidates(self) -> tuple[Targets, ...]:
        """Return the kernel average, and local linear fits with several penalties."""
        return tuple(replace(self, alphas=(alpha,)) for alpha in self.alphas)

    def with_error(self, error: float) -> Targets:
        """Return a copy that extrapolates further if the error is small.

        ``error`` is the mean squared leave-one-out error divided by the variance of the
        targets, summed over the outputs.
        """
        if self.are_labels:
            return self
        return replace(self, limit=max(_LEAST_LIMIT, _LIMIT / max(error, 1e-300)))

    def reduced(self) -> Targets:
        return self.plain if self.alphas == (np.inf,) else self

    def solve(self, sums: Array, queries: Inputs, sigma: float | np.ndarray) -> Array:
        (found,) = self.solve_all(to_host(sums), queries, 1.0, self.limit)
        return asarray_like(found, sums)

    def solve_all(
        self, sums: np.ndarray, queries: Inputs, sigma: float, limit: float = np.inf
    ) -> np.ndarray:
        plain = sums[:, : self._n_plain]
        if self.alphas == (np.inf,):
            return plain[None]
        fit = self._fit(sums)
        gaps = fit.shrunk(self._gaps(fit, queries), self.alphas, sigma, limit)
        predictions = fit.means + np.einsum("rqi,qik->rqk", gaps, fit.products)
        found = np.tile(plain, (len(self.alphas), 1, 1))
        weight = self.plain.weight(plain)[:, None]
        found[:, :, : self.n_averages] = weight * predictions
        return found

    def _gaps(self, fit: Fits, queries: Inputs) -> np.ndarray:
        """Return q - m for each query q, in the principal directions of its fit."""
        x = self._along_basis(to_host(queries.dense).astype(np.float64))
        return np.einsum("qi,qij->qj", x - fit.centers, fit.directions)

    def _fit(self, sums: np.ndarray) -> Fits:
        """Return the linear fits of queries, given their kernel sums."""
        weight = self.weight(sums)[:, None]
        sums = sums / np.where(weight > 0, weight, 1)
        k, n_plain = self.n_averages, self._n_plain
        d = _n_features(sums.shape[1] - n_plain, k, 1)
        means, ends = sums[:, :k], n_plain + np.cumsum([d, d * (d + 1) // 2])
        centers, squares, products = np.split(sums, ends, axis=1)
        centers = centers[:, n_plain:]
        G = np.zeros((len(sums), d, d))
        upper = _upper(d)
        G[:, upper[1], upper[0]] = squares  # eigh reads only the lower triangle
        size = np.trace(G, axis1=1, axis2=2) / d
        G -= centers[:, :, None] * centers[:, None, :]
        c = products.reshape(-1, k, d) - means[:, :, None] * centers[:, None, :]
        variances, directions = np.linalg.eigh(G)
        least = _ROUNDING * np.finfo(np.float64).eps * np.where(size > 0, size, 1)
        products = (c @ directions).swapaxes(1, 2)
        # Slopes are set to zero along directions in which the variance is only a
        # rounding error. There are such directions if fewer rows than features have
        # positive weights; arbitrary slopes along them would determine the penalty.
        products *= (variances > least[:, None])[:, :, None]
        return Fits(
            means=means,
            centers=centers,
            variances=np.maximum(variances, 0),
            directions=directions,
            products=products,
            least=least[:, None],
        )


class Fits(NamedTuple):
    """Linear fits at queries, in terms of the principal directions of weighted rows."""

    means: np.ndarray  # (n_queries, n_averages)
    centers: np.ndarray  # (n_queries, d)
    variances: np.ndarray  # (n_queries, d)
    directions: np.ndarray  # (n_queries, d, d)
    products: np.ndarray  # (n_queries, d, n_averages), covariances with the targets
    least: np.ndarray  # (n_queries, 1), smallest penalty that exceeds rounding errors

    def penalized(self, alphas: tuple[float, ...], sigma: float) -> np.ndarray:
        """Return the variances plus the penalties, for rows multiplied by sigma."""
        # -> (n_alphas, n_queries, d)
        spread = self.variances.mean(axis=1, keepdims=True)
        penalties = [
            np.maximum(alpha * spread + _FLOOR / sigma**2, self.least)
            if 0 < alpha < np.inf
            else np.full_like(self.least, np.inf)
            if alpha
            else self.least
            for alpha in alphas
        ]
        return self.variances + np.stack(penalties)

    def shrunk(
        self, gaps: np.ndarray, alphas: tuple[float, ...], sigma: float, limit: float
    ) -> np.ndarray:
        """Return q - m divided by penalized variances, after limiting its length.

        Far from the training rows, nearly all the weight belongs to a few rows close to
        each other, and noise in their targets would determine the extrapolation.
        """
        # (n_queries, d) -> (n_alphas, n_queries, d)
        penalized = self.penalized(alphas, sigma)
        # without a penalty, directions in which the rows do not vary are not counted
        counted = np.where(penalized > 2 * self.least, gaps, 0) / np.sqrt(penalized)
        deviations = np.linalg.norm(counted, axis=2, keepdims=True)
        shrunk = gaps / penalized * np.minimum(1, limit / np.maximum(deviations, 1))
        return np.where(self.variances > self.least, shrunk, 0)


@dataclass(frozen=True)
class Slopes(LocalLinear):
    """Moments of local linear fits, from which slopes are computed."""

    def solve(self, sums: Array, queries: Inputs, sigma: float | np.ndarray) -> Array:
        """Return the slopes, (n_queries, n_features * n_averages)."""
        fit = self._fit(to_host(sums))
        (penalized,) = fit.penalized(self.alphas, 1.0)
        slopes = fit.directions @ (fit.products / penalized[:, :, None])
        if self.basis is not None:
            slopes = self.basis @ slopes
        slopes *= np.broadcast_to(to_host(sigma), (1, slopes.shape[1]))[:, :, None]
        return asarray_like(slopes.reshape(len(slopes), -1), sums)


@dataclass(frozen=True)
class Planes(LocalLinear):
    """Moments of local linear fits, used to solve for the weights of training rows."""

    def solve(self, sums: Array, queries: Inputs, sigma: float | np.ndarray) -> Array:
        """Return a = (G + lambda I)^-1 (q - m), and a'm, (n_queries, d + 1).

        In the prediction, a row x of kernel weight w has the weight w (1 + a'x - a'm).
        The difference q - m is limited as in the prediction.
        """
        sums = to_host(sums)
        fit, some = self._fit(sums), self.weight(sums) > 0
        (gaps,) = fit.shrunk(self._gaps(fit, queries), self.alphas, 1.0, self.limit)
        a = np.einsum("qij,qj->qi", fit.directions, gaps) * some[:, None]
        offsets = np.sum(a * fit.centers, axis=1, keepdims=True)
        return np.hstack([a if self.basis is None else a @ self.basis.T, offsets])


@cache
def _upper(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the upper triangle of a d x d matrix."""
    return np.triu_indices(d)


def _products(x: Array, t: Array) -> Array:
    """Return the products of the columns of x with each other and with those of t."""
    # (n, d), (n, k) -> (n, d (d + 1) / 2 + k d)
    xp = namespace_of(x)
    # copies with contiguous columns are multiplied several times as fast
    x, t = (xp.reshape(xp.reshape(a.T, (-1,)), a.T.shape) for a in (x, t))
    squares = [x[i:, :] * x[i, :] for i in range(x.shape[0])]
    mixed = [x * t[i, :] for i in range(t.shape[0])]
    return xp.concat([*squares, *mixed], axis=0).T


def _n_features(n_columns: int, n_averages: int, n_alone: int) -> int:
    """Return d such that d (d + 1) / 2 + (n_averages + n_alone) d equals n_columns."""
    b = 0.5 + n_averages + n_alone
    return round(math.sqrt(b * b + 2 * n_columns) - b)
