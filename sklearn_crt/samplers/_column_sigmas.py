"""One sigma per column, learned by maximising the evidence of a Gaussian process.

A Gaussian process is fitted with one scale per column. The scales that maximise its
marginal likelihood, or evidence, shrink columns that are unrelated to the targets.
Learned metrics start from these scales, and ridge regression tries sigmas proportional
to powers of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from ..arrays.threads import with_one_blas_thread
from ..rows.statistics import varying_columns

# For each stage: number of rows, maximum number of L-BFGS iterations, and the increase
# in log evidence below which the search stops. The last stage needs many iterations
# only if there is little noise.
STAGES = (400, 15, 0.0), (800, 15, 0.0), (800, 30, 0.3)
_PENALTY = 0.3  # weight of squared deviations of log scales from the common value
_COMMON = 2.0 ** np.arange(-3, 2)  # candidate scales, in units of sqrt(2 / n_columns)
_NOISE = 0.05, 1e-6, 10.0  # initial noise variance, and its bounds
_RANGE = 7.0, 5.0  # maximum distances of log scales below and above the common value
# Parameters are rounded to multiples of this after each stage. Otherwise the search
# would amplify rounding errors, and sigma could differ between processors.
_STEP = 2.0**-8
_LEAST_LOG = -100.0  # lower bound of the log kernel, which avoids subnormal numbers
_FAILED = 1e10  # value where the covariance matrix is singular
_LEAST_SIZE = 1e-12  # lower bound of the variance, for constant targets
# Candidates are learned from up to MOST_LEARNED of N_DRAWN rows. Their leave-one-out
# errors are too small, especially if there are few rows per column. _OF_NUMBERS
# therefore maps the minimum number of rows per column to the candidates, as pairs of a
# power and a multiple. _OF_LABELS are those for labels; they require _LEAST_OF_CLASS
# rows of each class per column. The penalty is larger than for metrics, which are
# tested on held-out rows. Only the second stage of the search stops early, so that the
# first can leave a plateau.
N_DRAWN, MOST_LEARNED = 2**13, 400
_OF_NUMBERS = {200: ((1, 1),), 50: ((0.5, 1), (0.5, 2), (1, 1)), 10: ((0.5, 1),), 0: ()}
_OF_LABELS, _LEAST_OF_CLASS = ((0.5, 1), (1, 1)), 5
_PENALTY_OF_RATIOS, _STAGES_OF_RATIOS = 1.0, ((400, 8, 0.0), (400, 12, 0.3))


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

    def value(self, parameters: np.ndarray, common: np.ndarray) -> tuple[Any, Any, Any]:
        """Return the negative log evidence per row plus a penalty.

        Further results are the variances of the targets, and what ``_solve`` returns;
        they are None if the solution fails.
        """
        n = len(self.X)
        try:
            solution = self._solve(parameters)
        except np.linalg.LinAlgError:
            return _FAILED, None, None
        _, _, factor, solved = solution
        sizes = np.maximum(np.sum(self.targets * solved, axis=0) / n, _LEAST_SIZE)
        log_det = 2 * np.log(np.diagonal(factor)).sum()
        gap = parameters[:-1] - common
        value = 0.5 * (np.log(sizes).mean() + log_det / n)
        return value + self.penalty / n * gap @ gap, sizes, solution

    def loss(
        self, parameters: np.ndarray, common: np.ndarray
    ) -> tuple[float, np.ndarray]:
        """Return the value and its gradient.

        With A = K^-1 T for targets T of variance a^2, and the elementwise product W =
        (K^-1 - A A' / a^2) * R, the derivative with respect to the log scale of column
        j is the sum of -W_ik (z_ij - z_kj)^2 / 2 over all pairs of rows i and k. The
        sum is computed by expanding the square.
        """
        n = len(self.X)
        value, sizes, solution = self.value(parameters, common)
        if solution is None:
            return value, np.zeros(parameters.size)
        Z, R, factor, solved = solution
        gap, penalty = parameters[:-1] - common, self.penalty / n
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
            losses = [process.value(start, start[:-1])[0] for start in starts]
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


def sigmas_of_columns(
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    codes: np.ndarray | None,
    default: float | np.ndarray,
    n_rows: float,
) -> tuple[np.ndarray, ...]:
    """Return candidates for ridge regression, each with one sigma per column.

    A Gaussian process on up to 400 rows with standardised columns learns the values
    that maximise its evidence. For each candidate, the ratios of these values to their
    geometric mean are raised to a power, and all values are multiplied by a constant.
    Constant columns, and all columns if the targets are constant, get the default.
    ``n_rows`` is the number of training rows. For classifiers, ``codes`` are the codes
    of the labels, and ``targets`` their indicators.
    """
    # X (n, d), targets (n,) or (n, k), weights, codes (n,) -> (d,) for each candidate
    tried = next(tried for n, tried in _OF_NUMBERS.items() if n_rows >= n * X.shape[1])
    rank = np.random.default_rng(0).permutation(len(X))
    if codes is not None:
        # equally many rows of each class, or all rows of classes with fewer rows
        order, fewest = np.lexsort((rank, codes)), np.bincount(codes).min()
        places = np.arange(len(X))
        rank[order] = places - np.searchsorted(codes[order], codes[order])
        tried = _OF_LABELS if fewest >= _LEAST_OF_CLASS * X.shape[1] else ()
    if not tried:
        return ()
    chosen = np.argsort(rank, kind="stable")[:MOST_LEARNED]
    X, targets, weights = X[chosen], targets[chosen], weights[chosen]
    eps = float(np.finfo(X.dtype).eps)
    order = np.random.default_rng(0).permutation(len(X))
    X, weights = X[order].astype(np.float64), weights[order]
    targets = targets.reshape(len(targets), -1)[order]
    kept, center, deviation = varying_columns(X, weights, eps)
    varies, mean, size = varying_columns(targets, weights)
    same = np.full(X.shape[1], default)
    if not (varies.size and kept.size):
        return (same,)
    known = (X[:, kept] - center) / deviation, (targets[:, varies] - mean) / size
    # its matrices are small, so several threads would only wait for each other
    _, logs = with_one_blas_thread(
        most_evidence, *known, weights, _STAGES_OF_RATIOS, _PENALTY_OF_RATIOS
    )
    # rounded to quarter octaves, which hardly ever depend on rounding errors
    octaves = np.rint(logs[:-1] * (4 / math.log(2))) / 4
    found, mean = [], octaves.mean()
    for power, multiple in tried:
        sigma = multiple * 2.0 ** (mean + power * (octaves - mean))
        found.append(same.copy())
        found[-1][kept] = sigma / deviation
    return tuple(found)
