"""Positive features that are centred near sampled rows."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Literal, overload

import numpy as np

from .._compat import Interval, RandomState, StrOptions
from ..frequencies import Coupling, Frequencies, chi_law, get_coupling
from ..maps import (
    AnchoredMap,
    AnchorMixture,
    GaussianKernel,
    GaussianOrSoftmax,
    PairedColumns,
)
from ..rows import Sigma, TableLike
from ._base import BaseFeatureSampler, centered
from ._exponential import middle


class AnchoredRBFSampler(BaseFeatureSampler):
    r"""Positive features near training rows, for the Gaussian or softmax kernel.

    Each feature is proportional to a function :math:`e^{-|x - z|^2}` centred at a
    random point z near a sampled training row. Use this sampler for kernel averages and
    attention with a large sigma, where all other positive features need a very large
    ``n_components``. The estimate is unbiased for every row, including rows that are
    far from the sample.

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
        Number of features, one per point z. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    n_anchors : int, default=2000
        Maximum number of training rows to sample, separately for queries and for keys.
        The points z are drawn near the sampled rows.
    coupling : str or Coupling, default="orthogonal"
        How the offsets of the points from the sampled rows depend on each other:
        ``"iid"``, ``"orthogonal"``, ``"antithetic"`` (points on both sides of a row),
        ``"simplex"``, ``"halton"``, ``"sobol"``, a structured coupling or a coupling
        object.
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
    points_ : ndarray of shape (n_components, n_features)
        The points z, centred and multiplied by ``sigma_``.
    center_ : ndarray of shape (n_features,)
        The column means, which are subtracted only for numerical accuracy.
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
    0.020
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
        sigma: Sigma | None = None,
        n_components: int | None = None,
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
            frame=frame,
            n_components=self.n_components,
            frequencies=noise,
            coupling=coupling,
            columns=columns,
            points=Frequencies(np.ascontiguousarray(points.T)),
            log_mean_square=mixture.log_mean_square(points),
            law=mixture,
            gaussian=GaussianKernel(softmax=self.kernel == "softmax"),
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
        feature_map, *rows = self._map_and_pair(X, Y)
        assert isinstance(feature_map, AnchoredMap)
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
