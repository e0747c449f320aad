"""Frequencies that are drawn one by one, or in blocks of n_features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from ._coupling import Coupling
from ._frequencies import Frequencies
from ._radial import RadialLaw
from ._registry import register

_GROUP = 2**16  # numbers of the blocks that are drawn at once, few for the cache


def check_quantiles(law: RadialLaw, coupling: str) -> None:
    """Raise ValueError where the law of the norms has no quantile function.

    Parameters
    ----------
    law : object
        What a radial law returned.
    coupling : str
        How the coupling is written, for the error.
    """
    if not hasattr(law, "ppf"):
        raise ValueError(
            f"coupling={coupling} needs a quantile function (ppf), which the law of "
            f"the norms, {type(law).__name__}, lacks; use 'orthogonal' or 'iid'."
        )


@register("iid")
class Independent(Coupling):
    """Independent frequencies, directions uniform on the sphere."""

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        directions_rng, norms_rng = rng.spawn(2)
        directions = directions_rng.standard_normal((n_frequencies, n_features))
        norms = radial_law(n_features).rvs(n_frequencies, random_state=norms_rng)
        scale = norms / np.linalg.norm(directions, axis=1)
        return Frequencies((directions * scale[:, None]).T)


class BlockCoupling(Coupling):
    """Independent blocks of ``n_features`` frequencies, dependent inside a block.

    The last block may be partial: the first vectors of a full one, so draws nest.
    A subclass states ``_directions`` and ``cosine``.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are drawn one from each d-th part of their law,
        in random order: each still has the whole law, and together they cover it.
    """

    def __init__(self, *, stratified: bool = False):
        self.stratified = stratified

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'stratified=True' if self.stratified else ''})"

    @property
    def independent_norms(self) -> bool:  # type: ignore[override]  # of a parameter
        """Whether the norms of a block are independent: unless stratified."""
        return not self.stratified

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        full, rest = divmod(n_frequencies, n_features)
        return np.array([n_features] * full + [rest] * (rest > 0))

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        directions_rng, norms_rng = rng.spawn(2)
        law = radial_law(n_features)
        norms = self._norms(law, n_frequencies, n_features, norms_rng)
        weights = np.empty((n_features, n_frequencies))
        whole = n_frequencies - n_frequencies % n_features
        group = n_features * max(1, _GROUP // n_features**2)
        start = 0
        while start < n_frequencies:
            stop = min(start + group, whole) if start < whole else n_frequencies
            size = min(n_features, stop - start)
            block_norms = norms[start:stop].reshape(-1, size)
            unit = self._directions(block_norms, n_features, directions_rng)
            place = weights[:, start:stop].reshape(n_features, -1, size)
            np.multiply(unit.transpose(2, 0, 1), block_norms, out=place)
            start = stop
        return Frequencies(weights)

    def _norms(
        self,
        law: RadialLaw,
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        if not self.stratified:
            return law.rvs(n_frequencies, random_state=rng)
        check_quantiles(law, repr(self))
        # whole blocks, so that draws nest
        shape = -(-n_frequencies // n_features), n_features
        order_rng, place_rng = rng.spawn(2)
        strata = np.argsort(order_rng.random(shape), axis=1)
        u = (strata + place_rng.random(shape)) / n_features
        u = np.minimum(u, np.nextafter(1, 0)).ravel()
        return law.ppf(u[:n_frequencies])

    @abstractmethod
    def _directions(
        self, norms: np.ndarray, n_features: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Return unit vectors (n_blocks, size, n_features) for norms (n_blocks, size).

        Must read the generator block after block, and a partial block must be the
        beginning of a full one.
        """
