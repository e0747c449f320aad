"""Candidate metrics, and the choice among them by their errors on held-out rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._fitted import Batch, Step, no_step
from .._kernels import one_hot_weights, sq_distances, weights_from_logs
from ..rows import ColumnMoments, Frame, Rows
from ._agop import (
    MOST_FREQUENCIES,
    MULTIPLES,
    Coding,
    Round,
    TrainingRows,
    learn_rounds,
)
from ._descent import learn_columns, learn_nca, single_precision

_POOL_ROWS, _POOL_ENTRIES = 2**15, 2**22  # largest table from which NCA draws
_JUDGED_ROWS = 2**12  # rows from which AGOP learns a candidate
_KEYS, _QUERIES = 4096, 2000  # rows of the kernel averages that judge a candidate
_FEW = 800  # rows from all pairs of which a diagonal candidate is learned
_DIRECTIONS = 100  # largest rank of NCA
_WRAPS = 4096.0  # factor of hashes in [0, 1), modulo 1, for a second order of the rows
_TRIED = 2.0 ** np.arange(-1, 4.6, 0.5)  # times one over the deviation of rows
_LEAST_SHARE = 1e-3  # smallest probability in a log loss, so that no row dominates
_HASHED_ROWS = 4096  # rows that are hashed at a time
_TURNS = 1024.0  # times that a projection of unit variance goes around


class Parameters(NamedTuple):
    """The parameters of an estimator at the time of its fit."""

    n_components: int | None
    method: str
    max_iter: int
    validation_fraction: float
    seed: int
    n_jobs: int | None = None


class Metric(NamedTuple):
    """A learned metric, with what users can ask about it."""

    method: str
    n_iter: int
    scores: dict[str, float]
    components: np.ndarray  # (n_components or n_features, n_features), standardised
    sigma: np.ndarray  # (n_features,), by which columns are multiplied


@dataclass(frozen=True, eq=False)
class Learned:
    """A metric L L' of standardised columns, and the statistics it was learned from."""

    method: str
    L: np.ndarray  # (n_features, r)
    n_iter: int
    scores: dict[str, float]
    frame: Frame
    live: np.ndarray  # (n_features,), which columns are not constant
    covariance: np.ndarray  # (n_features, n_features), of standardised rows
    made_of: Round | None = None

    @property
    def unit(self) -> np.ndarray:
        """The L of the Euclidean distance of standardised columns."""
        return np.diag(self.live.astype(float))

    def metric(self, n_components: int | None) -> Metric:
        """Return the metric without these statistics."""
        components = self._components(n_components)
        sigma: Any = self.frame.sigma
        return Metric(self.method, self.n_iter, self.scores, components, sigma)

    def _components(self, n_components: int | None) -> np.ndarray:
        """Return the root of the metric, or its leading principal directions.

        The total variance of transformed rows is the number of columns not constant.
        """
        # -> (n_components, n_features)
        L, (d, r) = self.L, self.L.shape
        if n_components is None:
            if r == d and np.count_nonzero(L - np.diag(L.diagonal())) == 0:
                C = L
            else:
                vectors, values, _ = np.linalg.svd(L, full_matrices=False)
                C = (vectors * values) @ vectors.T
        else:
            C = np.zeros((n_components, d))
            _, vectors = np.linalg.eigh(L.T @ self.covariance @ L)
            leading = (L @ vectors[:, ::-1][:, :n_components]).T
            place = np.abs(leading).argmax(axis=1)
            leading *= np.sign(leading[np.arange(len(leading)), place])[:, None]
            C[: len(leading)] = leading
        variance = np.sum(C @ self.covariance * C)
        return C * np.sqrt(self.live.sum() / variance) if variance > 0 else C


def learn_metric(batch: Batch, parameters: Parameters, step: Step = no_step) -> Learned:
    """Return the metric of a method, or the best of all for ``"auto"``."""
    X, y, weights = batch[:3]
    coding = Coding.of(y, weights, by_class=parameters.method == "nca")
    frame, live = standardising(X, weights)
    hashes = row_hashes(X, frame, parameters.seed)
    table = TrainingRows(X, coding.codes(y), weights, hashes, coding)
    return _Learner(table, frame, live, parameters, step).learned()


def standardising(X: Rows, weights: np.ndarray) -> tuple[Frame, np.ndarray]:
    """Return the frame that standardises columns, and which are not constant.

    Constant columns become zero, unless all are constant.
    """
    # -> (n_features,)
    moments = ColumnMoments.of(X, weights)
    deviation = np.sqrt(moments.variance)
    live = deviation > 1e-7 * np.sqrt(moments.mean_square)
    if not live.any():
        return Frame(np.ones(live.size), moments.mean), ~live
    sigma = np.where(live, 1 / np.where(live, deviation, 1), 0.0)
    return Frame(sigma, moments.mean), live


@dataclass(frozen=True, eq=False)
class _Learner:
    """Rows to learn from, and how."""

    table: TrainingRows
    frame: Frame
    live: np.ndarray
    parameters: Parameters
    step: Step

    def learned(self) -> Learned:
        """Return the metric of the method, learned from all rows."""
        sample, method = self._sample(self.table), self.parameters.method
        scores: dict[str, float] = {}
        multiples: Sequence[float] = MULTIPLES
        if method == "auto":
            method, scores, multiple = self._choose()
            multiples = (multiple,)
        if not self._has_targets(sample):
            method = "none"
        L, rounds, made_of = self._learn(
            method, self.table, sample, multiples=multiples
        )
        centred = sample.rows * np.sqrt(sample.weights / sample.weights.sum())[:, None]
        rest = scores, self.frame, self.live, centred.T @ centred, made_of
        return Learned(method, L, len(rounds), *rest)

    def _choose(self) -> tuple[str, dict[str, float], float]:
        """Return the simplest method whose error no other is significantly below.

        Also return the scores of all methods, and the first multiple that AGOP took.
        """
        table, share = self.table, self.parameters.validation_fraction
        held = table.hashes < share
        if not 0 < np.count_nonzero(held) < held.size:
            return "none", {}, 1.0
        learn_from, judged = table.take(~held), table.take(held)
        sample, queries = self._sample(learn_from), self._sample(judged, _QUERIES)
        if not self._has_targets(sample):
            return "none", {}, 1.0
        order = np.argsort(learn_from.hashes * _WRAPS % 1.0, kind="stable")
        learn_from = learn_from.take(order[:_JUDGED_ROWS])
        keys = self._sample(learn_from, _KEYS)
        classes = table.coding.classes
        n_classes = None if classes is None else classes.size
        losses: dict[str, np.ndarray] = {}
        best, scores, multiple = "none", {}, 1.0
        for method in ("none", "diagonal", "agop", "nca"):
            if method == "nca" and n_classes is None:
                continue
            some = sample.take(slice(_FEW)) if method == "diagonal" else sample
            L, found, _ = self._learn(method, learn_from, some, MOST_FREQUENCIES // 2)
            multiple = found[0] if method == "agop" else multiple
            if L.shape[1] == 0:
                continue
            losses[method], _ = held_out_losses(L, keys, queries, n_classes)
            mean = float(np.average(losses[method], weights=queries.weights))
            scores[method] = -mean if n_classes else 1 - mean
            gain = losses[best] - losses[method]
            if _is_plain(gain, queries.weights):
                best = method
            self.step()
        return best, scores, multiple

    def _learn(
        self,
        method: str,
        table: TrainingRows,
        sample: DistinctRows,
        n_frequencies: int = MOST_FREQUENCIES,
        multiples: Sequence[float] = MULTIPLES,
    ) -> tuple[np.ndarray, list[float], Round | None]:
        """Return the L of a method, the sigmas of its rounds, and the last of these."""
        d, seed = self.live.size, self.parameters.seed
        unit = np.eye(d)[:, self.live]
        if method == "none":
            return np.diag(self.live.astype(float)), [1.0], None
        if method == "diagonal":
            sizes = learn_columns(sample.rows, sample.codes, sample.weights)
            return np.diag(np.where(self.live, sizes, 0)), [1.0], None
        if method == "nca":
            classes, half = int(sample.codes.max()) + 1, len(sample.rows) // 2
            keys = sample.take(slice(half, half + _KEYS))
            queries = sample.take(slice(min(half, _QUERIES)))
            _, base = held_out_losses(unit, keys, queries, classes)
            start = base * unit.T
            if len(start) > _DIRECTIONS:
                some = sample.rows[:_KEYS]
                _, _, axes = np.linalg.svd(some, full_matrices=False)
                start = base * axes[:_DIRECTIONS]
            arrays = sample.rows, sample.codes, sample.weights
            return learn_nca(*arrays, start, seed=seed, step=self.step).T, [1.0], None
        made_of, chosen = learn_rounds(
            table,
            self.frame,
            self.live,
            seed=seed,
            max_iter=self.parameters.max_iter,
            n_frequencies=n_frequencies,
            multiples=multiples,
            n_jobs=self.parameters.n_jobs,
            step=self.step,
        )
        return made_of.factor(every=True), chosen, made_of

    def _sample(self, table: TrainingRows, size: int = _POOL_ROWS) -> DistinctRows:
        """Return some of the rows, standardised, in an order of their own."""
        size = min(size, max(1, _POOL_ENTRIES // self.live.size))
        return DistinctRows.of(table, self.frame, table.hashes * _WRAPS % 1.0, size)

    def _has_targets(self, sample: DistinctRows) -> bool:
        """Return whether targets differ, and rows."""
        sides = sample.codes, sample.rows
        return all(bool(np.any(side != side[:1])) for side in sides)


def _is_plain(gain: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether a mean of differences exceeds its standard error."""
    share = weights / weights.sum()
    mean = share @ gain
    return bool(mean > np.sqrt(share**2 @ (gain - mean) ** 2))


def held_out_losses(
    L: np.ndarray, keys: DistinctRows, queries: DistinctRows, n_classes: int | None
) -> tuple[np.ndarray, float]:
    """Return the loss of each query at the best sigma, and this sigma.

    The losses are minus the log of the probability of the own class, or squared errors
    over the variance of the targets.
    """
    # L (n_features, r) -> (n_queries,)
    Z, Q = (side.rows @ L for side in (keys, queries))
    center = np.average(Z, axis=0, weights=keys.weights)
    variance = np.average((Z - center) ** 2, axis=0, weights=keys.weights).sum()
    base = 1 / np.sqrt(variance) if variance > 0 else 1.0
    Z, Q = ((rows - center).astype(np.float32) * np.float32(base) for rows in (Z, Q))
    squares = sq_distances(Q, Z)
    if n_classes is None:
        spread = np.average(
            (keys.codes - np.average(keys.codes, axis=0, weights=keys.weights)) ** 2,
            axis=0,
            weights=keys.weights,
        )
        spread[spread == 0] = 1.0
        targets = keys.codes
    else:
        targets = one_hot_weights(keys.codes, np.ones(len(Z)), n_classes, float)
    weights = single_precision(keys.weights)[:, None]
    encoded = np.hstack([(targets * weights).astype(np.float32), weights])
    best: tuple[float, np.ndarray, float] | None = None
    for multiple in _TRIED:
        shares, _ = weights_from_logs(
            squares * np.float32(-0.5 * multiple**2), normal=True
        )
        found = (shares @ encoded).astype(np.float64)
        found = found[:, :-1] / found[:, -1:]
        if n_classes is None:
            losses = np.mean((found - queries.codes) ** 2 / spread, axis=1)
        else:
            own = found[np.arange(len(found)), queries.codes]
            losses = -np.log(np.clip(own, _LEAST_SHARE, 1))
        mean = np.average(losses, weights=queries.weights)
        if best is None or mean < best[0]:
            best = mean, losses, base * multiple
    assert best is not None
    return best[1], best[2]


# ------------------------------------------------ rows chosen by their content
# Then the choice depends neither on the order of the rows nor on batches.
def row_hashes(X: Rows, frame: Frame, seed: int) -> np.ndarray:
    """Return a number in [0, 1) for each row that depends on its content alone.

    Over the rows of a table the numbers are about uniformly distributed. Rows that are
    chosen by them, to be held out for instance, do not depend on the order of the rows
    or on batches, and a weight of two has the effect of a row that comes twice.
    """
    # X (n_rows, n_features) -> (n_rows,)
    draws = np.random.default_rng(seed).standard_normal(X.shape[1])
    direction = draws * (_TURNS / np.linalg.norm(draws))
    out = np.empty(X.shape[0])
    for block in gen_batches(X.shape[0], _HASHED_ROWS):
        rows = X[block].astype(np.float64, copy=False)
        if sparse.issparse(X):
            along = frame.sigma * direction
            out[block] = rows @ along - frame.center @ along
        else:  # no product of BLAS, whose rounding depends on the position of a row
            out[block] = (frame.rows(rows).matrix * direction).sum(axis=1)
    return out % 1.0


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct standardised rows with codes and weights, ordered by their hashes."""

    rows: np.ndarray  # (n_rows, n_features)
    codes: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)

    @classmethod
    def of(
        cls, table: Any, frame: Frame, hashes: np.ndarray, size: int
    ) -> DistinctRows:
        """Return the rows of the smallest hashes; equal rows become one."""
        # hashes (n_rows,)
        order = np.argsort(hashes, kind="stable")[:size]
        codes = table.codes[order].reshape(len(order), -1)
        inside = np.lexsort((*codes.T, hashes[order]))
        order, codes = order[inside], codes[inside]
        new = np.ones(len(order), bool)
        changes = np.diff(codes, axis=0) != 0
        new[1:] = (np.diff(hashes[order]) != 0) | changes.any(axis=1)
        weights = np.add.reduceat(table.weights[order], np.flatnonzero(new))
        order = order[new]
        rows = frame.rows(table.X[order].astype(np.float64, copy=False)).dense
        return cls(rows, table.codes[order], weights)

    def take(self, index: Any) -> DistinctRows:
        """Return some of the rows."""
        return DistinctRows(self.rows[index], self.codes[index], self.weights[index])
