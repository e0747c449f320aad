"""Mergeable sums of features that no exponent can overflow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ..rows import Scratch


def _finite(shift):
    """Replace -inf, the shift of a column that holds only zeros, by 0."""
    return np.where(np.isfinite(shift), shift, 0.0)


class KernelSums(NamedTuple):
    """Kernel sums of some rows.

    Attributes
    ----------
    scores : ndarray of shape (n_rows, k)
        ``sum_j K(x, x_j) T[j]`` divided by exp(log_scale).
    log_scale : ndarray of shape (n_rows, 1)
        One a row.
    error : ndarray of shape (n_rows,) or None
        Standard errors of the sums of the weights, on the scale of the scores; None,
        and 0 for a row, where nothing cancels.
    """

    scores: np.ndarray
    log_scale: np.ndarray
    error: np.ndarray | None = None


class FeatureSums:
    """Sums over rows j of features times targets, ``sum_j F[j, m] T[j, k]``.

    Features come as ``mantissa * exp(exponent)``. Per column m the largest exponent
    seen is kept as ``shift``, and ``sums`` holds the sums divided by exp(shift):
    a shift for each column cancels in the ratios of Nadaraya and Watson, a shift
    for each row does not. Adding and merging are exact up to rounding, in any
    order. ``signed`` says of each column whether a feature was negative: sums of the
    others are averages, in which nothing cancels.
    """

    def __init__(self):
        self.shift: float | np.ndarray = -np.inf
        self.sums: np.ndarray = 0.0  # type: ignore[assignment]  # before any rows
        # for each column, whether a feature was negative
        self.signed: np.ndarray | np.bool_ = np.False_

    @property
    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return np.ndim(self.sums) == 0

    def add(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        targets: np.ndarray | ClassWeights,
        scratch: Scratch | None = None,
    ) -> None:
        """Add rows: features (n, m) as mantissa and exponent, targets (n, k).

        With ``scratch``, features that have an exponent are overwritten.
        """
        if mantissa is not None and not (self.signed.ndim and self.signed.all()):
            self.signed = self.signed | (mantissa.min(axis=0) < 0)
        if exponent is None:
            self._merge(0.0, _cast(mantissa, targets, scratch).T @ targets)
            return
        shift = exponent.max(axis=0)
        out = None if scratch is None else exponent
        features = np.subtract(exponent, _finite(shift), out=out)
        np.exp(features, out=features)
        if mantissa is not None:
            features = _times(mantissa, features, scratch)
        product = _cast(features, targets, scratch).T @ targets
        self._merge(np.asarray(shift, dtype=np.float64), product)

    def merge(self, other: FeatureSums) -> None:
        """Add the sums of another set of rows."""
        self.signed = self.signed | other.signed
        self._merge(other.shift, other.sums)

    def _merge(self, shift, sums):
        total = np.maximum(self.shift, shift)
        old, new = np.exp(self.shift - _finite(total)), np.exp(shift - _finite(total))
        self.sums = np.atleast_1d(old)[:, None] * self.sums
        self.sums = self.sums + np.atleast_1d(new)[:, None] * sums
        self.shift = total

    def to(self, dtype: DTypeLike) -> FeatureSums:
        """Return these sums for averages whose products are taken in a type."""
        other = FeatureSums()
        other.shift, other.signed = self.shift, self.signed
        other.sums = self.sums.astype(dtype)
        return other

    def average(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        further: np.ndarray | None = None,
        scratch: Scratch | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the features of queries times the sums, and the log of its scale.

        ``further`` columns of sums are multiplied in the type of the features. With
        ``scratch``, features that have an exponent are overwritten.

        Returns
        -------
        scores : ndarray of shape (n, k), in the type of the sums
            ``sum_m F[i, m] sums[m, k]`` divided by ``exp(log_scale[i])``.
        log_scale : ndarray of shape (n, 1)
        """
        plain = mantissa if exponent is None else None
        if plain is not None and np.ndim(self.shift) == 0:  # which is 0
            weights, log_scale = plain, np.zeros((1, 1), plain.dtype)
        else:
            weights, log_scale = self.scaled(mantissa, exponent, scratch)
        scores = _cast(weights, self.sums, scratch) @ self.sums
        if further is not None:
            further = weights @ further.astype(weights.dtype, copy=False)
            scores = np.hstack([scores, further])
        return scores, log_scale

    def scaled(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        scratch: Scratch | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return features of queries on the scale of the sums, and the log of theirs.

        Parameters
        ----------
        mantissa, exponent, scratch
            As for ``average``.

        Returns
        -------
        weights : ndarray of shape (n, m)
            ``F[i, m]`` times ``exp(shift[m])``, divided by ``exp(log_scale[i])``.
        log_scale : ndarray of shape (n, 1)
        """
        if exponent is None:
            dtype = mantissa.dtype  # type: ignore[union-attr]  # not both are None
            total = np.atleast_2d(_finite(self.shift)).astype(dtype)
        else:
            shift = np.asarray(self.shift, dtype=exponent.dtype)
            wide = exponent.shape[1] >= shift.size
            out = exponent if wide and scratch is not None else None
            total = np.add(exponent, shift, out=out)
        log_scale = _finite(total.max(axis=1, keepdims=True))
        total -= log_scale
        weights = np.exp(total, out=total)
        if mantissa is not None:
            weights = _times(mantissa, weights, scratch)
        return weights, log_scale

    def beside(self, columns: np.ndarray) -> FeatureSums:
        """Return these sums with further columns, of features on the same scale."""
        other = FeatureSums()
        other.shift, other.signed = self.shift, self.signed
        other.sums = np.hstack([self.sums, columns])
        return other

    def prefix_averages(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        segments: Sequence[slice | np.ndarray],
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield ``average`` over the first, the first two, ... segments of columns.

        Each feature is computed once: a segment brings its own scale, and the scores
        before it are moved to the larger of the two.
        """
        scores: np.ndarray = 0.0  # type: ignore[assignment]  # of no columns
        log_scale: np.ndarray | float = -np.inf
        for columns in segments:
            part = FeatureSums()
            part.sums = self.sums[columns]
            part.shift = _take(np.atleast_1d(self.shift), columns)
            terms = (_take(features, columns) for features in (mantissa, exponent))
            added, log_added = part.average(*terms)
            nonzero = added.any(axis=1, keepdims=True)
            log_added = np.where(nonzero, log_added, -np.inf)
            total = np.maximum(log_scale, log_added)
            scores = scores * np.exp(log_scale - _finite(total))
            scores = scores + added * np.exp(log_added - _finite(total))
            log_scale = total
            yield scores, _finite(total)


def _take(values, columns):
    """Return these columns of an array; None and one column stand for all."""
    few = values is None or values.shape[-1] == 1
    return values if few else values[..., columns]


def _times(mantissa, factors, scratch):
    """Return the product, in the memory of the larger one where there is scratch."""
    larger = mantissa if mantissa.size > factors.size else factors
    return np.multiply(mantissa, factors, out=None if scratch is None else larger)


def _cast(features, targets, scratch):
    """Return features in the type of the matrix with which they are multiplied."""
    dtype = getattr(targets, "dtype", features.dtype)
    return features if scratch is None else scratch.cast(features, dtype)


class ClassWeights:
    """Weights of rows in the column of their class, for rows sorted by class.

    ``features.T @ weights`` is one product of a matrix and a vector for each class
    of the rows, 3 to 10 times faster than with the matrix written out.
    """

    __array_ufunc__ = None  # NumPy leaves the product to __rmatmul__

    def __init__(self, codes, weights, n_classes):
        self._codes, self._weights, self._n_classes = codes, weights, n_classes

    def __rmatmul__(self, columns):
        sums = np.zeros((columns.shape[0], self._n_classes), dtype=columns.dtype)
        starts = np.flatnonzero(np.diff(self._codes, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], None], strict=True):
            rows = slice(start, stop)
            sums[:, self._codes[start]] = columns[:, rows] @ self._weights[rows]
        return sums
