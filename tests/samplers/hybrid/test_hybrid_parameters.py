"""Parameters of hybrids: refused ones, warnings, what fit and the path make of them."""

import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler

from sklearn_crt import HybridSampler, OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Orthogonal, StructuredOrthogonal, register
from sklearn_crt.samplers import AngularCoefficient, ClusteredSampler
from sklearn_crt.testing import contract_rows

KINDS = {
    "optimal": {"kind": "optimal"},
    "angular": {"kind": "angular"},
    "gaussian": {"kind": "gaussian", "lambda_sigma": 0.8},
    "clustered": {"kind": "clustered"},
    "real": {"kind": "clustered", "diagonal": "real"},
    "mixture": {"kind": "clustered", "mixture": "gaussian", "n_coefficients": 1},
}


def hybrid(**params):
    return HybridSampler(
        **{"kind": "angular", "sigma": 1.0, "random_state": 0} | params
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kind": "spherical"}, "'kind' parameter of HybridSampler must be a str"),
        ({"n_coefficients": 0}, "'n_coefficients' parameter of HybridSampler must"),
        ({"lambda_sigma": 0.0}, "'lambda_sigma' parameter of HybridSampler must"),
        ({"bases": [TrigRBFSampler()]}, "1 bases and 1 coefficients do not fit"),
        ({"coefficients": []}, "2 bases and 0 coefficients do not fit"),
        ({"coupling": "none"}, "coupling='none' is not one that"),
        ({"bases": ["trig", "pos"]}, "is no sampler: it lacks fit, transform"),
        ({"coefficients": [3]}, "is no sampler: it lacks fit, transform"),
        (
            {"bases": [TrigRBFSampler(), RBFSampler()]},
            r"RBFSampler\(\) is no sampler: it lacks exact_kernel, kernel_variance",
        ),
        ({"bases": [OPRFSampler, TrigRBFSampler]}, "is no sampler: it is a class"),
        ({"sigma": -1.0}, "sigma"),
    ],
)
def test_errors(params, message):
    with pytest.raises(ValueError, match=message):
        hybrid(**params).fit(contract_rows())


def test_a_hybrid_is_fitted_first(pair4):
    with pytest.raises(NotFittedError):
        HybridSampler().transform(pair4[0])


BASES = [OPRFSampler(), TrigRBFSampler()]
CLUSTERED = {"kind": "clustered", "bases": [ClusteredSampler()]}
MIXTURE = {"kind": "clustered", "mixture": "gaussian", "n_components": 200}


@pytest.mark.parametrize(
    ("params", "without_effect"),
    [
        ({}, {"n_clusters": 3}),
        ({}, {"n_clusters": (2, 2)}),
        ({}, {"mixture": "gaussian"}),
        ({}, {"diagonal": "real"}),
        ({}, {"lambda_sigma": 0.5}),
        ({"kind": "gaussian"}, {"n_clusters": 3}),
        ({"kind": "gaussian"}, {"mixture": "gaussian"}),
        ({"kind": "gaussian"}, {"diagonal": "real"}),
        ({"kind": "clustered"}, {"lambda_sigma": 0.5}),
        ({"kind": "clustered"}, {"n_coefficients": 2}),
        (CLUSTERED, {"n_clusters": 3}),
        (CLUSTERED, {"diagonal": "real"}),
        (CLUSTERED, {"mixture": "gaussian"}),
        (MIXTURE, {"diagonal": "real"}),
        ({"coefficients": [AngularCoefficient()]}, {"n_coefficients": 2}),
        (
            {"kind": "gaussian", "coefficients": [AngularCoefficient()]},
            {"lambda_sigma": 0.5},
        ),
    ],
)
def test_parameters_without_effect_are_refused(params, without_effect):
    X = contract_rows()
    ((name, value),) = without_effect.items()
    sampler = hybrid(**{"n_components": 404} | params)
    expected = clone(sampler).fit(X).transform(X)
    # clone and set_params leave parameters as they are; fit judges them
    sampler = clone(sampler.set_params(**without_effect))
    what = re.escape(f"{name}={value!r}")
    message = f"^{what} has no effect with kind=.* Leave it at its default, "
    with pytest.raises(ValueError, match=message):
        sampler.fit(X)
    default = HybridSampler().get_params()[name]
    assert_array_equal(sampler.set_params(**{name: default}).fit_transform(X), expected)


@pytest.mark.parametrize(
    ("params", "with_effect"),
    [
        ({"kind": "clustered"}, {"n_clusters": 1}),
        ({"kind": "clustered"}, {"mixture": "gaussian"}),
        ({"kind": "clustered"}, {"diagonal": "real"}),
        ({"kind": "gaussian"}, {"lambda_sigma": 0.5}),
        (MIXTURE, {"lambda_sigma": 0.5}),
        (MIXTURE, {"n_coefficients": 2}),
        ({"bases": BASES}, {"n_coefficients": 2}),
        ({"kind": "gaussian", "bases": BASES}, {"lambda_sigma": 0.5}),
    ],
)
def test_parameters_with_an_effect_are_not(params, with_effect, rng):
    X = rng.normal(size=(30, 3))
    sampler = hybrid(**{"n_components": 200} | params)
    plain = clone(sampler).fit_transform(X)
    assert not np.allclose(sampler.set_params(**with_effect).fit_transform(X), plain)


@pytest.mark.parametrize(
    "sampler",
    [
        HybridSampler(n_components=3),
        HybridSampler(kind="clustered", n_components=3),
        ClusteredSampler(n_components=3),
        HybridSampler(bases=[ClusteredSampler(n_clusters=9)], coefficients=[]),
    ],
    ids=str,
)
@pytest.mark.parametrize("how", ["fit", "partial_fit", "fit_transform"])
def test_warnings_point_at_the_line_of_the_user(sampler, how):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        getattr(clone(sampler), how)(contract_rows())
    (warning,) = (w for w in caught if "n_components" in str(w.message))
    assert warning.filename == __file__


# ------------------------------------------------------------------------ behaviour
class Own(Orthogonal):
    """Under a name of its own."""


def test_a_coupling_of_ones_own(rng):
    X = rng.normal(size=(20, 4))
    register("own")(Own)
    own, orthogonal = (
        hybrid(coupling=coupling).fit(X) for coupling in ("own", "orthogonal")
    )
    assert_allclose(own.transform(X), orthogonal.transform(X))
    assert own.variance_is_exact_
    for coupling in ("structured-orthogonal", StructuredOrthogonal()):
        assert hybrid(coupling=coupling).fit(X).coefficients_[0].variance_is_exact


def test_sigma_center_and_row_factors(rng):
    X = rng.normal(size=(40, 3)) + 5
    params = {"n_components": 48, "n_coefficients": 2}
    plain = hybrid(sigma=1.0, **params)
    center = X.mean(axis=0)
    sigma = np.array([0.2, 0.3, 0.1])
    centred = hybrid(sigma=sigma, center=True, **params).fit(X)
    expected = clone(plain).fit((X - center) * sigma).transform((X - center) * sigma)
    assert_allclose(centred.transform(X), expected, atol=1e-10)
    softmax = clone(centred).set_params(kernel="softmax").fit(X)
    factor = np.exp(0.5 * ((X * sigma) ** 2).sum(axis=1))
    assert_allclose(softmax.transform(X), centred.transform(X) * factor[:, None])
    assert_allclose(softmax.exact_kernel(X), np.exp((X * sigma) @ (X * sigma).T))
    expected = centred.kernel_variance(X) * np.outer(factor, factor) ** 2
    assert_allclose(softmax.kernel_variance(X), expected)
    table = sparse.csr_array(X)
    for sampler in (clone(centred), clone(softmax)):
        dense = sampler.fit(X).transform_key(X)
        assert_allclose(sampler.fit(table).transform_key(table), dense, atol=1e-8)


@pytest.mark.parametrize("kind", ["angular", "gaussian", "clustered"])
def test_path_over_sigma(kind, rng):
    X = rng.normal(size=(50, 3))
    options = {} if kind == "clustered" else {"n_coefficients": 2}
    sampler = hybrid(kind=kind, n_components=40, **options).fit(X)
    path = [sampler.with_sigma(sigma) for sigma in (0.3, 0.7)]
    for member, sigma in zip(path, (0.3, 0.7), strict=True):
        again = clone(sampler).set_params(sigma=sigma).fit(X)
        assert_allclose(member.transform(X), again.transform(X), atol=1e-12)


def test_weights_are_repetitions(rng):
    X = rng.normal(size=(40, 3))
    weights = rng.integers(0, 3, size=40)
    for kind in KINDS.values():
        sampler = hybrid(n_components=60, sigma="scale", **kind)
        weighted = sampler.fit(X, sample_weight=weights).transform(X)
        repeated = clone(sampler).fit(np.repeat(X, weights, axis=0)).transform(X)
        assert_allclose(weighted, repeated, atol=1e-8)


def test_the_map_is_a_function_of_parameters_and_statistics(rng):
    """Rows that are read twice, in parts and in copies make one map."""
    X = rng.normal(size=(60, 3))
    for kind in KINDS.values():
        sampler = hybrid(n_components=100, **kind).fit(X)
        expected = sampler.transform(X)
        copied = pickle.loads(pickle.dumps(sampler))
        for again in (clone(sampler).fit(X), copied.with_sigma(1.0), sampler):
            assert_array_equal(again.transform(X), expected)


def test_attributes_are_those_of_the_map(rng):
    sampler = hybrid(n_components=30).fit(rng.normal(size=(60, 3)))
    assert sampler.bases_ == list(sampler.map_.bases)
    assert sampler.coefficients_ == list(sampler.map_.coefficients)
    assert sampler.spare_ is sampler.map_.spare
