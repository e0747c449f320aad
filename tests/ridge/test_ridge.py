"""Ridge regression on features, against scikit-learn on the same features."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, Ridge, RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_crt import (
    CentersRBFSampler,
    OPRFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.ridge import _solution

READS_NOTHING = TrigRBFSampler(sigma=0.5, n_components=50, random_state=0)


@pytest.fixture
def table(rng):
    """Return rows, targets and weights."""
    X = rng.standard_normal((400, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 100 + 0.1 * rng.standard_normal(400)
    return X, y, rng.integers(1, 4, 400).astype(float)


@pytest.fixture
def frozen(table):
    sampler = TrigRBFSampler(n_components=60, random_state=0).fit(table[0])
    return FrozenEstimator(sampler)


# ------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-4, 1.0])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_equals_ridge_of_scikit_learn(alpha, fit_intercept, n_outputs, table, frozen):
    X, y, weights = table
    y = y if n_outputs == 1 else np.c_[y, -3 * X[:, 2]]
    options = {"fit_intercept": fit_intercept}
    found = RandomFeatureRidge(frozen, alphas=alpha, **options).fit(X, y, weights)
    expected = Ridge(alpha, solver="svd", **options)
    Z = frozen.transform(X)
    expected.fit(Z, y, weights)
    tolerance = {"rtol": 1e-8, "atol": 1e-8}
    assert_allclose(found.predict(X), expected.predict(Z), **tolerance)
    assert_allclose(found.coef_, expected.coef_, **tolerance)
    assert_allclose(found.intercept_, expected.intercept_, **tolerance)
    assert_array_equal(found.alpha_, alpha)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_ridge_classifier_of_scikit_learn(n_classes, table, frozen):
    X, y, weights = table
    labels = np.array(["a", "b", "c"])[np.digitize(y, [100.2, 101][: n_classes - 1])]
    found = RandomFeatureRidgeClassifier(frozen, alphas=0.1).fit(X, labels, weights)
    expected = RidgeClassifier(0.1).fit(frozen.transform(X), labels, weights)
    scores = expected.decision_function(frozen.transform(X))
    assert_allclose(found.decision_function(X), scores, atol=1e-8)
    assert_array_equal(found.predict(X), expected.predict(frozen.transform(X)))
    assert_allclose(found.coef_, np.atleast_2d(expected.coef_), atol=1e-8)


def test_standard_deviations_are_those_of_a_gaussian_process(table, frozen):
    X, y, _ = table
    options = {"alphas": 0.3, "fit_intercept": False}
    model = RandomFeatureRidge(frozen, **options).fit(X, y)
    mean, std = model.predict(X[:50] + 1, return_std=True)
    noise = model.noise_variance_
    kernel = ConstantKernel(noise / 0.3) * DotProduct(sigma_0=1e-100)
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    Z = frozen.transform(X[:50] + 1)
    process.fit(frozen.transform(X), y)
    expected, latent = process.predict(Z, return_std=True)
    assert_allclose(mean, expected, rtol=1e-6)
    assert_allclose(std, np.sqrt(latent**2 + noise), rtol=1e-6)


def test_standard_deviations_are_those_of_bayesian_ridge(table, frozen):
    X, y, _ = table
    Z = frozen.transform(X)
    bayes = BayesianRidge(fit_intercept=False).fit(Z, y)
    alpha = bayes.lambda_ / bayes.alpha_
    model = RandomFeatureRidge(frozen, alphas=alpha, fit_intercept=False).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected, theirs = bayes.predict(Z, return_std=True)
    assert_allclose(mean, expected, rtol=1e-6)
    unit = std / np.sqrt(model.noise_variance_)
    assert_allclose(unit, theirs * np.sqrt(bayes.alpha_), rtol=1e-6)


def test_scores_are_those_of_the_formula(table, frozen):
    X, y, _ = table
    alphas = [1e-3, 0.1, 10.0]
    model = RandomFeatureRidge(frozen, alphas=alphas).fit(X, y)
    Z = frozen.transform(X)
    Zc = Z - Z.mean(axis=0)
    for alpha, score in zip(alphas, model.gcv_scores_[0], strict=True):
        hat = Zc @ np.linalg.solve(Zc.T @ Zc + alpha * np.eye(60), Zc.T)
        rss = np.sum((y - y.mean() - hat @ (y - y.mean())) ** 2)
        expected = 400 * rss / (399 - 1.2 * np.trace(hat)) ** 2
        assert_allclose(score, expected, rtol=1e-8)
    assert model.alpha_ == alphas[np.argmin(model.gcv_scores_)]
    path = model.score_path()
    assert_array_equal(path["alpha"], alphas)
    assert_array_equal(path["gcv"], model.gcv_scores_[0])
    assert_allclose(path["sigma"], model.sigma_)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 3.0}, {"b": 0.0}])
def test_class_weights_are_those_of_scikit_learn(class_weight, table, frozen, value_of):
    X, y, _ = table
    labels = np.array(["a", "b", "c"])[np.digitize(y, [100.5, 101.5])]
    options = {"class_weight": class_weight}
    found = RandomFeatureRidgeClassifier(frozen, alphas=0.1, **options).fit(X, labels)
    expected = RidgeClassifier(0.1, **options).fit(frozen.transform(X), labels)
    theirs = expected.decision_function(frozen.transform(X))
    assert_allclose(found.decision_function(X), theirs, rtol=1e-6, atol=1e-9)
    if class_weight == "balanced":
        assert_allclose(value_of(found).solution.moments.weight, len(X))


def test_class_weights_times_weights_of_rows(table, frozen):
    X, y, weights = table
    labels = y > 101.5
    model = RandomFeatureRidgeClassifier(frozen, alphas=0.1, class_weight="balanced")
    model.fit(X, labels, weights)
    shares = [weights[labels == label].sum() for label in (False, True)]
    own = weights * (sum(shares) / 2 / np.array(shares))[labels.astype(int)]
    plain = RandomFeatureRidgeClassifier(frozen, alphas=0.1).fit(X, labels, own)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-8)


def test_batches_take_class_weights_that_are_numbers(table, frozen, value_of):
    X, y, _ = table
    labels, options = y > 101.5, {"alphas": 0.1, "class_weight": {True: 5.0}}
    model = RandomFeatureRidgeClassifier(frozen, **options)
    for rows in (slice(0, 150), slice(150, None)):
        model.partial_fit(X[rows], labels[rows], classes=[False, True])
    whole = RandomFeatureRidgeClassifier(frozen, **options).fit(X, labels)
    assert_allclose(model.coef_, whole.coef_, rtol=1e-8)
    assert_allclose(value_of(whole).solution.n_rows, len(X))  # copies of none
    other = clone(model).set_params(class_weight={True: 2.0}).fit(X, labels)
    with pytest.raises(ValueError, match="but class_weight is"):
        model.merge(other)
    model = RandomFeatureRidgeClassifier(frozen, class_weight="balanced")
    with pytest.raises(ValueError, match="'balanced' needs all rows at once"):
        model.partial_fit(X, labels, classes=[False, True])
    with pytest.raises(ValueError, match="Negative values in data"):
        model.set_params(class_weight={True: -1.0}).fit(X, labels)


def test_penalties_of_classes_leave_half_of_the_rows_free(table):
    X, y, _ = table
    model = RandomFeatureRidgeClassifier().fit(X[:60], np.digitize(y, [-1, 0, 1])[:60])
    path = model.score_path()
    used = np.asarray(path["effective_columns"])
    assert used.max() > 31  # of 60 rows
    assert_array_equal(np.isfinite(path["gcv"]), 59 - used > 30)
    assert np.isin(model.alpha_, path["alpha"][np.isfinite(path["gcv"])])


def test_centres_have_the_penalty_of_kernel_ridge(table):
    X, y, _ = table
    sampler = CentersRBFSampler(n_components=40, random_state=0)
    model = RandomFeatureRidge(sampler, alphas=0.5, fit_intercept=False).fit(X, y)
    sampler.fit(X)
    F, K = sampler.transform(X), sampler.penalty_
    coef = np.linalg.solve(F.T @ F + 0.5 * K, F.T @ y)
    assert_allclose(model.predict(X), F @ coef, rtol=1e-7)
    _, std = model.predict(X, return_std=True)
    middle = np.linalg.inv(F.T @ F + 0.5 * K)
    factor = 1 + np.einsum("ni,ij,nj->n", F, middle, F)
    assert_allclose(std**2, model.noise_variance_ * factor, rtol=1e-6)


# ----------------------------------------------------------- batches and weights
@pytest.mark.parametrize("sampler", [READS_NOTHING, "linear", None], ids=repr)
def test_batches_in_any_order(sampler, table):
    X, y, _ = table
    whole = RandomFeatureRidge(sampler).fit(X, y)
    parts = np.array_split(np.random.default_rng(1).permutation(400), 5)
    model = RandomFeatureRidge(sampler)
    for rows in parts:
        model.partial_fit(X[rows], y[rows])
        model.predict(X[:3])  # between batches: nothing of it stays
    assert_allclose(model.predict(X), whole.predict(X), rtol=1e-7)
    assert_allclose(model.freeze().predict(X), whole.predict(X), rtol=1e-7)
    assert model.sampler_ == "linear" or model.sigma_ == pytest.approx(whole.sigma_)
    more = clone(whole).fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    if sampler is not None:
        assert_allclose(more.predict(X), whole.predict(X), rtol=1e-7)


def test_merge_equals_fit(table, frozen):
    X, y, _ = table
    # the least penalties of "auto" magnify the rounding of sums a billion times
    options = {"sigmas": [0.2, 0.5, 1.0], "alphas": np.geomspace(1e-2, 1e2, 9)}
    whole = RandomFeatureRidge(frozen, **options).fit(X, y)
    left, right = (
        RandomFeatureRidge(frozen, **options).partial_fit(X[rows], y[rows])
        for rows in (slice(150), slice(150, None))
    )
    before = right.predict(X)
    left.merge(right)
    assert left.sigma_ == whole.sigma_
    assert_allclose(left.gcv_scores_, whole.gcv_scores_, rtol=1e-8)
    assert_allclose(left.predict(X), whole.predict(X), rtol=1e-8)
    assert_array_equal(right.predict(X), before)
    labels = (y > 100.5).astype(int)
    parts = [
        RandomFeatureRidgeClassifier(READS_NOTHING).fit(X[rows], labels[rows])
        for rows in (slice(150), slice(150, None))
    ]
    expected = RandomFeatureRidgeClassifier(READS_NOTHING).fit(X, labels)
    found = parts[0].merge(parts[1]).decision_function(X)
    assert_allclose(found, expected.decision_function(X), atol=1e-8)


def test_merge_raises_where_models_differ(table, frozen):
    X, y, _ = table
    model = RandomFeatureRidge(frozen).fit(X, y)
    others = {
        r"sampler=FrozenEstimator\(sampler\)": RandomFeatureRidge().fit(X, y),
        "but alphas is 'auto' in one": RandomFeatureRidge(frozen, alphas=1.0).fit(X, y),
        "same number of outputs": RandomFeatureRidge(frozen).fit(X, np.c_[y, y]),
        "same sigmas on both sides": RandomFeatureRidge(
            frozen, sigmas=[1.0, 2.0]
        ).partial_fit(X, y),
        "the same columns": RandomFeatureRidge("linear").fit(X[:, :2], y),
        "another RandomFeatureRidge": RandomFeatureRidgeClassifier().fit(X, y > 100),
    }
    for message, other in others.items():
        with pytest.raises(ValueError, match=message):
            clone(model).fit(X, y).merge(other)


@pytest.mark.parametrize("sampler", [None, READS_NOTHING], ids=repr)
def test_weights_are_copies(sampler, table):
    X, y, weights = table
    copies = np.repeat(np.arange(400), weights.astype(int))
    found = RandomFeatureRidge(sampler).fit(X, y, weights)
    expected = RandomFeatureRidge(sampler).fit(X[copies], y[copies])
    both = zip(*(m.predict(X, return_std=True) for m in (found, expected)))
    for one, other in both:
        assert_allclose(one, other, rtol=1e-7)
    assert found.sampler_.n_components == expected.sampler_.n_components
    zero = np.where(np.arange(400) < 300, weights, 0)
    found.fit(X, y, zero)
    expected.fit(X[:300], y[:300], weights[:300])
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-7)


def test_moments_do_not_cancel(rng):
    """Far from zero, in chunks: the products are those about the mean."""
    Z, Y = rng.standard_normal((2000, 3)) + 1e7, rng.standard_normal((2000, 1)) - 1e8
    total = None
    for rows in (slice(500), slice(500, 501), slice(501, None)):
        sums = _solution.MomentSums()
        for chunk in np.array_split(np.arange(2000)[rows], 3):
            if chunk.size:
                sums.add(Z[chunk], Y[chunk], np.ones(chunk.size))
        total = sums.moments() if total is None else total + sums.moments()
    whole = np.c_[Z, Y]
    expected = np.cov(whole, rowvar=False) * 1999
    assert_allclose(total.gram, expected[:3, :3], rtol=1e-9, atol=1e-6)
    assert_allclose(total.cross, expected[:3, 3:], rtol=1e-9, atol=1e-6)
    assert_allclose(total.squares, expected[3, 3], rtol=1e-9)


# --------------------------------------------------------------------- the choice
def test_sigma_is_chosen_among_some_of_many_rows(rng, monkeypatch):
    """128 rows per column do; all rows are read again at the chosen sigma."""
    sampler = TrigRBFSampler(sigma=0.5, n_components=2, random_state=0)
    X = rng.normal(size=(1024, 3))
    y = sampler.fit_transform(X) @ [1.0, 2.0] + 0.1 * rng.normal(size=1024)
    expected = RandomFeatureRidge(sampler, sigmas=[0.5]).fit(X, y)
    summed, add = [], _solution.MomentSums.add

    def counted(self, *arguments):
        summed.append(len(arguments[0]))
        add(self, *arguments)

    monkeypatch.setattr(_solution.MomentSums, "add", counted)
    model = RandomFeatureRidge(sampler, sigmas=[0.01, 0.5, 8.0])
    whole = clone(model).fit(X, y)
    assert sum(summed) == 1024 + 3 * 256  # not 3 * 1024
    assert whole.sigma_ == 0.5
    assert_allclose(whole.predict(X), expected.predict(X), rtol=1e-8)
    batches = clone(model).partial_fit(X[:500], y[:500]).partial_fit(X[500:], y[500:])
    assert_allclose(batches.freeze().predict(X), expected.predict(X), rtol=1e-8)


def test_penalties_do_not_depend_on_scale(table):
    X, y, _ = table
    model = RandomFeatureRidge("linear").fit(X, y)
    scaled = RandomFeatureRidge("linear").fit(1e6 * X, 1e-9 * y)
    assert_allclose(scaled.predict(1e6 * X), 1e-9 * model.predict(X), rtol=1e-8)
    assert_allclose(scaled.alpha_, 1e12 * model.alpha_, rtol=1e-6)


def test_intervals_cover(rng):
    X = rng.uniform(-2, 2, (2000, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(2000)
    mean, std = RandomFeatureRidge().fit(X[:500], y[:500]).predict(X[500:], True)
    inside = np.mean(np.abs(y[500:] - mean) < 1.645 * std)
    assert 0.86 < inside < 0.94  # 0.9 +- 3 * 0.0077 and the error of s


# ------------------------------------------------------------------------- edges
def faults():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    yield "one row", X[:1], np.ones(1)
    yield "two rows", X[:2], np.arange(2.0)
    yield "constant columns", np.full((30, 4), 7.3), X[:, 0]
    yield "constant targets", X, np.full(30, 1e9 + 0.1)
    yield "equal columns", X[:, [0, 0, 0, 0]], X[:, 0]
    yield "rows repeated", np.repeat(X[:2], 15, axis=0), X[:, 0]
    yield "fewer rows than columns", rng.standard_normal((5, 40)), X[:5, 0]
    yield "huge", 1e100 * X, 1e100 * X[:, 0]
    yield "tiny", 1e-100 * X, 1e-100 * X[:, 0]


@pytest.mark.parametrize("alphas", ["auto", 0.0, 1.0])
@pytest.mark.parametrize("sampler", ["linear", None], ids=repr)
@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault[0])
def test_no_nan(fault, sampler, alphas):
    _, X, y = fault
    with np.errstate(all="raise", under="ignore"):
        model = RandomFeatureRidge(sampler, alphas=alphas).fit(X, y)
        mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert not np.isnan(std).any()
    spread = np.ptp(y) + 1e-6 * np.abs(y).max()
    assert np.all(np.abs(mean - y.mean()) <= 3 * spread)
    assert not np.isnan(model.gcv_scores_).any()


def test_columns_that_differ_by_rounding_are_constant():
    """What is the same number up to its last digit tells nothing of the targets."""
    X = np.full((30, 4), 0.1)
    X[::2] = np.nextafter(0.1, 1)
    y = np.arange(30.0) % 2
    model = RandomFeatureRidge("linear").fit(X, y)
    assert_allclose(model.predict(X), 0.5)


def test_types(table):
    X, y, _ = table
    X32 = X.astype(np.float32)
    model = RandomFeatureRidge(READS_NOTHING).fit(X32, y)
    assert model.predict(X32).dtype == np.float64
    wide = RandomFeatureRidge(READS_NOTHING).fit(X, y)
    assert abs(model.score(X32, y) - wide.score(X, y)) < 0.02
    fixed = [RandomFeatureRidge(READS_NOTHING, alphas=0.01).fit(A, y) for A in (X32, X)]
    assert_allclose(*(m.predict(X) for m in fixed), rtol=1e-4)
    labels = y > 100.5
    classifier = RandomFeatureRidgeClassifier(READS_NOTHING).fit(X32, labels)
    assert classifier.decision_function(X32).dtype == np.float32
    assert classifier.predict(X32).dtype == bool
    thin = sparse.csr_array(np.where(X > 0.5, X, 0))
    for sampler in ("linear", READS_NOTHING):
        one = RandomFeatureRidge(sampler).fit(thin, y).predict(thin)
        other = RandomFeatureRidge(sampler).fit(thin.toarray(), y)
        assert_allclose(one, other.predict(thin.toarray()), rtol=1e-8)


def test_rows_are_not_kept_and_not_changed(table):
    X, y, _ = table
    whole, before = RandomFeatureRidge("linear").fit(X, y), X.copy()
    assert_array_equal(X, before)
    identity = FunctionTransformer()
    RandomFeatureRidge(FrozenEstimator(identity.fit(X))).fit(X, y)
    assert_array_equal(X, before)
    big = np.tile(X, (100, 1))
    model = RandomFeatureRidge(READS_NOTHING).partial_fit(big, np.tile(y, 100))
    assert len(pickle.dumps(model)) > big.nbytes
    assert len(pickle.dumps(model.freeze())) < 10**5
    again = pickle.loads(pickle.dumps(whole))
    assert_array_equal(again.predict(X), whole.predict(X))
    batch = X[:200].copy()
    model = RandomFeatureRidge(READS_NOTHING).partial_fit(batch, y[:200])
    batch[:] = 0
    expected = RandomFeatureRidge(READS_NOTHING).fit(X[:200], y[:200])
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-8)


@pytest.mark.parametrize(
    "sampler",
    [Nystroem(n_components=30, random_state=0), OPRFSampler(random_state=0)],
    ids=repr,
)
def test_other_features(sampler, table):
    X, y, _ = table
    pipeline = make_pipeline(StandardScaler(), RandomFeatureRidge(sampler)).fit(X, y)
    assert pipeline.score(X, y) > 0.8


@pytest.mark.parametrize("n_features", [1, 2])
def test_few_columns_may_have_many_waves(n_features, rng):
    X = rng.uniform(-1, 1, size=(1500, n_features))
    y = np.sin(20 * X).sum(axis=1) + 0.3 * rng.standard_normal(1500)
    model = RandomFeatureRidge().fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.8  # of .85 and .92 without noise


def test_the_path_may_be_the_first_that_is_asked_for(table):
    X, y, _ = table
    options = {"sigmas": [0.3, 0.6]}
    sampler = TrigRBFSampler(n_components=50, random_state=0)
    model = RandomFeatureRidge(sampler, **options).partial_fit(X, y)
    found = model.score_path()["gcv"]
    assert_allclose(found, clone(model).fit(X, y).score_path()["gcv"], rtol=1e-8)


def test_automatic_penalties_keep_the_prior_near_the_spread_of_targets(rng):
    X = rng.standard_normal((400, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(400)
    sampler = FrozenEstimator(TrigRBFSampler(sigma=0.1, random_state=0).fit(X))
    Z = sampler.transform(X)
    size = np.mean(np.sum((Z - Z.mean(axis=0)) ** 2, axis=1))
    path = RandomFeatureRidge(sampler).fit(X, y).score_path()
    priors = [
        np.sqrt(size * model.noise_variance_ / alpha)
        for alpha in path["alpha"]
        for model in [RandomFeatureRidge(sampler, alphas=alpha).fit(X, y)]
    ]
    allowed = np.array(priors) <= 30 * y.std()
    assert 5 < allowed.sum() < 25
    assert_array_equal(np.isfinite(path["gcv"]), allowed)


def test_columns_of_the_default_grow_with_rows(table):
    X, y, _ = table
    many = np.concatenate([X, X + 0.1])[:600]
    numbers = np.concatenate([y, y])[:600]
    assert RandomFeatureRidge().fit(many, numbers).sampler_.n_components == 600
    model = RandomFeatureRidge().fit(X[:50], y[:50])
    assert model.sampler_.n_components == 512
    assert type(model.sampler_) is TrigRBFSampler
    rebuilt = clone(model.sampler_).fit(X[:50])
    assert_array_equal(rebuilt.transform(X), model.sampler_.transform(X))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"alphas": [-1.0]}, r"alphas=\[-1.0\] must be 'auto', a number >= 0, or a"),
        ({"alphas": []}, r"alphas=\[\] must be 'auto'"),
        ({"alphas": -1.0}, "The 'alphas' parameter of RandomFeatureRidge must be"),
        ({"sigmas": [0.0]}, r"sigmas=\[0.0\] must contain positive finite numbers"),
        ({"sampler": "linear", "sigmas": [1.0]}, "sampler='linear' is not one. Choose"),
        ({"sampler": Nystroem(), "sigmas": [1.0]}, r"sampler=Nystroem\(\) is not one"),
        ({"sampler": "cubic"}, "The 'sampler' parameter of RandomFeatureRidge must be"),
    ],
)
def test_parameters_out_of_range(params, message, table):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        RandomFeatureRidge(**params).fit(X, y)


def test_rows_out_of_range(table):
    X, y, weights = table
    model = RandomFeatureRidge(READS_NOTHING).fit(X, y)
    with pytest.raises(ValueError, match="y has 2 outputs, but the first batch had 1"):
        model.partial_fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="X has 2 features, but RandomFeatureRidge is"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, y, 0 * weights)
    with pytest.raises(ValueError, match="are too large for their type"):
        RandomFeatureRidge("linear").fit(1e200 * X, y)
    model = RandomFeatureRidgeClassifier().partial_fit(X, y > 100, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y has the labels \[2\], which are not"):
        model.partial_fit(X, np.full(400, 2))
    with pytest.warns(UserWarning, match="Sample weights count rows, and here"):
        RandomFeatureRidge("linear").fit(X, y, np.full(400, 1e-4))


def test_a_failed_fit_leaves_the_model(table):
    X, y, _ = table
    model = RandomFeatureRidge("linear").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="too large"):
        model.fit(1e200 * X, y)
    assert_array_equal(model.predict(X), before)


def test_the_solution_is_computed_once_a_change(table, monkeypatch):
    X, y, _ = table
    made, eigh = [], _solution.eigh

    def counted(*arguments, **options):
        made.append(1)
        return eigh(*arguments, **options)

    monkeypatch.setattr(_solution, "eigh", counted)
    model = RandomFeatureRidge(READS_NOTHING).fit(X, y)
    model.predict(X), model.alpha_, model.coef_, model.score_path()
    assert len(made) == 1
    model.partial_fit(X, y).predict(X)
    assert len(made) == 2


def test_the_default_is_safe_with_few_rows():
    """Where columns are as many as rows, the plain score takes a penalty near zero."""
    for load in (load_iris, load_wine):
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        parts = train_test_split(X, y, random_state=0, stratify=y)
        model = RandomFeatureRidgeClassifier().fit(parts[0], parts[2])
        assert model.score(parts[1], parts[3]) > 0.9
