"""Kernels of blocks of rows as logarithms, and sums of them that cannot overflow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._array import Array, namespace_of
from .._kernels import LogSum, log_sum
from .._types import HasLogProfile
from .._workers import Workspace
from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, RadialKernel
from ..rows import Inputs

Kernel = RadialKernel | Callable


@dataclass(frozen=True)
class StatedRadial(RadialKernel):
    """A kernel of the Euclidean distance that an object states as ``log_profile``."""

    stated: Any

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        logs = np.asarray(self.stated.log_profile(r))
        wrong = (logs == np.inf) | (np.isnan(logs) & ~np.isnan(r))
        _check_values(logs, r.shape, not wrong.any())
        return logs


def get_kernel(kernel: str | HasLogProfile | Callable, nu: float) -> Kernel:
    """Return the kernel of a name, a callable as it is, and objects as kernels."""
    if kernel == "matern":
        return MaternRadial(nu)
    if isinstance(kernel, str):
        return {"gaussian": GaussianRadial(), "laplacian": LaplacianRadial()}[kernel]
    if callable(kernel) or isinstance(kernel, RadialKernel):
        return kernel
    return StatedRadial(kernel)


def radial(kernel: Kernel) -> RadialKernel:
    """Return a kernel as a function of the distance, or raise ValueError."""
    if isinstance(kernel, RadialKernel):
        return kernel
    if hasattr(kernel, "log_profile"):
        return StatedRadial(kernel)
    raise ValueError(
        f"tol needs a kernel that falls with the distance and says so, but "
        f"kernel={kernel!r} has no log_profile(r), the log of the kernel at the "
        "distances r of rows multiplied by sigma. Give it one, or take tol=0.0."
    )


def log_kernel(
    kernel: Kernel,
    queries: Inputs,
    keys: Inputs,
    workspace: Workspace | None = None,
    sigma: float = 1.0,
) -> Array:
    """Return the log of a kernel of sigma times the rows, (n_queries, n_keys).

    With a workspace it stands there until the next call.
    """
    if isinstance(kernel, GaussianRadial):
        buffer = None
        if workspace is not None:
            shape = queries.shape[0], keys.shape[0]
            buffer = workspace.buffer("logs", shape, queries.dtype)
        squares = queries.sq_distances(keys, buffer)
        squares *= -0.5 * sigma**2
        return squares
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        if sigma != 1:
            distances *= sigma
        return kernel.log_profile(distances)
    values = kernel(queries.matrix, keys.matrix)
    xp = namespace_of(values)
    is_kernel = bool(xp.all(xp.isfinite(values) & (values >= 0)))
    _check_values(values, (queries.shape[0], keys.shape[0]), is_kernel)
    with np.errstate(divide="ignore"):
        return xp.log(values)


def _check_values(values: Any, shape: tuple[int, ...], is_kernel: bool) -> None:
    """Raise ValueError where what a kernel of the user returned is none."""
    if values.shape != shape:
        raise ValueError(
            f"kernel returned an array of shape {values.shape}, not {shape}: one value "
            "for each pair of rows."
        )
    if not is_kernel:
        raise ValueError(
            "kernel returned values that are negative or not finite: weights of an "
            "average are 0 or more."
        )


def log_path(
    kernel: Kernel, queries: Inputs, keys: Inputs, sigmas: Iterable[float]
) -> Iterator[np.ndarray]:
    """Yield the logs of a kernel of the rows times each sigma."""
    if isinstance(kernel, RadialKernel):
        distances = kernel.distances(queries, keys)
        for sigma in sigmas:
            yield kernel.log_profile(distances * distances.dtype.type(sigma))
        return
    for sigma in sigmas:
        yield log_kernel(kernel, queries.scaled(sigma), keys.scaled(sigma))


def leave_out(logs: np.ndarray, own: np.ndarray) -> None:
    """Make the logs of pairs (i, own[i]) minus infinity, where there is such a key."""
    inside = np.flatnonzero((own >= 0) & (own < logs.shape[1]))
    logs[inside, own[inside]] = -np.inf


def add_block(
    total: LogSum | None,
    logs: Array,
    targets: Array,
    workspace: Workspace | None = None,
) -> LogSum:
    """Return sums with those over further keys: logs (n, n_keys), overwritten."""
    cast = None if workspace is None else workspace.cast
    block = log_sum(logs, targets, overwrite=True, cast=cast)
    return block if total is None else total.plus(block)
