"""asv: the maps beside RBFSampler and Nystroem."""

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

from .cases import CASES, gamma_of, make_maps, make_rows

N_PAIRED = 500  # rows whose kernel is compared


class Transform:
    """Fitting and transforming, memory and error of each map."""

    param_names = ["map", "case"]
    params = [
        ["RBFSampler", "Nystroem", "TrigRBFSampler", "PositiveRBFSampler"]
        + ["OPRFSampler"],
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
