r"""The error of an average that comes from random columns, told by the columns.

With the features :math:`F_m` of a query, the sums :math:`S_{mc}` of the training rows
and :math:`Z_m` those of their weights, the average is :math:`P_c = \sum_m F_m S_{mc} /
\sum_m F_m Z_m`. Columns are dealt to G groups g; the residuals

.. math:: r_{gc} = \sum_{m \in g} F_m (S_{mc} - P_c Z_m)

sum to zero, and

.. math:: s_c^2 = \frac{G}{G - 1} \sum_g r_{gc}^2 \Big/ \Big(\sum_m F_m Z_m\Big)^2

is the grouped jackknife [1]_ of the average. Frequencies of a block are not
independent, so whole blocks go into a group where there are at least eight of them. A
ratio needs many columns that carry weight: their effective number is
:math:`(\sum_m F_m Z_m)^2 / \sum_m (F_m Z_m)^2`.

References
----------
.. [1] B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", Chapman & Hall 1993,
   chapter 11.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..maps import N_GROUPS, FeatureMap, FrequencyMap
from ._reliability import group_columns
from ._sums import FeatureSums
from ._targets import Numbers, OneHot

N_EFFECTIVE = 16  # columns, below which an error is not to be trusted
_FEWEST_BLOCKS = 8


class ApproximationError(NamedTuple):
    """Errors of averages that come from the random columns of a map.

    Attributes
    ----------
    std : ndarray of shape (n_samples,) or (n_samples, n_columns)
        Standard errors of the averages, one column a class or an output; infinite where
        a denominator is not positive, and where there is one group of columns alone.
    n_effective : ndarray of shape (n_samples,)
        Effective number of columns behind each; below 16 ``std`` is too small.
    """

    std: np.ndarray
    n_effective: np.ndarray


def group_blocks(feature_map: FeatureMap) -> list[np.ndarray]:
    """Return the columns of each group: of whole blocks where there are enough.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.

    Returns
    -------
    groups : list of ndarray of int
        At most 16, none of them empty.
    """
    index = feature_map.frequency_index()
    groups = group_columns(index, feature_map.n_components)
    if index is not None and isinstance(feature_map, FrequencyMap):
        m, d = feature_map.n_frequencies, feature_map.n_features
        sizes = feature_map.coupling.block_sizes(m, d)
        if sizes.size >= _FEWEST_BLOCKS:
            blocks = np.repeat(np.arange(sizes.size), sizes)
            groups = blocks[index] % N_GROUPS
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def jackknife(
    weights: np.ndarray,
    sums: FeatureSums,
    groups: list[np.ndarray],
    targets: OneHot | Numbers,
) -> ApproximationError:
    """Return the standard errors of the averages of queries.

    Parameters
    ----------
    weights : ndarray of shape (n_rows, n_components)
        Features of the queries, on the scale of the sums.
    sums : FeatureSums
        Of the training rows.
    groups : list of ndarray of int
        Columns of each group.
    targets : OneHot or Numbers
        What averages are taken of.

    Returns
    -------
    error : ApproximationError
        Of these rows.
    """
    weights = weights.astype(np.float64)
    terms = weights * targets.weight(sums.sums)
    total = terms.sum(axis=1)
    n_averages = targets.n_averages
    parts = np.stack([weights[:, g] @ sums.sums[g] for g in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        averages = parts.sum(axis=0)[:, :n_averages] / total[:, None]
        own = np.stack([targets.weight(part) for part in parts])
        residuals = parts[:, :, :n_averages] - averages * own[:, :, None]
        squares = np.sum(residuals**2, axis=0) / total[:, None] ** 2
        n_effective = total**2 / np.sum(terms**2, axis=1)
    n_groups = len(groups)
    known = (total[:, None] > 0) & (n_groups > 1)
    std = np.where(known, np.sqrt(n_groups / max(n_groups - 1, 1) * squares), np.inf)
    return ApproximationError(std, np.where(total > 0, n_effective, 0.0))
