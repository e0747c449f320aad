"""Base class of Nadaraya-Watson estimators: validation, fitting and merging."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from .._array import (
    check_fit_namespace,
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
    HasMethods,
    StrOptions,
    _fit_context,
    available_if,
    warn,
)
from .._fitted import value_of, with_value
from .._state import same
from .._supervised import SupervisedLifeCycle
from .._workers import blas_within_processors
from ..exceptions import ApproximationWarning
from ..maps import FeatureMap
from ..rows import TableLike
from ._exact import KERNEL_NAMES, ExactAverages, ExactKernel, RowAverages, RowKernel
from ._features import N_EFFECTIVE, ApproximationError, FeatureAverages
from ._prototypes import Prototypes
from ._row_weights import RowWeightsMixin
from ._sums import Averages

_N_CHECKED = 256  # training rows whose effective number of features is computed
_FEW_COLUMNS = 25  # below it the relative error exceeds 1 / sqrt(25), a fifth


def _has_columns(model):
    """Return True if the kernel is a transformer, or raise AttributeError."""
    if model._transformer is None:
        raise AttributeError(
            f"With kernel={model.kernel!r} there are no random features, and "
            "therefore no approximation error."
        )
    return True


class BaseNadarayaWatson(RowWeightsMixin, SupervisedLifeCycle):
    """Base class of kernel-weighted averages of the training targets.

    A subclass encodes the targets as a matrix, and turns averages into predictions.
    """

    _value: Averages
    _encoder: Any  # method that returns the ``Targets``, which encode y as a matrix
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
        """The kernel if it is evaluated between pairs of rows, None otherwise."""
        if self.kernel is None:
            return ExactKernel()
        if isinstance(self.kernel, str) and self.kernel != "linear":
            return ExactKernel(self.kernel)  # type: ignore[arg-type]  # the others
        return self.kernel if isinstance(self.kernel, RowKernel) else None

    @property
    def _transformer(self) -> Any:
        """The unfitted transformer that computes the features, or None."""
        known = self.kernel is None or isinstance(self.kernel, (str, RowKernel))
        return None if known else self.kernel

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the kernel to the training data.

        Depending on ``kernel``, the fitted model stores the training rows, weighted
        prototypes, or only sums of the features multiplied by the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows. With ``kernel="linear"`` they must already be features of a
            kernel.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels for a classifier, numbers for a regressor. Only regressors accept
            several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows; rows with weight 0 are ignored. By default
            all rows have weight 1.

        Returns
        -------
        self : object
            The fitted estimator. If ``kernel`` is a sampler, it stores no training
            rows.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight has an invalid value.
        """
        return self._fit_value(X, y, sample_weight)

    @property
    def _keeps_rows(self) -> bool:  # type: ignore[override]
        return self._row_kernel is not None

    def _empty_value(self, batch: Any) -> Averages:
        kernel = self._row_kernel
        if kernel is None:
            start = FeatureAverages.start(self._transformer)
            return FeatureAverages(targets=self._encoder(), **start)
        kernel = kernel._copy()
        kernel._validate_params()
        return kernel._averages(self._encoder())

    def _check_same_model(self, other: Any) -> None:
        mine, theirs = (
            getattr(each._value, "row_kernel", None) for each in (self, other)
        )
        if type(self._value) is not type(other._value) or not same(mine, theirs):
            raise ValueError(
                f"merge needs the same kernel on both sides, got "
                f"{mine or self.kernel!r} and {theirs or other.kernel!r}."
            )
        super()._check_same_model(other)

    def _keeps_library(self, X):
        """Return whether a third-party transformer accepts the array library of X."""
        transformer = self._transformer if is_foreign(X) else None
        if transformer is None or hasattr(transformer, "_fit_namespace"):  # of ours
            return False
        return get_tags(transformer).array_api_support

    def _check_rows(self, X, method):
        """Check that a method can be called with X, and return the fitted value."""
        value = value_of(self)
        refuse_lazy(self, f"sklearn_crt.dask.map_rows(estimator.{method}, X)", X)
        check_fit_namespace(self, X, method)
        return value

    def _blocks_of_sums(self, value, X):
        """Yield slices of the rows of X and their kernel sums."""
        X = validate_rows(self, X, reset=False, keep_library=self._keeps_library(X))
        call = blas_within_processors(X.shape[0])
        blocks = call(value.blocks_of_sums, X)
        while (block := call(next, blocks, None)) is not None:
            yield block

    @available_if(_has_columns)
    def approximation_error(self, X: TableLike) -> ApproximationError:
        """Return standard errors of the predictions due to random features.

        A standard error estimates by how much a prediction would change if the random
        features were drawn again with another seed. It is computed from the variation
        among the features of the fitted model, without refitting. It does not include
        the error that a prediction with the exact kernel would have, nor the
        corrections that are applied to negative and unreliable scores.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        std : ndarray of shape (n_samples,) or (n_samples, n_columns)
            Standard errors of the kernel averages, with one column per class or output.
            They are infinite if the estimated sum of the weights is not positive.
        n_effective : ndarray of shape (n_samples,)
            Effective number of random features that determine the average. If it is at
            least 16, the estimated standard error is close to the true one. If it is
            smaller, the standard error is underestimated, and a warning reports for how
            many rows.

        Raises
        ------
        ValueError
            If the kernel is not a sampler of this package. The features of other
            transformers need not be repeated estimates of one kernel, which this method
            requires.

        Notes
        -----
        The standard errors are those of the grouped jackknife with at most 16 groups of
        features. If the coupling has at least eight blocks of dependent frequencies,
        each group consists of whole blocks. With fewer blocks the estimate does not
        account for the variance reduction of the coupling, and may be too large by a
        factor of up to two. The user guide gives the formula.
        """
        value = self._check_rows(X, "approximation_error")
        if not isinstance(value.source, FeatureMap):
            raise ValueError(
                f"approximation_error needs a sampler of sklearn_crt, but the features "
                f"of kernel={self.kernel!r} need not be repeated estimates of one "
                "kernel."
            )
        rows = to_host(validate_rows(self, X, reset=False))
        parts = [np.concatenate(part) for part in zip(*value.errors(rows))]
        n_few = int(np.sum(parts[1] < N_EFFECTIVE))
        if n_few:
            warn(
                f"For {n_few} of {rows.shape[0]} rows the effective number of random "
                f"features is below {N_EFFECTIVE}, so the standard error of their "
                "predictions is underestimated. Increase n_components or decrease "
                "sigma to avoid this.",
                ApproximationWarning,
            )
        std, n_effective = (self._cast(part, X) for part in parts)
        return ApproximationError(self._squeezed(std), n_effective)

    def _squeezed(self, values):
        """Return an array with one column per average in the shape of the results."""
        return values

    @staticmethod
    def _float_type(X):
        if is_foreign(X):
            return np.dtype(type_name(X)).type
        # a DataFrame has one type per column
        types = getattr(X, "dtypes", [getattr(X, "dtype", None)])
        single = all(str(dtype).lower() == "float32" for dtype in types)
        return np.float32 if single else np.float64

    def _cast(self, values, X):
        """Return results in the data type and the array library of the user's X."""
        xp = namespace_of(values)
        if not is_foreign(X) or on_host(values):
            values = xp.astype(values, self._float_type(X), copy=False)
            return to_namespace_of(values, X)
        known = float_types(X)
        return xp.astype(values, X.dtype if X.dtype in known else known[0], copy=False)

    def _warn_after_fit(self, batch: Any) -> None:
        """Warn if few random features dominate the averages of the training rows."""
        if self._transformer is None:
            self._warn_of_sums()
            return
        value: Any = self._value
        step = max(1, batch.X.shape[0] // _N_CHECKED)
        rows = taken(batch.X, np.arange(0, batch.X.shape[0], step))
        few = np.median(value.effective_columns(rows))
        if few < _FEW_COLUMNS:
            warn(
                f"The average of a training row is carried by about {few:.0f} of "
                f"{value.n_components} columns, so its relative error is about "
                f"{1 / math.sqrt(max(few, 1)):.0%}. To avoid this, increase "
                "n_components, decrease sigma, or use the exact kernel, "
                f"{type(self).__name__}(ExactKernel()).",
                ApproximationWarning,
            )

    def _warn_of_sums(self):
        """Warn if rows that are used as features are unlikely to be features."""
        value: Any = self._value
        reason = None if self._row_kernel else value.why_no_features()
        if reason is not None:
            name = type(self).__name__
            warn(
                "The rows look like no features of a kernel, which kernel='linear' "
                f"requires: {reason}, so predictions will be poor. For raw rows write "
                f"{name}().fit(X, y); if they are features, choose a larger sigma.",
                UserWarning,
            )

    def _warn_unreliable(self, n_rows, instead):
        if n_rows:
            warn(
                f"For {n_rows} rows all the kernel weights sum to zero, or to less "
                "than the error of the random features, so their averages are "
                f"unreliable; {instead}. To avoid this, increase n_components, "
                "decrease sigma, or use positive features (OPRFSampler) or the exact "
                "kernel (ExactKernel).",
                ApproximationWarning,
            )

    def __sklearn_array_api_convert__(self, converter: Any) -> Self:
        """Return a copy for another array library; called by scikit-learn."""
        other = super().__sklearn_array_api_convert__(converter)
        if isinstance(value := vars(self).get("_value"), ExactAverages):
            other._value = value.converted(converter)
        return other

    @property
    def kernel_(self) -> Any:
        """The fitted kernel (with ``sigma_``) or transformer, or ``"linear"``."""
        value: Any = self._value
        if isinstance(value, RowAverages):
            return value.fitted_kernel
        if value.sampler is None:
            return "linear"
        sampler, fitted_on = value.sampler, self._fit_namespace
        if fitted_on is not None and getattr(sampler, "_fit_namespace", self) is None:
            # the sampler was fitted on a view of the rows in host memory
            sampler = with_value(
                sampler, value_of(sampler), {"_fit_namespace": fitted_on}
            )
        return sampler

    def __sklearn_tags__(self):
        """Return the estimator tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        transformer = self._transformer
        part: Any = None if transformer is None else get_tags(transformer)
        tags.input_tags.sparse = part is None or part.input_tags.sparse
        on_devices = part is None or part.array_api_support
        tags.array_api_support = ARRAY_API and on_devices
        return tags
