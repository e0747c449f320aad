"""The parameter sigma of kernel averages: selected, prescribed, or set on a sampler."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import kernels as process
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.utils.class_weight import compute_sample_weight

from sklearn_crt import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PoissonSampler,
    PositiveRBFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.kernels import Gaussian

# what the default sigma of a sampler is multiplied by, before the finer grid
OCTAVES = 2.0 ** np.arange(-2, 5)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(250, 2)) * [1, 0.1]
    X = np.vstack([X, X[:30]])  # copies are left out with their row
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=280)
    return X, y, rng.integers(1, 4, size=280).astype(float)


def leave_one_out_errors(model, sampler, X, y, weights):
    """Return the error of each row, predicted from the kernel without its copies."""
    kernel = sampler.fit(X, sample_weight=weights).approximate_kernel(X)
    kernel[(X[:, None] == X).all(axis=2)] = 0
    if isinstance(model, NadarayaWatsonRegressor):
        total = kernel @ weights
        mean = np.average(y, weights=weights)
        with np.errstate(all="ignore"):
            found = np.where(total > 0, kernel @ (weights * y) / total, mean)
        return (found - y) ** 2 / np.average((y - mean) ** 2, weights=weights)
    Y = np.stack([y == c for c in np.unique(y)], axis=1).astype(float)
    scores = kernel @ (weights[:, None] * Y)
    total = scores.sum(axis=1, keepdims=True)
    prior = np.average(Y, axis=0, weights=weights)
    with np.errstate(all="ignore"):
        found = np.maximum(np.where(total > 0, scores / total, prior), 0)
    found /= found.sum(axis=1, keepdims=True)
    brier = ((found - Y) ** 2).sum(axis=1)
    return (found.argmax(axis=1) != Y.argmax(axis=1)) + 0.2 * brier


@pytest.mark.parametrize("sampler", [OPRFSampler, PositiveRBFSampler, TrigRBFSampler])
@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_auto_minimises_the_leave_one_out_error_of_the_features(cls, sampler, table):
    X, y, weights = table
    y = y if cls is NadarayaWatsonRegressor else (y > 0).astype(int)
    inside = sampler(n_components=200, random_state=0)
    model = cls(inside).fit(X, y, weights)
    scale = clone(inside).fit(X, sample_weight=weights).sigma_

    def errors(sigma):
        return leave_one_out_errors(
            model, clone(inside).set_params(sigma=sigma), X, y, weights
        )

    coarse = np.array([weights @ errors(scale * m) for m in OCTAVES])
    best = OCTAVES[coarse.argmin()]
    finer = best * 2.0 ** np.array([-0.5, 0, 0.5])
    finer_errors = np.array([weights @ errors(scale * m) for m in finer])
    expected = finer[finer_errors.argmin()]
    # next to the default sigma, another has to be better by a standard error
    kept = best == 1 and np.isclose(model.sigma_, scale)
    assert kept or np.isclose(model.sigma_, scale * expected)
    assert_allclose(model.kernel_.sigma_, model.sigma_)
    assert f"sigma={float(model.sigma_)!r}"[:12] in repr(model.kernel_)


def test_weights_are_copies_and_their_unit_does_not_count(table):
    X, y, weights = table
    copies = np.repeat(np.arange(280), weights.astype(int))
    for model in (
        NadarayaWatsonRegressor(OPRFSampler(random_state=0)),
        NadarayaWatsonRegressor(),
        LocalLinearRegressor(),
        NadarayaWatsonRegressor(Prototypes(50, random_state=0)),
    ):
        expected = model.fit(X, y, weights).sigma_
        for unit in (1e-3, 1e3):
            assert_allclose(model.fit(X, y, unit * weights).sigma_, expected)
        assert_allclose(model.fit(X[copies], y[copies]).sigma_, expected)


@pytest.mark.parametrize("sigma", [0.7, "scale", "median", [0.5, 2.0]])
def test_sigma_of_the_estimator_equals_sigma_of_the_sampler(sigma, table):
    X, y, _ = table
    outside = NadarayaWatsonRegressor(OPRFSampler(random_state=0), sigma=sigma)
    inside = FrozenEstimator(OPRFSampler(sigma=sigma, random_state=0).fit(X))
    expected = NadarayaWatsonRegressor(inside).fit(X, y)
    assert_allclose(outside.fit(X, y).sigma_, expected.sigma_)
    assert_allclose(outside.predict(X), expected.predict(X), rtol=1e-9)


def test_a_sigma_that_was_set_on_the_sampler_is_kept(table):
    X, y, _ = table
    for sigma in (0.3, "median", np.array([1.0, 3.0])):
        sampler = OPRFSampler(sigma=sigma, random_state=0)
        found = NadarayaWatsonRegressor(sampler).fit(X, y).sigma_
        assert_allclose(found, clone(sampler).fit(X).sigma_)
    same = NadarayaWatsonRegressor(OPRFSampler(sigma=0.3, random_state=0), sigma=0.3)
    assert same.fit(X, y).sigma_ == 0.3


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (OPRFSampler(sigma=2.0), "sigma=1.0 of NadarayaWatsonRegressor and sigma=2.0 "),
        ("linear", "sigma=1.0 has no effect with kernel='linear'"),
        (RBFSampler(), "sigma=1.0 of NadarayaWatsonRegressor has no effect"),
        (FrozenEstimator(RBFSampler()), "has no effect with kernel=FrozenEstimator"),
    ],
    ids=str,
)
def test_sigma_without_effect_is_an_error(kernel, message, table):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonRegressor(kernel, sigma=1.0).fit(X, y)


def test_kernels_of_gaussian_processes(table):
    X, y, _ = table
    kernel = process.RBF(0.5)
    model = NadarayaWatsonRegressor(kernel, sigma=1.0).fit(X, y)
    expected = NadarayaWatsonRegressor(Gaussian(), sigma=2.0).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X))
    assert model.kernel_ == kernel
    assert model.kernel_ is not kernel
    automatic = NadarayaWatsonRegressor(kernel).fit(X, y)
    expected = NadarayaWatsonRegressor().fit(X, y)
    assert_allclose(2 * automatic.sigma_, expected.sigma_)


def test_methods_follow_the_fitted_kernel(table):
    X, y, _ = table
    exact = NadarayaWatsonRegressor().fit(X, y).set_params(kernel=OPRFSampler())
    assert not hasattr(exact, "approximation_error")
    assert exact.kernel_weights(X[:3]).shape == (3, 280)
    assert exact.predict_interval(X[:3]).shape == (3, 2)
    assert repr(exact.kernel_) == "Gaussian()"
    sums = NadarayaWatsonRegressor(OPRFSampler(random_state=0)).fit(X, y)
    sums.set_params(kernel="gaussian")
    with warnings.catch_warnings(action="ignore"):
        assert sums.approximation_error(X[:3]).std.shape == (3,)
    for method in ("kernel_weights", "effective_sample_size", "predict_quantiles"):
        assert not hasattr(sums, method)
    assert not hasattr(NadarayaWatsonRegressor("linear").fit(X, y), "sigma_")
    assert not hasattr(NadarayaWatsonRegressor(Nystroem()).fit(X, y), "sigma_")


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights")
@pytest.mark.parametrize(
    "kernel", ["gaussian", OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)]
)
def test_class_weight_multiplies_the_weights_of_rows(kernel):
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], np.array(["a", "b", "c"])[y[:120]]
    for class_weight in ("balanced", {"a": 2.0, "c": 0.5}):
        own = compute_sample_weight(class_weight, y)
        model = NadarayaWatsonClassifier(kernel, class_weight=class_weight)
        found = model.fit(X, y).predict_proba(X)
        expected = NadarayaWatsonClassifier(kernel).fit(X, y, own)
        assert_allclose(found, expected.predict_proba(X))
        assert_allclose(model.class_prior_, expected.class_prior_)
    balanced = NadarayaWatsonClassifier(class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows"):
        balanced.partial_fit(X, y, ["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights")
@pytest.mark.parametrize("sampler", [TrigRBFSampler, PoissonSampler, OPRFSampler])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_is_normalised(sampler, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[: 50 * n_classes], y[: 50 * n_classes]
    kernel = sampler(n_components=30, sigma=1.0, random_state=0)
    model = NadarayaWatsonClassifier(kernel).fit(X, y)
    decisions, probabilities = model.decision_function(X), model.predict_proba(X)
    if n_classes == 2:
        assert_array_equal(model.predict(X), (decisions > 0).astype(int))
        assert np.all(np.abs(decisions) < 10)
    else:
        assert_array_equal(model.predict(X), decisions.argmax(axis=1))
        if sampler is OPRFSampler:  # whose scores are positive
            assert_allclose(decisions, probabilities)
        assert_allclose(decisions.max(axis=1), probabilities.max(axis=1), atol=0.1)
