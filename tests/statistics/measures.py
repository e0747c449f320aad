"""What is measured on a draw of a table, and what may be found over several draws."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .tables import Draw

COVERAGE = 0.9
LEAST_PROBABILITY = 1e-6  # clip of probabilities in log losses
N_PARAMETERS = 4  # of a fit whose losses vary as much between draws as is allowed


class Numbers(NamedTuple):
    """Results of a regressor for one draw."""

    error: float  # root mean square error divided by that of the reference
    coverage: float
    width: float
    n_effective: float  # independent training rows
    n_new: int


class Labels(NamedTuple):
    """Results of a classifier for one draw."""

    excess: float  # log loss minus that of the best reference
    is_stated: bool  # whether ``fit`` warned that features are too few
    expected: np.ndarray  # (n_classes,), sums of the probabilities
    observed: np.ndarray  # (n_classes,)
    n_effective: float
    n_new: int


def measured(model: Any, draw: Draw) -> Numbers | Labels:
    """Return the results of an estimator that is fitted to the training rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = _fitted(model, draw)
        is_stated = any("features are too few" in str(each.message) for each in caught)
        n = draw.n_effective, len(draw.y_new)
        if hasattr(model, "classes_"):
            excess, *totals = _labels(model, draw)
            return Labels(excess, is_stated, *totals, *n)
        return Numbers(*_numbers(model, draw), *n)


def _fitted(model: Any, draw: Draw) -> Any:
    params = draw.fit_params
    if hasattr(model, "steps"):
        last = model.steps[-1][0]
        params = {f"{last}__{name}": value for name, value in params.items()}
    return model.fit(draw.X, draw.y, **params)


def least_error_over_sigma(model: Any, draw: Draw) -> float:
    """Return the error for new rows with the sigma that has the least one."""
    first = _fitted(model, draw).sigma_
    sigmas = first * 2.0 ** np.arange(-1.5, 2, 0.5)
    return min(
        measured(clone(model).set_params(sigma=float(sigma)), draw).error
        for sigma in sigmas
    )


def _numbers(model: Any, draw: Draw) -> tuple[float, float, float]:
    X, y, weights, new = draw.X, draw.y, draw.weights, draw.y_new
    linear = RidgeCV(np.logspace(-2, 4, 13)).fit(X, y, sample_weight=weights)
    references = [np.average(y, weights=weights), linear.predict(draw.X_new)]
    if draw.levels:
        references.append(_means_of_cells(draw, y[:, None])[:, 0])
    best = min(np.mean((each - new) ** 2) for each in references)
    error = np.sqrt(np.mean((model.predict(draw.X_new) - new) ** 2) / best)
    rows = draw.X_new
    if hasattr(model, "steps"):
        rows, model = model[:-1].transform(rows), model[-1]
    low, high = model.predict_interval(rows, coverage=COVERAGE).T
    width = float(np.mean(high - low))
    return float(error), float(np.mean((low <= new) & (new <= high))), width


def _labels(model: Any, draw: Draw) -> tuple[float, np.ndarray, np.ndarray]:
    new, classes = draw.y_new, model.classes_
    found = model.predict_proba(draw.X_new)
    observed = (new[:, None] == classes).sum(axis=0)
    best = min(_loss(new, each, classes) for each in _reference_probabilities(draw))
    return _loss(new, found, classes) - best, found.sum(axis=0), observed


def _loss(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> float:
    clipped = np.clip(probabilities, LEAST_PROBABILITY, 1)
    return float(log_loss(y, clipped / clipped.sum(1, keepdims=True), labels=classes))


@lru_cache(maxsize=20)
def _reference_probabilities(draw: Draw) -> list[np.ndarray]:
    """Return those of a constant, logistic regression and, for levels, cell shares."""
    X, y, new = draw.X, draw.y, draw.X_new
    weights = np.ones(len(y)) if draw.weights is None else draw.weights
    indicators = y[:, None] == np.unique(y)
    shares = np.average(indicators, axis=0, weights=weights)
    logistic = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=6, max_iter=500))
    found = [
        np.tile(shares, (len(new), 1)),
        logistic.fit(X, y).predict_proba(new),
    ]
    if draw.levels:
        found.append(_means_of_cells(draw, indicators))
    return found


def _means_of_cells(draw: Draw, targets: np.ndarray) -> np.ndarray:
    """Return the mean target of equal rows, with one row of the overall mean added."""
    both = np.r_[draw.X, draw.X_new]
    _, cells = np.unique(both.round(9), axis=0, return_inverse=True)
    of_row = (cells[: len(targets), None] == np.arange(cells.max() + 1)).astype(float)
    sums = of_row.T @ targets + targets.mean(axis=0)
    return (sums / (of_row.sum(axis=0) + 1)[:, None])[cells[len(targets) :]]


# ----------------------------------------------------------------------------- bounds
def coverage_bounds(
    found: list[Numbers], least: float, most: float, risk: float
) -> tuple[float, float]:
    """Return bounds on the mean coverage over draws.

    An interval from n left-out errors covers a share of new rows that has the beta
    distribution with parameters of sum n + 1, and a share of the tested rows that is
    binomial given the former. If the expectation is ``least`` or more, the mean over
    draws is below the first bound with a probability of at most ``risk``, and
    correspondingly for ``most``.
    """

    def bound(p: float, level: float) -> float:
        each = [1 / (r.n_effective + 2) + 1 / r.n_new for r in found]
        size = len(found) ** 2 / sum(each) - 1  # of a beta with the same variance
        return float(stats.beta.ppf(level, p * size, (1 - p) * size))

    return bound(least, risk), bound(most, 1 - risk)


def excess_margin(found: list[Numbers] | list[Labels], risk: float) -> float:
    """Return how far the mean of excess losses may be above its expectation.

    The log loss of a maximum likelihood fit of k parameters to n rows exceeds the best
    one by 1 / (2 n) times a chi-squared variable with k degrees of freedom; so does the
    logarithm of a root mean square error. The losses of an estimator are assumed to
    vary between draws like those of a fit of ``N_PARAMETERS``.
    """
    freedom = N_PARAMETERS * len(found)
    share = np.mean([1 / each.n_effective for each in found])
    most = stats.chi2.isf(risk, freedom) - freedom
    return float(most * share / (2 * len(found)))


def total_bounds(
    found: list[Labels], tolerance: float, risk: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each class the ratio of totals, and its bounds.

    Expected totals vary with the share of the class among training rows, and observed
    totals among new rows; both numbers of events are approximately Poisson.
    """
    observed = np.sum([r.observed for r in found], axis=0)
    ratio = np.sum([r.expected for r in found], axis=0) / observed
    n_trained = sum(r.n_effective for r in found)
    share = observed / sum(r.n_new for r in found)
    spread = np.sqrt((1 - share) / (share * n_trained) + (1 - share) / observed)
    margin = stats.norm.ppf(1 - risk) * spread
    least = np.exp(np.log(1 - tolerance) - margin)
    return ratio, least, np.exp(np.log(1 + tolerance) + margin)
