"""Couplings: independent, orthogonal, antithetic and low-discrepancy frequencies."""

from __future__ import annotations

import math
from abc import abstractmethod
from inspect import signature

import numpy as np
from numpy.random import Generator
from scipy import special, stats
from scipy.linalg import blas, lapack
from scipy.stats import qmc

from .base import Coupling, Frequencies, register
from .radial_laws import Family, RadialLaw

_GROUP = 2**16  # number of array elements in a chunk that fits in the CPU cache


def check_quantiles(law: RadialLaw, coupling: str) -> None:
    """Raise ValueError if the distribution of the norms has no quantile function."""
    if not hasattr(law, "ppf"):
        raise ValueError(
            f"coupling={coupling} requires the quantile function (ppf) of the norms, "
            f"which {type(law).__name__} does not provide; use 'orthogonal' or 'iid'."
        )


@register("iid")
class Independent(Coupling):
    """Independent frequencies with directions that are uniform on the sphere."""

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        directions_rng, norms_rng = rng.spawn(2)
        directions = directions_rng.standard_normal((n_frequencies, n_features))
        norms = radial_law(n_features).rvs(n_frequencies, random_state=norms_rng)
        scale = norms / np.linalg.norm(directions, axis=1)
        return Frequencies((directions * scale[:, None]).T)


class BlockCoupling(Coupling):
    """Independent blocks, each of ``n_features`` mutually dependent frequencies.

    The last block may be incomplete; it then consists of the first vectors of a full
    block, so that draws are nested. A subclass implements ``_directions`` and
    ``cosine``.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are stratified: their distribution is divided
        into d equally probable intervals, and one norm is drawn from each interval, in
        random order. Each individual norm still has the original distribution.
    """

    def __init__(self, *, stratified: bool = False):
        self.stratified = stratified

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'stratified=True' if self.stratified else ''})"

    @property
    def independent_norms(self) -> bool:  # type: ignore[override]  # of a parameter
        """Whether the norms of a block are independent, that is, not stratified."""
        return not self.stratified

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        sizes = np.full(math.ceil(n_frequencies / n_features), n_features)
        sizes[-1] -= -n_frequencies % n_features  # the last block may be smaller
        return sizes

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        directions_rng, norms_rng = rng.spawn(2)
        law = radial_law(n_features)
        norms = self._norms(law, n_frequencies, n_features, norms_rng)
        weights = np.empty((n_features, n_frequencies))
        whole = n_frequencies - n_frequencies % n_features
        group = n_features * max(1, _GROUP // n_features**2)
        start = 0
        while start < n_frequencies:
            stop = min(start + group, whole) if start < whole else n_frequencies
            size = min(n_features, stop - start)
            block_norms = norms[start:stop].reshape(-1, size)
            unit = self._directions(block_norms, n_features, directions_rng)
            place = weights[:, start:stop].reshape(n_features, -1, size)
            np.multiply(unit.transpose(2, 0, 1), block_norms, out=place)
            start = stop
        return Frequencies(weights)

    def _norms(
        self, law: RadialLaw, n_frequencies: int, n_features: int, rng: Generator
    ) -> np.ndarray:
        if not self.stratified:
            return law.rvs(n_frequencies, random_state=rng)
        check_quantiles(law, repr(self))
        # drawn for full blocks, so that the first norms do not depend on n_frequencies
        shape = -(-n_frequencies // n_features), n_features
        order_rng, place_rng = rng.spawn(2)
        strata = np.argsort(order_rng.random(shape), axis=1)
        u = (strata + place_rng.random(shape)) / n_features
        u = np.minimum(u, np.nextafter(1, 0)).ravel()
        return law.ppf(u[:n_frequencies])

    @abstractmethod
    def _directions(
        self, norms: np.ndarray, n_features: int, rng: Generator
    ) -> np.ndarray:
        """Return unit vectors (n_blocks, size, n_features) for norms (n_blocks, size).

        Implementations must draw one block after the other, and an incomplete block
        must consist of the first vectors of a full block.
        """


# number of columns from which one LAPACK call per block is faster than np.linalg.qr
_ONE_BY_ONE = 64


@register("orthogonal")
class Orthogonal(BlockCoupling):
    r"""Blocks of d orthogonal frequencies with independent norms.

    The directions of a block are the rows of a Haar-distributed orthogonal matrix. Each
    row is multiplied by an independent norm, so each frequency follows the spectral
    distribution of the kernel exactly [1]_. For the Gaussian kernel, the norms have a
    chi distribution with d degrees of freedom.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are stratified: their distribution is divided
        into d equally probable intervals, and one norm is drawn from each interval, in
        random order. The estimate remains unbiased. Stratified norms reduce the
        variance by up to half for kernels whose frequencies have heavy tails
        (Laplacian, Matern), where orthogonality alone hardly reduces it. With
        stratified norms, the variance has no closed form.

    Notes
    -----
    The matrix Q in the QR decomposition of a Gaussian matrix has the Haar distribution
    only after its columns are multiplied by the signs of the diagonal of R. Without
    this correction, the first vector that LAPACK returns always lies on the same side
    of a plane, and an estimate from positive features is 21 % too small for d = 4.

    References
    ----------
    .. [1] F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar,
       "Orthogonal Random Features", NeurIPS 2016, :arxiv:`1610.09072`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import Orthogonal, chi_law
    >>> W = Orthogonal().draw(chi_law, 3, 3, np.random.default_rng(0)).to_dense()
    >>> bool(np.allclose(W.T @ W, np.diag(np.diag(W.T @ W))))
    True
    """

    def cosine(self, n_features: int) -> float | None:
        return 0.0

    def _directions(
        self, norms: np.ndarray, n_features: int, rng: Generator
    ) -> np.ndarray:
        # drawn vector by vector, so that an incomplete block is part of a full block
        gaussian = rng.standard_normal((*norms.shape, n_features))
        if n_features >= _ONE_BY_ONE:
            for vectors in gaussian:
                _orthogonalise(vectors)
            return gaussian
        q, r = np.linalg.qr(np.swapaxes(gaussian, -1, -2))
        signs = np.copysign(1.0, np.diagonal(r, axis1=-2, axis2=-1))
        return np.swapaxes(q * signs[..., None, :], -1, -2)


def _orthogonalise(vectors: np.ndarray) -> None:
    """Replace Gaussian rows in place by the rows of a random orthogonal matrix."""
    size, n_features = vectors.shape
    if 4 * size <= n_features:
        # R' is the Cholesky factor of the Gram matrix. With this few vectors, the
        # condition number of the Gram matrix is about 9, so Q is as accurate as with
        # Householder reflections, and takes half as many operations, in products.
        gram = blas.dsyrk(1.0, vectors.T, trans=1)
        r, _ = lapack.dpotrf(gram, overwrite_a=True)
        vectors[...] = blas.dtrsm(1.0, r, vectors.T, side=1, overwrite_b=True).T
        return
    work = 64 * size
    r, tau, _, _ = lapack.dgeqrf(vectors.T, lwork=work, overwrite_a=True)
    signs = np.copysign(1.0, np.diagonal(r))
    q, _, _ = lapack.dorgqr(r, tau, lwork=work, overwrite_a=True)
    np.multiply(q.T, signs[:, None], out=vectors)


@register("antithetic")
class Antithetic(Coupling):
    r"""Pairs of opposite frequencies w and -w; by default, the pairs are orthogonal.

    If a positive feature :math:`e^{w \cdot x}` is large, :math:`e^{-w \cdot x}` is
    small, so the errors of the two features partly cancel. Only positive exponential
    maps can use this coupling, because w and -w give the same random Fourier features
    up to signs.

    ``draw`` returns one frequency of each pair, from which the map computes two
    features with a single inner product and a single exponential.

    Parameters
    ----------
    base : Coupling, default=None
        Coupling of the frequencies w, one from each pair; None means ``Orthogonal()``.

    Raises
    ------
    ValueError
        If ``base`` is itself antithetic, or if its angles depend on the norms.

    Notes
    -----
    Each frequency follows the spectral distribution of the kernel, so the estimate
    remains unbiased. In all our experiments, with various dimensions d and means of
    :math:`|x + y|^2`, the mean squared error of antithetic features with the optimal
    coefficient A for pairs was smaller than the error of the same number of orthogonal
    features. For d = 4, it was smaller by a factor of 12 if :math:`|x + y|^2` had a
    mean of 0.5, and by a factor of 1.4 for a mean of 8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import Antithetic, Orthogonal, chi_law
    >>> half = Antithetic().draw(chi_law, 3, 3, np.random.default_rng(0))
    >>> same = Orthogonal().draw(chi_law, 3, 3, np.random.default_rng(0))
    >>> bool((half.to_dense() == same.to_dense()).all())
    True
    """

    opposite = True

    def __init__(self, base: Coupling | None = None):
        self.base = base = Orthogonal() if base is None else base
        self.exact, self.bias = base.exact, base.bias
        self.independent_norms = base.independent_norms
        if self.base.opposite or self.base.norm_dependent:
            raise ValueError(
                f"base={base!r} cannot be made antithetic; use independent, orthogonal "
                "or simplex frequencies."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        return self.base.draw(radial_law, n_frequencies, n_features, rng)

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        return self.base.block_sizes(n_frequencies, n_features)

    def cosine(self, n_features: int) -> float | None:
        return self.base.cosine(n_features)


_KEYWORD = "rng" if "rng" in signature(qmc.Halton).parameters else "seed"  # SciPy 1.15
_EDGE = 2.0**-31  # half the spacing of the coordinates of Sobol points


class QuasiCoupling(Coupling):
    """Frequencies from a scrambled low-discrepancy sequence in the unit cube.

    The coordinates of each point are transformed to normal quantiles, which determine
    the direction of a frequency and, through the quantile function of the radial
    distribution, its norm. Each scrambled point is uniformly distributed, so each
    frequency follows the spectral distribution of the kernel.
    """

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        return np.array([n_frequencies])

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        law = radial_law(n_features)
        check_quantiles(law, f"{type(self).__name__.lower()!r}")
        (points_rng,) = rng.spawn(1)
        points = self._points(n_frequencies, n_features, {_KEYWORD: points_rng})
        normal = special.ndtri(np.clip(points, _EDGE, 1 - _EDGE))
        lengths = np.linalg.norm(normal, axis=1)
        level = np.minimum(stats.chi.cdf(lengths, n_features), 1 - 2.0**-53)
        norms = law.ppf(level)
        return Frequencies((normal * (norms / lengths)[:, None]).T)

    @abstractmethod
    def _points(
        self, n_points: int, n_features: int, source: dict[str, Generator]
    ) -> np.ndarray:
        """Return the first scrambled points of a longer sequence."""


@register("halton")
class Halton(QuasiCoupling):
    """Frequencies from scrambled Halton points.

    The points fill the unit cube more evenly than random points, especially in low
    dimensions. The estimate remains unbiased; its variance has no closed form.

    References
    ----------
    .. [1] A. B. Owen, "A randomized Halton algorithm in R", 2017,
       :arxiv:`1706.02808`.
    .. [2] J. Yang, V. Sindhwani, H. Avron, M. Mahoney, "Quasi-Monte Carlo Feature
       Maps for Shift-Invariant Kernels", ICML 2014, :arxiv:`1412.8293`.
    """

    def _points(
        self, n_points: int, n_features: int, source: dict[str, Generator]
    ) -> np.ndarray:
        return qmc.Halton(n_features, **source).random(n_points)


@register("sobol")
class Sobol(QuasiCoupling):
    """Frequencies from scrambled Sobol points, in up to 21201 dimensions.

    The points are most evenly distributed if their number is a power of two. The
    estimate remains unbiased; its variance has no closed form.

    References
    ----------
    .. [1] S. Joe, F. Y. Kuo, "Constructing Sobol sequences with better
       two-dimensional projections", SIAM J. Sci. Comput. 30, 2008,
       :doi:`10.1137/070709359`.
    .. [2] J. Yang, V. Sindhwani, H. Avron, M. Mahoney, "Quasi-Monte Carlo Feature
       Maps for Shift-Invariant Kernels", ICML 2014, :arxiv:`1412.8293`.
    """

    def _points(
        self, n_points: int, n_features: int, source: dict[str, Generator]
    ) -> np.ndarray:
        if n_features > qmc.Sobol.MAXDIM:
            raise ValueError(
                f"coupling='sobol' supports at most {qmc.Sobol.MAXDIM} features, but X "
                f"has {n_features}; use 'halton'."
            )
        power = math.ceil(math.log2(n_points))  # SciPy expects a power of 2
        return qmc.Sobol(n_features, **source).random_base2(power)[:n_points]
