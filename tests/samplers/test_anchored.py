"""Positive features about training rows: the law, the variance, rows and freezing."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from sklearn_crt import AnchoredRBFSampler, OPRFSampler
from sklearn_crt.frequencies import Antithetic, Frequencies, Independent
from sklearn_crt.maps import AnchorLaw, PairedColumns
from sklearn_crt.rows import UnitRows
from sklearn_crt.testing import assert_unbiased, assert_variance, check_sampler

SINGLE = {m: PairedColumns.of(m, single=True) for m in (7, 40, 90_000)}


@pytest.mark.parametrize("coupling", ["iid", "orthogonal", "antithetic", "sobol"])
def test_contract(coupling):
    check_sampler(AnchoredRBFSampler(coupling=coupling), 3)


def test_contract_with_softmax():
    check_sampler(AnchoredRBFSampler(kernel="softmax"))


def test_unbiased_with_two_sides_weights_and_few_anchors(rng):
    X, Y = 0.4 * rng.normal(size=(5, 3)), 0.4 * rng.normal(size=(4, 3)) + 0.2
    # new rows, far from the anchors
    sampler = AnchoredRBFSampler(sigma=1.0, n_anchors=2, n_components=20)
    estimates = []
    for seed in range(400):
        fitted = sampler.set_params(random_state=seed)
        fitted.fit(X[:3], X_key=Y[:2], sample_weight=[1.0, 0.0, 5.0])
        estimates.append(fitted.approximate_kernel(X, Y))
    t = stats.ttest_1samp(estimates, fitted.exact_kernel(X, Y)).statistic
    assert np.abs(t).max() < stats.t.isf(1e-6 / (2 * t.size), 399)


def test_stated_error_of_the_variance(rng):
    X = 0.5 * rng.normal(size=(30, 2))
    fitted = AnchoredRBFSampler(sigma=1.0, n_components=64, coupling="iid").fit(X)
    variance, error = fitted.kernel_variance(X[:5], return_error=True)
    assert_allclose(fitted.kernel_variance(X[:5]), variance)
    exact = second_moments(fitted, X[:5]) - fitted.exact_kernel(X[:5]) ** 2
    assert np.all(np.abs(variance - exact / 64) < 5 * error)
    assert np.median(error / variance) < 0.05


def second_moments(fitted, X):
    """Return E Z^2 of one point by a grid."""
    law, x = fitted.map_.law, fitted.map_.frame.rows(X).dense
    axis = np.linspace(-5, 5, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    log_density = law.log_mean_square(grid)
    squares = UnitRows(grid).sq_distances(UnitRows(x))
    terms = np.exp(
        -2 * squares[:, :, None] - 2 * squares[:, None] - log_density[:, None, None]
    )
    return terms.sum(axis=0) * (axis[1] - axis[0]) ** 2 * 2 / np.pi


def test_reference_numbers(beyond):
    numbers = beyond["landmark_law"]
    law = AnchorLaw(np.array(numbers["anchors"]), np.full(3, 1 / 3))
    points = np.array(numbers["z"])
    assert_allclose(law.log_mean_square(points), numbers["log_mean_sq"], rtol=1e-12)
    ((row, expected),) = [numbers["log_features_of"]]
    assert_allclose(log_features(law, points, row), expected, rtol=1e-10)
    numbers = beyond["anchored"]
    law = AnchorLaw(np.array(numbers["anchors"], float), np.full(2, 0.5))
    features = log_features(law, np.array(numbers["z"]), numbers["x"])
    assert_allclose(features, numbers["log_f"], rtol=1e-10)


def log_features(law, points, row):
    """Return those of one row at given points, by a fitted map whose points move."""
    fitted = AnchoredRBFSampler(sigma=1.0, n_components=2).fit(law.anchors)
    fields = {
        "points": Frequencies(points.T - fitted.center_[:, None]),
        "log_mean_square": law.log_mean_square(points),
    }
    moved = type(fitted.map_)(**{**fitted.map_.__getstate__(), **fields})
    _, exponent = moved.log_features(moved.frame.rows(np.array([row])))
    return exponent[0]


def test_mean_second_moment_is_one(beyond):
    anchors = np.array(beyond["landmark_law"]["anchors"])
    fitted = AnchoredRBFSampler(sigma=1.0).fit(anchors)
    moments = second_moments(fitted, anchors)
    assert_allclose(moments, beyond["landmark_law"]["E2_anchor_pairs"], rtol=1e-6)
    assert_allclose(moments.mean(), 1, rtol=1e-6)
    # and so the mean variance does not depend on sigma nor on the dimension
    variance = fitted.kernel_variance(anchors)
    expected = (1 - np.mean(fitted.exact_kernel(anchors) ** 2)) / 100
    assert_allclose(variance.mean(), expected, rtol=1e-6)


@pytest.mark.parametrize("even", [False, True])
def test_law_of_the_points(even):
    law = AnchorLaw(np.array([[-4.0], [0.0], [4.0]]), np.array([0.2, 0.5, 0.3]))
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((1, 90_000))
    points = law.draw(noise, SINGLE[90_000], rng, even=even)[:, 0]
    counts = [np.sum(np.abs(points - a) < 2) for a in (-4, 0, 4)]
    spread = np.sqrt(90_000 * law.weights * (1 - law.weights))
    assert np.all(np.abs(counts - 90_000 * law.weights) < 5 * (1 if even else spread))
    assert stats.kstest((points + 2) % 4 - 2, stats.norm(scale=0.5).cdf).pvalue > 1e-6


def test_points_stand_on_both_sides_of_an_anchor(rng):
    law = AnchorLaw(rng.normal(size=(5, 2)), np.full(5, 0.2))
    noise = rng.normal(size=(2, 4))
    points = law.draw(noise, PairedColumns.of(7), rng, even=True)
    middle = 0.5 * (points[:3] + points[3:6])
    assert np.all(
        np.min(np.linalg.norm(middle[:, None] - law.anchors, axis=2), 1) < 1e-12
    )
    assert_allclose(points[:3] - points[3:6], noise.T[:3], atol=1e-12)
    assert len(points) == 7


def test_draws_nest(rng):
    X = rng.normal(size=(50, 3))
    for coupling in ("iid", "orthogonal", "antithetic"):
        wide, narrow = (
            AnchoredRBFSampler(n_components=n, coupling=coupling, random_state=0).fit(X)
            for n in (30, 12)
        )
        columns = wide.prefix(12)
        assert_allclose(narrow.points_, wide.points_[columns])
        expected = wide.transform(X)[:, columns] * np.sqrt(30 / 12)
        assert_allclose(narrow.transform(X), expected)


def test_order_of_rows_and_repeated_rows(rng):
    X = rng.normal(size=(60, 3))
    weights = rng.integers(0, 3, 60)
    repeated = rng.permutation(np.repeat(X, weights, axis=0))
    sampler = AnchoredRBFSampler(random_state=0, n_components=9)
    expected = sampler.fit(X, sample_weight=weights).transform(X)
    assert_allclose(sampler.fit(repeated).transform(X), expected, rtol=1e-9)


def test_batches_and_merging(rng):
    X = rng.normal(size=(90, 3))
    whole = AnchoredRBFSampler(random_state=0, n_anchors=40).fit(X)
    batches = AnchoredRBFSampler(random_state=0, n_anchors=40)
    for part in np.array_split(X, 4):
        batches.partial_fit(part)
    assert_allclose(batches.transform(X), whole.transform(X), rtol=1e-8)
    assert whole.map_.law.anchors.shape == (40, 3)
    first = AnchoredRBFSampler(random_state=0).fit(X[:50])
    first.merge(AnchoredRBFSampler(random_state=1).fit(X[50:]))
    expected = AnchoredRBFSampler(random_state=0).fit(X).transform(X)
    assert_allclose(first.transform(X), expected, rtol=1e-8)


def test_translation_changes_nothing(rng):
    X = rng.normal(size=(40, 3))
    sampler = AnchoredRBFSampler(sigma=0.7, random_state=0)
    features = sampler.fit(X).transform(X)
    assert_allclose(sampler.fit(X + 100).transform(X + 100), features, rtol=1e-9)


def test_sparse_rows_stay_sparse(rng):
    X = sparse.random(300, 50, density=0.05, random_state=0, format="csr")
    dense = AnchoredRBFSampler(random_state=0).fit(X.toarray()).transform(X.toarray())
    assert_allclose(
        AnchoredRBFSampler(random_state=0).fit(X).transform(X), dense, rtol=1e-8
    )


def test_another_sigma_takes_the_same_noise(rng):
    X = rng.normal(size=(40, 3))
    fitted = AnchoredRBFSampler(sigma=0.7, random_state=0).fit(X)
    other = AnchoredRBFSampler(sigma=1.3, random_state=0).fit(X)
    moved = fitted.with_sigma(1.3)
    assert moved.frequencies_ is fitted.frequencies_
    assert_allclose(moved.transform(X), other.transform(X), rtol=1e-10)


def test_frozen_samplers_forget_the_rows(rng):
    X = rng.normal(size=(40, 3))
    fitted = AnchoredRBFSampler(random_state=0).fit(X)
    features = fitted.transform(X)
    fitted.freeze()
    assert_allclose(fitted.transform(X), features)
    assert X[3].tobytes() not in pickle.dumps(fitted)
    with pytest.raises(
        ValueError, match=r"freeze\(\) has forgotten; ask for it before"
    ):
        fitted.kernel_variance(X)
    with pytest.raises(ValueError, match=r"freeze\(\) has forgotten; change sigma"):
        fitted.with_sigma(1.0)


def test_one_row_and_far_rows_are_finite():
    X = np.ones((1, 3))
    fitted = AnchoredRBFSampler(random_state=0).fit(X)
    assert np.all(np.isfinite(fitted.transform(X)))
    far = 30 * np.eye(3)
    ((_, _, exponent),) = fitted.iter_log_features(far)
    assert np.all(np.isfinite(exponent))


def test_less_error_than_other_positive_maps_at_large_sigma(rng):
    X = rng.normal(size=(200, 8))
    errors = []
    for cls in (OPRFSampler, AnchoredRBFSampler):
        fitted = cls(sigma=1.0, n_components=500, random_state=0).fit(X)
        error = fitted.approximate_kernel(X) - fitted.exact_kernel(X)
        errors.append(np.sqrt(np.mean(error**2)))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize(
    "coupling", [Independent(), Antithetic(Independent())], ids=repr
)
def test_variance_of_unseen_rows(coupling, rng):
    X = 0.5 * rng.normal(size=(5, 2))
    sampler = AnchoredRBFSampler(sigma=1.0, coupling=coupling, n_anchors=3)
    assert_unbiased(sampler, X, n_blocks=20_000)
    assert_variance(sampler, X, n_blocks=20_000)
