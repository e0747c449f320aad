"""Table of the log losses of class probabilities."""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    RandomFeatureRidgeClassifier,
)

from ..cases import load
from ..tables import table_of_sets
from . import mixed
from .splits import random_split, read, sets_here, splits_of

LABELS = "phoneme", "hpc", "yeast", "cmc", "letter", "churn", "digits", "wifi"
LABELS += "rare_phoneme", "rare_letter"
MOST_COLUMNS, FEW_COLUMNS = 40, 20  # of the learned metric
MOST_LABELS, MOST_RARE = 5000, 8000
SHARE = 0.02  # of the positives of a rare table
# what is positive, of a table of labels, whose rows are then thinned out to SHARE
RARE = {
    "rare_phoneme": ("phoneme", lambda y: y == 1),
    "rare_letter": ("letter", lambda y: y == "H"),
}
NAMES = "boosting", "ridge", "averages", "local linear"


def log_losses(splits=3, sets=LABELS):
    """Log losses of class probabilities, and percent of correct labels.

    Means over random splits of at most 5000 rows (8000 of unbalanced tables, "rare"),
    70 % of them training rows; columns standardised, categories one-hot. Kernel
    averages and local linear fits follow a learned metric. Probabilities are at least
    1e-15.
    """
    losses, percents = {}, {}
    for name, tables in sets_here(sets, splits_of(labels_of, splits)):
        found = [_scores(*table) for table in tables]
        losses[name], percents[name] = np.mean(found, axis=0)
    return [
        table_of_sets("Log loss of the class probabilities", NAMES, losses, 3),
        table_of_sets("Accuracy (%)", NAMES, percents, 2),
    ]


def labels_of(name, split):
    """Return X, y, X_test and y_test of a table of labels, columns standardised."""
    source, is_positive = RARE.get(name, (name, None))
    rng = np.random.default_rng(split)
    if source == "phoneme":
        table = read("labels/phoneme.csv.gz")
        X, y = table[:, :-1], table[:, -1]
    elif source in mixed.LABELS:
        X, y = mixed.load_mixed(source)
        X = pd.get_dummies(X).fillna(0).to_numpy(float)
    else:
        X, y = load(source)
    keep = rng.permutation(len(y))
    if is_positive is None:
        keep = keep[:MOST_LABELS]
    else:
        y = is_positive(y)
        negative = keep[~y[keep]][: round((1 - SHARE) * MOST_RARE)]
        n_positive = round(SHARE / (1 - SHARE) * len(negative))
        keep = np.concatenate([negative, keep[y[keep]][:n_positive]])
    return random_split(X[keep], y[keep], split, stratify=y[keep])


def _scores(X, y, X_test, y_test):
    """Return the log losses and the percent of correct labels, (2, n_models)."""
    known = np.isin(y_test, y)
    X_test, y_test = X_test[known], y_test[known]
    few = FEW_COLUMNS if X.shape[1] > MOST_COLUMNS else None
    metric = LearnedMetric(few, random_state=0).fit(X, y)
    boosting = HistGradientBoostingClassifier(l2_regularization=1.0, random_state=0)
    ridge = RandomFeatureRidgeClassifier(random_state=0)
    found = [model.fit(X, y).predict_proba(X_test) for model in (boosting, ridge)]
    Z, Z_test = metric.transform(X), metric.transform(X_test)
    for model in (NadarayaWatsonClassifier(), LocalLinearClassifier()):
        found.append(model.fit(Z, y).predict_proba(Z_test))
    classes = np.unique(y)
    truth = classes.searchsorted(y_test)
    right = [100 * np.mean(p.argmax(axis=1) == truth) for p in found]
    return [[log_loss(y_test, p, labels=classes) for p in found], right]
