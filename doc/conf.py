"""Configuration of the documentation."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path

import nbformat
from sphinx.util.fileutil import copy_asset

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "sklearn_crt"
author = "The sklearn_crt developers"
copyright = f"2026, {author}"
version = release = installed_version("sklearn-crt")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.extlinks",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx_design",
    "myst_nb",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "gallery_figures",
    "decision_chart",
    "sampler_map",
]
# sphinx-gallery writes a notebook beside each page of its own
exclude_patterns = ["_build", "whats_new/upcoming", "auto_examples/**.ipynb"]
templates_path = ["_templates"]
default_role = "py:obj"

extlinks = {
    "arxiv": ("https://arxiv.org/abs/%s", "arXiv:%s"),
    "doi": ("https://doi.org/%s", "doi:%s"),
}

# The addresses stand once, in pyproject.toml.
urls = tomllib.loads((HERE.parent / "pyproject.toml").read_text())["project"]["urls"]
extlinks["repository"] = (f"{urls['Source']}%s", None)

html_theme = "pydata_sphinx_theme"
html_title = f"sklearn_crt {release}"
html_show_sourcelink = False
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_favicon = "_static/logo.svg"

html_baseurl = urls["Documentation"]
logo = "_static/logo.svg"
published = os.environ.get("READTHEDOCS_VERSION")
versions = "_static/switcher.json"
html_theme_options = {
    "logo": {"text": project, "image_light": logo, "image_dark": logo},
    "github_url": urls["Source"],
    "use_edit_page_button": True,
    "navbar_end": ["version-switcher", "theme-switcher", "navbar-icon-links"],
    "switcher": {
        # the pages of an old version read the list of the newest
        "json_url": f"../latest/{versions}" if published else versions,
        "version_match": published or "latest",
    },
    "check_switcher": not published,
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
toc_object_entries_show_parents = "hide"
html_context = {
    "default_mode": "auto",
    "edit_page_provider_name": "GitHub",
    "edit_page_url_template": urls["Source"] + "/edit/main/{{ source_of(file_name) }}",
}
alone = "index", "install", "benchmarks", "benchmarks/*", "whats_new/index"
alone += "faq", "related", "citing"  # nothing beside them
html_sidebars = {name: [] for name in alone}

# One file, without fonts, copied from a package: formulas need no network.
mathjax_file = "tex-svg.js"
mathjax_path = f"mathjax/{mathjax_file}"

autodoc_mock_imports = [name for name in ("torch", "dask") if find_spec(name) is None]

autodoc_typehints = "none"  # numpydoc has the types, in words
numpydoc_show_class_members = False  # autosummary/class.rst lists the methods

owner, repository = urls["Source"].split("/")[-2:]
sections = "tasks", "averages", "maps", "couplings", "kernels", "hybrids", "attention"
sections += ("notebooks",)  # a page that lists them
has_torch = find_spec("torch") is not None
of_torch = "auto_examples/tasks/plot_44_attention"
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_" if has_torch else r"plot_(?!44)",
    "ignore_pattern": r"__init__|notebooks",
    # notebooks: only their README becomes a section
    "subsection_order": [f"../examples/{name}" for name in (*sections, "notebooks")],
    "within_subsection_order": "FileNameSortKey",
    "thumbnail_size": (660, 300),
    "image_scrapers": ("gallery_figures.scrape",),
    "backreferences_dir": "generated/backreferences",
    "doc_module": (project,),
    "reference_url": {project: None},
    "write_computation_times": False,  # a page that loads scripts from elsewhere
    "download_all_examples": False,
    "show_signature": False,
    "binder": {  # .binder/postBuild makes the notebooks of main
        "binderhub_url": "https://mybinder.org",
        "org": owner,
        "repo": repository,
        "branch": "main",
        "dependencies": ["../.binder/requirements.txt"],
        "use_jupyter_lab": True,
    },
}

# The stored outputs of the notebooks become pages, papers/NAME; nothing is run, and
# their code is folded.
nb_execution_mode = "off"
nb_output_stderr = "remove"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
shutil.rmtree("papers", ignore_errors=True)
Path("papers").mkdir()
for path in Path("../examples/notebooks").glob("*.ipynb"):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.metadata["tags"] = ["hide-input"]
    nbformat.write(notebook, Path("papers", path.name))

# A name of ours that leads nowhere is an error. Not so names of others, nor those of
# attributes and parameters, for which numpydoc makes references too.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!sklearn_crt\b)[a-z_].*|[AC]_")]

# In the published pages; elsewhere an inventory out of reach would be an error.
if os.environ.get("SKLEARN_CRT_INTERSPHINX") or os.environ.get("READTHEDOCS"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }


def skip_borrowed(app, what, name, obj, skip, options):
    """Leave out what scikit-learn or Python wrote, such as ``get_params``."""
    if what == "class":
        if isinstance(obj, property) and name.endswith("_"):
            return True  # fitted attributes stand in the docstring of the class
        function = inspect.unwrap(getattr(obj, "fget", obj))
        if inspect.isroutine(function) and not inspect.isfunction(function):
            return True  # methods of dict are no Python functions
        module = getattr(function, "__module__", None) or project
        return skip or not module.startswith(project)


def insert_news(app, name, source):
    """Put the fragments since the last release into the page that collects them."""
    fragments = [*(HERE / "whats_new" / "upcoming").glob("*.*.rst")]
    if name == "whats_new/index" and fragments:
        command = [sys.executable, "-m", "towncrier", "build", "--draft"]
        draft = subprocess.run(
            command, cwd=HERE.parent, capture_output=True, text=True, check=True
        )
        mark = ".. towncrier release notes start\n"
        source[0] = source[0].replace(mark, f"{mark}\n{draft.stdout}\n")


def say_what_was_not_run(app, name, source):
    """Say on the page of the example of torch why it has no picture."""
    if name == of_torch and not has_torch:
        reason = ".. note:: Not run: there was no torch where this page was built.\n\n"
        code = ".. code-block:: Python"
        source[0] = source[0].replace(code, reason + code, 1)


def mark_breaks(app, pagename, templatename, context, doctree):
    """Let long names break after dots and underscores and before capitals."""

    def broken(match):
        return match[1] + re.sub(r"[._(=](?=\w)|(?<=[a-z0-9])(?=[A-Z])", _wbr, match[2])

    if "body" in context:
        long = r'(<span class="pre">|<h1>)([^<]{16,})'
        context["body"] = re.sub(long, broken, context["body"])


def _wbr(match):
    return f"{match[0]}<wbr>"


def copy_mathjax(app, error):
    """Copy the file that sets formulas."""
    if error is None and app.builder.format == "html":
        folder = Path(find_spec("sphinx-mathjax-offline").origin).parent
        target = app.outdir / "_static" / "mathjax"
        copy_asset(folder / "static" / "mathjax" / mathjax_file, target)


def set_source(app, pagename, templatename, context, doctree):
    """Let "Edit on GitHub" lead to what a page is made from."""

    def source_of(file_name):
        name = Path(pagename)
        if name.parts[0] == "auto_examples":
            found = Path("examples", *name.parts[1:]).with_suffix(".py")
            return found if found.stem != "index" else found.with_name("README.txt")
        if name.parts[0] == "papers":
            return f"examples/notebooks/{name.name}.ipynb"
        if name.parts[0] == "generated":
            return _file_of(name.name)
        return f"doc/{file_name}"

    context["source_of"] = source_of


def _file_of(name):
    """Return the file that defines a public name, from the root of the repository."""
    module, _, attribute = name.rpartition(".")
    try:
        defined = getattr(import_module(module), attribute)
        path = Path(inspect.getsourcefile(inspect.unwrap(defined)))
    except (ImportError, AttributeError, TypeError):  # a module, a value
        path = Path(import_module(name if find_spec(name) else module).__file__)
    return path.relative_to(Path(import_module(project).__file__).parents[1]).as_posix()


def widen(app, pagename, templatename, context, doctree):
    """Give the pages of notebooks and of wide tables the width of the window."""
    if pagename.startswith(("papers/", "benchmarks/")):
        app.add_css_file("papers.css")


def setup(app):
    app.connect("autodoc-skip-member", skip_borrowed)
    app.connect("source-read", insert_news)
    app.connect("source-read", say_what_was_not_run)
    app.connect("build-finished", copy_mathjax)
    app.connect("html-page-context", widen)
    app.connect("html-page-context", set_source)
    app.connect("html-page-context", mark_breaks)
