"""Names and submodules of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def names_on_demand(
    package: str, modules: dict[str, str], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package (PEP 562).

    ``modules`` has the module of each name, ``submodules`` what is public itself.
    """

    def get(name: str) -> Any:
        if name in modules:
            value = getattr(import_module(f"{package}.{modules[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        reason = ""
        if name in submodules:
            try:
                return import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                # An optional library is missing. Code that looks at all attributes, as
                # help() does, skips those that raise an AttributeError.
                reason = f" ({error})"
        raise AttributeError(f"module {package!r} has no attribute {name!r}{reason}")

    def names() -> list[str]:
        return [*sys.modules[package].__all__, *submodules]

    return get, names
