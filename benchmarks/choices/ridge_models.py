"""The models that ridge_tables compares, and what is measured of each."""

import time

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
from sklearn_crt.inspection import predict_interval

from .splits import some_rows_of

LEVELS = 0.5, 0.8, 0.9, 0.99
FAR = 0.1  # beyond the range of the targets, as a share of it


# models that are the same for all seeds
UNSEEDED = "boosting", "support vectors", "kernel ridge", "Gaussian process"
UNSEEDED += ("mean of the targets",)
MOST = {"support vectors": 2000, "kernel ridge": 2000, "Gaussian process": 1000}  # rows


def regressors(seed, n_features):
    """Return the models by name."""
    folds = KFold(3, shuffle=True, random_state=0)  # the rows of some tables are sorted
    gamma = np.array([1 / 16, 1 / 4, 1, 4]) / n_features
    grid = {"C": [1, 10, 100], "gamma": gamma[:3]}
    support = GridSearchCV(SVR(epsilon=0.02), grid, cv=folds)
    grid = {"alpha": [1e-4, 1e-3, 1e-2, 1e-1, 1], "gamma": gamma}
    kernel_ridge = GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=folds)
    kernel = ConstantKernel() * RBF(np.ones(n_features)) + WhiteKernel()
    ridge, metric = RandomFeatureRidge(random_state=seed), _metric(seed)
    return {
        "boosting": HistGradientBoostingRegressor(),
        "support vectors": support,
        "kernel ridge": kernel_ridge,
        "Gaussian process": Process(kernel, normalize_y=True),
        "metric, local linear": make_pipeline(metric, LocalLinearRegressor()),
        "ridge": ridge,
        "metric, ridge": make_pipeline(metric, ridge),
    }


def shifted_regressors(seed, n_features):
    """Return the models under covariate shift by name."""
    few = "boosting", "metric, local linear", "ridge", "metric, ridge"
    found = {name: regressors(seed, n_features)[name] for name in few}
    free = RandomFeatureRidge(clip=False, random_state=seed)
    found["ridge, clip=False"] = free
    found["metric, ridge, clip=False"] = make_pipeline(_metric(seed), free)
    found["mean of the targets"] = DummyRegressor()
    return found


def _metric(seed):
    return LearnedMetric(random_state=seed)


class Process(GaussianProcessRegressor):
    """An exact Gaussian process with intervals."""

    def predict_interval(self, X, coverage):
        """Return the ends of intervals of the normal distribution of each target."""
        mean, std = self.predict(X, return_std=True)
        margin = norm.ppf((1 + coverage) / 2) * std
        return np.column_stack([mean - margin, mean + margin])


def results_of(model, X, y, X_test, y_test, most, seed):
    """Return errors, times, and the shares of targets in intervals, of a regressor.

    It is fitted to at most so many rows, if a number is given.
    """
    low, high = y.min(), y.max()
    if most is not None:
        X, y = some_rows_of(X, y, most, seed)
    start = time.process_time()
    found = model.fit(X, y).predict(X_test)
    seconds = time.process_time() - start
    try:
        intervals = [predict_interval(model, X_test, coverage=c) for c in LEVELS]
    except TypeError:  # it has none
        intervals = []
    beyond = np.maximum(found - high, low - found) / (high - low)
    error = np.mean((found - y_test) ** 2)
    return {
        "rmse": np.sqrt(error),
        "r2": 1 - error / y_test.var(),
        "seconds": seconds,
        "inside": [is_inside(ends, y_test).mean() for ends in intervals],
        "furthest": max(beyond.max(), 0),
        "far": np.mean(beyond > FAR),
    }


def is_inside(ends, y):
    """Return which targets are inside their intervals."""
    return (ends[:, 0] <= y) & (y <= ends[:, 1])
