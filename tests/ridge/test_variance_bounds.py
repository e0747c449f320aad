"""Bounds of variances shrink predictions as the variances themselves do."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import AnovaSampler, RandomFeatureRidge


def expected(X):
    return np.sin(X[:, 0]) + X[:, 0] * X[:, 1]


def test_bounds_of_variances(rng):
    """Bounds are not below the variances, and predictions are the same with them."""
    for n_rows, noise in ((60, 0.3), (250, 0.3), (250, 0.0), (600, 1.0)):
        X = rng.normal(size=(n_rows, 2))
        y = expected(X) + noise * rng.normal(size=n_rows)
        queries = np.concatenate([X[:50], 4 * rng.normal(size=(200, 2))])
        model = RandomFeatureRidge(n_components=300, random_state=0).fit(X, y)
        for each in (model, model.freeze()):
            solution = each._value.solution
            Z = each.kernel_.transform(queries)
            exact, bound = solution.variance(Z), solution.variance_where_large(Z)
            assert np.all(bound >= exact * (1 - 1e-4) - 1e-5 * exact.max())
            limit = solution._known_noise * exact > solution.spread
            assert_allclose(bound[limit], exact[limit], rtol=1e-12)
            mean = each.predict(queries)
            assert_allclose(mean, each.predict(queries, return_std=True)[0], rtol=1e-12)


def test_most_predictions_need_few_axes(rng, monkeypatch):
    """Rows like the training rows are predicted without all axes, others with them."""
    X = rng.normal(size=(1500, 4))
    y = np.sin(X[:, 0]) + X[:, 1] + rng.normal(size=1500)
    model = RandomFeatureRidge(random_state=0).fit(X, y)
    counts = []
    solution = type(model._value.solution)
    variance = solution.variance

    def counted(self, Z, rows=None):
        counts.append(len(Z))
        return variance(self, Z, rows)

    monkeypatch.setattr(solution, "variance", counted)
    model.predict(rng.normal(size=(1000, 4)))
    assert sum(counts) < 100
    model.predict(20 + rng.normal(size=(100, 4)))
    assert sum(counts) >= 100


@pytest.mark.parametrize("n_rows", [100, pytest.param(400, marks=pytest.mark.slow)])
def test_predictions_with_all_rows_as_landmarks(n_rows, rng):
    """The variance that landmarks do not explain shrinks predictions, too."""
    X = rng.normal(size=(n_rows, 4))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows)
    model = RandomFeatureRidge(AnovaSampler(random_state=0)).fit(X, y)
    queries = np.concatenate([rng.normal(size=(50, 4)), 5 * rng.normal(size=(50, 4))])
    for each in (model, model.freeze()):
        mean = each.predict(queries)
        assert_allclose(mean, each.predict(queries, return_std=True)[0], rtol=1e-12)


def test_outputs_with_and_without_a_penalty(rng):
    """An output whose penalty is 0 has no prior variance, but the other one has."""
    X = rng.normal(size=(60, 2))
    Y = np.column_stack([expected(X), rng.normal(size=60)])
    model = RandomFeatureRidge(n_components=500, sigma=0.3, alpha=[0.0, 1.0])
    model.set_params(random_state=0).fit(X, Y)
    queries = np.concatenate([X[:20], 4 * rng.normal(size=(200, 2))])
    solution, Z = model._value.solution, model.kernel_.transform(queries)
    exact, bound = solution.variance(Z), solution.variance_where_large(Z)
    assert np.all(bound >= exact * (1 - 1e-4) - 1e-5 * exact.max())
