"""Compare the package with an earlier version: python -m benchmarks.oracle REVISION.

The wheel of the revision is built, and installed beside this version under the name
``sklearn_crt_before``. Both fit the same samplers to the same rows in one process, and
what they return is compared: features of both sides, kernels, variances,
``partial_fit``, ``merge``, averages and attention, for each kind of rows (float64,
float32, sparse, arrays of array-api-strict and, where it is installed, torch). A number
may differ by 1e-12 of the largest of its array, in float32 by 1e-6 of it. The script
prints what differs by more, what fails in one version alone, and a table of the largest
differences. It exits with 1 where there is any that ``--allow`` does not name.
"""

import argparse
import importlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import defaultdict
from functools import partial
from itertools import product
from pathlib import Path

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

import numpy as np
from scipy import sparse
from sklearn import config_context
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from .tables import ROOT, Table, interleave

BEFORE = "sklearn_crt_before"
TOLERANCE = {"float64": 1e-12, "float32": 1e-6}
SEED = 20261122
COUPLINGS = (
    "iid",
    "orthogonal",
    "simplex",
    "simplex+",
    "antithetic",
    "halton",
    "sobol",
    "structured-orthogonal",
    "structured-simplex",
)
# parameters that are tried with each coupling, and others with that of the class
SAMPLERS = {
    "TrigRBFSampler": [{}, {"random_phase": True}],
    "PositiveRBFSampler": [{}],
    "OPRFSampler": [{}],
    "GERFSampler": [{}],
    "DERFSampler": [{}],
    "AnchoredRBFSampler": [{"n_anchors": 40}],
    "MaternSampler": [{}, {"nu": 0.5}, {"nu": 2.0, "random_phase": True}],
    "LaplacianSampler": [{}],
    "ExponentialPowerSampler": [{"alpha": 1.5}, {"alpha": 0.7}],
    "angular_hybrid": [{"n_components": 60}],
    "gaussian_hybrid": [{"n_components": 60}, {"lambda_sigma": 0.6}],
    "clustered_hybrid": [{"n_components": 60}],
}
SINGLE = {
    "TrigRBFSampler": [
        {"kernel": "softmax"},
        {"sigma": "median"},
        {"sigma": [0.3] * 6},
        {"n_components": 7},
    ],
    "PositiveRBFSampler": [{"kernel": "softmax"}, {"center": False}],
    "SimplexRBFSampler": [
        {},
        {"coupling": "simplex+"},
        {"coupling": "structured-simplex"},
        {"kernel": "softmax", "center": False},
    ],
    "OPRFSampler": [
        {"kernel": "softmax"},
        {"sigma": "median", "n_components": 7},
        {"coupling": "antithetic", "n_components": 7, "kernel": "softmax"},
        {"coupling": "antithetic", "n_components": 300},
    ],
    "GERFSampler": [
        {"kernel": "softmax", "sigma": 1.0},
        {"sigma": 2.0, "n_components": 7},
        {"sigma": 0.05},
    ],
    "DERFSampler": [{"kernel": "softmax"}, {"center": False}],
    "AnchoredRBFSampler": [{"kernel": "softmax", "n_anchors": 40}],
    "PoissonSampler": [{}, {"positive": True}, {"center": False, "kernel": "softmax"}],
    "GeometricSampler": [
        {},
        {"positive": True},
        {"center": False, "kernel": "softmax"},
    ],
    "MaternSampler": [{"nu": 4.0, "shape_matrix": (np.eye(6) + 0.2).tolist()}],
    "LaplacianSampler": [{"norm": "l1"}, {"norm": "l1", "random_phase": True}],
    "HybridSampler": [{"n_components": 60}, {"kernel": "softmax", "n_components": 61}],
    "clustered_hybrid": [{"kernel": "softmax", "center": True, "n_components": 60}],
    "CentersRBFSampler": [{"n_components": 12}],
}
PARTS = {
    "AngularCoefficient": [{}],
    "GaussianCoefficient": [{}],
    "ComplexExponentialSampler": [{}, {"diagonal": 1j}, {"diagonal": 1.3}],
    "ClusteredSampler": [{}, {"diagonal": "real"}],
}
EXACT = [
    ("exact", {}),
    ("exact", {"sigma": 0.8, "kernel": "laplacian"}),
    ("exact", {"sigma": 0.8, "kernel": "matern", "nu": 2.5}),
    ("exact", {"sigma": "median", "kernel": "matern", "nu": 1.7}),
    ("prototypes", {"n_prototypes": 12, "random_state": 0}),
]
ATTENTION = [
    ("PositiveRBFSampler", {"center": False}),
    ("OPRFSampler", {}),
    ("OPRFSampler", {"coupling": "antithetic", "n_components": 31}),
    ("OPRFSampler", {"coupling": "structured-orthogonal"}),
    ("GERFSampler", {}),
    ("DERFSampler", {}),
    ("AnchoredRBFSampler", {}),
    ("TrigRBFSampler", {"n_components": 31}),
    ("PoissonSampler", {}),
    ("GeometricSampler", {"positive": True}),
    ("HybridSampler", {"n_components": 60}),
    ("clustered_hybrid", {"n_components": 60}),
]
SUBJECTS = "samplers", "averages", "attention"
HYBRIDS = ("HybridSampler", "angular_hybrid", "gaussian_hybrid", "clustered_hybrid")
FIT_KEY = ("DERFSampler", "OPRFSampler", "GERFSampler", *HYBRIDS)


def install(revision, folder):
    """Install the wheel of a revision under the name ``sklearn_crt_before``."""
    source = Path(folder) / "source"
    source.mkdir()
    archive = subprocess.run(
        ["git", "archive", revision], cwd=ROOT, check=True, capture_output=True
    )
    subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "-w", folder, source], check=True)
    (wheel,) = Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(folder)
    package = Path(folder) / BEFORE
    (Path(folder) / "sklearn_crt").rename(package)
    for path in package.rglob("*.py"):
        text = path.read_text()
        text = re.sub(r"(?m)^(\s*(?:from|import) )sklearn_crt\b", rf"\1{BEFORE}", text)
        path.write_text(
            text.replace(f"import {BEFORE}\n", f"import {BEFORE} as sklearn_crt\n")
        )
    sys.path.insert(0, str(folder))


def kinds_of_rows():
    """Return, by name, what turns float64 rows into each kind."""
    kinds = {
        "float64": lambda X: X,
        "float32": lambda X: X.astype(np.float32),
        "csr": sparse.csr_array,
        "csr, float32": lambda X: sparse.csr_array(X.astype(np.float32)),
    }
    if importlib.util.find_spec("array_api_strict"):
        import array_api_strict

        device = array_api_strict.Device("device1")
        kinds["strict"] = lambda X: array_api_strict.asarray(X, device=device)
    if importlib.util.find_spec("torch"):
        import torch

        kinds["torch"] = torch.asarray
        kinds["torch, float32"] = lambda X: torch.asarray(X, dtype=torch.float32)
    return kinds


def host(value):
    """Return a result as a NumPy array, or as it is."""
    if sparse.issparse(value):
        return value.toarray()
    if type(value).__module__.startswith("array_api_strict"):
        import array_api_strict

        cpu = array_api_strict.Device("CPU_DEVICE")
        return np.asarray(array_api_strict.asarray(value, device=cpu, copy=True))
    if hasattr(value, "detach"):
        return value.detach().numpy()
    return value


class Comparison:
    """What was compared, and what differs."""

    def __init__(self, modules):
        self.modules = modules
        self.worst, self.count = defaultdict(float), defaultdict(int)
        self.errors, self.faults = defaultdict(int), []

    def both(self, place, kind, function):
        """Compare what a function makes of each version: a dict of arrays."""
        found = []
        for module in self.modules:
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    found.append(function(module))
            except Exception as error:
                found.append(error)
        before, after = found
        if isinstance(before, Exception) or isinstance(after, Exception):
            if type(before) is not type(after):
                self.faults.append(f"{place}: {_short(before)} -> {_short(after)}")
            else:
                self.errors[_short(after)] += 1
            return
        for name in before:
            if name not in after:
                self.faults.append(f"{place}, {name}: gone")
                continue
            self._compare(f"{place}, {name}", name, kind, before[name], after[name])

    def _compare(self, place, name, kind, old, new):
        old, new = np.asarray(host(old)), np.asarray(host(new))
        if old.shape != new.shape or old.dtype != new.dtype:
            shapes = f"{old.dtype}{old.shape} -> {new.dtype}{new.shape}"
            self.faults.append(f"{place}: {shapes}")
            return
        self.count[name, kind] += 1
        if old.dtype.kind not in "fc":
            if not np.array_equal(old, new):
                self.faults.append(f"{place}: other values")
            return
        finite = np.isfinite(old)
        if not np.array_equal(old[~finite], new[~finite], equal_nan=True):
            self.faults.append(f"{place}: other infinities")
            return
        if not finite.any():
            return
        # a variance has a scale in each pair of rows
        size = np.abs(old[finite])
        scale = (
            np.maximum(size, 1e-300) if name == "variance" else max(size.max(), 1e-300)
        )
        gap = float(np.max(np.abs(old[finite] - new[finite]) / scale))
        if name == "variance" and "32" not in kind:
            # next to 0 the rounding of a difference of numbers of size 1 is left
            small = np.abs(old[finite] - new[finite]) < 1e-14
            gap = float(
                np.max(np.where(small, 0, np.abs(old[finite] - new[finite]) / scale))
            )
        self.worst[name, kind] = max(self.worst[name, kind], gap)
        narrow = "32" in kind or old.dtype == np.float32
        limit = TOLERANCE["float32" if narrow else "float64"]
        if name == "variance":
            limit = max(limit, 1e-9)
        if not gap <= limit:
            self.faults.append(f"{place}: {gap:.1e}")


def _short(value):
    if isinstance(value, Exception):
        return f"{type(value).__name__}({str(value)[:90]})"
    return "a result"


def rows():
    """Return rows to fit, to add, to map, and labels."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((90, 6)) @ np.diag([1, 0.5, 2, 1, 0.3, 1]) + 0.2
    X[rng.random(X.shape) < 0.3] = 0
    y = (X[:, 0] + X[:, 1] > 0.1).astype(int) + (X[:, 2] > 1)
    Z = rng.standard_normal((25, 6)) * 0.8
    Z[rng.random(Z.shape) < 0.3] = 0
    return X, y, Z


def maker(module, name):
    """Return the class of a sampler, or the function that returns one."""
    samplers = importlib.import_module(f"{module.__name__}.samplers")
    if hasattr(samplers, name):
        return getattr(samplers, name)
    # before hybrids were functions
    return partial(samplers.HybridSampler, kind=name.removesuffix("_hybrid"))


def made(module, name, params):
    """Return a sampler, also of a version with earlier names of parameters."""
    try:
        return maker(module, name)(**params)
    except TypeError:
        earlier = {"shape_matrix": "metric"}
        params = {earlier.get(key, key): value for key, value in params.items()}
        return maker(module, name)(**params)


def sampler_results(module, name, params, as_kind, kind):
    """Return all that a sampler makes of rows."""
    X, _, Z = rows()
    X, Z = as_kind(X), as_kind(Z)
    sampler = made(module, name, {"n_components": 24, "random_state": 3, **params})
    fitted = sampler.fit(X)
    found = {"transform": fitted.transform(Z)}
    if not hasattr(fitted, "transform_key"):
        return found
    found["transform_key"] = fitted.transform_key(Z)
    found["one row"] = fitted.transform(Z[:1, :])
    found["kernel"] = fitted.exact_kernel(Z, X[:9, :])
    found["estimate"] = fitted.approximate_kernel(Z, X[:9, :])
    if name != "AnchoredRBFSampler":
        found["variance"] = fitted.kernel_variance(Z, X[:9, :])
    if "strict" in kind or "torch" in kind:
        return found
    batches = made(module, name, {"n_components": 24, "random_state": 3, **params})
    batches.partial_fit(X[:40]).partial_fit(X[40:])
    found["partial_fit"] = batches.transform(Z)
    parts = [
        made(
            module, name, {"n_components": 24, "random_state": 3, **params}
        ).partial_fit(part)
        for part in (X[:40], X[40:])
    ]
    found["merge"] = parts[0].merge(parts[1]).transform(Z)
    found["with_sigma"] = fitted.with_sigma(0.7).transform(Z)
    if name in FIT_KEY:
        other = made(module, name, {"n_components": 24, "random_state": 3, **params})
        other.fit(X, X_key=X[:50] * 0.7)
        found["X_key"] = np.hstack([other.transform(Z), other.transform_key(Z)])
    weights = np.arange(1, 91) % 3
    weighted = made(module, name, {"n_components": 24, "random_state": 3, **params})
    found["weights"] = weighted.fit(X, sample_weight=weights).transform(Z)
    return found


def average_results(module, name, params, as_kind, kind):
    """Return averages over the features of a sampler, and their errors."""
    X, y, Z = rows()
    X, Z = as_kind(X), as_kind(Z)
    found = {}
    targets = np.column_stack([np.cos(y), y * 0.5])
    if kind in ("strict", "torch", "torch, float32"):
        y = _like(y, X)
        targets = _like(targets, X)
    sampler = made(module, name, {"n_components": 24, "random_state": 3, **params})
    options = own_sigma(module, sampler)
    classifier = module.NadarayaWatsonClassifier(sampler, **options).fit(X, y)
    found["proba"] = classifier.predict_proba(Z)
    found["decision"] = classifier.decision_function(Z)
    regressor = module.NadarayaWatsonRegressor(sampler, **options).fit(X, targets)
    found["averages"] = regressor.predict(Z)
    if name not in ("CentersRBFSampler", *HYBRIDS):
        error = classifier.approximation_error(Z)
        found["error"], found["effective"] = error.std, error.n_effective
    if kind in ("strict", "torch", "torch, float32"):
        return found
    two = module.NadarayaWatsonClassifier(FrozenEstimator(sampler.fit(X)))
    two.partial_fit(X[:50], y[:50], classes=[0, 1, 2]).partial_fit(X[50:], y[50:])
    found["partial_fit"] = two.predict_proba(Z)
    return found


def own_sigma(module, sampler):
    """Return the parameters of an average that uses ``sigma`` of its sampler."""
    if hasattr(module, "ExactKernel"):  # before averages had the parameter sigma
        return {}
    is_scale = isinstance(sampler.sigma, str) and sampler.sigma == "scale"
    return {"sigma": "scale" if is_scale else "auto"}


def _like(values, X):
    if hasattr(X, "detach"):
        import torch

        return torch.asarray(values)
    import array_api_strict

    return array_api_strict.asarray(values, device=X.device)


def exact_results(module, name, params, as_kind, kind):
    """Return averages without random features."""
    X, y, Z = rows()
    X, Z = as_kind(X), as_kind(Z)
    targets = np.column_stack([np.cos(y), y * 0.5])
    if kind in ("strict", "torch", "torch, float32"):
        y, targets = _like(y, X), _like(targets, X)
    params = dict(params)
    if name == "prototypes":
        options = {"kernel": module.Prototypes(**params)}
    elif hasattr(module, "ExactKernel"):  # before averages had the parameter sigma
        options = {"kernel": module.ExactKernel(**params)}
    else:
        options = {"sigma": params.pop("sigma", "auto")}
        kind = params.pop("kernel", "gaussian")
        kernels = importlib.import_module(f"{module.__name__}.kernels")
        options["kernel"] = getattr(kernels, kind.capitalize())(**params)
    classifier = module.NadarayaWatsonClassifier(**options)
    regressor = module.NadarayaWatsonRegressor(**options)
    return {
        "proba": classifier.fit(X, y).predict_proba(Z),
        "averages": regressor.fit(X, targets).predict(Z),
    }


def attention_results(module, name, params, causal, make):
    """Return attention with the map of a softmax sampler."""
    rng = np.random.default_rng(SEED)
    q, k, v = (rng.standard_normal((2, 3, 70, 6)) for _ in range(3))
    attention = importlib.import_module(f"{module.__name__}.attention")
    common = {"n_components": 32, "random_state": 3, "kernel": "softmax"}
    sampler = made(module, name, common | params)
    sampler.fit(q[0, 0], X_key=k[0, 0])
    found = attention.linear_attention(
        make(q), make(k), make(v), sampler, causal=causal
    )
    heads = attention.fit_heads(sampler, q, k)
    several = attention.linear_attention(
        make(q), make(k), make(v), heads, causal=causal
    )
    return {"attention": found, "heads": several}


def compare(comparison, quick, only):
    """Run the comparisons."""
    for kind, as_kind in kinds_of_rows().items():
        rest = {"as_kind": as_kind, "kind": kind}
        other_library = kind.startswith(("strict", "torch"))
        with config_context(array_api_dispatch=other_library):
            for name, params in cases(quick):
                place = f"{name}({_params(params)}), {kind}"
                rest |= {"name": name, "params": params}
                if "samplers" in only:
                    comparison.both(place, kind, partial(sampler_results, **rest))
                if name not in PARTS and "averages" in only:
                    averages = partial(average_results, **rest)
                    comparison.both(f"averages of {place}", kind, averages)
            for name, params in EXACT if "averages" in only else ():
                place = f"averages, {name}({_params(params)}), {kind}"
                rest |= {"name": name, "params": params}
                comparison.both(place, kind, partial(exact_results, **rest))
        if kind.startswith("csr") or "attention" not in only:
            continue
        for (name, params), causal in product(ATTENTION, (False, True)):
            place = f"attention, {name}({_params(params)}), {causal=}, {kind}"
            rest = {"name": name, "params": params, "make": as_kind, "causal": causal}
            comparison.both(place, kind, partial(attention_results, **rest))


def speeds(modules):
    """Return the table of times of the earlier version over those of this one."""
    rows, rng = [], np.random.default_rng(0)
    samplers = "TrigRBFSampler", "OPRFSampler", "GERFSampler", "angular_hybrid"
    for (n_rows, d, n_components), dtype, n_threads in product(
        SIZES, ("float64", "float32"), (1, 2)
    ):
        seen = rng.normal(size=(max(n_rows, 500), d)).astype(dtype)
        X = seen[:n_rows]
        cells = [f"{n_rows} x {d} to {n_components}, {dtype}, {n_threads}"]
        for name in samplers:
            params = {"n_components": n_components, "random_state": 0, "n_jobs": None}
            if name == "angular_hybrid":
                params |= {"n_coefficients": 3}
            before, now = (made(m, name, params).fit(seen) for m in modules)
            calls = 200 if n_rows == 1 else 1
            todo = {
                label: partial(_repeat, sampler.transform, X, calls)
                for label, sampler in (("before", before), ("now", now))
            }
            with threadpool_limits(n_threads, user_api="blas"):
                found = interleave(todo, 15, time.perf_counter)
            cells.append(f"{found['before'] / found['now']:.2f}")
        rows.append(cells)
    title = "transform by the clock: time of the earlier version over that of this one"
    return Table(title, ["rows to columns, type, threads", *samplers], rows)


def _repeat(function, X, n_calls):
    for _ in range(n_calls):
        function(X)


SIZES = (1, 16, 128), (1, 64, 1024), (2000, 16, 128), (20000, 64, 1024)


def cases(quick):
    """Yield samplers and their parameters."""
    for name, all_params in SAMPLERS.items():
        for params in all_params:
            yield name, params
            for coupling in () if quick else COUPLINGS:
                yield name, {**params, "coupling": coupling}
    for table in (SINGLE, PARTS):
        for name, all_params in table.items():
            for params in all_params:
                yield name, params


def _params(params):
    return ", ".join(f"{name}={str(value)[:20]}" for name, value in params.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("revision", help="the version to compare with, as for git")
    parser.add_argument("--quick", action="store_true", help="default couplings alone")
    parser.add_argument(
        "--allow",
        nargs="*",
        default=(),
        metavar="TEXT",
        help="of differences to expect",
    )
    parser.add_argument(
        "--only", nargs="+", choices=SUBJECTS, default=SUBJECTS, help="what to compare"
    )
    parser.add_argument("--speed", action="store_true", help="compare times instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        install(options.revision, folder)
        names = BEFORE, "sklearn_crt"
        modules = [importlib.import_module(name) for name in names]
        if options.speed:
            warnings.simplefilter("ignore")  # of few columns
            return print(speeds(modules).markdown())
        comparison = Comparison(modules)
        compare(comparison, options.quick, options.only)
    faults = [
        fault
        for fault in comparison.faults
        if not any(text in fault for text in options.allow)
    ]
    n_allowed = len(comparison.faults) - len(faults)
    print(*faults, sep="\n")
    for (name, kind), gap in sorted(comparison.worst.items()):
        print(f"{name:15} {kind:15} {comparison.count[name, kind]:6} {gap:9.1e}")
    for error, count in comparison.errors.items():
        print(f"{count:4} times in both: {error}")
    n_arrays = sum(comparison.count.values())
    print(f"{n_arrays} arrays, {len(faults)} differences, {n_allowed} expected")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
