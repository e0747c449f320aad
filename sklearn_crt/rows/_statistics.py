"""Everything that ``fit`` reads of the rows, as one value that merges."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np

from ._covariance import Covariance
from ._moments import Moments
from ._row_sample import RowSample
from ._unit_rows import Rows

T = TypeVar("T", Moments, RowSample)


@dataclass(frozen=True, eq=False)
class Statistics:
    """What ``fit`` reads of the rows of one side or two; ``a + b`` is that of both.

    A map is a function of the parameters of its sampler and of this value: of the
    moments, of second moments of pairs of columns or of some rows a side where a
    mechanism needs them, and of the seed.

    Attributes
    ----------
    seed : tuple of int
        Of the frequencies and of the samples of rows.
    query : Moments or None
        Of the rows of the query side; None before any rows.
    key_moments : Moments or None
        Of the rows of the key side; None where it is the query side.
    sample : RowSample or None
        Rows of both sides, for the median distance; None where nothing asks for it.
    query_sample, key_sample : RowSample or None
        Rows of each side; None where nothing asks for them.
    query_covariance, key_covariance : Covariance or None
        Of each side; None where nothing asks for them, or where there is one side.
    """

    seed: tuple[int, ...]
    query: Moments = None  # type: ignore[assignment]  # nobody asks before any rows
    key_moments: Moments | None = None
    sample: RowSample | None = None
    query_sample: RowSample | None = None
    key_sample: RowSample | None = None
    query_covariance: Covariance | None = None
    key_covariance: Covariance | None = None

    @property
    def key(self) -> Moments:
        """Moments of the key side."""
        return self.query if self.key_moments is None else self.key_moments

    @property
    def both(self) -> Moments:
        """Moments of the rows of both sides together."""
        return self.query if self.key_moments is None else self.query + self.key_moments

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.query.mean.size

    @property
    def side_samples(self) -> list[RowSample]:
        """The samples of the query side and, where that is another, of the key side."""
        both = self.query_sample, self.key_sample
        return [sample for sample in both if sample is not None]

    def frequency_stream(self) -> np.random.Generator:
        """Return the generator of the frequencies, at its beginning.

        Returns
        -------
        rng : numpy.random.Generator
            Independent of those of the samples of rows.
        """
        return np.random.default_rng(self.seed).spawn(2)[0]

    def _row_stream(self, side: int | None) -> np.random.Generator:
        rng = np.random.default_rng(self.seed).spawn(2)[1]
        return rng if side is None else rng.spawn(2)[side]

    def read(
        self,
        X: Rows,
        X_key: Rows | None = None,
        sample_weight: np.ndarray | None = None,
        *,
        median: bool = False,
        rows: bool = False,
        n_rows: int = 1000,
        covariance: bool = False,
        n_before: int = 0,
    ) -> Statistics:
        """Return the statistics of the rows so far and of further ones.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Rows of the query side.
        X_key : {ndarray, sparse matrix} of shape (n_keys, n_features), default=None
            Rows of the key side where it is another.
        sample_weight : ndarray of shape (n_rows,), default=None
            Weights of the rows of X.
        median, rows : bool, default=False
            Whether to keep a sample of all rows, and one of each side.
        n_rows : int, default=1000
            Size of the samples of each side.
        covariance : bool, default=False
            Whether to read second moments of pairs of columns.
        n_before : int, default=0
            Number of rows of the table before these, which others read: the samples
            of parts of a table are then that of the table.

        Returns
        -------
        statistics : Statistics
            A new value.
        """

        def sampled(
            old: RowSample | None,
            Z: Rows,
            weights: np.ndarray | None,
            side: int | None,
            size: int = 1000,
        ) -> RowSample:
            before = n_before if old is None else old.n_seen
            new = RowSample.of(Z, weights, self._row_stream(side), before, size)
            return new if old is None else old + new

        changes: dict[str, Any] = {
            "query": _sum(self.query, Moments.of(X, sample_weight))
        }
        if median:
            changes["sample"] = sampled(self.sample, X, sample_weight, None)
        if rows:
            old = self.query_sample
            changes["query_sample"] = sampled(old, X, sample_weight, 0, n_rows)
        if covariance:
            new = Covariance.of(X, sample_weight)
            changes["query_covariance"] = _sum(self.query_covariance, new)
            if X_key is not None:
                new = Covariance.of(X_key)
                changes["key_covariance"] = _sum(self.key_covariance, new)
        if X_key is not None:
            changes["key_moments"] = _sum(self.key_moments, Moments.of(X_key))
            if median:
                changes["sample"] = sampled(changes["sample"], X_key, None, None)
            if rows:
                changes["key_sample"] = sampled(self.key_sample, X_key, None, 1, n_rows)
        return replace(self, **changes)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of both sets of rows, with the seed of the first."""
        names = [field.name for field in fields(self) if field.name != "seed"]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        sums: dict[str, Any] = {name: _sum(*pair) for name, pair in pairs.items()}
        return replace(self, **sums)

    def without_rows(self) -> Statistics:
        """Return the same without the samples of rows.

        Returns
        -------
        statistics : Statistics
            Moments of columns alone.
        """
        return replace(self, sample=None, query_sample=None, key_sample=None)


def _sum(a: T | None, b: T | None) -> T | None:
    """Return a + b, where None is nothing."""
    if a is None or b is None:
        return b if a is None else a
    return a + b
