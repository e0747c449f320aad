"""Fitting on Dask's collections, against fitting on the same rows in memory."""

import functools
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    AnovaSampler,
    CentersRBFSampler,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import HybridSampler, PositiveRBFSampler

from .cases import sampler_cases
from .tables.test_anova_sampler import mixed_table

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
crt_dask = pytest.importorskip("sklearn_crt.dask", reason="needs the extra dask")

UNRELIABLE = pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights"
)

N, D = 900, 5
ODD = ((7, 0, 300, 93, 500), (2, 3))  # blocks: one empty, and of columns


@pytest.fixture
def table(rng):
    """Return rows, labels, numbers and weights in memory."""
    X = rng.standard_normal((N, D))
    labels = np.array(["a", "bb", "ccc"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    return X, labels, X[:, 0] + 100, rng.integers(1, 4, N).astype(float)


def lazy(values, chunks=None):
    return da.from_array(values, chunks=ODD if chunks is None else chunks)


QUERIES = np.random.default_rng(1).standard_normal((200, D))


def sums_of(model):
    """Return what a model adds up of the rows, as more queries see it than columns."""
    with warnings.catch_warnings(action="ignore"):  # of weights that are not positive
        return model.decision_function(QUERIES)


@pytest.mark.parametrize("sampler", sampler_cases(), ids=repr)
def test_samplers_fit_as_in_memory(sampler, table):
    X = table[0][:, :4]  # few enough for all cases
    sampler = sampler.set_params(n_components=40, random_state=0, n_jobs=1)
    before = repr(sampler)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of parameters, in both
        found = crt_dask.fit(sampler, lazy(X, (ODD[0], 4)))
        expected = sampler.fit(X)
    assert repr(sampler) == before
    assert type(found) is type(sampler)
    rows = X[:20]
    assert_allclose(found.transform(rows), expected.transform(rows), rtol=1e-7)
    assert_allclose(found.sigma_, expected.sigma_, rtol=1e-12)
    assert found.n_features_in_ == 4


@UNRELIABLE
@pytest.mark.each_value
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "sampler",
    [
        OPRFSampler(n_components=64, random_state=0),
        TrigRBFSampler(n_components=64, sigma="median", random_state=0),
        HybridSampler(n_components=64, random_state=0),
    ],
    ids=repr,
)
def test_averages_of_labels_as_in_memory(sampler, dtype, weighted, table):
    X, labels, _, weights = table
    X, weights = X.astype(dtype), weights if weighted else None
    model = NadarayaWatsonClassifier(sampler)
    there = None if weights is None else lazy(weights, 100)
    found = crt_dask.fit(model, lazy(X), lazy(labels, 250), sample_weight=there)
    expected = NadarayaWatsonClassifier(sampler).fit(X, labels, weights)
    assert not hasattr(model, "classes_")
    assert_array_equal(found.classes_, ["a", "bb", "ccc"])
    assert_allclose(found.class_count_, expected.class_count_, rtol=1e-15)
    tolerance = 1e-11 if dtype == np.float64 else 2e-5
    scale = np.abs(sums_of(expected)).max()
    assert_allclose(sums_of(found), sums_of(expected), rtol=0, atol=tolerance * scale)
    assert found.kernel is not expected.kernel
    assert found.get_params()["kernel"].get_params() == sampler.get_params()
    proba = expected.predict_proba(X[:50])
    assert_allclose(found.predict_proba(X[:50]), proba, rtol=1e-5)
    assert found.predict_proba(X[:50]).dtype == dtype


@UNRELIABLE
@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize(
    "kind",
    [NadarayaWatsonClassifier, RandomFeatureRidgeClassifier],
    ids=lambda kind: kind.__name__,
)
def test_probabilities_are_calibrated_as_in_memory(kind, calibrate, table):
    X, labels, _, weights = table
    model = kind(OPRFSampler(n_components=64, random_state=0), calibrate=calibrate)
    there = lazy(weights, 100)
    found = crt_dask.fit(model, lazy(X), lazy(labels, 250), sample_weight=there)
    assert found.calibrate == calibrate
    expected = clone(model).fit(X, labels, weights).predict_proba(QUERIES)
    assert_allclose(found.predict_proba(QUERIES), expected, rtol=1e-5, atol=1e-9)
    other = clone(model).set_params(calibrate=not calibrate).fit(X, labels, weights)
    assert abs(other.predict_proba(QUERIES) - expected).max() > 0.01


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_averages_of_numbers_as_in_memory(n_outputs, table):
    X, _, y, weights = table
    if n_outputs == 2:
        y = np.c_[y, -y]
    chunks = 111 if n_outputs == 1 else (111, 1)
    model = NadarayaWatsonRegressor(OPRFSampler(n_components=64, random_state=0))
    found = crt_dask.fit(model, lazy(X), lazy(y, chunks), sample_weight=weights)
    expected = model.fit(X, y, weights)
    assert_allclose(found.y_mean_, expected.y_mean_, rtol=1e-14)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-12)


@UNRELIABLE
def test_rows_that_are_features(table):
    X, labels, *_ = table
    features = np.abs(X) / np.linalg.norm(X, axis=1, keepdims=True)
    found = crt_dask.fit(NadarayaWatsonClassifier("linear"), lazy(features), labels)
    expected = NadarayaWatsonClassifier("linear").fit(features, labels)
    assert found.kernel_ == "linear"
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-12)
    with pytest.warns(UserWarning, match="requires features of a kernel") as caught:
        crt_dask.fit(NadarayaWatsonClassifier("linear"), lazy(X + 50), labels)
    assert caught[0].filename == __file__


def test_a_frozen_transformer_and_classes_need_one_pass(table):
    """Each block is read once, and labels beyond those given raise."""
    X, labels, *_ = table
    read = []

    def seen(block):
        read.append(len(block))
        return block

    transformer = make_pipeline(StandardScaler(), RBFSampler(random_state=0)).fit(X)
    model = NadarayaWatsonClassifier(FrozenEstimator(transformer))
    rows = lazy(X, (300, D)).map_blocks(seen, dtype=X.dtype, meta=X[:0])
    with dask.config.set(scheduler="synchronous"):
        found = crt_dask.fit(model, rows, labels, classes=["ccc", "a", "bb", "d"])
        assert read == [300, 300, 300]
        assert_array_equal(found.classes_, ["a", "bb", "ccc", "d"])
        expected = NadarayaWatsonClassifier(FrozenEstimator(transformer)).fit(X, labels)
        assert_allclose(found.class_count_[:3], expected.class_count_)
        assert found.kernel_ is model.kernel
        with pytest.raises(ValueError, match=r"y has the labels \['ccc'\]"):
            crt_dask.fit(model, rows, labels, classes=["a", "bb"])


@UNRELIABLE
def test_one_seed_for_all_blocks(table):
    """With random_state=None all blocks are mapped by one map."""
    X, labels, *_ = table
    sampler = TrigRBFSampler(sigma="scale", n_components=16)
    model = NadarayaWatsonClassifier(sampler)
    found, other = (crt_dask.fit(model, lazy(X), labels) for _ in range(2))
    again = NadarayaWatsonClassifier(FrozenEstimator(found.kernel_)).fit(X, labels)
    assert_allclose(found.predict_proba(X), again.predict_proba(X), rtol=1e-10)
    assert not np.allclose(sums_of(found), sums_of(other))
    seeded = NadarayaWatsonClassifier(TrigRBFSampler(n_components=16, random_state=3))
    found, other = (crt_dask.fit(seeded, lazy(X), labels) for _ in range(2))
    assert_array_equal(sums_of(found), sums_of(other))


@pytest.mark.parametrize(
    "scheduler", ["threads", pytest.param("synchronous", marks=pytest.mark.slow)]
)
def test_the_order_of_sums_is_fixed(scheduler, table):
    X, labels, *_ = (rows[:300] for rows in table)
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=32, random_state=0))
    fits = []
    for now in ("synchronous", scheduler):
        with dask.config.set(scheduler=now):
            fits.append(crt_dask.fit(model, lazy(X, (10, D)), labels))
    assert_array_equal(sums_of(fits[0]), sums_of(fits[1]))
    assert fits[0].kernel_.A_ == fits[1].kernel_.A_


def merged(model, X, *targets, **options):
    """Return a model after ``partial_fit`` on copies for all blocks, and ``merge``."""
    add = dask.delayed(lambda *block: clone(model).partial_fit(*block, **options))
    blocks = zip(*(each.to_delayed().ravel() for each in (X, *targets)), strict=True)
    parts = dask.compute(*(add(*block) for block in blocks))
    return functools.reduce(lambda a, b: a.merge(b), parts)


@pytest.mark.parametrize("kind", [NadarayaWatsonRegressor, RandomFeatureRidge])
def test_fit_equals_partial_fit_and_merge(kind, table):
    X, _, y, _ = table
    lazily = lazy(X, (300, D)), lazy(y, 300)
    sampler = OPRFSampler(sigma=0.7, n_components=32, random_state=0)
    kernel = FrozenEstimator(merged(sampler, lazily[0]).freeze())
    expected = merged(kind(kernel), *lazily)
    found = crt_dask.fit(kind(sampler), *lazily)
    assert_array_equal(found.predict(QUERIES), expected.predict(QUERIES))
    assert_array_equal(found.kernel_.frequencies_, kernel.frequencies_)


def _get_copies(graph, keys, **options):
    """Compute as another process does, whose results are copies."""
    return pickle.loads(pickle.dumps(dask.get(graph, keys, **options)))


@pytest.mark.parametrize("kind", [NadarayaWatsonRegressor, RandomFeatureRidge])
def test_results_of_other_processes(kind, table):
    X, _, y, _ = table
    model = kind(OPRFSampler(n_components=32, random_state=0))
    expected = crt_dask.fit(model, lazy(X), lazy(y, 100))
    with dask.config.set(scheduler=_get_copies):
        found = crt_dask.fit(model, lazy(X), lazy(y, 100))
    assert_array_equal(found.predict(QUERIES), expected.predict(QUERIES))
    assert type(found.kernel) is OPRFSampler


@pytest.mark.parametrize("sigma", ["median", "scale", None])
def test_class_weights_determine_sigma_as_in_memory(sigma, table):
    X = table[0] * np.where(table[0][:, :1] > 1, 9, 1)
    labels = X[:, 0] > 1
    model = RandomFeatureRidgeClassifier(
        OPRFSampler(n_components=32, sigma=sigma, random_state=0),
        class_weight={False: 1, True: 20},
    )
    found, expected = crt_dask.fit(model, lazy(X), labels), clone(model).fit(X, labels)
    assert_allclose(found.sigma_, expected.sigma_, rtol=1e-12)
    proba = expected.predict_proba(QUERIES)
    assert_allclose(found.predict_proba(QUERIES), proba, rtol=1e-7)


def test_a_class_of_weight_zero(table):
    X, labels, *_ = table
    model = RandomFeatureRidgeClassifier(
        OPRFSampler(n_components=32, random_state=0),
        class_weight={"a": 0, "bb": 1, "ccc": 2},
    )
    found, expected = crt_dask.fit(model, lazy(X), labels), clone(model).fit(X, labels)
    proba = expected.predict_proba(QUERIES)
    assert_allclose(found.predict_proba(QUERIES), proba, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    "kind", [NadarayaWatsonClassifier, RandomFeatureRidgeClassifier]
)
def test_weights_of_some_classes_that_some_blocks_lack(kind, table):
    X, labels, *_ = table
    labels = np.sort(labels)
    sampler = OPRFSampler(n_components=32, sigma="scale", random_state=0)
    model = kind(sampler, class_weight={"a": 2})
    found, expected = crt_dask.fit(model, lazy(X), labels), clone(model).fit(X, labels)
    proba = expected.predict_proba(QUERIES)
    assert_allclose(found.predict_proba(QUERIES), proba, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("form", ["list", "objects", "series", "category"])
def test_labels_in_memory(form, table):
    X, labels, *_ = table
    pd = pytest.importorskip("pandas")
    given = {
        "list": labels.tolist(),
        "objects": labels.astype(object),
        "series": pd.Series(labels),
        "category": pd.Series(labels, dtype="category"),
    }[form]
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=32, random_state=0))
    found, expected = crt_dask.fit(model, lazy(X), given), clone(model).fit(X, given)
    assert_array_equal(found.classes_, expected.classes_)
    assert_array_equal(found.predict(QUERIES), expected.predict(QUERIES))


def test_blocks_exchange_sums_and_no_maps(table):
    X, labels, *_ = table
    sizes = []

    def measure(key, result, *_):
        if hasattr(result, "_value"):  # what was fitted on a block
            sizes.append(len(pickle.dumps(result)))

    width = 1024
    sampler = OPRFSampler(sigma=1.0, n_components=width, random_state=0)
    model = NadarayaWatsonClassifier(sampler)
    scheduler = dask.config.set(scheduler="synchronous")
    with scheduler, dask.callbacks.Callback(posttask=measure):
        crt_dask.fit(model, lazy(X, (300, D)), labels)
    assert len(sizes) > 3
    assert max(sizes) < 8 * width * (3 + 1) + 5000  # sums of three classes, shifts


def test_a_model_goes_on_like_any_other(table):
    X, labels, *_ = table
    half, rest = slice(0, 500), slice(500, N)
    sampler = OPRFSampler(sigma="scale", n_components=32, random_state=0)
    model = NadarayaWatsonClassifier(sampler)  # selects nothing that rows change later
    found = crt_dask.fit(model, lazy(X[half], (123, D)), labels[half])
    found = pickle.loads(pickle.dumps(found)).partial_fit(X[rest], labels[rest])
    frozen = NadarayaWatsonClassifier(FrozenEstimator(found.kernel_)).fit(X, labels)
    assert_allclose(found.predict_proba(X), frozen.predict_proba(X), rtol=1e-10)
    sampler = crt_dask.fit(OPRFSampler(random_state=0), lazy(X[half], (123, D)))
    sampler.partial_fit(X[rest])
    expected = OPRFSampler(random_state=0).fit(X)
    assert_allclose(sampler.transform(X), expected.transform(X), rtol=1e-10)


def test_weights_of_zero_and_blocks_without_rows(table):
    X, labels, _, weights = table
    weights[:400] = 0
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=32, random_state=0))
    found = crt_dask.fit(model, lazy(X), labels, sample_weight=weights)
    expected = model.fit(X, labels, weights)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), rtol=1e-10)
    with pytest.raises(ValueError, match="weights are 0"):
        crt_dask.fit(model, lazy(X), labels, sample_weight=0 * weights)
    with pytest.raises(ValueError, match="blocks are empty"):
        crt_dask.fit(model, lazy(X[:0], (10, D)), labels[:0])
    with pytest.raises(ValueError, match="Negative values"):
        crt_dask.fit(model, lazy(X), labels, sample_weight=-weights)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        crt_dask.fit(model, lazy(X), labels)


@pytest.fixture
def frames(table):
    """Return a DataFrame of rows and targets in parts, one empty, and in memory."""
    # which does not always go with the NumPy that is there
    pytest.importorskip("pyarrow", exc_type=ImportError)
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, labels, y, weights = table
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    frame = frame.assign(label=labels, number=y, weight=weights)
    parts = dd.from_pandas(frame, npartitions=4)
    return frame[frame.v > -1], parts[parts.v > -1]


def test_data_frames_keep_their_names(frames):
    here, there = frames
    names = list("vwxyz")
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=32, random_state=0))
    fits = [
        crt_dask.fit(
            model, there[names], there["label"], sample_weight=there["weight"]
        ),
        model.fit(here[names], here["label"], here["weight"]),
    ]
    found, expected = fits
    for fitted in (found, found.kernel_):
        assert fitted.feature_names_in_.tolist() == names
    proba = expected.predict_proba(here[names])
    assert_allclose(found.predict_proba(here[names]), proba, rtol=1e-10)
    lazily = crt_dask.map_rows(found.predict_proba, there[names])
    assert_allclose(lazily.compute(), proba, rtol=1e-10)
    assert lazily.dtype == np.float64
    assert lazily.ndim == 2
    labels = crt_dask.map_rows(found.predict, there[names]).compute()
    assert_array_equal(labels, expected.predict(here[names]))
    with pytest.raises(ValueError, match="feature names"):
        crt_dask.map_rows(found.predict, there[names[::-1]])
    median = crt_dask.fit(OPRFSampler(sigma="median", random_state=0), there[names])
    assert_allclose(
        median.sigma_,
        OPRFSampler(sigma="median", random_state=0).fit(here[names]).sigma_,
        rtol=1e-9,  # 1000 rows are more than there are
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_of_blocks_of_unknown_lengths(rng, weighted):
    """Rows are sampled by their positions in the whole table, as in memory."""
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", exc_type=ImportError)
    dd = pytest.importorskip("dask.dataframe")
    X = rng.standard_normal((3000, 2)) * np.linspace(1, 3, 3000)[:, None]
    y = X[:, 0] + 3 * rng.normal(size=3000)
    weights = rng.integers(0, 3, 3000).astype(float) if weighted else None
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(y=y, weight=weights)
    there = dd.from_pandas(frame, npartitions=4)
    rows, given = there[["a", "b"]], there["weight"] if weighted else None
    sampler = OPRFSampler(sigma="median", n_components=32, random_state=0)
    found = crt_dask.fit(sampler, rows, sample_weight=given)
    expected = sampler.fit(X, sample_weight=weights)
    assert_allclose(found.sigma_, expected.sigma_, rtol=1e-12)
    for kind in (NadarayaWatsonRegressor, RandomFeatureRidge):
        model = kind(OPRFSampler(n_components=32, random_state=0))
        found = crt_dask.fit(model, rows, there["y"], sample_weight=given)
        expected = model.fit(X, y, weights)
        assert_allclose(found.sigma_, expected.sigma_, rtol=1e-12)


def test_files_whose_parts_dask_joins(frames, tmp_path):
    """For few columns of a file, Dask makes fewer blocks than it has parts."""
    here, _ = frames
    names = list("vwxyz")
    file = tmp_path / "rows.parquet"
    here.to_parquet(file, row_group_size=100)
    there = dask.dataframe.read_parquet(file, split_row_groups=True)
    assert there["label"].optimize().npartitions < there.npartitions
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=32, random_state=0))
    for weight in (None, "weight"):
        weights = None if weight is None else there[weight]
        found = crt_dask.fit(
            model, there[names[:1]], there["label"], sample_weight=weights
        )
        expected = model.fit(
            here[names[:1]], here["label"], None if weight is None else here[weight]
        )
        proba = expected.predict_proba(here[names[:1]])
        assert_allclose(found.predict_proba(here[names[:1]]), proba, rtol=1e-10)


def test_numbers_of_frames_and_unknown_lengths(frames):
    here, there = frames
    model = NadarayaWatsonRegressor(OPRFSampler(n_components=32, random_state=0))
    rows, numbers = there[list("vwxyz")], there["number"]
    X = here[list("vwxyz")].to_numpy()
    expected = model.fit(X, here["number"]).predict(X)
    array = rows.to_dask_array()
    found = crt_dask.fit(model, array, numbers)
    assert_allclose(found.predict(X), expected, rtol=1e-12)
    shape = crt_dask.map_rows(found.predict, array).shape
    assert len(shape) == 1
    assert np.isnan(shape[0])
    for y in (here["number"], numbers.repartition(npartitions=1)):
        with pytest.raises(ValueError, match=r"compute_chunk_sizes|inconsistent"):
            crt_dask.fit(model, array, y)
        with pytest.raises(ValueError, match="Take both from one DataFrame"):
            crt_dask.fit(model, rows, y)


def test_map_rows_knows_shape_type_and_blocks(table):
    X, labels, *_ = table
    rows = lazy(X.astype(np.float32))
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=48, random_state=0))
    model.fit(X.astype(np.float32), labels)
    with dask.config.set(scheduler=_nothing_is_computed):
        features = crt_dask.map_rows(model.kernel_.transform, rows)
        proba = crt_dask.map_rows(model.predict_proba, rows)
        found = crt_dask.map_rows(model.predict, rows)
    assert (features.shape, features.dtype) == ((N, 48), np.float32)
    assert features.chunks == (ODD[0], (48,))
    assert (proba.chunks, proba.dtype) == ((ODD[0], (3,)), np.float32)
    assert (found.chunks, found.dtype) == ((ODD[0],), labels.dtype)
    assert_array_equal(features.compute(), model.kernel_.transform(rows.compute()))
    assert_array_equal(found.compute(), model.predict(rows.compute()))
    assert_array_equal(proba[310:420].compute(), proba.compute()[310:420])
    plain = crt_dask.map_rows(lambda Z: Z[:, :1] > 0, rows)
    assert (plain.shape, plain.dtype) == ((N, 1), bool)
    assert_array_equal(plain.compute(), X[:, :1] > 0)


def _nothing_is_computed(*args, **kwargs):
    raise AssertionError("something was computed")


def test_slopes_and_standard_errors_of_lazy_rows(table):
    X, labels, numbers, _ = table
    fits = LocalLinearRegressor(alpha=0.1).fit(X, numbers)
    found = crt_dask.map_rows(fits.slopes, lazy(X))
    assert found.shape == (N, D, 1)
    assert_allclose(found.compute(), fits.slopes(X), rtol=1e-6, atol=1e-9)
    sampler = OPRFSampler(sigma=0.1, random_state=0)
    model = NadarayaWatsonClassifier(sampler).fit(X, labels)
    with pytest.raises(TypeError, match=r"map_rows\(estimator.approximation_error"):
        model.approximation_error(lazy(X))
    with pytest.raises(TypeError, match="one array, but approximation_error returns"):
        crt_dask.map_rows(model.approximation_error, lazy(X))
    found = crt_dask.map_rows(lambda rows: model.approximation_error(rows)[0], lazy(X))
    assert_allclose(found.compute(), model.approximation_error(X).std, rtol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(sigma=1.0),
        LocalLinearRegressor(sigma=0.5, alpha=0.1),
        NadarayaWatsonClassifier(sigma=1.0),
    ],
    ids=repr,
)
def test_uncertainty_of_lazy_rows(model, table):
    """Each block has the scores, intervals and probabilities that it has in memory."""
    X, labels, numbers, weights = table
    has_labels = hasattr(model, "predict_proba")
    model.fit(X, labels if has_labels else numbers, weights)
    methods = ["predict_proba"] if has_labels else ["predict_interval"]
    for method in ["score_samples", *methods]:
        function = getattr(model, method)
        found = crt_dask.map_rows(function, lazy(QUERIES, (70, D)))
        expected = function(QUERIES)
        assert found.shape == expected.shape
        # rounding may move a row past another one, of weight 3 at most
        atol = 3 / weights.sum() if method == "score_samples" else 1e-9
        assert_allclose(found.compute(), expected, rtol=1e-6, atol=atol)


def test_samplers_warn_of_large_errors_as_in_memory(rng):
    X = rng.standard_normal((4000, 6))
    sampler = PositiveRBFSampler(sigma=1.0, n_components=8, random_state=0)
    with pytest.warns(ApproximationWarning, match="sampled pairs of rows"):
        clone(sampler).fit(X)
    with pytest.warns(ApproximationWarning, match="sampled pairs of rows"):
        crt_dask.fit(sampler, lazy(X, (2000, 6)))


@pytest.mark.parametrize("sigma", [None, 3.0])
def test_features_that_are_too_few_are_warned_about_as_in_memory(sigma, rng):
    X = rng.standard_normal((4000, 6))
    labels = (np.abs(X[:, :3]).sum(axis=1) > 2.2).astype(int)
    model = NadarayaWatsonClassifier(
        OPRFSampler(sigma=sigma, n_components=30, random_state=0)
    )
    with pytest.warns(ApproximationWarning) as expected:
        clone(model).fit(X, labels)
    with pytest.warns(ApproximationWarning) as found:
        crt_dask.fit(model, lazy(X, (700, 6)), lazy(labels, 700))
    assert {str(each.message)[:30] for each in found} == {
        str(each.message)[:30] for each in expected
    }


@pytest.mark.parametrize(
    "kind",
    [NadarayaWatsonRegressor, RandomFeatureRidge],
    ids=lambda kind: kind.__name__,
)
def test_repeated_rows_are_warned_about_as_in_memory(kind, rng):
    X = np.repeat(rng.standard_normal((1000, 3)), 2, axis=0)
    y = X[:, 0]
    model = kind(OPRFSampler(n_components=30, random_state=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        with pytest.warns(UserWarning, match="are copies of other rows"):
            clone(model).fit(X, y)
        with pytest.warns(UserWarning, match="are copies of other rows"):
            crt_dask.fit(model, lazy(X, (500, 3)), lazy(y, 500))


@pytest.mark.parametrize(
    "estimator",
    [
        NadarayaWatsonClassifier(),
        NadarayaWatsonClassifier(Prototypes()),
        GridSearchCV(LogisticRegression(), {}),
        CentersRBFSampler(),
        make_pipeline(StandardScaler(), OPRFSampler()),
        NadarayaWatsonClassifier(Nystroem()),
        RandomFeatureRidgeClassifier(Nystroem()),
    ],
    ids=repr,
)
def test_what_needs_all_rows_says_so(estimator, table):
    X, labels, *_ = table
    message = r"(?s)supports LearnedMetric, samplers.*to a sample of the rows"
    with pytest.raises(TypeError, match=message):
        crt_dask.fit(estimator, lazy(X), labels)


def test_tables_in_memory_and_wrong_shapes(table):
    X, labels, y, _ = table
    model = NadarayaWatsonClassifier(OPRFSampler(random_state=0))
    for call in (
        lambda: crt_dask.fit(model, X, labels),
        lambda: crt_dask.map_rows(len, X),
    ):
        with pytest.raises(TypeError, match=r"requires Dask arrays or DataFrames"):
            call()
    with pytest.raises(ValueError, match="requires the targets y"):
        crt_dask.fit(model, lazy(X))
    with pytest.raises(ValueError, match="Expected 2D array"):
        crt_dask.fit(model, lazy(y, 100), labels)
    with pytest.raises(ValueError, match="Chunks do not add up"):
        crt_dask.fit(model, lazy(X), lazy(labels[1:], 100))
    with pytest.raises(ValueError, match="for classifiers"):
        regressor = NadarayaWatsonRegressor(OPRFSampler())
        crt_dask.fit(regressor, lazy(X), y, classes=[0])
    with pytest.raises(ValueError, match="sigma"):
        crt_dask.fit(OPRFSampler(sigma=-1.0), lazy(X))


# ------------------------------------------------- blocks that do not go together
SAMPLER = OPRFSampler(n_components=8, sigma=1.0, random_state=0)


def of_blocks(*blocks, width):
    """Return an array that declares one width for blocks of any."""

    def block(block_info):
        return blocks[block_info[None]["chunk-location"][0]]

    chunks = (tuple(map(len, blocks)), (width,))
    return da.map_blocks(block, chunks=chunks, dtype=float, meta=np.empty((0, width)))


def frame_of_parts(*parts):
    """Return a DataFrame or Series that declares what its first part has."""
    pytest.importorskip("pyarrow", exc_type=ImportError)
    dd = pytest.importorskip("dask.dataframe")
    return dd.from_map(
        parts.__getitem__, range(len(parts)), meta=parts[0][:0], enforce_metadata=False
    )


@pytest.mark.parametrize("widths", [(3, 1), (3, 4), (1, 3)], ids=str)
def test_blocks_of_another_width_raise(widths):
    X = of_blocks(*(np.ones((4, width)) for width in widths), width=3)
    with dask.config.set(scheduler="synchronous"):
        frozen = FrozenEstimator(SAMPLER.fit(np.eye(3)))
        models = [NadarayaWatsonRegressor(each) for each in (SAMPLER, "linear", frozen)]
        for model in (SAMPLER, *models):
            with pytest.raises(
                ValueError, match=r"X has \d features, but .* expecting 3"
            ):
                crt_dask.fit(model, X, np.arange(8.0))
        with pytest.raises(ValueError, match="features"):
            crt_dask.map_rows(frozen.transform, X).compute()
    y = of_blocks(np.ones((4, 3)), np.ones((4, 1)), width=3)
    X = of_blocks(np.ones((4, 3)), np.ones((4, 3)), width=3)
    for kind in (NadarayaWatsonRegressor, RandomFeatureRidge):
        with pytest.raises(ValueError, match=r"outputs|shape|dimension"):
            crt_dask.fit(kind(SAMPLER), X, y)


def test_columns_in_another_order_raise():
    pd = pytest.importorskip("pandas")
    part = pd.DataFrame({"a": np.zeros(4), "b": np.full(4, 50.0)})
    turned = part[["b", "a"]]
    X, y = frame_of_parts(part, turned), frame_of_parts(part.a, part.a)
    for model in (OPRFSampler(), NadarayaWatsonRegressor("linear")):
        with pytest.raises(ValueError, match="same order as they were in fit"):
            crt_dask.fit(model, X, y)
    model = OPRFSampler().fit(part)
    with pytest.raises(ValueError, match="same order as they were in fit"):
        crt_dask.map_rows(model.transform, X).compute()
    ordered = X.map_partitions(lambda part: part[list(X.columns)])
    assert_array_equal(crt_dask.fit(SAMPLER, ordered).feature_names_in_, ["a", "b"])


@pytest.mark.parametrize("dtype", [None, object])
@pytest.mark.parametrize("blocks", [(["x", "y"], [1, 2]), (["x", 1], ["x", 2])])
def test_labels_of_two_types_raise(blocks, dtype):
    if dtype is None and isinstance(blocks[0][1], int):
        pytest.skip("NumPy has made strings of all of them")
    blocks = [np.array(labels, dtype=dtype) for labels in blocks]
    X = da.ones((4, 2), chunks=(2, 2))
    y = da.map_blocks(
        lambda block_info: blocks[block_info[None]["chunk-location"][0]],
        chunks=((2, 2),),
        dtype=object,
        meta=np.empty(0, dtype=object),
    )
    model = NadarayaWatsonClassifier(SAMPLER)
    with pytest.raises(ValueError, match="Mix of label input types"):
        crt_dask.fit(model, X, y)
    with pytest.raises(ValueError, match="Mix of label input types"):
        crt_dask.fit(model, X, X[:, 0].astype(str), classes=["x", "y", 1])


@pytest.mark.parametrize(
    "estimator",
    [
        OPRFSampler(),
        NadarayaWatsonClassifier(OPRFSampler()),
        NadarayaWatsonRegressor(),
    ],
    ids=repr,
)
def test_estimators_refuse_what_they_would_load(estimator, table):
    X, labels, y, _ = table
    targets = y if isinstance(estimator, NadarayaWatsonRegressor) else labels
    with dask.config.set(scheduler=_nothing_is_computed):
        with pytest.raises(TypeError, match=r"sklearn_crt\.dask\.fit"):
            estimator.fit(lazy(X), targets)
        if not isinstance(estimator, OPRFSampler):
            with pytest.raises(TypeError, match=r"sklearn_crt\.dask\.fit"):
                estimator.fit(X, lazy(targets, 100))
    estimator.fit(X[:100], targets[:100])
    method = estimator.transform if hasattr(estimator, "transform") else None
    method = estimator.predict if method is None else method
    with pytest.raises(TypeError, match=r"sklearn_crt\.dask\.map_rows"):
        method(lazy(X))


@pytest.mark.parametrize("labels", [False, True])
def test_ridge_on_raw_tables(labels):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", exc_type=ImportError)
    frames = pytest.importorskip("dask.dataframe")
    X, y = mixed_table(600)
    # a column that has values in some blocks only
    X["late"] = pd.Series(["a", "b"] * 300, dtype=object).where(X.index > 200, None)
    y = pd.Series(np.where(y > 0, "up", "down") if labels else y)
    kind = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge
    model = kind(AnovaSampler(n_components=100, random_state=0))
    tables = (frames.from_pandas(each, npartitions=4, sort=False) for each in (X, y))
    found = crt_dask.fit(model, *tables)
    expected = kind(AnovaSampler(n_components=100, random_state=0)).fit(X, y)
    method = "predict_proba" if labels else "predict"
    values = getattr(expected, method)(X)
    assert_allclose(getattr(found, method)(X), values, atol=1e-9)
    lazily = crt_dask.map_rows(
        getattr(found, method), frames.from_pandas(X, npartitions=3, sort=False)
    )
    assert_allclose(lazily.compute(), values, atol=1e-9)
    assert found.effects(X[:3]).names[0] == "size"
    restored = pickle.loads(pickle.dumps(found)).partial_fit(X[:9], y[:9])
    assert restored.kernel.n_components == 100


def test_ridge_sets_the_size_of_a_sampler_of_tables(table):
    X, _, y, _ = table
    model = RandomFeatureRidge(AnovaSampler(random_state=0), n_components=30)
    found, expected = crt_dask.fit(model, lazy(X), y), clone(model).fit(X, y)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-9)
    assert repr(found) == repr(model)


def test_categories_of_later_blocks_are_known(rng):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow", exc_type=ImportError)
    frames = pytest.importorskip("dask.dataframe")
    codes = np.sort(rng.integers(0, 60, 1500))
    X = pd.DataFrame({"name": [f"c{code}" for code in codes]})
    X["number"] = rng.normal(size=1500)
    tables = (frames.from_pandas(each, npartitions=3) for each in (X, pd.Series(codes)))
    model = RandomFeatureRidge(AnovaSampler(n_components=30, random_state=0))
    crt_dask.fit(model, *tables).predict(X[-50:])  # without a warning
