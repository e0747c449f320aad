"""Simplex frequencies: blocks whose vectors point to the corners of a simplex."""

import math

import numpy as np

from ._coupling import BlockCoupling, register
from ._frequencies import Frequencies
from ._orthogonal import Orthogonal


def apply_simplex(values, axis=-1):
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


@register("simplex")
class Simplex(BlockCoupling):
    r"""Blocks of d frequencies that point to the corners of a simplex [1]_.

    The directions of a block are :math:`S R`, R a Haar-distributed orthogonal matrix
    and S the matrix of d unit vectors with pairwise cosine -1/(d - 1), the widest
    common angle of d vectors; norms are independent, each of its own law. The last
    block may be partial: the first vectors of a full one, with its angles.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are drawn one from each d-th part of their law.

    Notes
    -----
    For positive features of the Gaussian kernel no coupling whose directions do not
    depend on the norms has a smaller mean squared error ([1]_, theorem 3.4). In one
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

    def cosine(self, n_features):
        return -1 / (n_features - 1) if n_features > 1 else 0.0

    def draw(self, radial_law, n_frequencies, n_features, rng):
        # each vector of a block needs the whole rotation: draw whole blocks
        whole = -(-n_frequencies // n_features) * n_features
        frequencies = super().draw(radial_law, whole, n_features, rng)
        return Frequencies(frequencies.to_dense()[:, :n_frequencies])

    def _directions(self, norms, n_features, rng):
        return apply_simplex(Orthogonal()._directions(norms, n_features, rng), axis=1)
