"""What is public, what is installed, what is imported."""

import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import metadata, resources
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

import sklearn_crt
from sklearn_crt import samplers
from sklearn_crt.extend import DiscreteSampler

PUBLIC = (
    "",
    ".accuracy",
    ".attention",
    ".attention.torch",
    ".averages",
    ".dask",
    ".datasets",
    ".exceptions",
    ".extend",
    ".inspection",
    ".kernels",
    ".metric",
    ".ridge",
    ".samplers",
    ".tables",
    ".testing",
    ".theory",
)


def public_module(name):
    """Return a public module, or None where it needs a package that is not there."""
    needed = {".attention.torch": "torch", ".dask": "dask"}.get(name)
    if needed is not None and importlib.util.find_spec(needed) is None:
        return None
    return importlib.import_module(f"sklearn_crt{name}")


def test_public_names_exist():
    for module in filter(None, map(public_module, PUBLIC)):
        for name in module.__all__:
            assert hasattr(module, name), f"{module.__name__}.{name}"
    assert sklearn_crt.__version__ == metadata.version("sklearn-crt")


def test_every_sampler_is_imported_from_the_package():
    names = {*samplers.__all__} - {"BaseFeatureSampler"}
    assert len(names) == 22
    assert names <= {*sklearn_crt.__all__}
    assert all(getattr(sklearn_crt, n) is getattr(samplers, n) for n in names)


def test_data_files_are_installed():
    package = resources.files(sklearn_crt)
    assert (package / "py.typed").is_file()
    assert (package / "datasets" / "descr.rst").is_file()
    included = (package / "datasets" / "files").iterdir()
    assert sorted(path.name for path in included) == [
        "LICENSE.txt",
        "car.data.gz",
        "cmc.data.gz",
        "data_banknote_authentication.txt.gz",
        "wifi_localization.txt.gz",
        "yeast.data.gz",
    ]


IMPORTED = """
import sys
import tomllib
known = set(sys.modules)
import sklearn_crt, sklearn_crt.attention, sklearn_crt.testing, sklearn_crt.datasets
print(*(set(sys.modules) - known))
"""


def words_of_new_process(code):
    """Return the words that a script prints."""
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout.split()


def test_core_needs_no_optional_package():
    optional = {"polars", "matplotlib", "tqdm", "torch", "dask", "jax"}
    optional |= {"cupy", "array_api_strict"}
    found = set(words_of_new_process(IMPORTED))
    assert "sklearn_crt.averages" in found
    assert not optional & found


def test_unknown_names_raise_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'NoSampler'"):
        _ = sklearn_crt.NoSampler
    with pytest.raises(AttributeError, match=r"'sklearn_crt.samplers' has no"):
        _ = samplers.NoSampler


ESTIMATORS = sorted(
    {
        member
        for module in filter(None, map(public_module, PUBLIC))
        for member in (getattr(module, name) for name in module.__all__)
        if isinstance(member, type) and issubclass(member, BaseEstimator)
    },
    key=lambda cls: cls.__name__,
)


def test_each_public_estimator_is_judged():
    """Tests over a list that has lost a class would pass."""
    assert len(ESTIMATORS) == 32
    assert [cls for cls in ESTIMATORS if inspect.isabstract(cls)] == [
        samplers.BaseFeatureSampler,
        DiscreteSampler,
    ]


def entries(estimator):
    """Return the text of each parameter and attribute in the docstring of a class."""
    section = r"(?ms)^(?:Parameters|Attributes)\n-+\n(.*?)(?=^\w[^\n]*\n--|\Z)"
    for text in re.findall(section, inspect.getdoc(estimator)):
        _, *parts = re.split(r"(?m)^(\w+(?:, \w+)*) : ", text)
        yield from zip(parts[::2], map(str.strip, parts[1::2]), strict=True)


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


@pytest.fixture(scope="module")
def reference():
    """Return the names that the page of the reference lists, below ``sklearn_crt``."""
    page = Path(__file__).parents[1] / "doc" / "api.rst"
    if not page.exists():
        pytest.skip("the pages of the documentation are not here")
    return re.findall(r"^   ([A-Za-z_][\w.]*)$", page.read_text(), re.MULTILINE)


def test_reference_and_public_modules_list_the_same(reference):
    modules = {name: public_module(name) for name in PUBLIC}
    listed = set()
    for path in reference:
        if f".{path}" in modules:  # one page for all names of a module
            module = modules[f".{path}"]
            listed.update(getattr(module, name) for name in module.__all__)
            continue
        owner, _, name = f".{path}".rpartition(".")
        if modules[owner] is not None:
            assert name in modules[owner].__all__, path
            listed.add(getattr(modules[owner], name))
    assert len(listed) > 60  # the pattern above fits the page
    for module in filter(None, modules.values()):
        for name in set(module.__all__) - {"__version__"}:
            assert getattr(module, name) in listed, f"{module.__name__}.{name}"


def test_one_sentence_describes_the_package():
    def words(text):
        return " ".join(text.replace("*", "").split())

    root = Path(__file__).parents[1]
    sentence = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    sentence = sentence["project"]["description"]
    assert "scikit-learn" in sentence
    assert "Chefs' Random Tables" in sentence
    texts = [sklearn_crt.__doc__]
    for name in ("README.rst", "doc/index.rst", "doc/user_guide/index.rst"):
        page = root / name
        texts += [page.read_text("utf-8")] if page.exists() else []
    assert [words(sentence) in words(text) for text in texts] == [True] * len(texts)


def doc_link(estimator):
    """Return the address of the page that the HTML of an estimator links to."""
    found = re.search(r'href="([^"]*/generated/[^"]*)"', estimator_html_repr(estimator))
    return found and found[1]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_html_links_to_the_page_of_the_reference(estimator, reference):
    class Derived(estimator):
        """An estimator of a user, which has no page."""

    if inspect.isabstract(estimator):
        return
    link = doc_link(estimator())
    folder, page = link.removesuffix(".html").rsplit("/", 1)
    assert page in {f"sklearn_crt.{name}" for name in reference}
    urls = metadata.metadata("sklearn-crt").get_all("Project-URL")
    site = dict(url.split(", ") for url in urls)["Documentation"]
    assert folder == f"{site}/en/latest/generated"
    assert doc_link(Derived()) is None
