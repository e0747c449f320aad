"""Neighbourhood components analysis (NCA), by gradient descent on minibatches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._kernels import sq_distances, weights_from_logs

_FAR = 1e-20  # weights below this proportion of the largest are ignored
_RATE = 0.03  # initial learning rate, relative to the size of the initial matrix


def nca_gradient(
    A: np.ndarray, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_queries: int
) -> tuple[float, np.ndarray]:
    """Return the leave-one-out log loss of the first rows and its gradient.

    For a row x, any other row y is weighted by exp(-|A(x - y)|^2 / 2). The probability
    of the class of x is the total weight of the rows of this class divided by that of
    all rows. Rows that are alone in their class are ignored.
    """
    # A (r, d), X (n, d), codes and weights (n,) -> (r, d)
    # G is twice the gradient of the loss with respect to squared distances, (n_queries,
    # n)
    Z = X @ A.T
    queries, own = Z[:n_queries], np.arange(n_queries)
    logs = sq_distances(queries, Z)
    logs *= -0.5
    logs += np.log(weights)
    logs[own, own] = -np.inf
    same = codes[:n_queries, None] == codes
    same[own, own] = False
    usable = same.any(axis=1)
    losses, G = log_loss_terms(logs, same)
    share = np.where(usable, weights[:n_queries], 0) / weights[:n_queries].sum()
    G *= share[:, None]
    gradient = G.sum(axis=0)[:, None] * Z - G.T @ queries
    gradient[:n_queries] += G.sum(axis=1, keepdims=True) * queries - G @ Z
    return float(share @ losses), gradient.T @ X


def log_loss_terms(logs: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log losses and their negative derivatives with respect to log weights.

    The loss of a row is minus the logarithm of its own class's share of the total
    weight. It is zero for rows that are alone in their class.
    """
    # logs of the weights (n, m), whether classes are equal (n, m) -> (n,), (n, m)
    usable = same.any(axis=1)
    shares, _ = weights_from_logs(logs, normal=True)
    shares *= shares > _FAR  # avoids subnormal numbers, which are slow
    of_class = shares * same
    log_own = np.zeros(len(logs), shares.dtype)
    far = np.flatnonzero(usable & (of_class.max(axis=1) < _FAR))
    if far.size:  # after underflow, weights are relative to the class's nearest row
        logs_of_class = np.where(same[far], logs[far], -np.inf)
        of_class[far], peak = weights_from_logs(logs_of_class, overwrite=True)
        of_class[far] *= of_class[far] > _FAR
        log_own[far] = peak[:, 0] - logs[far].max(axis=1)
    total, own = shares.sum(axis=1), of_class.sum(axis=1)
    own[~usable] = total[~usable]
    losses = np.where(usable, np.log(total) - np.log(own) - log_own, 0)
    of_class /= own[:, None]
    shares /= total[:, None]
    of_class -= shares
    of_class[~usable] = 0
    return losses, of_class


def learn_nca(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    *,
    seed: int,
    step: Callable[[], None] = lambda: None,
    n_steps: int = 150,
    n_queries: int = 256,
    n_keys: int = 1000,
) -> np.ndarray:
    """Return the matrix A (r, d) of the metric, optimised by Adam from ``start``.

    Each minibatch has ``n_keys`` rows, and the loss is that of its first ``n_queries``.
    """
    # X (n, d), codes and weights (n,), start (r, d)
    rng = np.random.default_rng(seed)
    X, A = X.astype(np.float32), start.astype(np.float32)
    least = np.finfo(np.float32).tiny  # keeps all logarithms finite
    weights = np.maximum(weights / weights.max(), least).astype(np.float32)
    size = np.sqrt(np.mean(start**2) * len(start))
    first: np.ndarray = np.zeros_like(A)
    second: np.ndarray = np.zeros_like(A)
    for t in range(n_steps):
        batch = rng.permutation(len(X))[:n_keys]
        own = X[batch], codes[batch], weights[batch]
        _, gradient = nca_gradient(A, *own, min(n_queries, len(batch)))
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        bounded = np.sqrt(second / (1 - 0.99 ** (t + 1))) + 1e-12
        rate = _RATE * (1 - t / n_steps) ** 0.5 * size
        A -= rate * first / (1 - 0.9 ** (t + 1)) / bounded
        if t % 100 == 99:
            step()
    return A
