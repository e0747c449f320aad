"""Base class of the ridge regressor and classifier: validation, fitting, merging."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import column_or_1d, get_tags

from .._compat import Interval, RandomState, StrOptions, _fit_context, warn
from .._values import check_same_params
from ..arrays.namespaces import to_namespace_of
from ..arrays.validation import refuse_device
from ..life_cycle.fitted import Batch
from ..life_cycle.intervals import SimilarityMixin
from ..life_cycle.out_of_fold import METRIC_CONSTRAINTS
from ..life_cycle.supervised import SupervisedLifeCycle, warn_of_repeated_rows
from ..rows import Sigma, TableLike
from ..rows.raw_table import TableReader, read_table_and_targets, validated_table
from ..samplers._kernel_parameter import (
    KERNEL_CONSTRAINTS,
    SIGMA_CONSTRAINTS,
    KernelLike,
    copied_sigma,
    is_process_kernel,
    transformer_for,
)
from ._anova_effects import EffectsMixin
from ._candidate_sums import FEWEST, RidgeSums, Settings
from ._feature_moments import apply_to_features

if TYPE_CHECKING:
    from ..metric import LearnedMetric

# weights with a larger mean are unlikely to be counts of repeated rows
_MOST_MEAN_WEIGHT = 10.0


class BaseRandomFeatureRidge(EffectsMixin, SimilarityMixin, SupervisedLifeCycle):
    """Base class of ridge regression and classification on features."""

    _value: RidgeSums
    _reader: TableReader | None = None  # reads raw tables if the kernel accepts them
    _parameter_constraints: dict = {
        "kernel": KERNEL_CONSTRAINTS,
        "sigma": SIGMA_CONSTRAINTS,
        "n_components": [
            StrOptions({"auto"}),
            Interval(Integral, 1, None, closed="left"),
        ],
        "alpha": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="left"),
            "array-like",
        ],
        "fit_intercept": ["boolean"],
        "metric": METRIC_CONSTRAINTS,
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        sigma: Sigma = "auto",
        n_components: int | Literal["auto"] = "auto",
        alpha: float | ArrayLike | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        metric: LearnedMetric | None = None,
        random_state: RandomState = None,
    ):
        self.kernel = kernel
        self.sigma = sigma
        self.n_components = n_components
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.metric = metric
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the feature map and the coefficients; select sigma and the penalty.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features if ``kernel="linear"``, and a raw table, which must
            not be sparse, if the kernel is an ``AnovaSampler``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, in one or several outputs, for regression; labels, of shape
            (n_samples,), for classification.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. If their mean over the rows with positive weight is 1
            or more, a row of weight w counts as w rows. With given parameters, integer
            weights therefore have the same effect as repeating the rows; if parameters
            are selected, a row is left out with its whole weight, but without rows that
            equal it. If the mean is below 1, the weights are divided by it. In that
            case, ``alpha_`` is proportional to the weights, but
            the selected ``sigma`` and ``n_components``, the predictions and their
            standard deviations depend only on the ratios of the weights. A warning is
            issued if the mean exceeds 10, because such weights are rarely meant as
            numbers of rows; if yours are not, divide them by their mean.
        groups : array-like of shape (n_samples,), default=None
            Labels of groups of dependent rows, for instance of the patient whose visits
            the rows describe. Intervals and probabilities then refer to rows of new
            groups: they are based on predictions by models that are fitted without all
            rows of the same group (and up to ten folds of groups). None means that the
            rows are independent.

        Returns
        -------
        self : object
            The fitted estimator. It keeps the rows for ``partial_fit`` as long as X has
            no more than about 4 million entries, until :meth:`freeze` is called.

        Raises
        ------
        TypeError
            If X is an array on a device under ``array_api_dispatch=True``, if X is
            sparse but the kernel requires a dense array, if y contains dates, or if X
            contains dates and is not read as a raw table.
        ValueError
            If a parameter, X, y, a weight or a group is invalid.
        """
        return self._fit_value(X, y, sample_weight, groups)

    def _read(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        *,
        first: bool,
        final: bool,
    ) -> Batch:
        if first:
            self._reader = None  # a reader from an earlier fit is discarded
        batch = super()._read(X, y, sample_weight, groups, first=first, final=final)
        refuse_device(self, batch.X, "")
        if sparse.issparse(batch.X) and is_process_kernel(self.kernel):
            raise TypeError(
                f"kernel={self.kernel!r} requires a dense array, but X is sparse. Pass "
                "X.toarray(), or use a sampler."
            )
        return batch

    def _validated(self, X: Any, *, reset: bool, **options: Any) -> Any:
        """Return validated rows, as a matrix if the kernel reads raw tables."""
        reader, kernel = self._reader, self.kernel if reset else None
        if reader is None and not getattr(kernel, "_reads_tables", False):
            return super()._validated(X, reset=reset, **options)
        if reader is not None and "y" not in options:
            return reader.read(validated_table(self, X, reset=False))
        if isinstance(kernel, FrozenEstimator):
            reader = kernel._reader
        categories = getattr(kernel, "categories", None)
        X, y, self._reader = read_table_and_targets(
            self, X, options["y"], reader, categories, reset=reset
        )
        return X, y if options.get("multi_output") else column_or_1d(y, warn=True)

    def _empty_value(self, batch: Any) -> RidgeSums:
        sampler, selects_sigma, resizes = transformer_for(self, FEWEST)
        start = RidgeSums.start(sampler)
        if self._reader is not None and not start["is_fixed"]:
            names = "_reader", "n_features_in_", "feature_names_in_"
            noted = {name: vars(self)[name] for name in names if name in vars(self)}
            vars(start["sampler"]).update(noted)  # a copy
        return RidgeSums(
            settings=self._settings(batch.class_weight),
            selects_sigma=selects_sigma,
            resizes=resizes,
            **start,
        )

    def _check_same_model(self, other: Any) -> None:
        mine, theirs = (vars(each._value.settings) for each in (self, other))
        if all(isinstance(each["kernel"], FrozenEstimator) for each in (mine, theirs)):
            # feature maps are compared later, when the sums are added
            mine = {**mine, "kernel": theirs["kernel"]}
        super()._check_same_model(other)
        check_same_params(mine, theirs)

    @property
    def _transformer(self) -> Any:
        """The transformer that computes the features; None if rows are features."""
        return transformer_for(self, FEWEST)[0]

    def _settings(self, class_weight):
        """Return the validated parameters."""
        alpha: Any = self.alpha
        if not isinstance(alpha, str):
            alpha = np.atleast_1d(np.array(alpha, dtype=np.float64))
            if (
                alpha.ndim != 1
                or not alpha.size
                or not np.all((alpha >= 0) & np.isfinite(alpha))
            ):
                raise ValueError(
                    f"alpha={self.alpha!r} must be 'auto', a number >= 0, or a list of "
                    "such numbers."
                )
        return Settings(
            kernel=clone(self.kernel, safe=False),
            sigma=copied_sigma(self.sigma),
            n_components=self.n_components,
            alpha=alpha,
            fit_intercept=self.fit_intercept,
            clip=getattr(self, "clip", False),
            n_classes=self._n_classes,
            class_weight=class_weight,
            calibrates=getattr(self, "calibrate", True),
        )

    def _warn_after_fit(self, batch):
        warn_of_repeated_rows(batch.X, batch.y, type(self).__name__)
        self._warn_of_sums()

    def _warn_of_sums(self):
        """Warn if the weights are too large to be counts of repeated rows."""
        solution = self._value.solution
        if solution.mean_weight > _MOST_MEAN_WEIGHT:
            warn(
                f"The mean of the sample weights is {solution.mean_weight:.3g}. A row "
                "of weight w counts as w rows, so alpha='auto' and the standard "
                f"deviations of predictions assume {solution.n_rows:.3g} rows. If the "
                "weights are not row counts, divide them by their mean.",
                UserWarning,
            )

    # -------------------------------------------------------------- predictions
    def _validated_queries(self, X):
        rows = self._validated(X, reset=False)
        refuse_device(self, rows, "")
        return rows

    @staticmethod
    def _variances(solution, rows):
        """Return variances of predictions in units of the noise."""

        def function(Z, part):
            return (solution.variance(Z, part),)

        return apply_to_features(solution.sampler, rows, function)[0]

    def _scores(self, rows):
        solution = self._value.solution
        return solution.scores(self._variances(solution, rows))

    def effective_sample_size(self, X: TableLike) -> np.ndarray:
        """Return the effective number of training rows behind each prediction.

        A small number indicates that a prediction rests on few training rows.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        n_effective : ndarray of shape (n_samples,)
            Number of targets whose mean would have the same variance as the prediction:
            1 / v with the variance v in the Notes of :class:`RandomFeatureRidge`. It
            can be less than 1 for distant rows, because the training rows hardly
            determine their predictions. If outputs have different penalties, it is the
            lowest number among the outputs.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import RandomFeatureRidge
        >>> x = np.linspace(0, 6, 400)[:, None]
        >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=400)
        >>> model = RandomFeatureRidge(random_state=0).fit(x, y)
        >>> sizes = model.effective_sample_size([[3.0], [9.0]])
        >>> bool(sizes[0] > 20), bool(sizes[1] < 1)
        (True, True)
        """
        model, rows = self._query(X, "effective_sample_size")
        found = model._variances(model._value.solution, rows)
        with np.errstate(divide="ignore"):
            return to_namespace_of(1 / found.max(axis=1), X)

    # --------------------------------------------------------------- attributes
    @property
    def kernel_(self) -> Any:
        """The fitted sampler or transformer, or ``"linear"``."""
        sampler = self._value.solution.sampler
        return "linear" if sampler is None else sampler

    @property
    def sigma_(self) -> float | np.ndarray:
        """The inverse length scale that is used."""
        return self.kernel_.sigma_

    @property
    def alpha_(self) -> float | np.ndarray:
        """The penalty that is used."""
        solution = self._value.solution
        alpha = solution.alpha
        return float(alpha[0]) if solution.errors.shape[1] == 1 else alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features."""
        return self._squeezed(self._value.solution.coef.T)

    @property
    def intercept_(self) -> float | np.ndarray:
        """Prediction for a row whose features are all zero."""
        return self._squeezed(self._value.solution.intercept)

    @property
    def loo_errors_(self) -> np.ndarray:
        """Leave-one-out errors for each sigma and penalty."""
        errors = np.array([row["error"] for row in self._value.solution.table])
        return errors[..., 0] if errors.shape[-1] == 1 else errors

    def __sklearn_tags__(self):
        """Return scikit-learn's tags; the sampler determines which input is allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = not is_process_kernel(self.kernel)
        if hasattr(self.kernel, "fit"):
            inputs = get_tags(self.kernel).input_tags
            tags.input_tags.sparse = inputs.sparse
            if getattr(self.kernel, "_reads_tables", False):
                tags.input_tags = inputs
        return tags

    # -------------------------------------------------------------------- hooks
    @property
    @abstractmethod
    def _n_classes(self) -> int | None:
        """Number of classes; None for regression."""

    @abstractmethod
    def _squeezed(self, values):
        """Return an array (n_outputs, ...) in the shape that users expect."""
