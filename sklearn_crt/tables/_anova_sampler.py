"""Features of an ANOVA kernel with learned column weights, and their effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.linalg import blas, lapack
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import check_random_state

from .._compat import Interval, RandomState, StrOptions, TypedTransformerMixin
from ..arrays.namespaces import Array, to_namespace_of
from ..arrays.threads import effective_n_threads, in_threads
from ..life_cycle.fitted import Batch, Step, no_step, solution_for_names
from ..life_cycle.supervised import BatchesMixin, SampleValue, TableLifeCycle
from ..rows import TableLike, are_labels, as_numbers, weighted_rows
from ..rows.raw_table import codes_of, group_positions, read_table_and_targets
from ..rows.row_sample import distinct_rows
from ._anova_kernel import (
    AnovaKernel,
    EncodedRows,
    LearnedKernel,
    LinearTerms,
    cholesky_with_jitter,
    combined,
    learn_kernel,
)
from ._encoding import Encoding

# number of landmarks if neither the sampler nor an estimator sets it
_N_COMPONENTS = 800
# number of landmarks that are used to learn weights
_LEARNING = 400
_ENTRIES = 2**22  # maximum number of kernel values in a block of rows


@dataclass(frozen=True, eq=False)
class AnovaMap:
    """Immutable feature map for rows that a reader has converted.

    A linear function of the features is a sum of effects. The effect of a column is the
    sum of all its terms, including the one for missing values. The effect of a pair is
    the sum of all products of a term of one column with a term of the other. Effects
    have mean zero over the landmarks. If all subsets of columns interact, only the
    effects of single columns are computed.
    """

    learned: LearnedKernel
    # (m, m); root @ root.T inverts the kernel matrix of landmarks. Models for tables
    # replace it by its products with their coefficients, (m, k).
    root: np.ndarray
    has_all_rows: bool  # whether each training row is a landmark
    linear: LinearTerms  # features that follow those of the kernel

    @property
    def n_features(self) -> int:
        """The number of features."""
        return self.root.shape[1] + len(self.linear.owners)

    def transform(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows in their type, (n, d) -> (n, m + p)."""
        return self.features(V).astype(V.dtype, copy=False)

    def features(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows in float64, (n, d) -> (n, m + p)."""
        found = self._of_kernel(V)
        if not self.linear.blocks:
            return found
        return np.hstack([found, self.linear.transform(V)])

    def _of_kernel(self, V: np.ndarray) -> np.ndarray:
        """Return the features without those of the linear terms, (n, m)."""
        kernel = self.learned.kernel(self.learned.encoding.transform(V))
        if self.root.shape[0] != self.root.shape[1]:
            return kernel @ self.root
        # the root is triangular, so half of the products can be skipped
        return blas.dtrmm(1.0, self.root.T, kernel.T, lower=1, overwrite_b=1).T

    def unexplained(self, V: np.ndarray) -> np.ndarray:
        """Return k(x, x) minus the squared norm of the features of x, (n,)."""
        kernel = self.learned.kernel.diagonal(self.learned.encoding.transform(V))
        return np.maximum(kernel - np.square(self._of_kernel(V)).sum(axis=1), 0)

    def exact_kernel(self, V: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Return the kernel between two sets of rows, with the linear terms, (n, m)."""
        encode, linear = self.learned.encoding.transform, self.linear.transform
        found = self.learned.kernel.between(encode(V), encode(W))
        return found + linear(V) @ linear(W).T

    # ------------------------------------------------------------------ effects
    @property
    def subsets(self) -> list[tuple[int, ...]]:
        """The groups of columns that each effect depends on."""
        owners = sorted(set(self.learned.encoding.owners))
        pairs = combinations(owners, 2) if self.learned.kernel.order == 2 else ()
        return [*((owner,) for owner in self._singles), *pairs]

    @property
    def _singles(self) -> list[int]:
        """The groups of columns in the kernel or in the linear terms."""
        return sorted({*self.learned.encoding.owners, *self.linear.owners.tolist()})

    def _effect_kernel(self, Z: np.ndarray, subset: tuple[int, ...]) -> np.ndarray:
        """Return an effect's contribution to the kernel of rows and landmarks."""
        kernel, owners = self.learned.kernel, np.array(self.learned.encoding.owners)
        own = [np.flatnonzero(owners == owner).tolist() for owner in subset]
        if not own[0]:  # there is only a linear term
            return np.zeros((len(Z), len(kernel.columns.points)))
        parts = [kernel.weighted_terms(Z, chosen) for chosen in own]
        if len(subset) == 2:
            sums = [terms.sum(axis=0) for terms in parts]
            return kernel.strength * sums[0] * sums[1]
        return _own_effect(kernel, parts[0])

    def effect_features(self, V: np.ndarray, subset: tuple[int, ...]) -> np.ndarray:
        """Return the features of an effect, which have mean zero over the landmarks."""
        Z, points = self._encoded(V)
        mean = self._effect_kernel(points, subset).mean(axis=0)
        features = (self._effect_kernel(Z, subset) - mean) @ self.root
        linear = np.zeros((len(V), len(self.linear.owners)))
        if len(subset) == 1:
            linear = self.linear.transform(V) * (self.linear.owners == subset[0])
        return np.hstack([features, linear])

    def effects(self, V: np.ndarray, coef: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return all effects, (n, n_effects, k), and a term to add to the intercept.

        ``coef`` are the coefficients of the features, (m + p, k).
        """
        Z, points = self._encoded(V)
        m = self.root.shape[1]
        dual = self.root @ coef[:m]
        means = self._raw(points, dual).mean(axis=0)
        shift = means.sum(axis=0)
        if self.learned.kernel.order == "all":  # interactions contribute, too
            shift = self.learned.kernel(points).mean(axis=0) @ dual
        found = self._raw(Z, dual) - means
        linear = self.linear.transform(V)
        for place, owner in enumerate(self._singles):
            own = self.linear.owners == owner
            found[:, place] += linear[:, own] @ coef[m:][own]
        return found, shift

    def _encoded(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.learned.encoding.transform(V), self.learned.kernel.columns.points

    def _raw(self, Z: np.ndarray, dual: np.ndarray) -> np.ndarray:
        """Return the effects for encoded rows, before centring."""
        kernel, subsets = self.learned.kernel, self.subsets
        owners = np.array(self.learned.encoding.owners, np.intp)
        every, n_outputs = sorted(set(owners.tolist())), dual.shape[1]
        singles = self._singles
        out = np.zeros((len(Z), len(subsets), n_outputs))
        n_single, m = len(every), len(dual)
        i, j = np.triu_indices(n_single, 1)
        step = max(1, _ENTRIES // (max(len(owners), 1) * m))
        for start in range(0, len(Z), step):
            rows = slice(start, start + step)
            terms = kernel.weighted_terms(Z[rows], range(len(owners)))
            sums = np.empty((n_single, *terms.shape[1:]))
            for place, owner in enumerate(every):
                mine = terms[owners == owner]
                sums[place] = mine.sum(axis=0)
                out[rows, singles.index(owner)] = _own_effect(kernel, mine) @ dual
            if kernel.order == 2 and n_single > 1:
                by_row = sums.transpose(1, 0, 2)  # (b, n_single, m)
                for k in range(n_outputs):
                    products = (by_row * dual[:, k]) @ by_row.transpose(0, 2, 1)
                    out[rows, len(singles) :, k] = kernel.strength * products[:, i, j]
        return out


def _own_effect(kernel: AnovaKernel, terms: np.ndarray) -> np.ndarray:
    """Return the kernel for a single group of columns, given its weighted terms."""
    return combined(terms, np.ones(len(terms)), kernel.order, kernel.strength)


class _Choices(NamedTuple):
    """The parameters, the seed and the kinds of columns at the time of ``fit``."""

    order: Any
    n_components: int
    groups: tuple[tuple[int, ...], ...]
    kinds: tuple[str, ...]
    labels: bool  # whether the targets are class codes
    seed: int


class AnovaValue(SampleValue):
    """A sample of the rows, and the feature map learned from it."""

    owner: ClassVar[str] = "AnovaSampler"
    most_rows: ClassVar[int] = 4096  # more rows hardly matter

    def _learn(self, step: Step = no_step) -> AnovaMap:
        sample, choices = self.sample, self.choices
        # some of the steps use the first rows only
        order = np.random.default_rng(choices.seed).permutation(len(sample.weights))
        X, weights = sample.X[order], sample.weights[order] / sample.weights.mean()
        encoding = Encoding.of(X, weights, choices.kinds, choices.groups)
        Z, T = encoding.transform(X), self._centred_targets(sample.y[order], weights)
        # equal landmarks would make their kernel matrix singular
        first, _ = distinct_rows(Z)
        points = Z[np.sort(first)[: choices.n_components]]
        rows = EncodedRows(Z, T, weights)
        order_, n_learning = choices.order, _LEARNING
        learned, fit = learn_kernel(encoding, rows, points, order_, n_learning, step)
        root = cholesky_with_jitter(learned.kernel(points))
        has_all_rows = sample.n_seen == len(order) and len(points) == len(first)
        of_fit = fit.residual, weights, fit.alpha
        linear, sizes = LinearTerms.learned(encoding, X, Z, *of_fit)
        if linear.blocks:
            share = weights / weights.sum()
            explained = np.square(T - fit.residual).sum(axis=1)
            shares = learned.shares * np.sqrt(share @ explained) + sizes
            learned = replace(learned, shares=shares / (shares.sum() or 1.0))
        inverse = lapack.dtrtri(root, lower=1)[0].T
        return AnovaMap(learned, inverse, has_all_rows, linear)

    def _centred_targets(self, y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return centred targets: class indicators, or numbers of variance 1."""
        share = weights / weights.sum()
        if self.choices.labels:
            T = (y.reshape(len(y), 1) == np.unique(y)).astype(np.float64)
            return T - share @ T
        T = y.reshape(len(y), -1)
        size = np.abs(T).max(axis=0)
        T = T / np.where(size > 0, size, 1)
        T = T - share @ T
        deviation = np.sqrt(share @ np.square(T))
        return T / np.where(deviation > 1e-14, deviation, np.inf)


class AnovaSampler(
    BatchesMixin,
    ClassNamePrefixFeaturesOutMixin,
    TypedTransformerMixin,
    TableLifeCycle,
):
    r"""Features of an ANOVA kernel for raw tables, with learned column weights.

    This supervised transformer converts a table with numbers, categories and missing
    values into features for linear models. A linear function of the features P is a sum
    of effects of individual columns and of pairs of columns (or of all subsets of
    columns). The features approximate the ANOVA kernel K of such functions [1]_,
    :math:`P P' \approx K`. The weight of each column is learned from the targets, so
    irrelevant columns do no harm. Columns need not be encoded, scaled or imputed.

    As the ``kernel`` of :class:`RandomFeatureRidge` or
    :class:`RandomFeatureRidgeClassifier`, it enables these estimators to read raw
    tables and to split their predictions into effects. It can also be used in a
    pipeline with another linear model.

    Parameters
    ----------
    order : {"auto", 1, 2, "all"}, default="auto"
        Largest number of columns that interact: 1 for sums of functions of individual
        columns, 2 to include interactions of pairs, and ``"all"`` to include those of
        any number of columns. ``"auto"`` chooses between 2 and ``"all"``. The strength
        of the interactions is always selected automatically.
    n_components : int, default=None
        Number of landmarks, each of which gives a feature; fewer if there are fewer
        distinct rows. None means 800, unless an estimator that uses the sampler sets a
        number. Linear terms (see Notes) add further features.
    groups : list of lists of str or int, default=None
        Names or positions of columns that are treated as one multivariate input, such
        as latitude and longitude. The effect of a group is a function of all its
        columns. Every other column is a group of its own.
    categories : list of str or int, default=None
        Numeric columns that contain codes of categories, such as regions. Strings and
        columns of type ``category`` need not be listed.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed for choosing the landmarks, which are distinct training rows. Pass an int
        for reproducible results.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X: the standard deviation of the sum of all effects
        that involve the column, scaled so that the importances sum to 1. The importance
        of a group is divided equally among its columns.
    order_ : {1, 2, "all"}
        The selected order.
    strength_ : float
        The selected strength c of the interactions (see Notes).
    roughness_ : float
        The selected roughness s of the kernels of numeric columns (see Notes).
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    RandomFeatureRidge : Ridge regression on these features.
    LearnedMetric : A metric that is learned from numeric columns.

    Notes
    -----
    The kernel of a column is
    :math:`k_j(x, y) = s\, e^{-|u - v|} + (2 - s)\, e^{-(u - v)^2 / 2}` for
    standardised numbers u and v, with a roughness s of 1 or 0.1. For categorical
    columns, the kernel is 1 for equal and 0 for different categories. Standardised
    numbers are softly clipped at 4 standard deviations, and values outside the range of
    the training rows count as its ends. Missing values of numerical columns are
    replaced by the median, and an additional effect represents missingness.
    Missing values of a categorical column form a category of their own if there are at
    least 10. In the kernel, categories with fewer than 10 rows of the sample are merged
    into a single category, which also represents categories that were not present in
    ``fit``. Dates are converted to days since 1970.

    Each kernel is centred over the landmarks and scaled to mean diagonal 1. With
    weights :math:`w_j` and the strength c of interactions,

    .. math:: K_1 = \sum_j w_j k_j, \quad
       K_2 = K_1 + c \sum_{i<j} w_i w_j k_i k_j, \quad
       K_{\text{all}} = \frac{\prod_j (1 + c\, w_j k_j) - 1}{c}.

    Because all functions in the space of :math:`k_j` have mean zero, interactions
    contain no effects of individual columns [2]_, [3]_. The features are those of the
    Nyström method, :math:`K_{nm} L^{-T}`, where :math:`L L'` is the kernel matrix of m
    landmarks.

    Initially, all weights are equal. In each of up to six rounds a ridge regression is
    fitted, and the weight of a column is set to the standard deviation of the sum of
    all effects that involve it, plus a small constant. The iteration ends early if the
    leave-one-out error is at most 0.9 times the variance of the targets and decreases
    by less than 0.5 %. The same error is used to select the order and the strength, and
    then the roughness, which is 1 unless the smoother kernel has a clearly smaller
    error. If there are more than 40 columns, only the 40 that are most important in a
    rough fit are kept in the kernel. Linear terms represent what the kernel leaves out:
    the standardised values of all numeric columns, and an indicator for each category
    of a categorical column, however few rows it has. If a column has more than 1500
    categories in the sample, only the 1500 most frequent ones have indicators. The
    penalty shrinks the effects of rare categories towards zero, as in a model with
    random effects. These terms are used if they lower the generalised cross-validation
    error of the residuals by 1 %, which also determines their scale. They are added to
    the effects of single columns. The kernel is learned from a random sample of at most
    4096 rows; ``freeze`` discards this sample. Targets that are strings, booleans or
    integers with at most 100 distinct values are treated as labels, and the regression
    targets are then the class indicators.

    References
    ----------
    .. [1] D. Duvenaud, H. Nickisch, C. E. Rasmussen, "Additive Gaussian Processes",
       NeurIPS 2011, :arxiv:`1112.4394`.
    .. [2] N. Durrande, D. Ginsbourger, O. Roustant, L. Carraro, "ANOVA kernels and RKHS
       of zero mean functions for model-based sensitivity analysis", Journal of
       Multivariate Analysis 115 (2013), :doi:`10.1016/j.jmva.2012.08.016`.
    .. [3] X. Lu, A. Boukouvalas, J. Hensman, "Additive Gaussian Processes Revisited",
       ICML 2022, :arxiv:`2206.09861`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn_crt import AnovaSampler
    >>> rng = np.random.default_rng(0)
    >>> size, colour = rng.normal(size=400), rng.choice(["red", "blue", None], 400)
    >>> X = np.array([size, colour], dtype=object).T
    >>> y = (size > 0) == (colour == "red")
    >>> model = make_pipeline(AnovaSampler(random_state=0), LogisticRegression())
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9
    True
    """

    _parameter_constraints: dict = {
        "order": [StrOptions({"auto", "all"}), Interval(Integral, 1, 2, closed="both")],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "groups": ["array-like", None],
        "categories": ["array-like", None],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    _value: AnovaValue
    _reads_tables = True  # ridge estimators then pass on raw tables

    def __init__(
        self,
        *,
        order: Literal["auto", 1, 2, "all"] = "auto",
        n_components: int | None = None,
        groups: Sequence[Sequence[str | int]] | None = None,
        categories: Sequence[str | int] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.order = order
        self.n_components = n_components
        self.groups = groups
        self.categories = categories
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting
    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        self._note_namespace(X, y, first=first)
        reader = None if first else self._reader
        V, y, self._reader = read_table_and_targets(
            self, X, y, reader, self.categories, reset=first
        )
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        labels = are_labels(y) if first else self._value.choices.labels
        if labels and (y.ndim > 1 or y.dtype.kind == "f"):
            raise ValueError(
                "y has floats or several outputs, but the first batch had labels. Pass "
                "labels in every batch, or floats in every batch, including the first."
            )
        y = codes_of(y).astype(np.int64) if labels else as_numbers(y)
        V, y, weights, _ = weighted_rows(V, y, sample_weight)
        return Batch(V, y.reshape(len(y), -1), weights)

    def _empty_value(self, batch: Batch) -> AnovaValue:
        reader = self._reader
        groups = group_positions(reader.names, self.groups)
        listed = [j for group in groups for j in group]
        if len(set(listed)) < len(listed):
            raise ValueError(
                f"groups={self.groups!r} must not list a column twice. Leave each "
                "column in one group."
            )
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        labels = batch.y.dtype.kind != "f"
        n_components = _N_COMPONENTS if self.n_components is None else self.n_components
        choices = _Choices(
            order=self.order,
            n_components=n_components,
            groups=tuple(groups),
            kinds=reader.kinds,
            labels=labels,
            seed=seed,
        )
        return AnovaValue(choices)

    # ------------------------------------------------------------- transforming
    def transform(self, X: TableLike) -> Array:
        """Compute the features of rows.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows with the same columns as in ``fit``. They may contain new categories,
            and missing values in columns that had none in ``fit``.

        Returns
        -------
        features : ndarray of shape (n_samples, n_components)
            The features, in float32 if X is a float32 array. The features of a row do
            not depend on the other rows of X.
        """
        return to_namespace_of(self._transformed(X, "transform"), X)

    def _transformed(self, X: TableLike, method: str) -> np.ndarray:
        """Return the features of rows of a table, whatever ``set_output`` requests."""
        model, V = self._query(X, method)
        anova = model._value.solution
        out = np.empty((len(V), anova.n_features), V.dtype)

        def write(part: slice) -> None:
            out[part] = anova.transform(V[part])

        in_threads(write, len(V), effective_n_threads(self.n_jobs, *out.shape))
        return out

    def exact_kernel(self, X: TableLike, Y: TableLike | None = None) -> np.ndarray:
        """Return the ANOVA kernel, which the features approximate.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_X, n_features)
            Rows.
        Y : {data frame, array-like} of shape (n_Y, n_features), default=None
            Other rows; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Kernel values, in the floating-point dtype of X.
        """
        model, V = self._query(X, "exact_kernel")
        W = V if Y is None else model._validated_queries(Y)
        found = model._value.solution.exact_kernel(V, W)
        return found.astype(V.dtype, copy=False)

    def approximate_kernel(
        self, X: TableLike, Y: TableLike | None = None
    ) -> np.ndarray:
        """Return the approximation of the kernel, ``transform(X) @ transform(Y).T``.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_X, n_features)
            Rows.
        Y : {data frame, array-like} of shape (n_Y, n_features), default=None
            Other rows; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            The approximation. Kernel values between a row and a landmark are exact,
            apart from the effect of a small number that is added to the diagonal of the
            kernel matrix of the landmarks.
        """
        features = self._transformed(X, "approximate_kernel")
        if Y is None:
            return features @ features.T
        return features @ self._transformed(Y, "approximate_kernel").T

    # --------------------------------------------------------------- attributes
    @property
    def _map_of_matrix(self) -> AnovaMap:
        """The feature map for rows that the reader has converted."""
        return self._value.solution

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each column of X; the importances sum to 1."""
        learned, found = self._value.solution.learned, np.zeros(self.n_features_in_)
        for group, share in zip(learned.encoding.groups, learned.shares, strict=True):
            found[list(group)] = share / len(group)
        return found

    @property
    def order_(self) -> Any:
        """The selected order."""
        return self._value.solution.learned.kernel.order

    @property
    def strength_(self) -> float:
        """The selected strength of the interactions."""
        return self._value.solution.learned.kernel.strength

    @property
    def roughness_(self) -> float:
        """The selected roughness of the kernels of numeric columns."""
        return self._value.solution.learned.kernel.columns.roughness

    @property
    def _n_features_out(self) -> int:
        return solution_for_names(self).n_features

    def __sklearn_tags__(self):
        """Return scikit-learn's tags, which allow raw tables and require targets."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags
