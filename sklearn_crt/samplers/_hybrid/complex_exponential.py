"""Complex exponential features, and the best ones for a pair of clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import RandomState, StrOptions
from ...frequencies import Coupling, get_coupling
from ...maps import DiagonalQuadratic, GaussianOrSoftmax, MatrixQuadratic
from ...rows import Sigma
from .._base import BaseFeatureSampler, fitted
from .._exponential import make_exponential_map

_LARGEST_CONDITION = 1e12  # of the matrix, beyond which its inverse is inaccurate


class ComplexExponentialSampler(BaseFeatureSampler):
    r"""Complex exponential features (CE) for the Gaussian or softmax kernel.

    Parameters
    ----------
    matrix : complex or array-like, default=1.0
        The matrix B in the features (see Notes), real or complex: an invertible matrix
        of shape (n_features, n_features), its diagonal of shape (n_features,) if it is
        diagonal, or a nonzero number, which stands for a multiple of the identity. The
        value 1 gives positive features, and the imaginary unit gives random Fourier
        features.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: one per frequency if B is real, otherwise two. If each
        frequency has two columns and ``n_components`` is odd, the last frequency has a
        single column with a random phase. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
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
    matrix_ : ndarray of shape (n_features, n_features) or (n_features,)
        The matrix B, or its diagonal; a real array if all entries are real.
    phase_ : float
        Phase of the last column, in radians. It is used only if ``n_components`` is odd
        and each frequency has two columns.
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
    ClusteredSampler : One sampler of this kind for each pair of clusters.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies. The square of a complex vector
    is the sum of its squared entries, without conjugates. Then ([1]_, equations 14 to
    16)

    .. math::

       f(x) &= \tfrac{1}{\sqrt m} e^{w \cdot B x - (B x)^2 / 2 - |x|^2 / 2}, \\
       g(y) &= \tfrac{1}{\sqrt m} e^{w \cdot B'^{-1} y - (B'^{-1} y)^2 / 2
       - |y|^2 / 2}, \\
       \operatorname{Var} &= \frac{K^2}{m} \left( \tfrac12 e^{|z|^2}
       + \tfrac12 \operatorname{Re} e^{z \cdot z} - 1 \right),
       \quad z = B x + B'^{-1} y .

    The columns are Re f and Im f for queries, and Re g and -Im g for keys. The variance
    is zero if z = 0. If B is real, orthogonal frequencies reduce the variance as for
    positive features, which ``kernel_variance`` takes into account. If B is complex,
    ``kernel_variance`` returns the variance for independent frequencies. A matrix that
    is not diagonal takes O(d^2) additional operations per row.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ComplexExponentialSampler
    >>> X, Y = np.array([[0.5, -1.0]]), np.array([[2.0, 0.25]])
    >>> sampler = ComplexExponentialSampler([2j, 0.5], sigma=1.0, random_state=0)
    >>> bool(sampler.fit(X, X_key=Y).kernel_variance(X, Y)[0, 0] < 1e-15)
    True

    A real matrix that is not diagonal makes the variance zero for every pair of rows
    with x.y < 0, if B'B x = -y:

    >>> x, y = np.array([1.0, 0.5]), np.array([-1.0, 0.5])
    >>> form = np.outer(y, y) / -(x @ y) + np.outer([0.5, -1.0], [0.5, -1.0])
    >>> sampler = ComplexExponentialSampler(np.linalg.cholesky(form).T, sigma=1.0)
    >>> bool(sampler.fit([x], X_key=[y]).kernel_variance([x], [y])[0, 0] < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "matrix": ["array-like", complex, float, int],
    }

    def __init__(
        self,
        matrix: complex | ArrayLike = 1.0,
        *,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.matrix = matrix
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        B = self._full_matrix(statistics.n_features)
        coupling = get_coupling(self.coupling, type(self).__name__)
        quadratic = DiagonalQuadratic(B) if B.ndim == 1 else MatrixQuadratic(B)
        frame = self._frame(statistics)
        return make_exponential_map(self, statistics, drawn, frame, quadratic, coupling)

    def _columns_per_frequency(self, n_features):
        get_coupling(self.coupling, type(self).__name__)  # raises ValueError if invalid
        return 2 if np.iscomplexobj(self._full_matrix(n_features)) else 1

    def _full_matrix(self, d):
        """Return the matrix, or one entry per column, as a real array if possible."""
        B = np.asarray(self.matrix)
        known = B.shape in [(), (1,), (d,), (d, d)] and B.dtype.kind in "biufc"
        known = known and bool(np.all(np.isfinite(B)))
        if known and B.ndim == 2:
            known = np.linalg.cond(B) < _LARGEST_CONDITION
        elif known:
            known = bool(np.all(B != 0))
        if not known:
            raise ValueError(
                f"matrix={self.matrix!r} must be finite and invertible: a nonzero "
                f"number, {d} nonzero numbers, or a matrix of shape ({d}, {d})."
            )
        B = (B if B.ndim == 2 else np.broadcast_to(B, d)).astype(complex)
        return B if np.any(B.imag) else B.real.copy()

    matrix_: np.ndarray = fitted(
        "map_.quadratic.matrix",
        "The matrix B, or its diagonal; a real array if all entries are real.",
    )
    phase_: float = fitted("map_.phase", "Phase of the single last column, in radians.")


def best_diagonal(
    query: np.ndarray,
    key: np.ndarray,
    query_spread: np.ndarray | float = 0.0,
    key_spread: np.ndarray | float = 0.0,
    *,
    real: bool = False,
) -> np.ndarray:
    """Return the diagonal a that minimises the mean of ``|a x + y / a|**2``.

    ``query`` and ``key`` are the centres of two clusters, and the spreads are the
    second moments about these centres. An entry of a is imaginary if the two centres
    have the same sign in this column, so that the two terms cancel, and real otherwise.
    All entries are real if ``real`` is True.
    """
    floor = 1e-12  # if both second moments are smaller, the modulus of a is 1
    squares = np.maximum(query**2 + query_spread, floor)
    key_squares = np.maximum(key**2 + key_spread, floor)
    modulus = np.clip((key_squares / squares) ** 0.25, 1e-6, 1e6)
    imaginary = (query * key > 0) & (not real)
    a = np.zeros(np.shape(modulus), dtype=complex)
    a.real, a.imag = np.where(imaginary, 0, modulus), np.where(imaginary, modulus, 0)
    return a
