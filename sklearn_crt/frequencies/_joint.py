"""The frequencies of a map that is made of other maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from ..rows import Rows
from ._frequencies import Frequencies


class JointFrequencies(Frequencies):
    """Frequencies of several maps side by side.

    Parameters
    ----------
    parts : list of Frequencies
        Those of the single maps. Draws nest part by part.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import JointFrequencies, Frequencies
    >>> parts = [Frequencies(np.eye(2)), Frequencies(np.ones((2, 1)))]
    >>> JointFrequencies(parts).to_dense()
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """

    def __init__(self, parts: Sequence[Frequencies]):
        self.parts = parts

    @property
    def sq_norms(self) -> np.ndarray:
        """Squared norms of the frequencies, (n_frequencies,)."""
        norms = [part.sq_norms for part in self.parts]
        return np.concatenate(norms) if norms else np.zeros(0)

    @property
    def weights(self) -> np.ndarray:  # type: ignore[override]  # no table of its own
        """One frequency a column, (n_features, n_frequencies)."""
        if not self.parts:
            return np.zeros((0, 0))
        return np.hstack([part.to_dense() for part in self.parts])

    def apply(self, X: Rows, out: np.ndarray | None = None) -> np.ndarray:
        return np.hstack([part.apply(X) for part in self.parts])

    def to(self, dtype: DTypeLike) -> Frequencies:
        return JointFrequencies([part.to(dtype) for part in self.parts])

    def to_dense(self) -> np.ndarray:
        return self.weights
