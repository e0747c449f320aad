"""Gaussian mixtures of maps for pairs of clusters, and maps for a few of the pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from sklearn_crt import TrigRBFSampler
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import (
    ClusteredSampler,
    GaussianMixtureSampler,
    PositiveRBFSampler,
    clustered_hybrid,
)
from sklearn_crt.testing import assert_unbiased, assert_variance

N_DRAWS = 24  # of each of many maps
CENTERS = np.array([[0.6, -0.3, 0.2], [-0.5, 0.4, 0.3], [0.1, 0.5, -0.6]])


def clusters(rng, sizes=(30, 20, 10), width=0.02):
    X = np.repeat(CENTERS, sizes, axis=0) + width * rng.normal(size=(sum(sizes), 3))
    return X, X @ np.diag([-1.0, -0.8, -1.2])


# ---------------------------------------------------------------- mixtures, H.1
@pytest.mark.parametrize(
    ("positive", "kernel"),
    [
        (True, "softmax"),
        # test_every_public_sampler judges the first of these
        pytest.param(False, "gaussian", marks=pytest.mark.slow),
        pytest.param(True, "gaussian", marks=pytest.mark.slow),
        pytest.param(False, "softmax", marks=pytest.mark.slow),
    ],
)
def test_mean_and_variance(positive, kernel, rng):
    X, Y = clusters(rng)
    X, Y = X[::12], Y[::12]
    mixture = GaussianMixtureSampler(
        positive=positive, kernel=kernel, sigma=1.0, n_components=180, n_pairs=2
    )
    assert_unbiased(mixture, X, Y, n_draws=N_DRAWS)
    assert_variance(mixture, X, Y, n_draws=200)


def test_coefficients_are_those_of_definition_H_1(rng):
    X, Y = clusters(rng)
    tau, options = 0.4, {"statistic": "centers", "n_clusters": 3}
    fitted = GaussianMixtureSampler(
        sigma=1.0, tau=tau, n_components=1200, random_state=0, **options
    ).fit(X, X_key=Y)
    assert len(fitted.bases_) == 10
    assert len(fitted.coefficients_) == 9
    means, _ = fitted.map_.coefficient_moments(*fitted.map_.frame.pair(X, Y))
    assert_allclose(sum(means), 1)
    for base, mean in zip(fitted.bases_[:-1], means[:-1], strict=True):
        a = base.quadratic.matrix
        assert np.isrealobj(a)
        gaps = a * X[:, None] + Y / a
        expected = np.exp(-np.sum(gaps**2, axis=2) / (2 * tau**2))
        assert_allclose(mean, expected, rtol=1e-9, atol=1e-15)
    # each row and its counterpart belong to a pair of clusters that cancels
    own = np.max([np.diag(mean) for mean in means[:-1]], axis=0)
    assert own.min() > 0.9


def test_less_variance_than_the_default_for_rows_of_one_pair(rng):
    X, Y = 3 * np.array(clusters(rng, (60, 0, 0), width=0.005))
    options = {"sigma": 1.0, "random_state": 0, "n_components": 2000}
    mixture = GaussianMixtureSampler(n_clusters=1, tau=0.3, **options)
    mixture.fit(X, X_key=Y)
    default = TrigRBFSampler(**options).fit(X, X_key=Y)
    own = np.diag(mixture.kernel_variance(X, Y))
    assert np.median(own) < 0.1 * np.median(np.diag(default.kernel_variance(X, Y)))


def test_most_massive_pairs_and_the_default(rng):
    X, Y = clusters(rng)
    fitted = GaussianMixtureSampler(
        n_clusters=3,
        n_pairs=2,
        default=PositiveRBFSampler(center=False),
        sigma=1.0,
        n_components=200,
    ).fit(X, X_key=Y)
    assert len(fitted.bases_) == 3
    assert fitted.bases_[-1].is_positive
    with pytest.warns(ApproximationWarning, match="Only the last base map is used"):
        few = GaussianMixtureSampler(n_components=10).fit(X, X_key=Y)
    assert few.coefficients_ == []


# ------------------------------------------------- zero-one mixtures of a few pairs
def test_maps_for_the_most_massive_pairs(rng):
    X, Y = clusters(rng)
    all_pairs = ClusteredSampler(n_clusters=3, sigma=1.0, n_components=360).fit(
        X, X_key=Y
    )
    few = ClusteredSampler(n_clusters=3, n_pairs=3, sigma=1.0, n_components=360)
    few.fit(X, X_key=Y)
    masses = np.outer(*(side.shares for side in few.clusters_))
    covered = np.zeros((3, 3), dtype=int)
    for block in few.blocks_:
        covered += np.outer(block.queries, block.keys)
    assert np.all(covered == 1)  # each pair of clusters has exactly one map
    own = [
        (np.argmax(block.queries), np.argmax(block.keys)) for block in few.blocks_[:3]
    ]
    largest = np.sort(masses.ravel())[-3]
    assert all(masses[pair] >= largest for pair in own)
    assert len(few.blocks_) < len(all_pairs.blocks_)


@pytest.mark.parametrize(
    "n_pairs", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8, 9, 50))]
)
def test_mean_and_variance_with_a_default(n_pairs, rng):
    X, Y = clusters(rng)
    X, Y = X[::12], Y[::12]
    sampler = clustered_hybrid(
        n_clusters=2, n_pairs=n_pairs, sigma=1.0, n_components=64, coupling="iid"
    )
    assert_unbiased(sampler, X, Y, n_draws=N_DRAWS)
    assert_variance(sampler, X, Y, n_draws=200)


def test_another_default(rng):
    X, Y = clusters(rng)
    X, Y = X[::6], Y[::6]
    positive = PositiveRBFSampler(center=False)
    options = {"n_clusters": 3, "n_pairs": 1, "sigma": 1.0, "n_components": 80}
    sampler = ClusteredSampler(default=positive, random_state=0, **options)
    fitted = clone(sampler).fit(X, X_key=Y)
    assert [block.part.is_positive for block in fitted.blocks_[1:]] == [True, True]
    assert_unbiased(sampler, X, Y, n_draws=N_DRAWS)


class WithoutMinus(GaussianMixtureSampler):
    """The weight of the default does not account for the first pair."""

    def approximate_kernel(self, X, Y=None):
        pair = self.map_.frame.pair(X, Y)
        weight = self.map_.coefficients[0].kernel(*pair)
        missing = weight * self.map_.bases[-1].kernel(*pair)
        return super().approximate_kernel(X, Y) + missing


def test_weights_that_do_not_add_up_are_seen(rng):
    X, Y = clusters(rng)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(
            WithoutMinus(sigma=1.0, n_components=180, n_pairs=2),
            X[::12],
            Y[::12],
            n_draws=N_DRAWS,
        )
