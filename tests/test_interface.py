"""What every public class and every fitted sampler offers: names, words, errors."""

import copy
import inspect
import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from sklearn_crt import (
    DERFSampler,
    NadarayaWatsonRegressor,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.extend import Frequencies, get_coupling
from sklearn_crt.frequencies import coupling_names
from sklearn_crt.samplers import (
    AnchoredRBFSampler,
    AngularCoefficient,
    ExponentialPowerSampler,
    GERFSampler,
    LaplacianSampler,
    MaternSampler,
)

from .cases import sampler_cases
from .test_package import ESTIMATORS, PUBLIC, entries, public_module

pytestmark = pytest.mark.usefixtures("few_folds")


def public_classes():
    """Return the public classes that a user creates."""
    modules = filter(None, map(public_module, PUBLIC))
    members = {getattr(m, name) for m in modules for name in m.__all__}
    classes = (cls for cls in members if isinstance(cls, type))
    made = (cls for cls in classes if not getattr(cls, "_is_protocol", False))
    return sorted(made, key=lambda cls: cls.__name__)


every_case = pytest.mark.parametrize("sampler", sampler_cases(parts=False), ids=str)
every_estimator = pytest.mark.parametrize(
    "estimator", [cls for cls in ESTIMATORS if not inspect.isabstract(cls)]
)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(60, 3)) + [1.0, 0.0, -1.0]


# --------------------------------------------------------------------- uncertainty
PREDICTORS = [
    cls
    for cls in ESTIMATORS
    if not inspect.isabstract(cls) and (is_classifier(cls()) or is_regressor(cls()))
]


@pytest.mark.parametrize("cls", PREDICTORS, ids=lambda cls: cls.__name__)
def test_classifiers_have_probabilities_and_regressors_intervals(cls, X):
    if is_classifier(cls()):
        labels = np.repeat(["a", "b", "c"], 20)
        model = cls().fit(X, labels)
        found, predicted = model.predict_proba(X), model.predict(X)
        assert found.shape == (60, 3)
        np.testing.assert_allclose(found.sum(axis=1), 1)
        assert np.all((found >= 0) & (found <= 1))
        for scores in (found, model.decision_function(X)):
            np.testing.assert_array_equal(model.classes_[scores.argmax(1)], predicted)
        two = cls().fit(X, labels == "a").decision_function(X)
        assert two.shape == (60,)
        assert np.all(np.abs(two) <= 1)
    else:
        model = cls().fit(X, X[:, 0])
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal(mean, model.predict(X))
        assert std.shape == (60,)
        assert np.all(std > 0)
        low, high = model.predict_interval(X, coverage=0.8).T
        assert np.all(low <= high)
        assert np.mean((low <= X[:, 0]) & (X[:, 0] <= high)) > 0.5


def test_lists_of_public_classes_are_complete():
    """Tests over a list that has lost a class would pass."""
    assert {cls.__name__ for cls in PREDICTORS} == {
        "TableClassifier",
        "TableRegressor",
        "LocalLinearClassifier",
        "LocalLinearRegressor",
        "NadarayaWatsonClassifier",
        "NadarayaWatsonRegressor",
        "RandomFeatureRidge",
        "RandomFeatureRidgeClassifier",
    }
    without = {cls.__name__ for cls in ESTIMATORS}
    without -= {type(one).__name__ for one in with_partial_fit()}
    assert without == {
        "BaseFeatureSampler",
        "DiscreteSampler",
        "TableClassifier",
        "TableRegressor",
        "Prototypes",
    }
    assert len(public_classes()) >= 45


# -------------------------------------------------------------------- frequencies_
@every_case
@pytest.mark.filterwarnings("ignore:This hybrid requires|.* maps require")
def test_frequencies_are_a_matrix(sampler, X):
    fitted = clone(sampler).set_params(random_state=0).fit(X)
    frequencies = fitted.frequencies_
    assert type(frequencies) is np.ndarray
    assert frequencies.shape == (3, fitted.map_.frequencies.n_frequencies)
    assert np.all(np.isfinite(frequencies))
    assert isinstance(fitted.map_.frequencies, Frequencies)


@pytest.mark.parametrize("shape_matrix", [None, np.diag([4.0, 1.0, 0.25])])
@pytest.mark.parametrize("sigma", [0.7, [0.5, 1.0, 2.0]])
def test_features_are_those_of_the_rows_times_sigma_times_frequencies(
    sigma, shape_matrix, X
):
    sampler = MaternSampler(sigma=sigma, shape_matrix=shape_matrix, random_state=0)
    features = sampler.fit_transform(X)
    phases = X * sigma @ sampler.frequencies_
    expected = np.hstack([np.cos(phases), np.sin(phases)]) / np.sqrt(50)
    np.testing.assert_allclose(features, expected, atol=1e-9)


def test_structured_frequencies_are_a_dense_matrix_too():
    X = np.random.default_rng(0).normal(size=(20, 300))
    sampler = OPRFSampler(
        sigma=0.01, coupling="structured-orthogonal", n_components=400, random_state=0
    ).fit(X)
    assert type(sampler.map_.frequencies) is not Frequencies  # fast transforms
    products = sampler.map_.frequencies.apply(X)
    np.testing.assert_allclose(X @ sampler.frequencies_, products, atol=1e-9)


# -------------------------------------------------------------- fitted attributes
def fitted_properties(estimator):
    """Return the names of the fitted attributes that a class defines."""
    names = [name for name in dir(estimator) if re.fullmatch(r"[A-Za-z]\w*_", name)]
    return [name for name in names if isinstance(getattr(estimator, name), property)]


@every_estimator
def test_an_unfitted_attribute_raises_the_error_of_unfitted_estimators(estimator):
    names = fitted_properties(estimator)
    for name in names:
        assert not hasattr(estimator(), name)
        message = (
            f"This {estimator.__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments"
        )
        with pytest.raises(NotFittedError, match=re.escape(message)):
            getattr(estimator(), name)


def test_attributes_that_do_not_exist_are_named_too(X):
    assert len(fitted_properties(OPRFSampler)) > 5
    message = "'OPRFSampler' object has no attribute 'gamma_'"
    for sampler in (OPRFSampler(), OPRFSampler().fit(X)):
        with pytest.raises(AttributeError, match=message):
            _ = sampler.gamma_
    with pytest.raises(AttributeError, match="has no attribute 'n_features_in_'"):
        _ = OPRFSampler().n_features_in_


# --------------------------------------------------------- parameters after the fit
def with_partial_fit():
    """Return an instance of each public estimator that accepts batches."""
    made = {cls: cls() for cls in ESTIMATORS if not inspect.isabstract(cls)}
    return [one for one in made.values() if hasattr(one, "partial_fit")]


@pytest.mark.each_value
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "estimator", with_partial_fit(), ids=lambda e: type(e).__name__
)
@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_partial_fit_refuses_changed_parameters(estimator, method, X):
    y = np.arange(60) % 2
    labels = {"classes": [0, 1]} if is_classifier(estimator) else {}
    model = clone(estimator)
    getattr(model, method)(X, y, **(labels if method == "partial_fit" else {}))
    model.partial_fit(X, y)
    params = model.get_params()
    assert params
    for name, old in params.items():
        others = {"n_jobs": 2, "method": "agop", "columns": "hats"}
        new = others.get(name, "another value")
        model.set_params(**{name: new})
        state = pickle.dumps(model)
        words = f"fitted with {name}={old!r}, but {name} is now {new!r}. Call fit"
        if name == "n_jobs":
            model.partial_fit(X, y)
            continue
        with pytest.raises(ValueError, match=re.escape(words)):
            model.partial_fit(X, y)
        assert pickle.dumps(model) == state
        model.set_params(**{name: old}).partial_fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_a_changed_parameter_of_a_part_is_named(X):
    y = X[:, 0]
    for kernel in (OPRFSampler(sigma=1.0), Pipeline([("map", OPRFSampler(sigma=1.0))])):
        model = NadarayaWatsonRegressor(clone(kernel)).fit(X, y)
        name = (
            "kernel__sigma" if isinstance(kernel, OPRFSampler) else "kernel__map__sigma"
        )
        model.partial_fit(X, y).set_params(**{name: 3.0})
        with pytest.raises(ValueError, match=rf"fitted with {name}=1.0, but {name} is"):
            model.partial_fit(X, y)
        model.set_params(kernel="linear")
        with pytest.raises(ValueError, match="but kernel is now 'linear'"):
            model.partial_fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_random_states_are_the_same_if_they_are_one_object(X):
    kernel = OPRFSampler(sigma=1.0, random_state=np.random.RandomState(0))
    for model in (kernel, NadarayaWatsonRegressor(kernel)):
        model.fit(X, X[:, 0]).partial_fit(X, X[:, 0])
        copies = pickle.loads(pickle.dumps(model)), copy.deepcopy(model)
        for one in copies:
            one.partial_fit(X, X[:, 0])
        name = "random_state" if model is kernel else "kernel__random_state"
        model.set_params(**{name: np.random.RandomState(0)})
        with pytest.raises(ValueError, match=f"fitted with {name}=RandomState"):
            model.partial_fit(X, X[:, 0])


def test_a_copy_with_another_sigma_accepts_rows(X):
    moved = OPRFSampler(sigma=1.0, random_state=0).fit(X).with_sigma(2.0)
    both = OPRFSampler(sigma=2.0, random_state=0).fit(np.vstack([X, -X]))
    moved.partial_fit(-X)
    np.testing.assert_allclose(moved.transform(X), both.transform(X), rtol=1e-9)


# ---------------------------------------------------------------------- couplings
REFUSED = [
    (AngularCoefficient(), "structured-simplex"),
    (AngularCoefficient(), "antithetic"),
    (AnchoredRBFSampler(), "simplex+"),
    (DERFSampler(), "simplex+"),
    (ExponentialPowerSampler(), "structured-orthogonal"),
    (GERFSampler(), "antithetic"),
    (LaplacianSampler(), "structured-simplex"),
    (MaternSampler(nu=0.5), "structured-orthogonal"),
    (TrigRBFSampler(), "antithetic"),
]


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize(("sampler", "coupling"), REFUSED, ids=str)
def test_a_refused_coupling_names_those_that_are_accepted(
    sampler, coupling, as_object, X
):
    given = get_coupling(coupling, "", lambda _: True) if as_object else coupling
    name = re.escape(f"coupling={given!r} is not supported by {type(sampler).__name__}")
    words = rf"{name}.*; use one of ('[\w+-]+'(?:, '[\w+-]+')*), or another Coupling"
    with pytest.raises(ValueError, match=words) as caught:
        clone(sampler).set_params(coupling=given).fit(X)
    accepted = re.search(words, str(caught.value)).group(1).replace("'", "").split(", ")
    assert len(accepted) > 4
    for other in coupling_names():
        if other not in accepted:
            with pytest.raises(ValueError, match="is not supported by"):
                clone(sampler).set_params(coupling=other).fit(X)
        else:
            clone(sampler).set_params(coupling=other).fit(X)


# -------------------------------------------------------------- documented attributes
@every_estimator
@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_docstrings_list_exactly_the_fitted_attributes(estimator, X):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    model = estimator()
    if hasattr(model, "fit"):
        model.fit(table, np.arange(60) % 2)
    public = {name for name in vars(model) if re.fullmatch(r"[A-Za-z]\w*_", name)}
    public |= set(fitted_properties(estimator))
    sections = [names.split(", ") for names, _ in entries(estimator)]
    documented = {name for names in sections for name in names if name.endswith("_")}
    if not hasattr(model, "fit"):  # a kernel, which is fitted as part of an average
        documented -= {"sigma_", "prototypes_"}
    assert documented == public


# -------------------------------------------------------------------- masked arrays
@pytest.mark.parametrize(
    "estimator",
    [
        cls
        for cls in ESTIMATORS
        if not inspect.isabstract(cls)
        and (hasattr(cls, "transform") or hasattr(cls, "predict"))
    ],
)
def test_masked_values_are_not_used(estimator, X):
    """They are missing values in raw tables, and an error elsewhere."""
    y = X[:, 0] > 0.9 if is_classifier(estimator()) else X[:, 0]
    hidden = np.ma.masked_array(np.where(X > 1, 1e3, X), mask=X > 1)
    nothing = np.ma.masked_array(X, mask=np.zeros_like(X, dtype=bool))
    model = estimator()
    few = {"random_state": 0, "n_folds": 2}
    few |= {"n_components": 20} if "Ridge" in estimator.__name__ else {}
    model.set_params(**{name: few[name] for name in few if hasattr(model, name)})
    query = "predict" if hasattr(model, "predict") else "transform"
    expected = getattr(clone(model).fit(X, y), query)(X)
    found = getattr(clone(model).fit(nothing, y), query)(nothing)
    np.testing.assert_array_equal(found, expected)
    if model.__sklearn_tags__().input_tags.allow_nan:
        expected = clone(model).fit(hidden.filled(np.nan), y)
        found = clone(model).fit(hidden, y)
        rows = hidden.filled(np.nan)
        for some in (hidden, rows):
            np.testing.assert_array_equal(
                getattr(found, query)(some), getattr(expected, query)(rows)
            )
    else:
        message = "X is a masked array with .* SimpleImputer"
        with pytest.raises(ValueError, match=message):
            clone(model).fit(hidden, y)
        fitted = clone(model).fit(X, y)
        with pytest.raises(ValueError, match=message):
            getattr(fitted, query)(hidden)
    if hasattr(model, "predict"):
        masked = np.ma.masked_array(y, mask=np.arange(60) < 3)
        with pytest.raises(ValueError, match="y is a masked array"):
            clone(model).fit(X, masked)
        if has_fit_parameter(model, "sample_weight"):
            weights = np.ma.masked_array(np.ones(60), mask=np.arange(60) < 3)
            with pytest.raises(ValueError, match="sample_weight is a masked array"):
                clone(model).fit(X, y, sample_weight=weights)


# ------------------------------------------------------ parameters of other packages
@every_estimator
def test_names_of_other_packages_are_explained(estimator, X):
    known = estimator().get_params(deep=False)
    assert {*inspect.signature(estimator).parameters} == known.keys()
    if "sigma" in known:
        for params, sigma in (({"gamma": 0.5}, 1), ({"length_scale": 4.0}, 0.25)):
            message = rf"Use sigma = sqrt\(2 \* gamma\) = .* to sigma={sigma}\."
            with pytest.raises(TypeError, match=message):
                estimator(**params)
            with pytest.raises(TypeError, match=message):
                estimator().set_params(**params)
        with pytest.raises(TypeError, match="has no parameter 'gamma'"):
            estimator(gamma="scale")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        estimator(nonsense=1)
    if "kernel" in known and hasattr(estimator, "fit"):
        y = X[:, 0] > 0
        with pytest.raises(ValueError, match=r"Use 'gaussian' with .* = 1 / length"):
            estimator(kernel="rbf").fit(X, y)
        with pytest.raises(ValueError, match="pass the rows as X"):
            estimator(kernel="precomputed").fit(X, y)
        with pytest.raises(ValueError, match="The 'kernel' parameter of"):
            estimator(kernel="nonsense").fit(X, y)
