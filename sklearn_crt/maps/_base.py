"""The interface of a drawn map: a value that knows frequencies and rows, no more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ..frequencies import Coupling, Frequencies
from ..rows import Frame, UnitRows

Map = TypeVar("Map", bound="FeatureMap")
LogFeatures = tuple[np.ndarray | None, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class FeatureMap(ABC):
    """Features whose inner products estimate a kernel, without bias.

    It is immutable: another bandwidth or type is another map. Rows come as
    :class:`~sklearn_crt.rows.UnitRows`, which ``frame`` makes of raw rows.

    Attributes
    ----------
    frame : Frame
        Centre and sigma.
    n_components : int
        Number of columns.
    """

    frame: Frame
    n_components: int
    block_factor: ClassVar[int] = 1  # of the pairs whose variances are taken at once

    @property
    def symmetric(self) -> bool:
        """Whether both sides have the same features."""
        return True

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency."""
        return 1

    @property
    def variance_is_exact(self) -> bool:
        """Whether ``variance`` is that of the couplings in use."""
        return True

    @abstractmethod
    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        """Return the features of a chunk as mantissa and exponent.

        Features are ``mantissa * exp(exponent)``, so nothing over- or underflows. A row
        depends on no other row.

        Parameters
        ----------
        rows : UnitRows
            Of ``frame``, in the type of the map.
        key : bool, default=False
            Whether to take the map of the key side.
        out : ndarray of shape (n_rows, n_components), default=None
            Room that may be written to and returned; made where it is None.

        Returns
        -------
        mantissa : ndarray of shape (n_rows, n_components) or None
            None stands for ones.
        exponent : ndarray of shape (n_rows, n_components), (n_rows, 1) or None
            None stands for zeros.
        """

    @abstractmethod
    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the kernel that the features estimate.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides, in float64.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Of all pairs.
        """

    @abstractmethod
    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the variance of the estimate over the frequencies.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides, in float64.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y)
            Of all pairs.
        """

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        """Write the features of a chunk.

        A hook: a map of maps may know a faster way than through ``log_features``.

        Parameters
        ----------
        rows : UnitRows
            Of ``frame``, in the type of the map.
        out : ndarray of shape (n_rows, n_components)
            Overwritten.
        key : bool, default=False
            Whether to take the map of the key side.
        """
        mantissa, exponent = self.log_features(rows, key=key, out=out)
        if exponent is None:
            if mantissa is not out:
                out[:] = mantissa
        elif mantissa is None:
            np.exp(exponent, out=out)
        else:
            np.multiply(mantissa, np.exp(exponent, out=exponent), out=out)

    def may_vanish(self, rows: UnitRows) -> bool:
        """Return whether all features of a row can be too small for their type.

        A hook: where a map knows better, no one looks for zeros.

        Parameters
        ----------
        rows : UnitRows
            Of ``frame``.

        Returns
        -------
        may_vanish : bool
            False only if each of these rows has a feature that is not zero.
        """
        return True

    def estimate(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the estimates of the kernel, the inner products of the features.

        Computed in log space: finite wherever the estimate itself is. A hook, for maps
        that know a better way.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides, in the type of the map.

        Returns
        -------
        estimate : ndarray of shape (n_X, n_Y)
            Of all pairs.
        """
        queries = _filled(self.log_features(X), X)
        keys = _filled(self.log_features(Y, key=True), Y)
        (left, log_left), (right, log_right) = map(_scale_rows, (queries, keys))
        product = left @ right.T
        # where the large features of two rows stand in different columns
        lost = np.abs(product) < 1e10 * np.finfo(product.dtype).tiny
        lost &= queries[1].shape[1] > 1
        with np.errstate(over="ignore", invalid="ignore"):
            root = np.exp((log_left + log_right.T) / 2)  # the square may overflow
            estimate = product * root * root
            for i in np.flatnonzero(lost.any(axis=1)):
                mantissa = queries[0][i] * keys[0][lost[i]]
                terms, peak = _scale_rows((mantissa, queries[1][i] + keys[1][lost[i]]))
                estimate[i, lost[i]] = terms.sum(axis=1) * np.exp(peak[:, 0])
        return estimate

    def frequency_index(self) -> np.ndarray | None:
        """Return the index of the frequency behind each column.

        Returns
        -------
        index : ndarray of int of shape (n_components,) or None
            Numbers from 0; None where columns have no frequency of their own.
        """
        return np.arange(self.n_components)

    def prefix(self, n_components: int) -> np.ndarray | None:
        """Return the columns that make the map of fewer components.

        Parameters
        ----------
        n_components : int
            Their number, at most that of this map.

        Returns
        -------
        columns : ndarray of int of shape (n_components,) or None
            Times one number they are the features of that map; None where these are
            not among the columns (an odd number of sines and cosines).
        """
        if n_components == self.n_components:
            return np.arange(n_components)
        index = self.frequency_index()
        if index is None:
            return None
        columns = np.flatnonzero(index < n_components // self.columns_per_frequency)
        return columns if columns.size == n_components else None

    def rescaled(self: Map, sigma: float | np.ndarray) -> Map:
        """Return the map of another sigma with the same frequencies.

        Parameters
        ----------
        sigma : float or ndarray of shape (n_features,)
            The multiplier.

        Returns
        -------
        map : FeatureMap
            A new value; parameters that a sampler would choose anew stay.
        """
        return replace(self, frame=self.frame.with_sigma(sigma))

    def to(self: Map, dtype: DTypeLike) -> Map:
        """Return the map for rows of a floating type.

        Parameters
        ----------
        dtype : dtype
            One of float32 and float64.

        Returns
        -------
        map : FeatureMap
            This one, or a copy that is made once for each type.
        """
        dtype = np.dtype(dtype)
        typed = self.__dict__.setdefault("_typed", {})
        if dtype not in typed:
            changes = {}
            for field in fields(self):
                value = getattr(self, field.name)
                if isinstance(value, (FeatureMap, Frequencies, tuple)):
                    new = _to(value, dtype)
                    if new is not value:
                        changes[field.name] = new
            typed[dtype] = replace(self, **changes) if changes else None
        return self if typed[dtype] is None else typed[dtype]

    def __getstate__(self) -> dict[str, object]:
        """Return the fields: tables that are made once are made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the fields."""
        self.__dict__.update(state)


@dataclass(frozen=True, eq=False)
class FrequencyMap(FeatureMap):
    """A map with frequencies of one coupling.

    Attributes
    ----------
    frequencies : Frequencies
        At unit bandwidth.
    coupling : Coupling
        Their joint law, on which the variance depends.
    """

    frequencies: Frequencies
    coupling: Coupling

    @property
    def n_frequencies(self) -> int:
        """Number m of frequencies."""
        return self.frequencies.n_frequencies

    @property
    def n_features(self) -> int:
        """Dimension d of the frequencies."""
        return self.frequencies.n_features

    @property
    def n_pairs(self) -> int:
        """Number of ordered pairs of frequencies that share a block."""
        return self.coupling.n_pairs(self.n_frequencies, self.n_features)

    @property
    def cosine(self) -> float | None:
        """Cosine of the angle of such a pair where what it saves is known, or None.

        A hook: a map whose closed form holds for some angles only says which.
        """
        return self.coupling.fixed_cosine(self.n_features)

    @property
    def variance_is_exact(self) -> bool:
        """Whether ``variance`` is that of the coupling in use."""
        known = self.n_pairs == 0 or self.cosine is not None
        return known and self.coupling.exact


def _to(value: Any, dtype: np.dtype) -> Any:
    """Return a field in another type: itself where it has none, lists one by one."""
    if isinstance(value, (FeatureMap, Frequencies)):
        return value.to(dtype)
    if isinstance(value, tuple):
        parts = [_to(part, dtype) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        if same:
            return value
        make = getattr(value, "_make", tuple)  # named tuples keep their names
        return make(parts)
    return value


def _filled(features: LogFeatures, rows: UnitRows) -> tuple[np.ndarray, np.ndarray]:
    """Return mantissas and exponents as arrays; either may have one column."""
    shape, dtype = (rows.shape[0], 1), rows.dtype
    mantissa, exponent = features
    return (
        np.ones(shape, dtype) if mantissa is None else mantissa,
        np.zeros(shape, dtype) if exponent is None else exponent,
    )


def _scale_rows(
    features: tuple[np.ndarray, np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Return features divided by one factor a row, and the factors' logs."""
    mantissa, exponent = features
    log_scale = exponent.max(axis=1, keepdims=True)
    log_scale = np.where(np.isfinite(log_scale), log_scale, 0)
    return mantissa * np.exp(exponent - log_scale), log_scale
