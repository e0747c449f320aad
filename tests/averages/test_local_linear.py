"""Local linear averages: against weighted least squares, and as estimators."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_iris, make_friedman1

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)
from sklearn_crt.averages import _local_linear

LOG_KERNELS = {
    "gaussian": lambda r: -0.5 * r**2,
    "laplacian": lambda r: -r,
    "matern": lambda r: np.log1p(np.sqrt(3) * r) - np.sqrt(3) * r,
}
RIDGES = 0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, np.inf
MODELS = LocalLinearClassifier(), LocalLinearRegressor()


def fit_at(q, X, Y, w, sigma, ridge, most=20.0):
    """Return value and slopes of the fit at a query, from centred rows.

    The distance to the weighted mean is limited to ``most`` standard deviations.
    """
    w = w / w.sum()
    m, t = w @ X, w @ Y
    A, B = X - m, Y - t
    G, c = (A.T * w) @ A, (A.T * w) @ B
    penalty = ridge * np.trace(G) / len(G) + (ridge > 0) * 1e-7 / sigma**2
    variances, directions = np.linalg.eigh(G)
    rounding = 1e3 * np.finfo(float).eps * (w @ X**2).mean()
    has_rows, is_counted = variances > rounding, variances + penalty > 2 * rounding
    gap, inverse = q - m, 1 / np.maximum(variances + penalty, rounding)
    slopes = directions @ ((inverse * has_rows)[:, None] * (directions.T @ c))
    deviations = np.linalg.norm(np.sqrt(inverse * is_counted) * (gap @ directions))
    return t + gap @ slopes * min(1, most / max(deviations, 1e-9)), slopes


def fits(Q, X, Y, weights, sigma, ridge, kernel="gaussian", left_out=False):
    logs = LOG_KERNELS[kernel](sigma * cdist(Q, X)) + np.log(weights)
    if left_out:
        np.fill_diagonal(logs, -np.inf)
    W = np.exp(logs - logs.max(axis=1, keepdims=True))
    if np.isinf(ridge):
        return W @ Y / W.sum(axis=1, keepdims=True), None
    parts = [fit_at(q, X, Y, w, sigma, ridge) for q, w in zip(Q, W, strict=True)]
    return tuple(map(np.array, zip(*parts, strict=True)))


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(300, 4))
    Y = np.stack([np.sin(X[:, 0]) * X[:, 1], X[:, 2] ** 2], axis=1)
    return X, Y, rng.uniform(0.2, 3, 300), rng.normal(size=(50, 4))


@pytest.fixture
def may_ignore(monkeypatch):
    """Return a function that sets the share of the weight that fits may ignore."""
    return partial(monkeypatch.setattr, _local_linear, "_REMAINDER")


@pytest.mark.parametrize("kernel", list(LOG_KERNELS))
@pytest.mark.parametrize("ridge", [0.0, 1e-3, 1.0])
def test_weighted_least_squares(kernel, ridge, rows, may_ignore):
    X, Y, weights, Q = rows
    may_ignore(0.0)
    model = LocalLinearRegressor(kernel, sigma=1.3, alpha=ridge)
    model.fit(X + 5, Y, weights)
    values, slopes = fits(Q, X, Y, weights, 1.3, ridge, kernel)
    assert_allclose(model.predict(Q + 5), values, rtol=0, atol=1e-8)
    assert_allclose(model.slopes(Q + 5), slopes, rtol=0, atol=1e-8)
    assert model.alpha_ == ridge


def test_extrapolation_is_limited(rng):
    """Noise in the nearest rows would otherwise determine distant predictions."""
    X = rng.uniform(size=(300, 2))
    y = X[:, 0] + 0.1 * rng.normal(size=300)
    Q = rng.uniform(1, 2.5, size=(60, 2))
    model = LocalLinearRegressor(sigma=6.0, alpha=0.0).fit(X, y)
    values, _ = fits(Q, X, y[:, None], np.ones(300), 6.0, 0.0)
    assert_allclose(model.predict(Q), values[:, 0], atol=1e-6)
    assert_allclose(model.kernel_weights(Q) @ y, values[:, 0], atol=1e-6)
    logs = LOG_KERNELS["gaussian"](6 * cdist(Q, X))
    free = [
        fit_at(q, X, y[:, None], w, 6.0, 0.0, np.inf)[0][0]
        for q, w in zip(Q, softmax(logs, axis=1), strict=True)
    ]
    assert np.abs(free).max() > 2 * np.abs(values).max()


def test_extrapolation_from_fewer_rows_than_columns(rng):
    """Directions in which the rows do not vary contribute to the distance as well.

    Rounding errors determine which directions these are. If they did not contribute,
    the order of the rows would change predictions by 2e-5.
    """
    X, Q = rng.uniform(size=(12, 30)), rng.uniform(size=(40, 30))
    y = rng.integers(3, size=12).astype(float)
    model = LocalLinearRegressor("laplacian", sigma=33.0, alpha=0.1).fit(X, y)
    values, _ = fits(Q, X, y[:, None], np.ones(12), 33.0, 0.1, "laplacian")
    assert_allclose(model.predict(Q), values[:, 0], rtol=0, atol=1e-8)
    assert_allclose(model.kernel_weights(Q) @ y, values[:, 0], rtol=0, atol=1e-8)
    found = clone(model).fit(X[::-1], y[::-1]).predict(Q)
    assert_allclose(found, model.predict(Q), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", Prototypes(100, random_state=0)])
def test_functions_without_noise_are_extrapolated_further(kernel):
    X = np.linspace(0, 3, 100)[:, None]
    model = LocalLinearRegressor(kernel).fit(X, np.sin(X[:, 0]))
    expected = np.sin(3.0) + 0.1 * np.cos(3.0)
    assert abs(model.predict([[3.1]])[0] - expected) < 0.01
    # the smaller limit applies if nothing is known about the noise
    limited = clone(model).set_params(sigma=model.sigma_, alpha=model.alpha_)
    limited.fit(X, np.sin(X[:, 0]))
    assert abs(limited.predict([[3.1]])[0] - expected) > 0.05


@pytest.mark.each_value
@pytest.mark.parametrize("kernel", list(LOG_KERNELS))
@pytest.mark.parametrize("sigma", [0.1, 1.0, np.array([0.5, 1, 2, 1])])
def test_linear_targets_are_exact(kernel, sigma, rows, rng, may_ignore):
    X, _, weights, Q = rows
    B = rng.normal(size=(4, 2))
    for each in (kernel, Prototypes(20, kernel=kernel, random_state=0)):
        # without the rows of little weight, distant queries have smaller variances
        for remainder, atol in ((0.0, 1e-8), (1e-3, 1e-7)):
            may_ignore(remainder)
            params = {"sigma": sigma, "alpha": 0}
            model = LocalLinearRegressor(each, **params).fit(X, X @ B + 3, weights)
            assert_allclose(model.predict(1.5 * Q), 1.5 * Q @ B + 3, rtol=0, atol=atol)
            slopes = np.broadcast_to(B, (50, 4, 2))
            assert_allclose(model.slopes(Q), slopes, rtol=0, atol=atol)
    model = LocalLinearRegressor().fit(X, X @ B[:, 0], weights)
    assert_allclose(model.predict(Q), Q @ B[:, 0], atol=1e-8)


def test_slopes_are_the_derivative_of_a_smooth_function(rng):
    X = rng.uniform(-2, 2, size=(4000, 2))
    model = LocalLinearRegressor(alpha=0).fit(X, np.sin(X[:, 0]) * X[:, 1])
    Q, step = rng.uniform(-1.5, 1.5, size=(40, 2)), 1e-4
    moved = [model.predict(Q + s * step * np.eye(2)[0]) for s in (1, -1)]
    derivative = (moved[0] - moved[1]) / (2 * step)
    truth = np.cos(Q[:, 0]) * Q[:, 1]
    assert_allclose(model.slopes(Q)[:, 0, 0], derivative, atol=0.06)
    assert_allclose(derivative, truth, atol=0.06)


@pytest.mark.parametrize("labels", [False, True])
def test_sigma_and_ridge_are_of_least_leave_one_out_error(labels, rng):
    X = rng.normal(size=(120, 3))
    y = X[:, 0] + X[:, 1] ** 2 + 0.3 * rng.normal(size=120)
    y = (y > 1).astype(int) if labels else y
    Y = np.eye(2)[y] if labels else y[:, None]
    scale = np.sqrt(2 / (3 * X.var()))

    squares = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squares, np.inf)

    def errors(multiple, ridge):
        found, _ = fits(X, X, Y, np.ones(120), scale * multiple, ridge, left_out=True)
        if not labels:
            return np.sum((found - Y) ** 2, axis=1)
        found = np.maximum(found, 0)
        found /= found.sum(axis=1, keepdims=True)
        mistakes = found.argmax(axis=1) != y
        shares = softmax(-0.5 * (scale * multiple) ** 2 * squares, axis=1)
        n_rows = 1 / np.sum(shares**2, axis=1)
        own = n_rows * found[np.arange(120), y]
        return mistakes - 0.5 * np.log((own + 0.15) / (n_rows + 0.3))

    def least(multiples, ridges):
        return min((errors(m, r).sum(), m, r) for m in multiples for r in ridges)

    def chosen(multiples):
        best = least(multiples, RIDGES)
        plain = least(multiples, [np.inf])
        gain = errors(*plain[1:]) - errors(*best[1:])
        return best if gain.sum() > np.sqrt(120) * gain.std() else plain

    _, octave, _ = chosen(2.0 ** np.arange(-1, 6))
    expected, *best = chosen(octave * 2.0 ** np.arange(-0.5, 1, 0.5))
    model = (LocalLinearClassifier if labels else LocalLinearRegressor)().fit(X, y)
    found = model.sigma_ / scale, model.alpha_
    assert_allclose(errors(*found).sum(), expected, rtol=1e-6)
    assert_allclose(found[0], best[0])


@pytest.mark.parametrize("kernel", ["gaussian", Prototypes(random_state=0)])
def test_an_infinite_ridge_is_the_average(kernel, rows):
    X, Y, weights, Q = rows
    labels = (Y[:, 0] > 0).astype(int)
    fitted = LocalLinearRegressor(kernel, alpha=np.inf).fit(X, Y, weights)
    average = NadarayaWatsonRegressor(kernel).fit(X, Y, weights)
    assert_allclose(fitted.predict(Q), average.predict(Q))
    assert_array_equal(fitted.slopes(Q), np.zeros((50, 4, 2)))
    fitted = LocalLinearClassifier(kernel, alpha=np.inf).fit(X, labels, weights)
    average = NadarayaWatsonClassifier(kernel).fit(X, labels, weights)
    assert_allclose(fitted.predict_proba(Q), average.predict_proba(Q))


def test_noise_leaves_about_the_average(rng):
    X, y = rng.normal(size=(400, 12)), rng.normal(size=400)
    model = LocalLinearRegressor().fit(X, y)
    average = NadarayaWatsonRegressor().fit(X, y)
    assert np.mean(model.predict(rng.normal(size=(500, 12))) ** 2) < 0.03
    assert model.score(X[:200] + 1, y[:200]) > average.score(X[:200] + 1, y[:200]) - 0.1


def answers(model, X):
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    return getattr(model, name)(X)


def table(rng, model, n_rows=400):
    X, y = make_friedman1(n_rows, n_features=6, noise=0.5, random_state=0)
    return X, np.digitize(y, [12, 16]) if hasattr(model, "predict_proba") else y


KERNELS = "gaussian", Prototypes(60, random_state=0), "matern"


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_weights_are_copies_with_fixed_parameters(model, kernel, rng):
    X, y = table(rng, model)
    times = rng.integers(1, 4, size=len(y))
    twice = np.repeat(np.arange(len(y)), times)
    fitted = clone(model).set_params(kernel=kernel, sigma=2.0, alpha=0.1)
    fitted.fit(X, y, times)
    copies = clone(fitted).fit(X[twice], y[twice])
    Q = rng.uniform(size=(30, 6))
    if not isinstance(kernel, str):  # k-means draws among the rows
        assert copies.score(X, y) == pytest.approx(fitted.score(X, y), abs=0.05)
    elif hasattr(model, "predict_proba"):
        assert_array_equal(copies.predict(Q), fitted.predict(Q))
    else:
        assert_allclose(copies.predict(Q), fitted.predict(Q), atol=1e-8)


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_batches_and_parts_are_fit(model, kernel, rng):
    X, y = table(rng, model)
    Q = rng.uniform(size=(30, 6))
    whole = clone(model).set_params(kernel=kernel).fit(X, y)
    first = {"classes": [0, 1, 2]} if hasattr(model, "predict_proba") else {}
    batches = clone(whole).partial_fit(X[:100], y[:100], **first)
    batches.partial_fit(X[100:], y[100:])
    parts = [
        clone(whole).partial_fit(X[rows], y[rows], **first)
        for rows in (slice(150), slice(150, 400))
    ]
    for found in (batches, parts[0].merge(parts[1]), batches.freeze()):
        assert_allclose(answers(found, Q), answers(whole, Q), rtol=1e-7, atol=1e-9)
        assert found.alpha_ == whole.alpha_
    later = clone(whole).fit(X, y).partial_fit(X[:50], y[:50])
    assert np.isfinite(answers(later, Q)).all()


def test_merging_needs_one_penalty(rng):
    X, y = table(rng, MODELS[1])
    one, other = (LocalLinearRegressor(alpha=r).fit(X, y) for r in (0.1, 1.0))
    with pytest.raises(
        ValueError, match=r"same alpha in both estimators, got \(0.1,\) and \(1.0,\)"
    ):
        one.merge(other)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("n_rows", [400, 3000])
@pytest.mark.usefixtures("few_rows_at_a_time")
def test_prototypes_hold_the_moments_of_their_rows(n_rows, labels, rng):
    """Eight clusters that k-means finds, and their sums computed from the rows.

    Of 3000 rows many are merged into points, and these into the eight prototypes.
    """
    corners = 100.0 * np.array(np.meshgrid([0, 1], [0, 1], [0, 1])).reshape(3, 8).T
    own = np.arange(n_rows) % 8
    X, weights = (
        corners[own] + rng.normal(size=(n_rows, 3)),
        rng.uniform(0.5, 2, n_rows),
    )
    # the points of numbers are those of rows with similar targets
    y = (
        own % 2
        if labels
        else np.stack([own, X @ [1, 2, 3] + X[:, 0] * X[:, 1]], axis=1)
    )
    Y = np.eye(2)[y] if labels else y
    sigma = np.array([0.005, 0.01, 0.02])
    model = (LocalLinearClassifier if labels else LocalLinearRegressor)(
        Prototypes(8, random_state=0), sigma=sigma, alpha=0.1
    )
    parts = slice(100), slice(100, n_rows)
    first = {"classes": [0, 1]} if labels else {}
    fitted = clone(model).partial_fit(
        X[parts[0]], y[parts[0]], **first, sample_weight=weights[parts[0]]
    )
    fitted.partial_fit(X[parts[1]], y[parts[1]], sample_weight=weights[parts[1]])
    sums = np.stack([weights * (own == k) for k in range(8)])
    means = sums @ X / sums.sum(axis=1, keepdims=True)
    assert_allclose(
        np.sort(fitted.kernel_.prototypes_.points, axis=0), np.sort(means, axis=0)
    )
    Q = rng.uniform(0, 100, size=(20, 3))
    far = np.exp(-0.5 * cdist(sigma * Q, sigma * means, "sqeuclidean"))
    expected = [
        fit_at(q, sigma * X, Y, w, 1.0, 0.1)[0]
        for q, w in zip(sigma * Q, far @ sums, strict=True)
    ]
    expected = np.array(expected)
    if labels:
        expected = np.maximum(expected, 0) / np.maximum(expected, 0).sum(
            1, keepdims=True
        )
        sizes = fitted.effective_sample_size(Q)[:, None]  # smoothed by one row
        expected = (sizes * expected + 1 / 2) / (sizes + 1)
        assert_allclose(fitted.predict_proba(Q), expected, rtol=1e-8)
    else:
        assert_allclose(fitted.predict(Q), expected, rtol=1e-8)


@pytest.mark.slow  # of averages: test_a_long_stream_stays_small; in few batches: above
def test_rows_become_points_in_a_long_stream(rng):
    X = rng.uniform(-2, 2, size=(9000, 2))
    y = np.sin(X[:, 0]) * X[:, 1]
    wide = np.hstack([X, np.zeros((9000, 38))]).astype(np.float32)
    model = LocalLinearRegressor(Prototypes(64, random_state=0), sigma=2.0, alpha=0.01)
    many = 14  # batches: more than 4 million entries
    for k in range(many):
        model.partial_fit(wide[:8000] + np.float32(1e-3 * k), y[:8000])
    model.freeze()
    assert model.score(wide[8000:], y[8000:]) > 0.97


def test_single_precision_loses_no_digits(rng):
    """Moments far from the origin cancel, and answers are local."""
    X = rng.uniform(0, 1, size=(3000, 2)) + 100
    y = 1e6 + np.sin(20 * X[:, 0]) + X[:, 1]
    X32 = X.astype(np.float32)
    double = LocalLinearRegressor(sigma=60.0, alpha=1e-3)
    double.fit(X32.astype(np.float64), y)
    single = clone(double).fit(X32, y)
    found = single.predict(X32[:200])
    assert found.dtype == np.float64
    assert_allclose(
        found, double.predict(X32[:200].astype(np.float64)), rtol=0, atol=1e-3
    )
    slopes = single.slopes(X32[:200])
    assert slopes.dtype == np.float32
    assert_allclose(slopes, double.slopes(X32[:200].astype(np.float64)), atol=0.05)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_nothing_but_numbers(model, rng):
    """Equal rows, constant columns, constant targets, far queries, few rows."""
    X = np.zeros((30, 3))
    X[:, 0] = rng.integers(0, 3, size=30)
    y = np.zeros(30, dtype=int)
    y[::2] = 1
    Q = np.array([[0, 0, 0], [1e3, -1e3, 1e3], [1e8, 0, 0.0]])
    for rows in (30, 1, 2):
        for targets in (y, np.ones(30, dtype=int)):
            fitted = clone(model).fit(X[:rows], targets[:rows])
            assert np.isfinite(answers(fitted, Q)).all()
            assert np.isfinite(fitted.slopes(Q)).all()
    for scale in (1e-120, 1e120):
        X = rng.normal(size=(60, 2))
        y = (X[:, 0] > 0).astype(int)
        fitted = clone(model).fit(scale * X, y)
        assert fitted.score(scale * X, y) > 0.6


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kernel", ["gaussian", Prototypes(50, random_state=0)])
def test_sparse_rows(model, kernel, rng):
    X, y = table(rng, model)
    X = np.where(X < 0.3, 0, X)
    model = clone(model).set_params(kernel=kernel)
    dense, stored = model.fit(X, y), clone(model).fit(sparse.csr_array(X), y)
    for found in (stored, stored.partial_fit(sparse.csr_array(X[: 0 + 9]), y[:9])):
        assert found.sigma_ > 0
    dense.partial_fit(X[:9], y[:9])
    assert_allclose(answers(stored, X[:40]), answers(dense, X[:40]), atol=0.02)
    both = answers(dense, sparse.csr_array(X[:40]))
    assert_allclose(both, answers(dense, X[:40]), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", MODELS, ids=repr)
@pytest.mark.parametrize("kernel", ["gaussian", Prototypes(50, random_state=0)])
def test_sparse_rows_far_from_zero_keep_the_digits_of_dense_ones(model, kernel, rng):
    X, y = table(rng, model)
    model, X = clone(model).set_params(kernel=kernel), X + 1e4
    stored = sparse.csr_array(X)
    dense, found = clone(model).fit(X, y), clone(model).fit(stored, y)
    assert_allclose(answers(found, stored), answers(dense, X), atol=1e-11)
    assert_allclose(answers(dense, stored), answers(dense, X), atol=1e-11)


def test_rounding_in_directions_without_rows_is_no_slope():
    """Two other rows span one of two directions, whatever the order of the batches."""
    X, y = np.array([[1.0, -1], [6, 1], [-5, 4]]), np.array([1257.3, -1321.0, 6404.2])
    model = LocalLinearRegressor(sigma="median")
    whole = clone(model).fit(X, y)
    for cut in (1, 2):
        parts = clone(model).partial_fit(X[:cut], y[:cut])
        parts.merge(clone(model).partial_fit(X[cut:], y[cut:]))
        assert parts.alpha_ == whole.alpha_
        assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-12)


def test_probabilities(frequencies_of):
    X, y = load_iris(return_X_y=True)
    model = LocalLinearClassifier(alpha=1e-3).fit(X, y)
    found = model.predict_proba(3 * X - 5)
    assert frequencies_of(model, 3 * X - 5).min() < 0
    assert found.min() > 0
    assert_allclose(found.sum(axis=1), 1)
    assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(3 * X - 5))
    assert_allclose(model.slopes(X).sum(axis=2), 0, atol=1e-10)


def test_clipping(rng):
    X = rng.uniform(size=(200, 1))
    y = np.hstack([X, -X])
    model = LocalLinearRegressor().fit(X, y)
    assert model.predict([[2.0]])[0, 0] > 1.5
    clipped = clone(model).set_params(clip=True).fit(X, y)
    assert_array_equal(clipped.predict([[2.0]])[0], [X.max(), -X.max()])
    assert_allclose(clipped.predict([[0.5]]), model.predict([[0.5]]))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_errors(model, rng):
    X, y = rng.normal(size=(50, 3)), rng.integers(0, 2, 50)
    for kernel in ("linear", "laplace"):
        with pytest.raises(ValueError, match="'kernel' parameter"):
            clone(model).set_params(kernel=kernel).fit(X, y)
    for alpha in (-1.0, "none", None):
        with pytest.raises(ValueError, match="'alpha' parameter"):
            clone(model).set_params(alpha=alpha).fit(X, y)


def test_edges_are_better_than_those_of_averages(rng):
    X = rng.uniform(size=(500, 2))
    y = 3 * X[:, 0] + np.sin(6 * X[:, 1]) + 0.02 * rng.normal(size=500)
    edge = np.stack([np.ones(50), np.linspace(0, 1, 50)], axis=1)
    truth = 3 + np.sin(6 * edge[:, 1])
    errors = [
        np.mean((model.fit(X, y).predict(edge) - truth) ** 2)
        for model in (LocalLinearRegressor(), NadarayaWatsonRegressor())
    ]
    assert errors[0] < 0.3 * errors[1]


def rows_and_queries(name, rng):
    """Return training rows, and queries among them, between them and far from them."""
    X = rng.normal(size=(3000, 4))
    if name == "heavy tails":
        X = rng.standard_t(1.5, size=X.shape)
    elif name == "near duplicates":
        X = np.tile(X[:250], (12, 1)) + 1e-3 * rng.normal(size=X.shape)
    elif name == "grid":
        X = np.rint(2 * X)
    elif name == "curve":
        X = np.sin(np.outer(rng.uniform(0, 9, 3000), [1, 2, 3, 4]))
    far = X[1000:1200] + rng.normal(size=(200, 1)) * 10.0 ** rng.uniform(
        -3, 2, (200, 1)
    )
    return X, np.concatenate([X[:200], X[300:500] + 0.1, far])


@pytest.mark.each_value
@pytest.mark.parametrize("sigma", [2.0, 8.0])
@pytest.mark.parametrize("remainder", [0.0, 1e-3, 0.3])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize(
    "name", ["normal", "heavy tails", "near duplicates", "grid", "curve"]
)
def test_less_weight_than_the_remainder_is_left_out(
    name, kernel, remainder, sigma, rng, may_ignore
):
    X, queries = rows_and_queries(name, rng)
    weights = rng.exponential(size=3000)
    params = {"kernel": kernel, "sigma": sigma, "alpha": 0.1}
    may_ignore(remainder)
    model = LocalLinearRegressor(**params)
    used = model.fit(X, X[:, 0], weights).kernel_weights(queries).toarray() != 0
    logs = LOG_KERNELS[kernel](sigma * cdist(queries, X)) + np.log(weights)
    kept = np.sum(softmax(logs, axis=1), axis=1, where=used)
    assert np.all(kept >= 1 - remainder - 1e-9)
    assert np.all(kept <= 1 + 1e-9)
    if remainder == 0.3 and sigma == 2:  # it is not a bound that keeps everything
        assert np.min(kept) < 0.9999


def test_predictions_differ_little_from_those_of_all_rows(rng, monkeypatch):
    X = rng.uniform(size=(5000, 4))
    y, queries = np.sin(5 * X[:, 0]) + X[:, 1], rng.uniform(size=(500, 4))
    params = {"sigma": 10.0, "alpha": 0.1}
    with monkeypatch.context() as context:
        context.setattr(_local_linear, "_REMAINDER", 0.0)
        whole = LocalLinearRegressor(**params).fit(X, y)
    model = LocalLinearRegressor(**params).fit(X, y)
    gaps = np.abs(model.predict(queries) - whole.predict(queries))
    assert 0 < np.max(gaps) < 1e-3 * np.ptp(y)
    weights = model.kernel_weights(queries)
    assert_allclose(weights @ y, model.predict(queries), rtol=1e-9)
    assert weights.nnz < 0.5 * whole.kernel_weights(queries).nnz
    single = [model.predict(row[None])[0] for row in queries[:20]]
    assert_allclose(single, model.predict(queries)[:20], rtol=1e-10)


@pytest.mark.parametrize("n_rows", [200, 2000])
def test_slopes_continue_beyond_the_training_rows(n_rows, may_ignore):
    """The nearest row has nearly all the weight there; one row has no slope."""
    X = np.linspace(0, 3, n_rows)[:, None]
    queries = 3 + np.array([[10.0], [20.0]]) / n_rows
    expected = np.sin(3.0) + np.cos(3.0) * (queries[:, 0] - 3)
    for remainder in (0.0, 1e-3, 0.5):
        may_ignore(remainder)
        model = LocalLinearRegressor(sigma=n_rows / 8, alpha=0)
        found = model.fit(X, np.sin(X[:, 0])).predict(queries)
        assert_allclose(found, expected, atol=0.01)


def test_noise_does_not_hide_slopes():
    """A linear fit is chosen although its error is lower by less than its deviation."""
    alphas, errors = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, Q = rng.normal(size=(2, 1000, 3))
        y = 5 * X[:, 0] + 4 * rng.normal(size=1000)
        model = LocalLinearRegressor().fit(X, y)
        alphas.append(model.alpha_)
        errors.append(np.std(model.predict(Q) - 5 * Q[:, 0]))
    assert np.all(np.isfinite(alphas))
    assert np.mean(errors) < 0.35
