"""Errors of hybrid features for two rows on a sphere."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize

from .._compat import Interval, StrOptions, validated

_COUNT = [Interval(Integral, 1, None, closed="left")]
_SPHERE: dict[str, list[object]] = {
    "radius": [Interval(Real, 0, None, closed="neither")],
    "n_frequencies": _COUNT,
    "n_coefficients": _COUNT,
    "kind": [StrOptions({"angular", "gaussian", "trigonometric", "positive"})],
    "lambda_sigma": [Interval(Real, 0, None, closed="neither")],
}


@validated(angle=[Real, "array-like"], **_SPHERE)
def hrf_relative_error(
    angle: ArrayLike,
    radius: float,
    n_frequencies: int,
    n_coefficients: int = 1,
    *,
    kind: str = "angular",
    lambda_sigma: float = 1.0,
) -> float | np.ndarray:
    r"""Return the relative error of a hybrid kernel estimate for two rows on a sphere.

    Parameters
    ----------
    angle : float or array-like
        Angles theta between the rows, in [0, pi].
    radius : float
        Norm r of the rows.
    n_frequencies : int
        Number m of frequencies of each base map.
    n_coefficients : int, default=1
        Number n of frequencies used to estimate the coefficient.
    kind : {"angular", "gaussian", "trigonometric", "positive"}, default="angular"
        ``"angular"`` and ``"gaussian"`` are hybrids that combine two base maps with
        this kind of coefficient, for independent frequencies. ``"trigonometric"`` and
        ``"positive"`` are the base maps alone: random Fourier features, and pairs of
        features exp(w.x) and exp(-w.x).
    lambda_sigma : float, default=1.0
        Inverse length scale of the Gaussian coefficient, which is normalised to be 1
        for opposite rows.

    Returns
    -------
    error : float or ndarray
        Root mean squared error of the estimate, divided by the kernel.

    Notes
    -----
    Let :math:`e(t) = (2m)^{-1/2} e^{2 r^2 t} (1 - e^{-4 r^2 t})`. The relative error is
    :math:`e(\sin^2 \theta/2)` for random Fourier features, and :math:`e(\cos^2
    \theta/2)` for pairs of positive features ([1]_, lemma 3.4). For a hybrid with the
    estimated coefficient :math:`\hat\lambda`, it is the square root of
    :math:`E\hat\lambda^2\, e(\cos^2)^2 + E(1 - \hat\lambda)^2\, e(\sin^2)^2` (theorems
    D.1 and F.2). If the base maps share their frequencies, the error is the same,
    because the rows have equal norms.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> from sklearn_crt.theory import hrf_relative_error
    >>> hrf_relative_error([0.0, 1.5, 3.0], 1.0, 10, 4).round(3)
    array([0.   , 0.416, 0.182])
    """
    theta = np.asarray(angle, dtype=float)
    options = n_frequencies, n_coefficients, kind, lambda_sigma
    with np.errstate(over="ignore"):
        return np.exp(_log_relative_error(theta, radius, *options))[()]


def _log_relative_error(
    theta: float | np.ndarray, r: float, m: int, n: int, kind: str, lambda_sigma: float
) -> float | np.ndarray:
    half = {"trigonometric": np.sin(theta / 2), "positive": np.cos(theta / 2)}
    errors = {}
    with np.errstate(divide="ignore"):  # log(0) if there is no error
        for name, side in half.items():
            square = (r * side) ** 2
            error = 2 * square + np.log(-np.expm1(-4 * square))
            errors[name] = error - 0.5 * math.log(2 * m)
        if kind in errors:
            return errors[kind]
        if kind == "angular":
            mean = theta / np.pi
            variance = mean * (1 - mean) / n
        else:
            h = -math.expm1(-2 * (lambda_sigma * r) ** 2)
            exponent = 2 * (lambda_sigma * r) ** 2 * half["trigonometric"] ** 2
            mean = -np.expm1(-exponent) / h
            variance = np.expm1(-2 * exponent) ** 2 / (2 * n * h**2)
        positive = np.log(mean**2 + variance) + 2 * errors["positive"]
        rest = np.log((1 - mean) ** 2 + variance) + 2 * errors["trigonometric"]
        return 0.5 * np.logaddexp(positive, rest)


@validated(**_SPHERE)
def hrf_max_relative_error(
    radius: float,
    n_frequencies: int,
    n_coefficients: int = 1,
    *,
    kind: str = "angular",
    lambda_sigma: float = 1.0,
) -> float:
    r"""Return the largest relative error of a hybrid over all angles on a sphere.

    Parameters
    ----------
    radius : float
        Norm r of the rows.
    n_frequencies, n_coefficients : int
        Numbers of frequencies: m for each base map, and n to estimate the coefficient.
    kind : {"angular", "gaussian", "trigonometric", "positive"}, default="angular"
        The hybrid or base map, as for :func:`hrf_relative_error`.
    lambda_sigma : float, default=1.0
        Inverse length scale of the Gaussian coefficient.

    Returns
    -------
    error : float
        Maximum of the relative error, accurate to about 1e-8.

    Examples
    --------
    >>> from sklearn_crt.theory import hrf_max_relative_error
    >>> round(hrf_max_relative_error(1.5, 10, 4), 2)
    3.73
    >>> round(hrf_max_relative_error(1.5, 10, kind="positive"), 2)
    20.13
    """
    options = radius, n_frequencies, n_coefficients, kind, lambda_sigma

    def log_error(theta: float | np.ndarray) -> float | np.ndarray:
        return _log_relative_error(theta, *options)

    grid = np.linspace(0, np.pi, 2001)
    best = int(np.argmax(log_error(grid)))
    ends = grid[max(0, best - 1)], grid[min(grid.size - 1, best + 1)]
    found = optimize.minimize_scalar(
        lambda theta: -log_error(theta), bounds=ends, method="bounded"
    )
    with np.errstate(over="ignore"):
        return float(np.exp(max(log_error(grid[best]), -found.fun)))


@validated(
    **{name: _SPHERE[name] for name in ("radius", "n_frequencies", "n_coefficients")}
)
def hrf_max_relative_error_bound(
    radius: float, n_frequencies: int, n_coefficients: int
) -> float:
    r"""Return a bound on the largest relative error of the angular hybrid on a sphere.

    Parameters
    ----------
    radius : float
        Norm r of the rows, at least 1.
    n_frequencies, n_coefficients : int
        Numbers of frequencies: m for each base map, and n to estimate the coefficient.

    Returns
    -------
    bound : float
        Upper bound on :func:`hrf_max_relative_error` with ``kind="angular"``.

    Raises
    ------
    ValueError
        If the radius is less than 1, because the bound is not proved in this case.

    Notes
    -----
    Let :math:`W = e^{2r^2} (1 - e^{-4r^2})`. The bound is
    :math:`\frac{W}{\sqrt{2 m r}} \sqrt{\frac{1 - 1/n}{\pi r} + \frac{1}{n \sqrt\pi}}`,
    whereas the largest relative error of each base map alone is
    :math:`W / \sqrt{2m}` ([1]_, theorem 3.5).

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> from sklearn_crt.theory import hrf_max_relative_error_bound
    >>> round(hrf_max_relative_error_bound(1.5, 10, 4), 2)
    9.0
    """
    r, m, n = radius, n_frequencies, n_coefficients
    if r < 1:
        raise ValueError(
            f"radius={r!r} must be at least 1, because the bound does not hold for "
            "smaller radii."
        )
    share = (1 - 1 / n) / (math.pi * r) + 1 / (n * math.sqrt(math.pi))
    log_w = 2 * r**2 + math.log(-math.expm1(-4 * r**2))
    with np.errstate(over="ignore"):
        return float(np.exp(log_w + 0.5 * math.log(share / (2 * m * r))))
