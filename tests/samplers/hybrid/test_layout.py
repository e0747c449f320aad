"""How the columns of a hybrid are split over its maps."""

import warnings

import numpy as np
import pytest

from sklearn_crt import TrigRBFSampler
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import (
    ComplexExponentialSampler,
    GaussianCoefficient,
    GaussianMixtureSampler,
)
from sklearn_crt.samplers._hybrid.part_fitter import PartFitter

from ...cases import sampler_cases
from ...hybrids import KINDS, hybrid


def fit_quietly(sampler, X):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This hybrid requires")
        return sampler.fit(X)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_width_is_filled(kind, rng):
    X = 0.5 * rng.normal(size=(30, 3))
    for n_components in (*range(1, 17), 63, 64):
        sampler = hybrid(kind, n_components=n_components)
        features = fit_quietly(sampler, X).transform(X)
        assert features.shape == (30, n_components)
        assert np.isfinite(features).all()
        if kind in ("angular", "gaussian"):
            assert (features != 0).any(axis=0).all()


def test_too_few_columns_leave_the_last_base_alone(rng):
    X = rng.normal(size=(30, 3))
    trigonometric = TrigRBFSampler().fit(X).map_
    with pytest.warns(ApproximationWarning, match=r"requires n_components >= 8, got"):
        sampler = hybrid(n_components=7).fit(X)
    assert type(sampler.bases_[0]) is type(trigonometric)
    assert sampler.coefficients_ == []
    assert hybrid(n_components=8).fit(X).coefficients_ != []
    with pytest.warns(ApproximationWarning, match=r"requires n_components >= 20"):
        hybrid(n_components=19, n_coefficients=4).fit(X)
    with pytest.warns(ApproximationWarning, match=r"requires n_components >= 18"):
        sampler = hybrid("clustered", n_components=17, n_clusters=3).fit(X)
    assert type(sampler.bases_[0]) is type(trigonometric)


def test_spare_columns(rng):
    X = 0.3 * rng.normal(size=(40, 3))
    # costs 2 (n + 1) = 6 a frequency of one base map
    widths = {
        n: [
            b.n_components
            for b in hybrid(n_components=n, n_coefficients=2).fit(X).bases_
        ]
        for n in (24, 29, 30, 36)
    }
    assert widths == {24: [4, 4], 29: [4, 4], 30: [4, 6], 36: [6, 6]}
    sampler = hybrid(n_components=29, n_coefficients=2).fit(X)
    assert sampler.spare_.n_components == 5
    whole = hybrid(n_components=24, n_coefficients=2).fit(X)
    assert sampler.kernel_variance(X).mean() < whole.kernel_variance(X).mean()


CASES = [
    *sampler_cases(),
    *sampler_cases(parts=True),
    TrigRBFSampler(random_phase=True),
    GaussianCoefficient(key_matrix=[-1.0, -1.0, -1.0], positive=True),
    ComplexExponentialSampler([2j, 0.5, 1.0]),
    ComplexExponentialSampler(0.5),
]


@pytest.mark.parametrize("sampler", CASES, ids=repr)
def test_columns_per_frequency_that_are_known_without_a_fit(sampler, rng):
    X = 0.5 * rng.normal(size=(30, 3))
    known = sampler._columns_per_frequency(3)
    assert known in (None, sampler.fit(X).map_.columns_per_frequency)


def test_parts_of_a_mixture_are_fitted_once(rng, monkeypatch):
    seen, fit = [], PartFitter.fit

    def counted(self, part, *args, **options):
        seen.append(part)
        return fit(self, part, *args, **options)

    monkeypatch.setattr(PartFitter, "fit", counted)
    sampler = GaussianMixtureSampler(n_components=200, random_state=0)
    sampler.fit(rng.normal(size=(60, 3)))
    assert len(seen) == len(sampler.bases_) + len(sampler.coefficients_)
