"""How the columns of a hybrid are split over its maps."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Layout:
    """Columns of the maps of a hybrid.

    Attributes
    ----------
    units : list of int
        Columns of one frequency of each base map.
    minima : list of int
        Least numbers of columns of the base maps.
    plain : list of int
        One for a base map that also stands alone, times a constant; else 0.
    counts : list of int
        Columns of one frequency of each coefficient map, or all of them.
    n : int
        Frequencies of each coefficient map.
    """

    units: list[int]
    minima: list[int]
    plain: list[int]
    counts: list[int]
    n: int = 1

    @classmethod
    def of(cls, bases, constants, counts) -> Layout:
        """Return the layout of unfitted base maps and the a of the coefficients."""
        units = [getattr(base, "_features_per_frequency", 1) for base in bases]
        minima = [getattr(base, "min_components", 1) for base in bases]
        plain = [int(a != 0) for a in (*constants, 1 - sum(constants))]
        return cls(units, minima, plain, counts)

    def with_coefficients(self, n) -> Layout:
        """Return the layout with n frequencies of each coefficient map."""
        return replace(self, n=n)

    @property
    def n_coefficients(self):
        """Columns of the coefficient maps."""
        return [self.n * count for count in self.counts]

    @property
    def costs(self):
        """Columns of the hybrid for one frequency of each base map."""
        products = [*self.n_coefficients, sum(self.n_coefficients)]
        return [
            unit * (plain + product)
            for unit, plain, product in zip(
                self.units, self.plain, products, strict=True
            )
        ]

    @property
    def smallest(self):
        """Least number of columns of the hybrid."""
        needed = (-(-low // unit) for low, unit in zip(self.minima, self.units))
        return max(needed) * sum(self.costs)

    def fits(self, n_components):
        """Return whether this many columns are enough."""
        return self.smallest <= n_components

    def split(self, n_components):
        """Return the columns of the base maps, and how many columns remain.

        All have as many frequencies; what is left goes to one more of single maps,
        the last map first.
        """
        frequencies, rest = divmod(n_components, sum(self.costs))
        widths = [frequencies * unit for unit in self.units]
        for k, cost in reversed(list(enumerate(self.costs))):
            if 0 < cost <= rest:
                widths[k] += self.units[k]
                rest -= cost
        return widths, rest


def best_n_coefficients(layout, n_components, fixed, falling):
    """Return the n of least variance (fixed + falling / n) / frequencies.

    Here ``fixed`` and ``falling`` are the means of lambda^2 Var K and of Var(lambda)
    Var K, for one frequency each.
    """
    if not np.isfinite(fixed + falling):
        return 1
    best, least, n = 1, np.inf, 1
    while layout.with_coefficients(n).fits(n_components):
        widths, _ = layout.with_coefficients(n).split(n_components)
        frequencies = sum(w / unit for w, unit in zip(widths, layout.units))
        variance = (fixed + falling / n) / frequencies
        if variance < least * (1 - 1e-9):
            best, least = n, variance
        n += 1
    return best
