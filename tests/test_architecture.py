"""What the page for contributors names is where the page says."""

import re
import tomllib
from pathlib import Path

import pytest

import sklearn_crt
from sklearn_crt import samplers, tables

PUBLIC = {
    *sklearn_crt.__all__,
    *samplers.__all__,
    *tables.__all__,
}  # users of what a row is about
PACKAGE = Path(sklearn_crt.__file__).parent
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "doc" / "architecture.rst"

pytestmark = pytest.mark.skipif(
    not PAGE.exists(), reason="the pages of the documentation are not here"
)


def names_of(text):
    return re.findall(r"``([^`]+)``", text)


def path_of(name):
    """Return the file or folder with a name, or None if the name is no path."""
    if not re.fullmatch(r"[\w/.]+(\.\w+|/)", name) or "/" not in name:
        return None
    folder = ROOT if name.startswith(("tests", "doc")) else PACKAGE
    return folder / name


def rows_of_tables():
    """Return the rows of the tables of the page, and the files that each row names."""
    rows = re.findall(r"(?m)^   \* - .*\n(?:     .*\n|\n(?=     ))*", PAGE.read_text())
    for row in rows:
        paths = [path_of(name) for name in names_of(row)]
        files = [path for path in paths if path is not None and path.is_file()]
        if files:
            yield row, files


def test_files_exist():
    paths = [path_of(name) for name in names_of(PAGE.read_text())]
    paths = [path for path in paths if path is not None]
    assert len(paths) > 80
    assert [path for path in paths if not path.exists()] == []


def test_names_are_in_the_files_beside_them():
    n_names, missing = 0, []
    for row, files in rows_of_tables():
        source = "\n".join(path.read_text() for path in files)
        for name in names_of(row):
            if re.fullmatch(r"[A-Za-z_][\w.]*", name) and name not in PUBLIC:
                n_names += 1
                *_, last = name.split(".")
                if not re.search(rf"\b{last}\b", source):
                    missing.append((name, [path.name for path in files]))
    assert n_names > 60
    assert missing == []


def test_layers_are_those_of_the_contract():
    table = PAGE.read_text().partition("* - layer\n")[2]
    rows = re.findall(r"(?m)^   \* - (.*)\n     - ", table)
    listed = [{name.strip("/") for name in names_of(row)} for row in rows]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = contracts["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    assert listed == [{*layer.split(" | ")} for layer in layers[::-1]]
