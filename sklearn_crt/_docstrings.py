"""Constructors and docstrings of classes."""

from __future__ import annotations

import inspect
import re
from types import FunctionType

# the header of a numpydoc section
_HEADER = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


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


def complete_docstring(cls: type) -> None:
    """Add descriptions of parameters and attributes from the base classes.

    A description in the class itself takes precedence over those in its base classes,
    which are searched in the method resolution order. Names that end with an underscore
    are attributes. Parameters are listed in the order of the constructor; a base class
    without a constructor may describe them as attributes. Docstrings without sections,
    which most private classes have, are not changed.
    """
    summary, sections = _sections(cls.__doc__)
    if not sections:
        return
    parameters = _entries(sections.pop("Parameters", ""))
    attributes = _entries(sections.pop("Attributes", ""))
    place = {name: i for i, name in enumerate(inspect.signature(cls).parameters)}
    told = {name for names in parameters for name in names.split(", ")}
    for base in cls.__mro__[1:]:
        _, found = _sections(vars(base).get("__doc__"))
        for section in ("Parameters", "Attributes"):
            for name, text in _entries(found.get(section, "")).items():
                if name.endswith("_"):
                    attributes.setdefault(name, text)
                elif name in place and name not in told:
                    parameters.setdefault(name, text)
    # parameters that are not in the constructor come last, and the tests report them
    names = sorted(
        parameters, key=lambda each: place.get(each.split(", ")[0], len(place))
    )
    ordered = {"Parameters": [parameters[name] for name in names]}
    ordered["Attributes"] = [*attributes.values()]
    first = {name: "\n".join(texts) for name, texts in ordered.items() if texts}
    whole = "".join(
        f"{name}\n{'-' * len(name)}\n{body.rstrip()}\n\n"
        for name, body in {**first, **sections}.items()
    )
    cls.__doc__ = f"{summary}{whole.rstrip()}\n"


def _sections(doc: str | None) -> tuple[str, dict[str, str]]:
    """Return the text before the first section, and the sections by name."""
    summary, *parts = _HEADER.split(inspect.cleandoc(doc or ""))
    return summary, dict(zip(parts[::2], parts[1::2], strict=True))


def _entries(body: str) -> dict[str, str]:
    """Return the entries of a section as a dictionary from names to descriptions."""
    entries: dict[str, str] = {}
    name = ""
    for line in body.rstrip().splitlines():
        if line and not line[0].isspace():
            name = line.partition(" :")[0]
            entries[name] = line
        else:
            entries[name] = f"{entries.get(name, '')}\n{line}"
    return entries
