"""Extrapolation beyond the range of numeric columns, along straight lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..life_cycle.intervals import weighted_quantiles

_LEAST_ROWS = 100  # with fewer rows, there is no extrapolation
_INNER = np.array([0.1, 0.9])  # rows outside of these quantiles test the line
_LEAST_AT_EDGE = 10  # minimum number of rows that test a line
# A line is used if its slope among the inner rows is at least _LEAST_SCORE standard
# errors, and if the slope at the edge, relative to it, is above _LEAST_RATIO by two
# standard errors. If the slope at the edge is smaller by two standard errors, it is
# the slope of the line, and otherwise that of all rows.
_LEAST_SCORE, _LEAST_RATIO = 4.0, 0.3
_ALPHA = 1e-3  # ridge penalty of the linear model of all columns
_UNCERTAINTY = 0.1  # of a slope beyond the data, in addition to its standard error
_MOST_RANGES = 3.0  # values farther outside, in ranges of the column, count as this


@dataclass(frozen=True, eq=False)
class Trend:
    """Lines along which predictions continue outside the range of numeric columns.

    For each column and side, the line is fitted to the rows without the outer tenth,
    after subtracting the linear effects of all other columns. The outer rows tell
    whether the line continues there.
    """

    sources: np.ndarray  # (k,), columns of the table
    ends: np.ndarray  # (2, k), smallest and largest values; infinite without a line
    ranges: np.ndarray  # (k,)
    slopes: np.ndarray  # (2, k)
    deviations: np.ndarray  # (2, k), standard deviations of the slopes

    @classmethod
    def of(
        cls,
        V: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        scores: np.ndarray,
        others: np.ndarray,
        sources: np.ndarray,
    ) -> Trend | None:
        """Return the lines, or None if there are none.

        ``scores`` are the encoded numeric columns, whose positions in V are
        ``sources``, and ``others`` all further encoded columns.
        """
        if len(y) < _LEAST_ROWS or not len(sources):
            return None
        share = weights / weights.sum()
        Z = np.hstack([scores, others])
        Z = Z - share @ Z
        y = y - share @ y
        gram = (Z * share[:, None]).T @ Z
        gram[np.diag_indices_from(gram)] += _ALPHA
        coef = np.linalg.solve(gram, Z.T @ (share * y))
        residual = y - Z @ coef
        found = []
        for q, j in enumerate(sources.tolist()):
            known = ~np.isnan(V[:, j])
            v, w = V[known, j].astype(np.float64), weights[known]
            target = residual[known] + Z[known, q] * coef[q]
            for side in (0, 1):
                with np.errstate(over="ignore", invalid="ignore"):  # of huge values
                    line = _line(v, target, w, side)
                if line is not None:
                    found.append((j, side, v.min(), v.max(), *line))
        if not found:
            return None
        used = sorted({j for j, *_ in found})
        ends = np.repeat([[-np.inf], [np.inf]], len(used), axis=1)
        ranges, (slopes, deviations) = np.ones(len(used)), np.zeros((2, 2, len(used)))
        for j, side, low, high, slope, deviation in found:
            q = used.index(j)
            ends[side, q], ranges[q] = (low, high)[side], high - low
            slopes[side, q], deviations[side, q] = slope, deviation
        return cls(
            sources=np.array(used),
            ends=ends,
            ranges=ranges,
            slopes=slopes,
            deviations=deviations,
        )

    def inside(self, V: np.ndarray) -> np.ndarray:
        """Return rows that are moved to the ends of the ranges."""
        V = V.copy()
        V[:, self.sources] = np.clip(V[:, self.sources], *self.ends.astype(V.dtype))
        return V

    def beyond(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what is added to predictions, and its standard deviation, (n,)."""
        gaps = self._gaps(V)
        variance = np.einsum("snk,sk->n", gaps**2, self.deviations**2)
        changes = np.einsum("snk,sk->nk", gaps, self.slopes)
        return changes.sum(axis=1), np.sqrt(variance)

    def effects(self, V: np.ndarray) -> np.ndarray:
        """Return what each column adds to predictions, (n, n_columns)."""
        found = np.zeros(V.shape)
        gaps = self._gaps(V)
        found[:, self.sources] = np.einsum("snk,sk->nk", gaps, self.slopes)
        return found

    def _gaps(self, V: np.ndarray) -> np.ndarray:
        """Return the distances from both ends of the ranges, (2, n, k)."""
        with np.errstate(invalid="ignore"):
            values = np.nan_to_num(V[:, self.sources].astype(np.float64), nan=np.nan)
            gaps = np.stack([values - self.ends[0], values - self.ends[1]])
        gaps[0], gaps[1] = np.minimum(gaps[0], 0), np.maximum(gaps[1], 0)
        most = _MOST_RANGES * self.ranges
        return np.clip(np.where(np.isnan(gaps), 0, gaps), -most, most)


def _line(
    v: np.ndarray, target: np.ndarray, weights: np.ndarray, side: int
) -> tuple[float, float] | None:
    """Return the slope at one end of a column and its standard deviation, or None."""
    if len(v) < _LEAST_ROWS:
        return None
    end = weighted_quantiles(weights[None], v, _INNER)[0, side]
    edge = v > end if side else v < end
    inner = ~edge
    if np.count_nonzero(edge) < _LEAST_AT_EDGE:
        return None
    x, t, w = v[inner], target[inner], weights[inner] / weights[inner].sum()
    x, middle, mean = x - w @ x, w @ x, w @ t
    square = w @ x**2
    if not square > 0:
        return None
    slope = float(w @ (x * t)) / square
    noise = w @ (t - mean - slope * x) ** 2
    least = _LEAST_SCORE * np.sqrt(noise / (square * len(x)))
    if not abs(slope) > max(least, 1e-150):
        return None
    gap, w = v[edge] - end, weights[edge] / weights[edge].sum()
    rest = target[edge] - mean - slope * (end - middle)
    square = w @ gap**2
    if not square > 0:
        return None
    at_edge = float(w @ (gap * rest)) / square
    noise = w @ (rest - at_edge * gap) ** 2
    error = float(np.sqrt(noise / (square * (len(gap) - 1))))
    ratio, uncertain = at_edge / slope, 2 * error / abs(slope)
    if ratio - uncertain < _LEAST_RATIO:
        return None
    if ratio + uncertain < 1:
        slope *= ratio
    else:  # nothing contradicts a single line, which all rows determine best
        share = weights / weights.sum()
        x = v - share @ v
        slope = float(share @ (x * target)) / float(share @ x**2)
    deviation = float(np.hypot(error, _UNCERTAINTY * slope))
    return (slope, deviation) if np.isfinite([slope, deviation]).all() else None
