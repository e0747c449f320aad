"""Average outer products of the gradients of a ridge on cosines and sines.

Everything is a sum over rows at given frequencies, so parts of a table merge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.utils import gen_batches

from .._compat import cached_property
from .._kernels import one_hot_weights, sincos
from .._workers import Workspace, effective_n_threads, in_threads
from ..frequencies import Frequencies
from ..rows import Frame, Rows, are_labels

MOST_FREQUENCIES, _FEWEST_FREQUENCIES = 512, 64
_TRIED_FREQUENCIES, _TRIED_ROWS = 256, 4096  # by which sigma is chosen
_PENALTIES = 1e-6, 1e-5, 1e-4, 1e-3, 1e-2  # of ridge, for each row
MULTIPLES = 0.25, 0.5, 1.0, 2.0, 4.0  # of one over the root of the total variance
_LOSS = 1.1  # of the held-out error, for which the round before is not taken
_STEPS = 0.5, 1.0, 2.0  # about the multiple of the round before
_SPREAD = 0.05  # of the variance of frequencies, which all directions share
_ROWS_PER_COLUMN = 256  # least number of rows in all rounds but the last
_ROWS = 1024  # whose features are made at a time
_GAIN = 0.002  # of the held-out error, beside one row's, for a further round
_HELD, _WRAPS = 0.2, 64.0  # share of rows held out: of hashes in [0, 1), gone around
_NOTHING = 1e-8  # of the largest eigenvalue


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """The random Fourier features, cosines and sines, over which sums are taken."""

    frame: Frame  # that standardises the columns
    weights: np.ndarray  # (n_features, m), frequencies of standardised columns

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies, half of that of the features."""
        return self.weights.shape[1]

    def of(self, X: Rows, workspace: Workspace) -> np.ndarray:
        """Return [cos(w.x), sin(w.x)] / sqrt(m) in float64, (n_rows, 2 m)."""
        rows = self.frame.rows(X.astype(np.float64, copy=False), workspace)
        phases = rows.project(Frequencies(self.weights))
        out = workspace.buffer("features", (X.shape[0], 2 * phases.shape[1]), float)
        scale = 1 / math.sqrt(phases.shape[1])
        return sincos(phases, scale, phases.shape[1], out=out)


class Sums(NamedTuple):
    """Weighted sums of products of features F and targets [1, Y]; ``a + b`` is both."""

    gram: np.ndarray  # F'F, (2 m, 2 m)
    cross: np.ndarray  # F'[1, Y], (2 m, 1 + n_outputs)
    weight: float  # sum of the weights
    totals: np.ndarray  # of Y, (n_outputs,)
    squares: np.ndarray  # of Y, (n_outputs,)

    @classmethod
    def of(cls, F: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> Sums:
        """Add up some rows; the features are overwritten."""
        # F (n_rows, 2 m), Y (n_rows, n_outputs), weights (n_rows,)
        T = np.column_stack([np.ones(len(Y)), Y])
        totals, squares = weights @ T, weights @ np.square(Y)
        weight, totals = float(totals[0]), totals[1:]
        if np.any(weights != 1):
            root = np.sqrt(weights)[:, None]
            F *= root
            T *= root
        return cls(F.T @ F, F.T @ T, weight, totals, squares)

    def __add__(self, other: Sums) -> Sums:  # type: ignore[override]
        """Return the sums over the rows of both."""
        return Sums(*map(add, self, other))

    def centred(self, mean: np.ndarray, scale: np.ndarray) -> Sums:
        """Return the sums of the targets (Y - mean) / scale."""
        # mean, scale (n_outputs,)
        weight, totals = self.weight, self.totals
        squares = self.squares - mean * (2 * totals - weight * mean)
        ones = self.cross[:, :1]
        return Sums(
            self.gram,
            np.hstack([ones, (self.cross[:, 1:] - ones * mean) / scale]),
            weight,
            (totals - weight * mean) / scale,
            squares / scale**2,
        )

    def with_outputs(self, columns: np.ndarray, n_outputs: int) -> Sums:
        """Return the sums with the outputs in these columns, among others of zero."""
        # columns (n_outputs,)
        places = np.append(0, 1 + columns)
        cross = np.zeros((len(self.cross), 1 + n_outputs))
        cross[:, places] = self.cross
        totals, squares = np.zeros((2, n_outputs))
        totals[columns], squares[columns] = self.totals, self.squares
        return Sums(self.gram, cross, self.weight, totals, squares)


class TrainingAndHeldOut(NamedTuple):
    """The sums over training rows and over held-out rows; ``a + b`` adds both."""

    training: Sums
    held_out: Sums

    def __add__(self, other: TrainingAndHeldOut) -> TrainingAndHeldOut:  # type: ignore[override]
        """Return the sums over the rows of both."""
        return TrainingAndHeldOut(*map(add, self, other))

    def of_no_rows(self) -> TrainingAndHeldOut:
        """Return sums of the same shapes, to which no row has been added."""
        return TrainingAndHeldOut(
            *(Sums._make(0 * part for part in side) for side in self)
        )

    @property
    def together(self) -> Sums:
        """The sums over all the rows."""
        return self.training + self.held_out

    def with_outputs(self, columns: np.ndarray, n_outputs: int) -> TrainingAndHeldOut:
        """Return the sums with the outputs in these columns, among others of zero."""
        return TrainingAndHeldOut(
            *(side.with_outputs(columns, n_outputs) for side in self)
        )

    def centred(self, by_class: bool) -> TrainingAndHeldOut:
        """Return the sums of targets of mean 0; of numbers also of variance 1."""
        every = self.together
        mean = every.totals / every.weight
        scale = np.ones_like(mean)
        if not by_class:
            variance = np.maximum(every.squares / every.weight - mean**2, 0)
            variance[variance <= 1e-24 * every.squares / every.weight] = 0
            scale = np.sqrt(np.where(variance > 0, variance, 1))
        return TrainingAndHeldOut(*(side.centred(mean, scale) for side in self))


@dataclass(frozen=True, eq=False)
class Coding:
    """How targets become columns: one per class for labels, one per numeric output."""

    classes: np.ndarray | None  # (n_classes,), None for numbers
    mean: np.ndarray  # (n_outputs,), subtracted so that squares keep their digits

    @classmethod
    def of(cls, y: np.ndarray, weights: np.ndarray, by_class: bool = False) -> Coding:
        """Return the coding; integers are labels if few differ, or if ``by_class``."""
        # y (n_rows,) or (n_rows, n_outputs), weights (n_rows,)
        if y.dtype.kind != "f" and (by_class or are_labels(y)):
            return cls(np.unique(y), np.zeros(0))
        return cls(None, np.average(as_outputs(y), axis=0, weights=weights))

    @property
    def by_class(self) -> bool:
        """Whether targets are labels."""
        return self.classes is not None

    def codes(self, y: np.ndarray) -> np.ndarray:
        """Return the index of each label's class, or the outputs minus their mean."""
        # y (n_rows,) -> (n_rows,), or (n_rows, n_outputs)
        if self.classes is not None:
            return np.searchsorted(self.classes, y)
        return as_outputs(y) - self.mean

    def columns(self, codes: np.ndarray) -> np.ndarray:
        """Return columns for the values of ``codes``, (n_rows, n_outputs)."""
        if self.classes is None:
            return codes
        return one_hot_weights(codes, np.ones(codes.size), self.classes.size, float)

    def with_labels(self, y: np.ndarray) -> Coding:
        """Return the coding whose classes include the labels of further rows."""
        if self.classes is None:
            return self
        return Coding(np.unique(np.concatenate([self.classes, y])), self.mean)

    def moved(self, sums: Any, coding: Coding) -> Any:
        """Return sums for this coding as sums for another one that has more classes."""
        if self.classes is None or coding.classes is None:
            return sums
        if self.classes.size == coding.classes.size:
            return sums
        places = np.searchsorted(coding.classes, self.classes)
        return sums.with_outputs(places, coding.classes.size)


def as_outputs(y: np.ndarray) -> np.ndarray:
    """Return numbers in float64 with an axis of outputs."""
    y = y.astype(np.float64)
    return y[:, None] if y.ndim == 1 else y


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows with coded targets and weights, and hashes that decide who is held out."""

    X: Rows  # (n_rows, n_features)
    codes: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)
    hashes: np.ndarray  # (n_rows,)
    coding: Coding

    def few(self, size: int) -> TrainingRows:
        """Return at most so many of the rows, those of the smallest hashes."""
        if self.X.shape[0] <= size:
            return self
        return self.take(np.argsort(self.hashes, kind="stable")[:size])

    def take(self, index: np.ndarray) -> TrainingRows:
        """Return some of the rows."""
        X, codes, weights, hashes = (
            array[index] for array in (self.X, self.codes, self.weights, self.hashes)
        )
        return TrainingRows(X, codes, weights, hashes, self.coding)

    def sums(
        self, features: FourierFeatures, n_jobs: int | None = None
    ) -> TrainingAndHeldOut:
        """Return the sums of features and targets over the rows, block by block."""
        n_rows, width = self.X.shape[0], 2 * features.n_frequencies

        def add_up(part: slice) -> TrainingAndHeldOut:
            start, stop, _ = part.indices(n_rows)
            workspace, total = Workspace(), None
            for block in gen_batches(stop - start, _ROWS):
                rows = slice(start + block.start, start + block.stop)
                held = self.hashes[rows] * _WRAPS % 1.0 < _HELD
                order = rows.start + np.argsort(held, kind="stable")
                F = features.of(self.X[order], workspace)
                Y = self.coding.columns(self.codes[order])
                n, weights = np.count_nonzero(~held), self.weights[order]
                sides = (
                    Sums.of(F[side], Y[side], weights[side])
                    for side in (slice(n), slice(n, None))
                )
                new = TrainingAndHeldOut(*sides)
                total = new if total is None else total + new
            assert total is not None  # a table has rows
            return total

        n_threads = effective_n_threads(n_jobs, n_rows, width)
        parts = in_threads(add_up, n_rows, n_threads)
        return reduce(add, parts)


def ridge(sums: TrainingAndHeldOut, penalty: float) -> np.ndarray:
    """Return the coefficients of ridge regression on the training rows."""
    # -> (2 m, n_outputs)
    training = sums.training
    gram = training.gram.T.copy(order="F")  # LAPACK's order: half the time
    gram[np.diag_indices_from(gram)] += penalty * max(training.weight, 1e-300)
    factor = cho_factor(gram, overwrite_a=True, check_finite=False)
    return cho_solve(factor, training.cross[:, 1:], check_finite=False)


def held_out_error(held: Sums, coefficients: np.ndarray) -> float:
    """Return the mean squared error of the outputs on the rows held out."""
    # coefficients (2 m, n_outputs)
    fitted = np.sum(coefficients * (held.gram @ coefficients))
    total = held.squares.sum() - 2 * np.sum(coefficients * held.cross[:, 1:]) + fitted
    return float(total / (held.weight * held.squares.size))


def best_ridge(
    sums: TrainingAndHeldOut, penalties: Sequence[float] = _PENALTIES
) -> tuple[float, float, np.ndarray | None]:
    """Return the least error on the rows held out, its penalty and coefficients."""
    best: tuple[float, float, np.ndarray | None] = math.inf, _PENALTIES[-1], None
    if sums.held_out.weight > 0 and sums.training.weight > 0:
        for penalty in penalties:
            coefficients = ridge(sums, penalty)
            error = held_out_error(sums.held_out, coefficients)
            if error < best[0]:
                best = error, penalty, coefficients
    return best


def gradient_products(gram: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    r"""Return the H of M = W H W', the mean outer product of gradients.

    The gradient of f = [cos(w.x), sin(w.x)] [a; b] / sqrt(m) is W t with
    t = (b cos - a sin) / sqrt(m): so the products of sines and cosines over the rows,
    ``gram``, with those of coefficients are all of it.
    """
    # gram (2 m, 2 m), a mean over rows; coefficients (2 m, n_outputs) -> (m, m)
    m = len(gram) // 2
    P = coefficients @ coefficients.T
    mixed = gram[m:, :m] * P[:m, m:]  # of sin in row, cos in column
    return gram[m:, m:] * P[:m, :m] + gram[:m, :m] * P[m:, m:] - mixed - mixed.T


def factor_of_products(weights: np.ndarray, H: np.ndarray) -> np.ndarray:
    """Return L of W H W' = c L L', of orthogonal columns, the first of norm 1."""
    # weights (n_features, m), H (m, m) -> (n_features, r)
    d, m = weights.shape
    if d <= m:
        M = weights @ H @ weights.T
        values, vectors = np.linalg.eigh((M + M.T) / 2)
    else:
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        root = weights @ (vectors * np.sqrt(np.maximum(values, 0)))
        vectors, values, _ = np.linalg.svd(root, full_matrices=False)
        values = values**2
    order = np.argsort(-values, kind="stable")
    largest = values[order[0]]
    if not largest > 0:
        return np.zeros((d, 0))
    order = order[values[order] > _NOTHING * largest]
    return vectors[:, order] * np.sqrt(values[order] / largest)


def frequencies_in(L: np.ndarray, normal: np.ndarray) -> np.ndarray:
    """Return frequencies of covariance L L' from standard normal ones.

    The columns of L are eigenvectors of L L', times the roots of their eigenvalues. The
    signs of eigenvectors are arbitrary, as is the basis for equal eigenvalues: another
    order of the rows, or another BLAS, gives others. The symmetric square root of L L',
    by which the normal frequencies are multiplied, is the same for all of them.
    """
    # L (n_features, r), normal (n_features, m) -> (n_features, m)
    directions = L / np.linalg.norm(L, axis=0)
    return L @ (directions.T @ normal)


@dataclass(frozen=True, eq=False)
class Round:
    """Sums at the frequencies of one round, and the penalty for them."""

    features: FourierFeatures
    sums: TrainingAndHeldOut
    by_class: bool

    @cached_property
    def centred(self) -> TrainingAndHeldOut:
        """The sums of centred targets."""
        return self.sums.centred(self.by_class)

    @cached_property
    def solved(self) -> tuple[float, float, np.ndarray | None]:
        """The error on the rows held out, the penalty and its coefficients."""
        return best_ridge(self.centred)

    def factor(self, *, every: bool) -> np.ndarray:
        """Return the L of the metric: of the rows to learn from, or of all of them."""
        # -> (n_features, r)
        (_, penalty, coefficients), sums = self.solved, self.centred
        whole = sums.together
        if every or sums.training.weight == 0:
            sums, coefficients = TrainingAndHeldOut(whole, sums.held_out), None
        if coefficients is None:
            coefficients = ridge(sums, penalty)
        H = gradient_products(whole.gram / whole.weight, coefficients)
        return factor_of_products(self.features.weights, H)


def learn_rounds(
    table: TrainingRows,
    frame: Frame,
    live: np.ndarray,
    *,
    seed: int,
    max_iter: int,
    n_frequencies: int = MOST_FREQUENCIES,
    multiples: Sequence[float] = MULTIPLES,
    n_rows: int = 2**13,
    n_jobs: int | None = None,
    step: Callable[[], None] = lambda: None,
) -> tuple[Round, list[float]]:
    """Return the round that makes the metric, and the multiples of sigma up to it.

    Each round draws its frequencies in the metric of the one before, as long as the
    error on the rows held out falls. The sums of the last are those of all rows; the
    rounds before it use ``n_rows`` rows, or more if there are many columns.
    """
    # live (n_features,), which columns are not constant
    n_distinct = np.unique(table.hashes).size
    m = max(_FEWEST_FREQUENCIES, min(n_distinct, n_frequencies))
    gain = _GAIN + 1 / max(_HELD * n_distinct, 2)
    some = table.few(max(n_rows, _ROWS_PER_COLUMN * live.size))
    L = np.eye(live.size)[:, live]
    chosen: list[float] = []
    made: list[tuple[float, Round]] = []
    for draws in np.random.default_rng(seed).spawn(max_iter):
        weights = frequencies_in(L, draws.standard_normal((live.size, m)))
        if made:  # so that a direction that was missed can come back
            spread = math.sqrt(_SPREAD * np.sum(L**2) / live.sum())
            weights += spread * live[:, None] * draws.standard_normal(weights.shape)
        tried = [m * chosen[-1] for m in _STEPS] if chosen else multiples
        found, multiple = _choose_sigma(some, frame, weights, tried, n_jobs)
        error = found.solved[0]
        step()
        if made and not error <= (1 - gain) * made[-1][0]:
            if error > _LOSS * made[-1][0] and len(made) > 1:
                made.pop()  # the metric that it made is worse
            break
        made.append((error, found))
        chosen.append(multiple)
        L = found.factor(every=False)
        if L.shape[1] == 0:  # constant targets
            break
    last = made[-1][1]
    if some is not table:
        sums = table.sums(last.features, n_jobs)
        last = Round(last.features, sums, last.by_class)
    return last, chosen[: len(made)]


def _choose_sigma(
    table: TrainingRows,
    frame: Frame,
    weights: np.ndarray,
    multiples: Sequence[float],
    n_jobs: int | None,
) -> tuple[Round, float]:
    """Return the round at the multiple of the frequencies that errs least, and this.

    One is the multiple at which the phases have variance 1.
    """
    # weights (n_features, m)
    some = table.few(_TRIED_ROWS)
    rows = frame.rows(some.X.astype(np.float64, copy=False))
    phases = rows.project(Frequencies(weights[:, :_TRIED_FREQUENCIES]))
    share = some.weights / some.weights.sum()
    variance = np.mean(share @ (phases - share @ phases) ** 2)
    unit = weights / math.sqrt(variance or 1.0)
    by_class = table.coding.by_class

    def error(multiple: float) -> float:
        features = FourierFeatures(frame, unit[:, :_TRIED_FREQUENCIES] * multiple)
        sums = some.sums(features, n_jobs).centred(by_class)
        return best_ridge(sums, _PENALTIES[::2])[0]

    best = multiples[0] if len(multiples) == 1 else min(multiples, key=error)
    features = FourierFeatures(frame, unit * best)
    return Round(features, table.sums(features, n_jobs), by_class), best
