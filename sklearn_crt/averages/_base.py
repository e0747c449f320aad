"""Base class of Nadaraya-Watson estimators: validation, fitting and merging."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags

from .._compat import ARRAY_API, available_if, warn
from ..arrays.namespaces import (
    Array,
    float_type_of,
    float_types,
    is_foreign,
    namespace_of,
    on_host,
    taken,
    to_host,
    to_namespace_of,
)
from ..arrays.threads import blas_within_processors
from ..arrays.validation import validate_rows
from ..exceptions import ApproximationWarning
from ..life_cycle.fitted import Batch, LifeCycle, with_value
from ..life_cycle.intervals import SimilarityMixin
from ..life_cycle.out_of_fold import METRIC_CONSTRAINTS
from ..life_cycle.supervised import SupervisedLifeCycle, warn_of_repeated_rows
from ..maps import FeatureMap
from ..rows import Sigma, TableLike
from ..samplers._kernel_parameter import (
    KERNEL_CONSTRAINTS,
    SIGMA_CONSTRAINTS,
    KernelLike,
    copied_sigma,
    is_auto,
    is_row_kernel,
    resolve_sampler,
    row_kernel,
)
from ..sums.map_sums import Transformer
from ._feature_averages import N_EFFECTIVE, ApproximationError, FeatureAverages
from ._fitted_averages import Averages, ExactAverages
from ._kernel_rows import kernel_totals
from ._prototypes import Prototypes, prototype_averages
from ._row_weights import (
    RowWeightsMixin,
    Similarity,
    keeps_all_rows,
    kernel_of_model,
)
from ._target_columns import Targets

_N_CHECKED = 256  # number of training rows at which features are checked
_FEW_FEATURES = 25  # with fewer effective features, relative errors exceed 1 / 5


def _has_features(model):
    """Return True if the kernel computes features; otherwise raise AttributeError."""
    kernel = kernel_of_model(model)
    if is_row_kernel(kernel) or isinstance(kernel, (str, Prototypes)):
        raise AttributeError(
            f"With kernel={kernel!r} there are no random features, and therefore no "
            "approximation error."
        )
    return True


class BaseNadarayaWatson(RowWeightsMixin, SimilarityMixin, SupervisedLifeCycle):
    """Base class of kernel-weighted averages of the training targets.

    Subclasses encode the targets as a matrix, and convert averages into predictions.
    """

    kernel: KernelLike
    sigma: Sigma
    _value: Averages
    _encoder: Callable[[], Targets]
    _check_can_leave_out = keeps_all_rows
    _parameter_constraints: dict = {
        "kernel": [*KERNEL_CONSTRAINTS, Prototypes],
        "sigma": SIGMA_CONSTRAINTS,
        "metric": METRIC_CONSTRAINTS,
    }

    @property
    def _transformer(self) -> Transformer | None:
        """The unfitted transformer that computes the features, or None."""
        kernel = self.kernel
        known = isinstance(kernel, (str, Prototypes)) or is_row_kernel(kernel)
        if known:
            return None
        return resolve_sampler(kernel, self.sigma, type(self).__name__)[0]

    @property
    def _keeps_rows(self) -> bool:  # type: ignore[override]
        return isinstance(self.kernel, Prototypes) or is_row_kernel(self.kernel)

    def _empty_value(self, batch: Batch) -> Averages:
        targets = self._encoder()
        if isinstance(self.kernel, Prototypes):
            return prototype_averages(self.kernel, self.sigma, targets)
        if is_row_kernel(self.kernel):
            kernel = row_kernel(self.kernel)
            return ExactAverages(
                targets=targets,
                unfitted=kernel,
                kernel=kernel,
                sigma_parameter=copied_sigma(self.sigma),
            )
        sampler, selects = None, False
        if not isinstance(self.kernel, str):
            name = type(self).__name__
            sampler, selects = resolve_sampler(self.kernel, self.sigma, name)
        elif not is_auto(self.sigma):
            raise ValueError(
                f"sigma={self.sigma!r} has no effect with kernel='linear', because the "
                "rows are already features. Use sigma='auto', and set sigma in the "
                "transformer that computes the features."
            )
        start = FeatureAverages.start(sampler)
        return FeatureAverages(targets=targets, selects_sigma=selects, **start)

    def _check_same_model(self, other: Self) -> None:
        if type(self._value) is not type(other._value):
            mine, theirs = (each._value.kernel_in_use for each in (self, other))
            raise ValueError(
                "merge requires the same kernel in both estimators, got "
                f"{mine!r} and {theirs!r}."
            )
        super()._check_same_model(other)

    def _keeps_library(self, X):
        """Return whether a third-party transformer accepts the array library of X."""
        transformer = self._transformer
        if transformer is None or hasattr(transformer, "_fit_namespace"):  # built in
            return False
        return get_tags(transformer).array_api_support

    def _validated_queries(self, X):
        keeps = is_foreign(X) and self._keeps_library(X)
        return validate_rows(self, X, reset=False, keep_library=keeps)

    @staticmethod
    def _kernel_sums(keys, rows, **options):
        """Yield slices of validated rows and their kernel sums."""
        call = blas_within_processors(rows.shape[0])
        blocks = call(keys.sums, rows, **options)
        while (block := call(next, blocks, None)) is not None:
            yield block

    @available_if(_has_features)
    def approximation_error(self, X: TableLike) -> ApproximationError:
        """Return the standard errors of predictions due to the random features.

        A standard error estimates by how much a prediction would change if the random
        features were drawn again with another seed. It is computed from the variation
        among the features of the fitted model, without refitting. It includes neither
        the error that a prediction with the exact kernel would have, nor the effect of
        the corrections for negative scores and unreliable predictions (see the Notes of
        the class).

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
            many rows this is the case.

        Raises
        ------
        AttributeError
            If the kernel is exact, ``Prototypes`` or ``"linear"``, because there are no
            random features then.
        ValueError
            If the kernel is a transformer of another package. This method requires that
            each feature by itself estimates the kernel, which may not be true of other
            transformers.

        Notes
        -----
        The standard errors are computed by the grouped jackknife with at most 16 groups
        of features. If the coupling of the sampler has at least eight blocks of
        dependent frequencies, each group consists of whole blocks. With fewer blocks,
        the standard errors do not account for the variance reduction due to the
        coupling, and may be too large by a factor of up to two. The user guide gives
        the formula.
        """
        model, rows = self._query(X, "approximation_error")
        value = model._value
        keys, rows = value.solution, to_host(rows)
        if not isinstance(keys.source, FeatureMap):
            raise ValueError(
                "approximation_error requires a sampler of sklearn_crt, because it "
                "compares independent groups of random features. The features of "
                f"kernel={value.kernel_in_use!r} may not form such groups."
            )
        parts = [np.concatenate(part) for part in zip(*keys.errors(rows))]
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
        return ApproximationError(model._squeezed(std), n_effective)

    def _scores(self, rows):
        call, on_host = blas_within_processors(rows.shape[0]), to_host(rows)
        logs = call(kernel_totals, self._value.solution, on_host).logs
        scores = Similarity.of(self._value).compared(on_host, logs).scores
        return self._cast(scores, rows)

    def _squeezed(self, values):
        """Return results with one column per average, in the shape users expect."""
        return values

    def _cast(self, values, X):
        """Return results in the data type and the array library of the user's X."""
        if not is_foreign(X):
            return values.astype(float_type_of(X), copy=False)
        if on_host(values):
            return to_namespace_of(values.astype(float_type_of(X), copy=False), X)
        xp, known = namespace_of(values), float_types(X)
        return xp.astype(values, X.dtype if X.dtype in known else known[0], copy=False)

    def _warn_after_fit(self, batch: Batch) -> None:
        """Warn if a few random features dominate the averages at the training rows."""
        warn_of_repeated_rows(batch.X, batch.y, type(self).__name__)
        value = self._value
        if not isinstance(value, FeatureAverages) or value.sampler is None:
            self._warn_of_sums()
            return
        comparison = value.solution.comparison
        if value.selects_sigma or comparison is not None:
            # sigma was chosen by an error that includes that of the features
            if comparison is not None and comparison.are_coarse:
                self._warn_of_coarse_features(value.solution)
            return
        step = max(1, batch.X.shape[0] // _N_CHECKED)
        rows = taken(batch.X, np.arange(0, batch.X.shape[0], step))
        keys = value.solution
        few = np.median(keys.effective_features(rows))
        if few < _FEW_FEATURES:
            warn(
                f"The average of a training row depends on about {few:.0f} of "
                f"{keys.n_components} features, so its relative error is about "
                f"{1 / math.sqrt(max(few, 1)):.0%}. To avoid this, increase "
                "n_components, decrease sigma, or use the exact kernel, "
                f"{type(self).__name__}().",
                ApproximationWarning,
            )

    def _warn_of_coarse_features(self, keys):
        """Warn that the exact kernel is clearly better than the features."""
        found, name = keys.comparison, type(self).__name__
        warn(
            f"{keys.n_components} features are too few: on a sample of {found.n_rows} "
            f"rows, the leave-one-out {found.score} is {found.of_features:.2f} with "
            f"these features and {found.of_kernel:.2f} with the exact kernel. Use "
            f"{name}(), or {name}(Prototypes({keys.n_components})) if there are too "
            "many rows to store. Otherwise increase n_components, or try "
            "AnchoredRBFSampler.",
            ApproximationWarning,
        )

    def _warn_of_sums(self):
        """Warn if rows that are unlikely to be features are used as features."""
        value = self._value
        is_sum = isinstance(value, FeatureAverages)
        reason = value.solution.why_no_features() if is_sum else None
        if reason is not None:
            name = type(self).__name__
            warn(
                "kernel='linear' requires features of a kernel, but the columns of X "
                f"do not look like features: {reason}. Predictions will be poor. For "
                f"raw data, use {name}().fit(X, y); if X contains features, choose a "
                "larger sigma.",
                UserWarning,
            )

    @staticmethod
    def _warn_unreliable(n_rows, instead):
        warn(
            f"For {n_rows} rows, the sum of the kernel weights is zero or smaller than "
            f"the error of the random features, so the averages are unreliable; "
            f"{instead}. To avoid this, increase n_components, decrease sigma, or use "
            "positive features (OPRFSampler) or the exact kernel (kernel='gaussian').",
            ApproximationWarning,
        )

    def __sklearn_array_api_convert__(
        self, converter: Callable[[Array], Array]
    ) -> Self:
        """Return a copy with arrays of another library; scikit-learn calls this."""
        other = super().__sklearn_array_api_convert__(converter)
        if isinstance(value := vars(self).get("_value"), ExactAverages):
            other._value = value.converted(converter)
        return other

    @property
    def kernel_(self) -> Any:  # depends on the parameter, which users know
        """The fitted kernel or transformer, or ``"linear"``."""
        sampler, fitted_on = self._value.kernel_in_use, self._fit_namespace
        is_ours = isinstance(sampler, LifeCycle)
        if is_ours and fitted_on is not None and sampler._fit_namespace is None:
            # the sampler was fitted on a view of the rows in host memory
            return with_value(sampler, sampler._value, {"_fit_namespace": fitted_on})
        return sampler

    @property
    def sigma_(self) -> float | np.ndarray:
        """The inverse length scale that is used."""
        return self._value.solution.sigma

    def __sklearn_tags__(self):
        """Return the estimator tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        has_fit = hasattr(self.kernel, "fit")
        part: Any = get_tags(self.kernel) if has_fit else None
        tags.input_tags.sparse = part is None or part.input_tags.sparse
        on_devices = part is None or part.array_api_support
        tags.array_api_support = ARRAY_API and on_devices
        return tags
