"""Generalised exponential features (GERF), and the search for their optimal A."""

from __future__ import annotations

import cmath
import math
from functools import lru_cache
from numbers import Complex, Integral

import numpy as np
from scipy import optimize, special

from .._compat import Options, RandomState
from ..frequencies import Coupling
from ..maps import (
    ExponentialMap,
    GaussianOrSoftmax,
    IsotropicQuadratic,
    Numbers,
    log_one_minus,
    log_rho,
    scaled_variance,
    second_moment,
)
from ..rows import Sigma
from ._base import fitted
from ._exponential import ExponentialSampler, mean_squares, optimal_A

_GRID = np.meshgrid(np.linspace(-1.5, 1.5, 13), np.linspace(0.02, 1.5, 25))
_BOUNDS = ((-40.0, 40.0), (0.0, math.pi / 2 - 1e-6))


class GERFSampler(ExponentialSampler):
    r"""Generalised exponential features (GERF) for the Gaussian or softmax kernel.

    The features depend on a sign s and a complex parameter A. For s = +1 and a real A
    they are positive features; for s = -1 and A = 0 they are random Fourier features.
    Whichever of the two is not given is chosen by ``fit`` so that the second moment of
    the estimate is minimal, given the means and variances of the columns.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: two per frequency (the real and the imaginary part), or one
        if the features are positive (s = +1 and a real A). If each frequency has two
        columns and ``n_components`` is odd, the last frequency has a single column with
        a random phase. None means 100, unless an estimator or a hybrid that uses the
        sampler sets a number.
    A : complex, default=None
        Coefficient of the squared norm of a frequency, a real or complex number whose
        real part is below 1/8; otherwise the variance is infinite. The estimate is
        unbiased for every such A. None means the best A for the rows.
    s : {-1, 1}, default=None
        Sign of the projection in the features of keys. None means the sign with the
        smaller variance for the same number of features.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel, and
        often reduces the variance considerably. Sparse rows remain sparse.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    A_ : complex
        The parameter A that was given or chosen.
    s_ : int
        The sign s that was given or chosen, +1 or -1.
    B_, D_, log_D_ : complex
        Factors that depend on A and s: the coefficient of the projection, the constant
        factor, and its logarithm (see Notes).
    C_ : float
        Coefficient of the squared norm of a row; it depends on s (see Notes).
    phase_ : float
        Phase of the last column, in radians. It is used only if ``n_components`` is odd
        and each frequency has two columns.
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        Frequencies of the map. They apply to rows multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    sklearn_crt.OPRFSampler : The special case s = +1 with the optimal real A.
    sklearn_crt.TrigRBFSampler : The special case s = -1 and A = 0.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies, and let x and y be a query and
    a key that are centred and multiplied by sigma. Their features are ([1]_, section
    3.1)

    .. math::

       f(x) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + B w \cdot x + C|x|^2}, &
       B &= \sqrt{s(1 - 4A)}, \quad C = -\tfrac{s + 1}{2}, \\
       g(y) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + s B w \cdot y + C|y|^2}, &
       D &= (1 - 4A)^{d/4} .

    The estimate is the sum of Re(f(x) g(y)) over the frequencies. Therefore
    ``transform`` returns all values Re f, followed by all values Im f, and
    ``transform_key`` returns all Re g, followed by all -Im g. If A is real, queries and
    keys have the same features (``symmetric_`` is True). If the number of columns is
    odd, the last column is :math:`\sqrt2 \operatorname{Re}(e^{ib} f)` for queries and
    :math:`\sqrt2 \operatorname{Re}(e^{-ib} g)` for keys, with b uniform on [0, 2 pi).
    If f is real, the last column is f itself.

    Let :math:`\rho = 1 / (1 - 8A)` and :math:`q = |x + s y|^2`. For a single frequency
    (m = 1), the second moment is

    .. math::

       E \operatorname{Re}(fg)^2 &= \tfrac12 e^{-(s+1)(|x|^2 + |y|^2)}
       \left( e^{a} + \operatorname{Re} e^{b} \right), \\
       a &= d \log \frac{|1 + \rho|}{2 \sqrt{\operatorname{Re} \rho}}
       + \left(\frac s2 + \frac{s|\rho|^2 + |\rho||1 + \rho|}
       {2 \operatorname{Re} \rho}\right) q, \\
       b &= d \log \frac{1 + \rho}{2 \sqrt\rho} + s (1 + \rho) q .

    If A is not given, ``fit`` replaces q by its mean over all pairs of rows and
    minimises the logarithm of this expression over s and log rho. Section 9.10 of [1]_
    minimises over A, which requires a constraint; log rho requires none. For each s,
    ``fit`` runs up to 50 iterations of L-BFGS-B from each of the best three points of a
    grid, and also minimises over real A, so the chosen features are never worse than
    OPRF or random Fourier features. In all trials known to us, no complex A was better
    than the best real A for the same s, so the chosen A is real in practice.

    Orthogonal frequencies reduce the variance by the same amount for every A. If p is
    the number of ordered pairs of frequencies in the same block, the reduction is

    .. math:: \frac{p}{m^2}\, e^{-(s+1)(|x|^2 + |y|^2)}
       \left(e^{sq} - {}_1F_1(d; d/2; sq/2)\right) .

    If the number of columns is odd, the last column has a frequency of its own. The
    second moment of the estimate from this frequency is larger by :math:`E|fg|^2 / 2`.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GERFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> for sigma in (0.1, 1.0):
    ...     sampler = GERFSampler(sigma=sigma, random_state=0).fit(X)
    ...     print(sigma, sampler.s_, f"{sampler.A_:.3f}")
    0.1 -1 0.005+0.000j
    1.0 1 -0.592+0.000j

    Any other member of the family has a larger variance:

    >>> rotated = GERFSampler(sigma=1.0, A=-0.6 + 0.3j, s=1, random_state=0).fit(X)
    >>> bool(rotated.kernel_variance(X).mean() > sampler.kernel_variance(X).mean())
    True
    """

    _parameter_constraints: dict = {
        **ExponentialSampler._parameter_constraints,
        "A": [Complex, None],
        "s": [Options(Integral, {-1, 1}), None],
    }
    map_: ExponentialMap

    def __init__(
        self,
        *,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        A: complex | None = None,
        s: int | None = None,
        coupling: str | Coupling = "orthogonal",
        center: bool = True,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        super().__init__(
            sigma=sigma,
            n_components=n_components,
            coupling=coupling,
            center=center,
            kernel=kernel,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        self.A = A
        self.s = s

    def _choose(self, statistics, frame, coupling):
        d = statistics.n_features
        q_plus, q_minus = mean_squares(statistics, frame)
        q = {-1: q_minus, 1: q_plus}
        signs = (-1, 1) if self.s is None else (int(self.s),)
        if self.A is not None:
            A = checked(self.A)
            s = min(signs, key=lambda sign: score(A, sign, q[sign], d))
        else:
            optima = {-1: trigonometric_A(q_minus, d), 1: optimal_A(q_plus, d)}
            s, A = best_member({sign: optima[sign] for sign in signs}, q, d)
        return IsotropicQuadratic(A.real, A.imag, s)

    s_: int = fitted("map_.s", "The sign s that was given or chosen, +1 or -1.")
    phase_: float = fitted("map_.phase", "Phase of the single last column, in radians.")

    @property
    def A_(self) -> complex:
        """The parameter A that was given or chosen."""
        return complex(self.map_.A)

    @property
    def B_(self) -> complex:
        """Coefficient B of the projection w.x."""
        return cmath.sqrt(self.s_ * (1 - 4 * self.A_))

    @property
    def C_(self) -> float:
        """Coefficient C of the squared norm of a row."""
        return -0.5 * (self.s_ + 1)

    @property
    def log_D_(self) -> complex:
        """Logarithm of the constant factor D."""
        return log_one_minus(4 * self.A_) * (0.25 * self.n_features_in_)

    @property
    def D_(self) -> complex:
        """Constant factor D; infinite if it overflows."""
        overflows = self.log_D_.real > 709
        return complex(math.inf) if overflows else cmath.exp(self.log_D_)


def checked(A: complex) -> complex:
    """Return A as a Python number, after checking that the variance is finite."""
    value = complex(A)
    if cmath.isfinite(value) and value.real < 0.125:
        return value
    raise ValueError(
        f"A={A!r} is out of range: the real part must be below 1/8, because the "
        "variance is infinite otherwise, and both parts must be finite. Use A=None for "
        "the best value."
    )


# -------------------------------------------------------------- the search for A
# The formulas are in ``maps/variance.py``; the functions below minimise them.
def log_variance(
    lam: Numbers, phi: Numbers, s: int, q: Numbers, n_features: int
) -> np.ndarray:
    """Return log(Var / K^2) for a single frequency; -inf if the variance is zero."""
    with np.errstate(divide="ignore"):
        variance, log_scale = scaled_variance(
            *second_moment(lam, phi, s, q, n_features)
        )
        return np.log(variance) + log_scale


def log_second_moment(
    lam: Numbers, phi: Numbers, s: int, q: Numbers, n_features: int
) -> np.ndarray:
    """Return log(E Re(fg)^2 / K^2), the objective of the search, at many points."""
    size, _, v, theta = second_moment(lam, phi, s, q, n_features)
    h = -np.expm1(-2 * v) + 2 * np.exp(-2 * v) * np.cos(theta / 2) ** 2
    with np.errstate(divide="ignore"):
        return size + np.log(h / 2)


def value_and_gradient(
    point: np.ndarray, s: int, q: float, n_features: int
) -> tuple[float, np.ndarray]:
    """Return the objective and its gradient at one point (lam, phi)."""
    lam, phi = float(point[0]), float(point[1])
    modulus, c, sin_phi = math.exp(lam), math.cos(phi), math.sin(phi)
    rho = complex(modulus * c, modulus * sin_phi)
    beside = abs(1 + rho)
    tanh = 0.5 * n_features * (rho - 1) / (rho + 1)
    log_cosh = cmath.log((1 + rho) / 2) - 0.5 * complex(lam, phi)
    total = beside + modulus if s > 0 else (1 + 2 * modulus * c) / (beside + modulus)
    # logs of E|fg|^2 / K^2 and E(fg)^2 / K^2, the latter analytic in log rho
    size = n_features * (log_cosh.real - 0.5 * math.log(c))
    size += 0.5 * q * (total / c - s)
    square = n_features * log_cosh + s * q * rho
    by_lam = tanh.real + 0.5 * q * (s * modulus + (rho.real + modulus**2) / beside) / c
    by_phi = -tanh.imag + 0.5 * sin_phi / c * (
        n_features + q * (total / c - modulus / beside)
    )
    gap, angle = max(size - square.real, 0.0), square.imag
    h = -math.expm1(-gap) + 2 * math.exp(-gap) * math.cos(0.5 * angle) ** 2
    h = max(h, 1e-300)
    by_square = cmath.rect(math.exp(-gap), angle) * (tanh + s * q * rho)
    gradient = (by_lam + by_square.real) / h, (by_phi - by_square.imag) / h
    return size + math.log(0.5 * h), np.array(gradient)


def trigonometric_A(q: float, n_features: int) -> float:
    """Return the real A that minimises the second moment for s = -1 and q = |x - y|^2.

    Here rho = 1 + t, where t < 0.56 / (d - 0.56) is the root of the equation t = 2 (1 +
    t)(2 + t) q expit(-(2 + t) q) / d.
    """
    last = 0.56 / (n_features - 0.56)

    def right(t, at):
        return 2 * (1 + t) * (2 + t) * q * special.expit(-(2 + at) * q) / n_features

    # the root may be tiny, so it is computed relative to the upper end of its bracket
    high = min(1.001 * right(last, 0.0), last)
    low = 0.999 * right(0.0, high)
    if low < 1e-290:  # q is 0, or so large that A cannot reduce the variance
        return 0.0
    t = high * optimize.brentq(
        lambda part: part - right(part * high, part * high) / high,
        low / high,
        1.0,
        xtol=1e-15,
    )
    return t / (8 * (1 + t))


def score(A: complex, s: int, q: float, n_features: int) -> float:
    """Return the log variance of a fixed number of features, up to a constant."""
    value = float(log_variance(*log_rho(A), s, q, n_features))
    return value - columns_saved(s, A.imag == 0)


def columns_saved(s: int, is_real: bool) -> float:
    """Return the log of the number of frequencies per two features."""
    # a real A with s = +1 needs one feature per frequency, and other members need two
    return math.log(2) if s > 0 and is_real else 0.0


@lru_cache  # cached because fits with other seeds repeat the same search
def complex_candidates(
    A: float, s: int, q: float, n_features: int
) -> tuple[tuple[float, float], ...]:
    """Return the optima that L-BFGS-B finds, starting at the three best grid points."""
    real, _ = log_rho(complex(A))
    if abs(real) > _BOUNDS[0][1]:
        return ()
    points = np.stack([_GRID[0].ravel() + real, _GRID[1].ravel()])
    points = np.clip(points, *np.transpose(_BOUNDS)[..., None])
    values = log_second_moment(points[0], points[1], s, q, n_features)
    ends = (
        optimize.minimize(
            value_and_gradient,
            points[:, start],
            args=(s, q, n_features),
            method="L-BFGS-B",
            jac=True,
            bounds=_BOUNDS,
            options={"maxiter": 50},
        ).x
        for start in np.argsort(values)[:3]
    )
    return tuple((float(lam), float(phi)) for lam, phi in ends)


def best_member(
    real_optima: dict[int, float], q: dict[int, float], n_features: int
) -> tuple[int, complex]:
    """Return the s and A with the smallest variance, given the means of |x + s y|^2.

    Variances are compared instead of second moments, because they are accurate even if
    the second moments are close to 1. A complex A is chosen only if it reduces the
    variance of the best real A with the same s by more than rounding errors.
    """
    best, member = math.inf, next((s, complex(A)) for s, A in real_optima.items())
    for s, A in sorted(real_optima.items()):
        value = float(log_variance(*log_rho(complex(A)), s, q[s], n_features))
        margin = 1e-8 + 1e-12 * abs(value)
        candidates = [(value - columns_saved(s, True), complex(A))]
        for lam, phi in complex_candidates(A, s, q[s], n_features):
            other = float(log_variance(lam, phi, s, q[s], n_features))
            if other < value - margin:
                other -= columns_saved(s, phi == 0)
                candidates.append((other, (1 - cmath.exp(complex(-lam, -phi))) / 8))
        value, choice = min(candidates, key=lambda candidate: candidate[0])
        if value < best:
            best, member = value, (s, choice)
    return member
