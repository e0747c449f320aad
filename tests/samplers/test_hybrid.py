"""HybridSampler: composition, variance, layouts, kinds, maps written elsewhere."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.cluster import MiniBatchKMeans
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    HybridSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PoissonSampler,
    TrigRBFSampler,
)
from sklearn_crt.frequencies import (
    Orthogonal,
    StructuredOrthogonal,
    _coupling,
    chi_law,
)
from sklearn_crt.samplers import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
    MixtureCoefficient,
    PositivePairSampler,
    TrigonometricSampler,
    best_diagonal,
)
from sklearn_crt.testing import (
    assert_mean,
    assert_variance,
    check_sampler,
    contract_rows,
)

KINDS = {
    "angular": {"kind": "angular"},
    "gaussian": {"kind": "gaussian", "lambda_sigma": 0.8},
    "clustered": {"kind": "clustered"},
    "real": {"kind": "clustered", "diagonal": "real"},
    "mixture": {"kind": "clustered", "mixture": "gaussian", "n_coefficients": 1},
}


def hybrid(**params):
    return HybridSampler(**{"sigma": 1.0, "random_state": 0} | params)


# -------------------------------------------------------------- numbers of the paper
@pytest.mark.parametrize("shared", [False, True])
def test_reference_mse(vectors, pair4, shared):
    how = "shared" if shared else "independent"
    common = {"kernel": "softmax", "coupling": "iid", "n_coefficients": 4}
    cases = {
        f"MSE angular, {how}": {"kind": "angular", "n_components": 4 * 2 * 5},
        f"MSE Gaussian hybrid, {how}": {
            "kind": "gaussian",
            "lambda_sigma": 0.8,
            "n_components": 4 * 2 * 9,
        },
    }
    x, y = pair4
    for name, params in cases.items():
        sampler = hybrid(shared=shared, **params, **common).fit(x, X_key=y)
        variance = sampler.kernel_variance(x, y)
        assert_allclose(variance, vectors["hrf"][name], rtol=1e-12)
        assert sampler.variance_is_exact_


def test_reference_coefficients(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    angular = AngularCoefficient(n_components=4, coupling="iid").fit(x, X_key=y)
    gaussian = GaussianCoefficient(sigma=0.8, n_components=8, coupling="iid")
    gaussian.fit(x, X_key=y)
    assert_allclose(1 / gaussian.a_, reference["rho normaliser"], rtol=1e-12)
    for part, name in ((angular, "angular"), (gaussian, "Gaussian")):
        mean, variance = (
            part.a_ + part.exact_kernel(x, y),
            part.kernel_variance(x, y),
        )
        value = {"angular": "theta/pi", "Gaussian": "lam Gaussian"}[name]
        assert_allclose(mean, reference[value], rtol=1e-12)
        assert_allclose(mean**2 + variance, reference[f"E lam^2 {name}"], rtol=1e-12)
        rest = (1 - mean) ** 2 + variance
        assert_allclose(rest, reference[f"E (1-lam)^2 {name}"], rtol=1e-12)


def test_reference_base_maps(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    for part, name in (
        (TrigRBFSampler, "MSE trig"),
        (PositivePairSampler, "MSE positive +-"),
    ):
        part = part(sigma=1.0, n_components=4, coupling="iid", kernel="softmax")
        variance = part.fit(x, X_key=y).kernel_variance(x, y)
        assert_allclose(variance, reference[name], rtol=1e-12)


def test_reference_complex_exponentials(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    given = np.array([1j, 0.8, 1.3 + 0.4j, -0.7])
    for a, name in (
        (given, "CE a=(i,0.8,1.3+0.4i,-0.7): Var/SM^2"),
        (best_diagonal(x[0], y[0], real=True), "CE real fitted: Var/SM^2"),
    ):
        n = 2 if np.any(a.imag) else 1
        part = ComplexExponentialSampler(a, sigma=1.0, n_components=n).fit(x)
        relative = part.kernel_variance(x, y) / part.exact_kernel(x, y) ** 2
        assert_allclose(relative, reference[name], rtol=1e-12)
    for real, name in ((False, "complex"), (True, "real")):
        a = best_diagonal(x[0], y[0], real=real)
        loss = np.sum(np.abs(a * x[0] + y[0] / a) ** 2)
        expected = reference[f"loss |a x + y/a|^2 {name}"]
        assert_allclose(loss, expected, rtol=1e-12, atol=1e-25)
    a = best_diagonal(x[0], y[0])
    for k in range(4):
        assert_allclose(a[k].real, reference[f"fitted complex diag: Re a_{k + 1}"])
        assert_allclose(a[k].imag, reference[f"fitted complex diag: Im a_{k + 1}"])
    for real, name in ((False, "complex"), (True, "real")):
        a = best_diagonal(x[0], y[0], real=real)
        loss = np.sum(np.abs(a * x + y / a) ** 2)
        assert_allclose(loss, reference[f"loss |a x + y/a|^2 {name}"], atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_variance_of_rows_that_are_far_away(kind, rng):
    X = rng.normal(size=(30, 8))
    options = {"sigma": 100.0, "n_components": 200, "n_coefficients": 1}
    sampler = hybrid(**options | KINDS[kind]).fit(X)
    variance = sampler.kernel_variance(X)  # it may be infinite
    assert np.all(variance >= 0)
    assert np.isfinite(sampler.spare_weight_)


def test_imaginary_unit_is_sines_and_cosines(pair64):
    x, y = pair64
    ce = ComplexExponentialSampler(1j, sigma=1.0, n_components=6, coupling="iid").fit(x)
    trig = TrigRBFSampler(sigma=1.0, n_components=6, coupling="iid").fit(x)
    assert_allclose(ce.kernel_variance(x, y), trig.kernel_variance(x, y), rtol=1e-9)


# ------------------------------------------------------------------- composition
def composed(sampler, X, Y):
    """Return sum lam_k K_k from the estimates of the fitted maps."""

    def product(part):
        key_side = getattr(part, "transform_key", part.transform)
        return part.transform(X) @ key_side(Y).T

    lambdas = [
        a + product(part)
        for a, part in zip(sampler.a_, sampler.coefficients_, strict=True)
    ]
    lambdas.append(1 - sum(lambdas))
    kernels = [product(base) for base in sampler.bases_]
    estimate = sum(lam * k for lam, k in zip(lambdas, kernels, strict=True))
    if sampler.spare_ is None:
        return estimate
    weight = sampler.spare_weight_
    return (1 - weight) * estimate + weight * product(sampler.spare_)


class Constant(TransformerMixin, BaseEstimator):
    """A coefficient a + 0 without randomness."""

    def __init__(self, a=0.0):
        self.a = a

    def fit(self, X, y=None):
        self.a_ = self.a
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.zeros((X.shape[0], 1))

    def exact_kernel(self, X, Y=None):
        return np.zeros((X.shape[0], (X if Y is None else Y).shape[0]))

    kernel_variance = exact_kernel


THREE = {
    "bases": [OPRFSampler(), PositivePairSampler(), TrigRBFSampler()],
    "coefficients": [
        AngularCoefficient(n_components=2),
        GaussianCoefficient(sigma=0.5, n_components=4),
    ],
}


@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 24, "n_coefficients": 2},
        {"n_components": 31},
        {"n_components": 30, "shared": True},
        {"n_components": 77, "kind": "gaussian"},
        {"n_components": 100, **THREE},
        {"n_components": 40, **KINDS["mixture"], "n_clusters": (2, 1)},
        {"n_components": 35, **KINDS["clustered"]},
        *(
            {
                "n_components": 20,
                "bases": [OPRFSampler(), TrigRBFSampler()],
                "coefficients": [Constant(a)],
            }
            for a in (-0.5, 0.0, 0.4, 1.0, 2.5)
        ),
    ],
)
def test_features_are_the_composition(params, rng):
    X, Y = 0.5 * rng.normal(size=(9, 3)), 0.5 * rng.normal(size=(8, 3))
    sampler = hybrid(**params).fit(X, X_key=Y)
    queries, keys = sampler.transform(X), sampler.transform_key(Y)
    assert queries.shape == (9, params["n_components"])
    expected = composed(sampler, X, Y)
    assert_allclose(queries @ keys.T, expected, rtol=1e-11, atol=1e-12)
    assert_allclose(sampler.approximate_kernel(X, Y), expected, rtol=1e-10, atol=1e-12)
    logs = sampler.iter_log_features(X)
    plain = np.vstack([m * (1 if e is None else np.exp(e)) for _, m, e in logs])
    assert_allclose(plain, queries, rtol=1e-11, atol=1e-13)


def test_parts_without_weight_are_left_out(rng):
    X = rng.normal(size=(5, 3))
    bases = [OPRFSampler(), TrigRBFSampler()]

    def widths(a):
        sampler = hybrid(n_components=24, bases=bases, coefficients=[Constant(a)])
        return [base.n_components for base in sampler.fit(X).bases_]

    # (1 + 1) m + (1 + 1) 2m, without a = 0 and without 1 - a = 0
    assert widths(0.5) == [4, 8]
    assert widths(0.0) == [4, 10]
    assert widths(1.0) == [6, 12]


def test_both_sides_are_real_and_differ(rng):
    X = rng.normal(size=(20, 3))
    for params in KINDS.values():
        sampler = hybrid(n_components=64, **params).fit(X)
        assert not sampler.symmetric_
        assert sampler.transform(X).dtype == np.float64
        assert not np.allclose(sampler.transform(X), sampler.transform_key(X))
    bases, coefficients = [OPRFSampler(), TrigRBFSampler()], [Constant(0.5)]
    sampler = hybrid(bases=[TrigRBFSampler()], coefficients=[], n_components=9).fit(X)
    assert sampler.symmetric_
    sampler = hybrid(bases=bases, coefficients=coefficients, n_components=12).fit(X)
    assert not sampler.symmetric_  # - r (x) L of the key side


def test_projections_of_the_maps(rng):
    X = rng.normal(size=(50, 5))
    m, n = 3, 4
    sampler = hybrid(n_components=4 * m * (n + 1), n_coefficients=n).fit(X)
    # n + 2 m frequencies, not m n
    assert sampler.frequencies_.to_dense().shape == (5, n + 2 * m)
    first, last = sampler.bases_
    independent = first.frequencies_.to_dense(), last.frequencies_.to_dense()
    assert not np.allclose(*independent)
    shared = clone(sampler).set_params(shared=True).fit(X)
    first, last = shared.bases_
    assert_allclose(first.frequencies_.to_dense(), last.frequencies_.to_dense())
    directions = shared.coefficients_[0].frequencies_.to_dense()
    assert not np.allclose(directions[:, :m], last.frequencies_.to_dense())


# ---------------------------------------------------------------------- variance
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("kind", ["angular", "gaussian"])
def test_variance_of_independent_maps(kind, coupling):
    X = contract_rows(4)
    sampler = hybrid(
        **KINDS[kind], coupling=coupling, n_coefficients=5, n_components=4 * 3 * 11
    ).fit(X)
    assert sampler.variance_is_exact_
    assert sampler.spare_ is None
    assert_variance(sampler, X)


@pytest.mark.parametrize("kind", ["angular", "gaussian"])
def test_variance_of_shared_projections(kind):
    X = contract_rows(3) * np.array([[1.0, 0.4, 0.8, 1.1, 0.9, 1.3]]).T
    params = {"coupling": "iid", "n_coefficients": 2, "n_components": 4 * 3 * 5}
    sampler = hybrid(**KINDS[kind], shared=True, **params).fit(X)
    assert sampler.variance_is_exact_
    independent = clone(sampler).set_params(shared=False).fit(X)
    gain = independent.kernel_variance(X) - sampler.kernel_variance(X)
    assert gain.max() > 1e-4
    assert_variance(sampler, X)


def test_variance_of_three_bases():
    X = contract_rows(4)
    # 8 columns of coefficients: (1 + 2) m + (1 + 4) 2 m + (1 + 6) 2 m
    sampler = hybrid(n_components=27 * 3, coupling="iid", **THREE).fit(X)
    assert [base.n_components for base in sampler.bases_] == [3, 6, 6]
    assert_variance(sampler, X)


def test_variance_of_a_gaussian_mixture():
    X = contract_rows(2)
    params = KINDS["mixture"] | {"n_clusters": (2, 1), "lambda_sigma": 0.5}
    sampler = hybrid(n_components=40, **params).fit(X)
    assert [base.n_components for base in sampler.bases_] == [5, 5, 10]
    assert_variance(sampler, X)


@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_variance_with_spare_columns(kernel):
    X = contract_rows(3)
    params = {"n_coefficients": 5, "n_components": 4 * 2 * 6 + 10, "kernel": kernel}
    sampler = hybrid(center=True, sigma=0.8, **params).fit(X + 1)
    assert sampler.spare_.n_components == 10
    assert_variance(sampler, X + 1)


def test_shared_orthogonal_projections_say_that_the_variance_is_not_theirs(rng):
    X = rng.normal(size=(20, 4))
    params = {"n_components": 48, "n_coefficients": 2, "shared": True}
    assert not hybrid(**params).fit(X).variance_is_exact_
    assert hybrid(coupling="iid", **params).fit(X).variance_is_exact_


@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("shared", [False, True])
def test_no_variance_at_angles_0_and_pi(shared, kernel, coupling, rng):
    X = rng.normal(size=(10, 6))
    X *= 1.2 / np.linalg.norm(X, axis=1, keepdims=True)
    params = {"kernel": kernel, "coupling": coupling, "shared": shared}
    sampler = hybrid(n_components=4 * 3 * 5, n_coefficients=4, **params).fit(X)
    for Y in (X, -X):
        exact = np.diag(sampler.exact_kernel(X, Y))
        assert np.diag(sampler.kernel_variance(X, Y)).max() < 1e-20
        assert_allclose(np.diag(sampler.approximate_kernel(X, Y)), exact, rtol=1e-12)
    gaussian = clone(sampler).set_params(kind="gaussian", n_components=4 * 3 * 9)
    gaussian.fit(X)
    assert np.diag(gaussian.kernel_variance(X)).max() < 1e-20
    assert np.diag(gaussian.kernel_variance(X, -X)).min() > 1e-6


def test_angular_variance_falls_like_theta():
    r, m, n = 1.5, 10, 4
    theta = 1e-4
    X = r * np.array([[1.0, 0.0]])
    Y = r * np.array([[np.cos(theta), np.sin(theta)]])
    params = {"kernel": "softmax", "coupling": "iid", "n_coefficients": n}
    sampler = hybrid(n_components=4 * m * (n + 1), **params).fit(X)
    error = np.sqrt(sampler.kernel_variance(X, Y)) / sampler.exact_kernel(X, Y)
    w = np.exp(2 * r**2) * -np.expm1(-4 * r**2)  # HRF theorem 3.5
    assert_allclose(error / theta**0.5, w / (2 * np.pi * m * n) ** 0.5, rtol=1e-3)


# ----------------------------------------------------------------------- layouts
def fit_quietly(sampler, X):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This hybrid needs", UserWarning)
        return sampler.fit(X)


@pytest.mark.parametrize("kind", list(KINDS))
def test_every_width_is_filled(kind, rng):
    X = 0.5 * rng.normal(size=(30, 3))
    for n_components in (*range(1, 31), 63, 64, 97):
        sampler = hybrid(n_components=n_components, **KINDS[kind])
        features = fit_quietly(sampler, X).transform(X)
        assert features.shape == (30, n_components)
        assert np.isfinite(features).all()
        if kind in ("angular", "gaussian"):
            assert (features != 0).any(axis=0).all()


def test_too_few_columns_leave_the_last_base_alone(rng):
    X = rng.normal(size=(30, 3))
    with pytest.warns(UserWarning, match=r"needs n_components=8 or more, got.*=7"):
        sampler = hybrid(n_components=7).fit(X)
    assert isinstance(sampler.bases_[0], TrigRBFSampler)
    assert sampler.coefficients_ == []
    assert hybrid(n_components=8).fit(X).coefficients_ != []
    with pytest.warns(UserWarning, match=r"needs n_components=20 or more"):
        hybrid(n_components=19, n_coefficients=4).fit(X)
    with pytest.warns(UserWarning, match=r"needs n_components=18 or more"):
        sampler = hybrid(n_components=17, kind="clustered", n_clusters=3).fit(X)
    assert isinstance(sampler.bases_[0], TrigRBFSampler)


def test_spare_columns(rng):
    X = 0.3 * rng.normal(size=(40, 3))
    # costs 2 (n + 1) = 6 a frequency of one base map
    widths = {
        n: [
            b.n_components
            for b in hybrid(n_components=n, n_coefficients=2).fit(X).bases_
        ]
        for n in (24, 29, 30, 36)
    }
    assert widths == {24: [4, 4], 29: [4, 4], 30: [4, 6], 36: [6, 6]}
    sampler = hybrid(n_components=29, n_coefficients=2).fit(X)
    assert sampler.spare_.n_components == 5
    whole = hybrid(n_components=24, n_coefficients=2).fit(X)
    assert sampler.kernel_variance(X).mean() < whole.kernel_variance(X).mean()


def test_automatic_number_of_coefficients_has_the_least_variance(rng):
    X = rng.normal(size=(60, 4))
    X *= 0.6 / np.linalg.norm(X, axis=1, keepdims=True)
    X[:, 0] += 1.0  # small angles: few coefficients cost most
    chosen = hybrid(n_components=4 * 840).fit(X)
    variances = {}
    for n in (1, 2, 3, 4, 5, 6, 7, 9, 11, 13):  # n + 1 divides 840: all are filled
        sampler = hybrid(n_components=4 * 840, n_coefficients=n).fit(X)
        assert sampler.spare_ is None
        variances[n] = sampler.kernel_variance(X).mean()
    best = min(variances, key=variances.get)
    assert 1 < chosen.coefficients_[0].n_components < 13
    assert chosen.kernel_variance(X).mean() < 1.05 * variances[best]


# ---------------------------------------------------------------------- clusters
def two_clusters(rng, width=0.1, d=6):
    """Return queries and keys of two clusters each, and their centres."""
    centers = rng.normal(size=(4, d)) * 0.8
    X, Y = (
        np.repeat(c, 60, axis=0) + width * rng.normal(size=(120, d))
        for c in (centers[:2], centers[2:])
    )
    return X, Y, centers[:2], centers[2:]


def clustered(**params):
    base = ClusteredSampler(**params)
    return hybrid(kind="clustered", bases=[base], n_components=80, kernel="softmax")


def test_no_variance_at_the_centres_with_complex_diagonals(rng):
    X, Y, *_ = two_clusters(rng)
    sampler = clustered(statistic="centers").fit(X, X_key=Y)
    queries, keys = (side.centers for side in sampler.bases_[0].clusters_)
    exact = sampler.exact_kernel(queries, keys)
    assert (sampler.kernel_variance(queries, keys) / exact**2).max() < 1e-13
    assert_allclose(sampler.approximate_kernel(queries, keys), exact, rtol=1e-12)
    real = clustered(statistic="centers", diagonal="real").fit(X, X_key=Y)
    assert (real.kernel_variance(queries, keys) / exact**2).max() > 1e-2


def test_moments_lower_the_variance_of_wide_clusters(rng):
    X, Y, *_ = two_clusters(rng, width=0.3)

    def log_variance(statistic):
        sampler = clustered(statistic=statistic).fit(X, X_key=Y)
        relative = sampler.kernel_variance(X, Y) / sampler.exact_kernel(X, Y) ** 2
        return np.log(relative).mean()

    assert log_variance("moments") < log_variance("centers") - 0.1


def test_clusters_are_found_and_rows_keep_their_block(rng):
    X, Y, queries, keys = two_clusters(rng)
    sampler = clustered().fit(X, X_key=Y)
    base = sampler.bases_[0]
    for side, centers in zip(base.clusters_, (queries, keys), strict=True):
        distance = np.abs(side.centers[:, None] - centers).max(axis=2).min(axis=1)
        assert distance.max() < 0.1
        assert_allclose(side.shares, [0.5, 0.5])
        assert_allclose(side.spreads, 0.01, atol=0.008)
    features = sampler.transform(X)
    assert len(base.blocks_) == 4
    assert sum(b.columns.stop - b.columns.start for b in base.blocks_) == 80
    for i, label in enumerate(base.clusters_[0].assign(X)):
        for block in base.blocks_:
            active = features[i, block.columns] != 0
            assert active.all() if block.queries[label] else not active.any()
    product = features @ sampler.transform_key(Y).T
    assert_allclose(sampler.approximate_kernel(X, Y), product, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("statistic", ["moments", "centers"])
def test_clustered_beats_its_default_and_is_unbiased(statistic, rng):
    X, Y, *_ = two_clusters(rng)
    X, Y = X[::15], Y[::15]
    sampler = clustered(statistic=statistic).set_params(coupling="iid")
    fitted = sampler.fit(X, X_key=Y)
    trig = TrigRBFSampler(sigma=1.0, n_components=80, kernel="softmax").fit(X)
    assert fitted.kernel_variance(X, Y).mean() < trig.kernel_variance(X, Y).mean()
    draws = (clone(sampler).set_params(random_state=k) for k in range(100))
    estimates = [s.fit(X, X_key=Y).approximate_kernel(X, Y) for s in draws]
    assert_mean(np.stack(estimates), fitted.exact_kernel(X, Y))


def test_only_the_most_massive_pairs_have_a_map(rng):
    X = rng.normal(size=(90, 3)) * 0.1
    X[:60] += 1.0
    sampler = hybrid(
        kind="clustered",
        bases=[ClusteredSampler(n_pairs=1, default=OPRFSampler(), coupling="iid")],
        n_components=60,
    ).fit(X)
    blocks = sampler.bases_[0].blocks_
    kinds = [type(block.part) for block in blocks]
    assert kinds == [ComplexExponentialSampler, OPRFSampler, OPRFSampler]
    big = int(np.argmax(sampler.bases_[0].clusters_[0].shares))
    assert blocks[0].queries[big]
    assert blocks[0].keys[big]
    assert blocks[0].queries.sum() == 1
    exact, estimate = sampler.exact_kernel(X), sampler.approximate_kernel(X)
    assert_allclose(sampler.transform(X) @ sampler.transform_key(X).T, estimate)
    z = (estimate - exact) / np.sqrt(sampler.kernel_variance(X) + 1e-24)
    assert np.abs(z).mean() < 2
    none = clone(sampler).set_params(bases=[ClusteredSampler(n_pairs=0)]).fit(X)
    assert len(none.bases_[0].blocks_) == 2


def test_other_clusterers_and_counts(rng):
    X = rng.normal(size=(50, 3))
    base = ClusteredSampler(
        clusterer=MiniBatchKMeans(n_init=1, batch_size=16), n_clusters=(3, 2)
    )
    sampler = hybrid(kind="clustered", bases=[base], n_components=120).fit(X)
    queries, keys = sampler.bases_[0].clusters_
    assert len(queries.centers) == 3
    assert len(keys.centers) == 2
    few = hybrid(kind="clustered", n_clusters=4, n_components=80).fit(X[:2])
    assert len(few.bases_[0].clusters_[0].centers) == 2
    same = hybrid(kind="clustered", n_clusters=3, n_components=80).fit(np.ones((9, 2)))
    assert np.isfinite(same.transform(np.ones((9, 2)))).all()
    with pytest.raises(ValueError, match=r"n_clusters=\(1, 2, 3\) must be"):
        hybrid(kind="clustered", n_clusters=(1, 2, 3)).fit(X)


def test_zero_coordinates_of_centres():
    zero, one = np.zeros(3), np.array([0.0, 1.0, -1.0])
    assert_allclose(best_diagonal(zero, zero), 1)
    a = best_diagonal(zero, one)
    assert_allclose(a, [1, 1e3, 1e3])  # (1 / 1e-12)^(1/4)
    assert_allclose(best_diagonal(one, zero), [1, 1e-3, 1e-3])
    a = best_diagonal(np.array([1.0]), np.array([1e30]), real=True)
    assert a == 1e6  # clipped
    # second moments make the zero cases regular
    assert_allclose(best_diagonal(zero, one, 0.04, 0.04), [1, *[26**0.25] * 2])


# ------------------------------------------------------------- maps from elsewhere
class Laplacian(TrigonometricSampler):
    """exp(-|x - y|), written outside the package."""

    def __init__(
        self, *, sigma=1.0, n_components=100, coupling="iid", n_jobs=None,
        random_state=None,
    ):  # fmt: skip
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _profile(self, r):
        return np.exp(-r)

    def _radial_law(self, n_features):
        return _CauchyLike(n_features)


class _CauchyLike:
    """Norm of a Gaussian vector over an independent absolute normal variable."""

    def __init__(self, n_features):
        self.n_features = n_features

    def rvs(self, size, random_state):
        uniform = random_state.uniform(size=(np.prod(size), 2))
        norms = chi_law(self.n_features).ppf(uniform[:, 0])
        return (norms / chi_law(1).ppf(uniform[:, 1])).reshape(size)


class Bare(TransformerMixin, BaseEstimator):
    """Random Fourier features with nothing but what a base map needs."""

    def __init__(self, n_components=10, random_state=None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.RandomState(self.random_state)
        self.w_ = rng.normal(size=(X.shape[1], self.n_components))
        self.b_ = rng.uniform(0, 2 * np.pi, size=self.n_components)
        return self

    def transform(self, X):
        return np.sqrt(2 / self.n_components) * np.cos(X @ self.w_ + self.b_)

    def exact_kernel(self, X, Y=None):
        Y = X if Y is None else Y
        return np.exp(-0.5 * ((X[:, None] - Y) ** 2).sum(axis=2))

    def kernel_variance(self, X, Y=None):
        kernel = self.exact_kernel(X, Y)
        return (1 + 0.5 * kernel**4 - kernel**2) / self.n_components


def test_the_third_party_sampler_passes_the_contract():
    check_sampler(Laplacian())


@pytest.mark.parametrize(
    "params",
    [
        {"bases": [Laplacian(), TrigRBFSampler(coupling="iid")]},
        {"bases": [TrigRBFSampler(coupling="iid"), Laplacian()]},
        {"coefficients": [Laplacian(n_components=4)]},
        {"bases": [Bare(), PositivePairSampler(coupling="iid")]},
        {"bases": [PositivePairSampler(coupling="iid"), Bare()]},
        {"coefficients": [Bare(n_components=3)]},
        {"bases": [PoissonSampler(), OPRFSampler(coupling="iid")]},
    ],
)
def test_samplers_from_elsewhere(params):
    X = contract_rows(4)
    sampler = hybrid(n_components=60, coupling="iid", **params)
    draws = [
        clone(sampler).set_params(random_state=k).fit(X).approximate_kernel(X)
        for k in range(120)
    ]
    fitted = sampler.fit(X)
    means = [
        a + part.exact_kernel(X)
        for a, part in zip(fitted.a_, fitted.coefficients_, strict=True)
    ]
    kernels = [base.exact_kernel(X) for base in fitted.bases_]
    expected = means[0] * kernels[0] + (1 - means[0]) * kernels[1]
    if fitted.spare_ is None:
        assert_allclose(fitted.exact_kernel(X), expected, rtol=1e-12)
    assert_mean(np.stack(draws), fitted.exact_kernel(X))
    ratio = np.var(draws, axis=0, ddof=1).sum() / fitted.kernel_variance(X).sum()
    assert 0.7 < ratio < 1.4


def test_a_hybrid_of_a_hybrid():
    X = contract_rows(3)
    inner = HybridSampler(n_coefficients=1, coupling="iid")
    sampler = hybrid(
        bases=[inner, TrigRBFSampler(coupling="iid")],
        coefficients=[GaussianCoefficient(n_components=4, coupling="iid")],
        n_components=200,
    )
    draws = [
        clone(sampler).set_params(random_state=k).fit(X).approximate_kernel(X)
        for k in range(100)
    ]
    fitted = sampler.fit(X)
    assert_mean(np.stack(draws), np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)))
    ratio = np.var(draws, axis=0, ddof=1).sum() / fitted.kernel_variance(X).sum()
    assert 0.7 < ratio < 1.4


def test_a_base_of_another_width():
    class Wide(Bare):
        def transform(self, X):
            return np.hstack([super().transform(X)] * 2)

    with pytest.raises(ValueError, match="a base must have exactly as many"):
        hybrid(bases=[Wide(), TrigRBFSampler()]).fit(contract_rows())


# ------------------------------------------------------------------ the interface
def test_a_coupling_of_ones_own(rng, monkeypatch):
    X = rng.normal(size=(20, 4))
    monkeypatch.setattr(_coupling, "_REGISTRY", _coupling._REGISTRY | {"own": Own})
    own, orthogonal = (
        hybrid(coupling=coupling).fit(X) for coupling in ("own", "orthogonal")
    )
    assert_allclose(own.transform(X), orthogonal.transform(X))
    assert own.variance_is_exact_
    for coupling in ("structured-orthogonal", StructuredOrthogonal()):
        assert hybrid(coupling=coupling).fit(X).coefficients_[0].variance_is_exact_
        with pytest.raises(ValueError, match=r"use .*'iid', 'orthogonal'"):
            AngularCoefficient(coupling=coupling).fit(X)


class Own(Orthogonal):
    """Under a name of its own."""


@pytest.mark.parametrize("base", [OPRFSampler(), ComplexExponentialSampler(2.0)])
def test_one_row_through_maps_of_one_column(base, rng):
    X = rng.normal(size=(5, 3))
    coefficients = [MixtureCoefficient(n_components=1)]
    bases = [base, OPRFSampler()]
    sampler = hybrid(bases=bases, coefficients=coefficients, n_components=3).fit(X)
    assert [part.n_components for part in sampler.bases_] == [1, 1]
    expected = sampler.transform(X)[:1]
    assert_allclose(sampler.transform(X[:1]), expected, rtol=1e-10)
    expected = sampler.transform(X[:1]) @ sampler.transform_key(X).T
    assert_allclose(sampler.approximate_kernel(X[:1], X), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_no_row_is_lost_between_large_and_small_factors(kind, kernel, rng):
    X = rng.normal(size=(30, 8))
    far = np.vstack([30 * X, 0 * X[:1]])
    sampler = hybrid(n_components=200, kernel=kernel, **KINDS[kind]).fit(X)
    with warnings.catch_warnings():  # features may overflow or vanish, and say so
        warnings.filterwarnings("ignore", "Features of|All features of")
        for features in (sampler.transform(far), sampler.transform_key(far)):
            assert not np.any(np.isnan(features))
    assert not np.any(np.isnan(sampler.approximate_kernel(far)))
    assert np.all(sampler.kernel_variance(far) >= 0)


def test_sigma_center_and_row_factors(rng):
    X = rng.normal(size=(40, 3)) + 5
    params = {"n_components": 48, "n_coefficients": 2}
    plain = hybrid(sigma=1.0, **params)
    center = X.mean(axis=0)
    sigma = np.array([0.2, 0.3, 0.1])
    centred = hybrid(sigma=sigma, center=True, **params).fit(X)
    expected = clone(plain).fit((X - center) * sigma).transform((X - center) * sigma)
    assert_allclose(centred.transform(X), expected, atol=1e-10)
    softmax = clone(centred).set_params(kernel="softmax").fit(X)
    factor = np.exp(0.5 * ((X * sigma) ** 2).sum(axis=1))
    assert_allclose(softmax.transform(X), centred.transform(X) * factor[:, None])
    assert_allclose(softmax.exact_kernel(X), np.exp((X * sigma) @ (X * sigma).T))
    expected = centred.kernel_variance(X) * np.outer(factor, factor) ** 2
    assert_allclose(softmax.kernel_variance(X), expected)
    table = sparse.csr_array(X)
    for sampler in (clone(centred), clone(softmax)):
        dense = sampler.fit(X).transform_key(X)
        assert_allclose(sampler.fit(table).transform_key(table), dense, atol=1e-8)


@pytest.mark.parametrize("kind", ["angular", "gaussian", "clustered"])
def test_path_over_sigma(kind, rng):
    X = rng.normal(size=(50, 3))
    sampler = hybrid(kind=kind, n_components=40, n_coefficients=2).fit(X)
    path = [sampler.with_sigma(sigma) for sigma in (0.3, 0.7)]
    for member, sigma in zip(path, (0.3, 0.7), strict=True):
        again = clone(sampler).set_params(sigma=sigma).fit(X)
        assert_allclose(member.transform(X), again.transform(X), atol=1e-12)
    for rows, features in sampler.iter_path(X, path):
        for member, (mantissa, exponent) in zip(path, features, strict=True):
            values = mantissa if exponent is None else mantissa * np.exp(exponent)
            assert_allclose(values, member.transform(X[rows]), atol=1e-12)
    assert sampler.prefix(39) is None
    assert sampler.prefix(40).tolist() == list(range(40))


def test_weights_are_repetitions(rng):
    X = rng.normal(size=(40, 3))
    weights = rng.integers(0, 3, size=40)
    for kind in KINDS.values():
        sampler = hybrid(n_components=60, sigma="scale", **kind)
        weighted = sampler.fit(X, sample_weight=weights).transform(X)
        repeated = clone(sampler).fit(np.repeat(X, weights, axis=0)).transform(X)
        assert_allclose(weighted, repeated, atol=1e-8)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kind": "spherical"}, "'kind' parameter of HybridSampler must be a str"),
        ({"n_coefficients": 0}, "'n_coefficients' parameter of HybridSampler must"),
        ({"lambda_sigma": 0.0}, "'lambda_sigma' parameter of HybridSampler must"),
        ({"bases": [TrigRBFSampler()]}, "1 bases and 1 coefficients do not fit"),
        ({"coefficients": []}, "2 bases and 0 coefficients do not fit"),
        ({"coupling": "none"}, "coupling='none' is not one that"),
        ({"bases": ["trig", "pos"]}, "is no sampler: it lacks fit, transform"),
        ({"coefficients": [3]}, "is no sampler: it lacks fit, transform"),
        (
            {"bases": [TrigRBFSampler(), RBFSampler()]},
            r"RBFSampler\(\) is no sampler: it lacks exact_kernel, kernel_variance",
        ),
        ({"bases": [OPRFSampler, TrigRBFSampler]}, "is no sampler: it is a class"),
        ({"sigma": -1.0}, "sigma"),
    ],
)
def test_errors(params, message):
    with pytest.raises(ValueError, match=message):
        hybrid(**params).fit(contract_rows())


def test_errors_of_the_maps(pair4):
    with pytest.raises(ValueError, match="must be finite and nonzero"):
        ComplexExponentialSampler([1.0, 0.0, 1.0, 1.0]).fit(pair4[0])
    with pytest.raises(ValueError, match="one for each of the 4 features"):
        ComplexExponentialSampler([1.0, 1.0]).fit(pair4[0])
    with pytest.raises(NotFittedError):
        HybridSampler().transform(pair4[0])


def test_lambda_is_0_for_equal_rows_and_1_for_opposite_ones(rng):
    X = rng.normal(size=(9, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for part in (AngularCoefficient(), GaussianCoefficient(sigma=0.3)):
        part.fit(X)
        assert_allclose(np.diag(part.a_ + part.exact_kernel(X)), 0, atol=1e-14)
        assert_allclose(np.diag(part.a_ + part.exact_kernel(X, -X)), 1, atol=1e-14)
    assert part.fit(np.zeros((3, 2))).a_ == 1.0


def test_angles_at_zero_rows():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    part = AngularCoefficient(n_components=50, random_state=0).fit(X)
    assert_allclose(part.exact_kernel(X) + 0.5, [[0, 0.5], [0.5, 0]])
    assert_allclose(np.diag(part.approximate_kernel(X)), -0.5)


# ---------------------------------------------------------------- Nadaraya-Watson
@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_nadaraya_watson_at_extreme_sigmas(kind, wine):
    X, y = wine
    for kernel in ("gaussian", "softmax"):
        for sigma in (1e-2, 1.0, 1e2):
            sampler = hybrid(sigma=sigma, kernel=kernel, n_components=60, **KINDS[kind])
            model = NadarayaWatsonClassifier(sampler).fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()
            probabilities = NadarayaWatsonRegressor(sampler).fit(X, y).predict(X)
            assert np.isfinite(probabilities).all()


def test_nadaraya_watson_uses_both_sides(wine):
    X, y = wine
    model = NadarayaWatsonClassifier(hybrid(sigma=0.2, n_components=4000)).fit(X, y)
    sampler = model.sampler_
    sums = sampler.transform_key(X).T @ (y[:, None] == np.arange(3))
    assert_allclose(model.decision_function(X), sampler.transform(X) @ sums)
    exact = NadarayaWatsonClassifier("exact", sigma=0.2).fit(X, y)
    assert_allclose(model.predict_proba(X), exact.predict_proba(X), atol=0.2)


def test_mixture_coefficient_is_one_at_the_centres(rng):
    x, y = rng.normal(size=(2, 4))
    a = best_diagonal(x, -np.sign(x) * np.abs(y)).real
    part = MixtureCoefficient(a).fit(x[None])
    assert_allclose(part.exact_kernel(x[None], -(a**2 * x)[None]), 1)


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_grid_over_sigmas_and_widths(wine):
    X, y = wine
    sampler = HybridSampler(random_state=0, n_coefficients=1)
    options = {"sigmas": [0.2, 0.4], "n_components": [24, 40], "cv": 3}
    search = NadarayaWatsonClassifierCV(sampler, **options).fit(X, y)
    for params, score in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_score"],
        strict=True,
    ):
        model = NadarayaWatsonClassifier(clone(sampler).set_params(**params))
        expected = cross_val_score(model, X, y, cv=3).mean()
        assert_allclose(score, expected)
