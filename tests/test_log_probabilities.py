"""Logarithms of class probabilities, which every classifier has."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import (
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.tables import TableClassifier

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonClassifier(),
        NadarayaWatsonClassifier("linear"),
        LocalLinearClassifier(),
        RandomFeatureRidgeClassifier(n_components=20, random_state=0),
        TableClassifier(n_folds=2, random_state=0),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_log_probabilities(model, dtype, rng):
    """They are logarithms, in the type of the probabilities; that of 0 is -inf."""
    y = np.repeat([0, 1, 2], 30)
    X = np.eye(3, dtype=dtype)[y]  # features with which some probabilities are 0
    if model.get_params().get("kernel") != "linear":
        X += 0.5 * rng.standard_normal(X.shape).astype(dtype)
    model.fit(X, y)
    found, probabilities = model.predict_log_proba(X), model.predict_proba(X)
    assert found.dtype == probabilities.dtype
    assert_allclose(np.exp(found), probabilities, rtol=1e-5)
