"""What the classifier and the regressor share: validation, fitting, merging."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state, get_tags
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
    Interval,
    StrOptions,
    TypedBaseEstimator,
    _check_sample_weight,
    _fit_context,
    available_if,
    warn,
)
from .._state import STATE_METHODS, aside, check_names, check_same_columns, same
from .._types import HasLogProfile, RandomState
from .._workers import blas_within_processors
from ..maps import FeatureMap
from ..rows import Centers, Sigma, TableLike
from ._clustered import ClusteredEngine
from ._errors import N_EFFECTIVE, ApproximationError
from ._exact import ExactEngine
from ._features import FeatureEngine
from ._log_kernels import get_kernel
from ._prototypes import PrototypeEngine

_KERNEL_ONLY = {"kernel": "gaussian", "sigma": "auto", "nu": 1.5}  # and the defaults
_EXACT_ONLY = {"tol": 0.0}
_PROTOTYPES_ONLY = {"n_prototypes": 128, "clouds": False}


def _has_a_sampler(model):
    """Return whether columns are random, or say why not."""
    if model.sampler is None or isinstance(model.sampler, str):
        raise AttributeError(
            f"With sampler={model.sampler!r} there are no random columns to tell an "
            "error by."
        )
    return True


def _check_size_of_weights(weights):
    """Raise ValueError where products and sums of weights could leave their type."""
    xp, limits = namespace_of(weights), namespace_of(weights).finfo(weights.dtype)
    least, most = float(limits.smallest_normal) ** 0.4, float(limits.max) ** 0.4
    outside = (weights > most) | ((weights > 0) & (weights < least))
    if xp.any(outside):
        raise ValueError(
            f"Sample weights must be 0 or between {least:.0e} and {most:.0e}, so that "
            f"their sums are numbers; got {float(weights[outside][0]):.3g}. Divide "
            "them all by a number of their size."
        )


class BaseNadarayaWatson(CallbackSupportMixin, TypedBaseEstimator, metaclass=ABCMeta):
    """Kernel-weighted averages of targets. A subclass encodes and decodes them."""

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _engine: Any  # one of three, each of which merges with its own kind
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    __sklearn_array_api_convert__ = convert_fit_namespace
    __getstate__, __setstate__, __copy__ = STATE_METHODS
    _parameter_constraints: dict = {
        "sampler": [
            StrOptions({"exact", "prototypes"}),
            HasMethods(["fit", "transform"]),
            None,
        ],
        "kernel": [
            StrOptions({"gaussian", "laplacian", "matern"}),
            callable,
            HasMethods(["log_profile"]),
        ],
        "sigma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto", "learned", "scale", "median"}),
            "array-like",
        ],
        "nu": [Interval(Real, 0, None, closed="right")],  # infinity is the Gaussian
        "tol": [Interval(Real, 0, 1, closed="left")],
        "bound": [StrOptions({"estimated", "certified"})],
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        "clouds": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        sampler: BaseEstimator | Literal["exact", "prototypes"] | None = None,
        *,
        kernel: Literal["gaussian", "laplacian", "matern"]
        | HasLogProfile
        | Callable[..., Any] = "gaussian",
        sigma: Sigma = "auto",
        nu: float = 1.5,
        tol: float = 0.0,
        bound: Literal["estimated", "certified"] = "estimated",
        n_prototypes: int = 128,
        clouds: bool = False,
        random_state: RandomState = None,
    ):
        self.sampler = sampler
        self.kernel = kernel
        self.sigma = sigma
        self.nu = nu
        self.tol = tol
        self.bound = bound
        self.n_prototypes = n_prototypes
        self.clouds = clouds
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the sampler, if there is one, and sum features times targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features where ``sampler`` is None.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or numbers; the regressor takes several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; rows of weight 0 are left out.

        Returns
        -------
        self : object
            The fitted estimator. It holds no training row, unless it is exact or has a
            prototype of a single row.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        with aside(self) as made:
            made._engine = None
            made._add(X, y, sample_weight, final=True, context=context)
            made._warn_of_raw_rows()
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def merge(self, other: Self) -> Self:
        """Add the training rows of another fitted estimator.

        With a sampler both must use the same fitted map: give both
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
        check_is_fitted(self)
        check_is_fitted(other)
        engines = type(self._engine), type(getattr(other, "_engine", None))
        if type(other) is not type(self) or engines[0] is not engines[1]:
            raise ValueError(
                f"merge needs another {type(self).__name__} with the same kind of "
                f"sampler, got {other!r}."
            )
        check_same_columns(self, other)
        mine, theirs = (getattr(e._engine, "parameters", None) for e in (self, other))
        if not same(mine, theirs):
            raise ValueError(
                "merge needs the same kernel, sigma and prototypes on both sides, got "
                f"{mine} and {theirs}."
            )
        self._check_mergeable(other)
        engine = self._engine.copy()
        engine.merge(other._engine)
        self._engine = engine
        self._merge_targets(other)
        return self

    def freeze(self) -> Self:
        """Fix the map for good, and forget the training rows kept so far.

        ``partial_fit`` keeps up to about 4 million entries of X, so that the map can
        depend on all of them. Call this after the last batch, before the model is
        stored or sent: a pickle then holds no training row, neither here nor in
        ``sampler_``. ``fit`` does it by itself. Further batches are added to the sums
        of the fixed map.

        Some models keep rows all the same: with ``sampler="exact"`` the rows are the
        model, and only sigma is fixed; ``"prototypes"`` keeps means, some of a single
        row; a transformer such as ``Nystroem`` keeps its own. A ``FrozenEstimator`` is
        used as it is: freeze the sampler inside it.

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
        instead = "sklearn_crt.dask.fit(estimator, X, y)"
        refuse_lazy(self, instead, X, y, sample_weight)
        first = getattr(self, "_engine", None) is None
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")
        X, y = self._validate_rows(X, y, first, final)
        y = to_namespace_of(self._check_targets(y, first, final), X)
        weights = _check_sample_weight(
            to_namespace_of(sample_weight, X),
            X,
            dtype=X.dtype,
            ensure_non_negative=True,
            copy=True,
        )
        _check_size_of_weights(weights)
        xp = namespace_of(weights)
        if not xp.any(weights > 0):
            raise ValueError(
                "Sample weights must contain at least one non-zero number."
            )
        if not xp.all(weights > 0):
            keep = to_host(xp.nonzero(weights)[0])
            X, y, weights = (taken(array, keep) for array in (X, y, weights))

        def step():  # of a progress bar: one chunk of rows is summed
            if context is not None:
                part = context.subcontext(task_name="rows")
                part.call_on_fit_task_begin(estimator=self)
                part.call_on_fit_task_end(estimator=self)

        engine = self._make_engine() if first else self._engine.copy()
        with blas_within_processors(X.shape[0]):
            engine.add(X, y, weights, final=final, step=step)
        self._engine = engine
        self._add_targets(y, weights, first)
        return self

    def _make_engine(self):
        targets = self._encoder()
        random_state = check_random_state(self.random_state)
        self._refuse_parameters_of_others()
        if isinstance(self.sampler, str):
            kernel = get_kernel(self.kernel, self.nu)
            seed = tuple(random_state.randint(2**31 - 1, size=4).tolist())
            parts = kernel, self.sigma, seed, targets
            if self.sampler == "prototypes":
                return PrototypeEngine(*parts, self.n_prototypes, self.clouds)
            if self.tol > 0:
                certified = self.bound == "certified"
                return ClusteredEngine(*parts, float(self.tol), certified)
            return ExactEngine(*parts)
        return self._feature_engine(targets, random_state)

    def _feature_engine(self, targets, random_state):
        """Return an engine without rows, its sampler with a seed of the estimator."""
        engine = FeatureEngine(self.sampler, targets)
        if self.random_state is not None and not engine.frozen:
            params = engine.sampler.get_params()
            if "random_state" in params and params["random_state"] is None:
                engine.sampler.set_params(random_state=random_state.randint(2**31 - 1))
        return engine

    def _refuse_parameters_of_others(self):
        """Raise for parameters that the sampler makes no use of."""
        named = isinstance(self.sampler, str)
        if not self._is_prototypes:
            self._refuse(_PROTOTYPES_ONLY, "sampler='prototypes'", "leave it out.")
        if not (named and self.sampler == "exact"):
            self._refuse(_EXACT_ONLY, "sampler='exact'", "leave it out.")
        if not named:
            self._refuse(
                _KERNEL_ONLY,
                "sampler='exact' or 'prototypes'",
                "leave it out, and set the kernel and its bandwidth where the "
                "features are made.",
            )

    def _refuse(self, parameters, owner, advice):
        for name, default in parameters.items():
            value = getattr(self, name)
            if not isinstance(value, str | Real) or value != default:
                raise ValueError(
                    f"{name}={value!r} belongs to {owner} and has no effect "
                    f"with sampler={self.sampler!r}; {advice}"
                )

    def _validate_rows(self, X, y, first, final):
        # what is kept is no array of the caller, who may write the next batch there
        kept = not final or (isinstance(self.sampler, str) and not self._is_prototypes)
        options = {"keep_library": self._keeps_library(X), "y": y, **self._y_checks}
        X, y = validate_rows(self, X, reset=first, copy=kept, **options)
        if isinstance(self.sampler, FrozenEstimator):
            check_names(self, self.sampler)
        if self._needs_host and not on_host(X):
            raise TypeError(
                "sampler='prototypes' and tol > 0 group rows on the host; give rows "
                "in its memory, or take sampler='exact' or a sampler of sklearn_crt, "
                "which work on a device."
            )
        return X, y

    @property
    def _needs_host(self):
        return self._is_prototypes or self.tol > 0

    @property
    def _is_prototypes(self):
        return isinstance(self.sampler, str) and self.sampler == "prototypes"

    def _keeps_library(self, X):
        """Return whether a third-party transformer is to see arrays of a library."""
        known = self.sampler is None or isinstance(self.sampler, str)
        if known or not is_foreign(X):
            return False
        ours = hasattr(self.sampler, "_fit_namespace")
        return not ours and get_tags(self.sampler).array_api_support

    def _check_rows(self, X, method):
        check_is_fitted(self)
        check_fit_namespace(self, X, method)

    def _score_blocks(self, X):
        """Yield slices of the rows of X and their kernel sums."""
        refuse_lazy(self, "sklearn_crt.dask.map_rows(estimator.predict, X)", X)
        X = validate_rows(self, X, reset=False, keep_library=self._keeps_library(X))
        with blas_within_processors(X.shape[0]):
            yield from self._engine.scores(X)

    @available_if(_has_a_sampler)
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
            If the sampler is not one of this package, whose columns are repeated
            estimates of the kernel.

        Notes
        -----
        This is the grouped jackknife over at most 16 groups of columns, which are whole
        blocks of the coupling where there are at least eight blocks. With fewer blocks
        it misses the variance reduction of the coupling, and is up to twice too large.
        The user guide has the formula.
        """
        check_is_fitted(self)
        if not isinstance(self._engine.source, FeatureMap):
            raise ValueError(
                f"approximation_error needs a sampler of sklearn_crt, but "
                f"sampler={self.sampler!r}, whose columns may be no repeated estimates "
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
        return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64

    def _cast(self, values, X):
        """Return results in the type of the rows of a user, and in their library."""
        xp = namespace_of(values)
        if not is_foreign(X) or on_host(values):
            values = xp.astype(values, self._float_type(X), copy=False)
            return to_namespace_of(values, X)
        known = float_types(X)
        return xp.astype(values, X.dtype if X.dtype in known else known[0], copy=False)

    def _warn_of_raw_rows(self):
        reason = None if self.sampler is not None else self._engine.why_no_features()
        if reason is not None:
            name = type(self).__name__
            warn(
                f"The rows look like no features of a kernel, which {name}() takes: "
                f"{reason}, so predictions will be poor. For raw rows write "
                f"{name}('exact').fit(X, y), or make_pipeline(StandardScaler(), "
                f"{name}CV()).fit(X, y); if they are features, choose a larger sigma.",
                UserWarning,
            )

    def _warn_unreliable(self, n_rows, instead):
        if n_rows and not self._engine.quiet:
            warn(
                f"For {n_rows} rows all the kernel weights together vanish or are not "
                "above the error of the features, so their averages mean little; "
                f"{instead}. More components, a smaller sigma, or features that are "
                "positive (OPRFSampler) or exact (sampler='exact') avoid this.",
                RuntimeWarning,
            )

    @property
    def sampler_(self) -> Any:
        """The fitted sampler, "exact", "prototypes" or None."""
        sampler = self._engine.sampler
        fitted_on = self._fit_namespace
        if fitted_on is not None and getattr(sampler, "_fit_namespace", self) is None:
            sampler = copy.copy(sampler)  # fitted on a view of the rows
            sampler._fit_namespace = fitted_on
        return sampler

    @property
    def sigma_(self) -> float | np.ndarray:
        """Multiplier of the inputs, of ``"exact"`` and ``"prototypes"``."""
        return self._engine.sigma

    @property
    def prototypes_(self) -> Centers:
        """Points, weights and variances of ``"prototypes"``."""
        return self._engine.prototypes

    def __sklearn_is_fitted__(self):
        """Return whether there are training rows."""
        return getattr(self, "_engine", None) is not None

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        own = self.sampler is None or isinstance(self.sampler, str)
        part: Any = None if own else get_tags(self.sampler)
        tags.input_tags.sparse = own or part.input_tags.sparse
        on_devices = not self._needs_host if own else part.array_api_support
        tags.array_api_support = ARRAY_API and on_devices
        return tags

    @abstractmethod
    def _encoder(self):
        """Return the value that makes matrices of the targets."""

    @abstractmethod
    def _check_targets(self, y, first, final):
        """Return y as the array that the encoder takes."""

    @abstractmethod
    def _add_targets(self, y, weights, first):
        """Update the statistics of the targets."""

    @abstractmethod
    def _check_mergeable(self, other):
        """Raise where the targets of another estimator are not of the same kind."""

    @abstractmethod
    def _merge_targets(self, other):
        """Add the statistics of the targets of another estimator."""
