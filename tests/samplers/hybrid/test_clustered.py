"""Maps of clusters: where their variance vanishes, which rows have which columns."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.metrics import pairwise_distances_argmin

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import ClusteredSampler
from sklearn_crt.testing.estimates import assert_mean, contract_rows

from ...hybrids import hybrid

FAMILY = 1e-6


def clustered(**params):
    return hybrid("clustered", n_components=80, kernel="softmax", **params)


def diagonal_for(queries, keys, **params):
    """Return the diagonal of the map for one cluster of queries and one of keys."""
    params = {"sigma": 1.0, "n_clusters": 1, "kernel": "softmax", **params}
    fitted = hybrid("clustered", n_components=2, **params).fit(queries, X_key=keys)
    return fitted.bases_[0].blocks[0].part.quadratic.matrix


def two_clusters(rng, width=0.1, d=6):
    """Return queries and keys of two clusters each, and their centres."""
    centers = rng.normal(size=(4, d)) * 0.8
    X, Y = (
        np.repeat(c, 60, axis=0) + width * rng.normal(size=(120, d))
        for c in (centers[:2], centers[2:])
    )
    return X, Y, centers[:2], centers[2:]


def test_no_variance_at_the_centres_with_complex_diagonals(rng):
    X, Y, *_ = two_clusters(rng)
    sampler = clustered(statistic="centers").fit(X, X_key=Y)
    queries, keys = (side.centers for side in sampler.bases_[0].clusters)
    exact = sampler.exact_kernel(queries, keys)
    relative = sampler.kernel_variance(queries, keys) / exact**2
    assert relative.max() < 1e-13  # rounding of the sum of 6 squares
    assert_allclose(sampler.approximate_kernel(queries, keys), exact, rtol=1e-12)
    real = clustered(statistic="centers", diagonal="real").fit(X, X_key=Y)
    others = real.kernel_variance(queries, keys) / exact**2
    assert others.max() > 1e9 * relative.max()  # it is no matter of rounding


def test_moments_lower_the_variance_of_wide_clusters(rng):
    X, Y, *_ = two_clusters(rng, width=0.3)

    def log_variance(statistic):
        sampler = clustered(statistic=statistic).fit(X, X_key=Y)
        relative = sampler.kernel_variance(X, Y) / sampler.exact_kernel(X, Y) ** 2
        return np.log(relative).mean()

    assert log_variance("moments") < log_variance("centers")


def test_clusters_are_found_and_rows_keep_their_block(rng):
    X, Y, queries, keys = two_clusters(rng)
    sampler = clustered().fit(X, X_key=Y)
    base = sampler.bases_[0]
    # means and variances of 60 normal rows in 2 clusters, 2 sides and 6 columns
    level, degrees = FAMILY / (2 * 24), 59
    far = 0.1 / 60**0.5 * stats.norm.isf(level)
    low, high = (0.01 / 60 * stats.chi2.ppf(p, degrees) for p in (level, 1 - level))
    for side, centers in zip(base.clusters, (queries, keys), strict=True):
        distance = np.abs(side.centers[:, None] - centers).max(axis=2).min(axis=1)
        assert distance.max() < far
        assert_allclose(side.shares, [0.5, 0.5])
        assert np.all((side.spreads > low) & (side.spreads < high))
    features = sampler.transform(X)
    assert len(base.blocks) == 4
    assert sum(b.columns.stop - b.columns.start for b in base.blocks) == 80
    labels = pairwise_distances_argmin(X, base.clusters[0].centers)
    for i, label in enumerate(labels):
        for block in base.blocks:
            active = features[i, block.columns] != 0
            assert active.all() if block.queries[label] else not active.any()
    product = features @ sampler.transform_key(Y).T
    assert_allclose(sampler.approximate_kernel(X, Y), product, rtol=1e-10, atol=1e-12)


def test_sparse_rows_have_the_clusters_of_dense_ones():
    """Rows of small integers are often equally far from two centres."""
    for seed in range(5):
        X = np.random.default_rng(seed).integers(0, 3, size=(50, 3)).astype(float)
        sampler = ClusteredSampler(diagonal="real", random_state=0)
        expected = clone(sampler).fit(X).transform(X)
        found = clone(sampler).fit(sparse.csr_array(X)).transform(X)
        assert_allclose(found, expected, atol=1e-9)


def test_clusters_of_a_few_sparse_rows(rng):
    X = sparse.csr_array(rng.normal(size=(2, 3)))
    sampler = ClusteredSampler(n_clusters=3, sigma=1.0, random_state=0).fit(X)
    centers = sampler.clusters_[0].centers
    assert_allclose(np.sort(centers, axis=0), np.sort(X.toarray(), axis=0))


@pytest.mark.parametrize("statistic", ["moments", "centers"])
def test_clustered_beats_its_default_and_is_unbiased(statistic, rng):
    X, Y, *_ = two_clusters(rng)
    X, Y = X[::15], Y[::15]
    sampler = clustered(statistic=statistic, coupling="iid")
    fitted = sampler.fit(X, X_key=Y)
    trig = TrigRBFSampler(sigma=1.0, n_components=80, kernel="softmax").fit(X)
    assert fitted.kernel_variance(X, Y).mean() < trig.kernel_variance(X, Y).mean()
    draws = (clone(sampler).set_params(random_state=k) for k in range(25))
    estimates = [s.fit(X, X_key=Y).approximate_kernel(X, Y) for s in draws]
    assert_mean(np.stack(estimates), fitted.exact_kernel(X, Y))


def test_counts_of_clusters(rng):
    X = rng.normal(size=(50, 3))
    sampler = hybrid("clustered", n_clusters=(3, 2), n_components=120).fit(X)
    queries, keys = sampler.bases_[0].clusters
    assert len(queries.centers) == 3
    assert len(keys.centers) == 2
    few = hybrid("clustered", n_clusters=4, n_components=80).fit(X[:2])
    assert len(few.bases_[0].clusters[0].centers) == 2
    same = hybrid("clustered", n_clusters=3, n_components=80).fit(np.ones((9, 2)))
    assert np.isfinite(same.transform(np.ones((9, 2)))).all()
    with pytest.raises(ValueError, match=r"n_clusters=\(1, 2, 3\) must be"):
        hybrid("clustered", n_clusters=(1, 2, 3)).fit(X)


def test_zero_coordinates_of_centres():
    zero, one = np.zeros((1, 3)), np.array([[0.0, 1.0, -1.0]])
    assert_allclose(diagonal_for(zero, zero), 1)
    a = diagonal_for(zero, one)
    assert_allclose(a, [1, 1e3, 1e3])  # (1 / 1e-12)^(1/4)
    assert_allclose(diagonal_for(one, zero), [1, 1e-3, 1e-3])
    a = diagonal_for(np.array([[1.0]]), np.array([[1e30]]), diagonal="real")
    assert a == 1e6  # clipped
    # second moments make the zero cases regular
    around = 0.2 * np.array(np.meshgrid(*[[-1, 1]] * 3)).reshape(3, 8).T
    a = diagonal_for(around, one + around, diagonal="real")
    assert_allclose(a, [1, *[26**0.25] * 2])


def test_reference_diagonals(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    for name in ("complex", "real"):
        a = diagonal_for(x, y, diagonal=name)
        loss = np.sum(np.abs(a * x[0] + y[0] / a) ** 2)
        expected = reference[f"loss |a x + y/a|^2 {name}"]
        assert_allclose(loss, expected, rtol=1e-12, atol=1e-25)
    a = diagonal_for(x, y)
    for k in range(4):
        assert_allclose(a[k].real, reference[f"fitted complex diag: Re a_{k + 1}"])
        assert_allclose(a[k].imag, reference[f"fitted complex diag: Im a_{k + 1}"])


def test_attributes_are_those_of_the_map():
    sampler = ClusteredSampler(n_components=40, random_state=0).fit(contract_rows())
    assert sampler.clusters_ is sampler.map_.clusters
    assert sampler.blocks_ == list(sampler.map_.blocks)
    with pytest.raises(AttributeError):
        sampler.blocks_ = []


@pytest.mark.parametrize("size", [1.0, 1e2, 1e4, 1e9])
def test_sines_of_rows_far_from_their_cluster_have_modulus_one(size):
    """The squares of a diagonal of i cancel those of the rows without a rounding."""
    X = np.array([[1.257e-3, -13.21]], np.float32)
    sampler = hybrid("clustered", n_clusters=1, n_components=2, coupling="iid")
    sampler.set_params(sigma="scale").fit(X)
    assert_allclose(sampler.map_.bases[0].parts[0].quadratic.matrix, [1j, 1j])
    rows = np.concatenate([X, np.float32(size) * X])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of phases of 1e10
        estimate = sampler.approximate_kernel(rows)
    assert_allclose(estimate.diagonal(), 1, rtol=1e-6)
    assert np.abs(estimate).max() < 1 + 1e-6


@pytest.mark.parametrize(
    "params", [{}, {"diagonal": "real"}, {"n_clusters": 3}], ids=str
)
def test_columns_that_no_map_has_are_zeros_in_both_forms(params, rng):
    X = rng.normal(size=(60, 4))
    for n_components in range(18, 26):
        sampler = ClusteredSampler(
            n_components=n_components, random_state=0, **params
        ).fit(X)
        features = sampler.transform(X)
        ((_, mantissa, exponent),) = sampler.map_.iter_log_features(X)
        assert mantissa.shape == exponent.shape == (60, n_components)
        assert_allclose(mantissa * np.exp(exponent), features, rtol=1e-12)
