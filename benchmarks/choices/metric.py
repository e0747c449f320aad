"""Table of learned metrics and local linear averages beside what a user would pick."""

import time
from functools import partial

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)

from ..tables import MEAN, geometric_mean, table_of_sets
from .averages import scores_and_seconds, some_rows
from .splits import REGRESSION, sets_here, some_rows_of, split_of, splits_of

LABELS = "abalone", "banknote", "breast_cancer", "car", "chess", "cmc"
LABELS += "digits", "letter", "nursery", "wifi", "yeast"
NUMBERS = "abalone_rings", "diabetes", "housing", "sgemm"
METRICS = {
    "auto": {},
    "linear": {"method": "evidence", "columns": "linear"},
    "hats": {"method": "evidence", "columns": "hats"},
    "agop": {"method": "agop", "columns": "linear"},
}
NAMES = "k neighbours", "exact", "local linear", "boosting", "support vectors"
NAMES += "metric, ridge", "metric, exact", "metric, local linear"


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
    return {
        "k neighbours": neighbours,
        "exact": average,
        "local linear": linear,
        "boosting": boosting,
        "support vectors": support,
        "metric, ridge": make_pipeline(metric, ridge),
        "metric, exact": make_pipeline(metric, average),
        "metric, local linear": make_pipeline(metric, linear),
    }


def metric(rows=5000, seeds=5, sets=LABELS + NUMBERS, methods=NAMES):
    """Learned metrics and local linear averages beside other models.

    Tables of scikit-learn and UCI, columns standardised, categories one-hot; accuracy
    of labels, R2 of numbers, in percent, means over random splits (70 % training rows).
    Everything is as constructed, but for ``l2_regularization=1`` of boosting for labels
    (it fails on rare classes without), and ``C=10`` of support vectors (whose numbers
    are standardised). The second table has seconds of processor time to fit and
    predict, one thread.
    """
    names = [name for name in NAMES if name in methods]
    sets = [name for name in LABELS + NUMBERS if name in sets]
    found = {}
    for name, (X, y) in sets_here(sets, partial(some_rows, most=rows)):
        labels = name in LABELS
        models = [models_of(labels, seed) for seed in range(seeds)]
        models = [[each[name] for name in names] for each in models]
        found[name] = scores_and_seconds(X, y if labels else y.astype(float), models)
    scores, seconds = (
        {name: values[..., part].mean(axis=0) for name, values in found.items()}
        for part in (0, 1)
    )
    splits = np.array([values[..., 0] for values in found.values()])
    gaps = splits[..., -1:] - splits
    error = gaps.std(axis=1, ddof=1) / np.sqrt(seeds)
    error[error == 0] = np.inf
    summaries = MEAN | {
        "difference from the last column": lambda m: _ahead(m).mean(axis=0),
        "number of data sets on which the last column is better": lambda m: np.sum(
            _ahead(m) > 0, axis=0
        ),
        "smallest difference, in standard errors": lambda m: np.min(
            _ahead(m) / error, axis=0
        ),
    }
    return [
        table_of_sets("Accuracy or 100 R²", names, scores, 1, summaries),
        table_of_sets("Processor seconds of fit and predict", names, seconds, 1),
    ]


def _ahead(means):
    return means[:, -1:] - means


def evidence(rows=3000, splits=3, sets=REGRESSION):
    """Local linear regression in the candidates of a metric, beside boosting.

    Geometric means, over fixed splits of regression tables, of root mean square errors
    relative to those of gradient boosting: in the metric that is chosen, and in each
    candidate, which is also learned from all training rows. The last column is the time
    of the fit with the choice, in seconds of processor time, one thread.
    """
    names, found = [name for name in REGRESSION if name in sets], {}
    for name, tables in sets_here(names, splits_of(split_of, splits)):
        runs = [
            _errors(*some_rows_of(X, y, rows, split), *test)
            for split, (X, y, *test) in enumerate(tables)
        ]
        errors = geometric_mean([[r[c] for c in (*METRICS, "boosting")] for r in runs])
        seconds = np.mean([each["seconds"] for each in runs])
        found[name] = [*(errors[:-1] / errors[-1]), seconds]
    title, columns = "Error divided by that of gradient boosting", [*METRICS, "seconds"]
    return [table_of_sets(title, columns, found, 3, {"geometric mean": geometric_mean})]


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
