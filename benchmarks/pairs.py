"""Orthogonal frequencies or antithetic pairs: python -m benchmarks.pairs.

OPRF and its dense form with each of the two couplings, at equal columns and
sigma="scale", on ten sets: the relative error of the kernel, and the accuracy of
Nadaraya-Watson and of ridge regression on the features, over seeds that choose rows,
split and frequencies, the same for all maps. Last the time of transform.
"""

import argparse
import sys
import time

import numpy as np
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import sklearn_crt as crt

from .cases import Case, gamma_of, make_rows
from .positive_maps import SETS, load
from .tables import Table, report
from .timing import header, interleave

MAPS = {
    "OPRF": crt.OPRFSampler(),
    "OPRF, antithetic": crt.OPRFSampler(coupling="antithetic"),
    "dense": crt.DERFSampler(),
    "dense, antithetic": crt.DERFSampler(coupling="antithetic"),
}
PAIRS = [("OPRF", "OPRF, antithetic"), ("dense", "dense, antithetic")]
BUNCHES = {"breast cancer": load_breast_cancer, "digits": load_digits}
TIMED = [
    Case(20000, d, m, dtype)
    for d, m in ((16, 256), (16, 1024), (256, 1024))
    for dtype in ("float64", "float32")
]
MAX_ROWS = 4000


def rows_of(name):
    """Return standardised rows and their classes."""
    if name not in BUNCHES:
        return load(name)
    X, y = BUNCHES[name](return_X_y=True)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def kernel_errors(X, y, maps, n_seeds):
    """Return the relative errors of the kernel, (n_maps, n_seeds)."""
    return crt.compare_samplers(X, maps, y=y, n_draws=n_seeds, random_state=0).errors


def accuracies(X, y, maps, n_seeds, model_of):
    """Return accuracies on a held-out third in per cent, (n_maps, n_seeds)."""
    scores = np.empty((len(maps), n_seeds))
    for seed in range(n_seeds):
        keep = np.random.default_rng(seed).permutation(len(X))[:MAX_ROWS]
        parts = train_test_split(X[keep], y[keep], test_size=1 / 3, random_state=seed)
        for i, sampler in enumerate(maps.values()):
            model = model_of(clone(sampler).set_params(random_state=seed))
            model.fit(parts[0], parts[2])
            scores[i, seed] = 100 * model.score(parts[1], parts[3])
    return scores


def ridge(sampler):
    """Return ridge regression on features of one size."""
    return make_pipeline(sampler, StandardScaler(), RidgeClassifier())


METRICS = {
    "Relative error of the kernel": kernel_errors,
    "Accuracy of Nadaraya-Watson, per cent": (
        lambda *args: accuracies(*args, crt.NadarayaWatsonClassifier)
    ),
    "Accuracy of ridge regression, per cent": lambda *args: accuracies(*args, ridge),
}


def summarise(title, results, is_error):
    """Return the table of means, and the gain of pairs with its standard error."""
    names, cell = list(MAPS), "{:.3f}" if is_error else "{:.1f}"
    means = {name: values.mean(axis=1) for name, values in results.items()}
    rows = [[name, *map(cell.format, mean)] for name, mean in means.items()]
    table = np.array(list(means.values()))
    whole = gmean(table) if is_error else table.mean(axis=0)
    rows.append(["geometric mean" if is_error else "mean", *map(cell.format, whole)])
    gains = dict.fromkeys(names, "")
    for before, after in PAIRS:
        one, other = table[:, names.index(before)], table[:, names.index(after)]
        change = np.log(other / one) if is_error else other - one
        mean, error = change.mean(), change.std(ddof=1) / np.sqrt(len(change))
        gains[after] = (
            f"{np.exp(mean):.2f} x/ {np.exp(error):.2f}"
            if is_error
            else f"{mean:+.1f} +- {error:.1f}"
        )
    rows.append(["pairs over orthogonal" if is_error else "gain", *gains.values()])
    return Table(title, ["set", *names], rows)


def transforms(case):
    """Return transform of each map."""
    X, _ = make_rows(case)
    options = {"n_components": case.n_components, "n_jobs": 1, "random_state": 0}
    options["sigma"] = float(np.sqrt(2 * gamma_of(X)))
    fitted = {name: clone(s).set_params(**options).fit(X) for name, s in MAPS.items()}
    return {name: lambda s=s: s.transform(X) for name, s in fitted.items()}


def times(repeats):
    """Return the table of milliseconds of transform."""
    rows = []
    for case in tqdm(TIMED, file=sys.stderr, desc="transform"):
        seconds = interleave(transforms(case), repeats, time.process_time)
        cells = [
            f"{1e3 * seconds[name]:.0f} ({seconds[pair[0]] / seconds[name]:.2f})"
            for pair in PAIRS
            for name in pair
        ]
        rows.append([str(case), *cells])
    title = "Transform: milliseconds (times faster than orthogonal)"
    return Table(title, ["rows to columns", *MAPS], rows)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--n-components", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--n-seeds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    options = parser.parse_args()
    tables, sets = [], {name: rows_of(name) for name in [*SETS, *BUNCHES]}
    with threadpool_limits(1, user_api="blas"):
        for width in options.n_components:
            maps = {n: clone(s).set_params(n_components=width) for n, s in MAPS.items()}
            for metric, measure in METRICS.items():
                progress = tqdm(sets.items(), file=sys.stderr, desc=metric)
                results = {n: measure(*s, maps, options.n_seeds) for n, s in progress}
                title = f"{metric}, {width} columns, {options.n_seeds} seeds"
                tables.append(summarise(title, results, measure is kernel_errors))
        tables.append(times(options.repeats))
    command = "python -m benchmarks.pairs " + " ".join(sys.argv[1:])
    facts = header(1, options.repeats, time.process_time)
    report(tables, facts, command.strip(), "pairs.inc" if options.write else None)


if __name__ == "__main__":
    main()
