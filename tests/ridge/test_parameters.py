"""Parameters of ridge regression: kernel, sigma, n_components, alpha and the seed."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import BaggingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.gaussian_process.kernels import Matern as MaternOfRows
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from sklearn_crt import (
    AnovaSampler,
    CentersRBFSampler,
    LearnedMetric,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.kernels import ExponentialPower, Gaussian, Laplacian, Matern
from sklearn_crt.samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
)

SAMPLERS = [
    ("gaussian", TrigRBFSampler()),
    pytest.param(Gaussian(), TrigRBFSampler(), marks=pytest.mark.slow),
    pytest.param("laplacian", LaplacianSampler(), marks=pytest.mark.slow),
    (Laplacian(norm="l1"), LaplacianSampler(norm="l1")),
    pytest.param("matern", MaternSampler(), marks=pytest.mark.slow),
    (Matern(nu=2.5), MaternSampler(nu=2.5)),
    (ExponentialPower(alpha=1.5), ExponentialPowerSampler(alpha=1.5)),
]


@pytest.fixture
def table(rng):
    """Return rows and targets."""
    X = rng.standard_normal((300, 3))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(300)


# ------------------------------------------------------------------------- kernels
@pytest.mark.parametrize(("kernel", "sampler"), SAMPLERS, ids=repr)
def test_names_and_values_stand_for_a_sampler(kernel, sampler, table):
    X, y = table
    model = RandomFeatureRidge(kernel, random_state=3).fit(X, y)
    params = {"sigma": model.sigma_, "n_components": 1024, "random_state": 3}
    sampler = clone(sampler).set_params(**params)
    assert repr(model.kernel_) == repr(sampler)
    assert_array_equal(model.kernel_.transform(X), sampler.fit(X).transform(X))
    expected = RandomFeatureRidge(sampler).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-7)
    assert model.sigma_.shape == (3,)
    assert isinstance(RandomFeatureRidge(kernel, sigma="scale").fit(X, y).sigma_, float)


@pytest.mark.parametrize(
    ("n_rows", "mean_weight", "expected"),
    [
        (50, 1, 1024),
        pytest.param(1100, 1, 1100, marks=pytest.mark.slow),
        (1100, 1e-3, 1100),  # small weights do not count rows
        pytest.param(1100, 1.25, 1375, marks=pytest.mark.slow),
        (300, 7, 2048),
        (1700, 10, 1024),
    ],
)
def test_columns_grow_with_the_number_of_rows(n_rows, mean_weight, expected, rng):
    X = rng.standard_normal((n_rows, 1))
    weights = np.full(n_rows, mean_weight)
    model = RandomFeatureRidge(sigma=0.5, random_state=0).fit(X, X[:, 0], weights)
    assert model.kernel_.n_components == expected
    if n_rows == 1100:
        model = clone(model).fit(X[:700], X[:700, 0], weights[:700])
        model.partial_fit(X[700:], X[700:, 0], weights[700:])
        assert model.kernel_.n_components == expected


@pytest.mark.parametrize(
    ("size", "kind", "expected"),
    [
        pytest.param(0.1, "numbers", 256, marks=pytest.mark.slow),  # a weak signal
        (0.1, "labels", 256),
        (30.0, "numbers", 1024),  # a strong one that varies in five columns
    ],
)
def test_few_features_where_more_do_not_help(size, kind, expected, rng):
    X = rng.standard_normal((1600, 5))
    signal = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3] + X[:, 4])
    y = size * signal + rng.standard_normal(1600)
    cls = RandomFeatureRidge
    if kind == "labels":
        cls, y = RandomFeatureRidgeClassifier, y > np.median(y)
    model = cls(random_state=0).fit(X[:600], y[:600])
    assert model.kernel_.n_components == expected
    fixed = cls(n_components=1024, random_state=0).fit(X[:600], y[:600])
    scores = [each.score(X[600:], y[600:]) for each in (model, fixed)]
    assert scores[0] > scores[1] - 0.01
    # the same rows in two batches
    model = clone(model).partial_fit(X[:300], y[:300], **_classes(model))
    model.partial_fit(X[300:600], y[300:600])
    assert model.kernel_.n_components == expected


def _classes(model):
    return {"classes": model.classes_} if hasattr(model, "classes_") else {}


def test_callables_are_used_by_nystroem(table):
    X, y = table
    calls = []

    def kernel(A, B):
        calls.append(len(A))
        return laplacian_kernel(A, B, gamma=0.5)

    model = RandomFeatureRidge(kernel, n_components=40, random_state=0).fit(X, y)
    features = Nystroem(kernel="laplacian", gamma=0.5, n_components=40, random_state=0)
    expected = RandomFeatureRidge(features).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6)
    assert len(calls) < 10  # with tables of rows, not with single pairs
    assert isinstance(model.kernel_, Nystroem)
    assert not hasattr(model, "sigma_")
    assert model.loo_errors_.shape == (1, 30)
    model = RandomFeatureRidge(kernel, random_state=0).fit(X, y)
    assert model.coef_.shape == (300,)  # no more columns than rows


@pytest.mark.parametrize(
    "values", [lambda A, B: np.full((len(A), len(B)), np.nan), lambda A, B: np.ones(3)]
)
def test_values_of_callables_are_checked(values, table):
    with pytest.raises(ValueError, match="kernel must return a finite value for each"):
        RandomFeatureRidge(values).fit(*table)


@pytest.mark.parametrize(
    "kernel", [2.0 * RBF(0.7), MaternOfRows(0.7, nu=2.5), ConstantKernel()], ids=repr
)
def test_kernels_of_gaussian_processes(kernel, table):
    X, y = table
    model = RandomFeatureRidge(kernel, n_components=50, random_state=0).fit(X, y)
    features = Nystroem(kernel=kernel, n_components=50, random_state=0)
    expected = RandomFeatureRidge(features).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-6)
    assert model.kernel_.kernel == kernel
    assert "kernel__" in " ".join(model.get_params())


def test_kernels_of_gaussian_processes_refuse_sparse_rows(table):
    X, y = table
    with pytest.raises(TypeError, match="requires a dense array, but X is sparse"):
        RandomFeatureRidge(RBF()).fit(sparse.csr_array(X), y)
    assert not get_tags(RandomFeatureRidge(RBF())).input_tags.sparse


def test_rows_that_are_features(table):
    X, y = table
    model = RandomFeatureRidge("linear").fit(X, y)
    assert model.kernel_ == "linear"
    assert not hasattr(model, "sigma_")
    assert model.loo_errors_.shape == (1, 30)


def test_a_fitted_model_does_not_follow_changed_parameters(table):
    X, y = table
    model = RandomFeatureRidge(sigma=0.5, random_state=0).fit(X, y)
    before = model.predict(X), model.loo_errors_
    model.set_params(kernel="linear", sigma="auto", alpha=1.0)
    assert_array_equal(model.predict(X), before[0])
    assert_array_equal(model.loo_errors_, before[1])
    assert model.sigma_ == 0.5


# --------------------------------------------------------------------------- sigma
@pytest.mark.parametrize("kernel", ["gaussian", OPRFSampler(), CentersRBFSampler()])
def test_a_given_sigma_is_used_as_it_is(kernel, table):
    X, y = table
    kind = TrigRBFSampler if kernel == "gaussian" else type(kernel)
    for sigma in (0.7, "scale", "median", [0.5, 1.0, 2.0]):
        model = RandomFeatureRidge(kernel, sigma=sigma, random_state=0).fit(X, y)
        expected = kind(sigma=sigma, random_state=0).fit(X).sigma_
        assert_allclose(model.sigma_, expected)
        assert len(model.loo_errors_) == 1


@pytest.mark.parametrize("kernel", [TrigRBFSampler(), OPRFSampler()], ids=repr)
@pytest.mark.parametrize("wave", [0.5, 6.0])
def test_sigma_of_a_sampler_has_the_lowest_score(wave, kernel, table, rng):
    X, _ = table
    y = np.sin(wave * X[:, 0]) + 0.1 * rng.standard_normal(300)
    kernel = clone(kernel).set_params(n_components=200, random_state=0)
    model = RandomFeatureRidge(kernel).fit(X, y)
    scale = clone(kernel).fit(X).sigma_
    scores, least = {}, []
    for multiple in (0.25, 0.5, 1.0, 2.0):
        alone = RandomFeatureRidge(kernel, sigma=scale * multiple).fit(X, y)
        scores[scale * multiple] = alone._value.solution.score
        least.append(alone.loo_errors_.min())
    assert_allclose(model.loo_errors_.min(axis=1), least, rtol=1e-6)
    assert_allclose(model.sigma_, min(scores, key=scores.get))
    assert f"sigma={model.sigma_}" in repr(model.kernel_)


@pytest.fixture
def uneven(rng):
    """Return rows and targets that depend strongly on one of six columns."""
    X = rng.standard_normal((800, 6))
    return X, np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.standard_normal(800)


def test_sigma_is_learned_for_each_column(uneven):
    X, y = uneven
    train, test = slice(400), slice(400, 800)
    model = RandomFeatureRidge(n_components=300, random_state=0).fit(X[train], y[train])
    common = RandomFeatureRidge(TrigRBFSampler(n_components=300, random_state=0))
    common.fit(X[train], y[train])
    errors = [1 - each.score(X[test], y[test]) for each in (model, common)]
    assert errors[0] < 0.2 * errors[1]
    assert model.sigma_[0] > 3 * model.sigma_[1:].max()
    # neither the units of the columns nor constant columns affect the other columns
    units = np.array([1e-3, 10.0, 1e5, 1.0, 0.1, 1e-6])
    scaled = np.insert(X * units, 3, 1.0, axis=1)
    other = clone(model).fit(scaled[train], y[train])
    assert_allclose(np.delete(other.sigma_, 3) * units, model.sigma_)
    assert 0 < other.sigma_[3] < np.inf


def test_sigma_of_each_column_is_learned_from_rare_labels(uneven):
    X, y = uneven
    labels = np.where(y > np.quantile(y, 0.9), "rare", "common")
    X, X_test, labels, labels_test = train_test_split(
        X, labels, test_size=0.5, stratify=labels, random_state=0
    )
    model = RandomFeatureRidgeClassifier(n_components=300, random_state=0)
    common = RandomFeatureRidgeClassifier(TrigRBFSampler(random_state=0))
    losses = [
        log_loss(labels_test, each.fit(X, labels).predict_proba(X_test))
        for each in (model, common.set_params(n_components=300))
    ]
    assert losses[0] < 0.7 * losses[1]
    assert model.sigma_[:2].min() > 3 * model.sigma_[2:].max()
    # with only 29 rows of a class for six columns, all columns have the same sigma
    keep = np.append(np.flatnonzero(labels == "rare")[:30], np.where(labels != "rare"))
    assert len(model.fit(X[keep], labels[keep]).loo_errors_) == 6
    assert len(model.fit(X[keep[1:]], labels[keep[1:]]).loo_errors_) == 4


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "n_more"),
    [(60, 6, 1), (299, 6, 1), (300, 6, 3), (799, 4, 3), (800, 4, 1)],
)
def test_candidates_depend_on_the_number_of_rows_per_column(
    n_rows, n_columns, n_more, uneven
):
    X, y = (rows[:n_rows] for rows in uneven)
    ridge = RandomFeatureRidge(n_components=50).fit(X[:, :n_columns], y)
    assert len(ridge.loo_errors_) == 4 + n_more


def test_candidates_lie_halfway_to_a_common_sigma(uneven):
    X, y = uneven
    X, y = X[:299] * [1, 1, 1, 1, 1e3, 1], y[:299]
    ridge = RandomFeatureRidge(n_components=50, random_state=0)
    # 299 rows have one candidate, halfway; 1495, of which each is five, the other end
    half, full = (
        ridge.fit(X, y, np.full(299, weight)).sigma_ * X.std(axis=0)
        for weight in (1.0, 5.0)
    )
    unit = np.log(full)
    assert_allclose(np.log(half), (unit + unit.mean()) / 2)
    assert np.ptp(unit) > 2


def test_where_all_columns_have_one_sigma(uneven):
    X, y = uneven
    ridge, sampler = RandomFeatureRidge(n_components=50), TrigRBFSampler(random_state=0)
    for model, n_rows, n_columns in (
        (RandomFeatureRidge(sampler), 800, 6),
        (ridge, 800, 1),
        (ridge, 59, 6),  # fewer than ten rows per column
    ):
        model.fit(X[:n_rows, :n_columns], y[:n_rows])
        assert isinstance(model.sigma_, float)
    assert isinstance(ridge.fit(X, np.ones(800)).sigma_, float)  # constant targets


def test_a_sigma_that_was_set_on_a_sampler_is_kept(table):
    X, y = table
    kernel = OPRFSampler(sigma=0.3, random_state=0)
    assert RandomFeatureRidge(kernel).fit(X, y).sigma_ == 0.3
    assert RandomFeatureRidge(kernel, sigma=0.3).fit(X, y).sigma_ == 0.3
    fitted = FrozenEstimator(OPRFSampler(random_state=0).fit(X))
    assert RandomFeatureRidge(fitted).fit(X, y).sigma_ == fitted.sigma_


@pytest.mark.parametrize("kind", [TrigRBFSampler, OPRFSampler, CentersRBFSampler])
def test_a_parameter_that_is_set_to_what_none_stands_for_is_kept(kind, table):
    X, y = table
    alone = kind(random_state=0).fit(X)
    kernel = kind(sigma="scale", n_components=100, random_state=0)
    model = RandomFeatureRidge(kernel).fit(X, y)
    assert model.sigma_ == alone.sigma_
    assert len(model.loo_errors_) == 1
    assert_array_equal(kernel.fit(X).transform(X), alone.transform(X))
    for name, value in {"sigma": 0.5, "n_components": 30}.items():
        with pytest.raises(ValueError, match=f"{name}={value} of RandomFeatureRidge"):
            RandomFeatureRidge(clone(kernel), **{name: value}).fit(X, y)
        free = kind(random_state=0)
        assert getattr(clone(free), name) is None
        RandomFeatureRidge(free, **{name: value}).fit(X, y)
        assert getattr(free, name) is None


# ------------------------------------------------------ n_components and the seed
def test_the_number_of_columns_of_a_sampler(table):
    X, y = table
    options = {"sigma": 0.5, "random_state": 0}
    assert RandomFeatureRidge(OPRFSampler(), **options).fit(X, y).coef_.size == 100
    options["n_components"] = 30
    for own in (None, 30):
        kernel = OPRFSampler(n_components=own)
        assert RandomFeatureRidge(kernel, **options).fit(X, y).coef_.size == 30
        assert kernel.n_components == own
    assert RandomFeatureRidge(**options).fit(X, y).coef_.size == 30


def test_the_seed(table):
    X, y = table
    options = {"sigma": 0.5, "n_components": 20}
    fits = [RandomFeatureRidge(**options).fit(X, y).predict(X) for _ in range(2)]
    assert not np.allclose(*fits)
    for kernel in ("gaussian", OPRFSampler(), Nystroem(n_components=20)):
        given = {} if isinstance(kernel, Nystroem) else options
        model = RandomFeatureRidge(kernel, random_state=5, **given).fit(X, y)
        again = clone(model).fit(X, y)
        assert_array_equal(model.predict(X), again.predict(X))
    kept = RandomFeatureRidge(OPRFSampler(random_state=1), random_state=5).fit(X, y)
    assert kept.kernel_.random_state == 1
    bagged = RandomFeatureRidge(OPRFSampler(), alpha=0.1)  # each with its own seeds
    BaggingRegressor(bagged, n_estimators=2, random_state=0).fit(X, y)


# --------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": [-1.0]}, r"alpha=\[-1.0\] must be 'auto', a number >= 0, or a"),
        ({"alpha": []}, r"alpha=\[\] must be 'auto'"),
        ({"alpha": -1.0}, "The 'alpha' parameter of RandomFeatureRidge must be"),
        ({"sigma": 0.0}, "The 'sigma' parameter of RandomFeatureRidge must be"),
        ({"sigma": [1.0, -1.0, 1.0]}, "sigma"),
        ({"kernel": "cubic"}, "The 'kernel' parameter of RandomFeatureRidge must be"),
        ({"kernel": Matern(nu=-1.0)}, "The 'nu' parameter of Matern must be"),
        ({"n_components": 0}, "The 'n_components' parameter of RandomFeatureRidge"),
        (
            {"kernel": "linear", "sigma": 2.0},
            "sigma=2.0 has no effect with kernel='linear', because the rows are",
        ),
        (
            {"kernel": "linear", "n_components": 9},
            "n_components=9 has no effect with kernel='linear'",
        ),
        (
            {"kernel": Nystroem(), "sigma": 2.0},
            r"sigma=2.0 of RandomFeatureRidge has no effect with kernel=Nystroem\(\)",
        ),
        (
            {"kernel": Nystroem(), "n_components": 9},
            r"n_components=9 has no effect with kernel=Nystroem\(\), because only",
        ),
        (
            {"kernel": RBF(), "sigma": "scale"},
            r"sigma='scale' has no effect with kernel=RBF\(length_scale=1\), which has",
        ),
        (
            {"kernel": OPRFSampler(sigma=1.0), "sigma": 2.0},
            "sigma=2.0 of RandomFeatureRidge and sigma=1.0 of OPRFSampler contradict",
        ),
        (
            {"kernel": OPRFSampler(n_components=50), "n_components": 9},
            "n_components=9 of RandomFeatureRidge and n_components=50 of OPRFSampler",
        ),
    ],
)
def test_parameters_out_of_range_or_without_effect(params, message, table):
    X, y = table
    with pytest.raises(ValueError, match=message):
        RandomFeatureRidge(**params).fit(X, y)


# --------------------------------------------------------------------- grid searches
@pytest.mark.usefixtures("few_features", "few_folds")
@pytest.mark.each_value
@pytest.mark.parametrize("in_pipeline", [False, True])
@pytest.mark.parametrize("kind", [RandomFeatureRidge, RandomFeatureRidgeClassifier])
@pytest.mark.parametrize(
    ("kernel", "grid"),
    [
        ("gaussian", {}),
        (Matern(), {"kernel__nu": [0.5, 2.5]}),
        (
            OPRFSampler(),
            {"kernel__coupling": ["iid", "antithetic"], "kernel__center": [True]},
        ),
    ],
    ids=repr,
)
def test_grids_over_all_parameters(kernel, grid, kind, in_pipeline, table):
    X, y = table[0][:60], table[1][:60]
    y = y > 1 if kind is RandomFeatureRidgeClassifier else y
    grids = [
        {"sigma": [0.3, "auto"], "n_components": [20, 30], **grid},
        {"alpha": [0.1, "auto"], "n_components": [20]},
    ]
    if isinstance(kernel, OPRFSampler):
        grids.append({"kernel__n_components": [20, 30]})
    model = kind(kernel, random_state=0)
    if in_pipeline:
        name = kind.__name__.lower()
        model = make_pipeline(StandardScaler(), model)
        grids = [{f"{name}__{key}": grid[key] for key in grid} for grid in grids]
    search = GridSearchCV(model, grids, cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert np.unique(search.cv_results_["mean_test_score"]).size > 2


# --------------------------------------------------------------------- class scores
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_two_classes_have_one_score_and_three_have_three(fit_intercept, table):
    X, y = table
    labels = (y > np.median(y)).astype(int)  # equal weights change nothing
    options = {
        "sigma": "scale",
        "n_components": 30,
        "alpha": 0.1,
        "fit_intercept": fit_intercept,
        "random_state": 0,
    }
    model = RandomFeatureRidgeClassifier(**options)
    two = clone(model).fit(X, labels)
    probabilities = two.predict_proba(X)
    assert two.decision_function(X).shape == (300,)
    difference = probabilities[:, 1] - probabilities[:, 0]
    assert_allclose(two.decision_function(X), difference, atol=1e-12)
    # a third class without rows has no influence on the coefficients of the others
    three = clone(model).partial_fit(X, labels, classes=[0, 1, 2])
    assert_allclose(three.coef_[1] - three.coef_[0], two.coef_[0], atol=1e-8)
    assert_array_equal(three.coef_[2], 0)
    scores = three.decision_function(X)
    assert_array_equal(scores, three.predict_proba(X))
    assert_allclose(scores.sum(axis=1), 1)
    assert np.all((scores[:, 2] > 0) & (scores[:, 2] < 1e-3))
    # with two classes, the calibration has other parameters, so results differ slightly
    decided = np.abs(difference) > 0.04
    assert_array_equal(three.predict(X)[decided], two.predict(X)[decided])
    assert decided.mean() > 0.9


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(AnovaSampler()),
        NadarayaWatsonClassifier(LearnedMetric()),
        RandomFeatureRidge(LearnedMetric()),
    ],
)
def test_transformers_that_learn_from_targets_are_refused(model, rng):
    X = rng.normal(size=(30, 2))
    with pytest.raises(TypeError, match="learns from the targets, so its"):
        model.fit(X, (X[:, 0] > 0).astype(int))
