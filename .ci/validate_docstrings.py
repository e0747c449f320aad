"""Validate the docstrings of the public objects with numpydoc, as users see them.

The checks stand in pyproject.toml. ``numpydoc lint`` reads the source, so it would miss
the shared texts that ``sklearn_crt._docs`` fills in. The fields of a value (a dataclass
or named tuple) are its attributes and its parameters, and are documented once, as
either, in the class that states them.
"""

import dataclasses
import importlib
import importlib.util
import inspect
import pkgutil
import pydoc
import sys
import tomllib
from pathlib import Path

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import get_validation_checks, validate

import sklearn_crt


def public_modules():
    yield sklearn_crt
    for info in pkgutil.walk_packages(sklearn_crt.__path__, "sklearn_crt."):
        if "._" not in info.name and not lacks_torch(info.name):
            yield importlib.import_module(info.name)


def lacks_torch(name):
    """Return whether a module needs the extra torch, which is not there."""
    return name.endswith(".torch") and importlib.util.find_spec("torch") is None


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
    paths = {
        path
        for module in public_modules()
        for path in public_members(module, getattr(module, "__all__", ()))
    }
    errors = [
        f"{path}: {code} {message}"
        for path in sorted(paths)
        for code, message in validate(path)["errors"]
        if code in checks and not (code == "PR01" and documents_its_fields(path))
    ]
    print(*errors, f"{len(paths)} docstrings, {len(errors)} errors", sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
