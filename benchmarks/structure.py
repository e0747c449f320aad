"""Measure the structure of the package: python -m benchmarks.structure [ROOT ...].

A ROOT is a folder that holds a version of ``sklearn_crt`` and its ``doc``, this
checkout by default. Each is a column of the table, measured in a process of its own. A
module is a file, a site a function or a method without those inside it.

* Lines of code hold more than a comment or a docstring; the median is that of modules
  other than ``__init__``.
* Modules with one importer are imported by one other file of the package, are no
  ``__init__``, and define no name that doc/api.rst lists (private), or none that it
  lists for ``sklearn_crt`` itself.
* Second classes of a map for the array API have names that begin with ``Ported``.
* Sums in log space: a site that subtracts a maximum along an axis, exponentiates, and
  sums (``@``, ``matmul``, ``einsum``, ``sum``, ``mean``); a softmax is one too.
* Jackknife: a site with ``jackknife`` in its name, or with n / (n - 1) for any n and
  ``group`` in a name.
* Squared distances: a site with twice a matrix product, or a variable that is one, and
  with ``sq`` or ``norm`` in a name: |x|^2 + |y|^2 - 2 x.y, and |x + y|^2.
* Calls of ``on_host`` and ``isinstance`` of ``ndarray`` outside the modules for these:
  ``rows``, ``_array`` and ``_kernels``, or before them ``_arrays`` and ``_dispatch``.
* Calls are those of the Python functions of the package in a second run on 100 rows of
  4 columns, moves those to another of its files.
* The floors of ``samplers`` are the length of the longest chain of imports in that
  folder, arrows the number of imports.

``--sites`` prints the places of the sites, to be judged by eye; ``--gate`` fails where
this checkout has more of something than it had when the gate was set.
"""

import argparse
import ast
import importlib
import inspect
import io
import json
import pkgutil
import re
import statistics
import subprocess
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

from .tables import ROOT, Table

PACKAGE = "sklearn_crt"
EDGE = {"rows", "_array", "_arrays", "_dispatch", "_kernels"}
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


# The most that the gate allows of each number, in the order of its row. What grows for
# a good reason moves its line here, in the commit that says why.
GATE = {
    "lines of the package": [28302],
    "modules": [114],
    "modules with one importer: private, not of the first names": [14, 23],
    "second classes of a map, for the array API": [0],
    "sites of sums in log space": [2],
    "sites of the jackknife": [1],
    "sites of squared distances": [6],
    "on_host and isinstance of ndarray": [31],
    "public names": [96],
    "OPRFSampler.fit: calls, moves": [71, 52],
    "TrigRBFSampler.fit and transform: calls, moves": [130, 94],
    "NadarayaWatsonClassifier(OPRFSampler()).fit: calls, moves": [260, 183],
    "own classes in the MRO of OPRF, Matern, GERF, Hybrid": [3, 3, 3, 2],
}


class Module:
    """A file of the package, as text and as a tree."""

    def __init__(self, path, folder):
        parts = path.relative_to(folder.parent).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[: -self.is_package or None])
        self.path, self.text = path, path.read_text()
        self.tree = ast.parse(self.text)

    def n_lines_of_code(self):
        """Return the number of lines with code."""
        code, docs = set(), set()
        for node in ast.walk(self.tree):
            if not isinstance(node, (ast.Module, ast.ClassDef, *FUNCTIONS)):
                continue
            if ast.get_docstring(node) is not None:
                text = node.body[0]
                docs |= set(range(text.lineno, text.end_lineno + 1))
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in BLANK:
                code |= set(range(token.start[0], token.end[0] + 1))
        return len(code - docs)

    def imported(self, names):
        """Return those of the names of modules that this one imports."""
        found = set()
        home = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = home[: len(home) + 1 - node.level] if node.level else []
                base = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    found.add(inner if inner in names else base)
        return found & set(names) - {self.name}

    def defined(self):
        """Return the names that the module defines itself, outside functions."""
        found = set()
        for node in self.tree.body:
            if isinstance(node, (ast.ClassDef, *FUNCTIONS)):
                found.add(node.name)
            elif isinstance(node, ast.Assign):
                found |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            elif isinstance(node, ast.AnnAssign):
                found.add(getattr(node.target, "id", None))
        return found

    def sites(self):
        """Yield the functions, each with the nodes that are not in another one."""
        for function in ast.walk(self.tree):
            if isinstance(function, FUNCTIONS):
                nodes, todo = [], list(ast.iter_child_nodes(function))
                while todo:
                    nodes.append(todo.pop())
                    if not isinstance(nodes[-1], FUNCTIONS):
                        todo += ast.iter_child_nodes(nodes[-1])
                nodes.sort(key=lambda node: getattr(node, "lineno", 0))
                yield function, nodes


def public_names(root):
    """Return the names in the lists of doc/api.rst, with their modules."""
    found, module, in_list = set(), PACKAGE, False
    for line in (Path(root) / "doc" / "api.rst").read_text().splitlines():
        if match := re.match(r"\.\. currentmodule:: (\S+)", line):
            module = match[1]
        if line.strip() and not line.startswith(" "):
            in_list = line.startswith(".. autosummary::")
        elif in_list and re.fullmatch(r"\s+~?[\w.]+", line):
            found.add(f"{module}.{line.strip().lstrip('~')}")
    return found


def _called(node):
    # the last name of what is called: "max" of xp.max(...)
    if not isinstance(node, ast.Call):
        return None
    return getattr(node.func, "attr", getattr(node.func, "id", None))


def _is(node, operation):
    arithmetic = isinstance(node, ast.BinOp | ast.AugAssign)
    return arithmetic and isinstance(node.op, operation)


def _is_product(node):
    return _is(node, ast.MatMult) or _called(node) in ("matmul", "dot", "inner")


def _holds(node, test, names=()):
    # whether a part of an expression passes a test or is one of the names
    return any(
        test(part) or (isinstance(part, ast.Name) and part.id in names)
        for part in ast.walk(node)
    )


def _names_of(nodes, test):
    # names of values that hold what passes a test, or another such name
    names = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and _holds(node.value, test, names):
            parts = [part for target in node.targets for part in ast.walk(target)]
            names |= {part.id for part in parts if isinstance(part, ast.Name)}
    return names


def sums_in_log_space(function, nodes):
    """Return whether a function sums exponentials relative to their maximum."""

    def is_maximum(node):
        of_axis = any(word.arg == "axis" for word in getattr(node, "keywords", ()))
        return of_axis and _called(node) in ("max", "amax")

    maxima = _names_of(nodes, is_maximum)
    exponentials = any(getattr(node, "attr", None) == "exp" for node in nodes)
    sums = any(
        _is_product(node) or _called(node) in ("sum", "mean", "einsum")
        for node in nodes
    )
    subtracted = any(
        _called(node) == "subtract"
        or (
            _is(node, ast.Sub)
            and _holds(getattr(node, "right", node), is_maximum, maxima)
        )
        for node in nodes
    )
    return bool(maxima) and exponentials and sums and subtracted


def jackknifes(function, nodes):
    """Return whether a function is or holds a grouped jackknife."""
    factor = any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and ast.unparse(node.right) == f"{ast.unparse(node.left)} - 1"
        for node in nodes
    )
    return "jackknife" in function.name or (
        factor and any("group" in word for word in _words(function, nodes))
    )


def forms_sq_distances(function, nodes):
    """Return whether a function forms twice a product of rows, and squares."""

    def is_product(node):
        while isinstance(node, ast.Subscript):
            node = node.value
        return _is_product(node) or getattr(node, "id", None) in products

    def is_twice(node):
        sides = [getattr(node, side, None) for side in ("left", "right")]
        if isinstance(node, ast.AugAssign):
            sides = [node.target, node.value]
        if _is(node, ast.Mult):
            return any(map(is_two, sides)) and any(map(is_product, sides))
        doubled = [side for side in sides if _is(side, ast.Mult)]
        return _is(node, ast.MatMult) and any(is_two(side.left) for side in doubled)

    def is_two(node):
        return ast.unparse(node).lstrip("-") in ("2", "2.0")

    products = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and is_product(node.value):
            products |= {getattr(target, "id", None) for target in node.targets}
    squares = any("sq" in word or "norm" in word for word in _words(function, nodes))
    return squares and any(map(is_twice, nodes))


def _words(function, nodes):
    names = {str(getattr(node, "id", getattr(node, "attr", ""))) for node in nodes}
    return names | {function.name}


SITES = {
    "sites of sums in log space": sums_in_log_space,
    "sites of the jackknife": jackknifes,
    "sites of squared distances": forms_sq_distances,
}
QUESTIONS = "on_host and isinstance of ndarray", "and in the modules for these"


def asks_the_library(node):
    """Return whether a node asks of which library an array is."""
    if _called(node) == "isinstance":
        return "ndarray" in ast.unparse(node.args[1])
    return _called(node) == "on_host"


def find_sites(modules):
    """Return the places of each kind of site, as texts."""
    found = {name: [] for name in (*SITES, *QUESTIONS)}
    for module in modules.values():
        for function, nodes in module.sites():
            for name, test in SITES.items():
                if test(function, nodes):
                    place = f"{module.name}:{function.lineno} {function.name}"
                    found[name].append(place)
        at_edge = bool(EDGE & set(module.name.split(".")))
        for node in ast.walk(module.tree):
            if asks_the_library(node):
                found[QUESTIONS[at_edge]].append(f"{module.name}:{node.lineno}")
    return found


def subclasses(modules, base):
    """Return the names of classes that inherit from a class of this name."""
    bases = defaultdict(set)
    for module in modules.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                for parent in node.bases:
                    bases[node.name].add(ast.unparse(parent).split("[")[0])
    found = {base}
    while more := {name for name in bases if bases[name] & found} - found:
        found |= more
    return found - {base}


def floors(graph):
    """Return the length of the longest chain of imports."""
    height = {}

    def climb(name):
        if name not in height:
            height[name] = 0  # ends a circle
            height[name] = 1 + max((climb(other) for other in graph[name]), default=0)
        return height[name]

    return max(map(climb, graph))


def own_classes(cls):
    """Return the number of classes of the package in the method resolution order."""
    return sum(base.__module__.startswith(PACKAGE) for base in cls.__mro__)


def trace(function, folder):
    """Return the number of calls inside the package, and of moves between its files."""
    calls, moves, last = 0, 0, None

    def watch(frame, event, arg):
        nonlocal calls, moves, last
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(folder):
            calls += 1
            moves += last is not None and path != last
            last = path

    sys.setprofile(watch)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls, moves


def annotated(package):
    """Return how many public functions and methods have full annotations, and all."""
    found = {}
    for info in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if error.name.startswith(PACKAGE):
                raise
            continue  # one of an optional library
        for name, member in vars(module).items():
            if name.startswith("_") or getattr(member, "__module__", "") != info.name:
                continue
            members = {name: member} if inspect.isfunction(member) else {}
            if inspect.isclass(member):
                members = {
                    key: getattr(value, "__func__", value)
                    for key, value in vars(member).items()
                    if not key.startswith("_")
                }
            for key, function in members.items():
                if inspect.isfunction(function):
                    hints = set(inspect.get_annotations(function))
                    names = list(inspect.signature(function).parameters)
                    needed = {n for n in names if n not in ("self", "cls")} | {"return"}
                    found[info.name, name, key] = needed <= hints
    return sum(found.values()), len(found)


def with_one_importer(modules, graph, public):
    """Return the names of modules of one importer that define none of these names."""
    importers = defaultdict(set)
    for name, targets in graph.items():
        for target in targets:
            importers[target].add(name)
    return [
        name
        for name, module in modules.items()
        if len(importers[name]) == 1
        and not module.is_package
        and not module.defined() & public
    ]


def measure_text(root, modules):
    """Return what the files tell, by name."""
    files = [module for module in modules.values() if not module.is_package]
    graph = {name: module.imported(modules) for name, module in modules.items()}
    samplers = {m.name for m in files if m.name.startswith(f"{PACKAGE}.samplers.")}
    inside = {name: graph[name] & samplers for name in samplers}
    names = public_names(root)
    public = {name.rsplit(".", 1)[1] for name in names}
    first = {name.rsplit(".", 1)[1] for name in names if name.count(".") == 1}
    alone = [len(with_one_importer(modules, graph, of)) for of in (public, first)]
    twice = [
        node
        for module in files
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and node.name.startswith("Ported")
    ]
    arrows = sum(map(len, inside.values()))
    n_lines = sum(len(module.text.splitlines()) for module in modules.values())
    median = statistics.median(module.n_lines_of_code() for module in files)
    return {
        "lines of the package": n_lines,
        "lines of code": sum(m.n_lines_of_code() for m in modules.values()),
        "modules": len(modules),
        "lines of code of a module, median": f"{median:g}",
        "modules with one importer: private, not of the first names": _join(alone),
        "second classes of a map, for the array API": len(twice),
        "subclasses of FeatureMap": len(subclasses(modules, "FeatureMap")),
        **{name: len(places) for name, places in find_sites(modules).items()},
        "public names": len(names),
        "files, floors, arrows of samplers": _join(
            (len(inside), floors(inside), arrows)
        ),
    }


def _join(values):
    return ", ".join(map(str, values))


def measure_runs(root, folder):
    """Return what importing and fitting tells, by name."""
    sys.path.insert(0, str(root))
    import numpy as np

    package = importlib.import_module(PACKAGE)
    if Path(package.__file__).parent != folder:
        raise ImportError(f"{package.__file__} is not in {folder}")
    X = np.random.default_rng(0).normal(size=(100, 4))
    y = (X[:, 0] > 0).astype(int)
    oprf, trig = package.OPRFSampler, package.TrigRBFSampler
    average = package.NadarayaWatsonClassifier
    works = {
        "OPRFSampler.fit": lambda: oprf(random_state=0).fit(X),
        "TrigRBFSampler.fit and transform": lambda: (
            trig(random_state=0).fit(X).transform(X)
        ),
        "NadarayaWatsonClassifier(OPRFSampler()).fit": lambda: average(
            oprf(random_state=0)
        ).fit(X, y),
        "GERFSampler.fit": lambda: package.GERFSampler(random_state=0).fit(X),
        "HybridSampler.fit": lambda: package.HybridSampler(random_state=0).fit(X),
    }
    found = {}
    for name, work in works.items():
        work()  # imports and caches
        calls, moves = trace(work, str(folder))
        found[f"{name}: calls, moves"] = _join((calls, moves))
    names = "OPRFSampler", "MaternSampler", "GERFSampler", "HybridSampler"
    depths = [own_classes(getattr(package, name)) for name in names]
    found["own classes in the MRO of OPRF, Matern, GERF, Hybrid"] = _join(depths)
    found["public functions with full annotations, all"] = _join(annotated(package))
    return found


def read(root):
    """Return the folder of the package, and its modules by name."""
    folder = Path(root).resolve() / PACKAGE
    modules = [Module(path, folder) for path in sorted(folder.rglob("*.py"))]
    return folder, {module.name: module for module in modules}


def measure(root):
    """Return what is measured of a version, by name; of one in each process."""
    folder, modules = read(root)
    return measure_text(root, modules) | measure_runs(folder.parent, folder)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.structure",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("roots", nargs="*", default=[str(ROOT)], metavar="ROOT")
    parser.add_argument("--sites", action="store_true", help="the places instead")
    parser.add_argument("--gate", action="store_true", help="fail beyond the limits")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.json:  # in the process of one version
        print(json.dumps(measure(*args.roots)))
    elif args.sites:
        for root in args.roots:
            for name, places in find_sites(read(root)[1]).items():
                print(f"{root}, {name}:", *places, sep="\n    ")
    else:
        columns = [in_child(root) for root in args.roots]
        rows = [[name, *(str(c[name]) for c in columns)] for name in columns[0]]
        print(Table(f"Structure of {PACKAGE}", ["", *args.roots], rows).markdown())
        if args.gate and (problems := beyond(columns[-1])):
            sys.exit("\n".join(problems))


def beyond(found):
    """Return what is more than the gate allows, in words."""
    return [
        f"{name}: {found[name]} is more than {_join(most)}, see GATE"
        for name, most in GATE.items()
        if any(n > m for n, m in zip(_numbers(found[name]), most, strict=True))
    ]


def _numbers(text):
    return map(float, str(text).split(", "))


def in_child(root):
    """Return what is measured of a version, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.structure", "--json"]
    command.append(str(Path(root).resolve()))
    child = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(child.stdout)


if __name__ == "__main__":
    main()
