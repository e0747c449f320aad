"""Parameters of hybrids: refused ones, warnings, what fit and the path make of them."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import (
    Antithetic,
    Orthogonal,
    StructuredOrthogonal,
    get_coupling,
    register,
)
from sklearn_crt.samplers import (
    AngularCoefficient,
    ClusteredSampler,
    GaussianCoefficient,
    HybridSampler,
    PositiveRBFSampler,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
)
from sklearn_crt.testing.estimates import contract_rows

from ...hybrids import KINDS, hybrid, named


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_coefficients": 0}, "'n_coefficients' parameter of HybridSampler must"),
        ({"kind": "gaussian", "lambda_sigma": 0.0}, "'sigma' parameter of Gaussian"),
        ({"kind": "clustered", "diagonal": "no"}, "'diagonal' parameter of Clustered"),
        ({"bases": named(TrigRBFSampler())}, "1 bases require 0 coefficients, got 1"),
        ({"coefficients": []}, "2 bases require 1 coefficients, got 0"),
        ({"bases": named("trig", "pos")}, "is not a sampler: it lacks fit, transform"),
        ({"coefficients": named(3)}, "is not a sampler: it lacks fit, transform"),
        (
            {"bases": named(TrigRBFSampler(), RBFSampler())},
            r"RBFSampler\(\) is not a sampler: it lacks exact_kernel, kernel_variance",
        ),
        ({"bases": named(OPRFSampler, TrigRBFSampler)}, "is not a sampler: it is"),
        ({"sigma": -1.0}, "sigma"),
        ({"bases": [OPRFSampler(), TrigRBFSampler()]}, "must be a list of pairs"),
        ({"coefficients": [("a", AngularCoefficient(), 1)]}, "must be a list of pairs"),
        ({"bases": 2 * named(OPRFSampler())}, "whose names are different strings"),
        ({"bases": [("a__b", OPRFSampler())]}, "strings without '__'"),
    ],
)
def test_errors(params, message):
    with pytest.raises(ValueError, match=message):
        hybrid(**params).fit(contract_rows())


def test_a_hybrid_is_fitted_first(pair4):
    with pytest.raises(NotFittedError):
        HybridSampler().transform(pair4[0])


@pytest.mark.parametrize("make", [angular_hybrid, gaussian_hybrid])
def test_functions_refuse_unknown_couplings(make):
    with pytest.raises(ValueError, match="coupling='none' is not supported by"):
        make(coupling="none")


@pytest.mark.parametrize("coupling", ["orthogonal", "simplex+", "structured-simplex"])
@pytest.mark.parametrize("make", [angular_hybrid, gaussian_hybrid])
def test_functions_state_bases_and_coefficients(make, coupling, rng):
    """They are the paper's combinations, by nothing but parameters of a hybrid."""
    X, Y = rng.normal(size=(2, 30, 3))
    options = {"n_components": 61, "sigma": 0.7, "kernel": "softmax", "random_state": 1}
    sampler = make(n_coefficients=2, coupling=coupling, **options).fit(X, X_key=Y)
    pairs, exact = get_coupling(coupling, "hybrid"), coupling
    if not pairs.norm_dependent:
        pairs = Antithetic(pairs)
    if not pairs.exact:
        exact = "orthogonal"
    positive = PositiveRBFSampler(center=False, coupling=pairs)
    coefficient = {
        angular_hybrid: AngularCoefficient(n_components=2, coupling=exact),
        gaussian_hybrid: GaussianCoefficient(n_components=4, coupling=exact),
    }[make]
    parts = {
        "bases": named(positive, TrigRBFSampler(coupling=coupling)),
        "coefficients": named(coefficient),
    }
    by_parts = HybridSampler(**parts, **options).fit(X, X_key=Y)
    assert_array_equal(sampler.transform(X), by_parts.transform(X))
    assert_array_equal(sampler.transform_key(Y), by_parts.transform_key(Y))
    assert_array_equal(sampler.kernel_variance(X, Y), by_parts.kernel_variance(X, Y))


def test_the_clustered_hybrid_states_its_base(rng):
    X, Y = rng.normal(size=(2, 30, 3))
    own = {"n_clusters": (2, 1), "diagonal": "real", "statistic": "centers"}
    options = {"n_components": 61, "sigma": 0.7, "kernel": "softmax", "random_state": 1}
    sampler = clustered_hybrid(coupling="iid", **own, **options).fit(X, X_key=Y)
    base = ClusteredSampler(coupling="iid", **own)
    by_parts = HybridSampler(bases=named(base), coefficients=[], **options).fit(
        X, X_key=Y
    )
    assert_array_equal(sampler.transform(X), by_parts.transform(X))
    assert_array_equal(sampler.transform_key(Y), by_parts.transform_key(Y))


def test_the_default_states_its_parts(rng):
    X = rng.normal(size=(30, 3))
    expected = HybridSampler(random_state=0).fit(X).transform(X)
    for params in (
        {"n_coefficients": 1},
        {"bases": named(OPRFSampler(coupling="antithetic"), TrigRBFSampler())},
        {"coefficients": named(AngularCoefficient(n_components=1))},
        {"coefficients": named(AngularCoefficient()), "n_coefficients": 1},
    ):
        sampler = HybridSampler(random_state=0, **params)
        assert_array_equal(sampler.fit(X).transform(X), expected)


def test_coefficients_keep_their_own_numbers_of_frequencies(rng):
    X = rng.normal(size=(30, 3))
    coefficients = named(AngularCoefficient(n_components=3), GaussianCoefficient())
    bases = named(OPRFSampler(), OPRFSampler(), TrigRBFSampler())
    sampler = HybridSampler(bases=bases, coefficients=coefficients, n_components=2000)
    assert [c.n_components for c in sampler.fit(X).coefficients_] == [3, 100]
    coefficients[0] = "part0", AngularCoefficient()
    sampler.set_params(n_coefficients=2).fit(X)
    # one column for the sign of a projection, a sine and a cosine for a frequency
    assert [c.n_components for c in sampler.coefficients_] == [2, 4]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"bases": named(OPRFSampler(sigma=0.3), TrigRBFSampler())},
            r"sigma=0.3 of OPRFSampler\(sigma=0.3\) has no effect .* default, None",
        ),
        (
            {"bases": named(OPRFSampler(), TrigRBFSampler(kernel="softmax"))},
            "kernel='softmax' of TrigRBFSampler.* has no effect",
        ),
        (
            {"bases": named(OPRFSampler(n_components=7), TrigRBFSampler())},
            "n_components=7 of OPRFSampler.* has no effect",
        ),
        # set to what None stands for
        (
            {"bases": named(OPRFSampler(sigma="scale"), TrigRBFSampler())},
            "sigma='scale' of OPRFSampler.* has no effect",
        ),
        (
            {"bases": named(OPRFSampler(), TrigRBFSampler(n_components=100))},
            "n_components=100 of TrigRBFSampler.* has no effect",
        ),
        (
            {
                "coefficients": named(AngularCoefficient(n_components=100)),
                "n_coefficients": 2,
            },
            "n_components=100 of AngularCoefficient.* has no effect",
        ),
        (
            {"bases": named(OPRFSampler(random_state=7), TrigRBFSampler())},
            "random_state=7 of OPRFSampler.* has no effect",
        ),
        (
            {"coefficients": named(AngularCoefficient(random_state=7, n_components=2))},
            "random_state=7 of AngularCoefficient.* has no effect",
        ),
        (
            {
                "coefficients": named(AngularCoefficient(n_components=7)),
                "n_coefficients": 2,
            },
            "n_components=7 of AngularCoefficient.* has no effect",
        ),
        (
            {"bases": named(OPRFSampler()), "coefficients": [], "n_coefficients": 2},
            "n_coefficients=2 has no effect without coefficients",
        ),
        (
            {"bases": named(OPRFSampler()), "coefficients": [], "shared": True},
            "shared=True has no effect with a single base map",
        ),
        ({"kind": "clustered", "n_coefficients": 2}, "n_coefficients=2 has no effect"),
    ],
)
def test_parameters_without_effect_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        hybrid(**{"n_components": 404} | params).fit(contract_rows())


def test_a_number_for_coefficients_that_have_none():
    class Fixed(AngularCoefficient):
        def __init__(self):
            super().__init__(n_components=3)

    sampler = hybrid(coefficients=named(Fixed()), n_components=404)
    assert sampler.fit(contract_rows()).coefficients_[0].n_components == 3
    with pytest.raises(ValueError, match="n_coefficients=2 requires coefficients"):
        sampler.set_params(n_coefficients=2).fit(contract_rows())


def test_parts_may_state_what_the_hybrid_sets(rng):
    X = rng.normal(size=(30, 3))
    bases = named(OPRFSampler(sigma=1), TrigRBFSampler(sigma=1.0, kernel="gaussian"))
    assert np.isfinite(HybridSampler(bases=bases).fit(X).transform(X)).all()


@pytest.mark.parametrize(
    "sampler",
    [
        HybridSampler(n_components=3),
        clustered_hybrid(n_components=3),
        ClusteredSampler(n_components=3),
        clustered_hybrid(n_clusters=9),
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
    sampler = hybrid(kind, n_components=40, **options).fit(X)
    path = [sampler.with_sigma(sigma) for sigma in (0.3, 0.7)]
    for member, sigma in zip(path, (0.3, 0.7), strict=True):
        again = clone(sampler).set_params(sigma=sigma).fit(X)
        assert_allclose(member.transform(X), again.transform(X), atol=1e-12)


def test_weights_are_repetitions(rng):
    X = rng.normal(size=(40, 3))
    weights = rng.integers(0, 3, size=40)
    for kind in KINDS:
        sampler = hybrid(kind, n_components=60, sigma="scale")
        weighted = sampler.fit(X, sample_weight=weights).transform(X)
        repeated = clone(sampler).fit(np.repeat(X, weights, axis=0)).transform(X)
        assert_allclose(weighted, repeated, atol=1e-8)


def test_the_map_is_a_function_of_parameters_and_statistics(rng):
    """Rows that are read twice, in parts and in copies make one map."""
    X = rng.normal(size=(60, 3))
    for kind in KINDS:
        sampler = hybrid(kind, n_components=100).fit(X)
        expected = sampler.transform(X)
        copied = pickle.loads(pickle.dumps(sampler))
        for again in (clone(sampler).fit(X), copied.with_sigma(1.0), sampler):
            assert_array_equal(again.transform(X), expected)


def test_attributes_are_those_of_the_map(rng):
    sampler = hybrid(n_components=30).fit(rng.normal(size=(60, 3)))
    assert sampler.bases_ == list(sampler.map_.bases)
    assert sampler.coefficients_ == list(sampler.map_.coefficients)
    assert sampler.spare_ is sampler.map_.spare


# ------------------------------------------------------------------ named parameters
def test_parameters_of_parts_have_names():
    sampler = angular_hybrid(n_coefficients=2)
    params = sampler.get_params()
    positive = dict(sampler.bases)["positive"]
    assert params["bases__positive"] is positive
    assert params["bases__positive__center"] is False
    assert params["coefficients__angle__coupling"] == "orthogonal"
    assert "bases__positive" not in sampler.get_params(deep=False)
    assert "bases__positive" not in HybridSampler().get_params()
    other = TrigRBFSampler(coupling="sobol")
    sampler.set_params(
        bases__trigonometric__random_phase=True,
        bases__trigonometric=other,
        coefficients__angle__coupling="iid",
        sigma=0.5,
    )
    assert dict(sampler.bases) == {"positive": positive, "trigonometric": other}
    assert other.random_phase
    assert dict(sampler.coefficients)["angle"].coupling == "iid"
    assert sampler.sigma == 0.5
    copied = clone(sampler)
    assert str(copied.get_params()) == str(sampler.get_params())
    assert dict(copied.bases)["positive"] is not positive
    for name in ("bases__other", "bases__other__coupling", "coefficients__x"):
        with pytest.raises(ValueError, match=f"Invalid parameter '{name}' .* names in"):
            sampler.set_params(**{name: 1})
    with pytest.raises(ValueError, match="Invalid parameter 'other'"):
        sampler.set_params(bases__positive__other=1)


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_a_grid_over_parts(rng):
    X = rng.normal(size=(60, 3))
    y = X[:, 0] > 0
    trigonometric = [TrigRBFSampler(), TrigRBFSampler(coupling="iid")]
    grid = {
        "angular__bases__positive__coupling": ["iid", "antithetic"],
        "angular__bases__trigonometric": trigonometric,
        "angular__sigma": [0.5, 1.0],
    }
    hybrid = angular_hybrid(n_components=64, random_state=0)
    model = Pipeline([("angular", hybrid), ("linear", LogisticRegression())])
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    found = search.best_estimator_.get_params()
    for name, value in search.best_params_.items():
        assert str(found[name]) == str(value)
    grid = {"kernel__bases__positive__coupling": ["iid", "orthogonal"]}
    model = NadarayaWatsonClassifier(hybrid)
    GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
