"""Metrics learned by gradient descent: NCA, and one multiplier per column.

Both minimise the leave-one-out error of kernel averages: neighbourhood components
analysis (NCA) by Adam on minibatches, the multipliers by L-BFGS on one sample of rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from sklearn.metrics.pairwise import euclidean_distances

from .._array import taken, to_host
from .._kernels import sq_distances, weights_from_logs
from ..rows import ColumnMoments, Frame, Rows, type_for_weights

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
    # G is twice the gradient of the loss in the squared distances, (n_queries, n)
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
    """Return the log loss of each row, and minus its gradient in the log weights.

    The loss is minus the log of the share that the row's own class has in the weights.
    Rows alone in their class have no loss.
    """
    # logs of the weights (n, m), same class or not (n, m) -> (n,), (n, m)
    usable = same.any(axis=1)
    shares, _ = weights_from_logs(logs, normal=True)
    shares *= shares > _FAR  # products of numbers below the normal ones are slow
    of_class = shares * same
    log_own = np.zeros(len(logs), shares.dtype)
    far = np.flatnonzero(usable & (of_class.max(axis=1) < _FAR))
    if far.size:  # no digits are left: anew, beside the nearest of the class
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


def single_precision(weights: np.ndarray) -> np.ndarray:
    """Return positive weights in float32, over their maximum where this is needed."""
    if type_for_weights(weights, np.float32) != np.float32:
        weights = weights / weights.max()
    least = np.finfo(np.float32).tiny  # of which the logarithm is a number
    return np.maximum(weights, least).astype(np.float32)


def learn_nca(
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    *,
    seed: int,
    step: Callable[[], None] = lambda: None,
    n_steps: int = 300,
    n_queries: int = 256,
    n_keys: int = 1000,
) -> np.ndarray:
    """Return A (r, d) of the rows A x, from a start, by steps of Adam.

    A minibatch has ``n_keys`` rows, and the loss is that of the first ``n_queries``.
    """
    # X (n, d), codes and weights (n,), start (r, d)
    rng = np.random.default_rng(seed)
    X, A = X.astype(np.float32), start.astype(np.float32)
    weights = single_precision(weights)
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


_N_ROWS = 1200  # all pairs of which are looked at
_N_STEPS = 40
_STARTS = 2.0 ** np.arange(-1, 4, 0.5)  # of "scale", one of which is the start
_RANGE = 7.0  # of log sigma, about the start

# from the squared distances D of all pairs of rows (n, n) to the loss and its gradient
# G in these distances, G[i, j] = d loss / d D[i, j], (n, n)
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]


def learn_columns(
    X: Rows, y: np.ndarray, weights: np.ndarray, *, penalty: float = 5.0
) -> np.ndarray:
    """Return a positive multiplier sigma for each column.

    Class codes come as a vector, numeric outputs as a matrix. The loss has a penalty on
    the squares of log sigma about its start, which is divided by the number of rows;
    sample weights count as repeated rows.
    """
    # X (n_rows, n_features), y (n_rows,) or (n_rows, n_outputs), weights (n_rows,) ->
    # (n_features,)
    keep = np.random.default_rng(0).permutation(X.shape[0])[:_N_ROWS]
    rows, y, weights = (to_host(taken(a, keep)) for a in (X, y, weights))
    rows = Frame().rows(rows.astype(np.float64)).dense
    weights = weights.astype(np.float64)
    moments = ColumnMoments.of(rows, weights)
    deviation = np.sqrt(moments.variance)
    deviation[deviation <= 1e-12 * np.sqrt(moments.mean_square)] = 1.0  # constant
    rows = (rows - moments.mean) / deviation
    loss = loss_of_pairs(rows, y, weights)
    scale = np.sqrt(2 / rows.shape[1])
    squares = euclidean_distances(rows, squared=True)
    starts = scale * _STARTS
    start = starts[np.argmin([loss(s**2 * squares)[0] for s in starts])]
    origin = np.full(rows.shape[1], np.log(start))
    found = minimize(
        penalised_loss,
        origin,
        args=(origin, penalty / len(np.unique(rows, axis=0)), rows, loss),
        jac=True,
        method="L-BFGS-B",
        bounds=np.stack([origin - _RANGE, origin + _RANGE], axis=1),
        options={"maxiter": _N_STEPS},
    )
    return np.exp(found.x) / deviation


def penalised_loss(
    log_sigma: np.ndarray,
    origin: np.ndarray,
    share: float,
    rows: np.ndarray,
    loss: Loss,
) -> tuple[float, np.ndarray]:
    """Return the loss with its penalty, and the gradient in log sigma.

    With D the squared distances of the rows z = sigma x and G the gradient of the loss
    in D, the derivative in log sigma_l is the sum over pairs of
    2 G_ij (z_il - z_jl)^2, of which the square is expanded here.
    """
    # log_sigma, origin (n_features,), rows (n_rows, n_features)
    gap = log_sigma - origin
    scaled = rows * np.exp(log_sigma)
    value, G = loss(euclidean_distances(scaled, squared=True))
    G = G + G.T  # the sum over pairs in both orders
    slope = G.sum(axis=1) @ scaled**2 - np.einsum("il,il->l", scaled, G @ scaled)
    return value + share * gap @ gap, 2 * slope + 2 * share * gap


def loss_of_pairs(rows, y, weights) -> Loss:
    """Return the loss as a function of the squared distances of all pairs of rows."""
    _, group = np.unique(rows, axis=0, return_inverse=True)
    group = group.ravel()
    # equal rows are left out with a row: a weight of two is a row that comes twice
    of_others = np.where(group[:, None] == group, -np.inf, np.log(weights))
    if y.ndim == 1:
        same = y[:, None] == y
        usable = np.isfinite(np.where(same, of_others, -np.inf)).any(axis=1)
    else:
        usable = np.isfinite(of_others).any(axis=1)
    share = np.where(usable, weights, 0.0)
    if not usable.any():  # nothing to learn from: any number is as good
        return lambda D: (0.0, np.zeros_like(D))
    share = share[usable] / share.sum()
    of_others = of_others[usable]
    if y.ndim == 1:
        same = same[usable]
    else:
        mean = np.average(y, axis=0, weights=weights)
        deviation = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weights))
        y = (y - mean) / np.where(deviation > 0, deviation, 1.0)

    def log_loss(logs):  # minus the log of the probability of the own class
        losses, own = log_loss_terms(logs, same)
        own *= 0.5 * share[:, None]
        return losses, own

    def squared_error(logs):  # of the averages
        P, _ = weights_from_logs(logs, overwrite=True)
        P /= P.sum(axis=1, keepdims=True)
        found = P @ y
        gap = found - y[usable]
        P *= gap @ y.T - np.sum(gap * found, axis=1, keepdims=True)
        P *= -share[:, None]
        return np.sum(gap**2, axis=1), P

    losses_of = log_loss if y.ndim == 1 else squared_error

    def loss(D):
        G = np.zeros_like(D)
        losses, G[usable] = losses_of(of_others - 0.5 * D[usable])
        return float(share @ losses), G

    return loss
