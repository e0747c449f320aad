"""Faults that an audit found in averages, each with a test that failed before."""

import itertools
import pickle
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem

from sklearn_crt import (
    CentersRBFSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.samplers import PositiveRBFSampler

from ..cases import sampler_classes


@pytest.fixture
def table(rng):
    X = rng.normal(size=(120, 3))
    return X, (X[:, 0] + 0.3 * rng.normal(size=120) > 0).astype(int)


# ------------------------------------------------------------------ rows of a caller
MODELS = [
    NadarayaWatsonClassifier(),
    NadarayaWatsonClassifier("matern"),
    NadarayaWatsonClassifier(Prototypes(n_prototypes=500)),
    NadarayaWatsonClassifier(OPRFSampler(random_state=0)),
    NadarayaWatsonClassifier(OPRFSampler(sigma="median", random_state=0)),
    NadarayaWatsonRegressor(),
]


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_a_buffer_of_batches_may_be_used_again(model, kind, table):
    X, y = table
    y = y.astype(float) if isinstance(model, NadarayaWatsonRegressor) else y
    first = {} if isinstance(model, NadarayaWatsonRegressor) else {"classes": [0, 1]}

    def learned(copy):
        fitted = model.__class__(**model.get_params(deep=False))
        buffer, targets, weights = kind(X[:60].copy()), y[:60].copy(), np.ones(60)
        fitted.partial_fit(buffer, targets, sample_weight=weights, **first)
        if copy:
            buffer, targets = kind(X[60:]), y[60:]
        elif kind is sparse.csr_array:
            buffer.data[:] = kind(X[60:]).data
            targets[:] = y[60:]
        else:
            buffer[:], targets[:] = X[60:], y[60:]
            weights[:] = 0.5
        return fitted.partial_fit(buffer, targets).predict(X)

    assert_array_equal(learned(copy=False), learned(copy=True))


@pytest.mark.parametrize("model", [MODELS[0], MODELS[1], MODELS[5]], ids=repr)
def test_rows_changed_after_fit_change_nothing(model, table):
    X, y = table
    rows, targets = X.copy(), y.astype(float)
    fitted = model.__class__(**model.get_params(deep=False)).fit(rows, targets)
    expected = fitted.predict(X)
    rows[:], targets[:] = 0, 0
    assert_array_equal(fitted.predict(X), expected)


def test_centers_keep_no_rows_of_the_caller(table):
    X, _ = table
    buffer = X.copy()
    sampler = CentersRBFSampler(n_components=200, random_state=0).partial_fit(buffer)
    buffer[:] = 0
    expected = CentersRBFSampler(n_components=200, random_state=0).partial_fit(X)
    assert_array_equal(sampler.transform(X), expected.transform(X))


# --------------------------------------------------------------------------- columns
def frames(X):
    names = ["a", "b", "c"]
    return pd.DataFrame(X, columns=names), pd.DataFrame(X, columns=names[::-1])


@pytest.mark.parametrize("model", [MODELS[0], MODELS[2]], ids=repr)
def test_merge_compares_names_of_columns(model, table):
    X, y = table
    one, other = frames(X)
    make = model.__class__
    params = model.get_params(deep=False)
    fitted = make(**params).fit(one, y)
    with pytest.raises(ValueError, match=r"feature names .* \['a', 'b', 'c'\]"):
        fitted.merge(make(**params).fit(other, y))
    fitted.merge(make(**params).fit(one, y))


def test_samplers_compare_names_of_columns(table):
    one, other = frames(table[0])
    fitted = OPRFSampler(sigma=1.0, random_state=0).fit(one)
    with pytest.raises(ValueError, match="feature names"):
        fitted.merge(OPRFSampler(sigma=1.0, random_state=0).fit(other))


def test_a_frozen_sampler_compares_names_of_columns(table):
    X, y = table
    one, other = frames(X)
    model = NadarayaWatsonClassifier(FrozenEstimator(OPRFSampler().fit(one)))
    with pytest.raises(ValueError, match="feature names should match"):
        model.fit(other, y)
    model.fit(one, y)


# ------------------------------------------------------------------------ merging
def test_merge_compares_the_maps_and_not_what_they_do_to_some_rows(table):
    X, y = 1e9 * table[0], table[1]
    models = []
    for sigma in (1e-9, 2e-9):  # of which rows of a normal law see nothing
        sampler = PositiveRBFSampler(sigma=sigma, center=False, random_state=0).fit(X)
        models.append(NadarayaWatsonClassifier(FrozenEstimator(sampler)).fit(X, y))
    with pytest.raises(ValueError, match="same fitted"):
        models[0].merge(models[1])


@pytest.mark.parametrize(
    "sampler",
    [*(cls() for cls in sampler_classes()), CentersRBFSampler(n_components=9)],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_merge_takes_a_stored_copy_of_a_sampler_and_no_other_seed(sampler, table):
    X, y = np.abs(table[0]), table[1]
    sampler = clone(sampler).set_params(random_state=0).fit(X)
    copied = pickle.loads(pickle.dumps(sampler))
    other = clone(sampler).set_params(random_state=1).fit(X)
    first, second, third = (
        NadarayaWatsonClassifier(FrozenEstimator(s)).fit(X, y)
        for s in (sampler, copied, other)
    )
    first.merge(second)
    with pytest.raises(ValueError, match="same fitted"):
        first.merge(third)


@pytest.mark.parametrize("prototypes", [False, True])
@pytest.mark.parametrize("other", [{"kernel": "laplacian"}, {"sigma": 2.0}])
def test_merge_compares_kernels_and_sigma(prototypes, other, table):
    def fitted(kernel="gaussian", sigma=1.0):
        if prototypes:
            kernel = Prototypes(30, kernel=kernel, random_state=0)
        return NadarayaWatsonClassifier(kernel, sigma=sigma).fit(*table)

    with pytest.raises(
        ValueError, match=f"merge requires the same {next(iter(other))}"
    ):
        fitted().merge(fitted(**other))


def test_merge_of_samplers_compares_all_digits_of_parameters(rng):
    X = rng.normal(size=(50, 2000))
    sigma = np.ones(2000)
    other = sigma.copy()
    other[1000] = 5.0  # repr shows neither
    one, two = (
        OPRFSampler(sigma=s, random_state=0, n_components=10).fit(X)
        for s in (sigma, other)
    )
    with pytest.raises(ValueError, match="sigma"):
        one.merge(two)


# ----------------------------------------------------------------------- precision
def test_answers_of_float32_rows_keep_the_digits_of_the_targets(rng):
    X = rng.uniform(-2, 2, size=(400, 1))
    y = 1.7e9 + np.sin(3 * X[:, 0])
    few, oprf = Prototypes(128, random_state=0), OPRFSampler(n_components=500)
    for kernel in ("gaussian", few, oprf.set_params(random_state=0)):
        model = NadarayaWatsonRegressor(kernel)
        double = model.fit(X, y).score(X, y)
        single = model.fit(X.astype(np.float32), y).score(X.astype(np.float32), y)
        assert double > 0.2
        assert single == pytest.approx(double, abs=0.02)


@pytest.mark.parametrize("kernel", ["gaussian", Prototypes(random_state=0)], ids=str)
def test_categories_are_told_apart_in_any_order_of_the_rows(kernel, rng):
    codes, means = rng.integers(0, 30, size=600), rng.normal(size=30)
    X, y = np.eye(30)[codes], means[codes] + 0.01 * rng.normal(size=600)
    sigmas = set()
    for _ in range(3):
        order = rng.permutation(400)
        model = NadarayaWatsonRegressor(kernel).fit(X[order], y[order])
        assert model.score(X[400:], y[400:]) > 0.99
        sigmas.add(round(float(model.sigma_), 6))
    assert len(sigmas) == 1


# ------------------------------------------------------------------ failed fits
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_failed_fit_leaves_the_model_as_it_was(model, table):
    X, y = table
    fitted = model.__class__(**model.get_params(deep=False)).fit(X, y)
    expected = fitted.predict(X)
    bad_rows = np.full((5, 4), np.nan)
    bad_rows[:, 0] = 1
    for rows, targets in ((bad_rows, y[:5]), (X[:, :2], y[:-1]), (X, [None] * 120)):
        with pytest.raises((ValueError, TypeError)):
            fitted.fit(rows, targets)
        assert_array_equal(fitted.predict(X), expected)
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(X[:, :2], y)
    assert_array_equal(fitted.predict(X), expected)


@pytest.mark.parametrize(
    "sampler", [OPRFSampler(), CentersRBFSampler(n_components=50)], ids=repr
)
def test_a_failed_fit_leaves_the_sampler_as_it_was(sampler, table):
    X, _ = table
    sampler = sampler.__class__(**sampler.get_params(deep=False))
    with pytest.raises(ValueError, match="NaN"):
        sampler.partial_fit(np.full((5, 3), np.nan))
    sampler.partial_fit(X)  # died of AttributeError
    expected = sampler.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        sampler.fit(np.full((5, 4), np.nan))
    assert_array_equal(sampler.transform(X), expected)
    assert sampler.n_features_in_ == 3


def test_threads_predict_while_another_fits(table):
    X, y = table
    model = NadarayaWatsonClassifier(sigma=1.0).fit(X, y)
    failures, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                model.predict(X[:3])
            except Exception as error:
                failures.append(error)
                return

    threads = [threading.Thread(target=ask) for _ in range(2)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # or the fits wait for the others again and again
    for thread in threads:
        thread.start()
    for _ in range(60):
        model.fit(X, y)
    stop.set()
    sys.setswitchinterval(interval)
    for thread in threads:
        thread.join()
    assert failures == []


# ------------------------------------------------------------------------- weights
@pytest.mark.parametrize("size", [1e200, 1e308, 5e-324])
@pytest.mark.parametrize("model", [MODELS[0], MODELS[3], MODELS[5]], ids=repr)
def test_weights_whose_sums_are_no_numbers_are_refused(model, size, table):
    X, y = table
    model = model.__class__(**model.get_params(deep=False))
    weights = np.r_[np.zeros(60), np.full(60, size)]
    for rows in (X, X.astype(np.float32)):
        with pytest.raises(ValueError, match=r"between 9e-124 and 2e\+123"):
            model.fit(rows, y, sample_weight=weights)


@pytest.mark.parametrize("size", [1e-100, 1e100])
@pytest.mark.parametrize(
    "kernel", ["gaussian", OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)]
)
@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_the_size_of_all_weights_does_not_matter(kernel, size, table):
    X, y = table
    for kind in (NadarayaWatsonClassifier, NadarayaWatsonRegressor):
        method = "predict_proba" if kind is NadarayaWatsonClassifier else "predict"
        expected = getattr(kind(kernel).fit(X, y), method)(X)
        heavy = kind(kernel).fit(X, y, sample_weight=np.full(120, size))
        assert_allclose(getattr(heavy, method)(X), expected, rtol=1e-9, atol=1e-12)


# -------------------------------------------------------------------- own kernels
@pytest.mark.parametrize(
    "kernel, message",
    [
        (
            lambda X, Y: np.ones(X.shape[0]),
            r"shape \(\d+, \d+\), but returned shape \(\d+,\)",
        ),
        (lambda X, Y: np.ones((Y.shape[0], X.shape[0] + 1)), "shape"),
        (lambda X, Y: np.full((X.shape[0], Y.shape[0]), np.inf), "finite"),
        (lambda X, Y: np.full((X.shape[0], Y.shape[0]), np.nan), "finite"),
        (lambda X, Y: np.full((X.shape[0], Y.shape[0]), -1.0), "at least 0"),
    ],
)
def test_kernels_that_return_no_kernel_are_refused(kernel, message, table):
    X, y = table
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(kernel=kernel, sigma=1.0).fit(X, y).predict(X)


@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_a_transformer_of_others_still_merges(table):
    X, y = table
    sampler = FrozenEstimator(Nystroem(n_components=20, random_state=0).fit(X))
    one, two = (
        NadarayaWatsonClassifier(sampler).fit(X[p], y[p])
        for p in (slice(60), slice(60, 120))
    )
    whole = NadarayaWatsonClassifier(sampler).fit(X, y)
    assert_allclose(one.merge(two).predict_proba(X), whole.predict_proba(X))
    assert isinstance(sampler.estimator, BaseEstimator)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("prototypes", [False, True])
@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern"])
def test_sigma_at_the_ends_of_a_type(name, prototypes, dtype, table):
    """An answer or a clear error: no NaN, no raw error, no warning of NumPy."""
    X, y = table
    for scale, sigma in itertools.product([1e-30, 1e-18, 1.0], [1e-160, 1e30, 1e160]):
        rows = (scale * X).astype(dtype)
        kernel = Prototypes(kernel=name) if prototypes else name
        model = NadarayaWatsonClassifier(kernel, sigma=sigma)
        most = 1e15 if dtype == np.float32 else 1e150
        too_large = scale * sigma > most or sigma == 1e160
        with warnings.catch_warnings(action="error"):
            if too_large:
                with pytest.raises(
                    ValueError, match=r"too large for float|at most 1e\+154"
                ):
                    model.fit(rows, y)
            else:
                found = model.fit(rows, y).predict_proba(rows)
                assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
