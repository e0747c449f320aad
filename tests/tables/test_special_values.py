"""Numbers that are codes, such as -999999 for missing values."""

import numpy as np
import pytest

from sklearn_crt import AnovaSampler, RandomFeatureRidge


@pytest.mark.each_value
@pytest.mark.parametrize("value", [-99, -9999, -999999, 1e12])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_codes_hide_no_differences(value, share, rng):
    X = rng.normal(size=(2000, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=2000)
    hit = rng.random(2000) < share
    X[hit, 0] = value
    y = np.where(hit, X[:, 1], y)
    sampler = AnovaSampler(n_components=200, random_state=0)
    model = RandomFeatureRidge(sampler).fit(X[:1000], y[:1000])
    assert np.sqrt(np.mean((model.predict(X[1000:]) - y[1000:]) ** 2)) < 0.2


def test_ordinary_extremes_are_numbers(rng, value_of):
    X = np.c_[rng.normal(size=500), rng.integers(0, 2, 500), rng.poisson(2, 500)]
    X[:3, 0] = 1e6  # single outliers are not codes
    sampler = AnovaSampler(n_components=50, random_state=0).fit(X, X[:, 1])
    assert value_of(sampler).solution.learned.encoding.special == ()
