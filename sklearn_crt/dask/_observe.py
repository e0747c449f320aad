"""First pass: the statistics of the rows that choose a map, and the labels."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np

from ..rows import Statistics
from ..samplers import BaseFeatureSampler
from ._blocks import Blocks
from ._tree import tree_sum


@dataclass(frozen=True)
class Observed:
    """What was read of some rows; ``a + b`` is that of both.

    Attributes
    ----------
    statistics : Statistics
        For the map.
    dtype : dtype
        Of the rows.
    columns : dict
        Number of columns and, where they have some, their names, as attributes of
        estimators.
    """

    statistics: Statistics
    dtype: np.dtype
    columns: dict[str, Any]

    def __add__(self, other: Observed) -> Observed:
        """Return what was read of the rows of both."""
        dtype = np.result_type(self.dtype, other.dtype)
        return Observed(self.statistics + other.statistics, dtype, self.columns)


def observed(sampler: BaseFeatureSampler, blocks: Blocks) -> Any:
    """Return what a sampler reads of blocks of rows, to be computed.

    Parameters
    ----------
    sampler : sampler
        Unfitted; takes its seed here, one for all blocks.
    blocks : Blocks
        The rows and their weights.

    Returns
    -------
    observed : Delayed
        An ``Observed``, None where there are no rows.
    """
    sampler._validate_params()
    sampler._begin()
    shell = dask.delayed(copy.copy(sampler), pure=False, traverse=False)
    observe = dask.delayed(_observe, pure=False)
    tables = blocks.select("X", "sample_weight")
    pairs = zip(tables, blocks.starts(len(tables)), strict=True)
    return tree_sum(operator.add, [observe(shell, *pair) for pair in pairs])


def settle(sampler: BaseFeatureSampler, found: Observed) -> BaseFeatureSampler:
    """Give a sampler the map that follows from what was read, and return it.

    Parameters
    ----------
    sampler : sampler
        That of ``observed``.
    found : Observed
        Of all the rows.

    Returns
    -------
    sampler : sampler
        The same object, fitted.
    """
    sampler.__dict__.update(found.columns)
    sampler._settle(found.statistics, found.dtype)
    return sampler


def labels(blocks: Blocks) -> Any:
    """Return the labels of blocks of rows, to be computed.

    Parameters
    ----------
    blocks : Blocks
        With targets.

    Returns
    -------
    classes : Delayed
        A sorted ndarray, None where there are no rows.
    """
    unique = dask.delayed(_unique, pure=False)
    return tree_sum(_union, [unique(table) for table in blocks.select("y")])


def _observe(sampler, table, n_before):
    X, sample_weight = table
    weights = None if sample_weight is None else np.asarray(sample_weight)
    if X.shape[0] == 0 or (weights is not None and not weights.any()):
        return None
    sampler = copy.copy(sampler)
    statistics, dtype = sampler._observe(X, None, weights, True, n_before)
    names = ("n_features_in_", "feature_names_in_")
    columns = {name: vars(sampler)[name] for name in names if name in vars(sampler)}
    return Observed(statistics, dtype, columns)


def _unique(table):
    y = np.asarray(table[0])
    return np.unique(y) if len(y) else None


def _union(a, b):
    return np.unique(np.concatenate([a, b]))
