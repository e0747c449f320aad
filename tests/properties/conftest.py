"""Models, rows and targets drawn at random."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler

import sklearn_crt as crt
from sklearn_crt.kernels import Laplacian, Matern
from sklearn_crt.samplers import angular_hybrid, clustered_hybrid, gaussian_hybrid

from ..cases import sampler_classes


@dataclass(frozen=True)
class Case:
    """A model that is not fitted, rows with targets, and a seed for other choices."""

    model: object
    X: np.ndarray  # dense
    y: np.ndarray
    form: str
    seed: int

    @property
    def rng(self):
        return np.random.default_rng(self.seed)

    def table(self, rows=slice(None)):
        return FORMS[self.form](self.X[rows])

    def nudged(self, k):
        """Return the case with last digits of numbers changed, of equal ones alike."""
        X = self.X if self.X.dtype.kind == "f" else self.X.astype(np.float64)
        bits = X.view(f"u{X.itemsize}")
        # the highest bit of a product depends on all the bits of a number
        n_bits = 8 * X.itemsize
        odd = 2 * np.random.default_rng(k).integers(2 ** (n_bits - 2)) + 1
        up = bits * bits.dtype.type(odd) >> bits.dtype.type(n_bits - 1)
        steps = np.where(up, 4, -4).astype(X.dtype) * np.spacing(X)
        return replace(self, X=np.where(X == 0, X, X + steps))

    def with_far_rows(self):
        """Return the case with rows beyond those of fit too."""
        factor = self.rng.choice([-1, 3, 10_000, 10**9])
        far = self.X * self.X.dtype.type(factor)
        return replace(self, X=np.concatenate([self.X, far]))

    def of_sparse_rows(self):
        """Return the case with sparse rows."""
        return replace(self, form="csr_array")

    def without_choices(self):
        """Return the case with a model that leaves out no rows in ``fit``."""
        model, params = clone(self.model), self.model.get_params(deep=False)
        fixed = {"calibrate": False, "alpha": 0.1, "sigma": "scale"}
        if not hasattr(model, "predict"):
            return self
        if str(params["sigma"]) != "auto" or not is_exact(params["kernel"]):
            del fixed["sigma"]
        model.set_params(**{k: value for k, value in fixed.items() if k in params})
        return replace(self, model=model)

    @property
    def has_clusters(self):
        """Whether k-means finds centres, of which others are as good."""
        model = self.kernel_of_model
        few = getattr(model, "n_prototypes", len(self.X)) < len(self.X)
        clustered = getattr(model, "kind", None) == "clustered"
        return few or clustered or isinstance(model, crt.CentersRBFSampler)

    @property
    def has_few_anchors(self):
        """Whether a sample of rows stands for them, another one after a merge."""
        return getattr(self.kernel_of_model, "n_anchors", len(self.X)) < len(self.X)

    @property
    def jumps(self):
        """Whether repeated rows, or a last digit, may change a choice.

        That of centres, of a sigma for the targets, or of few rows.
        """
        model = self.kernel_of_model
        sigma = "auto" if model in (None, "laplacian") else getattr(model, "sigma", 1)
        choices = self.has_clusters or self.has_few_anchors
        return choices or str(sigma) == "auto"

    @property
    def kernel_of_model(self):
        return self.model.kernel if hasattr(self.model, "predict") else self.model


def is_exact(kernel):
    """Return whether kernel values between rows or prototypes are computed."""
    return isinstance(kernel, (str, Matern, crt.Prototypes)) and kernel != "linear"


def _twice(X):
    half = sparse.csr_array(X / 2)
    entries = np.repeat(half.data, 2), np.repeat(half.indices, 2), 2 * half.indptr
    return sparse.csr_array(entries, X.shape)


def _with_64_bits(X):
    table = sparse.csr_array(X)
    table.indices = table.indices.astype(np.int64)
    table.indptr = table.indptr.astype(np.int64)
    return table


DENSE = {
    "C": np.copy,
    "F": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=0)[::2],
    "frame": lambda X: pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])]),
}
names = "csr_array", "csc_array", "csr_matrix", "coo_array"
SPARSE = {name: getattr(sparse, name) for name in names}
SPARSE |= {"twice": _twice, "64 bits": _with_64_bits}
FORMS = DENSE | SPARSE
COLUMNS = {
    "constant": lambda x, rng: np.full(x.size, x[0]),
    "zero": lambda x, rng: 0 * x,
    "integer": lambda x, rng: np.rint(x),
    "sparse": lambda x, rng: np.where(rng.random(x.size) < 0.8, 0, x),
}


@st.composite
def tables(draw):
    """Return rows and their form."""
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.standard_normal((n, d))
    for j in range(d):
        kind = draw(st.sampled_from(["normal"] * 3 + list(COLUMNS)))
        X[:, j] = COLUMNS.get(kind, lambda x, rng: x)(X[:, j], rng)
    if draw(st.booleans()):
        X = X[rng.integers(0, n // 2 + 1, n)]
    X += draw(st.sampled_from([0, 0, 0, 1, 1e2, 1e4])) * rng.standard_normal(d)
    X *= 10.0 ** draw(st.integers(-8, 8))
    if draw(st.integers(0, 4)) == 0:
        X *= 10.0 ** rng.integers(-3, 4, d)
    dtype = draw(st.sampled_from([np.float64, np.float32, np.float64, np.int64]))
    X = (np.rint(X) if dtype is np.int64 else X).astype(dtype)
    form = draw(st.sampled_from(list(DENSE)) | st.sampled_from(list(SPARSE)))
    return X, form


def sigmas(X, *names):
    """Return values of sigma, for these rows from very wide to very narrow kernels."""
    names = [*names, "scale", "median"]
    size = float(np.std(X) or np.abs(X).max() or 1) * X.shape[1] ** 0.5
    number = st.sampled_from([1e-3, 0.1, 0.5, 1.0, 3.0, 30.0]).map(lambda m: m / size)
    columns = st.lists(number, min_size=X.shape[1], max_size=X.shape[1])
    return st.sampled_from(names) | number | columns.map(np.array)


couplings = "iid orthogonal orthogonal simplex simplex+ halton sobol antithetic"
PARAMETERS = {
    "coupling": [*couplings.split(), "structured-orthogonal", "structured-simplex"],
    "kernel": ["gaussian", "gaussian", "softmax"],
    # not .01: at frequencies of 1e15 the last digit of a merged sigma decides
    "alpha": [0.3, 1.0, 1.7, 2.0],
    "nu": [0.5, 1.5, 4, 30.0],
    "norm": ["l1", "l2"],
    "n_anchors": [1, 5, 100],
    "epsilon": [1e-8, 1e-3],
}


HYBRIDS = angular_hybrid, gaussian_hybrid, clustered_hybrid


@st.composite
def samplers(draw, X):
    """Return a sampler of any class, with any parameters."""
    kinds = [*sampler_classes(), crt.CentersRBFSampler]
    sampler = draw(st.sampled_from(kinds))()
    params = sampler.get_params(deep=False)
    for name, value in params.items():
        if name in PARAMETERS or isinstance(value, bool):
            values = PARAMETERS.get(name, [False, True])
            params[name] = draw(st.sampled_from(values))
    # what would have no effect is refused
    if params.get("positive"):
        params["center"] = True
    elif "epsilon" in params:
        params["epsilon"] = None
    if "bases" in params:
        make = draw(st.sampled_from([type(sampler), *HYBRIDS]))
        params |= make().get_params(deep=False)
    if params.get("norm") == "l1":
        params["coupling"] = "auto"
    if "shape_matrix" in params and params.get("norm") != "l1" and draw(st.booleans()):
        root = np.random.default_rng(0).standard_normal((X.shape[1],) * 2)
        params["shape_matrix"] = root @ root.T + np.eye(X.shape[1])
    params["sigma"] = draw(sigmas(X))
    params["n_components"] = draw(st.integers(1, 40))
    return sampler.set_params(**params | {"random_state": draw(st.integers(0, 9))})


@st.composite
def sampler_cases(draw):
    X, form = draw(tables())
    model = draw(samplers(X))
    return Case(model, X, np.zeros(len(X)), form, draw(st.integers(0, 2**32 - 1)))


@st.composite
def average_cases(draw):
    X, form = draw(tables())
    rng = np.random.default_rng(number := draw(st.integers(0, 2**32 - 1)))
    exact = st.sampled_from(
        ["gaussian", "laplacian", "matern", Matern(0.5), Matern(4), Laplacian("l1")]
    )
    size, zero = st.integers(1, 80), st.just(0)
    points = st.builds(crt.Prototypes, size, kernel=exact, random_state=zero)
    others = st.sampled_from(["linear", RBFSampler(random_state=0)])
    kernel = draw(exact | points | samplers(X) | others)
    classifier, regressor = crt.NadarayaWatsonClassifier, crt.NadarayaWatsonRegressor
    of_rows = is_exact(kernel)
    sigma = draw(sigmas(X, "auto")) if of_rows else "auto"
    if of_rows and X.shape[1] <= 40 and draw(st.booleans()):
        classifier, regressor = crt.LocalLinearClassifier, crt.LocalLinearRegressor
    if draw(st.booleans()):
        labels = draw(st.sampled_from([["a", "bb"], [0, 1, 2, 7], [False, True], [3]]))
        y = np.array(labels)[rng.integers(0, len(labels), len(X))]
        return Case(classifier(kernel, sigma=sigma), X, y, form, number)
    model = regressor(kernel, sigma=sigma)
    if hasattr(model, "clip"):
        model.clip = draw(st.booleans())
    y = rng.standard_normal((len(X), 2)[: draw(st.integers(1, 2))])
    y = (y + draw(st.sampled_from([0, 1e3]))) * 10.0 ** draw(st.integers(-8, 8))
    return Case(model, X, y, form, number)


@pytest.fixture(params=[sampler_cases, average_cases], ids=["samplers", "averages"])
def cases(request):
    """Return a strategy of cases of one kind of model."""
    return request.param
