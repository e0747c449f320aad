"""asv: exact kernels beside scikit-learn's, and features with their product."""

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from sklearn_crt import MaternSampler
from sklearn_crt.kernels import matern_kernel

N_ROWS, N_FEATURES, SIGMA = 1000, 16, 0.2


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
