"""Candidate metrics, and their comparison by the errors of local linear fits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from .._fitted import Step, computed_once, no_step
from .._kernels import one_hot_weights
from ..averages._sigma import Best, best_multiple
from ..averages._targets import LocalLinear, OneHot, RegressionTargets
from ..maps import Gaussian
from ..rows import Frame
from . import _agop, _evidence
from ._columns import ColumnFeatures
from ._nca import learn_nca

MOST_COLUMNS = 24  # of the output, unless their number is given
_QUERIES, _KEYS = 500, 1500  # rows of the comparison
_SHARE = 0.4  # largest share of the rows that are predicted in the comparison
_ROWS_PER_HAT = 10  # least number of rows per feature, for hats that are not asked for
_MANY = 2500  # rows, from which the metric need not be learned again with all rows
_TURNS = 1024.0  # times that a score goes around the unit interval that orders rows
_MOST_ROWS = {"evidence": _evidence.MOST_ROWS, "agop": _agop.MOST_ROWS}


class Parameters(NamedTuple):
    """The parameters of an estimator at the time of its fit."""

    n_components: int | None
    method: str
    columns: str
    seed: int


@dataclass(frozen=True, eq=False)
class Metric:
    """A learned map, with what users can ask about it."""

    method: str
    scores: dict[str, float]
    features: ColumnFeatures
    components: np.ndarray  # (n_components, n_features), of standardised features
    slopes: np.ndarray  # (n_components, n_columns), mean derivatives of the output
    metric: np.ndarray  # (n_columns, n_columns), mean products of these derivatives
    deviation: np.ndarray  # (n_columns,), zero for constant columns


@dataclass(frozen=True, eq=False)
class Table:
    """Training rows in a random order, with standardised targets.

    The order depends on the standardised rows alone, so that neither their order in the
    table matters nor the units of the columns.
    """

    X: np.ndarray  # (n_rows, n_columns)
    weights: np.ndarray  # (n_rows,)
    codes: np.ndarray  # (n_rows,) for labels, or (n_rows, n_outputs)
    targets: np.ndarray  # (n_rows, n_outputs), one-hot for labels, standardised

    @classmethod
    def of(
        cls, X: np.ndarray, y: np.ndarray, weights: np.ndarray, *, by_class: bool
    ) -> Table:
        """Return the table of labels or of numbers."""
        S = ColumnFeatures.of(X, weights, hats=False)(X)
        along = np.random.default_rng(0).normal(scale=_TURNS, size=S.shape[1])
        order = np.argsort((S * along).sum(axis=1) % 1.0, kind="stable")
        X, y, weights = X[order], y[order], weights[order]
        codes, ones = y.reshape(len(y), -1), np.ones(len(y))
        if by_class:
            classes, codes = np.unique(y, return_inverse=True)
            targets = one_hot_weights(codes, ones, classes.size, float)
        else:
            targets = codes
        share = weights / weights.sum()
        targets = targets - share @ targets
        deviation = np.sqrt(share @ targets**2)
        least = 1e-12 * np.sqrt(share @ codes.reshape(len(y), -1) ** 2)
        varies = deviation > least
        targets = targets[:, varies] / deviation[varies]
        codes = codes if by_class else targets
        return cls(X, weights, codes, targets)

    @property
    def by_class(self) -> bool:
        """Whether targets are labels."""
        return self.codes.ndim == 1


class Candidate(NamedTuple):
    """How a metric is learned."""

    method: str
    hats: bool

    @property
    def name(self) -> str:
        """The name among the scores."""
        return f"{self.method}, hats" if self.hats else self.method


@dataclass(frozen=True, eq=False)
class Learner:
    """Rows to learn from, and how."""

    table: Table
    parameters: Parameters
    step: Step = no_step

    def learned(self) -> Metric:
        """Return the metric of the method, or the candidate of the lowest error.

        The candidates are learned without the last rows, which are then predicted by
        local linear fits to all other rows. A metric would be judged too well on rows
        from which it was learned.
        """
        n_rows, scores = len(self.table.X), {}
        plain = self._features(hats=False)
        if not (self.table.targets.size and plain.kept.size):
            return self._metric("none", scores, plain, np.eye(plain.means.size))
        best, *others = candidates = self._candidates()
        if others and self._n_held:
            n_seen = n_rows - self._n_held
            errors = []
            for candidate in candidates:
                errors.append(self._fit(candidate, n_seen).error)
                scores[candidate.name] = self._score(errors[-1])
                self.step()
            best = candidates[int(np.argmin(errors))]
            n_rows = n_seen if n_seen >= _MANY else n_rows
        root = self._root(best, n_rows)
        return self._metric(best.method, scores, self._features(hats=best.hats), root)

    @property
    def _n_held(self) -> int:
        """Number of rows that are predicted in the comparison."""
        return min(_QUERIES, int(_SHARE * len(self.table.X)))

    def _candidates(self) -> list[Candidate]:
        """Return the candidates that the parameters allow.

        With many features for the rows, a comparison would choose hats by chance.
        """
        method, columns = self.parameters.method, self.parameters.columns
        features = None if columns == "linear" else self._features(hats=True)
        has_hats = features is not None and features.has_hats
        if has_hats and columns == "auto" and features is not None:
            has_hats = _ROWS_PER_HAT * features.means.size <= len(self.table.X)
        methods = [method]
        if method == "auto":
            methods = ["evidence", "agop", "nca"][: 3 if self.table.by_class else 2]
        linear = [Candidate(each, False) for each in methods]
        hats = [Candidate("evidence" if method == "auto" else method, True)]
        if not has_hats:
            return linear
        return hats if columns == "hats" else linear + hats

    def _features(self, *, hats: bool) -> ColumnFeatures:
        X, weights = self.table.X, self.table.weights
        return computed_once(
            self, ("features", hats), lambda: ColumnFeatures.of(X, weights, hats=hats)
        )

    def _rows(self, *, hats: bool) -> np.ndarray:
        """Return the features of all rows."""
        features = self._features(hats=hats)
        return computed_once(self, ("rows", hats), lambda: features(self.table.X))

    def _root(self, candidate: Candidate, n_rows: int) -> np.ndarray:
        """Return the L of the metric L L' that is learned from the first rows."""
        # -> (n_features, r)
        n_used = min(n_rows, _MOST_ROWS.get(candidate.method, n_rows))
        name = "root", *candidate, n_used
        return computed_once(self, name, lambda: self._learn(*candidate, n_used))

    def _learn(self, method: str, hats: bool, n_rows: int) -> np.ndarray:
        S = self._rows(hats=hats)[:n_rows]
        targets, weights = self.table.targets[:n_rows], self.table.weights[:n_rows]
        if method == "evidence":
            return root_of(_evidence.learn_metric(S, targets, weights))
        first, seed = Candidate("evidence", hats), self.parameters.seed
        root = self._root(first, n_rows)
        if method == "agop":
            M = _agop.learn_agop(S, targets, weights, root @ root.T, seed=seed)
            return root_of(M)
        n_seen = len(self.table.X) - self._n_held
        start = self._components(root, hats=hats) * self._unit(hats=hats)
        start *= self._fit(first, n_seen).multiple
        codes = self.table.codes[:n_rows]
        return learn_nca(S, codes, weights, start, seed=seed, step=self.step).T

    def _unit(self, *, hats: bool) -> float:
        """Return the sigma of which multiples are tried."""
        return math.sqrt(2 / self._features(hats=hats).kept.size)

    def _components(self, root: np.ndarray, *, hats: bool) -> np.ndarray:
        """Return the leading principal directions of the rows under the metric.

        The total variance of transformed rows is the number of columns not constant.
        """
        # -> (n_components, n_features)
        S, weights = self._rows(hats=hats), self.table.weights
        wanted = self.parameters.n_components or min(MOST_COLUMNS, S.shape[1])
        share, (d, r) = weights / weights.sum(), root.shape
        covariance, n = (S.T * share) @ S, min(r, wanted)
        found = np.zeros((wanted, d))
        if n:
            ends = (r - n, r - 1)
            _, V = eigh(root.T @ covariance @ root, subset_by_index=ends)
            leading = (root @ V[:, ::-1]).T
            place = np.abs(leading).argmax(axis=1)
            leading *= np.sign(leading[np.arange(n), place])[:, None]
            found[:n] = leading
        variance = np.sum(found @ covariance * found)
        n_live = self._features(hats=hats).kept.size
        return found * math.sqrt(n_live / variance) if variance > 0 else found

    def _fit(self, candidate: Candidate, n_seen: int) -> Best:
        """Return the best local linear fit in the metric of the first rows.

        It is the one that predicts the last rows best from all others.
        """
        name = "fit", *candidate, n_seen
        root = self._root(candidate, n_seen)
        return computed_once(self, name, lambda: self._search(root, candidate.hats))

    def _search(self, root: np.ndarray, hats: bool) -> Best:
        table, last = self.table, slice(None, -_KEYS - 1, -1)
        Z = self._rows(hats=hats)[last] @ self._components(root, hats=hats).T
        rows = Frame(self._unit(hats=hats)).rows(Z)
        plain = RegressionTargets(table.targets.shape[1])
        if table.by_class:
            plain = OneHot(int(table.codes.max()) + 1)
        weights = table.weights[last]
        targets = LocalLinear(plain).adapted(rows, weights)
        encoded = targets.encode(table.codes[last], weights, np.float64, rows)
        n_queries = max(1, self._n_held)
        options = Gaussian(), rows, encoded, targets, len(Z)
        return best_multiple(*options, n_queries=n_queries)

    def _score(self, error: float) -> float:
        """Return R2 for numbers, and for labels minus the error."""
        return -error if self.table.by_class else 1 - error / self.table.codes.shape[1]

    def _metric(
        self,
        method: str,
        scores: dict[str, float],
        features: ColumnFeatures,
        root: np.ndarray,
    ) -> Metric:
        """Return the metric with its derivatives at the training rows."""
        X, share = self.table.X, self.table.weights / self.table.weights.sum()
        components = self._components(root, hats=features.has_hats)
        D, columns = features.slopes(X)
        place = np.eye(X.shape[1])[columns]
        mean, products = share @ D, (D.T * share) @ D
        metric = place.T @ (components.T @ components * products) @ place
        deviation = np.zeros(X.shape[1])
        deviation[features.kept] = features.deviation
        slopes = (components * mean) @ place
        return Metric(method, scores, features, components, slopes, metric, deviation)


def root_of(M: np.ndarray) -> np.ndarray:
    """Return an L of M = L L'."""
    values, vectors = np.linalg.eigh(M)
    return vectors * np.sqrt(np.maximum(values, 0))
