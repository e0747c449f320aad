"""One round of AGOP against its definition, row by row, and what its sums add up to."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from sklearn_crt import LearnedMetric
from sklearn_crt.metric import _agop
from sklearn_crt.rows import Frame


@pytest.fixture
def table(rng):
    """Return 300 rows, as many of which are held out as chance has it."""
    X = rng.normal(size=(300, 4))
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1)
    weights = rng.integers(1, 4, size=300).astype(float)
    coding = _agop.Coding(None, np.zeros(2))
    return _agop.TrainingRows(X, y, weights, rng.random(300), coding)


def features(rng, d=4, m=20):
    sigma = rng.uniform(0.5, 2, size=d)
    return _agop.FourierFeatures(
        Frame(sigma, rng.normal(size=d)), rng.normal(size=(d, m))
    )


def phi(found, X):
    """Return the features, one cosine and one sine for each frequency."""
    phases = (X - found.frame.center) * found.frame.sigma @ found.weights
    return np.hstack([np.cos(phases), np.sin(phases)]) / np.sqrt(found.n_frequencies)


def gradients(found, x, coefficients):
    """Return the gradients of each output at a row of standardised columns, (d, k)."""
    m, total = found.n_frequencies, 0
    for j in range(m):
        phase = found.weights[:, j] @ x
        slope = np.cos(phase) * coefficients[m + j] - np.sin(phase) * coefficients[j]
        total = total + np.outer(found.weights[:, j], slope)
    return total / np.sqrt(m)


def test_metric_is_the_mean_of_outer_products(table, rng):
    found, weights = features(rng), table.weights
    F = phi(found, table.X)
    gram, coefficients = (F.T * weights) @ F / weights.sum(), rng.normal(size=(40, 2))
    H = _agop.gradient_products(gram, coefficients)
    M = found.weights @ H @ found.weights.T
    expected = np.zeros((4, 4))
    for row, weight in zip(table.X, weights, strict=True):
        x = (row - found.frame.center) * found.frame.sigma
        J = gradients(found, x, coefficients)
        expected += weight * J @ J.T / weights.sum()
    assert_allclose(M, expected, rtol=1e-9, atol=1e-12 * np.trace(expected))


def test_gradients_are_those_of_the_ridge(rng):
    """So the test above has the right gradients."""
    found, coefficients = features(rng), rng.normal(size=(40, 2))
    center, step = rng.normal(size=4), 1e-6

    def value(x):
        return phi(found, (x / found.frame.sigma + found.frame.center)[None])

    slopes = [
        (value(center + step * e) - value(center - step * e))[0] @ coefficients
        for e in np.eye(4)
    ]
    expected = np.array(slopes) / (2 * step)
    assert_allclose(gradients(found, center, coefficients), expected, rtol=1e-6)


def test_sums_are_those_of_the_rows(table, rng):
    found = features(rng)
    both = table.sums(found)
    held = table.hashes * 64 % 1 < 0.2
    assert 30 < held.sum() < 90
    F, T = phi(found, table.X), np.column_stack([np.ones(300), table.codes])
    for sums, rows in ((both.held_out, held), (both.training, ~held)):
        weighted = F[rows].T * table.weights[rows]
        assert_allclose(sums.gram, weighted @ F[rows], atol=1e-10)
        assert_allclose(sums.cross, weighted @ T[rows], atol=1e-10)
        assert_allclose(sums.weight, table.weights[rows].sum())
        assert_allclose(sums.totals, table.weights[rows] @ table.codes[rows])
        assert_allclose(sums.squares, table.weights[rows] @ table.codes[rows] ** 2)
    again = replace(table, X=sparse.csr_array(table.X)).sums(found)
    assert_allclose(again.training.gram, both.training.gram, atol=1e-10)


def test_ridge_and_its_error_are_those_of_the_rows(table, rng):
    found, penalty = features(rng), 1e-3
    held = table.hashes * 64 % 1 < 0.2
    mean = np.average(table.codes, axis=0, weights=table.weights)
    variance = np.average((table.codes - mean) ** 2, axis=0, weights=table.weights)
    Y, F = (table.codes - mean) / np.sqrt(variance), phi(found, table.X)
    w, learned = table.weights, ~held
    left = (F[learned].T * w[learned]) @ F[learned]
    left += penalty * w[learned].sum() * np.eye(40)
    expected = np.linalg.solve(left, (F[learned].T * w[learned]) @ Y[learned])
    both = table.sums(found).centred(by_class=False)
    coefficients = _agop.ridge(both, penalty)
    assert_allclose(coefficients, expected, rtol=1e-6, atol=1e-9)
    squares = np.mean((F[held] @ expected - Y[held]) ** 2, axis=1)
    expected_error = np.average(squares, weights=w[held])
    assert_allclose(_agop.held_out_error(both.held_out, coefficients), expected_error)
    assert _agop.best_ridge(both)[0] <= expected_error * (1 + 1e-9)


@pytest.mark.parametrize("d, m", [(4, 20), (40, 9)], ids=["more w", "more columns"])
def test_factor_is_a_root(d, m, rng):
    W, K = rng.normal(size=(d, m)), rng.normal(size=(m, m))
    L = _agop.factor_of_products(W, K @ K.T)
    M = W @ K @ K.T @ W.T
    assert_allclose(L @ L.T * np.linalg.norm(M, 2), M, atol=1e-9 * np.linalg.norm(M))
    gram = L.T @ L
    assert_allclose(gram, np.diag(gram.diagonal()), atol=1e-12)
    assert_allclose(gram[0, 0], 1)


def test_last_round_is_of_all_rows(rng):
    X = rng.normal(size=(3000, 4))
    coding = _agop.Coding(None, np.zeros(1))
    y = (np.sin(2 * X[:, 0]) + X[:, 1])[:, None]
    table = _agop.TrainingRows(X, y, np.ones(3000), rng.random(3000), coding)
    metrics = []
    for n_rows in (1200, 3000):  # in the first round
        options = {"seed": 0, "max_iter": 2, "n_rows": n_rows}
        last, multiples = _agop.learn_rounds(
            table, Frame(), np.full(4, True), **options
        )
        assert len(multiples) == 2
        assert last.sums.together.weight == 3000
        factor = last.factor(every=True)
        metrics.append(factor @ factor.T)
    gap = np.abs(metrics[0] - metrics[1]).max()
    assert 1e-6 < gap < 0.3 * metrics[1].max()


def table_of(seed, kind):
    """Return a small table, on some of which eigenvectors change their signs."""
    rng = np.random.default_rng(seed)
    if kind == "narrow":
        X = rng.normal(size=(110, 6))
        return X, np.sin(2 * X[:, 0]) + X[:, 5] + 0.1 * rng.normal(size=110), rng
    if kind == "wide":
        X = rng.normal(size=(80, 90))
        return X, X[:, 0] + np.abs(X[:, 1]), rng
    X = rng.normal(size=(120, 5))
    return X, (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int) + (X[:, 2] > 1), rng


@pytest.mark.parametrize(
    "kind, seeds",
    [
        ("narrow", [520069, 520134, 520245]),
        ("labels", [520001, 520002]),
        ("wide", [520011, 520017, 520018, 520023]),
    ],
    ids=["narrow", "labels", "wide"],
)
def test_order_of_rows_and_batches_do_not_matter(kind, seeds):
    """Eigenvectors of equal metrics may have other signs, whichever BLAS is used."""
    metric = LearnedMetric(method="agop", random_state=6)

    def fit(X, y):
        return clone(metric).fit(X, y).metric_

    for seed in seeds:
        X, y, rng = table_of(seed, kind)
        order, half = rng.permutation(len(X)), len(X) // 2 + 5
        parts = [
            clone(metric).partial_fit(X[rows], y[rows])
            for rows in (slice(half, None), slice(half))
        ]
        expected = fit(X, y)
        for found in (
            fit(X[order], y[order]),
            fit(np.asfortranarray(X), y),
            parts[0].merge(parts[1]).metric_,
        ):
            gap = np.abs(found - expected).max()
            assert gap < 1e-9 * np.abs(expected).max(), seed


@pytest.mark.parametrize("kind", ["narrow", "labels", "wide"])
def test_signs_of_eigenvectors_do_not_matter(kind, monkeypatch):
    """LAPACK chooses them, and another choice is as right."""
    X, y, rng = table_of(0, kind)
    metric = LearnedMetric(method="agop", random_state=6)
    expected = clone(metric).fit(X, y).metric_
    eigh, svd = np.linalg.eigh, np.linalg.svd

    def other_eigh(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * rng.choice([-1, 1], size=len(values))

    def other_svd(matrix, **options):
        left, values, right = svd(matrix, **options)
        signs = rng.choice([-1, 1], size=len(values))
        return left * signs, values, right * signs[:, None]

    monkeypatch.setattr(np.linalg, "eigh", other_eigh)
    monkeypatch.setattr(np.linalg, "svd", other_svd)
    found = clone(metric).fit(X, y)
    assert found.n_iter_ > 1  # of one round nothing follows
    gap = np.abs(found.metric_ - expected).max()
    assert gap < 1e-9 * np.abs(expected).max()


def test_frequencies_have_the_metric_as_their_covariance(rng):
    values = np.array([1.0, 0.3, 0.01])
    L = np.linalg.qr(rng.normal(size=(5, 3)))[0] * np.sqrt(values)
    found = _agop.frequencies_in(L, rng.normal(size=(5, 200_000)))
    assert_allclose(found @ found.T / 200_000, L @ L.T, atol=0.01)
    draws = rng.normal(size=(5, 7))
    signs = np.array([1, -1, -1])
    expected = _agop.frequencies_in(L, draws)
    assert_allclose(_agop.frequencies_in(L * signs, draws), expected, atol=1e-12)


def test_centred_sums_keep_digits_far_from_zero(rng):
    """Numbers beside their mean: no variance is lost to squares."""
    y = 1e6 + rng.normal(size=400)
    coding = _agop.Coding.of(y, np.ones(400), "agop")
    Y, F = coding.columns(coding.codes(y)), np.ones((400, 2))
    some = np.arange(400) < 100
    both = _agop.TrainingAndHeldOut(
        *(_agop.Sums.of(F[s], Y[s], np.ones(s.sum())) for s in (~some, some))
    )
    found = both.centred(by_class=False)
    total = found.training.squares + found.held_out.squares
    assert_allclose(total, 400, rtol=1e-6)


def test_labels_in_any_order_of_parts(rng):
    """A class that comes late is a column of zeros until then."""
    X, y = rng.normal(size=(200, 3)), np.repeat(["b", "a", "c", "d"], 50)
    hashes, found = rng.random(200), features(rng, 3)

    def sums(rows, coding):
        arrays = X[rows], coding.codes(y[rows]), np.ones(len(rows)), hashes[rows]
        return _agop.TrainingRows(*arrays, coding).sums(found)

    first, second = np.arange(50), np.arange(50, 200)
    known = _agop.Coding.of(y[first], np.ones(50), "agop")
    coding = known.with_labels(y[second])
    assert coding.classes.tolist() == ["a", "b", "c", "d"]
    total = known.moved(sums(first, known), coding) + sums(second, coding)
    whole = sums(np.arange(200), _agop.Coding.of(y, np.ones(200), "agop"))
    assert_allclose(total.training.cross, whole.training.cross, atol=1e-10)
    L = [_agop.Round(found, h, True).factor(every=True) for h in (total, whole)]
    assert_allclose(L[0] @ L[0].T, L[1] @ L[1].T, atol=1e-8)
