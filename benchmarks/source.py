"""What the files of a version of the package tell, as text and as trees of Python.

``benchmarks.structure`` counts what is found here, and says what is counted.
"""

import ast
import io
import re
import tokenize
from collections import defaultdict
from pathlib import Path

PACKAGE = "sklearn_crt"
EDGE = {"rows", "arrays", "_array", "_arrays", "_dispatch", "_kernels", "_sincos"}
FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
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

    def imported(self, names, *, for_types=True):
        """Return those of the names of modules that this one imports, lazily too.

        With or without imports for type checkers alone.
        """
        found = set()
        home = self.name.split(".") if self.is_package else self.name.split(".")[:-1]
        for node in ast.walk(self.tree) if for_types else self._run():
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                base = home[: len(home) + 1 - node.level] if node.level else []
                base = ".".join([*base, *([node.module] if node.module else [])])
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    found.add(inner if inner in names else base)
        return found & set(names) - {self.name}

    def _run(self):
        """Return the nodes that are not in a block ``if TYPE_CHECKING``."""
        nodes, todo = [], [self.tree]
        while todo:
            node = todo.pop()
            nodes.append(node)
            children = list(ast.iter_child_nodes(node))
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                children = node.orelse
            todo += children
        return nodes

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

    def exported(self):
        """Return the names in ``__all__``."""
        for node in self.tree.body:
            names = [getattr(name, "id", "") for name in getattr(node, "targets", ())]
            if "__all__" in names:
                return ast.literal_eval(node.value)
        return []

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
QUESTIONS = (
    "on_host and isinstance of ndarray",
    "and in the maps",
    "and in the modules for these",
)


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
        folders = set(module.name.split("."))
        place = QUESTIONS[2 if EDGE & folders else "maps" in folders]
        for node in ast.walk(module.tree):
            if asks_the_library(node):
                found[place].append(f"{module.name}:{node.lineno}")
    return found


def homonyms(modules):
    """Return the functions and classes of one name in several modules.

    Leading underscores count for nothing. A map from names to modules.
    """
    homes = defaultdict(list)
    for module in modules.values():
        names = {
            node.name.lstrip("_")
            for node in module.tree.body
            if isinstance(node, (ast.ClassDef, *FUNCTIONS))
            and not node.name.startswith("__")  # of the language, as __dir__
        }
        for name in names:
            homes[name].append(module.name)
    return {name: found for name, found in sorted(homes.items()) if len(found) > 1}


def imports(modules, *, for_types=False):
    """Return the names of the modules that each module imports."""
    return {
        name: module.imported(modules, for_types=for_types)
        for name, module in modules.items()
    }


def cycles(graph):
    """Return the groups of modules that import each other, directly or not."""
    reached = {}
    for name in graph:
        found, todo = set(), [name]
        while todo:
            more = graph[todo.pop()] - found
            found |= more
            todo += more
        reached[name] = found
    groups = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(groups)


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
        and not module.exported()
        and not module.defined() & public
    ]


def read(root):
    """Return the folder of the package, and its modules by name."""
    folder = Path(root).resolve() / PACKAGE
    modules = [Module(path, folder) for path in sorted(folder.rglob("*.py"))]
    return folder, {module.name: module for module in modules}
