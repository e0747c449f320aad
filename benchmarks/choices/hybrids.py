"""Tables of hybrids beside their parts: the stated error, and averages."""

import sys
import warnings

import numpy as np
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from tqdm import tqdm

import sklearn_crt as crt

from ..cases import UCI_SETS, load
from ..tables import Table
from .positive import standardised

MAPS = {
    "OPRF, antithetic": crt.OPRFSampler(coupling="antithetic"),
    "sines and cosines": crt.TrigRBFSampler(),
    "hybrid, default": crt.samplers.HybridSampler(),
    "hybrid, angular": crt.samplers.angular_hybrid(),
    "hybrid, gaussian": crt.samplers.gaussian_hybrid(),
}
SETS = (*UCI_SETS, "iris", "wine", "breast_cancer", "digits", "diabetes")
AVERAGED = "wine", "breast_cancer", "digits"
N_ROWS = 300  # all pairs of which have a stated error


def hybrids(widths=(256,), seeds=8, sets=SETS):
    """Stated error of hybrids and of their parts, and averages on them.

    First the median over pairs of 300 standardised rows of the stated error over the
    kernel, at sigma="scale". Then the accuracy of Nadaraya-Watson with half the columns
    on rows of length 1, a quarter of them for testing: means over random splits.
    """
    tables = []
    for width in widths:
        maps = {n: clone(s).set_params(n_components=width) for n, s in MAPS.items()}
        errors = np.array([_stated(maps, name) for name in sets])
        rows = [
            [name, *(f"{f(e):.2f}" for f in (np.min, gmean, np.max))]
            for name, e in zip(maps, errors.T, strict=True)
        ]
        title = f"Stated error over the kernel, {width} columns, {len(sets)} tables"
        columns = ["map", "least", "geometric mean", "largest"]
        tables.append(Table(title, columns, rows))
        chosen = [name for name in AVERAGED if name in sets]
        if chosen:
            tables.append(_accuracies(width // 2, seeds, chosen))
    return tables


def _stated(maps, name):
    """Return the median stated error of each map over the kernel."""
    X, _ = standardised(name)
    X = X[np.random.default_rng(0).permutation(len(X))[:N_ROWS]]
    errors = []
    for sampler in maps.values():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what fit says of the error is measured
            fitted = clone(sampler).set_params(random_state=0).fit(X)
            ratio = np.sqrt(fitted.kernel_variance(X)) / fitted.exact_kernel(X)
        errors.append(np.median(ratio))
    return errors


def _accuracies(width, seeds, sets):
    """Return the table of accuracies of Nadaraya-Watson, in per cent."""
    rows = []
    for name in tqdm(sets, file=sys.stderr, desc="averages"):
        X, y = load(name)
        for sigma in (1.0, 1.5):
            scores = [_scores(X, y, sigma, width, seed) for seed in range(seeds)]
            cells = (f"{100 * s:.1f}" for s in np.mean(scores, axis=0))
            rows.append([name, f"{sigma}", *cells])
    columns = ["set", "sigma", "exact", *MAPS]
    return Table(
        f"Accuracy of averages, {width} columns, {seeds} splits", columns, rows
    )


def _scores(X, y, sigma, width, seed):
    parts = train_test_split(X, y, test_size=0.25, random_state=seed, stratify=y)
    options = {"n_components": width, "random_state": seed}
    samplers = [clone(sampler).set_params(**options) for sampler in MAPS.values()]
    models = [
        crt.NadarayaWatsonClassifier(kernel, sigma=sigma)
        for kernel in ("gaussian", *samplers)
    ]
    with warnings.catch_warnings():  # of rows whose scores are all negative
        warnings.simplefilter("ignore")
        return [
            make_pipeline(StandardScaler(), Normalizer(), model)
            .fit(parts[0], parts[2])
            .score(parts[1], parts[3])
            for model in models
        ]
