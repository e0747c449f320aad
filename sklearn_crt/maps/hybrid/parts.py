"""The parts of composed maps, which may be transformers of other packages.

Each part receives the rows of the composed map, which are already centred and
multiplied by ``sigma``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context

from ..._compat import cached_property
from ...arrays.namespaces import Array, on_host
from ...frequencies import JointFrequencies
from ...rows import Frame, Inputs, Rows
from ..base import FeatureMap, LogFeatures


@dataclass(frozen=True, eq=False)
class ThirdPartyMap(FeatureMap):
    """Map that computes its features with a transformer of another package."""

    transformer: Any

    @classmethod
    def of(cls, transformer: Any, X: Any) -> ThirdPartyMap:
        """Return the map of a fitted transformer, after transforming one row."""
        return cls(Frame(), transformer.transform(X[:1]).shape[1], transformer)

    @property
    def symmetric(self) -> bool:
        return bool(getattr(self.transformer, "symmetric_", True))

    @property
    def variance_is_exact(self) -> bool:
        return bool(getattr(self.transformer, "variance_is_exact_", True))

    def frequency_index(self) -> None:
        """Return None, because the frequencies are unknown."""

    def to(self, like: Array) -> ThirdPartyMap:
        if on_host(like):
            return self
        raise TypeError(
            f"{type(self.transformer).__name__} is a third-party transformer, which "
            "does not support other array libraries. Use parts from "
            "sklearn_crt.samplers, or pass NumPy arrays."
        )

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        sides = {True: "transform_key", False: "transform"}
        side = sides[key and hasattr(self.transformer, "transform_key")]
        with config_context(assume_finite=True):  # the rows have been validated
            features = getattr(self.transformer, side)(rows.matrix)
        features = features.toarray() if hasattr(features, "toarray") else features
        return np.asarray(features, dtype=rows.dtype), None

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return np.asarray(self.transformer.exact_kernel(*_matrices(X, Y)))

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return np.asarray(self.transformer.kernel_variance(*_matrices(X, Y)))


def _matrices(X: Inputs, Y: Inputs) -> tuple[Rows, ...]:
    """Return the arguments for a kernel: two matrices, or one if Y is X."""
    return (X.matrix,) if Y is X else (X.matrix, Y.matrix)


class ComposedMap(FeatureMap):
    """Base class of maps that are composed of other maps."""

    @property
    @abstractmethod
    def parts(self) -> list[Any]:
        """All maps of which this map is composed."""

    @property
    def frequencies(self) -> JointFrequencies:
        """The concatenated frequencies of the parts."""
        return joined_frequencies(self.parts)

    @cached_property
    def phase_rate(self) -> float:
        return max(part.frame.largest * part.phase_rate for part in self.parts)

    @property
    def variance_is_exact(self) -> bool:
        return all(part.variance_is_exact for part in self.parts)

    def frequency_index(self) -> None:
        """Return None, because a column may depend on several frequencies."""


def joined_frequencies(parts: Sequence[Any]) -> JointFrequencies:
    """Return the concatenated frequencies of those parts that have some."""
    return JointFrequencies([p.frequencies for p in parts if hasattr(p, "frequencies")])


def of_part(part: FeatureMap, method: str, X: Inputs, Y: Inputs) -> np.ndarray:
    """Call a method of a part for all pairs of queries and keys."""
    queries = part.frame.inside(X)
    return getattr(part, method)(queries, queries if Y is X else part.frame.inside(Y))
