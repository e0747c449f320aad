"""How the columns of a hybrid are split over its maps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ._clustered import ClusteredSampler
from ._parts import columns_per_frequency


@dataclass(frozen=True)
class Layout:
    """Columns of the maps of a hybrid.

    Attributes
    ----------
    units : list of int
        Columns of one frequency of each base map.
    least : int
        Least number of frequencies of each base map.
    plain : list of int
        One for a base map that also stands alone, times a constant; else 0.
    counts : list of int
        Columns of one frequency of each coefficient map, or all of them.
    n : int
        Frequencies of each coefficient map.
    """

    units: list[int]
    least: int
    plain: list[int]
    counts: list[int]
    n: int = 1

    @classmethod
    def of(
        cls, bases: Sequence[Any], constants: Sequence[float], counts: Sequence[int]
    ) -> Layout:
        """Return the layout for one frequency of each coefficient.

        Parameters
        ----------
        bases : list of samplers
            The base maps, unfitted.
        constants : list of float
            The constant parts of the coefficients.
        counts : list of int
            Columns of the coefficients.

        Returns
        -------
        layout : Layout
            With n = 1.
        """
        units = [columns_per_frequency(base) for base in bases]
        least = 1
        for base, unit in zip(bases, units, strict=True):
            if isinstance(base, ClusteredSampler):
                least = max(least, -(-base.min_components // unit))
        plain = [int(a != 0) for a in (*constants, 1 - sum(constants))]
        return cls(units, least, plain, list(counts))

    def with_coefficients(self, n: int) -> Layout:
        """Return the layout with n frequencies of each coefficient map.

        Parameters
        ----------
        n : int
            Their number.

        Returns
        -------
        layout : Layout
            A new value.
        """
        return replace(self, n=n)

    @property
    def n_coefficients(self) -> list[int]:
        """Columns of the coefficient maps."""
        return [self.n * count for count in self.counts]

    @property
    def costs(self) -> list[int]:
        """Columns of the hybrid for one frequency of each base map."""
        counts = [*self.counts, sum(self.counts)]
        parts = zip(self.units, self.plain, counts, strict=True)
        return [unit * (plain + self.n * count) for unit, plain, count in parts]

    @property
    def smallest(self) -> int:
        """Least number of columns of the hybrid."""
        return self.least * sum(self.costs)

    def split(self, n_components: int) -> tuple[list[int], int] | None:
        """Return the columns of the base maps, and how many columns remain.

        All have as many frequencies; what is left goes to one more of single maps,
        the last map first.

        Parameters
        ----------
        n_components : int
            Number of columns of the hybrid.

        Returns
        -------
        widths : list of int
            Of the base maps.
        rest : int
            What no base map can use.

        None instead of both where there are too few columns.
        """
        costs = self.costs
        frequencies, rest = divmod(n_components, sum(costs))
        if frequencies < self.least:
            return None
        widths = [frequencies * unit for unit in self.units]
        for k in reversed(range(len(costs))):
            if 0 < costs[k] <= rest:
                widths[k] += self.units[k]
                rest -= costs[k]
        return widths, rest


def best_n_coefficients(
    layout: Layout, n_components: int, fixed: float, falling: float
) -> int:
    """Return the n of least variance (fixed + falling / n) / frequencies.

    Parameters
    ----------
    layout : Layout
        Of the hybrid.
    n_components : int
        Its number of columns.
    fixed, falling : float
        The means of lambda^2 Var K and of Var(lambda) Var K, for one frequency each.

    Returns
    -------
    n : int
        Number of frequencies of each coefficient.
    """
    if not math.isfinite(fixed + falling):
        return 1
    best, least, n = 1, math.inf, 1
    while (split := layout.with_coefficients(n).split(n_components)) is not None:
        frequencies = float(np.sum(np.divide(split[0], layout.units)))
        variance = (fixed + falling / n) / frequencies
        if variance < least * (1 - 1e-9):
            best, least = n, variance
        n += 1
    return best
