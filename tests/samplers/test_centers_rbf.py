"""Kernel columns at centres: choices of them, batches, and ridge as by Nystroem."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_crt import CentersRBFSampler, OPRFSampler, RandomFeatureRidge
from sklearn_crt.rows import Centers, Frame
from sklearn_crt.rows.clustering import random_pivots

from ..cases import sampler_classes


def groups(rng, n=400):
    return rng.normal(size=(n, 3)) + 20 * rng.integers(0, 2, size=(n, 3))


def test_definition(rng):
    X = rng.normal(size=(300, 3))
    sigma = np.array([1.0, 0.5, 2.0])
    options = {"n_components": 20, "whiten": False, "random_state": 0}
    sampler = CentersRBFSampler(sigma=sigma, **options).fit(X)
    centers = sampler.centers_
    assert centers.shape == (20, 3)
    expected = rbf_kernel(X * sigma, centers * sigma, gamma=0.5)
    assert_allclose(sampler.transform(X), expected)
    expected = rbf_kernel(centers * sigma, gamma=0.5)
    assert_allclose(sampler.penalty_, expected, atol=1e-12)
    names = sampler.get_feature_names_out()
    assert_array_equal(names[[0, -1]], ["centersrbfsampler0", "centersrbfsampler19"])


@pytest.mark.parametrize("seed", range(5))
def test_centers_are_those_of_two_steps_of_k_means(seed, value_of):
    """From random rows, at distances that sigma multiplies; scikit-learn's, too."""
    X = np.random.default_rng(seed).normal(size=(300, 3))
    sigma = np.array([1.0, 0.5, 2.0])
    options = {"n_components": 20, "random_state": seed}
    sampler = CentersRBFSampler(sigma=sigma, **options).fit(X)
    drawn = Centers(X, np.ones(300)).drawn(20, seed=value_of(sampler).choices.seed)
    steps = KMeans(20, init=drawn.points * sigma, n_init=1, max_iter=2, tol=0)
    expected = steps.fit(X * sigma).cluster_centers_ / sigma
    order, found = np.argsort(expected[:, 0]), sampler.centers_
    assert_allclose(found[np.argsort(found[:, 0])], expected[order])
    weights = value_of(sampler).solution.points.weights  # numbers of rows
    assert_allclose(weights @ found / 300, X.mean(axis=0))


def test_random_centers_are_distinct_rows(rng):
    X = rng.normal(size=(300, 3))
    options = {"n_components": 20, "random_state": 0}
    centers = CentersRBFSampler(centers="random", **options).fit(X).centers_
    assert np.unique(np.vstack([X, centers]), axis=0).shape == (300, 3)
    assert np.unique(centers, axis=0).shape == (20, 3)


def test_ridge_with_the_penalty_is_ridge_after_nystroem(rng):
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    options = {"n_components": 12, "sigma": 1.5, "whiten": False, "random_state": 0}
    sampler = CentersRBFSampler(**options).fit(X)
    F, alpha = sampler.transform(X), 0.3
    b = linalg.solve(F.T @ F + alpha * sampler.penalty_, F.T @ y)
    nystroem = Nystroem(gamma=1.5**2 / 2, n_components=12).fit(sampler.centers_)
    whitened = nystroem.transform(X)
    ridge = Ridge(alpha, fit_intercept=False).fit(whitened, y)
    assert_allclose(F @ b, ridge.predict(whitened), rtol=1e-8)


def test_is_no_sampler_of_the_contract():
    assert CentersRBFSampler not in sampler_classes() + sampler_classes(parts=True)
    for name in ("exact_kernel", "approximate_kernel", "kernel_variance"):
        assert not hasattr(CentersRBFSampler(), name)


METHODS = "kmeans", "rpcholesky", "random"
every_method = pytest.mark.parametrize("method", METHODS)


@every_method
@pytest.mark.parametrize("n_rows", [100, 3000])  # all of them are candidates, or not
def test_batches_and_parts_are_fit(method, n_rows, rng):
    X = rng.normal(size=(n_rows, 3))
    options = {"n_components": 15, "centers": method, "whiten": False}
    options["random_state"] = 0
    whole = CentersRBFSampler(**options).fit(X)
    batches = CentersRBFSampler(**options)
    for part in np.split(X, 5):
        batches.partial_fit(part)
    assert_allclose(batches.transform(X), whole.transform(X))
    assert_allclose(batches.freeze().transform(X), whole.transform(X))
    after_fit = CentersRBFSampler(**options).fit(X[: n_rows - 20])
    before = after_fit.transform(X)
    after_fit.partial_fit(X[n_rows - 20 :])
    assert_allclose(after_fit.transform(X), whole.transform(X))
    assert not np.allclose(before, whole.transform(X), rtol=1e-6)
    parts = [CentersRBFSampler(**options).fit(part) for part in np.split(X, 2)]
    kept = parts[1].centers_
    merged = parts[0].merge(parts[1])
    assert_array_equal(parts[1].centers_, kept)
    if n_rows == 100 and method != "random":  # all rows are candidates
        assert_allclose(merged.transform(X), whole.transform(X))
    assert merged.centers_.shape == (15, 3)
    nearest = np.abs(X[:, None] - merged.centers_).max(axis=2).min(axis=0)
    assert method == "kmeans" or np.all(nearest == 0)


@pytest.mark.parametrize("method", ["kmeans", "rpcholesky"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_batches_have_the_centers_of_one_fit(method, kind):
    """In the order of the rows, dense or sparse, where all rows are candidates."""
    options = {"n_components": 15, "centers": method, "random_state": 0}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.round(rng.normal(size=(140, 3)))
        whole, rows = CentersRBFSampler(**options).fit(X), kind(X)
        batches = CentersRBFSampler(**options)
        for part in np.array_split(np.arange(140), 3):
            batches.partial_fit(rows[part])
        for other in (CentersRBFSampler(**options).fit(rows), batches):
            assert_allclose(other.transform(X), whole.transform(X), atol=1e-12)


@every_method
def test_a_long_stream_stays_small(method, rng):
    """A sample stands for the rows, however many they are."""
    stream = CentersRBFSampler(n_components=4, centers=method, random_state=0)
    X = rng.normal(size=(6000, 100))
    for part in np.split(X, 6):
        stream.partial_fit(part)
    assert len(pickle.dumps(stream)) < 0.05 * X.nbytes
    assert_array_equal(stream.centers_, clone(stream).fit(X).centers_)


def test_a_sample_is_of_all_batches(rng):
    stream = CentersRBFSampler(n_components=50, centers="random", random_state=0)
    for label in range(4):
        stream.partial_fit(
            np.full((500, 1), float(label)) + 1e-3 * rng.random((500, 1))
        )
    counts = np.bincount(stream.centers_.astype(int).ravel(), minlength=4)
    assert np.all(counts >= 2)  # binomial of 50 and 1/4: below with probability 4e-5


def trace_error(sampler, X):
    """Return the share of the trace of the kernel that the columns leave."""
    F = sampler.transform(X)
    b = linalg.lstsq(sampler.penalty_, F.T, cond=1e-10)[0]
    return 1 - np.einsum("ij,ji->", F, b) / len(X)


def test_pivots_span_the_kernel(rng):
    X = 0.05 * rng.normal(size=(300, 3))  # nearly all of them alike: a low rank
    X[:30] += 6 * rng.normal(size=(30, 3))
    errors = {}
    for method in ("rpcholesky", "random"):
        for width in (10, 30, 60):
            options = {"sigma": 1.0, "n_components": width, "centers": method}
            errors[method, width] = np.mean(
                [
                    trace_error(CentersRBFSampler(random_state=s, **options).fit(X), X)
                    for s in range(5)
                ]
            )
    found = [errors["rpcholesky", width] for width in (10, 30, 60)]
    assert found[0] > 1.5 * found[1] > 3 * found[2]
    assert found[0] < errors["random", 10]
    assert found[1] < 0.3 * errors["random", 30]
    assert found[2] < 0.3 * errors["random", 60]


def test_pivots_are_drawn_as_one_by_one(rng):
    """The second of two pivots: in proportion to what the first leaves."""
    X, weights = np.array([[0.0], [0.5], [1.5]]), np.array([1.0, 2.0, 3.0])
    kernel = rbf_kernel(X, gamma=0.5)
    expected = np.zeros((3, 3))
    for i in range(3):
        left = weights * (1 - kernel[i] ** 2)
        expected[i] = weights[i] / weights.sum() * left / left.sum()
    found, n_draws = np.zeros((3, 3)), 2000
    rows = Frame().rows(X)
    for seed in range(n_draws):
        first, second = random_pivots(rows, weights, 2, seed=seed)
        found[first, second] += 1
    scatter = np.sqrt(expected * (1 - expected) / n_draws)
    assert np.all(np.abs(found / n_draws - expected) <= 5 * scatter)


def test_pivots_of_many_blocks(rng):
    """What a block leaves does not count again what those before have taken."""
    rows, weights = Frame(2.0).rows(rng.normal(size=(300, 3))), np.ones(300)
    found = random_pivots(rows, weights, 280, seed=0)
    assert np.unique(found).size == 280


def test_pivots_end_where_the_kernel_is_spanned(rng):
    X = np.repeat(rng.normal(size=(4, 2)), 10, axis=0)
    sampler = CentersRBFSampler(n_components=9, centers="rpcholesky").fit(X)
    assert_array_equal(np.unique(sampler.centers_, axis=0), np.unique(X, axis=0))
    assert sampler.transform(X).shape == (40, 4)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sparse.csr_array, list])
def test_landmarks_of_the_user(kind, rng):
    X, Z = rng.normal(size=(50, 3)), rng.normal(size=(7, 3))
    given = kind(Z) if kind is not list else Z.tolist()
    options = {"n_components": 7, "sigma": 1.5, "whiten": False}
    sampler = CentersRBFSampler(centers=given, **options)
    expected = rbf_kernel(X, Z, gamma=1.5**2 / 2)
    assert_allclose(sampler.fit_transform(X), expected, rtol=1e-9)
    found = sampler.fit(X.astype(np.float32)).transform(X.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, expected, atol=1e-5)
    assert_allclose(sampler.fit(sparse.csr_array(X)).transform(X), expected, rtol=1e-9)
    assert_allclose(sampler.penalty_, rbf_kernel(Z, gamma=1.5**2 / 2), rtol=1e-9)


def test_landmarks_stay_while_sigma_is_that_of_all_rows(rng):
    X, Z = rng.normal(size=(90, 3)) * [1, 2, 3], rng.normal(size=(7, 3))
    sampler, before = CentersRBFSampler(n_components=7, centers=Z), Z.copy()
    whole = clone(sampler).fit(X)
    parts = [clone(sampler).partial_fit(X[:30]).partial_fit(X[30:50])]
    parts.append(clone(sampler).fit(X[50:]))
    found = parts[0].merge(parts[1])
    assert_allclose(found.transform(X), whole.transform(X))
    assert_array_equal(found.centers_, Z)
    sampler.fit(X)
    Z[:] = 0
    assert_array_equal(sampler.centers_, before)


def test_features_estimate_the_kernel_unless_whitening_is_switched_off(rng):
    """By default the inner products of the centres' features are their kernel."""
    X = rng.normal(size=(200, 3))
    for options, is_kernel in (({}, True), ({"whiten": False}, False)):
        sampler = CentersRBFSampler(n_components=12, sigma=1.5, **options).fit(X)
        F, exact = (
            sampler.transform(sampler.centers_),
            rbf_kernel(sampler.centers_, gamma=1.125),
        )
        assert np.allclose(F @ F.T, exact) == is_kernel
        assert np.array_equal(sampler.penalty_, np.eye(12)) == is_kernel


@every_method
def test_whitened_columns_are_those_of_nystroem(method, rng):
    X = rng.normal(size=(300, 3))
    options = {"sigma": 1.5, "n_components": 20, "random_state": 0, "centers": method}
    raw = CentersRBFSampler(**options).fit(X)
    found = CentersRBFSampler(whiten=True, **options).fit(X)
    assert_array_equal(found.centers_, raw.centers_)
    nystroem = Nystroem(gamma=1.5**2 / 2, n_components=20, random_state=0)
    F = nystroem.fit(raw.centers_).transform(X)
    assert_allclose(found.transform(X) @ found.transform(X).T, F @ F.T, atol=1e-10)
    assert_allclose(found.penalty_, np.eye(20))
    single = CentersRBFSampler(whiten=True, **options).fit(X.astype(np.float32))
    features = single.transform(X.astype(np.float32))
    assert features.dtype == np.float32
    assert np.abs(features @ features.T - F @ F.T).max() < 1e-2


def test_whitened_columns_of_a_wide_kernel_hold_no_rounding(rng):
    X = rng.normal(size=(300, 2)).astype(np.float32)
    options = {"sigma": 0.01, "n_components": 50, "whiten": True, "random_state": 0}
    sampler = CentersRBFSampler(**options).fit(X)
    F = sampler.transform(X)
    assert np.abs(F @ F.T - rbf_kernel(X, gamma=0.01**2 / 2)).max() < 2e-3


def test_random_centers_of_fits_merge_by_their_rows(rng):
    parts = [
        CentersRBFSampler(n_components=30, centers="random", random_state=0).fit(X)
        for X in (rng.random((100, 1)), 1 + rng.random((10_000, 1)))
    ]
    merged = parts[0].merge(parts[1])
    assert merged.centers_.shape == (30, 1)
    assert np.sum(merged.centers_ < 1) <= 10  # 15 if all centres were alike


def test_parts_that_were_fitted_merge(rng, value_of):
    X = groups(rng, 390)  # all rows are candidates
    parts = [
        CentersRBFSampler(n_components=20, sigma=0.1, random_state=0).fit(X[k::3])
        for k in range(3)
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.centers_.shape[0] <= 20
    weights = value_of(merged).solution.points.weights
    assert_allclose(weights.sum(), 390)
    assert_allclose(weights @ merged.centers_ / 390, X.mean(axis=0))


def test_kinds_of_rows(rng):
    X = rng.random((200, 5)) * (rng.random((200, 5)) < 0.5)
    options = {"n_components": 10, "sigma": 2.0, "whiten": False, "random_state": 0}
    for kind in (sparse.csr_array, sparse.csr_matrix):
        sampler = CentersRBFSampler(**options).fit(kind(X))
        expected = rbf_kernel(X, np.asarray(sampler.centers_), gamma=2.0)
        for rows in (X, kind(X)):
            assert_allclose(sampler.transform(rows), expected, rtol=1e-9)
        few = clone(sampler).set_params(n_components=300).fit(kind(X[:20]))
        centers = few.centers_.toarray()
        assert_array_equal(centers, X[:20])
        assert_allclose(few.transform(X), rbf_kernel(X, centers, gamma=2.0))
        assert few.penalty_.shape == (20, 20)
    single = CentersRBFSampler(**options).fit(X.astype(np.float32))
    found = single.transform(X.astype(np.float32))
    assert found.dtype == np.float32
    assert_allclose(found, single.transform(X), atol=1e-5)
    assert_array_equal(
        CentersRBFSampler(n_jobs=2, **options).fit(X).transform(np.tile(X, (9, 1))),
        np.tile(CentersRBFSampler(n_jobs=1, **options).fit(X).transform(X), (9, 1)),
    )


def test_fewer_distinct_rows_than_columns():
    X = np.repeat(np.eye(3), 30, axis=0)
    sampler = CentersRBFSampler(n_components=10).fit(X)
    assert sampler.transform(X).shape == (90, 3)
    assert sampler.get_feature_names_out().size == 3


def test_errors(rng):
    X = rng.normal(size=(20, 3))
    sampler = CentersRBFSampler().fit(X)
    with pytest.raises(ValueError, match="requires another CentersRBFSampler, got"):
        sampler.merge(OPRFSampler().fit(X))
    with pytest.raises(ValueError, match="with 3 features and the other with 2"):
        sampler.merge(CentersRBFSampler().fit(X[:, :2]))
    with pytest.raises(ValueError, match="sigma has shape"):
        CentersRBFSampler(sigma=[1.0, 2.0]).fit(X)
    for centers in (X[:5], X[:9, :2], np.ones((3, 9))):
        with pytest.raises(ValueError, match=r"centers has shape .*n_components=9 and"):
            CentersRBFSampler(n_components=9, centers=centers).fit(X)
    with pytest.raises(ValueError, match="centers contains NaN"):
        CentersRBFSampler(n_components=1, centers=[[1, 2, np.nan]]).fit(X)
    with pytest.raises(ValueError, match="The 'centers' parameter"):
        CentersRBFSampler(centers="means").fit(X)
    with pytest.raises(ValueError, match="The 'whiten' parameter"):
        CentersRBFSampler(whiten="zca").fit(X)
    few = CentersRBFSampler(n_components=9, centers=X[:9]).fit(X)
    for one, other, message in (
        (sampler, CentersRBFSampler(n_components=9).fit(X), "n_components is 100 in"),
        (sampler, CentersRBFSampler(whiten=False).fit(X), "whiten is True in one"),
        (sampler, CentersRBFSampler(sigma=[1.0, 2, 3]).fit(X), "sigma is 'scale' in"),
        (few, CentersRBFSampler(n_components=9).fit(X), "centers is 'array' in one"),
        (few, clone(few).set_params(centers=X[1:10]).fit(X), "given_centers is array"),
    ):
        with pytest.raises(ValueError, match=f"equal parameters, but {message}"):
            one.merge(other)
    frozen = clone(few).fit(X).freeze()
    for call in (
        lambda: frozen.partial_fit(X),
        lambda: frozen.merge(few),
        lambda: few.merge(frozen),
    ):
        with pytest.raises(ValueError, match=r"is frozen: freeze\(\) .*fit again"):
            call()


@pytest.mark.parametrize("centers", ["kmeans", "rpcholesky", "random"])
def test_weights_count_rows(centers, rng):
    X, weights = rng.normal(size=(60, 2)), rng.integers(0, 4, 60)
    copies = np.repeat(np.arange(60), weights)
    sampler = CentersRBFSampler(n_components=15, centers=centers, random_state=0)
    # with random centres, the sample has as many rows as there are centres
    sampler.set_params(n_components=60 if centers == "random" else 15)
    weighted = clone(sampler).fit(X, sample_weight=weights)
    assert weighted.sigma_ != clone(sampler).fit(X).sigma_
    assert_allclose(weighted.sigma_, clone(sampler).fit(X[copies]).sigma_)
    if centers != "random":
        repeated = clone(sampler).fit(X[copies])
        assert_allclose(weighted.centers_, repeated.centers_)
        batches = clone(sampler)
        for rows in (slice(25), slice(25, None)):
            batches.partial_fit(X[rows], sample_weight=weights[rows])
        assert_allclose(batches.centers_, weighted.centers_)
    with pytest.raises(ValueError, match="Negative"):
        clone(sampler).fit(X, sample_weight=-weights)


def test_ridge_passes_its_weights_on(rng):
    X = rng.normal(size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    weights = rng.integers(1, 9, 60)
    copies = np.repeat(np.arange(60), weights)
    kernel = CentersRBFSampler(n_components=15, sigma="scale", random_state=0)
    model = RandomFeatureRidge(kernel, alpha=0.1)
    found = clone(model).fit(X, y, sample_weight=weights)
    expected = clone(model).fit(X[copies], y[copies])
    assert_allclose(found.sigma_, expected.sigma_)
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-6)
