"""What all feature maps share: validation, statistics, chunks and threads."""

from __future__ import annotations

import warnings
from abc import ABCMeta, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral, Real

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state, gen_batches, gen_even_slices
from sklearn.utils.validation import check_is_fitted, validate_data

from .._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _check_sample_weight,
    _fit_context,
    _get_threadpool_controller,
)
from ..frequencies import Projection
from ..utils._bandwidth import RowSample, resolve_sigma
from ..utils._moments import Moments
from ._path import SigmaPathMixin
from ._rows import UnitRows
from ._trio import KernelTrioMixin

_CHUNK_BYTES = 2**21  # of features: few enough for the cache, enough for the product


class BaseFeatureSampler(
    KernelTrioMixin,
    SigmaPathMixin,
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

        def fill(part):
            return self._fill(X[part], out[part], key)

        faults = _in_threads(fill, X.shape[0], n_threads)
        zero_rows, overflows = zip(*faults, strict=True)
        self._warn_of_range(sum(zero_rows), any(overflows), out.dtype)
        return out

    def _fill(self, X, out, key):
        """Write the features of X to out; return the number of zero rows, overflow."""
        n_zero, overflows = 0, []
        with np.errstate(over="call", call=lambda *_: overflows.append(1)):
            tables = self._tables(X.dtype)
            for rows in self._chunks(X):
                part = out[rows]
                unit = self._unit(X[rows], *tables)
                mantissa, exponent = self._features(unit, part, key)
                if exponent is not None and mantissa is None:
                    np.exp(exponent, out=part)
                elif exponent is not None:
                    np.multiply(mantissa, np.exp(exponent), out=part)
                elif mantissa is not part:
                    part[:] = mantissa
                if exponent is not None and not part[:, 0].all():
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
        tables = self._tables(X.dtype)
        for rows in self._chunks(X):
            out = np.empty((rows.stop - rows.start, self.n_components), dtype=X.dtype)
            yield rows, *self._features(self._unit(X[rows], *tables), out, key)

    def _chunks(self, X):
        width = X.dtype.itemsize * max(self.n_components, X.shape[1])
        return gen_batches(X.shape[0], min(max(256, _CHUNK_BYTES // width), 1024))

    def _tables(self, dtype):
        """Return what all chunks share: the frequencies, and them stacked or None."""
        frequencies = self._frequencies(dtype)
        affine = self._affine(frequencies)
        return frequencies, None if affine is None else frequencies.stack(*affine)

    def _frequencies(self, dtype):
        same = self.projection_.sq_norms.dtype == dtype
        return self.projection_ if same else self.projection_.to(dtype)

    def _unit(self, X, frequencies=None, stacked=None, sigma=None):
        frequencies = frequencies or self._frequencies(X.dtype)
        sigma = self.sigma_ if sigma is None else sigma
        return UnitRows(X, sigma, self._center(), frequencies, stacked)

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

    def _affine(self, frequencies):
        """Return scale and offsets of the exponents ``scale * w.x + offset``, or None.

        For maps that take ``rows.affine``, which is faster than ``rows.projection``.
        """
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


def _in_threads(function, n_rows, n_threads):
    """Call a function on even slices of the rows, each in a thread with one of BLAS.

    joblib's pool would sleep between looks for results, longer than a small transform
    takes, and under a backend of processes it would fill copies of the output.
    """
    if n_threads == 1:
        return [function(slice(None))]
    parts = gen_even_slices(n_rows, n_threads)
    one_blas_thread = _get_threadpool_controller().limit(limits=1, user_api="blas")
    with one_blas_thread, ThreadPoolExecutor(n_threads) as pool:
        return list(pool.map(function, parts))
