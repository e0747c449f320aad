"""Arrays of other libraries in all estimators: values, types, devices, copies."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, SkewedChi2Sampler
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    CentersRBFSampler,
    DERFSampler,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.kernels import Matern
from sklearn_crt.samplers import (
    GERFSampler,
    HybridSampler,
    LaplacianSampler,
    PositiveRBFSampler,
    clustered_hybrid,
)
from sklearn_crt.tables import TableClassifier, TableRegressor

from .cases import array_libraries, sampler_cases
from .hybrids import named

pytestmark = [
    array_libraries,
    pytest.mark.filterwarnings("ignore:This hybrid requires|.* maps require"),
    pytest.mark.filterwarnings(
        "ignore:kernel='linear' requires features of a kernel:UserWarning"
    ),
    pytest.mark.filterwarnings(
        "ignore:For .* rows, the sum of the kernel:RuntimeWarning"
    ),
]
# Of the largest number. Two libraries round exponents of size 20, in their own orders:
# both are up to 3e-6 away from float64, for geometric features.
TOLERANCE = {"float64": 1e-12, "float32": 8e-6}
N_ROWS = 1103  # more than a sample of rows has
N_SEEN = 300  # where a reference takes long


class Library:
    """Arrays of a library on a device."""

    def __init__(self, module, device=None):
        from sklearn.externals.array_api_compat import array_namespace

        self.xp, self.device = array_namespace(module.asarray([1.0])), device

    def __call__(self, values):
        """Return a copy of an array of NumPy there."""
        return self.xp.asarray(np.array(values), device=self.device)


def to_numpy(array):
    """Return an array of any device as one of NumPy."""
    if type(array).__module__.startswith("array_api_strict"):
        array = array.to_device(
            pytest.importorskip("array_api_strict").Device("CPU_DEVICE")
        )
    return np.asarray(array)


@pytest.fixture(autouse=True)
def _dispatch_may_be_asked_for(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@pytest.fixture
def dispatch():
    with sklearn.config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def strict():
    """Return a device that stands for a GPU: NumPy cannot read it by itself."""
    xp = pytest.importorskip("array_api_strict")
    return Library(xp, xp.Device("device1"))


@pytest.fixture
def torch():
    return Library(pytest.importorskip("torch"))


@pytest.fixture
def no_view(monkeypatch):
    """Return a function after which NumPy cannot read tensors, as on a GPU."""

    def refuse(*args, **options):
        raise BufferError("not in the memory of the host")

    def take_away():
        tensor = pytest.importorskip("torch").Tensor
        monkeypatch.setattr(tensor, "__dlpack__", refuse)

    return take_away


@pytest.fixture
def library_named(no_view):
    """Return a function that finds a library by a name."""
    return lambda name: find_library(name, no_view)


def find_library(name, no_view):
    if name.startswith("torch"):
        found = Library(pytest.importorskip("torch"))
    else:
        xp = pytest.importorskip("array_api_strict")
        found = Library(xp, xp.Device("device1" if name == "strict" else "CPU_DEVICE"))
    if name.endswith("no view"):  # as on a GPU
        no_view()
    return found


@pytest.fixture(params=["strict", "strict on the host", "torch", "torch, no view"])
def library(request, library_named):
    return library_named(request.param)


@pytest.fixture(
    params=[
        "strict float64",
        "strict float32",
        "strict on the host float32",
        "torch float64",
        "torch, no view float32",
    ]
)
def library_and_type(request, library_named):
    name, dtype = request.param.rsplit(" ", 1)
    return library_named(name), dtype


def table(rng, dtype, n_rows=N_SEEN):
    X, keys = rng.standard_normal((2, n_rows, 5)).astype(dtype)
    return X, keys + np.asarray(0.3, dtype), rng.uniform(size=n_rows).astype(dtype)


def assert_same(found, expected, like, rtol=None):
    """Assert that arrays agree in value, type and shape, and stand beside another."""
    assert type(found) is type(like)
    assert found.device == like.device
    assert str(expected.dtype) in str(found.dtype)
    assert tuple(found.shape) == expected.shape
    rtol = TOLERANCE.get(str(expected.dtype), 0) if rtol is None else rtol
    scale = np.abs(expected).max()
    assert_allclose(to_numpy(found), expected, rtol=0, atol=rtol * scale)


SAMPLERS = [
    *sampler_cases(),
    *sampler_cases(parts=True),
    GERFSampler(sigma=0.1),  # sines and cosines
    OPRFSampler(coupling="structured-orthogonal"),
    TrigRBFSampler(coupling="structured-simplex"),
]


@pytest.mark.each_value
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_features_are_those_of_numpy(rng, library_and_type, sampler, dispatch):
    library, dtype = library_and_type
    X, keys, weights = table(rng, dtype)
    sampler = clone(sampler).set_params(random_state=0)
    expected = clone(sampler).fit(X, X_key=keys, sample_weight=weights)
    theirs, their_keys = library(X), library(keys)
    options = {"X_key": their_keys, "sample_weight": library(weights)}
    found = sampler.fit(theirs, **options)
    assert_same(found.transform(theirs), expected.transform(X), theirs)
    assert_same(found.transform_key(their_keys), expected.transform_key(keys), theirs)


C, R = NadarayaWatsonClassifier, NadarayaWatsonRegressor
MODELS = [
    *(
        kind(kernel)
        for kind in (C, R)
        for kernel in (
            "linear",
            OPRFSampler(n_components=64, random_state=0),
            TrigRBFSampler(n_components=63, random_state=0),
            TrigRBFSampler(kernel="softmax", sigma=0.3, random_state=0),
            DERFSampler(random_state=0),
            clustered_hybrid(n_components=40, random_state=0),
            LaplacianSampler(random_state=0),
            Nystroem(n_components=20, random_state=0),
            Prototypes(40, random_state=0),
        )
    ),
    *(
        kind(**params)
        for kind in (C, R)
        for params in (
            {},
            {"kernel": "laplacian", "sigma": "median"},
            {"kernel": "matern"},
            {"kernel": Matern(nu=3.5)},
            {"kernel": Matern(nu=np.inf)},
        )
    ),
    LocalLinearClassifier(),
    LocalLinearRegressor(clip=True),
    LocalLinearRegressor(Prototypes(40, random_state=0), alpha=0.1),
]


def targets(model, X):
    if is_classifier(model):
        return (X[:, 0] > 0).astype(int) + 2 * (X[:, 1] > 0.5)
    return np.stack([np.sin(X[:, 0]) + 100, X[:, 1]], axis=1)


def lost_by_fits(model, X, weights, queries):
    """Return the relative rounding error of local fits, (n_queries, 1).

    Covariances are differences of mean products and products of means, divided by the
    smallest variance plus penalty, and multiplied by the distance from the mean.
    """
    if isinstance(model.kernel, Prototypes):
        return 0.0
    center = np.average(X, axis=0, weights=weights)
    rows, found = (X - center) * model.sigma_, []
    for query in (queries - center) * model.sigma_:
        share = weights * np.exp(-0.5 * ((rows - query) ** 2).sum(axis=1))
        share /= share.sum()
        squares, mean = (rows.T * share) @ rows, share @ rows
        variances = np.linalg.eigvalsh(squares - np.outer(mean, mean))
        least = variances[0] + model.alpha_ * variances.mean()
        size, gap = np.sqrt(np.trace(squares)), np.linalg.norm(query - mean)
        found.append(size * (size + gap) / least)
    return np.finfo(np.float64).eps * np.array(found)[:, None]


def lost_to_signs(model, X, weights, queries):
    """Return the relative rounding error of sums of kernel weights, (n_queries, 1).

    Features of both signs cancel in a sum, which can then be much smaller than its
    terms. Its rounding error is assumed to be four times the epsilon of all terms.
    """
    if not hasattr(model.kernel_, "transform_key"):
        return 0.0
    features = model.kernel_.transform(queries)
    totals = weights @ model.kernel_.transform_key(X)
    sums = np.abs(features @ totals)
    terms = np.abs(features) @ np.abs(totals)
    return 4 * np.finfo(X.dtype).eps * (terms / sums)[:, None]


@pytest.mark.usefixtures("few_folds")
@pytest.mark.each_value
def test_predictions_of_table_models(rng, library, dispatch):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + 0.1 * rng.normal(size=60)
    theirs, labels = library(X), (y > 0).astype(int)
    for kind, targets in ((TableRegressor, y), (TableClassifier, labels)):
        weights = rng.uniform(size=60)
        model = kind(parts=["ANOVA"], n_folds=2, random_state=0)
        expected = clone(model).fit(X, targets, sample_weight=weights)
        found = model.fit(theirs, library(targets), sample_weight=library(weights))
        names = "predict", "predict_interval", "predict_proba", "score_samples"
        for name in names:
            if hasattr(expected, name):
                result = getattr(found, name)(theirs)
                assert_same(result, getattr(expected, name)(X), theirs, 1e-9)


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_predictions_are_those_of_numpy(rng, library_and_type, model, dispatch):
    library, dtype = library_and_type
    X, queries, weights = table(rng, dtype)
    X[150:160], queries[:20] = X[:10], X[:20]  # distances that are exactly zero
    weights[5] = 0
    y = targets(model, X)
    expected = clone(model).fit(X, y, weights)
    found = clone(model).fit(library(X), library(y), library(weights))
    theirs = library(queries)
    names = "predict", "predict_proba", "decision_function"
    for name in (*names, "effective_sample_size"):
        if hasattr(model, name):
            result = getattr(found, name)(theirs)
            # regressors return float64, which is as accurate as their rows
            answers, limits = getattr(expected, name)(queries), TOLERANCE[dtype]
            if name == "predict" and isinstance(model, LocalLinearRegressor):
                limits = limits + lost_by_fits(expected, X, weights, queries)
            elif name in ("predict_proba", "decision_function"):
                limits = limits + lost_to_signs(expected, X, weights, queries)
            if np.ndim(limits):
                gaps = np.abs(to_numpy(result) - answers) / np.abs(answers).max()
                assert np.all(gaps < limits)
            assert_same(result, answers, theirs, np.max(limits))
    if hasattr(model, "kernel_weights"):  # of rows, and that of none of weight 0
        shares = found.kernel_weights(theirs)
        assert_allclose(shares.sum(axis=1), 1, rtol=1e-6)
        assert_same(shares.toarray(), expected.kernel_weights(queries).toarray(), X)
    if hasattr(model, "predict_quantiles"):
        result = found.predict_quantiles(theirs, [0.1, 0.9])
        assert type(result) is type(library(y))
    for name in ("class_count_", "class_prior_", "y_mean_"):
        if hasattr(expected, name):
            assert_same(getattr(found, name), getattr(expected, name), theirs, 1e-6)


@pytest.mark.each_value
@pytest.mark.parametrize("kernel", ["gaussian", OPRFSampler(random_state=0)], ids=repr)
@pytest.mark.parametrize("kind", [C, R])
def test_batches_are_the_whole(rng, library, kind, kernel, dispatch):
    X, queries, weights = table(rng, "float64")
    model = kind(kernel)
    y, theirs = targets(model, X), library(queries)
    options = {"classes": library(np.unique(y))} if kind is C else {}
    for rows in (slice(0, 100), slice(100, 300)):
        batch = library(X[rows]), library(y[rows])
        model.partial_fit(*batch, sample_weight=library(weights[rows]), **options)
    expected = kind(kernel).fit(X, y, weights)
    assert_same(model.predict(theirs), expected.predict(queries), theirs)
    other = kind(kernel).fit(library(X), library(y))
    if kind is C:
        with pytest.raises(ValueError, match=r"y has the labels \[7\]"):
            model.partial_fit(library(X), library(0 * y + 7))
    if kernel is None:
        assert model.merge(other).predict(theirs).device == theirs.device


def test_samplers_take_batches(rng, library, dispatch):
    X, _, weights = table(rng, "float64")
    found, expected = OPRFSampler(random_state=0), OPRFSampler(random_state=0)
    for rows in (slice(0, 100), slice(100, 300)):
        found.partial_fit(library(X[rows]), sample_weight=library(weights[rows]))
    expected.fit(X, sample_weight=weights)
    theirs = library(X)
    assert_same(found.transform(theirs), expected.transform(X), theirs)


def test_labels_may_be_strings(rng, library, dispatch):
    X, *_ = table(rng, "float64")
    y = np.array(["ham", "spam"])[(X[:, 0] > 0).astype(int)]
    model = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(library(X), y)
    expected = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(X, y)
    found = model.predict(library(X))
    assert isinstance(found, np.ndarray)
    assert np.array_equal(found, expected.predict(X))
    assert type(model.predict_proba(library(X))) is type(library(X))


def test_kernels_come_back(rng, library, dispatch):
    X, keys, _ = table(rng, "float32", 20)
    expected = HybridSampler(random_state=0, n_components=400).fit(X)
    found = clone(expected).fit(library(X))
    for name in ("exact_kernel", "approximate_kernel", "kernel_variance"):
        result = getattr(found, name)(library(X), library(keys))
        assert_same(result, getattr(expected, name)(X, keys), library(X), 1e-5)
    parts = [part for _, *part in found.map_.iter_log_features(library(X), key=True)]
    for part in parts[0]:
        assert type(part) is type(library(X))


@pytest.mark.parametrize(
    "model",
    [
        *(
            make(sampler)
            for make in (
                lambda s: s,
                lambda s: C(s, sigma=s.sigma or "scale"),
                lambda s: R(s, sigma=s.sigma or "scale"),
            )
            for sampler in (
                OPRFSampler(sigma="median"),
                TrigRBFSampler(),
                clustered_hybrid(),
                DERFSampler(),
            )
        ),
        C(sigma=1.0),
        R(kernel="laplacian", sigma=1.0),
    ],
    ids=repr,
)
def test_no_rows_come_to_the_host(rng, strict, model, dispatch, monkeypatch):
    """Nor features, nor targets: the ways to the host are watched."""
    X, _, weights = table(rng, "float64", N_ROWS)
    arrays = [strict(a) for a in (X, targets(C() if model is C else model, X), weights)]
    take, shapes = np.from_dlpack, []

    def watched(array, **options):
        shapes.append(tuple(array.shape))
        return take(array, **options)

    monkeypatch.setattr(np, "from_dlpack", watched)
    if hasattr(model, "transform"):
        clone(model).fit(arrays[0]).transform(arrays[0])
    else:
        clone(model).fit(*arrays).predict(arrays[0])
    assert shapes  # statistics
    assert not [shape for shape in shapes if N_ROWS in shape and len(shape) > 1]
    # weights of a sample of rows, and which of the queries have a close pair
    assert len([shape for shape in shapes if N_ROWS in shape]) <= 1


def test_a_device_is_not_the_host(strict):
    """What stands for a GPU here is none that NumPy could read unseen."""
    with pytest.raises(RuntimeError, match="Can't convert array"):
        np.asarray(strict(np.ones((2, 2))))


def test_memory_of_the_host_is_shared(rng, torch, dispatch):
    X = rng.standard_normal((200_000, 8))
    sampler = OPRFSampler(n_components=1, random_state=0).fit(torch(X[:100]))
    expected = OPRFSampler(n_components=1, random_state=0).fit(X[:100]).transform(X)
    theirs = torch(X)
    tracemalloc.start()  # sees what NumPy takes, not what torch does
    try:
        found = sampler.transform(theirs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert np.array_equal(found.numpy(), expected)
    assert peak < 0.6 * X.nbytes  # the features, a chunk of rows, and no copy


@pytest.mark.parametrize(
    "sampler",
    [OPRFSampler(), pytest.param(HybridSampler(), marks=pytest.mark.slow)],
    ids=repr,
)
def test_chunks_are_not_seen(rng, strict, sampler, dispatch):
    X, queries = rng.standard_normal((2, 600, 5))
    y, theirs = (X[:, 0] > 0).astype(int), strict(queries)
    sampler = clone(sampler).set_params(random_state=0, n_components=1024)
    model = C(sampler).fit(strict(X), strict(y))
    with sklearn.config_context(working_memory=4):  # 512 of these rows
        features = model.kernel_.transform(theirs)
        found = model.predict_proba(theirs)
    for rows in (slice(0, 40), slice(500, 540), slice(560, None)):
        part = model.kernel_.transform(strict(queries[rows]))
        assert_same(features[rows, :], to_numpy(part), theirs)
    expected = clone(model).fit(X, y).predict_proba(queries)
    assert_same(found, expected, theirs)


def test_large_phases_in_float32(rng, strict, dispatch):
    X = 30 * rng.standard_normal((200, 3)).astype("float32")
    sampler = LaplacianSampler(sigma=1e5, n_components=200, random_state=0)
    expected = clone(sampler).fit(X)
    norms = np.linalg.norm(expected.frequencies_, axis=0)
    features = sampler.fit(strict(X)).transform(strict(X))
    # of the columns with phases beyond 2^20; float32 loses digits of those below
    far = np.flatnonzero(norms * 1e5 > 2**21)
    assert far.size
    close = np.isclose(to_numpy(features), expected.transform(X), rtol=0, atol=2e-6)
    assert close[:, far].mean() > 0.97


@pytest.mark.filterwarnings("ignore:overflow encountered")  # NumPy behind a library
def test_ranges_are_warned_of(rng, library, dispatch):
    X = np.vstack([np.zeros((3, 2)), np.full((2, 2), 60.0)]).astype("float32")
    sampler = PositiveRBFSampler(sigma=1.0, center=False, random_state=0)
    expected = clone(sampler).fit(X)
    with pytest.warns(RuntimeWarning, match="features of 2 rows are too small"):
        expected = expected.transform(X)
    sampler.fit(library(X))
    with pytest.warns(RuntimeWarning, match="features of 2 rows are too small"):
        assert_same(sampler.transform(library(X)), expected, library(X))
    large = TrigRBFSampler(sigma=1.0, kernel="softmax", random_state=0)
    large.fit(library(X))
    with pytest.warns(RuntimeWarning, match="are too large for"):
        large.transform(library(X))


def test_without_dispatch_all_is_numpy(rng, torch):
    X, *_ = table(rng, "float64")
    y = (X[:, 0] > 0).astype(int)
    sampler = OPRFSampler(random_state=0).fit(torch(X))
    assert isinstance(sampler.transform(torch(X)), np.ndarray)
    model = NadarayaWatsonClassifier(sampler).fit(torch(X), torch(y))
    assert isinstance(model.predict(torch(X)), np.ndarray)
    assert isinstance(model.class_prior_, np.ndarray)


def test_gradients_are_not_followed(rng, torch, dispatch):
    X = torch(rng.standard_normal((20, 3))).requires_grad_()
    features = OPRFSampler(random_state=0).fit(X).transform(X)
    assert not features.requires_grad


@pytest.mark.each_value
@pytest.mark.parametrize("model", [OPRFSampler(), C(), R("linear"), C(OPRFSampler())])
def test_other_libraries_than_in_fit_raise(rng, library, model, dispatch):
    X, *_ = table(rng, "float64")
    y = (X[:, 0] > 0).astype(int)
    methods = [
        m for m in ("transform", "predict", "predict_proba") if hasattr(model, m)
    ]
    for there, here in ((library, np.array), (np.array, library)):
        fitted = clone(model).fit(there(X), there(y))
        for name in methods:
            with pytest.raises(ValueError, match="must use the same namespace"):
                getattr(fitted, name)(here(X))
    with pytest.raises(
        ValueError, match=r"partial_fit\(\) must use the same namespace"
    ):
        fitted.partial_fit(library(X), library(y))


def test_what_cannot_says_what_can(rng, strict, dispatch):
    X, *_ = table(rng, "float64")
    y, theirs = strict((X[:, 0] > 0).astype(int)), strict(X)
    exact = C(Matern(nu=0.7), sigma=1.0).fit(theirs, y)
    with pytest.raises(TypeError, match=r"Use nu = 0\.5, 1\.5"):
        exact.predict(theirs)
    chi = FrozenEstimator(SkewedChi2Sampler(skewedness=10.0, random_state=0).fit(X))
    with pytest.raises(TypeError, match="sampler of sklearn_crt or a transformer with"):
        C(_Deaf(chi)).fit(theirs, y)
    outside = HybridSampler(bases=named(_Outside(), TrigRBFSampler()), random_state=0)
    with pytest.raises(TypeError, match=r"Use parts from sklearn_crt\.samplers"):
        outside.fit(theirs).transform(theirs)


class _Deaf(FrozenEstimator):
    """A transformer that answers with NumPy arrays."""

    def transform(self, X):
        return np.abs(to_numpy(X))


class _Outside(sklearn.base.BaseEstimator):
    """A sampler that is written elsewhere."""

    def __init__(self, n_components=100, random_state=None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X, y=None):
        params = {"sigma": 1.0, **self.get_params()}
        self.kernel_ = TrigRBFSampler(**params).fit(X)
        return self

    def transform(self, X):
        return self.kernel_.transform(X)

    def exact_kernel(self, X, Y=None):
        return self.kernel_.exact_kernel(X, Y)

    def kernel_variance(self, X, Y=None):
        return self.kernel_.kernel_variance(X, Y)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "model",
    [OPRFSampler(), C(), R(), C(OPRFSampler()), R("linear")],
    ids=repr,
)
def test_fitted_ones_move_and_are_stored(rng, library, model, dispatch):
    from sklearn.utils._array_api import move_estimator_to

    X, *_ = table(rng, "float64")
    y = (X[:, 0] > 0).astype(int)
    there, name = library(X), "transform" if hasattr(model, "transform") else "predict"
    seeds = {name: 0 for name in model.get_params() if name.endswith("random_state")}
    model = clone(model).set_params(**seeds)
    fitted = clone(model).fit(there, library(y))
    expected = getattr(clone(model).fit(X, y), name)(X)
    stored = pickle.loads(pickle.dumps(fitted))
    assert_same(getattr(stored, name)(there), expected, there)
    home = move_estimator_to(fitted, xp=np, device="cpu")
    assert_allclose(getattr(home, name)(X), expected, rtol=1e-10)
    back = move_estimator_to(home, xp=library.xp, device=there.device)
    assert_same(getattr(back, name)(there), expected, there)


@pytest.mark.each_value
@pytest.mark.parametrize("last", [Ridge(), LogisticRegression()], ids=repr)
@pytest.mark.parametrize("sampler", [OPRFSampler(), TrigRBFSampler()], ids=repr)
@pytest.mark.parametrize("on_the_host", [True, False])
def test_pipelines_and_grids(rng, torch, sampler, last, on_the_host, no_view, dispatch):
    if not on_the_host:
        no_view()
    X, queries, _ = table(rng, "float64")
    y = (X[:, 0] > 0).astype(float)
    sampler = clone(sampler).set_params(random_state=0, n_components=32)
    pipe = make_pipeline(StandardScaler(), sampler, last)
    name = f"{type(sampler).__name__.lower()}__sigma"
    grid = GridSearchCV(pipe, {name: [0.1, 0.5]}, cv=3)
    expected = clone(grid).fit(X, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using Array API dispatch", UserWarning)
        found = grid.fit(torch(X), torch(y))
    assert found.best_params_ == expected.best_params_
    values = found.predict(torch(queries))
    assert_allclose(values.numpy(), expected.predict(queries), atol=1e-5)
    score = found.score(torch(queries), torch((queries[:, 0] > 0).astype(float)))
    assert 0.3 < score <= 1


def test_grids_over_nadaraya_watson(rng, torch, dispatch):
    X, queries, _ = table(rng, "float64")
    y = (X[:, 0] > 0).astype(int)
    grid = GridSearchCV(C(OPRFSampler(random_state=0)), {"kernel__sigma": [0.3, 1.0]})
    expected = clone(grid).fit(X, y)
    found = grid.fit(torch(X), torch(y))
    scores = (s.cv_results_["mean_test_score"] for s in (found, expected))
    assert_allclose(*scores, rtol=1e-6)  # scikit-learn's accuracy of torch is float32
    theirs = torch(queries)
    assert_same(found.predict_proba(theirs), expected.predict_proba(queries), theirs)


def test_tags(dispatch):
    samplers = [*sampler_cases(), *sampler_cases(parts=True)]
    for estimator in [*samplers, *MODELS]:
        assert sklearn.utils.get_tags(estimator).array_api_support
    assert not sklearn.utils.get_tags(C(SkewedChi2Sampler())).array_api_support


# ------------------------------------------------------------------------- centres
@pytest.mark.usefixtures("dispatch")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["torch", "jax.numpy", "array_api_strict"])
def test_centres_of_arrays_in_the_memory_of_the_host(name, dtype, rng):
    library = Library(pytest.importorskip(name))
    X = rng.standard_normal((60, 3)).astype(dtype)
    rows = library(X)
    sampler = CentersRBFSampler(n_components=7, random_state=0)
    with sklearn.config_context(array_api_dispatch=False):
        expected = clone(sampler).fit(X).transform(X)
    found = clone(sampler).fit(rows)
    features = found.transform(rows)
    assert type(features) is type(rows)
    assert features.dtype == rows.dtype
    assert_allclose(to_numpy(features), expected, rtol=TOLERANCE[str(expected.dtype)])
    batches = clone(sampler).partial_fit(rows[:30, :]).partial_fit(rows[30:, :])
    assert_allclose(to_numpy(batches.transform(rows)), expected, rtol=1e-5)
    assert type(pickle.loads(pickle.dumps(found)).transform(rows)) is type(rows)
    with pytest.raises(ValueError, match=r"transform.* must use the same namespace"):
        found.transform(X)
    model = make_pipeline(sampler, Ridge()).fit(X, X[:, 0])
    assert model.predict(X).shape == (60,)


@pytest.mark.usefixtures("dispatch")
def test_centres_say_that_they_do_not_work_on_devices(strict, rng):
    X = rng.standard_normal((60, 3))
    with pytest.raises(TypeError, match=r"strict Array on the device .*1"):
        CentersRBFSampler().fit(strict(X))
    sampler = CentersRBFSampler().fit(X)
    with pytest.raises(ValueError, match="must use the same namespace"):
        sampler.transform(strict(X))
    assert not sampler.__sklearn_tags__().array_api_support
