"""The interface of feature maps, whose output depends only on frequencies and rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from .._compat import array_device, cached_property, is_writeable_array
from .._values import Value
from ..arrays.loops import Workspace, exp_features, kept_workspace, weights_from_logs
from ..arrays.namespaces import (
    Array,
    asarray_like,
    joined,
    like_table,
    namespace_of,
    on_host,
    place_of,
    row_chunks,
)
from ..arrays.threads import effective_n_threads, in_threads
from ..frequencies import Affine, Coupling, Frequencies
from ..rows import Frame, Inputs

Map = TypeVar("Map", bound="FeatureMap")
FMap = TypeVar("FMap", bound="FrequencyMap")
LogFeatures = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class FeatureMap(Value, ABC):
    """Base class of feature maps that give unbiased estimates of a kernel.

    The estimate for two rows is the inner product of their features. A map is
    immutable; a different ``sigma`` or floating-point dtype requires a new map. Unless
    stated otherwise, its methods expect rows that ``frame`` has centred and scaled, as
    arrays of any supported library.

    Attributes
    ----------
    frame : Frame
        The centre that is subtracted from the rows, and the ``sigma`` that scales them.
    n_components : int
        Number of features.
    """

    frame: Frame
    n_components: int
    # factor for the number of pairs whose variances are computed at once
    block_factor: ClassVar[int] = 1

    @property
    def symmetric(self) -> bool:
        """Whether queries and keys have the same features."""
        return True

    @property
    def is_positive(self) -> bool:
        """Whether all features are non-negative."""
        return False

    @property
    def columns_per_frequency(self) -> int:
        """Number of features per frequency."""
        return 1

    @property
    def variance_is_exact(self) -> bool:
        """Whether ``variance`` is exact for the couplings that are used."""
        return True

    @property
    def phase_rate(self) -> float:
        """Largest norm of the frequencies, used to warn about large phases.

        It is 0 if the features contain no sines or cosines, or if large phases are
        computed with a higher precision. Subclasses may override this property.
        """
        return 0.0

    @cached_property
    def tables(self) -> Any:
        """Nested arrays that ``log_features`` needs, computed once.

        The arrays may be nested in tuples, frequencies, affine forms and maps. ``to``
        converts all of them to another library. Subclasses may override this property.
        """
        return ()

    @abstractmethod
    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        """Return the features of a chunk of rows as mantissas and exponents.

        The features are ``mantissa * exp(exponent)``. Because the exponential is not
        evaluated, nothing overflows or underflows. The features of a row do not depend
        on other rows.

        Parameters
        ----------
        rows : Inputs
            Rows that ``frame`` has centred and scaled.
        key : bool, default=False
            Whether to compute the features of keys instead of queries.

        Returns
        -------
        mantissa : array of shape (..., n_rows, n_components) or None
            Mantissas; None means that all of them are 1.
        exponent : array of shape (..., n_rows, n_components), (..., n_rows, 1) or None
            Exponents; None means that all of them are 0.
        """

    @abstractmethod
    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return the kernel that the features estimate.

        Parameters
        ----------
        X, Y : Inputs
            Queries and keys, in float64.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Kernel values for all query-key pairs.
        """

    @abstractmethod
    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return the variance of the kernel estimate over random frequencies.

        Parameters
        ----------
        X, Y : Inputs
            Queries and keys, in float64.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y)
            Variances of the estimates for all query-key pairs.
        """

    def features(self, rows: Inputs, *, key: bool = False) -> Any:
        """Return the features of a chunk of rows.

        Subclasses may override this method if they can compute the features faster
        than through ``log_features``.

        Parameters
        ----------
        rows : Inputs
            Rows that ``frame`` has centred and scaled. The result may be written into
            the array ``rows.output(n_components)``.
        key : bool, default=False
            Whether to compute the features of keys instead of queries.

        Returns
        -------
        features : array of shape (..., n_rows, n_components)
            Features of these rows.
        """
        mantissa, exponent = self.log_features(rows, key=key)
        out = exponent if mantissa is None else mantissa
        return exp_features(mantissa, exponent, out)

    def estimate(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return estimates of the kernel, which are inner products of the features.

        The estimates are computed in log space, so individual features may overflow
        without affecting the result. Subclasses may override this method with a better
        algorithm.

        Parameters
        ----------
        X, Y : Inputs
            Queries and keys, in the floating-point dtype of the map.

        Returns
        -------
        estimate : ndarray of shape (n_X, n_Y)
            Estimates for all query-key pairs.
        """
        queries = mantissa_and_exponent(self.log_features(X), X)
        keys = mantissa_and_exponent(self.log_features(Y, key=True), Y)
        (left, log_left), (right, log_right) = (
            weights_from_logs(exponent, mantissa)
            for mantissa, exponent in (queries, keys)
        )
        product = left @ right.T
        # the product underflows for pairs whose large features are in different columns
        lost = np.abs(product) < 1e10 * np.finfo(product.dtype).tiny
        lost &= queries[1].shape[1] > 1
        with np.errstate(over="ignore", invalid="ignore"):
            root = np.exp((log_left + log_right.T) / 2)  # its square may overflow
            estimate = product * root * root
            for i in np.flatnonzero(lost.any(axis=1)):
                mantissa = queries[0][i] * keys[0][lost[i]]
                logs = queries[1][i] + keys[1][lost[i]]
                terms, peak = weights_from_logs(logs, mantissa)
                total = terms.sum(axis=1)  # 0 if the terms cancel
                total[total != 0] *= np.exp(peak[total != 0, 0])
                estimate[i, lost[i]] = total
        return estimate

    def frequency_index(self) -> np.ndarray | None:
        """Return the index of the frequency from which each column is computed.

        Returns
        -------
        index : ndarray of int of shape (n_components,) or None
            Zero-based indices; None if a column depends on more than one frequency.
        """
        return np.arange(self.n_components)

    def iter_log_features(
        self, X: Any, *, key: bool = False, workspace: Workspace | None = None
    ) -> Iterator[tuple[slice, Any, Any]]:
        """Yield the features of rows chunk by chunk, as mantissas and exponents.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (n_samples, n_features)
            Rows that are neither centred nor scaled, float32 or float64.
        key : bool, default=False
            Whether to compute the features of keys instead of queries.
        workspace : Workspace, default=None
            Reusable memory for temporary arrays, which the next chunk overwrites.

        Yields
        ------
        rows : slice
            The rows of the chunk.
        mantissa, exponent : array or None
            Mantissas and exponents, as returned by ``log_features``.
        """
        feature_map = self.to(X)
        for rows in row_chunks(X, self.n_components):
            unit = feature_map.frame.rows(X[rows, ...], workspace)
            yield rows, *feature_map.log_features(unit, key=key)

    def rescaled(self: Map, sigma: float | np.ndarray) -> Map:
        """Return a map with another sigma and the same frequencies.

        Parameters
        ----------
        sigma : float or ndarray of shape (n_features,)
            New value of the factor by which rows are multiplied.

        Returns
        -------
        map : FeatureMap
            The map with the new sigma. Parameters that ``fit`` derives from sigma keep
            their old values.
        """
        return replace(self, frame=self.frame.with_sigma(sigma))

    def to(self: Map, like: Array) -> Map:
        """Return a copy for the array library, device and dtype of an array.

        Parameters
        ----------
        like : array or sparse matrix
            Array with the library, device and floating-point dtype that the rows will
            have.

        Returns
        -------
        map : FeatureMap
            A copy, which is created once for each library, device and dtype. The kernel
            and its variance are still computed by NumPy.
        """
        place = place_of(like)
        known = self.__dict__.setdefault("_moved", {})
        if place not in known:
            moved, tables = replace(self), move(self.tables, like_table(like))
            changes = {"frame": self.frame.to(like), "tables": tables}
            vars(moved).update(changes, _moved={place: moved})
            # a single assignment, because other threads may read the dictionary
            known[place] = moved
        return known[place]

    def astype(self: Map, dtype: DTypeLike) -> Map:
        """Return the map with its frequencies converted to a floating-point dtype.

        Parameters
        ----------
        dtype : dtype
            Either float32 or float64.

        Returns
        -------
        map : FeatureMap
            The converted map, or this map if it already has the dtype.
        """
        like, changes = np.empty(0, dtype), {}
        for field in fields(self):
            old = getattr(self, field.name)
            new = _field_astype(old, like)
            if new is not old:
                changes[field.name] = new
        return replace(self, **changes) if changes else self

    def __getstate__(self) -> dict[str, object]:
        """Return the fields, without cached tables."""
        state = super().__getstate__()
        # these tables were moved to another library, or combined for several heads, so
        # they cannot be recomputed from the fields
        if "is_resolved" in self.__dict__:
            state |= {"tables": self.tables, "is_resolved": True}
        return state


@dataclass(frozen=True, eq=False)
class FrequencyMap(FeatureMap):
    """Feature map whose frequencies are drawn from one coupling.

    Attributes
    ----------
    frequencies : Frequencies
        Frequencies for rows that ``frame`` has already multiplied by ``sigma``.
    coupling : Coupling
        Joint distribution of the frequencies.
    """

    frequencies: Frequencies
    coupling: Coupling

    def astype(self: FMap, dtype: DTypeLike) -> FMap:
        moved = self.frequencies.to(np.empty(0, dtype))
        return self if moved is self.frequencies else replace(self, frequencies=moved)

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
        """Cosine of the angle between frequencies in a block; None if not fixed."""
        known = self.coupling.independent_norms
        return self.coupling.cosine(self.n_features) if known else None

    @property
    def variance_is_exact(self) -> bool:
        """Whether ``variance`` is exact for the coupling of this map."""
        known = self.n_pairs == 0 or self.cosine is not None
        return known and self.coupling.exact


# ------------------------------------------------------------- features of all rows
def transform(
    feature_map: FeatureMap, X: Any, *, key: bool = False, n_jobs: int | None = None
) -> tuple[Any, int, bool]:
    """Return features, the number of lost rows, and whether any feature overflowed.

    A row is lost if all of its features underflow; with positive features, it is lost
    if at least half of them do.
    """
    feature_map = feature_map.to(X)
    if not on_host(X):
        return _transform_elsewhere(feature_map, X, key)
    out = np.empty((X.shape[0], feature_map.n_components), dtype=X.dtype)

    fill = partial(_fill, feature_map, X, out, key)
    n_threads = effective_n_threads(n_jobs, *out.shape)
    n_lost, overflows = zip(*in_threads(fill, len(out), n_threads), strict=True)
    return out, sum(n_lost), any(overflows)


def _fill(
    feature_map: FeatureMap, X: Any, out: np.ndarray, key: bool, part: slice
) -> tuple[int, bool]:
    """Write features of some rows; return the last two results of ``transform``."""
    X, out = X[part], out[part]
    n_lost, overflows = 0, []
    counted = np.errstate(over="call", call=lambda *_: overflows.append(1))
    with counted, kept_workspace() as workspace:
        for rows in row_chunks(X, out.shape[1], in_place=True):
            chunk = out[rows]
            workspace.lend("features", chunk)
            unit = feature_map.frame.rows(X[rows], workspace)
            features = feature_map.features(unit, key=key)
            if features is not chunk:
                chunk[:] = features
            n_lost += _count_lost(chunk, feature_map.is_positive)
    return n_lost, bool(overflows)


def _count_lost(features: np.ndarray, is_positive: bool) -> int:
    """Return the number of rows that ``transform`` calls lost."""
    # If half of the features of a row are zero, one of 16 columns almost surely is.
    # Reading all columns would take several percent of the time of computing them.
    n_columns = features.shape[1]
    probes = features[:, :: max(1, n_columns // 16)] if is_positive else features[:, :1]
    if probes.all():
        return 0
    suspects = features[~probes.all(axis=1)]
    n_zeros = n_columns - np.count_nonzero(suspects, axis=1)
    return int(
        np.sum(2 * n_zeros >= n_columns if is_positive else n_zeros == n_columns)
    )


def _transform_elsewhere(
    feature_map: FeatureMap, X: Any, key: bool
) -> tuple[Any, int, bool]:
    """Return the results of ``transform`` for rows on a device, in large chunks."""
    xp, parts = namespace_of(X), []
    shape = X.shape[0], feature_map.n_components
    chunks = list(row_chunks(X, shape[1]))
    whole = None
    if len(chunks) > 1 and is_writeable_array(X):
        whole = xp.empty(shape, dtype=X.dtype, device=array_device(X))
    peaks, zeros = [], []
    for rows in chunks:
        unit = feature_map.frame.rows(X[rows, ...])
        features = feature_map.features(unit, key=key)
        peaks.append(xp.max(xp.abs(features), axis=1))
        if feature_map.is_positive:
            zeros.append(xp.sum(xp.astype(features == 0, xp.int64), axis=1))
        if whole is None:
            parts.append(features)
        else:
            whole[rows, :] = features
    peak = joined(peaks)  # this waits for the device, but only once
    lost = 2 * joined(zeros) >= shape[1] if zeros else peak == 0
    n_lost = int(xp.count_nonzero(lost))
    overflow = bool(xp.any(xp.isinf(peak)))
    return joined(parts) if whole is None else whole, n_lost, overflow


# ------------------------------------------------------------- parts of several maps
@dataclass(frozen=True)
class PairedColumns:
    """Layout of features with two columns per frequency: all cosines, then all sines.

    If the number of columns is odd, the last frequency has a single column, which is a
    cosine with a random phase.
    """

    n_pairs: int
    n_single: int
    per_frequency: int = 2

    @classmethod
    def of(cls, n_components: int, *, single: bool = False) -> PairedColumns:
        """Return the layout for a number of columns, without pairs if ``single``."""
        return cls(0, n_components, 1) if single else cls(*divmod(n_components, 2))

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.n_pairs + self.n_single

    @property
    def index(self) -> np.ndarray:
        """Index of the frequency of each column."""
        pairs = np.arange(self.n_pairs)
        return np.concatenate([pairs, pairs, self.n_pairs + np.arange(self.n_single)])


def mantissa_and_exponent(features: LogFeatures, rows: Inputs) -> tuple[Array, Array]:
    """Return the mantissas and exponents of ``log_features`` as arrays.

    If the mantissas are None, they are replaced by a column of ones; if the exponents
    are None, by a column of zeros.
    """
    mantissa, exponent = features
    return (
        rows.zeros() + 1 if mantissa is None else mantissa,
        rows.zeros() if exponent is None else exponent,
    )


@dataclass(frozen=True, eq=False)
class PairedMap(FrequencyMap):
    """A map with two columns for most of its frequencies."""

    columns: PairedColumns

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    def frequency_index(self) -> np.ndarray:
        return self.columns.index


# ------------------------------------------------------------------- nested arrays
def move(tree: Any, like: Array) -> Any:
    """Return a copy of a tree with its arrays in the library and dtype of ``like``."""
    if isinstance(tree, tuple):
        nodes = []
        for node in tree:
            nodes.append(node if isinstance(node, _PLAIN) else move(node, like))
        return like_tuple(tree, nodes)
    if isinstance(tree, (FeatureMap, Frequencies, Affine)):
        return tree.to(like)
    return asarray_like(tree, like) if hasattr(tree, "shape") else tree


_PLAIN = (int, float, slice, type(None))


def _field_astype(value: Any, like: np.ndarray) -> Any:
    """Convert a field, or the fields in a tuple, to another floating-point dtype."""
    if isinstance(value, FeatureMap):
        return value.astype(like.dtype)
    if isinstance(value, Frequencies):
        return value.to(like)
    if isinstance(value, tuple):
        parts = [_field_astype(part, like) for part in value]
        same = all(new is old for new, old in zip(parts, value, strict=True))
        return value if same else like_tuple(value, parts)
    return value


def like_tuple(old: tuple[Any, ...], values: list[Any]) -> Any:
    """Return the values as a tuple or named tuple, whichever type ``old`` has."""
    return getattr(old, "_make", tuple)(values)
