"""Candidate metrics, which are compared by local linear fits to held-out rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from .._compat import cached_property
from ..arrays.threads import with_one_blas_thread
from ..averages._local_fits import LocalLinear
from ..averages._sigma_choice import Best, best_multiple
from ..averages._target_columns import OneHot, RegressionTargets
from ..life_cycle.fitted import Step, no_step
from ..maps import Gaussian
from ..rows import Frame
from ..rows.statistics import varying_columns
from ..samplers._column_sigmas import STAGES, most_evidence
from ._column_features import ColumnFeatures, Metric
from ._gradients import learn_agop, learn_nca

MOST_COLUMNS = 24  # default limit on the number of output columns
_KEYS = 1500  # limit on the number of rows in the comparison
_OCTAVES = 2.0 ** np.arange(5)  # candidates for sigma in the comparison
# minimum numbers of rows per feature for trying hat functions: numeric targets, labels
_ROWS_PER_HAT = 5, 10
# The error of NCA is multiplied by this factor, because NCA minimises leave-one-out
# errors of the training rows, which then mislead models that select parameters by them.
_FACTOR_OF_NCA = 1.03
# For labels, the weight of a candidate decreases by a factor of e if its error exceeds
# the lowest error by the proportion _TOLERANCE of that error. Candidates with less than
# _LEAST_SHARE of the largest weight are left out.
_TOLERANCE, _LEAST_SHARE = 0.05, 0.02
# In the comparison, AGOP learns from at most this number of rows. With more rows, the
# metrics are not learned again from all rows.
_MANY = 2500
# maximum numbers of rows from which metrics are learned
_MOST_ROWS = {"evidence": STAGES[-1][0], "agop": 2**13}
_ROUNDING = 1e-14  # smaller variances, relative to the largest, are rounding errors
_MOST_HELD = 500  # limit on the number of held-out rows in the comparison of candidates
# A quarter of the rows is held out, so that candidates are learned from most of them.
# If this is less than _ENOUGH rows, up to _ENOUGH are held out, but at most 40 %.
_SHARES, _ENOUGH = (0.25, 0.4), 250


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows in a random order, with standardised targets."""

    X: np.ndarray  # (n_rows, n_columns)
    weights: np.ndarray  # (n_rows,)
    codes: np.ndarray  # (n_rows,) for labels, or (n_rows, n_outputs)
    targets: np.ndarray  # (n_rows, n_outputs), one-hot for labels, standardised
    eps: float  # machine epsilon of the dtype in which the rows were given
    by_class: bool  # whether the targets are labels
    n_held: int  # number of rows that are predicted in the comparison

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        by_class: bool,
        seed: int,
    ) -> TrainingRows:
        """Return the rows for labels (if ``by_class``) or for numerical targets."""
        eps = float(np.finfo(X.dtype).eps)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y, weights = X[order].astype(np.float64), y[order], weights[order]
        codes = targets = y.reshape(len(y), -1)
        if by_class:
            classes, codes = np.unique(y, return_inverse=True)
            targets = (codes[:, None] == np.arange(classes.size)).astype(float)
        varies, mean, deviation = varying_columns(targets, weights)
        targets = (targets[:, varies] - mean) / deviation
        codes = codes if by_class else targets
        least, most = (int(share * len(X)) for share in _SHARES)
        return cls(
            X=X,
            weights=weights,
            codes=codes,
            targets=targets,
            eps=eps,
            by_class=by_class,
            n_held=min(_MOST_HELD, max(least, min(most, _ENOUGH))),
        )


class Parameters(NamedTuple):
    """The parameters of an estimator at the time of ``fit``."""

    n_components: int | None
    method: str
    columns: str
    seed: int


def best_metric(
    table: TrainingRows, parameters: Parameters, step: Step = no_step
) -> Metric:
    """Return the metric of the chosen method, or that of the best candidates.

    A metric would seem too accurate on the rows from which it was learned. Candidates
    are therefore learned without the last rows, which are predicted by local linear
    fits to all other rows. With ``columns="auto"``, hat functions are not tried if
    there are few rows per feature, because they could have the lowest error by chance.
    For numbers, the candidate with the lowest error is returned. For labels, the errors
    on a few held-out rows often differ by chance, so squared distances are averaged.
    """
    method, columns = parameters.method, parameters.columns
    linear, hats = (Learner(table, parameters, kind, step) for kind in (False, True))
    if not (table.targets.size and linear.unit):
        return linear.metric("none", np.eye(linear.features.means.size), {})
    n_rows = len(table.X)
    if columns != "linear":
        least = _ROWS_PER_HAT[table.by_class] * hats.features.means.size
        if not hats.features.has_hats or (columns == "auto" and least > n_rows):
            columns = "linear"
    methods = ["agop", "nca"] if table.by_class else ["evidence", "agop"]
    methods = methods if method == "auto" else [method]
    candidates = [] if columns == "hats" else [(linear, each) for each in methods]
    candidates += [] if columns == "linear" else [(hats, methods[0])]
    learner, method = candidates[0]
    scores = {}
    if len(candidates) > 1 and table.n_held:
        errors = np.empty(len(candidates))
        for k, (each, name) in enumerate(candidates):
            error = each.fit(name).error
            errors[k] = error * (_FACTOR_OF_NCA if name == "nca" else 1)
            name += ", hats" if each.hats else ""
            n_outputs = table.targets.shape[1]
            scores[name] = -error if table.by_class else 1 - error / n_outputs
            step()
        learner, method = candidates[int(np.argmin(errors))]
        n_seen = n_rows - table.n_held
        n_rows = n_seen if n_seen >= _MANY else n_rows
        if table.by_class:
            shares = np.exp((1 - errors / errors.min()) / _TOLERANCE)
            learner, parts = linear, []
            for (each, name), share in zip(candidates, shares.tolist(), strict=True):
                if share > _LEAST_SHARE:
                    learner = hats if each.hats else learner
                    scale = math.sqrt(share) * each.fit(name).multiple
                    # AGOP is learned from more rows only if it is the best candidate
                    limited = name == "agop" and share < 1
                    some = min(n_rows, _MANY) if limited else n_rows
                    parts.append(scale * each.components(each.root(name, some)).T)
            # the features of candidates without hat functions come first
            d = learner.features.means.size
            roots = [np.pad(part, ((0, d - len(part)), (0, 0))) for part in parts]
            return learner.metric(method, np.hstack(roots), scores)
    return learner.metric(method, learner.root(method, n_rows), scores)


@dataclass(frozen=True, eq=False)
class Learner:
    """Features of single columns, and metrics learned from these features."""

    table: TrainingRows
    parameters: Parameters
    hats: bool
    step: Step
    # results of ``root`` and ``fit``
    roots: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    fits: dict[str, Best] = field(default_factory=dict)

    @cached_property
    def features(self) -> ColumnFeatures:
        """The fitted functions that compute the features."""
        table, hats = self.table, self.hats
        return ColumnFeatures.of(table.X, table.weights, hats=hats, eps=table.eps)

    @cached_property
    def S(self) -> np.ndarray:
        """The features of all rows, (n_rows, n_features)."""
        return self.features(self.table.X)

    @cached_property
    def unit(self) -> float:
        """The unit of sigma in the comparison; 0 if all columns are constant."""
        n_columns = self.features.kept.size
        return math.sqrt(2 / n_columns) if n_columns else 0.0

    def root(self, method: str, n_rows: int) -> np.ndarray:
        """Learn a metric L L' from the first rows, and return L."""
        # -> (n_features, r)
        n_rows = min(n_rows, _MOST_ROWS.get(method, n_rows))
        name = method, n_rows
        if name not in self.roots:
            self.roots[name] = self._learn(*name)
        return self.roots[name]

    def _learn(self, method: str, n_rows: int) -> np.ndarray:
        S, table, seed = self.S[:n_rows], self.table, self.parameters.seed
        targets, weights = table.targets[:n_rows], table.weights[:n_rows]
        if method == "evidence":
            return root_of(learn_evidence(S, targets, weights))
        if method == "agop":
            # With many features, maximising the evidence takes as long as AGOP, and the
            # resulting metric is not a better starting point than the identity.
            first = np.eye(S.shape[1]) if self.hats else self.root("evidence", n_rows)
            M = first @ first.T
            return root_of(learn_agop(S, targets, weights, M, seed=seed))
        name = "evidence" if self.hats else "agop"
        first = self.root(name, min(n_rows, _MANY))
        start = self.components(first) * self.unit * self.fit(name).multiple
        codes = table.codes[:n_rows]
        return learn_nca(S, codes, weights, start, seed=seed, step=self.step).T

    def components(self, root: np.ndarray) -> np.ndarray:
        """Return the leading principal directions of the rows transformed by the root.

        Scaling makes the total variance equal to the number of non-constant columns.
        """
        # -> (n_components, n_features)
        (d, r), share = root.shape, self.table.weights / self.table.weights.sum()
        wanted = self.parameters.n_components or max(1, min(MOST_COLUMNS, d))
        covariance, n = (self.S.T * share) @ self.S, min(r, wanted)
        found = np.zeros((wanted, d))
        if n:
            ends = r - n, r - 1
            values, V = eigh(root.T @ covariance @ root, subset_by_index=ends)
            # directions without variance contain only rounding errors
            leading = (root @ (V * (values > _ROUNDING * values[-1]))[:, ::-1]).T
            place = np.abs(leading).argmax(axis=1)
            found[:n] = leading * np.sign(leading[np.arange(n), place])[:, None]
        variance = np.sum(found @ covariance * found)
        live = self.features.kept.size
        return found * math.sqrt(live / variance) if variance > 0 else found

    def fit(self, method: str) -> Best:
        """Return the sigma and targets of local linear fits with the lowest error."""
        if method in self.fits:
            return self.fits[method]
        table, last = self.table, slice(None, -_KEYS - 1, -1)
        n_rows = len(table.X) - table.n_held
        n_rows = min(n_rows, _MANY) if method == "agop" else n_rows
        root = self.root(method, n_rows)
        rows = self.S[last] @ self.components(root).T
        weights, codes = table.weights[last], table.codes[last]
        n_queries = max(1, table.n_held)
        best = best_local_fits(
            rows, self.unit, codes, weights, table.by_class, n_queries
        )
        self.fits[method] = best
        return best

    def metric(self, method: str, root: np.ndarray, scores: dict[str, float]) -> Metric:
        """Return the map together with its mean derivatives at the training rows."""
        features, components = self.features, self.components(root)
        X, share = self.table.X, self.table.weights / self.table.weights.sum()
        D, columns = features.slopes(X)
        place = np.eye(X.shape[1])[columns]
        products = components.T @ components * ((D.T * share) @ D)
        metric, slopes = place.T @ products @ place, (components * (share @ D)) @ place
        deviation = np.zeros(X.shape[1])
        deviation[features.kept] = features.deviation
        return Metric(
            method=method,
            scores=scores,
            features=features,
            components=components,
            slopes=slopes,
            metric=metric,
            deviation=deviation,
        )


def best_local_fits(
    rows: np.ndarray,
    unit: float,
    codes: np.ndarray,
    weights: np.ndarray,
    by_class: bool,
    n_queries: int,
) -> Best:
    """Return the sigma and targets with which the first rows are predicted best.

    Each of the first ``n_queries`` rows is predicted by local linear fits to all other
    rows. ``codes`` are the numbers of the classes, or standardised targets.
    """
    # rows (n, n_columns), codes (n,) or (n, n_outputs)
    inputs = Frame(unit).rows(rows)
    plain = OneHot(codes.max() + 1) if by_class else RegressionTargets(codes.shape[1])
    targets = LocalLinear(plain, remainder=0.0).adapted(inputs, weights)
    encoded = targets.encode(codes, weights, np.float64, inputs)
    options = Gaussian(), inputs, encoded, targets, len(weights)
    return best_multiple(*options, _OCTAVES, n_queries, refined=False)


def learn_evidence(
    X: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return a metric that combines evidence-maximising scales with gradients.

    The scales shrink columns that are unrelated to the targets, and the gradients of
    the posterior mean show the directions along which targets vary. At most the first
    800 rows are used, so rows must be in random order. Their columns
    must be standardised. The metric sums two matrices, each divided by its trace: the
    diagonal matrix of squared scales, and the mean outer product of the gradients.
    """
    # X (n, d), targets (n, k), weights (n,) -> (d, d)
    # its matrices are small, so several threads would only wait for each other
    found = with_one_blas_thread(most_evidence, X, targets, weights)
    process, parameters = found
    squares = np.exp(2 * parameters[:-1])
    products = process.gradient_products(parameters)
    trace = max(np.trace(products), np.finfo(float).tiny)
    return np.diag(squares / squares.sum()) + products / trace


def root_of(M: np.ndarray) -> np.ndarray:
    """Return a matrix L with M = L L'."""
    values, vectors = np.linalg.eigh(M)
    return vectors * np.sqrt(np.maximum(values, 0))
