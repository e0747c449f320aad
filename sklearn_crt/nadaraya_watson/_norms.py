"""What the norms of rows say of them as features of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._arrays import namespace_of

_ALIKE = 0.6  # mean inner product over mean squared norm, from which averages are flat
_SHARE_AT_ONE = 0.9  # of the rows, from which norms are those of features


@dataclass(frozen=True)
class Norms:
    """Weighted sums over rows of features; ``a + b`` is that of both sets of rows.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    weight : float
        Sum of the weights.
    squares : float
        Of the weights times the squared norms.
    at_one : float
        Of the weights of rows whose squared norm is between 1/2 and 2, as that of the
        features of a kernel with K(x, x) = 1.
    """

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    at_one: float = 0.0

    @classmethod
    def of(cls, features: np.ndarray, weights: np.ndarray) -> Norms:
        """Return the sums of some rows.

        Parameters
        ----------
        features : ndarray of shape (n_rows, n_components)
            The rows.
        weights : ndarray of shape (n_rows,)
            Their weights.

        Returns
        -------
        norms : Norms
            Of these rows.
        """
        xp = namespace_of(features)
        if isinstance(features, np.ndarray):
            squares = np.einsum("ij,ij->i", features, features)
        else:
            squares = xp.sum(features * features, axis=1)
        weights = xp.astype(weights, squares.dtype)
        at_one = xp.astype((squares > 0.5) & (squares < 2), squares.dtype)
        sums = xp.sum(weights), weights @ squares, weights @ at_one
        return cls(features.shape[0], *map(float, sums))

    def __add__(self, other: Norms) -> Norms:
        return Norms(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squares + other.squares,
            self.at_one + other.at_one,
        )

    def why_no_features(self, sums: np.ndarray) -> str | None:
        r"""Return why the rows are hardly features of a kernel, or None.

        With the sums Z of the rows times their weights, W the sum of the weights and Q
        that of the weights times squared norms, :math:`|Z|^2 / (W Q)` is the mean inner
        product of all pairs over the mean squared norm. Features of a kernel that is
        nowhere negative have at least 1 over the number of rows there. Near 1 all pairs
        are alike and so are all averages: raw rows far from zero, or a very small
        sigma; the norms of features are at 1 then, and those of raw rows are not.

        Parameters
        ----------
        sums : ndarray of shape (n_components,)
            Z.

        Returns
        -------
        reason : str or None
            Half a sentence.
        """
        if self.squares <= 0:
            return None
        likeness = float(sums @ sums) / (self.weight * self.squares)
        if likeness < 0.1 / self.n_rows:
            return "the sum of their inner products is about zero"
        if likeness > _ALIKE and self.at_one < _SHARE_AT_ONE * self.weight:
            return f"their inner products are {likeness:.0%} alike"
        return None
