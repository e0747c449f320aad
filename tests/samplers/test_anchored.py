"""Positive features about training rows: the law, the variance, rows and freezing."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special, stats
from scipy.spatial.distance import cdist

from sklearn_crt import OPRFSampler
from sklearn_crt.extend import Antithetic, Independent
from sklearn_crt.samplers import AnchoredRBFSampler
from sklearn_crt.testing import assert_unbiased, assert_variance, check_sampler

pytestmark = pytest.mark.usefixtures("few_seeds")


def log_mean_square(points, anchors):
    """Return the log of the mean over the anchors of exp(-2 |z - a|^2)."""
    logs = -2 * cdist(points, anchors, "sqeuclidean")
    return special.logsumexp(logs, axis=1) - np.log(len(anchors))


@pytest.mark.parametrize(
    "coupling",
    [
        "antithetic",
        pytest.param("iid", marks=pytest.mark.slow),
        pytest.param("orthogonal", marks=pytest.mark.slow),
        pytest.param("sobol", marks=pytest.mark.slow),
    ],
)
def test_contract(coupling):
    check_sampler(AnchoredRBFSampler(coupling=coupling), 3)


def test_contract_with_softmax():
    check_sampler(AnchoredRBFSampler(kernel="softmax"))


def test_unbiased_with_two_sides_weights_and_few_anchors(rng):
    X, Y = 0.4 * rng.normal(size=(5, 3)), 0.4 * rng.normal(size=(4, 3)) + 0.2
    # new rows, far from the anchors
    sampler = AnchoredRBFSampler(sigma=1.0, n_anchors=2, n_components=20)
    estimates = []
    for seed in range(200):
        fitted = sampler.set_params(random_state=seed)
        fitted.fit(X[:3], X_key=Y[:2], sample_weight=[1.0, 0.0, 5.0])
        estimates.append(fitted.approximate_kernel(X, Y))
    t = stats.ttest_1samp(estimates, fitted.exact_kernel(X, Y)).statistic
    assert np.abs(t).max() < stats.t.isf(1e-6 / (2 * t.size), 199)


def test_stated_error_of_the_variance(rng):
    X = 0.5 * rng.normal(size=(30, 2))
    fitted = AnchoredRBFSampler(sigma=1.0, n_components=64, coupling="iid").fit(X)
    variance, error = fitted.kernel_variance(X[:5], return_error=True)
    assert_allclose(fitted.kernel_variance(X[:5]), variance)
    exact = second_moments(fitted, X[:5], X) - fitted.exact_kernel(X[:5]) ** 2
    assert np.all(np.abs(variance - exact / 64) < 5 * error)
    assert np.median(error / variance) < 0.05


def log_features(rows, points, anchors):
    """Return the logs of exp(-|x - z|^2) over the root of that mean, at points z."""
    squares = cdist(rows, points, "sqeuclidean")
    return -squares - 0.5 * log_mean_square(points, anchors)


def second_moments(fitted, X, anchors):
    """Return E Z^2 of one point by a grid, for sigma=1."""
    X, anchors = X - fitted.center_, anchors - fitted.center_
    axis = np.linspace(-5, 5, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    squares = 2 * cdist(grid, X, "sqeuclidean")
    terms = -log_mean_square(grid, anchors)[:, None, None] - squares[:, :, None]
    terms = np.exp(terms - squares[:, None])
    return terms.sum(axis=0) * (axis[1] - axis[0]) ** 2 * 2 / np.pi


def test_reference_numbers(beyond):
    numbers = beyond["landmark_law"]
    points, anchors = np.array(numbers["z"]), np.array(numbers["anchors"])
    assert_allclose(
        log_mean_square(points, anchors), numbers["log_mean_sq"], rtol=1e-12
    )
    ((row, expected),) = [numbers["log_features_of"]]
    found = log_features([row], points, anchors)
    assert_allclose(found[0] - 0.5 * np.log(2), expected, rtol=1e-10)
    numbers = beyond["anchored"]
    points, anchors = np.array(numbers["z"]), np.array(numbers["anchors"], float)
    found = log_features([numbers["x"]], points, anchors)
    assert_allclose(found[0] - 0.5 * np.log(2), numbers["log_f"], rtol=1e-10)


@pytest.mark.parametrize("coupling", ["iid", "orthogonal", "antithetic"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_features_are_those_of_the_formula(coupling, convert, rng):
    """At the points that were drawn, about rows of other weights."""
    X, weights = rng.normal(size=(12, 3)), rng.integers(0, 4, size=12)
    sampler = AnchoredRBFSampler(sigma=0.7, n_components=21, coupling=coupling)
    fitted = sampler.fit(X, sample_weight=weights)
    x = 0.7 * (X - fitted.center_)
    anchors = np.repeat(x, weights, axis=0)
    expected = log_features(x, fitted.points_, anchors) - 0.5 * np.log(21)
    assert_allclose(fitted.transform(convert(X)), np.exp(expected), rtol=1e-9)


def test_mean_second_moment_is_one(beyond):
    anchors = np.array(beyond["landmark_law"]["anchors"])
    fitted = AnchoredRBFSampler(sigma=1.0).fit(anchors)
    moments = second_moments(fitted, anchors, anchors)
    assert_allclose(moments, beyond["landmark_law"]["E2_anchor_pairs"], rtol=1e-6)
    assert_allclose(moments.mean(), 1, rtol=1e-6)
    # and so the mean variance does not depend on sigma nor on the dimension
    variance = fitted.kernel_variance(anchors)
    expected = (1 - np.mean(fitted.exact_kernel(anchors) ** 2)) / 100
    assert_allclose(variance.mean(), expected, rtol=1e-6)


@pytest.mark.parametrize("coupling", ["iid", "sobol"])
def test_law_of_the_points(coupling):
    """Of all couplings but "iid" each row has its share of the points."""
    anchors, weights = np.array([[-4.0], [0.0], [4.0]]), np.array([0.2, 0.5, 0.3])
    sampler = AnchoredRBFSampler(sigma=1.0, n_components=90_000, coupling=coupling)
    sampler.set_params(random_state=0).fit(anchors, sample_weight=weights)
    points = sampler.points_[:, 0] + sampler.center_
    counts = [np.sum(np.abs(points - a) < 2) for a in (-4, 0, 4)]
    spread = np.sqrt(90_000 * weights * (1 - weights))
    error = np.abs(counts - 90_000 * weights)
    assert np.all(error < 5 * (spread if coupling == "iid" else 1))
    assert stats.kstest((points + 2) % 4 - 2, stats.norm(scale=0.5).cdf).pvalue > 1e-6


def test_points_stand_on_both_sides_of_an_anchor(rng):
    X = rng.normal(size=(5, 2))
    sampler = AnchoredRBFSampler(sigma=1.0, n_components=7, coupling="antithetic")
    fitted = sampler.fit(X)
    points, noise = fitted.points_ + fitted.center_, fitted.frequencies_.T
    middle = 0.5 * (points[:3] + points[3:6])
    assert np.all(cdist(middle, X).min(axis=1) < 1e-12)
    assert_allclose(points[:3] - points[3:6], noise[:3], atol=1e-12)
    assert len(points) == 7


def test_draws_nest(rng):
    X = rng.normal(size=(50, 3))
    for coupling in ("iid", "orthogonal", "antithetic"):
        wide, narrow = (
            AnchoredRBFSampler(n_components=n, coupling=coupling, random_state=0).fit(X)
            for n in (30, 12)
        )
        columns = np.r_[:6, 15:21] if coupling == "antithetic" else np.r_[:12]
        assert_allclose(narrow.points_, wide.points_[columns])
        expected = wide.transform(X)[:, columns] * np.sqrt(30 / 12)
        assert_allclose(narrow.transform(X), expected)


def test_weights_are_repeated_rows(rng):
    X = rng.normal(size=(60, 3))
    weights = rng.integers(0, 3, 60)
    repeated = np.repeat(X, weights, axis=0)
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
    wide = AnchoredRBFSampler(n_anchors=40, n_components=2000).fit(X)
    anchors = wide.points_ - 0.5 * wide.frequencies_.T
    distances = cdist(anchors, wide.sigma_ * (X - wide.center_))
    assert np.all(distances.min(axis=1) < 1e-9)
    assert len(np.unique(distances.argmin(axis=1))) == 40
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
    assert np.array_equal(moved.frequencies_, fitted.frequencies_)
    assert_allclose(moved.transform(X), other.transform(X), rtol=1e-10)


def test_frozen_samplers_forget_the_rows(rng):
    X = rng.normal(size=(40, 3))
    fitted = AnchoredRBFSampler(random_state=0).fit(X)
    features = fitted.transform(X)
    fitted.freeze()
    assert_allclose(fitted.transform(X), features)
    assert X[3].tobytes() not in pickle.dumps(fitted)
    with pytest.raises(ValueError, match=r"freeze\(\) has discarded. Call it before"):
        fitted.kernel_variance(X)
    with pytest.raises(ValueError, match="with_sigma cannot change this Anch"):
        fitted.with_sigma(1.0)


def test_one_row_and_far_rows_are_finite():
    X = np.ones((1, 3))
    fitted = AnchoredRBFSampler(random_state=0).fit(X)
    assert np.all(np.isfinite(fitted.transform(X)))
    far = 30 * np.eye(3)
    ((_, _, exponent),) = fitted.map_.iter_log_features(far)
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
