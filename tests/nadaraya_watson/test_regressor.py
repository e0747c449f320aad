"""The regressor: denominators that are not positive."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import (
    NadarayaWatsonRegressor,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)


def test_negative_denominators_give_the_mean_of_the_targets(rng):
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    sampler = TrigRBFSampler(sigma=20.0, n_components=10, random_state=0)
    model = NadarayaWatsonRegressor(sampler).fit(X, y)
    queries = rng.normal(size=(50, 3))
    weights = model.sampler_.approximate_kernel(queries, X).sum(axis=1)
    n_bad = int(np.sum(weights <= 0))
    assert n_bad > 5
    with pytest.warns(RuntimeWarning, match=r"For \d+ rows all the kernel"):
        predicted = model.predict(queries)
    assert_allclose(predicted[weights <= 0], y.mean())
