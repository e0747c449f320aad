"""Base class of all samplers, and their fitted value.

The base class implements fitting, features, kernels and their variances.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sized
from dataclasses import dataclass, replace
from numbers import Integral, Real
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, clone

from .._compat import (
    ARRAY_API,
    Interval,
    RandomState,
    StrOptions,
    TypedTransformerMixin,
    _fit_context,
)
from .._values import check_same_params, same
from ..arrays.namespaces import to_host, to_namespace_of, type_name
from ..arrays.validation import validate_rows
from ..life_cycle.fitted import (
    FittedValue,
    LifeCycle,
    Step,
    copied,
    no_step,
    with_value,
)
from ..maps import FeatureMap, transform, variance_in_blocks
from ..rows import (
    Frame,
    Rows,
    Sigma,
    Statistics,
    TableLike,
    read_weights,
    resolve_sigma,
)
from ._warnings import (
    warn_of_changed_map,
    warn_of_error,
    warn_of_infinite_kernel,
    warn_of_phases,
    warn_of_queries_as_keys,
    warn_of_range,
)

if TYPE_CHECKING:
    from ._hybrid.clustered import ClusterParts
    from ._hybrid.sampler import HybridParts

# Values of the parameters that were not set on a sampler. None marks such a parameter,
# so that an estimator that uses the sampler may choose it, and keeps what was set.
DEFAULTS: dict[str, Any] = {"sigma": "scale", "n_components": 100}


class SamplerBatch(NamedTuple):
    """Validated queries and keys, and the weights of the queries."""

    X: Any  # (n_rows, n_features)
    X_key: Any = None  # (n_keys, n_features), None if the keys are the rows of X
    weights: Any = None  # (n_rows,)


@dataclass(eq=False)
class MapUse:
    """Whether features of a sampler's map have been returned.

    It is an object of its own, because ``transform`` must not change the attributes of
    a sampler.
    """

    was_used: bool = False


@dataclass(frozen=True, eq=False)
class SamplerValue(FittedValue):
    """The statistics of the rows, and the feature map that is computed from them."""

    # unfitted copy; its parameters stay in effect until the next fit, and those that
    # were not set have the values that they stand for
    unfitted: BaseFeatureSampler
    statistics: Statistics
    dtype: str = ""  # floating-point dtype of the first rows
    map: FeatureMap | None = None  # None until all blocks of rows have been read
    is_frozen: bool = False
    not_set: tuple[str, ...] = ()  # names of parameters that were not set

    def read(self, batch: SamplerBatch, n_before: int = 0) -> SamplerValue:
        """Return a copy with the same map whose statistics include additional rows.

        ``n_before`` is the number of preceding rows that are read elsewhere, for
        instance in other blocks.
        """
        sigma = getattr(self.unfitted, "sigma", None)
        median = isinstance(sigma, str) and sigma == "median"
        options = {"median": median, "n_before": n_before, **self.unfitted._reads()}
        statistics = self.statistics.read(*batch, **options)
        dtype = self.dtype or type_name(batch.X)
        return replace(self, statistics=statistics, dtype=dtype)

    def with_map(self, statistics: Statistics | None = None) -> SamplerValue:
        """Return a copy with the map for the given (by default, its own) statistics.

        If this object already has a map, the frequencies of the map are reused,
        provided that their distribution does not depend on the statistics.
        """
        if statistics is None:
            statistics = self.statistics
        made = self.unfitted._make_map(statistics, self.map).astype(self.dtype)
        return replace(self, statistics=statistics, map=made)

    def with_seed(self, random_state: RandomState) -> SamplerValue:
        """Return the result of fitting to the same rows with another seed."""
        seed = Statistics.seeded(random_state).seed
        return replace(self, map=None).with_map(replace(self.statistics, seed=seed))

    def with_n_components(self, n_components: int) -> SamplerValue:
        """Return the result of fitting to the same rows with more or fewer features."""
        value = self.with_param("n_components", n_components)
        return replace(value, map=None).with_map()

    def with_param(self, name: str, param: Any) -> SamplerValue:
        """Return a copy with another parameter, whose map has yet to be computed."""
        unfitted = unfitted_copy(self.unfitted)
        setattr(unfitted, name, param)
        not_set = tuple(other for other in self.not_set if other != name)
        return replace(self, unfitted=unfitted, not_set=not_set)

    def parts(self) -> HybridParts | ClusterParts:
        """Return the fitted samplers whose maps are parts of a composed map."""
        return self.unfitted._fit_parts(self.statistics)

    def plus(self, batch: SamplerBatch, step: Step = no_step) -> SamplerValue:  # type: ignore[override]
        return self.read(batch).with_map()

    fitted = plus  # type: ignore[assignment]  # skips a call, as fits are frequent

    def __add__(self, other: SamplerValue) -> SamplerValue:
        check_same_params(self.unfitted.get_params(), other.unfitted.get_params())
        statistics = self.statistics + other.statistics
        if self.map is None:
            dtype = np.result_type(self.dtype, other.dtype).name
            return replace(self, statistics=statistics, dtype=dtype)
        return self.with_map(statistics)

    def frozen(self) -> SamplerValue:
        assert self.map is not None
        feature_map = self.unfitted._map_without_rows(self.map)
        seed = Statistics(self.statistics.seed)  # statistics without rows
        return replace(self, statistics=seed, map=feature_map, is_frozen=True)

    @property
    def owner(self) -> str:  # type: ignore[override]
        return type(self.unfitted).__name__


def set_or_default(sampler: BaseFeatureSampler, name: str) -> Any:
    """Return the value of a parameter that may not have been set on a sampler."""
    value = getattr(sampler, name)
    return DEFAULTS[name] if value is None else value


def unfitted_copy(sampler: BaseFeatureSampler) -> BaseFeatureSampler:
    """Return an unfitted copy; for plain parameters, ``clone`` takes twice as long."""
    params = sampler.get_params(deep=False)
    for name, value in params.items():
        if isinstance(value, Sized) or hasattr(value, "get_params"):
            params[name] = clone(value, safe=False)
    return type(sampler)(**params)


# fitted attributes
def fitted(path: str, doc: str) -> Any:
    """Return a read-only property that looks up a dotted path in the fitted sampler."""
    return property(attrgetter(path), doc=doc)


def _center_of(sampler: BaseFeatureSampler) -> np.ndarray:
    center = sampler.map_.frame.center
    return np.zeros(sampler.n_features_in_) if center is None else center


# the attribute ``center_`` of samplers that centre the rows
centered: Any = property(
    _center_of, doc="Vector that is subtracted from the rows; zero without centring."
)


class BaseFeatureSampler(
    ClassNamePrefixFeaturesOutMixin, TypedTransformerMixin, LifeCycle
):
    """Base class of samplers whose features give unbiased estimates of a kernel.

    The samplers satisfy ``E[transform(x) @ transform_key(y)] == exact_kernel(x, y)``. A
    subclass defines its parameters (``__init__``, ``_parameter_constraints``) and the
    method ``_make_map``, which returns the :class:`~sklearn_crt.extend.FeatureMap` for
    these parameters and the statistics of the rows. This class implements the rest.

    Attributes
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.
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
    """

    _parameter_constraints: dict = {
        "sigma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"scale", "median"}),
            "array-like",
            None,
        ],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    n_components: Any  # None if it was not set, but a number for ``_make_map``
    _value: SamplerValue
    _map_use: MapUse | None = None  # None before the first rows
    _takes_other_arrays = ARRAY_API
    # with fewer features than this, fit warns if the predicted error is large
    _doubtful_below: float = 64
    _is_coefficient = False  # whether it is made for hybrids, where sides are known

    def __init__(self) -> None:
        """Create a sampler; each subclass has parameters of its own."""

    # ------------------------------------------------------------------- hooks
    @abstractmethod
    def _make_map(self, statistics: Statistics, drawn: FeatureMap | None) -> FeatureMap:
        """Return the map, which must depend only on the parameters and the statistics.

        ``drawn`` is None, or a map with the same seed and the same parameters, except
        that sigma may differ. Its frequencies may be reused if their distribution does
        not depend on the statistics.
        """

    def _reads(self) -> dict[str, Any]:
        """Return the statistics that ``_make_map`` needs besides the column moments.

        ``{"rows": n}`` requests samples of n queries and n keys, and ``{"covariance":
        True}`` requests the second moments of all pairs of columns.
        """
        return {}

    def _frame(self, statistics: Statistics, center: np.ndarray | None = None) -> Frame:
        """Return the frame, which consists of the value of sigma and the centre."""
        return Frame(resolve_sigma(self.sigma, statistics), center)

    def _fit_parts(self, statistics: Statistics) -> Any:
        """Return the fitted samplers of which a hybrid consists."""
        raise NotImplementedError(
            f"{type(self).__name__} is not a hybrid, so it does not consist of other "
            "samplers."
        )

    def _map_without_rows(self, feature_map: FeatureMap) -> FeatureMap:
        """Return the map that ``freeze`` keeps, which must not contain any rows."""
        return feature_map

    # ------------------------------------------------------------------ fitting
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: TableLike,
        y: Any = None,
        *,
        X_key: TableLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the feature map: compute the statistics of X and draw the frequencies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries, which are also used as keys if ``X_key`` is None.
        y : None
            Ignored.
        X_key : {array-like, sparse matrix} of shape (n_keys, n_features), default=None
            Keys, if their distribution differs from that of X.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of X in all statistics.

        Returns
        -------
        self : object
            The fitted sampler.

        Raises
        ------
        ValueError
            If a parameter or a value of X is out of range; the message states what is
            allowed.
        """
        return self._fit_value(X, y, X_key, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: TableLike,
        y: Any = None,
        *,
        X_key: TableLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the fitted sampler with another batch of rows.

        The result is the same as if ``fit`` had been called on all rows at once, in the
        same order. The feature map depends on all rows, so pass all batches first, then
        call ``freeze()``, and only then ``transform``. A warning is issued if a batch
        changes the features after they have been used.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : None
            Ignored.
        X_key : {array-like, sparse matrix} of shape (n_keys, n_features), default=None
            More keys.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of X.

        Returns
        -------
        self : object
            The sampler, with the feature map for all rows seen so far.

        Raises
        ------
        ValueError
            If the sampler is frozen, if a parameter other than ``n_jobs`` has been
            changed since the first call, or for the reasons listed in ``fit``.
        """
        use = self._map_use
        before = self.map_ if use is not None and use.was_used else None
        self._extend_value(X, y, X_key, sample_weight)
        self._map_use = MapUse()
        if before is not None and not same(before, self.map_):
            warn_of_changed_map(self)
        return self

    def with_sigma(self, sigma: Sigma) -> Self:
        """Return a fitted copy with another sigma, without reading the rows again.

        Parameters
        ----------
        sigma : float, {"scale", "median"} or array-like of shape (n_features,)
            The new value. ``"median"`` is allowed only if the sampler was fitted with
            ``sigma="median"``.

        Returns
        -------
        sampler : sampler
            A fitted copy, which equals a sampler fitted with ``sigma`` on the same
            rows. It has the same frequencies, unless their distribution depends on the
            data.

        Raises
        ------
        ValueError
            If sigma is out of range, if it is ``"median"`` and the sampler has no
            sample of the rows, or if the sampler is frozen.
        """
        value = self._value
        value.check_can_grow("with_sigma")
        noted = {"sigma": sigma, "_map_use": MapUse()}
        return with_value(self, value.with_param("sigma", sigma).with_map(), noted)

    def _read(  # type: ignore[override]
        self, X: Any, y: Any, X_key: Any, weights: Any, *, first: bool, final: bool
    ) -> SamplerBatch:
        """Return validated queries and keys, and the weights of the queries."""
        self._note_namespace(X, None, X_key, weights, first=first)
        X = validate_rows(self, X, reset=first)
        if first or self._map_use is None:
            self._map_use = MapUse()
        if weights is not None:
            weights = read_weights(X, weights)
        if X_key is not None:
            X_key = validate_rows(self, to_namespace_of(X_key, X), reset=False)
        return SamplerBatch(X, X_key, weights)

    def _batch_of_rows(self, X: Any, y: Any, weights: Any) -> SamplerBatch:
        return SamplerBatch(X, None, weights)

    def _empty_value(self, batch: Any) -> SamplerValue:
        unfitted = unfitted_copy(self)
        names = [name for name in DEFAULTS if vars(self).get(name, 0) is None]
        for name in names:
            setattr(unfitted, name, DEFAULTS[name])
        statistics = Statistics.seeded(self.random_state)
        return SamplerValue(unfitted, statistics, not_set=tuple(names))

    def _columns_per_frequency(self, n_features: int) -> int | None:
        """Return the number of features per frequency; None if it depends on rows."""
        return None

    def _note_params(self) -> None:
        """Do nothing, because the fitted value already contains the parameters."""

    @property
    def _fit_params(self) -> dict[str, Any]:
        value = self._value
        return {**value.unfitted.get_params(), **dict.fromkeys(value.not_set)}

    def _warn_after_fit(self, batch: Any) -> None:
        if self.map_.n_components < self._doubtful_below:
            warn_of_error(self, batch)

    # ------------------------------------------------------------------ queries
    def _map_and_queries(self, X: Any, method: str) -> tuple[FeatureMap, Any]:
        """Return the map, and validated rows whose squared norms are finite."""
        model = copied(self)
        feature_map = model.map_
        if model._needs_no_checks(X, feature_map):
            return feature_map, X  # a single row takes 25 instead of 98 microseconds
        model, X = model._query(X, method)
        feature_map.frame.check(X)
        return feature_map, X

    def _needs_no_checks(self, X: Any, feature_map: FeatureMap) -> bool:
        """Return whether ``_query`` would return X unchanged."""
        if type(X) is not np.ndarray or X.dtype not in (np.float64, np.float32):
            return False
        if X.ndim != 2 or X.shape[0] == 0 or hasattr(self, "feature_names_in_"):
            return False
        if self._fit_namespace is not None:
            return False
        return X.shape[1] == self.n_features_in_ and feature_map.frame.holds(X)

    def _map_and_pair(self, X: Any, Y: Any) -> tuple[FeatureMap, Rows, Rows | None]:
        """Return the map and the validated rows, in main memory as SciPy requires."""
        feature_map, X = self._map_and_queries(X, "transform")
        if Y is None:
            return feature_map, to_host(X), None
        _, Y = self._map_and_queries(Y, "transform_key")
        return feature_map, to_host(X), to_host(Y)

    # ------------------------------------------------------------- transforming
    def transform(self, X: TableLike) -> np.ndarray:
        """Compute the features of queries.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries. The dtype float32 is preserved; any other is converted to float64.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            Features of the queries. The features of a row do not depend on the other
            rows. If a row is far from the centre, its positive features may underflow
            to zero; a warning reports the number of rows for which half of them do.

        Raises
        ------
        ValueError
            If the squared norm of a row overflows after multiplication by sigma, that
            is, if values exceed about 1e19 in float32 or 1e154 in float64.
        """
        return self._transform(X, key=False)

    def fit_transform(
        self, X: TableLike, y: Any = None, **fit_params: Any
    ) -> np.ndarray:
        """Fit the feature map, and compute the features of the same rows as queries.

        A warning is issued if the features of keys differ (``symmetric_`` is False),
        because the inner products of the result do not estimate the kernel then.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        y : None
            Ignored.
        **fit_params : dict
            Further arguments of ``fit``.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            The result of ``fit(X, y, **fit_params).transform(X)``.
        """
        features = super().fit_transform(X, y, **fit_params)
        if not (self.symmetric_ or self._is_coefficient):
            warn_of_queries_as_keys(self)
        return features

    def transform_key(self, X: TableLike) -> np.ndarray:
        """Compute the features of keys.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Keys.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            The features, which are the same as those of ``transform`` if ``symmetric_``
            is True.
        """
        return self._transform(X, key=True)

    def _transform(self, X: Any, key: bool) -> Any:
        method = "transform_key" if key else "transform"
        feature_map, rows = self._map_and_queries(X, method)
        if self._map_use is not None:
            self._map_use.was_used = True
        if feature_map.phase_rate != 0:
            warn_of_phases(self, rows, feature_map)
        options = {"key": key, "n_jobs": self.n_jobs}
        features, n_lost, overflows = transform(feature_map, rows, **options)
        if n_lost or overflows:
            warn_of_range(self, features.dtype, n_lost, overflows)
        return features if rows is X else to_namespace_of(features, X)

    # ------------------------------------------------------------------ kernels
    def exact_kernel(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the exact kernel that the features approximate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Queries.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Keys; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Kernel values, with the floating-point dtype of X.
        """
        feature_map, queries, keys = self._map_and_pair(X, Y)
        with np.errstate(over="ignore"):  # the warning below replaces NumPy's
            kernel = feature_map.kernel(*feature_map.frame.pair(queries, keys))
            kernel = kernel.astype(queries.dtype, copy=False)
        warn_of_infinite_kernel(self, kernel)
        return to_namespace_of(kernel, X)

    def approximate_kernel(
        self, X: TableLike, Y: TableLike | None = None
    ) -> np.ndarray:
        """Return the estimate of the kernel, ``transform(X) @ transform_key(Y).T``.

        The estimate is computed from the logarithms of the features. It therefore
        remains accurate if individual features overflow, and is infinite only if the
        estimate itself is too large for the dtype.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Queries.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Keys; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Unbiased estimates, with the floating-point dtype of X.
        """
        feature_map, queries, keys = self._map_and_pair(X, Y)
        feature_map = feature_map.to(queries)
        rows = feature_map.frame.rows(queries)
        others = rows
        if keys is not None:
            others = feature_map.frame.rows(keys.astype(queries.dtype, copy=False))
        return to_namespace_of(feature_map.estimate(rows, others), X)

    def kernel_variance(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the variance of ``approximate_kernel`` over the random frequencies.

        The formulas in the Notes of the samplers hold for ``"iid"`` and
        ``"orthogonal"``. For ``"simplex"`` and other couplings with a fixed angle, the
        function 1F1 in the formulas of Gaussian kernels is replaced by another one (see
        the user guide). If ``variance_is_exact_`` is False, the result is an
        approximation: for ``"simplex+"`` and positive features, an estimate from a
        sample of blocks of frequencies; for structured couplings without padding, the
        variance for exactly orthogonal or simplex blocks; and otherwise, such as for
        ``"halton"`` and ``"sobol"``, that for independent frequencies. Unless
        sigma is small, the variance of positive features is dominated by rare draws.
        The result is then still correct, but it can exceed the observed squared errors
        by orders of magnitude, which makes it uninformative.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Queries.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Keys; X if None.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            The variances, which are also the mean squared errors because the estimates
            are unbiased. Values that are too large for float64 are infinite.
        """
        feature_map, *rows = self._map_and_pair(X, Y)
        with np.errstate(over="ignore"):
            variance = variance_in_blocks(feature_map, *feature_map.frame.pair(*rows))
        return to_namespace_of(variance, X)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without ``_map_use``: a query does not change a pickle."""
        state = super().__getstate__()
        return {name: part for name, part in state.items() if name != "_map_use"}

    # --------------------------------------------------------------- attributes
    map_: FeatureMap = fitted(
        "_value.map", "The immutable feature map, which is usable without the sampler."
    )
    sigma_: float | np.ndarray = fitted(
        "map_.frame.sigma", "Inverse length scale by which the inputs are multiplied."
    )
    symmetric_: bool = fitted(
        "map_.symmetric", "Whether queries and keys have the same features."
    )
    variance_is_exact_: bool = fitted(
        "map_.variance_is_exact",
        "Whether ``kernel_variance`` is exact for the coupling that is used.",
    )
    _n_features_out: int = fitted("map_.n_components", "Number of features.")

    @property
    def frequencies_(self) -> np.ndarray:
        """Frequencies, one per column; they apply to rows multiplied by ``sigma_``."""
        return self.map_.frequencies.to_dense()  # type: ignore[attr-defined]
