"""Ridge regression for given moments and all candidate penalties."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg
from sklearn.frozen import FrozenEstimator
from sklearn.utils.extmath import row_norms

from .._compat import cached_property
from .._values import Value
from ..life_cycle.intervals import Distribution, Errors, LeftOut
from ..rows import Rows
from ._calibration import ClippedIndicators, Link, LogLoss
from ._feature_moments import Moments

N_ALPHAS = 30  # number of penalties for alpha="auto"
# The grid of penalties starts at _LEAST times the mean squared norm of the features,
# and ends at _MOST times the largest eigenvalue.
_LEAST, _MOST = 1e-7, 10.0
# targets with a smaller standard deviation, relative to their mean, count as constant
_CONSTANT = 1e-14
# Mean squared errors below this proportion of the variance of the targets count as
# equal. The limit is about a thousand times their rounding error, so that neither the
# number of threads nor the division into batches affects the choice of sigma.
_EXACT = 2e-12
# A penalty corresponds to a prior over the predicted function. This is the maximum
# standard deviation of the prior, relative to that of the targets. For larger values,
# predictions for distant rows would become unreasonably large.
_MOST_SPREAD = 5.0
# If the noise variance is below this proportion of the variance of the targets, the
# residuals mainly reflect rounding errors or the approximation error of the features.
_INTERPOLATED = 1e-8
# If a row alone determines its prediction up to rounding, its leave-one-out error
# cannot be computed. This is assumed if 1 minus its leverage is below _LEAST_LEFT, or
# below _ROUNDING times the machine epsilon of the features.
_LEAST_LEFT, _ROUNDING = 1e-10, 30
# With t degrees of freedom, a fit explains t / n of the noise variance by chance, with
# a standard deviation of sqrt(2 t) / n. Leave-one-out errors of regressors are compared
# after adding this multiple of the standard deviation, relative to the error, so that
# few rows with much noise are not fitted too closely. For normally distributed errors
# this adds half of it to the log loss, which is the rule for classifiers.
_CAUTION = 1.5
# Errors and log losses with a smaller relative difference count as equal. The errors of
# models that interpolate hardly depend on the penalty.
_TIE = 1e-6
# Among the penalties whose squared error is at most _NEAR times the smallest, the one
# with the lowest log loss is selected. The penalty with the smallest squared error
# often has a larger log loss than others, but log losses alone are too uncertain on
# small tables.
_NEAR = 1.1
_EPS = float(np.finfo(np.float64).eps)
# maximum rounding error of a variance, relative to the noise, in single precision
_MOST_ROUNDING = 1e-4
_LEAST_FREEDOM = 0.001  # minimum residual degrees of freedom per row
# Bounds of variances are based on one of so many axes. On twelve tables, they showed
# for 87 to 100 % of the rows that predictions are not shrunk. Because of rounding
# errors, a bound has to be below this proportion of the limit.
_LEADING, _BELOW = 16, 0.99
# If a classifier has more features than this, it estimates the variances of predictions
# from this number of random combinations of the axes, with a standard error of 18 %.
_COMBINED = 64


class VarianceBounds(NamedTuple):
    """What upper bounds of the variances of predictions depend on.

    A bound is the squared length of the centred features times ``outside``, plus the
    sum of their squared coordinates along some axes, weighted by the factors.
    """

    axes: np.ndarray  # (D, m)
    factors: np.ndarray  # (m, k)
    outside: np.ndarray  # (k,)


class SampledFeatures(NamedTuple):
    """The features, targets and weights of a sample of the rows."""

    Z: np.ndarray  # (n, D), in float64
    Y: np.ndarray  # (n, k)
    weights: np.ndarray  # (n,), which the rows have in the regression
    # (n,), of which the sums estimate those of the weights of all rows
    shares: np.ndarray
    given_shares: np.ndarray  # (n,), the same if classes are not balanced


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution(Value):
    """The coefficients for the best penalties, and the errors of all penalties."""

    z_mean: np.ndarray  # (D,)
    y_mean: np.ndarray  # (k,)
    least: np.ndarray  # (k,), the smallest target
    most: np.ndarray  # (k,), the largest target
    coef: np.ndarray  # (D, k)
    alpha: np.ndarray  # (k,)
    alphas: np.ndarray  # (n_alphas,), the candidates
    errors: np.ndarray  # (n_alphas, k), or (n_alphas, 1) if outputs share a penalty
    score: float  # the score by which sigma is selected
    noise: np.ndarray  # (k,), infinite if it cannot be estimated
    mean_weight: float  # mean weight of the rows, without the class weights
    n_rows: float  # number of rows that the weights represent
    # The variance of a prediction, relative to the noise variance, is mean_variance
    # plus the squared length of the centred features times prior, plus the sum of their
    # squared coordinates along the axes, weighted by the factors. The factors are
    # negative if prior is positive, because the training rows reduce the prior
    # variance. If the axes form a triangular matrix, its entries are stored as a
    # one-dimensional array.
    mean_variance: float
    prior: np.ndarray  # (k,), or (1,) for classification; 0 if the axes span everything
    axes: np.ndarray  # (D, r), or (D, min(D, _COMBINED)) for classification
    factors: np.ndarray  # (r, k), or (min(D, _COMBINED), 1)
    spread: np.ndarray  # (k,), variances, or mean squares without an intercept
    # distribution of the negative leave-one-out variances; None for regression
    similarities: Distribution | None
    is_balanced: bool  # whether both of two classes have the same total weight
    # whether the axes are orthonormal, and those with the largest eigenvalues the last
    is_orthonormal: bool
    bounds: VarianceBounds | None = None  # only if the axes form a triangular matrix
    # only for the best sigma
    calibration: Errors | Link | ClippedIndicators | None = None
    sampler: Any = None  # computes the features; None if the rows are the features
    table: tuple[dict[str, Any], ...] = ()  # the errors of each sigma

    @property
    def intercept(self) -> np.ndarray:
        """Prediction for a row whose features are all zero, (k,)."""
        return self.y_mean - self.z_mean @ self.coef

    def rounded(self) -> Solution:
        """Return a solution with axes in float32, if this hardly changes variances.

        The axes are the largest part of a model, and predictions depend on them only
        through variances. Features that are not bounded require float64, because
        rounding errors of the variances of distant rows would be large.
        """
        if not self.tolerates_single_precision:
            return self
        return replace(self, axes=self.axes.astype(np.float32))

    def packed(self) -> Solution:
        """Return an equivalent solution whose axes take half the memory if possible."""
        axes, factors = self.axes, self.factors
        if axes.ndim == 1 or self.similarities or np.any(self.alpha != self.alpha[0]):
            return self
        scaled: np.ndarray = axes * np.sqrt(np.abs(factors[:, 0]))
        (upper,) = linalg.qr(scaled.T, mode="r", check_finite=False)  # (r, D)
        entries = upper.T[np.tril_indices(upper.shape[1], 0, upper.shape[0])]
        entries = entries.astype(axes.dtype)
        sign = np.where(self.prior > 0, -1.0, 1.0)
        factors, bounds = np.tile(sign, (len(upper), 1)), self._variance_bounds
        if bounds is not None:  # a copy, because the axes are discarded
            bounds = bounds._replace(axes=bounds.axes.astype(axes.dtype))
        return replace(
            self, axes=entries, factors=factors, bounds=bounds, is_orthonormal=False
        )

    @property
    def tolerates_single_precision(self) -> bool:
        """Whether rounding the axes to float32 hardly changes variances of new rows.

        The training rows reduce the prior variance, so its rounding errors remain if
        the difference is small. They must be small beside the noise.
        """
        if self.axes.ndim == 1 or self.similarities is not None:
            return False
        if not np.any(self.prior):
            return True  # terms are added
        # the mean prior variance of the training rows along the axes, (k,)
        explained = np.minimum(-self.factors / self.prior, 1 - _EPS)
        known = (explained / (1 - explained)).sum(axis=0) / self.n_rows
        return bool(np.finfo(np.float32).eps * known.max() < _MOST_ROUNDING)

    @cached_property
    def _axes(self) -> np.ndarray:
        """The axes as a matrix, (D, r)."""
        if self.axes.ndim == 2:
            return np.asarray(self.axes, np.float64)
        shape = len(self.z_mean), len(self.factors)
        axes = np.zeros(shape)
        axes[np.tril_indices(shape[0], 0, shape[1])] = self.axes
        return axes

    def variance(self, Z: np.ndarray, rows: Rows | None = None) -> np.ndarray:
        """Return the variances of predictions relative to the noise, (n, k).

        They refer to the expected targets and do not include the noise. If all training
        rows are landmarks and the ``rows`` are given, the variances include the prior
        variance that the landmarks do not explain. It is included in the leave-one-out
        errors, and is not negligible for targets that are fitted nearly exactly.
        """
        centred = Z - self.z_mean
        variance = (centred @ self._axes) ** 2 @ self.factors
        if np.any(self.prior):
            variance += np.multiply.outer(row_norms(centred, squared=True), self.prior)
            np.maximum(variance, 0, out=variance)  # rounding may make it negative
        return variance + self.mean_variance + self._unexplained(rows)

    def _unexplained(self, rows: Rows | None) -> np.ndarray:
        """Return the prior variances that landmarks do not explain, (n, k), or 0."""
        landmarks: Any = None
        if rows is not None and not isinstance(self.sampler, FrozenEstimator):
            landmarks = getattr(self.sampler, "_map_of_matrix", None)
        if not getattr(landmarks, "has_all_rows", False) or np.any(self.alpha <= 0):
            return np.zeros((1, 1))
        return landmarks.unexplained(rows)[:, None] / self.alpha

    @cached_property
    def _variance_bounds(self) -> VarianceBounds | None:
        """Bounds from the axes about which the training rows contain most information.

        It is None if there are too few axes to save time.
        """
        if self.bounds is not None:
            axes = np.asarray(self.bounds.axes, np.float64)
            return self.bounds._replace(axes=axes)
        n_leading = len(self.factors) // _LEADING
        if not self.is_orthonormal or n_leading == 0:
            return None
        axes = np.asarray(self.axes[:, -n_leading:], np.float64)
        factors = self.factors[-n_leading:]
        # With a prior, the axes that are left out have negative factors. An output with
        # a penalty of 0 has no prior, even if the other outputs have one.
        has_prior = self.prior > 0
        outside = np.where(has_prior, self.prior, self.factors.max(axis=0))
        return VarianceBounds(axes, factors - np.where(has_prior, 0, outside), outside)

    def variance_where_large(
        self, Z: np.ndarray, rows: Rows | None = None
    ) -> np.ndarray:
        """Return variances, or upper bounds where predictions are not shrunk, (n, k).

        The leading axes show for most rows that ``predict`` does not shrink the
        predictions. All other variances take several times as long.
        """
        bounds = self._variance_bounds
        if bounds is None:
            return self.variance(Z, rows)
        centred = Z - self.z_mean
        found = (centred @ bounds.axes) ** 2 @ bounds.factors + self.mean_variance
        found += np.multiply.outer(row_norms(centred, squared=True), bounds.outside)
        unexplained = self._unexplained(rows)
        found += unexplained
        large = np.any(self._known_noise * found > _BELOW * self.spread, axis=1)
        if large.any():
            unexplained = np.broadcast_to(unexplained, found.shape)[large]
            found[large] = self.variance(Z[large]) + unexplained
        return found

    @property
    def _known_noise(self) -> np.ndarray:
        """The noise, (k,), or 0 if it is unknown; predictions are then not shrunk."""
        return np.where(np.isfinite(self.noise), self.noise, 0)

    def scores(self, variance: np.ndarray) -> np.ndarray:
        """Return the proportions of rows with at least these variances, (n,).

        The given variances of predictions are relative to the noise variance. They are
        compared with the leave-one-out variances of the training rows.
        """
        if self.similarities is None:
            assert isinstance(self.calibration, Errors)
            return self.calibration.scores(np.sqrt(1 + variance))
        return self.similarities.shares_below(-variance[:, 0])

    def predict(self, Z: np.ndarray, variance: np.ndarray | None = None) -> np.ndarray:
        """Return the predictions for rows of features, (n, k).

        If the variances of predictions are given, predictions with a larger variance
        than the targets are shrunk towards the mean target by the ratio of standard
        deviations.
        """
        change = (Z - self.z_mean) @ self.coef
        if variance is not None:
            limit = np.maximum(self.spread, self._known_noise * variance)
            change *= np.sqrt(self.spread / np.where(limit > 0, limit, 1))
        return change + self.y_mean


def n_classes_of(rows: LeftOut) -> int:
    """Return the number of classes of some rows, whose targets are indicators."""
    targets = rows.targets[rows.weights > 0]
    if targets.shape[1] == 1:  # 1 or -1
        return len(np.unique(targets))
    return int(np.count_nonzero(targets.max(axis=0, initial=0)))


class Regression:
    """Ridge regression for given moments and all penalties.

    Let S = Z'Z be the Gram matrix of the features, and K the penalty matrix. With the
    solutions of the generalised eigenproblem S v = w K v, normalised such that V'KV =
    1, the coefficients are V (w + alpha)^-1 V' Z'y, and the trace of the hat matrix is
    the sum of w / (w + alpha).
    """

    def __init__(
        self,
        moments: Moments,
        penalty: np.ndarray | None,
        alphas: Any,
        *,
        fit_intercept: bool,
        class_shares: np.ndarray | None,
        weight: float,
        rows: SampledFeatures,
    ):
        # penalty (D, D), None for the identity; alphas (n_alphas,) or "auto"
        # class_shares (n_classes,) if the outputs are indicators of classes, which
        # share a penalty; weight is the sum of the sample weights, without class
        # weights
        self.mean_weight = weight / moments.n_rows
        # If weights are below 1 on average, they cannot be counts of repeated rows.
        # They are then divided by their mean, so that their sum is the number of rows.
        self.unit = min(1.0, self.mean_weight)
        if self.unit < 1:
            moments = moments.divided_by(self.unit)
        self.n_rows = weight / self.unit
        self.moments = moments if fit_intercept else moments.about_zero()
        self._n_fixed, self._class_shares = int(fit_intercept), class_shares
        # variance of the mean target, relative to the noise variance
        self.mean_variance = self._n_fixed / self.moments.weight
        self._shared = class_shares is not None
        self._decompose(moments, penalty, rows)
        self._is_auto = isinstance(alphas, str)
        self.alphas = self._grid() if self._is_auto else alphas / self.unit
        self._candidates = self.alphas * self.unit if self._is_auto else alphas
        self._fit_each()
        self._leave_one_out(rows)

    def _decompose(
        self, moments: Moments, penalty: np.ndarray | None, rows: SampledFeatures
    ) -> None:
        """Compute the eigenvalues, the eigenvectors and their products with targets."""
        gram, eps = self.moments.gram, moments.eps
        self._spans_all = True  # whether the axes span all rows, not just training rows
        # those of classifiers are random combinations
        self._is_orthonormal = penalty is None and not self._shared
        n_features = len(moments.z_mean)
        draws = np.eye(min(n_features, _COMBINED))
        if n_features > _COMBINED:
            draws = np.random.default_rng(0).standard_normal((n_features, _COMBINED))
            draws /= np.sqrt(_COMBINED)
        if penalty is not None:
            sizes, axes = linalg.eigh(penalty, check_finite=False)
            sizes = np.maximum(sizes, 0)
            draws = (axes * np.sqrt(sizes)) @ (axes.T @ draws)
            known = sizes > sizes.max() * eps * len(sizes)
            whitener = axes[:, known] / np.sqrt(sizes[known])
            inner = whitener.T @ gram.matrix() @ whitener
            values, vectors = linalg.eigh((inner + inner.T) / 2, check_finite=False)
            vectors = whitener @ vectors
        elif gram.root is not None:
            # The products of the rows with each other are a smaller matrix, but have
            # the same positive eigenvalues. The axes span only the training rows.
            centred = gram.root
            values, left = linalg.eigh(centred @ centred.T, check_finite=False)
            # centring makes one eigenvalue zero, apart from a rounding error
            known = values > 16 * _EPS * values.max(initial=0)
            vectors = centred.T @ left[:, known]
            # rounding errors of small eigenvalues are smaller in these lengths
            lengths = np.sqrt(row_norms(vectors.T, squared=True))
            values, vectors = lengths**2, vectors / lengths
            self._spans_all = False
        else:
            values, vectors = linalg.eigh(gram.matrix(), check_finite=False)
        values = np.maximum(values, 0)
        # this is the rounding error of the Gram matrix if all columns are constant
        rounding = eps**2 * moments.weight * float(moments.z_mean @ moments.z_mean)
        if gram.trace <= 16 * rounding:
            values = np.zeros_like(values)
        self._tiny = eps * values.max(initial=0)
        # smaller penalties would be affected by products in single precision
        self._least_alpha = 4 * moments.gram_eps * values.max(initial=0)
        self._rounding = max(100 * eps, _EXACT)
        self._least_left = max(_LEAST_LEFT, _ROUNDING * eps)
        values[values <= self._tiny] = 0
        self.values, self.vectors = values, vectors  # (r,), (D, r)
        # combinations of the axes that do not depend on the signs of the axes
        self._combinations = vectors.T @ draws
        self._draws_outside = None if self._spans_all else draws
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
        # The sum of squares that no coefficients can explain. It may be negative,
        # because the part that the smallest eigenvalues seem to explain has rounding
        # errors. In the residuals, these errors appear with the opposite sign and
        # cancel.
        self._rest = self._total - self._explained.sum(axis=0)

    def _grid(self) -> np.ndarray:
        most = self.values.max(initial=0)
        if most == 0:
            return np.geomspace(_LEAST, 1, N_ALPHAS)
        least = _LEAST * self.values.sum() / self.moments.weight
        return np.geomspace(max(least, 4 * self._tiny), _MOST * most, N_ALPHAS)

    def _fit_each(self) -> None:
        """Compute the inverse, the freedom and the residuals for each penalty."""
        # 1 / (w + alpha), or 0 if both vanish: (r, n_alphas)
        sums = self.values[:, None] + self.alphas
        least = np.where(self.alphas == 0, self._tiny * len(self.values), 0)
        self.inverse = np.divide(1, sums, out=np.zeros_like(sums), where=sums > least)
        # residual degrees of freedom, (n_alphas,), from the trace of the hat matrix
        self.freedom = self.n_rows - self._n_fixed - self.values @ self.inverse
        # sums of squared residuals, (n_alphas, k)
        left = (1 - self.values[:, None] * self.inverse) ** 2
        self.residuals = np.maximum(self._rest + left.T @ self._explained, 0)

    def _leave_one_out(self, rows: SampledFeatures) -> None:
        """Compute leave-one-out errors.

        The leave-one-out error of a row with leverage h is its residual divided by 1 -
        h. A row is left out with its whole weight.
        """
        along = (rows.Z - self.moments.z_mean) @ self.vectors  # (n, r)
        inverse = self.inverse
        variance = along**2 @ inverse + self.mean_variance  # (n, n_alphas)
        left = 1 - variance * (rows.weights / self.unit)[:, None]
        left[left < self._least_left] = np.nan  # the errors of these rows are unknown
        shares = rows.shares / rows.shares.sum()
        errors = np.empty((len(self.alphas), rows.Y.shape[1]))
        for k, (y, products) in enumerate(zip(rows.Y.T, self._products.T, strict=True)):
            fitted = along @ (inverse * products[:, None]) + self.moments.y_mean[k]
            errors[:, k] = shares @ ((y[:, None] - fitted) / left) ** 2
        self._set_errors(np.where(np.isnan(errors), np.inf, errors))

        # in a random order, because the rows may be sorted
        order = np.random.default_rng(0).permutation(len(rows.Z))

        def left_out(penalties: np.ndarray, n_rows: int | None = None) -> LeftOut:
            """Return leave-one-out predictions, given a penalty for each output."""
            part: Any = slice(None)
            if n_rows is not None and n_rows < len(order):
                part = order[:n_rows]
            fitted = along[part] @ (inverse[:, penalties] * self._products)
            fitted += self.moments.y_mean
            share_left = left[part][:, penalties]
            return LeftOut(
                predictions=rows.Y[part] - (rows.Y[part] - fitted) / share_left,
                targets=rows.Y[part],
                variances=variance[part][:, penalties] / share_left,
                weights=rows.given_shares[part],
                fitted=fitted,
            )

        self._lacks_class = False
        self.log_losses = self._log_losses(left_out) if self._shared else None
        self._cautious = self._increased()
        self.left_out = left_out(self.best)
        self._axes, self._factors = self.vectors, inverse[:, self.best]
        self._prior = self._prior_outside
        self._factors = self._factors - self._prior
        self._similarities = None
        if self._shared:
            root = np.sqrt(inverse[:, self.best[:1]]) * self._combinations
            axes = self.vectors @ root
            if self._draws_outside is not None:
                outside = self._draws_outside - self.vectors @ self._combinations
                axes += np.sqrt(self._prior[0]) * outside
            # single precision, because the axes are the largest part of the model
            self._axes = axes.astype(np.float32)
            self._factors, self._prior = np.ones((root.shape[1], 1)), np.zeros(1)
            estimate = self.mean_variance + np.sum((along @ root) ** 2, axis=1)
            found = np.nan_to_num(-estimate / left[:, self.best[0]], nan=-np.inf)
            self._similarities = Distribution.of(found, rows.given_shares)

    @property
    def _prior_outside(self) -> np.ndarray:
        """Variance of a new row per squared length outside of the axes, (k,).

        It is the prior variance, 1 / alpha, because the training rows have no
        information about these directions; as for the axes, it is 0 without a penalty.
        """
        alpha = self.alphas[self.best]
        if self._spans_all:
            return np.zeros(alpha.shape)
        # differences of squared lengths have rounding errors
        alpha = np.where(alpha > 0, np.maximum(alpha, 4 * self._tiny), np.inf)
        return 1 / alpha

    def _log_losses(self, left_out: Callable[..., LeftOut]) -> np.ndarray:
        """Return the log losses of the penalties with small errors, (n_alphas,).

        The log losses of all other penalties are nan.
        """
        assert self._class_shares is not None
        n_classes = np.count_nonzero(self._class_shares)
        losses = np.full(len(self.alphas), np.nan)
        limit = _NEAR * self.errors.min()
        loss = LogLoss(self._class_shares)
        for index in np.argsort(-self.alphas, kind="stable"):
            if self.errors[index, 0] <= limit:
                penalties = np.full(self._total.shape, index)
                rows = left_out(penalties, loss.n_rows)
                losses[index] = loss(rows)
                # then no log loss can show how well the missing class is fitted
                self._lacks_class = n_classes_of(rows) < int(n_classes)
        return losses

    def _set_errors(self, errors: np.ndarray) -> None:
        """Set mean squared errors, which are infinite if penalties are too small."""
        # if errors are no larger than rounding errors, all candidates count as equal
        total = self._total / self.moments.weight
        errors = np.maximum(errors, self._rounding * total)
        if self._is_auto:
            freedom = np.maximum(self.freedom, _LEAST_FREEDOM * self.n_rows)
            noise = self.residuals / freedom[:, None]
            # mean squared norm of the features of a row
            mean_square = self.values.sum() / self.moments.weight
            prior = mean_square / self.alphas[:, None] * noise
            allowed = prior <= _MOST_SPREAD**2 * total
            allowed &= (self.alphas >= self._least_alpha)[:, None]
            if self._shared:
                allowed = allowed.all(axis=1, keepdims=True)
            allowed = allowed | (self.alphas >= self.alphas.max())[:, None]
            errors = np.where(allowed, errors, np.inf)
        self.errors = errors.sum(axis=1, keepdims=True) if self._shared else errors

    @cached_property
    def best(self) -> np.ndarray:
        """Index of the best penalty for each output, (k,); the largest wins a tie."""
        values = self._cautious
        near = values <= values.min(axis=0) * (1 + _TIE)
        index = np.argmax(np.where(near, self.alphas[:, None], -1), axis=0)
        return np.broadcast_to(index, self._total.shape)

    @property
    def score(self) -> float:
        """The score by which sigma is selected.

        It is the log loss for classifiers, and otherwise the sum of the errors of all
        outputs, each divided by the total sum of squares of the output. With
        ``alpha="auto"``, both are increased as described at ``_CAUTION``.
        """
        if self.log_losses is not None:
            return float(self._cautious[self.best[0], 0])
        total = np.where(self._total > 0, self._total, 1)
        return float(np.sum(self._cautious.min(axis=0) / total))

    def _increased(self) -> np.ndarray:
        """Return what is compared, increased for fits that may explain noise by chance.

        These are the errors or, for classifiers, the log losses.
        """
        # -> (n_alphas, k), or (n_alphas, 1) for classifiers
        caution = np.zeros(len(self.alphas))  # the relative increase of squared errors
        if self._is_auto and not self._lacks_class:
            used = self.n_rows - self._n_fixed - self.freedom
            caution = _CAUTION * (np.sqrt(2 * np.maximum(used, 0)) / self.n_rows)
        if self.log_losses is None:
            return self.errors * (1 + caution)[:, None]
        losses = np.where(np.isnan(self.log_losses), np.inf, self.log_losses)
        return (losses + caution / 2)[:, None]

    @property
    def _noise(self) -> np.ndarray:
        """Noise variance of each output, (k,); infinite if it cannot be estimated."""
        freedom = self.freedom[self.best]
        rss = self.residuals[self.best, np.arange(self.best.size)]
        known = freedom > 1e-10 * self.n_rows
        noise = rss / np.where(known, freedom, 1)
        few = noise < _INTERPOLATED * self._total / self.moments.weight
        if few.any():
            noise = np.where(few, np.maximum(noise, self._left_out_noise), noise)
        return np.where(known, noise, np.inf)

    @property
    def _left_out_noise(self) -> np.ndarray:
        """Noise variance of each output according to leave-one-out errors, (k,)."""
        rows = self.left_out
        squares = (rows.targets - rows.predictions) ** 2 / (1 + rows.variances)
        weights = rows.weights[:, None] * np.isfinite(squares)
        total = np.sum(weights * np.nan_to_num(squares), axis=0)
        return total / np.maximum(weights.sum(axis=0), 1e-300)

    def solution(self, is_balanced: bool) -> Solution:
        """Return the coefficients for the best penalties, and the errors for all.

        The penalties of the solution refer to the original weights.
        """
        inverse = self.inverse[:, self.best]
        return Solution(
            z_mean=self.moments.z_mean,
            y_mean=self.moments.y_mean,
            least=self.moments.least,
            most=self.moments.most,
            coef=self.vectors @ (inverse * self._products),
            alpha=self._candidates[self.best],
            alphas=self._candidates,
            errors=self.errors,
            score=self.score,
            noise=self._noise,
            mean_weight=self.mean_weight,
            n_rows=self.n_rows,
            mean_variance=self.mean_variance,
            prior=self._prior,
            axes=self._axes,
            factors=self._factors,
            spread=self._total / self.moments.weight,
            similarities=self._similarities,
            is_balanced=is_balanced,
            is_orthonormal=self._is_orthonormal,
        )
