"""Intervals and standard deviations of blends, from errors of out-of-fold rows."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_crt.tables import TableRegressor
from sklearn_crt.tables._error_scale import ErrorScale, ScaledErrors, _best_fit

MODEL = TableRegressor(random_state=0)


def covered(model, X, y, coverage=0.9):
    low, high = model.predict_interval(X, coverage=coverage).T
    return (low <= y) & (y <= high)


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize(
    "of_prediction", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_width_follows_the_noise(of_prediction, rng):
    """Noise of deviation .05 + 2 x, where x determines the target or not.

    Each fifth of the rows has 400 rows, whose share has a standard error of .015. The
    scale is estimated from 800 rows. Intervals of one width cover 1 and .7.
    """
    X = rng.uniform(size=(2800, 3))
    deviations = 0.05 + 2 * X[:, 0]
    y = np.sin(4 * X[:, 1]) + deviations * rng.normal(size=2800)
    y += 4 * X[:, 0] if of_prediction else 0
    model = clone(MODEL).set_params(n_folds=2).fit(X[:800], y[:800])
    found = covered(model, X[800:], y[800:])
    fifths = np.floor(5 * X[800:, 0]).astype(int)
    shares = np.array([found[fifths == fifth].mean() for fifth in range(5)])
    assert np.all((shares > 0.82) & (shares < 0.97)), shares
    _, std = model.predict(X[800:], return_std=True)
    ratios = std / np.hypot(deviations[800:], 0.1)
    assert np.median(np.abs(np.log(ratios))) < 0.25


def test_scale_is_constant_where_the_noise_is(rng):
    X = rng.normal(size=(400, 6))
    scale, left_out = ErrorScale.fitted(X, rng.normal(size=400), np.ones(400))
    assert np.std(np.log(scale(X))) < 0.1
    assert np.std(np.log(left_out)) < 0.1
    mean = np.sqrt(2 / np.pi)  # of absolute normal numbers, with deviation .6
    assert abs(scale(X).mean() - mean) < 4 * 0.6 / np.sqrt(400)


def test_scale_is_limited_and_equivariant(rng):
    X = rng.normal(size=(500, 2))
    errors = np.exp(X[:, 1]) * rng.normal(size=500)
    weights = rng.integers(1, 3, 500).astype(float)
    scale, left_out = ErrorScale.fitted(X, errors, weights)
    other, _ = ErrorScale.fitted(X, 1e6 * errors, 3 * weights)
    np.testing.assert_allclose(other(X), 1e6 * scale(X), rtol=1e-9)
    far = scale(np.array([[0.0, 1e9], [0.0, -1e9]]))
    assert far[0] <= scale(X).max() * (1 + 1e-12)
    assert far[1] >= scale(X).min() * (1 - 1e-12)
    # about exp(x) E|z|
    expected = np.exp(X[:, 1]) * np.sqrt(2 / np.pi)
    inside = np.abs(X[:, 1]) < 1.5
    assert np.abs(np.log(scale(X) / expected))[inside].mean() < 0.2
    assert not np.array_equal(left_out, scale(X))


def test_left_out_scales_are_those_of_fits_without_the_row(monkeypatch, rng):
    """Up to terms of second order in the leverage, which is below .1."""
    monkeypatch.setattr("sklearn_crt.tables._error_scale._ALPHAS", np.array([0.1]))
    Z = rng.normal(size=(150, 2))
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    sizes = np.abs(np.exp(0.5 * Z[:, 1]) * rng.normal(size=150))
    _, _, _, logs, left_out = _best_fit(Z, sizes, np.full(150, 1 / 150))
    for row in np.argsort(-np.abs(Z[:, 1]))[:10]:  # with large leverages
        share = np.full(150, 1 / 149)
        share[row] = 1e-12
        without = _best_fit(Z, sizes, share)[3][row]
        # for an error at the limit of its influence, the step is of first order
        assert abs(left_out[row] - without) < 0.03 + 0.3 * abs(logs[row] - without)


@pytest.mark.parametrize("zeros", [0.0, 0.5, 1.0])
def test_exact_predictions(zeros, rng):
    """Errors of zero have a small scale, and nothing is divided by zero."""
    X = np.column_stack([rng.random(300), rng.random(300) < zeros]).astype(float)
    errors = np.where(X[:, 1] > 0, 0, rng.normal(size=300))
    found = ScaledErrors.of(X, errors, np.ones(300))
    low, high = found.quantiles(X, np.array([0.05, 0.95])).T
    assert np.isfinite(low).all()
    exact = X[:, 1] > 0
    assert np.mean((low <= errors) & (errors <= high)) > 0.85
    if 0 < zeros < 1:
        assert np.median((high - low)[exact]) < 0.1 * np.median((high - low)[~exact])


@pytest.mark.parametrize("n_rows", [1, 2, 18, 19])
def test_intervals_are_infinite_if_rows_are_too_few(n_rows, rng):
    """For a coverage of .9, each side needs a quantile of .95 among n + 1 rows."""
    X = rng.normal(size=(n_rows + 10, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=n_rows + 10)
    model = clone(MODEL).fit(X[:n_rows], y[:n_rows])
    width = np.diff(model.predict_interval(X[n_rows:]), axis=1)
    assert np.all(np.isfinite(width) == (n_rows >= 19))
    mean = model.predict(X[n_rows:])
    assert np.isfinite(mean).all()
    if n_rows > 1:
        middle = model.predict_interval(X[n_rows:], coverage=0.3)
        assert np.isfinite(middle).all()


@pytest.mark.usefixtures("few_folds")
def test_a_row_of_any_weight_is_in_one_fold(rng):
    """Weights that are all equal change nothing."""
    X = rng.normal(size=(210, 3))
    y = np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=210)
    model = clone(MODEL).set_params(n_folds=2)
    expected = model.fit(X, y).predict_interval(X)
    assert np.isfinite(expected).all()
    for weight in (50.0, 0.01):
        found = model.fit(X, y, np.full(210, weight)).predict_interval(X)
        widths = (np.diff(ends, axis=1) for ends in (found, expected))
        np.testing.assert_allclose(*widths, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("n_rows, low, high", [(20, 0.82, 0.97), (40, 0.87, 0.94)])
@pytest.mark.parametrize("target", ["noise", "weak", "smooth"])
def test_coverage_with_few_rows(n_rows, low, high, target):
    """Mean over 20 draws; a draw's coverage has a deviation of at most .09."""
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, noise = rng.normal(size=(n_rows + 1000, 3)), rng.normal(size=n_rows + 1000)
        y = {
            "noise": noise,
            "weak": 0.25 * X[:, 0] + noise,
            "smooth": np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * noise,
        }[target]
        model = clone(MODEL).fit(X[:n_rows], y[:n_rows])
        shares.append(covered(model, X[n_rows:], y[n_rows:]).mean())
    margin = 3 * np.std(shares) / np.sqrt(20)
    assert low - margin < np.mean(shares) < high + margin
