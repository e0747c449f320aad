"""Exponential features with a complex diagonal matrix: exact at one pair of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import RandomState, StrOptions
from ...frequencies import Coupling, get_coupling
from ...maps import DiagonalQuadratic, GaussianOrSoftmax
from ...rows import Sigma
from .._base import BaseFeatureSampler, fitted
from .._exponential import make_exponential_map


class ComplexExponentialSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from complex exponential features (CE).

    Parameters
    ----------
    diagonal : array-like of shape (n_features,) or complex, default=1.0
        The diagonal a, a number or one per column, without zeros: 1 gives positive
        features, the imaginary unit sines and cosines.
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns: one per frequency where a is real, otherwise two. With an odd
        number the last frequency then has one column with a random phase.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        ``"softmax"`` is ``exp(sigma**2 * x.y)``, by features of the Gaussian kernel
        times ``exp(|sigma * x|**2 / 2)``.
    n_jobs : int, default=None
        Number of threads of ``transform``; -1 uses all processors. None uses as many as
        NumPy's linear algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies, which are nested: with the same seed, a sampler with
        half as many columns uses the first half of them.

    Attributes
    ----------
    diagonal_ : ndarray of shape (n_features,)
        The diagonal a, real if possible.
    phase_ : float
        Phase of the last column where ``n_components`` is odd, in radians; only where
        frequencies have two columns.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    ClusteredSampler : Has one such map for each pair of clusters.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)`, products with a coordinate by
    coordinate, and squares without conjugates ([1]_, equations 14 to 16)

    .. math::

       f(x) &= \tfrac{1}{\sqrt m} e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = \tfrac{1}{\sqrt m} e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}, \\
       \operatorname{Var} &= \frac{K^2}{m} \left( \tfrac12 e^{|z|^2}
       + \tfrac12 \operatorname{Re} e^{z \cdot z} - 1 \right), \quad z = a x + y / a .

    Queries have the columns Re f, Im f, keys Re g, -Im g. The variance is zero where
    z = 0. For a real a orthogonal frequencies reduce it as they do for positive
    features, and ``kernel_variance`` says by how much; for a complex a it is that of
    independent frequencies.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ComplexExponentialSampler, best_diagonal
    >>> X, Y = np.array([[0.5, -1.0]]), np.array([[0.3, 0.4]])
    >>> a = best_diagonal(X[0], Y[0])
    >>> sampler = ComplexExponentialSampler(a, sigma=1.0, random_state=0)
    >>> bool(sampler.fit(X, X_key=Y).kernel_variance(X, Y)[0, 0] < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "diagonal": ["array-like", complex, float, int],
    }

    def __init__(
        self,
        diagonal: complex | ArrayLike = 1.0,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        diagonal = self._full_diagonal(statistics.n_features)
        coupling = get_coupling(self.coupling, type(self).__name__)
        form = self._frame(statistics), DiagonalQuadratic(diagonal), coupling
        return make_exponential_map(self, statistics, drawn, *form)

    def _full_diagonal(self, d):
        """Return the diagonal, one number per column, real if no number is complex."""
        a = np.asarray(self.diagonal)
        if a.ndim > 1 or a.size not in (1, d) or not np.all(np.isfinite(a) & (a != 0)):
            raise ValueError(
                f"diagonal={self.diagonal!r} must be finite and nonzero: a number or "
                f"one for each of the {d} features."
            )
        a = np.broadcast_to(a, d).astype(complex)
        return a if np.any(a.imag) else a.real.copy()

    diagonal_: np.ndarray = fitted(
        "map_.quadratic.diagonal", "The diagonal, real if no number is complex."
    )
    phase_: float = fitted("map_.phase", "Phase of a single last column, in radians.")


def best_diagonal(
    query: np.ndarray,
    key: np.ndarray,
    query_spread: np.ndarray | float = 0.0,
    key_spread: np.ndarray | float = 0.0,
    *,
    real: bool = False,
) -> np.ndarray:
    r"""Return the diagonal a of least mean :math:`|a x + y / a|^2` for two clusters.

    Parameters
    ----------
    query, key : ndarray of shape (n_features,)
        Centres of the clusters.
    query_spread, key_spread : ndarray of shape (n_features,), default=0.0
        Second moments about the centres; without them centres alone count.
    real : bool, default=False
        Whether a has to be real.

    Returns
    -------
    a : ndarray of shape (n_features,), complex
        Imaginary where the centres have the same sign, which makes the two terms
        cancel, real elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import best_diagonal
    >>> a = best_diagonal(np.array([1.0, 1.0]), np.array([4.0, -4.0]))
    >>> a.tolist()
    [2j, (2+0j)]
    """
    floor = 1e-12  # both sums at the floor: modulus 1
    squares = np.maximum(query**2 + query_spread, floor)
    key_squares = np.maximum(key**2 + key_spread, floor)
    modulus = np.clip((key_squares / squares) ** 0.25, 1e-6, 1e6)
    imaginary = (query * key > 0) & (not real)
    a = np.zeros(np.shape(modulus), dtype=complex)
    a.real, a.imag = np.where(imaginary, 0, modulus), np.where(imaginary, modulus, 0)
    return a
