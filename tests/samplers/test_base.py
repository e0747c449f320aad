"""What all samplers share: parameters, sigma, input kinds, errors, limits."""

import copy
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose
from scipy import sparse, special
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.extend import Frequencies, Orthogonal
from sklearn_crt.samplers import (
    ClusteredSampler,
    GERFSampler,
    HybridSampler,
    LaplacianSampler,
    MaternSampler,
    PoissonSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
)
from sklearn_crt.testing import assert_nested

SAMPLERS = [TrigRBFSampler, PositiveRBFSampler, OPRFSampler, GERFSampler]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


@pytest.fixture
def X(rng):
    return rng.normal([3.0, -2.0, 0.0], [1.0, 0.5, 2.0], size=(300, 3))


# ----------------------------------------------------------------------- sigma
@every_sampler
def test_sigma_is_half_of_gamma_squared(sampler, X):
    kernel = sampler(sigma=0.7).fit(X).exact_kernel(X)
    assert_allclose(kernel, rbf_kernel(X, gamma=0.7**2 / 2), atol=1e-12)


@every_sampler
def test_scale_is_the_gamma_of_scikit_learn(sampler, X):
    fitted = sampler(sigma="scale").fit(X)
    gamma = 1 / (X.shape[1] * X.var())  # as SVC documents it
    assert_allclose(fitted.sigma_**2 / 2, gamma, rtol=1e-12)
    assert_allclose(sampler().fit(sparse.csr_array(X)).sigma_, fitted.sigma_)


@every_sampler
@pytest.mark.parametrize("sigma", ["scale", "median"])
def test_learned_sigma_takes_out_the_unit_of_the_data(sampler, sigma, X):
    features = sampler(sigma=sigma, random_state=0).fit_transform(X)
    in_other_units = sampler(sigma=sigma, random_state=0).fit_transform(1000 * X)
    assert_allclose(in_other_units, features, rtol=1e-6)


def test_median_is_one_over_the_median_distance(X):
    few = X[:7]
    distances = np.sqrt(((few[:, None] - few) ** 2).sum(axis=2))
    median = np.median(distances[np.triu_indices(7, 1)])
    assert_allclose(TrigRBFSampler(sigma="median").fit(few).sigma_, 1 / median)


def test_median_of_many_rows_comes_from_a_sample_that_batches_share(rng):
    X = rng.normal(size=(5000, 2))
    whole = TrigRBFSampler(sigma="median", random_state=0).fit(X)
    parts = TrigRBFSampler(sigma="median", random_state=0)
    for batch in np.array_split(X, 7):
        parts.partial_fit(batch)
    assert parts.sigma_ == whole.sigma_
    assert_allclose(1 / whole.sigma_, np.sqrt(2 * 2 * np.log(2)), rtol=0.1)


@every_sampler
@pytest.mark.parametrize("sigma", ["scale", "median"])
def test_constant_data(sampler, sigma):
    X = np.full((5, 2), 7.0)
    fitted = sampler(sigma=sigma, random_state=0).fit(X)
    assert_allclose(fitted.sigma_, np.sqrt(2) if sigma == "scale" else 1.0)
    assert_allclose(fitted.exact_kernel(X), 1.0)
    assert np.all(np.isfinite(fitted.transform(X)))


@every_sampler
def test_sigma_for_each_column(sampler, X):
    sigma = np.array([0.2, 1.5, 0.7])
    by_column = sampler(sigma=sigma, random_state=0).fit(X)
    scaled = sampler(sigma=1.0, random_state=0).fit(X * sigma)
    assert_allclose(by_column.transform(X), scaled.transform(X * sigma), rtol=1e-9)
    assert_allclose(
        by_column.kernel_variance(X), scaled.kernel_variance(X * sigma), rtol=1e-9
    )
    assert by_column.sigma_.shape == (3,)


# ------------------------------------------------------------------ statistics
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_center_is_the_mean_and_changes_no_kernel(sampler, kernel, X):
    with_center = sampler(sigma=0.3, kernel=kernel).fit(X)
    without = sampler(sigma=0.3, kernel=kernel, center=False).fit(X)
    assert_allclose(with_center.center_, X.mean(axis=0))
    assert_allclose(without.center_, 0)
    assert_allclose(with_center.exact_kernel(X), without.exact_kernel(X), rtol=1e-9)
    gain = without.kernel_variance(X) / with_center.kernel_variance(X)
    assert np.log(gain).mean() > 0.5


def test_key_side_has_its_own_statistics(rng):
    X, Y = rng.normal(size=(50, 3)), rng.normal(2.0, 0.5, size=(80, 3))
    fitted = OPRFSampler(sigma=1.0).fit(X, X_key=Y)
    assert_allclose(fitted.center_, (X.mean(axis=0) + Y.mean(axis=0)) / 2)
    a, b = X - fitted.center_, Y - fitted.center_
    q = ((a[:, None] + b) ** 2).sum(axis=2).mean()
    one_set = OPRFSampler(sigma=1.0, center=False).fit(X)
    q_one = ((X[:, None] + X) ** 2).sum(axis=2).mean()
    for value, fit in ((q, fitted), (q_one, one_set)):
        rho = 6 / (2 * value + 3 + np.sqrt((2 * value + 3) ** 2 + 24 * value))
        assert_allclose(fit.A_, (1 - 1 / rho) / 8, rtol=1e-10)


def test_sample_weights_count_as_repeated_rows(X, rng):
    weights = rng.integers(0, 4, size=len(X))
    weighted = OPRFSampler(random_state=0).fit(X, sample_weight=weights)
    repeated = OPRFSampler(random_state=0).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighted.transform(X), repeated.transform(X), rtol=1e-8)


@every_sampler
def test_partial_fit_after_fit_adds(sampler, X):
    parts = sampler(random_state=0).fit(X[:100]).partial_fit(X[100:])
    whole = sampler(random_state=0).fit(X)
    assert_allclose(parts.transform(X), whole.transform(X), rtol=1e-8)


# ------------------------------------------------------------- kinds of input
@every_sampler
def test_frames_give_names_and_set_output(sampler, X):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    fitted = sampler(n_components=4, random_state=0).fit(frame)
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    name = sampler.__name__.lower()
    assert list(fitted.get_feature_names_out()) == [f"{name}{i}" for i in range(4)]
    out = fitted.set_output(transform="pandas").transform(frame)
    assert list(out.columns) == list(fitted.get_feature_names_out())
    from_polars = sampler(n_components=4, random_state=0).fit(pl.DataFrame(X))
    polars = from_polars.set_output(transform="polars").transform(pl.DataFrame(X))
    assert isinstance(polars, pl.DataFrame)
    assert_allclose(polars.to_numpy(), out.to_numpy())


@every_sampler
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_sparse_equals_dense_and_is_not_densified(sampler, kernel, rng, not_dense):
    X = sparse.csr_array(rng.random((60, 40)) * (rng.random((60, 40)) < 0.1))
    dense = sampler(sigma=0.8, kernel=kernel, random_state=0).fit(X.toarray())
    expected = dense.transform(X.toarray())
    variance = dense.kernel_variance(X.toarray())
    exact = dense.exact_kernel(X.toarray())
    for kind in (sparse.csr_array, sparse.csr_matrix):
        with not_dense(kind):
            fitted = sampler(sigma=0.8, kernel=kernel, random_state=0).fit(kind(X))
            features = fitted.transform(kind(X))
        assert_allclose(features, expected, rtol=1e-9, atol=1e-12)
        assert_allclose(fitted.kernel_variance(kind(X)), variance, atol=1e-12)
        assert_allclose(fitted.exact_kernel(kind(X)), exact, rtol=1e-9)


@pytest.mark.parametrize(
    "sampler",
    [
        *(sampler() for sampler in SAMPLERS),
        SimplexRBFSampler(kernel="softmax"),
        PoissonSampler(),
        MaternSampler(shape_matrix=np.diag([1.0, 2.0, 0.5])),
        LaplacianSampler(norm="l1"),
        HybridSampler(center=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_rows_with_dense_rows(sampler, kind, X):
    X, Y = X[:20], X[10:40]
    fitted = sampler.set_params(random_state=0).fit(X)
    for method in ("exact_kernel", "approximate_kernel", "kernel_variance"):
        expected = getattr(fitted, method)(X, Y)
        for rows in ((kind(X), Y), (X, kind(Y))):
            result = getattr(fitted, method)(*rows)
            assert_allclose(result, expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    "sampler", [OPRFSampler(sigma="median"), HybridSampler()], ids=str
)
def test_sparse_batches_with_dense_batches(sampler, X):
    sampler.set_params(random_state=0)
    expected = sampler.fit(X).transform(X)
    csr = sparse.csr_array(X)
    for one, other in ((csr, X), (X, csr)):
        parts = clone(sampler).partial_fit(one[:100]).partial_fit(other[100:])
        assert_allclose(parts.transform(X), expected, rtol=1e-7, atol=1e-12)
        both = clone(sampler).fit(one, X_key=other)
        assert_allclose(both.transform(one), both.transform(other), rtol=1e-7)


@every_sampler
def test_float32_everywhere(sampler, X):
    X = X.astype(np.float32)
    fitted = sampler(random_state=0).fit(X)
    assert fitted.frequencies_.dtype == np.float32
    assert fitted.map_.frequencies.sq_norms.dtype == np.float32
    for result in (
        fitted.transform(X),
        fitted.transform_key(X),
        fitted.exact_kernel(X),
        fitted.approximate_kernel(X),
    ):
        assert result.dtype == np.float32
    assert fitted.kernel_variance(X).dtype == np.float64
    fitted_in_double = sampler(random_state=0).fit(X.astype(np.float64))
    assert fitted_in_double.transform(X).dtype == np.float32


# ---------------------------------------------------------------- the trio
@every_sampler
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_approximate_kernel_is_the_product_of_the_features(sampler, kernel, X, rng):
    Y = X[:20] + rng.normal(size=(20, 3))
    fitted = sampler(sigma=0.2, kernel=kernel, random_state=0).fit(X)
    product = fitted.transform(X) @ fitted.transform_key(Y).T
    assert_allclose(fitted.approximate_kernel(X, Y), product, rtol=1e-8)
    assert fitted.exact_kernel(X, Y).shape == fitted.kernel_variance(X, Y).shape
    if kernel == "softmax":
        assert_allclose(fitted.exact_kernel(X, Y), np.exp(0.04 * X @ Y.T), rtol=1e-9)


@every_sampler
def test_large_draws_come_close(sampler, X):
    fitted = sampler(sigma=0.3, n_components=20_000, random_state=0).fit(X)
    error = fitted.approximate_kernel(X[:50]) - fitted.exact_kernel(X[:50])
    assert np.sqrt(np.mean(error**2)) < 0.02


@every_sampler
def test_iter_log_features_are_the_features(sampler, X):
    fitted = sampler(n_components=33, kernel="softmax", random_state=0).fit(X)
    rows, parts = [], []
    for chunk, mantissa, exponent in fitted.map_.iter_log_features(X, key=True):
        rows.append(chunk)
        parts.append((1 if mantissa is None else mantissa) * np.exp(exponent))
    assert rows[0].start == 0
    assert rows[-1].stop == len(X)
    assert_allclose(np.vstack(parts), fitted.transform_key(X), rtol=1e-12)


@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_rows_that_underflow_are_not_silent(sampler, X):
    fitted = sampler(sigma=100.0, random_state=0).fit(X)
    with pytest.warns(RuntimeWarning, match=r"features of \d+ rows are too small"):
        fitted.transform(X.astype(np.float32))
    assert np.all(np.isfinite(fitted.approximate_kernel(X)))


@every_sampler
def test_features_that_overflow_are_not_silent(sampler):
    X = np.full((3, 2), 50.0)
    X[0] = 0
    fitted = sampler(sigma=1.0, kernel="softmax", random_state=0).fit(X)
    with pytest.warns(RuntimeWarning) as record:
        fitted.transform(X.astype(np.float32))
    assert any("too large for float32" in str(warning.message) for warning in record)


@every_sampler
@pytest.mark.each_value
@pytest.mark.parametrize("sigma", [1e-8, 1e-2, 1.0, 1e2, 1e6])
def test_no_nan_at_any_sigma(sampler, sigma, X):
    fitted = sampler(sigma=sigma, random_state=0).fit(X)
    for result in (
        fitted.exact_kernel(X),
        fitted.approximate_kernel(X),
        fitted.kernel_variance(X),
    ):
        assert not np.any(np.isnan(result))
        assert np.all(result >= 0) or sampler is TrigRBFSampler


def test_variance_is_finite_where_the_features_overflow(X):
    variance = PositiveRBFSampler(sigma=4.0, center=False).fit(X).kernel_variance(X)
    assert not np.any(np.isnan(variance))
    assert variance.max() > 1e100


def test_estimates_of_rows_whose_features_do_not_meet(rng):
    """The largest features of two rows stand in different columns."""
    X = rng.normal(size=(40, 5))
    fitted = OPRFSampler(sigma=20.0, kernel="softmax", random_state=0).fit(X)
    _, _, logs = next(fitted.map_.iter_log_features(X))
    pairs = special.logsumexp(logs[:, None] + logs, axis=2)
    estimate = fitted.approximate_kernel(X)
    assert not np.any(np.isnan(estimate))
    inside = np.abs(pairs) < 600
    assert_allclose(estimate[inside], np.exp(pairs[inside]), rtol=1e-6)
    assert np.all(estimate[pairs > 710] == np.inf)


def test_warning_names_the_line_of_the_user(X):
    fitted = OPRFSampler(sigma=100.0, random_state=0).fit(X)
    with pytest.warns(RuntimeWarning) as record:
        fitted.transform(X.astype(np.float32))
    assert record[0].filename == __file__


# -------------------------------------------------------------------- couplings
@every_sampler
def test_coupling_object(sampler, X):
    by_name = sampler(coupling="orthogonal", random_state=0).fit(X)
    by_object = sampler(coupling=Orthogonal(), random_state=0).fit(X)
    assert_allclose(by_object.transform(X), by_name.transform(X))


def test_unknown_angles_give_the_variance_of_independent_frequencies(X):
    class Unknown(Orthogonal):
        def cosine(self, n_features):
            return None

    fitted = OPRFSampler(coupling=Unknown()).fit(X)
    independent = OPRFSampler(coupling="iid").fit(X)
    assert_allclose(fitted.kernel_variance(X), independent.kernel_variance(X))
    assert not fitted.variance_is_exact_
    assert independent.variance_is_exact_
    assert OPRFSampler().fit(X).variance_is_exact_


# ----------------------------------------------------------------------- errors
@every_sampler
@pytest.mark.parametrize("sigma", [0, -1.0, np.nan])
def test_sigma_out_of_range(sampler, sigma, X):
    with pytest.raises(ValueError, match=r"'sigma' parameter of \w+ must be .*\(0"):
        sampler(sigma=sigma).fit(X)


@every_sampler
@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (np.inf, r"'sigma' parameter .* in the range \(0.0, inf\).* Got inf"),
        ([1.0, -1.0, 1.0], "numbers must be positive and at most"),
        ([1.0, 0.0, 1.0], "numbers must be positive and at most"),
        ([1.0, 1.0], r"sigma has shape \(2,\), but X has 3 features"),
        ("auto", "'sigma' parameter of .* must be .* a str among"),
    ],
)
def test_sigma_that_does_not_fit(sampler, sigma, message, X):
    with pytest.raises(ValueError, match=message):
        sampler(sigma=sigma).fit(X)


@every_sampler
@pytest.mark.parametrize("n_components", [0, -3])
def test_too_few_components(sampler, n_components, X):
    message = r"'n_components' parameter of \w+ must be an int in the range \[1, inf\)"
    with pytest.raises(ValueError, match=message):
        sampler(n_components=n_components).fit(X)


@every_sampler
def test_unknown_coupling(sampler, X):
    message = (
        f"coupling='hadamard' is not supported by {sampler.__name__}; use one of "
        "'iid', 'orthogonal', .*'structured-simplex'.*, or another Coupling object"
    )
    with pytest.raises(ValueError, match=message):
        sampler(coupling="hadamard").fit(X)


@every_sampler
def test_unknown_kernel(sampler, X):
    with pytest.raises(ValueError, match=r"'kernel' parameter of .* a str among"):
        sampler(kernel="laplacian").fit(X)


@every_sampler
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_nan_or_infinite_input(sampler, value, word, X):
    bad = X.copy()
    bad[3, 1] = value
    with pytest.raises(ValueError, match=f"contains {word}"):
        sampler().fit(bad)
    with pytest.raises(ValueError, match=f"contains {word}"):
        sampler().fit(X).transform(bad)


@every_sampler
def test_wrong_number_of_features(sampler, X):
    fitted = sampler().fit(X)
    message = "X has 2 features, but .* is expecting 3 features"
    for method in (
        fitted.transform,
        fitted.transform_key,
        fitted.exact_kernel,
        fitted.approximate_kernel,
        fitted.kernel_variance,
        fitted.partial_fit,
    ):
        with pytest.raises(ValueError, match=message):
            method(X[:, :2])
    with pytest.raises(ValueError, match=message):
        fitted.fit(X, X_key=X[:, :2])


@every_sampler
def test_unfitted_use(sampler, X):
    unfitted = sampler()
    for method in (
        unfitted.transform,
        unfitted.transform_key,
        unfitted.exact_kernel,
        unfitted.approximate_kernel,
        unfitted.kernel_variance,
    ):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            method(X)


@every_sampler
def test_negative_weights(sampler, X):
    with pytest.raises(ValueError, match="Negative values in data passed to"):
        sampler().fit(X, sample_weight=-np.ones(len(X)))


def test_projection_against_another_product(rng):
    W = rng.normal(size=(3, 5))
    projection, x = Frequencies(W), rng.normal(size=(4, 3))
    by_hand = [[sum(a * b for a, b in zip(r, w, strict=True)) for w in W.T] for r in x]
    assert_allclose(projection.apply(x), by_hand)
    assert_allclose(projection.apply(sparse.csr_array(x)), by_hand)
    assert projection.n_frequencies == 5
    assert projection.to(np.empty(0, np.float32)).to_dense().dtype == np.float32


# -------------------------------------------------------------------------- threads
@pytest.mark.parametrize("n_jobs", [1, 2, None])
def test_each_thread_has_one_of_blas(n_jobs, X, with_fault):
    seen = set()

    def log_features(self, rows, **options):
        pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
        seen.update(pool["num_threads"] for pool in pools)
        return super(type(self), self).log_features(rows, **options)

    sampler = with_fault(OPRFSampler, log_features=log_features)(n_jobs=n_jobs).fit(X)
    X = np.resize(X, (2000, X.shape[1]))
    with threadpool_limits(2, user_api="blas"):
        sampler.transform(X)
        after = {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}
    assert seen == {1}
    assert after == {2}


def test_a_backend_of_processes_fills_the_output_too(X):
    sampler = OPRFSampler(n_jobs=2, random_state=0).fit(X)
    expected = sampler.set_params(n_jobs=1).transform(X)
    with parallel_config(backend="loky"):
        assert_allclose(sampler.set_params(n_jobs=2).transform(X), expected)


def test_a_map_that_moves_under_its_features_says_so(rng):
    X = rng.normal(size=(60, 3))
    sampler = OPRFSampler(random_state=0).partial_fit(X[:20])
    sampler.partial_fit(X[20:30])  # nothing was transformed
    sampler.transform(X[:20])
    with pytest.warns(
        UserWarning, match=r"partial_fit changed the feature map .* freeze\(\)"
    ):
        sampler.partial_fit(X[30:40])
    sampler.partial_fit(X[40:50])  # nothing was transformed by the map that goes
    assert sampler.fit(X).transform(X).shape == (60, 100)
    with pytest.warns(UserWarning, match="use NadarayaWatson") as record:
        sampler.partial_fit(X[:20])
    assert record[0].filename == __file__


@pytest.mark.parametrize(
    "sampler",
    [
        OPRFSampler(sigma=50.0, random_state=0),  # all features of nearby rows are 0
        PoissonSampler(sigma=50.0, positive=True, random_state=0),
        # a change that only the features of one cluster show
        ClusteredSampler(sigma=1.0, n_components=40, random_state=0),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_a_change_of_features_that_underflow_is_noticed(sampler, dtype, rng):
    X = rng.normal(size=(60, 3)).astype(dtype)
    X[:30] -= 5
    X[30:] *= 3
    sampler = clone(sampler).partial_fit(X[:50])
    sampler.transform(X)
    with pytest.warns(UserWarning, match="partial_fit changed the feature map"):
        sampler.partial_fit(X[50:])


@pytest.mark.filterwarnings("error")
def test_only_the_features_of_this_map_count(rng):
    X = rng.normal(size=(60, 3))
    sampler = OPRFSampler(random_state=0).partial_fit(X[:20])
    sampler.transform(X)
    other = sampler.with_sigma(0.5)
    other.partial_fit(X[20:])
    sampler.fit(X[:20]).partial_fit(X[20:])
    for used in (sampler, copy.copy(sampler)):
        used.transform(X)
    with pytest.warns(UserWarning, match="partial_fit changed the feature map"):
        sampler.partial_fit(X[:20])


def test_a_map_that_follows_no_rows_may_be_used_between_batches(rng):
    X = rng.normal(size=(60, 3))
    sampler = PositiveRBFSampler(sigma=1.0, center=False, random_state=0)
    before = sampler.partial_fit(X[:20]).transform(X)
    after = sampler.partial_fit(X[20:]).transform(X)
    np.testing.assert_array_equal(after, before)


# ------------------------------------------------------------------- stated errors
def test_a_fit_whose_stated_error_exceeds_the_kernel_warns(rng):
    X = rng.normal(size=(200, 30))
    with pytest.warns(
        ApproximationWarning, match="the features are mostly noise"
    ) as record:
        PositiveRBFSampler(n_components=20, center=False, random_state=0).fit(X)
    assert "TrigRBFSampler needs fewer columns" in str(record[0].message)
    assert record[0].filename == __file__
    with pytest.warns(
        ApproximationWarning, match=r"n_components=\d+ would reduce it to half"
    ):
        TrigRBFSampler(n_components=2, sigma=1.0).fit(X[:, :4])


@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(n_components=40),
        OPRFSampler(n_components=40),
        TrigRBFSampler(n_components=2, sigma=0.01),
        PositiveRBFSampler(center=False),  # 100 columns or more: no look at the error
    ],
    ids=str,
)
def test_a_fit_whose_stated_error_is_small_does_not(sampler, rng):
    X = rng.normal(size=(200, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sampler.set_params(random_state=0).fit(X)


def test_checks_of_samplers_do_not_warn_of_their_own_few_columns(rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as under pytest -W error of an author
        assert_nested(PositiveRBFSampler(center=False), rng.normal(size=(100, 20)))
