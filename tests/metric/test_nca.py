"""Neighbourhood components analysis: its loss, its gradient, its steps."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

from sklearn_crt.metric import _gradients


def loss_of_nca(A, X, codes, weights, n_queries):
    """Return the loss of rows that are not alone in their class."""
    total = 0.0
    for i in range(n_queries):
        others = np.arange(len(X)) != i
        logs = np.log(weights) - 0.5 * np.sum(((X[i] - X) @ A.T) ** 2, axis=1)
        same = others & (codes == codes[i])
        if same.any():
            gain = logsumexp(logs[same]) - logsumexp(logs[others])
            total -= weights[i] * gain
    return total / weights[:n_queries].sum()


def labelled_rows(rng, n=40):
    codes = np.append(rng.integers(0, 3, size=n - 1), 7)[rng.permutation(n)]
    return rng.normal(size=(n, 3)), codes, rng.exponential(size=n) + 0.1


def test_loss_of_nca_and_its_gradient(rng):
    X, codes, weights = labelled_rows(rng)
    A = rng.normal(size=(2, 3))
    value, gradient = _gradients.nca_gradient(A, X, codes, weights, 25)
    assert_allclose(value, loss_of_nca(A, X, codes, weights, 25))

    def of(flat):
        return loss_of_nca(flat.reshape(A.shape), X, codes, weights, 25)

    expected = approx_fprime(A.ravel(), of, 1e-7).reshape(A.shape)
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_loss_of_nca_with_a_distant_class(rng):
    """Whose weights beside those of other rows are no numbers any more."""
    X, codes, weights = labelled_rows(rng)
    X[codes == 1] *= 30
    A = np.eye(3)
    value, gradient = _gradients.nca_gradient(A, X, codes, weights, 40)
    assert_allclose(value, loss_of_nca(A, X, codes, weights, 40))
    single = _gradients.nca_gradient(
        *(a.astype(np.float32) for a in (A, X)), codes, weights.astype(np.float32), 40
    )
    assert_allclose(single[0], value, rtol=1e-4)
    assert_allclose(single[1], gradient, rtol=0.01, atol=1e-3 * np.abs(gradient).max())


def test_steps_are_those_of_adam(rng):
    """A transcription of the steps, with the same minibatches."""
    sizes = {"n_steps": 20, "n_keys": 60, "n_queries": 30}
    X, codes, weights = labelled_rows(rng, 200)
    start = 0.8 * np.eye(3)
    found = _gradients.learn_nca(X, codes, weights, start, seed=3, **sizes)
    A, draws = start.copy(), np.random.default_rng(3)
    size, m, v = np.sqrt(np.mean(start**2) * 3), np.zeros((3, 3)), np.zeros((3, 3))
    for t in range(1, 21):
        p = draws.permutation(200)[:60]
        g = _gradients.nca_gradient(A, X[p], codes[p], weights[p], 30)[1]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-12)
        A = A - 0.03 * (1 - (t - 1) / 20) ** 0.5 * size * step
    assert_allclose(found, A, atol=1e-3)
    assert np.abs(found - start).max() > 0.1
