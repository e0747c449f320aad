"""Check the built pages: python .ci/check_pages.py HTML.

Tables: a page has the tables and rows that its source says, list-tables all of them,
since in a simple table a wrapped first cell becomes a row of its own. Pages: each can
be reached from the first in three clicks, and none loads anything from elsewhere.
References: none is a list. Files of the repository that a page links to exist.
Gallery: one picture per example.
"""

import re
import sys
import tomllib
from collections import deque
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

DOC = Path(__file__).parent.parent / "doc"
CLICKS = 3
UNREACHED = "_modules/index", "genindex", "py-modindex", "search"


class Page(HTMLParser):
    """Rows of the tables, links, and addresses that a browser loads by itself."""

    def __init__(self, path):
        super().__init__()
        self.tables, self.links, self.loads, self.open = [], [], [], []
        self.lettered = False
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "table":
            self.tables.append(0)
            self.open.append(len(self.tables) - 1)
        elif tag == "tr" and self.open:
            self.tables[self.open[-1]] += 1
        elif tag == "ol" and re.search("roman|alpha", attrs.get("class") or ""):
            self.lettered = True
        elif tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        elif tag == "link" and attrs.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(attrs["href"])
        elif tag in ("script", "img", "iframe", "source", "video") and attrs.get("src"):
            self.loads.append(attrs["src"])

    def handle_endtag(self, tag):
        if tag == "table":
            self.open.pop()


def lines_of(path):
    """Return the lines of a source with those that it includes."""
    lines = []
    for line in path.read_text().splitlines():
        found = re.match(r"\s*\.\. include:: (\S+)", line)
        lines += lines_of(path.parent / found[1]) if found else [line]
    return lines


def rows_of_source(path):
    """Return the number of rows of each list-table."""
    rows, depth = [], None
    for line in lines_of(path):
        indent = len(line) - len(line.lstrip())
        if line.lstrip().startswith(".. list-table::"):
            rows.append(0)
            depth = indent
        elif depth is not None and line.strip():
            if indent <= depth:
                depth = None
            elif line.lstrip().startswith("* -"):
                rows[-1] += 1
    return rows


def check_tables(pages, doc):
    """Yield what is wrong with tables, and count tables and rows."""
    n_tables = n_rows = 0
    for source in sorted(doc.rglob("*.rst")):
        name = source.relative_to(doc).with_suffix("").as_posix()
        if name in pages and not name.startswith(("generated/", "auto_examples/")):
            built, written = pages[name].tables, rows_of_source(source)
            # lists of names (autosummary) are tables of their own
            if ".. autosummary::" not in source.read_text() and built != written:
                yield f"{name}: tables of {built} rows, the source has {written}"
            n_tables, n_rows = n_tables + len(built), n_rows + sum(built)
    print(f"{n_tables} tables of {n_rows} rows")


def check_loads(pages):
    """Yield what a page would load from elsewhere."""
    for name, page in pages.items():
        for load in page.loads:
            if urlsplit(load).netloc:
                yield f"{name}: loads {load}"


def check_lists(pages):
    """Yield pages with a lettered list: the initial of an author became its number."""
    for name, page in pages.items():
        if page.lettered:
            yield f"{name}: a lettered list, where a reference begins with an initial?"


def check_files(pages, root):
    """Yield links to files and folders that the repository does not have."""
    options = tomllib.loads((root / "pyproject.toml").read_text())
    source = re.escape(options["project"]["urls"]["Source"])
    for name, page in pages.items():
        for link in page.links:
            found = re.match(rf"{source}/(?:blob|tree)/main/([^#]*)", link)
            if found and not (root / unquote(found[1])).exists():
                yield f"{name}: the repository has no {found[1]}"


def check_clicks(pages):
    """Yield the pages that three clicks do not reach, and print the most needed."""
    clicks, queue = {"index": 0}, deque(["index"])
    while queue:
        name = queue.popleft()
        for link in pages[name].links:
            parts = urlsplit(link)
            if parts.netloc or parts.scheme or not parts.path.endswith(".html"):
                continue
            folder = Path("/", name).parent
            path = (folder / unquote(parts.path)).as_posix()
            target = _normal(path).removesuffix(".html")
            if target in pages and target not in clicks:
                clicks[target] = clicks[name] + 1
                queue.append(target)
    for name in pages:
        if clicks.get(name, CLICKS + 1) > CLICKS and name not in UNREACHED:
            yield f"{name}: {clicks.get(name, 'never reached')} clicks from the index"
    numbers = [n for name, n in clicks.items() if name not in UNREACHED]
    print(f"{len(numbers)} pages, at most {max(numbers)} clicks from the first")


def _normal(path):
    parts = []
    for part in path.strip("/").split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def check_gallery(html, pages):
    """Yield examples that have not one picture."""
    pictures = [path.name for path in (html / "_images").glob("sphx_glr_plot_*")]
    examples = [n for n in pages if Path(n).name.startswith("plot_")]
    for name in examples:
        start = f"sphx_glr_{Path(name).name}_0"
        n_pictures = sum(p.startswith(start) and "_2_00x" not in p for p in pictures)
        if n_pictures != 1:
            yield f"{name}: {n_pictures} pictures"
    print(f"{len(examples)} examples")


def main(html):
    """Print what is wrong; return the exit status."""
    html = Path(html)
    pages = {
        path.relative_to(html).with_suffix("").as_posix(): Page(path)
        for path in sorted(html.rglob("*.html"))
        if "_static" not in path.parts
    }
    problems = [
        *check_tables(pages, DOC),
        *check_loads(pages),
        *check_lists(pages),
        *check_files(pages, DOC.parent),
        *check_clicks(pages),
        *check_gallery(html, pages),
    ]
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
