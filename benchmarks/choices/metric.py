"""Table of learned metrics and local linear averages beside what a user would pick."""

import sys
import time

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from tqdm import tqdm

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)

from ..tables import Table
from .averages import scores_and_seconds, sets_here
from .splits import REGRESSION, some_rows_of, split_of

try:
    import torch
    from xrfm import xRFM
except ImportError:
    xRFM = None

LABELS = "abalone", "banknote", "breast_cancer", "car", "chess", "cmc"
LABELS += "digits", "letter", "nursery", "wifi", "yeast"
NUMBERS = "abalone_rings", "diabetes", "housing", "sgemm"
METRICS = {
    "auto": {},
    "linear": {"method": "evidence", "columns": "linear"},
    "hats": {"method": "evidence", "columns": "hats"},
    "agop": {"method": "agop", "columns": "linear"},
}
BANDWIDTHS = 3.0, 10.0, 30.0
NAMES = "k neighbours", "exact", "local linear", "boosting", "support vectors", "xRFM"
NAMES += "metric, ridge", "metric, exact", "metric, local linear"


class BestBandwidth(BaseEstimator):
    """xRFM with the bandwidth of three that is best on a fifth of the rows."""

    def __init__(self, labels):
        self.labels = labels

    def fit(self, X, y):
        """Fit a model for each bandwidth."""
        y = np.unique(y, return_inverse=True)[1] if self.labels else y
        self.classes_ = np.unique(y)
        parts = train_test_split(X, y, test_size=0.2, random_state=0)
        X_train, X_test, y_train, y_test = map(self._tensor, parts)
        self._best, best = None, -np.inf
        for bandwidth in BANDWIDTHS:
            params = {
                "model": {
                    "kernel": "l2",
                    "exponent": 1.0,
                    "bandwidth": bandwidth,
                    "diag": False,
                    "bandwidth_mode": "constant",
                },
                "fit": {
                    "get_agop_best_model": True,
                    "return_best_params": True,
                    "reg": 1e-3,
                    "iters": 5,
                },
            }
            model = xRFM(params, verbose=False, random_state=0, n_threads=1)
            model.fit(X_train, y_train, X_test, y_test)
            found = self._score(model, X_test, y_test)
            if found > best:
                self._best, best = model, found
        return self

    def _tensor(self, values):
        if self.labels and values.ndim == 1:
            return torch.as_tensor(values)
        values = torch.as_tensor(values, dtype=torch.float32)
        return values if values.ndim > 1 else values[:, None]

    def _score(self, model, X, y):
        found = np.asarray(model.predict(X)).ravel()
        y = np.asarray(y).ravel()
        return accuracy_score(y, found) if self.labels else r2_score(y, found)

    def score(self, X, y):
        """Return the accuracy, or R2."""
        y = np.unique(y, return_inverse=True)[1] if self.labels else y
        return self._score(self._best, self._tensor(X), y)


SCORES, SECONDS = "Accuracy or 100 R²", "Processor seconds of fit and predict"


def models_of(labels, seed):
    """Return the models, as constructed but for what is said in the table."""
    metric = LearnedMetric(random_state=seed)
    if labels:
        linear, average = LocalLinearClassifier(), NadarayaWatsonClassifier()
        neighbours, support = KNeighborsClassifier(), SVC(C=10)
        ridge = RandomFeatureRidgeClassifier(random_state=seed)
        options = {"l2_regularization": 1.0, "random_state": seed}
        boosting = HistGradientBoostingClassifier(**options)
    else:
        linear, average = LocalLinearRegressor(), NadarayaWatsonRegressor()
        neighbours, ridge = KNeighborsRegressor(), RandomFeatureRidge(random_state=seed)
        boosting = HistGradientBoostingRegressor(random_state=seed)
        support = TransformedTargetRegressor(SVR(C=10), transformer=StandardScaler())
    found = {
        "k neighbours": neighbours,
        "exact": average,
        "local linear": linear,
        "boosting": boosting,
        "support vectors": support,
        "xRFM": BestBandwidth(labels),
        "metric, ridge": make_pipeline(metric, ridge),
        "metric, exact": make_pipeline(metric, average),
        "metric, local linear": make_pipeline(metric, linear),
    }
    if xRFM is None:
        del found["xRFM"]
    return found


def metric(rows=5000, seeds=5, sets=LABELS + NUMBERS, methods=NAMES):
    """Learned metrics and local linear averages beside other models.

    Tables of scikit-learn and UCI, columns standardised, categories one-hot; accuracy
    of labels, R2 of numbers, in percent, means over random splits (70 % training rows).
    Everything is as constructed, but for ``l2_regularization=1`` of boosting for labels
    (it fails on rare classes without), ``C=10`` of support vectors (whose numbers are
    standardised), and xRFM, which is the best of three bandwidths on a fifth of the
    training rows. The second table has seconds of processor time to fit and predict,
    one thread. xRFM is left out where the package ``xrfm`` is not installed.
    """
    missing = {"xRFM"} if xRFM is None else set()
    if missing & set(methods):
        print("xRFM is left out, because xrfm is not installed.", file=sys.stderr)
    scores, seconds = {}, {}
    names = [name for name in NAMES if name in methods and name not in missing]
    for name, X, y in sets_here([s for s in LABELS + NUMBERS if s in sets], rows):
        labels = name in LABELS
        models = [models_of(labels, seed) for seed in range(seeds)]
        models = [[each[name] for name in names] for each in models]
        values = scores_and_seconds(X, y if labels else y.astype(float), models)
        scores[name], seconds[name] = values[..., 0], values[..., 1]
    return [_table(SCORES, scores, names), _table(SECONDS, seconds, names)]


def evidence(rows=3000, splits=3, sets=REGRESSION):
    """Local linear regression in the candidates of a metric, beside boosting.

    Geometric means, over fixed splits of regression tables, of root mean square errors
    relative to those of gradient boosting: in the metric that is chosen, and in each
    candidate, which is also learned from all training rows. The last column is the time
    of the fit with the choice, in seconds of processor time, one thread.
    """
    names, table = [name for name in REGRESSION if name in sets], []
    for name in tqdm(names, file=sys.stderr):
        found = []
        for split in range(splits):
            X, y, *test = split_of(name, split)
            found.append(_errors(*some_rows_of(X, y, rows, split), *test))
        logs = np.log([[each[c] for c in (*METRICS, "boosting")] for each in found])
        values = list(np.exp((logs[:, :-1] - logs[:, -1:]).mean(axis=0)))
        table.append([*values, np.mean([each["seconds"] for each in found])])
    table.append(np.exp(np.mean(np.log(table), axis=0)))
    lines = [
        [name, *(f"{v:.3f}" for v in values)]
        for name, values in zip([*names, "geometric mean"], table, strict=True)
    ]
    columns = ["data set", *METRICS, "seconds"]
    return [Table("Error divided by that of gradient boosting", columns, lines)]


def _errors(X, y, X_test, y_test):
    """Return the root mean square error of each model, and the seconds of a fit."""
    models = {"boosting": HistGradientBoostingRegressor(random_state=0)}
    for name, options in METRICS.items():
        metric = LearnedMetric(random_state=0, **options)
        models[name] = make_pipeline(metric, LocalLinearRegressor())
    found = {}
    for name, model in models.items():
        start = time.process_time()
        model.fit(X, y)
        if name == "auto":
            found["seconds"] = time.process_time() - start
        found[name] = float(np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)))
    return found


def _table(title, found, names):
    """Return the table of means over the splits, and what the last column is ahead."""
    means = np.array([values.mean(axis=0) for values in found.values()])
    lines = list(zip(found, means, strict=True))
    lines.append(("mean", means.mean(axis=0)))
    if title == SCORES:
        ahead = means[:, -1:] - means
        lines.append(("difference from the last column", ahead.mean(axis=0)))
        wins = (ahead > 0).sum(axis=0)
        lines.append(("number of data sets on which the last column is better", wins))
        gaps = np.array([values[:, -1:] - values for values in found.values()])
        error = gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])
        worst = np.min(ahead / np.where(error > 0, error, np.inf), axis=0)
        lines.append(("smallest difference, in standard errors", worst))
    rows = [[name, *(f"{v:.1f}" for v in values)] for name, values in lines]
    return Table(title, ["data set", *names], rows)
