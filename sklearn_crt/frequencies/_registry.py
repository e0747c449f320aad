"""The registry of the names of couplings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from ._coupling import Coupling

C = TypeVar("C", bound=Coupling)
_REGISTRY: dict[str, type[Coupling]] = {}


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
