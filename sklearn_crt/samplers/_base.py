"""What all feature maps share: validation, statistics, chunks, the kernel trio."""

from __future__ import annotations

import copy
import warnings
from abc import ABCMeta, abstractmethod
from numbers import Integral, Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state, gen_batches, gen_even_slices
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from .._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _check_sample_weight,
    _fit_context,
)
from ..frequencies import Coupling, Projection, get_coupling
from ..utils._bandwidth import RowSample, resolve_sigma
from ..utils._moments import Moments
from ._rows import UnitRows

_CHUNK_BYTES = 2**21  # of features: few enough for the cache, enough for the product


class BaseFeatureSampler(
    CallbackSupportMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    BaseEstimator,
    metaclass=ABCMeta,
):
    """Features with ``E[transform(x) @ transform_key(y)] == exact_kernel(x, y)``.

    A mechanism states its parameters (``__init__``, ``_parameter_constraints``) and
    the hooks at the end of this class; everything it sees is at unit bandwidth.
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
    _features_per_frequency = 1
    _law_is_fitted = False  # True where the law of the frequencies depends on the data
    _reads_rows = False  # True: _fit_parameters finds samples of rows in _row_samples
    symmetric_ = True  # False where transform_key is another map than transform

    # ------------------------------------------------------------------ fitting
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, *, X_key=None, sample_weight=None):
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
        self._fit(X, X_key, sample_weight, first=True)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None, *, X_key=None, sample_weight=None):
        """Add a batch to the statistics; equals ``fit`` on all the rows together.

        In any order of the batches, except that ``sigma="median"`` of more than 1000
        rows samples rows by their place.

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
        """
        return self._fit(X, X_key, sample_weight, first=not hasattr(self, "_moments"))

    def _fit(self, X, X_key, sample_weight, first):
        X = self._validate(X, reset=first)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, X, dtype=np.float64, ensure_non_negative=True
            )
        if first:
            self._moments, self._key_moments, self._sample = None, None, None
            self._row_samples = {}
            state = check_random_state(self.random_state)
            self._seed = state.randint(2**31 - 1, size=4)
        self._moments = self._gather(self._moments, X, sample_weight, key=False)
        if X_key is not None:
            X_key = self._validate(X_key, reset=False)
            self._key_moments = self._gather(self._key_moments, X_key, None, key=True)
        return self._choose(X.dtype, draw=first or self._law_is_fitted)

    def _choose(self, dtype, draw):
        """Set the parameters from the statistics, and draw the frequencies."""
        moments, key_moments = self._moments, self._key_moments or self._moments
        both = moments if self._key_moments is None else moments.merge(key_moments)
        self.sigma_ = resolve_sigma(self.sigma, both, self._sample)
        self._fit_parameters(moments, key_moments)
        if draw:
            rng, _ = self._generators()
            projection = self._draw_projection(self.n_features_in_, rng)
            self.projection_ = projection.to(dtype)
            self._after_draw(rng)
        return self

    def _generators(self):
        """Return independent streams for the frequencies and for samples of rows."""
        return np.random.default_rng(self._seed).spawn(2)

    def _gather(self, moments, X, sample_weight, key):
        if isinstance(self.sigma, str) and self.sigma == "median":
            if self._sample is None:
                self._sample = RowSample(self._generators()[1])
            self._sample.add(X, sample_weight)
        if self._reads_rows:
            if key not in self._row_samples:
                rng = self._generators()[1].spawn(2)[key]
                self._row_samples[key] = RowSample(rng)
            self._row_samples[key].add(X, sample_weight)
        batch = Moments.of(X, sample_weight)
        return batch if moments is None else moments.merge(batch)

    def _validate(self, X, reset):
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            reset=reset,
        )

    # ------------------------------------------------------------- transforming
    def transform(self, X):
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
        """
        return self._map(X, key=False)

    def transform_key(self, X):
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
        return self._map(X, key=True)

    def _map(self, X, key):
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        out = np.empty((X.shape[0], self.n_components), dtype=X.dtype)
        n_threads = min(effective_n_jobs(self.n_jobs), X.shape[0])
        faults = Parallel(n_jobs=n_threads, prefer="threads")(
            delayed(self._fill)(X[part], out[part], key)
            for part in gen_even_slices(X.shape[0], n_threads)
        )
        zero_rows, overflows = zip(*faults, strict=True)
        self._warn_of_range(sum(zero_rows), any(overflows), out.dtype)
        return out

    def _fill(self, X, out, key):
        """Write the features of X to out; return the number of zero rows, overflow."""
        n_zero, overflows = 0, []
        with np.errstate(over="call", call=lambda *_: overflows.append(1)):
            for rows in self._chunks(X):
                part = out[rows]
                mantissa, exponent = self._features(self._unit(X[rows]), part, key)
                if exponent is not None and mantissa is None:
                    np.exp(exponent, out=part)
                elif exponent is not None:
                    np.multiply(mantissa, np.exp(exponent), out=part)
                elif mantissa is not part:
                    part[:] = mantissa
                if exponent is not None:
                    suspects = part[part[:, 0] == 0]
                    n_zero += int(np.sum(~suspects.any(axis=1)))
        return n_zero, bool(overflows)

    def _warn_of_range(self, n_zero, overflow, dtype):
        name = type(self).__name__
        if n_zero:
            warnings.warn(
                f"All features of {n_zero} rows are too small for {dtype} and became "
                f"0. Use a smaller sigma, float64, or NadarayaWatsonClassifier(sampler="
                f"{name}(...)), which works with the logarithms of the features.",
                RuntimeWarning,
                stacklevel=5,
            )
        if overflow:
            warnings.warn(
                f"Features of {name} are too large for {dtype} and became infinite. "
                "Use a smaller sigma or float64.",
                RuntimeWarning,
                stacklevel=5,
            )

    def iter_log_features(self, X, *, key=False):
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
        X = self._validate(X, reset=False)
        for rows in self._chunks(X):
            out = np.empty((rows.stop - rows.start, self.n_components), dtype=X.dtype)
            yield rows, *self._features(self._unit(X[rows]), out, key)

    # ---------------------------------------------------------- model selection
    def with_sigma(self, sigma):
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
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.sigma = sigma
        if isinstance(sigma, str) and sigma == "median" and self._sample is None:
            raise ValueError(
                "sigma='median' needs a sample of the rows, which only a sampler "
                f"fitted with sigma='median' keeps, got sigma={self.sigma!r} there."
            )
        dtype = self.projection_.sq_norms.dtype
        return other._choose(dtype, draw=self._law_is_fitted)

    def iter_path(self, X, path, *, key=False):
        """Yield ``iter_log_features`` of several ``with_sigma``, chunk by chunk.

        The frequencies are applied once a chunk, not once a sampler, wherever all
        the samplers share them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        path : list of sampler
            Returned by ``with_sigma`` for numbers.
        key : bool, default=False
            Whether to take the map of the key side.

        Yields
        ------
        rows : slice
            The rows of the chunk.
        features : iterator
            The pair of mantissa and exponent for each sampler of the path.
        """
        X = self._validate(X, reset=False)
        for rows in self._chunks(X):
            yield rows, self._path_features(X[rows], path, key)

    def _path_features(self, X, path, key):
        shared = {}  # the frequencies of a projection, about a centre
        for sampler in path:
            center = sampler._center()
            place = sampler.projection_, None if center is None else center.tobytes()
            if np.ndim(sampler.sigma_) > 0:
                unit = sampler._unit(X)
            else:
                if place not in shared:
                    shared[place] = sampler._unit(X, sigma=1.0)
                unit = shared[place].scaled(sampler.sigma_)
            out = np.empty((X.shape[0], self.n_components), dtype=X.dtype)
            yield sampler._features(unit, out, key)

    def prefix(self, n_components):
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
        if n_components == self.n_components:
            return np.arange(n_components)
        n_frequencies = n_components // self._features_per_frequency
        columns = np.flatnonzero(self.frequency_index() < n_frequencies)
        return columns if columns.size == n_components else None

    def _chunks(self, X):
        width = X.dtype.itemsize * max(self.n_components, X.shape[1])
        return gen_batches(X.shape[0], min(max(256, _CHUNK_BYTES // width), 1024))

    # ------------------------------------------------------------- kernel trio
    def exact_kernel(self, X, Y=None):
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
        kernel = self._kernel(*self._unit_pair(X, Y))
        return kernel.astype(self._validate(X, reset=False).dtype, copy=False)

    def approximate_kernel(self, X, Y=None):
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
        queries = self._log_features(X, key=False)
        keys = self._log_features(X if Y is None else Y, key=True)
        (left, log_left), (right, log_right) = map(_scale_rows, (queries, keys))
        product = left @ right.T
        # where the large features of two rows stand in different columns
        lost = np.abs(product) < 1e10 * np.finfo(product.dtype).tiny
        lost &= queries[1].shape[1] > 1
        with np.errstate(over="ignore", invalid="ignore"):
            root = np.exp((log_left + log_right.T) / 2)  # the square may overflow
            estimate = product * root * root
            for i in np.flatnonzero(lost.any(axis=1)):
                mantissa = queries[0][i] * keys[0][lost[i]]
                terms, peak = _scale_rows((mantissa, queries[1][i] + keys[1][lost[i]]))
                estimate[i, lost[i]] = terms.sum(axis=1) * np.exp(peak[:, 0])
        return estimate

    def _log_features(self, X, key):
        """Return mantissas and exponents of all rows; either may have one column."""
        parts = []
        for rows, *features in self.iter_log_features(X, key=key):
            for place, fill in enumerate((1, 0)):  # None stands for ones and zeros
                if features[place] is None:
                    shape = (rows.stop - rows.start, 1)
                    features[place] = np.full(shape, fill, self._float_type(X))
            parts.append(features)
        return [np.vstack(column) for column in zip(*parts, strict=True)]

    @staticmethod
    def _float_type(X):
        return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64

    def kernel_variance(self, X, Y=None):
        """Return the exact variance of ``approximate_kernel`` over the frequencies.

        For the fitted parameters and coupling; where ``variance_is_exact_`` is False
        (a coupling without a closed form) it is that of independent frequencies.

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
        return self._variance(*self._unit_pair(X, Y))

    def _unit_pair(self, X, Y):
        check_is_fitted(self)
        X, Y = (
            None
            if Z is None
            else UnitRows(
                self._validate(Z, reset=False).astype(np.float64, copy=False),
                self.sigma_,
                self._center(),
            )
            for Z in (X, Y)
        )
        return X, X if Y is None else Y

    def _unit(self, X, sigma=None):
        frequencies = self.projection_
        if frequencies.sq_norms.dtype != X.dtype:
            frequencies = frequencies.to(X.dtype)
        sigma = self.sigma_ if sigma is None else sigma
        return UnitRows(X, sigma, self._center(), frequencies)

    # -------------------------------------------------------------------- tags
    @property
    def variance_is_exact_(self) -> bool:
        """Whether ``kernel_variance`` is that of the coupling in use."""
        return True

    @property
    def _n_features_out(self):
        return self.n_components

    @property
    def _n_frequencies(self):
        return -(-self.n_components // self._features_per_frequency)

    def frequency_index(self):
        """Return the index of the frequency behind each column.

        Returns
        -------
        index : ndarray of int of shape (n_components,)
            Numbers from 0 to the number of frequencies less one.
        """
        return np.arange(self.n_components)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: sparse input, float32 and float64 kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # ------------------------------------------------------------------- hooks
    def _center(self):
        """Return the vector subtracted from the rows, or None."""
        return None

    def _fit_parameters(self, moments: Moments, key_moments: Moments):
        """Set the fitted parameters, from the raw statistics of the two sides."""

    def _after_draw(self, rng: np.random.Generator):
        """Draw what the map needs beside its frequencies, from child streams."""

    @abstractmethod
    def _draw_projection(self, n_features: int, rng) -> Projection:
        """Draw the frequencies at unit bandwidth."""

    @abstractmethod
    def _features(self, rows: UnitRows, out: np.ndarray, key: bool):
        """Return mantissa and exponent of the features of a chunk.

        ``rows.projection`` and ``out`` may be overwritten; either may be returned.
        """

    @abstractmethod
    def _kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the kernel of all pairs."""

    @abstractmethod
    def _variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the variance of the estimate of all pairs, float64."""


def _scale_rows(features):
    """Return features divided by one factor a row, and the factors' logs."""
    mantissa, exponent = features
    log_scale = exponent.max(axis=1, keepdims=True)
    log_scale = np.where(np.isfinite(log_scale), log_scale, 0)
    return mantissa * np.exp(exponent - log_scale), log_scale


class IsotropicSampler(BaseFeatureSampler):
    """A map whose frequencies are a coupling times a law of the norm."""

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
    }
    _couplings: tuple[str, ...] | None = None  # None: all that are registered

    def _draw_projection(self, n_features, rng):
        return self._coupling().draw(
            self._radial_law, self._n_frequencies, n_features, rng
        )

    def _coupling(self):
        return get_coupling(self.coupling, type(self).__name__, self._couplings)

    @property
    def variance_is_exact_(self) -> bool:
        """Whether ``kernel_variance`` is that of the coupling in use."""
        check_is_fitted(self)
        return self._n_pairs() == 0 or self._has_closed_form()

    def _has_closed_form(self) -> bool:
        """Return whether what a pair of frequencies in a block saves is known."""
        return False

    def _n_pairs(self):
        """Return the number of ordered pairs of frequencies that share a block."""
        sizes = self._coupling().block_sizes(self._n_frequencies, self.n_features_in_)
        return int(np.sum(sizes * (sizes - 1)))

    @abstractmethod
    def _radial_law(self, n_features: int):
        """Return the law of the norm of a frequency in this dimension."""
