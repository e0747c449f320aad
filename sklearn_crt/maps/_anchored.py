"""Positive features exp(-|x - z|^2) at points z about anchors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..frequencies import Affine, Frequencies
from ..rows import UnitRows
from ._anchor_law import AnchorLaw
from ._base import FrequencyMap, LogFeatures
from ._columns import PairedColumns
from ._gaussian import GaussianKernel

_N_BATCHES, _BATCH = 64, 256  # points behind the estimate of the variance


@dataclass(frozen=True, eq=False)
class AnchoredMap(FrequencyMap):
    r"""Positive features of the Gaussian or softmax kernel about training rows.

    .. math:: f(x) = \frac{1}{\sqrt{D}}\, e^{-|x - z|^2}
       \left(\sum_a p_a e^{-2 |z - a|^2}\right)^{-1/2}

    The ``frequencies`` are the standard normal vectors w of the points
    :math:`z = a \pm w / 2`.

    Attributes
    ----------
    points : Frequencies
        The points z, one a column.
    log_mean_square : ndarray of shape (n_components,)
        Log of the sum over the anchors, for each point.
    columns : PairedColumns
        Which vectors w stand for points on both sides of an anchor.
    law : AnchorLaw or None
        Of the points, for the variance; None once it is forgotten.
    gaussian : GaussianKernel
        The kernel.
    """

    points: Frequencies
    log_mean_square: np.ndarray
    columns: PairedColumns
    law: AnchorLaw | None
    gaussian: GaussianKernel
    block_factor: ClassVar[int] = 4  # points are drawn for each block of pairs

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    @property
    def variance_is_exact(self) -> bool:
        return False

    def frequency_index(self) -> np.ndarray:
        return self.columns.index

    @cached_property
    def _form(self) -> Affine:
        log_scale = -0.5 * math.log(self.n_components)
        return _form(self.points, self.log_mean_square, log_scale)

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        row_term = self.gaussian.plus_row_factor(-rows.sq_norms, rows)
        return None, rows.affine(self._form, row_term, out)

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.variance_with_error(X, Y)[0]

    def variance_with_error(
        self, X: UnitRows, Y: UnitRows
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return an estimate of the variance, and its standard error.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides, in float64.

        Returns
        -------
        variance, standard_error : ndarray of shape (n_X, n_Y)
            As of independent points, or independent pairs of them, from 16384 points
            that are not those of the map.

        Raises
        ------
        ValueError
            If the law is forgotten.
        """
        if self.law is None:
            raise ValueError(
                "kernel_variance draws points about rows that freeze() has forgotten; "
                "ask for it before."
            )
        rng, products = np.random.default_rng(0), []
        for _ in range(_N_BATCHES):
            products.append(self._batch_of_products(self.law, X, Y, rng))
        means = np.mean(products, axis=0)
        errors = np.std(products, axis=0, ddof=1) / math.sqrt(_N_BATCHES)
        # the square of the kernel is known
        one = np.exp(-X.sq_distances(Y))
        factor = np.exp(2 * self.gaussian.log_pair_factor(X, Y)) / self.n_components
        return factor * np.maximum(means - one, 0), factor * errors

    def _batch_of_products(
        self, law: AnchorLaw, X: UnitRows, Y: UnitRows, rng: np.random.Generator
    ) -> np.ndarray:
        """Return one estimate of s + (2P / D) (c - K^2), which is K^2 + D variance.

        For P pairs among D columns, s the mean square of the product of the features
        at a point and c the mean of that product times the one at the other point.
        """
        columns = self.columns
        if columns.n_pairs:
            draws = PairedColumns.of(_BATCH)
        else:
            draws = PairedColumns.of(_BATCH, single=True)
        noise = rng.standard_normal((X.shape[1], draws.n_frequencies))
        points = law.draw(noise, draws, rng, even=False)
        form = _form(
            Frequencies(np.ascontiguousarray(points.T)),
            law.log_mean_square(points),
            0.0,
        )
        left, right = (
            np.exp(rows.affine(form, -rows.sq_norms, np.empty((rows.shape[0], _BATCH))))
            for rows in (X, Y)
        )
        squares = left**2 @ (right**2).T / _BATCH
        if not columns.n_pairs:
            return squares
        half = _BATCH // 2
        both = left[:, :half] * left[:, half:]
        crossed = both @ (right[:, :half] * right[:, half:]).T / half
        share = 2 * columns.n_pairs / self.n_components
        one = np.exp(-X.sq_distances(Y))
        return squares + share * (crossed - one)


def _form(points: Frequencies, log_mean_square: np.ndarray, log_scale: float) -> Affine:
    """Return the form 2 z.x - |z|^2 + ... of the log features."""
    offsets = log_scale - points.sq_norms - 0.5 * log_mean_square
    return Affine(points, 2.0, offsets.astype(points.dtype))
