"""Signs of projections, which estimate angles."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from .block_savings import angles, orthogonal_sign_moment


@dataclass(frozen=True, eq=False)
class SignMap(FrequencyMap):
    r"""Features :math:`\pm \operatorname{sign}(t \cdot x) / \sqrt{2n}` of n directions.

    Plus on the query side and minus on the key side: the estimate is that of
    :math:`\theta / \pi - 1/2`, theta the angle of the rows.
    """

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def cosine(self) -> float | None:
        """0, or None: the moment of other angles has no closed form."""
        return 0.0 if super().cosine == 0 else None

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        scale = 1 / math.sqrt(2 * self.n_components)
        scale = -scale if key else scale
        products = rows.project(self.frequencies, brief=True)
        np.multiply(products >= 0, 2 * scale, out=out)
        out -= scale
        return out, None

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return angles(X.dense, Y.dense) / np.pi - 0.5

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        n, theta = self.n_components, angles(X.dense, Y.dense)
        share = theta / np.pi
        variance = n * share * (1 - share)
        if self.n_pairs > 0 and self.cosine is not None:
            moment = orthogonal_sign_moment(theta, self.n_features)
            gap = (1 - 2 * share) ** 2 - moment
            gap[(share == 0) | (share == 1)] = 0
            variance -= 0.25 * self.n_pairs * gap
        return np.maximum(variance, 0) / n**2
