"""Groups of cases of compare.py beside its grid of sizes.

A group is a function of ``quick`` (small sizes, to see that it runs) and of the number
of repetitions, and returns tables; its docstring goes above the first of them.
"""

import os
import pickle
import subprocess
import sys
import time
import warnings

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from threadpoolctl import ThreadpoolController, threadpool_limits

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import (
    Frequencies,
    Orthogonal,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
)
from sklearn_crt.samplers import (
    GeometricSampler,
    HybridSampler,
    PoissonSampler,
    PositiveRBFSampler,
    clustered_hybrid,
)

from .cases import (
    BASELINE,
    TYPES,
    Case,
    gamma_of,
    make_maps,
    make_rooflines,
    make_rows,
    of_sizes,
)
from .tables import ROOT, Table, against_baseline, avx512_names, interleave

OURS = BASELINE, "TrigRBFSampler", "PositiveRBFSampler", "OPRFSampler", "GERFSampler"
DENSITIES = 0.002, 0.01, 0.05
N_CALLS = 20  # of a few microseconds, timed together
N_ROWS = 1000  # of products with frequencies
N_BLOCKS, BLOCK = 100, 256
CHILD = """
import importlib, os, pickle, sys
n_processors = int(sys.argv[1])
if n_processors:  # before NumPy is imported, so BLAS starts its threads there too
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_processors])
module, name, arguments = pickle.loads(sys.stdin.buffer.read())
result = getattr(importlib.import_module(module), name)(*arguments)
sys.stdout.buffer.write(pickle.dumps(result))
"""


def in_child(function, *arguments, environment=None, n_processors=0):
    """Call a function of a module in a process with other surroundings.

    What NumPy dispatches to and how many processors BLAS sees are settled when they are
    imported. ``n_processors`` 0 are those of this process; others on Linux only.
    """
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(n_processors)],
        input=pickle.dumps((function.__module__, function.__name__, arguments)),
        stdout=subprocess.PIPE,
        env=os.environ | (environment or {}),
        cwd=ROOT,
        check=True,
    )
    return pickle.loads(child.stdout)


def chosen(case, X, *, names=OURS, n_jobs=1):
    """Return some of the maps, and OPRF with antithetic pairs, fitted."""
    gamma = gamma_of(X)
    maps = make_maps(case, gamma, n_jobs)
    maps = {name: sampler for name, sampler in maps.items() if name in names}
    maps["OPRF, antithetic"] = own(OPRFSampler, case, gamma, coupling="antithetic")
    return {name: sampler.fit(X) for name, sampler in maps.items()}


def own(cls, case, gamma, **params):
    """Return a sampler of ours for a case, of the kernel of this gamma."""
    common = {"n_components": case.n_components, "random_state": 0, "n_jobs": 1}
    return cls(**common | params, sigma=float(np.sqrt(2 * gamma)))


def timed(candidates, repeats):
    """Return median processor seconds, with one thread of BLAS."""
    with threadpool_limits(1, user_api="blas"):
        return interleave(candidates, repeats, time.process_time)


def transforms(maps, X):
    """Return transform of each map, as functions without arguments."""
    return {name: lambda m=m: m.transform(X) for name, m in maps.items()}


def one_row(quick, repeats):
    """Single rows, as in a service does: microseconds of transform and of predict."""
    sizes = [(8, 64)] if quick else [(8, 64), (64, 1024), (256, 1024), (784, 4096)]
    rows, predictions = {}, {}
    for case in of_sizes(sizes, 500):
        X, y = make_rows(case)
        maps = chosen(case, X)
        models = {n: make_pipeline(m, Ridge()).fit(X, y) for n, m in maps.items()}
        for results, method, estimators in (
            (rows, "transform", maps),
            (predictions, "predict", models),
        ):
            calls = {
                name: repeated(getattr(estimator, method), X[:1])
                for name, estimator in estimators.items()
            }
            seconds = timed(calls, repeats)
            one = Case(1, case.n_features, case.n_components, case.dtype)
            results[one] = {name: t / N_CALLS for name, t in seconds.items()}
    titles = "transform of one row", "predict of one row, pipeline with Ridge"
    return [
        against_baseline(title, results, BASELINE, "microseconds")
        for title, results in zip(titles, (rows, predictions), strict=True)
    ]


def repeated(call, row):
    """Return a function without arguments that calls another a few times."""

    def calls():
        for _ in range(N_CALLS):
            call(row)

    return calls


def small(quick, repeats):
    """Few columns and components, where validation and chunks weigh most."""
    sizes = [(8, 64)] if quick else [(8, 64), (8, 128), (16, 64)]
    return _transform("few columns", of_sizes(sizes, 500 if quick else 20000), repeats)


def by_the_clock(quick, repeats):
    """Small transforms by the clock, with one thread of BLAS and with two.

    With ``n_jobs=None``, as by default: RBFSampler gives its product to the threads of
    BLAS, and our maps take one thread where two would be slower.
    """
    sizes, n_rows = ([(8, 8)], [500]) if quick else (_NARROW, (20000, 5000))
    tables = []
    for n_threads in (1, 2):
        results = {}
        for case in (c for n in n_rows for c in of_sizes(sizes, n)):
            X, _ = make_rows(case)
            maps = chosen(case, X, names=OURS[:2], n_jobs=None)
            maps = {name: m for name, m in maps.items() if name in OURS[:2]}
            for cls in (OPRFSampler, PoissonSampler):
                maps[cls.__name__] = own(cls, case, gamma_of(X), n_jobs=None).fit(X)
            with threadpool_limits(n_threads, user_api="blas"):
                todo = transforms(maps, X)
                results[case] = interleave(todo, repeats, time.perf_counter)
        title = f"transform by the clock, {n_threads} thread{'s' * (n_threads > 1)}"
        tables.append(against_baseline(title, results, BASELINE))
    return tables


_NARROW = [(8, 8), (8, 16), (8, 32), (8, 64)]


def wide(quick, repeats):
    """Rows of pictures, 784 to 4096 columns, where the product is nearly all."""
    sizes = [(128, 256)] if quick else [(784, 4096)]
    return _transform("784 to 4096 columns", of_sizes(sizes, 2000), repeats)


def discrete(quick, repeats):
    """Poisson and geometric features."""

    def maps_of(case, X):
        gamma = gamma_of(X)
        maps = {BASELINE: make_maps(case, gamma)[BASELINE]}
        for cls in (PoissonSampler, GeometricSampler):
            maps[cls.__name__] = own(cls, case, gamma)
            positive = own(cls, case, gamma, positive=True)
            maps[f"{cls.__name__}, positive"] = positive
        return {name: sampler.fit(X) for name, sampler in maps.items()}

    sizes = [(16, 64)] if quick else [(16, 1024), (256, 1024)]
    cases = of_sizes(sizes, 500 if quick else 20000)
    return _transform("discrete features", cases, repeats, maps_of)


def hybrid(quick, repeats):
    """Hybrids, of two maps and clustered."""

    def maps_of(case, X):
        gamma = gamma_of(X)
        maps = {
            BASELINE: make_maps(case, gamma)[BASELINE],
            "hybrid, default": own(HybridSampler, case, gamma),
            "hybrid, clustered": own(clustered_hybrid, case, gamma),
        }
        return {name: sampler.fit(X) for name, sampler in maps.items()}

    sizes = [(8, 64)] if quick else [(8, 64), (16, 1024)]
    cases = of_sizes(sizes, 500 if quick else 20000)
    return _transform("hybrids", cases, repeats, maps_of)


def _transform(title, cases, repeats, maps_of=chosen):
    results = {}
    for case in cases:
        X, _ = make_rows(case)
        results[case] = timed(transforms(maps_of(case, X), X), repeats)
    return [against_baseline(f"transform, {title}", results, BASELINE)]


def sparse_rows(quick, repeats):
    """Sparse rows of 10000 columns, a few of which are not zero."""
    sizes = (100, 500, 64) if quick else (2000, 10000, 1024)
    results = {}
    for density in (0.01,) if quick else DENSITIES:
        for dtype in TYPES:
            case = Case(*sizes, dtype)
            X = make_sparse(case, density)
            label = f"{case}, density {density}"
            results[label] = timed(transforms(sparse_maps(case, X), X), repeats)
    return [against_baseline("transform, sparse rows", results, BASELINE)]


def make_sparse(case, density):
    """Return sparse rows, of which this share is uniform in [0, 1), else 0."""
    shape = case.n_rows, case.n_features
    rng = np.random.default_rng(0)
    X = sparse.random_array(shape, density=density, format="csr", rng=rng)
    return X.astype(case.dtype)


def sparse_maps(case, X):
    """Return the maps that are compared on sparse rows, fitted."""
    mean = X.data.sum() / case.n_rows / case.n_features
    variance = (X.data**2).sum() / case.n_rows / case.n_features - mean**2
    gamma = 1 / (case.n_features * float(variance))
    common = {"n_components": case.n_components, "random_state": 0}
    maps = {
        BASELINE: RBFSampler(gamma=gamma, **common),
        "TrigRBFSampler": own(TrigRBFSampler, case, gamma),
        "OPRFSampler": own(OPRFSampler, case, gamma),
        "OPRF, antithetic": own(OPRFSampler, case, gamma, coupling="antithetic"),
        "OPRF, structured": own(
            OPRFSampler, case, gamma, coupling="structured-orthogonal"
        ),
    }
    return {name: sampler.fit(X) for name, sampler in maps.items()}


def pinned(quick, repeats):
    """Two threads of BLAS on one processor, as in a container with a quota.

    In a process that may run on one processor, with the defaults of all estimators.
    """
    case = Case(500, 8, 64, "float64") if quick else Case(20000, 64, 1024, "float64")
    seconds = in_child(on_few_processors, case, repeats, n_processors=1)
    rows = [
        [what, f"{1e3 * one:.3g}", f"{1e3 * two:.3g}", f"{two / one:.2f}"]
        for what, (one, two) in seconds.items()
    ]
    title = f"two threads of BLAS on one processor, {case}: milliseconds"
    columns = ["what", "one thread", "two threads", "two over one"]
    return [Table(title, columns, rows)]


def on_few_processors(case, repeats):
    """Return the seconds with one and with two threads of BLAS, of each work."""
    (X, y), (queries, _) = make_rows(case), make_rows(case, case.n_rows // 20)
    gamma = gamma_of(X)
    maps = make_maps(case, gamma, n_jobs=None)
    names = BASELINE, "TrigRBFSampler", "OPRFSampler"
    fitted = {f"{name}.transform": maps[name].fit(X) for name in names}
    positive = maps["OPRFSampler"]
    exact = NadarayaWatsonClassifier(sigma=positive.sigma).fit(X, y)
    features = NadarayaWatsonClassifier(positive).fit(X, y)
    work = transforms(fitted, X) | {
        "OPRFSampler.fit": lambda: positive.fit(X),
        "NadarayaWatsonClassifier, exact, predict": lambda: exact.predict(queries),
        "NadarayaWatsonClassifier, features, fit": lambda: features.fit(X, y),
        "NadarayaWatsonClassifier, features, predict": lambda: features.predict(X),
    }

    controller = ThreadpoolController()  # to look for BLAS takes milliseconds

    def run(call, n_threads):
        with controller.limit(limits=n_threads, user_api="blas"):
            call()

    candidates = {
        (what, n_threads): lambda call=call, n=n_threads: run(call, n)
        for what, call in work.items()
        for n_threads in (1, 2)
    }
    seconds = interleave(candidates, repeats, time.process_time)
    return {what: (seconds[what, 1], seconds[what, 2]) for what in work}


def no_avx512(quick, repeats):
    """As a processor without AVX-512, where tangents and exponentials are slower.

    In a process whose NumPy and OpenBLAS are told to leave these instructions alone.
    """
    environment = environment_without_avx512()
    if environment is None:
        warnings.warn("no-avx512 left out: NumPy does not use it here", stacklevel=2)
        return []
    sizes = [(8, 64)] if quick else [(16, 1024), (64, 1024)]
    cases = of_sizes(sizes, 500 if quick else 20000)
    results = in_child(with_rooflines, cases, repeats, environment=environment)
    return [against_baseline("transform without AVX-512", results, BASELINE)]


def environment_without_avx512():
    """Return what NumPy and OpenBLAS read at their import, None where it is as is."""
    if not (names := avx512_names()):
        return None
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(names),
        "OPENBLAS_CORETYPE": "Haswell",
    }


def with_rooflines(cases, repeats):
    """Return the seconds of the maps and of the rooflines, by case."""
    if avx512_names():
        raise RuntimeError(f"NumPy uses {avx512_names()} in spite of the environment")
    results = {}
    for case in cases:
        X, _ = make_rows(case)
        candidates = transforms(chosen(case, X), X)
        candidates |= make_rooflines(X, case.n_components)
        results[case] = timed(candidates, repeats)
    return results


def couplings(quick, repeats):
    """Structured couplings beside dense ones, and the draw of orthogonal blocks."""
    few, many = (256, 1024), (256, 1024, 4096)
    sizes = [(d, m) for d in (64, 128, 256, 300) for m in few]
    sizes += [(d, m) for d in (512, 600, 1024, 2048, 3000, 4096) for m in many]
    if quick:
        sizes = [(64, 64), (512, 512)]
    last = sizes[-1]
    todo = {
        f"w.x of {N_ROWS} rows": {
            f"{d} to {m}, {dtype}": lambda d=d, m=m, t=dtype: products(d, m, t)
            for d, m in sizes
            for dtype in TYPES
        },
        f"PositiveRBFSampler, {N_ROWS} rows": {
            f"{method}, {last[0]} to {last[1]}, {dtype}": (
                lambda t=dtype, f=method: coupled_samplers(*last, t, f)
            )
            for method in ("transform", "fit")
            for dtype in TYPES
        },
        "draw of orthogonal blocks": {f"{N_BLOCKS} blocks, {BLOCK} columns": draws},
    }
    return [
        _against_first(
            title, {case: timed(make(), repeats) for case, make in c.items()}
        )
        for title, c in todo.items()
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


def coupled_samplers(d, m, dtype, method):
    """Return fit or transform of positive features with simplex blocks."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, d)).astype(dtype)
    candidates = {}
    for name in ("simplex", "structured-simplex"):
        sampler = PositiveRBFSampler(coupling=name, n_components=m, random_state=0)
        sampler.fit(X)
        candidates[name] = lambda s=sampler: getattr(s, method)(X)
    return candidates


def draws():
    """Return the draw of orthogonal blocks, and the QR decompositions alone."""
    blocks = np.random.default_rng(0).standard_normal((N_BLOCKS, BLOCK, BLOCK))

    def bare():
        for block in blocks:
            r, tau, _, _ = lapack.dgeqrf(block.T, lwork=64 * BLOCK)
            lapack.dorgqr(r, tau, lwork=64 * BLOCK, overwrite_a=True)

    def draw():
        rng = np.random.default_rng(0)
        Orthogonal().draw(chi_law, N_BLOCKS * BLOCK, BLOCK, rng)

    return {
        "geqrf and orgqr of LAPACK": bare,
        "numpy.linalg.qr": lambda: np.linalg.qr(blocks),
        "Orthogonal().draw": draw,
    }


def _against_first(title, results):
    names = list(next(iter(results.values())))
    rows = []
    for case, seconds in results.items():
        base = seconds[names[0]]
        cells = [f"{1e3 * s:.3g} ({base / s:.2f})" for s in seconds.values()]
        rows.append([case, f"{1e3 * base:.3g}", *cells[1:]])
    return Table(f"{title}: milliseconds (times faster)", ["what", *names], rows)
