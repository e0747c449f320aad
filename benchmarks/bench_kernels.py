"""asv: exact kernels beside scikit-learn's, features with their product, variances."""

import numpy as np
from sklearn.gaussian_process.kernels import Matern
from threadpoolctl import threadpool_limits

from sklearn_crt import HybridSampler, MaternSampler, OPRFSampler, TrigRBFSampler
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


class KernelVariance:
    """What kernel_variance of all pairs takes, by sampler."""

    param_names = ["sampler"]
    samplers = {
        "oprf": OPRFSampler(sigma=SIGMA, random_state=0),
        "trig simplex": TrigRBFSampler(sigma=SIGMA, coupling="simplex", random_state=0),
        "matern 4": MaternSampler(nu=4, sigma=SIGMA, random_state=0),
        "clustered": HybridSampler(
            kind="clustered", mixture="gaussian", sigma=SIGMA, random_state=0
        ),
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
