"""Displays, ``dir`` and ``hasattr`` never learn what a model has not learned yet."""

import time

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.utils import estimator_html_repr

from sklearn_crt.life_cycle.fitted import LearnedValue

from .test_common import EACH_ESTIMATOR

pytestmark = pytest.mark.usefixtures("few_folds")

QUERIES = [
    "approximation_error",
    "effective_sample_size",
    "effects",
    "kernel_weights",
    "predict_interval",
    "predict_quantiles",
    "score_samples",
]
IN_BATCHES = [one for one in EACH_ESTIMATOR if hasattr(one, "partial_fit")]
assert len(IN_BATCHES) > 25


def data(estimator):
    X = np.random.default_rng(0).normal(size=(60, 3))
    return X, X[:, 0] if is_regressor(estimator) else (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("estimator", IN_BATCHES, ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_nothing_is_learned_before_it_is_needed(estimator, monkeypatch):
    X, y = data(estimator)
    options = {"classes": [0, 1]} if hasattr(estimator, "predict_proba") else {}
    model = clone(estimator).partial_fit(X, y, **options)
    learned = []
    compute = LearnedValue.solution.func
    monkeypatch.setattr(
        LearnedValue.solution,
        "func",
        lambda value: learned.append(type(value)) or compute(value),
    )
    assert type(model).__name__ in estimator_html_repr(model)
    dir(model)
    for name in QUERIES:
        hasattr(model, name)
    assert not learned


@pytest.mark.parametrize("estimator", EACH_ESTIMATOR, ids=repr)
@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
def test_a_fitted_model_lists_its_attributes(estimator):
    X, y = data(estimator)
    model = clone(estimator).fit(X, y)
    listed = {name for name in dir(model) if not name.startswith("_")}
    fitted = {
        name
        for name in dir(type(model))
        if name.endswith("_") and not name.startswith("_") and hasattr(model, name)
    }
    assert fitted <= listed
    start = time.process_time()
    estimator_html_repr(model)
    assert time.process_time() - start < 2  # seconds: about .01 on an idle machine
