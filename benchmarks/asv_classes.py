"""What asv measures in all versions, of the cases that compare.py has.

asv imports every module of this folder; all that it is to find stands here.
"""

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.kernels import matern_kernel
from sklearn_crt.samplers import MaternSampler, clustered_hybrid

from .cases import (
    CASES,
    N_QUERIES,
    TYPES,
    Case,
    gamma_of,
    make_classifiers,
    make_maps,
    make_rows,
    of_sizes,
)
from .groups import DENSITIES, chosen, make_sparse, products, sparse_maps

MAPS = ["RBFSampler", "Nystroem", "TrigRBFSampler", "PositiveRBFSampler", "OPRFSampler"]
CHOSEN = ["RBFSampler", "TrigRBFSampler", "OPRFSampler", "OPRF, antithetic"]
N_PAIRED = 500  # rows whose kernel is compared
N_ROWS, N_FEATURES, SIGMA = 1000, 16, 0.2  # of exact kernels and of variances


class Transform:
    """Fitting and transforming, memory and error of each map."""

    param_names = ["map", "case"]
    params = [
        MAPS,
        CASES["asv"],
    ]

    def setup(self, name, case):
        """Fit the map, with one BLAS thread."""
        threadpool_limits(1)
        self.X, _ = make_rows(case)
        self.gamma = gamma_of(self.X)
        self.map = make_maps(case, self.gamma)[name].fit(self.X)

    def time_fit(self, name, case):
        """Time fit."""
        self.map.fit(self.X)

    def time_transform(self, name, case):
        """Time transform."""
        self.map.transform(self.X)

    def peakmem_transform(self, name, case):
        """Measure the peak memory of transform, output included."""
        self.map.transform(self.X)

    def track_kernel_error(self, name, case):
        """Return the root mean square error of the kernel over pairs of rows."""
        X = self.X[:N_PAIRED].astype(np.float64)
        features = self.map.transform(X)
        error = features @ features.T - rbf_kernel(X, gamma=self.gamma)
        return float(np.sqrt(np.mean(np.square(error))))

    track_kernel_error.unit = "root mean square"


class OneRow:
    """One row per call."""

    param_names = ["map", "case"]
    params = [CHOSEN, of_sizes([(8, 64), (256, 1024), (784, 4096)], 500)]

    def setup(self, name, case):
        """Fit the map and a pipeline, with one BLAS thread."""
        threadpool_limits(1)
        X, y = make_rows(case)
        self.row, self.map = X[:1], chosen(case, X)[name]
        self.model = make_pipeline(self.map, Ridge()).fit(X, y)

    def time_transform(self, *_):
        """Time transform."""
        self.map.transform(self.row)

    def time_predict(self, *_):
        """Time predict of the pipeline."""
        self.model.predict(self.row)


class Sparse:
    """Sparse rows of 10000 columns."""

    param_names = ["map", "density", "dtype"]
    params = [[*CHOSEN, "OPRF, structured"], list(DENSITIES), list(TYPES)]

    def setup(self, name, density, dtype):
        """Fit the map, with one BLAS thread."""
        threadpool_limits(1)
        case = Case(2000, 10000, 1024, dtype)
        self.X = make_sparse(case, density)
        self.map = sparse_maps(case, self.X)[name]

    def time_transform(self, *_):
        """Time transform."""
        self.map.transform(self.X)


class Products:
    """Inner products of rows and frequencies."""

    param_names = ["frequencies", "n_features", "n_frequencies", "dtype"]
    params = [
        ["dense", "structured-orthogonal", "structured-simplex"],
        [256, 4096],
        [4096],
        ["float32", "float64"],
    ]

    def setup(self, name, n_features, n_frequencies, dtype):
        """Draw the frequencies, with one BLAS thread."""
        threadpool_limits(1)
        self.apply = products(n_features, n_frequencies, dtype)[name]

    def time_apply(self, *_):
        """Time the products."""
        self.apply()

    def peakmem_apply(self, *_):
        """Measure the peak memory of the products, output included."""
        self.apply()


class NadarayaWatson:
    """Fitting and predicting, memory and accuracy of each classifier."""

    param_names = ["classifier", "case"]
    params = [
        [*MAPS, "exact", "KernelDensity"],
        [case for case in CASES["asv"] if case.n_components == 1024],
    ]

    def setup(self, name, case):
        """Fit the classifier, with one BLAS thread."""
        threadpool_limits(1)
        self.X, self.y = make_rows(case)
        self.queries, self.answers = make_rows(case, N_QUERIES)
        classifiers = make_classifiers(case, gamma_of(self.X))
        if name not in classifiers:
            raise NotImplementedError  # asv: skipped
        self.classifier = classifiers[name].fit(self.X, self.y)

    def time_fit(self, name, case):
        """Time fit."""
        self.classifier.fit(self.X, self.y)

    def time_predict(self, name, case):
        """Time predict."""
        self.classifier.predict(self.queries)

    def peakmem_predict(self, name, case):
        """Measure the peak memory of predict."""
        self.classifier.predict(self.queries)

    def track_accuracy(self, name, case):
        """Return the share of right answers."""
        return float(self.classifier.score(self.queries, self.answers))

    track_accuracy.unit = "share"


class MaternGram:
    """The Gram matrix of the Matern kernel, by smoothness."""

    param_names = ["nu"]
    params = [[0.5, 1.5, 3.5, 4.0, 4.3, 30.0]]

    def setup(self, nu):
        """Draw rows, with one BLAS thread."""
        threadpool_limits(1)
        rng = np.random.default_rng(0)
        self.X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
        self.sampler = MaternSampler(
            nu=nu, sigma=SIGMA, n_components=1024, random_state=0
        )

    def time_scikit_learn(self, nu):
        """Time Matern of scikit-learn."""
        Matern(length_scale=1 / SIGMA, nu=nu)(self.X, self.X)

    def time_exact(self, nu):
        """Time matern_kernel."""
        matern_kernel(self.X, nu=nu, sigma=SIGMA)

    def time_features(self, nu):
        """Time the features and their product."""
        features = self.sampler.fit(self.X).transform(self.X)
        features @ features.T

    def track_error_of_features(self, nu):
        """Return the relative Frobenius error of the features."""
        kernel = matern_kernel(self.X, nu=nu, sigma=SIGMA)
        features = self.sampler.fit(self.X).transform(self.X)
        error = np.linalg.norm(features @ features.T - kernel)
        return float(error / np.linalg.norm(kernel))

    track_error_of_features.unit = "relative Frobenius norm"


class KernelVariance:
    """What kernel_variance of all pairs takes, by sampler."""

    param_names = ["sampler"]
    samplers = {
        "oprf": OPRFSampler(sigma=SIGMA, random_state=0),
        "trig simplex": TrigRBFSampler(sigma=SIGMA, coupling="simplex", random_state=0),
        "matern 4": MaternSampler(nu=4, sigma=SIGMA, random_state=0),
        "clustered": clustered_hybrid(sigma=SIGMA, random_state=0),
    }
    params = [list(samplers)]

    def setup(self, sampler):
        """Draw rows and fit, with one BLAS thread."""
        threadpool_limits(1)
        X = np.random.default_rng(0).normal(size=(N_ROWS, N_FEATURES))
        self.X, self.fitted = X, self.samplers[sampler].fit(X)

    def time_variance(self, sampler):
        """Time all pairs of rows."""
        self.fitted.kernel_variance(self.X)
