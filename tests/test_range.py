"""Values whose squares overflow: an error, where sums would be no numbers."""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler

from sklearn_crt import (
    CentersRBFSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.samplers import AnchoredRBFSampler, GERFSampler, HybridSampler

from .cases import sampler_cases

TOO_LARGE = {np.float32: [1e20, 1e37], np.float64: [1e155, 1e300]}
DIRECTIONS = np.vstack([np.eye(4), -np.eye(4), np.ones((1, 4)), [[1, -1, 0.5, 0]]])
SAMPLERS = sampler_cases(parts=False) + [CentersRBFSampler(random_state=0)]


@pytest.fixture
def table(rng):
    return rng.normal(size=(60, 4))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", TOO_LARGE)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_samplers_take_rows_whose_squares_are_numbers(sampler, dtype, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of columns that cannot be filled
        fitted = clone(sampler).set_params(random_state=0).fit(table.astype(dtype))
    for size in TOO_LARGE[dtype]:
        rows = (size * DIRECTIONS).astype(dtype)
        for X in (rows, sparse.csr_array(rows)):
            with pytest.raises(ValueError, match="too large for float"):
                fitted.transform(X)
    far = (1e-4 * TOO_LARGE[dtype][0] * DIRECTIONS).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of zeros, and of infinity
        assert not np.isnan(fitted.transform(far)).any()


@pytest.mark.parametrize(
    "sampler", ["matern", OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)]
)
@pytest.mark.parametrize(
    "estimator", [NadarayaWatsonClassifier, NadarayaWatsonRegressor]
)
def test_averages_do_too(estimator, sampler, table):
    X = table.astype(np.float32)
    fitted = estimator(sampler).fit(X, X[:, 0] > 0)
    for size in TOO_LARGE[np.float32]:
        with pytest.raises(ValueError, match="too large for float32"):
            fitted.predict((size * DIRECTIONS).astype(np.float32))
    with warnings.catch_warnings():
        # of cosines, whose weights vanish; the others are in log space
        warnings.filterwarnings(
            "ignore", r"For \d+ rows, the sum of the kernel weights"
        )
        found = fitted.predict(1e-4 * TOO_LARGE[np.float32][0] * DIRECTIONS)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("sampler", ["linear", RBFSampler(random_state=0)])
def test_features_do_too(sampler, table):
    features = np.abs(table).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    fitted = NadarayaWatsonClassifier(sampler).fit(features, table[:, 0] > 0)
    huge = np.full((3, 4), 1e37, np.float32)
    if sampler == "linear":
        with pytest.raises(ValueError, match=r"Features up to 1.0e\+37 are too large"):
            fitted.predict(huge)
    else:  # cosines, of whatever phase
        with pytest.warns(RuntimeWarning, match="smaller than the error of"):
            assert np.isfinite(fitted.predict_proba(1e-30 * huge)).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_fit_takes_rows_whose_variance_is_a_number(sampler, table):
    with pytest.raises(ValueError, match="squares are too large for float64"):
        clone(sampler).set_params(random_state=0).fit(1e160 * table)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", TOO_LARGE)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_no_number_is_made_of_what_is_none(sampler, value, dtype, table):
    """Where nobody looks for missing values: an error, or none of their rows."""
    X = table.astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = clone(sampler).set_params(random_state=0).fit(X)
        X[7, 1] = value
        with config_context(assume_finite=True):
            try:
                features = fitted.transform(X)
            except ValueError:
                return
    assert np.isnan(features[7]).all()
    assert np.isfinite(np.delete(features, 7, axis=0)).all()


def test_large_numbers_of_small_sigma_are_no_error(table):
    """What counts are rows multiplied by sigma."""
    X = table.astype(np.float32)
    small = OPRFSampler(sigma=0.5, random_state=0).fit_transform(X)
    large = OPRFSampler(sigma=0.5e-25, random_state=0).fit_transform(1e25 * X)
    np.testing.assert_allclose(large, small, rtol=1e-4)
    with pytest.raises(ValueError, match="too large"):
        OPRFSampler(sigma=1e25, random_state=0).fit(X).transform(X)


@pytest.mark.each_value
@pytest.mark.parametrize("sigma", ["scale", "median", 1e160])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_fit_takes_rows_whose_sigma_has_a_square(sampler, sigma, table):
    """Or else its square is asked for later on, and is no number."""
    message = "at most 1e\\+154" if sigma == 1e160 else f"too small for sigma='{sigma}'"
    with pytest.raises(ValueError, match=message):
        clone(sampler).set_params(random_state=0, sigma=sigma).fit(1e-160 * table)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_components", [100, 7])
def test_features_that_are_zero_stay_so_beside_factors_that_overflow(
    n_components, dtype
):
    """The sine of a row in the centre, times its factor of the softmax kernel."""
    X = np.repeat(np.array([[50.0, 50.0, -50.0]], dtype), 40, axis=0)
    options = {"sigma": 1.0, "kernel": "softmax", "n_components": n_components}
    sampler = GERFSampler(random_state=0, **options).fit(X)
    with pytest.warns(RuntimeWarning, match="are too large for float.* infinite"):
        features = sampler.transform(X)
    assert not np.isnan(features).any()
    assert np.isinf(features).any()


SOFTMAX = [
    clone(sampler).set_params(kernel="softmax", sigma=1.0, random_state=0)
    for sampler in SAMPLERS
    if getattr(sampler, "kernel", None) == "softmax"
]
assert len(SOFTMAX) == 9, SOFTMAX


@pytest.mark.parametrize("method", ["exact", "approximate", "variance"])
@pytest.mark.parametrize("sampler", SOFTMAX, ids=str)
def test_large_kernels_are_infinite_with_one_warning(sampler, method, table):
    fitted, n_infinite = clone(sampler).fit(table), 0
    name = "kernel_variance" if method == "variance" else f"{method}_kernel"
    for size in (10.0, 1e2, 1e8, 1e100):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = getattr(fitted, name)(size * table)
        assert not np.isnan(values).any()
        n_infinite += np.count_nonzero(np.isinf(values))
        messages = [str(warning.message) for warning in caught]
        warned = method == "exact" and np.isinf(values).any()
        assert len(messages) == warned, messages
        assert all("pairs of rows are too large for float64" in m for m in messages)
    assert n_infinite or method == "approximate"  # which may be too small as well


def test_products_that_are_too_small_have_no_variance_of_zero(table):
    """Their factor is too large: nothing is known of the variance."""
    options = {"kernel": "softmax", "sigma": 1.0, "random_state": 0}
    fitted = AnchoredRBFSampler(**options).fit(table)
    values, errors = fitted.kernel_variance(1e2 * table[:5], return_error=True)
    for found in (values, errors):
        assert np.isinf(found).any()
        assert not np.isnan(found).any()


def test_kernels_too_large_for_float32_are_infinite_too(table):
    fitted = OPRFSampler(kernel="softmax", sigma=1.0, random_state=0)
    fitted.fit(table.astype(np.float32))
    with pytest.warns(RuntimeWarning, match="too large for float32") as caught:
        kernel = fitted.exact_kernel(7 * table.astype(np.float32))
    assert len(caught) == 1
    assert np.isinf(kernel).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(sigma=1.0, random_state=0),
        GERFSampler(sigma=0.1, random_state=0),
        HybridSampler(sigma=1.0, random_state=0),
    ],
    ids=str,
)
def test_phases_beyond_what_a_float_resolves_are_told_of(
    sampler, convert, dtype, table
):
    """There features of sparse and of dense rows have little in common."""
    X = table.astype(dtype)
    fitted = clone(sampler).fit(X)
    near = np.array(1e-4 / np.finfo(dtype).eps, dtype)
    fitted.transform(convert(near * X[:, ::-1] / 100))
    rows = X.copy()
    rows[:7] *= 1e8 * near
    with pytest.warns(RuntimeWarning) as caught:
        fitted.transform(convert(rows))
    (message,) = (str(w.message) for w in caught if "phases" in str(w.message))
    assert "For 7 rows" in message
    assert f"the precision of {np.dtype(dtype).name}" in message
