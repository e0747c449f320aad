"""Print the notes of a release as HTML: python .ci/release_notes.py [--tag TAG].

They are what doc/whats_new/index.rst says of the version in the source. Before the
release it says nothing, and its fragments are shown instead; with the tag of a release
that is an error, as is a tag, or a citation, of another version.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

import yaml
from docutils import nodes
from docutils.core import publish_doctree, publish_parts
from docutils.io import DocTreeInput
from docutils.parsers.rst import roles
from docutils.readers import doctree

PAGE = Path("doc/whats_new/index.rst")
FRAGMENTS = Path("doc/whats_new/upcoming")
PAGES = "https://sklearn-crt.readthedocs.io/en/latest"


def version_in_source():
    """Return the version that hatchling reads too."""
    source = Path("sklearn_crt/__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]


def notes_of(version):
    """Return what the page says of a version, or an empty string."""
    page = PAGE.read_text(encoding="utf-8")
    title = rf"^Version {re.escape(version)}\b.*\n-+\n"
    found = re.search(rf"(?ms){title}(.*?)(?=^Version [^\n]*\n-+\n|\Z)", page)
    return found[1].strip() if found else ""


def draft(version):
    """Return what towncrier makes of the fragments, without the title."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft"]
    command += ["--version", version]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return run.stdout.partition("\n---")[2].partition("\n")[2].strip()


def check_release(version, tag):
    """Yield what keeps this from being the release of a tag."""
    if tag != f"v{version}":
        yield f"the tag is {tag}, the version {version}"
    if not notes_of(version):
        yield f"{PAGE} has no notes of {version}: run towncrier build"
    if left := sorted(path.name for path in FRAGMENTS.glob("*.*.rst")):
        yield f"{len(left)} fragments are left in {FRAGMENTS}, {left[0]} first"
    citation = yaml.safe_load(Path("CITATION.cff").read_text(encoding="utf-8"))
    if citation.get("version") != version or "date-released" not in citation:
        yield f"CITATION.cff needs version: {version} and date-released"


def named(name, rawtext, text, lineno, inliner, options=None, content=None):
    """Show a role of Sphinx by its text: a page as a link, a name as code."""
    title, target = re.fullmatch(r"(?s)(?:(.*?)\s*<)?(.*?)>?", text).groups()
    if name == "doc":
        page = target.lstrip("/")
        source = PAGE.parents[1].joinpath(f"{page}.rst").read_text(encoding="utf-8")
        title = title or source.partition("\n")[0]
        return [nodes.reference(rawtext, title, refuri=f"{PAGES}/{page}.html")], []
    shown = nodes.inline if title else nodes.literal
    return [shown(rawtext, title or target.lstrip("~"))], []


def to_html(text):
    """Return the HTML that GitHub shows of a text of the documentation."""
    for role in ("doc", "ref", "class", "func", "meth", "mod", "attr", "arxiv", "doi"):
        roles.register_local_role(role, named)
    settings = {"syntax_highlight": "none", "halt_level": 2, "doctitle_xform": False}
    source = f".. default-role:: code\n\n{text}"
    document = publish_doctree(source, settings_overrides=settings)
    for literal in document.findall(nodes.literal):
        literal["classes"].append("code")  # written as <code>, with no need of a style
    parts = publish_parts(
        document, source_class=DocTreeInput, reader=doctree.Reader(), writer="html5"
    )
    return parts["body"]


def main():
    """Print the notes; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tag", help="that of a release")
    tag = parser.parse_args().tag
    version = version_in_source()
    problems = [*check_release(version, tag)] if tag else []
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(to_html(notes_of(version) or draft(version)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
