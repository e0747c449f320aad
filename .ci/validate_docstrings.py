"""Validate the docstrings of the public objects with numpydoc, as users see them.

The checks stand in pyproject.toml. ``numpydoc lint`` reads the source, so it would miss
the shared texts that ``sklearn_crt._docs`` fills in.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import sys
import tomllib
from pathlib import Path

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
        member = inspect.unwrap(inspect.getattr_static(owner, name))
        member = getattr(member, "fget", getattr(member, "__func__", member))
        if (getattr(member, "__module__", None) or "").startswith("sklearn_crt"):
            inherited = member.__doc__ is None and inspect.getdoc(getattr(owner, name))
            if not inherited:
                yield f"{member.__module__}.{member.__qualname__}"
            if inspect.isclass(member):
                inner = [n for n in dir(member) if not n.startswith("_")]
                yield from public_members(member, inner)


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
        if code in checks
    ]
    print(*errors, f"{len(paths)} docstrings, {len(errors)} errors", sep="\n")
    return bool(errors)


if __name__ == "__main__":
    sys.exit(main())
