"""scikit-learn's own checks, on every public estimator; none is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_crt import (
    CentersRBFSampler,
    HybridSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.testing import sampler_cases

ESTIMATORS = [
    estimator(sampler)
    for estimator in (NadarayaWatsonClassifier, NadarayaWatsonRegressor)
    for sampler in (
        None,
        "exact",
        "prototypes",
        OPRFSampler(),
        TrigRBFSampler(),
        HybridSampler(),
    )
] + [
    CentersRBFSampler(),
    CentersRBFSampler(n_components=3, sigma="median", n_jobs=2),
    NadarayaWatsonClassifier("exact", sigma="learned"),
    NadarayaWatsonRegressor("prototypes", sigma="learned", clouds=True),
    NadarayaWatsonClassifier("exact", kernel="matern", sigma="median"),
    NadarayaWatsonClassifier("exact", tol=0.01),
    NadarayaWatsonClassifierCV("exact", sigmas=[0.1, 1.0], tol=0.01, cv=3),
    NadarayaWatsonClassifierCV(OPRFSampler(), sigmas=[0.1, 1.0], cv=3),
    NadarayaWatsonClassifierCV("exact", sigmas=[0.1, 1.0], cv=3),
    NadarayaWatsonRegressorCV(sigmas=[0.1, 1.0], cv=3),
]


@pytest.fixture(autouse=True)
def _dispatch_may_be_asked_for(request, monkeypatch):
    if "array_api" in request.node.name:  # checks that skip without it
        monkeypatch.setenv("SCIPY_ARRAY_API", "1")


# maps that can be negative warn where no kernel weight is positive
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:.*eatures of .* are too:RuntimeWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore:This hybrid needs|.* maps need:UserWarning")
@pytest.mark.filterwarnings("ignore:The rows look like no features:UserWarning")
@parametrize_with_checks(sampler_cases() + sampler_cases(parts=True) + ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
