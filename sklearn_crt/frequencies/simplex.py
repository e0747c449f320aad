"""Simplex frequencies: blocks whose vectors point to the vertices of a simplex."""

from __future__ import annotations

import copy
import math
from functools import lru_cache

import numpy as np
from numpy.random import Generator

from .base import Coupling, Frequencies, PairSample, register
from .couplings import BlockCoupling, Orthogonal
from .radial_laws import Family, chi_law


def apply_simplex(values: np.ndarray, axis: int = -1) -> np.ndarray:
    r"""Multiply vectors along an axis by the simplex matrix S, in O(d) operations each.

    The d rows of S are unit vectors with pairwise cosine -1/(d - 1) (Reid et al.
    2023, equation 9):

    .. math:: (S z)_d = \frac{1}{\sqrt{d-1}} \sum_{l < d} z_l, \qquad
       (S z)_i = \sqrt{\frac{d}{d-1}} z_i - \frac{\sqrt d + 1}{d - 1} (S z)_d

    In one dimension, where no simplex exists, S is defined as 1.
    """
    d = values.shape[axis]
    if d == 1:
        return values.copy()
    z = np.moveaxis(values, axis, -1)
    last = z[..., :-1].sum(axis=-1) / math.sqrt(d - 1)
    out = math.sqrt(d / (d - 1)) * z
    out -= ((math.sqrt(d) + 1) / (d - 1) * last)[..., None]
    out[..., -1] = last
    return np.moveaxis(out, -1, axis)


def simplex_from_orthogonal(vectors: np.ndarray) -> np.ndarray:
    r"""Return m vertices of a simplex from m orthonormal vectors, in O(m d) operations.

    The vertices are the rows of L Q, where the rows q of Q are the orthonormal vectors
    and L is the Cholesky factor of the Gram matrix of a simplex (1 on the diagonal and
    -1/(d - 1) elsewhere):

    .. math:: v_i = l_i q_i - \sum_{j < i} \frac{l_j}{d - j} q_j, \qquad
       l_i^2 = \frac{d (d - i)}{(d - 1)(d - i + 1)}, \quad i = 1, 2, \dots
    """
    # vectors (n_blocks, m, d) -> (n_blocks, m, d)
    size, d = vectors.shape[1:]
    if d == 1:
        return vectors
    left = d - np.arange(1.0, size + 1)  # d - i
    lengths = np.sqrt(d * left / ((d - 1) * (left + 1)))
    steps = lengths[:-1] / left[:-1]  # l = 0 for the last vector of a block
    corners = lengths[:, None] * vectors
    corners[:, 1:] -= np.cumsum(steps[:, None] * vectors[:, :-1], axis=1)
    return corners


@register("simplex")
class Simplex(BlockCoupling):
    r"""Blocks of d frequencies that point to the vertices of a simplex.

    The directions of a block are d unit vectors, rotated at random together [1]_. All
    pairs of these vectors form the same angle, whose cosine is -1/(d - 1). This is the
    largest angle that all pairs of d vectors can form at once. The norms are
    independent unless they are stratified. If the last block is incomplete, it consists
    of the first vectors of a full block.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are stratified: their distribution is divided
        into d equally probable intervals, and one norm is drawn from each interval.

    Notes
    -----
    Among the couplings whose directions do not depend on the norms, this one has the
    smallest mean squared error for positive features of the Gaussian kernel ([1]_,
    theorem 3.4). The directions have the same distribution as the rows of :math:`S R`
    ([1]_, equation 8), where the rows of S are the vertices of a regular simplex and R
    is a random rotation. They are computed as :math:`L Q` with a lower triangular
    matrix L, so the first m directions need only m rows of Q. In one dimension, where
    no simplex exists, a frequency is a norm with a random sign. For random Fourier
    features, simplex frequencies give a larger variance than orthogonal frequencies,
    and in two dimensions even a larger variance than independent frequencies.

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`,
       equations 8 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import Simplex, chi_law
    >>> W = Simplex().draw(chi_law, 3, 3, np.random.default_rng(0)).to_dense()
    >>> unit = W / np.linalg.norm(W, axis=0)
    >>> (unit.T @ unit).round(2)
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """

    def cosine(self, n_features: int) -> float | None:
        return -1 / (n_features - 1) if n_features > 1 else 0.0

    def _directions(
        self, norms: np.ndarray, n_features: int, rng: Generator
    ) -> np.ndarray:
        vectors = Orthogonal()._directions(norms, n_features, rng)
        return simplex_from_orthogonal(vectors)


_MAX_SWEEPS = 10
_N_PAIRS = 60_000  # number of pairs from which the variance is estimated
_TINY = 1e-300  # norm below which the direction of a vector is undefined


def balance(sizes: np.ndarray, n_sweeps: int = _MAX_SWEEPS) -> np.ndarray:
    r"""Rotate vectors of given norms to minimise the norm of their sum.

    Starting from the simplex, this function iterates :math:`u_i \leftarrow -\sum_{j \ne
    i} e_j u_j / |\cdot|` (Reid et al. 2023, equation 17). A running total of the
    vectors reduces the cost to O(d) operations per vector. All blocks are processed at
    once, each until its vectors sum to 0 or the maximum number of iterations is
    reached.
    """
    # sizes (n_blocks, d) -> (n_blocks, d, d)
    n_blocks, d = sizes.shape
    unit = np.broadcast_to(apply_simplex(np.eye(d), axis=0), (n_blocks, d, d)).copy()
    if d == 1:
        return unit
    tolerance = 1e-12 * sizes.sum(axis=1)
    going = np.arange(n_blocks)
    for _ in range(n_sweeps):
        total = np.einsum("bi,bil->bl", sizes[going], unit[going])
        open_ = np.linalg.norm(total, axis=1) >= tolerance[going]
        going, total = going[open_], total[open_]
        for i in range(d):
            size, vector = sizes[going, i, None], unit[going, i]
            rest = total - size * vector
            length = np.linalg.norm(rest, axis=1, keepdims=True)
            turned = -rest / np.maximum(length, _TINY)
            vector = np.where(length < _TINY, vector, turned)
            unit[going, i] = vector
            total = rest + size * vector
    return unit


@register("simplex+")
class SimplexPlus(Simplex):
    r"""Simplex blocks with larger angles between frequencies of larger norm.

    Each frequency of a block points away from the weighted sum of the others; the
    weights are those that the features give to the frequencies (see ``weigh``). The
    weighted sum of the block is then 0, unless one weighted norm exceeds the sum of all
    others [1]_. Finally, the block is rotated at random, so each frequency follows the
    spectral distribution of the kernel. The angles are not fixed, so the variance has
    no closed form; for positive features, it is estimated from a sample of blocks.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are stratified: their distribution is divided
        into d equally probable intervals, and one norm is drawn from each interval.

    Notes
    -----
    The directions are computed by at most 10 iterations of equation 17, each of which
    takes O(d^2) operations per block. The iterations start from the simplex and stop
    when the norm of the weighted sum is below 1e-12 times the sum of the weighted
    norms. Each vector of a block depends on the norms of all others, so a full block is
    always drawn, even if only its first vectors are used.

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`,
       section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import Simplex, SimplexPlus, chi_law
    >>> for coupling in (Simplex(), SimplexPlus()):
    ...     W = coupling.draw(chi_law, 8, 8, np.random.default_rng(0)).to_dense()
    ...     print(f"{np.linalg.norm(W.sum(axis=1)):.3f}")
    2.679
    0.000
    """

    norm_dependent = True

    def __init__(self, *, stratified: bool = False):
        super().__init__(stratified=stratified)
        self._coefficient: float | None = 0.0

    def weigh(self, coefficient: float | None) -> Coupling:
        weighed = copy.copy(self)
        weighed._coefficient = coefficient
        return weighed

    def cosine(self, n_features: int) -> float | None:
        return None if self._coefficient is not None else super().cosine(n_features)

    def _sampled_pairs(self, n_features: int) -> PairSample | None:
        if self._coefficient is None or self.stratified or n_features == 1:
            return None
        return _sample_of_pairs(n_features, self._coefficient)

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        if self._coefficient is None:
            return super().draw(radial_law, n_frequencies, n_features, rng)
        # full blocks are drawn, because each vector depends on the norms of the others
        whole = -(-n_frequencies // n_features) * n_features
        frequencies = super().draw(radial_law, whole, n_features, rng)
        return Frequencies(frequencies.to_dense()[:, :n_frequencies])

    def _directions(
        self, norms: np.ndarray, n_features: int, rng: Generator
    ) -> np.ndarray:
        if self._coefficient is None:
            return super()._directions(norms, n_features, rng)
        rotation = Orthogonal()._directions(norms, n_features, rng)
        # rotating the result is enough, because the iterations commute with rotations
        return balance(_weighted(norms, self._coefficient)) @ rotation


def _weighted(norms: np.ndarray, coefficient: float) -> np.ndarray:
    """Return norms times exp(coefficient * norms^2), relative to each block."""
    log_factor = coefficient * norms**2
    return norms * np.exp(log_factor - log_factor.max(axis=1, keepdims=True))


@lru_cache(maxsize=16)
def _sample_of_pairs(n_features: int, coefficient: float) -> PairSample:
    """Return about 60000 pairs from blocks of ``"simplex+"``, without rotations."""
    d, rng = n_features, np.random.default_rng(0)
    n_blocks = int(np.clip(_N_PAIRS // (d * (d - 1) // 2), 8, 20_000))
    norms = chi_law(d).rvs(n_blocks * d, random_state=rng).reshape(n_blocks, d)
    unit = balance(_weighted(norms, coefficient))
    first, second = np.triu_indices(d, 1)
    if first.size * n_blocks > 2 * _N_PAIRS:
        some = rng.choice(first.size, 2 * _N_PAIRS // n_blocks, replace=False)
        first, second = first[some], second[some]
    cosines = np.einsum("bil,bil->bi", unit[:, first], unit[:, second])
    products, fixed = norms[:, first] * norms[:, second], -1 / (d - 1)
    squares = norms[:, first] ** 2 + norms[:, second] ** 2
    return PairSample(
        sq_norms=squares.ravel(),
        inner=(cosines * products).ravel(),
        cosine=fixed,
        reference=(fixed * products).ravel(),
    )
