"""The exact estimators with ``tol``: within it, on random and on adversarial rows."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.utils import shuffle

from sklearn_crt import (
    ExactKernel,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
    OPRFSampler,
)
from sklearn_crt.extend import (
    ExponentialPowerRadial,
    LaplacianRadial,
    MaternRadial,
    RadialKernel,
)

TOL = 0.02
BOUNDS = ["certified", "estimated"]
# Fewer rows or queries are answered from all rows, which takes less time then.
N_ROWS, N_QUERIES = 12_000, 1500


def total_variation(P, Q):
    return 0.5 * np.abs(P.astype(np.float64) - Q).sum(axis=1)


def blobs(rng, n_rows=N_ROWS, n_features=6, n_blobs=30, dtype=np.float64):
    """Return rows in blobs, and labels that change inside of them."""
    centres = 3 * np.random.default_rng(0).standard_normal((n_blobs, n_features))
    X = centres[rng.integers(n_blobs, size=n_rows)]
    X = X + 0.7 * rng.standard_normal((n_rows, n_features))
    y = (np.sin(2 * X[:, 0]) > 0) + 2 * (X[:, 1] + 0.5 * rng.normal(size=n_rows) > 0)
    return X.astype(dtype), y


def digits(rng):
    """Return training rows, their labels and other rows, of the digits with noise."""
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    X, Q = X[:1400] / 4, X[1400:] / 4
    X, Q = np.tile(X, (8, 1)), np.tile(Q, (4, 1))
    X, Q = (rows + 0.3 * rng.standard_normal(rows.shape) for rows in (X, Q))
    return X, np.tile(y[:1400], 8), Q


def adversarial(name, rng):
    """Return rows, labels and queries."""
    X, y = blobs(rng)
    half = N_QUERIES // 2
    Q = np.vstack([X[:half] + 0.1, 5 * rng.standard_normal((half, X.shape[1]))])
    if name == "repeated rows":
        X[:9000] = X[rng.integers(0, 5, size=9000)]
    elif name == "one huge cluster":
        X[:11_000] = X[0] + 1e-6 * rng.standard_normal(X[:11_000].shape)
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


SIGMAS = [
    4.0,
    *(pytest.param(sigma, marks=pytest.mark.slow) for sigma in (0.05, 1, 40)),
]


@pytest.mark.parametrize("sigma", SIGMAS)
@pytest.mark.parametrize("case", CASES)
def test_certified_for_every_query(case, sigma, rng):
    X, y, Q = adversarial(case, rng)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=sigma)).fit(X, y)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=sigma, tol=TOL))
    found = model.fit(X, y).predict_proba(Q)
    gap = total_variation(found, exact.predict_proba(Q)).max()
    assert gap <= TOL + 1e-9


KERNELS = [
    {"kernel": "gaussian"},
    {"kernel": "laplacian"},
    {"kernel": LaplacianRadial("l1")},
    {"kernel": "matern", "nu": 0.8},
    {"kernel": "matern", "nu": 2.5},
    {"kernel": ExponentialPowerRadial(0.7)},
]


@pytest.mark.parametrize(
    ("bound", "dtype"),
    [
        ("certified", np.float64),
        ("estimated", np.float32),
        pytest.param("certified", np.float32, marks=pytest.mark.slow),
        pytest.param("estimated", np.float64, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("options", KERNELS, ids=str)
def test_kernels_weights_and_types(bound, options, dtype, rng):
    X, y = blobs(rng, dtype=dtype)
    weights = rng.exponential(size=N_ROWS)
    weights[::7] = 0
    Q, _ = blobs(rng, N_QUERIES, dtype=dtype)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=3.0, **options)).fit(
        X, y, weights
    )
    model = clone(exact).set_params(tol=TOL, bound=bound).fit(X, y, weights)
    found = model.predict_proba(Q)
    assert found.dtype == dtype
    gap = total_variation(found, exact.predict_proba(Q))
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL + 1e-5
    assert found.sum(axis=1) == pytest.approx(1, abs=1e-5)


class Counted(RadialKernel):
    """The Gaussian kernel, which counts its values."""

    n_values = 0

    def log_profile(self, r):
        self.n_values += r.size
        return -0.5 * r**2


class Measured(Counted):
    """The same with a distance of its own, of which no half space is known."""

    def distances(self, X, Y):
        return np.sqrt(X.sq_distances(Y))


def share_of_values(kernel, X, y, Q, **options):
    """Return how many kernel values answers take, of those of all pairs."""
    model = NadarayaWatsonClassifier(ExactKernel(kernel=kernel, tol=TOL, **options))
    model.fit(X, y).predict(Q[:3])
    kernel.n_values = 0
    model.predict(Q)
    return kernel.n_values / (len(Q) * len(X))


@pytest.mark.parametrize("bound", BOUNDS)
def test_far_clusters_are_skipped(bound, rng):
    X, y = blobs(rng)
    Q, _ = blobs(rng, N_QUERIES)
    share = share_of_values(Counted(), X, y, Q, sigma=4.0, bound=bound)
    print(share)
    assert share < 0.2
    exact = NadarayaWatsonClassifier(ExactKernel(kernel=Counted(), sigma=4.0)).fit(X, y)
    exact.predict(Q)
    assert exact.kernel.n_values >= len(Q) * len(X)


def test_half_spaces_skip_what_radii_cannot(rng):
    """Within one blob, where most clusters touch."""
    X, y = blobs(rng, n_features=4, n_blobs=1)
    Q, _ = blobs(rng, N_QUERIES, n_features=4, n_blobs=1)
    options = {"sigma": 8.0, "bound": "certified"}
    shares = [
        share_of_values(kernel(), X, y, Q, **options) for kernel in (Counted, Measured)
    ]
    print(shares)
    assert shares[0] < 0.5 * shares[1]


def test_certifies_where_no_estimate_is_good(rng):
    """At a bandwidth for which the nearest of the rows decides.

    Where training rows are not left out of their own averages, which they decide
    themselves, any estimate looks good.
    """
    X = rng.standard_normal((N_ROWS, 10))
    y = rng.integers(0, 2, size=N_ROWS)
    Q = rng.standard_normal((N_QUERIES, 10))
    model = NadarayaWatsonClassifier(ExactKernel(sigma=8.0, tol=0.001)).fit(X, y)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=8.0)).fit(X, y).predict_proba(Q)
    assert total_variation(model.predict_proba(Q), exact).max() <= 0.001


@pytest.mark.parametrize("n_features", [1, 3, 20, 100])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_certified_in_any_dimension(n_features, dtype, rng):
    """Rows of two scales, and queries among them and far from all."""
    X = rng.standard_normal((N_ROWS, n_features)).astype(dtype)
    X[::3] *= 100
    y = (X[:, 0] > 0) + 2 * (rng.random(N_ROWS) < 0.5)
    weights = rng.exponential(size=N_ROWS)
    half = N_QUERIES // 2
    Q = np.vstack([X[:half], 30 * rng.standard_normal((half, n_features))])
    Q = Q.astype(dtype)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=3.0)).fit(X, y, weights)
    model = clone(exact).set_params(tol=TOL, bound="certified").fit(X, y, weights)
    gap = total_variation(model.predict_proba(Q), exact.predict_proba(Q))
    assert gap.max() <= TOL + (1e-4 if dtype == np.float32 else 1e-9)


class Squares(LaplacianRadial):
    """Squared distances for distances: no triangle inequality bounds them."""

    def distances(self, X, Y):
        return 0.3 * X.sq_distances(Y)


class Rises(RadialKernel):
    """A kernel that is largest at a distance: no nearest row bounds the others."""

    def log_profile(self, r):
        return -4 * (r - 2) ** 2


@pytest.mark.parametrize("kernel", [Squares(), Rises()], ids=["squares", "rises"])
def test_a_fault_breaks_the_certificate(kernel, rng):
    """The check of every query sees bounds that do not hold."""
    gaps = []
    for sigma in (0.3, 1.0, 4.0):
        X, _, Q = adversarial("blobs", rng)
        X, y = X[np.argsort(X[:, 0])], np.repeat([0, 1], N_ROWS // 2)
        options = {"sigma": sigma, "kernel": kernel}
        exact = NadarayaWatsonClassifier(ExactKernel(**options)).fit(X, y)
        model = clone(exact).set_params(tol=TOL, bound="certified").fit(X, y)
        gaps.append(total_variation(model.predict_proba(Q), exact.predict_proba(Q)))
    print([gap.max() for gap in gaps])
    assert np.max(gaps) > TOL


@pytest.mark.parametrize("sigma", [0.1, 0.2, 0.4, 0.8, 2.0])
@pytest.mark.parametrize("tol", [0.002, 0.02])
def test_estimated_on_digits(sigma, tol, rng):
    X, y, Q = digits(rng)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=sigma)).fit(X, y)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=sigma, tol=tol)).fit(X, y)
    gap = total_variation(model.predict_proba(Q), exact.predict_proba(Q))
    print(sigma, gap.mean(), np.quantile(gap, 0.95))
    assert gap.mean() <= tol


@pytest.mark.parametrize("bound", BOUNDS)
def test_several_outputs_in_their_ranges(bound, rng):
    X, _ = blobs(rng)
    y = np.stack([1e6 + np.sin(X[:, 0]), 1e-3 * X[:, 1], np.full(N_ROWS, 3.0)], axis=1)
    Q, _ = blobs(rng, N_QUERIES)
    exact = NadarayaWatsonRegressor(ExactKernel(sigma=1.0)).fit(X, y)
    model = NadarayaWatsonRegressor(ExactKernel(sigma=1.0, tol=TOL)).fit(X, y)
    gap = np.abs(model.predict(Q) - exact.predict(Q))[:, :2] / np.ptp(y, axis=0)[:2]
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL
    assert_allclose(model.predict(Q)[:, 2], 3.0)
    one = clone(model).fit(X, y[:, 1])
    assert one.predict(Q).shape == (N_QUERIES,)


@pytest.mark.parametrize("bound", BOUNDS)
def test_far_queries_are_answered_by_their_nearest_row(bound, rng):
    X, y = blobs(rng)
    Q = 1e4 * rng.standard_normal((50, X.shape[1]))
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=50.0)).fit(X, y)
    model = clone(exact).set_params(tol=TOL, bound=bound).fit(X, y)
    same = model.predict(Q) == exact.predict(Q)
    assert np.all(same) if bound == "certified" else np.mean(same) >= 0.9


class Stated:
    """A callable that states its profile."""

    def __call__(self, X, Y):
        r = np.sqrt(np.maximum(cdist(X, Y, "sqeuclidean"), 0))
        return np.exp(self.log_profile(r))


class Epanechnikov(Stated):
    """A kernel that ends somewhere."""

    def log_profile(self, r):
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(1 - r**2, 0))


class Steps(Stated):
    """A kernel of two values: what clouds of rows weigh is hard to tell."""

    def log_profile(self, r):
        return np.where(r < 1, 0.0, np.where(r < 8, -2.0, -np.inf))


@pytest.mark.parametrize("kernel", [Epanechnikov(), Steps()], ids=["ends", "steps"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_callable_that_says_so(bound, kernel, rng):
    X, y = blobs(rng, n_features=2)
    Q = np.vstack([X[:N_QUERIES] + 0.1, X[:5] + 100])
    exact = NadarayaWatsonClassifier(ExactKernel(kernel=kernel, sigma=0.5))
    model = clone(exact).set_params(tol=TOL, bound=bound)
    answers = []
    for each in (exact, model):
        each.fit(X, y)
        with pytest.warns(RuntimeWarning, match="For 5 rows all the kernel weights"):
            answers.append(each.predict_proba(Q))
    gap = total_variation(*answers)
    assert (gap.max() if bound == "certified" else gap.mean()) <= TOL
    assert_allclose(answers[1][N_QUERIES:], np.tile(model.class_prior_, (5, 1)))


def test_a_callable_that_does_not(iris):
    X, y = iris
    model = NadarayaWatsonClassifier(ExactKernel(kernel=lambda X, Y: X @ Y.T, tol=TOL))
    with pytest.raises(ValueError, match=r"tol needs a kernel that falls .* tol=0\.0"):
        model.fit(X, y)


def test_an_object_that_states_its_profile_needs_no_call(rng):
    X, y = blobs(rng, n_features=2)
    by_name = NadarayaWatsonClassifier(ExactKernel(kernel="laplacian", sigma=2.0))
    stated = NadarayaWatsonClassifier(ExactKernel(kernel=LaplacianRadial(), sigma=2.0))
    expected = by_name.fit(X, y).predict_proba(X[:50])
    assert_array_equal(stated.fit(X, y).predict_proba(X[:50]), expected)


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize(
    "sigma",
    [
        "auto",
        "scale",
        "median",
        0.5 + np.arange(6) / 6,
        pytest.param("learned", marks=pytest.mark.slow),
    ],
)
def test_sigmas(sigma, bound, rng):
    of_a_sample = isinstance(sigma, str) and sigma in ("median", "learned")
    X, y = blobs(rng)
    X = X + 10
    Q, _ = blobs(rng, N_QUERIES)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=sigma)).fit(X, y)
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
    X, y = blobs(rng, 12_000)
    Q, _ = blobs(rng, N_QUERIES)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=1.5, tol=TOL))

    def check(model, n_rows):
        exact = clone(model).set_params(tol=0.0).fit(X[:n_rows], y[:n_rows])
        gap = total_variation(model.predict_proba(Q), exact.predict_proba(Q))
        assert (gap.max() if bound == "certified" else gap.mean()) <= TOL

    # clusters are made at 4000 rows, appended to, and made again beyond twice as many
    batched = clone(model)
    for rows in np.array_split(np.arange(12_000), [500, 4000, 7900, 9500]):
        batched.partial_fit(X[rows], y[rows], classes=range(4))
        check(batched, rows[-1] + 1)
    left, right = clone(model).fit(X[:5000], y[:5000]), clone(model)
    right.fit(X[5000:], y[5000:])
    before = right.predict_proba(Q)
    check(left.merge(right), 12_000)
    assert_array_equal(right.predict_proba(Q), before)


def test_copies_and_pickles(rng):
    X, y = blobs(rng)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=1.0, tol=TOL)).fit(X, y)
    expected = model.predict_proba(X[:100])
    other = copy.copy(model)
    restored = pickle.loads(pickle.dumps(model))
    model.partial_fit(X[:500], y[:500])
    model.predict(X[:10])
    for each in (other, restored, clone(model).fit(X, y), copy.deepcopy(other)):
        assert_array_equal(each.predict_proba(X[:100]), expected)
    size = len(pickle.dumps(other))
    assert size < 2 * X.nbytes  # targets, weights and clusters beside the rows


def test_the_model_keeps_one_copy_of_the_rows(rng):
    X, y = blobs(rng, 20_000, 32)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=1.0, tol=TOL)).fit(X, y)
    model.predict(X[:10])
    assert len(pickle.dumps(model)) < 1.25 * X.nbytes


def test_threads_that_predict_at_once(rng):
    from concurrent.futures import ThreadPoolExecutor

    X, y = blobs(rng)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=1.0, tol=TOL))
    model.partial_fit(X, y, classes=range(4))
    whole = clone(model).fit(X, y).predict_proba(X[:50])
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: model.predict_proba(X[:50]), range(8)))
    for each in found:
        assert_allclose(each, whole, atol=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_sums_all_rows_where_most_of_them_count(bound, rng):
    X, y = rng.standard_normal((5000, 10)), rng.integers(0, 3, size=5000)
    Q = rng.standard_normal((600, 10))
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=0.05)).fit(X, y)
    model = clone(exact).set_params(tol=1e-6, bound=bound).fit(X, y)
    assert_allclose(model.predict_proba(Q), exact.predict_proba(Q), rtol=1e-10)


def test_sparse_rows_are_summed_exactly(rng):
    X = rng.random((N_ROWS, 20)) * (rng.random((N_ROWS, 20)) < 0.3)
    y, Q = (X.sum(axis=1) > X.sum(axis=1).mean()).astype(int), X[::20] + 0.01
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=1.0)).fit(X, y)
    model = NadarayaWatsonClassifier(ExactKernel(sigma=1.0, tol=TOL))
    model.fit(sparse.csr_array(X), y)
    expected = exact.predict_proba(Q)
    assert_allclose(model.predict_proba(Q), expected, atol=1e-10)
    dense = clone(model).set_params(bound="certified").fit(X, y)
    found = dense.predict_proba(sparse.csr_array(Q))
    assert total_variation(found, expected).max() <= TOL
    dense.partial_fit(sparse.csr_array(X[:5]), y[:5])
    both = np.vstack([X, X[:5]]), np.r_[y, y[:5]]
    expected = clone(exact).fit(*both).predict_proba(Q)
    assert_allclose(dense.predict_proba(Q), expected, atol=1e-10)


class Chebyshev(LaplacianRadial):
    """A kernel of another metric."""

    def distances(self, X, Y):
        return np.abs(X.dense[:, None] - Y.dense).max(axis=2)


def test_half_spaces_are_those_of_the_euclidean_distance(rng):
    """Those of another metric would be no bounds."""
    X, y = blobs(rng)
    kernels = [Chebyshev("l1"), LaplacianRadial("l1")]
    kernels += [LaplacianRadial(), MaternRadial()]
    for kernel in kernels:
        options = {"kernel": kernel, "sigma": 4.0, "tol": TOL, "bound": "certified"}
        model = NadarayaWatsonClassifier(ExactKernel(**options)).fit(X, y)
        exact = clone(model).set_params(tol=0.0).fit(X, y).predict_proba(X[:100] + 1)
        gap = total_variation(model.predict_proba(X[:100] + 1), exact).max()
        assert gap <= TOL + 1e-9


def test_rows_too_large_for_clusters(rng):
    X, y = blobs(rng)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=1e-20)).fit(1e20 * X, y)
    model = clone(exact).set_params(tol=TOL).fit(1e20 * X, y)
    assert_array_equal(
        model.predict_proba(1e20 * X[:9]), exact.predict_proba(1e20 * X[:9])
    )


def test_decision_function_and_prior(rng):
    X, y = blobs(rng)
    exact = NadarayaWatsonClassifier(ExactKernel(sigma=1.0)).fit(X, y)
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


@pytest.mark.slow
@pytest.mark.parametrize("bound", BOUNDS)
def test_search_over_sigma(bound, rng, monkeypatch):
    X, y = blobs(rng)
    options = {"sigmas": [0.5, 4.0, "scale"], "cv": 2}
    exact = NadarayaWatsonClassifierCV(ExactKernel(**options)).fit(X, y)
    options |= {"tol": TOL, "bound": bound}
    search = NadarayaWatsonClassifierCV(ExactKernel(**options))
    made, fit = [], MiniBatchKMeans.fit

    def counted(self, *args, **options):
        made.append(self)
        return fit(self, *args, **options)

    monkeypatch.setattr(MiniBatchKMeans, "fit", counted)
    search.fit(X, y)
    assert len(made) == 3  # of each fold, and of all rows
    scores = [each.cv_results_["mean_test_score"] for each in (exact, search)]
    assert_allclose(*scores, atol=TOL)
    assert search.best_estimator_.tol == TOL
    assert search.best_params_["sigma"] == exact.best_params_["sigma"]
    by_loss = clone(search).set_params(scoring="neg_log_loss").fit(X, y)
    assert np.all(np.isfinite(by_loss.cv_results_["mean_test_score"]))
    with pytest.raises(ValueError, match=r"tol=0\.02 belongs to sampler='exact'"):
        NadarayaWatsonClassifierCV(OPRFSampler(), sigmas=[1.0], tol=TOL).fit(X, y)


@pytest.mark.slow
def test_search_over_sigma_for_numbers(rng):
    X, _ = blobs(rng)
    y = np.sin(X[:, 0])
    options = {"sigmas": [0.5, 4.0], "cv": 2}
    exact = NadarayaWatsonRegressorCV(ExactKernel(**options)).fit(X, y)
    search = NadarayaWatsonRegressorCV(ExactKernel(tol=0.001, **options)).fit(X, y)
    scores = [each.cv_results_["mean_test_score"] for each in (exact, search)]
    assert_allclose(*scores, atol=0.01)
