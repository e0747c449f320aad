"""One fitted estimator that many threads use at once."""

import pickle
import sys
import threading
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_crt import (
    AnovaSampler,
    DERFSampler,
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.rows import Frame
from sklearn_crt.samplers import (
    HybridSampler,
    MaternSampler,
    PoissonSampler,
    clustered_hybrid,
)
from sklearn_crt.tables import TableClassifier, TableRegressor

from .cases import sampler_classes
from .test_common import EACH_ESTIMATOR
from .thread_check import assert_thread_safe

pytestmark = pytest.mark.usefixtures("few_folds")

N_THREADS = 8
N_ROWS = 600  # two chunks
QUERIES = "score_samples", "predict_quantiles", "effects", "slopes", "kernel_weights"
METHODS = (
    "transform",
    "transform_key",
    "kernel_variance",
    "approximate_kernel",
    "predict",
    "predict_proba",
    "decision_function",
)


@pytest.fixture
def hasty():
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def at_once(function):
    """Call a function of no arguments in eight threads, which begin together."""
    barrier = threading.Barrier(N_THREADS, timeout=60)
    results, errors = [None] * N_THREADS, []

    def work(i):
        barrier.wait()
        try:
            results[i] = function()
        except Exception as error:  # seen by the test, not by the thread
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(i,), daemon=True) for i in range(N_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not errors
    return results


@pytest.mark.filterwarnings("ignore:This hybrid requires|.* maps require")
@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        OPRFSampler(n_jobs=2),
        TrigRBFSampler(n_components=7, random_phase=True),
        DERFSampler(),
        PoissonSampler(),
        MaternSampler(nu=2.7),
        clustered_hybrid(),
        NadarayaWatsonClassifier(),
        NadarayaWatsonClassifier(OPRFSampler()),
        NadarayaWatsonClassifier(TrigRBFSampler()),
        NadarayaWatsonRegressor(HybridSampler()),
        NadarayaWatsonRegressor(Prototypes()),
    ],
    ids=repr,
)
def test_threads_give_what_one_gives(rng, estimator, hasty):
    """Bitwise, from tables that are not there yet when they begin."""
    X = rng.standard_normal((N_ROWS, 6))
    queries = [X.astype(dtype) for dtype in ("float64", "float32")]
    y = (X[:, 0] > 0).astype(int)
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    stored = pickle.dumps(estimator.fit(X, y))

    def all_methods(fitted):
        found = []
        for name in METHODS:
            if hasattr(fitted, name):
                few = slice(20 if "kernel" in name else None)
                found += [getattr(fitted, name)(rows[few]) for rows in queries]
        return found

    expected = all_methods(pickle.loads(stored))
    shared = pickle.loads(stored)
    for results in at_once(lambda: all_methods(shared)):
        for result, one in zip(results, expected, strict=True):
            assert np.array_equal(result, one)


def query_of(estimator, name, *given):
    return getattr(estimator, name)(*given)


def fitted_names_read(estimator, query):
    """Return the names of fitted attributes that a query reads from an estimator.

    Attributes that the query reads from a copy of the estimator do not count.
    """
    kind, reads = type(estimator), set()
    # what a sampler notes for ``partial_fit`` is no part of the model
    fitted = {*vars(estimator)} - {*estimator.get_params(), "_map_use"}

    class Watched(kind):
        def __getattribute__(self, name):
            if self is estimator and name in fitted:
                reads.add(name)
            return super().__getattribute__(name)

    estimator.__class__ = Watched
    try:
        query()
    finally:
        estimator.__class__ = kind
    return reads


@pytest.mark.parametrize(
    "estimator",
    [
        TableClassifier(random_state=0, n_folds=2),
        TableRegressor(random_state=0, n_folds=2),
        LearnedMetric(method="agop", random_state=0),
        LocalLinearClassifier(),
        LocalLinearRegressor(alpha=0.1),
        NadarayaWatsonRegressor(OPRFSampler(random_state=0)),
        OPRFSampler(random_state=0),
        RandomFeatureRidge(AnovaSampler(), random_state=0),
        RandomFeatureRidge(AnovaSampler(order=2), clip=False, random_state=0),
        RandomFeatureRidgeClassifier(AnovaSampler(), random_state=0),
    ],
    ids=repr,
)
def test_a_query_reads_a_copy_of_the_estimator(rng, estimator):
    """Otherwise a fit in another thread could come between two reads."""
    X = rng.standard_normal((80, 3))
    y = X[:, 0] if is_regressor(estimator) else (X[:, 0] > 0).astype(int)
    estimator = clone(estimator).fit(X, y)
    read = {}
    for name in (*METHODS, *QUERIES):
        if hasattr(estimator, name):
            # whether a method is available may depend on the fitted value, too
            first = fitted_names_read(estimator, partial(hasattr, estimator, name))
            given = (X, 0.5) if name == "predict_quantiles" else (X,)
            query = partial(query_of, estimator, name, *given)
            read[name] = fitted_names_read(estimator, query) - first
    assert read
    assert not any(read.values()), read


@pytest.mark.parametrize("name", ["predict", "predict_proba", "decision_function"])
@pytest.mark.parametrize("kind", [NadarayaWatsonClassifier, LocalLinearClassifier])
def test_a_query_uses_one_model_while_another_thread_fits(rng, kind, name):
    X = rng.standard_normal((40, 2))
    before = np.where(X[:, 0] > 0, "a", "b")
    after = np.where(X[:, 1] > 0, "c", np.where(X[:, 0] > 1, "d", "e"))
    pending = []

    def kernel(A, B):
        while pending:
            thread = threading.Thread(target=pending.pop())
            thread.start()
            thread.join()
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1) / 2)

    model = kind(kernel, sigma=1.0).fit(X, before)
    expected = getattr(model, name)(X)
    model = kind(kernel, sigma=1.0).fit(X, before)
    pending.append(lambda: model.fit(X, after))
    assert np.array_equal(getattr(model, name)(X), expected)
    assert [*model.classes_] == ["c", "d", "e"]


# Four threads that solve each of their first queries take seconds to minutes with
# these, while the others have each estimator and each kind of fitted value.
EXPENSIVE = [
    RandomFeatureRidge(),
    RandomFeatureRidge(OPRFSampler(n_components=10)),
    RandomFeatureRidge(AnovaSampler(), n_components=20, random_state=0),
    RandomFeatureRidge(TrigRBFSampler(n_components=30)),
    RandomFeatureRidge(n_components=20, random_state=0),
    RandomFeatureRidgeClassifier(),
    RandomFeatureRidgeClassifier(n_components=20, random_state=0),
    RandomFeatureRidgeClassifier(n_components=20, sigma="scale", random_state=0),
    RandomFeatureRidgeClassifier(TrigRBFSampler(n_components=30), sigma=1.0, alpha=1.0),
    RandomFeatureRidgeClassifier(AnovaSampler(), n_components=20, random_state=0),
    LearnedMetric(),
    LocalLinearClassifier(),
    LocalLinearRegressor(),
    LocalLinearRegressor(clip=True),
    LocalLinearRegressor(Prototypes(20), alpha=0.1),
    NadarayaWatsonClassifier("matern", sigma="median"),
    NadarayaWatsonClassifier(OPRFSampler(random_state=0)),
    NadarayaWatsonClassifier(Prototypes(random_state=0)),
    NadarayaWatsonRegressor(),
    NadarayaWatsonRegressor(OPRFSampler(n_components=20)),
    NadarayaWatsonRegressor(Prototypes(20)),
]
# Samplers that differ from the first of these in their maps alone, which read only
# attributes that are there from the beginning.
ALONE = OPRFSampler, HybridSampler
REPEATED = [cls() for cls in sampler_classes() if cls not in ALONE]
# Each public estimator, and those with further kinds of fitted values.
SHARED = [
    *(
        pytest.param(one, marks=pytest.mark.slow)
        if repr(one) in map(repr, REPEATED)
        else one
        for one in EACH_ESTIMATOR
        if repr(one) not in map(repr, EXPENSIVE)
    ),
    *(pytest.param(one, marks=pytest.mark.slow) for one in EXPENSIVE),
    NadarayaWatsonClassifier(OPRFSampler(sigma=1.0, n_components=20)),
    NadarayaWatsonRegressor(Prototypes(5)),
    LocalLinearClassifier(sigma=1.0, alpha=0.1),
    LocalLinearRegressor(Prototypes(5), sigma=1.0, alpha=0.1),
    RandomFeatureRidgeClassifier(
        TrigRBFSampler(n_components=30), sigma=1.0, alpha=1.0, calibrate=False
    ),
    RandomFeatureRidge("linear"),
    NadarayaWatsonClassifier("linear"),
]


@pytest.mark.parametrize("estimator", SHARED, ids=repr)
def test_threads_share_an_estimator(rng, estimator):
    X = rng.standard_normal((24, 4))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(len(X))
    if not is_regressor(estimator):
        y = (y > 0).astype(int)
    estimator = clone(estimator)
    estimator.set_params(
        **{
            name: 0
            for name in estimator.get_params()
            if name.rpartition("__")[2] == "random_state"
        }
    )
    if getattr(estimator, "kernel", None) == "linear":  # or "sampler": features
        X = np.abs(X)
    assert_thread_safe(estimator, X, y)


@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
def test_threads_that_fit_clones(rng, hasty):
    X = rng.standard_normal((N_ROWS, 6))
    y = (X[:, 0] > 0).astype(int)
    model = NadarayaWatsonClassifier(TrigRBFSampler(random_state=0))
    expected = clone(model).fit(X, y).predict_proba(X)
    for result in at_once(lambda: clone(model).fit(X, y).predict_proba(X)):
        assert np.array_equal(result, expected)


def test_threads_do_not_wait_for_what_others_compute_once():
    """A process that is forked meanwhile would wait for ever."""
    begun, over, found = threading.Event(), threading.Event(), []

    class Slow:
        def max(self, **options):
            begun.set()
            over.wait(60)
            return 2.0

    def look(sigma):
        found.append(Frame(sigma).largest)
        over.set()

    slow, fast = (
        threading.Thread(target=look, args=(sigma,), daemon=True)
        for sigma in (Slow(), 3.0)
    )
    slow.start()
    assert begun.wait(60)
    fast.start()
    fast.join(5)
    over.set()
    slow.join(60)
    assert found == [3.0, 2.0]


def n_blas_threads():
    """Return the largest number of threads of a BLAS library."""
    found = [each for each in threadpool_info() if each["user_api"] == "blas"]
    return max(each["num_threads"] for each in found)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_fits_to_few_rows_use_one_blas_thread(method, rng):
    """On a busy machine, two threads that wait for each other take 20 times as long."""
    X, found = rng.normal(size=(300, 2)), []

    class Watched(FunctionTransformer):
        def fit(self, X, y=None):
            found.append(n_blas_threads())
            return super().fit(X, y)

    with threadpool_limits(2):
        before = n_blas_threads()
        getattr(RandomFeatureRidge(Watched()), method)(X, X[:, 0])
        assert n_blas_threads() == before
    assert found == [1]
