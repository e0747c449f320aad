"""The sigma of least leave-one-out error, and what it does for the defaults."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.spatial import distance
from sklearn import datasets
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)

OCTAVES = 2.0 ** np.arange(-1, 6)  # of "scale", as the reference says
QUARTERS = 2.0 ** np.arange(-0.75, 1, 0.25)
CLASSIFIERS = KNeighborsClassifier(), NadarayaWatsonClassifier()
REGRESSORS = KNeighborsRegressor(), NadarayaWatsonRegressor()


def mean_scores(names, models):
    """Return the mean scores over the tables, with the models as they come."""
    scores = []
    for name in names:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        parts = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
        X_train, X_test, y_train, y_test = parts
        fitted = (model.fit(X_train, y_train) for model in models)
        scores.append([model.score(X_test, y_test) for model in fitted])
    return np.mean(scores, axis=0)


def test_defaults_are_as_good_as_neighbours():
    neighbours, exact = mean_scores(
        ["iris", "wine", "breast_cancer", "digits"], CLASSIFIERS
    )
    assert exact > neighbours - 0.02
    neighbours, exact = mean_scores(["diabetes"], REGRESSORS)
    assert exact > neighbours - 0.03


LOG_KERNELS = {
    "gaussian": lambda X: -0.5 * distance.cdist(X, X, "sqeuclidean"),
    "laplacian": lambda X: -distance.cdist(X, X),
    laplacian_kernel: lambda X: -distance.cdist(X, X, "cityblock") / X.shape[1],
}


def error(log_kernel, y):
    """Return mistakes and log loss over the other rows, from all pairs of rows."""
    np.fill_diagonal(log_kernel, -np.inf)
    weights = np.exp(log_kernel - log_kernel.max(axis=1, keepdims=True))
    truth = y[:, None] == np.unique(y)
    weights /= weights.sum(axis=1, keepdims=True)
    found = weights @ truth
    mistakes = found.argmax(axis=1) != truth.argmax(axis=1)
    n_rows = 1 / np.sum(weights**2, axis=1)
    own = n_rows * found[truth]
    smoothed = (own + 0.3 / truth.shape[1]) / (n_rows + 0.3)
    return mistakes.sum() - 0.5 * np.log(smoothed).sum()


@pytest.mark.parametrize("kernel", list(LOG_KERNELS))
def test_is_the_best_of_the_path(kernel, rng):
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int) + (X[:, 1] > 1)
    best = NadarayaWatsonClassifier(sigma="scale").fit(X, y).sigma_
    for steps in (OCTAVES, QUARTERS):
        sigmas = best * steps
        errors = [error(LOG_KERNELS[kernel](sigma * X), y) for sigma in sigmas]
        best = sigmas[np.argmin(errors)]
    model = NadarayaWatsonClassifier(kernel=kernel).fit(X, y)
    assert_allclose(model.sigma_, best)


def test_several_outputs_do_not_depend_on_their_units(rng):
    X = rng.normal(size=(100, 2))
    y = np.stack([np.sin(3 * X[:, 0]), X[:, 1]], axis=1)
    one, two = (
        NadarayaWatsonRegressor().fit(X, y * units + 1e3).sigma_
        for units in ([1.0, 1.0], [1e-3, 1e4])
    )
    assert one == two


def test_sparse_rows(rng):
    X = rng.random((80, 6)) * (rng.random((80, 6)) < 0.5)
    y = X.sum(axis=1)
    dense = NadarayaWatsonRegressor().fit(X, y)
    model = NadarayaWatsonRegressor().fit(sparse.csr_array(X), y)
    assert_allclose(model.sigma_, dense.sigma_)
    model.partial_fit(X, y)
    assert_allclose(model.sigma_, dense.partial_fit(X, y).sigma_)


def test_a_sample_of_the_rows_follows_their_number(rng):
    """Of 10,000 rows: the best sigma of more is a little larger."""
    X = rng.normal(size=(20_000, 4))
    scale = NadarayaWatsonRegressor(sigma="scale").fit(X, X[:, 0]).sigma_
    model = NadarayaWatsonRegressor().fit(X, X[:, 0])
    multiples = scale * 2.0 ** np.arange(-1.75, 6, 0.25) * 2 ** (1 / 8)
    assert np.isclose(model.sigma_, multiples, rtol=5e-3).sum() == 1


@pytest.mark.parametrize("y", [np.zeros(20), np.arange(20) % 2], ids=["one", "two"])
def test_rows_all_alike(y):
    model = NadarayaWatsonClassifier().fit(np.ones((20, 3)), y)
    assert np.isfinite(model.sigma_)
    expected = np.full((1, np.unique(y).size), 1 / np.unique(y).size)
    assert_allclose(model.predict_proba(np.ones((1, 3))), expected)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_rows_between_classes_favour_none(kernel, rng):
    """Equal rows of both labels share a query's weight: no last digit decides."""
    for _ in range(50):
        X = rng.normal(size=(4, 2))[rng.integers(0, 4, 12)]
        y = np.append(rng.integers(0, 2, 10), [0, 1])
        found, other = (
            NadarayaWatsonClassifier(kernel).fit(X, labels).sigma_
            for labels in (y, 1 - y)
        )
        assert_allclose(found, other, rtol=1e-12)
