"""A script as users write it: .ci/run shows that type checkers accept all of it.

``assert_type`` fails where a type is lost, which alone no checker would mind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import numpy as np
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sklearn_crt.kernels
from sklearn_crt import (
    CentersRBFSampler,
    DERFSampler,
    LearnedMetric,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
    compare_samplers,
    n_components_for,
)
from sklearn_crt.accuracy import Comparison
from sklearn_crt.attention import (
    LinearAttentionState,
    fit_heads,
    fmm_attention,
    linear_attention,
    softmax_attention,
)
from sklearn_crt.datasets import fetch_uci
from sklearn_crt.extend import (
    Coupling,
    FeatureMap,
    Frequencies,
    Orthogonal,
    RadialKernel,
    RadialLaw,
    chi_law,
)
from sklearn_crt.kernels import (
    ExponentialPower,
    Matern,
    matern_kernel,
)
from sklearn_crt.samplers import (
    AnchoredRBFSampler,
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    ExponentialPowerSampler,
    GaussianCoefficient,
    GeometricSampler,
    GERFSampler,
    HybridSampler,
    LaplacianSampler,
    MaternSampler,
    PoissonSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
)
from sklearn_crt.testing import assert_unbiased
from sklearn_crt.theory import rf_conformity

X, y = load_iris(return_X_y=True)
X = StandardScaler().fit_transform(X)
numbers = X[:, 0] + X[:, 1]


class Twins(Coupling):
    """Pairs of equal frequencies."""

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        half = -(-n_frequencies // 2)
        drawn = Orthogonal().draw(radial_law, half, n_features, rng).to_dense()
        return Frequencies(np.repeat(drawn, 2, axis=1)[:, :n_frequencies])


class Peaked(RadialKernel):
    """The kernel 1 / (1 + r^2)."""

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return np.asarray(-np.log1p(r**2))


def samplers() -> None:
    trig = TrigRBFSampler(sigma=0.5, n_components=64, random_state=0)
    assert_type(trig.fit(X), TrigRBFSampler)
    assert_type(trig.fit(X, y).partial_fit(X), TrigRBFSampler)
    assert_type(trig.fit_transform(X, y), np.ndarray)
    assert_type(trig.transform(X), np.ndarray)
    assert_type(trig.exact_kernel(X), np.ndarray)
    assert_type(trig.approximate_kernel(X, X[:5]), np.ndarray)
    assert_type(trig.kernel_variance(X), np.ndarray)
    assert_type(trig.with_sigma("scale"), TrigRBFSampler)
    assert_type(trig.sigma_, float | np.ndarray)
    assert_type(trig.map_, FeatureMap)
    assert_type(trig.frequencies_, np.ndarray)
    assert_type(trig.n_features_in_, int)
    assert_type(trig.symmetric_ and trig.variance_is_exact_, bool)
    other = TrigRBFSampler(sigma=0.5, n_components=64).fit(X)
    assert_type(trig.merge(other).freeze(), TrigRBFSampler)

    assert_type(OPRFSampler(coupling="antithetic").fit(X).A_, float)
    assert_type(DERFSampler(sigma=np.full(4, 0.5)).fit(X).A_, np.ndarray)
    assert_type(GERFSampler(sigma=[0.1, 0.2, 0.3, 0.4]).fit(X).s_, int)
    assert_type(PoissonSampler(positive=True, epsilon=1e-6).fit(X).lambda_, float)
    assert_type(GeometricSampler(center=False).fit(X).p_, float)
    anchored = AnchoredRBFSampler(n_anchors=50, n_jobs=1, random_state=0).fit(X)
    assert_type(anchored.points_, np.ndarray)
    PositiveRBFSampler(kernel="softmax", coupling=Twins()).fit(X)
    SimplexRBFSampler(coupling="simplex+", n_jobs=2).fit(X)
    LaplacianSampler(norm="l1", random_phase=True).fit(X)
    MaternSampler(nu=2, shape_matrix=np.eye(4), coupling="iid").fit(X)
    stratified = Orthogonal(stratified=True)
    ExponentialPowerSampler(alpha=1.2, coupling=stratified).fit(X)
    assert_type(CentersRBFSampler(n_components=20).fit_transform(X), np.ndarray)
    metric = LearnedMetric(2, method="agop", columns="linear", random_state=0).fit(X, y)
    assert_type(metric.partial_fit(X, y).merge(metric), LearnedMetric)
    assert_type(metric.components_, np.ndarray)
    assert_type(metric.scores_, dict[str, float])

    complex_sampler = ComplexExponentialSampler([2j, 0.5, 1j, 1.0], sigma=1.0)
    assert_type(complex_sampler.fit(X).matrix_, np.ndarray)
    HybridSampler(
        bases=[("complex", complex_sampler), ("trigonometric", TrigRBFSampler())],
        coefficients=[("distance", GaussianCoefficient(sigma=0.5))],
        n_coefficients=2,
        n_components=500,
        random_state=np.random.RandomState(0),
    ).fit(X)
    assert_type(angular_hybrid(n_coefficients=8, shared=True), HybridSampler)
    assert_type(gaussian_hybrid(lambda_sigma=0.5, center=True), HybridSampler)
    assert_type(clustered_hybrid(n_clusters=(2, 3)).fit(X), HybridSampler)
    ClusteredSampler(n_clusters=(2, 3), statistic="centers").fit(X)
    assert_type(AngularCoefficient().fit(X).a_, float)
    assert_unbiased(TrigRBFSampler(sigma=1.0))


def pipelines() -> None:
    model = make_pipeline(
        StandardScaler(), OPRFSampler(random_state=0), LogisticRegression()
    )
    grid = {"oprfsampler__sigma": [0.1, 0.3], "oprfsampler__n_components": [64, 128]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    print(f"{search.best_score_:.2f}", search.best_params_)


def averages() -> None:
    sampler = OPRFSampler(sigma=0.5, n_components=500, random_state=0)
    classifier = NadarayaWatsonClassifier(sampler)
    assert_type(classifier.fit(X, y), NadarayaWatsonClassifier)
    assert_type(classifier.predict(X), np.ndarray)
    assert_type(classifier.predict_proba(X), np.ndarray)
    assert_type(classifier.approximation_error(X).std, np.ndarray)
    assert_type(classifier.classes_, np.ndarray)
    print(f"{classifier.score(X, y):.2f}", classifier.kernel_.map_.n_components)

    frozen = FrozenEstimator(TrigRBFSampler(sigma=0.5, random_state=0).fit(X))
    NadarayaWatsonRegressor(frozen).fit(X, numbers).predict(X)
    ridge = RandomFeatureRidge("matern", sigma="scale", alpha=0.1).fit(X, numbers)
    assert_type(ridge.predict(X), np.ndarray)
    assert_type(ridge.predict(X, return_std=True), tuple[np.ndarray, np.ndarray])
    assert_type(ridge.partial_fit(X, numbers).merge(ridge), RandomFeatureRidge)
    RandomFeatureRidgeClassifier("linear").fit(X, y).decision_function(X)
    NadarayaWatsonRegressor(Nystroem(n_components=20)).fit(X, numbers)
    kernel = ExponentialPower(1.2)
    exact = NadarayaWatsonClassifier(kernel, sigma=[1.0] * X.shape[1])
    assert_type(exact.fit(X, y).predict(X), np.ndarray)
    NadarayaWatsonClassifier(Peaked(), sigma=1.0).fit(X, y)
    NadarayaWatsonClassifier(Prototypes(16, kernel=Matern(nu=2.5))).fit(X, y)
    NadarayaWatsonRegressor(matern_kernel, sigma=1).fit(X, numbers)
    NadarayaWatsonRegressor("linear").fit(np.exp(X), numbers)


def functions() -> None:
    assert_type(matern_kernel(X, nu=2.5, sigma=0.5), np.ndarray)
    assert_type(sklearn_crt.kernels.matern_kernel(X), np.ndarray)
    assert_type(n_components_for(TrigRBFSampler(), X, rms_error=0.1), int)
    errors = compare_samplers([OPRFSampler(), TrigRBFSampler()], X, n_draws=2)
    assert_type(errors, Comparison)
    print(errors)
    print(rf_conformity(0.5, 4), chi_law(4).ppf(np.array([0.5])))


def attention() -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 16, 8))
    softmax = OPRFSampler(kernel="softmax", n_components=32, center=False)
    heads = fit_heads(softmax, q, k)
    assert_type(heads, list[OPRFSampler])
    error = linear_attention(q, k, v, heads) - softmax_attention(q, k, v)
    print(f"{np.abs(error).mean():.2f}", fmm_attention(q, k, v, band=4).shape)
    state = LinearAttentionState("elu+1").update(k[0, :4], v[0, :4])
    print(state.attend(q[0, 4:5]).shape)


def tables() -> None:
    abalone = fetch_uci("abalone")
    print(abalone.data.shape, abalone.feature_names)
    data, target = fetch_uci("banknote", return_X_y=True)
    print(data.shape, target.shape)


def main() -> None:
    samplers()
    pipelines()
    averages()
    functions()
    attention()


if __name__ == "__main__":
    main()
    tables()
