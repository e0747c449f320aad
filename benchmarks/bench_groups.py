"""asv: one row, sparse rows, a quota of processors, no AVX-512; see groups.py."""

from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from .cases import Case, make_rows
from .child import in_child
from .groups import (
    DENSITIES,
    TYPES,
    chosen,
    environment_without_avx512,
    grid,
    make_sparse,
    on_few_processors,
    sparse_maps,
    with_rooflines,
)

MAPS = ["RBFSampler", "TrigRBFSampler", "OPRFSampler", "OPRF, antithetic"]
REPEATS = 5


class OneRow:
    """One row a call."""

    param_names = ["map", "case"]
    params = [MAPS, grid([(8, 64), (256, 1024), (784, 4096)], 500)]

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
    params = [[*MAPS, "OPRF, structured"], list(DENSITIES), list(TYPES)]

    def setup(self, name, density, dtype):
        """Fit the map, with one BLAS thread."""
        threadpool_limits(1)
        case = Case(2000, 10000, 1024, dtype)
        self.X = make_sparse(case, density)
        self.map = sparse_maps(case, self.X)[name]

    def time_transform(self, *_):
        """Time transform."""
        self.map.transform(self.X)


class TwoThreadsOnOneProcessor:
    """Time with two threads of BLAS over that with one."""

    timeout = 600

    def setup_cache(self):
        """Measure all in a process that is bound to one processor."""
        case = Case(20000, 64, 1024, "float64")
        seconds = in_child(on_few_processors, case, REPEATS, n_processors=1)
        return {what: two / one for what, (one, two) in seconds.items()}

    def track_oprf_transform(self, ratios):
        """Return the ratio of transform."""
        return ratios["OPRFSampler.transform"]

    def track_oprf_fit(self, ratios):
        """Return the ratio of fit."""
        return ratios["OPRFSampler.fit"]

    def track_exact(self, ratios):
        """Return the ratio of the exact estimator."""
        return ratios["NadarayaWatsonClassifier, exact, predict"]

    def track_features(self, ratios):
        """Return the ratio of the estimator on features."""
        return ratios["NadarayaWatsonClassifier, features, predict"]


class WithoutAvx512:
    """Times faster than RBFSampler without AVX-512."""

    timeout = 600
    param_names = ["map"]
    params = [MAPS[1:]]

    def setup_cache(self):
        """Measure all in a process that may not use these instructions."""
        case = Case(20000, 64, 1024, "float64")
        environment = environment_without_avx512()
        if environment is None:
            return None
        return in_child(with_rooflines, [case], REPEATS, environment=environment)[case]

    def setup(self, seconds, name):
        """Leave out where NumPy uses none of them."""
        if seconds is None:
            raise NotImplementedError  # asv: skipped

    def track_speedup(self, seconds, name):
        """Return the ratio."""
        return seconds["RBFSampler"] / seconds[name]
