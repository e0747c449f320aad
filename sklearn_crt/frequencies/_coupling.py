"""Joint laws of the frequencies of one map, and the registry of their names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from ._frequencies import Frequencies
from ._radial import RadialLaw

_GROUP = 2**16  # numbers of the blocks that are drawn at once, few for the cache
C = TypeVar("C", bound="Coupling")
_REGISTRY: dict[str, type[Coupling]] = {}


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


def register(name: str) -> Callable[[type[C]], type[C]]:
    """Make a coupling available under a name, as a class decorator.

    Parameters
    ----------
    name : str
        What the parameter ``coupling`` of a sampler may then be.

    Returns
    -------
    decorator : callable
        Takes the class and returns it. The class must need no argument.
    """

    def add(cls: type[C]) -> type[C]:
        _REGISTRY[name] = cls
        return cls

    return add


def coupling_names() -> list[str]:
    """Return the names that the parameter ``coupling`` of samplers may be.

    Returns
    -------
    names : list of str
        In the order in which they were registered.

    Examples
    --------
    >>> from sklearn_crt.frequencies import coupling_names
    >>> coupling_names()[:2]
    ['iid', 'orthogonal']
    """
    return list(_REGISTRY)


def get_coupling(
    coupling: str | Coupling,
    owner: str,
    allowed: Iterable[str] | None = None,
    *,
    opposite: bool = False,
) -> Coupling:
    """Return the coupling of a name, or the object itself.

    Parameters
    ----------
    coupling : str or Coupling
        Name in the registry, or a ready object.
    owner : str
        Who asks, for the error.
    allowed : iterable of str, default=None
        Names that the owner can use; None allows all.
    opposite : bool, default=False
        Whether the owner can use pairs of frequencies w and -w.

    Returns
    -------
    coupling : Coupling
        Ready to draw.

    Raises
    ------
    ValueError
        If the name is unknown or not allowed, or the object one of pairs that the
        owner cannot use.
    """
    if isinstance(coupling, Coupling) and (opposite or not coupling.opposite):
        return coupling
    names = [
        name
        for name, kind in _REGISTRY.items()
        if (allowed is None or name in allowed) and (opposite or not kind.opposite)
    ]
    if not isinstance(coupling, str) or coupling not in names:
        choice = ", ".join(repr(name) for name in names)
        raise ValueError(
            f"coupling={coupling!r} is not one that {owner} can use; "
            f"use one of {choice}, or a Coupling object."
        )
    return _REGISTRY[coupling]()


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
