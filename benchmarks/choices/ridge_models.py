"""The models that ridge_tables compares, and what is measured of each."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
)
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVR

from sklearn_crt import (
    LearnedMetric,
    LocalLinearRegressor,
    RandomFeatureRidge,
)

LEVELS = 0.5, 0.8, 0.9, 0.99
MOST_OF_SEARCH, MOST_OF_PROCESS = 2000, 1000  # rows
FAR = 0.1  # beyond the range of the targets, as a share of it


@dataclass(frozen=True)
class Candidate:
    """A model, and which of its results can be used again.

    ``most`` is the largest number of training rows, ``seeded`` whether it draws
    something, ``tested`` whether it contains the ridge regression that is tested.
    """

    model: Any
    most: int | None = None
    seeded: bool = False
    tested: bool = False


def regressors(seed, n_features):
    """Return the candidates by name."""
    folds = KFold(3, shuffle=True, random_state=0)  # the rows of some tables are sorted
    gamma = np.array([1 / 16, 1 / 4, 1, 4]) / n_features
    grid = {"C": [1, 10, 100], "gamma": gamma[:3]}
    support = GridSearchCV(SVR(epsilon=0.02), grid, cv=folds)
    grid = {"alpha": [1e-4, 1e-3, 1e-2, 1e-1, 1], "gamma": gamma}
    kernel_ridge = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds)
    kernel = ConstantKernel() * RBF(np.ones(n_features)) + WhiteKernel()
    process = GaussianProcessRegressor(kernel, normalize_y=True)
    ridge, metric = RandomFeatureRidge(random_state=seed), _metric(seed)
    return {
        "boosting": Candidate(HistGradientBoostingRegressor()),
        "support vectors": Candidate(support, MOST_OF_SEARCH),
        "kernel ridge": Candidate(kernel_ridge, MOST_OF_SEARCH),
        "Gaussian process": Candidate(process, MOST_OF_PROCESS),
        "metric, local linear": Candidate(
            make_pipeline(metric, LocalLinearRegressor()), seeded=True
        ),
        "ridge": Candidate(ridge, seeded=True, tested=True),
        "metric, ridge": Candidate(
            make_pipeline(metric, ridge), seeded=True, tested=True
        ),
    }


def shifted_regressors(seed, n_features):
    """Return the candidates under covariate shift by name."""
    few = "boosting", "metric, local linear", "ridge", "metric, ridge"
    found = {name: regressors(seed, n_features)[name] for name in few}
    free = RandomFeatureRidge(clip=False, random_state=seed)
    found["ridge, clip=False"] = Candidate(free, seeded=True, tested=True)
    found["metric, ridge, clip=False"] = Candidate(
        make_pipeline(_metric(seed), free), seeded=True, tested=True
    )
    found["mean of the targets"] = Candidate(DummyRegressor())
    return found


def _metric(seed):
    return LearnedMetric(random_state=seed)


def results_of(candidate, split, X, y, X_test, y_test):
    """Return errors, times, and the shares of targets in intervals, of a regressor."""
    model, (low, high) = candidate.model, (y.min(), y.max())
    if candidate.most is not None and len(y) > candidate.most:
        keep = np.random.default_rng(split).permutation(len(y))[: candidate.most]
        X, y = X[keep], y[keep]
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(X, y).predict(X_test)
        seconds = time.process_time() - start
        intervals = [_interval(model, X_test, level) for level in LEVELS]
    beyond = np.maximum(found - high, low - found) / (high - low)
    error = np.mean((found - y_test) ** 2)
    return {
        "rmse": float(np.sqrt(error)),
        "r2": float(1 - error / y_test.var()),
        "seconds": seconds,
        "inside": [
            float(np.mean((ends[0] <= y_test) & (y_test <= ends[1])))
            for ends in intervals
            if ends is not None
        ],
        "furthest": float(max(beyond.max(), 0)),
        "far": float(np.mean(beyond > FAR)),
    }


def _interval(model, X, coverage):
    """Return the ends of the intervals of a model, None if it has none."""
    if hasattr(model, "steps"):
        model, X = model[-1], model[:-1].transform(X)
    if hasattr(model, "predict_interval"):
        return model.predict_interval(X, coverage=coverage).T
    if not isinstance(model, GaussianProcessRegressor):
        return None
    mean, std = model.predict(X, return_std=True)
    margin = norm.ppf((1 + coverage) / 2) * std
    return mean - margin, mean + margin
