"""scikit-learn's own checks, on every public estimator; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_crt import (
    ExponentialPowerSampler,
    GeometricSampler,
    GERFSampler,
    HybridSampler,
    LaplacianSampler,
    MaternSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PoissonSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.samplers import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
    MixtureCoefficient,
    PositivePairSampler,
)

SAMPLERS = [
    TrigRBFSampler(),
    TrigRBFSampler(coupling="iid", kernel="softmax", n_components=7),
    PositiveRBFSampler(),
    PositiveRBFSampler(center=False, kernel="softmax"),
    SimplexRBFSampler(),
    SimplexRBFSampler(weight_dependent=True, kernel="softmax", n_jobs=2),
    OPRFSampler(),
    OPRFSampler(coupling="simplex+"),
    OPRFSampler(sigma="median", coupling="iid", n_jobs=2),
    GERFSampler(),
    GERFSampler(real_cost=True, kernel="softmax", coupling="iid", n_components=7),
    PoissonSampler(),
    PoissonSampler(positive=True),
    PoissonSampler(center=False, kernel="softmax"),
    GeometricSampler(),
    GeometricSampler(positive=True, sigma="median"),
    GeometricSampler(center=False, kernel="softmax", n_jobs=2),
    TrigRBFSampler(random_phase=True),
    MaternSampler(),
    MaternSampler(nu=4, coupling="iid", n_components=7, sigma="median"),
    LaplacianSampler(),
    LaplacianSampler(norm="l1", random_phase=True, n_jobs=2),
    ExponentialPowerSampler(),
    ExponentialPowerSampler(alpha=0.7, random_phase=True),
    HybridSampler(),
    HybridSampler(kind="gaussian", kernel="softmax", coupling="iid", n_components=37),
    HybridSampler(kind="clustered", center=True, n_jobs=2),
    HybridSampler(kind="clustered", mixture="gaussian", n_components=60),
]
PARTS = [
    PositivePairSampler(),
    ComplexExponentialSampler(1j, kernel="softmax"),
    ClusteredSampler(diagonal="real"),
    AngularCoefficient(),
    GaussianCoefficient(),
    MixtureCoefficient(),
]
ESTIMATORS = [
    estimator(sampler)
    for estimator in (NadarayaWatsonClassifier, NadarayaWatsonRegressor)
    for sampler in (None, "exact", OPRFSampler(), TrigRBFSampler(), HybridSampler())
] + [
    NadarayaWatsonClassifier("exact", kernel="matern", sigma="median"),
    NadarayaWatsonClassifierCV(OPRFSampler(), sigmas=[0.1, 1.0], cv=3),
]


# maps that can be negative warn where no kernel weight is positive
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*eatures of .* are too:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:This hybrid needs|.* maps need:UserWarning")
@parametrize_with_checks(SAMPLERS + PARTS + ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
