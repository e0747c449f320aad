"""A check for implementations of linear attention, including third-party ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import clone

from ..attention import linear_attention, softmax_attention
from ..samplers import BaseFeatureSampler
from .estimates import assert_mean

_LENGTH, _COLUMNS, _CUT = 16, 4, 9


def check_attention(
    attention: Any,
    *,
    positive: bool | None = None,
    n_components: int = 512,
    n_draws: int = 48,
    scales: tuple[float, ...] = (1.0, 5.0, 30.0),
) -> None:
    """Assert that linear attention is accurate, causal and numerically stable.

    Parameters
    ----------
    attention : sampler or callable
        An unfitted sampler with ``kernel="softmax"``, or a function. A sampler is
        fitted on queries and keys that are drawn independently of those in the check,
        but from the same distribution. A function ``attention(q, k, v, *, causal,
        n_components, random_state)`` receives NumPy arrays of shape (..., n_rows,
        n_columns), draws features and returns the output.
    positive : bool, default=None
        Whether all features are positive, so that outputs are averages of the values.
        If None, the feature map of a sampler determines this, and True is assumed for a
        function.
    n_components : int, default=512
        Number of features. Outputs are also computed with twice this number.
    n_draws : int, default=48
        Number of seeds over which outputs are averaged.
    scales : tuple of float, default=(1.0, 5.0, 30.0)
        Standard deviations of queries and keys for which outputs must be finite.

    Raises
    ------
    AssertionError
        In any of these cases:

        - The mean of the outputs over the seeds differs from ``softmax_attention``. A
          correct implementation fails with a probability of about 1e-6.
        - A row of the causal output depends on later rows.
        - An output is not finite.
        - All features are positive, but an output is outside the range of the values to
          which its query attends.

    Notes
    -----
    With n features, the output out(n) is a ratio of two estimates and has a bias of
    order 1 / n. Therefore ``2 out(2 n) - out(n)`` is averaged over the seeds. The bias
    of this average is of order 1 / n^2, far below its standard error.

    Examples
    --------
    >>> from sklearn_crt.samplers import PositiveRBFSampler
    >>> from sklearn_crt.testing import check_attention
    >>> check_attention(PositiveRBFSampler(kernel="softmax"))
    """
    if not callable(attention):
        fitted = _fit_before(attention, 8, 0)
        if positive is None:
            positive = fitted.map_.is_positive
        attention = _attend_with(attention)
    positive = True if positive is None else positive
    for causal in (False, True):
        _check_converges(attention, causal, n_components, n_draws)
    _check_causal(attention, n_components)
    for scale in scales:
        for dtype in (np.float32, np.float64):
            _check_stable(attention, scale, dtype, positive)


def _rows(
    scale: float = 0.7, dtype: type[np.floating] = np.float64, seed: int = 3
) -> tuple[np.ndarray, ...]:
    """Return queries, keys with different norms, and values."""
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((3, _LENGTH, _COLUMNS))
    lengths = rng.permutation(np.linspace(0.3, 2.0, _LENGTH))[:, None]
    return tuple((part).astype(dtype) for part in (scale * q, scale * lengths * k, v))


def _fit_before(
    sampler: BaseFeatureSampler, n_components: int, random_state: int
) -> BaseFeatureSampler:
    """Fit a sampler on rows that differ from those of the check."""
    q, k, _ = _rows(seed=4)
    sampler = clone(sampler).set_params(
        sigma=_COLUMNS**-0.25, n_components=n_components, random_state=random_state
    )
    return sampler.fit(q, X_key=k)


def _attend_with(sampler: BaseFeatureSampler) -> Callable[..., np.ndarray]:
    @cache  # causal and bidirectional attention use the same fits
    def fit(n_components: int, random_state: int) -> BaseFeatureSampler:
        return _fit_before(sampler, n_components, random_state)

    def attend(
        q: np.ndarray,
        k: np.ndarray,
        v: np.ndarray,
        *,
        causal: bool,
        n_components: int,
        random_state: int,
    ) -> np.ndarray:
        fitted = fit(n_components, random_state)
        return linear_attention(q, k, v, fitted, causal=causal)

    return attend


def _check_converges(
    attend: Callable[..., np.ndarray], causal: bool, n_components: int, n_draws: int
) -> None:
    q, k, v = _rows()
    estimates = []
    for seed in range(n_draws):
        few, many = (
            attend(q, k, v, causal=causal, n_components=n, random_state=seed + shift)
            for n, shift in ((n_components, 0), (2 * n_components, n_draws))
        )
        estimates.append(2 * many - few)
    try:
        assert_mean(np.stack(estimates), softmax_attention(q, k, v, causal=causal))
    except AssertionError as error:
        raise AssertionError(
            "The outputs do not converge to "
            f"softmax_attention(causal={causal}): {error}"
        ) from None


def _check_causal(attend: Callable[..., np.ndarray], n_components: int) -> None:
    q, k, v = _rows()
    options = {"causal": True, "n_components": n_components, "random_state": 0}
    before = attend(q, k, v, **options)
    for i, name in enumerate("qkv"):
        arrays = [q.copy(), k.copy(), v.copy()]
        arrays[i][_CUT:] = 3 * arrays[i][::-1][: _LENGTH - _CUT] + 1
        change = np.abs(attend(*arrays, **options) - before)[:_CUT].max()
        assert change < 1e-9, (
            f"not causal: rows before {_CUT} change by {change:.2g} if later rows of "
            f"{name} change"
        )


def _check_stable(
    attend: Callable[..., np.ndarray],
    scale: float,
    dtype: type[np.floating],
    positive: bool,
) -> None:
    q, k, v = _rows(scale, dtype)
    for causal in (False, True):
        with np.errstate(all="ignore"):
            out = attend(q, k, v, causal=causal, n_components=64, random_state=0)
        place = f"at scale {scale} in {np.dtype(dtype)} (causal={causal})"
        assert out.dtype == dtype, f"output of type {out.dtype} {place}"
        assert np.isfinite(out).all(), f"not finite {place}"
        if not positive:
            continue
        high = np.maximum.accumulate(v) if causal else v.max(axis=0)
        low = np.minimum.accumulate(v) if causal else v.min(axis=0)
        outside = np.maximum(out - high, low - out).max()
        assert outside < 100 * np.finfo(dtype).eps, (
            "not an average of the values: outside their range by "
            f"{outside:.2g} {place}"
        )
