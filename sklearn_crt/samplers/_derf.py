"""Dense exponential random features of the Gaussian kernel (DERF)."""

from __future__ import annotations

import numpy as np

from ..maps import AffineQuadratic, DenseQuadratic
from ..rows import Frame, Statistics
from ._base import fitted
from ._exponential import ExponentialSampler

_MOST_FEATURES = 4096  # whose matrix has 134 MB
_RIDGE = 0.3  # share of the pooled covariance added to each side's, where n = d
_LEAST = 1e-6  # the same where n is large, and of the mean variance, for rounding


class DERFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from positive features of the covariance (DERF).

    :class:`OPRFSampler` with a matrix A in place of a number: one parameter for each
    principal axis of the data. ``fit`` reads the covariance matrix, in
    O(n d^2 + d^3); ``transform`` is as fast as that of ``OPRFSampler``. Choose it for
    averages (Nadaraya-Watson, attention) over data whose columns differ in scale or are
    correlated.

    Parameters
    ----------
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased. ``"antithetic"`` draws
        pairs w, -w on orthogonal directions: the least error from d columns on, for
        half the products.

    Attributes
    ----------
    A_ : ndarray of shape (n_features, n_features) or (n_features,)
        The chosen matrix; with ``X_key`` its eigenvalues.

    See Also
    --------
    OPRFSampler : A number in place of the matrix, for many columns or few rows.
    AnchoredRBFSampler : Positive features about training rows, for large sigma.

    Notes
    -----
    Let x be centred and multiplied by sigma, and :math:`V \Lambda V'` the eigenvalues
    and eigenvectors of the mean of :math:`(x + y)(x + y)'` over pairs of rows. With
    :math:`w \sim N(0, I_d)` and, for each axis l, the closed form of OPRF in one
    dimension [1]_,

    .. math:: f(x) = \frac{\det(I - 4A)^{1/4}}{\sqrt m}
       \exp\left(w'Aw + w'(I - 4A)^{1/2} x - |x|^2\right), \qquad
       A = V \operatorname{diag}\left(\frac{1 - 1/\rho_l}{8}\right) V', \qquad
       \rho_l = \frac{2}{2\lambda_l + 1 + \sqrt{(2\lambda_l + 1)^2 + 8\lambda_l}} .

    This A minimises the mean log second moment over the pairs of rows, among all
    symmetric matrices. With :math:`u = V'(x + y)` the variance is, for independent
    frequencies,

    .. math:: \frac{K^2}{m} \left(e^{c + \sum_l \rho_l u_l^2} - 1\right), \qquad
       c = \sum_l \log\frac{1 + \rho_l}{2\sqrt{\rho_l}}

    and, for m antithetic pairs of independent frequencies,
    :math:`\frac{K^2}{2m} (e^{c + \sum_l \rho_l u_l^2} + e^{c - |u|^2} - 2)`.
    ``kernel_variance`` is this formula for all couplings: exact for ``"iid"``, and for
    blocks an upper estimate in practice, with ``variance_is_exact_`` False.

    With ``X_key`` (ADERF) each side has a centre and a map of its own: with means a and
    b and covariances :math:`C_x` and :math:`C_y`, :math:`x' = M(x - a)` and
    :math:`y' = M^{-1}(y - b)`, where M makes the two covariances equal: the root of the
    matrix geometric mean of :math:`C_x^{-1}` and :math:`C_y`. A share of the mean of
    both covariances is added to each, 0.3 d over the rows of the smaller side (at most
    0.3), because with few rows most of their difference is noise.

    X may have at most 4096 columns, or ``fit`` raises ValueError. Sparse rows are not
    made dense.

    References
    ----------
    .. [1] V. Likhosherstov, K. Choromanski, A. Dubey, F. Liu, T. Sarlos, A. Weller,
       "Dense-Exponential Random Features: Sharp Positive Estimators of the Gaussian
       Kernel", NeurIPS 2023, :arxiv:`2302.00787`, with the closed form for a known
       covariance; here it is estimated from the rows of ``fit``.

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
        # the factor by which the features weigh a frequency is not a function of its
        # norm, so angles that depend on the norms would not reduce the variance
        return not coupling.norm_dependent

    def _reads(self):
        return {"covariance": True}

    def _validate(self, X, reset):
        X = super()._validate(X, reset)
        if X.shape[1] > _MOST_FEATURES:
            raise ValueError(
                f"DERFSampler keeps a matrix of n_features^2 numbers and takes at most "
                f"{_MOST_FEATURES} features, but X has {X.shape[1]}. Reduce them "
                "first (PCA, TruncatedSVD), or use OPRFSampler."
            )
        return X

    def _choose(self, statistics, frame, coupling):
        return best_quadratic(statistics, frame)

    A_: np.ndarray = fitted(
        "map_.A", "Coefficient of the squares of the frequency, a matrix."
    )


def best_quadratic(
    statistics: Statistics, frame: Frame
) -> DenseQuadratic | AffineQuadratic:
    """Return the quadratic form of least mean log second moment over the pairs."""
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
    # few rows: the difference of the two sides is mostly noise
    share = sigma.size / max(min(side.weight for side in sides), sigma.size)
    pooled = 0.5 * (covariances[0] + covariances[1])
    ridge = max(_RIDGE * share, _LEAST) * pooled
    ridge[np.diag_indices_from(ridge)] += 1e-12 + _LEAST * np.trace(pooled) / sigma.size
    query, key = (covariance + ridge for covariance in covariances)
    values, vectors = np.linalg.eigh(_geometric_mean(query, key))
    values = np.clip(values, _LEAST, 1 / _LEAST)  # any of them is unbiased
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ query @ root + inverse @ key @ inverse)
    shift = 0.5 * (means[0] - means[1])
    axes = np.ascontiguousarray(vectors.T)
    return AffineQuadratic(axes @ root, axes @ inverse, axes, best_rho(values), shift)


def best_rho(values: np.ndarray) -> np.ndarray:
    """Return the best 1 / (1 - 8A) for each mean square of a coordinate of x + y."""
    # values (n_features,) -> (n_features,)
    values = np.maximum(values, 0)
    t = 2 * values + 1
    return 2 / (t + np.sqrt(t**2 + 8 * values))


def _geometric_mean(query, key):
    """Return the positive definite P with P query P = key."""
    values, vectors = np.linalg.eigh(query)
    root = (vectors * np.sqrt(values)) @ vectors.T
    inverse = (vectors / np.sqrt(values)) @ vectors.T
    values, vectors = np.linalg.eigh(root @ key @ root)
    middle = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return inverse @ middle @ inverse
