"""Products of features in single precision are used only where they hardly matter."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.ridge import _candidate_sums

N_ROWS = 17_000


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).normal(size=(N_ROWS + 1000, 3))


def expected(X):
    return np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def new_model(n_components=150, **options):
    return RandomFeatureRidge(n_components=n_components, random_state=0, **options)


def fitted(tolerated, monkeypatch, model, X, y, **options):
    monkeypatch.setattr(_candidate_sums, "_TOLERATED", tolerated)
    return model.fit(X[:N_ROWS], y[:N_ROWS], **options)


@pytest.fixture
def errors_of_products(monkeypatch):
    """The rounding errors of all Gram matrices that are computed, None for double."""
    found = []
    original = _candidate_sums.MomentSums

    def noted(gram_eps=None):
        found.append(gram_eps)
        return original(gram_eps)

    monkeypatch.setattr(_candidate_sums, "MomentSums", noted)
    return found


@pytest.mark.parametrize("case", ["numbers", "weights", "offset", "labels", "few"])
def test_predictions_hardly_change(case, rows, rng, errors_of_products, monkeypatch):
    """With noise, predictions are those of double precision up to 1e-4 of the range."""
    X, y = rows, expected(rows) + rng.normal(size=len(rows))
    weights, model = None, new_model()
    if case == "weights":
        weights = rng.uniform(0.01, 1, N_ROWS)
    elif case == "offset":
        X = X + 1e5
    elif case in ("labels", "few"):
        model = RandomFeatureRidgeClassifier(n_components=150, random_state=0)
        y = (y > (0 if case == "labels" else 4)).astype(int)
    found, models = [], []
    for tolerated in (_candidate_sums._TOLERATED, 0):
        one = fitted(tolerated, monkeypatch, model, X, y, sample_weight=weights)
        predict = one.predict_proba if case in ("labels", "few") else one.predict
        found.append(predict(X[N_ROWS:]))
        models.append((errors_of_products[-1], one.alpha_, one.loo_errors_))
    assert models[0][0] > 0
    assert models[1][0] is None
    assert_allclose(models[0][1], models[1][1], rtol=1e-5)
    assert_allclose(found[0], found[1], atol=1e-4 * np.ptp(found[1]))
    # penalties that are affected by rounding cannot be selected
    assert np.all(np.isfinite(models[0][2]).sum() <= np.isfinite(models[1][2]).sum())


def test_targets_without_noise_need_double_precision(
    rows, errors_of_products, monkeypatch
):
    """The tiny penalties that they select do not tolerate products in single."""
    y, used = expected(rows), _candidate_sums._TOLERATED
    model = fitted(used, monkeypatch, new_model(300), rows, y)
    found = model.predict(rows[N_ROWS:])
    assert set(errors_of_products) == {None}
    single = fitted(np.inf, monkeypatch, new_model(300), rows, y).predict(rows[N_ROWS:])
    errors = [np.abs(each - y[N_ROWS:]).max() for each in (found, single)]
    assert errors[1] > 3 * errors[0]


def test_given_penalties_count(rows, rng, errors_of_products):
    """The smallest penalty of a list has to tolerate single precision."""
    y = expected(rows)[:N_ROWS] + rng.normal(size=N_ROWS)
    for alpha, is_single in ((1.0, True), ([1e-9, 1.0], False)):
        model = new_model(alpha=alpha).fit(rows[:N_ROWS], y)
        assert (errors_of_products[-1] is not None) == is_single
        assert np.isfinite(model.loo_errors_).all()


def test_few_rows_and_later_rows_use_double_precision(rows, rng, errors_of_products):
    y = expected(rows)[:N_ROWS] + rng.normal(size=N_ROWS)
    new_model().fit(rows[:16_000], y[:16_000])
    assert set(errors_of_products) == {None}
    errors_of_products.clear()
    value = new_model().fit(rows[:N_ROWS], y)._value.summed()
    assert errors_of_products[-1] is not None
    assert value.gram_eps is None
