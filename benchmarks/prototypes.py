"""Prototypes beside features and the exact kernel: python -m benchmarks.prototypes.

Accuracy of Nadaraya-Watson classifiers on eight UCI sets, in percent: categories
one-hot, columns standardised by the training rows, random splits of 90 % training, 5 %
validation and 5 % test rows. The validation rows choose sigma of the maps, of the ten
values numpy.logspace(-2, 2, 10) of the papers; "exact" and "prototypes" choose their
own from the training rows. Means over the splits; the standard error of the mean over
the sets is that of the splits.
"""

import argparse
import sys
import time
import warnings
from functools import partial

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tqdm import tqdm

import sklearn_crt as crt
from sklearn_crt import NadarayaWatsonClassifier
from sklearn_crt.datasets import fetch_uci

from .positive_maps import SETS
from .tables import Table, report
from .timing import header

SIGMAS = np.logspace(-2, 2, 10)
MAPS = {
    "OPRF": crt.OPRFSampler(),
    "dense, antithetic": crt.DERFSampler(coupling="antithetic"),
    "anchored": crt.AnchoredRBFSampler(),
}
EXACT = {
    "exact": NadarayaWatsonClassifier("exact"),
    "exact, learned sigma": NadarayaWatsonClassifier("exact", sigma="learned"),
}
PROTOTYPES = {
    "prototypes": NadarayaWatsonClassifier("prototypes"),
    "prototypes, clouds": NadarayaWatsonClassifier("prototypes", clouds=True),
    "prototypes, learned sigma": NadarayaWatsonClassifier(
        "prototypes", sigma="learned"
    ),
}


def splits(name, n_splits):
    """Yield the rows of a split and their labels: training, validation, test."""
    bunch = fetch_uci(name, download_if_missing=False)
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), bunch.categorical_features),
        remainder="passthrough",
    )
    X, y = columns.fit_transform(bunch.data).astype(np.float64), bunch.target
    for seed in range(n_splits):
        order = np.random.default_rng(seed).permutation(len(y))
        parts = np.split(order, [int(0.9 * len(y)), int(0.95 * len(y))])
        scale = StandardScaler().fit(X[parts[0]])
        yield seed, [(scale.transform(X[part]), y[part]) for part in parts]


def chosen(sampler, train, validation):
    """Return the classifier of best sigma on the validation rows."""
    models = [
        NadarayaWatsonClassifier(clone(sampler).set_params(sigma=sigma)).fit(*train)
        for sigma in SIGMAS
    ]
    return max(models, key=lambda model: model.score(*validation))


def measure(name, n_splits, width, methods):
    """Return accuracies and processor seconds of each method, one a split."""
    results = {}
    for seed, (train, validation, test) in splits(name, n_splits):
        todo = {}
        for label, sampler in MAPS.items():
            sampler = clone(sampler).set_params(n_components=width, random_state=seed)
            todo[label] = partial(chosen, sampler, train, validation)
        for label, model in (EXACT | PROTOTYPES).items():
            model = clone(model).set_params(random_state=seed)
            if label in PROTOTYPES:
                model.set_params(n_prototypes=width)
            todo[label] = partial(model.fit, *train)
        for label in methods:
            fit, start = todo[label], time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                accuracy = 100 * fit().score(*test)
            seconds = time.process_time() - start
            results.setdefault(label, []).append((accuracy, seconds))
    return {label: np.array(values) for label, values in results.items()}


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.prototypes", description=__doc__.split("\n\n")[1]
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[128])
    parser.add_argument("--splits", type=int, default=5)
    methods = [*MAPS, *EXACT, *PROTOTYPES]
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    options = parser.parse_args()
    tables = []
    for width in options.widths:
        found = [
            measure(name, options.splits, width, options.methods)
            for name in tqdm(options.sets, file=sys.stderr)
        ]
        rows = []
        for label in found[0]:
            values = np.stack([result[label] for result in found])
            accuracy, seconds = values.mean(axis=1).T
            error = values[:, :, 0].std(axis=1, ddof=1) / np.sqrt(options.splits)
            total = f"{accuracy.mean():.1f} ({np.linalg.norm(error) / len(error):.1f})"
            cells = [f"{value:.1f}" for value in accuracy]
            rows.append([label, *cells, total, f"{seconds.mean():.1f}"])
        title = f"Accuracy in percent, {width} columns or prototypes"
        columns = ["method", *options.sets, "mean", "seconds"]
        tables.append(Table(title, columns, rows))
    command = " ".join(["python -m benchmarks.prototypes", *sys.argv[1:]])
    report(tables, header(), command, "prototypes.inc" if options.write else None)


if __name__ == "__main__":
    main()
