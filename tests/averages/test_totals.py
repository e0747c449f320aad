"""The totals of class probabilities agree with the class shares."""

import numpy as np
import pytest

from sklearn_crt import (
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    OPRFSampler,
)


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonClassifier(),
        pytest.param(LocalLinearClassifier(), marks=pytest.mark.slow),
        NadarayaWatsonClassifier(OPRFSampler(n_components=200, random_state=0)),
    ],
    ids=str,
)
def test_the_total_of_a_rare_class(model, rng):
    ratios = []
    for _ in range(4):
        X = rng.normal(size=(4000, 5))
        y = (rng.random(4000) < 1 / (1 + np.exp(6.5 - 1.5 * X[:, 0]))).astype(int)
        model.fit(X[:3000], y[:3000])
        total = model.predict_proba(X[3000:])[:, 1].mean()
        ratios.append(total / y[:3000].mean())
    # the largest error of the mean of 1000 new rows is about a fifth
    assert np.abs(np.log(ratios)).max() < 0.35
