"""Maps as arrays of one library: NumPy, torch, JAX, CuPy or another.

A map of this package is drawn with NumPy. ``port`` copies what it was drawn to into the
library of other arrays, where its log features are computed by that library alone.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import singledispatch
from typing import Any

import numpy as np

from .._arrays import Array, columns, moved, namespace_of, to_host
from .._dispatch import float_types
from ..rows import Frame
from ._exponential import ExponentialMap
from ._positive import PositiveMap
from ._trigonometric import LARGE_PHASE, TrigonometricMap


class PortedPart:
    """What has arrays among its fields, in a ported map."""


class PortedMap(PortedPart, ABC):
    """A map as arrays of one library.

    Subclasses must be dataclasses (``frozen=True, eq=False``), since maps of several
    heads are stacked, and arrays are exchanged, field by field. Fields are arrays with
    two axes or more, other ported maps, tuples of these, or numbers. Leading axes are
    one map each (a head each); they broadcast against those of the rows.
    """

    @abstractmethod
    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        """Return the features of rows as mantissa and exponent.

        Features are ``mantissa * exp(exponent)``.

        Parameters
        ----------
        rows : array of shape (..., n_rows, n_features)
            Raw rows.
        key : bool, default=False
            Whether to take the map of the key side.

        Returns
        -------
        mantissa : array of shape (..., n_rows, n_components) or None
            None stands for ones: all features are positive.
        exponent : array of shape (..., n_rows, n_components or 1) or None
            None stands for zeros.
        """

    @property
    @abstractmethod
    def is_positive(self) -> bool:
        """Whether no feature is negative."""

    @property
    def n_components(self) -> int | None:
        """Number of columns, None where it is that of the rows."""
        return None

    def frequency_index(self) -> np.ndarray | None:
        """Return the index of the frequency behind each column.

        Returns
        -------
        index : ndarray of int of shape (n_components,) or None
            None where columns have no frequency of their own.
        """
        return None


@dataclass(frozen=True, eq=False)
class PortedFrame(PortedPart):
    """Centre and sigma of the rows of a ported map.

    Parameters
    ----------
    sigma : float or array of shape (..., 1, n_features)
        Multiplier of the columns.
    center : array of shape (..., 1, n_features) or None
        Subtracted first.
    """

    sigma: float | Array
    center: Array | None

    def rows(self, X: Array) -> tuple[Array, Array, Array]:
        """Return rows at unit bandwidth and their norms.

        Parameters
        ----------
        X : array of shape (..., n_rows, n_features)
            Raw rows.

        Returns
        -------
        rows : array of shape (..., n_rows, n_features)
            sigma times the centred rows.
        sq_norms, raw_sq_norms : array of shape (..., n_rows, 1)
            Squared norms of these, and of sigma times the raw rows.
        """
        raw = X * self.sigma
        raw_sq_norms = sq_norms(raw)
        if self.center is None:
            return raw, raw_sq_norms, raw_sq_norms
        rows = (X - self.center) * self.sigma
        return rows, sq_norms(rows), raw_sq_norms


@dataclass(frozen=True, eq=False)
class PortedPositive(PortedMap):
    """Positive features of single frequencies or pairs w, -w, A among the arrays.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    weights : array of shape (..., n_features, n_frequencies)
        One frequency a column.
    sq_norms : array of shape (..., 1, n_frequencies)
        Their squared norms.
    A : array of shape (..., 1, 1)
        Coefficient of the squared norms.
    n_pairs : int
        Number of frequencies that stand for w and -w, which come first.
    softmax : bool
        Whether the kernel is the softmax kernel, not the Gaussian one.
    """

    frame: PortedFrame
    weights: Array
    sq_norms: Array
    A: Array
    n_pairs: int
    softmax: bool

    is_positive = True

    @property
    def n_components(self) -> int | None:
        return self.weights.shape[-1] + self.n_pairs

    def frequency_index(self) -> np.ndarray | None:
        return pair_index(self.n_pairs, self.weights.shape[-1])

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp, (d, m) = namespace_of(rows), self.weights.shape[-2:]
        rows, squares, raw_squares = self.frame.rows(rows)
        row_term = 0.5 * raw_squares - squares if self.softmax else -squares
        constant = 0.25 * d * xp.log1p(-4 * self.A) - 0.5 * math.log(m)
        offsets = self.A * self.sq_norms + constant
        # one product of (x, 1, row term) and the stacked weights, offsets and ones
        columns = [rows, xp.ones_like(row_term), row_term]
        weights = xp.sqrt(1 - 4 * self.A) * self.weights
        stacked = [weights, offsets, xp.ones_like(offsets)]
        plus = xp.matmul(xp.concat(columns, axis=-1), xp.concat(stacked, axis=-2))
        even = row_term + offsets if self.n_pairs else None
        return None, pairs_and_singles(plus, even, self.n_pairs)


def pairs_and_singles(plus: Array, even: Array, n_pairs: int) -> Array:
    """Return the exponents of w and -w for pairs, then those of single frequencies.

    Parameters
    ----------
    plus : array of shape (..., n_rows, n_frequencies)
        Exponents of all w, without the factor of a pair.
    even : array of shape (..., n_rows, n_frequencies)
        Their part that is even in w.
    n_pairs : int
        Number of frequencies that stand for w and -w, which come first.

    Returns
    -------
    exponents : array of shape (..., n_rows, n_frequencies + n_pairs)
        All w of pairs first.
    """
    n = n_pairs
    if n == 0:
        return plus
    half = 0.5 * math.log(2)
    minus = 2 * even[..., :n] - plus[..., :n] - half
    return namespace_of(plus).concat(
        [plus[..., :n] - half, minus, plus[..., n:]], axis=-1
    )


def pair_index(n_pairs: int, n_frequencies: int) -> np.ndarray:
    """Return the frequency behind each column: pairs twice, then single ones.

    Parameters
    ----------
    n_pairs, n_frequencies : int
        Numbers of frequencies with two columns, which come first, and of all.

    Returns
    -------
    index : ndarray of int of shape (n_frequencies + n_pairs,)
        Numbers from 0.
    """
    pairs = np.arange(n_pairs)
    return np.concatenate([pairs, pairs, np.arange(n_pairs, n_frequencies)])


@dataclass(frozen=True, eq=False)
class PortedTrigonometric(PortedMap):
    """Sines and cosines, all cosines first.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    weights : array of shape (..., n_features, n_frequencies)
        One frequency a column.
    phase : array of shape (..., 1, n_single or 1)
        Phases of single columns, in radians.
    n_pairs : int
        Number of frequencies with two columns, which come first.
    softmax : bool
        Whether there is a factor for each row that makes the softmax kernel.
    folds : bool, default=False
        Whether float32 phases beyond 2^20 are computed in float64.
    """

    frame: PortedFrame
    weights: Array
    phase: Array
    n_pairs: int
    softmax: bool
    folds: bool = False

    is_positive = False

    def frequency_index(self) -> np.ndarray | None:
        return pair_index(self.n_pairs, self.weights.shape[-1])

    @property
    def n_components(self) -> int | None:
        return self.weights.shape[-1] + self.n_pairs

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp = namespace_of(rows)
        rows, squares, raw_squares = self.frame.rows(rows)
        phases, m = xp.matmul(rows, self.weights), self.weights.shape[-1]
        if self.folds and rows.dtype == xp.float32:
            phases = _fold(phases, rows, squares, self.weights)
        pairs, singles = phases[..., : self.n_pairs], phases[..., self.n_pairs :]
        parts = [xp.cos(pairs), xp.sin(pairs)]
        if self.n_pairs < m:
            parts.append(math.sqrt(2) * xp.cos(singles + self.phase))
        mantissa = xp.concat(parts, axis=-1) / math.sqrt(m)
        return mantissa, 0.5 * raw_squares if self.softmax else None


def _fold(phases: Array, rows: Array, squares: Array, weights: Array) -> Array:
    """Return float32 phases, the large ones from float64 less multiples of 2 pi."""
    xp, wide = namespace_of(rows), float_types(rows)[0]
    largest = xp.max(squares) * xp.sum(weights * weights, axis=-2)
    large = to_host(largest > LARGE_PHASE**2)
    suspects = np.any(large.reshape(-1, large.shape[-1]), axis=0)
    if wide == rows.dtype or not np.any(suspects):
        return phases
    # large phases of a few frequencies, whose columns are put back where they were
    few, rest = np.flatnonzero(suspects), np.flatnonzero(~suspects)
    exact = xp.matmul(xp.astype(rows, wide), xp.astype(columns(weights, few), wide))
    folded = exact - 2 * math.pi * xp.floor(exact / (2 * math.pi))
    near = columns(phases, few)
    folded = xp.where(xp.abs(exact) > LARGE_PHASE, xp.astype(folded, near.dtype), near)
    whole = xp.concat([columns(phases, rest), folded], axis=-1)
    return columns(whole, np.argsort(np.concatenate([rest, few])))


@singledispatch
def port(feature_map: object, like: Array) -> PortedMap:
    """Return a map as arrays of the library of another array.

    Maps of one's own are registered as with any ``functools.singledispatch``:
    ``@port.register``.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    like : array
        Whose library, device and floating type are taken.

    Returns
    -------
    ported : PortedMap
        With copies of the frequencies.

    Raises
    ------
    TypeError
        If the map is of a kind that is not registered.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import PositiveRBFSampler
    >>> from sklearn_crt.maps import port
    >>> X = np.array([[0.5, -1.0]])
    >>> sampler = PositiveRBFSampler(sigma=1.0, n_components=3, random_state=0).fit(X)
    >>> _, exponent = port(sampler.map_, X).log_features(X)
    >>> bool(np.allclose(np.exp(exponent), sampler.transform(X)))
    True
    """
    raise TypeError(
        f"{type(feature_map).__name__} has no form for other array libraries; see "
        "sklearn_crt.maps.port for how to register one."
    )


@port.register
def _(feature_map: ExponentialMap, like: Array) -> PortedMap:
    return port_positive(feature_map, 0, like)


def port_positive(
    feature_map: PositiveMap | ExponentialMap, n_pairs: int, like: Array
) -> PortedPositive:
    """Return positive features with one number A as arrays.

    Parameters
    ----------
    feature_map : PositiveMap or ExponentialMap
        The map.
    n_pairs : int
        Number of frequencies that stand for w and -w.
    like : array
        Whose library, device and floating type are taken.

    Returns
    -------
    ported : PortedPositive
        With A among the arrays.
    """
    frequencies = feature_map.frequencies
    return PortedPositive(
        port_frame(feature_map.frame, like),
        moved(frequencies.to_dense(), like),
        moved(frequencies.sq_norms[None], like),
        moved(np.full((1, 1), feature_map.A), like),
        n_pairs,
        feature_map.gaussian.softmax,
    )


@port.register
def _(feature_map: TrigonometricMap, like: Array) -> PortedMap:
    gaussian = feature_map.gaussian
    return PortedTrigonometric(
        port_frame(feature_map.frame, like),
        moved(feature_map.frequencies.to_dense(), like),
        moved(np.atleast_2d(feature_map.phase), like),
        feature_map.columns.n_pairs,
        gaussian is not None and gaussian.softmax,
        feature_map.folds,
    )


def port_frame(frame: Frame, like: Array) -> PortedFrame:
    """Return centre and sigma as arrays of the library of another array.

    Parameters
    ----------
    frame : Frame
        Centre and sigma.
    like : array
        Whose library, device and floating type are taken.

    Returns
    -------
    frame : PortedFrame
        With copies of them; one number for sigma stays a float.
    """
    sigma, center = frame.sigma, frame.center
    one = np.ndim(sigma) == 0
    return PortedFrame(
        float(sigma) if one else moved(np.atleast_2d(sigma), like),
        None if center is None else moved(np.atleast_2d(center), like),
    )


def stack_maps(maps: Sequence[PortedMap]) -> PortedMap | None:
    """Return several maps as one with a leading axis, None where they differ in kind.

    Parameters
    ----------
    maps : list of PortedMap
        One a head.

    Returns
    -------
    stacked : PortedMap or None
        For rows of shape (..., n_maps, n_rows, n_features).
    """
    try:
        return _stack(list(maps))
    except _DifferError:
        return None


def arrays_of(ported: PortedMap) -> dict[str, Array]:
    """Return the arrays of a map by name, for those who keep them elsewhere.

    Parameters
    ----------
    ported : PortedMap
        The map.

    Returns
    -------
    arrays : dict of str to array
        Names of nested ones are joined by ``"__"``.
    """
    return dict(_walk(ported, ()))


def with_arrays(ported: PortedMap, arrays: dict[str, Array]) -> PortedMap:
    """Return a map with other arrays.

    Parameters
    ----------
    ported : PortedMap
        The map.
    arrays : dict of str to array
        As :func:`arrays_of` names them.

    Returns
    -------
    ported : PortedMap
        A new value.
    """
    return _refill(ported, (), arrays)


def _has_parts(value: Any) -> bool:
    return isinstance(value, PortedPart)


def _walk(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Array]]:
    if hasattr(value, "shape"):
        yield "__".join(path), value
    elif _has_parts(value):
        for field in fields(value):
            yield from _walk(getattr(value, field.name), (*path, field.name))
    elif isinstance(value, tuple):
        for i, part in enumerate(value):
            yield from _walk(part, (*path, str(i)))


def _refill(value: Any, path: tuple[str, ...], arrays: dict[str, Array]) -> Any:
    if hasattr(value, "shape"):
        return arrays["__".join(path)]
    if _has_parts(value):
        names = [field.name for field in fields(value)]
        return replace(
            value, **{n: _refill(getattr(value, n), (*path, n), arrays) for n in names}
        )
    if isinstance(value, tuple):
        parts = enumerate(value)
        return tuple(_refill(part, (*path, str(i)), arrays) for i, part in parts)
    return value


class _DifferError(Exception):
    """Maps that are no axis of one map."""


def _stack(values: list[Any]) -> Any:
    first = values[0]
    if any(type(value) is not type(first) for value in values):
        raise _DifferError
    if _has_parts(first):
        names = [field.name for field in fields(first)]
        stacked = {
            name: _stack([getattr(value, name) for value in values]) for name in names
        }
        return replace(first, **stacked)
    if isinstance(first, tuple):
        if len({len(value) for value in values}) > 1:
            raise _DifferError
        return tuple(_stack(list(parts)) for parts in zip(*values, strict=True))
    if hasattr(first, "shape"):
        if any(value.shape != first.shape for value in values):
            raise _DifferError
        return namespace_of(first).stack(values)
    if any(value != first for value in values):
        raise _DifferError
    return first


def sq_norms(rows: Array) -> Array:
    """Return the squared norms of rows.

    Parameters
    ----------
    rows : array of shape (..., n_rows, n_features)
        Rows.

    Returns
    -------
    squares : array of shape (..., n_rows, 1)
        Their squared norms.
    """
    return namespace_of(rows).sum(rows * rows, axis=-1, keepdims=True)
