"""The regressor: denominators that are not positive."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler

from ..cases import sampler_cases

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)


def test_negative_denominators_give_the_mean_of_the_targets(rng):
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    sampler = TrigRBFSampler(sigma=20.0, n_components=10, random_state=0)
    model = NadarayaWatsonRegressor(sampler).fit(X, y)
    queries = rng.normal(size=(50, 3))
    weights = model.kernel_.approximate_kernel(queries, X).sum(axis=1)
    n_bad = int(np.sum(weights <= 0))
    assert n_bad > 5
    with pytest.warns(RuntimeWarning, match=r"For \d+ rows, the sum of the kernel"):
        predicted = model.predict(queries)
    assert_allclose(predicted[weights <= 0], y.mean())


@pytest.mark.parametrize("sampler", sampler_cases(), ids=repr)
@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:This hybrid requires|.* maps require")
def test_diabetes_stays_in_the_range_of_its_targets(sampler):
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    model = NadarayaWatsonRegressor(sampler.set_params(random_state=0)).fit(
        X[::2], y[::2]
    )
    found = model.predict(X[1::2])
    assert y[::2].min() <= found.min()
    assert found.max() <= y[::2].max()
