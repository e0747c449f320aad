"""Pairs of sines and cosines beside single cosines, by the number of columns.

Run as ``python -m benchmarks.few_columns``. Ridge on the features of three maps of the
Gaussian kernel, on tables of UCI, standardised, in one-hot columns where they are
categories. Pairs estimate the kernel with less error at equal columns, and have half as
many frequencies: the table shows which matters to a linear model. A fifth of the
training rows chooses sigma for each map, of 1/4, 1 and 4 times sqrt(2 / d). Errors on
5000 other rows, or those that are left, mean and standard deviation over splits and
draws.
"""

import argparse
import sys

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import TrigRBFSampler

from .linear_models import FACTORS, load, with_bandwidth
from .tables import Table, report
from .timing import header

TABLES = ["sgemm", "letter", "chess", "nursery"]
N_TRAIN, N_TEST = 8000, 5000
MAPS = {
    "RBFSampler": RBFSampler(),
    "TrigRBFSampler": TrigRBFSampler(),
    "TrigRBFSampler(random_phase=True)": TrigRBFSampler(random_phase=True),
}


def error(model, regression, rows, y):
    """Return the root mean squared error, or the share of wrong labels."""
    if regression:
        return root_mean_squared_error(y, model.predict(rows))
    return 1 - model.score(rows, y)


def errors(X, y, regression, widths, seed):
    """Return the test error by map and width."""
    n_test = min(N_TEST, len(X) // 4)
    n_train = min(N_TRAIN, len(X) - n_test)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_train, test_size=n_test, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    kept, held_out = train_test_split(np.arange(n_train), test_size=0.2, random_state=0)
    linear = Ridge(1e-2) if regression else RidgeClassifier(1e-2)
    found = {}
    for name, sampler in MAPS.items():
        for width in widths:
            sampler.set_params(n_components=width, random_state=seed)
            models = [
                make_pipeline(with_bandwidth(sampler, sigma), linear)
                for sigma in np.multiply(FACTORS, (2 / X.shape[1]) ** 0.5)
            ]
            validation = [
                error(m.fit(X[kept], y[kept]), regression, X[held_out], y[held_out])
                for m in models
            ]
            best = models[int(np.argmin(validation))].fit(X, y)
            found[name, width] = error(best, regression, X_test, y_test)
    return found


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.few_columns", description=__doc__)
    widths = [32, 64, 128, 256, 512, 1024]
    parser.add_argument("--widths", type=int, nargs="+", default=widths)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument(
        "--write", action="store_true", help="write the tables into the documentation"
    )
    args = parser.parse_args()
    rows = []
    progress = tqdm(total=len(args.tables) * args.seeds, file=sys.stderr)
    for name in args.tables:
        X, y, regression = load(name)
        found = []
        for seed in range(args.seeds):
            with threadpool_limits(1):
                found.append(errors(X, y, regression, args.widths, seed))
            progress.update()
        what = "RMSE" if regression else "error rate"
        for sampler in MAPS:
            values = np.array([[run[sampler, w] for w in args.widths] for run in found])
            cells = zip(values.mean(axis=0), values.std(axis=0), strict=True)
            rows.append(
                [
                    f"{name}, {what}: {sampler}",
                    *(f"{m:.3f} ± {s:.3f}" for m, s in cells),
                ]
            )
    title = "test error by number of columns, ± standard deviation"
    table = Table(title, ["in front of ridge", *map(str, args.widths)], rows)
    command = "python -m benchmarks.few_columns " + " ".join(sys.argv[1:])
    page = "few_columns.inc" if args.write else None
    report([table], header(1), command.strip(), page)


if __name__ == "__main__":
    main()
