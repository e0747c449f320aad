r"""The error of prototypes on their own rows, each left out of the mean that it is in.

A row x of weight w in a group of weight W and mean c is taken out of it: the mean goes
to :math:`c' = (W c - w x) / (W - w)`, so its distance from the row grows by the factor
:math:`W / (W - w)`, and the weight falls to W - w. For groups of one row this is
leave-one-out of the exact estimator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ..maps import RadialKernel
from ..rows import UnitRows
from ._leave_one_out import _moments, _ratio
from ._log_sums import Kernel, log_values
from ._targets import Numbers, OneHot

_MULTIPLES = 2.0 ** np.arange(-3, 6, 0.5)
_QUERY_ROWS = 250  # kernel values computed at a time
_NOTHING = 1e-9  # of a group is left


class Left(NamedTuple):
    """Some rows, and the group that each is in.

    Attributes
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features) or UnitRows
        The rows.
    y : ndarray of shape (n_rows,) or (n_rows, n_outputs)
        Their targets.
    weights : ndarray of shape (n_rows,)
        Their weights.
    own : ndarray of int of shape (n_rows,)
        The number of the group of each.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray
    own: np.ndarray

    def moved(self, labels: np.ndarray) -> Left:
        """Return the same rows, where group g went into group ``labels[g]``.

        Parameters
        ----------
        labels : ndarray of int of shape (n_groups,)
            Of all groups.

        Returns
        -------
        left : Left
            A new value.
        """
        return self._replace(own=labels[self.own])


def blurred(logs: np.ndarray, spread: np.ndarray, n_features: int) -> np.ndarray:
    r"""Return the log of averages of the Gaussian kernel over Gaussian clouds.

    Parameters
    ----------
    logs : ndarray of shape (n_rows, n_keys)
        Log of the kernel at the centres, overwritten.
    spread : ndarray of shape (n_keys,)
        Variance :math:`s^2` of each coordinate, at unit bandwidth.
    n_features : int
        Number d of coordinates.

    Returns
    -------
    logs : ndarray of shape (n_rows, n_keys)
        :math:`-|x - c|^2 / (2 (1 + s^2)) - (d / 2) \log(1 + s^2)`.
    """
    logs /= 1 + spread
    logs -= 0.5 * n_features * np.log1p(spread)
    return logs


def best_multiple_left(
    kernel: Kernel,
    left: Left,
    keys: UnitRows,
    encoded: np.ndarray,
    spread: np.ndarray | None,
    targets: OneHot | Numbers,
) -> float:
    """Return the factor of sigma for which prototypes err least on rows left out.

    Parameters
    ----------
    kernel : RadialKernel or callable
        At unit bandwidth.
    left : Left
        The rows that are predicted, at a first guess of the bandwidth.
    keys : UnitRows
        The prototypes, (m, d).
    encoded : ndarray of shape (m, k)
        Their weighted targets.
    spread : ndarray of shape (m,) or None
        Of clouds.
    targets : OneHot or Numbers
        What encoded them.

    Returns
    -------
    factor : float
        One of 18 from 1/8 to 45, of least squared error, as for the exact estimator.
    """
    parts = kernel, left, keys, encoded, spread, targets
    return float(_MULTIPLES[np.argmin(_errors(*parts))])


def _errors(kernel, left, keys, encoded, spread, targets) -> np.ndarray:
    """Return the sum of the errors at each multiple."""
    mean, scale = _moments(encoded, targets)
    errors = np.zeros(_MULTIPLES.size)
    for batch in gen_batches(len(left.own), _QUERY_ROWS):
        own = targets.encode(left.y[batch], left.weights[batch], np.float64)
        part = left._replace(X=left.X.take(batch), own=left.own[batch])
        truth, weights = _ratio(own, targets, mean)
        path = _sums_without_own(kernel, part, keys, encoded, own, spread, targets)
        for k, sums in enumerate(path):
            found, _ = _ratio(sums, targets, mean)
            errors[k] += weights @ ((found - truth) ** 2 @ (1 / scale))
    return errors


def _sums_without_own(
    kernel, left, keys, encoded, own, spread, targets
) -> Iterator[np.ndarray]:
    """Yield the kernel sums of rows at each multiple, each out of its own group."""
    place = np.arange(len(left.own)), left.own
    rest = 1 - targets.weight(own) / targets.weight(encoded)[left.own]
    gone = left.X.sq_distances(keys) == 0  # as equal rows with the exact estimator
    gone[place] |= rest < _NOTHING
    stretch = 1 / np.where(rest < _NOTHING, 1, rest)
    path = _stretched_path(kernel, left.X, keys, place, stretch)
    for multiple, logs in zip(_MULTIPLES, path, strict=True):
        if spread is not None:
            logs = blurred(logs, multiple**2 * spread, keys.shape[1])
        logs[gone] = -np.inf
        peak = logs.max(axis=1, keepdims=True)
        weights = np.exp(logs - np.where(np.isfinite(peak), peak, 0))
        yield weights @ encoded - weights[place][:, None] * own


def _stretched_path(kernel, rows, keys, place, stretch):
    """Yield the logs of the kernel at each multiple."""
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(rows, keys).astype(np.float64)
        distances[place] *= stretch
        for multiple in _MULTIPLES:
            yield kernel.log_profile(distances * multiple)
        return
    for multiple in _MULTIPLES:  # the means stay where they are
        yield log_values(kernel, rows.scaled(multiple), keys.scaled(multiple))
