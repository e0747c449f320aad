"""A fitted sampler holds a map and statistics, and nothing else changes them."""

import pickle
import pickletools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from sklearn_crt import CentersRBFSampler, OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import FeatureMap
from sklearn_crt.samplers import (
    AngularCoefficient,
    GeometricSampler,
    HybridSampler,
    PoissonSampler,
    clustered_hybrid,
)

from ..cases import sampler_cases

quiet = pytest.mark.filterwarnings(
    "ignore:This hybrid requires|.* maps require",
    "ignore:.*eatures of .* are too:RuntimeWarning",
)
every_case = pytest.mark.parametrize(
    "sampler", sampler_cases() + sampler_cases(parts=True), ids=str
)


@pytest.fixture
def X(rng):
    return rng.normal(size=(200, 4))


# ------------------------------------------------------------------ a copy is a copy
@pytest.mark.parametrize(
    "sampler", [OPRFSampler(sigma="median"), GeometricSampler(sigma="median")], ids=str
)
def test_batches_of_a_copy_do_not_change_the_origin(sampler, X, rng):
    fitted = clone(sampler).set_params(random_state=0).fit(X)
    before = fitted.with_sigma("median")
    fitted.with_sigma("median").partial_fit(9 * rng.normal(size=(300, 4)) + 5)
    after = fitted.with_sigma("median")
    assert after.sigma_ == before.sigma_
    assert_array_equal(after.transform(X), before.transform(X))


@quiet
@every_case
def test_set_params_waits_for_the_next_fit(sampler, X):
    fitted = clone(sampler).set_params(random_state=0).fit(X)
    expected = fitted.transform(X), fitted.kernel_variance(X[:9])
    others = {
        "sigma": 0.123,
        "n_components": 201,
        "coupling": "iid",
        "kernel": "softmax",
        "center": False,
        "random_phase": True,
        "positive": True,
        "nu": 0.5,
        "alpha": 1.9,
        "norm": "l1",
        "diagonal": "real",
        "random_state": 5,
    }
    known = fitted.get_params()
    fitted.set_params(**{name: v for name, v in others.items() if name in known})
    assert_array_equal(fitted.transform(X), expected[0])
    assert_array_equal(fitted.kernel_variance(X[:9]), expected[1])
    assert fitted.get_feature_names_out().size == expected[0].shape[1]
    whole = clone(sampler).set_params(random_state=0)
    whole.partial_fit(X[:100])
    before = whole.get_params(deep=False)
    whole.set_params(**{name: v for name, v in others.items() if name in known})
    with pytest.raises(ValueError, match="partial_fit adds rows to a model that was"):
        whole.partial_fit(X[100:])
    whole.set_params(**before).partial_fit(X[100:])
    assert_allclose(whole.transform(X), expected[0], rtol=1e-7, atol=1e-12)


def test_tables_of_one_map_are_not_those_of_another(X):
    """What a map makes once is its own, though maps share their frequencies."""
    options = {"coupling": "antithetic", "random_state": 0}
    narrow = OPRFSampler(sigma=0.5, **options).fit(X)
    wide = narrow.with_sigma(2.0)
    expected = [
        OPRFSampler(sigma=sigma, **options).fit(X).transform(X) for sigma in (0.5, 2.0)
    ]
    for _ in range(2):
        for sampler, features in zip((narrow, wide), expected, strict=True):
            assert_allclose(sampler.transform(X), features, rtol=1e-12)


# --------------------------------------------------------------------------- merging
@quiet
@every_case
def test_merge_equals_fit_on_all_rows(sampler, X):
    sampler = clone(sampler).set_params(random_state=0)
    whole = clone(sampler).fit(X)
    first, second = (clone(sampler).fit(part) for part in (X[:120], X[120:]))
    kept = second.transform(X)
    merged = first.merge(second)
    assert merged is first
    assert_allclose(merged.transform(X), whole.transform(X), rtol=1e-6, atol=1e-9)
    assert_array_equal(second.transform(X), kept)


def test_merge_with_what_does_not_fit(X):
    fitted = OPRFSampler(random_state=0).fit(X)
    for other, message in (
        (TrigRBFSampler().fit(X), "merge requires another OPRFSampler"),
        (OPRFSampler().fit(X[:, :3]), "4 features and the other with 3"),
        (OPRFSampler(sigma=2.0).fit(X), "sigma is 'scale' in one object and 2.0"),
        (OPRFSampler().fit(X).freeze(), "is frozen"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.merge(other)


# -------------------------------------------------------------------------- freezing
@pytest.mark.parametrize(
    "sampler",
    [
        OPRFSampler(sigma="median"),
        GeometricSampler(),
        HybridSampler(n_components=80),
        clustered_hybrid(n_components=80),
        PoissonSampler(positive=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_a_frozen_sampler_holds_no_row(sampler, convert, X):
    marker = 1234.5678901234567
    X = X.copy()
    X[7, 2] = marker
    fitted = clone(sampler).set_params(random_state=0).fit(convert(X))
    expected = fitted.transform(convert(X[:5]))
    frozen = fitted.freeze()
    assert frozen is fitted
    dumped = pickle.dumps(frozen)
    pieces = (arg for _, arg, _ in pickletools.genops(dumped))
    blob = b"".join(arg for arg in pieces if isinstance(arg, bytes))
    assert np.float64(marker).tobytes() not in blob + dumped
    restored = pickle.loads(dumped)
    assert_array_equal(restored.transform(convert(X[:5])), expected)
    with pytest.raises(ValueError, match="partial_fit cannot change this"):
        restored.partial_fit(X)
    assert restored.fit(X).partial_fit(X) is restored  # thaws


@quiet
@pytest.mark.each_value
@pytest.mark.parametrize(
    "sampler",
    [
        *sampler_cases(),
        *sampler_cases(parts=True),
        *(CentersRBFSampler(centers=name) for name in ("kmeans", "random")),
        CentersRBFSampler(whiten=False, sigma="median"),
    ],
    ids=str,
)
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_a_frozen_sampler_is_small_and_cannot_be_extended(sampler, first, rng):
    X = rng.normal(size=(300, 60))
    sampler = clone(sampler).set_params(random_state=0)
    sampler.set_params(n_components=max(100, sampler.n_components or 0))
    fitted = getattr(sampler, first)(X)
    expected = fitted.transform(X)
    dumped = pickle.dumps(fitted.freeze().freeze())
    restored = pickle.loads(dumped)
    assert_array_equal(restored.transform(X), expected)
    assert len(dumped) < 2 * len(pickle.dumps(needed(restored)))
    calls = [
        lambda: restored.partial_fit(X),
        lambda: restored.merge(clone(sampler).fit(X)),
        lambda: clone(sampler).fit(X).merge(restored),
    ]
    if not isinstance(sampler, (CentersRBFSampler, AngularCoefficient)):
        calls.append(lambda: restored.with_sigma(0.123))
    for call in calls:
        with pytest.raises(ValueError, match=r"is frozen: freeze\(\) .*fit again"):
            call()


def needed(sampler):
    """Return the fitted arrays, which a sampler needs to compute its features."""
    if isinstance(sampler, CentersRBFSampler):
        arrays = [sampler.centers_, sampler.sigma_]
        # in place of the penalty, which is the identity, the root of another matrix
        return [*arrays, sampler.penalty_] if sampler.whiten else arrays
    arrays = [sampler.frequencies_, sampler.sigma_]
    names = (
        "center_",
        "A_",
        "points_",
    )  # a matrix for each pair of columns, points of all columns
    return arrays + [getattr(sampler, name) for name in names if hasattr(sampler, name)]


def test_a_sampler_before_it_is_frozen_holds_rows(X):
    """The search for the marker above finds one where there is one."""
    X = X.copy()
    X[7, 2] = 1234.5678901234567
    dumped = pickle.dumps(GeometricSampler().fit(X))
    assert np.float64(X[7, 2]).tobytes() in dumped


# ------------------------------------------------------------------------------ maps
@quiet
@every_case
def test_the_map_is_all_that_a_worker_needs(sampler, X, apply_map):
    fitted = clone(sampler).set_params(random_state=0).fit(X)
    held = pickle.loads(pickle.dumps(fitted.map_))
    assert isinstance(held, FeatureMap)
    expected = fitted.transform(X[:50])
    assert_allclose(apply_map(held, X[:50]), expected, rtol=1e-12)
    with pytest.raises(AttributeError, match="cannot assign"):
        held.n_components = 3


@quiet
@every_case
def test_skops_round_trip(sampler, X):
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    if any(np.iscomplexobj(getattr(sampler, name, 0)) for name in ("matrix", "A")):
        pytest.skip("skops stores no complex numbers")
    fitted = clone(sampler).set_params(random_state=0).fit(X)
    dumped = io.dumps(fitted)
    trusted = io.get_untrusted_types(data=dumped)
    assert all(name.startswith("sklearn_crt.") for name in trusted)
    restored = io.loads(dumped, trusted=trusted)
    assert_array_equal(restored.transform(X), fitted.transform(X))
    assert_array_equal(restored.transform_key(X), fitted.transform_key(X))
    assert_array_equal(restored.kernel_variance(X[:5]), fitted.kernel_variance(X[:5]))


def test_a_map_of_another_sigma_shares_its_frequencies(X, apply_map):
    fitted = TrigRBFSampler(sigma=0.5, random_state=0).fit(X)
    other = fitted.map_.rescaled(2.0)
    expected = TrigRBFSampler(sigma=2.0, random_state=0).fit(X).transform(X)
    assert_allclose(apply_map(other, X), expected, rtol=1e-12)
    assert other.frequencies is fitted.map_.frequencies
