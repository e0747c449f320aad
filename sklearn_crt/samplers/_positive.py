"""Positive features of the Gaussian kernel: PosRF, SimRF in simplices, optimal OPRF."""

from __future__ import annotations

from .._compat import RandomState
from ..frequencies import Coupling
from ..maps import GaussianOrSoftmax, IsotropicQuadratic
from ..rows import Sigma
from ._base import fitted
from ._exponential import (
    ExponentialSampler,
    mean_squares,
    optimal_A,
    optimal_antithetic_A,
)


class PositiveRBFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from positive exponential features (PosRF, FAVOR+).

    From the data ``fit`` reads the column means and, for ``sigma="scale"`` or
    ``"median"``, the scale of the columns.

    Parameters
    ----------
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased. ``"antithetic"`` draws
        pairs w, -w on orthogonal directions: the least error from d columns on, for
        half the products.

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

    where :math:`q = |x + y|^2` and p is the number of ordered pairs of frequencies
    in common orthogonal blocks ([3]_, theorem 3.2).

    ``kernel_variance`` is this formula for ``"iid"`` and ``"orthogonal"``; for
    ``"simplex"`` and objects of any fixed angle another function replaces 1F1 (user
    guide, couplings); the method says what it is for others.

    References
    ----------
    .. [1] K. Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
       :arxiv:`2009.14794`.
    .. [2] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [3] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import PositiveRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = PositiveRBFSampler(n_components=1000, random_state=0).fit(X)
    >>> bool((sampler.transform(X) > 0).all())
    True
    """

    def _can_use(self, coupling):
        return True


class SimplexRBFSampler(PositiveRBFSampler):
    r"""Gaussian or softmax kernel from positive features in simplex blocks (SimRF).

    This is :class:`PositiveRBFSampler` with ``coupling="simplex"`` as the default: the
    frequencies of a block have the largest angle that is possible for all pairs of
    them, which gives the least variance. From the data ``fit`` reads the column means
    and, for ``sigma="scale"`` or ``"median"``, the scale of the columns.

    Parameters
    ----------
    n_components : int, default=100
        Number of columns, one per frequency.
    coupling : str or Coupling, default="simplex"
        How the frequencies depend on each other:

        - ``"simplex"``: independent blocks of simplices (SimRF).
        - ``"simplex+"``: the angles of a block depend on the norms of its frequencies
          (SimRF+), which has less variance for rows near the centre.
        - ``"structured-simplex"``: rotations are products of random signs and Hadamard
          matrices, faster in high dimension, with a bias that vanishes there.

        All other couplings of :class:`PositiveRBFSampler` work as well.

    See Also
    --------
    PositiveRBFSampler : The same map with orthogonal frequencies as the default.
    OPRFSampler : One more parameter; takes ``coupling="simplex"`` too.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already centred and multiplied
    by sigma ([1]_, equation 7),

    .. math:: f(x) = \frac{1}{\sqrt m} e^{w \cdot x - |x|^2}, \qquad
       \operatorname{Var} = \frac{e^{4 x \cdot y} - K^2}{m}
       - \frac{p}{m^2} e^{-2|x|^2 - 2|y|^2} \left(e^{q} - F_c(q)\right)

    where :math:`q = |x + y|^2`, p is the number of ordered pairs of frequencies in
    common blocks of d, whose angles have the cosine :math:`c = -1/(d - 1)`, and

    .. math:: F_c(q) = \sum_k \frac{q^k}{k!} \prod_{j<k} \frac{d + j}{d + 2j}
       \; E (1 + c \sin\psi)^k, \qquad \psi \in (0, \pi), \;
       \text{density} \propto \sin^{d-1} \psi

    ([1]_, theorems 3.2 and 4.3, equation 21). No coupling whose directions do not
    depend on the norms has a smaller variance ([1]_, theorem 3.4). For
    :math:`q \to 0` the variance of a block falls as :math:`q/d` times
    :math:`1 - 2\,\Gamma((d+1)/2)^2 / (d\,\Gamma(d/2)^2)`, 0.00778 for d = 64, where
    orthogonal and independent frequencies have 1.

    ``kernel_variance`` is this formula, also for ``"structured-simplex"`` blocks
    without padding (d a power of two, at least 16). For other dimensions and for
    ``"simplex+"`` it is that of independent frequencies, p = 0.

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import PositiveRBFSampler, SimplexRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> for Sampler in (PositiveRBFSampler, SimplexRBFSampler):
    ...     sampler = Sampler(sigma=0.1, n_components=64, random_state=0).fit(X)
    ...     print(f"{sampler.kernel_variance(X).mean():.5f}")
    0.00380
    0.00044
    """

    def __init__(
        self,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "simplex",
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


class OPRFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from positive features of least variance (OPRF).

    From the means and variances of the columns ``fit`` chooses the one parameter A of
    the map, in O(n d).

    Parameters
    ----------
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased. ``"antithetic"`` draws
        pairs w, -w on orthogonal directions: the least error from d columns on, for
        half the products.

    Attributes
    ----------
    A_ : float
        The chosen parameter, <= 0.

    See Also
    --------
    PositiveRBFSampler : The same map with A = 0.
    TrigRBFSampler : Sine and cosine pairs.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already centred and multiplied
    by sigma ([1]_, theorem 3.1),

    .. math:: f(x) = \frac{(1 - 4A)^{d/4}}{\sqrt m}
       \exp\left(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2\right)

    with, for :math:`\bar q` the mean of :math:`|x + y|^2` over all pairs of rows,

    .. math:: A = \frac{1 - 1/\rho}{8}, \qquad
       \rho = \frac{2d}{2 \bar q + d + \sqrt{(2 \bar q + d)^2 + 8 d \bar q}} .

    This A minimises the mean log second moment over the pairs ([1]_, theorem 3.3 and
    equation 8). The variance is

    .. math:: \frac{K^2}{m} \left( \left(\frac{1 + \rho}{2 \sqrt\rho}\right)^d
       e^{\rho q} - 1 \right) - \frac{p}{m^2} e^{-2|x|^2 - 2|y|^2}
       \left(e^{q} - {}_1F_1(d; d/2; q/2)\right)

    where :math:`q = |x + y|^2` and p is the number of ordered pairs of frequencies in
    common orthogonal blocks; the second term does not depend on A ([2]_, theorem 3.2).

    With ``coupling="antithetic"`` A minimises the mean log second moment of a pair w,
    -w: :math:`\rho` solves

    .. math:: \frac{d (\rho - 1)}{2 \rho (1 + \rho)}
       = - \frac{\bar q}{1 + e^{-(1 + \rho) \bar q}} .

    With m pairs and the constant
    :math:`c = d \log\frac{1 + \rho}{2 \sqrt\rho}` the first term is then
    :math:`\frac{K^2}{2m} (e^{c + \rho q} + e^{c - q} - 2)`.

    With ``coupling="simplex+"`` a frequency weighs :math:`|w| e^{2A|w|^2}`, so the
    frequencies depend on A; where A is the optimum of a mean :math:`|x + y|^2` above
    1/2, the plain simplex is drawn.

    ``kernel_variance`` is this formula for ``"iid"`` and ``"orthogonal"``; for
    ``"simplex"`` and objects of any fixed angle another function replaces 1F1 (user
    guide, couplings); the method says what it is for others.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [2] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler, PositiveRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> optimal = OPRFSampler(sigma=0.7, random_state=0).fit(X)
    >>> round(optimal.A_, 3)
    -0.317
    >>> classical = PositiveRBFSampler(sigma=0.7, random_state=0).fit(X)
    >>> bool(optimal.kernel_variance(X).mean() < classical.kernel_variance(X).mean())
    True
    """

    def _can_use(self, coupling):
        return True

    def _choose(self, statistics, frame, coupling):
        sums, _ = mean_squares(statistics, frame)
        best = optimal_antithetic_A if coupling.opposite else optimal_A
        return IsotropicQuadratic(best(sums, statistics.n_features))

    A_: float = fitted("map_.A", "Coefficient of the squared norm of the frequency.")
