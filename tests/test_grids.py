"""Grids over the parameters of estimators: defaults, samplers, values, pipelines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
    samplers,
)
from sklearn_crt.kernels import Matern
from sklearn_crt.samplers import AngularCoefficient, GaussianCoefficient

pytestmark = pytest.mark.usefixtures("few_folds")

AVERAGES = NadarayaWatsonClassifier, NadarayaWatsonRegressor
FITS = LocalLinearClassifier, LocalLinearRegressor
RIDGE = RandomFeatureRidge, RandomFeatureRidgeClassifier
SIGMAS = [0.05, 5.0]
IN_SAMPLER = {"kernel__n_components": [30, 60], "kernel__coupling": ["iid", "sobol"]}


def sampler():
    return OPRFSampler(n_components=50, random_state=0)


CASES = [
    *((cls(), {"sigma": SIGMAS}) for cls in (*AVERAGES, *FITS, *RIDGE)),
    *(
        (cls(Matern()), {"sigma": SIGMAS, "kernel__nu": [0.5, 1.5]})
        for cls in (*AVERAGES, *FITS, *RIDGE)
    ),
    *((cls(sampler()), {"sigma": SIGMAS} | IN_SAMPLER) for cls in (*AVERAGES, *RIDGE)),
    *(
        (cls(Prototypes(20, random_state=0)), {"sigma": SIGMAS})
        for cls in (*AVERAGES, *FITS)
    ),
]


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.each_value
@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize(("estimator", "grid"), CASES, ids=repr)
def test_each_point_of_a_grid_is_another_model(estimator, grid, in_pipeline):
    X, y = load_iris(return_X_y=True)
    if in_pipeline:
        name = type(estimator).__name__.lower()
        estimator = make_pipeline(StandardScaler(), estimator)
        grid = {f"{name}__{key}": values for key, values in grid.items()}
    search = GridSearchCV(estimator, grid, cv=2, error_score="raise").fit(
        X[::3], y[::3]
    )
    assert set(search.best_params_) == set(grid)
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    fitted = search.best_estimator_[-1] if in_pipeline else search.best_estimator_
    assert fitted.sigma_ in SIGMAS
    assert np.ptp(scores) > 0  # so that the parameters count


HYBRIDS = angular_hybrid, clustered_hybrid, gaussian_hybrid
# all classes and functions that are public, whatever is added
PUBLIC = {name: getattr(samplers, name) for name in samplers.__all__}
PUBLIC.pop("BaseFeatureSampler")  # abstract
SAMPLERS = [*PUBLIC.values()]
# weights of base maps, which grow with the angle or the distance between rows, so that
# the calibration of kernel averages ignores them
NO_KERNELS = AngularCoefficient, GaussianCoefficient
GRID = {"sigma": [0.1, 0.5], "n_components": [12, 24]}


def grid_of(sampler):
    """Return the grid for a sampler in a pipeline."""
    if sampler is AngularCoefficient:  # angles do not depend on sigma
        return {"coupling": ["iid", "sobol"], "n_components": GRID["n_components"]}
    return GRID


def scores_of_grid(model, grid):
    """Return the score of each point of a grid, and the search."""
    X, y = load_iris(return_X_y=True)
    search = GridSearchCV(
        model, grid, cv=2, scoring="neg_log_loss", error_score="raise"
    ).fit(X[::3], y[::3])
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    best = search.best_estimator_.get_params()
    for name, value in search.best_params_.items():
        assert str(best[name]) == str(value)
    return scores, search


def pipeline(sampler, model):
    return Pipeline(
        [("scaler", StandardScaler()), ("sampler", sampler), ("model", model)]
    )


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_grid_of_each_sampler_in_front_of_a_linear_model(sampler):
    model = pipeline(sampler(random_state=0), LogisticRegression(C=10, max_iter=1000))
    grid = {f"sampler__{name}": values for name, values in grid_of(sampler).items()}
    scores, search = scores_of_grid(model, grid)
    assert len(set(scores)) == 4
    fitted = search.best_estimator_["sampler"]
    if "sigma" in grid_of(sampler):
        assert np.all(fitted.sigma_ == search.best_params_["sampler__sigma"])
    n_columns = search.best_params_["sampler__n_components"]
    assert len(fitted.get_feature_names_out()) == n_columns


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_grid_of_each_sampler_inside_kernel_averages(sampler):
    grid = {f"kernel__{name}": values for name, values in grid_of(sampler).items()}
    if sampler in NO_KERNELS:
        model = NadarayaWatsonClassifier(sampler(random_state=0))
        scores, _ = scores_of_grid(model, grid)
        assert_allclose(scores, -np.log(3), rtol=0.01)  # three equal classes
        return
    model = NadarayaWatsonClassifier(sampler(random_state=0))
    grid["sigma"] = grid.pop("kernel__sigma")
    scores, search = scores_of_grid(model, grid)
    assert len(set(scores)) == 4
    assert search.best_estimator_.sigma_ == search.best_params_["sigma"]


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_grid_of_each_sampler_in_front_of_kernel_averages(sampler):
    fitted = sampler(random_state=0).fit(load_iris().data)
    if sampler in NO_KERNELS:
        pytest.skip("it is the weight of a base map of a hybrid")
    if not getattr(fitted, "symmetric_", True):
        pytest.skip("its features differ between queries and keys")
    model = pipeline(clone(fitted), NadarayaWatsonClassifier("linear"))
    grid = {f"sampler__{name}": values for name, values in grid_of(sampler).items()}
    assert len(set(scores_of_grid(model, grid)[0])) == 4


PARTS = [
    (hybrid, name)
    for hybrid in HYBRIDS
    for name in hybrid().get_params()
    if name.count("__") == 2 and name.endswith("__coupling")
]


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.parametrize(("hybrid", "name"), PARTS)
def test_grid_over_each_part_of_a_hybrid(hybrid, name):
    """The part is a step of the hybrid, and its sampler a parameter of the hybrid."""
    sampler = hybrid(n_components=160, random_state=0)
    if name.startswith("coefficients"):
        sampler.set_params(n_coefficients=4)  # a single frequency has no coupling
    grid = {f"sampler__{name}": ["iid", "orthogonal"], "sampler__sigma": [0.1, 0.5]}
    model = pipeline(sampler, LogisticRegression(C=10, max_iter=1000))
    assert len(set(scores_of_grid(model, grid)[0])) == 4
    model = pipeline("passthrough", NadarayaWatsonClassifier(sampler))
    grid = {f"model__kernel__{name}": ["iid", "orthogonal"]}
    grid["model__sigma"] = [0.1, 0.5]
    assert len(set(scores_of_grid(model, grid)[0])) == 4


def test_grids_cover_the_parts_of_hybrids():
    assert len(SAMPLERS) >= 22
    assert len(PARTS) == 7
