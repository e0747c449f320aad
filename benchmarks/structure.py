"""Measure the structure of the package: python -m benchmarks.structure [ROOT ...].

A ROOT is a folder that holds a version of ``sklearn_crt`` and its ``doc``, this
checkout by default. Each is a column of the table, measured in a process of its own. A
module is a file, a site a function or a method without those inside it.

* Lines of code hold more than a comment or a docstring; the median is that of modules
  other than ``__init__``.
* Public names are the entries of doc/api.rst, of which some are modules.
* Modules with one importer are imported by one other file of the package, are no
  ``__init__``, have no ``__all__``, and define no name that doc/api.rst lists
  (private), or none that it lists for ``sklearn_crt`` and ``sklearn_crt.samplers``.
* Names with two meanings are functions and classes that two modules define under one
  name, whether or not it begins with an underscore.
* Cycles of imports are groups of modules that import each other, directly or not,
  inside functions too. Imports for type checkers alone are left out.
* Second classes of a map for the array API have names that begin with ``Ported``.
* Sums in log space: a site that subtracts a maximum along an axis, exponentiates, and
  sums (``@``, ``matmul``, ``einsum``, ``sum``, ``mean``); a softmax is one too.
* Jackknife: a site with ``jackknife`` in its name, or with n / (n - 1) for any n and
  ``group`` in a name.
* Squared distances: a site with twice a matrix product, or a variable that is one, and
  with ``sq`` or ``norm`` in a name: |x|^2 + |y|^2 - 2 x.y, and |x + y|^2.
* Calls of ``on_host`` and ``isinstance`` of ``ndarray`` outside the maps and the
  modules for these: ``rows``, ``_array``, ``_kernels`` and ``_sincos``, or ``_arrays``
  and ``_dispatch``.
* Calls are those of the Python functions of the package in a second run on 200 rows of
  5 columns, without comprehensions, generator expressions and lambdas; moves are calls
  whose file differs from that of the call before.
* The floors of ``samplers`` are the length of the longest chain of imports in that
  folder, arrows the number of imports.

``--sites`` prints the places of the sites, names and cycles, to be judged by eye;
``--gate`` fails where this checkout has more of something than ``LIMITS`` allow.
"""

import argparse
import ast
import importlib
import inspect
import json
import pkgutil
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

from .source import (
    PACKAGE,
    cycles,
    find_sites,
    floors,
    homonyms,
    imports,
    public_names,
    read,
    subclasses,
    with_one_importer,
)
from .tables import ROOT, Table

# Of each row: the most that the gate allows, and what it is to become, where that is
# less. What grows for a good reason moves its limit here, in the commit that says why.
LIMITS = {
    "lines of the package": ([33210], [24800]),
    "lines of code": ([18674], [14300]),
    "modules": ([126], None),
    "modules with one importer: private, not of models and samplers": ([11, 22], None),
    "names with two meanings": ([0], None),
    "cycles of imports": ([0], None),
    "second classes of a map, for the array API": ([0], None),
    "sites of sums in log space": ([1], None),
    "sites of the jackknife": ([1], None),
    "sites of squared distances": ([6], None),
    "on_host and isinstance of ndarray": ([10], None),
    "public names": ([79], None),
    "OPRFSampler.fit: calls, moves": ([65, 46], [60]),
    "TrigRBFSampler.fit and transform: calls, moves": ([133, 98], None),
    "NadarayaWatsonClassifier(OPRFSampler(), sigma=1).fit: calls, moves": (
        [252, 178],
        [180],
    ),
    "NadarayaWatsonRegressor(OPRFSampler(), sigma=1).fit: calls, moves": (
        [269, 182],
        [180],
    ),
    "RandomFeatureRidge, 2 partial_fit, predict: calls, moves": ([1323, 820], [500]),
    "LearnedMetric, LocalLinearRegressor: calls, moves": ([1853, 839], None),
    "LearnedMetric, LocalLinearClassifier: calls, moves": ([3141, 1804], [2500]),
    "own classes in the MRO of OPRF, Matern, GERF, Hybrid": ([4, 4, 4, 3], None),
}


def own_classes(cls):
    """Return the number of classes of the package in the method resolution order."""
    return sum(base.__module__.startswith(PACKAGE) for base in cls.__mro__)


def trace(function, folder):
    """Return the number of calls inside the package, and of moves between its files."""
    calls, moves, last = 0, 0, None

    def watch(frame, event, arg):
        nonlocal calls, moves, last
        path, is_function = frame.f_code.co_filename, frame.f_code.co_name[0] != "<"
        if event == "call" and is_function and path.startswith(folder):
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


def measure_text(root, modules):
    """Return what the files tell, by name."""
    files = [module for module in modules.values() if not module.is_package]
    graph = imports(modules, for_types=True)
    samplers = {m.name for m in files if m.name.startswith(f"{PACKAGE}.samplers.")}
    inside = {name: graph[name] & samplers for name in samplers}
    names = public_names(root)
    public = {name.rsplit(".", 1)[1] for name in names}
    for module in names & set(modules):
        public.update(modules[module].exported())
    homes = PACKAGE, f"{PACKAGE}.samplers"
    parts = [name.rsplit(".", 1) for name in names]
    first = {name for home, name in parts if home in homes}
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
        "modules with one importer: private, not of models and samplers": _join(alone),
        "names with two meanings": len(homonyms(modules)),
        "cycles of imports": len(cycles(imports(modules))),
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


def runs(package, rng):
    """Return what is run to count its calls, by name."""
    from sklearn.pipeline import make_pipeline

    X = rng.normal(size=(200, 5))
    z = X[:, 0] + X[:, 1] ** 2
    y = (z > 0.5).astype(int)
    oprf = package.OPRFSampler(random_state=0)
    classifier = package.NadarayaWatsonClassifier
    regressor = package.NadarayaWatsonRegressor
    samplers = package.samplers

    def stream():
        model = package.RandomFeatureRidge()
        model.partial_fit(X[:100], z[:100]).partial_fit(X[100:], z[100:]).predict(X)

    def in_metric(model, targets):
        metric = package.LearnedMetric(random_state=0)
        make_pipeline(metric, model).fit(X, targets).predict(X)

    linear = package.LocalLinearRegressor, package.LocalLinearClassifier
    return {
        "OPRFSampler.fit": lambda: oprf.fit(X),
        "TrigRBFSampler.fit and transform": lambda: (
            package.TrigRBFSampler(random_state=0).fit(X).transform(X)
        ),
        "NadarayaWatsonClassifier(OPRFSampler(), sigma=1).fit": lambda: classifier(
            oprf, sigma=1.0
        ).fit(X, y),
        "NadarayaWatsonRegressor(OPRFSampler(), sigma=1).fit": lambda: regressor(
            oprf, sigma=1.0
        ).fit(X, z),
        "RandomFeatureRidge, 2 partial_fit, predict": stream,
        "LearnedMetric, LocalLinearRegressor": lambda: in_metric(linear[0](), z),
        "LearnedMetric, LocalLinearClassifier": lambda: in_metric(linear[1](), y),
        "GERFSampler.fit": lambda: samplers.GERFSampler(random_state=0).fit(X),
        "HybridSampler.fit": lambda: samplers.HybridSampler(random_state=0).fit(X),
    }


def measure_runs(root, folder):
    """Return what importing and fitting tells, by name."""
    sys.path.insert(0, str(root))
    import numpy as np

    package = importlib.import_module(PACKAGE)
    if Path(package.__file__).parent != folder:
        raise ImportError(f"{package.__file__} is not in {folder}")
    found = {}
    for name, work in runs(package, np.random.default_rng(0)).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tables as small as this one
            work()  # imports and caches
            calls, moves = trace(work, str(folder))
        found[f"{name}: calls, moves"] = _join((calls, moves))
    names = "OPRFSampler", "MaternSampler", "GERFSampler", "HybridSampler"
    depths = [own_classes(getattr(package.samplers, name)) for name in names]
    found["own classes in the MRO of OPRF, Matern, GERF, Hybrid"] = _join(depths)
    found["public functions with full annotations, all"] = _join(annotated(package))
    return found


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
            for name, places in find_places(read(root)[1]).items():
                print(f"{root}, {name}:", *places, sep="\n    ")
    else:
        columns = [in_child(root) for root in args.roots]
        rows = [[name, *(str(c[name]) for c in columns)] for name in columns[0]]
        print(Table(f"Structure of {PACKAGE}", ["", *args.roots], rows).markdown())
        if args.gate:
            found = columns[-1]
            rows = [
                [name, str(found[name]), _join(most), "" if aim is None else _join(aim)]
                for name, (most, aim) in LIMITS.items()
            ]
            print(Table("Limits", ["", "found", "limit", "aim"], rows).markdown())
            if problems := beyond(found):
                sys.exit("\n".join(problems))


def find_places(modules):
    """Return the places of sites, names with two meanings and cycles, as texts."""
    names = [f"{name}: {', '.join(of)}" for name, of in homonyms(modules).items()]
    return {
        **find_sites(modules),
        "names with two meanings": names,
        "cycles of imports": [", ".join(cycle) for cycle in cycles(imports(modules))],
    }


def beyond(found):
    """Return what is more than the gate allows, in words."""
    return [
        f"{name}: {found[name]} is more than {_join(most)}, see LIMITS and --sites"
        for name, (most, _) in LIMITS.items()
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
