"""Measure the structure of the package: classes, files, imports, calls, annotations.

``python -m benchmarks.structure [ROOT]`` prints a table; ROOT is the folder that holds
another version of ``sklearn_crt``, this checkout by default.
"""

import ast
import importlib
import inspect
import pkgutil
import sys
from pathlib import Path


def own_classes(cls):
    """Return the number of classes of the package in the method resolution order."""
    return sum(base.__module__.startswith("sklearn_crt") for base in cls.__mro__)


def import_graph(folder):
    """Return files and, for each, the files of the folder that it imports."""
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in folder.rglob("*.py")
        if path.name != "__init__.py"
    }
    graph = {name: set() for name in files}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.level:
                parts = name.split("/")[: -node.level]
                if node.level > len(name.split("/")):
                    continue
                base = "/".join([*parts, *(node.module or "").split(".")]).strip("/")
                targets = [base, *(f"{base}/{a.name}".strip("/") for a in node.names)]
                graph[name] |= {t for t in targets if t in files and t != name}
    return graph


def floors(graph):
    """Return the length of the longest chain of imports."""
    height = {}

    def climb(name):
        if name not in height:
            height[name] = 0  # ends a circle
            height[name] = 1 + max((climb(other) for other in graph[name]), default=0)
        return height[name]

    return max(map(climb, graph))


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
    for info in pkgutil.walk_packages(package.__path__, "sklearn_crt."):
        try:
            module = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            continue
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


def main(root):
    sys.path.insert(0, root)
    import numpy as np

    import sklearn_crt as package

    folder = Path(package.__file__).parent
    samplers = folder / "samplers"
    graph = import_graph(samplers)
    X = np.random.default_rng(0).normal(size=(100, 4))
    y = (X[:, 0] > 0).astype(int)
    names = "OPRFSampler", "MaternSampler", "GERFSampler", "HybridSampler"
    classes = [getattr(package, name) for name in names]
    fits = [
        lambda cls=cls: cls(random_state=0).fit(X)
        for cls in (classes[0], classes[2], classes[3])
    ]
    average = package.NadarayaWatsonClassifier(package.OPRFSampler(random_state=0))
    for function in (*fits, lambda: average.fit(X, y)):
        function()  # imports and caches
    n_lines = sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))
    good, total = annotated(package)
    rows = {
        "own classes in the MRO of OPRF, Matern, GERF, Hybrid": [
            own_classes(cls) for cls in classes
        ],
        "files, floors, arrows of samplers/": [
            len(graph),
            floors(graph),
            sum(map(len, graph.values())),
        ],
        "calls in fit of OPRF, GERF, Hybrid": [trace(f, str(folder))[0] for f in fits],
        "moves between files in fit of Nadaraya-Watson": [
            trace(lambda: average.fit(X, y), str(folder))[1]
        ],
        "public functions with full annotations, all": [good, total],
        "lines of the package": [n_lines],
    }
    for name, values in rows.items():
        print(f"{name:55}", *(f"{value:7}" for value in values))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).parents[1]))
