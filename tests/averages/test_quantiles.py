"""Quantiles and intervals of targets, against NumPy and by their coverage."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import norm
from sklearn.base import clone

from sklearn_crt import (
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
)
from sklearn_crt.averages._kernel_rows import DrawnRows

LEVELS = [0.0, 0.05, 0.3, 0.5, 0.9, 1.0]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(250, 3))
    y = np.stack([X[:, 0] + rng.normal(size=250), np.round(X[:, 1])], axis=1)
    return X, y, rng.integers(1, 4, 250).astype(float), rng.normal(size=(30, 3))


def shares_at_most(values):
    """Return for each of the values which proportion of them is not larger."""
    return np.mean(values <= values[:, None], axis=1)


def deviations_by_hand(
    model, X, predictions, Q, centers, squares, k, scores, spread, scales=(0.5, 0.5)
):
    """Return estimated standard deviations of errors from all pairs of rows."""
    gaps = scales[0] * model.sigma_ * (Q[:, None] - X)
    logs = -0.5 * np.sum(gaps**2, axis=2)
    gaps = np.subtract.outer(centers[:, k], predictions[:, k])
    logs -= 0.5 * (gaps / (scales[1] * predictions[:, k].std())) ** 2
    weights = np.exp(logs)
    weights[np.all(Q[:, None] == X, axis=2)] = 0  # rows that are left out
    weights /= weights.sum(axis=1, keepdims=True)
    size = 1 / np.sum(weights**2, axis=1)
    local = weights @ squares[:, k]
    variances = (size * local + 2 * squares[:, k].mean()) / (size + 2) * (1 + 3 / size)
    variances *= (1 + 2 * np.maximum(0.5 - scores, 0) ** 2) ** 2
    return np.sqrt(variances + spread**2)


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(sigma=1.5),
        LocalLinearRegressor(sigma=1.0, alpha=0.1),
    ],
    ids=str,
)
def test_definition(model, rows):
    """Residuals of refitted models, relative to deviations from all pairs of rows."""
    X, y, _, Q = rows
    left_out = np.empty(y.shape)
    for i in range(250):
        rest = np.arange(250) != i
        left_out[i] = clone(model).fit(X[rest], y[rest]).predict(X[i : i + 1])[0]
    model = clone(model).fit(X, y)
    ends = y.min(axis=0), y.max(axis=0)
    left_out, centers = np.clip(left_out, *ends), np.clip(model.predict(Q), *ends)
    near = np.sort(cdist(X / X.std(axis=0), X / X.std(axis=0)), axis=1)[:, 1:6]
    far = np.sort(cdist(Q / X.std(axis=0), X / X.std(axis=0)), axis=1)[:, :5]
    unit = np.quantile(near.mean(axis=1), 0.99, method="inverted_cdf")
    kernel = np.exp(-0.5 * model.sigma_**2 * cdist(X, X, "sqeuclidean"))
    least = np.minimum(
        shares_at_most(kernel.sum(axis=1) - 1), shares_at_most(-near.mean(axis=1))
    )
    scores = shares_at_most(least), model.score_samples(Q)
    distances = [
        np.maximum(1 - s / 0.05, 0) ** 3 * np.clip(r.mean(axis=1) / unit, 1, 5)
        for s, r in zip(scores, (near, far), strict=True)
    ]
    squares, found = (y - left_out) ** 2, model.predict_quantiles(Q, LEVELS)

    def deviations(rows, predictions, place, k, scales):
        far = 2.5 * distances[place] * y[:, k].std()
        options = squares, k, scores[place], far, scales
        return deviations_by_hand(model, X, left_out, rows, predictions, *options)

    def losses(scales):
        """Return minus twice the log likelihood of each row's residuals."""
        each = [deviations(X, left_out, 0, k, scales) for k in range(2)]
        variances = np.stack(each, axis=1) ** 2
        return np.sum(np.log(variances) + squares / variances, axis=1)

    scales = [
        (0.5, 0.5),
        (0.5, 0.25),
        (0.5, 0.125),
        (1.0, 0.5),
        (1.0, 0.25),
        (2.0, 0.5),
    ]
    best = min(scales, key=lambda pair: losses(pair).sum())
    gain = losses(scales[0]) - losses(best)
    if gain.sum() <= 2 * np.sqrt(250) * gain.std():
        best = scales[0]
    for k in range(2):
        own = deviations(X, left_out, 0, k, best)
        new = deviations(Q, centers, 1, k, best)
        ratios = np.sort((y - left_out)[:, k] / own)
        for j, level in enumerate(LEVELS):
            # the error of one more row is beyond this with probability 1 - level
            if level > 0.5:
                place = min(int(np.ceil(251 * level)), 250) - 1
            elif level < 0.5:
                place = 250 - min(int(np.ceil(251 * (1 - level))), 250)
            else:
                place = 124
            expected = centers[:, k] + new * ratios[place]
            assert_allclose(found[:, k, j], expected, rtol=1e-6)


@pytest.mark.parametrize("model", [NadarayaWatsonRegressor(), LocalLinearRegressor()])
def test_intervals_are_quantiles(model, rows):
    X, y, weights, Q = rows
    model = clone(model).fit(X, y, weights)
    for coverage in (0.5, 0.9, 0.99):
        levels = [0.5 - coverage / 2, 0.5 + coverage / 2]
        expected = model.predict_quantiles(Q, levels)
        assert_array_equal(model.predict_interval(Q, coverage), expected)


@pytest.mark.parametrize("model", [NadarayaWatsonRegressor(), LocalLinearRegressor()])
def test_intervals_widen_with_distance(model, rng):
    """Beyond the data by the spread of all targets, and further up to a limit."""
    X = rng.normal(size=(400, 2))
    y = 3 * X[:, 0] + 0.1 * rng.normal(size=400)
    ends = clone(model).fit(X, y).predict_interval([[0.0, 0.0], [0.0, 9.0], [30.0, 0]])
    widths = np.diff(ends, axis=1)[:, 0]
    assert widths[0] < y.std() < 2 * y.std() < widths[1:].min()
    assert abs(ends[2].mean()) < 2 * y.max() < 30  # the linear fit extrapolates to 90
    ends = clone(model).fit(X, y).predict_interval([[0.0, 4.0], [0.0, 9.0], [0, 1e6]])
    near, far, farthest = np.diff(ends, axis=1)[:, 0]
    assert 1.2 * near < far < farthest < 6 * near


def test_shapes_of_quantiles_and_intervals(rows):
    X, y, _, Q = rows
    for model in (NadarayaWatsonRegressor(), LocalLinearRegressor()):
        model.fit(X, y)
        assert model.predict_quantiles(Q, 0.5).shape == (30, 2)
        assert model.predict_quantiles(Q, [0.5]).shape == (30, 2, 1)
        assert model.predict_interval(Q).shape == (30, 2, 2)
        model.fit(X, y[:, 0])
        assert model.predict_quantiles(Q, 0.5).shape == (30,)
        assert model.predict_quantiles(Q, [0.1, 0.5]).shape == (30, 2)
        assert model.predict_interval(Q.astype(np.float32)).dtype == np.float64
        assert model.predict_interval(Q).shape == (30, 2)


def test_noise_may_grow_with_the_answer(rng):
    """By rows alone noise is averaged over large and small answers."""
    X = rng.normal(size=(3000, 6))
    mean = np.exp(X.sum(axis=1) / 3)
    y = mean * (1 + 0.3 * rng.normal(size=3000))
    model = LocalLinearRegressor().fit(X[:2000], y[:2000])
    low, high = model.predict_quantiles(X[2000:], [0.05, 0.95]).T
    order, widths = np.argsort(mean[2000:]), high - low
    small, large = np.median(widths[order[:300]]), np.median(widths[order[-300:]])
    assert large > 2 * small  # 2.6 to 3.2 on four draws; by rows alone 1.4 to 1.8


def test_constant_answers_are_alike(rows):
    X, _, _, Q = rows
    model = LocalLinearRegressor(sigma=1.5, alpha=0.1)
    found = model.fit(X, np.full(250, 3.0)).predict_quantiles(Q, [0.1, 0.9])
    assert_allclose(found, 3.0)


@pytest.mark.parametrize("model", [NadarayaWatsonRegressor(), LocalLinearRegressor()])
def test_intervals_hold_their_share(model, rng):
    """Noise that differs from row to row; a correct interval fails once in 10^7."""
    X = rng.uniform(-2, 2, size=(5000, 2))
    noise = 0.1 + 0.4 * (X[:, 0] > 0)
    y = np.sin(2 * X[:, 1]) + noise * rng.normal(size=5000)
    model.fit(X[:1000], y[:1000])
    for coverage in (0.5, 0.9):
        ends = model.predict_interval(X[1000:], coverage)
        inside = (ends[:, 0] <= y[1000:]) & (y[1000:] <= ends[:, 1])
        # the share of new rows is a beta variable about the coverage, by 1000 rows
        variance = coverage * (1 - coverage) * (1 / 1000 + 1 / 4000)
        assert abs(inside.mean() - coverage) < norm.isf(1e-7) * np.sqrt(variance)
        widths = ends[:, 1] - ends[:, 0]
        wide, narrow = X[1000:, 0] > 0.3, X[1000:, 0] < -0.3
        assert widths[wide].mean() > 2 * widths[narrow].mean()


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_clipped_intervals_hold_their_share(coverage, rng):
    """Half of the targets are the least one, where many ends of intervals are too."""
    X = rng.uniform(-2, 2, size=(5000, 2))
    y = np.sin(2 * X[:, 1]) + X[:, 0] + 0.3 * rng.normal(size=5000)
    y = np.maximum(y, 0)
    model = LocalLinearRegressor(clip=True).fit(X[:1000], y[:1000])
    ends = model.predict_interval(X[1000:], coverage)
    inside = (ends[:, 0] <= y[1000:]) & (y[1000:] <= ends[:, 1])
    spread = norm.isf(1e-7) * np.sqrt(coverage * (1 - coverage) * (1 / 1000 + 1 / 4000))
    assert inside.mean() > coverage - spread


def test_margin_is_computed_on_held_out_rows(rng):
    """Where a row has nearly all the weight, its own target would be the interval."""
    X, y = rng.normal(size=(300, 8)), rng.normal(size=300)
    model = NadarayaWatsonRegressor(sigma=3.0).fit(X, y)
    ends = model.predict_interval(X[:1])
    assert ends[0, 1] - ends[0, 0] > 2
    ends = model.predict_interval(rng.normal(size=(2000, 8)))
    new = rng.normal(size=2000)
    assert np.mean((ends[:, 0] <= new) & (new <= ends[:, 1])) > 0.85


def test_more_rows_make_other_residuals(rows):
    X, y, _, Q = rows
    model = LocalLinearRegressor(sigma=1.5, alpha=0.1)
    model.fit(X[:100], y[:100]).predict_interval(Q)
    model.partial_fit(X[100:], y[100:])
    whole = LocalLinearRegressor(sigma=1.5, alpha=0.1).fit(X, y)
    assert_allclose(model.predict_interval(Q), whole.predict_interval(Q), atol=1e-9)
    merged = LocalLinearRegressor(sigma=1.5, alpha=0.1)
    merged.fit(X[:100], y[:100]).predict_interval(Q)
    rest = LocalLinearRegressor(sigma=1.5, alpha=0.1)
    merged.merge(rest.fit(X[100:], y[100:]))
    assert_allclose(merged.predict_interval(Q), whole.predict_interval(Q), atol=1e-9)


def test_clip_makes_another_margin(rng):
    """Whether predictions are clipped may change after intervals were requested."""
    X = rng.uniform(-2, 2, size=(400, 2))
    y = np.maximum(np.sin(2 * X[:, 1]) + X[:, 0] + 0.3 * rng.normal(size=400), 0)
    model = LocalLinearRegressor(sigma=2.0, alpha=0.1).fit(X, y)
    plain = model.predict_interval(X, 0.5)
    found = model.set_params(clip=True).predict_interval(X, 0.5)
    clipped = clone(model).fit(X, y)
    assert_allclose(found, clipped.predict_interval(X, 0.5))
    assert np.abs(plain - found).max() > 0.01
    found = model.set_params(clip=False).predict_interval(X, 0.5)
    assert_allclose(found, plain)


def test_repeated_rows_predict_each_other(rng):
    """In a table of few distinct rows, intervals are as wide as the noise."""
    X = rng.integers(0, 4, size=(4000, 1)).astype(float)
    y = X[:, 0] ** 2 + rng.normal(size=4000)
    model = NadarayaWatsonRegressor(sigma=5.0).fit(X[:1000], y[:1000])
    low, high = model.predict_interval(X[1000:]).T
    assert np.mean(high - low) < 1.1 * (2 * norm.isf(0.05))
    inside = (low <= y[1000:]) & (y[1000:] <= high)
    spread = norm.isf(1e-7) * np.sqrt(0.09 * (1 / 1000 + 1 / 3000))
    assert abs(inside.mean() - 0.9) < spread


def test_few_of_many_rows_are_held_out_in_proportion_to_their_weights(rng):
    """Of more than 2000 rows a sample is held out, in which no row has most weight."""
    weights = np.where(np.arange(20_000) % 10 == 0, 9.0, 1.0)
    drawn = DrawnRows.of(weights, 2000)
    heavy = drawn.places % 10 == 0
    assert abs(heavy.mean() - 0.5) < 0.07
    total = weights.sum()
    assert abs(drawn.weights[heavy].sum() / total - 0.5) < 0.07
    assert abs(drawn.weights.sum() / total - 1) < 0.07
    few = drawn.first(500)
    assert_array_equal(few.places, drawn.places[:500])
    assert abs(few.weights[few.places % 10 == 0].sum() / total - 0.5) < 0.14


def test_clipped_fits_have_clipped_quantiles(rows):
    X, y, _, Q = rows
    model = LocalLinearRegressor(sigma=1.0, alpha=0, clip=True)
    found = model.fit(X, y[:, 0]).predict_quantiles(3 * Q, [0.05, 0.95])
    assert y[:, 0].min() <= found.min()
    assert found.max() <= y[:, 0].max()


def test_few_rows_and_equal_ones_have_intervals():
    x, y = np.zeros((5, 2)), np.arange(5.0)
    for model in (NadarayaWatsonRegressor(), LocalLinearRegressor()):
        model.fit(x[:1], y[:1])
        assert_array_equal(model.predict_interval(x[:2], 0.1), [[-np.inf, np.inf]] * 2)
        assert_array_equal(model.predict_quantiles(x[:2], 0.5), [0, 0])
        model.fit(x, y)
        assert np.isinf(model.predict_interval(x[:2], 0.9)).all()
        ends = model.predict_interval(x[:2], 0.5)
        assert np.isfinite(ends).all()
        assert np.all(ends[:, 0] <= ends[:, 1])


KINDS = [
    NadarayaWatsonRegressor(sigma=2.0),
    LocalLinearRegressor(sigma=2.0, alpha=0.01),
]


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_sparse_rows(model, rng):
    X, Q = rng.normal(size=(500, 3)), rng.normal(size=(50, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=500)
    found = clone(model).fit(sparse.csr_array(X), y)
    found = found.predict_quantiles(sparse.csr_array(Q), 0.3)
    expected = clone(model).fit(X, y).predict_quantiles(Q, 0.3)
    assert_allclose(found, expected, atol=1e-7)


def test_what_keeps_sums_has_no_quantiles(rows):
    X, y, *_ = rows
    model = NadarayaWatsonRegressor(OPRFSampler(random_state=0)).fit(0.1 * X, y)
    assert not hasattr(model, "predict_quantiles")
    assert not hasattr(model, "predict_interval")
    for kind in (NadarayaWatsonRegressor, LocalLinearRegressor):
        model = kind(Prototypes(random_state=0)).fit(X, y)
        for method in ("interval", "quantiles"):
            with pytest.raises(AttributeError) as caught:
                getattr(model, f"predict_{method}")
            assert "cannot be left out with Prototypes" in str(caught.value.__cause__)


def test_levels_and_coverage_are_checked(rows):
    X, y, *_ = rows
    model = NadarayaWatsonRegressor().fit(X, y)
    for wrong in (1.1, [0.1, -0.1], [[0.1]]):
        with pytest.raises(ValueError, match="quantiles must be"):
            model.predict_quantiles(X, wrong)
    with pytest.raises(ValueError, match="NaN"):
        model.predict_quantiles(X, np.nan)
    for wrong in (0, 1, 90):
        with pytest.raises(ValueError, match="coverage"):
            model.predict_interval(X, wrong)


def test_levels_of_equal_shares_are_not_missed_by_rounding(rng):
    """Quantiles of 300 errors at k / 301 are those of levels nearer to the median."""
    X, y = rng.normal(size=(2, 300, 1))
    model = NadarayaWatsonRegressor(sigma=1.0).fit(X, y[:, 0])
    levels = np.arange(1, 301) / 301
    nearer = levels + 1e-9 * np.sign(0.5 - levels)
    found = model.predict_quantiles(X[:3], levels)
    assert_array_equal(found, model.predict_quantiles(X[:3], nearer))
    assert np.all(np.diff(found, axis=1) > 0)


# --------------------------------------------------------------- standard deviations
@pytest.mark.each_value
@pytest.mark.parametrize(
    "model", [NadarayaWatsonRegressor(), LocalLinearRegressor()], ids=str
)
def test_standard_deviations_are_those_of_the_errors(model, rng):
    X = rng.uniform(size=(4000, 2))
    noise = np.where(X[:, 0] < 0.5, 0.1, 0.3)
    y = np.sin(3 * X[:, 1]) + noise * rng.normal(size=4000)
    y = np.stack([y, 1 - 5 * y], axis=1)
    model = clone(model).fit(X[:2000], y[:2000])
    mean, std = model.predict(X[2000:], return_std=True)
    assert_array_equal(mean, model.predict(X[2000:]))
    # 0.16 is five standard errors of the mean square of 2000 normal numbers
    squares = np.mean(((y[2000:] - mean) / std) ** 2, axis=0)
    assert_allclose(squares, 1, atol=0.16)
    assert std[X[2000:, 0] > 0.55].mean() > 2 * std[X[2000:, 0] < 0.45].mean()


def test_standard_deviations_are_proportional_to_those_of_quantiles(rows):
    X, y, weights, Q = rows
    for targets in (y, y[:, 0]):
        model = NadarayaWatsonRegressor(sigma=1.5).fit(X, targets, weights)
        mean, std = model.predict(Q, return_std=True)
        assert std.shape == mean.shape
        ratios = (model.predict_quantiles(Q, 0.9) - mean) / std
        assert_allclose(ratios, np.broadcast_to(ratios[0], ratios.shape), rtol=1e-9)


@pytest.mark.parametrize("kernel", [OPRFSampler(random_state=0), Prototypes(5)])
def test_standard_deviations_need_the_rows(kernel, rows):
    X, y, _, Q = rows
    model = NadarayaWatsonRegressor(kernel).fit(X, y)
    with pytest.raises(AttributeError, match="Use the exact kernel"):
        model.predict(Q, return_std=True)


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(),
        pytest.param(LocalLinearRegressor(), marks=pytest.mark.slow),
    ],
)
def test_intervals_where_rows_hardly_predict_the_targets(model):
    """Nearly constant predictions of left-out rows move away from their targets.

    If a kernel compared them, it would select rows with similar errors, and intervals
    would cover 0.55 to 0.88.
    """
    covered = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(1200, 40)), rng.normal(size=1200)
        low, high = clone(model).fit(X[:200], y[:200]).predict_interval(X[200:]).T
        covered.append(np.mean((low <= y[200:]) & (y[200:] <= high)))
    # 1200 residuals and 6000 new rows: five standard errors are 0.047
    assert abs(np.mean(covered) - 0.9) < 0.047


def test_noise_may_change_abruptly():
    """Half of the rows are equal and have five times as much noise as the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    X[rng.random(3000) < 0.5] = 0
    noise = np.where(np.all(X == 0, axis=1), 1.0, 0.2)
    y = X[:, 0] + noise * rng.normal(size=3000)
    model = LocalLinearRegressor().fit(X[:1500], y[:1500])
    low, high = model.predict_interval(X[1500:]).T
    equal = noise[1500:] == 1
    assert 0.87 < np.mean((low <= y[1500:]) & (y[1500:] <= high)) < 0.93
    assert np.mean((high - low)[~equal]) < 0.7 * np.mean((high - low)[equal])
