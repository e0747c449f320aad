"""The law of points about anchors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows
from ._columns import PairedColumns

_CHUNK = 1024  # points whose distances to all anchors are held at a time
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class AnchorLaw:
    """Mixture of N(a, I / 4) over anchors a.

    Attributes
    ----------
    anchors : ndarray of shape (n_anchors, n_features)
        At unit bandwidth, in float64.
    weights : ndarray of shape (n_anchors,)
        Positive, with sum 1.
    """

    anchors: np.ndarray
    weights: np.ndarray

    def draw(
        self,
        noise: np.ndarray,
        columns: PairedColumns,
        rng: np.random.Generator,
        *,
        even: bool,
    ) -> np.ndarray:
        """Return points, in the order of the columns.

        Each has the law. Draws nest.

        Parameters
        ----------
        noise : ndarray of shape (n_features, n_frequencies)
            Standard normal vectors.
        columns : PairedColumns
            Which of them stand for points on both sides of an anchor.
        rng : numpy.random.Generator
            Of the choice of anchors.
        even : bool
            Whether the points together use the anchors evenly, by a random start and
            golden steps through them in random order; independently if not.

        Returns
        -------
        points : ndarray of shape (n_components, n_features)
            The points.
        """
        m, order = noise.shape[1], rng.permutation(len(self.anchors))
        u = (rng.random() + _GOLDEN * np.arange(m)) % 1 if even else rng.random(m)
        edges = np.cumsum(self.weights[order])[:-1]
        centers = self.anchors[order[np.searchsorted(edges, u, side="right")]]
        half, n_pairs = 0.5 * noise.T, columns.n_pairs
        plus, minus = centers + half, centers[:n_pairs] - half[:n_pairs]
        return np.concatenate([plus[:n_pairs], minus, plus[n_pairs:]])

    def log_mean_square(self, points: np.ndarray) -> np.ndarray:
        """Return the log of the mean over the anchors of ``exp(-2 |z - a|^2)``.

        Parameters
        ----------
        points : ndarray of shape (n_points, n_features)
            The z.

        Returns
        -------
        log_mean : ndarray of shape (n_points,)
            The log density, but for a constant.
        """
        anchors, log_means = UnitRows(self.anchors), np.empty(len(points))
        for start in range(0, len(points), _CHUNK):
            part = slice(start, start + _CHUNK)
            logs = UnitRows(points[part]).sq_distances(anchors)
            logs *= -2
            peaks = logs.max(axis=1)
            logs -= peaks[:, None]
            log_means[part] = np.log(np.exp(logs, out=logs) @ self.weights) + peaks
        return log_means
