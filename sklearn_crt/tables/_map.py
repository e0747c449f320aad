"""Features of an ANOVA kernel, and effects of columns on linear functions of them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.linalg import blas

from ._kernel import AnovaKernel, combined
from ._learning import LearnedKernel

_ENTRIES = 2**22  # maximum number of kernel values in a block of rows


@dataclass(frozen=True, eq=False)
class AnovaMap:
    """Immutable feature map for rows that a reader has converted.

    A linear function of the features is a sum of effects. The effect of a column is the
    sum of all its terms, including the one for missing values. The effect of a pair is
    the sum of all products of a term of one column with a term of the other. Effects
    have mean zero over the landmarks. If all subsets of columns interact, only the
    effects of single columns are computed.
    """

    learned: LearnedKernel
    root: np.ndarray  # (m, m); root @ root.T inverts the kernel matrix of landmarks
    has_all_rows: bool  # whether each training row is a landmark

    def transform(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows, (n, d) -> (n, m)."""
        kernel = self.learned.kernel(self.learned.encoding.transform(V))
        # the root is triangular, so half of the products can be skipped
        features = blas.dtrmm(1.0, self.root.T, kernel.T, lower=1, overwrite_b=1)
        return features.T.astype(V.dtype, copy=False)

    def unexplained(self, V: np.ndarray) -> np.ndarray:
        """Return k(x, x) minus the squared norm of the features of x, (n,)."""
        kernel = self.learned.kernel.diagonal(self.learned.encoding.transform(V))
        return np.maximum(kernel - np.square(self.transform(V)).sum(axis=1), 0)

    # ------------------------------------------------------------------ effects
    @property
    def subsets(self) -> list[tuple[int, ...]]:
        """The groups of columns that each effect depends on."""
        owners = sorted(set(self.learned.encoding.owners))
        sizes = (1, 2) if self.learned.kernel.order == 2 else (1,)
        return [subset for size in sizes for subset in combinations(owners, size)]

    def _effect_kernel(self, Z: np.ndarray, subset: tuple[int, ...]) -> np.ndarray:
        """Return an effect's contribution to the kernel of rows and landmarks."""
        kernel, owners = self.learned.kernel, np.array(self.learned.encoding.owners)
        own = (np.flatnonzero(owners == owner).tolist() for owner in subset)
        parts = [kernel.weighted_terms(Z, chosen) for chosen in own]
        if len(subset) == 2:
            sums = [terms.sum(axis=0) for terms in parts]
            return kernel.strength * sums[0] * sums[1]
        return _own_effect(kernel, parts[0])

    def effect_features(self, V: np.ndarray, subset: tuple[int, ...]) -> np.ndarray:
        """Return the features of an effect, which have mean zero over the landmarks."""
        Z, points = self._encoded(V)
        mean = self._effect_kernel(points, subset).mean(axis=0)
        return (self._effect_kernel(Z, subset) - mean) @ self.root

    def effects(self, V: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all effects, (n, n_effects, k), and a term to add to the intercept.

        ``coef`` are the coefficients of the features, (m, k).
        """
        Z, points = self._encoded(V)
        dual = self.root @ coef
        means = self._raw(points, dual).mean(axis=0)
        shift = means.sum(axis=0)
        if self.learned.kernel.order == "all":  # interactions contribute, too
            shift = self.learned.kernel(points).mean(axis=0) @ dual
        return self._raw(Z, dual) - means, shift

    def _encoded(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.learned.encoding.transform(V), self.learned.kernel.columns.points

    def _raw(self, Z: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Return the effects for encoded rows, before centring."""
        kernel, subsets = self.learned.kernel, self.subsets
        owners = np.array(self.learned.encoding.owners, np.intp)
        every, n_outputs = sorted(set(owners.tolist())), dual.shape[1]
        out = np.zeros((len(Z), len(subsets), n_outputs))
        n_single, m = len(every), len(dual)
        i, j = np.triu_indices(n_single, 1)
        step = max(1, _ENTRIES // (max(len(owners), 1) * m))
        for start in range(0, len(Z), step):
            rows = slice(start, start + step)
            terms = kernel.weighted_terms(Z[rows], range(len(owners)))
            sums = np.empty((n_single, *terms.shape[1:]))
            for place, owner in enumerate(every):
                mine = terms[owners == owner]
                sums[place] = mine.sum(axis=0)
                out[rows, place] = _own_effect(kernel, mine) @ dual
            if kernel.order == 2 and n_single > 1:
                by_row = sums.transpose(1, 0, 2)  # (b, n_single, m)
                for k in range(n_outputs):
                    products = (by_row * dual[:, k]) @ by_row.transpose(0, 2, 1)
                    out[rows, n_single:, k] = kernel.strength * products[:, i, j]
        return out


def _own_effect(kernel: AnovaKernel, terms: np.ndarray) -> np.ndarray:
    """Return the kernel for a single group of columns, given its weighted terms."""
    return combined(terms, np.ones(len(terms)), kernel.order, kernel.strength)
