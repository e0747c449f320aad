"""Positive features of frequencies w and -w, the positive base of hybrids."""

from __future__ import annotations

from ..._compat import StrOptions
from ..._docs import fill_doc
from ...frequencies import Coupling, get_coupling
from ...maps import GaussianKernel, IsotropicQuadratic, PairedColumns, PositiveMap
from .._base import BaseFeatureSampler
from ._draw import draw_normal


@fill_doc
class PositivePairSampler(BaseFeatureSampler):
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
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

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

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency."""
        return 2

    def _make_map(self, statistics, drawn):
        columns = PairedColumns.of(self.n_components)
        coupling = get_coupling(self.coupling, type(self).__name__)
        return PositiveMap(
            self._frame(statistics),
            self.n_components,
            draw_normal(coupling, columns.n_frequencies, statistics, drawn),
            coupling,
            IsotropicQuadratic(0.0),
            columns,
            GaussianKernel(softmax=self.kernel == "softmax"),
        )
