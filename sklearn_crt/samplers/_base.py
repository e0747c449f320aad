"""What all samplers share: validation, statistics, the loop over chunks, kernels."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from operator import attrgetter
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    clone,
)
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._arrays import to_host
from .._compat import (
    ARRAY_API,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _check_sample_weight,
    _fit_context,
)
from .._dispatch import (
    ArrayAPIMixin,
    beside,
    check_home,
    float_types,
    follow,
    home_of,
    on_host,
    type_name,
    validated,
)
from .._lazy import refuse_lazy
from ..maps import (
    FeatureMap,
    features_on_device,
    iter_log_features,
    iter_on_device,
    variance_in_blocks,
)
from ..rows import (
    Frame,
    Rows,
    Sigma,
    Statistics,
    TableLike,
    blas_within_processors,
    effective_n_threads,
    in_threads,
    kept_scratch,
    resolve_sigma,
    row_chunks,
    width_of,
)


def fitted(path: str, doc: str) -> Any:
    """Return a read-only attribute that is a part of the fitted sampler.

    Parameters
    ----------
    path : str
        Where it stands, as ``"map_.A"``.
    doc : str
        Its docstring.

    Returns
    -------
    attribute : property
        Missing before ``fit``.
    """
    return property(attrgetter(path), doc=doc)


class BaseFeatureSampler(
    ArrayAPIMixin,
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Features with ``E[transform(x) @ transform_key(y)] == exact_kernel(x, y)``.

    A sampler states its parameters (``__init__``, ``_parameter_constraints``) and, in
    ``_make_map``, which :class:`~sklearn_crt.maps.FeatureMap` follows from them and
    from the statistics of the rows. All else is done here.
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

    map_: FeatureMap
    _statistics: Statistics
    _is_frozen: bool

    # ------------------------------------------------------------------- hooks
    @abstractmethod
    def _make_map(self, statistics: Statistics, drawn: FeatureMap | None) -> FeatureMap:
        """Return the map: a function of the parameters and the statistics alone.

        ``drawn`` is a map of the same parameters but sigma, and of the same seed, or
        None: where the law of the frequencies does not depend on the statistics they
        may be taken from there.
        """

    def _reads_rows(self) -> bool:
        """Return whether ``_make_map`` needs samples of the rows of each side."""
        return False

    def _n_sampled_rows(self) -> int:
        """Return the size of these samples."""
        return 1000

    def _reads_covariance(self) -> bool:
        """Return whether ``_make_map`` needs second moments of pairs of columns."""
        return False

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency, the largest where the data decide."""
        return 1

    def _frame(self, statistics: Statistics, center: np.ndarray | None = None) -> Frame:
        """Return the frame of the parameter sigma, about a centre."""
        return Frame(resolve_sigma(self.sigma, statistics), center)

    # ------------------------------------------------------------------ fitting
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: TableLike,
        y: None = None,
        *,
        X_key: TableLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Choose the parameters from the statistics of X and draw the frequencies.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows of the query side, and of both sides without ``X_key``. Only the
            mean, variance, mean magnitude and minimum of the columns are read (and
            a sample of 1000 rows where ``sigma="median"``).
        y : None
            Ignored, here for the interface of scikit-learn.
        X_key : {array-like, sparse matrix} of shape (n_keys, n_features), default=None
            Rows of the key side where they have another law than X.
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
        self._begin()
        self._read(X, X_key, sample_weight, reset=True)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: TableLike,
        y: None = None,
        *,
        X_key: TableLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch to the statistics; equals ``fit`` on all the rows together.

        In any order of the batches, except that ``sigma="median"`` of more than 1000
        rows samples rows by their place. The parameters are those of the first call.

        The map follows the rows: features that ``transform`` gave before are not those
        that it gives afterwards, and one warning says so. Read all batches first, then
        ``freeze()``, then transform.

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
            The sampler, with parameters for all the rows seen so far.

        Raises
        ------
        ValueError
            If the sampler is frozen, or as for ``fit``.
        """
        first = not hasattr(self, "_statistics")
        if first:
            self._begin()
        self._check_not_frozen("partial_fit")
        before = None if first else self.map_
        in_use = not first and self._use.transformed
        self._read(X, X_key, sample_weight, reset=first)
        if in_use and not self._has_warned:
            probe = np.ones((1, self.n_features_in_), self._dtype)
            if _differ(before, self.map_, probe):
                self._warn_of_moved_map()
        return self

    def merge(self, other: Self) -> Self:
        """Add the rows behind another fitted sampler to the statistics.

        Equals ``fit`` on the rows of both, with the seed of this sampler; up to the
        choice of rows where a mechanism reads a sample of more than 1000.

        Parameters
        ----------
        other : sampler of the same class and parameters
            Fitted on other rows with the same columns; it stays as it was.

        Returns
        -------
        self : object
            The sampler, with parameters for all the rows.

        Raises
        ------
        ValueError
            If the two do not fit together, or one is frozen.
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise ValueError(
                f"merge needs another {type(self).__name__}, got {other!r}."
            )
        check_is_fitted(other)
        for sampler in (self, other):
            sampler._check_not_frozen("merge")
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"merge needs samplers of the same columns, but one has "
                f"{self.n_features_in_} features and the other {other.n_features_in_}."
            )
        mine, theirs = (
            {**sampler._recipe.get_params(), "n_jobs": None, "random_state": None}
            for sampler in (self, other)
        )
        differ = [name for name in mine if repr(mine[name]) != repr(theirs[name])]
        if differ:
            raise ValueError(
                f"merge needs samplers of the same parameters, but {differ[0]} is "
                f"{mine[differ[0]]!r} in one and {theirs[differ[0]]!r} in the other."
            )
        self._settle(self._statistics + other._statistics)
        return self

    def freeze(self) -> Self:
        """Fix the map for good, and forget the sample of rows, if there is one.

        Returns
        -------
        self : object
            The sampler; ``partial_fit`` and ``merge`` raise ValueError until the next
            ``fit``, and a pickle of it holds no row of the data.
        """
        check_is_fitted(self)
        self._statistics, self._is_frozen = self._statistics.without_rows(), True
        return self

    def _begin(self):
        """Note the parameters, which count until the next ``fit``, and a seed."""
        self._recipe = _unfitted_copy(self)
        random_state = check_random_state(self.random_state)
        seed = random_state.randint(2**31 - 1, size=4).tolist()
        self._statistics, self._is_frozen = Statistics(tuple(seed)), False
        self._has_warned = False  # of a map that moved while it was in use
        self.__dict__.pop("map_", None)

    def _read(self, X, X_key, sample_weight, reset):
        instead = "sklearn_crt.dask.fit(sampler, X)"
        refuse_lazy(self, instead, X, X_key, sample_weight)
        self._settle(*self._observe(X, X_key, sample_weight, reset))

    def _observe(self, X, X_key, sample_weight, reset, n_before=0):
        """Return the statistics of the rows so far and of these, and their type."""
        if reset:
            self._home = home_of(X)
        else:
            check_home(self, X, "partial_fit")
        X = self._validate(X, reset=reset)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                follow(sample_weight, X),
                X,
                dtype=np.float64 if on_host(X) else float_types(X)[0],
                ensure_non_negative=True,
            )
        if X_key is not None:
            X_key = self._validate(follow(X_key, X), reset=False)
        recipe = self._recipe
        sigma = getattr(recipe, "sigma", None)
        with blas_within_processors(X.shape[0]):
            statistics = self._statistics.read(
                X,
                X_key,
                sample_weight,
                median=isinstance(sigma, str) and sigma == "median",
                rows=recipe._reads_rows(),
                n_rows=recipe._n_sampled_rows(),
                covariance=recipe._reads_covariance(),
                n_before=n_before,
            )
        return statistics, type_name(X)

    def _settle(self, statistics, dtype=None):
        """Set the statistics, and the map that follows from them."""
        drawn = getattr(self, "map_", None)
        if drawn is None:
            self._dtype = np.dtype(dtype).name
        made = self._recipe._make_map(statistics, drawn)
        self._statistics, self.map_ = statistics, made.to(self._dtype)
        self._use = _Use()

    def _warn_of_moved_map(self):
        self._has_warned = True
        name = type(self).__name__
        warnings.warn(
            f"partial_fit changed the map of this {name} after transform had been "
            "used: features of earlier rows belong to another map, and what was "
            "learned from them is lost. Call partial_fit on all batches (or fit on a "
            "sample of rows) first, then freeze(), then transform; or learn through "
            f"NadarayaWatsonClassifier({name}(...)).partial_fit, which does it.",
            UserWarning,
            stacklevel=4,  # past partial_fit and scikit-learn's decorator
        )

    def _check_not_frozen(self, method):
        if self._is_frozen:
            raise ValueError(
                f"{method} would change the map of this {type(self).__name__}, which "
                "is frozen. Fit a new sampler, or call freeze() later."
            )

    def _validate(self, X, reset):
        refuse_lazy(self, "sklearn_crt.dask.map_rows(sampler.transform, X)", X)
        return validated(self, X, reset=reset)

    def _rows(self, X):
        """Return rows for the map in use, whose squares are in range."""
        if self._needs_no_checks(X):
            return X  # where validate_data takes most of the time of a row
        X = self._validate(X, reset=False)
        if on_host(X):
            self.map_.frame.check(X)
        return X

    def _needs_no_checks(self, X):
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
            A row depends on no other row. Where all the features of a row are too
            small for the type (a positive map, far from the centre), one warning
            says how many rows are zero.

        Raises
        ------
        ValueError
            If the squares of a row, at the bandwidth in use, are too large for the
            type: values beyond 1e19 in float32, 1e154 in float64.
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
            The same as ``transform`` unless ``symmetric_`` is False.
        """
        return self._transform(X, key=True)

    def _transform(self, X, key):
        check_is_fitted(self)
        check_home(self, X, "transform_key" if key else "transform")
        rows = self._rows(X)
        self._use.transformed = True
        if on_host(rows):
            return beside(self._features(rows, key), X)
        out, n_zero, overflows = features_on_device(self.map_, rows, key=key)
        self._warn_of_range(n_zero, overflows, out.dtype)
        return out

    def _features(self, X, key):
        feature_map = self.map_.to(X.dtype)
        out = np.empty((X.shape[0], feature_map.n_components), dtype=X.dtype)

        def fill(part):
            return _fill(feature_map, X[part], out[part], key)

        n_threads = effective_n_threads(self.n_jobs, X.shape[0])
        zero_rows, overflows = zip(*in_threads(fill, X.shape[0], n_threads))
        self._warn_of_range(sum(zero_rows), any(overflows), out.dtype, stacklevel=6)
        return out

    def _warn_of_range(self, n_zero, overflow, dtype, stacklevel=5):
        name = type(self).__name__
        if n_zero:
            warnings.warn(
                f"All features of {n_zero} rows are too small for {dtype} and became "
                f"0. Use a smaller sigma, float64, or NadarayaWatsonClassifier(sampler="
                f"{name}(...)), which works with the logarithms of the features.",
                RuntimeWarning,
                stacklevel=stacklevel,
            )
        if overflow:
            warnings.warn(
                f"Features of {name} are too large for {dtype} and became infinite. "
                "Use a smaller sigma or float64.",
                RuntimeWarning,
                stacklevel=stacklevel,
            )

    def iter_log_features(self, X: TableLike, *, key: bool = False) -> Iterator[tuple]:
        """Yield the features chunk by chunk, as mantissas and exponents.

        Features are ``mantissa * exp(exponent)``; nothing over- or underflows.
        Nadaraya-Watson estimators work on these.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        key : bool, default=False
            Whether to take the map of the key side.

        Yields
        ------
        rows : slice
            The rows of the chunk.
        mantissa : ndarray of shape (n_rows, n_components) or None
            None stands for ones.
        exponent : ndarray of shape (n_rows, n_components), (n_rows, 1) or None
            None stands for zeros.
        """
        check_is_fitted(self)
        table = self._rows(X)
        chunks = iter_log_features if on_host(table) else iter_on_device
        for rows, *features in chunks(self.map_, table, key=key):
            yield (
                rows,
                *(None if part is None else beside(part, X) for part in features),
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
            Its values, in the type of X.
        """
        rows, keys = self._validate_pair(X, Y)
        kernel = self.map_.kernel(*self.map_.frame.pair(rows, keys))
        return beside(kernel.astype(rows.dtype, copy=False), X)

    def approximate_kernel(
        self, X: TableLike, Y: TableLike | None = None
    ) -> np.ndarray:
        """Return the estimate of the kernel, ``transform(X) @ transform_key(Y).T``.

        Computed in log space: finite wherever the estimate itself is.

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
        rows, keys = self._validate_pair(X, Y)
        feature_map = self.map_.to(rows.dtype)
        queries = feature_map.frame.rows(rows)
        if keys is None:
            return beside(feature_map.estimate(queries, queries), X)
        keys = feature_map.frame.rows(keys.astype(rows.dtype, copy=False))
        return beside(feature_map.estimate(queries, keys), X)

    def kernel_variance(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the exact variance of ``approximate_kernel`` over the frequencies.

        For the fitted parameters and coupling; where ``variance_is_exact_`` is False
        (a coupling without a fixed angle: ``"simplex+"``, ``"halton"``, ``"sobol"``) it
        is that of independent frequencies; for a structured coupling in a dimension
        that needs no padding, that of the exact blocks which it approximates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            Mean squared errors of the estimates, since these are unbiased.
        """
        rows, keys = self._validate_pair(X, Y)
        variance = variance_in_blocks(self.map_, *self.map_.frame.pair(rows, keys))
        return beside(variance, X)

    def _validate_pair(
        self, X: TableLike, Y: TableLike | None
    ) -> tuple[Rows, Rows | None]:
        check_is_fitted(self)
        X, Y = (None if Z is None else self._rows(Z) for Z in (X, Y))
        # special functions are on the host, and so is what is computed of few pairs
        X, Y = (Z if Z is None or on_host(Z) else to_host(Z) for Z in (X, Y))
        return X, Y

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
            A copy, equal to one that was fitted with ``sigma`` on the same rows. It
            shares the frequencies unless their law depends on the data.

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
        other._settle(self._statistics)
        return other

    def prefix(self, n_components: int) -> np.ndarray | None:
        """Return the columns that make the map of fewer components.

        Parameters
        ----------
        n_components : int
            Their number, at most that of this map.

        Returns
        -------
        columns : ndarray of int of shape (n_components,), or None
            Times one number they are the features of a sampler with this
            ``n_components`` fitted on the same rows; None where these are not among
            the columns (an odd number of sines and cosines).
        """
        check_is_fitted(self)
        return self.map_.prefix(n_components)

    def frequency_index(self) -> np.ndarray | None:
        """Return the index of the frequency behind each column.

        Returns
        -------
        index : ndarray of int of shape (n_components,), or None
            Numbers from 0 to the number of frequencies less one; None where columns
            have no frequency of their own.
        """
        check_is_fitted(self)
        return self.map_.frequency_index()

    # --------------------------------------------------------------- attributes
    sigma_ = fitted("map_.frame.sigma", "Multiplier of the inputs in use.")
    frequencies_ = fitted("map_.frequencies", "Frequencies at unit bandwidth.")
    symmetric_ = fitted(
        "map_.symmetric", "Whether ``transform_key`` is the same map as ``transform``."
    )
    variance_is_exact_ = fitted(
        "map_.variance_is_exact",
        "Whether ``kernel_variance`` is that of the coupling in use.",
    )
    _n_features_out = fitted("map_.n_components", "Number of columns.")

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


class _Use:
    """Whether the features of a map were asked for, which the map cannot know."""

    def __init__(self):
        self.transformed = False


def _differ(before, after, probe):
    """Return whether two maps give rows different features."""
    old, new = (m.log_features(m.frame.rows(probe)) for m in (before, after))
    return any(
        (a is None) != (b is None) or (a is not None and not np.array_equal(a, b))
        for a, b in zip(old, new, strict=True)
    )


def _fill(feature_map, X, out, key):
    """Write the features of X to out; return the number of zero rows, overflow."""
    n_zero, overflows = 0, []
    width = width_of(X, out.shape[1])
    counted = np.errstate(over="call", call=lambda *_: overflows.append(1))
    with counted, kept_scratch() as scratch:
        for rows in row_chunks(X.shape[0], width, X.dtype.itemsize, in_place=True):
            part = out[rows]
            unit = feature_map.frame.rows(X[rows], scratch)
            feature_map.features(unit, part, key=key)
            if feature_map.may_vanish(unit) and not part[:, 0].all():
                suspects = part[part[:, 0] == 0]
                n_zero += int(np.sum(~suspects.any(axis=1)))
    return n_zero, bool(overflows)
