"""Generalised exponential random features of the Gaussian kernel (GERF)."""

from __future__ import annotations

import cmath
import math

import numpy as np

from ..utils._docs import fill_doc
from ._circle import write_cos_sin
from ._conformity import positive_gap, trigonometric_gap
from ._exponential import ExponentialSampler, optimal_A
from ._gerf_search import (
    best_member,
    log_one_minus,
    log_rho,
    scaled_variance,
    second_moment,
    trigonometric_A,
)


@fill_doc
class GERFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from the best exponential features, complex A (GERF).

    The family has positive features (s = +1, real A: PosRF, OPRF) and sines and
    cosines (s = -1, A = 0) as members. ``fit`` reads the mean and variance of the
    columns and searches the sign s and the complex A of least second moment.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, two a frequency: the real and the imaginary
        part. An odd number gives the last frequency one column with a random phase.
    %(coupling)s
    %(center)s
    %(kernel)s
    real_cost : bool, default=False
        False compares the members at one frequency each, as [1]_ does, and always
        has two columns a frequency; where a real A with s = +1 wins, the imaginary
        columns are zero. True compares them at equal numbers of columns, and a real
        A with s = +1 then has one column a frequency.
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    A_ : complex
        The chosen parameter, with a real part below 1/8.
    s_ : int
        The chosen sign, +1 or -1.
    phase_ : float
        Phase of the last column where that is single, in radians.
    %(center_)s
    %(fitted)s

    See Also
    --------
    OPRFSampler : The best member with s = +1 and real A.
    TrigRBFSampler : The member with s = -1 and A = 0.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already centred and multiplied
    by sigma, queries and keys are mapped by ([1]_, section 3.1)

    .. math::

       f(x) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + B w \cdot x + C|x|^2}, &
       B &= \sqrt{s(1 - 4A)}, \quad C = -\tfrac{s + 1}{2}, \\
       g(y) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + s B w \cdot y + C|y|^2}, &
       D &= (1 - 4A)^{d/4} .

    The estimate is the sum of Re(f(x) g(y)): the columns of ``transform`` are first
    all Re f, then all Im f, those of ``transform_key`` Re g and -Im g. Both sides
    are one map, ``symmetric_``, where A is real. A last single column holds
    :math:`\sqrt2 \operatorname{Re}(e^{ib} f)` and
    :math:`\sqrt2 \operatorname{Re}(e^{-ib} g)`, b uniform on [0, 2 pi), and f itself
    where that is real.

    Put :math:`\rho = 1 / (1 - 8A)` and :math:`q = |x + s y|^2`. One product has

    .. math::

       E \operatorname{Re}(fg)^2 &= \tfrac12 e^{-(s+1)(|x|^2 + |y|^2)}
       \left( e^{a} + \operatorname{Re} e^{b} \right), \\
       a &= d \log \frac{|1 + \rho|}{2 \sqrt{\operatorname{Re} \rho}}
       + \left(\frac s2 + \frac{s|\rho|^2 + |\rho||1 + \rho|}
       {2 \operatorname{Re} \rho}\right) q, \\
       b &= d \log \frac{1 + \rho}{2 \sqrt\rho} + s (1 + \rho) q .

    ``fit`` minimises the logarithm of this at the means of q over all pairs of rows,
    over s and over log rho: for each s L-BFGS-B of 50 iterations from the best three
    points of a grid, and the optimum over real A. The result is never worse there
    than OPRF or TrigRF. In all trials known to us no complex A was better than the
    real optimum of its sign, so ``A_`` ends up real.

    Orthogonal frequencies subtract the same from the variance for every A: with p
    ordered pairs in common blocks, :math:`p / m^2 \, e^{-(s+1)(|x|^2 + |y|^2)}
    (e^{sq} - {}_1F_1(d; d/2; sq/2))`.

    %(variance)s
    %(errors)s

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import GERFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> for sigma in (0.1, 1.0):
    ...     sampler = GERFSampler(sigma=sigma, random_state=0).fit(X)
    ...     print(sigma, sampler.s_, f"{sampler.A_:.3f}")
    0.1 -1 0.005+0.000j
    1.0 1 -0.592+0.000j
    """

    _parameter_constraints: dict = {
        **ExponentialSampler._parameter_constraints,
        "real_cost": ["boolean"],
    }

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        center=True,
        kernel="gaussian",
        real_cost=False,
        n_jobs=None,
        random_state=None,
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
        self.real_cost = real_cost

    # ------------------------------------------------------------------ fitting
    def _fit_parameters(self, moments, key_moments):
        super()._fit_parameters(moments, key_moments)
        q_plus, q_minus = self._mean_squares(moments, key_moments)
        self.s_, self.A_ = self._search(q_plus, q_minus, self.n_features_in_)

    def _search(self, q_plus, q_minus, n_features):
        """Return s and A for the means of |x + y|^2 and |x - y|^2."""
        optima = {
            -1: trigonometric_A(q_minus, n_features),
            1: optimal_A(q_plus, n_features),
        }
        q = {-1: q_minus, 1: q_plus}
        return best_member(optima, q, n_features, self.real_cost)

    @property
    def B_(self) -> complex:
        """Coefficient of the projection."""
        return cmath.sqrt(self.s_ * (1 - 4 * self.A_))

    @property
    def C_(self) -> float:
        """Coefficient of the squared norm of the row."""
        return -0.5 * (self.s_ + 1)

    @property
    def log_D_(self) -> complex:
        """Logarithm of the constant factor."""
        return 0.25 * self.n_features_in_ * log_one_minus(4 * self.A_)

    @property
    def D_(self) -> complex:
        """Constant factor, infinite where it overflows."""
        overflows = self.log_D_.real > 709
        return complex(math.inf) if overflows else cmath.exp(self.log_D_)

    @property
    def _A(self):
        return self.A_.real

    @property
    def _is_positive(self):
        """Whether the features are those of OPRF, for another A."""
        return self.s_ == 1 and self.A_.imag == 0

    @property
    def symmetric_(self) -> bool:
        """Whether ``transform_key`` is the same map as ``transform``."""
        return self.A_.imag == 0

    @property
    def _features_per_frequency(self):
        return 1 if self.real_cost and self._is_positive else 2

    @property
    def _law_is_fitted(self):  # the number of frequencies is, or their angles
        return self.real_cost or self._coupling().weight_dependent

    def _log_norm_weight(self):
        return super()._log_norm_weight() if self._is_positive else None

    def _after_draw(self, rng):
        (phase_rng,) = rng.spawn(1)
        self.phase_ = float(phase_rng.uniform(0, 2 * math.pi))

    def frequency_index(self):
        n_pairs = self.n_components - self._n_frequencies
        return np.concatenate([np.arange(n_pairs), np.arange(self._n_frequencies)])

    # ------------------------------------------------------------- transforming
    def _affine(self, frequencies):
        return super()._affine(frequencies) if self._is_positive else None

    def _features(self, rows, out, key):
        n_pairs = self.n_components - self._n_frequencies
        if self._is_positive:
            _, exponent = super()._features(rows, out, key)
            out[:, 2 * n_pairs :] = exponent[:, n_pairs:]  # the last, where single
            # zero imaginary parts, as exponents: 0 * inf would be NaN
            out[:, n_pairs : 2 * n_pairs] = -math.inf
            return None, out
        # a key has (Re g, -Im g), so it is the map with conjugate coefficients
        A, B, log_D = self.A_, self.B_, self.log_D_
        if key:
            A, B, log_D = A.conjugate(), self.s_ * B.conjugate(), log_D.conjugate()
        sq_norms = rows.frequencies.sq_norms
        phases = B.imag * rows.projection
        if A.imag != 0:
            phases += A.imag * sq_norms + log_D.imag
        column_term = A.real * sq_norms + (
            log_D.real - 0.5 * math.log(self._n_frequencies)
        )
        # exp fits in float32
        is_scale = B.real == 0 and np.abs(column_term).max() < 80
        scale = np.exp(column_term) if is_scale else np.ones_like(column_term)
        if self.n_components % 2:
            last = math.sqrt(2) * np.cos(phases[:, -1] + self.phase_)
            out[:, -1] = scale[-1] * last
        cosines, sines = out[:, :n_pairs], out[:, n_pairs : 2 * n_pairs]
        write_cos_sin(phases[:, :n_pairs], scale[:n_pairs], cosines, sines)
        if is_scale:
            return out, self._log_row_factor(rows)
        exponent = rows.projection
        exponent *= B.real
        exponent += column_term
        row_term = self.C_ * rows.sq_norms
        if self.kernel == "softmax":
            row_term = row_term + self._log_row_factor(rows)
        exponent += row_term
        return out, exponent[:, self.frequency_index()]

    # ------------------------------------------------------------------ variance
    def _variance(self, X, Y):
        if self._is_positive:
            return super()._variance(X, Y)
        d, m, s = self.n_features_in_, self._n_frequencies, self.s_
        _, sums, sq_distances = X.pair_statistics(Y)
        q = sums if s > 0 else sq_distances
        size, *others = second_moment(*log_rho(self.A_), s, q, d)
        one, log_scale = scaled_variance(size, *others)
        total = m * one
        if self.n_components % 2:  # half of E|fg|^2, of the phase
            total = total + 0.5 * np.exp(size - log_scale)
        if self._n_pairs() > 0 and self._has_closed_form():
            # E|fg|^2 >= K^2, and >= 1 for s = -1: what is saved has no large factor
            if s > 0:
                saved = positive_gap(q, d, self._cosine()) * np.exp(-log_scale)
            else:
                saved = trigonometric_gap(q, d, self._cosine())
                saved = saved * np.exp(q - log_scale)
            total = total - self._n_pairs() * saved
        with np.errstate(divide="ignore", over="ignore"):
            log_variance = np.log(np.maximum(total, 0)) + log_scale
            log_variance -= 2 * math.log(m) + sq_distances
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))
