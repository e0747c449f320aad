"""Kernel columns at centres: the definition, batches, and ridge as by Nystroem."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from sklearn_crt import CentersRBFSampler, OPRFSampler
from sklearn_crt.testing import sampler_classes


def groups(rng, n=400):
    return rng.normal(size=(n, 3)) + 20 * rng.integers(0, 2, size=(n, 3))


def assert_means_of_groups(sampler, X):
    """Assert that the centres are the means of the rows of each group."""
    corners = np.rint(X / 20)
    groups = np.unique(corners, axis=0)
    means = np.array(
        [X[(corners == corner).all(axis=1)].mean(axis=0) for corner in groups]
    )
    found = sampler.centers_[np.lexsort(np.rint(sampler.centers_ / 20).T[::-1])]
    assert_allclose(found, means, rtol=1e-4, atol=1e-4)


def test_definition(rng):
    X = rng.normal(size=(300, 3))
    sigma = np.array([1.0, 0.5, 2.0])
    sampler = CentersRBFSampler(n_components=20, sigma=sigma, random_state=0).fit(X)
    centers = sampler.centers_
    assert centers.shape == (20, 3)
    expected = rbf_kernel(X * sigma, centers * sigma, gamma=0.5)
    assert_allclose(sampler.transform(X), expected)
    squares = np.sum(((X[:, None] - centers) * sigma) ** 2, axis=-1)
    labels = squares.argmin(axis=1)
    means = [X[labels == k].mean(axis=0) for k in range(20)]
    assert_allclose(centers, means)  # where k-means stands still
    expected = rbf_kernel(centers * sigma, gamma=0.5)
    assert_allclose(sampler.penalty_, expected, atol=1e-12)
    names = sampler.get_feature_names_out()
    assert_array_equal(names[[0, -1]], ["centersrbfsampler0", "centersrbfsampler19"])


def test_ridge_with_the_penalty_is_ridge_after_nystroem(rng):
    X, y = rng.normal(size=(200, 2)), rng.normal(size=200)
    sampler = CentersRBFSampler(n_components=12, sigma=1.5, random_state=0).fit(X)
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


def test_batches_and_parts_are_fit(rng):
    X = rng.normal(size=(300, 3))
    options = {"n_components": 15, "random_state": 0}
    whole = CentersRBFSampler(**options).fit(X)
    batches = CentersRBFSampler(**options)
    for start in range(0, 300, 60):
        batches.partial_fit(X[start : start + 60])
    parts = [CentersRBFSampler(**options).partial_fit(X[p::2]) for p in (0, 1)]
    one = CentersRBFSampler(**options).fit(np.vstack([X[::2], X[1::2]]))
    assert_allclose(batches.transform(X), whole.transform(X))
    assert_allclose(batches.freeze().transform(X), whole.transform(X))
    assert_allclose(parts[0].merge(parts[1]).transform(X), one.transform(X))


def test_a_long_stream_stays_small(rng):
    """From four million entries on, points stand for the rows."""
    X = rng.normal(size=(6000, 1000)).astype(np.float32)
    X[:, :2] += 40 * rng.integers(0, 2, size=(6000, 2))
    X[:, 2:] /= 40  # so that all corners of the others are one
    stream, sizes = CentersRBFSampler(n_components=4, random_state=0), []
    for part in np.split(X, 6):
        stream.partial_fit(part)
        sizes.append(len(pickle.dumps(stream)))
    megabytes = np.array(sizes) / 4e6  # of a batch
    assert np.all(megabytes[:4] > np.arange(1, 5))
    assert megabytes[4] < 0.2
    assert megabytes[5] < 1.3
    assert_means_of_groups(stream, X)


def test_parts_that_were_fitted_merge(rng):
    X = groups(rng, 1000)
    parts = [
        CentersRBFSampler(n_components=8, sigma=0.1, random_state=0).fit(X[k::3])
        for k in range(3)
    ]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.centers_.shape == (8, 3)
    assert_means_of_groups(merged, X)


def test_kinds_of_rows(rng):
    X = rng.random((200, 5)) * (rng.random((200, 5)) < 0.5)
    options = {"n_components": 10, "sigma": 2.0, "random_state": 0}
    for kind in (sparse.csr_array, sparse.csr_matrix):
        sampler = CentersRBFSampler(**options).fit(kind(X))
        expected = rbf_kernel(X, np.asarray(sampler.centers_), gamma=2.0)
        for rows in (X, kind(X)):
            assert_allclose(sampler.transform(rows), expected, rtol=1e-9)
        few = CentersRBFSampler(sigma=2.0, n_components=300).fit(kind(X[:20]))
        assert_allclose(few.transform(X), rbf_kernel(X, X[:20], gamma=2.0))
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
    with pytest.raises(ValueError, match="merge needs another CentersRBFSampler, got"):
        sampler.merge(OPRFSampler().fit(X))
    with pytest.raises(ValueError, match="one has 3 features and the other 2"):
        sampler.merge(CentersRBFSampler().fit(X[:, :2]))
    with pytest.raises(ValueError, match="sigma has shape"):
        CentersRBFSampler(sigma=[1.0, 2.0]).fit(X)
