"""Groups of cases of compare.py beside its grid of sizes.

A group is a function of ``quick`` (small sizes, to see that it runs) and of the number
of repetitions, and returns tables; its docstring goes above the first of them.
"""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial
from itertools import product
from timeit import timeit

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sklearn_crt import (
    NadarayaWatsonClassifier,
    RandomFeatureRidge,
    TrigRBFSampler,
)
from sklearn_crt.extend import (
    Frequencies,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
)
from sklearn_crt.tables import TableRegressor

from .cases import (
    BASELINE,
    ONE_ROW_MAPS,
    SPARSE_MAPS,
    TYPES,
    Case,
    fitted_maps,
    five_columns,
    make_rows,
    of_sizes,
)
from .tables import Table, against_baseline, interleave

DENSITIES = 0.002, 0.01, 0.05
N_CALLS = 20  # of a few microseconds, timed together
N_ROWS = 1000  # of products with frequencies


def timed(candidates, repeats, n_threads=1):
    """Return median seconds, with so many threads of BLAS."""
    with threadpool_limits(n_threads, user_api="blas"):
        return interleave(candidates, repeats, clock_of(n_threads))


def clock_of(n_threads):
    """Return the clock: processor time ignores what else runs, but adds threads up."""
    return time.process_time if n_threads == 1 else time.perf_counter


def transforms(maps, X):
    """Return transform of each map, as functions without arguments."""
    return {name: lambda m=m: m.transform(X) for name, m in maps.items()}


def one_row(quick, repeats):
    """Transform and predict for single rows, as in an online service."""
    sizes = [(8, 64)] if quick else [(8, 64), (64, 1024), (256, 1024), (784, 4096)]
    rows, predictions = {}, {}
    for case in of_sizes(sizes, 500):
        X, y = make_rows(case)
        maps = fitted_maps(case, X, ONE_ROW_MAPS)
        models = {n: make_pipeline(m, Ridge()).fit(X, y) for n, m in maps.items()}
        for results, method, estimators in (
            (rows, "transform", maps),
            (predictions, "predict", models),
        ):
            calls = {
                name: partial(
                    timeit, partial(getattr(estimator, method), X[:1]), number=N_CALLS
                )
                for name, estimator in estimators.items()
            }
            seconds = timed(calls, repeats)
            one = Case(1, case.n_features, case.n_components, case.dtype)
            results[one] = {name: t / N_CALLS for name, t in seconds.items()}
    titles = "transformation of one row", "prediction for one row, pipeline with Ridge"
    return [
        against_baseline(title, results, BASELINE, "microseconds")
        for title, results in zip(titles, (rows, predictions), strict=True)
    ]


def small(quick, repeats):
    """Few columns and features, where input validation takes much of the time."""
    sizes = [(8, 64)] if quick else [(8, 64), (8, 128), (16, 64)]
    results = {}
    for case in of_sizes(sizes, 500 if quick else 20000):
        X, _ = make_rows(case)
        maps = fitted_maps(case, X, ONE_ROW_MAPS)
        results[case] = timed(transforms(maps, X), repeats)
    return [against_baseline("transform, few columns", results, BASELINE)]


def sparse_rows(quick, repeats):
    """Sparse rows with 10,000 columns, of which a few are nonzero."""
    sizes = (100, 500, 64) if quick else (2000, 10000, 1024)
    results = {}
    for density in (0.01,) if quick else DENSITIES:
        for dtype in TYPES:
            case = Case(*sizes, dtype)
            X = make_sparse(case, density)
            label = f"{case}, density {density}"
            maps = fitted_maps(case, X, SPARSE_MAPS)
            results[label] = timed(transforms(maps, X), repeats)
    return [against_baseline("transform, sparse rows", results, BASELINE)]


def make_sparse(case, density):
    """Return sparse rows, of which this share is uniform in [0, 1), else 0."""
    shape = case.n_rows, case.n_features
    rng = np.random.default_rng(0)
    X = sparse.random_array(shape, density=density, format="csr", rng=rng)
    return X.astype(case.dtype)


def estimators(quick, repeats):
    """Fits of estimators as constructed, beside what selects its parameters as well.

    Kernel averages of two classes beside five numbers of neighbours in a grid search;
    ridge on random features beside gradient boosting, for targets with noise: of a
    weak signal, for which few features suffice, and of a function of five columns, for
    which they do not. Sizes are those of pickles, for ours also after freeze.
    """
    few, many = (400, 800) if quick else (4000, 100_000)
    X, strong = five_columns(many, 10)
    noise = np.random.default_rng(1).standard_normal(many)
    labels = (X[:few, 0] + X[:few, 1] ** 2 + 0.5 * noise[:few] > 1).astype(int)
    weak = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 2.5 * noise
    neighbours = GridSearchCV(
        KNeighborsClassifier(), {"n_neighbors": [3, 5, 10, 20, 40]}
    )
    boosting, ridge = (
        HistGradientBoostingRegressor(),
        RandomFeatureRidge(random_state=0),
    )
    rows = []
    for name, n_rows, y, ours, other in (
        ("classes", few, labels, NadarayaWatsonClassifier(), neighbours),
        ("weak signal", few, weak, ridge, boosting),
        ("five columns", few, strong, ridge, boosting),
        ("weak signal", many, weak, ridge, boosting),
        ("five columns", many, strong, ridge, boosting),
    ):
        d = 8 if y is labels else 10
        fits = {
            each: partial(model.fit, X[:n_rows, :d], y[:n_rows])
            for each, model in (("ours", ours), ("other", other))
        }
        seconds = timed(fits, repeats if n_rows == few else min(repeats, 3))
        names = [type(model).__name__ for model in (ours, other)]
        rows.append(
            [f"{name}, {n_rows:,} x {d}", *names]
            + [f"{1e3 * seconds[each]:,.0f}" for each in fits]
            + [f"{seconds['other'] / seconds['ours']:.2g}", *sizes_of(ours, other)]
        )
    columns = ["rows", "estimator", "beside it", "ms", "ms beside it", "speed-up"]
    columns += ["MB", "MB frozen", "MB beside it"]
    return [Table("Fits with default parameters", columns, rows)]


def searches(quick, repeats):
    """Ways of selecting sigma and the number of features of ridge regression.

    Ten values of sigma and three numbers of features, five folds, 10 columns, of which
    four matter; R2 on 2,000 other rows.
    """
    n_rows = 400 if quick else 4000
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows + 2000, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3])
    y += 0.3 * rng.standard_normal(len(y))
    sigmas, counts = np.geomspace(0.05, 1.6, 10), [128, 256, 512]
    pipe = make_pipeline(TrigRBFSampler(random_state=0), Ridge())
    sigma, count = (f"trigrbfsampler__{name}" for name in ("sigma", "n_components"))
    grid = {sigma: sigmas, count: counts}
    few = GridSearchCV(pipe, {sigma: sigmas, count: counts[:1]})

    def few_then_many(X, y):
        best = few.fit(X, y).best_params_
        return clone(pipe).set_params(**best | {count: counts[-1]}).fit(X, y)

    def with_memory(X, y):
        with tempfile.TemporaryDirectory() as folder:
            kept = clone(pipe).set_params(memory=folder)
            return GridSearchCV(kept, grid).fit(X, y)

    ridge = RandomFeatureRidge(random_state=0)
    ways = {
        "grid search of a pipeline": GridSearchCV(pipe, grid).fit,
        "the same with memory": with_memory,
        "sigma with 128 features, then 512": few_then_many,
        "RandomFeatureRidge": ridge.fit,
        "RandomFeatureRidge, n_components=512": clone(ridge)
        .set_params(n_components=512)
        .fit,
    }
    train, test = slice(n_rows), slice(n_rows, None)
    scores = {n: f(X[train], y[train]).score(X[test], y[test]) for n, f in ways.items()}
    fits = {name: partial(fit, X[train], y[train]) for name, fit in ways.items()}
    seconds = timed(fits, repeats)
    rows = [[n, f"{seconds[n]:.2f}", f"{scores[n]:.3f}"] for n in ways]
    title = f"Selecting parameters on {n_rows:,} rows"
    return [Table(title, ["way", "seconds", "R²"], rows)]


def waits(quick, repeats):
    """What users wait for beside fits, each line beside what they would use instead.

    The import beside that of scikit-learn's linear models, in a process of its own; a
    fit on Dask beside partial_fit on the same blocks in memory; predictions of models
    for raw tables beside those of ridge.
    """
    rows = [
        imports(repeats),
        dask_fit(quick, min(repeats, 3)),
        table_predictions(quick, min(repeats, 3)),
    ]
    columns = ["what", "beside it", "seconds", "seconds beside it"]
    return [Table("Imports, Dask and predictions, one thread", columns, rows)]


def imports(repeats):
    """Return the line of what an import adds to that of scikit-learn."""
    both = {"ours": "import sklearn.linear_model, sklearn_crt"}
    both["other"] = "import sklearn.linear_model"
    calls = {
        name: partial(subprocess.run, [sys.executable, "-c", statement], check=True)
        for name, statement in both.items()
    }
    seconds = interleave(calls, repeats, seconds_of_children)
    ours, other = seconds["ours"], seconds["other"]
    names = "import sklearn_crt, after scikit-learn", "import sklearn.linear_model"
    return [*names, f"{ours - other:.3f}", f"{other:.2f}"]


def seconds_of_children():
    """Return the processor seconds of the processes that this one has waited for."""
    return os.times().children_user + os.times().children_system


def dask_fit(quick, repeats):
    """Return the line of a fit of ridge on Dask that also selects sigma."""
    import dask
    import dask.array as da

    from sklearn_crt import dask as crt_dask

    n_rows, n_blocks = (4000, 4) if quick else (200_000, 20)
    X, y = five_columns(n_rows, 20)
    blocks = np.split(np.arange(n_rows), n_blocks)
    arrays = [da.from_array(each, chunks=len(blocks[0])) for each in (X, y)]
    model = RandomFeatureRidge(random_state=0)

    def in_memory():
        fitted = clone(model)
        for rows in blocks:
            fitted.partial_fit(X[rows], y[rows])
        fitted.predict(X[:1])  # sums are solved when they are first needed

    with dask.config.set(scheduler="synchronous"):
        seconds = timed(
            {"ours": lambda: crt_dask.fit(model, *arrays), "other": in_memory}, repeats
        )
    names = f"dask.fit of ridge, {n_rows:,} x 20", "partial_fit of the same blocks"
    return [*names, *(f"{each:.2f}" for each in seconds.values())]


def table_predictions(quick, repeats):
    """Return the line of predictions for 10,000 rows after a fit on many rows."""
    n_rows, n_queries = (2000, 200) if quick else (200_000, 10_000)
    X, y = five_columns(n_rows + n_queries, 20)
    models = {"ours": TableRegressor(random_state=0)}
    models["other"] = RandomFeatureRidge(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # which recommends ridge for so many rows
        fitted = {n: m.fit(X[:n_rows], y[:n_rows]) for n, m in models.items()}
    calls = {n: partial(m.predict, X[n_rows:]) for n, m in fitted.items()}
    seconds = timed(calls, repeats)
    names = f"{n_queries:,} predictions of TableRegressor, fitted to {n_rows:,} rows"
    return [names, "RandomFeatureRidge", *(f"{each:.2f}" for each in seconds.values())]


def sizes_of(ours, other):
    """Return the megabytes of pickles of both, and of ours after freeze."""
    objects = ours, copy.copy(ours).freeze(), other
    return [f"{len(pickle.dumps(each)) / 1e6:.2g}" for each in objects]


def couplings(quick, repeats):
    """Products of rows with structured frequencies, beside dense products."""
    sizes = [(d, 1024) for d in (64, 256, 300, 512, 1024, 4096)]
    sizes += [(d, 4096) for d in (512, 1024, 4096)]
    if quick:
        sizes = [(64, 64), (512, 512)]
    rows = []
    for (d, m), dtype in product(sizes, TYPES):
        seconds = timed(products(d, m, dtype), repeats)
        dense = seconds["dense"]
        cells = [
            f"{1e3 * seconds[n]:.3g} ({dense / seconds[n]:.2f})" for n in COUPLINGS
        ]
        rows.append([f"{d} to {m}, {dtype}", f"{1e3 * dense:.3g}", *cells])
    title = f"Projections of {N_ROWS} rows: milliseconds (speed-up over dense)"
    return [
        Table(title, ["input columns, frequencies, dtype", "dense", *COUPLINGS], rows)
    ]


class FastOrthogonal(StructuredOrthogonal):
    """Never written out, however few the columns or frequencies."""

    _dense_up_to = 0


class FastSimplex(StructuredSimplex):
    """Never written out, however few the columns or frequencies."""

    _dense_up_to = 0


COUPLINGS = {
    "structured-orthogonal": FastOrthogonal(),
    "structured-simplex": FastSimplex(),
}


def products(d, m, dtype):
    """Return the products of rows with frequencies, dense and by fast transforms."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, d)).astype(dtype)
    projections = {"dense": Frequencies(rng.standard_normal((d, m)))}
    for name, coupling in COUPLINGS.items():
        projections[name] = coupling.draw(chi_law, m, d, rng)
    moved = {name: p.to(X) for name, p in projections.items()}
    return {name: lambda p=p: p.apply(X) for name, p in moved.items()}
