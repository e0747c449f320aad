"""Random features as a layer of torch."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from sklearn_crt import DERFSampler, OPRFSampler, TrigRBFSampler  # noqa: E402
from sklearn_crt.attention.torch import RandomFeatures  # noqa: E402
from sklearn_crt.samplers import (  # noqa: E402
    GERFSampler,
    HybridSampler,
    LaplacianSampler,
    PositiveRBFSampler,
)

SIGMAS = np.array([0.3, 0.7, 0.5])
SAMPLERS = [
    TrigRBFSampler(n_components=33),
    TrigRBFSampler(n_components=32, sigma=SIGMAS, kernel="softmax"),
    PositiveRBFSampler(n_components=32),
    TrigRBFSampler(n_components=32, coupling="structured-orthogonal"),
    OPRFSampler(n_components=32, coupling="antithetic"),
    GERFSampler(n_components=32),
    DERFSampler(n_components=32),
    LaplacianSampler(n_components=32),
    HybridSampler(n_components=64),
]


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 3))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_features_are_those_of_the_sampler(sampler, dtype, X):
    if sampler.sigma is not SIGMAS:
        sampler.set_params(sigma=0.5)
    X = X.astype(dtype)
    sampler.set_params(random_state=0).fit(X, X_key=X + 0.5)
    layer, rows = RandomFeatures(sampler, dtype=torch.float64), torch.from_numpy(X)
    tolerance = {"float32": 1e-4, "float64": 1e-10}[dtype]
    for key, expected in (
        (False, sampler.transform(X)),
        (True, sampler.transform_key(X)),
    ):
        found = layer(rows, key=key)
        assert found.dtype == rows.dtype
        np.testing.assert_allclose(found.detach(), expected, tolerance, tolerance)
    assert torch.equal(layer(rows[None])[0], layer(rows))


@pytest.mark.parametrize("sampler", SAMPLERS[:5], ids=lambda s: type(s).__name__)
def test_sigma_has_the_gradient_of_the_features(sampler, X):
    sampler.set_params(random_state=0).fit(X)
    layer = RandomFeatures(sampler, dtype=torch.float64)

    def features(log_sigma):
        layers = {"log_sigma": log_sigma}
        return torch.func.functional_call(layer, layers, torch.from_numpy(X[:4]))

    start = layer.log_sigma.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(features, start)
    assert not RandomFeatures(sampler, learn_sigma=False).log_sigma.requires_grad


def test_sigma_is_learned(X):
    sampler = TrigRBFSampler(sigma=0.2, n_components=256, random_state=0).fit(X)
    rows = torch.from_numpy(X).float()
    kernel = torch.exp(-0.5 * 0.8**2 * torch.cdist(rows, rows) ** 2)
    layer = RandomFeatures(sampler)
    optimizer = torch.optim.Adam(layer.parameters(), 0.05)
    for _ in range(150):
        optimizer.zero_grad()
        features = layer(rows)
        (features @ features.T - kernel).square().mean().backward()
        optimizer.step()
    assert abs(layer.log_sigma.exp().item() - 0.8) < 0.08
    other = RandomFeatures(sampler.set_params(random_state=1).fit(X))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(rows), layer(rows))


def test_errors(X):
    with pytest.raises(ValueError, match="not fitted"):
        RandomFeatures(TrigRBFSampler())
