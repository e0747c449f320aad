"""What all benchmarks share: the cases, their data, the maps and the classifiers."""

from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.neighbors import KernelDensity

from sklearn_crt import (
    GERFSampler,
    NadarayaWatsonClassifier,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)

try:
    import gpytorch
    import torch
except ImportError:
    gpytorch = None

N_QUERIES, N_CLASSES = 1000, 10
MAX_DENSITY_WORK = 6e8  # rows x queries x features that KernelDensity does in seconds


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
    types = ("float64", "float32")
    return [Case(*case) for case in product(n_rows, n_features, n_components, types)]


CASES = {
    "quick": [Case(2000, 16, 128, "float64")],
    "default": grid(),
    "short": grid(n_rows=(20000,), n_components=(1024,)),
    "full": grid(
        n_features=(16, 64, 256, 784),
        n_components=(128, 1024, 4096),
    ),
    "asv": grid(n_rows=(2000,), n_features=(16, 256)),
}


def make_rows(case, n_queries=0):
    """Return the rows of the case, or queries of the same law, and their labels."""
    centres = np.random.default_rng(0).standard_normal((N_CLASSES, case.n_features))
    rng = np.random.default_rng([1, n_queries])
    y = rng.integers(N_CLASSES, size=n_queries or case.n_rows)
    X = centres[y] + rng.standard_normal((y.size, case.n_features))
    return X.astype(case.dtype), y


def gamma_of(X):
    """Return the gamma of gamma="scale" and of our sigma="scale", as a number."""
    return 1 / (X.shape[1] * float(X.var(dtype=np.float64)))


class GPyTorchFeatures(TransformerMixin, BaseEstimator):
    """Random Fourier features of gpytorch, sines and cosines."""

    def __init__(self, gamma, n_components):
        self.gamma = gamma
        self.n_components = n_components

    def fit(self, X, y=None):
        """Draw the frequencies."""
        torch.manual_seed(0)
        self.kernel_ = gpytorch.kernels.RFFKernel(self.n_components // 2, X.shape[1])
        self.kernel_.lengthscale = (2 * self.gamma) ** -0.5
        self.kernel_.to(torch.from_numpy(X).dtype)
        return self

    def transform(self, X):
        """Map X to features."""
        with torch.no_grad():
            return self.kernel_._featurize(torch.from_numpy(X), normalize=True).numpy()


def make_maps(case, gamma, n_jobs=1):
    """Return the maps by name, scikit-learn's RBFSampler first, all of one kernel."""
    common = {"n_components": case.n_components, "random_state": 0}
    ours = {"sigma": float(np.sqrt(2 * gamma)), "n_jobs": n_jobs, **common}
    maps = {
        "RBFSampler": RBFSampler(gamma=gamma, **common),
        "Nystroem": Nystroem(gamma=gamma, **common),
        "TrigRBFSampler": TrigRBFSampler(**ours),
        "PositiveRBFSampler": PositiveRBFSampler(**ours),
        "OPRFSampler": OPRFSampler(**ours),
        "GERFSampler": GERFSampler(**ours),
    }
    if gpytorch is not None:
        torch.set_num_threads(n_jobs)
        maps["gpytorch RFF"] = GPyTorchFeatures(gamma, case.n_components)
    return maps


class DensityClassifier(ClassifierMixin, BaseEstimator):
    """The exact Nadaraya-Watson classifier by Bayes: one KernelDensity a class."""

    def __init__(self, bandwidth=1.0):
        self.bandwidth = bandwidth

    def fit(self, X, y):
        """Fit one density a class."""
        self.classes_, counts = np.unique(y, return_counts=True)
        self.log_prior_ = np.log(counts / counts.sum())
        self.densities_ = [
            KernelDensity(bandwidth=self.bandwidth).fit(X[y == label])
            for label in self.classes_
        ]
        return self

    def predict_proba(self, X):
        """Return density times prior, normalised."""
        scores = [density.score_samples(X) for density in self.densities_]
        return softmax(np.transpose(scores) + self.log_prior_, axis=1)

    def predict(self, X):
        """Return the class of largest density times prior."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def make_classifiers(case, gamma):
    """Return Nadaraya-Watson on each map, the exact one and its peer, by name."""
    sigma = float(np.sqrt(2 * gamma))
    classifiers = {
        name: NadarayaWatsonClassifier(sampler)
        for name, sampler in make_maps(case, gamma).items()
    }
    classifiers["exact"] = NadarayaWatsonClassifier("exact", sigma=sigma)
    if case.n_rows * N_QUERIES * case.n_features <= MAX_DENSITY_WORK:
        classifiers["KernelDensity"] = DensityClassifier(1 / sigma)
    return classifiers
