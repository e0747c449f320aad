"""What is public, what is installed, what is imported."""

import inspect
import re
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import sklearn_crt
from sklearn_crt import frequencies, samplers, testing
from sklearn_crt._docs import fill_doc


def test_public_names_exist():
    for module in (sklearn_crt, frequencies, samplers, testing):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
    assert sklearn_crt.__version__ == metadata.version("sklearn-crt")


def test_data_files_are_installed():
    package = resources.files(sklearn_crt)
    assert (package / "py.typed").is_file()
    assert (package / "datasets" / "descr" / "abalone.rst").is_file()


def test_core_needs_no_optional_package():
    optional = {"pandas", "polars", "matplotlib", "tqdm", "torch", "dask"}
    code = (  # scikit-learn itself imports pandas where it is installed
        "import sys, sklearn.datasets; before = set(sys.modules); "
        "import sklearn_crt.testing, sklearn_crt.datasets; "
        f"print({optional} & (set(sys.modules) - before))"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"


ESTIMATORS = [
    cls
    for module in (sklearn_crt, samplers)
    for cls in map(vars(module).get, module.__all__)
    if isinstance(cls, type) and issubclass(cls, BaseEstimator)
]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_docstrings_name_every_parameter(estimator):
    doc = inspect.getdoc(estimator)  # without indentation, as 3.13 stores it
    assert "%(" not in doc
    if inspect.isabstract(estimator):
        return
    for name in estimator().get_params():
        assert re.search(rf"^(\w+, )*{name}(, \w+)* : ", doc, re.MULTILINE), name


def test_maps_know_no_estimator():
    """What a worker holds needs nothing of scikit-learn's estimators."""
    package = Path(sklearn_crt.__file__).parent
    sources = [
        path.read_text()
        for folder in ("maps", "frequencies", "rows")
        for path in (package / folder).rglob("*.py")
    ]
    assert len(sources) > 20
    assert not any("sklearn.base" in source for source in sources)


def test_every_public_name_stands_in_the_reference():
    page = Path(__file__).parents[1] / "doc" / "api.rst"
    if not page.exists():
        pytest.skip("the pages of the documentation are not here")
    names = set(page.read_text().split())
    public = {name for name in sklearn_crt.__all__ if name[0] != "_"}
    assert public <= {name.rsplit(".", 1)[-1] for name in names}


@pytest.mark.parametrize("margin", ["", "    "])
def test_shared_texts_at_any_margin(margin):
    """From Python 3.13 on the compiler takes the margin of docstrings away."""

    class Documented:
        pass

    own = (
        f"{margin}Parameters\n{margin}----------\n{margin}%(n_jobs)s\n{margin}own : int"
    )
    Documented.__doc__ = f"First line.\n\n{own}\n{margin}"
    start, rest = inspect.getdoc(fill_doc(Documented)).split("n_jobs : ")
    assert start == "First line.\n\nParameters\n----------\n"
    first, *others, last = rest.splitlines()
    assert first.startswith("int")
    assert last == "own : int"
    assert all(line.startswith("    ") for line in others)
