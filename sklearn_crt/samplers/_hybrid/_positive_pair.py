"""Positive features of frequencies w and -w, the positive base of hybrids."""

from __future__ import annotations

import math

import numpy as np

from ..utils._docs import fill_doc
from ._conformity import positive_gap
from ._gaussian import GaussianKernelMixin
from ._isotropic import IsotropicSampler


@fill_doc
class PositivePairSampler(GaussianKernelMixin, IsotropicSampler):
    r"""Gaussian or softmax kernel from pairs exp(w.x), exp(-w.x) (FAVOR+).

    Its variance is zero at y = -x, where sines and cosines are at their worst: one of
    the two base maps of :class:`HybridSampler`.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output; two a frequency. An odd number gives the
        last frequency the column of w alone.
    %(coupling)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(fitted)s

    See Also
    --------
    PositiveRBFSampler : One column a frequency.
    HybridSampler : Mixes this map with sines and cosines.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)`, x already multiplied by sigma, and
    :math:`q = |x + y|^2` ([1]_; [2]_, equation 3 and lemma 2.2)

    .. math::

       f(x) &= \frac{1}{\sqrt{2m}} e^{-|x|^2} \left(e^{w \cdot x},
       e^{-w \cdot x}\right), \\
       \operatorname{Var} &= e^{-2|x|^2 - 2|y|^2} \left( \frac{(e^q - 1)^2}{2m}
       - \frac{p}{m^2} \left(e^{q} - {}_1F_1(d; d/2; q/2)\right) \right)

    where p counts the ordered pairs of frequencies in common orthogonal blocks. The
    columns are all of w, then all of -w.

    %(variance)s
    %(errors)s

    References
    ----------
    .. [1] K. Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
       :arxiv:`2009.14794`.
    .. [2] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import PositivePairSampler
    >>> X = np.array([[0.3, -0.5], [0.7, 0.1]])
    >>> sampler = PositivePairSampler(sigma=1.0, random_state=0).fit(X)
    >>> bool(sampler.kernel_variance(X, -X)[0, 0] < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **IsotropicSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
    }
    _features_per_frequency = 2

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def frequency_index(self):
        pairs = np.arange(self.n_components // 2)
        return np.concatenate(
            [pairs, pairs, np.arange(pairs.size, self._n_frequencies)]
        )

    def _features(self, rows, out, key):
        n_pairs, projection = self.n_components // 2, rows.projection
        exponent = np.empty_like(out)
        exponent[:, :n_pairs] = projection[:, :n_pairs]
        np.negative(projection[:, :n_pairs], out=exponent[:, n_pairs : 2 * n_pairs])
        exponent[:, : 2 * n_pairs] -= 0.5 * math.log(2)
        exponent[:, 2 * n_pairs :] = projection[:, n_pairs:]
        row_term = -0.5 * math.log(self._n_frequencies) - rows.sq_norms
        if self.kernel == "softmax":
            row_term = row_term + self._log_row_factor(rows)
        exponent += row_term
        return None, exponent

    def _variance(self, X, Y):
        m, (n_pairs, n_single) = self._n_frequencies, divmod(self.n_components, 2)
        _, q, sq_distances = X.pair_statistics(Y)
        # all in units of exp(2q - 2N), where -2N = -q - |x - y|^2
        decay = -np.expm1(-q)  # 1 - e^-q
        total = 0.5 * n_pairs * decay**2 + n_single * decay
        if self._n_pairs() > 0 and self._has_closed_form():
            d, cosine = self.n_features_in_, self._cosine()
            # w and -w: angles of either sign
            gaps = [positive_gap(q, d, c) for c in {cosine, -cosine}]
            total = total - self._n_pairs() * np.mean(gaps, axis=0) * np.exp(-q)
        with np.errstate(divide="ignore", over="ignore"):
            log_variance = np.log(np.maximum(total, 0)) - 2 * math.log(m)
            log_variance += q - sq_distances
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))
