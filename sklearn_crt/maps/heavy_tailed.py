"""Matern and exponential power kernels, whose frequencies have random scales."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import lru_cache
from numbers import Real

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special
from scipy.interpolate import PPoly

from .._compat import Interval, StrOptions
from ..arrays.namespaces import Array, asarray_like, float_types, namespace_of, on_host
from ..rows import Inputs
from .radial_kernels import RadialKernel
from .variance import (
    Factor,
    mixture_block_covariance,
    stable_factors,
    student_factors,
    tabulate,
    trigonometric_block_covariance,
)

# distance below which the relative effect of a coupling on the variance is constant
_SMALLEST = 0.01
# for smaller exponents, integrals over the scale of frequencies are slow and overflow
_LEAST_ALPHA = 0.05
# From about 2000 values on, interpolating Bessel functions is faster than evaluating
# them: 2000 x 2000 pairs take 0.3 s, compared with 2.2 s for SciPy's function.
_MANY = 2048
_FIRST, _LAST = 1e-3, 1e3  # range of distances that the interpolant covers
_LARGE_ORDER = 25  # from this nu on, the expansion for large nu is exact up to rounding


class _ScaleMixture(RadialKernel):
    """Base class of kernels whose frequencies are normal vectors with random scales."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """Distance beyond which ``block_covariance`` is treated as constant."""

    @abstractmethod
    def scale_factors(self, n_features: int) -> tuple[Factor, Factor]:
        """Return quadrature rules for T and c, the factors of Q in ``variance.py``."""

    @abstractmethod
    def log_laplace(self, q: np.ndarray) -> np.ndarray:
        """Return log E exp(-q T)."""

    def knows_angle(self, cosine: float | None) -> bool:
        return cosine == 0

    def block_covariance(
        self, r: np.ndarray, n_features: int, cosine: float
    ) -> np.ndarray:
        table = _block_table(self, n_features)
        value = table(np.log(np.clip(r, _SMALLEST, self.largest)))
        near = r < _SMALLEST
        if near.any():
            edge = self.pair_variance(np.array(_SMALLEST))
            value[near] *= self.pair_variance(r[near]) / edge
        return value


@lru_cache(maxsize=32)
def _block_table(kernel: _ScaleMixture, n_features: int) -> PPoly:
    return mixture_block_covariance(
        kernel.log_profile,
        kernel.log_laplace,
        kernel.scale_factors(n_features),
        n_features,
        (_SMALLEST, kernel.largest),
    )


@dataclass(frozen=True)
class Matern(_ScaleMixture):
    r"""Matern kernel with smoothness nu.

    .. math:: k(r) = \frac{2^{1-\nu}}{\Gamma(\nu)} \left(\sqrt{2\nu} r\right)^\nu
       K_\nu\left(\sqrt{2\nu} r\right), \qquad r = |\sigma (x - y)|

    In estimators, ``kernel="matern"`` is short for ``kernel=Matern()``. The inverse
    length scale :math:`\sigma` is the parameter ``sigma`` of the estimator.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness of the kernel, which must be positive. A value of 0.5 gives the
        Laplacian kernel, and infinity the Gaussian kernel.

    See Also
    --------
    sklearn_crt.MaternSampler : Random features of this kernel.
    sklearn_crt.kernels.matern_kernel : The kernel matrix of two arrays of rows.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
       Learning", MIT Press 2006, section 4.2.1.

    Examples
    --------
    The smoothness can be tuned by grid search:

    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_crt import NadarayaWatsonRegressor
    >>> from sklearn_crt.kernels import Matern
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"kernel__nu": [0.5, 1.5, 2.5]}
    >>> search = GridSearchCV(NadarayaWatsonRegressor(Matern()), grid).fit(X, y)
    >>> sorted(search.best_params_)
    ['kernel__nu']
    """

    nu: float = 1.5
    # the interval includes infinity, which gives the Gaussian kernel
    _parameter_constraints = {"nu": [Interval(Real, 0, None, closed="right")]}

    @property
    def largest(self) -> float:
        return 60 / math.sqrt(2 * self.nu) + 60

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return log_matern(r, self.nu)

    def scale_factors(self, n_features: int) -> tuple[Factor, Factor]:
        return student_factors(self.nu, n_features)

    def log_laplace(self, q: np.ndarray) -> np.ndarray:
        return log_matern(np.sqrt(q), 2 * self.nu)

    def block_covariance(
        self, r: np.ndarray, n_features: int, cosine: float
    ) -> np.ndarray:
        if self.nu == math.inf:
            return trigonometric_block_covariance(r**2, n_features)
        return super().block_covariance(r, n_features, cosine)


@dataclass(frozen=True)
class Laplacian(Matern):
    r"""Laplacian kernel, the exponential of the negative distance.

    .. math:: k(x, y) = e^{-|\sigma (x - y)|}

    In estimators, ``kernel="laplacian"`` is short for ``kernel=Laplacian()``. The
    inverse length scale :math:`\sigma` is the parameter ``sigma`` of the estimator.

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        Norm that defines the distance: ``"l2"`` is the Euclidean norm, as in [1]_, and
        ``"l1"`` is the norm used by :func:`sklearn.metrics.pairwise.laplacian_kernel`.

    See Also
    --------
    sklearn_crt.LaplacianSampler : Random features of this kernel.
    sklearn_crt.kernels.matern_kernel : The matrix of the L2 kernel, for nu = 1/2.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`, equation 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier
    >>> from sklearn_crt.kernels import Laplacian
    >>> X, y = load_iris(return_X_y=True)
    >>> NadarayaWatsonClassifier(Laplacian(norm="l1")).fit(X, y).kernel_
    Laplacian(norm='l1')
    """

    norm: str = "l2"
    _parameter_constraints = {"norm": [StrOptions({"l1", "l2"})]}
    nu: float = field(default=0.5, init=False, repr=False)

    def distances(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return X.l1_distances(Y) if self.norm == "l1" else super().distances(X, Y)


@dataclass(frozen=True)
class ExponentialPower(_ScaleMixture):
    r"""Exponential power kernel, the exponential of a negative power of the distance.

    .. math:: k(r) = e^{-r^\alpha}, \qquad r = |\sigma (x - y)|

    The inverse length scale :math:`\sigma` is the parameter ``sigma`` of the estimator.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent in (0, 2]. A value of 1 gives the Laplacian kernel, and 2 gives the
        Gaussian kernel :math:`e^{-r^2}`.

    See Also
    --------
    sklearn_crt.ExponentialPowerSampler : Random features of this kernel.
    sklearn_crt.kernels.exponential_power_kernel : The kernel matrix of two arrays of
        rows.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`, equation 2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier
    >>> from sklearn_crt.kernels import ExponentialPower
    >>> X, y = load_iris(return_X_y=True)
    >>> NadarayaWatsonClassifier(ExponentialPower(alpha=1.2)).fit(X, y).kernel_
    ExponentialPower(alpha=1.2)
    """

    alpha: float = 1.0
    _parameter_constraints = {"alpha": [Interval(Real, 0, 2, closed="right")]}

    @property
    def largest(self) -> float:
        return 60 ** (1 / self.alpha)

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return -(r**self.alpha)

    def scale_factors(self, n_features: int) -> tuple[Factor, Factor]:
        return stable_factors(self.alpha, n_features)

    def log_laplace(self, q: np.ndarray) -> np.ndarray:
        return -np.power(2 * q, self.alpha / 2)

    def knows_angle(self, cosine: float | None) -> bool:
        # for a smaller alpha, the coupling changes the variance by less than 0.1 %
        return self.alpha >= _LEAST_ALPHA and super().knows_angle(cosine)

    def block_covariance(
        self, r: np.ndarray, n_features: int, cosine: float
    ) -> np.ndarray:
        if self.alpha == 2:
            return trigonometric_block_covariance(2 * r**2, n_features)
        return super().block_covariance(r, n_features, cosine)


# --------------------------------------------------------------- the Matern kernel
def log_matern(r: Array, nu: float) -> Array:
    """Return the log of the Matern kernel with smoothness nu and length scale 1."""
    if nu == math.inf:
        return -0.5 * (r * r)
    if nu == 0.5:
        return -r
    if nu in (1.5, 2.5):
        return _log_matern_polynomial(math.sqrt(2 * nu) * r, nu)
    xp = namespace_of(r)
    wide = xp.astype(r, float_types(r)[0], copy=False)
    t = math.sqrt(2 * nu) * wide
    if nu < _LARGE_ORDER and float(nu + 0.5).is_integer():
        value = _log_matern_polynomial(t, nu)
    elif not on_host(t):
        raise TypeError(
            f"The Matern kernel with nu={nu} requires a Bessel function that other "
            "array libraries do not provide. Use nu = 0.5, 1.5, ..., 24.5 or infinity, "
            "or pass NumPy arrays."
        )
    elif nu >= _LARGE_ORDER:
        value = _log_matern_large(wide, nu)
    elif r.size < _MANY:
        value = _log_matern_bessel(t, nu)
    else:
        value = _log_matern_table(t, nu)
    return asarray_like(value, r)


def _log_matern_polynomial(t: Array, nu: float) -> Array:
    """Return the log kernel for nu = 3/2, 5/2, ..., from the recurrence for K_nu(t).

    The result is log(1 + b) - t, where b is a polynomial in t whose coefficients are
    positive.
    """
    xp = namespace_of(t)
    # large t are clipped, so that powers do not overflow
    s = xp.minimum(t, xp.full_like(t, 1e10)) if nu > 2.5 else t
    previous, b, order = 0.0, s, 1.5
    while order < nu:
        step = s * s * (1 + previous) / (4 * order * (order - 1))
        previous, b = b, b + step
        order += 1
    return xp.log1p(b) - t


def _log_matern_bessel(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log kernel for any nu, from the scaled Bessel function exp(t) K(t)."""
    s = np.minimum(t, 1e8)  # scipy.special.kve fails for slightly larger arguments
    with np.errstate(divide="ignore", invalid="ignore"):
        log_bessel = np.log(special.kve(nu, s)) + nu * np.log(s) - t
    value = (1 - nu) * math.log(2) - special.gammaln(nu) + log_bessel
    # kve overflows only if t is tiny; then two terms of the power series suffice
    near = -np.square(np.minimum(t, 1.0)) / (4 * (nu - 1)) if nu > 2 else 0.0
    return np.minimum(np.where(np.isfinite(value), value, near), 0.0)


def _log_matern_table(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log kernel for any nu by polynomial interpolation in log(t)."""
    value = _bessel_table(float(nu))(np.log(np.clip(t, _FIRST, _LAST)))
    value -= t
    outside = (t < _FIRST) | (t > _LAST)
    if outside.any():
        value[outside] = _log_matern_bessel(t[outside], nu)
    return np.minimum(value, 0.0, out=value)


@lru_cache(maxsize=8)
def _bessel_table(nu: float) -> PPoly:
    def log_scaled(x: np.ndarray) -> np.ndarray:
        return _log_matern_bessel(np.exp(x), nu) + np.exp(x)

    return tabulate(log_scaled, np.linspace(math.log(_FIRST), math.log(_LAST), 81))


def _log_matern_large(r: np.ndarray, nu: float) -> np.ndarray:
    """Return the log kernel for large nu, by the uniform expansion of K (DLMF 10.41.4).

    With z = r sqrt(2 / nu), s = sqrt(1 + z^2) - 1 and p = 1 / (1 + s), the log is
    nu (log(1 + s/2) - s) - log(1 + s) / 2 + log sum(p) - log sum(1), where sum(p) is
    the series of the expansion. As nu tends to infinity, the log kernel tends to
    -r^2 / 2, the log of the Gaussian kernel.
    """
    z2 = 2 * np.square(np.minimum(r, 1e100)) / nu
    s = z2 / (1 + np.sqrt(1 + z2))
    terms = (u * (-nu) ** -k for k, u in enumerate(_expansion(11)))
    series = sum(terms, Polynomial([0.0]))
    correction = np.log(series(1 / (1 + s)) / series(1.0))
    return nu * (np.log1p(s / 2) - s) - 0.5 * np.log1p(s) + correction


@lru_cache(maxsize=1)
def _expansion(n_terms: int) -> list[Polynomial]:
    """Return the polynomials u_k of DLMF 10.41.9."""
    terms = [Polynomial([1.0])]
    weight, inner = Polynomial([0, 0, 0.5, 0, -0.5]), Polynomial([1, 0, -5])
    while len(terms) < n_terms:
        u = terms[-1]
        terms.append(weight * u.deriv() + (inner * u).integ() / 8)
    return terms
