"""Where users are: groups of cases of compare.py beside its grid of sizes.

A group is a function of ``quick`` (small sizes, to see that it runs) and of the number
of repetitions, and returns tables.
"""

import time
import warnings

import numpy as np
from scipy import sparse
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from threadpoolctl import ThreadpoolController, threadpool_limits

from sklearn_crt import (
    GeometricSampler,
    HybridSampler,
    NadarayaWatsonClassifier,
    OPRFSampler,
    PoissonSampler,
    TrigRBFSampler,
)

from .cases import Case, gamma_of, make_maps, make_rows
from .child import in_child
from .roofline import make_rooflines
from .tables import Table, against_baseline
from .timing import avx512_names, interleave

BASELINE = "RBFSampler"
TYPES = "float64", "float32"
OURS = BASELINE, "TrigRBFSampler", "PositiveRBFSampler", "OPRFSampler", "GERFSampler"
DENSITIES = 0.002, 0.01, 0.05
N_CALLS = 20  # of a few microseconds, timed together


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
    return cls(**common, sigma=float(np.sqrt(2 * gamma)), **params)


def timed(candidates, repeats):
    """Return median processor seconds, with one thread of BLAS."""
    with threadpool_limits(1, user_api="blas"):
        return interleave(candidates, repeats, time.process_time)


def transforms(maps, X):
    """Return transform of each map, as functions without arguments."""
    return {name: lambda m=m: m.transform(X) for name, m in maps.items()}


def grid(sizes, n_rows):
    """Return the cases of pairs of columns and components, in both types."""
    return [Case(n_rows, *size, dtype) for size in sizes for dtype in TYPES]


def one_row(quick, repeats):
    """One row a call, as a service does: microseconds of transform and of predict."""
    sizes = [(8, 64)] if quick else [(8, 64), (64, 1024), (256, 1024), (784, 4096)]
    rows, predictions = {}, {}
    for case in grid(sizes, 500):
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
    return [_transform("few columns", grid(sizes, 500 if quick else 20000), repeats)]


def wide(quick, repeats):
    """Rows of pictures, 784 to 4096 columns, where the product is nearly all."""
    sizes = [(128, 256)] if quick else [(784, 4096)]
    return [_transform("784 to 4096 columns", grid(sizes, 2000), repeats)]


def _transform(title, cases, repeats):
    results = {}
    for case in cases:
        X, _ = make_rows(case)
        results[case] = timed(transforms(chosen(case, X), X), repeats)
    return against_baseline(f"transform, {title}", results, BASELINE)


def discrete(quick, repeats):
    """Poisson and geometric features."""
    sizes = [(16, 64)] if quick else [(16, 1024), (256, 1024)]
    results = {}
    for case in grid(sizes, 500 if quick else 20000):
        X, _ = make_rows(case)
        gamma = gamma_of(X)
        maps = {BASELINE: make_maps(case, gamma)[BASELINE]} | {
            cls.__name__ + ", positive" * positive: own(
                cls, case, gamma, positive=positive
            )
            for cls in (PoissonSampler, GeometricSampler)
            for positive in (False, True)
        }
        maps = {name: sampler.fit(X) for name, sampler in maps.items()}
        results[case] = timed(transforms(maps, X), repeats)
    return [against_baseline("transform, discrete features", results, BASELINE)]


def hybrid(quick, repeats):
    """Hybrids, angular and clustered."""
    sizes = [(8, 64)] if quick else [(8, 64), (16, 1024)]
    results = {}
    for case in grid(sizes, 500 if quick else 20000):
        X, _ = make_rows(case)
        gamma = gamma_of(X)
        maps = {
            BASELINE: make_maps(case, gamma)[BASELINE],
            "hybrid, angular": own(HybridSampler, case, gamma),
            "hybrid, clustered": own(HybridSampler, case, gamma, kind="clustered"),
        }
        maps = {name: sampler.fit(X) for name, sampler in maps.items()}
        results[case] = timed(transforms(maps, X), repeats)
    return [against_baseline("transform, hybrids", results, BASELINE)]


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
    exact = NadarayaWatsonClassifier("exact", sigma=positive.sigma).fit(X, y)
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
    cases = grid(sizes, 500 if quick else 20000)
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


GROUPS = {
    "one-row": one_row,
    "small": small,
    "pinned": pinned,
    "no-avx512": no_avx512,
    "sparse": sparse_rows,
    "wide": wide,
    "discrete": discrete,
    "hybrid": hybrid,
}
