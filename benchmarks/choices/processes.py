"""Table of ridge regression on features beside Gaussian processes and forests."""

import time
import warnings

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import LearnedMetric, RandomFeatureRidge

from ..tables import Table
from .averages import sets_here

try:
    import gpytorch
    import torch
except ImportError:
    gpytorch = None
try:
    from quantile_forest import RandomForestQuantileRegressor
except ImportError:
    RandomForestQuantileRegressor = None

SETS = "abalone_rings", "housing", "sgemm"
MOST_QUERIES, MOST_ROWS = 3000, 2000  # of exact processes
NORMAL = 1.645  # standard deviations of an interval of 90 %
STEPS = 60  # of Adam


def intervals(rows=20000, sets=SETS):
    """Intervals of 90 % of ridge on features, Gaussian processes and quantile forests.

    Columns and targets standardised, one split, at most 3000 test rows; exact processes
    on at most 2000 training rows. R2 in percent, the share of test targets inside the
    intervals, their mean width in deviations of the targets, processor seconds of fit
    and prediction with one thread. All as constructed; the kernel of scikit-learn's
    process is a constant times RBF plus noise, that of gpytorch the same with a width
    for each column, 60 steps of Adam at a rate of 0.1.
    """
    found = []
    for name, X, y in sets_here(sets, rows):
        y = np.log(y) if name == "sgemm" else y.astype(float)
        order = np.random.default_rng(0).permutation(len(y))
        n_queries = min(MOST_QUERIES, len(y) * 3 // 10)
        test, train = order[:n_queries], order[n_queries:]
        for model, (predict, most) in MODELS.items():
            part = train[:most]
            X_train, scaler = _scaled(X[part])
            y_train, scale = _scaled(y[part, None])
            X_test = scaler.transform(X[test])
            y_test = scale.transform(y[test, None]).ravel()
            start = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                mean, low, high = predict(X_train, y_train.ravel(), X_test)
            seconds = time.process_time() - start
            score = 100 * (1 - np.mean((mean - y_test) ** 2) / y_test.var())
            inside = 100 * np.mean((low <= y_test) & (y_test <= high))
            width = np.mean(high - low)
            row = [name, model, f"{len(part)}", f"{score:.1f}", f"{inside:.1f}"]
            found.append([*row, f"{width:.2f}", f"{seconds:.1f}"])
    columns = ["table", "model", "rows", "R2", "inside", "width", "seconds"]
    return [Table("Intervals of 90 %", columns, found)]


def _scaled(values):
    scaler = StandardScaler().fit(values)
    return scaler.transform(values), scaler


def _normal(mean, std):
    return mean, mean - NORMAL * std, mean + NORMAL * std


def _ridge(X, y, X_test):
    model = RandomFeatureRidge(random_state=0)
    return _normal(*model.fit(X, y).predict(X_test, return_std=True))


def _metric(X, y, X_test):
    ridge = RandomFeatureRidge(random_state=0)
    model = make_pipeline(LearnedMetric(random_state=0), ridge)
    return _normal(*model.fit(X, y).predict(X_test, return_std=True))


def _process(X, y, X_test):
    kernel = ConstantKernel() * RBF() + WhiteKernel()
    model = GaussianProcessRegressor(kernel).fit(X, y)
    return _normal(*model.predict(X_test, return_std=True))


def _forest(X, y, X_test):
    model = RandomForestQuantileRegressor(random_state=0).fit(X, y)
    low, middle, high = model.predict(X_test, quantiles=[0.05, 0.5, 0.95]).T
    return middle, low, high


def _gpytorch(X, y, X_test):
    torch.set_num_threads(1)
    X, y, X_test = (torch.as_tensor(a, dtype=torch.float32) for a in (X, y, X_test))
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = _exact_process(X, y, likelihood)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    loss = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        (-loss(model(X), y)).backward()
        optimizer.step()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(X_test))
    return _normal(found.mean.numpy(), found.stddev.numpy())


def _exact_process(X, y, likelihood):
    class Process(gpytorch.models.ExactGP):
        def __init__(self):
            super().__init__(X, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x):
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    return Process()


MODELS = {
    "RandomFeatureRidge, few rows": (_ridge, MOST_ROWS),
    "LearnedMetric, RandomFeatureRidge, few rows": (_metric, MOST_ROWS),
    "GaussianProcessRegressor": (_process, MOST_ROWS),
}
if gpytorch is not None:
    MODELS["gpytorch, exact"] = _gpytorch, MOST_ROWS
MODELS["RandomFeatureRidge"] = _ridge, None
MODELS["LearnedMetric, RandomFeatureRidge"] = _metric, None
if RandomForestQuantileRegressor is not None:
    MODELS["quantile-forest"] = _forest, None
