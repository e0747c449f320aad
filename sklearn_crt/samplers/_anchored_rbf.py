"""Positive features of the Gaussian kernel about training rows."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral
from typing import Literal, Self, overload

import numpy as np

from .._compat import Interval, StrOptions
from .._docs import fill_doc
from ..frequencies import Coupling, Frequencies, chi_law, get_coupling
from ..maps import AnchoredMap, AnchorLaw, GaussianKernel, PairedColumns
from ..rows import TableLike
from ._base import BaseFeatureSampler
from ._exponential import middle


@fill_doc
class AnchoredRBFSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from positive features about training rows.

    Each column is a bump :math:`e^{-|x - z|^2}` at a random point z near one of a
    sample of the training rows, so columns are spent where the data are. Choose it for
    averages (Nadaraya-Watson, attention) with a large sigma, where all other positive
    features need very many columns. Unbiased for every row, also far from the sample.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a point.
    n_anchors : int, default=2000
        Largest number of training rows, of each side, about which points are drawn.
    %(coupling_noise)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    points_ : ndarray of shape (n_components, n_features)
        The points z, centred and at unit bandwidth.
    center_ : ndarray of shape (n_features,)
        The mean of the columns, subtracted for accuracy alone.
    %(fitted)s

    See Also
    --------
    DERFSampler : Reads a covariance in place of rows; for small and middle sigma.
    OPRFSampler : Reads column means and variances alone.

    Notes
    -----
    With x already multiplied by sigma, for every density :math:`\pi > 0`

    .. math:: K(x, y) = \left(\frac{2}{\pi}\right)^{d/2}
       \int e^{-|x - z|^2 - |z - y|^2} dz, \qquad
       f(x) = \left(\frac{2}{\pi}\right)^{d/4} \frac{e^{-|x - z|^2}}{\sqrt{D \pi(z)}},
       \quad z \sim \pi

    is unbiased; OPRF is the case of a normal law of z. The mean over pairs of rows of
    the second moment is least where :math:`\pi` is the law of a random row plus
    :math:`N(0, I/4)`, by the inequality of Cauchy and Schwarz: then it is 1, so the
    mean variance is :math:`(1 - \overline{K^2}) / D` in every dimension and for every
    sigma, and no other positive features of this form have less. Here the rows are a
    uniform sample a of those that ``fit`` sees (half of the weight for each side where
    ``X_key`` is given), and constants cancel:

    .. math:: f(x) = \frac{1}{\sqrt D} e^{-|x - z|^2}
       \Big(\sum_a p_a e^{-2|z - a|^2}\Big)^{-1/2}, \qquad z = a + w/2, \quad
       w \sim N(0, I) .

    This law is of this package, and in no paper that we know of; importance sampling
    for random features in general is in [1]_. ``fit`` costs O(n d + n_anchors D d) and
    keeps the sample, O(n_anchors d).

    There is no closed form of the variance. ``kernel_variance`` estimates it as of
    independent points (for ``"antithetic"`` of independent pairs) from 16384 draws of
    its own, and gives its standard error with ``return_error=True``. All couplings but
    ``"iid"`` also use the rows evenly, and have in practice down to half of it.

    Samples of rows merge, so ``partial_fit`` in batches and ``merge`` equal one fit up
    to the choice of rows where there are more than ``n_anchors``. ``freeze`` forgets
    the rows, and with them ``kernel_variance``.

    ``fit`` raises ValueError as the other samplers do, and for n_anchors < 1.

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
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "n_anchors": [Interval(Integral, 1, None, closed="left")],
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        n_anchors=2000,
        coupling="orthogonal",
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.n_anchors = n_anchors
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _reads_rows(self):
        return True

    def _n_sampled_rows(self):
        return self.n_anchors

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a noise vector: two on both sides of an anchor."""
        return 2 if self._get_coupling().opposite else 1

    def _get_coupling(self) -> Coupling:
        coupling = get_coupling(self.coupling, type(self).__name__, opposite=True)
        return coupling.weigh(None)

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics))
        coupling, d = self._get_coupling(), statistics.n_features
        columns = PairedColumns.of(self.n_components, single=not coupling.opposite)
        anchors_rng, noise_rng = statistics.frequency_stream().spawn(2)
        if drawn is not None:
            noise = drawn.frequencies
        else:
            noise = coupling.draw(chi_law, columns.n_frequencies, d, noise_rng)
        law = _law(statistics, frame)
        vectors = noise.to_dense().astype(np.float64)
        even = coupling.n_pairs(2, d) > 0
        points = law.draw(vectors, columns, anchors_rng, even=even)
        return AnchoredMap(
            frame,
            self.n_components,
            noise,
            coupling,
            Frequencies(np.ascontiguousarray(points.T)),
            law.log_mean_square(points),
            columns,
            law,
            GaussianKernel(softmax=self.kernel == "softmax"),
        )

    def freeze(self) -> Self:
        """Fix the map for good, and forget the rows, and so ``kernel_variance``.

        Returns
        -------
        self : object
            The sampler; ``partial_fit``, ``merge``, ``with_sigma`` and
            ``kernel_variance`` raise ValueError until the next ``fit``, and a pickle
            of it holds no row of the data.
        """
        super().freeze()
        self.map_ = replace(self.map_, law=None)
        return self

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
        """Return an estimate of the variance of ``approximate_kernel``.

        As of independent points, from draws that are not those of the map.

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
            Mean squared errors of the estimates of the kernel.
        error : ndarray of shape (n_X, n_Y), float64
            Standard errors of ``variance``, only with ``return_error``.

        Raises
        ------
        ValueError
            If the sampler is frozen.
        """
        X, Y = self._validate_pair(X, Y)
        estimate = self.map_.variance_with_error(*self.map_.frame.pair(X, Y))
        return estimate if return_error else estimate[0]

    @property
    def points_(self) -> np.ndarray:
        """The points, (n_components, n_features), centred and at unit bandwidth."""
        return self.map_.points.to_dense().T


def _law(statistics, frame):
    """Return the law of points about the sampled rows of all sides."""
    if not statistics.side_samples:
        raise ValueError(
            "AnchoredRBFSampler needs the sample of rows of fit, which freeze() has "
            "forgotten; change sigma before."
        )
    anchors, weights = [], []
    for sample in statistics.side_samples:
        rows, row_weights = sample.distinct()
        anchors.append(frame.rows(rows.astype(np.float64)).dense)
        weights.append(row_weights / row_weights.sum())
    share = np.concatenate(weights) / len(weights)
    return AnchorLaw(np.concatenate(anchors), share)
