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
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
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
                for model, choices in todo.items():
                    mapped = len(choices) > 1
                    label = f"{model}, {width} columns" if mapped else model
                    if mapped or width == widths[0]:
                        result = _score_and_seconds(choices, train, test)
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


def _with_sigma(sampler, sigma):
    sampler = clone(sampler)
    if isinstance(sampler, RBFSampler | Nystroem):
        return sampler.set_params(gamma=sigma**2 / 2)
    return sampler.set_params(sigma=sigma)


def _linear_candidates(n_features, numbers, width, seed):
    # lists of models by name; validation chooses one of each list
    linear = Ridge(1e-2) if numbers else RidgeClassifier(1e-2)
    models = {"no features": [make_pipeline(StandardScaler(), linear)]}
    for name, sampler in LINEAR.items():
        sampler = clone(sampler).set_params(n_components=width, random_state=seed)
        models[name] = [
            make_pipeline(StandardScaler(), _with_sigma(sampler, sigma), linear)
            for sigma in np.multiply(FACTORS, (2 / n_features) ** 0.5)
        ]
    boosting = (
        HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    )
    return models | {"HistGradientBoosting (no ridge)": [boosting(random_state=seed)]}


def _score_and_seconds(models, train, test):
    X, y = train
    rows, held_out = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
    if len(models) > 1:
        models = [
            max(
                models,
                key=lambda m: m.fit(X[rows], y[rows]).score(X[held_out], y[held_out]),
            )
        ]
    start = time.process_time()
    score = models[0].fit(*train).score(*test)
    return score, time.process_time() - start
