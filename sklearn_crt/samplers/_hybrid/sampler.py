"""Hybrid random features: base maps that are combined by random coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any, NamedTuple, Self

from sklearn.base import BaseEstimator

from ..._compat import Interval, RandomState, StrOptions, warn
from ...exceptions import ApproximationWarning
from ...maps import FeatureMap, GaussianKernel, GaussianOrSoftmax, SumOfProductsMap
from ...rows import Frame, Sigma, Statistics
from .._base import BaseFeatureSampler, centered, fitted
from .._exponential import middle
from .._positive import OPRFSampler
from .._trigonometric import TrigRBFSampler
from .coefficients import AngularCoefficient
from .part_fitter import PartFitter, spread_columns

_SIDES = "bases", "coefficients"  # parameters that are lists of parts
# methods that each part must have
_NEEDED = ("fit", "transform", "exact_kernel", "kernel_variance")


class HybridParts(NamedTuple):
    """The fitted samplers whose maps are combined."""

    bases: list[Any]
    coefficients: list[Any]
    spare: Any  # None, or the sampler for columns that the products do not use
    fitter: PartFitter


class HybridSampler(BaseFeatureSampler):
    r"""Hybrid random features (HRF) for the Gaussian or softmax kernel.

    The kernel estimate is a weighted combination, :math:`\sum_k \hat\lambda_k \hat K_k
    + (1 - \sum_k \hat\lambda_k) \hat K_{last}`. Each base map gives an estimate
    :math:`\hat K_k` of the kernel, and each coefficient :math:`\hat\lambda_k` estimates
    a weight that depends on the pair of rows, for instance on the angle between them.
    All of these estimates are inner products of random features, so the combined
    estimate is also an inner product of features. Choose coefficients that give each
    base map a large weight for the pairs of rows for which it is accurate.

    Parameters
    ----------
    bases : list of (str, sampler) tuples, default=None
        Names and unfitted base maps, as in scikit-learn's ``FeatureUnion``. In a grid
        search, ``bases__NAME__coupling`` is the coupling of a base map, and
        ``bases__NAME`` the base map itself. The weight of the last base map is one
        minus the sum of the other weights. The hybrid sets ``n_components``, ``sigma``,
        ``kernel`` and ``random_state`` of each base map. Leave these parameters at
        their defaults, because ``fit`` raises ValueError if it would have to override
        another value.
        Base maps may be any objects with the methods ``fit``, ``transform``,
        ``exact_kernel``, ``kernel_variance`` and, if they are asymmetric,
        ``transform_key``. None means ``[("positive",
        OPRFSampler(coupling="antithetic")), ("trigonometric", TrigRBFSampler())]``,
        that is, optimal positive features with frequencies w and -w, which are accurate
        for opposite rows, and random Fourier features, which are accurate for equal
        rows.
    coefficients : list of (str, sampler) tuples, default=None
        Names and unfitted coefficient maps, one for each base map except the last. Each
        coefficient map estimates its coefficient minus the constant ``a_`` (0 if there
        is no such attribute), and is fitted to rows that are already multiplied by
        sigma. The hybrid sets the ``random_state`` of each coefficient map. None means
        ``[("angle", AngularCoefficient(n_components=1))]``, that is, the angle between
        the rows divided by pi, estimated from the signs of one random projection.
    n_coefficients : int, default=None
        Number of frequencies of each coefficient map. None keeps the ``n_components``
        of each coefficient map. If a number is given, leave ``n_components`` of the
        coefficient maps at its default, because ``fit`` raises ValueError if it would
        have to override another value. The more frequencies the coefficients have, the
        fewer frequencies remain for the base maps.
    shared : bool, default=False
        Whether all base maps use the same seed, so that maps whose frequencies have the
        same distribution use the same frequencies. Coefficients never share
        frequencies.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features. All base maps have the same number of frequencies, which is
        as large as possible. With the remaining features, some of the base maps get one
        more frequency each, and the others form an extra map of the same kind as the
        last base map. The weight of this extra map in the estimate is its share of the
        features. If there are too few features for all base maps, only the last one is
        used, and a warning reports how many features are needed. None means 100, unless
        an estimator that uses the sampler sets a number.
    center : bool, default=False
        Whether to subtract the column means first, so that angles and coefficients
        refer to centred rows. Sparse rows are then converted to dense arrays chunk by
        chunk.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed from which the seeds of all base maps and coefficients are derived.

    Attributes
    ----------
    bases_, coefficients_ : list of FeatureMap
        The fitted base maps and the fitted coefficient maps.
    a_ : list of float
        Constant parts of the coefficients.
    spare_ : FeatureMap or None
        The extra map for the features that remain after the base maps, if there is one.
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        Frequencies of the map. They apply to rows multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    angular_hybrid, gaussian_hybrid, clustered_hybrid : The hybrids of [1]_.
    sklearn_crt.TrigRBFSampler : Base map that is accurate for neighbouring rows.
    PositiveRBFSampler : Base map that is accurate for opposite rows.

    Notes
    -----
    Let :math:`A_k` be the k-th base map, L the last base map, and :math:`r_{1k}` and
    :math:`r_{2k}` the features of the k-th coefficient for queries and keys. Let
    :math:`\otimes` denote the outer product of two rows of features. The columns for
    queries and keys are ([1]_, lemma 2.3)

    .. math::

       &\sqrt{|a_k|}\, A_k(x), \quad r_{1k}(x) \otimes A_k(x), \quad
       \sqrt{|1 - \textstyle\sum a|}\, L(x), \quad r_{1k}(x) \otimes L(x), \\
       &\pm\sqrt{|a_k|}\, A_k(y), \quad r_{2k}(y) \otimes A_k(y), \quad
       \pm\sqrt{|1 - \textstyle\sum a|}\, L(y), \quad -r_{2k}(y) \otimes L(y)

    with the signs of the constants :math:`a_k` (the attribute ``a_``) and :math:`1 -
    \sum a`. Columns with :math:`a_k = 0` are omitted. For example, two base maps with
    2m features each and a coefficient with l features give 4m(l + 1) features. If X has
    d columns, computing these features takes O((m + l) d + m l) operations per row.

    With ``shared=False`` the maps are independent, and the variance is ([1]_, theorem
    3.1)

    .. math:: \sum_k E \hat\lambda_k^2 \operatorname{Var} \hat K_k
       + E\bigl(1 - \sum_k \hat\lambda_k\bigr)^2 \operatorname{Var} \hat K_{last} .

    If the positive and the trigonometric map share their frequencies, which are
    independent of each other, the variance is smaller by :math:`\frac2m K^2 (1 -
    \cos(|x|^2 - |y|^2)) E \hat\lambda (1 - \hat\lambda)`. If ``variance_is_exact_`` is
    False, ``kernel_variance`` returns the variance for independent maps.

    The base maps and coefficients are fitted to samples of up to 1000 queries and 1000
    keys.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import HybridSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> sampler = HybridSampler(sigma=1.0, n_components=200, random_state=0).fit(X)
    >>> bool(np.diag(sampler.kernel_variance(X)).max() < 1e-15)
    True
    """

    map_: SumOfProductsMap
    _doubtful_below = math.inf
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "bases": [list, tuple, None],
        "coefficients": [list, tuple, None],
        "n_coefficients": [Interval(Integral, 1, None, closed="left"), None],
        "shared": ["boolean"],
        "center": ["boolean"],
    }

    def __init__(
        self,
        *,
        bases: Sequence[tuple[str, BaseEstimator]] | None = None,
        coefficients: Sequence[tuple[str, BaseEstimator]] | None = None,
        n_coefficients: int | None = None,
        shared: bool = False,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        center: bool = False,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.bases = bases
        self.coefficients = coefficients
        self.n_coefficients = n_coefficients
        self.shared = shared
        self.sigma = sigma
        self.n_components = n_components
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    center_: Any = centered

    # --------------------------------------------------------------- parameters
    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, including those of the parts.

        Parameters
        ----------
        deep : bool, default=True
            Whether to include the base maps and coefficients by their names, and their
            parameters, such as ``bases__positive`` and ``bases__positive__coupling``.

        Returns
        -------
        params : dict
            Names and values of the parameters.
        """
        params = super().get_params(deep=False)
        for side in _SIDES if deep else ():
            for name, part in _named_parts(params[side]).items():
                params[f"{side}__{name}"] = part
                if hasattr(part, "get_params") and not isinstance(part, type):
                    own = part.get_params().items()
                    params |= {f"{side}__{name}__{key}": value for key, value in own}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this sampler or of its parts.

        Parameters
        ----------
        **params : dict
            Values by name. ``bases__NAME`` replaces a base map, and
            ``bases__NAME__KEY`` sets one of its parameters; likewise for coefficients.

        Returns
        -------
        self : HybridSampler
            This sampler.

        Raises
        ------
        ValueError
            If there is no parameter or no part with a given name.
        """
        of_parts = {key for key in params if key.partition("__")[0] in _SIDES}
        of_parts -= {*_SIDES}
        super().set_params(**{k: v for k, v in params.items() if k not in of_parts})
        # a part is replaced before its parameters are set
        for key in sorted(of_parts):
            side, _, rest = key.partition("__")
            name, _, own = rest.partition("__")
            parts = _named_parts(getattr(self, side))
            if name not in parts:
                raise ValueError(
                    f"Invalid parameter {key!r} for {type(self).__name__}: the names "
                    f"in {side} are {sorted(parts)}."
                )
            if own:
                parts[name].set_params(**{own: params[key]})
            else:
                setattr(self, side, [*(parts | {name: params[key]}).items()])
        return self

    # ------------------------------------------------------------------ fitting
    def _reads(self):
        return {"rows": 1000}

    def _make_map(self, statistics, drawn):
        parts = self._fit_parts(statistics)
        map_of = parts.fitter.map_of
        return SumOfProductsMap(
            frame=self._centred_frame(statistics),
            n_components=self.n_components,
            bases=tuple(map(map_of, parts.bases)),
            coefficients=tuple(map(map_of, parts.coefficients)),
            constants=tuple(map(_constant_part, parts.coefficients)),
            shared=self.shared,
            spare=None if parts.spare is None else map_of(parts.spare),
            factor=GaussianKernel(softmax=self.kernel == "softmax"),
        )

    def _fit_parts(self, statistics: Statistics) -> HybridParts:
        """Return the fitted samplers for the given statistics."""
        bases, unfitted = self._unfitted_parts()
        base_rng, coefficient_rng, spare_rng = statistics.frequency_stream().spawn(3)
        fitter = PartFitter(statistics, self._centred_frame(statistics))
        base_seeds = base_rng.integers(2**31 - 1, size=len(bases))
        seeds = coefficient_rng.integers(2**31 - 1, size=len(bases))
        # the last base map gets the first seed, so that its frequencies are the same
        # with and without the other base maps
        base_seeds = base_seeds[[0] * len(bases)] if self.shared else base_seeds[::-1]
        coefficients = [
            fitter.fit(part, seed, **self._coefficient_params(part, fitter))
            for part, seed in zip(unfitted, seeds, strict=False)
        ]
        split = _split_columns(self.n_components, bases, coefficients, fitter)
        last = getattr(bases[-1], "_fallback", bases[-1])
        if split is None:
            bases, coefficients, split = [last], [], ([self.n_components], 0)
        widths, rest = split
        base_seeds = base_seeds[-len(bases) :]
        fitted = [
            fitter.fit_base(base, base_seed, width)
            for base, base_seed, width in zip(bases, base_seeds, widths, strict=True)
        ]
        seed = int(spare_rng.integers(2**31 - 1))
        spare = fitter.fit_base(last, seed, rest) if rest else None
        return HybridParts(fitted, coefficients, spare, fitter)

    def _unfitted_parts(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the base maps and coefficients, or raise ValueError if invalid."""
        bases: list[Any] = [OPRFSampler(coupling="antithetic"), TrigRBFSampler()]
        coefficients: list[Any] = [
            AngularCoefficient(n_components=self.n_coefficients or 1)
        ]
        if self.bases is not None:
            bases = _parts_of_pairs("bases", self.bases)
        if self.coefficients is not None:
            coefficients = _parts_of_pairs("coefficients", self.coefficients)
        for part in (*bases, *coefficients):
            missing = [name for name in _NEEDED if not hasattr(part, name)]
            if missing or isinstance(part, type):
                lack = f"it lacks {', '.join(missing)}" if missing else "it is a class"
                raise ValueError(
                    f"{part!r} is not a sampler: {lack}. Bases and coefficients "
                    f"require {', '.join(_NEEDED)}."
                )
        if len(bases) != len(coefficients) + 1:
            raise ValueError(
                f"{len(bases)} bases require {len(bases) - 1} coefficients, got "
                f"{len(coefficients)}: each base except the last one has a "
                "coefficient, and the last base has the remaining weight."
            )
        if self.shared and len(bases) == 1:
            raise ValueError(
                "shared=True has no effect with a single base map; use shared=False."
            )
        if self.n_coefficients is not None and not coefficients:
            raise ValueError(
                f"n_coefficients={self.n_coefficients} has no effect without "
                "coefficients; use n_coefficients=None."
            )
        return bases, coefficients

    def _coefficient_params(self, part: Any, fitter: PartFitter) -> dict[str, int]:
        """Return the parameters that the hybrid sets on a coefficient."""
        n = self.n_coefficients
        if n is None:
            return {}
        if "n_components" not in part.get_params(deep=False):
            raise ValueError(
                f"n_coefficients={n!r} requires coefficients with a parameter "
                f"n_components, which {part!r} does not have; use n_coefficients=None."
            )
        return {"n_components": n * fitter.columns_per_frequency(part)}

    def _centred_frame(self, statistics) -> Frame:
        return self._frame(statistics, middle(statistics) if self.center else None)

    @property
    def bases_(self) -> list[FeatureMap]:
        """The fitted base maps."""
        return list(self.map_.bases)

    @property
    def coefficients_(self) -> list[FeatureMap]:
        """The maps that estimate the coefficients minus their constant parts."""
        return list(self.map_.coefficients)

    spare_: FeatureMap | None = fitted(
        "map_.spare", "The map for features that the base maps leave over, or None."
    )

    @property
    def a_(self) -> list[float]:
        """Constant parts of the coefficients."""
        return list(self.map_.constants)


def _named_parts(pairs: Any) -> dict[str, Any]:
    """Return parts by name; an empty dictionary if ``fit`` will refuse the pairs."""
    try:
        return dict(pairs or ())
    except (TypeError, ValueError):
        return {}


def _parts_of_pairs(side: str, pairs: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the parts of the pairs; raise ValueError if they are not named pairs."""
    are_pairs = all(
        isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], str)
        for pair in pairs
    )
    names = [pair[0] for pair in pairs] if are_pairs else []
    if not are_pairs or len({*names}) < len(names) or any("__" in n for n in names):
        raise ValueError(
            f"{side}={pairs!r} must be a list of pairs (name, sampler), whose names "
            "are different strings without '__'."
        )
    return [part for _, part in pairs]


def _constant_part(coefficient: Any) -> float:
    """Return the constant part of a fitted coefficient, or 0 if it has none."""
    return float(getattr(coefficient, "a_", 0.0))


def _split_columns(
    n_components: int, bases: Sequence[Any], coefficients: list[Any], fitter: PartFitter
) -> tuple[list[int], int] | None:
    """Return the column counts of the base maps and of the spare map.

    All base maps have the same number of frequencies. If enough columns remain, they
    give individual maps one more frequency each, beginning with the last map. If there
    are too few columns for all base maps, warn and return None.
    """
    constants = [_constant_part(part) for part in coefficients]
    counts = [fitter.map_of(part).n_components for part in coefficients]
    units = [fitter.columns_per_frequency(base) for base in bases]
    plain = [int(a != 0) for a in (*constants, 1 - sum(constants))]
    # number of columns of the hybrid for one frequency of each base map
    each = zip(units, plain, [*counts, sum(counts)], strict=True)
    costs = [unit * (constant + count) for unit, constant, count in each]
    frequencies = n_components // sum(costs)
    pairs = zip(bases, units, strict=True)
    least = max(-(-getattr(base, "_min_components", 1) // unit) for base, unit in pairs)
    if frequencies < least:
        warn(
            f"This hybrid requires n_components >= {least * sum(costs)}, got "
            f"n_components={n_components}. Only the last base map is used.",
            ApproximationWarning,
        )
        return None
    widths, rest = spread_columns(n_components, units[::-1], costs[::-1])
    return widths[::-1], rest
