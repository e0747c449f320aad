"""Simplex frequencies: blocks whose vectors point to the corners of a simplex."""

import math

import numpy as np


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
