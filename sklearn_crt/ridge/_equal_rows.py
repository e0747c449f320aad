"""Equal rows, whose moments are those of a single row with their total weight."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from ..rows import Rows
from ..rows.row_sample import distinct_rows
from ._feature_moments import Moments

_SAMPLED = 1000  # number of rows from which the proportion of equal rows is estimated
_MOST_DISTINCT = 0.5  # rows are merged if at most this proportion is distinct


class MergedRows(NamedTuple):
    """The distinct rows of a batch, with the mean targets of the rows equal to each."""

    X: Rows  # (n_distinct, n_features)
    Y: np.ndarray  # (n_distinct, k)
    weights: np.ndarray  # (n_distinct,)
    # what the moments of distinct rows lack: sums of squares about the mean targets,
    # and the bounds of the targets
    squares: np.ndarray  # (k,)
    least: np.ndarray  # (k,)
    most: np.ndarray  # (k,)
    counts: np.ndarray  # (n_distinct,), numbers of rows

    def completed(self, moments: Moments, group: slice | np.ndarray) -> Moments:
        """Return the moments of all rows, given those of some of the distinct rows.

        If not all rows are in the group, equal rows must have equal targets.
        """
        n_rows = int(self.counts[group].sum())
        if not isinstance(group, slice):
            return replace(moments, n_rows=n_rows)
        return replace(
            moments,
            squares=moments.squares + self.squares,
            least=self.least,
            most=self.most,
            n_rows=n_rows,
        )


def merged_rows(
    X: Rows, Y: np.ndarray, weights: np.ndarray, *, by_sign: bool
) -> MergedRows | None:
    """Return the distinct rows, or None if most rows are distinct.

    With ``by_sign``, rows count as equal only if their targets have the same sign.
    """
    # Y (n, k), weights (n,)
    n_rows = len(Y)
    if not isinstance(X, np.ndarray) or n_rows < 2:
        return None
    few = X[:: max(1, n_rows // _SAMPLED)]
    if len(distinct_rows(few)[0]) > _MOST_DISTINCT * len(few):
        return None
    first, places = distinct_rows(X, Y[:, 0] > 0 if by_sign else None)
    totals = np.bincount(places, weights)
    entries = weights / totals[places], (places, np.arange(n_rows))
    means = csr_array(entries, shape=(len(first), n_rows)) @ Y
    return MergedRows(
        X=X[first],
        Y=means,
        weights=totals,
        squares=weights @ (Y - means[places]) ** 2,
        least=Y.min(axis=0),
        most=Y.max(axis=0),
        counts=np.bincount(places),
    )
