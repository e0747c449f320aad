"""The number of columns for an error: the least one, or a refusal."""

import warnings

import numpy as np
import pytest
from scipy import sparse

from sklearn_crt import OPRFSampler, TrigRBFSampler, n_components_for
from sklearn_crt.samplers import (
    AnchoredRBFSampler,
    LaplacianSampler,
    MaternSampler,
    PoissonSampler,
)

SAMPLERS = [
    TrigRBFSampler(),
    TrigRBFSampler(coupling="iid"),
    TrigRBFSampler(random_phase=True),
    MaternSampler(nu=0.5),
    LaplacianSampler(norm="l1", random_phase=True),
]


def mean_variance(sampler, X, n_components):
    fitted = sampler.set_params(n_components=n_components).fit(X)
    return fitted.kernel_variance(X)[~np.eye(len(X), dtype=bool)].mean()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
@pytest.mark.parametrize("d", [1, 5])
def test_it_is_the_least_number(sampler, d):
    # two rows: all blocks hold the same pair
    X = np.random.default_rng(3).normal(size=(2, d))
    width = n_components_for(sampler, X, rms_error=0.05, n_pairs=2)
    step = sampler.fit(X).map_.columns_per_frequency
    assert width % step == 0
    assert mean_variance(sampler, X, width) <= 0.05**2 * (1 + 1e-9)
    assert mean_variance(sampler, X, width - step) > 0.05**2


def test_error_of_new_pairs(rng):
    X = rng.normal(size=(1000, 6)) * [3, 1, 1, 1, 0.3, 0.3]
    width = n_components_for(TrigRBFSampler(), X, rms_error=0.03, random_state=0)
    squares = []
    for seed in range(40):
        fitted = TrigRBFSampler(n_components=width, random_state=seed).fit(X)
        error = fitted.approximate_kernel(X[:500], X[500:])
        squares.append(np.mean((error - fitted.exact_kernel(X[:500], X[500:])) ** 2))
    assert 0.95 < np.sqrt(np.mean(squares)) / 0.03 < 1.05


def test_sampler_stays_as_it_is_and_sparse_rows_count():
    X = np.random.default_rng(0).normal(size=(50, 4))
    sampler = TrigRBFSampler(n_components=3, sigma=0.5)
    widths = {
        n_components_for(sampler, Z, rms_error=0.1, random_state=0)
        for Z in (X, sparse.csr_array(X), X.astype(np.float32))
    }
    assert len(widths) == 1
    assert sampler.n_components == 3
    assert not hasattr(sampler, "map_")


@pytest.mark.parametrize(
    "sampler", [OPRFSampler(), AnchoredRBFSampler(), PoissonSampler()], ids=repr
)
def test_heavy_tails_are_refused(sampler, rng):
    name = type(sampler).__name__
    with pytest.raises(ValueError, match=f"errors of {name} have heavy tails"):
        n_components_for(sampler, rng.normal(size=(20, 3)), rms_error=0.1)


def test_impossible_accuracy(rng):
    with pytest.raises(ValueError, match="More than 10000000 frequencies"):
        n_components_for(TrigRBFSampler(), rng.normal(size=(20, 3)), rms_error=1e-6)


def test_a_single_row():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        n_components_for(TrigRBFSampler(), np.ones((1, 3)), rms_error=0.1)


def test_its_own_small_fits_do_not_warn(rng):
    X = rng.standard_normal((300, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n_components_for(LaplacianSampler(), X, rms_error=0.02)
