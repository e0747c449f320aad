"""Table of ridge regression on features."""

import sys
import time

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV, ShuffleSplit, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import sklearn_crt as crt

from ..cases import load
from ..tables import Table

LINEAR = {
    "RBFSampler": RBFSampler(),
    "Nystroem": Nystroem(),
    "TrigRBFSampler": crt.TrigRBFSampler(),
    "TrigRBFSampler(random_phase=True)": crt.TrigRBFSampler(random_phase=True),
    "MaternSampler": crt.samplers.MaternSampler(),
    "LaplacianSampler": crt.samplers.LaplacianSampler(),
}
N_TRAIN = {"letter": 15000, "chess": 20000, "sgemm": 40000}
FACTORS = 0.25, 1.0, 4.0  # of sqrt(2 / d)


def linear_models(widths=(250, 1000), seeds=3, sets=tuple(N_TRAIN)):
    """Ridge on random features beside Nystroem and boosting, on three sets of UCI.

    A fifth of the training rows chooses sigma, of 1/4, 1 and 4 times sqrt(2 / d), the
    "scale" of standardised columns; all maps have the same choice. Scores on the other
    rows and processor seconds of one fit and predict at the chosen sigma, means over
    the splits.
    """
    cells = {}
    progress = tqdm(total=len(sets) * seeds * len(widths), file=sys.stderr)
    for name in sets:
        X, y, numbers = _with_log_times(name)
        for seed in range(seeds):
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, train_size=N_TRAIN[name], test_size=5000, random_state=seed
            )
            train, test = (X_train, y_train), (X_test, y_test)
            for width in widths:
                todo = _linear_candidates(X.shape[1], numbers, width, seed)
                for label, (model, grid) in todo.items():
                    label = f"{label}, {width} columns" if grid else label
                    if grid or width == widths[0]:
                        result = _score_and_seconds(model, grid, train, test)
                        cells.setdefault(label, {}).setdefault(name, []).append(result)
                progress.update()
    rows = [
        [label, *("{:.3f} ({:.1f} s)".format(*np.mean(r[n], axis=0)) for n in r)]
        for label, r in sorted(cells.items(), key=lambda item: "columns" in item[0])
    ]
    kinds = {"sgemm": "R2 of log time"}
    titles = [f"{name}, {kinds.get(name, 'accuracy')}" for name in sets]
    title = "Test score (processor seconds of fit and predict)"
    return [Table(title, ["features", *titles], rows)]


def _with_log_times(name):
    # rows, targets, and whether these are numbers
    X, y = load(name)
    return (X, np.log(y), True) if name == "sgemm" else (X, y, False)


def _linear_candidates(n_features, numbers, width, seed):
    """Return models by name, with the grids from which sigma is chosen."""
    linear = Ridge(1e-2) if numbers else RidgeClassifier(1e-2)
    boosting = (
        HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    )
    models = {"no features": (make_pipeline(StandardScaler(), linear), {})}
    sigmas = np.multiply(FACTORS, (2 / n_features) ** 0.5)
    for name, sampler in LINEAR.items():
        sampler = clone(sampler).set_params(n_components=width, random_state=seed)
        model = Pipeline(
            [("scaler", StandardScaler()), ("map", sampler), ("ridge", linear)]
        )
        is_theirs = isinstance(sampler, RBFSampler | Nystroem)
        grid = {"map__gamma": sigmas**2 / 2} if is_theirs else {"map__sigma": sigmas}
        models[name] = model, grid
    models["HistGradientBoosting (no ridge)"] = boosting(random_state=seed), {}
    return models


def _score_and_seconds(model, grid, train, test):
    """Return the score, and the seconds of a fit and predict with the best sigma."""
    if grid:
        split = ShuffleSplit(1, test_size=0.2, random_state=0)
        search = GridSearchCV(model, grid, cv=split, refit=False).fit(*train)
        model = clone(model).set_params(**search.best_params_)
    start = time.process_time()
    score = model.fit(*train).score(*test)
    return score, time.process_time() - start
