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


@pytest.mark.parametrize(
    "case",
    [
        "numbers",
        "weights",
        "offset",
        "few",
        pytest.param("labels", marks=pytest.mark.slow),
    ],
)
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
    found, models, scores = [], [], []
    for tolerated in (_candidate_sums._TOLERATED, 0):
        one = fitted(tolerated, monkeypatch, model, X, y, sample_weight=weights)
        predict = one.predict_proba if case in ("labels", "few") else one.predict
        found.append(predict(X[N_ROWS:]))
        scores.append(one.score(X[N_ROWS:], y[N_ROWS:]))
        models.append((errors_of_products[-1], one.alpha_))
    assert models[0][0] > 0
    assert models[1][0] is None
    assert_allclose(models[0][1], models[1][1], rtol=1e-5)
    assert_allclose(found[0], found[1], atol=1e-4 * np.ptp(found[1]))
    assert abs(scores[0] - scores[1]) < 1e-5


def test_targets_without_noise_need_double_precision(
    rows, errors_of_products, monkeypatch
):
    """The tiny penalties that they select do not tolerate products in single."""
    y, used = expected(rows), _candidate_sums._TOLERATED
    model = fitted(used, monkeypatch, new_model(300), rows, y)
    found = model.predict(rows[N_ROWS:])
    assert set(errors_of_products) == {None}
    alpha = model.alpha_
    single = fitted(np.inf, monkeypatch, new_model(300), rows, y)
    # penalties that are affected by rounding cannot be selected
    assert single.alpha_ > 3 * alpha
    pair = found, single.predict(rows[N_ROWS:])
    errors = [np.abs(each - y[N_ROWS:]).max() for each in pair]
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


@pytest.mark.parametrize("case", ["discrete", "large weights"])
def test_errors_that_do_not_cancel(case, rows, rng, errors_of_products):
    """Few distinct rows, and weights of which few count, need double precision."""
    X, weights = rows[:N_ROWS], np.ones(N_ROWS)
    if case == "discrete":
        X = np.clip(np.round(X), -2, 2)
    y = expected(X) + 0.1 * rng.normal(size=N_ROWS)
    new_model().fit(X, y, weights)
    is_single = errors_of_products[-1] is not None
    assert is_single == (case != "discrete")
    if case == "large weights":
        equal = errors_of_products[-1]
        weights[::100] = 50
        new_model().fit(X, y, weights)
        assert errors_of_products[-1] is None or errors_of_products[-1] > 2 * equal


def test_penalties_below_the_rounding_error_cannot_be_selected(rows, rng, monkeypatch):
    y = expected(rows)[:N_ROWS] + rng.normal(size=N_ROWS)
    counts = []
    for gram_eps in (None, 0.01):
        monkeypatch.setattr(
            _candidate_sums, "_tolerated_gram_eps", lambda *_, found=gram_eps: found
        )
        model = new_model().fit(rows[:N_ROWS], y)
        counts.append(np.isfinite(model.loo_errors_).sum())
    assert counts[1] < counts[0]
