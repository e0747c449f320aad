"""The global option ``transform_output`` changes the output of ``transform`` only."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.base import clone, is_classifier
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline

from sklearn_crt import (
    AnovaSampler,
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.tables import TableClassifier, TableRegressor

pytestmark = pytest.mark.usefixtures("few_folds")

SEED = {"random_state": 0}
ANOVA = AnovaSampler(n_components=40, **SEED)
MODELS = [
    TableClassifier(n_folds=2, **SEED),
    TableRegressor(n_folds=2, **SEED),
    LocalLinearClassifier(),
    LocalLinearRegressor(),
    NadarayaWatsonClassifier(),
    NadarayaWatsonClassifier(OPRFSampler(n_components=50, **SEED)),
    NadarayaWatsonRegressor(),
    NadarayaWatsonRegressor(Prototypes(30, random_state=0)),
    RandomFeatureRidge(ANOVA),
    RandomFeatureRidge(Nystroem(n_components=30, **SEED)),
    RandomFeatureRidge(n_components=50, **SEED),
    RandomFeatureRidgeClassifier(ANOVA),
    RandomFeatureRidgeClassifier(n_components=50, **SEED),
    make_pipeline(LearnedMetric(method="evidence", **SEED), LocalLinearRegressor()),
]
METHODS = "predict", "predict_proba", "predict_interval", "score_samples", "effects"


@pytest.mark.parametrize(
    "library", ["pandas", pytest.param("polars", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_predictions_are_the_same(model, library, rng):
    pytest.importorskip(library)
    X = rng.normal(size=(70, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=70)
    y = y > 0 if is_classifier(model) else y

    def results():
        fitted = clone(model).fit(X, y)
        found = [
            getattr(fitted, name)(X[:20]) for name in METHODS if hasattr(fitted, name)
        ]
        return [getattr(each, "values", each) for each in found]

    expected = results()
    with config_context(transform_output=library):
        found = results()
    for own, other in zip(expected, found, strict=True):
        assert isinstance(other, np.ndarray)
        assert_allclose(other, own, rtol=1e-7, atol=1e-9)  # in another memory layout
