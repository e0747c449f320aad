"""Our contract, on every sampler with every coupling: add a sampler to one list."""

import pytest

from sklearn_crt import (
    GERFSampler,
    OPRFSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.frequencies import (
    Independent,
    Orthogonal,
    Simplex,
    SimplexPlus,
    chi_law,
    get_coupling,
)
from sklearn_crt.testing import assert_coupling, check_sampler

SAMPLERS = [TrigRBFSampler, PositiveRBFSampler, OPRFSampler, GERFSampler]
COUPLINGS = {
    "iid": Independent(),
    "orthogonal": Orthogonal(),
    "simplex": Simplex(),
    "simplex+": SimplexPlus(),
}
STRUCTURED = ["structured-orthogonal", "structured-simplex"]


@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler(sampler, coupling, kernel, n_features):
    check_sampler(sampler(coupling=coupling, kernel=kernel), n_features)


@pytest.mark.parametrize("n_features", [2, 4])
@pytest.mark.parametrize("coupling", ["simplex", "simplex+"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_with_simplex(sampler, coupling, n_features):
    check_sampler(sampler(coupling=coupling), n_features)


@pytest.mark.parametrize("coupling", ["halton", "sobol"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_with_points(sampler, coupling):
    check_sampler(sampler(coupling=coupling), 3)


@pytest.mark.parametrize("coupling", ["simplex", "simplex+", "halton", "sobol"])
def test_coupling_in_one_dimension(coupling):
    check_sampler(OPRFSampler(coupling=coupling), 1)


@pytest.mark.parametrize("weight_dependent", [False, True])
def test_simplex_sampler(weight_dependent):
    check_sampler(SimplexRBFSampler(weight_dependent=weight_dependent))


@pytest.mark.parametrize("sampler", [*SAMPLERS, SimplexRBFSampler])
def test_sampler_in_more_dimensions(sampler):
    check_sampler(sampler(), 16)


@pytest.mark.parametrize("coupling", STRUCTURED)
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_with_padded_blocks(sampler, coupling):
    check_sampler(sampler(coupling=coupling), 4)


@pytest.mark.parametrize("coupling", STRUCTURED)
@pytest.mark.parametrize("n_features", [1, 2, 16])
def test_structured_blocks(coupling, n_features):
    check_sampler(OPRFSampler(coupling=coupling), n_features)


@pytest.mark.parametrize("n_features", [16, 64])
@pytest.mark.parametrize("coupling", STRUCTURED)
def test_structured_coupling(coupling, n_features):
    assert_coupling(get_coupling(coupling, "test"), chi_law, n_features, n_blocks=2000)


@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 16])
@pytest.mark.parametrize("coupling", list(COUPLINGS.values()), ids=list(COUPLINGS))
def test_coupling(coupling, n_features):
    assert_coupling(coupling, chi_law, n_features)


def test_sampler_with_a_coupling_object():
    check_sampler(OPRFSampler(coupling=Orthogonal()))


class SomeAngle(Orthogonal):
    """Says nothing of its angles."""

    def cosine(self, n_features):
        return None


def test_sampler_without_a_closed_form():
    check_sampler(TrigRBFSampler(coupling=SomeAngle()))
