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

from ..tables import table_of_means
from .splits import labels_of

LABELS = "phoneme", "hpc", "yeast", "cmc", "letter", "churn", "digits", "wifi"
LABELS += "rare_phoneme", "rare_letter"
MOST_COLUMNS, FEW_COLUMNS = 40, 20  # of the learned metric
NAMES = "boosting", "ridge", "averages", "local linear"


def log_losses(splits=3, sets=LABELS):
    """Log losses of class probabilities, and percent of correct labels.

    Means over random splits of at most 5000 rows (8000 of unbalanced tables, "rare"),
    70 % of them training rows; columns standardised, categories one-hot. Kernel
    averages and local linear fits follow a learned metric. Probabilities are at least
    1e-15.
    """
    losses, percents = {}, {}
    for name in tqdm(sets, file=sys.stderr):
        found = [_scores(*labels_of(name, split)) for split in range(splits)]
        losses[name], percents[name] = np.mean(found, axis=0)
    return [
        table_of_means("Log loss of the class probabilities", NAMES, losses, 3),
        table_of_means("Accuracy (%)", NAMES, percents, 2),
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
        ridge = RandomFeatureRidgeClassifier(random_state=0)
        found = [model.fit(X, y).predict_proba(X_test) for model in (boosting, ridge)]
        Z, Z_test = metric.transform(X), metric.transform(X_test)
        for model in (NadarayaWatsonClassifier(), LocalLinearClassifier()):
            found.append(model.fit(Z, y).predict_proba(Z_test))
    classes = np.unique(y)
    truth = classes.searchsorted(y_test)
    right = [100 * np.mean(p.argmax(axis=1) == truth) for p in found]
    return [[log_loss(y_test, p, labels=classes) for p in found], right]
