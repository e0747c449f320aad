"""Kernel averages to a tolerance: python -m benchmarks.tolerance.

Speed: 10^6 rows of 16 and 64 columns, blends of scikit-learn's digits of one class,
letter of UCI, and normal rows under a wide kernel, of which nothing can be skipped.
2000 queries in float32, ``tol=0.01`` against the exact sum and KNeighborsClassifier
with 100 neighbours, all with the threads that the environment allows.

Error (``--error``): total variation between the answers and the exact ones on ten
tables of UCI, at five bandwidths about the one of least leave-one-out error. Clusters
are made of small tables too there, and visited however many they are.

A UCI table that is not in SKLEARN_CRT_DATA is left out.
"""

import argparse
import sys
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info
from tqdm import tqdm

from sklearn_crt import NadarayaWatsonClassifier
from sklearn_crt.nadaraya_watson import _clustered, _tolerance

from .averages import load
from .tables import Table, report
from .timing import header, interleave

TOL, N_QUERIES, N_NEIGHBORS = 0.01, 2000, 100
TABLES = ["abalone", "banknote", "car", "chess", "cmc"]
TABLES += ["letter", "nursery", "sgemm", "wifi", "yeast"]
MULTIPLES = 2.0 ** np.arange(-2, 3)  # of sigma="auto"


def blends(n_rows, n_features):
    """Return rows between two digits of one class, and others to ask for."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    made = []
    for index, size in ((order[:1400], n_rows), (order[1400:], N_QUERIES)):
        index = index[np.argsort(y[index], kind="stable")]
        first = rng.integers(index.size, size=size)
        starts = np.searchsorted(y[index], np.arange(11))
        label = y[index][first]
        width = starts[label + 1] - starts[label]
        second = starts[label] + (rng.random(size) * width).astype(int)
        share = rng.random((size, 1), dtype=np.float32)
        rows, table = np.empty((size, 64), np.float32), X[index].astype(np.float32)
        for start in range(0, size, 10_000):
            part = slice(start, start + 10_000)
            a, b = table[first[part]], table[second[part]]
            rows[part] = a + share[part] * (b - a)
            rows[part] += rng.standard_normal(a.shape, dtype=np.float32)
        made.append((rows, label))
    (rows, labels), (queries, truth) = made
    if n_features < 64:
        pca = PCA(n_features, random_state=0).fit(rows[:20_000])
        rows, queries = pca.transform(rows), pca.transform(queries)
    return rows, labels, queries, truth


def letters():
    """Return the table of letters, standardised; None where there is none."""
    loaded = load("letter", None)
    if loaded is None:
        return None
    X, y = loaded
    parts = train_test_split(X, y, test_size=N_QUERIES, random_state=0)
    scaler = StandardScaler().fit(parts[0])
    rows, queries = (scaler.transform(Z).astype(np.float32) for Z in parts[:2])
    return rows, parts[2], queries, parts[3]


def noise(n_rows):
    """Return normal rows of 20 columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows + N_QUERIES, 20), dtype=np.float32)
    y = rng.integers(0, 5, size=len(X))
    return X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:]


def cases(n_rows):
    """Return name, rows and sigma; None is that of least leave-one-out error."""
    yield f"blends, {n_rows} x 64", lambda: blends(n_rows, 64), None
    yield f"blends, {n_rows} x 16", lambda: blends(n_rows, 16), None
    yield "letter, 18000 x 16", letters, None
    yield "normal, 20000 x 20", lambda: noise(20_000), 0.1
    yield "normal, 200000 x 20", lambda: noise(200_000), 0.1


def total_variation(found, exact):
    """Return one number a query."""
    return 0.5 * np.abs(found.astype(np.float64) - exact).sum(axis=1)


def speed(n_rows, repeats, clock, some):
    """Return the table of times, of the cases whose names hold a text."""
    table = []
    chosen = [case for case in cases(n_rows) if some in case[0]]
    for name, make, sigma in tqdm(chosen, file=sys.stderr):
        made = make()
        if made is None:
            continue
        X, y, queries, truth = made
        exact = NadarayaWatsonClassifier("exact", sigma=sigma or "auto").fit(X, y)
        options, fits = {"sigma": exact.sigma_, "tol": TOL}, []
        models = {"exact": exact}
        for bound in ("estimated", "certified"):
            start = clock()
            model = NadarayaWatsonClassifier("exact", bound=bound, **options)
            models[bound] = model.fit(X, y)
            fits.append(clock() - start)
        models["neighbours"] = KNeighborsClassifier(N_NEIGHBORS, algorithm="brute")
        models["neighbours"].fit(X, y)
        answers = {name: [] for name in models}

        def ask(name, models=models, queries=queries, answers=answers):
            answers[name] = models[name].predict_proba(queries)

        times = interleave({n: lambda n=n: ask(n) for n in models}, repeats, clock)
        gaps = [
            total_variation(answers[bound], answers["exact"])
            for bound in ("estimated", "certified")
        ]
        right = [
            100 * np.mean(exact.classes_[answers[n].argmax(axis=1)] == truth)
            for n in ("exact", "estimated", "neighbours")
        ]
        row = [name, f"{exact.sigma_:.3g}", f"{fits[0]:.1f} s, {fits[1]:.1f} s"]
        row.append(f"{times['exact']:.3g} s")
        for other in ("estimated", "certified"):
            ratio = times["exact"] / times[other]
            row.append(f"{times[other]:.3g} s ({ratio:.2g})")
        ratio = times["neighbours"] / times["estimated"]
        row.append(f"{times['neighbours']:.3g} s ({ratio:.2g})")
        row.append(f"{gaps[0].mean():.4f}, {gaps[0].max():.3f}")
        row.append(f"{gaps[1].mean():.5f}, {gaps[1].max():.4f}")
        row.append(", ".join(f"{value:.1f}" for value in right))
        table.append(row)
        print(row, file=sys.stderr, flush=True)
    columns = ["rows", "sigma", "fit: estimated, certified", "exact sum"]
    columns += ["estimated (times faster)", "certified (times faster)"]
    columns += ["100 neighbours (of the time of estimated)"]
    columns += ["total variation, estimated: mean, largest", "certified"]
    columns += ["accuracy: exact, estimated, neighbours"]
    return Table(f"tol={TOL}, {N_QUERIES} queries, float32", columns, table)


def errors():
    """Return the table of errors: ten tables, five bandwidths."""
    _clustered._LEAST_ROWS, _tolerance._MOST = 500, np.inf
    table = []
    for name in tqdm(TABLES, file=sys.stderr):
        loaded = load(name, 20_000)
        if loaded is None:
            continue
        X, y = loaded
        if y.dtype.kind == "f":  # numbers: ten classes of about equal size
            y = np.digitize(y, np.quantile(y, np.arange(0.1, 1, 0.1)))
        X = StandardScaler().fit_transform(X)
        parts = train_test_split(X, y, test_size=0.3, random_state=0)
        rows, queries, labels = parts[0], parts[1][:N_QUERIES], parts[2]
        best = NadarayaWatsonClassifier("exact").fit(rows, labels).sigma_
        for multiple in MULTIPLES:
            sigma = best * multiple
            exact = NadarayaWatsonClassifier("exact", sigma=sigma).fit(rows, labels)
            expected, row = exact.predict_proba(queries), [name, f"{multiple:g}"]
            for bound in ("estimated", "certified"):
                options = {"sigma": sigma, "tol": TOL, "bound": bound}
                model = NadarayaWatsonClassifier("exact", **options).fit(rows, labels)
                gap = total_variation(model.predict_proba(queries), expected)
                if bound == "estimated":
                    row.append(f"{gap.mean():.4f}")
                    row.append(f"{np.quantile(gap, 0.95):.4f}")
                row.append(f"{gap.max():.4f}")
            table.append(row)
    columns = ["table", "sigma over best", "estimated: mean", "95 %", "largest"]
    columns.append("certified: largest")
    return Table(f"Total variation from the exact answer, tol={TOL}", columns, table)


def main():
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.tolerance", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose names hold this text")
    parser.add_argument("--error", action="store_true", help="errors, and no times")
    parser.add_argument("--write", action="store_true", help="write the page")
    args = parser.parse_args()
    clock = time.process_time
    if args.error:
        found = errors()
    else:
        found = speed(args.rows, args.repeats, clock, args.only)
    command = "python -m benchmarks.tolerance " + " ".join(sys.argv[1:])
    page = "tolerance_error.inc" if args.error else "tolerance.inc"
    threads = max(pool["num_threads"] for pool in threadpool_info())
    facts = header(threads, None if args.error else args.repeats, clock)
    report([found], facts, command.strip(), page if args.write else None)


if __name__ == "__main__":
    main()
