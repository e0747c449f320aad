"""Check what was built: python .ci/check_dist.py DIST.

There are one sdist and one pure wheel of the same version. The wheel has the files of
the package that git knows, all of them and no others; the sdist also has what its tests
read. The wheel stays small.
"""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

MAX_WHEEL = 488_000  # bytes, of which docstrings are a third
ALWAYS = {".gitignore", "LICENSE", "PKG-INFO", "README.rst", "pyproject.toml"}


def tracked(folders):
    """Return the files that git knows below some folders."""
    command = ["git", "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.split("\0") if name}


def compare(name, found, expected):
    """Yield the files that are missing, and those that should not be there."""
    for what, files in (("lacks", expected - found), ("also has", found - expected)):
        if files:
            yield f"{name} {what} {', '.join(sorted(files)[:10])}"


def check_wheel(path, version):
    """Yield what is wrong with the wheel."""
    info = f"sklearn_crt-{version}.dist-info"
    own = {"METADATA", "RECORD", "WHEEL", "licenses/LICENSE"}
    with zipfile.ZipFile(path) as wheel:
        found = set(wheel.namelist())
    expected = tracked(["sklearn_crt"]) | {f"{info}/{name}" for name in own}
    yield from compare("the wheel", found, expected)
    size = path.stat().st_size
    print(f"{path.name}: {size} bytes, {len(found)} files")
    if size >= MAX_WHEEL:
        yield f"the wheel has {size} bytes, {MAX_WHEEL} are too many"


def check_sdist(path, version):
    """Yield what is wrong with the sdist."""
    with tarfile.open(path) as sdist:
        names = [member.name for member in sdist.getmembers() if member.isfile()]
    found = {name.removeprefix(f"sklearn_crt-{version}/") for name in names}
    options = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    included = options["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    expected = tracked([name.removeprefix("/") for name in included]) | ALWAYS
    print(f"{path.name}: {path.stat().st_size} bytes, {len(found)} files")
    yield from compare("the sdist", found, expected)


def main(dist):
    """Print what is wrong; return the exit status."""
    built = {path.name for path in Path(dist).iterdir()} - {".gitignore"}
    version = min(built, default="").removeprefix("sklearn_crt-").partition("-")[0]
    wheel = f"sklearn_crt-{version}-py3-none-any.whl"
    sdist = f"sklearn_crt-{version}.tar.gz"
    problems = [*compare(dist, built, {wheel, sdist})]
    if not problems:
        problems += check_wheel(Path(dist, wheel), version)
        problems += check_sdist(Path(dist, sdist), version)
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
