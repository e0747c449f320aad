"""Cross-validation of the models that a blend combines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.utils.parallel import Parallel, delayed

from ..life_cycle.out_of_fold import fold_numbers
from ._parts import Part, TableRows

# blending weights and error scales are computed from predictions for at most this many
MOST_TESTED = 4_000
# With fewer than _FEW rows, there are at least _LEAST_FOLDS folds, because models that
# are fitted to much fewer rows have larger errors.
_FEW, _LEAST_FOLDS = 200, 10


class Folds(NamedTuple):
    """Training and test rows of each fold."""

    pairs: list[tuple[np.ndarray, np.ndarray]]
    parallel: Parallel

    @classmethod
    def of(
        cls, rows: TableRows, n_folds: int, n_jobs: int | None, *, stratified: bool
    ) -> Folds:
        """Return folds, stratified for labels; the rows must be in random order.

        The number of test rows is limited. Rows of a group are in the same fold.
        """
        n_rows = len(rows.y)
        if n_rows < _FEW:
            n_folds = max(n_folds, _LEAST_FOLDS)
        order = np.argsort(rows.y, kind="stable") if stratified else np.arange(n_rows)
        of_fold = np.empty(n_rows, np.intp)
        of_fold[order] = np.arange(n_rows) % n_folds
        n_pairs = min(n_folds, n_rows)
        if rows.groups is not None:
            of_fold = fold_numbers(n_rows, None, rows.groups)
            n_pairs = int(of_fold.max()) + 1
        most = max(1, MOST_TESTED // n_pairs)
        pairs = [
            (np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)[:most])
            for fold in range(n_pairs)
        ]
        return cls(pairs, Parallel(n_jobs=n_jobs))

    @property
    def tested(self) -> np.ndarray:
        """The test rows of all folds."""
        return np.concatenate([test for _, test in self.pairs])

    def predictions(self, parts: Sequence[Part], rows: TableRows) -> np.ndarray:
        """Return predictions for all test rows, given one part per fold."""
        found = self.parallel(
            delayed(_without_fold)(part, rows, *pair)
            for part, pair in zip(parts, self.pairs, strict=True)
        )
        return np.concatenate(found)


def _without_fold(
    part: Part, rows: TableRows, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return predictions for the test rows of a fold."""
    return part.fitted(rows.some(train)).predict(rows.V[test])
