"""The frequencies of a map that is made of other maps."""

from __future__ import annotations

import numpy as np

from ._projection import Projection


class JointProjection(Projection):
    """Frequencies of several maps side by side.

    Parameters
    ----------
    parts : list of Projection
        Those of the single maps. Draws nest part by part.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import JointProjection, Projection
    >>> parts = [Projection(np.eye(2)), Projection(np.ones((2, 1)))]
    >>> JointProjection(parts).to_dense()
    array([[1., 0., 1.],
           [0., 1., 1.]])
    """

    def __init__(self, parts):
        self.parts = parts

    @property
    def sq_norms(self):
        """Squared norms of the frequencies, (n_frequencies,)."""
        norms = [part.sq_norms for part in self.parts]
        return np.concatenate(norms) if norms else np.zeros(0)

    @property
    def weights(self):
        """One frequency a column, (n_features, n_frequencies)."""
        return np.hstack([part.to_dense() for part in self.parts])

    def apply(self, X):
        return np.hstack([part.apply(X) for part in self.parts])

    def to(self, dtype):
        return JointProjection([part.to(dtype) for part in self.parts])

    def to_dense(self):
        return self.weights
