"""The searches against GridSearchCV on the same grid, folds and seeds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
    train_test_split,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    ExactKernel,
    GeometricSampler,
    GERFSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
    OPRFSampler,
    PoissonSampler,
    PositiveRBFSampler,
    Prototypes,
    TrigRBFSampler,
)

SIGMAS = [0.1, 0.5, 2.0, 30.0]
SAMPLERS = [
    TrigRBFSampler(random_state=0),
    TrigRBFSampler(random_state=0, kernel="softmax", coupling="iid"),
    PositiveRBFSampler(random_state=0),
    PositiveRBFSampler(random_state=1, center=False),
    OPRFSampler(random_state=0),
    OPRFSampler(random_state=0, kernel="softmax", center=False),
    GERFSampler(random_state=0),
    PoissonSampler(random_state=0),
    GeometricSampler(random_state=0),
    GeometricSampler(random_state=0, positive=True),
]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["red", "rose", "white"])[y]


def compare(sampler, X, y, sizes, sigmas=SIGMAS, **options):
    weights = options.pop("sample_weight", None)
    search = NadarayaWatsonClassifierCV(
        sampler, sigmas=sigmas, n_components=sizes, **options
    ).fit(X, y, sample_weight=weights)
    sizes = [sizes] if np.ndim(sizes) == 0 else sizes
    grid = {"kernel__n_components": sizes, "kernel__sigma": sigmas}
    expected = GridSearchCV(NadarayaWatsonClassifier(sampler), grid, **options)
    expected.fit(X, y, sample_weight=weights)
    for key, values in expected.cv_results_.items():
        if "test" in key:
            got = search.cv_results_[key]
            assert_allclose(got, values, rtol=0, atol=1e-12, err_msg=key)
    names = [{k.removeprefix("kernel__"): v for k, v in expected.best_params_.items()}]
    assert search.best_params_ == names[0]
    assert search.best_index_ == expected.best_index_
    assert_allclose(search.best_score_, expected.best_score_)
    assert search.n_splits_ == expected.n_splits_
    params = [
        {k.removeprefix("kernel__"): v for k, v in candidate.items()}
        for candidate in expected.cv_results_["params"]
    ]
    assert search.cv_results_["params"] == params
    assert_array_equal(search.predict(X), expected.predict(X))
    rtol = 1e-9 if search.predict_proba(X).dtype == np.float64 else 1e-4
    assert_allclose(search.predict_proba(X), expected.predict_proba(X), rtol=rtol)
    return search


pytestmark = pytest.mark.filterwarnings(
    "ignore:For .* rows all the kernel:RuntimeWarning"
)


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [20, [12, 40], [7, 20, 33]])
@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_equals_grid_search(sampler, sizes, wine):
    compare(sampler, *wine, sizes, cv=3)


@pytest.mark.parametrize(
    "cv",
    [
        None,
        StratifiedKFold(4, shuffle=True, random_state=0),
        ShuffleSplit(3, random_state=0),
    ],
    ids=repr,
)
def test_folds(cv, wine):
    compare(OPRFSampler(random_state=0), *wine, [10, 30], cv=cv)


def test_ties_in_ten_folds():
    """Equal scores in another order of folds differ in the last bit of the mean."""
    X, y = load_iris(return_X_y=True)
    X, sigmas = StandardScaler().fit_transform(X), np.logspace(-2, 2, 10)
    compare(OPRFSampler(random_state=0), X, y, [16, 32], sigmas[::2], cv=10)


def test_learned_sigmas_and_sizes_out_of_order(wine):
    sigmas = [1.0, "scale", "median", 0.2]
    compare(TrigRBFSampler(random_state=0), *wine, [40, 10], sigmas, cv=3)


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "neg_log_loss"])
@pytest.mark.filterwarnings("ignore:The y_prob values do not sum to one")
def test_scoring(scoring, wine):
    compare(OPRFSampler(random_state=0), *wine, 30, [0.2, 0.5], cv=3, scoring=scoring)


def test_sparse_and_float32(rng):
    X = rng.random((150, 12)) * (rng.random((150, 12)) < 0.4)
    y = (X[:, 0] + X[:, 1] > 0.4).astype(int)
    for sampler in (OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)):
        compare(sampler, sparse.csr_array(X), y, [10, 31], cv=3)
        sigmas = SIGMAS[:3]  # beyond, phases in float32 are their rounding
        single = compare(sampler, X.astype(np.float32), y, [10, 31], sigmas, cv=3)
        assert single.predict_proba(X.astype(np.float32)).dtype == np.float32


@pytest.mark.skipif(
    not hasattr(GridSearchCV, "_check_scorers_accept_sample_weight"),
    reason="GridSearchCV did not weight its scores in this scikit-learn",
)
def test_sample_weight(wine, rng):
    weights = rng.integers(0, 3, size=len(wine[1])).astype(float)
    compare(OPRFSampler(random_state=0), *wine, [10, 30], cv=3, sample_weight=weights)


def test_folds_without_weight(wine):
    weights, cv = np.r_[np.zeros(50), np.ones(128)], [(range(50, 178), range(50))]
    search = NadarayaWatsonClassifierCV(OPRFSampler(), cv=cv)
    with pytest.raises(ValueError, match="In fold 0 all training rows or all test"):
        search.fit(*wine, sample_weight=weights)


def test_one_seed_for_all_candidates(wine):
    sampler, options = OPRFSampler(), {"n_components": [10, 20], "cv": 3}
    search = NadarayaWatsonClassifierCV(sampler, sigmas=SIGMAS, **options).fit(*wine)
    seed = search.best_estimator_.kernel.random_state
    compare(OPRFSampler(random_state=seed), *wine, [10, 20], cv=3)
    same = NadarayaWatsonClassifierCV(
        OPRFSampler(random_state=seed), sigmas=SIGMAS, **options
    ).fit(*wine)
    scores = search.cv_results_["mean_test_score"]
    assert_array_equal(same.cv_results_["mean_test_score"], scores)


def test_without_refit(wine):
    search = NadarayaWatsonClassifierCV(OPRFSampler(), cv=3, refit=False).fit(*wine)
    assert len(search.cv_results_["params"]) == 10
    assert not hasattr(search, "best_estimator_")
    for name in ("predict", "predict_proba", "decision_function"):
        assert not hasattr(search, name)
    with pytest.raises(AttributeError, match="has no attribute 'predict'") as info:
        search.predict(wine[0])
    assert "With refit=False there is no best" in str(info.value.__cause__)


@pytest.mark.parametrize(
    ("sampler", "options", "message"),
    [
        ("inexact", {}, "'kernel' parameter of NadarayaWatsonClassifier must be a str"),
        (OPRFSampler(), {"sigmas": [1.0, -1.0]}, "must hold positive finite numbers"),
        (OPRFSampler(), {"sigmas": []}, "must hold positive finite numbers"),
        (OPRFSampler(), {"sigmas": ["wide"]}, "'scale', 'median' or, for kernels"),
        (OPRFSampler(), {"n_components": 0}, "must be a whole number >= 1"),
        (OPRFSampler(), {"n_components": [10, 2.5]}, "or a list of such numbers"),
        (OPRFSampler(), {"cv": []}, "gives no fold; pass a number of folds"),
        (OPRFSampler(), {"scoring": "speed"}, "'scoring' parameter of"),
    ],
)
def test_parameters_out_of_range(sampler, options, message):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifierCV(sampler, **options).fit(X, y)


def test_fits_as_constructed(wine):
    X, y = wine
    search = NadarayaWatsonClassifierCV().fit(X, y)
    assert isinstance(search.best_estimator_.kernel, ExactKernel)
    regression = NadarayaWatsonRegressorCV().fit(X, X[:, 0])
    assert isinstance(regression.best_estimator_.kernel, ExactKernel)
    scale = OPRFSampler().fit(X).sigma_
    for fitted in (search, NadarayaWatsonClassifierCV(OPRFSampler()).fit(X, y)):
        sigmas = [params["sigma"] for params in fitted.cv_results_["params"]]
        assert_allclose(sigmas, scale * 2 ** np.arange(-1, 4, 0.5))
        for name, value in fitted.best_params_.items():
            assert type(value) in (int, float), name


@pytest.mark.parametrize(
    ("kernel", "options", "grid"),
    [
        (Prototypes(30, random_state=0), {"sigmas": [0.5, 2.0]}, ["sigma"]),
        (Nystroem(random_state=0), {"n_components": [10, 40]}, ["n_components"]),
        (RBFSampler(random_state=0), {"n_components": [10, 40]}, ["n_components"]),
        (ExactKernel("matern"), {"sigmas": [0.5, "auto"]}, ["sigma"]),
        (ExactKernel(tol=0.05), {"sigmas": [0.5, 2.0]}, ["sigma"]),
        ("laplacian", {"sigmas": [0.5, 2.0]}, ["sigma"]),
        ("linear", {}, []),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("search", "model"),
    [
        (NadarayaWatsonClassifierCV, NadarayaWatsonClassifier),
        (NadarayaWatsonRegressorCV, NadarayaWatsonRegressor),
    ],
)
@pytest.mark.filterwarnings("ignore:The rows look like no features:UserWarning")
def test_every_kernel_has_its_own_grid(search, model, kernel, options, grid, wine):
    """What a kernel does not have is left alone."""
    X, y = wine[0] - wine[0].min(), np.arange(178) % 2 + (wine[0][:, 0] > 0)
    both = {"sigmas": [1.0], "n_components": 7, **options}
    found = search(kernel, cv=3, **both).fit(X, y)
    value = ExactKernel(kernel) if kernel == "laplacian" else kernel
    values = {"sigma": both["sigmas"], "n_components": both["n_components"]}
    expected = GridSearchCV(
        model(value), {f"kernel__{name}": values[name] for name in grid}, cv=3
    ).fit(X, y)
    mean = "mean_test_score"
    assert_allclose(found.cv_results_[mean], expected.cv_results_[mean], atol=1e-9)
    assert set(found.best_params_) == set(grid)
    assert_allclose(found.predict(X), expected.predict(X), atol=1e-9)


def compare_exact(search, grid, X, y):
    search.fit(X, y)
    expected = grid.fit(X, y)
    names = {k.removeprefix("kernel__"): v for k, v in expected.best_params_.items()}
    assert search.best_params_ == names
    assert list(search.cv_results_) == [
        key.replace("kernel__", "") for key in expected.cv_results_ if "time" not in key
    ]
    for key, values in expected.cv_results_.items():
        if "test" in key:
            assert_allclose(search.cv_results_[key], values, rtol=0, atol=1e-9)
    assert_array_equal(search.predict(X), expected.predict(X))


@pytest.mark.parametrize("scoring", [None, "neg_log_loss"])
@pytest.mark.filterwarnings("ignore:The y_prob values do not sum to one")
def test_exact_equals_grid_search(scoring, wine):
    sigmas = [0.2, 1.0, 5.0, "scale", "median"]
    compare_exact(
        NadarayaWatsonClassifierCV(sigmas=sigmas, cv=3, scoring=scoring),
        GridSearchCV(
            NadarayaWatsonClassifier(ExactKernel()),
            {"kernel__sigma": sigmas},
            cv=3,
            scoring=scoring,
        ),
        *wine,
    )


def test_exact_regression_equals_grid_search(wine):
    sigmas = [0.2, 1.0, 5.0, "scale"]
    compare_exact(
        NadarayaWatsonRegressorCV(sigmas=sigmas),
        GridSearchCV(NadarayaWatsonRegressor(ExactKernel()), {"kernel__sigma": sigmas}),
        wine[0],
        wine[0][:, :2],
    )


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize(
    "sampler",
    [OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)],
    ids=repr,
)
def test_regression_equals_grid_search(sampler, scoring, wine):
    X, y = wine[0], wine[0][:, 0]
    search = NadarayaWatsonRegressorCV(
        sampler, sigmas=SIGMAS, n_components=[7, 20], cv=3, scoring=scoring
    ).fit(X, y)
    grid = {"kernel__n_components": [7, 20], "kernel__sigma": SIGMAS}
    expected = GridSearchCV(
        NadarayaWatsonRegressor(sampler), grid, cv=3, scoring=scoring
    ).fit(X, y)
    for key, values in expected.cv_results_.items():
        if "test" in key:
            got = search.cv_results_[key]
            assert_allclose(got, values, rtol=1e-6, atol=1e-9, err_msg=key)
    assert search.best_index_ == expected.best_index_
    assert_allclose(search.predict(X), expected.predict(X), rtol=1e-7)


def test_groups_stay_together(wine):
    X, y = wine
    groups = np.arange(len(y)) % 6
    search = NadarayaWatsonClassifierCV(cv=GroupKFold(3))
    by_groups = search.fit(X, y, groups=groups).cv_results_
    splits = list(GroupKFold(3).split(X, y, groups))
    by_splits = search.set_params(cv=splits).fit(X, y).cv_results_
    assert_array_equal(by_groups["mean_test_score"], by_splits["mean_test_score"])


def test_groups_are_routed(wine):
    X, y = wine
    groups = np.arange(len(y)) % 6
    search = NadarayaWatsonClassifierCV(cv=GroupKFold(3))
    with config_context(enable_metadata_routing=True):
        scores = cross_val_score(
            search, X, y, cv=GroupKFold(2), params={"groups": groups}
        )
    assert scores.shape == (2,)


def test_scorers_may_look_at_the_estimator(wine):
    seen = []

    def scorer(estimator, X, y):
        sampler = estimator.kernel_
        if isinstance(sampler, ExactKernel):
            seen.append((estimator.n_features_in_, None, sampler.sigma_))
            return estimator.score(X, y)
        seen.append((estimator.n_features_in_, sampler.n_components, sampler.sigma_))
        estimate = NadarayaWatsonClassifier(FrozenEstimator(sampler)).fit(
            *(part[train] for part in wine)
        )
        assert_array_equal(estimate.predict(X), estimator.predict(X))
        return estimator.score(X, y)

    splits = [(np.arange(0, 178, 2), np.arange(1, 178, 2))]
    train = splits[0][0]
    NadarayaWatsonClassifierCV(
        OPRFSampler(random_state=0),
        sigmas=[0.5, 1.0],
        n_components=[10, 20],
        cv=splits,
        scoring=scorer,
    ).fit(*wine)
    expected = [(13, size, sigma) for size in (10, 20) for sigma in (0.5, 1.0)]
    assert sorted(seen) == expected
    seen.clear()
    NadarayaWatsonClassifierCV(sigmas=[0.5, 1.0], cv=splits, scoring=scorer).fit(*wine)
    assert seen == [(13, None, 0.5), (13, None, 1.0)]


def test_defaults_are_near_neighbours():
    """Means over tables of scikit-learn, rows standardised."""
    scores = []
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        X, y = load(return_X_y=True)
        parts = train_test_split(X, y, random_state=0)
        X_train, X_test, y_train, y_test = parts
        search = NadarayaWatsonClassifierCV(cv=3)
        models = [
            make_pipeline(StandardScaler(), model).fit(X_train, y_train)
            for model in (KNeighborsClassifier(), search)
        ]
        scores.append([model.score(X_test, y_test) for model in models])
    neighbours, search = np.mean(scores, axis=0)
    assert search > neighbours - 0.01


def test_raw_columns_need_no_grid_of_their_own(wine):
    X, y = wine
    far = 1e3 * X + 1e5
    one, two = (NadarayaWatsonClassifierCV().fit(Z, y) for Z in (X, far))
    assert_allclose(two.best_score_, one.best_score_, atol=0.02)


def test_folds_are_steps_of_a_progress_bar(wine):
    pytest.importorskip("sklearn.callback", reason="callbacks came with 1.9")
    ended = []

    class Recorder:
        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            ended.append(context.task_name)

    search = NadarayaWatsonClassifierCV(cv=4).set_callbacks(Recorder())
    search.fit(*wine)
    assert ended == ["fold"] * 4 + ["fit"]


@pytest.mark.parametrize(
    "search",
    [
        NadarayaWatsonClassifierCV(OPRFSampler(random_state=0), sigmas=[0.5, 1.0]),
        NadarayaWatsonRegressorCV(TrigRBFSampler(random_state=0), sigmas=[0.5, 1.0]),
        NadarayaWatsonRegressorCV(sigmas=[0.5, 1.0]),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_a_search_survives_skops(search, rng):
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    X = rng.normal(size=(60, 3))
    fitted = search.fit(X, (X[:, 0] > 0).astype(int))
    dumped = io.dumps(fitted)
    trusted = io.get_untrusted_types(data=dumped)
    assert len(trusted) <= 4  # types that a reader must trust
    restored = io.loads(dumped, trusted=trusted)
    assert_array_equal(restored.predict(X), fitted.predict(X))
    assert restored.best_params_ == fitted.best_params_
