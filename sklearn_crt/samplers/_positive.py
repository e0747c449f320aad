"""Positive features of the Gaussian kernel: PosRF, SimRF and OPRF."""

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
    r"""Positive random features (PosRF, FAVOR+) for the Gaussian or softmax kernel.

    ``fit`` computes the column means and, for ``sigma="scale"`` or ``"median"``, the
    scale of the columns.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: one per frequency, or two per frequency with
        ``coupling="antithetic"``. None means 100, unless an estimator or a hybrid that
        uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones. ``"antithetic"`` draws pairs of frequencies w and -w; different pairs have
        orthogonal directions. If X has d columns and there are at least 2 d features,
        this coupling has the lowest error and needs half as many multiplications as
        ``"orthogonal"``.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel, and
        often reduces the variance considerably. Sparse rows remain sparse.
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
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
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
    sklearn_crt.OPRFSampler : Positive features optimised for the data.
    sklearn_crt.TrigRBFSampler : Random Fourier features.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies, and let x be a row that is
    centred and multiplied by sigma ([1]_; [2]_ section 2.2). Then

    .. math:: f(x) = \frac{1}{\sqrt m} e^{w \cdot x - |x|^2}, \qquad
       \operatorname{Var} = \frac{e^{4 x \cdot y} - K^2}{m}
       - \frac{p}{m^2} e^{-2|x|^2 - 2|y|^2} \left(e^{q} - {}_1F_1(d; d/2; q/2)\right)

    where :math:`q = |x + y|^2` and p is the number of ordered pairs of frequencies in
    the same orthogonal block ([3]_, theorem 3.2).

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
    >>> from sklearn_crt.samplers import PositiveRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = PositiveRBFSampler(n_components=1000, random_state=0).fit(X)
    >>> bool((sampler.transform(X) > 0).all())
    True
    """

    def _can_use(self, coupling):
        return True


class SimplexRBFSampler(PositiveRBFSampler):
    r"""Simplex random features (SimRF) for the Gaussian or softmax kernel.

    This is :class:`PositiveRBFSampler` with ``coupling="simplex"`` as the default. In
    each block, all pairs of frequencies form the same angle. This is the largest angle
    that all pairs can form at once, and it minimises the variance. ``fit`` computes the
    column means and, for ``sigma="scale"`` or ``"median"``, the scale of the columns.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features, one per frequency. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    coupling : str or Coupling, default="simplex"
        How the frequencies depend on each other:

        - ``"simplex"``: independent simplex blocks (SimRF).
        - ``"simplex+"``: the angles in a block depend on the norms of its frequencies
          (SimRF+), which reduces the variance for rows near the centre.
        - ``"structured-simplex"``: the random rotations are replaced by products of
          random signs and Hadamard matrices, which are faster in high dimensions. They
          introduce a small bias, which decreases with the dimension.

        All other couplings of :class:`PositiveRBFSampler` are available as well.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel, and
        often reduces the variance considerably. Sparse rows remain sparse.
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
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
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
    PositiveRBFSampler : The same features with orthogonal frequencies by default.
    sklearn_crt.OPRFSampler : Features with lower variance for the same couplings.

    Notes
    -----
    The features and their variance are those of :class:`PositiveRBFSampler`, which
    defines p and q, with :math:`F_c(q)` in place of :math:`{}_1F_1(d; d/2; q/2)`. Here
    :math:`c = -1/(d - 1)` is the cosine of the angle between two frequencies in the
    same block of d frequencies, and

    .. math:: F_c(q) = \sum_k \frac{q^k}{k!} \prod_{j<k} \frac{d + j}{d + 2j}
       \; E (1 + c \sin\psi)^k, \qquad \psi \in (0, \pi), \;
       \text{density} \propto \sin^{d-1} \psi

    ([1]_, theorems 3.2 and 4.3, equation 21). Among all couplings whose directions do
    not depend on the norms, simplex blocks have the smallest variance ([1]_, theorem
    3.4). As :math:`q \to 0`, the relative variance :math:`\operatorname{Var} / K^2` of
    the estimate from one block is asymptotically equal to :math:`a\, q/d`. For simplex
    frequencies, :math:`a = 1 - 2\,\Gamma((d+1)/2)^2 / (d\,\Gamma(d/2)^2)`, which is
    0.00778 for d = 64; for orthogonal and for independent frequencies, a = 1.

    ``kernel_variance`` evaluates this formula for ``"simplex"``, and also for
    ``"structured-simplex"`` if no padding is needed (d is a power of two and at least
    16). For ``"simplex+"``, the conformity :math:`F` is the mean of equation 10 of
    [1]_ over about 60000 pairs of frequencies from blocks that are drawn for this
    purpose; the resulting variance has an error of a few percent. For
    ``"structured-simplex"`` with padding, ``kernel_variance`` returns the variance for
    independent frequencies (p = 0).

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import PositiveRBFSampler, SimplexRBFSampler
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
        sigma: Sigma | None = None,
        n_components: int | None = None,
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
    r"""Optimal positive random features (OPRF) for the Gaussian or softmax kernel.

    ``fit`` chooses the parameter A that minimises the variance of the kernel estimate.
    A depends only on the means and variances of the columns, which ``fit`` computes in
    O(n d) operations for n rows with d columns.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: one per frequency, or two per frequency with
        ``coupling="antithetic"``. None means 100, unless an estimator or a hybrid that
        uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones. ``"antithetic"`` draws pairs of frequencies w and -w; different pairs have
        orthogonal directions. If X has d columns and there are at least 2 d features,
        this coupling has the lowest error and needs half as many multiplications as
        ``"orthogonal"``.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel, and
        often reduces the variance considerably. Sparse rows remain sparse.
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
    A_ : float
        The chosen parameter A, which is never positive.
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
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
    sklearn_crt.PositiveRBFSampler : The same features with A = 0.
    TrigRBFSampler : Random Fourier features.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies, and let x be a row that is
    centred and multiplied by sigma ([1]_, theorem 3.1). Then

    .. math:: f(x) = \frac{(1 - 4A)^{d/4}}{\sqrt m}
       \exp\left(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2\right)

    where :math:`\bar q` is the mean of :math:`|x + y|^2` over all pairs of rows and

    .. math:: A = \frac{1 - 1/\rho}{8}, \qquad
       \rho = \frac{2d}{2 \bar q + d + \sqrt{(2 \bar q + d)^2 + 8 d \bar q}} .

    This A minimises the logarithm of the second moment of the estimate, averaged over
    all pairs of rows ([1]_, theorem 3.3 and equation 8). The variance is

    .. math:: \frac{K^2}{m} \left( \left(\frac{1 + \rho}{2 \sqrt\rho}\right)^d
       e^{\rho q} - 1 \right) - \frac{p}{m^2} e^{-2|x|^2 - 2|y|^2}
       \left(e^{q} - {}_1F_1(d; d/2; q/2)\right)

    where :math:`q = |x + y|^2` and p is the number of ordered pairs of frequencies in
    the same orthogonal block; the second term does not depend on A ([2]_, theorem 3.2).

    With ``coupling="antithetic"``, A minimises the mean log second moment of the
    estimate from a pair w and -w, and :math:`\rho` solves

    .. math:: \frac{d (\rho - 1)}{2 \rho (1 + \rho)}
       = - \frac{\bar q}{1 + e^{-(1 + \rho) \bar q}} .

    If :math:`c = d \log\frac{1 + \rho}{2 \sqrt\rho}`, the first term of the variance
    for m pairs is then :math:`\frac{K^2}{2m} (e^{c + \rho q} + e^{c - q} - 2)`.

    With ``coupling="simplex+"``, each frequency has the weight :math:`|w| e^{2A|w|^2}`,
    so the directions of the frequencies depend on A. If the mean of :math:`|x + y|^2`
    for which A is optimal exceeds 1/2, ordinary simplex frequencies are drawn instead.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [2] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.samplers import PositiveRBFSampler
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
