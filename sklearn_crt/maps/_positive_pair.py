"""Positive features of frequencies w and -w, the positive base of hybrids."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._columns import PairedColumns
from ._gaussian import GaussianKernel
from .block_savings import positive_gap


@dataclass(frozen=True, eq=False)
class PositivePairMap(FrequencyMap):
    r"""Features :math:`e^{-|x|^2} (e^{w \cdot x}, e^{-w \cdot x}) / \sqrt{2m}`.

    The columns are all of w, then all of -w. A frequency with a single column has
    :math:`e^{w \cdot x - |x|^2} / \sqrt m` there.

    Attributes
    ----------
    columns : PairedColumns
        Which frequencies have two columns.
    gaussian : GaussianKernel
        The kernel.
    """

    columns: PairedColumns
    gaussian: GaussianKernel

    @property
    def columns_per_frequency(self) -> int:
        return 2

    def frequency_index(self) -> np.ndarray:
        return self.columns.index

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        projection, n_pairs = rows.project(self.frequencies), self.columns.n_pairs
        row_term = -0.5 * math.log(self.n_frequencies) - rows.sq_norms
        row_term = self.gaussian.plus_row_factor(row_term, rows)
        pair_term = row_term - 0.5 * math.log(2)
        plus, minus, single = self.columns.split(out)
        np.add(projection[:, :n_pairs], pair_term, out=plus)
        np.subtract(pair_term, projection[:, :n_pairs], out=minus)
        np.add(projection[:, n_pairs:], row_term, out=single)
        return None, out

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        _, q, sq_distances = X.pair_statistics(Y)
        # all in units of exp(2q - 2N), where -2N = -q - |x - y|^2
        decay = -np.expm1(-q)  # 1 - e^-q
        total = 0.5 * self.columns.n_pairs * decay**2 + self.columns.n_single * decay
        if self.n_pairs > 0 and self.cosine is not None:
            # w and -w: angles of either sign
            gaps = [
                positive_gap(q, self.n_features, cosine)
                for cosine in {self.cosine, -self.cosine}
            ]
            total = total - self.n_pairs * np.mean(gaps, axis=0) * np.exp(-q)
        with np.errstate(divide="ignore"):
            log_variance = np.log(np.maximum(total, 0))
        log_variance += q - sq_distances - 2 * math.log(self.n_frequencies)
        return self.gaussian.variance(log_variance, X, Y)
