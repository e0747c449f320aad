"""Lazy imports of names and submodules, and class names in error messages."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any


def names_on_demand(
    package: str, modules: dict[str, str], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package (PEP 562).

    ``modules`` maps each name to the module that defines it, and ``submodules`` lists
    public modules. They are imported on first use.
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
                # An optional library is missing. Code that reads all attributes, such
                # as help(), skips those that raise an AttributeError.
                reason = f" ({error})"
        raise AttributeError(f"module {package!r} has no attribute {name!r}{reason}")

    def names() -> list[str]:
        return [*sys.modules[package].__all__, *submodules]

    return get, names


def name_constructor(cls: type) -> None:
    """Give a class that inherits its constructor its own copy, named after the class.

    If an argument is wrong, the error message of Python names the class that defines
    the constructor, which may be a private base class.
    """
    inherited = cls.__init__  # type: ignore[misc]
    if "__init__" in vars(cls) or not isinstance(inherited, FunctionType):
        return
    code, closure = inherited.__code__, inherited.__closure__
    own = FunctionType(code, inherited.__globals__, closure=closure)
    for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__"):
        setattr(own, name, getattr(inherited, name))
    own.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = own  # type: ignore[misc]
