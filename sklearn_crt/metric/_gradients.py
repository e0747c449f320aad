"""Metrics learned from gradients, or by neighbourhood components analysis (NCA).

AGOP, the average gradient outer product of ridge regression on cosines and sines, shows
the directions along which targets vary. NCA minimises the error of kernel averages by
gradient descent on minibatches.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from ..arrays.loops import sq_distances, weights_from_logs
from ..arrays.sincos import sincos

_FAR = 1e-20  # in NCA, weights below this proportion of the largest are ignored
_RATE = 0.03  # initial learning rate of NCA, relative to the size of the initial matrix


_MOST_FREQUENCIES = 384
_FREQUENCIES = 128, 4  # number of frequencies: a constant plus a multiple of n_columns
_MOST_ROUNDS = 8
_PENALTIES = 1e-5, 1e-4, 1e-3, 1e-2  # candidate penalties, relative to the total weight
_MULTIPLES = 0.5, 1.0, 2.0  # candidates for the standard deviation of phases
_SPREAD = 0.05  # isotropic noise added to frequencies, as a proportion of variance
_FIRST = 0.03  # weight of the initial metric in the result
_GAIN = 0.002  # the held-out error has to decrease by this proportion in each round
_HELD_OUT = 5  # every fifth row is held out


def learn_agop(
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    metric: np.ndarray,
    *,
    seed: int,
) -> np.ndarray:
    """Return the metric of the last round that lowered the error on held-out rows.

    ``metric`` determines the distribution of the frequencies in the first round. A
    multiple of it is added to the result, because the gradients alone give too much
    weight to the directions that the training rows determine most precisely.
    """
    # X (n, d), targets (n, k), weights (n,), metric (d, d) -> (d, d)
    m = _FREQUENCIES[0] + _FREQUENCIES[1] * X.shape[1]
    m = max(16, min(_MOST_FREQUENCIES, m, len(X)))
    share, held = weights / weights.sum(), np.arange(len(X)) % _HELD_OUT == 0
    found, lowest, size = metric, math.inf, 1.0
    steps: tuple[float, ...] = _MULTIPLES
    for draws in np.random.default_rng(seed).spawn(_MOST_ROUNDS):
        values, vectors = np.linalg.eigh(found)
        # the symmetric root is independent of the signs of the eigenvectors
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        W = root @ draws.standard_normal((len(root), m))
        W += math.sqrt(_SPREAD * np.mean(W**2)) * draws.standard_normal(W.shape)
        W *= size / math.sqrt(np.mean(share @ (X @ W) ** 2))
        fits = [one_round(X, targets, share, held, step * W) for step in steps]
        place = min(range(len(fits)), key=lambda i: fits[i][0])
        error, products = fits[place]
        trace = np.trace(products)
        if not (error < (1 - _GAIN) * lowest and trace > 0):
            break
        found, lowest = products / trace, error
        size, steps = size * steps[place], (1.0,)
    return found / np.trace(found) + _FIRST * metric / np.trace(metric)


def one_round(
    X: np.ndarray,
    targets: np.ndarray,
    share: np.ndarray,
    held: np.ndarray,
    W: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return the error on held-out rows, and the mean outer product of gradients.

    The gradient of f = [cos(w.x), sin(w.x)] [a; b] is W t with t = b cos - a sin, so
    its mean outer product is W H W' for the mean H of t t'. The latter is computed from
    mean products of cosines and sines, and products of coefficients.
    """
    # share and held (n,), W (d, m) -> (d, d)
    m = W.shape[1]
    F = sincos(X @ W, 1 / math.sqrt(m), m)
    root = np.sqrt(share)[:, None]
    F *= root
    targets = root * targets
    left, rest = (F[side] for side in (~held, held))
    # NumPy computes only half of a product of a matrix with its own transpose
    gram, cross = left.T @ left, left.T @ targets[~held]
    errors = []
    for penalty in _PENALTIES:
        gaps = rest @ _solve(gram, cross, penalty) - targets[held]
        errors.append(float(np.sum(gaps**2)))
    gram, cross = gram + rest.T @ rest, cross + rest.T @ targets[held]
    coefficients = _solve(gram, cross, _PENALTIES[int(np.argmin(errors))])
    P = coefficients @ coefficients.T
    mixed = gram[m:, :m] * P[:m, m:]  # sines in rows, cosines in columns
    H = gram[m:, m:] * P[:m, :m] + gram[:m, :m] * P[m:, m:] - mixed - mixed.T
    M = W @ H @ W.T
    return min(errors), (M + M.T) / 2


def _solve(gram: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients of ridge regression."""
    penalized = gram.T.copy(order="F")  # the fastest way to copy a symmetric matrix
    penalized[np.diag_indices_from(penalized)] += penalty
    _, coefficients, failed = lapack.dposv(penalized, cross, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError
    return coefficients


# ------------------------------------------ neighbourhood components analysis (NCA)
def nca_gradient(
    A: np.ndarray, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_queries: int
) -> tuple[float, np.ndarray]:
    """Return the leave-one-out log loss of the first rows and its gradient.

    For a row x, any other row y is weighted by exp(-|A(x - y)|^2 / 2). The probability
    of the class of x is the total weight of the rows of this class divided by that of
    all rows. Rows that are alone in their class are ignored.
    """
    # A (r, d), X (n, d), codes and weights (n,) -> (r, d)
    # G, (n_queries, n), is twice the gradient with respect to squared distances
    Z = X @ A.T
    # the same object if all rows are queries, so that distances of 0 need no correction
    queries = Z if n_queries == len(Z) else Z[:n_queries]
    own = np.arange(n_queries)
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
