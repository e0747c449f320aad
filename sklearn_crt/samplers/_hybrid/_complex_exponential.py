"""Exponential features with a complex diagonal matrix: exact at one pair of rows."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from ..utils._docs import fill_doc
from ._conformity import positive_gap
from ._gaussian import GaussianKernelMixin
from ._isotropic import IsotropicSampler


def best_diagonal(query, key, query_spread=0.0, key_spread=0.0, *, real=False):
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


@fill_doc
class ComplexExponentialSampler(GaussianKernelMixin, IsotropicSampler):
    r"""Gaussian or softmax kernel from complex exponential features (CE).

    Parameters
    ----------
    diagonal : array-like of shape (n_features,) or complex, default=1.0
        The diagonal a, without zeros: 1 gives positive features, the imaginary unit
        sines and cosines.
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output; one a frequency where a is real, otherwise
        two, and for an odd number one with a random phase.
    %(coupling)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    diagonal_ : ndarray of shape (n_features,)
        The diagonal a, real if it can be.
    phase_ : float
        Phase of the last column where that is single, in radians.
    %(fitted)s

    See Also
    --------
    HybridSampler : With ``kind="clustered"`` has one such map a pair of clusters.

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
    z = 0. A real a and orthogonal frequencies save what they save for positive
    features.

    ``kernel_variance`` is this formula for ``"iid"``, and for ``"orthogonal"`` where a
    is real; elsewhere that of independent frequencies.

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
        **IsotropicSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
        "diagonal": ["array-like", complex, float, int],
    }

    def __init__(
        self,
        diagonal=1.0,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting
    def _fit_parameters(self, moments, key_moments):
        d = self.n_features_in_
        a = np.asarray(self.diagonal)
        if a.ndim > 1 or a.size not in (1, d) or not np.all(np.isfinite(a) & (a != 0)):
            raise ValueError(
                f"diagonal={self.diagonal!r} must be finite and nonzero: a number or "
                f"one for each of the {d} features."
            )
        a = np.broadcast_to(a, d).astype(complex)
        self.diagonal_ = a if np.any(a.imag) else a.real

    @property
    def _is_real(self):
        return not np.any(np.imag(getattr(self, "diagonal_", self.diagonal)))

    @property
    def symmetric_(self) -> bool:
        """Whether ``transform_key`` is the same map as ``transform``."""
        return self._is_real and bool(np.all(self.diagonal_ == 1 / self.diagonal_))

    @property
    def _features_per_frequency(self):
        return 1 if self._is_real else 2

    def _after_draw(self, rng):
        (phase_rng,) = rng.spawn(1)
        self.phase_ = float(phase_rng.uniform(0, 2 * math.pi))

    def frequency_index(self):
        n_pairs = self.n_components - self._n_frequencies
        return np.concatenate([np.arange(n_pairs), np.arange(self._n_frequencies)])

    # ------------------------------------------------------------- transforming
    def _features(self, rows, out, key):
        a = 1 / self.diagonal_ if key else self.diagonal_
        x, square = rows.matrix, np.square(a)
        growth = rows.map_columns(a.real).projection
        squares = x.multiply(x).tocsr() if sparse.issparse(x) else x * x
        term = -0.5 * rows.sq_norms - 0.5 * math.log(self._n_frequencies)
        term -= 0.5 * np.asarray(squares @ square.real.astype(x.dtype))[:, None]
        if self.kernel == "softmax":
            term = term + self._log_row_factor(rows)
        growth += term
        if self._is_real:
            return None, growth
        phases = rows.map_columns(a.imag).projection
        phases -= 0.5 * np.asarray(squares @ square.imag.astype(x.dtype))[:, None]
        n_pairs = self.n_components - self._n_frequencies
        np.cos(phases[:, :n_pairs], out=out[:, :n_pairs])
        np.sin(phases[:, :n_pairs], out=out[:, n_pairs : 2 * n_pairs])
        if key:
            out[:, n_pairs : 2 * n_pairs] *= -1
        if self.n_components % 2:  # sqrt 2 Re(e^ib f) and sqrt 2 Re(e^-ib g)
            phase = -self.phase_ if key else self.phase_
            out[:, -1] = math.sqrt(2) * np.cos(phases[:, -1] + phase)
        return out, growth[:, self.frequency_index()]

    # ------------------------------------------------------------------ variance
    def _has_closed_form(self):
        return self._is_real and super()._has_closed_form()

    def _variance(self, X, Y):
        a, m, n = self.diagonal_.astype(complex), self._n_frequencies, self.n_components
        x, y = (Z.matrix for Z in (X, Y))
        x, y = (Z.toarray() if sparse.issparse(Z) else Z for Z in (x, y))
        # coordinate by coordinate the real and imaginary part of z = a x + y / a
        left = np.hstack([x * a.real, x * a.imag])
        right = np.hstack([y * (1 / a).real, y * (1 / a).imag])
        sq_norms = real = 0.0
        d = self.n_features_in_
        for part, sign in ((slice(None, d), 1), (slice(d, None), -1)):
            squares = _squared_sums(left[:, part], right[:, part])
            sq_norms, real = sq_norms + squares, real + sign * squares
        total = _relative_variance(sq_norms, real, _twice_products(left, right, d))
        single = 2 * m - n if not self._is_real else 0  # half of E|fg|^2 more
        total = total / m + 0.5 * single / m**2
        if self._n_pairs() > 0 and self._has_closed_form():
            gap = positive_gap(sq_norms, d, self._cosine()) * np.exp(-sq_norms)
            total = total - self._n_pairs() / m**2 * gap
        with np.errstate(divide="ignore", over="ignore"):
            log_variance = np.log(np.maximum(total, 0)) + sq_norms
            log_variance -= X.pair_statistics(Y)[2]
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))


def _squared_sums(left, right):
    """Return |x + y|^2 of all pairs of rows."""
    total = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)
    return np.maximum(total + 2 * left @ right.T, 0)


def _twice_products(left, right, d):
    """Return the imaginary part of z.z, twice the real times the imaginary parts."""
    real, imaginary = left[:, :d], left[:, d:]
    key_real, key_imaginary = right[:, :d], right[:, d:]
    own = np.sum(real * imaginary, axis=1)[:, None]
    own = own + np.sum(key_real * key_imaginary, axis=1)
    return 2 * (own + real @ key_imaginary.T + imaginary @ key_real.T)


def _relative_variance(sq_norms, real, imaginary):
    """Return (e^s + Re e^(zz)) / 2 - 1 in units of e^s, for s = |z|^2 and zz = z.z."""
    near = sq_norms < 30
    small = np.where(near, real, 0) + 1j * np.where(near, imaginary, 0)
    change = np.exp(-sq_norms) * np.expm1(small).real
    far = np.exp(real - sq_norms) * np.cos(imaginary) - np.exp(-sq_norms)
    return 0.5 * (-np.expm1(-sq_norms) + np.where(near, change, far))
