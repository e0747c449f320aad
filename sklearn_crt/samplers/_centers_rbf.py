"""Kernel columns at k-means centres, for linear models."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from .._array import (
    Array,
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    refuse_device,
    to_namespace_of,
    validate_rows,
)
from .._compat import (
    DOC_LINK,
    Interval,
    StrOptions,
    TypedBaseEstimator,
    TypedTransformerMixin,
    _fit_context,
)
from .._state import aside, check_same_columns
from .._types import RandomState
from .._workers import effective_n_threads, in_threads, row_chunks
from ..rows import (
    Centers,
    Frame,
    Rows,
    Sigma,
    Statistics,
    TableLike,
    check_sigma,
    resolve_sigma,
)

_KEPT_ENTRIES = 2**22  # of X, from which rows are replaced by points
_FINER = 8  # times as many points as centres, as long as rows may come


class CentersRBFSampler(
    ClassNamePrefixFeaturesOutMixin, TypedTransformerMixin, TypedBaseEstimator
):
    r"""Gaussian kernel columns at k-means centres: features for ridge regression.

    The features of a row are its kernel values at ``n_components`` centres of the
    training rows. A linear model on them is a weighted sum of Gaussian bumps (a radial
    basis function network). In front of ridge regression they are as good as the same
    number of Nystroem's columns, which span the same space, without the whitening that
    makes Nystroem slow.

    Unlike the other samplers this is **no estimate of the kernel**: inner products of
    the features are not close to kernel values. So it is not for kernel averages, and
    it has no ``exact_kernel`` and no variance.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` for the Gaussian kernel, with
        ``gamma = sigma**2 / 2``; ``"median"`` is one over the median distance between
        up to 1000 rows.
    n_components : int, default=100
        Number of columns, one per centre; fewer where there are fewer distinct rows.
    n_jobs : int, default=None
        Number of threads of ``transform``; -1 uses all processors. None uses as many as
        NumPy's linear algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means, and of the rows sampled for ``sigma="median"``.

    Attributes
    ----------
    centers_ : ndarray or sparse matrix of shape (n_columns, n_features)
        The centres, in the columns of X.
    sigma_ : float or ndarray of shape (n_features,)
        The multiplier in use.
    penalty_ : ndarray of shape (n_columns, n_columns)
        Kernel values of the centres: ``b @ penalty_ @ b`` is the penalty of
        coefficients b in ridge regression on the kernel itself (Notes).
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

    See Also
    --------
    TrigRBFSampler : An unbiased estimate of the kernel, which needs no rows.
    sklearn.kernel_approximation.Nystroem : The same span, whitened.

    Notes
    -----
    With centres :math:`z_m` the features are
    :math:`f_m(x) = \exp(-|\sigma(x - z_m)|^2 / 2)`. The function
    :math:`\sum_m b_m f_m` has the squared norm :math:`b' K_{ZZ} b` in the space of the
    kernel, so

    .. math:: \min_b |F b - y|^2 + \alpha\, b' K_{ZZ} b

    is exactly ridge regression with Nystroem's approximation [1]_ at the same centres.
    A plain penalty :math:`\alpha |b|^2` with a small alpha does about as well. Models
    that need columns of one scale, above all logistic regression with its default
    penalty, are worse on raw kernel columns: the user guide measures it. k-means
    centres in place of random rows are those of [2]_.

    ``partial_fit`` keeps all rows up to about 4 million entries, and then eight times
    as many points as there are to be centres; the centres are computed when they are
    first needed.

    References
    ----------
    .. [1] C. Williams, M. Seeger, "Using the Nystroem Method to Speed Up Kernel
       Machines", NeurIPS 2000.
    .. [2] K. Zhang, I. Tsang, J. Kwok, "Improved Nystroem Low-Rank Approximation and
       Error Analysis", ICML 2008, :doi:`10.1145/1390156.1390311`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_crt import CentersRBFSampler
    >>> X, y = load_digits(return_X_y=True)
    >>> sampler = CentersRBFSampler(n_components=200, random_state=0)
    >>> model = make_pipeline(sampler, RidgeClassifier(1e-3)).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.93
    True
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

    _statistics: Statistics
    _points: Centers  # None before any rows
    _fitted: tuple[Centers, float | np.ndarray] | None
    _settings: tuple[Any, int, int]  # sigma, number of centres and seed of this fit
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    __sklearn_array_api_convert__ = convert_fit_namespace

    def __init__(
        self,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: TableLike, y: Any = None) -> Self:
        """Find the centres of the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.

        Returns
        -------
        self : object
            It holds the centres alone; the centre of a single row is that row.

        Raises
        ------
        TypeError
            If X is an array on a device under ``array_api_dispatch=True``.
        ValueError
            If a parameter or X is out of range.
        """
        with aside(self) as made:
            made._points = None  # type: ignore[assignment]
            made._add(X)
            made.freeze()
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: TableLike, y: Any = None) -> Self:
        """Add a batch of rows; equals ``fit`` on all of them while they are kept.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The sampler; its features change with the rows until ``freeze()``.
        """
        with aside(self) as made:
            made._add(X, copy=True)  # rows that stay until the next batches
        return self

    def merge(self, other: CentersRBFSampler) -> Self:
        """Add the rows, or what stands for them, behind another fitted sampler.

        Parameters
        ----------
        other : CentersRBFSampler
            Fitted on other rows with the same columns; it stays as it was.

        Returns
        -------
        self : object
            The sampler.

        Raises
        ------
        ValueError
            If the other is not such a sampler of the same columns.
        """
        check_is_fitted(self)
        if not isinstance(other, CentersRBFSampler):
            raise ValueError(f"merge needs another CentersRBFSampler, got {other!r}.")
        check_is_fitted(other)
        check_same_columns(self, other)
        self._statistics = self._statistics + other._statistics
        self._points = self._points + other._points
        self._fitted = None
        return self

    def freeze(self) -> Self:
        """Fix sigma and forget the rows: what is left are the centres.

        Returns
        -------
        self : object
            The sampler.
        """
        check_is_fitted(self)
        self._points, self._settings = (
            self._model[0],
            (self.sigma_, *self._settings[1:]),
        )
        self._statistics = self._statistics.without_rows()
        return self

    def _add(self, X, copy=False):
        first = getattr(self, "_points", None) is None
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")
        X = self._validate(X, reset=first, copy=copy)
        if first:
            self._points = None  # type: ignore[assignment]
            random_state = check_random_state(self.random_state)
            seed = tuple(random_state.randint(2**31 - 1, size=4).tolist())
            self._settings = self.sigma, self.n_components, seed[0]
            self._statistics = Statistics(seed)
        sigma, n_components, _ = self._settings
        if not isinstance(sigma, str):
            check_sigma(sigma, X.shape[1])
        median = isinstance(sigma, str) and sigma == "median"
        self._statistics = self._statistics.read(X, median=median)
        self._fitted = None
        for rows in gen_batches(X.shape[0], max(1, _KEPT_ENTRIES // X.shape[1])):
            part = Centers(X[rows], np.ones(rows.stop - rows.start, dtype=X.dtype))
            self._points = part if self._points is None else self._points + part
            n_points, n_few = self._points.shape[0], _FINER * n_components
            if n_points > 2 * n_few and n_points * X.shape[1] > _KEPT_ENTRIES:
                self._points = self._reduced(n_few)

    def _validate(self, X, *, reset, copy=False):
        """Return rows as a table of NumPy or SciPy."""
        rows = validate_rows(self, X, reset=reset, copy=copy)
        instead = ", or take TrigRBFSampler or OPRFSampler, which work on devices"
        refuse_device(self, rows, instead)
        return rows

    def _reduced(self, n_points):
        sigma = resolve_sigma(self._settings[0], self._statistics)
        dense = not sparse.issparse(self._points.points)
        frame = Frame(sigma, self._statistics.query.mean if dense else None)
        return self._points.reduced(n_points, frame, seed=self._settings[2])[0]

    @property
    def _model(self):
        """The centres with their weights, and sigma, made when they are asked for."""
        check_is_fitted(self)
        if self._fitted is None:
            sigma = resolve_sigma(self._settings[0], self._statistics)
            self._fitted = self._reduced(self._settings[1]), sigma
        return self._fitted

    @property
    def centers_(self) -> Rows:
        """The centres, in the columns of X."""
        return self._model[0].points

    @property
    def sigma_(self) -> float | np.ndarray:
        """The multiplier in use."""
        return self._model[1]

    @property
    def penalty_(self) -> np.ndarray:
        """Kernel values of the centres."""
        return self._kernel(self.centers_)(slice(None))

    @property
    def _n_features_out(self) -> int:
        return self._model[0].shape[0]

    def transform(self, X: TableLike) -> Array:
        """Return the kernel values of rows at the centres.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        features : ndarray of shape (n_samples, n_columns)
            In (0, 1], float32 for float32 rows. Under
            ``config_context(array_api_dispatch=True)`` of the library of X.

        Raises
        ------
        TypeError
            If X is an array on a device under ``array_api_dispatch=True``.
        """
        check_is_fitted(self)
        check_fit_namespace(self, X, "transform")
        asked, X = X, self._validate(X, reset=False)
        n_rows, width = X.shape[0], self._n_features_out
        out = np.empty((n_rows, width), dtype=X.dtype)
        kernel = self._kernel(X)

        def write(part):
            start = part.indices(n_rows)[0]
            for chunk in row_chunks(X[part], width):
                rows = slice(start + chunk.start, start + chunk.stop)
                out[rows] = kernel(rows)

        in_threads(write, n_rows, effective_n_threads(self.n_jobs, n_rows, width))
        return to_namespace_of(out, asked)

    def _kernel(self, X):
        """Return the function of a slice that returns its kernel values."""
        centers, sigma = self._model
        tables = X, centers.points
        kind = next((type(rows) for rows in tables if sparse.issparse(rows)), None)

        def as_kind(rows):
            return rows if kind is None or sparse.issparse(rows) else kind(rows)

        frame = Frame(sigma, None if kind else self._statistics.query.mean)
        keys = frame.rows(as_kind(centers.points.astype(X.dtype, copy=False)))

        def values(rows):
            squares = frame.rows(as_kind(X[rows])).sq_distances(keys)
            squares *= -0.5
            return np.exp(squares, out=squares)

        return values

    def __sklearn_is_fitted__(self):
        """Return whether there are rows."""
        return getattr(self, "_points", None) is not None

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
