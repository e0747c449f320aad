"""Samplers that estimate the coefficients of hybrids."""

from __future__ import annotations

import copy
import math
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from ..._compat import RandomState
from ...frequencies import Coupling, chi_law, get_coupling
from ...maps import Gaussian, LinearImagesMap, SignMap, WeightedMap
from ...rows import Frame, Sigma
from .._base import BaseFeatureSampler
from .._positive import PositiveRBFSampler
from .._trigonometric import has_uniform_directions, make_trigonometric_map


class AngularCoefficient(BaseFeatureSampler):
    r"""Hybrid coefficient theta / pi, estimated from the signs of random projections.

    The features estimate :math:`\theta / \pi - 1/2`, where theta is the angle between
    two rows; :class:`HybridSampler` adds the constant 1/2 (the attribute ``a_``).

    Parameters
    ----------
    n_components : int, default=None
        Number of features, one per direction. None means 100, unless a hybrid that uses
        the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the directions depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"`` or a coupling object
        whose ``exact`` is True.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    a_ : float
        Constant part of the coefficient, 1/2.
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
    GaussianCoefficient : One minus a Gaussian kernel as a coefficient.
    HybridSampler : Combination of base maps with coefficients of this kind.

    Notes
    -----
    For n independent directions :math:`t \sim N(0, I_d)` ([1]_; [2]_, equation 19 and
    lemma 3.2),

    .. math::

       r_1(x) = \frac{\operatorname{sign}(t \cdot x)}{\sqrt{2n}}, \quad
       r_2(y) = -\frac{\operatorname{sign}(t \cdot y)}{\sqrt{2n}}, \quad
       E\, r_1(x) \cdot r_2(y) = \frac\theta\pi - \frac12, \quad
       \operatorname{Var} = \frac1n \frac\theta\pi \left(1 - \frac\theta\pi\right)

    The variance also has a closed form for orthogonal directions, but for no other
    coupling. Angles are measured at the origin. The angle between a row of zeros and
    any other row is defined as a right angle.

    References
    ----------
    .. [1] M. X. Goemans, D. P. Williamson, "Improved approximation algorithms for
       maximum cut and satisfiability problems using semidefinite programming",
       J. ACM 42 (1995).
    .. [2] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import AngularCoefficient
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0]])
    >>> coefficient = AngularCoefficient(random_state=0).fit(X)
    >>> coefficient.a_ + coefficient.exact_kernel(X[:1], X)
    array([[0.  , 0.25, 1.  ]])
    """

    _doubtful_below = 0  # no warning, because coefficients may be arbitrarily small
    _is_coefficient = True
    _parameter_constraints: dict = {
        **{
            name: BaseFeatureSampler._parameter_constraints[name]
            for name in ("n_components", "n_jobs", "random_state")
        },
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def a_(self) -> float:
        """Constant part of the coefficient."""
        check_is_fitted(self)
        return 0.5

    def _make_map(self, statistics, drawn):
        # with structured directions, a row along an axis can have products that are
        # exactly 0
        reason = ", because signs need directions that are exactly uniform"
        name = type(self).__name__
        coupling = get_coupling(self.coupling, name, has_uniform_directions, reason)
        n, rng = self.n_components, statistics.frequency_stream()
        directions = coupling.draw(chi_law, n, statistics.n_features, rng)
        return SignMap(Frame(), n, directions, coupling)

    def with_sigma(self, sigma: Sigma) -> Self:
        """Return a copy, because angles do not change if all rows are rescaled.

        Parameters
        ----------
        sigma : float
            Ignored.

        Returns
        -------
        sampler : AngularCoefficient
            An identical copy.
        """
        check_is_fitted(self)
        return copy.copy(self)


class GaussianCoefficient(BaseFeatureSampler):
    r"""Hybrid coefficient that increases with the distance between the two rows.

    Without matrices, the features estimate :math:`-e^{-\sigma^2 |x - y|^2 / 2} / h`,
    and :class:`HybridSampler` adds the constant 1/h (the attribute ``a_``). The
    coefficient is 0 for equal rows, and 1 for opposite rows x and -x with the largest
    norm in the data. With a matrix M, the features estimate :math:`e^{-\sigma^2 |x + M
    y|^2 / 2}`, which is 1 for x = -M y and decreases with the distance from there.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=1.0
        Inverse length scale of the coefficient, for rows that a hybrid has already
        multiplied by its own sigma.
    key_matrix : array-like, default=None
        Matrix M of shape (n_features, n_features) by which keys are multiplied, or its
        diagonal of shape (n_features,). If it is given, the coefficient is large for
        pairs of rows with x close to -M y.
    query_matrix : array-like, default=None
        Matrix P, or its diagonal, by which queries are multiplied, so that the
        coefficient is large for P x close to -M y; the identity if None. It requires
        ``key_matrix``.
    positive : bool, default=False
        Whether to estimate the coefficient by positive features, one per frequency,
        instead of random Fourier features. Positive features are accurate for small
        coefficients, and random Fourier features for coefficients close to 1. It
        requires ``key_matrix``.
    n_components : int, default=None
        Number of features, two per frequency, or one with ``positive=True``. If sines
        and cosines are used and ``n_components`` is odd, the last frequency has a
        single column with a random phase. None means 100, unless a hybrid that uses the
        sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    a_ : float
        Constant part of the coefficient, 1/h; 0 if ``key_matrix`` is given.
    phase_ : float
        Phase of the last column, in radians. It is used only if ``n_components`` is
        odd.
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
    AngularCoefficient : The angle divided by pi as a coefficient.
    HybridSampler : Combination of base maps with coefficients of this kind.

    Notes
    -----
    Let :math:`t \sim N(0, I_d)` be one of n frequencies, and let r be the largest norm
    in a sample of up to 1000 rows. All rows are multiplied by sigma ([1]_, section F).
    Then

    .. math::

       \lambda(x, y) &= \frac{1 - e^{-|x - y|^2 / 2}}{h}, \quad
       h = 1 - e^{-2 r^2}, \\
       r_1(x) &= \frac{1}{\sqrt{n h}} (\cos t \cdot x, \sin t \cdot x), \quad
       r_2(y) = -r_1(y), \quad
       \operatorname{Var} = \frac{(1 - e^{-|x-y|^2})^2}{2 n h^2}

    With matrices, let :math:`u = P x` and :math:`v = -M y`. The coefficient is
    :math:`\lambda = e^{-|u - v|^2 / 2}` without a constant part, that is, the Gaussian
    kernel of u and v ([1]_, equation 20, with :math:`\sigma = 1 / c`). Its variance is
    :math:`(1 - \lambda^2)^2 / (2n)` for random Fourier features and
    :math:`(e^{4 u \cdot v} - \lambda^2) / n` for positive features. The
    formulas for variances hold for independent frequencies; ``kernel_variance`` also
    accounts for orthogonal frequencies.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GaussianCoefficient
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> coefficient = GaussianCoefficient(random_state=0).fit(X)
    >>> (coefficient.a_ + coefficient.exact_kernel(X[:1], X)).round(3)
    array([[0.   , 0.731, 1.   ]])
    >>> turn = np.array([[0.0, -1.0], [1.0, 0.0]])  # by 90 degrees
    >>> coefficient = GaussianCoefficient(key_matrix=-turn, sigma=3.0).fit(X)
    >>> coefficient.exact_kernel(X, X).round(3)  # x equals the turned y, or does not
    array([[0., 0., 0.],
           [1., 0., 0.],
           [0., 1., 0.]])
    """

    map_: WeightedMap
    _doubtful_below = 0  # no warning, because coefficients may be arbitrarily small
    _is_coefficient = True
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "key_matrix": ["array-like", None],
        "query_matrix": ["array-like", None],
        "positive": ["boolean"],
    }

    def __init__(
        self,
        *,
        sigma: Sigma = 1.0,
        key_matrix: ArrayLike | None = None,
        query_matrix: ArrayLike | None = None,
        positive: bool = False,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.key_matrix = key_matrix
        self.query_matrix = query_matrix
        self.positive = positive
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _reads(self):
        return {"rows": 1000} if self.key_matrix is None else {}

    def _columns_per_frequency(self, n_features):
        return 1 if self.positive else 2

    def _make_map(self, statistics, drawn):
        base: Any
        if self.positive:
            options = {"sigma": self.sigma, "n_components": self.n_components}
            plain = PositiveRBFSampler(coupling=self.coupling, center=False, **options)
            base = plain._make_map(statistics, None)
        else:
            base = make_trigonometric_map(self, statistics, None, Gaussian(), chi_law)
        if self.key_matrix is None:
            for name in ("query_matrix", "positive"):
                value = getattr(self, name)
                if value is not None and value is not False:
                    raise ValueError(
                        f"{name} of GaussianCoefficient has no effect without "
                        "key_matrix, the matrix by which keys are multiplied. Set "
                        "key_matrix, for instance to the identity."
                    )
            weight = -_constant_term(statistics, base.frame)
            return WeightedMap(base.frame, base.n_components, base, weight)
        d = statistics.n_features
        M = _square_or_row(self.key_matrix, "key_matrix", d)
        P = np.ones((1, d))
        if self.query_matrix is not None:
            P = _square_or_row(self.query_matrix, "query_matrix", d)
        return LinearImagesMap(
            frame=base.frame,
            n_components=base.n_components,
            base=base,
            weight=1.0,
            query_matrix=P,
            key_matrix=-M,
        )

    @property
    def phase_(self) -> float:
        """Phase of the single last column, in radians."""
        return self.map_.base.phase  # type: ignore[attr-defined]

    @property
    def a_(self) -> float:
        """Constant part of the coefficient, 1/h; 0 if ``key_matrix`` is given."""
        check_is_fitted(self)
        return 0.0 if isinstance(self.map_, LinearImagesMap) else -self.map_.weight


def _square_or_row(matrix: ArrayLike, name: str, d: int) -> np.ndarray:
    """Return the transpose of a validated matrix, or its diagonal as a row."""
    values = check_array(matrix, dtype=np.float64, input_name=name, ensure_2d=False)
    if values.shape not in [(d, d), (d,)]:
        raise ValueError(
            f"{name} has shape {values.shape}, but X has {d} features; give a matrix "
            f"of shape ({d}, {d}), or its diagonal of shape ({d},)."
        )
    return values[None, :] if values.ndim == 1 else values.T.copy()


def _constant_term(statistics, frame):
    """Return 1/h, the constant part of a coefficient, for the largest sampled norm."""
    samples = (sample.X.astype(np.float64) for sample in statistics.side_samples)
    rows = map(frame.rows, samples)
    sq_radius = max(float(some.sq_norms.max(initial=0)) for some in rows)
    h = -math.expm1(-2 * sq_radius)
    # values close to 1 are rounded, so that sparse and dense rows give the same result
    return 1.0 if h == 0 or h > 1 - 1e-12 else 1 / h
