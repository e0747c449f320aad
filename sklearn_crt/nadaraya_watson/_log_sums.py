"""Kernels of blocks of rows as logarithms, and sums of them that cannot overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, RadialKernel
from ..rows import Scratch, UnitRows

Kernel = RadialKernel | Callable


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
    if not isinstance(name, str):
        return name
    if name == "matern":
        return MaternRadial(nu)
    return {"gaussian": GaussianRadial(), "laplacian": LaplacianRadial()}[name]


@dataclass(frozen=True)
class StatedRadial(RadialKernel):
    """A kernel of the Euclidean distance that an object states as ``log_profile``.

    Attributes
    ----------
    stated : object
        Whose method takes distances and returns logs of the kernel.
    """

    stated: Any

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(self.stated.log_profile(r))


def radial(kernel: Kernel) -> RadialKernel:
    """Return a kernel as a function of the distance, or raise ValueError.

    Parameters
    ----------
    kernel : RadialKernel or callable
        A callable says that it is one by a method ``log_profile``.

    Returns
    -------
    kernel : RadialKernel
        At unit bandwidth.
    """
    if isinstance(kernel, RadialKernel):
        return kernel
    if hasattr(kernel, "log_profile"):
        return StatedRadial(kernel)
    raise ValueError(
        f"tol needs a kernel that falls with the distance and says so, but "
        f"kernel={kernel!r} has no log_profile(r), the log of the kernel at the "
        "distances r of rows multiplied by sigma. Give it one, or take tol=0.0."
    )


class LogSum:
    """Sum of exp(logs) times targets, over exp(log_scale), one scale a row."""

    def __init__(self):
        self._scores: np.ndarray = 0.0  # type: ignore[assignment]  # before any rows
        self._log_scale: float | np.ndarray = -np.inf

    def add(
        self, logs: np.ndarray, targets: np.ndarray, scratch: Scratch | None = None
    ) -> None:
        """Add blocks: logs (n_rows, n_keys), overwritten; targets (n_keys, k)."""
        total = np.maximum(self._log_scale, logs.max(axis=1, keepdims=True))
        shift = np.where(np.isfinite(total), total, 0)
        logs -= shift
        np.exp(logs, out=logs)
        before = np.exp(self._log_scale - shift)
        values = logs if scratch is None else scratch.cast(logs, targets.dtype)
        self._scores = self._scores * before + values @ targets
        self._log_scale = total

    @property
    def value(self) -> tuple[np.ndarray, np.ndarray]:
        """The sums (n_rows, k) and their log scale (n_rows, 1), 0 for no sum."""
        finite = np.isfinite(self._log_scale)
        return self._scores, np.where(finite, self._log_scale, 0)


def log_values(
    kernel: Kernel, queries: UnitRows, keys: UnitRows, scratch: Scratch | None = None
) -> np.ndarray:
    """Return the log of the kernel of all pairs, until the next use of the scratch."""
    if isinstance(kernel, GaussianRadial):
        room = None
        if scratch is not None:
            shape = queries.shape[0], keys.shape[0]
            room = scratch.array("logs", shape, queries.dtype)
        squares = queries.sq_distances(keys, room)
        squares *= -0.5
        return squares
    if isinstance(kernel, RadialKernel):
        return kernel.log_profile(kernel.distances(queries, keys))
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(kernel(queries.matrix, keys.matrix)))


def log_radial(
    kernel: RadialKernel,
    sigma: float,
    queries: UnitRows,
    keys: UnitRows,
    scratch: Scratch,
) -> np.ndarray:
    """Return the log of a kernel of sigma times the rows, until the next call."""
    if isinstance(kernel, GaussianRadial):
        shape = queries.shape[0], keys.shape[0]
        squares = queries.sq_distances(keys, scratch.array("logs", shape, keys.dtype))
        squares *= -0.5 * sigma**2
        return squares
    distances = kernel.distances(queries, keys)
    distances *= sigma
    return kernel.log_profile(distances)


def log_path(
    kernel: Kernel, queries: UnitRows, keys: UnitRows, sigmas: Iterable[float]
) -> Iterator[np.ndarray]:
    """Yield ``log_values`` of the rows times each sigma, from distances taken once."""
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        for sigma in sigmas:
            yield kernel.log_profile(distances * distances.dtype.type(sigma))
        return
    for sigma in sigmas:
        yield log_values(kernel, queries.scaled(sigma), keys.scaled(sigma))


def leave_out(logs: np.ndarray, own: np.ndarray) -> None:
    """Make the logs of some pairs minus infinity.

    Parameters
    ----------
    logs : ndarray of shape (n_queries, n_keys)
        Changed.
    own : ndarray of int of shape (n_queries,)
        The key of each query; none where that is not one of them.
    """
    inside = np.flatnonzero((own >= 0) & (own < logs.shape[1]))
    logs[inside, own[inside]] = -np.inf
