"""Encodings of columns for kernels: numbers as scores, and categories as codes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._compat import cached_property
from .._values import Value
from ..life_cycle.intervals import weighted_quantiles
from ..metric._column_features import softly_clipped
from ..rows.raw_table import CATEGORY

# At most this many categories of a column have codes of their own, namely the most
# frequent ones, and only if they have at least this many rows. All others share a code.
_MOST_LEVELS, _LEAST_COUNT = 400, 10
# quantile levels: the outer two limit the values from which the scale is computed
_LEVELS = np.array([0.01, 0.5, 0.99])
# A repeated extreme value is a code if this many rows have it, and if there are this
# many other values. A column has at most _MOST_SPECIAL codes.
_LEAST_SPECIAL, _LEAST_OTHERS, _MOST_SPECIAL = 5, 10, 3
_MOST = 1e6  # scores of a linear model are limited to this number of deviations
_MISSING = np.inf  # code of missing categories, because X cannot be infinite
# If a linear model has more columns than this, they are stored as a sparse array.
_MOST_DENSE = 256


class Score(NamedTuple):
    """Standardised numbers, with missing values replaced by the median.

    Scores are softly clipped, so that outliers keep their order without being far from
    all other rows. The scale is the standard deviation of the values after clipping
    them to their 1 % and 99 % quantiles, so it does not depend on a few huge values.
    """

    source: int
    median: float
    mean: float
    scale: float
    low: float = -np.inf  # smallest value
    high: float = np.inf  # largest value

    @classmethod
    def of(cls, source: int, values: np.ndarray, weights: np.ndarray) -> Score:
        """Fit the score to a column of numbers, some of which may be missing."""
        known = ~np.isnan(values)
        values, weights = values[known], weights[known]
        if not len(values):
            return cls(source, 0.0, 0.0, 1.0)
        (quantiles,) = weighted_quantiles(weights[None], values, _LEVELS)
        low, median, high = map(float, quantiles)
        # if nearly all values are equal, no values are clipped
        if low == high:
            low, high = float(values.min()), float(values.max())
        unit = max(abs(low), abs(high), np.finfo(float).tiny)  # squares could overflow
        inside = np.clip(values, low, high) / unit
        mean = float(np.average(inside, weights=weights))
        scale = float(np.sqrt(np.average((inside - mean) ** 2, weights=weights)))
        constant = scale <= 1e-14 * abs(mean)
        return cls(
            source=source,
            median=median,
            mean=mean * unit,
            scale=1.0 if constant else scale * unit,
            low=float(values.min()),
            high=float(values.max()),
        )

    @staticmethod
    def encode(
        scores: np.ndarray, values: np.ndarray, *, clipped: bool, beyond: bool
    ) -> np.ndarray:
        """Return the scores of columns of numbers, (n, n_scores)."""
        _, medians, means, scales, lows, highs = scores.T
        values = np.where(np.isnan(values), medians, values)
        if not beyond:
            values = np.clip(values, lows, highs)
        with np.errstate(over="ignore"):
            found = np.clip((values - means) / scales, -1e100, 1e100)
        return softly_clipped(found) if clipped else np.clip(found, -_MOST, _MOST)


class Level(NamedTuple):
    """Codes of the frequent categories of a column, and one code for all others."""

    source: int
    # sorted; infinity: missing values, if frequent; NaN (last): all other categories
    levels: np.ndarray

    @classmethod
    def of(
        cls, source: int, values: np.ndarray, most: int | None, least_count: int
    ) -> Level:
        """Return the codes of the most frequent categories with enough rows."""
        values = np.where(np.isnan(values), _MISSING, values)
        levels, counts = np.unique(values, return_counts=True)
        chosen = np.argsort(-counts, kind="stable")[:most]
        chosen = np.sort(chosen[counts[chosen] >= least_count])
        return cls(source, np.append(levels[chosen], np.nan))

    @staticmethod
    def encode(columns: Sequence[Level], values: np.ndarray) -> np.ndarray:
        """Return positive codes for frequent categories, and 0 for all others."""
        values = np.where(np.isnan(values), _MISSING, values)
        for column, each in zip(columns, values.T, strict=True):
            places = np.searchsorted(column.levels, each)
            each[:] = np.where(column.levels[places] == each, places + 1, 0)
        return values


@dataclass(frozen=True, eq=False)
class Encoding(Value):
    """Encodes the matrix of a table as scores and codes, which a kernel compares.

    Each term of the ANOVA kernel compares a single encoded column, or all encoded
    columns of a group that the user has defined.
    """

    columns: tuple[Score | Level, ...]
    terms: tuple[tuple[int, ...], ...]  # encoded columns of each term
    owners: tuple[int, ...]  # group of columns to which each term belongs
    groups: tuple[tuple[int, ...], ...]  # columns of the table, by group
    # columns of numbers, and values in them that are codes, such as -999999
    special: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(
        cls,
        V: np.ndarray,
        weights: np.ndarray,
        kinds: tuple[str, ...],
        groups: Iterable[Iterable[int]],
    ) -> Encoding:
        """Return the encoding fitted to the matrix that a table reader returns."""
        # V (n, d), weights (n,)
        V = V.astype(np.float64, copy=False)
        grouped = {j for group in groups for j in group}
        alone = [[j] for j in range(V.shape[1]) if j not in grouped]
        every = sorted([*map(sorted, groups), *alone])
        columns: list[Score | Level] = []
        terms, owners, special = [], [], list[tuple[int, float]]()
        for owner, group in enumerate(every):
            first = len(columns)
            for j in group:
                if kinds[j] == CATEGORY:
                    columns.append(Level.of(j, V[:, j], _MOST_LEVELS, _LEAST_COUNT))
                else:
                    special += [(j, value) for value in _special_values(V[:, j])]
                    numbers = _without(special, j, V[:, j])
                    columns.append(Score.of(j, numbers, weights))
            terms.append(tuple(range(first, len(columns))))
            owners.append(owner)
            for j in group:  # missing values form a separate term
                if kinds[j] != CATEGORY and np.isnan(V[:, j]).any():
                    terms.append((len(columns),))
                    owners.append(owner)
                    columns.append(Level(j, np.array([_MISSING, np.nan])))
                for value in (v for k, v in special if k == j):
                    terms.append((len(columns),))
                    owners.append(owner)
                    columns.append(Level(j, np.array([value, np.nan])))
        own = tuple(tuple(group) for group in every)
        return cls(
            columns=tuple(columns),
            terms=tuple(terms),
            owners=tuple(owners),
            groups=own,
            special=tuple(special),
        )

    def transform(
        self, V: np.ndarray, *, clipped: bool = True, beyond: bool = False
    ) -> np.ndarray:
        """Return scores and codes, (n, n_encoded), in float64.

        Unless scores may be ``beyond`` the range of the training rows, values outside
        of it count as its ends. Functions of a kernel are then constant there, instead
        of returning to their mean, because the kernel vanishes at large distances.
        """
        V = V.astype(np.float64, copy=False)
        encoded, is_score = np.empty((len(V), len(self.columns))), self.is_score
        scores, levels = self._scores_and_levels
        values = V[:, scores[:, 0].astype(np.intp)]
        for place, j in enumerate(scores[:, 0].astype(np.intp) if self.special else ()):
            values[:, place] = _without(self.special, j, values[:, place])
        options = {"clipped": clipped, "beyond": beyond}
        encoded[:, is_score] = Score.encode(scores, values, **options)
        values = V[:, [level.source for level in levels]]
        encoded[:, ~is_score] = Level.encode(levels, values)
        return encoded

    @cached_property
    def _scores_and_levels(self) -> tuple[np.ndarray, list[Level]]:
        """The parameters of scores, (n_scores, 6), and the columns with codes."""
        scores = [column for column in self.columns if isinstance(column, Score)]
        levels = [column for column in self.columns if isinstance(column, Level)]
        return np.array(scores).reshape(-1, 6), levels

    @cached_property
    def is_score(self) -> np.ndarray:
        """Whether each encoded column consists of scores, (n_encoded,)."""
        return np.array([isinstance(column, Score) for column in self.columns])

    @cached_property
    def _indicators(self) -> tuple[np.ndarray, np.ndarray]:
        """The encoded column and the code of each indicator, (n_indicators,)."""
        n_codes = [0 if isinstance(c, Score) else len(c.levels) for c in self.columns]
        codes = np.concatenate([[], *map(np.arange, n_codes)])
        return np.repeat(np.arange(len(n_codes)), n_codes), codes

    @property
    def one_hot_sources(self) -> np.ndarray:
        """The table's column from which each column of ``one_hot`` is computed."""
        sources = np.array([column.source for column in self.columns], np.intp)
        return np.append(sources[self.is_score], sources[self._indicators[0]])

    def one_hot(self, V: np.ndarray) -> np.ndarray:
        """Return scores, followed by one indicator per code, in float64."""
        encoded = self.transform(V, beyond=True)
        columns, codes = self._indicators
        return np.hstack([encoded[:, self.is_score], encoded[:, columns] == codes])

    def with_all_levels(self, V: np.ndarray) -> Encoding:
        """Return an encoding in which each category of the given rows has a code."""
        numbers = {c.source for c in self.columns if isinstance(c, Score)}
        columns = (
            column
            if column.source in numbers
            else Level.of(column.source, V[:, column.source], None, 1)
            for column in self.columns
        )
        return replace(self, columns=tuple(columns))

    @property
    def has_sparse_columns(self) -> bool:
        """Whether the columns of a linear model form a sparse array."""
        return len(self.one_hot_sources) > _MOST_DENSE

    def linear(self, V: np.ndarray, *, clipped: bool = False) -> Any:
        """Return the columns of ``one_hot`` for a linear model.

        By default, scores are not clipped. The result is a sparse array if there are
        many columns.
        """
        encoded = self.transform(V, clipped=clipped, beyond=True)
        is_score = self.is_score
        columns, codes = self._indicators
        if not self.has_sparse_columns:
            return np.hstack([encoded[:, is_score], encoded[:, columns] == codes])
        n_codes = [len(c.levels) for c in self.columns if isinstance(c, Level)]
        places = encoded[:, ~is_score].astype(np.intp)
        places += np.cumsum([0, *n_codes], dtype=np.intp)[:-1]
        ends = np.arange(len(V) + 1) * places.shape[1]
        flags = np.ones(places.size), places.ravel(), ends
        indicators = sparse.csr_array(flags, shape=(len(V), sum(n_codes)))
        scores = sparse.csr_array(encoded[:, is_score])
        return sparse.hstack([scores, indicators], format="csr")


def _special_values(values: np.ndarray) -> list[float]:
    """Return repeated extreme values that are far from all others.

    These are codes, for instance of missing values. At least _LEAST_SPECIAL rows have
    the value, and its distance from the others exceeds three times their range.
    """
    distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    found = []
    for _ in range(_MOST_SPECIAL):
        for end, rest in ((0, slice(1, None)), (-1, slice(None, -1))):
            others = distinct[rest]
            if len(others) < _LEAST_OTHERS or counts[end] < _LEAST_SPECIAL:
                continue
            with np.errstate(over="ignore"):
                is_far = abs(others[end] - distinct[end]) > 3 * np.ptp(others)
            if is_far:
                found.append(float(distinct[end]))
                distinct, counts = others, counts[rest]
                break
    return found


def _without(
    special: Iterable[tuple[int, float]], j: int, values: np.ndarray
) -> np.ndarray:
    """Return the values of a column with codes replaced by missing values."""
    codes = [value for column, value in special if column == j]
    return np.where(np.isin(values, codes), np.nan, values) if codes else values
