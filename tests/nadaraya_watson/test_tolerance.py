"""The exact estimators with ``tol``: within it, on random and on adversarial rows."""

import copy
import pickle
import warnings
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils import shuffle
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
    OPRFSampler,
)
from sklearn_crt.maps import (
    ExponentialPowerRadial,
    GaussianRadial,
    LaplacianRadial,
    MaternRadial,
)
from sklearn_crt.nadaraya_watson import _calibration, _clustered, _tolerance
from sklearn_crt.nadaraya_watson._cluster_mass import (
    least_distances,
    log_bound,
    log_cloud,
)
from sklearn_crt.nadaraya_watson._clusters import Clusters
from sklearn_crt.nadaraya_watson._half_spaces import HalfSpaces
from sklearn_crt.nadaraya_watson._log_sums import log_radial
from sklearn_crt.rows import Scratch, UnitRows

TOL = 0.02
BOUNDS = ["certified", "estimated"]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Make clusters of tables that are quick to test, and visit them always."""
    monkeypatch.setattr(_clustered, "_LEAST_ROWS", 100)
    monkeypatch.setattr(_tolerance, "_MOST", np.inf)


def total_variation(P, Q):
    return 0.5 * np.abs(P.astype(np.float64) - Q).sum(axis=1)


def blobs(rng, n_rows=2000, n_features=6, n_blobs=30, dtype=np.float64):
    """Return rows in blobs, and labels that change inside of them."""
    centres = 3 * np.random.default_rng(0).standard_normal((n_blobs, n_features))
    X = centres[rng.integers(n_blobs, size=n_rows)]
    X = X + 0.7 * rng.standard_normal((n_rows, n_features))
    y = (np.sin(2 * X[:, 0]) > 0) + 2 * (X[:, 1] + 0.5 * rng.normal(size=n_rows) > 0)
    return X.astype(dtype), y


def adversarial(name, rng):
    """Return rows, labels and queries."""
    X, y = blobs(rng)
    Q = np.vstack([X[:100] + 0.1, 5 * rng.standard_normal((100, X.shape[1]))])
    if name == "repeated rows":
        X[:1500] = X[rng.integers(0, 5, size=1500)]
    elif name == "one huge cluster":
        X[:1900] = X[0] + 1e-6 * rng.standard_normal(X[:1900].shape)
    elif name == "all rows alike":
        X[:] = X[0]
    elif name == "far queries":
        Q = 1e4 * Q
    elif name == "one column":
        X, Q = X[:, :1], Q[:, :1]
    elif name == "far from zero":
        X, Q = X + 1e3, Q + 1e3
    elif name == "a row in a far corner":
        X[0], y[0] = 1e3, 3
        Q[:50] = 1e3 + rng.standard_normal(Q[:50].shape)
    elif name == "scales":
        X, Q = (Z * 10.0 ** np.arange(-3, 3) for Z in (X, Q))
    return X, y, Q


CASES = [
    "blobs",
    "repeated rows",
    "one huge cluster",
    "all rows alike",
    "far queries",
    "one column",
    "far from zero",
    "a row in a far corner",
    "scales",
]


@pytest.mark.parametrize("sigma", [0.05, 1.0, 4.0, 40.0])
@pytest.mark.parametrize("case", CASES)
def test_certified_for_every_query(case, sigma, rng):
    X, y, Q = adversarial(case, rng)
    exact = NadarayaWatsonClassifier("exact", sigma=sigma).fit(X, y)
    model = NadarayaWatsonClassifier("exact", sigma=sigma, tol=TOL, bound="certified")
    found = model.fit(X, y).predict_proba(Q)
    assert model._engine._held[0] is not None
    gap = total_variation(found, exact.predict_proba(Q)).max()
    print(case, sigma, gap)
    assert gap <= TOL + 1e-9


KERNELS = [
    {"kernel": "gaussian"},
    {"kernel": "laplacian"},
    {"kernel": LaplacianRadial("l1")},
    {"kernel": "matern", "nu": 0.8},
    {"kernel": "matern", "nu": 2.5},
    {"kernel": ExponentialPowerRadial(0.7)},
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", KERNELS, ids=str)
@pytest.mark.parametrize("bound", BOUNDS)
def test_kernels_weights_and_types(bound, options, dtype, rng):
    X, y = blobs(rng, dtype=dtype)
    weights = rng.exponential(size=2000)
    weights[::7] = 0
    Q, _ = blobs(rng, 300, dtype=dtype)
    exact = NadarayaWatsonClassifier("exact", sigma=3.0, **options).fit(X, y, weights)
    model = clone(exact).set_params(tol=TOL, bound=bound).fit(X, y, weights)
    found = model.predict_proba(Q)
    assert found.dtype == dtype
    gap = total_variation(found, exact.predict_proba(Q))
    print(gap.mean(), gap.max())
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL + 1e-5
    assert found.sum(axis=1) == pytest.approx(1, abs=1e-5)


def share_visited(model, Q):
    """Return the share of the rows that the queries visit."""
    seen = []

    def visit(sums, kernel, sigma, queries, clusters, which, *rest):
        seen.append(which @ clusters.sizes)
        original(sums, kernel, sigma, queries, clusters, which, *rest)

    original = _tolerance.visit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tolerance, "visit", visit)
        model.predict(Q)
    n_rows = model._engine._held[0].clusters.starts[-1]
    return np.sum(np.concatenate(seen)) / len(Q) / n_rows


def test_half_spaces_skip_what_radii_cannot(rng, monkeypatch):
    X = rng.standard_normal((4000, 10))
    y, options = X[:, 0] > 0, {"sigma": 4.0, "tol": TOL}
    model = NadarayaWatsonClassifier("exact", bound="certified", **options).fit(X, y)
    shares = [share_visited(model, X[:200])]
    monkeypatch.setattr(Clusters, "with_half_spaces", lambda self, kernel: self)
    model.fit(X, y)
    shares.append(share_visited(model, X[:200]))
    print(shares)
    assert shares[0] < 0.3 * shares[1]


def test_certifies_where_no_estimate_is_good(rng):
    """At a bandwidth for which the nearest of the rows decides."""
    X = rng.standard_normal((4000, 10))
    y = rng.integers(0, 2, size=4000)
    model = NadarayaWatsonClassifier("exact", sigma=8.0, tol=0.001).fit(X, y)
    assert model._engine._held[0].rules == {8.0: None}
    Q = rng.standard_normal((200, 10))
    exact = NadarayaWatsonClassifier("exact", sigma=8.0).fit(X, y).predict_proba(Q)
    assert total_variation(model.predict_proba(Q), exact).max() <= 0.001


@pytest.mark.parametrize("n_features", [1, 3, 20, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_row_is_nearer_than_its_half_space(n_features, dtype, rng):
    X = rng.standard_normal((600, n_features)).astype(dtype)
    X[::3] *= 100
    labels = np.sort(rng.integers(0, 20, size=600))
    starts = np.searchsorted(labels, np.arange(21))
    centers = np.array([X[a:b].mean(axis=0) for a, b in pairwise(starts)])
    centers[3] = centers[4]
    spaces = HalfSpaces.of(X, starts, centers.astype(np.float64))
    Q = np.vstack([X[:50], 30 * rng.standard_normal((50, n_features))])

    def distances(A, B):
        return np.linalg.norm(A[:, None].astype(np.float64) - B, axis=2)

    nearest = np.minimum.reduceat(distances(Q, X), starts[:-1], axis=1)

    def is_bound(spaces):
        return np.all(spaces.distances(distances(Q, centers)) <= nearest * (1 + 1e-9))

    assert is_bound(spaces)
    # a bound that is 1 % of the spread too large is seen
    wrong = replace(spaces, least=spaces.least + np.float32(0.01 * np.var(X)))
    assert not is_bound(wrong)


def without_weights(kernel, sigma, least, log_weights):
    return kernel.log_profile(sigma * least)


def with_half_the_radius(clusters, distances):
    return np.maximum(distances - 0.5 * clusters.radii, 0)


@pytest.mark.parametrize("sigma", [0.3, 3.0])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_no_cluster_weighs_more_than_its_bound(kernel, sigma, rng):
    X, y = blobs(rng)
    weights = rng.exponential(size=2000)
    options = {"kernel": kernel, "tol": TOL, "bound": "certified"}
    model = NadarayaWatsonClassifier("exact", **options).fit(X, y, weights)
    clusters, profile = model._engine._held[0].clusters, model._engine._radial
    queries = clusters.rows.take(np.arange(0, 2000, 7))
    values = np.exp(log_radial(profile, sigma, queries, clusters.rows, Scratch()))
    mass = np.add.reduceat(values * clusters.weights, clusters.starts[:-1], axis=1)
    distances = clusters.distances(queries, profile)
    rows = profile.distances(queries, clusters.rows)
    nearest = np.minimum.reduceat(rows, clusters.starts[:-1], axis=1)

    def holds(log_bound, least_distances):
        least = least_distances(clusters, distances)
        bound = log_bound(profile, sigma, least, clusters.log_weights)
        near = np.all(least <= nearest * (1 + 1e-9) + 1e-9)
        return near and np.all(mass <= np.exp(bound) * (1 + 1e-9) + 1e-290)

    assert holds(log_bound, least_distances)
    assert not holds(without_weights, least_distances)
    assert not holds(log_bound, with_half_the_radius)


FAULTS = [
    ("least_distances", with_half_the_radius),
    ("enough", lambda mass, allowed: np.zeros(mass.shape, dtype=bool)),
]


@pytest.mark.parametrize("name, fault", FAULTS)
def test_a_fault_breaks_the_certificate(name, fault, rng, monkeypatch):
    """The check of every query sees a radius that is halved, and a visit left out."""
    monkeypatch.setattr(_tolerance, name, fault)
    gaps = []
    for sigma in (0.3, 1.0, 4.0):
        X, _, Q = adversarial("blobs", rng)
        X, y = X[np.argsort(X[:, 0])], np.repeat([0, 1], 1000)
        options = {"sigma": sigma, "tol": TOL, "bound": "certified"}
        exact = NadarayaWatsonClassifier("exact", sigma=sigma).fit(X, y)
        found = NadarayaWatsonClassifier("exact", **options).fit(X, y).predict_proba(Q)
        gaps.append(total_variation(found, exact.predict_proba(Q)).max())
    print(name, gaps)
    assert max(gaps) > TOL


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.4, 0.8, 2.0])
def test_estimated_on_digits(sigma, monkeypatch):
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    X = X / 4
    exact = NadarayaWatsonClassifier("exact", sigma=sigma).fit(X[:1400], y[:1400])
    model = NadarayaWatsonClassifier("exact", sigma=sigma, tol=TOL)
    found = model.fit(X[:1400], y[:1400]).predict_proba(X[1400:])
    gap = total_variation(found, exact.predict_proba(X[1400:]))
    print(sigma, gap.mean(), np.quantile(gap, 0.95), model._engine._held[0].rules)
    assert gap.mean() <= TOL


def test_calibration_sees_clouds_that_are_too_small(monkeypatch):
    """With points for clouds the answers are still within the tolerance."""
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    tol, gaps = 0.002, []
    model = NadarayaWatsonClassifier("exact", sigma=0.12).fit(X[:1400], y[:1400])
    expected = model.predict_proba(X[1400:])

    def too_small(kernel, sigma, distances, clusters):
        small = replace(clusters, sq_radii=0 * clusters.sq_radii)
        return log_cloud(kernel, sigma, distances, small)

    monkeypatch.setattr(_tolerance, "log_cloud", too_small)
    original, rule = _clustered.calibrated_rule, _tolerance.Rule(tol, np.inf)
    for calibrated in (original, lambda *rest: rule):
        monkeypatch.setattr(_clustered, "calibrated_rule", calibrated)
        model = clone(model).set_params(tol=tol).fit(X[:1400], y[:1400])
        gaps.append(total_variation(model.predict_proba(X[1400:]), expected).mean())
        print(gaps, model._engine._held[0].rules)
    assert gaps[0] <= tol < gaps[1]


@pytest.mark.parametrize("bound", BOUNDS)
def test_several_outputs_in_their_ranges(bound, rng):
    X, _ = blobs(rng)
    y = np.stack([1e6 + np.sin(X[:, 0]), 1e-3 * X[:, 1], np.full(2000, 3.0)], axis=1)
    Q, _ = blobs(rng, 300)
    exact = NadarayaWatsonRegressor("exact", sigma=1.0).fit(X, y)
    model = NadarayaWatsonRegressor("exact", sigma=1.0, tol=TOL, bound=bound).fit(X, y)
    gap = np.abs(model.predict(Q) - exact.predict(Q))[:, :2] / np.ptp(y, axis=0)[:2]
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL
    assert_allclose(model.predict(Q)[:, 2], 3.0)
    one = clone(model).fit(X, y[:, 1])
    assert one.predict(Q).shape == (300,)


@pytest.mark.parametrize("bound", BOUNDS)
def test_far_queries_are_answered_by_their_nearest_row(bound, rng):
    X, y = blobs(rng)
    Q = 1e4 * rng.standard_normal((50, X.shape[1]))
    exact = NadarayaWatsonClassifier("exact", sigma=50.0).fit(X, y)
    model = clone(exact).set_params(tol=TOL, bound=bound).fit(X, y)
    same = model.predict(Q) == exact.predict(Q)
    assert np.all(same) if bound == "certified" else np.mean(same) >= 0.9


class Epanechnikov:
    """A kernel that ends somewhere, as a callable that states its profile."""

    def __call__(self, X, Y):
        return np.exp(self.log_profile(np.linalg.norm(X[:, None] - Y, axis=2)))

    def log_profile(self, r):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - r**2, 0))


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_callable_that_says_so(bound, rng):
    X, y = blobs(rng, n_features=2)
    Q = np.vstack([X[:200] + 0.1, X[:5] + 100])
    exact = NadarayaWatsonClassifier("exact", kernel=Epanechnikov(), sigma=0.5)
    model = clone(exact).set_params(tol=TOL, bound=bound)
    answers = []
    for each in (exact, model):
        each.fit(X, y)
        with pytest.warns(RuntimeWarning, match="For 5 rows all the kernel weights"):
            answers.append(each.predict_proba(Q))
    gap = total_variation(*answers)
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL
    assert_allclose(answers[1][200:], np.tile(model.class_prior_, (5, 1)))


def test_a_callable_that_does_not(iris):
    X, y = iris
    model = NadarayaWatsonClassifier("exact", kernel=lambda X, Y: X @ Y.T, tol=TOL)
    with pytest.raises(ValueError, match=r"tol needs a kernel that falls .* tol=0\.0"):
        model.fit(X, y)


def test_an_object_that_states_its_profile_needs_no_call(rng):
    X, y = blobs(rng, n_features=2)
    by_name = NadarayaWatsonClassifier("exact", kernel="laplacian", sigma=2.0)
    stated = NadarayaWatsonClassifier("exact", kernel=LaplacianRadial(), sigma=2.0)
    expected = by_name.fit(X, y).predict_proba(X[:50])
    assert_array_equal(stated.fit(X, y).predict_proba(X[:50]), expected)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "sigma", ["auto", "learned", "scale", "median", 0.5 + np.arange(6) / 6]
)
def test_sigmas(sigma, bound, rng):
    of_a_sample = isinstance(sigma, str) and sigma in ("median", "learned")
    X, y = blobs(rng, 400 if of_a_sample else 2000)
    X = X + 10
    Q, _ = blobs(rng, 200)
    exact = NadarayaWatsonClassifier("exact", sigma=sigma, random_state=0).fit(X, y)
    model = clone(exact).set_params(tol=TOL, bound=bound).fit(X, y)
    assert_allclose(model.sigma_, exact.sigma_)
    gap = total_variation(model.predict_proba(Q + 10), exact.predict_proba(Q + 10))
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL
    merged = clone(model).partial_fit(X[:50], y[:50], classes=range(4)).merge(model)
    if not of_a_sample:
        both = clone(exact).fit(np.vstack([X[:50], X]), np.r_[y[:50], y])
        assert_allclose(merged.sigma_, both.sigma_, rtol=1e-4)


@pytest.mark.parametrize("bound", BOUNDS)
def test_batches_and_merging(bound, rng):
    X, y = blobs(rng, 3000)
    Q, _ = blobs(rng, 200)
    exact = NadarayaWatsonClassifier("exact", sigma=1.5).fit(X, y).predict_proba(Q)
    model = NadarayaWatsonClassifier("exact", sigma=1.5, tol=TOL, bound=bound)

    def check(model):
        gap = total_variation(model.predict_proba(Q), exact)
        assert (gap.max() if bound == "certified" else gap.mean()) <= TOL

    batched, built = clone(model), []
    for rows in np.array_split(np.arange(3000), [50, 400, 600, 900, 1000, 2500]):
        batched.partial_fit(X[rows], y[rows], classes=range(4))
        batched.predict(Q[:3])
        state, parts = batched._engine._held
        built.append(None if state is None else state.clusters.n_built)
        assert state is None or not parts
    # made at 400 rows, appended to, and made again beyond twice as many
    assert built == [None, 400, 400, 900, 900, 2500, 2500]
    check(batched)
    left, right = clone(model).fit(X[:1000], y[:1000]), clone(model)
    right.fit(X[1000:], y[1000:])
    before = right.predict_proba(Q)
    check(left.merge(right))
    assert_array_equal(right.predict_proba(Q), before)


def test_copies_and_pickles(rng):
    X, y = blobs(rng)
    model = NadarayaWatsonClassifier("exact", sigma=1.0, tol=TOL).fit(X, y)
    expected = model.predict_proba(X[:100])
    other = copy.copy(model)
    restored = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[:500], y[:500])
    model.predict(X[:10])
    for each in (other, restored, clone(model).fit(X, y), copy.deepcopy(other)):
        assert_array_equal(each.predict_proba(X[:100]), expected)
    size = len(pickle.dumps(other))
    print(size, X.nbytes)
    assert size < 2 * X.nbytes  # targets, weights and clusters beside the rows


def test_the_model_keeps_one_copy_of_the_rows(rng):
    X, y = blobs(rng, 20_000, 32)
    model = NadarayaWatsonClassifier("exact", sigma=1.0, tol=TOL).fit(X, y)
    model.predict(X[:10])
    assert len(pickle.dumps(model)) < 1.25 * X.nbytes


def test_threads_that_predict_at_once(rng):
    from concurrent.futures import ThreadPoolExecutor

    X, y = blobs(rng)
    model = NadarayaWatsonClassifier("exact", sigma=1.0, tol=TOL)
    model.partial_fit(X, y, classes=range(4))
    whole = clone(model).fit(X, y).predict_proba(X[:50])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.predict_proba(X[:50]), range(8)))
    for each in found:
        assert_allclose(each, whole, atol=1e-12)


def test_falls_back_where_most_rows_would_be_visited(rng, monkeypatch):
    monkeypatch.setattr(_tolerance, "_MOST", 0.5)
    X, y = rng.standard_normal((3000, 10)), rng.integers(0, 3, size=3000)
    Q = rng.standard_normal((600, 10))
    for bound in BOUNDS:
        exact = NadarayaWatsonClassifier("exact", sigma=0.05).fit(X, y)
        model = NadarayaWatsonClassifier("exact", sigma=0.05, tol=1e-6, bound=bound)
        model.fit(X, y)
        monkeypatch.setattr(_tolerance, "visit", None)  # is not called
        assert_allclose(model.predict_proba(Q), exact.predict_proba(Q), rtol=1e-10)


def test_sparse_rows_are_summed_exactly(rng):
    X = rng.random((300, 20)) * (rng.random((300, 20)) < 0.3)
    y = (X.sum(axis=1) > X.sum(axis=1).mean()).astype(int)
    exact = NadarayaWatsonClassifier("exact", sigma=1.0).fit(X, y)
    model = NadarayaWatsonClassifier("exact", sigma=1.0, tol=TOL)
    model.fit(sparse.csr_array(X), y)
    assert model._engine._held[0] is None
    expected = exact.predict_proba(X)
    assert_allclose(model.predict_proba(X), expected, atol=1e-10)
    dense = clone(model).set_params(bound="certified").fit(X, y)
    found = dense.predict_proba(sparse.csr_array(X))
    assert total_variation(found, expected).max() <= TOL
    dense.partial_fit(sparse.csr_array(X[:5]), y[:5])
    both = np.vstack([X, X[:5]]), np.r_[y, y[:5]]
    expected = clone(exact).fit(*both).predict_proba(X)
    assert_allclose(dense.predict_proba(X), expected, atol=1e-10)


class Chebyshev(LaplacianRadial):
    """A kernel of another metric."""

    def distances(self, X, Y):
        return np.abs(X.dense[:, None] - Y.dense).max(axis=2)


def test_half_spaces_are_those_of_the_euclidean_distance(rng):
    X, y = blobs(rng, 1000)
    kernels = [Chebyshev("l1"), LaplacianRadial("l1")]
    kernels += [LaplacianRadial(), MaternRadial()]
    spaces = []
    for kernel in kernels:
        options = {"kernel": kernel, "sigma": 4.0, "tol": TOL, "bound": "certified"}
        model = NadarayaWatsonClassifier("exact", **options).fit(X, y)
        spaces.append(model._engine._held[0].clusters.half_spaces is not None)
        exact = clone(model).set_params(tol=0.0).fit(X, y).predict_proba(X[:100] + 1)
        gap = total_variation(model.predict_proba(X[:100] + 1), exact).max()
        assert gap <= TOL + 1e-9
    assert spaces == [False, False, True, True]


def test_rows_too_large_for_clusters(rng):
    X, y = blobs(rng, 300)
    exact = NadarayaWatsonClassifier("exact", sigma=1e-20).fit(1e20 * X, y)
    model = clone(exact).set_params(tol=TOL).fit(1e20 * X, y)
    assert model._engine._held[0] is None
    assert_array_equal(
        model.predict_proba(1e20 * X[:9]), exact.predict_proba(1e20 * X[:9])
    )


def test_decision_function_and_prior(rng):
    X, y = blobs(rng)
    exact = NadarayaWatsonClassifier("exact", sigma=1.0).fit(X, y)
    model = clone(exact).set_params(tol=1e-4, bound="certified").fit(X, y)
    scores = model.decision_function(X[:100])
    assert_allclose(scores, exact.decision_function(X[:100]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": OPRFSampler(), "tol": 0.1}, r"tol=0\.1 belongs to sampler='ex"),
        ({"sampler": "prototypes", "tol": 0.1}, r"tol=0\.1 belongs to sampler='ex"),
        ({"sampler": "exact", "tol": 1.0}, "'tol' parameter of .*0.0, 1.0"),
        ({"sampler": "exact", "tol": -0.1}, "'tol' parameter of .*0.0, 1.0"),
        ({"sampler": "exact", "bound": "proved"}, "'bound' parameter of"),
        ({"sampler": "exact", "kernel": 3.0}, "'kernel' parameter of"),
    ],
)
def test_wrong_parameters(options, message, iris):
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(**options).fit(*iris)


def test_zero_as_an_integer_is_no_tolerance(iris):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        NadarayaWatsonClassifier(OPRFSampler(random_state=0), tol=0).fit(*iris)


def test_calibration_leaves_rows_out(rng):
    """Twins of the training rows would hide what is missing."""
    X, y = blobs(rng, 500)
    model = NadarayaWatsonClassifier("exact", sigma=1.0, tol=TOL).fit(X, y)
    state = model._engine._held[0]
    errors = []

    class Gap(_calibration._Gap):
        def __call__(self, found, exact):
            errors.append(exact)
            return super().__call__(found, exact)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_calibration, "_Gap", Gap)
        rest = state.clusters, state.means, model._engine.targets, TOL
        _calibration.calibrated_rule(model._engine._radial, 1.0, *rest)
    own = np.sort(np.random.default_rng(0).choice(500, 256, replace=False))
    rows, codes = state.clusters.rows.dense, state.clusters.y
    squares = np.sum((rows[own][:, None] - rows) ** 2, axis=2)
    kernel = np.exp(-squares / 2)
    kernel[np.arange(256), own] = 0
    sums = kernel @ np.eye(4)[codes]
    expected = sums / sums.sum(axis=1, keepdims=True)
    found = errors[0] / errors[0].sum(axis=1, keepdims=True)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


CHECKED = [
    NadarayaWatsonClassifier("exact", tol=1e-9, bound="certified"),
    NadarayaWatsonRegressor("exact", tol=1e-9, bound="certified", kernel="laplacian"),
    NadarayaWatsonClassifierCV(
        "exact", sigmas=[0.1, 1.0], tol=1e-9, bound="certified", cv=3
    ),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(CHECKED)
def test_scikit_learn_check(estimator, check, monkeypatch):
    """Clusters of the smallest tables too, so near that rounding alone remains."""
    monkeypatch.setattr(_clustered, "_LEAST_ROWS", 2)
    check(estimator)


@pytest.mark.parametrize("bound", BOUNDS)
def test_search_over_sigma(bound, rng):
    X, y = blobs(rng, 1200)
    options = {"sigmas": [0.05, 0.5, 2.0, 8.0, "scale"], "cv": 3}
    exact = NadarayaWatsonClassifierCV("exact", **options).fit(X, y)
    options |= {"tol": TOL, "bound": bound}
    search = NadarayaWatsonClassifierCV("exact", **options)
    made = []

    def of(*rest):
        made.append(rest)
        return original(*rest)

    original = Clusters.of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Clusters, "of", of)
        search.fit(X, y)
    assert len(made) == 4  # one a fold, and one of all rows
    scores = [each.cv_results_["mean_test_score"] for each in (exact, search)]
    assert_allclose(*scores, atol=TOL)
    assert search.best_estimator_.tol == TOL
    assert search.best_params_["sigma"] == exact.best_params_["sigma"]
    by_loss = clone(search).set_params(scoring="neg_log_loss").fit(X, y)
    assert np.all(np.isfinite(by_loss.cv_results_["mean_test_score"]))
    with pytest.raises(ValueError, match=r"tol=0\.02 belongs to sampler='exact'"):
        NadarayaWatsonClassifierCV(OPRFSampler(), sigmas=[1.0], tol=TOL).fit(X, y)


def test_search_over_sigma_for_numbers(rng):
    X, _ = blobs(rng, 900)
    y = np.sin(X[:, 0])
    options = {"sigmas": [0.5, 2.0], "cv": 3}
    exact = NadarayaWatsonRegressorCV("exact", **options).fit(X, y)
    search = NadarayaWatsonRegressorCV("exact", tol=0.001, **options).fit(X, y)
    scores = [each.cv_results_["mean_test_score"] for each in (exact, search)]
    assert_allclose(*scores, atol=0.01)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern", "power"])
@pytest.mark.parametrize("n_features", [3, 30])
def test_clouds_against_draws(name, n_features, rng):
    """Exact for the Gaussian kernel; below, and by little, for the others."""
    kernel = {
        "gaussian": GaussianRadial(),
        "laplacian": LaplacianRadial(),
        "matern": MaternRadial(1.5),
        "power": ExponentialPowerRadial(0.7),
    }[name]
    for spread, distance in ((0.3, 2.0), (0.3, 4.0), (1.0, 2.0)):
        rows = spread * rng.standard_normal((100_000, n_features))
        rows[:, 0] += distance
        values = np.exp(kernel.log_profile(np.linalg.norm(rows, axis=1)))
        error = values.std() / values.mean() / np.sqrt(100_000)
        cloud = SimpleNamespace(
            centers=np.zeros((1, n_features)),
            radii=np.array([np.inf]),
            sizes=np.array([1e300]),  # with all its tails
            sq_radii=np.array([n_features * spread**2]),
            log_weights=np.log([1.0]),
        )
        found = log_cloud(kernel, 1.0, np.array([[distance]]), cloud)[0, 0]
        gap = found - np.log(values.mean())
        print(gap, error)
        assert gap < 6 * error
        assert gap > -6 * error - (0 if name == "gaussian" else 0.15)
    if n_features == 30:
        cloud.sq_radii *= 0.5  # is seen
        wrong = log_cloud(kernel, 1.0, np.array([[2.0]]), cloud)[0, 0]
        assert abs(wrong - found) > 0.15 + 6 * error


def test_cloud_of_the_reference():
    """Two clusters of two rows, and a query (verified outside of this package)."""
    X = np.array([[0.0, 0.0], [0.4, 0.0], [2.0, 1.0], [2.2, 1.4]])
    y, kernel = np.arange(4), GaussianRadial()
    parts = X, y, np.ones(4), np.arange(4)
    clusters = Clusters._sorted(parts, np.array([0, 0, 1, 1]), kernel, 4)
    distances = clusters.distances(UnitRows(np.array([[1.0, 0.5]])), kernel)
    many = 10**12 * np.arange(3)  # rows: with all its tails
    clusters = replace(clusters, radii=np.full(2, np.inf), starts=many)
    found = log_cloud(kernel, 1.0, distances, clusters)[0]
    assert_allclose(found, [0.237070043460, -0.160813724713], rtol=1e-10)
