"""Optimal positive random features of the Gaussian kernel (OPRF)."""

from __future__ import annotations

from ..maps import IsotropicQuadratic
from ._base import fitted
from ._exponential import (
    ExponentialSampler,
    mean_squares,
    optimal_A,
    optimal_antithetic_A,
)


class OPRFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from positive features of least variance (OPRF).

    From the means and variances of the columns ``fit`` chooses the one parameter A of
    the map, in O(n d).

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns: one per frequency, or two with ``coupling="antithetic"``.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased. ``"antithetic"`` draws
        pairs w, -w on orthogonal directions: the least error from d columns on, for
        half the products.
    center : bool, default=True
        Whether to subtract the column means first: the same kernel, often with much
        less variance. Sparse rows stay sparse.
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
    A_ : float
        The chosen parameter, <= 0.
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows, zero without ``center``.
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
