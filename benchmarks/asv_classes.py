"""What asv measures in all versions, of the cases that compare.py has.

asv imports every module of this folder; all that it is to find stands here.
"""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from sklearn_crt import NadarayaWatsonClassifier

from .cases import (
    CASES,
    MAPS,
    N_QUERIES,
    SPARSE_MAPS,
    TYPES,
    Case,
    fitted_maps,
    gamma_of,
    make_maps,
    make_rows,
    of_sizes,
)
from .groups import DENSITIES, make_sparse, products

CHOSEN = ["RBFSampler", "TrigRBFSampler", "OPRFSampler", "OPRF, antithetic"]
N_PAIRED = 500  # rows whose kernel is compared


class Transform:
    """Fitting and transforming, memory and error of each map."""

    param_names = ["map", "case"]
    params = [list(MAPS), CASES["asv"]]

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
        self.row, self.map = X[:1], fitted_maps(case, X, [name])[name]
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
    params = [list(SPARSE_MAPS), list(DENSITIES), list(TYPES)]

    def setup(self, name, density, dtype):
        """Fit the map, with one BLAS thread."""
        threadpool_limits(1)
        case = Case(2000, 10000, 1024, dtype)
        self.X = make_sparse(case, density)
        self.map = fitted_maps(case, self.X, [name])[name]

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
        [*MAPS, "exact"],
        [case for case in CASES["asv"] if case.n_components == 1024],
    ]

    def setup(self, name, case):
        """Fit the classifier, with one BLAS thread."""
        threadpool_limits(1)
        self.X, self.y = make_rows(case)
        self.queries, self.answers = make_rows(case, N_QUERIES)
        gamma = gamma_of(self.X)
        if name == "exact":
            classifier = NadarayaWatsonClassifier(sigma=float(np.sqrt(2 * gamma)))
        else:
            sampler = make_maps(case, gamma, [name])[name]
            classifier = NadarayaWatsonClassifier(sampler)
        self.classifier = classifier.fit(self.X, self.y)

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
