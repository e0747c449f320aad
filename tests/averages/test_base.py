"""What both estimators share: batches, weights, merging, input, freezing, errors."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.kernels import ExponentialPower, Gaussian, Laplacian, Matern
from sklearn_crt.samplers import PositiveRBFSampler

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore:For .* rows, the sum of the kernel:RuntimeWarning"
    ),
    pytest.mark.filterwarnings(
        "ignore:kernel='linear' requires features of a kernel:UserWarning"
    ),
]


def estimators():
    samplers = [
        "gaussian",
        "matern",
        OPRFSampler(random_state=0),
        PositiveRBFSampler(sigma=0.6, kernel="softmax", random_state=0),
        TrigRBFSampler(random_state=0),
        RBFSampler(gamma=0.2, random_state=0),
    ]
    for sampler in samplers:
        yield NadarayaWatsonClassifier(sampler)
        yield NadarayaWatsonRegressor(sampler)


def outputs(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.predict(X)


@pytest.mark.parametrize("model", list(estimators()), ids=repr)
def test_batches_in_any_order_equal_fit(model, iris):
    X, y = iris
    targets = y if hasattr(model, "predict_proba") else X[:, 0]
    expected = outputs(model.fit(X, targets), X)
    parts = np.array_split(np.random.default_rng(0).permutation(150), 4)
    first = {"classes": np.unique(y)} if hasattr(model, "predict_proba") else {}
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 11):
        batched = type(model)(model.kernel)
        for k in order:
            batched.partial_fit(X[parts[k]], targets[parts[k]], **first)
            outputs(batched, X)  # a look in between changes nothing
        assert_allclose(outputs(batched, X), expected, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("model", list(estimators()), ids=repr)
def test_weights_count_as_repeated_rows_with_a_fixed_sigma(model, iris, rng):
    X, y = iris
    sigma = 1.0
    if isinstance(model.kernel, (PositiveRBFSampler, RBFSampler)):
        sigma = "auto"  # the transformer determines it
    targets = y if hasattr(model, "predict_proba") else X[:, 0]
    weights = rng.integers(0, 4, size=150)
    weighted = type(model)(model.kernel, sigma=sigma)
    weighted.fit(X, targets, sample_weight=weights)
    repeated = clone(weighted)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(targets, weights))
    if hasattr(model, "predict_proba"):  # the smoothing is chosen by left-out rows
        assert_array_equal(weighted.predict(X), repeated.predict(X))
    else:
        found, expected = weighted.predict(X), repeated.predict(X)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def frozen_and_free(X):
    yield FrozenEstimator(OPRFSampler(random_state=0).fit(X))
    yield PositiveRBFSampler(sigma=0.5, center=False, random_state=0)
    yield "gaussian"
    yield "linear"


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_merge_equals_fit(cls, index, iris):
    X, y = iris
    X = X - X.min() if index == 3 else X
    sampler = list(frozen_and_free(X))[index]
    targets = y if cls is NadarayaWatsonClassifier else X[:, 0]
    expected = outputs(cls(sampler).fit(X, targets), X)
    halves = [np.arange(0, 150, 2), np.arange(1, 150, 2)]
    for i, j in ((0, 1), (1, 0)):
        left = cls(sampler).fit(X[halves[i]], targets[halves[i]])
        right = cls(sampler).fit(X[halves[j]], targets[halves[j]])
        before = outputs(right, X)
        merged = left.merge(right)
        assert merged is left
        assert_allclose(outputs(merged, X), expected, rtol=1e-9)
        assert_allclose(outputs(right, X), before)


def test_merge_of_batches_equals_fit(iris):
    X, y = iris
    sampler = OPRFSampler(random_state=0)
    expected = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    one, two = (
        NadarayaWatsonClassifier(sampler).partial_fit(X[k::2], y[k::2], np.unique(y))
        for k in (0, 1)
    )
    assert_allclose(one.merge(two).predict_proba(X), expected, rtol=1e-8)
    assert_allclose(one.class_prior_, 1 / 3)


def test_merge_of_a_fixed_map_into_batches(iris):
    X, y = iris
    sampler = OPRFSampler(random_state=0)
    batched = NadarayaWatsonClassifier(sampler)
    batched.partial_fit(X[:50], y[:50], classes=np.unique(y))
    fitted = NadarayaWatsonClassifier(sampler)
    map_ = FrozenEstimator(OPRFSampler(random_state=0).fit(X[50:]))
    fitted = NadarayaWatsonClassifier(map_)
    fitted.partial_fit(X[50:], y[50:], classes=np.unique(y))
    expected = NadarayaWatsonClassifier(map_).fit(X, y).predict_proba(X)
    assert_allclose(batched.merge(fitted).predict_proba(X), expected, rtol=1e-8)


@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
@pytest.mark.parametrize("sigma", ["auto", "scale", "median", 0.7])
def test_later_rows_and_merged_halves_equal_fit_on_all_rows(cls, sigma, iris):
    X, y = iris
    y = y if cls is NadarayaWatsonClassifier else X[:, 0]
    model = cls(OPRFSampler(random_state=0, n_components=300), sigma=sigma)
    half = np.arange(150) % 2 == 0
    first, rest = (X[half], y[half]), (X[~half], y[~half])
    expected = clone(model).fit(
        np.vstack([X[half], X[~half]]), np.r_[y[half], y[~half]]
    )
    added = clone(model).fit(*first).partial_fit(*rest)
    merged = clone(model).fit(*first).merge(clone(model).fit(*rest))
    for found in (added, merged, pickle.loads(pickle.dumps(added)), added.freeze()):
        assert_allclose(found.sigma_, expected.sigma_)
        assert_allclose(outputs(found, X), outputs(expected, X), rtol=1e-7, atol=1e-9)


def test_merge_that_does_not_fit(iris):
    X, y = iris
    one = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(X[::2], y[::2])
    maps = [OPRFSampler(random_state=seed).fit(X) for seed in (0, 1)]
    two, three = (
        NadarayaWatsonClassifier(FrozenEstimator(each)).fit(X, y) for each in maps
    )
    with pytest.raises(ValueError, match="merge requires the same fitted sampler"):
        two.merge(three)
    with pytest.raises(ValueError, match="requires another NadarayaWatsonClassifier"):
        one.merge(NadarayaWatsonRegressor().fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="merge requires the same classes"):
        one.merge(NadarayaWatsonClassifier(one.kernel).fit(X[:60], y[:60]))
    with pytest.raises(ValueError, match="with 4 features and the other with 2"):
        one.merge(NadarayaWatsonClassifier(one.kernel).fit(X[:, :2], y))
    with pytest.raises(NotFittedError):
        one.merge(NadarayaWatsonClassifier("linear"))


@pytest.mark.parametrize("sampler", ["gaussian", "linear", OPRFSampler(random_state=0)])
def test_sparse_equals_dense(sampler, rng):
    X = sparse.csr_array(rng.random((80, 30)) * (rng.random((80, 30)) < 0.5))
    y = rng.integers(0, 3, size=80)
    dense = NadarayaWatsonClassifier(sampler).fit(X.toarray(), y)
    model = NadarayaWatsonClassifier(sampler).fit(X, y)
    expected = dense.predict_proba(X.toarray())
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8)
    model.partial_fit(X, y)
    dense.partial_fit(X.toarray(), y)
    expected = dense.predict_proba(X.toarray())
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8)


def test_frames(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd")
    assert_allclose(model.predict_proba(frame).sum(axis=1), 1)


def test_pickle_keeps_the_predictions(iris):
    X, y = iris
    for model in estimators():
        targets = y if hasattr(model, "predict_proba") else X[:, 0]
        model.fit(X, targets)
        restored = pickle.loads(pickle.dumps(model))
        assert_array_equal(outputs(restored, X), outputs(model, X))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("exact", "'kernel' parameter of .* must be a str among"),
        (3, "'kernel' parameter of .* implementing 'fit' and 'transform'"),
        (Matern(nu=0), "'nu' parameter of Matern"),
        (Laplacian(norm="l3"), "'norm' parameter of Laplacian"),
        (ExponentialPower(alpha=2.5), "'alpha' parameter of ExponentialPower"),
        (Prototypes(kernel="cubic"), "'kernel' parameter of Prototypes"),
        (Prototypes(0), "'n_prototypes' parameter of Prototypes"),
        (OPRFSampler(sigma=-1), "'sigma' parameter of OPRFSampler"),
    ],
    ids=str,
)
def test_parameters_out_of_range(kernel, message, iris):
    X, y = iris
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(kernel).fit(X, y)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (-1.0, "'sigma' parameter of NadarayaWatsonClassifier.*0.0, inf"),
        ("narrow", "'sigma' parameter of NadarayaWatsonClassifier.*'scale'"),
        ([1.0, 2.0], r"sigma has shape \(2,\), but X"),
    ],
)
def test_sigma_out_of_range(sigma, message, iris):
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(sigma=sigma).fit(*iris)


def test_wrong_input(iris):
    X, y = iris
    model = NadarayaWatsonClassifier(OPRFSampler())
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            method(X)
    with pytest.raises(ValueError, match="must contain at least one non-zero number"):
        model.fit(X, y, sample_weight=np.zeros(150))
    with pytest.raises(ValueError, match="Negative values in data passed to"):
        model.fit(X, y, sample_weight=-np.ones(150))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        NadarayaWatsonClassifier("linear").partial_fit(X, y)
    model.partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"y has the labels \['d'\], which are not"):
        model.partial_fit(X[:2], ["d", "a"])
    with pytest.raises(ValueError, match=r"X has 2 features, but .* expecting 4"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match="y has 2 outputs, but the first batch had 1"):
        NadarayaWatsonRegressor("linear").fit(X, X[:, 0]).partial_fit(X, X[:, :2])


@pytest.mark.parametrize("model", list(estimators()), ids=repr)
def test_skops_keeps_the_predictions(model, iris):
    io = pytest.importorskip("skops.io")
    X, y = iris
    targets = y if hasattr(model, "predict_proba") else X[:, 0]
    model = clone(model).fit(X, targets)
    stored = io.dumps(model)
    trusted = io.get_untrusted_types(data=stored)
    assert all(name.startswith("sklearn_crt.") for name in trusted)
    restored = io.loads(stored, trusted=trusted)
    assert_array_equal(outputs(restored, X), outputs(model, X))


def holds_row(model, row):
    """Return whether a pickle holds the numbers of a row."""
    return row.tobytes() in pickle.dumps(model)


@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
@pytest.mark.parametrize("sigma", ["scale", "median"])
def test_a_finished_model_holds_no_training_row(cls, sigma, iris):
    X, y = iris
    targets = y if cls is NadarayaWatsonClassifier else X[:, 0]
    first = {"classes": np.unique(y)} if cls is NadarayaWatsonClassifier else {}
    sampler = OPRFSampler(sigma=sigma, random_state=0)
    model = cls(sampler).fit(X, targets)
    assert holds_row(model, X[70])
    assert not holds_row(model.freeze(), X[70])
    model = cls(sampler).partial_fit(X[:100], targets[:100], **first)
    assert holds_row(model, X[70])
    expected = outputs(model, X)
    assert model.freeze() is model
    assert not holds_row(model, X[70])
    assert_array_equal(outputs(model, X), expected)
    with pytest.raises(ValueError, match="frozen"):
        model.kernel_.partial_fit(X)
    with pytest.raises(ValueError, match=r"partial_fit cannot change .* frozen"):
        model.partial_fit(X[100:], targets[100:])
    with pytest.raises(ValueError, match=r"merge cannot change .* frozen"):
        cls(sampler).fit(X, targets).merge(model)
    frozen = cls(FrozenEstimator(model.kernel_))
    frozen.partial_fit(X[:100], targets[:100], **first)
    assert_allclose(outputs(model, X), outputs(frozen, X), rtol=1e-9)


def test_the_exact_model_keeps_its_rows_when_frozen(iris):
    X, y = iris
    model = NadarayaWatsonClassifier(sigma="median")
    model.partial_fit(X[:100], y[:100], classes=np.unique(y))
    expected = model.predict_proba(X)
    assert_array_equal(model.freeze().predict_proba(X), expected)
    with pytest.raises(ValueError, match=r"partial_fit cannot change .* frozen"):
        model.partial_fit(X[100:], y[100:])


def test_freeze_needs_a_fitted_model():
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        NadarayaWatsonClassifier(OPRFSampler()).freeze()


def test_every_value_of_kernel(iris):
    """Names stand for kernel values with their default parameters."""
    X, y = iris
    values = {"gaussian": Gaussian(), "laplacian": Laplacian(), "matern": Matern()}
    for name in ("gaussian", "laplacian", "matern"):
        named = NadarayaWatsonClassifier(name).fit(X, y)
        assert named.kernel_ == values[name]
        expected = NadarayaWatsonClassifier(values[name]).fit(X, y)
        assert_array_equal(named.predict_proba(X), expected.predict_proba(X))
    default = NadarayaWatsonClassifier().fit(X, y)
    assert repr(default.kernel_) == "Gaussian()"
    front = NadarayaWatsonClassifier("linear").fit(X - X.min(), y)
    assert front.kernel_ == "linear"


def test_fitting_changes_no_kernel(iris):
    X, y = iris
    for kernel in (Matern(), Prototypes(20), OPRFSampler(random_state=0)):
        before = vars(kernel).copy()
        model = NadarayaWatsonClassifier(kernel).fit(X, y)
        assert vars(kernel) == before
        assert model.kernel is kernel
        assert model.kernel_ is not kernel
        assert model.sigma_ > 0


def test_kernels_of_different_kinds_in_one_grid(iris):
    X, y = iris
    oprf = OPRFSampler(n_components=400, random_state=0)
    kernels = ["gaussian", Prototypes(30, random_state=0), oprf, "laplacian"]
    search = GridSearchCV(NadarayaWatsonClassifier(), {"kernel": kernels}).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert scores.size == 4
    assert scores.min() > 0.7
    inside = {"sigma": [0.5, 3.0], "kernel__nu": [0.5, 2.5]}
    search = GridSearchCV(NadarayaWatsonClassifier(Matern()), inside).fit(X, y)
    assert set(search.best_params_) == set(inside)


def test_columns_of_a_frozen_sampler(iris):
    X, y = iris
    frozen = FrozenEstimator(OPRFSampler(random_state=0).fit(X[:, :3]))
    with pytest.raises(
        ValueError, match="X has 4 features, but OPRFSampler is expecting"
    ):
        NadarayaWatsonClassifier(frozen).fit(X, y)


def test_an_error_in_a_batch_leaves_the_model_as_it_was(iris):
    X, y = iris
    model = NadarayaWatsonClassifier().fit(X, y)
    expected = model.predict_proba(X)
    with pytest.raises(ValueError, match="y has the labels"):
        model.partial_fit(X[:2], ["a", "z"])
    assert_array_equal(model.predict_proba(X), expected)
