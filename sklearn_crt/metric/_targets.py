"""How targets become columns of numbers, for labels and for numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .._kernels import one_hot_weights
from ..rows import are_labels


@dataclass(frozen=True, eq=False)
class Coding:
    """How targets become columns: one per class for labels, one per numeric output."""

    classes: np.ndarray | None  # (n_classes,), None for numbers
    mean: np.ndarray  # (n_outputs,), subtracted so that squares keep their digits

    @classmethod
    def of(cls, y: np.ndarray, weights: np.ndarray, by_class: bool = False) -> Coding:
        """Return the coding; integers are labels if few differ, or if ``by_class``."""
        # y (n_rows,) or (n_rows, n_outputs), weights (n_rows,)
        if y.dtype.kind != "f" and (by_class or are_labels(y)):
            return cls(np.unique(y), np.zeros(0))
        return cls(None, np.average(as_outputs(y), axis=0, weights=weights))

    @property
    def by_class(self) -> bool:
        """Whether targets are labels."""
        return self.classes is not None

    def codes(self, y: np.ndarray) -> np.ndarray:
        """Return the index of each label's class, or the outputs minus their mean."""
        # y (n_rows,) -> (n_rows,), or (n_rows, n_outputs)
        if self.classes is not None:
            return np.searchsorted(self.classes, y)
        return as_outputs(y) - self.mean

    def columns(self, codes: np.ndarray) -> np.ndarray:
        """Return columns for the values of ``codes``, (n_rows, n_outputs)."""
        if self.classes is None:
            return codes
        return one_hot_weights(codes, np.ones(codes.size), self.classes.size, float)

    def with_labels(self, y: np.ndarray) -> Coding:
        """Return the coding whose classes include the labels of further rows."""
        if self.classes is None:
            return self
        return Coding(np.unique(np.concatenate([self.classes, y])), self.mean)

    def moved(self, sums: Any, coding: Coding) -> Any:
        """Return sums for this coding as sums for another one that has more classes."""
        if self.classes is None or coding.classes is None:
            return sums
        if self.classes.size == coding.classes.size:
            return sums
        places = np.searchsorted(coding.classes, self.classes)
        return sums.with_outputs(places, coding.classes.size)


def as_outputs(y: np.ndarray) -> np.ndarray:
    """Return numbers in float64 with an axis of outputs."""
    y = y.astype(np.float64)
    return y[:, None] if y.ndim == 1 else y
