"""Positive random features of the Gaussian kernel (PosRF)."""

from __future__ import annotations

from .._docs import fill_doc
from ._exponential import ExponentialSampler


@fill_doc
class PositiveRBFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from positive exponential features (PosRF, FAVOR+).

    ``fit`` reads of the data the mean of the columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency, two with
        ``coupling="antithetic"``.
    %(coupling_positive)s
    %(center)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(center_)s
    %(fitted)s

    See Also
    --------
    OPRFSampler : Positive features of least variance on the data.
    TrigRBFSampler : Sine and cosine pairs.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already centred and multiplied
    by sigma ([1]_; [2]_ section 2.2),

    .. math:: f(x) = \frac{1}{\sqrt m} e^{w \cdot x - |x|^2}, \qquad
       \operatorname{Var} = \frac{e^{4 x \cdot y} - K^2}{m}
       - \frac{p}{m^2} e^{-2|x|^2 - 2|y|^2} \left(e^{q} - {}_1F_1(d; d/2; q/2)\right)

    where :math:`q = |x + y|^2` and p counts the ordered pairs of frequencies in
    common orthogonal blocks ([3]_, theorem 3.2).

    %(variance)s
    %(errors)s

    References
    ----------
    .. [1] K. Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
       :arxiv:`2009.14794`.
    .. [2] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [3] I. Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import PositiveRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = PositiveRBFSampler(n_components=1000, random_state=0).fit(X)
    >>> bool((sampler.transform(X) > 0).all())
    True
    """

    _takes_pairs = True

    def _choose(self, statistics, frame):
        return 1, 0.0
