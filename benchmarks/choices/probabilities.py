"""Table of the log losses of class probabilities."""

import sys
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from tqdm import tqdm

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.averages._sums import probabilities
from sklearn_crt.life_cycle.intervals import LeftOut
from sklearn_crt.ridge._link import Link

from ..tables import Table
from .splits import labels_of

LABELS = "phoneme", "hpc", "yeast", "cmc", "letter", "churn", "digits", "wifi"
LABELS += "rare_phoneme", "rare_letter"
MOST_COLUMNS, FEW_COLUMNS = 40, 20  # of the learned metric
FOLDS = 5  # of the predictions from which the link is fitted
NAMES = "boosting", "ridge"
NAMES += "averages", "averages, frequencies", "averages, link"
NAMES += "local linear", "local linear, frequencies", "local linear, link"


def log_losses(splits=3, sets=LABELS):
    """Log losses of class probabilities, and percent of correct labels.

    Means over random splits of at most 5000 rows (8000 of unbalanced tables, "rare"),
    70 % of them training rows; columns standardised, categories one-hot. Kernel
    averages and local linear fits follow a learned metric; "frequencies" are their
    probabilities before they are smoothed, and "link" are those of a multinomial
    logistic regression of the labels on cross-validated frequencies, as
    RandomFeatureRidgeClassifier uses it. Probabilities are at least 1e-15.
    """
    losses, percents = {}, {}
    for name in tqdm(sets, file=sys.stderr):
        found = [_scores(*labels_of(name, split)) for split in range(splits)]
        losses[name], percents[name] = np.mean(found, axis=0)
    return [
        _table("log loss", losses, 3),
        _table("percent correct", percents, 2),
    ]


def _scores(X, y, X_test, y_test):
    """Return the log losses and the percent of correct labels, (2, n_models)."""
    known = np.isin(y_test, y)
    X_test, y_test = X_test[known], y_test[known]
    few = FEW_COLUMNS if X.shape[1] > MOST_COLUMNS else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = LearnedMetric(few, random_state=0).fit(X, y)
        boosting = HistGradientBoostingClassifier(l2_regularization=1.0, random_state=0)
        found = [
            model.fit(X, y).predict_proba(X_test) for model in (boosting, _ridge())
        ]
        Z, Z_test = metric.transform(X), metric.transform(X_test)
        for model in (NadarayaWatsonClassifier(), LocalLinearClassifier()):
            model.fit(Z, y)
            shares = _frequencies(model, Z_test)
            link = _link(model, Z, y).probabilities(_indicators(shares))
            found += [model.predict_proba(Z_test), shares, link]
    classes = np.unique(y)
    truth = classes.searchsorted(y_test)
    right = [100 * np.mean(p.argmax(axis=1) == truth) for p in found]
    return [[log_loss(y_test, p, labels=classes) for p in found], right]


def _ridge():
    return RandomFeatureRidgeClassifier(random_state=0)


def _frequencies(model, X):
    """Return class frequencies before they are smoothed."""
    return model._decode(model._value, X, probabilities, "")


def _indicators(shares):
    """Return one column for two classes, as ridge regression predicts."""
    return shares if shares.shape[1] > 2 else shares[:, 1:] - shares[:, :1]


def _link(model, X, y):
    """Return the link of frequencies of rows that are predicted without them."""
    classes, codes = np.unique(y, return_inverse=True)
    shares = np.zeros((len(y), classes.size))
    folds = np.arange(len(y)) % FOLDS
    params = {"sigma": model.sigma_}
    if hasattr(model, "alpha_"):
        params["alpha"] = model.alpha_
    for fold in range(FOLDS):
        part = type(model)(**params).fit(X[folds != fold], y[folds != fold])
        columns = classes.searchsorted(part.classes_)
        rows = np.flatnonzero(folds == fold)
        shares[np.ix_(rows, columns)] = _frequencies(part, X[rows])
    own = _indicators(np.eye(classes.size)[codes])
    left = LeftOut(_indicators(shares), own, np.zeros_like(own), np.ones(len(y)))
    return Link.of(left, np.bincount(codes) / len(y), len(y))


def _table(title, found, digits):
    means = {**found, "mean": np.mean(list(found.values()), axis=0)}
    rows = [[name, *(f"{v:.{digits}f}" for v in vs)] for name, vs in means.items()]
    return Table(title, ["table", *NAMES], rows)
