"""Nadaraya-Watson against its peers: python -m benchmarks.compare_nadaraya_watson.

Exact: 18,000 rows of 16 columns in 26 classes, 2,000 queries, float32, against one
KernelDensity a class and KNeighborsClassifier with all neighbours; all three give the
same probabilities. With features: fit and predict at 100,000 and 1,000,000 rows, and
against the exact estimator. One process, medians of interleaved repetitions.
"""

import argparse
import sys
import time
import tracemalloc

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import gen_batches
from tqdm import tqdm

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, TrigRBFSampler

from .cases import DensityClassifier
from .tables import Table, report
from .timing import header, interleave

SIGMA = 1.0


def make_classes(n_rows, n_classes=26, n_features=16, dtype=np.float32):
    """Return rows around one centre a class, and their labels."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n_classes, n_features), dtype=dtype)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.standard_normal((n_rows, n_features), dtype=dtype)
    return X + centres[y], y


def gaussian(distances):
    """Return the weights of neighbours at these distances."""
    return np.exp(-0.5 * np.square(SIGMA * distances))


def compare_exact(repeats, clock):
    """Return the table of the exact estimators."""
    X, y = make_classes(20000)
    train, queries = slice(18000), slice(18000, None)
    classifiers = {
        "NadarayaWatsonClassifier": NadarayaWatsonClassifier("exact", sigma=SIGMA),
        "KernelDensity a class": DensityClassifier(1 / SIGMA),
        "KNeighborsClassifier": KNeighborsClassifier(18000, weights=gaussian),
    }
    fitted = {n: c.fit(X[train], y[train]) for n, c in classifiers.items()}
    times = interleave(
        {n: lambda c=c: c.predict_proba(X[queries]) for n, c in fitted.items()},
        repeats,
        clock,
    )
    name, *_ = classifiers
    probabilities = fitted[name].predict_proba(X[queries])
    rows = []
    for other, classifier in fitted.items():
        difference = abs(classifier.predict_proba(X[queries]) - probabilities).max()
        ratio = times[other] / times[name]
        rows.append(
            [other, f"{times[other]:.3g} s", f"{ratio:.1f}", f"{difference:.0e}"]
        )
    columns = ["exact estimator", "predict_proba", "ratio", "largest difference"]
    return Table("18,000 rows, 2,000 queries, 26 classes, float32", columns, rows)


def peak_bytes(function):
    """Return the largest memory that a call holds beyond what there was."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def fit_batches(model, X, y):
    """Fit in batches of 50,000 rows."""
    model = clone(model)
    for rows in gen_batches(len(y), 50_000):
        model.partial_fit(X[rows], y[rows], classes=range(26))


def compare_features(repeats, clock, bar):
    """Return the table of the estimators on 256 features, up to 10^6 rows."""
    X, y = make_classes(10**6)
    queries, _ = make_classes(10000)
    rows, exact = [], NadarayaWatsonClassifier("exact", sigma=SIGMA)
    start = clock()
    exact.fit(X, y).predict(queries[:1000])  # a tenth: it is linear in the queries
    seconds_exact = 10 * (clock() - start)
    bar.update()
    for cls in (OPRFSampler, TrigRBFSampler):
        sampler = cls(sigma=SIGMA, n_components=256, random_state=0)
        model = NadarayaWatsonClassifier(sampler)
        fits = {n: lambda n=n, m=model: m.fit(X[:n], y[:n]) for n in (10**5, 10**6)}
        few, many = interleave(fits, repeats, clock).values()
        batches = [lambda n=n, m=model: fit_batches(m, X[:n], y[:n]) for n in fits]
        peaks = [f"{peak_bytes(fit) / 2**20:.0f} MiB" for fit in batches]
        predict = {"predict": lambda m=model: m.predict(queries)}
        (seconds,) = interleave(predict, repeats, clock).values()
        rows.append(
            [cls.__name__, f"{few:.3g} s", f"{many:.3g} s", f"{many / few:.1f}"]
            + [*peaks, f"{seconds:.3g} s", f"{seconds_exact / seconds:.0f}"]
        )
        bar.update()
    columns = ["features of", "fit 10^5", "fit 10^6", "ratio"]
    columns += ["memory of batches, 10^5", "and 10^6"]
    columns += ["predict 10,000", "times faster than exact"]
    title = "10^6 rows of 16 columns, 256 features, 26 classes, float32"
    return Table(title, columns, rows)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare_nadaraya_watson")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    args = parser.parse_args()
    clock = time.perf_counter
    with tqdm(total=4, file=sys.stderr) as bar:
        exact = compare_exact(args.repeats, clock)
        bar.update()
        features = compare_features(args.repeats, clock, bar)
    facts = header("as by default", args.repeats, clock)
    command = "python -m benchmarks.compare_nadaraya_watson " + " ".join(sys.argv[1:])
    page = "nadaraya_watson.inc" if args.write else None
    report([exact, features], facts, command.strip(), page)


if __name__ == "__main__":
    main()
