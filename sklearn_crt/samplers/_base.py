"""Base class of all samplers: validation, statistics, transformation and kernels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sized
from dataclasses import dataclass, replace
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, clone
from sklearn.utils import check_random_state

from .._array import (
    check_fit_namespace,
    refuse_lazy,
    taken,
    to_host,
    to_namespace_of,
    type_name,
    validate_rows,
)
from .._compat import (
    ARRAY_API,
    Interval,
    RandomState,
    StrOptions,
    TypedTransformerMixin,
    _fit_context,
    warn,
)
from .._fitted import FittedValue, LifeCycle, Step, no_step, with_value
from .._state import check_same_params
from ..exceptions import ApproximationWarning
from ..maps import FeatureMap, relative_error, transform, variance_in_blocks
from ..rows import (
    Frame,
    Rows,
    Sigma,
    Statistics,
    TableLike,
    read_weights,
    resolve_sigma,
)

_ERROR_ROWS = 16  # number of queries, and of keys, used to estimate the error


def fitted(path: str, doc: str) -> Any:
    """Return a read-only property that looks up a dotted path in the fitted sampler."""
    return property(attrgetter(path), doc=doc)


class SamplerBatch(NamedTuple):
    """Validated queries and keys, and the weights of the queries."""

    X: Any  # (n_rows, n_features)
    X_key: Any = None  # (n_keys, n_features), None if the keys are the rows of X
    weights: Any = None  # (n_rows,)


@dataclass(frozen=True, eq=False)
class SamplerValue(FittedValue):
    """The statistics of the rows, and the feature map that is computed from them."""

    unfitted: Any  # unfitted copy; its parameters stay in effect until the next fit
    statistics: Statistics
    dtype: str = ""  # floating-point dtype of the first rows
    map: FeatureMap | None = None  # None until all blocks of rows have been read
    is_frozen: bool = False

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
        seed = check_random_state(random_state).randint(2**31 - 1, size=4)
        statistics = replace(self.statistics, seed=tuple(seed.tolist()))
        return replace(self, map=None).with_map(statistics)

    def parts(self) -> Any:
        """Return the fitted samplers whose maps are parts of a composed map."""
        return self.unfitted._fit_parts(self.statistics)

    def plus(self, batch: SamplerBatch, step: Step = no_step) -> SamplerValue:  # type: ignore[override]
        return self.read(batch).with_map()

    fitted = plus  # type: ignore[assignment]  # skips a call, as fits are frequent

    def __add__(self, other: SamplerValue) -> SamplerValue:
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


class BaseFeatureSampler(
    ClassNamePrefixFeaturesOutMixin, TypedTransformerMixin, LifeCycle
):
    """Base class of samplers whose features give unbiased estimates of a kernel.

    The samplers satisfy ``E[transform(x) @ transform_key(y)] == exact_kernel(x, y)``. A
    subclass defines its parameters (``__init__``, ``_parameter_constraints``) and the
    method ``_make_map``, which returns the :class:`~sklearn_crt.extend.FeatureMap` for
    these parameters and the statistics of the rows. This class implements everything
    else.

    Attributes
    ----------
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows.
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
        many threads as NumPy's linear algebra, or a single thread inside joblib
        workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    """

    _parameter_constraints: dict = {
        "sigma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"scale", "median"}),
            "array-like",
        ],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    _value: SamplerValue
    _takes_other_arrays = ARRAY_API
    # with fewer features than this, fit warns if the predicted error is large
    _doubtful_below: float = 64

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

        The result is the same as if ``fit`` had been called on all rows at once. The
        order of the batches does not matter, except for ``sigma="median"`` with more
        than 1000 rows, because only a sample of the rows is then used. The feature map
        depends on all rows, so pass all batches first, then call ``freeze()``, and only
        then ``transform``. A warning is issued if a batch changes the features after
        they have been used.

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
        before = getattr(self, "map_", None)
        self._extend_value(X, y, X_key, sample_weight)
        if self._differs_from_used(before):
            name = type(self).__name__
            warn(
                f"partial_fit changed the map of this {name} after transform had been "
                "used, so the features returned before belong to another map. Call "
                "partial_fit on all batches (or fit on a sample of rows) first, then "
                "freeze(), then transform; or learn through "
                f"NadarayaWatsonClassifier({name}(...)).partial_fit, which takes care "
                "of this.",
                UserWarning,
            )
        return self

    def _differs_from_used(self, before: FeatureMap | None) -> bool:
        """Return whether an earlier map was used and gave different features."""
        if before is None or "was_used" not in vars(before):
            return False
        probe = np.ones((1, self.n_features_in_), self._value.dtype)
        with np.errstate(all="ignore"):
            old, new = (transform(m, probe)[0] for m in (before, self.map_))
        return not np.array_equal(old, new, equal_nan=True)

    def _fit(self, X: Any, X_key: Any, sample_weight: Any) -> None:
        """Fit a part of a composed map, without warnings about the part's own error."""
        batch = self._read(X, None, X_key, sample_weight, first=True, final=True)
        self._value = self._empty_value(batch).plus(batch)

    def _read(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        X_key: Any,
        sample_weight: Any,
        *,
        first: bool,
        final: bool,
    ) -> SamplerBatch:
        """Return validated queries and keys, and the weights of the queries."""
        self._note_namespace(X, None, X_key, sample_weight, first=first)
        X = self._validate(X, reset=first)
        if sample_weight is not None:
            sample_weight = read_weights(X, sample_weight)
        if X_key is not None:
            X_key = self._validate(to_namespace_of(X_key, X), reset=False)
        return SamplerBatch(X, X_key, sample_weight)

    def _batch_of_rows(self, X: Any, y: Any, weights: Any) -> SamplerBatch:
        return SamplerBatch(X, None, weights)

    def _empty_value(self, batch: Any) -> SamplerValue:
        seed = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        statistics = Statistics(tuple(seed.tolist()))
        return SamplerValue(_unfitted_copy(self), statistics)

    def _note_params(self) -> None:
        """Do nothing, because the fitted value already contains the parameters."""

    @property
    def _fit_params(self) -> dict[str, Any]:
        return self._value.unfitted.get_params()

    def _check_same_model(self, other: Any) -> None:
        pair = self._value.unfitted, other._value.unfitted
        check_same_params(*(unfitted.get_params() for unfitted in pair))

    def _warn_after_fit(self, batch: Any) -> None:
        """Warn if the predicted error exceeds the kernel value for half the pairs."""
        n = self.n_components
        sides = batch.X, batch.X if batch.X_key is None else batch.X_key
        sizes = [side.shape[0] for side in sides]
        if n >= self._doubtful_below or min(sizes) < 2 * _ERROR_ROWS:
            return
        steps = (np.arange(_ERROR_ROWS) + offset for offset in (0.25, 0.75))
        rows = [
            to_host(taken(side, (step * size / _ERROR_ROWS).astype(int)))
            for side, size, step in zip(sides, sizes, steps, strict=True)
        ]
        for side in rows:
            self.map_.frame.check(side)
        ratio = relative_error(self.map_, *self.map_.frame.pair(*rows))
        if not 1 < ratio < np.inf:
            return
        enough, sines = 4 * ratio**2 * n, type(self).__name__ == "TrigRBFSampler"
        advice = "A smaller sigma" + ("" if sines else " or TrigRBFSampler")
        advice += " needs fewer columns."
        if enough < 1e5:
            half = f"About n_components={enough:.0f} would bring it to half the kernel;"
            advice = f"{half} a{advice[1:]}"
        warn(
            f"{type(self).__name__}(n_components={n}): on a sample of rows the stated "
            f"error of the kernel is {ratio:.2g} times the kernel itself or more for "
            f"half of the pairs, so zero would be a better estimate. {advice} "
            "sklearn_crt.compare_samplers measures the error of samplers on your rows.",
            ApproximationWarning,
        )

    def _validate(self, X: Any, reset: bool) -> Any:
        return validate_rows(self, X, reset=reset)

    def _rows(self, X: Any, feature_map: FeatureMap) -> Any:
        """Return validated rows, after checking that their squared norms are finite."""
        if self._needs_no_checks(X, feature_map):
            return X  # for a single row, validate_data would take most of the time
        refuse_lazy(self, "sklearn_crt.dask.map_rows(sampler.transform, X)", X)
        X = self._validate(X, reset=False)
        feature_map.frame.check(X)
        return X

    def _needs_no_checks(self, X: Any, feature_map: FeatureMap) -> bool:
        """Return whether ``validate_data`` would return X unchanged."""
        if type(X) is not np.ndarray or X.dtype not in (np.float64, np.float32):
            return False
        if X.ndim != 2 or X.shape[0] == 0 or hasattr(self, "feature_names_in_"):
            return False
        return X.shape[1] == self.n_features_in_ and feature_map.frame.holds(X)

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
            rows. If a row is far from the centre, all of its positive features may
            underflow to zero; a warning then reports the number of such rows.

        Raises
        ------
        ValueError
            If the squared norm of a row overflows after multiplication by sigma, that
            is, if values exceed about 1e19 in float32 or 1e154 in float64.
        """
        return self._transform(X, key=False)

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
        feature_map = self.map_
        check_fit_namespace(self, X, "transform_key" if key else "transform")
        rows = self._rows(X, feature_map)
        vars(feature_map)["was_used"] = True  # needed for the warning of partial_fit
        self._warn_of_phases(rows, feature_map)
        features, n_zero, overflows = transform(
            feature_map, rows, key=key, n_jobs=self.n_jobs
        )
        name = type(self).__name__
        if n_zero:
            warn(
                f"All features of {n_zero} rows are too small for {features.dtype} and "
                f"became 0. Use a smaller sigma, float64, or NadarayaWatsonClassifier("
                f"{name}(...)), which works with the logarithms of the features.",
                ApproximationWarning,
            )
        if overflows:
            warn(
                f"Features of {name} are too large for {features.dtype} and became "
                "infinite. Use a smaller sigma or float64.",
                ApproximationWarning,
            )
        return to_namespace_of(features, X)

    def _warn_of_phases(self, rows: Any, feature_map: FeatureMap) -> None:
        """Warn about phases that are too large for the precision of their dtype."""
        rate = feature_map.phase_rate
        if rate == 0:
            return
        n_rows, most = feature_map.frame.count_unresolved(rows, rate)
        if n_rows:
            warn(
                f"For {n_rows} rows {type(self).__name__} takes sines and cosines of "
                f"phases beyond {most:.2g}, which {rows.dtype} does not resolve, so "
                "these features are noise. Use a smaller sigma or float64, or scale "
                "the columns, for instance with StandardScaler.",
                ApproximationWarning,
            )

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
        feature_map, queries, keys = self._map_and_rows(X, Y)
        with np.errstate(over="ignore"):  # the warning below replaces NumPy's
            kernel = feature_map.kernel(*feature_map.frame.pair(queries, keys))
            kernel = kernel.astype(queries.dtype, copy=False)
        n_pairs = int(np.count_nonzero(np.isinf(kernel)))
        if n_pairs:
            warn(
                f"Kernel values of {type(self).__name__} for {n_pairs} pairs of rows "
                f"are too large for {kernel.dtype} and became infinite. Use a "
                "smaller sigma or float64.",
                ApproximationWarning,
            )
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
        feature_map, queries, keys = self._map_and_rows(X, Y)
        feature_map = feature_map.to(queries)
        rows = feature_map.frame.rows(queries)
        others = rows
        if keys is not None:
            others = feature_map.frame.rows(keys.astype(queries.dtype, copy=False))
        return to_namespace_of(feature_map.estimate(rows, others), X)

    def kernel_variance(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the exact variance of ``approximate_kernel`` over random frequencies.

        If ``variance_is_exact_`` is False, the result is the variance for another
        coupling: independent frequencies if the angles between frequencies are not
        fixed (``"simplex+"``, ``"halton"`` and ``"sobol"``), and exactly orthogonal or
        simplex blocks for a structured coupling without padding. Unless sigma is small,
        the variance of positive features is dominated by rare draws. The result is then
        still correct, but it can exceed the observed squared errors by orders of
        magnitude, which makes it uninformative.

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
        feature_map, *rows = self._map_and_rows(X, Y)
        pair = feature_map.frame.pair(*rows)
        with np.errstate(over="ignore"):
            variance = variance_in_blocks(feature_map, *pair)
        return to_namespace_of(variance, X)

    def _map_and_rows(
        self, X: TableLike, Y: TableLike | None
    ) -> tuple[Any, Rows, Rows | None]:
        """Return the map and the validated rows, in main memory as SciPy requires."""
        feature_map = self.map_
        queries = to_host(self._rows(X, feature_map))
        keys = None if Y is None else to_host(self._rows(Y, feature_map))
        return feature_map, queries, keys

    # ------------------------------------------------------------ other sigmas
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
        unfitted = _unfitted_copy(value.unfitted)
        unfitted.sigma = sigma
        other = with_value(self, replace(value, unfitted=unfitted).with_map())
        other.sigma = sigma
        return other

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
        """Frequencies, one per column, for rows that are multiplied by ``sigma_``."""
        feature_map: Any = self.map_
        return feature_map.frequencies.to_dense()


def _center_of(sampler):
    center = sampler.map_.frame.center
    return np.zeros(sampler.n_features_in_) if center is None else center


# the attribute ``center_`` of samplers that centre the rows
centered: Any = property(
    _center_of, doc="Vector that is subtracted from the rows; zero without centring."
)


def _unfitted_copy(sampler):
    """Return an unfitted copy; for plain parameters, ``clone`` takes twice as long."""
    params = sampler.get_params(deep=False)
    for name, value in params.items():
        if isinstance(value, Sized) or hasattr(value, "get_params"):
            params[name] = clone(value, safe=False)
    return type(sampler)(**params)
