"""Ridge on random features beside Nystroem and boosting, on three tables of UCI.

Run as ``python -m benchmarks.linear_models``. A fifth of the training rows chooses
sigma, of 1/4, 1 and 4 times sqrt(2 / d), the "scale" of standardised columns; all maps
have the same choice. Scores on the other rows and processor seconds of one fit and
predict at the chosen sigma, means over the splits.
"""

import argparse
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
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import LaplacianSampler, MaternSampler, TrigRBFSampler
from sklearn_crt.datasets import fetch_uci

from .tables import Table, report
from .timing import header

TABLES = {"letter": 15000, "chess": 20000, "sgemm": 40000}  # training rows
FACTORS = 0.25, 1.0, 4.0
MAPS = {
    "RBFSampler": RBFSampler(),
    "Nystroem": Nystroem(),
    "TrigRBFSampler": TrigRBFSampler(),
    "TrigRBFSampler(random_phase=True)": TrigRBFSampler(random_phase=True),
    "MaternSampler": MaternSampler(),
    "LaplacianSampler": LaplacianSampler(),
}


def load(name):
    """Return rows, one-hot where they are categories, the target, and its kind."""
    table = fetch_uci(name, download_if_missing=False)
    X, y = table.data, table.target
    if table.categorical_features:
        X = OneHotEncoder(sparse_output=False).fit_transform(X)
    return (X, np.log(y), True) if name == "sgemm" else (X, y, False)


def with_bandwidth(sampler, sigma):
    """Return a copy with sigma, or for scikit-learn's the gamma of the same kernel."""
    sampler = clone(sampler)
    if isinstance(sampler, RBFSampler | Nystroem):
        return sampler.set_params(gamma=sigma**2 / 2)
    return sampler.set_params(sigma=sigma)


def candidates(n_features, regression, n_components, seed):
    """Return a list of models by name; validation chooses one of each list."""
    linear = Ridge(1e-2) if regression else RidgeClassifier(1e-2)
    models = {"no features": [make_pipeline(StandardScaler(), linear)]}
    for name, sampler in MAPS.items():
        sampler.set_params(n_components=n_components, random_state=seed)
        models[name] = [
            make_pipeline(StandardScaler(), with_bandwidth(sampler, sigma), linear)
            for sigma in np.multiply(FACTORS, (2 / n_features) ** 0.5)
        ]
    boosting = (
        HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
    )
    return models | {"HistGradientBoosting (no ridge)": [boosting(random_state=seed)]}


def run(models, train, test):
    """Return score and seconds of the model that validation chooses."""
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


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.linear_models", description=__doc__
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[250, 1000])
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument(
        "--write", action="store_true", help="write the table into the documentation"
    )
    args = parser.parse_args()
    cells = {}
    total = len(args.tables) * args.splits * len(args.widths)
    progress = tqdm(total=total, file=sys.stderr)
    for name in args.tables:
        X, y, regression = load(name)
        for split in range(args.splits):
            *X_parts, y_train, y_test = train_test_split(
                X, y, train_size=TABLES[name], test_size=5000, random_state=split
            )
            train, test = (X_parts[0], y_train), (X_parts[1], y_test)
            for width in args.widths:
                todo = candidates(X.shape[1], regression, width, split)
                for model, choices in todo.items():
                    mapped = len(choices) > 1
                    label = f"{model}, {width} columns" if mapped else model
                    if mapped or width == args.widths[0]:
                        with threadpool_limits(1):
                            result = run(choices, train, test)
                        cells.setdefault(label, {}).setdefault(name, []).append(result)
                progress.update()
    rows = [
        [label, *("{:.3f} ({:.1f} s)".format(*np.mean(r[n], axis=0)) for n in r)]
        for label, r in sorted(cells.items(), key=lambda item: "columns" in item[0])
    ]
    kinds = {"sgemm": "R2 of log time"}
    titles = [f"{name}, {kinds.get(name, 'accuracy')}" for name in args.tables]
    title = "test score (processor seconds of fit and predict)"
    table = Table(title, ["in front of ridge", *titles], rows)
    command = "python -m benchmarks.linear_models " + " ".join(sys.argv[1:])
    facts = header(1)
    page = "linear_models.inc" if args.write else None
    report([table], facts, command.strip(), page)


if __name__ == "__main__":
    main()
