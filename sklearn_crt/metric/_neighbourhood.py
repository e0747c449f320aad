"""Neighbourhood components: the log loss of leave-one-out averages, on minibatches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._kernels import log_weights, sq_distances

_N_STEPS = 300
_N_QUERIES, _N_KEYS = 256, 1000  # rows of a minibatch
_FAR = 1e-20  # of the nearest row's weight
_RATE = 0.03  # of the size of the start


def nca_gradient(
    A: np.ndarray, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_queries: int
) -> tuple[float, np.ndarray]:
    """Return the log loss of the first rows among all others, and its gradient in A.

    The probability of a row's own class is the share of the weights exp(-|A(x - y)|^2 /
    2) of the other rows that is in this class; rows alone in their class are left out.
    """
    # A (r, d), X (n, d), codes and weights (n,) -> (r, d)
    Z = X @ A.T
    queries, own = Z[:n_queries], np.arange(n_queries)
    logs = -0.5 * sq_distances(queries, Z) + np.log(weights)
    logs[own, own] = -np.inf
    same = codes[:n_queries, None] == codes
    same[own, own] = False
    usable = same.any(axis=1)
    shares, _ = log_weights(logs.copy(), overwrite=True, normal=True)
    shares *= shares > _FAR  # products of numbers below the normal ones are slow
    total = shares.sum(axis=1, keepdims=True)
    own_shares = np.where(same, shares, 0)
    far = np.flatnonzero(own_shares.max(axis=1) < _FAR)
    far = far[usable[far]]  # no digits are left: anew, beside the nearest of the class
    log_own = np.zeros((n_queries, 1), shares.dtype)
    if far.size:
        of_class = np.where(same[far], logs[far], -np.inf)
        own_shares[far], peak = log_weights(of_class, overwrite=True)
        own_shares[far] *= own_shares[far] > _FAR
        log_own[far] = peak - logs[far].max(axis=1, keepdims=True)
    own_total = np.maximum(own_shares.sum(axis=1, keepdims=True), _FAR)
    losses = (np.log(total) - np.log(own_total) - log_own)[:, 0]
    counts = np.where(usable, weights[:n_queries], 0)
    counts /= weights[:n_queries].sum()
    G = own_shares / own_total
    shares /= total
    G -= shares
    G *= 0.5 * counts[:, None]
    by_key = G.sum(axis=0)
    gradient = 2 * by_key[:, None] * Z - 2 * (G.T @ queries)
    gradient[:n_queries] += 2 * G.sum(axis=1, keepdims=True) * queries - 2 * G @ Z
    return float(counts @ np.where(usable, losses, 0)), gradient.T @ X


def learn_nca(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    *,
    seed: int,
    step: Callable[[], None] = lambda: None,
) -> np.ndarray:
    """Return A (r, d) of the rows A x, from a start, by steps of Adam."""
    # X (n, d), codes and weights (n,), start (r, d)
    rng = np.random.default_rng(seed)
    X, weights = (array.astype(np.float32) for array in (X, weights))
    A = start.astype(np.float32)
    size = np.sqrt(np.mean(start**2) * len(start))
    first, second = np.zeros_like(A), np.zeros_like(A)
    for t in range(_N_STEPS):
        batch = rng.permutation(len(X))[:_N_KEYS]
        n_queries = min(_N_QUERIES, len(batch))
        _, gradient = nca_gradient(A, X[batch], codes[batch], weights[batch], n_queries)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        bounded = np.sqrt(second / (1 - 0.99 ** (t + 1))) + 1e-12
        rate = _RATE * (1 - t / _N_STEPS) ** 0.5 * size
        A -= rate * first / (1 - 0.9 ** (t + 1)) / bounded
        if t % 100 == 99:
            step()
    return A
