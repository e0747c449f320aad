"""Tables of sigma="auto" beside "scale", for kernel averages with random features."""

import sys
import warnings

import numpy as np
from sklearn.base import clone
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from tqdm import tqdm

import sklearn_crt as crt
from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor

from ..tables import Table
from .averages import some_rows

LABELS = "iris", "wine", "breast_cancer", "digits", "moons"
LABELS += "yeast", "banknote", "wifi", "cmc"
NUMBERS = "diabetes", "housing", "abalone_rings"
NUMBERS += "friedman1", "friedman2", "friedman3", "swiss_roll"
MAPS = {
    "OPRF": crt.OPRFSampler(),
    "PosRF": crt.samplers.PositiveRBFSampler(),
    "SDERF": crt.DERFSampler(),
    "Fourier": crt.TrigRBFSampler(),
    "GERF": crt.samplers.GERFSampler(),
}
MOST_ROWS = 2000
SIGMAS = "scale", "auto"


def sampler_sigma(
    widths=(100, 300, 1000), seeds=2, sets=LABELS + NUMBERS, methods=tuple(MAPS)
):
    """Choice of sigma by kernel averages with random features.

    sigma="auto" beside "scale", on tables of at most 2000 rows, with categories one-hot
    and columns as they are or standardised. Means over three folds and the seeds, and
    over the tables; "worst" is the table where accuracy or R2 loses most, or gains
    least, by "auto". For several numbers of columns, because the error of random
    features limits sigma.
    """
    tables = []
    for names, scores in ((LABELS, _scores_of_labels), (NUMBERS, _scores_of_numbers)):
        chosen = [name for name in names if name in sets]
        for standardised in (True, False):
            cases = [(method, width) for method in methods for width in widths]
            rows = []
            for method, width in tqdm(cases, file=sys.stderr):
                sampler = clone(MAPS[method]).set_params(n_components=width)
                with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
                    found = {n: scores(n, sampler, standardised, seeds) for n in chosen}
                found = {name: v for name, v in found.items() if v is not None}
                if found:
                    rows.append([method, str(width), *_cells(found)])
            if rows:
                kind = "accuracy" if names is LABELS else "R2"
                scaled = "standardised" if standardised else "as they are"
                head = [f"{kind}: {sigma}" for sigma in SIGMAS] + ["worst"]
                if names is LABELS:
                    head += [f"Brier: {sigma}" for sigma in SIGMAS]
                    head += [f"log loss: {sigma}" for sigma in SIGMAS]
                title = f"{kind} in percent, columns {scaled}"
                tables.append(Table(title, ["map", "columns", *head], rows))
    return tables


def _cells(found):
    """Return the cells of a line, given scores (2, n_scores) by table."""
    mean = np.mean(list(found.values()), axis=0)
    gaps = {name: 100 * (v[1, 0] - v[0, 0]) for name, v in found.items()}
    worst = min(gaps, key=gaps.get)
    cells = [f"{100 * v:.1f}" for v in mean[:, 0]] + [f"{worst} {gaps[worst]:+.1f}"]
    return cells + [f"{v:.3f}" for v in mean[:, 1:].T.ravel()]


def _scores_of_labels(name, sampler, standardised, seeds):
    """Return accuracy, Brier score and log loss with "scale" and "auto", (2, 3)."""
    scores = []
    for parts, y_test, draw in _splits(name, standardised, seeds, StratifiedKFold):
        models = _fitted(NadarayaWatsonClassifier, sampler, parts, draw)
        for model in models:
            probabilities = model.predict_proba(parts[2])
            truth = LabelBinarizer().fit(model.classes_).transform(y_test)
            if truth.shape[1] == 1:
                truth = np.hstack([1 - truth, truth])
            brier = np.mean(np.sum((probabilities - truth) ** 2, axis=1))
            least = np.maximum(probabilities, 1e-6)  # a single zero would be infinite
            least /= least.sum(axis=1, keepdims=True)
            loss = log_loss(y_test, least, labels=model.classes_)
            scores.append([np.mean(model.predict(parts[2]) == y_test), brier, loss])
    return np.reshape(scores, (-1, 2, 3)).mean(axis=0) if scores else None


def _scores_of_numbers(name, sampler, standardised, seeds):
    """Return R2 with "scale" and "auto", (2, 1)."""
    scores = []
    for parts, y_test, draw in _splits(name, standardised, seeds, KFold):
        models = _fitted(NadarayaWatsonRegressor, sampler, parts, draw)
        scores.append([r2_score(y_test, model.predict(parts[2])) for model in models])
    return np.mean(scores, axis=0)[:, None] if scores else None


def _splits(name, standardised, seeds, folds):
    """Yield X_train, y_train and X_test, y_test, and the seed of the features."""
    rows = some_rows(name, MOST_ROWS)
    if rows is None:
        return
    X, y = rows
    for seed in range(seeds):
        parts = folds(3, shuffle=True, random_state=seed).split(X, y)
        for number, (train, test) in enumerate(parts):
            X_train, X_test = X[train], X[test]
            if standardised:
                scaler = StandardScaler().fit(X_train)
                X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
            yield (X_train, y[train], X_test), y[test], 10 * seed + number


def _fitted(cls, sampler, parts, draw):
    """Return the models of both values of sigma, with the same draw of features."""
    sampler = clone(sampler).set_params(random_state=draw)
    return [cls(sampler, sigma=sigma).fit(*parts[:2]) for sigma in SIGMAS]
