"""The distribution of prediction errors, whose scale depends on the row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..life_cycle.intervals import weighted_quantiles
from ..life_cycle.out_of_fold import weight_of_new
from ..metric._column_features import ColumnFeatures

_LEAST_ROWS = 100  # with fewer rows, the scale is constant
_ALPHAS = np.logspace(-4, 2, 13)  # penalties, relative to the number of rows
_STEPS = 25  # of Fisher scoring
_MOST = 4.0  # larger errors, divided by their scale, count as this value in the fit


@dataclass(frozen=True, eq=False)
class ErrorScale:
    """The expected absolute error of a prediction, as a function of the row.

    Its logarithm is an additive function of the prediction and of the columns. With
    hat functions as features, it is fitted by ridge regression with the likelihood of
    the gamma distribution. The penalty, which may be infinite, minimises the deviance
    of left-out rows.
    """

    features: ColumnFeatures | None  # None if the scale is constant
    coef: np.ndarray  # (n_features,)
    intercept: float
    limits: tuple[float, float]  # logarithms of the scales of training rows

    @classmethod
    def fitted(
        cls, rows: np.ndarray, errors: np.ndarray, weights: np.ndarray
    ) -> tuple[ErrorScale, np.ndarray]:
        """Return the scale, and the scales of the rows by models without each of them.

        The rows consist of the prediction and the columns.
        """
        # rows (n, d), errors and weights (n,) -> (n,)
        share, n = weights / weights.sum(), len(errors)
        sizes = np.abs(errors)
        unit = float(share @ sizes)
        if n < _LEAST_ROWS or not unit > 0:
            log = float(np.log(unit)) if unit > 0 else 0.0
            return cls(None, np.zeros(0), log, (log, log)), np.full(n, np.exp(log))
        sizes, best = sizes / unit, None
        for chosen in (slice(1), slice(None)):  # the prediction only, and all columns
            some = np.zeros_like(rows)
            some[:, chosen] = rows[:, chosen]
            features = ColumnFeatures.of(some, share, hats=True)
            found = _best_fit(features(some), sizes, share)
            if best is None or found[0] < best[0]:
                best = (*found, features)
        assert best is not None
        _, coef, intercept, logs, left_out, features = best
        intercept += np.log(unit)
        limits = float(logs.min() + np.log(unit)), float(logs.max() + np.log(unit))
        left_out = np.clip(left_out + np.log(unit), *limits)
        return cls(features, coef, float(intercept), limits), np.exp(left_out)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Return the scales of rows, which are limited to those of training rows."""
        # (n, d) -> (n,)
        logs = np.full(len(rows), self.intercept)
        if self.features is not None:
            some = np.zeros_like(rows)
            kept = self.features.kept
            some[:, kept] = rows[:, kept]
            logs += self.features(some) @ self.coef
        return np.exp(np.clip(logs, *self.limits))


def _best_fit(
    Z: np.ndarray, sizes: np.ndarray, share: np.ndarray
) -> tuple[float, np.ndarray, float, np.ndarray, np.ndarray]:
    """Return the deviance of left-out rows, and the fit with the best penalty.

    In each step of Fisher scoring, all rows have the weights ``share``, so that the
    projections of all steps are the same. The fit consists of coefficients, the
    intercept, the logarithms of the scales, and those of left-out rows.
    """
    # Z (n, p), sizes and share (n,) -> (p,), (), (n,), (n,)
    root = np.sqrt(share)[:, None]
    U, s, Vt = np.linalg.svd(Z * root, full_matrices=False)
    U = U / root
    best = (np.inf, np.zeros(Z.shape[1]), 0.0, np.zeros(0), np.zeros(0))
    for alpha in (np.inf, *_ALPHAS[::-1]):
        shrinkage = s**2 / (s**2 + alpha)
        leverage = share * (1 + np.square(U) @ shrinkage)
        logs, along, intercept = np.zeros(len(sizes)), np.zeros(len(s)), 0.0
        for _ in range(_STEPS):
            gaps = np.minimum(sizes * np.exp(-logs), _MOST) - 1
            working = logs + gaps
            intercept = float(share @ working)
            along = shrinkage * (U.T @ (share * (working - intercept)))
            before, logs = logs, intercept + U @ along
            if np.abs(logs - before).max() < 1e-4:
                break
        gaps = np.minimum(sizes * np.exp(-logs), _MOST) - 1
        left_out = logs - leverage / np.maximum(1 - leverage, 1e-3) * gaps
        loss = float(share @ (left_out + sizes * np.exp(-left_out)))
        if loss < best[0]:
            safe = np.where(s > 1e-12 * s.max(initial=1e-300), s, np.inf)
            best = (loss, Vt.T @ (along / safe), intercept, logs, left_out)
    return best


@dataclass(frozen=True, eq=False)
class ScaledErrors:
    """Errors of out-of-fold predictions, divided by the scales of their rows."""

    scale: ErrorScale
    ratios: np.ndarray  # (n,)
    weights: np.ndarray  # (n,), with mean 1
    of_new: float = 1.0  # the weight of a new row or group

    @classmethod
    def of(
        cls,
        rows: np.ndarray,
        errors: np.ndarray,
        weights: np.ndarray,
        groups: np.ndarray | None = None,
    ) -> ScaledErrors:
        """Return the distribution, given rows of the prediction and the columns."""
        scale, scales = ErrorScale.fitted(rows, errors, weights)
        weights, of_new = weights / weights.mean(), 1.0
        if groups is not None:
            of_new = weight_of_new(weights, groups)
        return cls(scale, errors / scales, weights, of_new)

    def quantiles(self, rows: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the errors of new rows, (n, n_levels).

        As in conformal prediction, a new row counts as another row, whose error is
        larger than all others. Therefore the quantiles can be infinite.
        """
        weights = np.append(self.weights, self.of_new)[None]
        found = np.empty(len(levels))
        for i, level in enumerate(levels):
            side = 1.0 if level >= 0.5 else -1.0
            ratios = np.append(side * self.ratios, np.inf)
            wanted = np.array([max(level, 1 - level)])
            found[i] = side * weighted_quantiles(weights, ratios, wanted).item()
        return self.scale(rows)[:, None] * found

    def deviations(self, rows: np.ndarray) -> np.ndarray:
        """Return the standard deviations of the errors of new rows, (n,)."""
        mean_square = self.weights @ self.ratios**2 / self.weights.sum()
        return self.scale(rows) * np.sqrt(mean_square)
