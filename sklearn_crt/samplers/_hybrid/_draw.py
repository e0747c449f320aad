"""Fits the maps of a hybrid, each with a seed of its own."""

from __future__ import annotations

from ._combine import fit_part, width_of


class Draw:
    """Fits the maps of a hybrid, each with its seed, to one sample of rows."""

    def __init__(self, samples, base_seeds, coefficient_seeds):
        self.samples = samples
        self._base_seeds, self._coefficient_seeds = base_seeds, coefficient_seeds

    def base(self, part, n_components, seed):
        """Return a fitted base map of the Gaussian kernel at unit bandwidth."""
        params = {"sigma": 1.0, "kernel": "gaussian"}
        fitted = fit_part(part, self.samples, n_components, int(seed), **params)
        width = width_of(fitted, self.samples[0][0])
        if width != n_components:
            raise ValueError(
                f"The base {fitted!r} has {width} columns, but the hybrid set "
                f"n_components={n_components}: a base must have exactly as many."
            )
        return fitted

    def bases(self, parts, widths):
        """Return all the base maps; a single one has the last seed."""
        seeds = self._base_seeds[-len(parts) :]
        return [self.base(*args) for args in zip(parts, widths, seeds, strict=True)]

    def coefficients(self, parts, widths):
        """Return all the coefficient maps; None lets one keep its width."""
        return [
            fit_part(part, self.samples, width, int(seed))
            for part, width, seed in zip(parts, widths, self._coefficient_seeds)
        ]
