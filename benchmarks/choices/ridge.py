"""Tables of ridge regression from sums: accuracy, intervals, time."""

import resource
import sys
import time
import warnings
from unittest.mock import patch

import numpy as np
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

from sklearn_crt import (
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.ridge import _solution

from ..tables import Table
from .averages import some_rows

LABELS = "banknote", "car", "cmc", "letter", "wifi", "yeast"
NUMBERS = "abalone_rings", "diabetes", "friedman1", "housing", "sgemm"
RULES = {  # gamma, and the least degrees of freedom for each row
    "1": (1.0, 0.01),
    "1.2": (1.2, 0.01),
    "1.4": (1.4, 0.01),
    "1, half of the rows": (1.0, 0.5),
}
WITHIN = 1.645  # standard deviations of a normal law that hold 90 %
N_COLUMNS = 1024


def ridge(rows=3000, seeds=2, sets=LABELS + NUMBERS):
    """Ridge regression from sums beside a pipeline with RidgeCV and a grid search.

    Columns standardised, categories one-hot; accuracy of labels, R2 of numbers, in
    percent, means over random splits (70 % training rows). RidgeCV stands behind
    TrigRBFSampler at its default sigma; the grid is that of the four sigmas of
    RandomFeatureRidge and four of its penalties, by five folds. All have as many
    columns as training rows, 1024 at most. The second table has other factors gamma
    of the columns in generalised cross-validation, and at last only penalties that
    leave half of the rows as degrees of freedom, as for classes; the third the share of
    targets of test rows in intervals of 90 %.
    """
    scores, rules, held = {}, {}, {}
    for name in tqdm([s for s in LABELS + NUMBERS if s in sets], file=sys.stderr):
        found = some_rows(name, rows)
        if found is None:
            continue
        for seed in range(seeds):
            parts = _standardised(*found, name in LABELS, seed)
            scores.setdefault(name, []).append(_scores(*parts, name in LABELS))
            rules.setdefault(name, []).append(_of_rules(*parts, name in LABELS))
            if name in NUMBERS:
                held.setdefault(name, []).append([_share_held(*parts)])
    columns = ["RandomFeatureRidge", "RidgeCV", "grid", "seconds", "grid, times"]
    return [
        _means("percent, and processor seconds of fit", columns, scores),
        _means("percent by gamma", list(RULES), rules),
        _means("percent of targets in intervals of 90 %", ["share"], held),
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


def _of_rules(X_train, X_test, y_train, y_test, labels):
    kind, scores = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge, []
    name = "_OF_CLASSES" if labels else "_OF_NUMBERS"
    for rule in RULES.values():
        with patch.object(_solution, name, rule):
            model = kind(random_state=0).fit(X_train, y_train)
            scores.append(100 * model.score(X_test, y_test))
    return scores


def _share_held(X_train, X_test, y_train, y_test):
    model = RandomFeatureRidge(random_state=0).fit(X_train, y_train)
    mean, std = model.predict(X_test, return_std=True)
    return 100 * np.mean(np.abs(y_test - mean) < WITHIN * std)


def ridge_scale(rows=1_000_000):
    """Ridge regression from sums on many rows: time and memory.

    Rows of 16 columns in float32, 1024 columns of features; processor and wall seconds
    of ``fit``, with the threads that the environment allows, and the peak of memory
    above that of the rows so far.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 16), dtype=np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(rows)
    common = {"n_components": N_COLUMNS, "random_state": 0}
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cells = []
    for label, options in (
        ("one penalty", {"alpha": 1.0, "sigma": 0.3}),
        ("20 penalties", {"alpha": np.geomspace(1e-3, 1e3, 20), "sigma": 0.3}),
        ("4 sigmas", {"alpha": 1.0}),
    ):
        wall, start = time.perf_counter(), time.process_time()
        RandomFeatureRidge(**common, **options).fit(X, y)
        seconds = time.process_time() - start
        wall = time.perf_counter() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - base
        cells.append([label, f"{wall:.0f}", f"{seconds:.0f}", f"{peak:.0f}"])
    title = f"{rows} rows of 16 columns"
    return [Table(title, ["fit", "wall s", "processor s", "peak MB"], cells)]
