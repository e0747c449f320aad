"""The parameters of a ridge estimator, and what they determine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..life_cycle.intervals import Errors, LeftOut
from ..rows import Sigma
from ..samplers._kernel_parameter import KernelLike
from ._class_probabilities import ClippedIndicators, Link
from ._feature_moments import Moments
from ._ridge_solution import Solution


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The validated parameters of an estimator, in effect until the next ``fit``."""

    kernel: KernelLike
    sigma: Sigma
    n_components: int | Literal["auto"]
    alpha: np.ndarray | Literal["auto"]  # (n_alphas,)
    fit_intercept: bool
    clip: bool  # whether predictions are clipped to the range of the targets
    n_classes: int | None  # None for regression
    class_weight: np.ndarray | None  # (n_classes,); None if all weights are 1
    calibrates: bool  # whether class probabilities are calibrated

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Return the targets as a matrix (n, k), with indicators of the classes.

        With two classes, the only column is the difference of the two indicators.
        """
        if self.n_classes is None:
            return y
        if self.n_classes <= 2:
            return np.where(y[:, None] == self.n_classes - 1, 1.0, -1.0)
        return (y[:, None] == np.arange(self.n_classes)).astype(np.float64)

    def calibration(
        self, rows: LeftOut, solution: Solution, shares: np.ndarray | None
    ) -> Errors | Link | ClippedIndicators:
        """Return the calibration, which is based on leave-one-out predictions.

        ``shares`` are the class proportions, (n_classes,), or None for regression.
        """
        if shares is not None and not self.calibrates:
            return ClippedIndicators(shares)
        if shares is not None:
            return Link.of(rows, shares, solution.n_rows)
        return Errors.of(rows, (solution.least, solution.most) if self.clip else None)

    def totals(self, groups: Sequence[Moments]) -> tuple[float, np.ndarray | None]:
        """Return the sum of the sample weights, and the proportions of the classes.

        The sum does not include the class weights, but the proportions do. The moments
        are those of each of two classes, or of all rows.
        """
        weight = groups[0].weight
        if self.n_classes is None:
            return weight, None
        shares = groups[0].y_mean
        if self.n_classes <= 2:
            weights = np.array([group.weight for group in groups])
            weight = float(weights.sum())
            shares = weights / weight
        if self.class_weight is not None:
            known = self.class_weight > 0  # rows of other classes were left out
            weight *= float(np.sum(shares[known] / self.class_weight[known]))
        return weight, shares
