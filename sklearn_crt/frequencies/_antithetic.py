"""Antithetic frequencies: each w together with -w."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._coupling import Coupling
from ._frequencies import Frequencies
from ._orthogonal import Orthogonal
from ._radial import RadialLaw
from ._registry import register


@register("antithetic")
class Antithetic(Coupling):
    r"""Pairs of frequencies w and -w, on orthogonal directions.

    A positive feature :math:`e^{w \cdot x}` is large where :math:`e^{-w \cdot x}` is
    small, so the two errors of a pair cancel in part. Only positive exponential maps
    can use it: sines and cosines of w and -w are the same numbers.

    ``draw`` returns one frequency of each pair; the map has two columns for it, and
    takes one product and one exponential for both.

    Parameters
    ----------
    base : Coupling, default=None
        Joint law of the first frequencies of the pairs; None for ``Orthogonal()``.

    Raises
    ------
    ValueError
        If ``base`` is itself one of pairs, or has angles that follow the norms.

    Notes
    -----
    Each frequency has its law, so the estimate stays unbiased. With the coefficient A
    that is best for the pair, the mean squared error at equal columns is below that of
    orthogonal frequencies for every d and mean :math:`|x + y|^2` tried: 12 times at
    d = 4 and 0.5, 1.4 times at d = 4 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import Antithetic, Orthogonal, chi_law
    >>> half = Antithetic().draw(chi_law, 3, 3, np.random.default_rng(0))
    >>> same = Orthogonal().draw(chi_law, 3, 3, np.random.default_rng(0))
    >>> bool((half.to_dense() == same.to_dense()).all())
    True
    """

    opposite = True

    def __init__(self, base: Coupling | None = None):
        self.base = base = Orthogonal() if base is None else base
        self.exact, self.bias = base.exact, base.bias
        self.independent_norms = base.independent_norms
        if self.base.opposite or self.base.weight_dependent:
            raise ValueError(
                f"base={base!r} cannot be made antithetic; use independent, orthogonal "
                "or simplex frequencies."
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        return self.base.draw(radial_law, n_frequencies, n_features, rng)

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        return self.base.block_sizes(n_frequencies, n_features)

    def cosine(self, n_features: int) -> float | None:
        return self.base.cosine(n_features)
