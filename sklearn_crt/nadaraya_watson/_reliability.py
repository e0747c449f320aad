r"""Which averages can be told from noise, and what stands where they cannot.

A kernel average is a numerator over a denominator :math:`S = \sum_m F_m Z_m`, with the
features :math:`F_m` of a query and the sums :math:`Z_m` of those of the training rows.
Where all terms are positive nothing cancels and S is what it is. Features that can be
negative estimate S with an error, and where S is not well above this error the ratio
means nothing, however large it is.

The error comes from the columns themselves. The frequencies are dealt to G = 16 groups
in turn, :math:`n_g` of the m frequencies to group g, with the part :math:`S_g` of S;

.. math:: s^2 = \frac{G}{G - 1} \sum_g \left(S_g - \frac{n_g}{m} S\right)^2

is the squared standard error of S (the grouped jackknife [1]_). For independent
frequencies it is unbiased; frequencies that avoid each other (orthogonal blocks) have a
smaller error than it says. Features of transformers from elsewhere may not be
exchangeable (those of Nystroem are not), so their error is taken as

.. math:: s = \frac{1}{\sqrt D} \sum_m |F_m Z_m| + \sqrt\epsilon\, |F| \sqrt{W Q}

with W the sum of the weights of the training rows, Q that of the weights times the
squared norms of their features and :math:`\epsilon` the rounding error of the type: the
first term is what D terms of random signs add up to, the second is where Z itself is
rounding.

A row is *unreliable* where :math:`S < 2 s`. Its average, moved into the range of the
targets, counts with the weight :math:`\lambda = (\max(S, 0) / 2 s)^2`, and their mean
with :math:`1 - \lambda`: continuous, 1 at the threshold, 0 where S is not positive.

References
----------
.. [1] B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall 1993,
   chapter 11.
"""

from __future__ import annotations

import math

import numpy as np

from .._arrays import clipped, constant, like, moved, namespace_of
from ..maps import N_ERRORS, N_GROUPS
from ._norms import Norms


def group_columns(index: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the group of each column.

    Parameters
    ----------
    index : ndarray of int of shape (n_components,) or None
        The frequency behind each column; None where columns have none of their own.
    n_components : int
        Number of columns.

    Returns
    -------
    groups : ndarray of int of shape (n_components,)
        From 0 to 15. The groups of the columns of fewer frequencies are the same.
    """
    columns = np.arange(n_components) if index is None else index
    return columns % N_GROUPS


def split_sums(sums: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return sums of the features with a column a group, zero elsewhere.

    Parameters
    ----------
    sums : ndarray of shape (n_components,)
        Z_m, the sums of the weighted features.
    groups : ndarray of int of shape (n_components,)
        Of each column.

    Returns
    -------
    parts : ndarray of shape (n_components, 16)
        The features of a query times these are the parts S_g of its denominator.
    """
    parts = np.zeros((sums.size, N_GROUPS), dtype=sums.dtype)
    parts[np.arange(sums.size), groups] = sums
    return parts


def standard_error(
    parts: np.ndarray, index: np.ndarray | None, n_components: int
) -> np.ndarray:
    """Return the standard error of denominators, the grouped jackknife of their parts.

    Parameters
    ----------
    parts : ndarray of shape (n_rows, 16)
        S_g.
    index : ndarray of int of shape (n_components,) or None
        The frequency behind each column; None where columns have none of their own.
    n_components : int
        Number of columns.

    Returns
    -------
    error : ndarray of shape (n_rows,)
        Infinite for a single frequency, which says nothing of its error.
    """
    frequencies = np.arange(n_components) if index is None else np.unique(index)
    sizes = np.bincount(frequencies % N_GROUPS, minlength=N_GROUPS)
    n_groups = np.count_nonzero(sizes)
    if n_groups < 2:
        return constant((parts.shape[0],), np.inf, parts)
    xp = namespace_of(parts)
    total = xp.sum(parts, axis=1, keepdims=True)
    gaps = parts - total * like(sizes / frequencies.size, parts)
    factor = float(n_groups / (n_groups - 1))
    return xp.sqrt(factor * xp.sum(gaps**2, axis=1))


def error_of_signs(features: np.ndarray, sums: np.ndarray, norms: Norms) -> np.ndarray:
    """Return the error of denominators whose columns need not be exchangeable.

    Parameters
    ----------
    features : ndarray of shape (n_rows, n_components)
        F_m of the queries.
    sums : ndarray of shape (n_components,)
        Z_m.
    norms : Norms
        W and Q of the training rows.

    Returns
    -------
    error : ndarray of shape (n_rows,)
        See the module.
    """
    xp, sizes = namespace_of(features), np.abs(sums)
    if not isinstance(features, np.ndarray):
        sizes = moved(sizes, features)
    signs = xp.abs(features) @ sizes / math.sqrt(sums.size)
    eps = float(xp.finfo(features.dtype).eps)
    rounding = math.sqrt(eps * norms.weight * norms.squares)
    return signs + rounding * xp.sqrt(xp.sum(features * features, axis=1))


def trust(denominators: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return the weight of the averages of rows, less than 1 where unreliable.

    Parameters
    ----------
    denominators : ndarray of shape (n_rows,)
        S.
    errors : ndarray of shape (n_rows,)
        Standard errors s; 0 where nothing cancels.

    Returns
    -------
    weight : ndarray of shape (n_rows,)
        lambda, in [0, 1]; 0 where S is not positive.
    """
    xp, least = namespace_of(denominators), N_ERRORS * errors
    nothing = xp.zeros_like(least)
    sure = xp.where((least == 0) & (denominators > 0), nothing + 1, nothing)
    divisor = xp.where(least > 0, least, nothing + 1)
    share = xp.where(least > 0, denominators / divisor, sure)
    return clipped(share, 0.0, 1.0) ** 2
