"""Validate the docstrings of the public reference with numpydoc.

The reference is what doc/api.rst lists, with the public methods and properties of its
classes. Everything else is private, and keeps to one sentence. The checks stand in
pyproject.toml. The fields of a value (a dataclass or named tuple) are its attributes
and its parameters, and are documented once, as either, in the class that states them.
"""

import dataclasses
import importlib
import importlib.util
import inspect
import pydoc
import re
import sys
import tomllib
import types
from pathlib import Path

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import get_validation_checks, validate


def listed():
    """Return the names that the page of the reference lists, below ``sklearn_crt``."""
    page = Path("doc/api.rst").read_text()
    names = re.findall(r"^   ([A-Za-z_][\w.]*)$", page, re.MULTILINE)
    without = importlib.util.find_spec("torch") is None
    return [name for name in names if not (without and ".torch." in name)]


def owner_of(name):
    """Return the module of a listed name, and the name there, or all of its names."""
    if isinstance(module := pydoc.locate(f"sklearn_crt.{name}"), types.ModuleType):
        return module, module.__all__
    module, _, name = f"sklearn_crt.{name}".rpartition(".")
    return importlib.import_module(module), [name]


def public_members(owner, names):
    """Yield the path of each documented member that is written in this package."""
    for name in names:
        getattr(owner, name)  # a module may import it only now
        member = inspect.unwrap(inspect.getattr_static(owner, name))
        member = getattr(member, "fget", getattr(member, "__func__", member))
        if (getattr(member, "__module__", None) or "").startswith("sklearn_crt"):
            inherited = member.__doc__ is None and inspect.getdoc(getattr(owner, name))
            if not inherited:
                yield f"{member.__module__}.{member.__qualname__}"
            if inspect.isclass(member):
                inner = [n for n in dir(member) if not n.startswith("_")]
                yield from public_members(member, inner)


def documents_its_fields(path):
    """Whether a class or one above it documents each field of a value."""
    cls = pydoc.locate(path)
    if getattr(cls, "_is_protocol", False):
        return True  # nobody makes one
    if dataclasses.is_dataclass(cls):
        fields = {field.name for field in dataclasses.fields(cls)}
    else:
        fields = set(getattr(cls, "_fields", ()))
    sections = [
        NumpyDocString(inspect.cleandoc(base.__doc__ or ""))[section]
        for base in (inspect.getmro(cls) if fields else ())
        for section in ("Parameters", "Attributes")
    ]
    entries = [entry.name for section in sections for entry in section]
    documented = {name.strip() for entry in entries for name in entry.split(",")}
    return bool(fields) and fields <= documented


def main():
    tools = tomllib.loads(Path("pyproject.toml").read_text())["tool"]
    checks = get_validation_checks(set(tools["numpydoc_validation"]["checks"]))
    paths = {path for name in listed() for path in public_members(*owner_of(name))}
    errors = [
        f"{path}: {code} {message}"
        for path in sorted(paths)
        for code, message in validate(path)["errors"]
        if code in checks and not (code == "PR01" and documents_its_fields(path))
    ]
    if len(paths) < 200:  # the pattern in `listed` no longer fits the page
        errors.append(f"doc/api.rst lists only {len(paths)} docstrings")
    print(*errors, f"{len(paths)} docstrings, {len(errors)} errors", sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
