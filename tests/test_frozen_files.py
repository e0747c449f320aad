"""Frozen and fitted models in files: loaded in a new process, they learn nothing."""

import copy
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_classifier

from sklearn_crt import (
    AnovaSampler,
    CentersRBFSampler,
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.tables import TableClassifier, TableRegressor

pytestmark = pytest.mark.usefixtures("few_folds")

SEED = {"random_state": 0}
ANOVA = AnovaSampler(n_components=60, **SEED)
# models without training rows after freeze(), and models that need them
WITHOUT_ROWS = [
    ANOVA,
    CentersRBFSampler(n_components=20, sigma="median", **SEED),
    LearnedMetric(**SEED),
    NadarayaWatsonClassifier(OPRFSampler(n_components=50, **SEED)),
    NadarayaWatsonRegressor(OPRFSampler(n_components=50, **SEED)),
    RandomFeatureRidge(n_components=100, **SEED),
    RandomFeatureRidgeClassifier(n_components=100, **SEED),
    RandomFeatureRidge(ANOVA),
    RandomFeatureRidgeClassifier(ANOVA),
    RandomFeatureRidge(CentersRBFSampler(n_components=20, sigma="median", **SEED)),
]
WITH_ROWS = [
    TableClassifier(n_folds=2, **SEED),
    TableRegressor(n_folds=2, **SEED),
    LocalLinearClassifier(),
    LocalLinearRegressor(),
    NadarayaWatsonClassifier(),
    NadarayaWatsonRegressor(),
    NadarayaWatsonRegressor(Prototypes(40)),
]
METHODS = "transform", "predict", "predict_proba", "predict_interval", "score_samples"
SCRIPT = """
    import pickle, sys
    import numpy as np
    import sklearn_crt
    from sklearn_crt.life_cycle.fitted import LearnedValue

    def kinds(kind):
        for each in kind.__subclasses__():
            yield each
            yield from kinds(each)

    def refuse(*args, **kwargs):
        raise AssertionError("a loaded model learns")

    for kind in kinds(LearnedValue):
        kind._learn = refuse
    models, X, methods = pickle.load(sys.stdin.buffer)
    found = []
    for dumped in models:
        model = pickle.loads(dumped)
        found.append({
            name: getattr(model, name)(X) for name in methods if hasattr(model, name)
        })
    sys.stdout.buffer.write(pickle.dumps(found))
"""


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=250)


def fitted(model, X, y):
    labels = is_classifier(model)
    return clone(model).fit(X, np.where(y > 0, "yes", "no") if labels else y)


def test_a_loaded_model_learns_nothing(table):
    """It returns the same bits as before, in a new process that cannot learn."""
    X, y = table
    # with fewer rows, intervals of ridge regression with a learned kernel use fits to
    # folds, which only freeze stores
    many = np.tile(X, (4, 1)) + np.random.default_rng(1).normal(size=(1000, 3))
    fits = [
        fitted(model, many, np.sin(many[:, 0]))
        if isinstance(getattr(model, "kernel", None), AnovaSampler)
        else fitted(model, X, y)
        for model in WITHOUT_ROWS + WITH_ROWS
    ]
    models = fits + [copy.deepcopy(model).freeze() for model in fits]
    expected = [
        {name: getattr(model, name)(X[:50]) for name in METHODS if hasattr(model, name)}
        for model in models
    ]
    given = pickle.dumps(([*map(pickle.dumps, models)], X[:50], METHODS))
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    for model, own, other in zip(
        models, expected, pickle.loads(done.stdout), strict=True
    ):
        assert own.keys() == other.keys()
        for name in own:
            assert_array_equal(other[name], own[name], err_msg=f"{model}.{name}")


@pytest.mark.each_value
@pytest.mark.parametrize("model", WITHOUT_ROWS, ids=str)
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_frozen_files_have_no_training_rows(model, first, table):
    X, y = table
    model, given = clone(model), y
    options = {}
    if is_classifier(model):
        given = np.where(y > 0, "yes", "no")
        options = {} if first == "fit" else {"classes": ["no", "yes"]}
    getattr(model, first)(X, given, **options)
    whole = pickle.dumps(model)
    dumped = pickle.dumps(model.freeze())
    columns = [np.ascontiguousarray(X[k : k + 8].T) for k in range(0, 248, 8)]

    def n_found(content):
        rows = sum(row.tobytes() in content for row in X)
        parts = sum(
            column.tobytes() in content for table in columns for column in table
        )
        return rows, parts, sum(target.tobytes() in content for target in y)

    n_rows, n_parts, n_targets = n_found(dumped)
    # means of groups may be single rows
    assert n_rows <= (20 if "CentersRBFSampler" in str(model) else 0)
    assert n_parts == 0
    assert n_targets <= 2  # the range of the targets
    if isinstance(model, AnovaSampler):
        assert min(n_found(whole)[::2]) > 200  # the search finds them
