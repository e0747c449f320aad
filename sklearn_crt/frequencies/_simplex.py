"""Simplex frequencies: blocks whose vectors point to the corners of a simplex."""

from __future__ import annotations

import math

import numpy as np

from ._blocks import BlockCoupling
from ._orthogonal import Orthogonal
from ._registry import register


def apply_simplex(values: np.ndarray, axis: int = -1) -> np.ndarray:
    r"""Multiply by the simplex matrix S along an axis, in O(d) a vector.

    The d rows of S are unit vectors with pairwise cosine -1/(d - 1) (Reid et al.
    2023, equation 9):

    .. math:: (S z)_d = \frac{1}{\sqrt{d-1}} \sum_{l < d} z_l, \qquad
       (S z)_i = \sqrt{\frac{d}{d-1}} z_i - \frac{\sqrt d + 1}{d - 1} (S z)_d

    In one dimension there is no simplex, and S is 1.
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
    r"""Return the first m corners of a simplex from m orthogonal vectors, in O(m d).

    They are L Q for the rows q of Q and the Cholesky factor L of the Gram matrix of a
    simplex, 1 on the diagonal and -1/(d - 1) elsewhere:

    .. math:: v_i = l_i q_i - \sum_{j < i} \frac{l_j}{d - j} q_j, \qquad
       l_i^2 = \frac{d (d - i)}{(d - 1)(d - i + 1)}, \quad i = 1, 2, \dots

    Parameters
    ----------
    vectors : ndarray of shape (n_blocks, m, d)
        Orthonormal rows q, m <= d.

    Returns
    -------
    corners : ndarray of shape (n_blocks, m, d)
        Unit vectors with pairwise cosine -1/(d - 1); no later one enters an earlier.
    """
    size, d = vectors.shape[1:]
    if d == 1:
        return vectors
    left = d - np.arange(1.0, size + 1)  # d - i
    lengths = np.sqrt(d * left / ((d - 1) * (left + 1)))
    steps = lengths[:-1] / left[:-1]  # the last vector of a block has l = 0
    corners = lengths[:, None] * vectors
    corners[:, 1:] -= np.cumsum(steps[:, None] * vectors[:, :-1], axis=1)
    return corners


@register("simplex")
class Simplex(BlockCoupling):
    r"""Blocks of d frequencies that point to the corners of a simplex.

    The directions of a block are d unit vectors with pairwise cosine -1/(d - 1), the
    widest common angle of d vectors, rotated at random [1]_; norms are independent,
    each of its own law. The last block may be partial: the first vectors of a full one,
    with its angles, from as many vectors of the rotation.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are drawn one from each d-th part of their law.

    Notes
    -----
    For positive features of the Gaussian kernel no coupling whose directions do not
    depend on the norms has a smaller mean squared error ([1]_, theorem 3.4). The
    directions have the law of :math:`S R` ([1]_, equation 8), R a rotation; drawn as
    :math:`L Q`, L lower triangular, the first m need only m rows of Q. In one
    dimension there is no simplex and a frequency is a norm with a random sign.

    References
    ----------
    .. [1] I. Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`,
       equations 8 and 9.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import Simplex, chi_law
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
        self, norms: np.ndarray, n_features: int, rng: np.random.Generator
    ) -> np.ndarray:
        vectors = Orthogonal()._directions(norms, n_features, rng)
        return simplex_from_orthogonal(vectors)
