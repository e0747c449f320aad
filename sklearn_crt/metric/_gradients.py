"""Metrics learned from the evidence of a Gaussian process, from gradients, or by NCA.

A Gaussian process is fitted with one scale per column. The scales that maximise its
marginal likelihood, or evidence, shrink columns that are unrelated to the targets, and
the gradients of the posterior mean show the directions along which targets vary. AGOP,
the average gradient outer product of ridge regression on cosines and sines, can be
computed from more rows. Neighbourhood components analysis (NCA) minimises the error of
kernel averages by gradient descent on minibatches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from ..arrays.loops import sq_distances, weights_from_logs
from ..arrays.sincos import sincos
from ..arrays.threads import with_one_blas_thread

# For each stage: number of rows, maximum number of L-BFGS iterations, and the increase
# in log evidence below which the search stops. The last stage needs many iterations
# only if there is little noise.
STAGES = (400, 15, 0.0), (800, 15, 0.0), (800, 30, 0.3)
MOST_ROWS = {"evidence": STAGES[-1][0], "agop": 2**13}
_PENALTY = 0.3  # weight of squared deviations of log scales from the common value
_COMMON = 2.0 ** np.arange(-3, 2)  # candidate scales, in units of sqrt(2 / n_columns)
_NOISE = 0.05, 1e-6, 10.0  # initial noise variance, and its bounds
_RANGE = 7.0, 5.0  # maximum distances of log scales below and above the common value
# Parameters are rounded to multiples of this after each stage. Otherwise the search
# would amplify rounding errors, and sigma could differ between processors.
_STEP = 2.0**-8
_LEAST_LOG = -100.0  # lower bound of the log kernel, which avoids subnormal numbers
_LEAST_SIZE = 1e-12  # lower bound of the variance, for constant targets
_FAR = 1e-20  # in NCA, weights below this proportion of the largest are ignored
_RATE = 0.03  # initial learning rate of NCA, relative to the size of the initial matrix


@dataclass(frozen=True, eq=False)
class GaussianProcess:
    """Evidence of a Gaussian process as a function of log scales and log noise.

    The covariance matrix of each target is a multiple of K = R + noise * N, where R is
    the Gaussian kernel matrix of the scaled rows, and N is the diagonal matrix of
    inverse weights. The multiple maximises the evidence. K is the same for all targets.
    """

    X: np.ndarray  # (n, d)
    targets: np.ndarray  # (n, k), centred
    inverse_weights: np.ndarray  # (n,), with mean about 1
    penalty: float = _PENALTY  # weight of squared deviations of log scales

    def _solve(self, parameters: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the scaled rows, R, the Cholesky factor of K, and K^-1 targets.

        Only the upper triangles of R and of the factor are meaningful.
        """
        Z = np.asfortranarray(self.X * np.exp(parameters[:-1]))
        R = blas.dsyrk(1.0, Z)
        half = 0.5 * np.diagonal(R).copy()
        R -= half
        R -= half[:, None]
        np.maximum(R, _LEAST_LOG, out=R)
        np.exp(R, out=R)
        K = R.copy(order="F")
        K[np.diag_indices_from(K)] += np.exp(parameters[-1]) * self.inverse_weights
        factor, failed = lapack.dpotrf(K, clean=0, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError
        return Z, R, factor, lapack.dpotrs(factor, self.targets)[0]

    def loss(
        self, parameters: np.ndarray, common: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return the negative log evidence per row plus a penalty, and its gradient.

        With A = K^-1 T for targets T of variance a^2, and the elementwise product W =
        (K^-1 - A A' / a^2) * R, the derivative with respect to the log scale of column
        j is the sum of -W_ik (z_ij - z_kj)^2 / 2 over all pairs of rows i and k. The
        sum is computed by expanding the square.
        """
        n = len(self.X)
        try:
            Z, R, factor, solved = self._solve(parameters)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros(parameters.size)
        sizes = np.maximum(np.sum(self.targets * solved, axis=0) / n, _LEAST_SIZE)
        log_det = 2 * np.log(np.diagonal(factor)).sum()
        gap, penalty = parameters[:-1] - common, self.penalty / n
        value = 0.5 * (np.log(sizes).mean() + log_det / n) + penalty * gap @ gap
        W = lapack.dpotri(factor, overwrite_c=1)[0]
        solved = np.asfortranarray(solved / np.sqrt(sizes * sizes.size))
        W = blas.dsyrk(-1.0, solved, beta=1.0, c=W, overwrite_c=1)
        noise = math.exp(parameters[-1])
        of_noise = 0.5 / n * noise * (np.diagonal(W) @ self.inverse_weights)
        W *= R
        sides = np.asfortranarray(np.column_stack([Z, np.ones(n)]))
        products = blas.dsymm(1.0, W, sides)
        slopes = np.sum(Z * products[:, :-1], axis=0) - products[:, -1] @ Z**2
        return value, np.append(slopes / n + 2 * penalty * gap, of_noise)

    def gradient_products(self, parameters: np.ndarray) -> np.ndarray:
        """Return the sum of outer products of the gradients of the posterior means."""
        # -> (d, d)
        Z, R, _, solved = self._solve(parameters)
        R = np.triu(R) + np.triu(R, 1).T
        total = np.zeros((Z.shape[1], Z.shape[1]))
        for a in solved.T:
            B = R * a
            gradients = B @ Z - B.sum(axis=1)[:, None] * Z
            total += gradients.T @ (gradients / self.inverse_weights[:, None])
        scales = np.exp(parameters[:-1])
        return total * scales * scales[:, None]


def most_evidence(
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    stages: tuple[tuple[int, int, float], ...] = STAGES,
    penalty: float = _PENALTY,
) -> tuple[GaussianProcess, np.ndarray]:
    """Return a Gaussian process, and log scales and log noise with the most evidence.

    Each stage uses the first rows, so rows must be in random order. Their columns must
    be standardised.
    """
    # X (n, d), targets (n, k), weights (n,) -> GaussianProcess, (d + 1,)
    d, parameters = X.shape[1], np.zeros(0)
    common, bounds = np.zeros(0), []
    for n_rows, max_iter, gain in stages:
        some = X[:n_rows], targets[:n_rows], weights.mean() / weights[:n_rows]
        process = GaussianProcess(*some, penalty)
        if not parameters.size:
            starts = np.full((_COMMON.size, d + 1), math.log(_NOISE[0]))
            starts[:, :-1] = np.log(_COMMON * math.sqrt(2 / d))[:, None]
            losses = [process.loss(start, start[:-1])[0] for start in starts]
            parameters = starts[np.argmin(losses)]
            common = parameters[:-1].copy()
            bounds = [(v - _RANGE[0], v + _RANGE[1]) for v in common]
            bounds.append((math.log(_NOISE[1]), math.log(_NOISE[2])))
        found = minimize(
            process.loss,
            parameters,
            args=(common,),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_iter, "ftol": gain / len(process.X)},
        )
        parameters = np.round(found.x / _STEP) * _STEP
    return process, parameters


def learn_evidence(
    X: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return a metric that combines evidence-maximising scales with gradients.

    At most the first 800 rows are used, so rows must be in random order. Their columns
    must be standardised. The metric sums two matrices, each divided by its trace: the
    diagonal matrix of squared scales, and the mean outer product of the gradients.
    """
    # X (n, d), targets (n, k), weights (n,) -> (d, d)
    # its matrices are small, so several threads would only wait for each other
    found = with_one_blas_thread(most_evidence, X, targets, weights)
    process, parameters = found
    squares = np.exp(2 * parameters[:-1])
    products = process.gradient_products(parameters)
    trace = max(np.trace(products), np.finfo(float).tiny)
    return np.diag(squares / squares.sum()) + products / trace


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
