"""Kernel averages over a few weighted prototypes that represent the training rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from numbers import Integral
from operator import add
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import clone

from .._compat import DOC_LINK, Interval, RandomState, TypedBaseEstimator
from ..arrays.namespaces import joined, to_host
from ..arrays.validation import as_kind
from ..life_cycle.fitted import Batch, Step, no_step
from ..rows import Centers, Frame, Rows, Sigma, Statistics, resolve_sigma
from ..rows.clustering import DIGITS, allocate, split_groups
from ..rows.row_sample import distinct_rows
from ..rows.statistics import added
from ..samplers._kernel_parameter import (
    ROW_KERNEL_CONSTRAINTS,
    RowKernelLike,
    copied_sigma,
    is_auto,
    row_kernel,
)
from ._fitted_averages import RowAverages
from ._kernel_rows import DrawnRows, KernelRows
from ._sigma_choice import WIDE_OCTAVES, HeldOutRows, best_multiple_left
from ._target_columns import Targets

_N_BINS = 8  # number of groups of rows with similar numerical targets


class Prototypes(TypedBaseEstimator):
    r"""Kernel between a query and a small number of prototypes of the training rows.

    Pass an instance as the parameter ``kernel`` of the Nadaraya-Watson and local linear
    estimators if there are too many training rows to store, or if predictions must be
    fast. The training rows are replaced by weighted k-means centres, which are computed
    separately for each class, or for groups of rows with similar targets. The time per
    prediction then does not depend on the number of training rows, and predictions are
    several times as accurate as those from random features that need the same amount of
    memory. The object has no ``fit`` method, because the estimator fits it.

    Parameters
    ----------
    n_prototypes : int, default=1024
        Number of prototypes. They are distributed among the classes, each of which has
        at least one. With as many prototypes as training rows, predictions are the same
        as with the exact kernel.
    kernel : str, kernel or callable, default="gaussian"
        Kernel between a query and a prototype: ``"gaussian"``, ``"laplacian"``,
        ``"matern"``, a kernel object from :mod:`sklearn_crt.kernels`, or a callable, as
        in :class:`NadarayaWatsonRegressor`.
    random_state : int, RandomState instance or None, default=None
        Seed for choosing the centres, and for sampling rows if ``sigma="median"``.

    Attributes
    ----------
    prototypes_ : Centers
        The prototypes and their weights; use ``kernel_.prototypes_`` of a fitted
        estimator to access them.

    See Also
    --------
    NadarayaWatsonClassifier, LocalLinearRegressor : Estimators that accept prototypes.
    CentersRBFSampler : Features for linear models, based on centres of the data.

    Notes
    -----
    Let :math:`m_p` be the mean of the rows that prototype p represents, :math:`W_p` the
    sum of their weights and :math:`y_p` their mean target. The prediction is the kernel
    average over the prototypes [1]_,

    .. math:: \hat y(x) = \frac{\sum_p W_p K(x, m_p) y_p}{\sum_p W_p K(x, m_p)} .

    Equal rows with equal targets are treated as one row whose weight is the sum of
    their weights. The same rows in the same order have the same prototypes, whether
    they are passed at once, in batches, or to models that are merged.

    ``partial_fit`` stores the rows as long as X has no more than about 4 million
    entries. Beyond this limit, several thousand rows at a time are merged into half as
    many points, starting with the oldest rows; later, the points themselves are merged.
    Hence the time of each call is proportional to the number of rows in its batch. The
    result still does not depend on how the rows are divided into batches, but models
    that are merged can have other points. The local linear estimators also store the
    moments of the rows that each point represents, so they merge more rows into each
    point.

    The inverse length scale ``sigma`` is a parameter of the estimator. ``sigma="auto"``
    compares multiples of ``"scale"`` from 1/8 to 32 by the error on up to 2000 training
    rows, each of which is subtracted from its prototype before it is predicted. Invalid
    parameters raise a ValueError when the estimator is fitted.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical
       Learning", 2nd edition, Springer 2009, section 13.2.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_crt import NadarayaWatsonClassifier, Prototypes
    >>> X, y = load_digits(return_X_y=True)
    >>> model = NadarayaWatsonClassifier(Prototypes(200, random_state=0))
    >>> model = model.fit(X[:1200], y[:1200])
    >>> round(model.score(X[1200:], y[1200:]), 2)
    0.96
    >>> model.kernel_.prototypes_.shape
    (200, 64)
    """

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _parameter_constraints: dict = {
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        "kernel": ROW_KERNEL_CONSTRAINTS,
        "random_state": ["random_state"],
    }
    prototypes_: Centers

    def __init__(
        self,
        n_prototypes: int = 1024,
        *,
        kernel: RowKernelLike = "gaussian",
        random_state: RandomState = None,
    ):
        self.n_prototypes = n_prototypes
        self.kernel = kernel
        self.random_state = random_state


def prototype_averages(
    prototypes: Prototypes, sigma: Sigma, targets: Targets
) -> PrototypeAverages:
    """Return the averages of an estimator before any rows are added."""
    prototypes._validate_params()
    return PrototypeAverages(
        targets=targets,
        unfitted=clone(prototypes),
        kernel=row_kernel(prototypes.kernel),
        sigma_parameter=copied_sigma(sigma),
        statistics=Statistics.seeded(prototypes.random_state),
    )


def group_numbers(
    y: np.ndarray, weights: np.ndarray, n_points: int, seed: int
) -> np.ndarray:
    """Divide rows into groups with similar targets, and return each row's group."""
    # y (n_rows, n_outputs), weights (n_rows,) -> (n_rows,)
    n_bins = int(min(_N_BINS, max(1, n_points // 4)))
    if n_bins == 1:
        return np.zeros(len(y), dtype=int)
    if y.shape[1] > 1:
        mean = np.average(y, axis=0, weights=weights)
        deviation = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=weights))
        frame = Frame(1 / np.where(deviation > 0, deviation, 1.0), mean)
        return Centers(y, weights).reduced(n_bins, frame, seed=seed)[1]
    order = np.argsort(y[:, 0], kind="stable")
    share = np.cumsum(weights[order], dtype=np.float64)
    # rounding errors may leave a cumulative weight just below the edge of a bin
    levels = share[-1] * np.arange(1, n_bins) / n_bins * (1 - 10.0**-DIGITS)
    places = np.searchsorted(share, levels)
    edges = np.unique(y[order[np.minimum(places, len(y) - 1)], 0])
    return np.searchsorted(edges, y[:, 0])  # equal targets are in the same group


_KEPT_ENTRIES = 2**22  # if X has more entries, rows are merged into points
_FINER = 8  # number of points kept per prototype while more rows may be added
_CHUNK = 2**13  # rows that are merged at a time
_N_LEFT = 2000  # number of held-out rows for the choice of sigma


class Points(NamedTuple):
    """Weighted points that represent groups of rows, with their mean targets."""

    centers: Centers
    y: np.ndarray
    # central second moments of the rows that each point represents, (n_points,
    # n_products); nothing is stored for points that represent individual rows
    spread: csr_array
    level: int = 0  # how often the number of points has been halved

    @classmethod
    def joined(cls, parts: Sequence[Points]) -> Points:
        """Concatenate the points of several parts in the given order."""
        centers, y, spreads, levels = zip(*parts, strict=True)
        rows = joined([part.points for part in centers])
        whole = Centers(rows, np.concatenate([part.weights for part in centers]))
        spread = vstack(spreads, format="csr")
        return cls(whole, np.concatenate(y), spread, max(levels))

    @property
    def n_entries(self) -> int:
        """Number of stored entries of the points and their moments."""
        return math.prod(self.centers.shape) + self.spread.nnz

    def distinct(self) -> tuple[Points, np.ndarray]:
        """Merge points with equal rows and targets, and return the new index of each.

        Merged points have the order of their first rows, and their weights are added.
        """
        # -> (n_rows,)
        centers, y, spread, _ = self
        first, places = distinct_rows(centers.points, y)
        totals = np.bincount(places, centers.weights)
        share = centers.weights / totals[places]
        mean = csr_array((share, (places, np.arange(len(places)))))
        weights = totals.astype(centers.weights.dtype)
        rows = Centers(centers.points[first], weights)
        return Points(rows, y[first], mean @ spread), places


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeAverages(RowAverages):
    """Kernel averages over prototypes, which are computed when first needed."""

    unfitted: Prototypes  # a copy of the parameter of the estimator
    points: tuple[Points, ...] = ()
    # a sample of the rows, which is kept once rows have been merged into points
    left_out: HeldOutRows | None = None

    def plus(self, batch: Batch, step: Step = no_step) -> PrototypeAverages:
        X, y, weights = map(to_host, batch[:3])  # k-means runs on the host
        statistics = self._read((X, weights))
        seen = added(self.seen, self.targets.statistics_of(batch.y, batch.weights))
        value = replace(self, statistics=statistics, seen=seen, known=None)
        if not isinstance(self.sigma_parameter, str):
            # raises ValueError if sigma has the wrong shape
            resolve_sigma(self.sigma_parameter, value.statistics)
        n_given, n_products = X.shape[0], self.targets.n_products(X.shape[1])
        start = 0
        while start < n_given:  # each iteration completes a chunk or uses up the batch
            waiting = value.points[value._first_waiting :]
            missing = self._chunk_size(X) - sum(part.y.shape[0] for part in waiting)
            rows = slice(start, min(start + missing, n_given))
            none = csr_array((rows.stop - start, n_products))
            new = Points(Centers(X[rows], weights[rows]), y[rows], none)
            value = replace(value, points=(*value.points, new))
            if rows.stop - start == missing:
                value = value._within_memory()
            start = rows.stop
            step()
        return value

    def _most_entries(self, X: Rows) -> int:
        """Return the number of stored entries above which rows are merged."""
        few, n_features = _FINER * self.unfitted.n_prototypes, X.shape[1]
        n_products = self.targets.n_products(n_features)
        return max(_KEPT_ENTRIES, 2 * few * n_features) + few * n_products

    def _chunk_size(self, X: Rows) -> int:
        """Return the number of rows that are merged at a time."""
        return min(_CHUNK, max(2, self._most_entries(X) // (4 * X.shape[1])))

    @property
    def _first_waiting(self) -> int:
        """Index of the first part after the last complete chunk."""
        k = len(self.points)
        while k and not (part := self.points[k - 1]).level:
            if part.y.shape[0] >= self._chunk_size(part.centers.points):
                break
            k -= 1
        return k

    def _within_memory(self) -> PrototypeAverages:
        """Merge rows and points until the number of entries is within the limit."""
        k = self._first_waiting
        last = (Points.joined(self.points[k:]),) if k < len(self.points) else ()
        value = replace(self, points=(*self.points[:k], *last))
        most = self._most_entries(value.points[0].centers.points)
        while sum(part.n_entries for part in value.points) > most:
            if (some := value._next_parts()) is None:
                break
            value = value._merged(some)
        return value

    def _next_parts(self) -> slice | None:
        """Return the parts to merge next, the oldest among those merged least often."""
        levels = [part.level for part in self.points[: self._first_waiting]]
        if 0 in levels:
            k = levels.index(0)
            return slice(k, k + 1)
        of_pairs = [max(pair) for pair in pairwise(levels)]
        if not of_pairs:
            return None
        k = of_pairs.index(min(of_pairs))
        return slice(k, k + 2)

    def _merged(self, some: slice) -> PrototypeAverages:
        """Return a copy in which some parts have been reduced to half their size."""
        whole, left_out = Points.joined(self.points[some]), self.left_out
        if left_out is None and self._is_left_out:
            left_out = self._some(Points.joined(self.points))
        d, n_old = whole.centers.shape[1], whole.y.shape[0]
        width = d if self.targets.is_wide(d) else d + self.targets.n_products(d)
        given = self.sigma_parameter
        # multiplying all columns by the same number does not affect k-means
        sigma = 1.0 if isinstance(given, str) else self._first_sigma()
        n_points = max(1, whole.n_entries // (2 * width))
        points, labels = self._reduced(whole, n_points, sigma, in_cells=True)
        points = points._replace(level=whole.level + 1)
        if left_out is not None:
            sizes = [part.y.shape[0] for part in self.points]
            before, n_all = sum(sizes[: some.start]), sum(sizes)
            places = np.arange(n_all)
            places[before : before + n_old] = before + labels
            places[before + n_old :] += points.y.shape[0] - n_old
            left_out = left_out.moved(places)
        parts = *self.points[: some.start], points, *self.points[some.stop :]
        return replace(self, points=parts, left_out=left_out)

    def __add__(self, other: PrototypeAverages) -> PrototypeAverages:
        self.check_mergeable(other)
        left_out = self.left_out
        if left_out is None and other.left_out is not None:
            n_before = sum(part.y.shape[0] for part in self.points)
            left_out = other.left_out._replace(own=other.left_out.own + n_before)
        return replace(
            self,
            statistics=self.statistics + other.statistics,
            points=self.points + other.points,
            left_out=left_out,
            known=None,
            seen=self.seen + other.seen,
        )._within_memory()

    def _without_rows(self) -> PrototypeAverages:
        statistics = self.statistics.without_rows()
        return replace(self, points=(), left_out=None, statistics=statistics)

    @property
    def kernel_in_use(self) -> Prototypes:
        """A copy of the estimator's parameter ``kernel`` with the fitted prototypes."""
        fitted = clone(self.unfitted)
        ((points, _, weights, _),) = self.solution.parts
        fitted.prototypes_ = Centers(points, weights)
        return fitted

    def _learn(self, step: Step = no_step) -> KernelRows:
        """Choose ``sigma`` and the targets, and compute the prototypes."""
        whole = Points.joined(self.points)
        sigma, rows = self._first_sigma(), whole.centers.points
        frame, kind = self._frame(whole, rows, sigma)
        frame.check(rows)
        points, labels = self._reduced(whole, self.unfitted.n_prototypes, sigma)
        targets, centers = self.targets, points.centers
        if targets.is_wide(rows.shape[1]):
            few = frame.rows(as_kind(centers.points, kind))
            targets = targets.adapted(few, centers.weights)
        if self._is_left_out:
            left_out = self._some(whole) if self.left_out is None else self.left_out
            left_out = left_out.moved(labels)
            best = self._best(points, sigma, left_out, targets)
            sigma, targets = sigma * best.multiple, best.targets
        targets = targets.reduced()
        return self._keys(points, sigma, targets, targets.scaled(points.spread, sigma))

    @property
    def _is_left_out(self):
        """Whether ``sigma`` or a penalty is chosen by the error on held-out rows."""
        return is_auto(self.sigma_parameter) or len(self.targets.candidates()) > 1

    def _some(self, whole):
        """Return the rows that are held out to choose ``sigma`` and the targets."""
        few = DrawnRows.of(whole.centers.weights, _N_LEFT)
        rows, own = whole.centers.points, few.places
        return HeldOutRows(
            X=rows[own],
            y=whole.y[own],
            row_weights=few.all_weights[own],
            weights=few.weights,
            own=own,
        )

    def _reduced(self, whole, n_points, sigma, *, in_cells=False):
        """Replace points by fewer points, and return the new index of each old point.

        K-means is run within each class, or within groups of similar targets.
        """
        whole, places = whole.distinct()
        centers, y, *_ = whole
        if centers.shape[0] <= n_points:
            return whole, places
        groups = y
        if not self.targets.are_labels:
            groups = group_numbers(
                y, centers.weights, n_points, self.statistics.seed[0]
            )
        n_steps = None
        if in_cells:  # k-means is faster within smaller groups
            # groups of two or three rows need only a few steps from random centres
            n_steps = 2 if self.targets.n_products(1) == 0 else None
            groups = split_groups(centers.points, sigma, groups)
        counts = allocate(np.bincount(groups, centers.weights), n_points)
        frame, _ = self._frame(whole, centers.points, sigma)
        labels, parts, n_before = np.empty(len(y), dtype=int), [], 0
        for group in np.flatnonzero(counts):
            own = np.flatnonzero(groups == group)
            few, found = centers.take(own).reduced(
                counts[group], frame, seed=self.statistics.seed[0], n_steps=n_steps
            )
            labels[own] = n_before + found
            n_before += few.shape[0]
            parts.append(few)
        points = reduce(add, parts)
        share = centers.weights / np.bincount(labels, centers.weights)[labels]
        spread = self.targets.spread_of(whole, share, labels)
        means = _averages(y, share, labels)
        return Points(points, means, spread), labels[places]

    def _best(self, points, sigma, left, targets):
        """Return the multiple of sigma and the targets with the lowest error."""
        octaves = WIDE_OCTAVES if is_auto(self.sigma_parameter) else np.ones(1)
        frame, kind = self._frame(points, left.X, sigma)
        left = left._replace(X=frame.rows(as_kind(left.X, kind)))
        rows = frame.rows(as_kind(points.centers.points, kind))
        spread = targets.scaled(points.spread, sigma)
        parts = points.y, points.centers.weights, np.float64, rows, spread
        rest = targets.encode(*parts), targets, octaves
        return best_multiple_left(self.kernel, left, rows, *rest)

    def _frame(self, points, X, sigma):
        """Return the frame of points and other rows, as ``KernelRows.frame`` does."""
        return self._keys(points, sigma, self.targets).frame(X)

    def _keys(
        self,
        points: Points,
        sigma: float | np.ndarray,
        targets: Targets,
        *spread: np.ndarray,
    ) -> KernelRows:
        part = points.centers.points, points.y, points.centers.weights, *spread
        return KernelRows(
            kernel=self.kernel,
            sigma=sigma,
            targets=targets,
            parts=(part,),
            origin=self.statistics.query.mean,
        )


def _averages(y, share, labels):
    """Return the common class or the mean target of each group."""
    if y.ndim == 1:
        codes = np.empty(labels.max() + 1, dtype=y.dtype)
        codes[labels] = y
        return codes
    return np.stack([np.bincount(labels, share * column) for column in y.T], axis=1)
