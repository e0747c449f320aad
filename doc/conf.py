"""Configuration of the documentation."""

import inspect
import os
from importlib.metadata import version as installed_version

project = "sklearn_crt"
author = "The sklearn_crt developers"
copyright = f"2026, {author}"
version = release = installed_version("sklearn-crt")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "whats_new/upcoming"]
templates_path = ["_templates"]
default_role = "py:obj"

extlinks = {
    "arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s"),
    "doi": ("https://doi.org/%s", "doi:%s"),
}

html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_crt {release}"
html_show_sourcelink = False

numpydoc_show_class_members = False  # autosummary/class.rst lists the methods

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"__init__|notebooks",
    "download_all_examples": False,
    "show_signature": False,
}

# Off by default: an inventory out of reach is a warning, and warnings are errors.
if os.environ.get("SKLEARN_CRT_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }


def skip_borrowed(app, what, name, obj, skip, options):
    """Leave out what scikit-learn wrote, such as ``get_params``."""
    if what == "class":
        function = inspect.unwrap(getattr(obj, "fget", obj))
        module = getattr(function, "__module__", None) or project
        return skip or not module.startswith(project)


def setup(app):
    app.connect("autodoc-skip-member", skip_borrowed)
