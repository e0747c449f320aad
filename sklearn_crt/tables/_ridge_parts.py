"""Ridge regression on linear columns and on the features of an ANOVA kernel."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import linalg

from .._values import Value
from ._anova_sampler import AnovaMap
from ._parts import TableRows


@dataclass(frozen=True, eq=False)
class AnovaModel(Value):
    """Ridge regression on the features of an ANOVA kernel.

    The products of the landmarks' root with the coefficients replace the root in the
    map. Thus the model needs no matrix with a row and a column for each landmark. The
    first features of the map are then the scores of ridge regression, without the
    linear terms, which are the last features. Between them are the scores of logistic
    regression, if there is one, which needs no second evaluation of the kernel.
    """

    map: AnovaMap
    coef: np.ndarray  # (n_features, k), of ridge regression
    intercept: np.ndarray  # (k,)
    limits: tuple[np.ndarray, np.ndarray]  # of the targets, each (k,)
    link: Any = None  # computes class probabilities from scores; None for regression
    classes_: np.ndarray | None = None  # the codes of the classes

    @classmethod
    def of(cls, anova: AnovaMap, ridge: Any, logistic: Any) -> tuple[Self, Any]:
        """Return the model, and logistic regression (or None) on its features.

        Given are both regressions on the features of ``anova``.
        """
        solution, m = ridge._value.solution, anova.root.shape[1]
        parts = [solution.coef.T] + ([] if logistic is None else [logistic.coef_])
        root = anova.root @ np.vstack([coef[:, :m] for coef in parts]).T
        every, k = root.shape[1], solution.coef.shape[1]
        coef = np.vstack([np.eye(every, k), solution.coef[m:]])
        if logistic is not None:
            logistic = copy.copy(logistic)
            own = np.eye(every)[k:]
            logistic.coef_ = np.hstack([own, logistic.coef_[:, m:]])
            logistic.n_features_in_ = logistic.coef_.shape[1]
        classes = getattr(ridge, "classes_", None)
        model = cls(
            map=replace(anova, root=root, has_all_rows=False),
            coef=coef,
            intercept=solution.intercept,
            limits=(solution.least, solution.most),
            link=None if classes is None else solution.calibration,
            classes_=classes,
        )
        return model, logistic

    def features(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows in float64, (n, n_features)."""
        return self.map.features(V)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return numbers or class probabilities of ridge regression, (n, k)."""
        scores = features @ self.coef + self.intercept
        if self.link is not None:
            return self.link.probabilities(scores)
        return np.clip(scores, *self.limits)

    predict_proba = predict

    def importances(self, n_columns: int) -> np.ndarray:
        """Return the importance of each column; the importances sum to 1."""
        found = np.zeros(n_columns)
        learned = self.map.learned
        for group, share in zip(learned.encoding.groups, learned.shares, strict=True):
            found[list(group)] = share / len(group)
        return found

    def effects(
        self, V: np.ndarray
    ) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray]:
        """Return effects on the scores, their columns, and the intercept."""
        # -> (n, n_effects, k), n_effects, (k,)
        values, shift = self.map.effects(V, self.coef)
        return values, self.effect_columns, self.intercept + shift

    @property
    def effect_columns(self) -> list[tuple[int, ...]]:
        """The columns of each effect."""
        groups = self.map.learned.encoding.groups
        return [
            tuple(j for owner in subset for j in groups[owner])
            for subset in self.map.subsets
        ]

    def effect_at(self, place: int, V: np.ndarray, output: int) -> np.ndarray:
        """Return an effect on a score, (n,)."""
        features = self.map.effect_features(V, self.map.subsets[place])
        return features @ self.coef[:, output]


@dataclass(frozen=True, eq=False)
class LinearModel(Value):
    """Ridge regression on columns, with predictions in the range of the targets."""

    coef: np.ndarray  # (n_columns,)
    intercept: float
    means: np.ndarray  # (n_columns,)
    limits: tuple[np.ndarray, np.ndarray]  # of the targets

    @classmethod
    def of(cls, ridge: Any) -> Self:
        """Return a fitted ridge regression without what only its variances need."""
        solution = ridge._value.solution
        limits = solution.least, solution.most
        return cls(
            coef=solution.coef[:, 0],
            intercept=float(solution.intercept[0]),
            means=solution.z_mean,
            limits=limits,
        )

    def effects(
        self, Z: np.ndarray, sources: np.ndarray, n_sources: int
    ) -> tuple[np.ndarray, float]:
        """Return effects of the table's columns, with mean zero, and the intercept.

        ``sources`` are the columns of the table from which those of Z are computed.
        """
        # -> (n, n_sources), ()
        found = np.zeros((len(Z), n_sources))
        np.add.at(found.T, sources, ((Z - self.means) * self.coef).T)
        return found, float(self.intercept + self.means @ self.coef)

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return predictions, (n,)."""
        return np.clip(Z @ self.coef + self.intercept, *self.limits)


def ridge_without_folds(
    ridge: Any, Z: np.ndarray, rows: TableRows, pairs: Sequence[tuple[Any, Any]]
) -> np.ndarray:
    """Return predictions for the test rows of each fold, by fits to its other rows.

    ``ridge`` is fitted to features Z of all rows. Its penalty and its link, which are
    based on leave-one-out predictions, are the same in all folds. The moments of the
    rows of a fold are subtracted from those of all rows, so that a fold takes a
    fraction of the time of a fit.
    """
    settings, solution = ridge._value.settings, ridge._value.solution
    y, weights, link = rows.y, rows.weights, None
    if settings.n_classes is not None:
        y, link = np.searchsorted(ridge.classes_, y), solution.calibration
        if solution.is_balanced:
            shares = np.bincount(y, weights, settings.n_classes) / weights.sum()
            weights = weights / (shares * np.count_nonzero(shares))[y]
    T = settings.targets(y).reshape(len(y), -1)
    F, m, found = np.hstack([Z, np.ones((len(Z), 1)), T]), Z.shape[1], []
    total = (F * weights[:, None]).T @ F
    for train, test in pairs:
        out = np.ones(len(Z), bool)
        out[train] = False
        sums = total - (F[out] * weights[out, None]).T @ F[out]
        mean = sums[m] / sums[m, m]
        sums = sums - np.outer(sums[m], mean)
        gram = sums[:m, :m] + solution.alpha[0] * np.eye(m)
        cross = sums[:m, m + 1 :]
        try:
            coef = linalg.solve(gram, cross, assume_a="pos", check_finite=False)
        except linalg.LinAlgError:  # nearly singular
            coef = linalg.lstsq(gram, cross, check_finite=False)[0]
        scores = (Z[test] - mean[:m]) @ coef + mean[m + 1 :]
        if link is not None:
            found.append(link.probabilities(scores))
        else:
            found.append(np.clip(scores, solution.least, solution.most))
    return np.concatenate(found)
