"""Moments of features and targets, and their ridge regression for all penalties."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh, qr

from .._compat import cached_property
from .._workers import Workspace
from ..rows import type_for_weights


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, means and centred products of features Z and targets Y, in float64.

    ``a + b`` are the moments of the rows of both, by the parallel formula of Chan,
    Golub and LeVeque (1979). Products are taken about the mean, so that no digits are
    lost by cancellation.
    """

    weight: float
    z_mean: np.ndarray  # (D,)
    y_mean: np.ndarray  # (k,)
    gram: np.ndarray  # (D, D), of Z with Z
    cross: np.ndarray  # (D, k), of Z with Y
    squares: np.ndarray  # (k,), of Y with itself
    eps: float  # machine epsilon of the floating type of the features
    n_rows: int  # number of rows, whatever their weights

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / weight
        z, y = other.z_mean - self.z_mean, other.y_mean - self.y_mean
        gram = np.multiply.outer(z, z * (share * self.weight))
        gram += self.gram
        gram += other.gram
        return Moments(
            weight,
            self.z_mean + share * z,
            self.y_mean + share * y,
            gram,
            self.cross + other.cross + np.outer(z, y * (share * self.weight)),
            self.squares + other.squares + share * self.weight * y**2,
            max(self.eps, other.eps),
            self.n_rows + other.n_rows,
        )

    def about_zero(self) -> Moments:
        """Return the uncentred moments, for models without an intercept."""
        z, y, weight = self.z_mean, self.y_mean, self.weight
        return Moments(
            weight,
            np.zeros_like(z),
            np.zeros_like(y),
            self.gram + weight * np.outer(z, z),
            self.cross + weight * np.outer(z, y),
            self.squares + weight * y**2,
            self.eps,
            self.n_rows,
        )

    def divided_by(self, unit: float) -> Moments:
        """Return the moments for weights that are divided by a number."""
        names = "weight", "gram", "cross", "squares"
        return replace(self, **{name: getattr(self, name) / unit for name in names})


class MomentSums:
    """Accumulates moments chunk by chunk, about the mean of the first chunk.

    Products are computed in the type of the features and accumulated in float64.
    """

    def __init__(self) -> None:
        self._weight, self._eps, self._n_rows = 0.0, 0.0, 0
        self._workspace = Workspace()

    def add(self, Z: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Add a chunk of rows with positive weights."""
        # Z (n, D), Y (n, k), weights (n,)
        known = Z.dtype in (np.float32, np.float64)
        dtype = type_for_weights(weights, Z.dtype if known else np.dtype(np.float64))
        Z = Z.astype(dtype, copy=False)
        if self._weight == 0:
            self._start(Z, Y, weights / weights.sum())
        self._eps = max(self._eps, float(np.finfo(Z.dtype).eps))
        self._weight += float(weights.sum())
        self._n_rows += len(weights)
        # not in place: with kernel="linear" the features belong to the caller
        centred = self._workspace.buffer("centred", Z.shape, Z.dtype)
        np.subtract(Z, self._z_shift.astype(Z.dtype), out=centred)
        residuals = Y - self._y_shift
        self._z_sum += weights.astype(Z.dtype) @ centred
        self._y_sum += weights @ residuals
        with np.errstate(over="ignore"):
            self._squares += weights @ np.square(residuals)
        if np.any(weights != 1):
            root = np.sqrt(weights)[:, None]
            centred *= root.astype(Z.dtype)
            residuals = residuals * root
        product = self._workspace.buffer("product", self._gram.shape, Z.dtype)
        # overflow is reported by moments()
        with np.errstate(over="ignore", invalid="ignore"):
            self._gram += np.matmul(centred.T, centred, out=product)
            self._cross += centred.T @ residuals.astype(Z.dtype)

    def _start(self, Z: np.ndarray, Y: np.ndarray, share: np.ndarray) -> None:
        n_columns, n_outputs = Z.shape[1], Y.shape[1]
        # rounded to the type of the features, so that exactly this number is subtracted
        self._z_shift = (share @ Z).astype(Z.dtype).astype(np.float64)
        self._y_shift = share @ Y
        self._z_sum, self._y_sum = np.zeros(n_columns), np.zeros(n_outputs)
        self._gram = np.zeros((n_columns, n_columns))
        self._cross = np.zeros((n_columns, n_outputs))
        self._squares = np.zeros(n_outputs)

    def moments(self) -> Moments:
        """Return the moments of all rows; call this only once, as it works in place."""
        z, y = self._z_sum / self._weight, self._y_sum / self._weight
        with np.errstate(over="ignore", invalid="ignore"):
            self._gram -= np.multiply.outer(z, self._z_sum)
            self._cross -= np.outer(z, self._y_sum)
        sums = self._gram, self._cross, self._squares
        if not all(np.isfinite(each).all() for each in sums):
            raise ValueError(
                "Products of features, or of features and targets, are too large for "
                "their type. Scale the columns and the targets, or use float64."
            )
        squares = np.maximum(self._squares - y * self._y_sum, 0)
        means = self._z_shift + z, self._y_shift + y
        sums = self._gram, self._cross, squares
        return Moments(self._weight, *means, *sums, self._eps, self._n_rows)


N_ALPHAS = 30  # number of penalties of alpha="auto"
# The grid starts at _LEAST times the mean squared norm of the features of a row, and
# ends at _MOST times the largest eigenvalue.
_LEAST, _MOST = 1e-7, 10.0
# Gamma, by which the degrees of freedom of the fit are multiplied in the scores, and
# the minimum number of residual degrees of freedom per row. In regression the plain
# score (gamma = 1) chooses too small a penalty if the leverages differ widely or if
# there are about as many columns as rows. In classification the label is that of the
# largest indicator, for which a smaller penalty is best than for the squared error, as
# long as the model does not interpolate.
_OF_NUMBERS = 1.2, 0.01
_OF_CLASSES = 1.0, 0.5
# standard deviation, relative to the mean, below which targets count as constant
_CONSTANT = 1e-14
# Sums of squared residuals below this share of the total sum of squares count as equal.
# Their rounding errors are about a thousandth of it, so neither the order of the rows
# nor the number of threads affects the choice of sigma.
_EXACT = 2e-12
# Maximum prior standard deviation of the function (by the prior that corresponds to a
# penalty), relative to that of the targets. With a larger one, predictions for rows far
# from the others become unreasonably large.
_MOST_SPREAD = 30.0


@dataclass(frozen=True, eq=False)
class Solution:
    """The coefficients for the best penalties, and the scores of all penalties."""

    z_mean: np.ndarray  # (D,)
    y_mean: np.ndarray  # (k,)
    coef: np.ndarray  # (D, k)
    alpha: np.ndarray  # (k,)
    alphas: np.ndarray  # (n_alphas,), the candidates
    scores: np.ndarray  # (n_alphas, k), or (n_alphas, 1) if outputs share a penalty
    degrees_of_freedom: np.ndarray  # (n_alphas,), traces of the hat matrices
    score: float  # the one that selects sigma
    noise: np.ndarray  # (k,), infinite if it cannot be estimated
    mean_weight: float  # of the rows, without the weights of classes
    n_rows: float  # number of rows that the scores assume
    mean_variance: float  # of the mean target, relative to the noise variance
    # Variances are sums of the squares of features along axes, times some factors. A
    # triangular matrix of axes is stored as the one-dimensional array of its entries.
    axes: np.ndarray | None  # (D, r); None if variances are not needed
    factors: np.ndarray | None  # (r, k), or (r, 1) if outputs share a penalty

    @property
    def intercept(self) -> np.ndarray:
        """Prediction for a row whose features are all zero, (k,)."""
        return self.y_mean - self.z_mean @ self.coef

    def packed(self) -> Solution:
        """Return an equal solution, whose axes take half the memory if possible."""
        axes, factors = self.axes, self.factors
        if axes is None or factors is None or axes.ndim == 1:
            return self
        if np.any(self.alpha != self.alpha[0]):
            return self
        scaled: np.ndarray = axes * np.sqrt(factors[:, 0])
        (upper,) = qr(scaled.T, mode="r", check_finite=False)  # (r, D)
        entries = upper.T[np.tril_indices(upper.shape[1], 0, upper.shape[0])]
        return replace(self, axes=entries, factors=np.ones((len(upper), 1)))

    @cached_property
    def _axes(self) -> np.ndarray:
        """The axes as a matrix, (D, r)."""
        assert self.axes is not None
        assert self.factors is not None
        if self.axes.ndim == 2:
            return self.axes
        shape = len(self.z_mean), len(self.factors)
        axes = np.zeros(shape)
        axes[np.tril_indices(shape[0], 0, shape[1])] = self.axes
        return axes

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return the predictions for rows of features, (n, k)."""
        return (Z - self.z_mean) @ self.coef + self.y_mean

    def variance(self, Z: np.ndarray) -> np.ndarray:
        """Return the variances of new targets for rows of features, (n, k)."""
        along = ((Z - self.z_mean) @ self._axes) ** 2
        return self.noise * (1 + self.mean_variance + along @ self.factors)


class Regression:
    """Ridge regression for given moments and all penalties.

    Let S = Z'Z be the Gram matrix of the features and K the penalty matrix, and solve
    the generalised eigenproblem S v = w K v with V'KV = 1. Then the coefficients are
    V (w + alpha)^-1 V' Z'y, and the trace of the hat matrix is sum w / (w + alpha).
    """

    def __init__(
        self,
        moments: Moments,
        penalty: np.ndarray | None,
        alphas: Any,
        *,
        fit_intercept: bool,
        shared: bool,
        weight: float,
    ):
        # penalty (D, D), None for the identity; alphas (n_alphas,) or "auto"
        # weight is the sum of the weights, without the weights of classes
        self.mean_weight = weight / moments.n_rows
        # Weights below 1 on average are divided by their mean. They cannot be the
        # numbers of copies of rows, so the number of rows is known only by counting.
        self.unit = min(1.0, self.mean_weight)
        moments = moments.divided_by(self.unit)
        self.n_rows = weight / self.unit
        self.moments = moments if fit_intercept else moments.about_zero()
        self._n_fixed, self._shared = int(fit_intercept), shared
        self._decompose(moments, penalty)
        self._is_auto = isinstance(alphas, str)
        self.alphas = self._grid() if self._is_auto else alphas / self.unit
        self._candidates = self.alphas * self.unit if self._is_auto else alphas

    def _decompose(self, moments: Moments, penalty: np.ndarray | None) -> None:
        """Compute the eigenvalues, the eigenvectors and their products with targets."""
        gram, eps = self.moments.gram, moments.eps
        if penalty is None:
            values, vectors = eigh(gram, check_finite=False)
        else:
            sizes, axes = eigh(penalty, check_finite=False)
            known = sizes > sizes.max() * eps * len(sizes)
            whitener = axes[:, known] / np.sqrt(sizes[known])
            inner = whitener.T @ gram @ whitener
            values, vectors = eigh((inner + inner.T) / 2, check_finite=False)
            vectors = whitener @ vectors
        values = np.maximum(values, 0)
        # the Gram matrix of columns that are constant up to rounding
        rounding = eps**2 * moments.weight * float(moments.z_mean @ moments.z_mean)
        if np.trace(gram) <= 16 * rounding:
            values = np.zeros_like(values)
        self._tiny = eps * values.max(initial=0)
        self._rounding = max(100 * eps, _EXACT)
        values[values <= self._tiny] = 0
        self.values, self.vectors = values, vectors  # (r,), (D, r)
        known = values > 0
        self._products = vectors.T @ self.moments.cross  # (r, k)
        self._products[~known] = 0
        size = self.moments.squares
        mean = moments.weight * moments.y_mean**2
        self._total = np.where(size <= _CONSTANT**2 * mean, 0, size)  # (k,)
        self._products[:, self._total == 0] = 0
        self._explained = np.zeros_like(self._products)
        lengths = self._products[known] / np.sqrt(values[known, None])
        self._explained[known] = lengths**2
        # The sum of squares that no coefficients explain. If it is negative, it is the
        # rounding error of the part that the smallest eigenvalues seem to explain; this
        # error cancels in the residuals, where it appears with the opposite sign.
        self._rest = self._total - self._explained.sum(axis=0)

    def _grid(self) -> np.ndarray:
        most = self.values.max(initial=0)
        if most == 0:
            return np.geomspace(_LEAST, 1, N_ALPHAS)
        least = _LEAST * self.values.sum() / self.moments.weight
        return np.geomspace(max(least, 4 * self._tiny), _MOST * most, N_ALPHAS)

    def _inverse(self, alphas: np.ndarray) -> np.ndarray:
        """Return 1 / (w + alpha), or 0 if both vanish: (r, n_alphas)."""
        sums = self.values[:, None] + alphas
        least = np.where(alphas == 0, self._tiny * len(self.values), 0)
        inverse = np.zeros_like(sums)
        return np.divide(1, sums, out=inverse, where=sums > least)

    @cached_property
    def degrees_of_freedom(self) -> np.ndarray:
        """Trace of the hat matrix for each penalty, (n_alphas,)."""
        return self.values @ self._inverse(self.alphas)

    @cached_property
    def freedom(self) -> np.ndarray:
        """Residual degrees of freedom for each penalty, (n_alphas,)."""
        return self.n_rows - self._n_fixed - self.degrees_of_freedom

    @cached_property
    def residuals(self) -> np.ndarray:
        """Sums of squared residuals, (n_alphas, k)."""
        left = (1 - self.values[:, None] * self._inverse(self.alphas)) ** 2
        return np.maximum(self._rest + left.T @ self._explained, 0)

    @cached_property
    def gcv(self) -> np.ndarray:
        """Generalised cross-validation scores, (n_alphas, k).

        They are infinite if too few degrees of freedom are left.
        """
        gamma, least = _OF_CLASSES if self._shared else _OF_NUMBERS
        freedom = self.freedom - (gamma - 1) * self.degrees_of_freedom
        enough = freedom > least * self.n_rows
        freedom, plain = (
            np.where(enough, each, 1)[:, None] for each in (freedom, self.freedom)
        )
        # residuals that consist of rounding errors count as equal for all candidates
        residuals = np.maximum(self.residuals, self._rounding * self._total)
        scores = self.n_rows * residuals / freedom**2
        allowed = enough[:, None]
        if self._is_auto and not self._shared:
            # mean squared norm of the features of a row
            mean_square = self.values.sum() / self.moments.weight
            prior = mean_square / self.alphas[:, None] * residuals / plain
            most = _MOST_SPREAD**2 * self._total / self.moments.weight
            allowed = allowed & (prior <= most)
        return np.where(allowed, scores, np.inf)

    @property
    def scores(self) -> np.ndarray:
        """Scores that choose the penalty, (n_alphas, k), or (n_alphas, 1) if shared.

        Each output of a regressor has its own penalty; classes share one.
        """
        return self.gcv.sum(axis=1, keepdims=True) if self._shared else self.gcv

    @cached_property
    def best(self) -> np.ndarray:
        """Index of the best penalty of each output, (k,); the largest one in a tie."""
        scores = self.scores
        near = scores <= scores.min(axis=0) * (1 + 1e-10)
        index = np.argmax(np.where(near, self.alphas[:, None], -1), axis=0)
        return np.broadcast_to(index, self._total.shape)

    @property
    def score(self) -> float:
        """Score that chooses sigma: the sum over outputs scaled to equal variance."""
        if self._shared:
            return float(self.scores.min())
        total = np.where(self._total > 0, self._total, 1)
        return float(np.sum(self.scores.min(axis=0) / total))

    @property
    def _noise(self) -> np.ndarray:
        """Noise variance of each output, (k,); infinite if it cannot be estimated."""
        freedom = self.freedom[self.best]
        rss = self.residuals[self.best, np.arange(self.best.size)]
        known = freedom > 1e-10 * self.n_rows
        return np.where(known, rss / np.where(known, freedom, 1), np.inf)

    def solution(self) -> Solution:
        """Return the coefficients for the best penalties, with all the scores.

        Penalties are returned for the original weights. Classifiers have no variances.
        """
        inverse = self._inverse(self.alphas[self.best])
        return Solution(
            z_mean=self.moments.z_mean,
            y_mean=self.moments.y_mean,
            coef=self.vectors @ (inverse * self._products),
            alpha=self._candidates[self.best],
            alphas=self._candidates,
            scores=self.scores,
            degrees_of_freedom=self.degrees_of_freedom,
            score=self.score,
            noise=self._noise,
            mean_weight=self.mean_weight,
            n_rows=self.n_rows,
            mean_variance=self._n_fixed / self.moments.weight,
            axes=None if self._shared else self.vectors,
            factors=None if self._shared else inverse,
        )
