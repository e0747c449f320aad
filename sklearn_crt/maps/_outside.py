"""A map around a fitted transformer that is written elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context

from ..rows import Frame, Rows, UnitRows
from ._base import FeatureMap, LogFeatures


@dataclass(frozen=True, eq=False)
class OutsideMap(FeatureMap):
    """The features of a fitted transformer, as a part of other maps.

    Attributes
    ----------
    transformer : object
        With ``transform``, ``exact_kernel``, ``kernel_variance`` and, where the key
        side has another map, ``transform_key``; perhaps ``symmetric_``.
    """

    transformer: Any

    @classmethod
    def of(cls, transformer: Any, X: Any) -> OutsideMap:
        """Return the map of a fitted transformer.

        Parameters
        ----------
        transformer : object
            As the attribute.
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Rows; one of them shows the number of columns.

        Returns
        -------
        map : OutsideMap
            Its raw rows are the rows at unit bandwidth.
        """
        return cls(Frame(), transformer.transform(X[:1]).shape[1], transformer)

    @property
    def symmetric(self) -> bool:
        return bool(getattr(self.transformer, "symmetric_", True))

    @property
    def variance_is_exact(self) -> bool:
        return bool(getattr(self.transformer, "variance_is_exact_", True))

    def frequency_index(self) -> None:
        """Return None: nothing is known of the frequencies."""
        return None

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        sides = {True: "transform_key", False: "transform"}
        side = sides[key and hasattr(self.transformer, "transform_key")]
        with config_context(assume_finite=True):  # checked before
            features = getattr(self.transformer, side)(rows.matrix)
        features = features.toarray() if hasattr(features, "toarray") else features
        return np.asarray(features, dtype=rows.dtype), None

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return np.asarray(self.transformer.exact_kernel(*_matrices(X, Y)))

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return np.asarray(self.transformer.kernel_variance(*_matrices(X, Y)))


def _matrices(X: UnitRows, Y: UnitRows) -> tuple[Rows, ...]:
    """Return the arguments for the kernel of two sets of rows, one if they are one."""
    return (X.matrix,) if Y is X else (X.matrix, Y.matrix)
