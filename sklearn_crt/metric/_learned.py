"""Supervised metric learning: a transformer whose output has the learned metric."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.stats import entropy
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.model_selection import PredefinedSplit
from sklearn.utils import check_random_state

from .._compat import Interval, RandomState, StrOptions, TypedTransformerMixin
from ..arrays.namespaces import Array, to_host, to_namespace_of
from ..arrays.validation import as_kind, refuse_device, validate_rows
from ..life_cycle.fitted import (
    Batch,
    Step,
    no_step,
    solution_for_names,
    without_value,
)
from ..life_cycle.out_of_fold import fold_numbers
from ..life_cycle.supervised import BatchesMixin, SampleValue, TargetsLifeCycle
from ..rows import (
    TableLike,
    are_labels,
    as_numbers,
    plain_targets,
    weighted_rows,
)
from ..rows.raw_table import codes_of
from ._candidates import (
    Parameters,
    TrainingRows,
    best_local_fits,
    best_metric,
)
from ._column_features import Metric

_MOST_WHOLE = 2.0**53  # all smaller integers are exact in float64
# With fewer rows per column, ``fit_transform`` returns cross-fitted rows. Only if the
# error in the metrics of folds is below _STRONG times that of a constant, or at least
# _MOST_NOISE / sqrt(n) times this error below it, the metric of all rows is considered.
_ROWS_PER_COLUMN, _STRONG, _MOST_NOISE = 100, 0.3, 10.0
# It is used if the error of left-out rows is below _OPTIMISM times that of other rows.
_OPTIMISM, _TINY = 1.02, 1e-12
_MOST_QUERIES, _MOST_KEYS = 500, 1500  # predicted rows, and further rows, for errors


def _target_kind(y: np.ndarray) -> str:
    """Classify targets as labels, numbers, or integers, which can be either."""
    if y.ndim > 1 or y.dtype.kind == "f":
        return "numbers"
    return "integers" if y.dtype.kind in "iu" else "labels"


@dataclass(frozen=True, eq=False)
class MetricValue(SampleValue[Metric]):
    """A random sample of the rows, and the metric learned from this sample."""

    kind: str = "integers"  # kind of targets
    owner: ClassVar[str] = "LearnedMetric"
    most_rows: ClassVar[int] = 2**14
    most_entries: ClassVar[int] = 2**22

    def plus(self, batch: Batch, step: Step = no_step) -> MetricValue:
        y, kind = to_host(batch.y), _target_kind(batch.y)
        if self.sample is not None:
            kind = self._common_kind(y, kind)
        batch = batch._replace(y=_codes(y))
        return replace(super().plus(batch, step), kind=kind)

    def __add__(self, other: MetricValue) -> MetricValue:
        if self.sample is None:
            return other
        kind = self._common_kind(other.sample.y, other.kind)
        return replace(super().__add__(other), kind=kind)

    def _common_kind(self, y: np.ndarray, kind: str) -> str:
        """Return the kind of the earlier targets and of further ones together."""
        shapes, kinds = (self.sample.y.shape[1:], y.shape[1:]), {self.kind, kind}
        if kinds >= {"labels", "numbers"} or shapes[0] != shapes[1]:
            before, found = (
                f"{np.prod(shape, dtype=int)} column(s) of {each}"
                for shape, each in zip(shapes, (self.kind, kind), strict=True)
            )
            raise ValueError(
                f"y has {found}, but the earlier rows had {before}. Pass labels as "
                "strings, booleans or integers in one column, and numbers as floats."
            )
        return (kinds - {"integers"} or kinds).pop()

    @property
    def by_class(self) -> bool:
        """Whether the targets are labels."""
        return self.kind == "labels" or (
            self.kind == "integers"
            and (self.choices.method == "nca" or are_labels(self.sample.y.astype(int)))
        )

    def _learn(self, step: Step = no_step) -> Metric:
        sample, parameters = self.sample, self.choices
        X = as_kind(sample.X, np.ndarray)
        rows = TrainingRows.of(
            X, sample.y, sample.weights, by_class=self.by_class, seed=parameters.seed
        )
        return best_metric(rows, parameters, step)

    def cross_fitted(self, batch: Batch) -> np.ndarray:
        """Return the transformed rows of the batch, each by a metric without its fold.

        The metrics of the folds are rotated so that the rows from which they were
        learned are as close as possible to where the metric of all rows has them.
        Numbers use the method and the type of features of that metric. The value must
        have been learned from this batch.

        If the targets can be predicted well, even small differences between these
        metrics would be a large part of the errors. The rows are then transformed by
        the metric of all rows if it makes the errors of new rows more likely, given the
        leave-one-out errors of training rows, from which the next step predicts them.
        """
        # -> (n_rows, n_columns)
        metric, parameters = self.solution, self.choices
        X, y = as_kind(batch.X, np.ndarray), _codes(to_host(batch.y))
        weights, by_class = to_host(batch.weights), self.by_class
        if not by_class:
            columns = "hats" if metric.features.has_hats else "linear"
            parameters = parameters._replace(method=metric.method, columns=columns)
        whole = metric.mapped(X)
        error = _error_of_local_fits(whole, y, weights, by_class)
        found, of_folds = whole.copy(), 0.0
        numbers = fold_numbers(len(y), y if by_class else None, None)
        folds = list(PredefinedSplit(numbers).split())
        for train, test in folds:
            rows = TrainingRows.of(
                X[train],
                y[train],
                weights[train],
                by_class=by_class,
                seed=parameters.seed,
            )
            other = best_metric(rows, parameters, no_step)
            moved = other.mapped(X)
            found[test] = _rotated(moved, whole, train, weights[train])[test]
            of_folds += error(moved, test, train) * len(test) / len(y)
        strong = max(_STRONG, 1 - _MOST_NOISE / np.sqrt(len(y)))
        if of_folds < strong * _error_of_constant(y, weights, by_class):
            every = np.random.default_rng(0).permutation(len(y))
            parts = every[:_MOST_QUERIES], every[_MOST_QUERIES:]
            of_whole, of_found = (
                max(error(rows, *parts), _TINY) for rows in (whole, found)
            )
            of_new = 0.0
            for train, test in folds:
                mixed = found.copy()
                mixed[test] = whole[test]
                of_new += error(mixed, test, train) * len(test) / len(y)
            # Negative log likelihoods of the errors of new rows, exponentially
            # distributed around the leave-one-out error, which the next step expects.
            # In the metric of all rows, new rows have the error of the folds. Next to
            # rows in the metrics of folds, they have at least that of rows in the
            # metric of all rows, which have shaped it. The difference must exceed two
            # standard errors of the logarithm of an error; one for labels, for which
            # the metrics of folds differ more.
            of_new, one = max(of_new, of_found), 1 / np.sqrt(len(y))
            expected = np.log(of_found) + of_new / of_found - (2 - by_class) * one
            # If this error is clearly larger than that of rows in the metrics of folds,
            # these metrics do not agree with the metric of all rows.
            if of_new > (1 + 2 * one) * of_found:
                return whole
            # If rows predict each other no better than left-out rows, the metric of all
            # rows has not adapted to their targets.
            optimism = of_folds / of_whole
            if optimism < _OPTIMISM or np.log(of_whole) + optimism < expected:
                return whole
        return found


def _error_of_constant(y: np.ndarray, weights: np.ndarray, by_class: bool) -> float:
    """Return the error of the class shares or of the mean, as of local linear fits."""
    if not by_class:
        varies = np.ptp(y.reshape(len(y), -1), axis=0) > 0
        return float(np.count_nonzero(varies))
    shares = np.bincount(np.unique(y, return_inverse=True)[1], weights) / weights.sum()
    return float(1 - shares.max() + 0.5 * entropy(shares))


def _error_of_local_fits(
    rows: np.ndarray, y: np.ndarray, weights: np.ndarray, by_class: bool
) -> Callable[[np.ndarray, np.ndarray, np.ndarray], float]:
    """Return a function that compares transformed rows by errors of local linear fits.

    Its arguments are transformed rows like the given ones, the places of the rows to be
    predicted, each from all others, and the places of further rows.
    """
    table = TrainingRows.of(rows, y, weights, by_class=by_class, seed=0)
    codes = np.empty_like(table.codes)
    codes[np.random.default_rng(0).permutation(len(y))] = table.codes
    unit = float(np.sqrt(2 / max(1.0, np.var(rows, axis=0).sum())))

    def error(rows: np.ndarray, first: np.ndarray, rest: np.ndarray) -> float:
        some = np.concatenate([first, rest[:_MOST_KEYS]])
        parts = rows[some], unit, codes[some], weights[some]
        return best_local_fits(*parts, by_class, len(first)).error

    return error


def _codes(y: np.ndarray) -> np.ndarray:
    """Return targets as numbers; strings are replaced by numbers of their own."""
    return y.astype(np.float64) if y.dtype.kind in "fiub" else codes_of(y)


def _rotated(
    rows: np.ndarray, goal: np.ndarray, some: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Rotate and shift rows so that some of them are as close as possible to a goal.

    This is the orthogonal Procrustes problem. If there are more columns than in the
    goal, the last ones are left out after the rotation.
    """
    # (n, r), (n, k), (m,), (m,) -> (n, k)
    share, width = weights / weights.sum(), max(rows.shape[1], goal.shape[1])
    rows, wanted = (np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in (rows, goal))
    means = share @ rows[some], share @ wanted[some]
    U, _, Vt = np.linalg.svd(
        (rows[some] - means[0]).T @ ((wanted[some] - means[1]) * share[:, None])
    )
    return ((rows - means[0]) @ (U @ Vt) + means[1])[:, : goal.shape[1]]


class LearnedMetric(
    BatchesMixin,
    ClassNamePrefixFeaturesOutMixin,
    TypedTransformerMixin,
    TargetsLifeCycle,
):
    r"""Learn a transformation after which nearby rows have similar targets.

    This supervised transformer rescales and rotates the columns so that Euclidean
    distance reflects how the target varies. Pass it as the parameter ``metric`` of
    local linear regression, kernel averages or ridge regression on random features,
    whose intervals and probabilities then allow for the fact that the metric is learned
    from the same rows. With nearest neighbours, a support vector machine or another
    model, use it as the first step of a pipeline. Columns and directions that are
    unrelated to the target are shrunk. Columns are standardised first, so that their
    units do not matter.

    Parameters
    ----------
    n_components : int, default=None
        Number of columns to return, at most the number of columns of X. They correspond
        to the directions of largest variance under the metric. With None, up to 24
        columns are returned, but no more than there are features (see ``columns``), or
        a single column of zeros if all columns of X are constant.
    method : {"auto", "evidence", "agop", "nca"}, default="auto"
        How the metric is learned (see Notes). ``"auto"`` compares candidates by the
        error of local linear regression on held-out rows. It selects the one with the
        lowest error or, for labels, averages those with low errors. ``"nca"`` requires
        labels, which may be stored as floats.
    columns : {"auto", "linear", "hats"}, default="auto"
        Type of the features that are computed from individual columns; the map is
        linear in these features. With ``"linear"``, they are the standardised columns,
        in which outliers are moved towards the other values. ``"hats"`` adds hat
        functions of each column, which peak at six of its quantiles and can represent
        thresholds and effects that are not monotonic. ``"auto"`` selects the option
        with the lower error or, for labels, may average both. It does not try hat
        functions if there are fewer than five rows (for labels, ten) per feature, where
        each column and each hat function counts as a feature.
    random_state : int, RandomState instance or None, default=None
        Seed for the order of the rows, the first of which are used by some methods and
        the last for comparing candidates, for the random frequencies of ``"agop"`` and
        for the minibatches of ``"nca"``.

    Attributes
    ----------
    components_ : ndarray of shape (n_columns, n_features)
        Derivatives of the transformed columns with respect to the columns of X,
        averaged over the training rows. As for standardised columns, the variances of
        the transformed columns sum to the number of columns of X that are not constant.
    metric_ : ndarray of shape (n_features, n_features)
        Mean over the training rows of J'J, where J is the Jacobian of the
        transformation. For two rows x and y that are close to each other, (x - y)' J'J
        (x - y) is approximately their squared distance after the transformation.
    feature_importances_ : ndarray of shape (n_features,)
        Diagonal of the metric for standardised columns, scaled to sum to 1; zero for
        constant columns.
    method_ : str
        The method with the lowest error. It is ``"none"`` if nothing can be learned
        because there is only one class, or because the targets or rows are constant.
    columns_ : {"linear", "hats"}
        The type of features that the metric uses.
    scores_ : dict
        Score of local linear regression with each candidate metric, on rows from which
        the metric was not learned; larger is better. The score is R² for numerical
        targets, and minus the sum of the error rate and half of the log loss for
        labels. The dictionary is empty if there is only one candidate.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    LocalLinearRegressor : The model that benefits most from a learned metric.
    LocalLinearClassifier : The corresponding classifier.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : NCA on all pairs of rows.

    Notes
    -----
    A single column of targets is treated as labels if it contains strings, booleans
    or integers with at most 100 distinct values. Floating-point targets, integers with
    more distinct values, and several outputs are treated as numbers. To treat integers
    with few distinct values as numbers, pass ``y.astype(float)``.

    A standardised value z is replaced by :math:`z / \sqrt{1 + (z / 4)^2}`, which lies
    between -4 and 4. The map is a linear function of these scores and, with
    ``columns="hats"``, of the hat functions.

    * ``"evidence"`` fits a Gaussian process with covariance

      .. math:: K_{ij} = a^2 \Bigl(\exp\Bigl(-\tfrac12 \sum_l s_l^2
         (x_{il} - x_{jl})^2\Bigr) + \lambda\, \delta_{ij}\Bigr)

      whose scales s and noise :math:`\lambda` maximise the marginal likelihood, or
      evidence [1]_, on up to 800 rows. The metric is the sum of two matrices of trace
      1, which are proportional to the diagonal matrix of :math:`s_l^2` and to the mean
      outer product of the gradients of the posterior mean. For labels, each class is an
      output.
    * ``"agop"`` is the average gradient outer product [2]_ of a ridge regression on
      random Fourier features of up to 8192 rows. The frequencies of the first round are
      drawn according to the metric of ``"evidence"`` (with hat functions, the
      identity), and those of each later round according to that of the previous round.
      The initial metric, with a weight of 0.03, is added to the result.
    * ``"nca"`` is neighbourhood components analysis [3]_. It minimises the log loss of
      leave-one-out kernel averages by 150 steps of Adam on minibatches of 1000 rows,
      starting from the metric of ``"agop"`` (with hat functions, ``"evidence"``).

    Errors on a few hundred held-out rows differ by chance. For labels, ``"auto"``
    therefore averages the squared distances of the candidates, each multiplied by the
    square of the ``sigma`` with the lowest error for this candidate. A candidate with
    error e has the weight :math:`\exp((1 - e / e_0) / 0.05)`, where :math:`e_0` is the
    lowest error; candidates with a weight below 0.02 are left out. The error of
    ``"nca"`` is multiplied by 1.03, because this method makes the leave-one-out errors
    of the training rows too small, and later steps of a pipeline may use these errors
    to select parameters.

    With fewer than 100 rows per column, :meth:`fit_transform`, which pipelines call in
    ``fit``, transforms each training row by a metric that is learned without its fold,
    so that later steps of a pipeline do not judge themselves by rows that have shaped
    the metric. Next to a strong signal, small differences between these metrics would
    be a large part of the errors. Let e be the error of local linear fits in the
    metrics of the folds for the left-out rows. If it is less than :math:`\max(0.3, 1 -
    10 / \sqrt{n})` times the error of a constant for n rows, the metric of all rows is
    used if e / a < 1.02 or if :math:`\log a + e / a < \log b + \max(c / b, 1) - t /
    \sqrt{n}`, where t is 1 for labels and 2 for numbers. Here a and b are the
    leave-one-out errors of the training rows in the metric of all rows and in those of
    the folds, and c is their error if the row to be predicted is in the metric of all
    rows and most others are in those of the folds. Both sides of the inequality are
    negative log likelihoods of the errors of new rows. The metric of all rows is also
    used if :math:`c > (1 + 2 / \sqrt{n})\, b`, because the metrics of the folds then do
    not agree with it.

    ``partial_fit`` adds rows, and ``merge`` adds the rows of another transformer. The
    result is the same as after ``fit`` on all rows together, in the same order. To this
    end, the transformer keeps a random sample of at most 16,384 rows and at most 4
    million entries of X, and learns the metric from it. (If parts with more rows than
    that are merged, the sample is another one.) Call ``freeze()`` to discard it when no
    more rows will be added.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
       Learning", MIT Press 2006, chapter 5.
    .. [2] A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin, "Mechanism for Feature
       Learning in Neural Networks and Backpropagation-Free Machine Learning Models",
       Science 383 (2024), :doi:`10.1126/science.adi5639`.
    .. [3] J. Goldberger, G. Hinton, S. Roweis, R. Salakhutdinov, "Neighbourhood
       Components Analysis", NeurIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_crt import LearnedMetric
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> metric = LearnedMetric(random_state=0).fit(X[:400], y[:400])
    >>> bool(metric.feature_importances_[:2].sum() > 0.9)
    True
    >>> for ahead in ("passthrough", LearnedMetric(random_state=0)):
    ...     model = make_pipeline(ahead, KNeighborsRegressor()).fit(X[:400], y[:400])
    ...     print(f"{model.score(X[400:], y[400:]):.1f}")
    0.6
    1.0
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "method": [StrOptions({"auto", "evidence", "agop", "nca"})],
        "columns": [StrOptions({"auto", "linear", "hats"})],
        "random_state": ["random_state"],
    }

    _value: MetricValue
    _unit_of_work = "candidate"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        method: Literal["auto", "evidence", "agop", "nca"] = "auto",
        columns: Literal["auto", "linear", "hats"] = "auto",
        random_state: RandomState = None,
    ):
        self.n_components = n_components
        self.method = method
        self.columns = columns
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting
    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        self._note_namespace(X, y, sample_weight, first=first)
        options: Any = {"multi_output": True, "ensure_min_samples": 2 if final else 1}
        y = plain_targets(y)
        X, y = validate_rows(self, X, reset=first, y=y, **options)
        refuse_device(self, X, "")
        y = self._labels_or_numbers(np.asarray(y))
        n_given = X.shape[0]
        X, y, weights, dropped = weighted_rows(X, y, sample_weight)
        return Batch(X=X, y=y, weights=weights, n_given=n_given, dropped=dropped)

    def _empty_value(self, batch: Any) -> MetricValue:
        n_features, n_components = self.n_features_in_, self.n_components
        if n_components is not None and n_components > n_features:
            raise ValueError(
                f"n_components={n_components} must be at most the number of features, "
                f"{n_features}, or None."
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        return MetricValue(Parameters(n_components, self.method, self.columns, seed))

    def _labels_or_numbers(self, y: np.ndarray) -> np.ndarray:
        """Return a column of labels or integers unchanged, and other targets as floats.

        Whether integers are labels depends on the number of distinct values in all
        rows.
        """
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        large = y.dtype.kind in "iu" and np.any(np.abs(y.astype(float)) > _MOST_WHOLE)
        if large and are_labels(y):
            raise ValueError(
                "y contains integers beyond 2^53, which floats cannot represent "
                "exactly. Pass labels as strings (y.astype(str)), or numbers as floats "
                "(y.astype(float))."
            )
        if y.ndim == 2 and y.dtype.kind not in "fiub":
            raise ValueError(
                f"y has {y.shape[1]} columns of {y.dtype}, but several outputs are "
                "only supported for numbers. Pass labels in one column."
            )
        if self.method == "nca" and y.ndim == 1 and y.dtype.kind == "f":
            whole = np.abs(y) < _MOST_WHOLE  # labels may be stored as floats
            if np.all(whole & (np.rint(y) == y)):
                return y.astype(np.int64)
        if self.method == "nca" and (y.ndim > 1 or y.dtype.kind == "f"):
            raise ValueError(
                "method='nca' requires class labels, but y contains fractional "
                "numbers or has several outputs. Use method='evidence', or pass labels "
                "in one column."
            )
        return as_numbers(y) if y.ndim == 2 or y.dtype.kind == "f" else y

    # --------------------------------------------------------------- attributes
    @property
    def components_(self) -> np.ndarray:
        """Mean derivatives of the output columns with respect to the columns of X."""
        return self._value.solution.slopes

    @property
    def metric_(self) -> np.ndarray:
        """Mean of J'J over the training rows, for the Jacobian J of the map."""
        return self._value.solution.metric

    @property
    def feature_importances_(self) -> np.ndarray:
        """Diagonal of the metric for standardised columns, scaled to sum to 1."""
        metric = self._value.solution
        found = np.diagonal(metric.metric) * metric.deviation**2
        total = found.sum()
        return found / total if total > 0 else np.full(found.size, 1 / found.size)

    @property
    def method_(self) -> str:
        """The method with the lowest error."""
        return self._value.solution.method

    @property
    def columns_(self) -> str:
        """``"hats"`` if the metric uses hat functions, otherwise ``"linear"``."""
        return "hats" if self._value.solution.features.has_hats else "linear"

    @property
    def scores_(self) -> dict[str, float]:
        """The score of each candidate on rows that were not used to learn it."""
        return dict(self._value.solution.scores)

    @property
    def _n_features_out(self) -> int:
        return len(solution_for_names(self).components)

    # ------------------------------------------------------------- transforming
    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> np.ndarray:
        """Learn the metric, and transform the training rows.

        With few rows, a metric brings training rows with similar targets closer to each
        other than new rows. The next step of a pipeline would choose its parameters for
        these distances, so that its intervals would be too short and its probabilities
        too extreme. If there are fewer than 100 rows per column, the result is
        therefore cross-fitted, as in :class:`sklearn.preprocessing.TargetEncoder`: it
        differs from ``fit(X, y).transform(X)``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        **fit_params : dict
            Further arguments of ``fit``: ``sample_weight``.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_columns)
            Transformed training rows. If they are cross-fitted, each row is transformed
            by a metric that is learned without its fold, of which there are five, or
            ten if there are fewer than 200 rows. This metric is rotated so that the
            rows from which it was learned lie as close as possible to where the metric
            that is learned from all rows places them. Rows of weight 0 are transformed
            by the metric that is learned from all rows.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import LearnedMetric
        >>> rng = np.random.default_rng(0)
        >>> X, noise = rng.normal(size=(100, 10)), rng.normal(size=100)
        >>> metric = LearnedMetric(random_state=0)
        >>> rows = metric.fit_transform(X, noise)
        >>> bool(np.allclose(rows, metric.transform(X)))
        False
        """
        self.fit(X, y, **fit_params)
        model, rows = self._query(X, "fit_transform")
        refuse_device(model, rows, "")
        value = model._value
        found = model._value.solution.mapped(rows)
        n_rows, n_columns = found.shape[0], model.n_features_in_
        metric = value.solution
        if n_rows < _ROWS_PER_COLUMN * n_columns and metric.method != "none":
            weights = fit_params.get("sample_weight")
            batch = without_value(self)._read(X, y, weights, first=True, final=True)
            if len(batch.y) > 2:
                kept = np.delete(np.arange(n_rows), np.asarray(batch.dropped, int))
                found[kept] = value.cross_fitted(batch)
        return to_namespace_of(found, X)

    def transform(self, X: TableLike) -> Array:
        """Map the rows so that Euclidean distances are those of the metric.

        Use it for new rows. For the training rows, :meth:`fit_transform` returns what
        the next model should be fitted to, because this model would be too certain
        after ``fit(X, y).transform(X)``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        rows : ndarray of shape (n_samples, n_columns)
            Transformed rows as a dense array, in float32 if X is float32. With
            ``config_context(array_api_dispatch=True)``, it is an array from the same
            library as X.

        Raises
        ------
        TypeError
            If ``array_api_dispatch=True`` and X is on a device other than the CPU.
        """
        model, rows = self._query(X, "transform")
        refuse_device(model, rows, "")
        return to_namespace_of(model._value.solution.mapped(rows), X)

    def _slopes_before(self, slopes: np.ndarray, rows: Any) -> np.ndarray:
        """Return derivatives by the columns of validated rows, by the chain rule.

        ``slopes`` are the derivatives of functions by the transformed columns.
        """
        # (n_rows, n_columns, k) -> (n_rows, n_features, k)
        metric = self._value.solution
        X = as_kind(rows, np.ndarray)
        of_features, columns = metric.features.slopes(X)
        products = np.einsum("rf,nrk->nfk", metric.components, slopes)
        products *= of_features[:, :, None]
        found = np.zeros((X.shape[0], X.shape[1], slopes.shape[2]))
        for feature, column in enumerate(columns):
            found[:, column] += products[:, feature]
        return found

    def _mapped(self, rows: Any) -> Array:
        """Transform validated rows, regardless of the configured output container."""
        return to_namespace_of(self._value.solution.mapped(rows), rows)

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: targets may have several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags
