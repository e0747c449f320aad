"""How pairs of columns, and a last single one, belong to frequencies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_GROUPS = 16  # of frequencies, whose parts of a sum tell its error (jackknife)
N_ERRORS = 2.0  # standard errors that a denominator has to reach


@dataclass(frozen=True)
class PairedColumns:
    """Two columns a frequency: first all cosines, then all sines, then single ones.

    An odd number of columns leaves the last frequency one column, which takes a random
    phase.

    Attributes
    ----------
    n_pairs, n_single : int
        Numbers of frequencies with two columns and with one.
    per_frequency : int
        Number of columns of a frequency, a last single one apart.

    Examples
    --------
    >>> from sklearn_crt.maps import PairedColumns
    >>> PairedColumns.of(5).index.tolist()
    [0, 1, 0, 1, 2]
    """

    n_pairs: int
    n_single: int
    per_frequency: int = 2

    @classmethod
    def of(cls, n_components: int, *, single: bool = False) -> PairedColumns:
        """Return the columns of as many components.

        Parameters
        ----------
        n_components : int
            Number of columns.
        single : bool, default=False
            Whether each frequency has one column.

        Returns
        -------
        columns : PairedColumns
            That many.
        """
        return cls(0, n_components, 1) if single else cls(*divmod(n_components, 2))

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.n_pairs + self.n_single

    @property
    def index(self) -> np.ndarray:
        """Index of the frequency behind each column."""
        pairs = np.arange(self.n_pairs)
        return np.concatenate([pairs, pairs, self.n_pairs + np.arange(self.n_single)])

    def split(self, out: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return views of the columns of cosines, of sines and of single ones.

        Parameters
        ----------
        out : ndarray of shape (n_rows, n_components)
            Features.

        Returns
        -------
        cosines, sines, singles : ndarray
            Parts of it.
        """
        n = self.n_pairs
        return out[:, :n], out[:, n : 2 * n], out[:, 2 * n :]
