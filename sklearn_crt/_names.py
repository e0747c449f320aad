"""Names: those that a package imports on first use, and those in error messages."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType
from typing import Any


def names_on_demand(
    package: str, modules: dict[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package (PEP 562)."""

    def get(name: str) -> Any:
        if name in modules:
            value = getattr(import_module(f"{package}.{modules[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in modules.values():
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names() -> list[str]:
        own = vars(sys.modules[package])
        public = (module for module in modules.values() if not module.startswith("_"))
        return sorted({*own, *modules, *public})

    return get, names


class NamedConstructor:
    """Base of public classes that inherit their constructor from a private class.

    Python names the class that defines a constructor if an argument is wrong. Each
    subclass therefore has a copy of the constructor with a name of its own.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherited = cls.__init__
        if "__init__" in vars(cls) or not isinstance(inherited, FunctionType):
            return
        code, closure = inherited.__code__, inherited.__closure__
        own = FunctionType(code, inherited.__globals__, closure=closure)
        for name in ("__defaults__", "__kwdefaults__", "__annotations__", "__doc__"):
            setattr(own, name, getattr(inherited, name))
        own.__qualname__ = f"{cls.__qualname__}.__init__"
        cls.__init__ = own  # type: ignore[method-assign]
