"""Our contract, on every sampler and coupling of the registries."""

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from sklearn_crt import DERFSampler, OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import (
    Antithetic,
    Independent,
    Orthogonal,
    Simplex,
    SimplexPlus,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
)
from sklearn_crt.frequencies import coupling_names
from sklearn_crt.samplers import (
    AnchoredRBFSampler,
    AngularCoefficient,
    ComplexExponentialSampler,
    ExponentialPowerSampler,
    GaussianCoefficient,
    GaussianMixtureSampler,
    HybridSampler,
    LaplacianSampler,
    MaternSampler,
    SimplexRBFSampler,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
)
from sklearn_crt.testing import assert_coupling, check_sampler
from sklearn_crt.testing.estimates import contract_rows

from .cases import sampler_classes

pytestmark = pytest.mark.usefixtures("shared_draws", "few_seeds")

CLASSES = sampler_classes()
SAMPLERS = [  # of the Gaussian kernel, with isotropic frequencies
    cls
    for cls in CLASSES
    if {"coupling", "kernel"} <= set(cls().get_params())
    # the first has the code of PositiveRBFSampler, the second is a hybrid
    and cls not in (SimplexRBFSampler, GaussianMixtureSampler)
]
assert len(SAMPLERS) == 6, SAMPLERS
SLOW = pytest.mark.slow
WITHOUT_NORMS = AnchoredRBFSampler, DERFSampler  # no number weighs a frequency
COUPLINGS = {
    "iid": Independent(),
    "orthogonal": Orthogonal(),
    "antithetic": Antithetic(),
    "simplex": Simplex(),
    "simplex+": SimplexPlus(),
}
POINTS = ["halton", "sobol"]  # all of which depend on each other
APPROXIMATE = {  # directions that are nearly uniform
    "structured-orthogonal": StructuredOrthogonal(),
    "structured-simplex": StructuredSimplex(),
}
NAMES = set(coupling_names())  # before any test registers one
STRATIFIED = Orthogonal(stratified=True)
RADIAL = [
    LaplacianSampler(),
    *(MaternSampler(nu=nu) for nu in (1.5, 4, np.inf)),
    *(ExponentialPowerSampler(alpha=alpha) for alpha in (0.5, 1.5, 2.0)),
]
MORE_RADIAL = [
    *(MaternSampler(nu=nu) for nu in (0.5, 2.5)),
    ExponentialPowerSampler(alpha=1.0),
]


def mostly_slow(*usual):
    """Return all samplers, of which few are judged in each run.

    What a test varies meets them by one method of their maps, which the few represent.
    """
    return [cls if cls in usual else pytest.param(cls, marks=SLOW) for cls in SAMPLERS]


def test_each_coupling_of_the_registry_is_judged():
    assert {*COUPLINGS, *POINTS, *APPROXIMATE} == NAMES


@pytest.mark.parametrize("sampler", CLASSES)
def test_every_public_sampler(sampler):
    # a mixture needs more columns for all of its maps
    n_components = 130 if sampler is GaussianMixtureSampler else 24
    check_sampler(sampler(n_components=n_components), 3)


@pytest.mark.each_value
@pytest.mark.parametrize("n_features", [1, 2, 4])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler(sampler, coupling, kernel, n_features):
    check_sampler(sampler(coupling=coupling, kernel=kernel), n_features)


@pytest.mark.each_value
@pytest.mark.parametrize("n_features", [2, 4])
@pytest.mark.parametrize("coupling", ["simplex", "simplex+"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_sampler_with_simplex(sampler, coupling, n_features):
    if coupling == "simplex+" and sampler in WITHOUT_NORMS:
        with pytest.raises(
            ValueError, match=r"'simplex\+' is not supported by.*use one of.*'simplex'"
        ):
            check_sampler(sampler(coupling=coupling), n_features)
    else:
        check_sampler(sampler(coupling=coupling), n_features)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", POINTS)
@pytest.mark.parametrize("sampler", mostly_slow(OPRFSampler, TrigRBFSampler))
def test_sampler_with_points(sampler, coupling):
    check_sampler(sampler(coupling=coupling), 3)


@pytest.mark.parametrize("coupling", ["simplex", "simplex+", *POINTS])
def test_coupling_in_one_dimension(coupling):
    check_sampler(OPRFSampler(coupling=coupling), 1)


@pytest.mark.parametrize("coupling", ["simplex", "simplex+"])
def test_simplex_sampler(coupling):
    check_sampler(SimplexRBFSampler(coupling=coupling))


@pytest.mark.parametrize(
    "sampler",
    [
        *mostly_slow(AnchoredRBFSampler),
        pytest.param(SimplexRBFSampler, marks=SLOW),
    ],
)
def test_sampler_in_more_dimensions(sampler):
    check_sampler(sampler(), 9)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", APPROXIMATE)
@pytest.mark.parametrize("sampler", mostly_slow(OPRFSampler, TrigRBFSampler))
def test_sampler_with_padded_blocks(sampler, coupling):
    check_sampler(sampler(coupling=coupling), 4)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", APPROXIMATE)
@pytest.mark.parametrize(
    "n_features", [1, *(pytest.param(d, marks=SLOW) for d in (2, 16))]
)
def test_structured_blocks(coupling, n_features):
    check_sampler(OPRFSampler(coupling=coupling), n_features)


@pytest.mark.each_value
@pytest.mark.parametrize("n_features", [16, pytest.param(64, marks=SLOW)])
@pytest.mark.parametrize("coupling", APPROXIMATE)
def test_structured_coupling(coupling, n_features):
    assert_coupling(APPROXIMATE[coupling], chi_law, n_features, n_blocks=1000)


@pytest.mark.each_value
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


def shape_matrix(n_features):
    """Return an anisotropic one; the contract rows stay close to the unit ball."""
    M = np.diag(np.linspace(0.3, 1.5, n_features))
    M[0, -1] = M[-1, 0] = 0.3 if n_features > 1 else M[0, 0]
    return M


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["iid", "orthogonal", STRATIFIED], ids=str)
@pytest.mark.parametrize(
    "sampler",
    [*RADIAL, *(pytest.param(sampler, marks=SLOW) for sampler in MORE_RADIAL)],
    ids=str,
)
def test_radial_sampler(sampler, coupling):
    # with a shape matrix where it costs no run of its own; the draws do not change
    M = shape_matrix(3) if coupling == "orthogonal" else None
    check_sampler(clone(sampler).set_params(coupling=coupling, shape_matrix=M), 3)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["simplex", "halton", "sobol"])
@pytest.mark.parametrize(
    "sampler", [LaplacianSampler(), ExponentialPowerSampler(alpha=0.7)], ids=str
)
def test_radial_sampler_with_other_couplings(sampler, coupling):
    check_sampler(
        clone(sampler).set_params(coupling=coupling, shape_matrix=shape_matrix(3)), 3
    )


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [1, 2, 16])
@pytest.mark.parametrize("random_phase", [False, True])
@pytest.mark.parametrize("coupling", ["iid", "orthogonal", STRATIFIED], ids=str)
@pytest.mark.parametrize("sampler", RADIAL + MORE_RADIAL, ids=str)
def test_radial_sampler_in_full(sampler, coupling, random_phase, n_features):
    options = {"coupling": coupling, "random_phase": random_phase}
    sampler = clone(sampler).set_params(
        shape_matrix=shape_matrix(n_features), **options
    )
    check_sampler(sampler, n_features)


@pytest.mark.parametrize(
    "sampler",
    [
        LaplacianSampler(norm="l1"),
        LaplacianSampler(norm="l1", random_phase=True),
        MaternSampler(nu=0.8, random_phase=True),
        pytest.param(
            MaternSampler(nu=2.5, coupling="structured-orthogonal"), marks=SLOW
        ),
        TrigRBFSampler(random_phase=True, kernel="softmax"),
    ],
    ids=str,
)
def test_other_radial_options(sampler):
    check_sampler(sampler)


class HeavyTailed:
    """A norm with P(norm > r) ~ r^-0.7."""

    def __init__(self, n_features):
        self.square = stats.betaprime(n_features / 2, 0.35)

    def ppf(self, u):
        return np.sqrt(self.square.ppf(u))

    def cdf(self, r):
        return self.square.cdf(r**2)

    def rvs(self, size, random_state):
        return self.ppf(random_state.uniform(size=size))


def test_coupling_with_a_heavy_tail():
    assert_coupling(Orthogonal(), HeavyTailed, 5)


def matrix(random_state=0):
    """Return a matrix with 4 columns that is neither symmetric nor far from a turn."""
    rng = np.random.default_rng(random_state)
    return stats.ortho_group.rvs(4, random_state=rng) + 0.1 * rng.normal(size=(4, 4))


PARTS = [
    AngularCoefficient(),
    GaussianCoefficient(sigma=0.8),
    ComplexExponentialSampler([1.0, -0.7, 1.2, 0.9], sigma=1.0),
    ComplexExponentialSampler([1.0, 0.7j, 1.2, 0.9 - 0.2j], sigma=1.0),
    ComplexExponentialSampler(matrix(), sigma=1.0),
    ComplexExponentialSampler(matrix() + 0.4j * matrix(1), sigma=1.0),
    GaussianCoefficient(sigma=0.8, key_matrix=matrix()),
    GaussianCoefficient(
        sigma=0.8, key_matrix=matrix(), query_matrix=matrix(1), positive=True
    ),
]


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["iid", "simplex"])
@pytest.mark.parametrize("part", PARTS)
def test_parts_of_hybrids(part, coupling):
    check_sampler(part.set_params(coupling=coupling))


@pytest.mark.each_value
@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("part", [AngularCoefficient(), GaussianCoefficient()])
def test_parts_of_hybrids_in_other_dimensions(part, n_features):
    check_sampler(part, n_features)


@pytest.mark.slow  # test_every_public_sampler and the other hybrids are not
@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 16, "n_coefficients": 1},
        {"n_components": 4 * 2 * 6 + 10, "n_coefficients": 5, "kernel": "softmax"},
    ],
)
def test_hybrid(params):
    check_sampler(HybridSampler(**params))


def test_angular_hybrid_of_shared_frequencies():
    params = {"n_components": 24, "n_coefficients": 2, "coupling": "iid"}
    check_sampler(angular_hybrid(shared=True, **params))


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"n_coefficients": 2}, marks=SLOW),
        {"kernel": "softmax", "center": True},
    ],
)
def test_gaussian_hybrid(params):
    check_sampler(gaussian_hybrid(n_components=40, **params))


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({"n_components": 32, "coupling": "iid"}, marks=SLOW),
        {"n_components": 32, "diagonal": "real"},
    ],
)
def test_clustered_hybrid(params):
    """Judge it on clear clusters: without, rounding would decide which map it is."""
    X = 0.5 * contract_rows() + 0.25 * np.repeat([[1.0], [-1.0]], 3, axis=0)
    check_sampler(clustered_hybrid(**params), X=X)
