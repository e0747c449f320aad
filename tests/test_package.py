"""What is public, what is installed, what is imported."""

import importlib
import inspect
import pkgutil
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


STAGES = """
import sys

def imported(code):
    known = set(sys.modules)
    exec(code, {})
    print(*(set(sys.modules) - known))

imported("import sklearn_crt")
import sklearn.kernel_approximation
imported("from sklearn_crt import OPRFSampler")
imported("from sklearn_crt import *")
import sklearn.datasets  # imports pandas where it is installed
imported("import sklearn_crt.testing, sklearn_crt.datasets")
"""


@pytest.fixture(scope="module")
def imported():
    """Return the modules that each step imports in a fresh process, beside others."""
    command = [sys.executable, "-c", STAGES]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [set(line.split()) for line in run.stdout.splitlines()]


def test_core_needs_no_optional_package(imported):
    optional = {"pandas", "polars", "matplotlib", "tqdm", "torch", "dask", "jax"}
    found = set.union(*imported)
    assert {"sklearn_crt.testing", "sklearn_crt.datasets"} <= found
    assert not optional & found


def test_the_package_imports_what_is_used(imported):
    """Importing it takes no time, one sampler no estimator, all names no KMeans."""
    bare, sampler, others, _ = imported
    assert "sklearn_crt" in bare
    assert not {"numpy", "scipy", "sklearn"} & bare

    assert "sklearn_crt.samplers._oprf" in sampler
    assert not any(name.startswith("sklearn_crt.nadaraya_watson") for name in sampler)
    kinds = {n for n in sampler if n.startswith("sklearn_crt.samplers._")}
    assert not {n for n in kinds if n.endswith(("_hybrid", "_matern", "_gerf"))}
    assert not any(name.startswith(("sklearn.", "scipy.")) for name in sampler)

    everything = sampler | others
    assert {"sklearn_crt.nadaraya_watson", "sklearn_crt.accuracy"} <= everything
    theirs = {name for name in everything if name.startswith(("sklearn.", "scipy."))}
    allowed = "sklearn.frozen", "sklearn.model_selection", "sklearn.utils"
    assert not {name for name in theirs if not name.startswith(allowed)}


def test_names_come_when_they_are_used():
    assert set(sklearn_crt.__all__) <= set(dir(sklearn_crt))
    assert sklearn_crt.samplers is samplers
    for module in (sklearn_crt, samplers):  # two lists of the same names
        listed = set(module.__all__) - {"__version__"}
        assert listed == set(module._HOMES) <= set(dir(module))
    with pytest.raises(AttributeError, match="has no attribute 'NoSampler'"):
        _ = sklearn_crt.NoSampler


ESTIMATORS = [
    cls
    for module in (sklearn_crt, samplers)
    for cls in (getattr(module, name) for name in module.__all__)
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
    names = {name.rsplit(".", 1)[-1] for name in page.read_text().split()}
    modules = [
        importlib.import_module(info.name)
        for info in pkgutil.walk_packages(sklearn_crt.__path__, "sklearn_crt.")
        if "._" not in info.name and not info.name.endswith((".torch", ".dask"))
    ]
    public = {
        name
        for module in [sklearn_crt, *modules]
        for name in getattr(module, "__all__", ())
        if callable(getattr(module, name)) and not name.startswith("_")
    }
    types = {"Rows", "Sigma", "TableLike"}  # of arguments, for annotations
    assert len(public) > 150
    assert not public - types - names


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
