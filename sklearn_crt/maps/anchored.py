"""Positive features exp(-|x - z|^2) for random points z near anchors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.utils import gen_batches

from .._compat import cached_property
from ..arrays.loops import log_sum
from ..frequencies import Affine, Frequencies
from ..rows import DenseInputs, Inputs
from .base import LogFeatures, PairedColumns, PairedMap
from .radial_kernels import LARGEST, GaussianKernel

_CHUNK = 1024  # number of points whose distances to anchors are computed at a time
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class AnchorMixture:
    """Mixture of the normal distributions N(a, I / 4) around anchors a."""

    anchors: np.ndarray  # (n_anchors, n_features)
    weights: np.ndarray  # (n_anchors,)

    def draw(
        self,
        noise: np.ndarray,
        columns: PairedColumns,
        rng: np.random.Generator,
        *,
        even: bool,
    ) -> np.ndarray:
        """Return points from the mixture, in the order of the columns.

        A smaller draw consists of the first points of a larger draw.
        """
        # noise (n_features, n_frequencies) -> (n_components, n_features)
        m, order = noise.shape[1], rng.permutation(len(self.anchors))
        u = (rng.random() + _GOLDEN * np.arange(m)) % 1 if even else rng.random(m)
        edges = np.cumsum(self.weights[order])[:-1]
        centers = self.anchors[order[np.searchsorted(edges, u, side="right")]]
        half, n_pairs = 0.5 * noise.T, columns.n_pairs
        plus, minus = centers + half, centers[:n_pairs] - half[:n_pairs]
        return np.concatenate([plus[:n_pairs], minus, plus[n_pairs:]])

    def log_mean_square(self, points: np.ndarray) -> np.ndarray:
        """Return the log of the mean over the anchors of ``exp(-2 |z - a|^2)``."""
        # points (n_points, n_features) -> (n_points,)
        anchors, log_means = DenseInputs(self.anchors), np.empty(len(points))
        for part in gen_batches(len(points), _CHUNK):
            logs = -2 * DenseInputs(points[part]).sq_distances(anchors)
            total = log_sum(logs, self.weights[:, None], overwrite=True)
            log_means[part] = (np.log(total.values) + total.log_scale)[:, 0]
        return log_means


_N_BATCHES, _BATCH = 64, 256  # number and size of batches to estimate the variance


@dataclass(frozen=True, eq=False)
class AnchoredMap(PairedMap):
    """Features exp(-|x - z|^2) / sqrt(D h(z)) at D points z.

    The weight h(z) is the mean of ``exp(-2 |z - a|^2)`` over the anchors a. The points
    are z = a + w / 2, and also a - w / 2 for pairs, where the ``frequencies`` w are
    standard normal.
    """

    points: Frequencies
    log_mean_square: np.ndarray  # (n_components,)
    law: AnchorMixture | None
    gaussian: GaussianKernel
    block_factor: ClassVar[int] = 4  # large blocks, because each one draws new points

    @property
    def variance_is_exact(self) -> bool:
        return False

    @property
    def is_positive(self) -> bool:
        return True

    @cached_property
    def tables(self) -> Affine:
        log_scale = -0.5 * math.log(self.n_components)
        return _form_of_points(self.points, self.log_mean_square, log_scale)

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        row_term = self.gaussian.plus_row_factor(-rows.sq_norms, rows)
        return None, rows.affine(self.tables, row_term, rows.output(self.n_components))

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.variance_with_error(X, Y)[0]

    def variance_with_error(
        self, X: Inputs, Y: Inputs
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the estimated variance of kernel estimates, and its standard error."""
        # -> (n_X, n_Y)
        if self.law is None:
            raise ValueError(
                "kernel_variance requires the training rows, which freeze() has "
                "discarded. Call it before freeze()."
            )
        rng = np.random.default_rng(0)
        means = squares = np.zeros((X.shape[0], Y.shape[0]))
        for i in range(_N_BATCHES):
            batch = self._batch_of_products(self.law, X, Y, rng)
            delta = batch - means
            means = means + delta / (i + 1)
            squares = squares + delta * (batch - means)
        errors = np.sqrt(squares / (_N_BATCHES * (_N_BATCHES - 1)))
        # the square of the kernel is known, so only the second moment is estimated
        one = np.exp(-X.sq_distances(Y))
        log_unit = np.full(one.shape, -math.log(self.n_components))
        parts = means - one, errors
        found = [self.gaussian.variance(part, log_unit.copy(), X, Y) for part in parts]
        if self.gaussian.softmax:
            # the variance is unknown if the products underflow and the factor overflows
            unknown = means < np.finfo(means.dtype).tiny
            unknown &= 2 * self.gaussian.log_pair_factor(X, Y) > LARGEST
            for values in found:
                values[unknown] = np.inf
        return found[0], found[1]

    def _batch_of_products(
        self, law: AnchorMixture, X: Inputs, Y: Inputs, rng: np.random.Generator
    ) -> np.ndarray:
        """Return an estimate of s + (2P / D) (c - K^2), which is K^2 + D * variance.

        P is the number of pairs of points among the D columns. For each point, a
        feature of x is multiplied by a feature of y. The mean square of these products
        is s, and the mean product of the two products of a pair is c.
        """
        columns = self.columns
        if columns.n_pairs:
            draws = PairedColumns.of(_BATCH)
        else:
            draws = PairedColumns.of(_BATCH, single=True)
        noise = rng.standard_normal((X.shape[1], draws.n_frequencies))
        points = law.draw(noise, draws, rng, even=False)
        form = _form_of_points(
            Frequencies(np.ascontiguousarray(points.T)),
            law.log_mean_square(points),
            0.0,
        )
        left, right = (np.exp(rows.affine(form, -rows.sq_norms)) for rows in (X, Y))
        squares = left**2 @ (right**2).T / _BATCH
        if not columns.n_pairs:
            return squares
        half = _BATCH // 2
        both = left[:, :half] * left[:, half:]
        crossed = both @ (right[:, :half] * right[:, half:]).T / half
        share = 2 * columns.n_pairs / self.n_components
        one = np.exp(-X.sq_distances(Y))
        return squares + share * (crossed - one)


def _form_of_points(
    points: Frequencies, log_mean_square: np.ndarray, log_scale: float
) -> Affine:
    """Return the log features without the term -|x|^2, as affine functions of x."""
    offsets = log_scale - points.sq_norms.astype(np.float64) - 0.5 * log_mean_square
    return Affine(points, 2.0, offsets[None])
