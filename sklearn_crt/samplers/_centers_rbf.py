"""Nystroem features for linear models, with a choice of landmarks (centres)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from .._compat import RandomState, StrOptions, TypedTransformerMixin, _fit_context
from .._values import check_same_params
from ..arrays.namespaces import Array, row_chunks, to_namespace_of
from ..arrays.threads import effective_n_threads, in_threads
from ..arrays.validation import refuse_device, validate_rows
from ..life_cycle.fitted import (
    Batch,
    LearnedValue,
    LifeCycle,
    Step,
    no_step,
    solution_for_names,
)
from ..rows import (
    Centers,
    Frame,
    Rows,
    Sigma,
    Statistics,
    TableLike,
    check_sigma,
    read_weights,
    resolve_sigma,
)
from ..rows.clustering import validated_centers
from ._base import DEFAULTS, BaseFeatureSampler, fitted, set_or_default

# number of sampled rows per centre
_N_ROWS = {"kmeans": 20, "rpcholesky": 10, "random": 1, "array": 0}


class _CenterChoices(NamedTuple):
    """The parameters and the seed of a fit."""

    sigma: Any
    n_components: int
    centers: str  # "array" if the centres are given by the user
    whiten: bool
    seed: int
    given_centers: Rows | None


class _ChosenCenters(NamedTuple):
    """The chosen centres, and the other values that determine the features."""

    points: Centers
    sigma: float | np.ndarray
    # (n_points, n_points), root of the inverse kernel matrix; None if the features are
    # not whitened
    root: np.ndarray | None


@dataclass(frozen=True, eq=False)
class CentersValue(LearnedValue["_ChosenCenters"]):
    """Statistics and a sample of the rows, and the centres that are chosen from it."""

    choices: _CenterChoices
    statistics: Statistics
    owner: ClassVar[str] = "CentersRBFSampler"

    def plus(self, batch: Batch, step: Step = no_step) -> CentersValue:
        sigma, n_points, method, *_ = self.choices
        if not isinstance(sigma, str):
            check_sigma(sigma, batch.X.shape[1])
        median = isinstance(sigma, str) and sigma == "median"
        n_rows = _N_ROWS[method] * n_points
        options: dict[str, Any] = {"median": median, "rows": n_rows}
        X, weights = batch.X, batch.weights
        statistics = self.statistics.read(X, sample_weight=weights, **options)
        return replace(self, statistics=statistics, known=None)

    def __add__(self, other: CentersValue) -> CentersValue:
        check_same_params(self.choices._asdict(), other.choices._asdict())
        statistics = self.statistics + other.statistics
        return replace(self, statistics=statistics, known=None)

    def _without_rows(self) -> CentersValue:
        return replace(self, statistics=self.statistics.without_rows())

    @property
    def origin(self) -> np.ndarray:
        """The mean of the rows, which is subtracted from dense rows."""
        return self.statistics.query.mean

    def _learn(self, step: Step = no_step) -> _ChosenCenters:
        sigma, n_points, method, whiten, seed, rows = self.choices
        sigma = resolve_sigma(sigma, self.statistics)
        if rows is None:
            sampled = self.statistics.query_sample
            assert sampled is not None
            rows = sampled.X
            points = Centers(rows, sampled.weights * (sampled.n_seen / rows.shape[0]))
        else:
            points = Centers(rows, np.ones(n_points))
        frame = Frame(sigma, None if sparse.issparse(rows) else self.origin)
        if method == "kmeans":
            points, _ = points.reduced(n_points, frame, seed=seed, n_steps=2)
        elif method == "rpcholesky":
            points = points.pivots(n_points, frame, seed=seed)
        elif method == "random":
            points = points.drawn(n_points, seed=seed)
        root = None
        if whiten:
            wide = points.points.astype(np.float64)
            kernel = _kernel_of_rows(wide, wide, sigma, self.origin)(wide)
            root = _inverse_root(kernel, points.points.dtype)
        return _ChosenCenters(points, sigma, root)


class CentersRBFSampler(
    ClassNamePrefixFeaturesOutMixin, TypedTransformerMixin, LifeCycle
):
    r"""Features for linear models, computed from Gaussian kernel values at landmarks.

    The landmarks, called centres here, are ``n_components`` points that represent the
    training rows. By default the features are those of scikit-learn's ``Nystroem`` at
    these points, up to a rotation: kernel values between a row and the centres,
    multiplied by a square root of the inverse kernel matrix of the centres (whitening).
    Centres found by k-means represent the data better than the random rows that
    ``Nystroem`` uses, so fewer features are needed. Use this sampler in a pipeline
    before any linear model, for instance ``LogisticRegression(C=10)``, or as the
    ``kernel`` of :class:`RandomFeatureRidge`.

    Unlike the other samplers, this one does not give an unbiased estimate of the
    kernel: the inner product of the features equals the kernel at the centres, but it
    is inaccurate for rows that are far from all centres. The sampler therefore has no
    ``exact_kernel`` and no ``kernel_variance``, and should not be used for kernel
    averages.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features, one per centre. If there are fewer distinct rows, each of
        them becomes a centre. None means 100, unless an estimator or a hybrid that uses
        the sampler sets a number.
    centers : {"kmeans", "rpcholesky", "random"} or array-like, default="kmeans"
        How the centres are chosen.

        - ``"kmeans"``: cluster means after two iterations of k-means, which is
          initialised with random rows and applied to a sample of at most 20 rows per
          centre.
        - ``"rpcholesky"``: the pivots of a randomly pivoted Cholesky factorisation
          [3]_, [4]_ of the kernel matrix of at most 10 sampled rows per centre. The
          method skips rows whose kernel values are already determined by the rows
          chosen so far.
        - ``"random"``: rows chosen at random, as in ``Nystroem``.
        - an array or a sparse matrix of shape (n_components, n_features): its rows are
          the centres.
    whiten : bool, default=True
        Whether to multiply the kernel values by a square root of :math:`K_{ZZ}^{-1}`,
        the inverse kernel matrix of the centres. ``Nystroem`` does this too, so that
        the penalty of a linear model treats all directions equally. With
        ``whiten=False`` the features are the kernel values themselves; ``transform`` is
        faster, but a suitable penalty has to be chosen (see Notes).
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed for choosing the centres, and for sampling rows if ``sigma="median"``.

    Attributes
    ----------
    centers_ : ndarray or sparse matrix of shape (n_columns, n_features)
        The centres, in the units of the columns of X.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    penalty_ : ndarray of shape (n_columns, n_columns)
        The identity or, with ``whiten=False``, the kernel matrix of the centres. For
        coefficients b, ``b @ penalty_ @ b`` is the squared norm that kernel ridge
        regression penalises (see Notes).
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    TrigRBFSampler : Random features that estimate the kernel without bias and do not
        depend on landmarks.
    sklearn.kernel_approximation.Nystroem : Whitened features at randomly chosen rows.

    Notes
    -----
    For centres :math:`z_m` the kernel values are :math:`f_m(x) = \exp(-|\sigma(x -
    z_m)|^2 / 2)`. A linear model with these features is a radial basis function
    network. The function :math:`\sum_m b_m f_m` has the squared norm :math:`b' K_{ZZ}
    b` in the reproducing kernel Hilbert space, so

    .. math:: \min_b |F b - y|^2 + \alpha\, b' K_{ZZ} b

    is exactly ridge regression with the Nystroem approximation [1]_ at the same
    centres. This is why the two settings of ``whiten`` give the same predictions in
    :class:`RandomFeatureRidge`, which uses ``penalty_``. If you solve the problem
    yourself and the kernel is so wide that :math:`K_{ZZ}` is numerically singular, add
    about 1e-10 times the number of rows to the diagonal of :math:`F'F + \alpha K_{ZZ}`.

    Other linear models penalise the coefficients of all features equally. With their
    default penalties, logistic regression, ``RidgeClassifier``, ``LinearSVC`` and
    ``SGDClassifier`` were more accurate on whitened features than on the kernel values
    themselves (measured on 25 November 2026). The whitened features are
    :math:`F L^{-T}`, where L is the Cholesky factor of :math:`K_{ZZ} = L L'`. They are
    a rotation of the features of ``Nystroem`` for the same centres. Multiplying by a
    triangular matrix takes half as many operations as multiplying by a symmetric square
    root. Directions in which :math:`K_{ZZ}` is zero to within the precision of the
    centres are omitted.

    Choosing landmarks by k-means was proposed in [2]_. With ``"rpcholesky"``, ``fit``
    needs memory for ``10 * n_components**2`` float64 numbers.

    The sampler keeps a random sample of the rows, whose size is given above for each
    value of ``centers``. Calling ``partial_fit`` on further batches therefore gives the
    same centres as ``fit`` on all rows in the same order, regardless of how they are
    divided into batches. ``merge`` combines the samples of two samplers. As long as the
    combined sample contains all rows, the result is the same as if ``fit`` had been
    called on the rows of both, in this order. If ``centers`` is an array, no rows are
    kept; the centres are fixed, and the rows only determine sigma. ``freeze`` keeps
    only the centres. Note that these can include training rows, because the centre of a
    cluster with a single row is that row itself.

    References
    ----------
    .. [1] C. Williams, M. Seeger, "Using the Nystroem Method to Speed Up Kernel
       Machines", NeurIPS 2000.
    .. [2] K. Zhang, I. Tsang, J. Kwok, "Improved Nystroem Low-Rank Approximation and
       Error Analysis", ICML 2008, :doi:`10.1145/1390156.1390311`.
    .. [3] Y. Chen, E. Epperly, J. Tropp, R. Webber, "Randomly Pivoted Cholesky:
       Practical Approximation of a Kernel Matrix with Few Entry Evaluations",
       Communications on Pure and Applied Mathematics 2025, :arxiv:`2207.06503`.
    .. [4] E. Epperly, J. Tropp, R. Webber, "Embrace Rejection: Kernel Matrix
       Approximation by Accelerated Randomly Pivoted Cholesky", 2024,
       :arxiv:`2410.03969`.

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

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "centers": [
            StrOptions({"kmeans", "rpcholesky", "random"}),
            "array-like",
            "sparse matrix",
        ],
        "whiten": ["boolean"],
    }

    _value: CentersValue

    def __init__(
        self,
        *,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        centers: Literal["kmeans", "rpcholesky", "random"]
        | ArrayLike
        | Rows = "kmeans",
        whiten: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.centers = centers
        self.whiten = whiten
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: TableLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Choose the centres from the rows, or validate the centres that are given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows, for the choice of the centres and for
            ``sigma``.

        Returns
        -------
        self : object
            The fitted sampler. It keeps a sample of the rows until ``freeze()``.

        Raises
        ------
        TypeError
            If X is stored on an accelerator with ``array_api_dispatch=True``.
        ValueError
            If a parameter or X is out of range.
        """
        return self._fit_value(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: TableLike, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of rows, as if ``fit`` had been called on all rows together.

        The centres are chosen when they are first needed.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows, for the choice of the centres and for
            ``sigma``.

        Returns
        -------
        self : object
            The sampler, whose features change with each batch.

        Raises
        ------
        TypeError
            If X is stored on an accelerator with ``array_api_dispatch=True``.
        ValueError
            If the sampler is frozen, if a parameter other than ``n_jobs`` has been
            changed since the first call, or for the reasons listed in ``fit``.
        """
        return self._extend_value(X, y, sample_weight)

    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        self._note_namespace(X, None, sample_weight, first=first)
        X = self._validate(X, reset=first)
        weights = None if sample_weight is None else read_weights(X, sample_weight)
        return Batch(X, None, weights)

    def _empty_value(self, batch: Any) -> CentersValue:
        statistics = Statistics.seeded(self.random_state)
        sigma, size = (set_or_default(self, name) for name in DEFAULTS)
        centers, given = self.centers, None
        if not isinstance(centers, str):
            given = validated_centers(centers, size, batch.X.shape[1])
            centers = "array"
        whiten, seed = self.whiten, statistics.seed[0]
        choices = _CenterChoices(
            sigma=sigma,
            n_components=size,
            centers=centers,
            whiten=whiten,
            seed=seed,
            given_centers=given,
        )
        return CentersValue(choices, statistics)

    def _validate(self, X, *, reset):
        """Return validated rows as a NumPy array or a SciPy sparse matrix."""
        rows = validate_rows(self, X, reset=reset)
        instead = ", or use TrigRBFSampler or OPRFSampler, which work on devices"
        refuse_device(self, rows, instead)
        return rows

    def _validated_queries(self, X):
        return self._validate(X, reset=False)

    centers_: Rows = fitted(
        "_value.solution.points.points", "The centres, in the units of the columns."
    )
    sigma_: float | np.ndarray = fitted(
        "_value.solution.sigma", "Inverse length scale by which inputs are multiplied."
    )

    @property
    def penalty_(self) -> np.ndarray:
        """Matrix P that defines the ridge penalty ``b @ P @ b`` of coefficients b."""
        value = self._value
        centers, sigma, root = value.solution
        points = centers.points
        if root is not None:
            return np.eye(points.shape[0], dtype=points.dtype)
        return _kernel_of_rows(points, points, sigma, value.origin)(points)

    @property
    def _n_features_out(self) -> int:
        return solution_for_names(self).points.shape[0]

    def transform(self, X: TableLike) -> Array:
        """Compute the features of rows from their kernel values at the centres.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        features : ndarray of shape (n_samples, n_columns)
            Whitened kernel values or, with ``whiten=False``, the kernel values
            themselves, which lie in [0, 1]. The dtype is float32 for float32 rows,
            otherwise float64. Under ``config_context(array_api_dispatch=True)``, the
            result is an array of the same library as X.

        Raises
        ------
        TypeError
            If X is stored on an accelerator with ``array_api_dispatch=True``.
        """
        model, rows = self._query(X, "transform")
        value, given, X = model._value, X, rows
        centers, sigma, root = value.solution
        n_rows, width = X.shape[0], centers.shape[0]
        out = np.empty((n_rows, width), dtype=X.dtype)
        kernel = _kernel_of_rows(X, centers.points, sigma, value.origin)
        if root is not None:
            root = root.astype(X.dtype, order="F", copy=False)
            (trmm,) = linalg.get_blas_funcs(("trmm",), (root,))

        def write(part):
            rows, features = X[part], out[part]
            for chunk in row_chunks(rows, width):
                values = kernel(rows[chunk])
                if root is not None:  # transposed, so that BLAS can work in place
                    values = trmm(1.0, root, values.T, trans_a=1, overwrite_b=1).T
                features[chunk] = values

        in_threads(write, n_rows, effective_n_threads(model.n_jobs, n_rows, width))
        return to_namespace_of(out, given)


def _kernel_of_rows(X, centers, sigma, origin):
    """Return a function that computes the kernel values of some rows of X."""
    kind = next((type(Z) for Z in (X, centers) if sparse.issparse(Z)), None)

    def as_kind(rows):
        return rows if kind is None or sparse.issparse(rows) else kind(rows)

    frame = Frame(sigma, None if kind else origin)
    keys = frame.rows(as_kind(centers.astype(X.dtype, copy=False)))

    def values(rows):
        squares = frame.rows(as_kind(rows)).sq_distances(keys)
        squares *= -0.5
        return np.exp(squares, out=squares)

    return values


def _inverse_root(kernel, dtype):
    """Return an upper triangular R such that R R' is the inverse of the kernel matrix.

    Eigenvalues that are numerically zero in the precision of ``dtype`` are left out.
    """
    least = 10 * np.finfo(dtype).eps  # relative to the largest eigenvalue
    factor, info = linalg.lapack.dpotrf(kernel, lower=1)
    if info == 0:
        inverse, info = linalg.lapack.dtrtri(factor, lower=1)
        # the sum of squared entries is at least the reciprocal of the smallest
        # eigenvalue
        if info == 0 and least * linalg.norm(kernel, np.inf) * np.sum(inverse**2) < 1:
            return np.asfortranarray(inverse.T)
    values, vectors = linalg.eigh(kernel)
    values = np.where(values > least * values[-1], values, np.inf)
    return np.asfortranarray(linalg.rq(vectors / np.sqrt(values), mode="r"))
