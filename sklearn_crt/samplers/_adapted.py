"""Positive features that adapt to the distribution of the rows.

DERF uses the covariance matrix of the rows; anchored features are centred near sampled
rows.
"""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Literal, overload

import numpy as np

from .._compat import Interval, RandomState, StrOptions
from ..frequencies import Coupling, Frequencies, chi_law, get_coupling
from ..maps import (
    AffineQuadratic,
    AnchoredMap,
    AnchorMixture,
    DenseQuadratic,
    GaussianKernel,
    GaussianOrSoftmax,
    PairedColumns,
)
from ..rows import Frame, Sigma, Statistics, TableLike
from ._base import BaseFeatureSampler
from ._exponential import ExponentialSampler, middle
from ._value import centered, fitted

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
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones. ``"antithetic"`` draws pairs of frequencies w and -w; different pairs have
        orthogonal directions. If X has d columns and there are at least 2 d features,
        this coupling has the lowest error and needs half as many multiplications as
        ``"orthogonal"``.

    Attributes
    ----------
    A_ : ndarray of shape (n_features, n_features) or (n_features,)
        The chosen matrix A, or only its eigenvalues if ``X_key`` is given.

    See Also
    --------
    OPRFSampler : Features with one parameter, for many columns or few rows.
    sklearn_crt.samplers.AnchoredRBFSampler : Positive features for a large sigma.

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
                f"DERFSampler keeps a matrix of n_features^2 numbers and takes at most "
                f"{_MOST_FEATURES} features, but X has {n_features}. Reduce them "
                "first (PCA, TruncatedSVD), or use OPRFSampler."
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
    return AffineQuadratic(axes @ root, axes @ inverse, axes, best_rho(values), shift)


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


class AnchoredRBFSampler(BaseFeatureSampler):
    r"""Positive features near training rows, for the Gaussian or softmax kernel.

    Each feature is proportional to a function :math:`e^{-|x - z|^2}` centred at a
    random point z near a sampled training row. Use this sampler for kernel averages and
    attention with a large sigma, where all other positive features need a very large
    ``n_components``. The estimate is unbiased for every row, including rows that are
    far from the sample.

    Parameters
    ----------
    n_components : int, default=100
        Number of features, one per point z.
    n_anchors : int, default=2000
        Maximum number of training rows to sample, separately for queries and for keys.
        The points z are drawn near the sampled rows.
    coupling : str or Coupling, default="orthogonal"
        How the offsets of the points from the sampled rows depend on each other:
        ``"iid"``, ``"orthogonal"``, ``"antithetic"`` (points on both sides of a row),
        ``"simplex"``, ``"halton"``, ``"sobol"``, a structured coupling or a coupling
        object.

    Attributes
    ----------
    points_ : ndarray of shape (n_components, n_features)
        The points z, centred and multiplied by ``sigma_``.
    center_ : ndarray of shape (n_features,)
        The column means, which are subtracted only for numerical accuracy.

    See Also
    --------
    sklearn_crt.DERFSampler : Positive features for a small or medium sigma.
    sklearn_crt.OPRFSampler : Positive features that use only means and variances.

    Notes
    -----
    Let x be a row that is already multiplied by sigma. For every density :math:`\pi >
    0`, the following features f give an unbiased estimate of the kernel K:

    .. math:: K(x, y) = \left(\frac{2}{\pi}\right)^{d/2}
       \int e^{-|x - z|^2 - |z - y|^2} dz, \qquad
       f(x) = \left(\frac{2}{\pi}\right)^{d/4} \frac{e^{-|x - z|^2}}{\sqrt{D \pi(z)}},
       \quad z \sim \pi

    OPRF is the special case in which z has a normal distribution. By the Cauchy-Schwarz
    inequality, the second moment of the estimate, averaged over pairs of rows, is
    minimal if :math:`\pi` is the distribution of a random row plus :math:`N(0, I/4)`
    noise. The minimum is 1, so the mean variance is :math:`(1 - \overline{K^2}) / D` in
    every dimension and for every sigma. No other positive features of this form have a
    smaller mean variance. Here the random rows a are sampled uniformly from the
    training rows (if ``X_key`` is given, queries and keys each have half of the total
    weight). Let :math:`p_a` be the weights of the sampled rows. After cancellation of
    constant factors, the features are

    .. math:: f(x) = \frac{1}{\sqrt D} e^{-|x - z|^2}
       \Big(\sum_a p_a e^{-2|z - a|^2}\Big)^{-1/2}, \qquad z = a + w/2, \quad
       w \sim N(0, I) .

    We know of no paper that uses this distribution. Importance sampling for random
    features in general is described in [1]_. For n rows with d columns and D features,
    ``fit`` takes O(n d + n_anchors D d) operations. It keeps the sampled rows, which
    take O(n_anchors d) memory.

    The variance has no closed form. ``kernel_variance`` estimates the variance for
    independent points (for independent pairs with ``"antithetic"``) from 16384
    additional draws. All couplings except ``"iid"`` also distribute the points evenly
    over the sampled rows, which reduces the variance by up to half in practice.

    Samples of rows can be merged, so ``partial_fit`` and ``merge`` give the same result
    as a single ``fit``. However, if there are more than ``n_anchors`` rows, the sampled
    rows may differ.

    References
    ----------
    .. [1] F. Bach, "On the Equivalence between Kernel Quadrature Rules and Random
       Feature Expansions", JMLR 18 (21), 2017, :arxiv:`1502.06800`, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.samplers import AnchoredRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(300, 8))
    >>> for Sampler in (OPRFSampler, AnchoredRBFSampler):
    ...     fitted = Sampler(sigma=1.0, n_components=1000, random_state=0).fit(X)
    ...     error = fitted.approximate_kernel(X) - fitted.exact_kernel(X)
    ...     print(f"{np.sqrt(np.mean(error**2)):.3f}")
    0.071
    0.022
    """

    map_: AnchoredMap
    _doubtful_below = 0  # no error check in fit, as the variance is slow to compute
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        n_anchors: int = 2000,
        coupling: str | Coupling = "orthogonal",
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.n_anchors = n_anchors
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    center_: np.ndarray = centered

    def _reads(self):
        return {"rows": self.n_anchors}

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics))
        name, d = type(self).__name__, statistics.n_features
        # angles that depend on the norms would not reduce the variance
        coupling = get_coupling(self.coupling, name, lambda c: not c.norm_dependent)
        columns = PairedColumns.of(self.n_components, single=not coupling.opposite)
        anchors_rng, noise_rng = statistics.frequency_stream().spawn(2)
        if drawn is not None:
            noise = drawn.frequencies
        else:
            noise = coupling.draw(chi_law, columns.n_frequencies, d, noise_rng)
        mixture = _mixture(statistics, frame)
        vectors = noise.to_dense().astype(np.float64)
        even = coupling.n_pairs(2, d) > 0
        points = mixture.draw(vectors, columns, anchors_rng, even=even)
        return AnchoredMap(
            frame,
            self.n_components,
            noise,
            coupling,
            columns,
            Frequencies(np.ascontiguousarray(points.T)),
            mixture.log_mean_square(points),
            mixture,
            GaussianKernel(softmax=self.kernel == "softmax"),
        )

    def _map_without_rows(self, feature_map):
        # remove the mixture, whose anchors are training rows; only kernel_variance
        # needs it
        return replace(feature_map, law=None)

    @overload
    def kernel_variance(
        self,
        X: TableLike,
        Y: TableLike | None = ...,
        *,
        return_error: Literal[False] = ...,
    ) -> np.ndarray: ...

    @overload
    def kernel_variance(
        self, X: TableLike, Y: TableLike | None = ..., *, return_error: bool
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def kernel_variance(
        self, X: TableLike, Y: TableLike | None = None, *, return_error: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return an estimate of the variance of ``approximate_kernel`` (see Notes).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Queries.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Keys; X if None.
        return_error : bool, default=False
            Whether to return the standard error of the estimate as well.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            Estimated variances, which are also the mean squared errors of the kernel
            estimates. A variance is infinite if it is too large for float64 or if it
            cannot be estimated (only with ``kernel="softmax"``).
        error : ndarray of shape (n_X, n_Y), float64
            Standard errors of ``variance``; only returned if ``return_error=True``.

        Raises
        ------
        ValueError
            If the sampler is frozen.
        """
        feature_map, *rows = self._map_and_rows(X, Y)
        pair = feature_map.frame.pair(*rows)
        estimate = feature_map.variance_with_error(*pair)
        return estimate if return_error else estimate[0]

    @property
    def points_(self) -> np.ndarray:
        """The points z, one per row, centred and multiplied by ``sigma_``."""
        return self.map_.points.to_dense().T


def _mixture(statistics, frame):
    """Return the distribution of points near the sampled queries and keys."""
    anchors, weights = [], []
    for sample in statistics.side_samples:
        rows, row_weights = sample.distinct()
        anchors.append(frame.rows(rows.astype(np.float64)).dense)
        weights.append(row_weights / row_weights.sum())
    share = np.concatenate(weights) / len(weights)
    return AnchorMixture(np.concatenate(anchors), share)
