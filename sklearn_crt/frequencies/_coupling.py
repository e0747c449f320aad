"""Joint laws of the frequencies of one map."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from ._frequencies import Frequencies
from ._radial import RadialLaw


class Coupling(ABC):
    """Joint law of frequencies that each have the law the kernel asks for.

    A coupling leaves every single frequency its law, so the estimate of the kernel
    stays unbiased, and changes the cross moments, so its variance falls. Draws
    nest: with generators in the same state the first m of 2m frequencies are those
    of a draw of m.

    Attributes
    ----------
    exact : bool
        Whether each frequency has its law exactly; False for structured
        projections.
    bias : float
        Bound of the relative bias of an estimate for rows of norm 0.7 and sigma 1;
        0 where ``exact``.
    independent_norms : bool
        Whether the norms of a block are independent, as closed forms of the variance
        assume; False for stratified norms.
    weight_dependent : bool
        Whether directions depend on norms, so that ``weigh`` matters.
    opposite : bool
        Whether each frequency w of a draw stands for w and -w, which only positive
        exponential maps can use.
    """

    exact = True
    bias = 0.0
    independent_norms = True
    weight_dependent = False
    opposite = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        """Draw frequencies.

        Parameters
        ----------
        radial_law : callable
            Takes a dimension, returns the law of the norm of a frequency there: an
            object with ``rvs(size, random_state)``, whose smaller draws begin the
            larger ones, with ``ppf(u)`` and ``cdf(r)``.
        n_frequencies, n_features : int
            Number m of frequencies and their dimension d.
        rng : numpy.random.Generator
            Source of randomness; separate draws take child streams of it.

        Returns
        -------
        frequencies : Frequencies
            The m frequencies.
        """

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        """Return the sizes of the blocks of dependent frequencies.

        Parameters
        ----------
        n_frequencies, n_features : int
            Number m of frequencies and their dimension d.

        Returns
        -------
        sizes : ndarray of int
            They sum to m.
        """
        return np.ones(n_frequencies, dtype=int)

    def cosine(self, n_features: int) -> float | None:
        """Return the cosine of the angle of each pair in a block.

        Parameters
        ----------
        n_features : int
            Dimension d of the frequencies.

        Returns
        -------
        cosine : float or None
            None where the angle is not fixed.
        """
        return None

    def n_pairs(self, n_frequencies: int, n_features: int) -> int:
        """Return the number of ordered pairs of frequencies that share a block.

        Parameters
        ----------
        n_frequencies, n_features : int
            Number m of frequencies and their dimension d.

        Returns
        -------
        n_pairs : int
            The sum of s (s - 1) over the sizes s of the blocks.
        """
        sizes = self.block_sizes(n_frequencies, n_features)
        return int(np.sum(sizes * (sizes - 1)))

    def fixed_cosine(self, n_features: int) -> float | None:
        """Return ``cosine`` where norms are independent too, as closed forms assume.

        Parameters
        ----------
        n_features : int
            Dimension d of the frequencies.

        Returns
        -------
        cosine : float or None
            None where there is no closed form for a pair of frequencies of a block.
        """
        return self.cosine(n_features) if self.independent_norms else None

    def weigh(self, coefficient: float | None) -> Coupling:
        """Return the coupling for features that weigh frequencies by their norms.

        Parameters
        ----------
        coefficient : float or None
            The c where a feature weighs a frequency w by ``exp(c |w|^2)``, beside its
            norm itself; None where directions that depend on norms would not help.

        Returns
        -------
        coupling : Coupling
            Itself, unless ``weight_dependent``.
        """
        return self
