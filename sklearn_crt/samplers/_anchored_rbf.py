"""Positive features of the Gaussian kernel about training rows."""

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
    r"""Gaussian or softmax kernel from positive features about training rows.

    Each column is a bump :math:`e^{-|x - z|^2}` at a random point z near a sampled
    training row. Choose it for averages (Nadaraya-Watson, attention) with a large
    sigma, where all other positive features need very many columns. It is unbiased for
    every row, also far from the sample.

    Parameters
    ----------
    n_components : int, default=100
        Number of columns, one per point.
    n_anchors : int, default=2000
        Largest number of training rows of each side around which points are drawn.
    coupling : str or Coupling, default="orthogonal"
        How the offsets of the points from the rows depend on each other: ``"iid"``,
        ``"orthogonal"``, ``"antithetic"`` (points on both sides of a row),
        ``"simplex"``, ``"halton"``, ``"sobol"``, a structured coupling or an object.

    Attributes
    ----------
    points_ : ndarray of shape (n_components, n_features)
        The points z, centred and multiplied by ``sigma_``.
    center_ : ndarray of shape (n_features,)
        The column means, subtracted only for accuracy.

    See Also
    --------
    DERFSampler : Reads a covariance in place of rows; for small and medium sigma.
    OPRFSampler : Reads only the means and variances of the columns.

    Notes
    -----
    With x already multiplied by sigma, for every density :math:`\pi > 0`

    .. math:: K(x, y) = \left(\frac{2}{\pi}\right)^{d/2}
       \int e^{-|x - z|^2 - |z - y|^2} dz, \qquad
       f(x) = \left(\frac{2}{\pi}\right)^{d/4} \frac{e^{-|x - z|^2}}{\sqrt{D \pi(z)}},
       \quad z \sim \pi

    is unbiased; OPRF is the case of a normal z. By the Cauchy-Schwarz inequality the
    mean of the second moment over pairs of rows is least where :math:`\pi` is the
    distribution of a random row plus :math:`N(0, I/4)`. Then it is 1, so the mean
    variance is :math:`(1 - \overline{K^2}) / D` in every dimension and for every sigma,
    and no other positive features of this form have less. Here the rows are a uniform
    sample a of those that ``fit`` sees (half of the weight for each side where
    ``X_key`` is given), and constants cancel:

    .. math:: f(x) = \frac{1}{\sqrt D} e^{-|x - z|^2}
       \Big(\sum_a p_a e^{-2|z - a|^2}\Big)^{-1/2}, \qquad z = a + w/2, \quad
       w \sim N(0, I) .

    We know of no paper with this distribution; importance sampling for random features
    in general is in [1]_. ``fit`` costs O(n d + n_anchors D d) and keeps the sample,
    O(n_anchors d).

    There is no closed form of the variance. ``kernel_variance`` estimates that of
    independent points (of independent pairs for ``"antithetic"``) from 16384 draws of
    its own. All couplings but ``"iid"`` also use the rows evenly, which in practice
    lowers the variance by up to a half.

    Samples of rows merge, so ``partial_fit`` in batches and ``merge`` equal one fit, up
    to the choice of rows where there are more than ``n_anchors``.

    References
    ----------
    .. [1] F. Bach, "On the Equivalence between Kernel Quadrature Rules and Random
       Feature Expansions", JMLR 18 (21), 2017, :arxiv:`1502.06800`, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import AnchoredRBFSampler, OPRFSampler
    >>> X = np.random.default_rng(0).normal(size=(300, 8))
    >>> for Sampler in (OPRFSampler, AnchoredRBFSampler):
    ...     fitted = Sampler(sigma=1.0, n_components=1000, random_state=0).fit(X)
    ...     error = fitted.approximate_kernel(X) - fitted.exact_kernel(X)
    ...     print(f"{np.sqrt(np.mean(error**2)):.3f}")
    0.071
    0.022
    """

    map_: AnchoredMap
    _doubtful_below = 0  # its variance takes long
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
        # the mixture of the anchors, which are rows, is what kernel_variance needs
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
        """Return an estimate of the variance of ``approximate_kernel`` (Notes).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.
        return_error : bool, default=False
            Whether to return the standard error of the estimate too.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            Mean squared errors of the estimates of the kernel; infinite where they are
            too large for float64, and for ``kernel="softmax"`` where nothing is known.
        error : ndarray of shape (n_X, n_Y), float64
            Standard errors of ``variance``, only with ``return_error``.

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
        """The points, (n_components, n_features), centred and multiplied by sigma."""
        return self.map_.points.to_dense().T


def _mixture(statistics, frame):
    """Return the law of points about the sampled rows of all sides."""
    anchors, weights = [], []
    for sample in statistics.side_samples:
        rows, row_weights = sample.distinct()
        anchors.append(frame.rows(rows.astype(np.float64)).dense)
        weights.append(row_weights / row_weights.sum())
    share = np.concatenate(weights) / len(weights)
    return AnchorMixture(np.concatenate(anchors), share)
