"""Kernel sums over few weighted points that stand for the training rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Integral
from operator import add
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, vstack
from sklearn.utils import check_random_state, gen_batches

from .._array import to_host
from .._compat import Interval, RandomState
from .._fitted import Batch, Step, no_step
from ..rows import Centers, Frame, Sigma, Statistics, resolve_sigma
from ..rows.centers import distinct_rows
from ._bandwidth import WIDE_OCTAVES, HeldOutRows, best_multiple_left, sample
from ._exact import Choice, Keys, RowAverages, RowKernel, as_kind, get_kernel
from ._sums import HasLogProfile
from ._targets import Targets

_N_BINS = 8  # of numbers
_DIGITS = 9  # of shares of weights, beyond which they differ by rounding


class Prototypes(RowKernel):
    r"""Weights of an average from a kernel of a few points that stand for the rows.

    A value of ``kernel`` in the Nadaraya-Watson estimators: k-means of the rows of each
    class, or of rows of like targets, in place of all the rows. Answers then cost the
    same however many rows there were, and are several times as accurate as those of
    random features of the same memory. It has no ``fit`` of its own: the estimator
    reads the rows.

    Parameters
    ----------
    n_prototypes : int, default=1024
        Number of points, shared among the classes with at least one each. With as many
        points as rows the kernel is the exact one.
    kernel : {"gaussian", "laplacian", "matern"} or callable, default="gaussian"
        The kernel, as in :class:`ExactKernel`.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale, as in :class:`ExactKernel`; ``"auto"`` is a multiple from
        1/8 to 32, by the error on up to 2000 rows that are left out of their points.
    nu : float, default=1.5
        Smoothness of ``kernel="matern"``; the other kernels have none.
    random_state : int, RandomState instance or None, default=None
        Seed of k-means and of the rows sampled for ``sigma="median"``.

    Attributes
    ----------
    sigma_ : float or ndarray of shape (n_features,)
        The multiplier of the rows, on ``kernel_`` of a fitted estimator.
    prototypes_ : Centers
        The points and their weights, on ``kernel_`` of a fitted estimator.

    See Also
    --------
    ExactKernel : The same kernel of all the rows.
    CentersRBFSampler : Points as a feature map, for linear models.

    Notes
    -----
    With the means :math:`m_p` of the rows of the points, their weights :math:`W_p` and
    mean targets :math:`y_p` an average is that of the prototypes [1]_,

    .. math:: \hat y(x) = \frac{\sum_p W_p K(x, m_p) y_p}{\sum_p W_p K(x, m_p)} .

    Rows that are equal and have equal targets count as one row with the sum of their
    weights, and k-means takes the distinct rows in sorted order. So the prototypes do
    not depend on the order of the rows, on how they are divided into batches or merged
    models, or on whether a row has the weight 2 or is repeated.

    ``partial_fit`` keeps up to about 4 million entries of X. Beyond that, rows are
    replaced by eight times as many points as there are to be prototypes, to which later
    rows are added, so that batches matter. A parameter out of range is a ValueError of
    the estimator's ``fit``.

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

    _parameter_constraints = {
        "n_prototypes": [Interval(Integral, 1, None, closed="left")],
        **RowKernel._parameter_constraints,
        "random_state": ["random_state"],
    }
    prototypes_: Centers

    def __init__(
        self,
        n_prototypes: int = 1024,
        *,
        kernel: Literal["gaussian", "laplacian", "matern"]
        | HasLogProfile
        | Callable[..., Any] = "gaussian",
        sigma: Sigma = "auto",
        nu: float = 1.5,
        random_state: RandomState = None,
    ):
        self.n_prototypes = n_prototypes
        self.kernel = kernel
        self.sigma = sigma
        self.nu = nu
        self.random_state = random_state

    def _averages(self, targets: Targets) -> PrototypeAverages:
        draws = check_random_state(self.random_state).randint(2**31 - 1, size=4)
        return PrototypeAverages(
            targets=targets,
            row_kernel=self,
            kernel=get_kernel(self.kernel, self.nu),
            sigma_parameter=self.sigma,
            statistics=Statistics(tuple(draws.tolist())),
            n_prototypes=self.n_prototypes,
        )

    def _fitted(self, value: Any) -> Self:
        fitted = super()._fitted(value)
        fitted.prototypes_ = value.prototypes
        return fitted


def allocate(weights: ArrayLike, n_points: int) -> np.ndarray:
    """Return how many of the points each group gets: shares, largest remainder."""
    # weights (n_groups,) -> (n_groups,)
    weights = np.asarray(weights, dtype=np.float64)
    # equal remainders are to be equal, and a whole number whole, whatever the order in
    # which the weights were summed
    quota = np.round(n_points * weights / weights.sum(), _DIGITS)
    counts = np.maximum(np.floor(quota).astype(int), weights > 0)
    missing = n_points - counts.sum()
    if missing > 0:
        counts[np.argsort(counts - quota, kind="stable")[:missing]] += 1
    while counts.sum() > n_points and counts.max() > 1:
        counts[np.argmax(np.where(counts > 1, counts - quota, -np.inf))] -= 1
    return counts


def group_numbers(
    y: np.ndarray, weights: np.ndarray, n_points: int, seed: int
) -> np.ndarray:
    """Return groups of rows of like targets."""
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
    # a sum that reaches the edge of a bin up to rounding reaches it
    levels = share[-1] * np.arange(1, n_bins) / n_bins * (1 - 10.0**-_DIGITS)
    places = np.searchsorted(share, levels)
    edges = np.unique(y[order[np.minimum(places, len(y) - 1)], 0])
    return np.searchsorted(edges, y[:, 0])  # equal targets are in one group


_KEPT_ENTRIES = 2**22  # of X, from which rows are replaced by points
_FINER = 8  # times as many points as prototypes, as long as rows may come
_N_LEFT = 2000  # rows to choose a factor of sigma with


class Points(NamedTuple):
    """Points of groups of rows, and the targets that they stand for."""

    centers: Centers
    y: np.ndarray
    spread: csr_array  # (n_points, n_products), nothing is stored for single rows

    def __add__(self, other: Points) -> Points:  # type: ignore[override]
        y = np.concatenate([self.y, other.y])
        spread = vstack([self.spread, other.spread], format="csr")
        return Points(self.centers + other.centers, y, spread)

    def distinct(self) -> tuple[Points, np.ndarray]:
        """Return rows of equal content and target once, and the place of each row.

        They are sorted by content, and have the weight of all their copies.
        """
        # -> (n_rows,)
        centers, y, spread = self
        first, places = distinct_rows(centers.points, y)
        totals = np.bincount(places, centers.weights)
        share = centers.weights / totals[places]
        mean = csr_array((share, (places, np.arange(len(places)))))
        weights = totals.astype(centers.weights.dtype)
        rows = Centers(centers.points[first], weights)
        return Points(rows, y[first], mean @ spread), places


@dataclass(frozen=True, eq=False, kw_only=True)
class PrototypeAverages(RowAverages):
    """Kernel averages over few points, the k-means centres of the rows of a class."""

    n_prototypes: int
    points: tuple[Points, ...] = ()
    left_out: HeldOutRows | None = None  # some rows, once they were replaced by points

    def plus(self, batch: Batch, step: Step = no_step) -> PrototypeAverages:
        X, y, weights = map(to_host, batch[:3])  # for k-means
        statistics = self._read((X, weights))
        value = replace(self, statistics=statistics, known_choice=None)
        value = value.having_seen(batch, self.seen)
        if not isinstance(self.sigma_parameter, str):
            resolve_sigma(self.sigma_parameter, value.statistics)  # raises if unfit
        for rows in gen_batches(X.shape[0], max(1, _KEPT_ENTRIES // X.shape[1])):
            none = csr_array((len(y[rows]), self.targets.n_products(X.shape[1])))
            new = Points(Centers(X[rows], weights[rows]), y[rows], none)
            value = replace(value, points=(*value.points, new))._with_fewer_points()
            step()
        return value

    def _with_fewer_points(self) -> PrototypeAverages:
        """Return the value with points in place of rows, if there are too many."""
        shapes = [part.centers.shape for part in self.points]
        n_points, few = sum(n for n, _ in shapes), _FINER * self.n_prototypes
        if n_points <= 2 * few or n_points * shapes[0][1] <= _KEPT_ENTRIES:
            return self
        whole, left_out = reduce(add, self.points), self.left_out
        if left_out is None and self._is_left_out:
            left_out = self._some(whole)
        points, labels = self._reduced(whole, few, self._shape())
        if left_out is not None:
            left_out = left_out.moved(labels)
        return replace(self, points=(points,), left_out=left_out)

    def __add__(self, other: PrototypeAverages) -> PrototypeAverages:
        left_out = self.left_out
        if left_out is None and other.left_out is not None:
            n_before = sum(part.y.shape[0] for part in self.points)
            left_out = other.left_out._replace(own=other.left_out.own + n_before)
        return replace(
            self,
            statistics=self.statistics + other.statistics,
            points=self.points + other.points,
            left_out=left_out,
            known_choice=None,
            seen=self.seen + other.seen,
        )._with_fewer_points()

    def frozen(self, step: Step = no_step) -> PrototypeAverages:
        """Return the averages with fixed ``sigma`` and points, without the rows."""
        choice = self.choice
        return replace(
            self,
            sigma_parameter=choice.sigma,
            targets=choice.targets,
            statistics=self.statistics.without_rows(),
            points=(choice.points,),
            left_out=None,
            known_choice=choice,
        )

    @property
    def prototypes(self) -> Centers:
        """The points for the rows seen so far."""
        return self.choice.points.centers

    def _choose(self) -> Choice:
        """Return ``sigma``, the targets, and the points."""
        whole, targets = reduce(add, self.points), self.targets
        sigma, rows = self._shape(), whole.centers.points
        self._keys(whole).frame(rows, sigma)[0].check(rows)
        points, labels = self._reduced(whole, self.n_prototypes, sigma)
        if self._is_left_out:
            left_out = self._some(whole) if self.left_out is None else self.left_out
            factor, targets = self._best(points, sigma, left_out.moved(labels))
            sigma = sigma * factor
        return Choice(sigma, targets, points)

    @property
    def _is_left_out(self):
        """Whether something is chosen by rows that are left out."""
        return self._is_auto or len(self.targets.candidates()) > 1

    def _shape(self):
        """Return sigma, but for a factor where that depends on the targets."""
        return resolve_sigma(
            "scale" if self._is_auto else self.sigma_parameter, self.statistics
        )

    def _some(self, whole):
        """Return the rows that are held out to choose sigma and the targets."""
        rows, places = whole.distinct()  # a row is left out with all its copies
        chosen = sample(rows.y.shape[0])[:_N_LEFT]
        few = rows.centers.take(chosen)
        own = np.unique(places, return_index=True)[1][chosen]
        return HeldOutRows(few.points, rows.y[chosen], few.weights, own)

    def _reduced(self, whole, n_points, sigma):
        """Return fewer points, and for each old one the number of its new one."""
        # by k-means in each class or in bins of the targets
        whole, places = whole.distinct()
        centers, y, _ = whole
        if centers.shape[0] <= n_points:
            return whole, places
        groups = y
        if not self.targets.are_labels:
            groups = group_numbers(
                y, centers.weights, n_points, self.statistics.seed[0]
            )
        counts = allocate(np.bincount(groups, centers.weights), n_points)
        frame, _ = self._keys(whole).frame(centers.points, sigma)
        labels, parts, n_before = np.empty(len(y), dtype=int), [], 0
        for group in np.flatnonzero(counts):
            own = np.flatnonzero(groups == group)
            few, found = centers.take(own).reduced(
                counts[group], frame, seed=self.statistics.seed[0]
            )
            labels[own] = n_before + found
            n_before += few.shape[0]
            parts.append(few)
        points = reduce(add, parts)
        share = centers.weights / np.bincount(labels, centers.weights)[labels]
        rest = y, share, labels, whole.spread
        spread = self.targets.spread_of(centers.points, *rest)
        means = _averages(y, share, labels)
        return Points(points, means, spread), labels[places]

    def _best(self, points, sigma, left):
        """Return factor of sigma and targets of least error on rows left out."""
        octaves = WIDE_OCTAVES if self._is_auto else np.ones(1)
        keys = self._keys(points)
        frame, kind = keys.frame(left.X, sigma)
        left = left._replace(X=frame.rows(as_kind(left.X, kind)))
        rows = frame.rows(as_kind(points.centers.points, kind))
        spread = self.targets.scaled(points.spread, sigma)
        parts = points.y, points.centers.weights, np.float64, rows, spread
        rest = self.targets.encode(*parts), self.targets, octaves
        return best_multiple_left(self.kernel, left, rows, *rest)

    @property
    def keys(self) -> Keys:
        sigma, _, points = self.choice
        targets = self.chosen_targets
        spread = targets.scaled(points.spread, sigma)
        return self._keys(points, spread, targets=targets)

    def _keys(
        self, points: Points, *spread: np.ndarray, targets: Targets | None = None
    ) -> Keys:
        part = points.centers.points, points.y, points.centers.weights, *spread
        origin = self.statistics.query.mean
        return Keys(self.kernel, targets or self.targets, (part,), origin)


def _averages(y, share, labels):
    """Return the targets of groups: the class of all rows, or the mean."""
    if y.ndim == 1:
        codes = np.empty(labels.max() + 1, dtype=y.dtype)
        codes[labels] = y
        return codes
    return np.stack([np.bincount(labels, share * column) for column in y.T], axis=1)
