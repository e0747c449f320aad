"""Tables of ridge regression from sums: accuracy and intervals."""

import time
import warnings
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.ridge import _solution

from ..tables import Table
from .averages import sets_here

LABELS = "banknote", "car", "cmc", "letter", "wifi", "yeast"
NUMBERS = "abalone_rings", "diabetes", "friedman1", "housing", "sgemm"
SPREADS = 3.0, 5.0, 10.0, 30.0  # standard deviations of the prior
WITHIN = 1.645  # standard deviations of a normal law that hold 90 %
N_COLUMNS = 1024


def ridge(rows=3000, seeds=2, sets=LABELS + NUMBERS):
    """Ridge regression from sums beside a pipeline with RidgeCV and a grid search.

    Columns standardised, categories one-hot; accuracy of labels, R2 of numbers, in
    percent, means over random splits (70 % training rows). RidgeCV stands behind
    TrigRBFSampler at its default sigma; the grid is that of the four sigmas of
    RandomFeatureRidge and four of its penalties, by five folds. All have the number of
    columns of RandomFeatureRidge. The second table has other limits on the prior
    standard deviation of the function; the third the share of targets of test rows in
    intervals of 90 %, from leave-one-out errors and from the standard deviation.
    """
    scores, spreads, held = {}, {}, {}
    for name, X, y in sets_here([s for s in LABELS + NUMBERS if s in sets], rows):
        for seed in range(seeds):
            parts = _standardised(X, y, name in LABELS, seed)
            scores.setdefault(name, []).append(_scores(*parts, name in LABELS))
            spreads.setdefault(name, []).append(_of_spreads(*parts, name in LABELS))
            if name in NUMBERS:
                held.setdefault(name, []).append(_shares_held(*parts))
    columns = ["RandomFeatureRidge", "RidgeCV", "grid", "seconds", "grid, times"]
    return [
        _means("percent, and processor seconds of fit", columns, scores),
        _means("percent by limit on the prior", [f"{v:g}" for v in SPREADS], spreads),
        _means(
            "percent of targets in intervals of 90 %",
            ["predict_interval", "1.645 standard deviations"],
            held,
        ),
    ]


def _means(title, columns, found):
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    if len(means) > 1:
        means["mean"] = np.mean(list(means.values()), axis=0)
    rows = [[name, *(f"{v:.1f}" for v in values)] for name, values in means.items()]
    return Table(title, ["table", *columns], rows)


def _standardised(X, y, labels, seed):
    y = y if labels else y.astype(float)
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    return scaler.transform(X_train), scaler.transform(X_test), y_train, y_test


def _scores(X_train, X_test, y_train, y_test, labels):
    model = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge
    own = model(random_state=0)
    chosen = own.fit(X_train, y_train)
    width = chosen.kernel_.n_components
    sampler = TrigRBFSampler(n_components=width, random_state=0)
    path = chosen.score_path()
    grid = {
        "sigma": np.unique(path["sigma"]),
        "alpha": np.unique(path["alpha"])[::30],
    }
    folds = KFold(5, shuffle=True, random_state=0)
    alone = RidgeClassifierCV if labels else RidgeCV
    alphas = np.logspace(-6, 2, 30)
    models = {
        "own": own,
        "RidgeCV": make_pipeline(sampler, alone(alphas)),
        "grid": GridSearchCV(model(sampler), grid, cv=folds),
    }
    scores, seconds = [], []
    for each in models.values():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores.append(100 * each.fit(X_train, y_train).score(X_test, y_test))
        seconds.append(time.process_time() - start)
    return [*scores, seconds[0], seconds[2] / seconds[0]]


def _of_spreads(X_train, X_test, y_train, y_test, labels):
    kind, scores = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge, []
    for most in SPREADS:
        with patch.object(_solution, "_MOST_SPREAD", most):
            model = kind(random_state=0).fit(X_train, y_train)
            scores.append(100 * model.score(X_test, y_test))
    return scores


def _shares_held(X_train, X_test, y_train, y_test):
    model = RandomFeatureRidge(random_state=0).fit(X_train, y_train)
    low, high = model.predict_interval(X_test, 0.9).T
    mean, std = model.predict(X_test, return_std=True)
    inside = (low <= y_test) & (y_test <= high), np.abs(y_test - mean) < WITHIN * std
    return [100 * np.mean(each) for each in inside]
