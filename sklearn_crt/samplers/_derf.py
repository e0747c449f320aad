"""Dense exponential random features, whose matrix A is that of the data."""

from __future__ import annotations

import numpy as np

from ..maps import AffineQuadratic, DenseQuadratic
from ..rows import Frame, Statistics
from ._base import fitted
from ._exponential import ExponentialSampler

_MOST_FEATURES = 4096  # a covariance matrix of this size takes 134 MB
# multiple of the pooled covariance that is added to each covariance for n <= d rows
_RIDGE = 0.3
# minimum of this multiple, used if there are many rows; the same multiple of the mean
# variance is added to the diagonal
_LEAST = 1e-6


class DERFSampler(ExponentialSampler):
    r"""Dense exponential random features (DERF) for the Gaussian or softmax kernel.

    The features are positive like those of :class:`OPRFSampler`, but the parameter A is
    a matrix with one eigenvalue per principal axis of the data instead of a single
    number. ``fit`` takes O(n d^2 + d^3) operations for n rows with d columns;
    ``transform`` is as fast as with ``OPRFSampler``. Use this sampler for kernel
    averages and attention if the columns are correlated or differ in scale.

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
        ``"simplex"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
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
    A_ : ndarray of shape (n_features, n_features) or (n_features,)
        The chosen matrix A, or only its eigenvalues if ``X_key`` is given.
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
    OPRFSampler : Features with one parameter, for many columns or few rows.
    sklearn_crt.AnchoredRBFSampler : Positive features for a large sigma.

    Notes
    -----
    Let x be a row that is centred and multiplied by sigma, and let :math:`V \Lambda V'`
    be the eigendecomposition of the mean of :math:`(x + y)(x + y)'` over all pairs of
    rows. The features use the optimal parameter of one-dimensional OPRF for each
    principal axis l. With :math:`w \sim N(0, I_d)`, they are [1]_

    .. math:: f(x) = \frac{\det(I - 4A)^{1/4}}{\sqrt m}
       \exp\left(w'Aw + w'(I - 4A)^{1/2} x - |x|^2\right), \qquad
       A = V \operatorname{diag}\left(\frac{1 - 1/\rho_l}{8}\right) V', \qquad
       \rho_l = \frac{2}{2\lambda_l + 1 + \sqrt{(2\lambda_l + 1)^2 + 8\lambda_l}} .

    Among all symmetric matrices, this A minimises the logarithm of the second moment of
    the estimate, averaged over the pairs of rows. With :math:`u = V'(x + y)`, the
    variance for independent frequencies is

    .. math:: \frac{K^2}{m} \left(e^{c + \sum_l \rho_l u_l^2} - 1\right), \qquad
       c = \sum_l \log\frac{1 + \rho_l}{2\sqrt{\rho_l}}

    and the variance for m antithetic pairs of independent frequencies is
    :math:`\frac{K^2}{2m} (e^{c + \sum_l \rho_l u_l^2} + e^{c - |u|^2} - 2)`.
    ``kernel_variance`` evaluates these formulas for all couplings. Its result is exact
    for ``"iid"``. For other couplings, the true variance is smaller in practice, and
    ``variance_is_exact_`` is False.

    If ``X_key`` is given (ADERF), queries and keys are centred and transformed
    separately. Let a and b be their means, and :math:`C_x` and :math:`C_y` their
    covariance matrices. The transformed rows are :math:`x' = M(x - a)` and :math:`y' =
    M^{-1}(y - b)`. The matrix M makes the two covariances equal; it is the square root
    of the matrix geometric mean of :math:`C_x^{-1}` and :math:`C_y`. Before M is
    computed, the average of the two covariances, multiplied by a factor, is added to
    each of them, because their difference is mostly noise if there are few rows. This
    factor is :math:`\min(0.3, 0.3\, d / n)`, where n is the number of queries or the
    number of keys, whichever is smaller.

    ``fit`` raises ValueError if X has more than 4096 columns. Sparse input is not
    converted to dense arrays.

    References
    ----------
    .. [1] V. Likhosherstov, K. Choromanski, A. Dubey, F. Liu, T. Sarlos, A. Weller,
       "Dense-Exponential Random Features: Sharp Positive Estimators of the Gaussian
       Kernel", NeurIPS 2023, :arxiv:`2302.00787`, with the closed form for a known
       covariance. Here the covariance is estimated from the rows passed to ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import DERFSampler, OPRFSampler
    >>> X = np.random.default_rng(0).normal(size=(200, 4)) * [2.0, 1.0, 0.1, 0.1]
    >>> for Sampler in (OPRFSampler, DERFSampler):
    ...     fitted = Sampler(sigma=0.7, coupling="iid", random_state=0).fit(X)
    ...     print(f"{np.median(fitted.kernel_variance(X)):.5f}")
    0.00282
    0.00146
    """

    def _can_use(self, coupling):
        # the weight of a frequency in the features is not a function of its norm, so
        # angles that depend on the norms would not reduce the variance
        return not coupling.norm_dependent

    def _reads(self):
        return {"covariance": True}

    def _read(self, *tables, **options):
        batch = super()._read(*tables, **options)
        n_features = batch.X.shape[1]
        if n_features > _MOST_FEATURES:
            raise ValueError(
                f"DERFSampler supports at most {_MOST_FEATURES} features, because it "
                f"stores a matrix of n_features^2 numbers, but X has {n_features}. "
                "Reduce their number first (PCA, TruncatedSVD), or use OPRFSampler."
            )
        return batch

    def _choose(self, statistics, frame, coupling):
        return best_quadratic(statistics, frame)

    A_: np.ndarray = fitted(
        "map_.A", "Matrix A of the quadratic form, or its eigenvalues with ``X_key``."
    )


def best_quadratic(
    statistics: Statistics, frame: Frame
) -> DenseQuadratic | AffineQuadratic:
    """Return the quadratic form that minimises the mean log second moment."""
    center = 0.0 if frame.center is None else frame.center
    both = statistics.query_covariance, statistics.key_covariance
    sides = [side for side in both if side is not None]
    sigma = np.broadcast_to(frame.sigma, statistics.n_features)
    means = [sigma * (side.mean - center) for side in sides]
    covariances = [sigma[:, None] * side.matrix * sigma for side in sides]
    if len(sides) == 1:
        second = 2 * covariances[0] + 4 * np.outer(means[0], means[0])
        values, vectors = np.linalg.eigh(second)
        return DenseQuadratic(np.ascontiguousarray(vectors.T), best_rho(values))
    # with few rows, the difference between the two covariances is mostly noise
    share = sigma.size / max(min(side.weight for side in sides), sigma.size)
    pooled = 0.5 * (covariances[0] + covariances[1])
    ridge = max(_RIDGE * share, _LEAST) * pooled
    ridge[np.diag_indices_from(ridge)] += 1e-12 + _LEAST * np.trace(pooled) / sigma.size
    query, key = (covariance + ridge for covariance in covariances)
    values, vectors = np.linalg.eigh(_geometric_mean(query, key))
    # eigenvalues can be clipped, because any positive eigenvalues give an unbiased
    # estimate
    values = np.clip(values, _LEAST, 1 / _LEAST)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ query @ root + inverse @ key @ inverse)
    shift = 0.5 * (means[0] - means[1])
    axes = np.ascontiguousarray(vectors.T)
    return AffineQuadratic(
        query_axes=axes @ root,
        key_axes=axes @ inverse,
        rotation=axes,
        rho=best_rho(values),
        shift=shift,
    )


def best_rho(values: np.ndarray) -> np.ndarray:
    """Return the optimal 1 / (1 - 8A), given the mean square of each entry of x + y."""
    # values (n_features,) -> (n_features,)
    values = np.maximum(values, 0)
    t = 2 * values + 1
    return 2 / (t + np.sqrt(t**2 + 8 * values))


def _geometric_mean(query, key):
    """Return the positive definite matrix P for which P query P = key."""
    values, vectors = np.linalg.eigh(query)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ key @ root)
    middle = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return inverse @ middle @ inverse
