"""The rows from which metrics are learned, in a random order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._compat import cached_property
from ..arrays.loops import one_hot_weights

_MOST_HELD = 500  # limit on the number of held-out rows in the comparison of candidates
# A quarter of the rows is held out, so that candidates are learned from most of them.
# If this is less than _ENOUGH rows, up to _ENOUGH are held out, but at most 40 %.
_SHARES, _ENOUGH = (0.25, 0.4), 250


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Training rows in a random order, with standardised targets."""

    X: np.ndarray  # (n_rows, n_columns)
    weights: np.ndarray  # (n_rows,)
    codes: np.ndarray  # (n_rows,) for labels, or (n_rows, n_outputs)
    targets: np.ndarray  # (n_rows, n_outputs), one-hot for labels, standardised
    eps: float  # machine epsilon of the dtype in which the rows were given

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        by_class: bool,
        seed: int,
    ) -> TrainingRows:
        """Return the rows for labels (if ``by_class``) or for numerical targets."""
        eps = float(np.finfo(X.dtype).eps)
        order = np.random.default_rng(seed).permutation(len(y))
        X, y, weights = X[order].astype(np.float64), y[order], weights[order]
        codes = targets = y.reshape(len(y), -1)
        if by_class:
            classes, codes = np.unique(y, return_inverse=True)
            targets = one_hot_weights(codes, np.ones(len(y)), classes.size, float)
        share = weights / weights.sum()
        size = np.sqrt(share @ targets**2)
        targets = targets - share @ targets
        deviation = np.sqrt(share @ targets**2)
        varies = deviation > 1e-12 * size
        targets = targets[:, varies] / deviation[varies]
        codes = codes if by_class else targets
        return cls(X, weights, codes, targets, eps)

    @cached_property
    def by_class(self) -> bool:
        """Whether the targets are labels."""
        return self.codes.ndim == 1

    @cached_property
    def n_held(self) -> int:
        """Number of rows that are predicted in the comparison."""
        least, most = (int(share * len(self.X)) for share in _SHARES)
        return min(_MOST_HELD, max(least, min(most, _ENOUGH)))

    @cached_property
    def n_seen(self) -> int:
        """Number of rows from which metrics are learned in the comparison."""
        return len(self.X) - self.n_held
