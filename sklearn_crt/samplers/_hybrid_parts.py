"""Parts of hybrids: coefficients, and a class that fits samplers as parts of a map."""

from __future__ import annotations

import copy
import inspect
import math
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from .._compat import RandomState
from ..frequencies import Coupling, chi_law, get_coupling
from ..life_cycle.fitted import check_params, empty_value, read_rows, with_value
from ..maps import FeatureMap, Gaussian, SignMap, ThirdPartyMap, WeightedMap
from ..rows import Frame, Rows, Sigma, Statistics
from ._base import BaseFeatureSampler
from ._trigonometric import has_uniform_directions, make_trigonometric_map
from ._value import fitted


class AngularCoefficient(BaseFeatureSampler):
    r"""Hybrid coefficient theta / pi, estimated from the signs of random projections.

    The features estimate :math:`\theta / \pi - 1/2`, where theta is the angle between
    two rows; :class:`HybridSampler` adds the constant 1/2 (the attribute ``a_``).

    Parameters
    ----------
    n_components : int, default=100
        Number of features, one per direction.
    coupling : str or Coupling, default="orthogonal"
        How the directions depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"`` or a coupling object
        whose ``exact`` is True.

    Attributes
    ----------
    a_ : float
        Constant part of the coefficient, 1/2.

    See Also
    --------
    GaussianCoefficient : One minus a Gaussian kernel as a coefficient.
    HybridSampler : Combination of base maps with coefficients of this kind.

    Notes
    -----
    For n independent directions :math:`t \sim N(0, I_d)` ([1]_; [2]_, equation 19 and
    lemma 3.2),

    .. math::

       r_1(x) = \frac{\operatorname{sign}(t \cdot x)}{\sqrt{2n}}, \quad
       r_2(y) = -\frac{\operatorname{sign}(t \cdot y)}{\sqrt{2n}}, \quad
       E\, r_1(x) \cdot r_2(y) = \frac\theta\pi - \frac12, \quad
       \operatorname{Var} = \frac1n \frac\theta\pi \left(1 - \frac\theta\pi\right)

    The variance also has a closed form for orthogonal directions, but for no other
    coupling. Angles are measured at the origin. The angle between a row of zeros and
    any other row is defined as a right angle.

    References
    ----------
    .. [1] M. X. Goemans, D. P. Williamson, "Improved approximation algorithms for
       maximum cut and satisfiability problems using semidefinite programming",
       J. ACM 42 (1995).
    .. [2] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import AngularCoefficient
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0]])
    >>> coefficient = AngularCoefficient(random_state=0).fit(X)
    >>> coefficient.a_ + coefficient.exact_kernel(X[:1], X)
    array([[0.  , 0.25, 1.  ]])
    """

    _doubtful_below = 0  # no warning, because coefficients may be arbitrarily small
    _parameter_constraints: dict = {
        **{
            name: BaseFeatureSampler._parameter_constraints[name]
            for name in ("n_components", "n_jobs", "random_state")
        },
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def a_(self) -> float:
        """Constant part of the coefficient."""
        check_is_fitted(self)
        return 0.5

    def _make_map(self, statistics, drawn):
        # with structured directions, a row along an axis can have products that are
        # exactly 0
        reason = ", because signs need directions that are exactly uniform"
        name = type(self).__name__
        coupling = get_coupling(self.coupling, name, has_uniform_directions, reason)
        n, rng = self.n_components, statistics.frequency_stream()
        directions = coupling.draw(chi_law, n, statistics.n_features, rng)
        return SignMap(Frame(), n, directions, coupling)

    def with_sigma(self, sigma: Sigma) -> Self:
        """Return a copy, because angles do not change if all rows are rescaled.

        Parameters
        ----------
        sigma : float
            Ignored.

        Returns
        -------
        sampler : AngularCoefficient
            An identical copy.
        """
        check_is_fitted(self)
        return copy.copy(self)


class GaussianCoefficient(BaseFeatureSampler):
    r"""Hybrid coefficient that increases with the distance between the two rows.

    The features estimate :math:`-e^{-\sigma^2 |x - y|^2 / 2} / h`;
    :class:`HybridSampler` adds the constant 1/h (the attribute ``a_``). The coefficient
    is 0 for equal rows, and 1 for opposite rows x and -x with the largest norm in the
    data.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=1.0
        Inverse length scale of the coefficient, for rows that a hybrid has already
        multiplied by its own sigma.
    n_components : int, default=100
        Number of features, two per frequency. If ``n_components`` is odd, the last
        frequency has a single column with a random phase.

    Attributes
    ----------
    a_ : float
        Constant part of the coefficient, 1/h.
    phase_ : float
        Phase of the last column, in radians. It is used only if ``n_components`` is
        odd.

    See Also
    --------
    AngularCoefficient : The angle divided by pi as a coefficient.
    HybridSampler : Combination of base maps with coefficients of this kind.

    Notes
    -----
    Let :math:`t \sim N(0, I_d)` be one of n frequencies, and let r be the largest norm
    in a sample of up to 1000 rows. All rows are multiplied by sigma ([1]_, section F).
    Then

    .. math::

       \lambda(x, y) &= \frac{1 - e^{-|x - y|^2 / 2}}{h}, \quad
       h = 1 - e^{-2 r^2}, \\
       r_1(x) &= \frac{1}{\sqrt{n h}} (\cos t \cdot x, \sin t \cdot x), \quad
       r_2(y) = -r_1(y), \quad
       \operatorname{Var} = \frac{(1 - e^{-|x-y|^2})^2}{2 n h^2}

    The formula for the variance holds for independent frequencies; ``kernel_variance``
    also accounts for orthogonal frequencies.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GaussianCoefficient
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> coefficient = GaussianCoefficient(random_state=0).fit(X)
    >>> (coefficient.a_ + coefficient.exact_kernel(X[:1], X)).round(3)
    array([[0.   , 0.731, 1.   ]])
    """

    map_: WeightedMap
    _doubtful_below = 0  # no warning, because coefficients may be arbitrarily small
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        sigma: Sigma = 1.0,
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _reads(self):
        return {"rows": 1000}

    def _make_map(self, statistics, drawn):
        base = make_trigonometric_map(self, statistics, None, Gaussian(), chi_law)
        weight = -_constant_term(statistics, base.frame)
        return WeightedMap(base.frame, base.n_components, base, weight)

    phase_: float = fitted(
        "map_.base.phase", "Phase of the single last column, in radians."
    )

    @property
    def a_(self) -> float:
        """Constant part of the coefficient, 1/h."""
        return -self.map_.weight


def _constant_term(statistics, frame):
    """Return 1/h, the constant part of a coefficient, for the largest sampled norm."""
    samples = (sample.rows.astype(np.float64) for sample in statistics.side_samples)
    rows = map(frame.rows, samples)
    sq_radius = max(float(some.sq_norms.max(initial=0)) for some in rows)
    h = -math.expm1(-2 * sq_radius)
    # values close to 1 are rounded, so that sparse and dense rows give the same result
    return 1.0 if h == 0 or h > 1 - 1e-12 else 1 / h


class ScaledRows(NamedTuple):
    """Distinct sampled queries or keys, multiplied by sigma, and their weights."""

    rows: Rows  # (n_rows, n_features)
    weights: np.ndarray  # (n_rows,)


class PartFitter:
    """Fits the parts of a map, all of them on the same sampled and scaled rows."""

    def __init__(self, statistics: Statistics, frame: Frame):
        distinct = (sample.distinct() for sample in statistics.side_samples)
        self.sides = [
            ScaledRows(frame.rows(rows).matrix, weights) for rows, weights in distinct
        ]

    def fit(self, part: Any, seed: int, **params: Any) -> Any:
        """Return a fitted clone of a sampler; unknown parameters are ignored."""
        params = {**params, "random_state": int(seed)}
        known = part.get_params(deep=False)
        params = {name: value for name, value in params.items() if name in known}
        _check_not_overridden(part, known, params)
        part, options = clone(part).set_params(**params), {}
        rows, weights = self.sides[0]
        if np.any(weights != 1) and has_fit_parameter(part, "sample_weight"):
            options["sample_weight"] = weights
        if len(self.sides) > 1 and has_fit_parameter(part, "X_key"):
            options["X_key"] = self.sides[1].rows
        if not isinstance(part, BaseFeatureSampler):
            return part.fit(rows, **options)
        # without the warnings of ``fit``, which are about the error of the part alone
        check_params(part)
        others = options.get("X_key"), options.get("sample_weight")
        part, batch = read_rows(part, rows, None, *others)
        return with_value(part, empty_value(part, batch).plus(batch))

    def fit_base(self, part: Any, seed: int, n_components: int) -> Any:
        """Return a fitted base sampler with this many columns and a Gaussian kernel."""
        params = {"n_components": n_components, "sigma": 1.0, "kernel": "gaussian"}
        fitted = self.fit(part, seed, **params)
        width = self.map_of(fitted).n_components
        if width != n_components:
            raise ValueError(
                f"The base {fitted!r} has {width} columns, but the hybrid set "
                f"n_components={n_components}: a base must have exactly as many."
            )
        return fitted

    def map_of(self, fitted: Any) -> FeatureMap:
        """Return the map of a fitted part."""
        if isinstance(fitted, BaseFeatureSampler):
            return fitted.map_
        return ThirdPartyMap.of(fitted, self.sides[0].rows)

    def columns_per_frequency(self, part: Any) -> int:
        """Return the number of columns per frequency, 1 for third-party samplers."""
        if not isinstance(part, BaseFeatureSampler):
            return 1
        if hasattr(part, "min_components"):
            return 2
        return self.fit(part, 0).map_.columns_per_frequency


def spread_columns(
    n_components: int, units: list[int], costs: list[int]
) -> tuple[list[int], int]:
    """Divide columns among maps so that all have the same number of frequencies.

    A frequency of map k has ``units[k]`` columns, which take up ``costs[k]`` columns of
    the hybrid. If enough columns remain, individual maps get one more frequency each,
    in the given order. Return the number of columns of each map, and the number that
    remains.
    """
    frequencies, rest = divmod(n_components, sum(costs))
    widths = [frequencies * unit for unit in units]
    for k, cost in enumerate(costs):
        if 0 < cost <= rest:
            widths[k] += units[k]
            rest -= cost
    return widths, rest


def _check_not_overridden(part: Any, own: dict[str, Any], params: dict) -> None:
    """Raise ValueError if the hybrid would override a parameter set on a part."""
    signature = inspect.signature(type(part)).parameters
    for name in params.keys() & signature.keys():
        default = signature[name].default
        harmless = default, params[name]
        if not any(np.array_equal(own[name], value) for value in harmless):
            raise ValueError(
                f"{name}={own[name]!r} of {part!r} has no effect in a hybrid, which "
                f"sets this parameter of its parts. Leave it at its default, "
                f"{default!r}, and set sigma, n_components, n_coefficients, kernel or "
                "random_state of the HybridSampler."
            )
