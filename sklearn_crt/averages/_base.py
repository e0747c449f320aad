"""What the classifier and the regressor share: validation, fitting, merging."""

from __future__ import annotations

import copy
import math
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    float_types,
    is_foreign,
    namespace_of,
    on_host,
    refuse_lazy,
    taken,
    to_host,
    to_namespace_of,
    type_name,
    validate_rows,
)
from .._compat import (
    ARRAY_API,
    DOC_LINK,
    CallbackSupportMixin,
    HasMethods,
    StrOptions,
    TypedBaseEstimator,
    _fit_context,
    available_if,
    warn,
)
from .._state import STATE_METHODS, aside, check_mergeable, check_names, same
from .._workers import blas_within_processors
from ..maps import FeatureMap
from ..rows import TableLike, plain_targets, weighted_rows
from ._exact import KERNEL_NAMES, ExactKernel, RowKernel
from ._features import N_EFFECTIVE, ApproximationError, FeatureEngine
from ._prototypes import Prototypes
from ._row_weights import RowWeightsMixin

_N_CHECKED = 256  # training rows whose effective columns are counted
_FEW_COLUMNS = 25  # a relative error of a fifth


def _has_columns(model):
    """Return whether columns are random, or say why not."""
    if model._transformer is None:
        raise AttributeError(
            f"With kernel={model.kernel!r} there are no random columns to tell an "
            "error by."
        )
    return True


class BaseNadarayaWatson(RowWeightsMixin, CallbackSupportMixin, TypedBaseEstimator):
    """Kernel-weighted averages of targets. A subclass encodes and decodes them."""

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _engine: Any  # one of four, each of which merges with its own kind
    _made_of: RowKernel | None  # the kernel of rows behind it, as it was given
    _seen: Any  # statistics of the targets
    _y_checks: dict
    _encoder: Any  # returns the value that makes matrices of the targets
    _statistics_of: Any  # of targets and weights; sums of such values are those of all
    _check_targets: Any  # returns y as the array that the encoder takes
    _check_mergeable: Any  # raises where the targets of another are of another kind
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    __sklearn_array_api_convert__ = convert_fit_namespace
    __getstate__, __setstate__, __copy__ = STATE_METHODS
    _parameter_constraints: dict = {
        "kernel": [
            StrOptions({*KERNEL_NAMES, "linear"}),
            ExactKernel,
            Prototypes,
            HasMethods(["fit", "transform"]),
            None,
        ]
    }

    def __init__(
        self,
        kernel: BaseEstimator
        | Literal["gaussian", "laplacian", "matern", "linear"]
        | None = None,
    ):
        self.kernel = kernel

    @property
    def _row_kernel(self) -> RowKernel | None:
        """The kernel, where it is one of rows and not of features."""
        if self.kernel is None:
            return ExactKernel()
        if isinstance(self.kernel, str) and self.kernel != "linear":
            return ExactKernel(self.kernel)  # type: ignore[arg-type]  # the others
        return self.kernel if isinstance(self.kernel, RowKernel) else None

    @property
    def _transformer(self) -> Any:
        """The transformer that makes the features, None where there is none."""
        known = self.kernel is None or isinstance(self.kernel, (str, RowKernel))
        return None if known else self.kernel

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the kernel, and keep the rows or their sums.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features where ``kernel="linear"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or numbers; the regressor takes several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; rows of weight 0 are left out.

        Returns
        -------
        self : object
            The fitted estimator. With a sampler it holds no training row.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        with aside(self) as made:
            made._engine, made._n_given, made._dropped = None, 0, ()
            rows = made._add(X, y, sample_weight, final=True, context=context)
            made._warn_of_features(rows)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def merge(self, other: Self) -> Self:
        """Add the training rows of another fitted estimator.

        With a sampler as kernel both must use the same fitted map: give both
        ``FrozenEstimator(sampler)`` with the same fitted sampler, or a sampler that
        reads no data (a number for ``sigma``, ``center=False``, an integer
        ``random_state``). Merging in any order then equals fitting on all rows
        together, up to rounding.

        Parameters
        ----------
        other : estimator of the same class
            Fitted on other rows with the same columns.

        Returns
        -------
        self : object
            This estimator; ``other`` does not change.

        Raises
        ------
        ValueError
            If the two do not fit together.
        """
        check_mergeable(self, other)
        is_kind = type(self._engine) is type(other._engine)
        if not (is_kind and same(self._made_of, other._made_of)):
            mine, theirs = (each._made_of or each.kernel for each in (self, other))
            raise ValueError(
                f"merge needs the same kernel on both sides, got {mine!r} and "
                f"{theirs!r}."
            )
        self._check_mergeable(other)
        engine = self._engine.copy()
        engine.merge(other._engine)
        self._engine = engine
        self._dropped += tuple(self._n_given + gone for gone in other._dropped)
        self._n_given += other._n_given
        self._seen = self._seen + other._seen
        return self

    def freeze(self) -> Self:
        """Fix the map for good, and forget the training rows kept so far.

        ``partial_fit`` keeps up to about 4 million entries of X, so that the map can
        depend on all of them. Call this after the last batch, before the model is
        stored or sent: a pickle then holds no training row, neither here nor in
        ``kernel_``. ``fit`` does it by itself. Further batches are added to the sums
        of the fixed map.

        Some models keep rows all the same: with ``ExactKernel`` the rows are the model,
        and only sigma is fixed; ``Prototypes`` keeps means, some of a single row; a
        transformer such as ``Nystroem`` keeps its own. A ``FrozenEstimator`` is used as
        it is: freeze the sampler inside it.

        Returns
        -------
        self : object
            The estimator.
        """
        check_is_fitted(self)
        engine = self._engine.copy()
        engine.freeze()
        self._engine = engine
        return self

    def _add(self, X, y, sample_weight, final, context=None):
        """Add rows to the engine and the targets, and return them as validated."""
        refuse_lazy(self, "sklearn_crt.dask.fit(estimator, X, y)", X, y, sample_weight)
        first = getattr(self, "_engine", None) is None
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")
        # a copy is kept: the caller may write the next batch to the same array
        kept = not final or self._row_kernel is not None
        y = plain_targets(y)
        options = {"keep_library": self._keeps_library(X), "y": y, **self._y_checks}
        X, y = validate_rows(self, X, reset=first, copy=kept, **options)
        if isinstance(self.kernel, FrozenEstimator):
            check_names(self, self.kernel)
        y = to_namespace_of(self._check_targets(y, first, final), X)
        n_rows = X.shape[0]
        X, y, weights, dropped = weighted_rows(X, y, sample_weight)
        if dropped.size and isinstance(self._row_kernel, ExactKernel):
            self._dropped += (self._n_given + dropped,)
        self._n_given += n_rows

        def step():  # of a progress bar: one chunk of rows is summed
            if context is not None:
                part = context.subcontext(task_name="rows")
                part.call_on_fit_task_begin(estimator=self)
                part.call_on_fit_task_end(estimator=self)

        engine = self._make_engine() if first else self._engine.copy()
        call = blas_within_processors(X.shape[0])
        call(engine.add, X, y, weights, final=final, step=step)
        self._engine = engine
        seen = self._statistics_of(y, weights)
        self._seen = seen if first else self._seen + seen
        return X

    def _make_engine(self):
        """Return what adds rows and answers queries, without rows."""
        kernel = self._row_kernel
        self._made_of = None if kernel is None else kernel._copy()
        if self._made_of is None:
            return FeatureEngine(self._transformer, self._encoder())
        self._made_of._validate_params()
        return self._made_of._make_engine(self._encoder())

    def _keeps_library(self, X):
        """Return whether a third-party transformer is to see arrays of a library."""
        transformer = self._transformer if is_foreign(X) else None
        if transformer is None or hasattr(transformer, "_fit_namespace"):  # of ours
            return False
        return get_tags(transformer).array_api_support

    def _check_rows(self, X, method):
        check_is_fitted(self)
        refuse_lazy(self, f"sklearn_crt.dask.map_rows(estimator.{method}, X)", X)
        check_fit_namespace(self, X, method)

    def _blocks_of_sums(self, X):
        """Yield slices of the rows of X and their kernel sums."""
        X = validate_rows(self, X, reset=False, keep_library=self._keeps_library(X))
        call = blas_within_processors(X.shape[0])
        blocks = call(self._engine.sums, X)
        while (block := call(next, blocks, None)) is not None:
            yield block

    @available_if(_has_columns)
    def approximation_error(self, X: TableLike) -> ApproximationError:
        """Return the standard errors of averages that the random columns cause.

        They say how much another draw of the map would change the averages, and are
        estimated from the columns themselves. A prediction has other errors too, which
        it shares with the kernel. Corrections of negative and unreliable scores are not
        taken into account.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        std : ndarray of shape (n_samples,) or (n_samples, n_columns)
            Standard errors of the averages, one column per class or output; infinite
            where the sum of the weights is not positive.
        n_effective : ndarray of shape (n_samples,)
            Effective number of columns behind the average. From 16 on the stated error
            is close to the true one; below it is too small, and one warning says for
            how many rows.

        Raises
        ------
        ValueError
            If the kernel is not a sampler of this package, whose columns are repeated
            estimates of the kernel.

        Notes
        -----
        This is the grouped jackknife over at most 16 groups of columns, which are whole
        blocks of the coupling where there are at least eight blocks. With fewer blocks
        it misses the variance reduction of the coupling, and is up to twice too large.
        The user guide has the formula.
        """
        self._check_rows(X, "approximation_error")
        if not isinstance(self._engine.source, FeatureMap):
            raise ValueError(
                f"approximation_error needs a sampler of sklearn_crt, but "
                f"kernel={self.kernel!r}, whose columns may be no repeated estimates "
                "of one kernel."
            )
        rows = to_host(validate_rows(self, X, reset=False))
        parts = [np.concatenate(part) for part in zip(*self._engine.errors(rows))]
        n_few = int(np.sum(parts[1] < N_EFFECTIVE))
        if n_few:
            warn(
                f"For {n_few} of {rows.shape[0]} rows fewer than {N_EFFECTIVE} columns "
                "carry the average, and its stated error is too small. More components "
                "or a smaller sigma avoid this.",
                RuntimeWarning,
            )
        std, n_effective = (self._cast(part, X) for part in parts)
        return ApproximationError(self._squeezed(std), n_effective)

    def _squeezed(self, values):
        """Return an array of one column an average as methods return it."""
        return values

    @staticmethod
    def _float_type(X):
        if is_foreign(X):
            return np.dtype(type_name(X)).type
        types = getattr(X, "dtypes", [getattr(X, "dtype", None)])  # of a DataFrame
        single = all(str(dtype).lower() == "float32" for dtype in types)
        return np.float32 if single else np.float64

    def _cast(self, values, X):
        """Return results in the type of the rows of a user, and in their library."""
        xp = namespace_of(values)
        if not is_foreign(X) or on_host(values):
            values = xp.astype(values, self._float_type(X), copy=False)
            return to_namespace_of(values, X)
        known = float_types(X)
        return xp.astype(values, X.dtype if X.dtype in known else known[0], copy=False)

    def _warn_of_features(self, X):
        """Say once where features carry the averages badly."""
        if self._transformer is None:
            self._warn_of_sums()
            return
        rows = taken(X, np.arange(0, X.shape[0], max(1, X.shape[0] // _N_CHECKED)))
        few = np.median(self._engine.effective_columns(rows))
        if few < _FEW_COLUMNS:
            warn(
                f"The average of a training row is carried by about {few:.0f} of "
                f"{self._engine.n_components} columns, so its relative error is about "
                f"{1 / math.sqrt(max(few, 1)):.0%}. More components, a smaller sigma, "
                f"or the kernel itself, {type(self).__name__}(ExactKernel()), avoid "
                "this.",
                UserWarning,
            )

    def _with_features_of(self, sampler):
        """Return a copy with a fitted sampler as its kernel, the rows if None."""
        other = copy.copy(self)
        fixed = isinstance(sampler, FrozenEstimator)
        other.kernel = sampler if fixed else FrozenEstimator(sampler)
        if sampler is None:
            other.kernel = "linear"
        return other

    def _warn_of_sums(self):
        """Say where rows that are taken as features look like none."""
        reason = None if self._row_kernel else self._engine.why_no_features()
        if reason is not None:
            name = type(self).__name__
            warn(
                "The rows look like no features of a kernel, which kernel='linear' "
                f"takes: {reason}, so predictions will be poor. For raw rows write "
                f"{name}().fit(X, y); if they are features, choose a larger sigma.",
                UserWarning,
            )

    def _warn_unreliable(self, n_rows, instead):
        if n_rows and not self._engine.quiet:
            warn(
                f"For {n_rows} rows all the kernel weights together vanish or are not "
                "above the error of the features, so their averages mean little; "
                f"{instead}. More components, a smaller sigma, or features that are "
                "positive (OPRFSampler), or the kernel itself (ExactKernel), avoid "
                "this.",
                RuntimeWarning,
            )

    @property
    def kernel_(self) -> Any:
        """The fitted kernel: of rows with ``sigma_``, a transformer, or "linear"."""
        if self._made_of is not None:
            return self._made_of._fitted(self._engine)
        sampler = self._engine.sampler
        if sampler is None:
            return "linear"
        fitted_on = self._fit_namespace
        if fitted_on is not None and getattr(sampler, "_fit_namespace", self) is None:
            sampler = copy.copy(sampler)  # fitted on a view of the rows
            sampler._fit_namespace = fitted_on
        return sampler

    def __sklearn_is_fitted__(self):
        """Return whether there are training rows."""
        return getattr(self, "_engine", None) is not None

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        transformer = self._transformer
        part: Any = None if transformer is None else get_tags(transformer)
        tags.input_tags.sparse = part is None or part.input_tags.sparse
        on_devices = part is None or part.array_api_support
        tags.array_api_support = ARRAY_API and on_devices
        return tags
