"""Kernel sums of maps that can be negative, with the errors of their denominators."""

from __future__ import annotations

import numpy as np

from .._arrays import Array, namespace_of
from ..rows import Scratch
from ._device import DeviceSums
from ._reliability import N_GROUPS, group_columns, split_sums, standard_error
from ._sums import FeatureSums, KernelSums


class MapParts:
    """Kernel sums of a map whose columns are exchangeable, with their errors.

    Parameters
    ----------
    index : ndarray of int of shape (n_components,) or None
        The frequency behind each column.
    sums : FeatureSums or DeviceSums
        Of the training rows.
    weights : ndarray of shape (n_components,)
        The part of the sums that is the weights alone.
    """

    def __init__(
        self,
        index: np.ndarray | None,
        sums: FeatureSums | DeviceSums,
        weights: np.ndarray,
    ):
        groups = group_columns(index, weights.size)
        self._sums, self._parts = sums, split_sums(weights, groups)
        self._index = index

    def average(
        self,
        mantissa: np.ndarray,
        exponent: np.ndarray | None,
        cancels: np.ndarray,
        scratch: Scratch,
    ) -> KernelSums:
        """Return the kernel sums of queries, whose features are overwritten."""
        values, log_scale = self._sums.average(mantissa, exponent, self._parts, scratch)
        return with_error(values, log_scale, cancels, self._index, mantissa.shape[1])


def with_error(
    values: np.ndarray,
    log_scale: np.ndarray,
    cancels: np.ndarray,
    index: np.ndarray | None,
    n_components: int,
) -> KernelSums:
    """Return kernel sums with errors from scores and parts side by side."""
    scores, parts = values[:, :-N_GROUPS], values[:, -N_GROUPS:]
    error = standard_error(parts, index, n_components)
    return KernelSums(scores, log_scale, where_cancels(cancels, error))


def where_cancels(cancels: Array, error: Array) -> Array:
    """Return errors of the rows in which terms cancel, 0 for the others."""
    xp = namespace_of(error)
    return xp.where(cancels, error, xp.zeros_like(error))


def find_cancelling(
    mantissa: np.ndarray | None, signed: np.ndarray | np.bool_
) -> np.ndarray | None:
    """Return for which rows terms of kernel sums may cancel; None for none.

    ``signed`` says it of the columns of the training rows.
    """
    if mantissa is None:
        return None
    xp = namespace_of(mantissa)
    if signed.any():
        return xp.ones_like(mantissa[:, 0]) > 0
    cancels = xp.min(mantissa, axis=1) < 0
    return cancels if xp.any(cancels) else None
