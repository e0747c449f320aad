"""What all samplers share: validation, statistics, the loop over chunks, kernels."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    on_host,
    refuse_lazy,
    to_host,
    to_namespace_of,
    type_name,
    validate_rows,
)
from .._compat import (
    ARRAY_API,
    DOC_LINK,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    TypedBaseEstimator,
    TypedTransformerMixin,
    _fit_context,
    _num_samples,
    _safe_indexing,
    warn,
)
from .._state import STATE_METHODS, aside, check_mergeable, same
from .._workers import blas_within_processors
from ..frequencies import Frequencies
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

_ERROR_ROWS = 16  # rows of each side, whose pairs tell of the error

_MOST_PHASE = {4: 2.0**23, 8: 2.0**52}  # that a type resolves, by its size


def fitted(path: str, doc: str) -> Any:
    """Return a read-only attribute that is a part of the fitted sampler."""
    return property(attrgetter(path), doc=doc)


class BaseFeatureSampler(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TypedTransformerMixin,
    TypedBaseEstimator,
    metaclass=ABCMeta,
):
    """Features with ``E[transform(x) @ transform_key(y)] == exact_kernel(x, y)``.

    A subclass states its parameters (``__init__``, ``_parameter_constraints``) and, in
    ``_make_map``, which :class:`~sklearn_crt.extend.FeatureMap` follows from them and
    from the statistics of the rows. Everything else is done here.
    """

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
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

    map_: FeatureMap
    _statistics: Statistics
    _recipe: Any  # an unfitted copy, whose parameters count until the next fit
    _dtype: str  # of the rows of fit
    _is_frozen: bool
    _doubtful_below: float = 64  # columns, of which fit looks at the stated error
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    __sklearn_array_api_convert__ = convert_fit_namespace
    __getstate__, __setstate__, __copy__ = STATE_METHODS

    # ------------------------------------------------------------------- hooks
    @abstractmethod
    def _make_map(self, statistics: Statistics, drawn: FeatureMap | None) -> FeatureMap:
        """Return the map: a function of the parameters and the statistics alone.

        ``drawn`` is a map of the same parameters but sigma, and of the same seed, or
        None: where the distribution of the frequencies does not depend on the
        statistics they may be taken from there.
        """

    def _reads(self) -> dict[str, Any]:
        """Return what ``_make_map`` needs beside the moments of the columns.

        ``{"rows": n}`` are samples of n rows of each side, ``{"covariance": True}`` the
        second moments of pairs of columns.
        """
        return {}

    def _frame(self, statistics: Statistics, center: np.ndarray | None = None) -> Frame:
        """Return the frame of the parameter sigma, about a centre."""
        return Frame(resolve_sigma(self.sigma, statistics), center)

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
        """Choose the parameters from the statistics of X and draw the frequencies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the query side, and of both sides without ``X_key``.
        y : None
            Ignored.
        X_key : {array-like, sparse matrix} of shape (n_keys, n_features), default=None
            Rows of the key side, where their distribution differs from that of X.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of X in all statistics.

        Returns
        -------
        self : object
            The fitted sampler.

        Raises
        ------
        ValueError
            If a parameter or X is out of range; the message says what is allowed.
        """
        context = self._init_callback_context()
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        with aside(self) as made:
            made._fit(X, X_key, sample_weight)
            made._warn_of_errors(X, X if X_key is None else X_key)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: TableLike,
        y: Any = None,
        *,
        X_key: TableLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch to the statistics; equals ``fit`` on all rows together.

        The order of the batches does not matter, except where more than 1000 rows are
        sampled (``sigma="median"``). The parameters are those of the first call. The
        map follows the rows, so read all batches first, then ``freeze()``, then
        ``transform``; a warning says where features change.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : None
            Ignored.
        X_key : {array-like, sparse matrix} of shape (n_keys, n_features), default=None
            More rows of the key side.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows of X.

        Returns
        -------
        self : object
            The sampler, with a map for all rows seen so far.

        Raises
        ------
        ValueError
            If the sampler is frozen, or as for ``fit``.
        """
        before = getattr(self, "map_", None)
        with aside(self) as made:
            first = not hasattr(made, "_statistics")
            if first:
                made._start_fit()
            made._check_not_frozen("partial_fit")
            made._read(X, X_key, sample_weight, reset=first)
        if self._differs_from_used(before):
            name = type(self).__name__
            warn(
                f"partial_fit changed the map of this {name} after transform had been "
                "used: features of earlier rows belong to another map. Call "
                "partial_fit on all batches (or fit on a sample of rows) first, then "
                "freeze(), then transform; or learn through "
                f"NadarayaWatsonClassifier({name}(...)).partial_fit, which does it.",
                UserWarning,
            )
        return self

    def _differs_from_used(self, before: FeatureMap | None) -> bool:
        """Return whether a row has other features than by a map that was used."""
        if before is None or "was_used" not in vars(before):
            return False
        probe = np.ones((1, self.n_features_in_), self._dtype)
        with np.errstate(all="ignore"):
            old, new = (transform(m, probe)[0] for m in (before, self.map_))
        return not np.array_equal(old, new, equal_nan=True)

    def merge(self, other: Self) -> Self:
        """Add the rows of another fitted sampler to the statistics.

        Equals ``fit`` on the rows of both, with the seed of this sampler, up to the
        choice of rows where more than 1000 are sampled.

        Parameters
        ----------
        other : sampler of the same class and parameters
            Fitted on other rows with the same columns; it does not change.

        Returns
        -------
        self : object
            The sampler, with a map for all rows.

        Raises
        ------
        ValueError
            If classes, parameters or columns differ, or a sampler is frozen.
        """
        check_mergeable(self, other)
        for sampler in (self, other):
            sampler._check_not_frozen("merge")
        mine, theirs = (
            {**sampler._recipe.get_params(), "n_jobs": None, "random_state": None}
            for sampler in (self, other)
        )
        differ = [name for name in mine if not same(mine[name], theirs[name])]
        if differ:
            raise ValueError(
                f"merge needs samplers of the same parameters, but {differ[0]} is "
                f"{mine[differ[0]]!r} in one and {theirs[differ[0]]!r} in the other."
            )
        self._update_map(self._statistics + other._statistics)
        return self

    def freeze(self) -> Self:
        """Fix the map for good, and forget the sampled rows, if any.

        Returns
        -------
        self : object
            The sampler; ``partial_fit`` and ``merge`` raise ValueError until the next
            ``fit``, and a pickle of the sampler holds no row of the data.
        """
        check_is_fitted(self)
        self._statistics, self._is_frozen = self._statistics.without_rows(), True
        return self

    def _start_fit(self) -> None:
        """Note the parameters, which count until the next ``fit``, and a seed."""
        self._recipe = _unfitted_copy(self)
        random_state = check_random_state(self.random_state)
        seed = random_state.randint(2**31 - 1, size=4).tolist()
        self._statistics, self._is_frozen = Statistics(tuple(seed)), False
        self.__dict__.pop("map_", None)

    def _fit(self, X: Any, X_key: Any, sample_weight: Any) -> None:
        """Fit without a look at the error: that of a part says little of the whole."""
        self._start_fit()
        self._read(X, X_key, sample_weight, reset=True)

    def _warn_of_errors(self, X: Any, X_key: Any) -> None:
        """Warn where the stated error exceeds the kernel for half of some pairs."""
        n, sizes = self.n_components, [_num_samples(X), _num_samples(X_key)]
        if n >= self._doubtful_below or min(sizes) < 2 * _ERROR_ROWS:
            return
        steps = (np.arange(_ERROR_ROWS) + offset for offset in (0.25, 0.75))
        tables = (side.tocsr() if issparse(side) else side for side in (X, X_key))
        rows = (
            self._rows(_safe_indexing(side, (step * size / _ERROR_ROWS).astype(int)))
            for side, size, step in zip(tables, sizes, steps, strict=True)
        )
        ratio = relative_error(self.map_, *self.map_.frame.pair(*map(to_host, rows)))
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
            f"error of the kernel is {ratio:.2g} times the kernel itself for half of "
            f"the pairs, so zero would be a better estimate. {advice} "
            "sklearn_crt.compare_samplers measures the error of samplers on your rows.",
            UserWarning,
        )

    def _read(self, X: Any, X_key: Any, sample_weight: Any, reset: bool) -> None:
        instead = "sklearn_crt.dask.fit(sampler, X)"
        refuse_lazy(self, instead, X, X_key, sample_weight)
        statistics, dtype = self._collect_statistics(X, X_key, sample_weight, reset)
        self._update_map(statistics, dtype)

    def _collect_statistics(
        self, X: Any, X_key: Any, sample_weight: Any, reset: bool, n_before: int = 0
    ) -> tuple[Statistics, str]:
        """Return the statistics of the rows so far and of these, and their type."""
        if reset:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")
        X = self._validate(X, reset=reset)
        if sample_weight is not None:
            sample_weight = read_weights(X, sample_weight)
        if X_key is not None:
            X_key = self._validate(to_namespace_of(X_key, X), reset=False)
        recipe = self._recipe
        sigma = getattr(recipe, "sigma", None)
        median = isinstance(sigma, str) and sigma == "median"
        options = {"median": median, "n_before": n_before, **recipe._reads()}
        call = blas_within_processors(X.shape[0])
        statistics = call(self._statistics.read, X, X_key, sample_weight, **options)
        return statistics, type_name(X)

    def _update_map(self, statistics: Statistics, dtype: Any = None) -> None:
        """Set the statistics, and the map that follows from them."""
        drawn = getattr(self, "map_", None)
        if drawn is None and dtype is not None:
            self._dtype = np.dtype(dtype).name
        made = self._recipe._make_map(statistics, drawn)
        self._statistics, self.map_ = statistics, made.astype(self._dtype)

    def _check_not_frozen(self, method):
        if self._is_frozen:
            raise ValueError(
                f"{method} would change the map of this {type(self).__name__}, which "
                "is frozen. Fit a new sampler, or call freeze() later."
            )

    def _validate(self, X: Any, reset: bool) -> Any:
        return validate_rows(self, X, reset=reset)

    def _rows(self, X: Any) -> Any:
        """Return rows for the map in use, whose squares are in range."""
        if self._needs_no_checks(X):
            return X  # where validate_data takes most of the time of a row
        refuse_lazy(self, "sklearn_crt.dask.map_rows(sampler.transform, X)", X)
        X = self._validate(X, reset=False)
        self.map_.frame.check(X)
        return X

    def _needs_no_checks(self, X: Any) -> bool:
        """Return whether X is a table that ``validate_data`` would return as it is."""
        if type(X) is not np.ndarray or X.dtype not in (np.float64, np.float32):
            return False
        if X.ndim != 2 or X.shape[0] == 0 or hasattr(self, "feature_names_in_"):
            return False
        return X.shape[1] == self.n_features_in_ and self.map_.frame.holds(X)

    def __sklearn_is_fitted__(self):
        """Return whether there is a map."""
        return hasattr(self, "map_")

    # ------------------------------------------------------------- transforming
    def transform(self, X: TableLike) -> np.ndarray:
        """Map X to the features of the query side.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows. float32 is kept, everything else becomes float64.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            The features of each row, which depend on no other row. Where all features
            of a row are too small for the type (positive maps, far from the centre), a
            warning says how many rows are zero.

        Raises
        ------
        ValueError
            If the squares of a row times sigma are too large for the type: values
            beyond 1e19 in float32, 1e154 in float64.
        """
        return self._transform(X, key=False)

    def transform_key(self, X: TableLike) -> np.ndarray:
        """Map X to the features of the key side.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the key side.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            The same as those of ``transform``, unless ``symmetric_`` is False.
        """
        return self._transform(X, key=True)

    def _transform(self, X: Any, key: bool) -> Any:
        check_is_fitted(self)
        check_fit_namespace(self, X, "transform_key" if key else "transform")
        rows = self._rows(X)
        vars(self.map_)["was_used"] = True
        self._warn_of_phases(rows)
        features, n_zero, overflows = transform(
            self.map_, rows, key=key, n_jobs=self.n_jobs
        )
        name = type(self).__name__
        if n_zero:
            warn(
                f"All features of {n_zero} rows are too small for {features.dtype} and "
                f"became 0. Use a smaller sigma, float64, or NadarayaWatsonClassifier("
                f"{name}(...)), which works with the logarithms of the features.",
                RuntimeWarning,
            )
        if overflows:
            warn(
                f"Features of {name} are too large for {features.dtype} and became "
                "infinite. Use a smaller sigma or float64.",
                RuntimeWarning,
            )
        return to_namespace_of(features, X)

    def _warn_of_phases(self, rows: Any) -> None:
        """Warn where sines are of phases that their type does not resolve."""
        rate = self.map_.phase_rate
        if rate == 0 or not on_host(rows):  # where a look waits for the device
            return
        most = _MOST_PHASE[rows.dtype.itemsize]
        n_rows = self.map_.frame.count_beyond(rows, most / rate)
        if n_rows:
            warn(
                f"For {n_rows} rows {type(self).__name__} takes sines and cosines of "
                f"phases beyond {most:.2g}, which {rows.dtype} does not resolve: these "
                "features are noise. Use a smaller sigma or float64, or scale the "
                "columns, for instance with StandardScaler.",
                RuntimeWarning,
            )

    # ------------------------------------------------------------------ kernels
    def exact_kernel(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the kernel that the features estimate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Kernel values, in the type of X.
        """
        queries, keys = self._pair(X, Y)
        with np.errstate(over="ignore"):  # the warning says more
            kernel = self.map_.kernel(*self.map_.frame.pair(queries, keys))
            kernel = kernel.astype(queries.dtype, copy=False)
        n_pairs = int(np.count_nonzero(np.isinf(kernel)))
        if n_pairs:
            warn(
                f"Kernel values of {type(self).__name__} for {n_pairs} pairs of rows "
                f"are too large for {kernel.dtype} and became infinite. Use a "
                "smaller sigma or float64.",
                RuntimeWarning,
            )
        return to_namespace_of(kernel, X)

    def approximate_kernel(
        self, X: TableLike, Y: TableLike | None = None
    ) -> np.ndarray:
        """Return the estimate of the kernel, ``transform(X) @ transform_key(Y).T``.

        It is computed in log space, so it is finite wherever the estimate itself is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Unbiased estimates, in the type of X.
        """
        queries, keys = self._pair(X, Y)
        feature_map = self.map_.to(queries)
        rows = feature_map.frame.rows(queries)
        others = rows
        if keys is not None:
            others = feature_map.frame.rows(keys.astype(queries.dtype, copy=False))
        return to_namespace_of(feature_map.estimate(rows, others), X)

    def kernel_variance(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the exact variance of ``approximate_kernel`` over the frequencies.

        Where ``variance_is_exact_`` is False it is that of independent frequencies
        (couplings without a fixed angle: ``"simplex+"``, ``"halton"``, ``"sobol"``), or
        that of the exact blocks which a structured coupling without padding
        approximates. Of positive maps it holds, but says little once sigma is not
        small: it can exceed squared errors that are seen by orders of magnitude, ruled
        by draws too rare to be met.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            The mean squared errors of the unbiased estimates, infinite where they are
            too large for float64.
        """
        rows = self._pair(X, Y)
        pair = self.map_.frame.pair(*rows)
        with np.errstate(over="ignore"):
            variance = variance_in_blocks(self.map_, *pair)
        return to_namespace_of(variance, X)

    def _pair(self, X: TableLike, Y: TableLike | None) -> tuple[Rows, Rows | None]:
        """Return validated rows on the host, where SciPy works."""
        check_is_fitted(self)
        queries = to_host(self._rows(X))
        return queries, None if Y is None else to_host(self._rows(Y))

    # ------------------------------------------------------------ other numbers
    def with_sigma(self, sigma: Sigma) -> Self:
        """Return this fitted sampler with another sigma, without reading the rows.

        Parameters
        ----------
        sigma : float, {"scale", "median"} or array-like of shape (n_features,)
            The new value; ``"median"`` only where it was the old one too.

        Returns
        -------
        sampler : sampler
            A copy, equal to a sampler fitted with ``sigma`` on the same rows. It shares
            the frequencies, unless their distribution depends on the data.

        Raises
        ------
        ValueError
            If sigma is out of range, or ``"median"`` without a sample of the rows.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.sigma = sigma
        other._recipe = _unfitted_copy(self._recipe)
        other._recipe.sigma = sigma
        other._update_map(self._statistics)
        return other

    # --------------------------------------------------------------- attributes
    sigma_: float | np.ndarray = fitted(
        "map_.frame.sigma", "Multiplier of the inputs in use."
    )
    frequencies_: Frequencies = fitted(
        "map_.frequencies", "Frequencies at unit bandwidth."
    )
    symmetric_: bool = fitted(
        "map_.symmetric", "Whether ``transform_key`` is the same map as ``transform``."
    )
    variance_is_exact_: bool = fitted(
        "map_.variance_is_exact",
        "Whether ``kernel_variance`` is that of the coupling in use.",
    )
    _n_features_out: int = fitted("map_.n_components", "Number of columns.")

    @property
    def center_(self) -> np.ndarray:
        """Vector subtracted from the rows, zero without a centre."""
        center = self.map_.frame.center
        return np.zeros(self.n_features_in_) if center is None else center

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: sparse input, float32 and float64 kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = ARRAY_API
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _unfitted_copy(sampler):
    """Return what ``clone`` does, at half the time where parameters are plain."""
    params = sampler.get_params(deep=False)
    for name, value in params.items():
        if isinstance(value, (list, tuple, np.ndarray)) or hasattr(value, "get_params"):
            params[name] = clone(value, safe=False)
    return type(sampler)(**params)
