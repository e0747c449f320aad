"""Kernel sums over all the training rows, in blocks and in log space."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, RadialKernel
from ..rows import Frame, Rows, Statistics, UnitRows, resolve_sigma
from ._targets import Numbers, OneHot

_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time

Kernel = RadialKernel | Callable
Keys = list[tuple[UnitRows, np.ndarray]]  # blocks of rows, and their targets


def get_kernel(name: str | Callable, nu: float) -> Kernel:
    """Return the kernel of a name; a callable is returned as it is.

    Parameters
    ----------
    name : {"gaussian", "laplacian", "matern"} or callable
        The parameter of an estimator.
    nu : float
        Smoothness of ``"matern"``.

    Returns
    -------
    kernel : RadialKernel or callable
        At unit bandwidth.
    """
    if callable(name):
        return name
    if name == "matern":
        return MaternRadial(nu)
    return {"gaussian": GaussianRadial(), "laplacian": LaplacianRadial()}[name]


class ExactEngine:
    """The exact estimator: keeps the training rows.

    Parameters
    ----------
    kernel : RadialKernel or callable
        A callable takes two arrays of rows at unit bandwidth.
    sigma : float, {"scale", "median"} or ndarray of shape (n_features,)
        Multiplier of the rows.
    seed : tuple of int
        Of the sample of rows behind ``sigma="median"``.
    targets : OneHot or Numbers
        What averages are taken of.
    """

    sampler = "exact"
    quiet = False  # whether warnings are left to others

    def __init__(
        self,
        kernel: Kernel,
        sigma: float | str | np.ndarray,
        seed: tuple[int, ...],
        targets: OneHot | Numbers,
    ):
        self.targets = targets
        self._kernel, self._sigma = kernel, sigma
        self._statistics = Statistics(seed)
        self._parts: tuple = ()

    def copy(self) -> ExactEngine:
        """Return an engine that further rows may be added to, apart from this one."""
        return copy.copy(self)

    def add(self, X, y, weights, *, final=False, step=None):
        """Keep rows of positive weight."""
        median = isinstance(self._sigma, str) and self._sigma == "median"
        self._statistics = self._statistics.read(X, None, weights, median=median)
        self._parts += ((X, y, weights),)
        self.sigma  # noqa: B018, raises for a sigma that does not fit the columns

    def merge(self, other: ExactEngine):
        """Keep the rows of another engine too."""
        for part in other._parts:
            self.add(*part)

    def freeze(self):
        """Fix sigma for good; rows that are added later do not change it."""
        self._sigma = self.sigma
        self._statistics = self._statistics.without_rows()

    @property
    def sigma(self) -> float | np.ndarray:
        """The multiplier of the inputs for the rows seen so far."""
        return resolve_sigma(self._sigma, self._statistics)

    def resolve(self, sigma: float | str | np.ndarray) -> float | np.ndarray:
        """Return the number behind another sigma, for the rows seen so far."""
        return resolve_sigma(sigma, self._statistics)

    def scores(self, X: Rows) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield rows, ``sum_j K(x, x_j) T[j]`` over exp(log_scale), and log_scale."""
        frame, kind = self._frame(X)
        keys = self._keys(frame, X.dtype, kind)
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(_as_kind(X[rows], kind))
            total = LogSum()
            for block, targets in keys:
                total.add(log_values(self._kernel, queries, block), targets)
            yield rows, *total.value

    def path_scores(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[tuple[np.ndarray, np.ndarray]]]]:
        """Yield rows, and their scores and log scales for other numbers sigma.

        Distances are computed once for all of them.
        """
        frame, kind = self._frame(X, sigma=1.0)
        keys = self._keys(frame, X.dtype, kind)
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(_as_kind(X[rows], kind))
            totals = [LogSum() for _ in sigmas]
            for block, targets in keys:
                path = log_path(self._kernel, queries, block, sigmas)
                for total, logs in zip(totals, path, strict=True):
                    total.add(logs, targets)
            yield rows, [total.value for total in totals]

    def _frame(self, X, sigma=None):
        """Return the frame of the rows, and the sparse kind that all take, or None."""
        sigma = self.sigma if sigma is None else sigma
        sides = [X, *(rows for rows, *_ in self._parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        if callable(self._kernel):  # takes rows as they are
            return Frame(sigma), None
        if kinds:  # no centre: rows would become dense
            return Frame(sigma), kinds[0]
        # distances do not change, and their float32 error falls with the norms
        return Frame(sigma, self._statistics.query.mean), None

    def _keys(self, frame, dtype, kind) -> Keys:
        keys = []
        for X, y, weights in self._parts:
            targets = self.targets.encode(y, weights, dtype)
            for block in gen_batches(X.shape[0], _KEY_ROWS):
                rows = _as_kind(X[block].astype(dtype, copy=False), kind)
                keys.append((frame.rows(rows), targets[block]))
        return keys


class LogSum:
    """Sum of exp(logs) times targets, over exp(log_scale), one scale a row."""

    def __init__(self):
        self._scores, self._log_scale = 0.0, -np.inf

    def add(self, logs: np.ndarray, targets: np.ndarray):
        """Add blocks: logs (n_rows, n_keys), overwritten; targets (n_keys, k)."""
        total = np.maximum(self._log_scale, logs.max(axis=1, keepdims=True))
        shift = np.where(np.isfinite(total), total, 0)
        logs -= shift
        np.exp(logs, out=logs)
        before = np.exp(self._log_scale - shift)
        self._scores = self._scores * before + logs @ targets
        self._log_scale = total

    @property
    def value(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums (n_rows, k) and their log scale (n_rows, 1), 0 for no sum."""
        finite = np.isfinite(self._log_scale)
        return self._scores, np.where(finite, self._log_scale, 0)


def log_values(kernel: Kernel, queries: UnitRows, keys: UnitRows) -> np.ndarray:
    """Return the log of the kernel of all pairs, an array of the caller's own."""
    if isinstance(kernel, GaussianRadial):
        squares = queries.sq_distances(keys)
        squares *= -0.5
        return squares
    if isinstance(kernel, RadialKernel):
        return kernel.log_profile(kernel.distances(queries, keys))
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(kernel(queries.matrix, keys.matrix)))


def log_path(
    kernel: Kernel, queries: UnitRows, keys: UnitRows, sigmas: Sequence[float]
) -> Iterator[np.ndarray]:
    """Yield ``log_values`` of the rows times each sigma, from distances taken once."""
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        for sigma in sigmas:
            yield kernel.log_profile(distances * distances.dtype.type(sigma))
        return
    for sigma in sigmas:
        yield log_values(kernel, queries.scaled(sigma), keys.scaled(sigma))


def _as_kind(X, kind):
    return X if kind is None or sparse.issparse(X) else kind(X)
