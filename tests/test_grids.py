"""Grids over the parameters of estimators: defaults, samplers, values, pipelines."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
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
)
from sklearn_crt.kernels import Matern

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
