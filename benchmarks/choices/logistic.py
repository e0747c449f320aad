"""Table of linear models with their defaults, behind samplers and without."""

import warnings

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import sklearn_crt as crt

from ..tables import Table
from .averages import sets_here

SETS = "iris", "wine", "breast_cancer", "digits", "moons"
SETS += "yeast", "banknote", "wifi", "cmc"
MODELS = {
    "logistic": LogisticRegression(max_iter=1000),
    "logistic, C=10": LogisticRegression(C=10, max_iter=1000),
    "RidgeClassifier": RidgeClassifier(),
    "LinearSVC": LinearSVC(),
    "SGDClassifier": SGDClassifier(random_state=0),
}


def logistic(widths=(100, 300), rows=3000, sets=SETS):
    """Linear classifiers behind samplers, with the defaults of both.

    Columns standardised, accuracy in percent, the mean over the data sets of three
    stratified folds. "by itself" are the standardised columns without a sampler, and
    RandomFeatureRidgeClassifier, which chooses its own number of features.
    """
    kept = {}
    for _, X, y in sets_here(sets, rows):
        for width in widths:
            for label, steps in _pipelines(width).items():
                score = _score(make_pipeline(StandardScaler(), *steps), X, y)
                kept.setdefault((width, label), []).append(score)
    return [_table(width, kept) for width in widths]


def _pipelines(width):
    """Return the steps behind the scaler, by sampler and model."""
    options = {"n_components": width, "random_state": 0}
    samplers = {
        "none": None,
        "RBFSampler": RBFSampler(gamma="scale", **options),
        "Nystroem": Nystroem(**options),
        "TrigRBFSampler": crt.TrigRBFSampler(**options),
        "OPRFSampler": crt.OPRFSampler(**options),
        "CentersRBFSampler": crt.CentersRBFSampler(**options),
        "CentersRBFSampler, whiten=False": crt.CentersRBFSampler(
            whiten=False, **options
        ),
    }
    pipelines = {
        (name, model): [step for step in (sampler, MODELS[model]) if step is not None]
        for name, sampler in samplers.items()
        for model in MODELS
    }
    ridge = crt.RandomFeatureRidgeClassifier(random_state=0)
    return pipelines | {("RandomFeatureRidgeClassifier", "by itself"): [ridge]}


def _score(model, X, y):
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return 100 * cross_val_score(model, X, y, cv=folds).mean()


def _table(width, kept):
    """Return the means over the data sets, a row for each sampler."""
    means = {label: np.mean(v) for (w, label), v in kept.items() if w == width}
    columns = [*MODELS, "by itself"]
    samplers = dict.fromkeys(sampler for sampler, _ in means)
    rows = [
        [s, *(f"{means[s, m]:.1f}" if (s, m) in means else "" for m in columns)]
        for s in samplers
    ]
    return Table(f"percent, {width} columns", ["sampler", *columns], rows)
