"""Choose the number of features for a given accuracy, and compare samplers."""

from __future__ import annotations

import math
import time
import warnings
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from ._compat import Interval, RandomState, StrOptions, validated
from .inspection import axes_or_new
from .maps import TrigonometricMap
from .rows import TableLike
from .samplers import BaseFeatureSampler

__all__ = ["Comparison", "compare_samplers", "n_components_for"]
__dir__ = __all__.copy  # so that dir() shows only public names

_SIDE = 8  # number of queries and of keys in a block of pairs
_MOST = 10**7  # maximum number of frequencies


@validated(
    sampler=[BaseFeatureSampler],
    X=["array-like", "sparse matrix"],
    rms_error=[Interval(Real, 0, None, closed="neither")],
    n_pairs=[Interval(Integral, 1, None, closed="left")],
    random_state=["random_state"],
)
def n_components_for(
    sampler: BaseFeatureSampler,
    X: TableLike,
    *,
    rms_error: float,
    n_pairs: int = 4096,
    random_state: RandomState = None,
) -> int:
    r"""Return the number of features needed for a given accuracy of the kernel.

    The number follows from the closed form of the variance of random Fourier features,
    so no errors need to be measured. For positive features, no such number can be
    given, and a ValueError is raised: their estimates have heavy tails, so the mean
    squared error is dominated by rare draws that are unlikely to occur in a single fit.
    Use :func:`compare_samplers` to measure the errors of samplers of positive features.

    Parameters
    ----------
    sampler : sampler
        Sampler with the parameters to use, such as ``TrigRBFSampler(sigma=0.3)`` or
        ``MaternSampler()``; ``n_components`` is ignored. The sampler is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Data with at least two rows.
    rms_error : float
        Root mean squared difference between the estimate and the kernel, over pairs of
        distinct rows and over draws of the frequencies. Kernel values are at most 1, so
        an error of 0.01 corresponds to two correct digits.
    n_pairs : int, default=4096
        Approximate number of random pairs of rows over which the error is averaged.
    random_state : int, RandomState instance or None, default=None
        Seed for the random choice of pairs.

    Returns
    -------
    n_components : int
        The smallest number of features with an expected error of at most ``rms_error``.
        It is a multiple of the number of features per frequency.

    Raises
    ------
    ValueError
        If the sampler does not compute random Fourier features, if there are fewer than
        two rows, or if more than 10 million frequencies would be needed.

    See Also
    --------
    compare_samplers : Measure the errors of any samplers.

    Notes
    -----
    Let m be the number of frequencies, and p the number of ordered pairs of frequencies
    in the same block. The variance of the estimate, averaged over pairs of rows, is
    :math:`(m \alpha - p \beta) / m^2`, where :math:`\alpha` and :math:`\beta` follow
    from ``kernel_variance`` for one and for two frequencies. If there is no closed form
    for the coupling of the sampler, the frequencies are treated as independent, and the
    returned number is larger than necessary.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import TrigRBFSampler, n_components_for
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> D = n_components_for(TrigRBFSampler(), X, rms_error=0.02, random_state=0)
    >>> sampler = TrigRBFSampler(n_components=D, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> D, round(float(np.sqrt(np.mean(error**2))), 3)
    (1422, 0.022)
    """
    rng = check_random_state(random_state)
    X = check_array(X, accept_sparse="csr", ensure_min_samples=2)
    seed = rng.randint(2**31 - 1)
    one, two = (_fit_with_frequencies(sampler, X, count, seed) for count in (1, 2))
    blocks = list(_pair_blocks(X, n_pairs, rng))

    def mean_variance(fitted):
        variances = (fitted.kernel_variance(a, b) for a, b in blocks)
        return float(np.mean([block.mean() for block in variances]))

    coupling, d = one.map_.coupling, one.map_.n_features
    alpha, beta = mean_variance(one), 0.0
    pairs_of_two = coupling.n_pairs(2, d)
    if pairs_of_two > 0:
        beta = (2 * alpha - 4 * mean_variance(two)) / pairs_of_two

    def is_enough(m):
        return m * alpha - coupling.n_pairs(m, d) * beta <= (m * rms_error) ** 2

    high = 1  # doubled first, because the cost of n_pairs grows with its argument
    while not is_enough(high):
        high *= 2
        if high > _MOST:
            message = f"More than {_MOST} frequencies would be needed"
            raise ValueError(f"{message}; increase rms_error.")
    numbers = range(high // 2 + 1, high + 1)
    n_frequencies = numbers[bisect_left(numbers, True, key=is_enough)]
    return n_frequencies * one.map_.columns_per_frequency


def _fit_with_frequencies(sampler, X, n_frequencies, seed):
    """Fit the sampler with this many frequencies; require a closed-form variance."""
    fitted = clone(sampler).set_params(random_state=seed, n_components=2)
    with warnings.catch_warnings():  # fits with few features warn, as expected
        warnings.filterwarnings(
            "ignore", ".*the predicted error of the kernel estimate"
        )
        width = n_frequencies * fitted.fit(X).map_.columns_per_frequency
        if width != 2:
            fitted.set_params(n_components=width).fit(X)
    if not isinstance(fitted.map_, TrigonometricMap):
        raise ValueError(
            "n_components_for only supports trigonometric features. The errors of "
            f"{type(sampler).__name__} have heavy tails or no closed form, so the "
            "required number of features cannot be computed. Measure them with "
            "compare_samplers, or use TrigRBFSampler, LaplacianSampler, MaternSampler "
            "or ExponentialPowerSampler."
        )
    return fitted


def _pair_blocks(X, n_pairs, rng):
    """Yield pairs of small random blocks of rows that have no row in common."""
    side = min(_SIDE, X.shape[0] // 2)
    for _ in range(math.ceil(n_pairs / side**2)):
        chosen = rng.choice(X.shape[0], 2 * side, replace=False)
        yield X[chosen[:side]], X[chosen[side:]]


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = {
    "kernel": "Relative error of the kernel",
    "posterior": "Total variation of the class probabilities",
}
_HEADER = "error", "standard error", "ms per 1000 rows"


class Comparison(dict[str, Any]):
    """Table of the errors of several samplers, returned by :func:`compare_samplers`.

    The table is a dictionary of columns, which can be passed to ``pandas.DataFrame``.
    When printed, it is sorted by error. Notebooks display it as HTML.

    Parameters
    ----------
    names : list of str
        Names of the samplers.
    errors : ndarray of shape (n_samplers, n_draws)
        Error of each sampler in each draw. In each draw, all samplers use the same
        rows, so differences between samplers are paired.
    seconds : ndarray of shape (n_samplers,)
        Time that ``transform`` takes per 1000 rows: the minimum over all draws.
    target : {"kernel", "posterior"}
        The quantity whose error was measured.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler, TrigRBFSampler, compare_samplers
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> samplers = {"Fourier features": TrigRBFSampler(), "positive": OPRFSampler()}
    >>> table = compare_samplers(samplers, X, random_state=0)
    >>> list(table)
    ['sampler', 'error', 'standard_error', 'seconds']
    >>> table["sampler"]
    ['Fourier features', 'positive']
    """

    def __init__(
        self, names: list[str], errors: np.ndarray, seconds: np.ndarray, target: str
    ) -> None:
        super().__init__(
            sampler=names,
            error=errors.mean(axis=1),
            standard_error=_error_of_mean(errors),
            seconds=seconds,
        )
        self.errors = errors
        self.target = target

    @property
    def best(self) -> str:
        """Name of the sampler with the lowest mean error."""
        error = np.nan_to_num(self["error"], nan=np.inf)  # kernels can be infinite
        return self["sampler"][int(np.argmin(error))]

    def against(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the differences between the errors and those of a given sampler.

        Parameters
        ----------
        name : str
            Name of the sampler to compare with.

        Returns
        -------
        differences, standard_errors : ndarray of shape (n_samplers,)
            Mean differences between errors, and their standard errors, in the order of
            the table. A difference is positive for samplers with a larger error than
            the named sampler.
        """
        differences = self.errors - self.errors[self["sampler"].index(name)]
        return differences.mean(axis=1), _error_of_mean(differences)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the error of each sampler, with standard errors, against its run time.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        ax : matplotlib Axes
            The axes with the plot; both axes have logarithmic scales.
        """
        ax = axes_or_new(ax)
        for name, mean, error, seconds in zip(*self.values(), strict=True):
            ax.errorbar(seconds * 1e3, mean, np.nan_to_num(error), fmt="o", label=name)
        ax.set(xscale="log", yscale="log", ylabel=_TITLES[self.target])
        ax.set_xlabel("transform, ms per 1000 rows")
        ax.legend(fontsize="small")
        return ax

    def _title(self) -> str:
        return f"{_TITLES[self.target]}, mean over n_draws={self.errors.shape[1]}"

    def _rows(self) -> list[tuple[str, ...]]:
        """Return the cells of the table as text, sorted by error."""
        rows = sorted(zip(*self.values(), strict=True), key=lambda row: row[1])
        return [
            (name, f"{mean:.4f}", f"{error:.4f}", f"{seconds * 1e3:.2f}")
            for name, mean, error, seconds in rows
        ]

    def __repr__(self) -> str:
        rows = [("", *_HEADER), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([name.ljust(widths[0]), *map(str.rjust, numbers, widths[1:])])
            for name, *numbers in rows
        ]
        return "\n".join([self._title(), *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(name)}</th>{_cells('td', numbers)}</tr>"
            for name, *numbers in self._rows()
        )
        head = f"<tr><th></th>{_cells('th', _HEADER)}</tr>"
        return f"<table><caption>{self._title()}</caption>{head}{rows}</table>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


@validated(
    samplers=["array-like", dict],
    X=["array-like", "sparse matrix"],
    y=["array-like", None],
    target=[StrOptions(set(_TITLES))],
    n_rows=[Interval(Integral, 2, None, closed="left")],
    n_queries=[Interval(Integral, 1, None, closed="left")],
    n_draws=[Interval(Integral, 1, None, closed="left")],
    random_state=["random_state"],
)
def compare_samplers(
    samplers: Iterable | Mapping[str, Any],
    X: TableLike,
    *,
    y: Any = None,
    target: Literal["kernel", "posterior"] = "kernel",
    n_rows: int = 1000,
    n_queries: int = 200,
    n_draws: int = 5,
    random_state: RandomState = None,
) -> Comparison:
    r"""Measure the errors of several samplers on your data, with standard errors.

    The closed-form variance does not show which sampler is best for kernel averages,
    because it is dominated by rare draws of the frequencies. This function therefore
    draws rows and frequencies several times, and compares the estimates with the exact
    kernel.

    Parameters
    ----------
    samplers : list of sampler, or dict of str to sampler
        Samplers with the parameters to use; the keys of a dictionary are their names in
        the table. The samplers are cloned. Use the same ``sigma`` for all of them,
        because all errors become smaller as ``sigma`` decreases.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Data, preprocessed in the same way as for the final model.
    y : array-like of shape (n_samples,), default=None
        Class labels, which are required for ``target="posterior"``.
    target : {"kernel", "posterior"}, default="kernel"
        Quantity whose error is measured. ``"kernel"`` means the relative error
        :math:`|\hat K - K|_F / |K|_F` of the kernel matrix between queries and rows.
        ``"posterior"`` means the total variation distance
        :math:`\frac12 \sum_c |\hat p_c - p_c|` between the Nadaraya-Watson class
        probabilities that are computed with the estimated kernel and with the exact
        kernel, averaged over the queries. Negative class scores are replaced by 0. If
        no score of a query is positive, the class frequencies are used as its
        probabilities.
    n_rows, n_queries : int, default=1000, 200
        Number of rows on which the samplers are fitted, and number of other rows that
        are used as queries. If X has too few rows, both numbers are reduced
        proportionally.
    n_draws : int, default=5
        Number of repetitions, each with different rows and frequencies.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of rows and for the samplers.

    Returns
    -------
    table : Comparison
        A dictionary with the columns ``"sampler"``, ``"error"``, ``"standard_error"``
        and ``"seconds"`` (the time of ``transform`` per 1000 rows), in the order of
        ``samplers``. Print it to see a table, call ``table.plot()`` to plot the error
        against the time, or convert it with ``pandas.DataFrame(table)``.

    Raises
    ------
    ValueError
        If there is no sampler, or if y is None and ``target="posterior"``.
    TypeError
        If ``samplers`` contains an object that is not a sampler.

    See Also
    --------
    n_components_for : Compute the number of features for a required accuracy.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_crt import OPRFSampler, TrigRBFSampler, compare_samplers
    >>> X = StandardScaler().fit_transform(load_digits().data)
    >>> samplers = {"Fourier features": TrigRBFSampler(), "positive": OPRFSampler()}
    >>> compare_samplers(samplers, X, random_state=0)
    Relative error of the kernel, mean over n_draws=5
                        error  standard error  ms per 1000 rows
    Fourier features  0.3038          0.0093               ...
    positive           0.4785          0.0541               ...
    """
    if not isinstance(samplers, Mapping):
        # remove line breaks from long representations
        samplers = {" ".join(repr(sampler).split()): sampler for sampler in samplers}
    if not samplers:
        raise ValueError("samplers is empty; pass at least one sampler.")
    if not all(hasattr(sampler, "exact_kernel") for sampler in samplers.values()):
        raise TypeError(
            "samplers must be a list or a dict of samplers of sklearn_crt; the rows X "
            "are the second argument."
        )
    types = [np.float64, np.float32]
    X = check_array(X, accept_sparse="csr", dtype=types, ensure_min_samples=2)
    classes, codes = None, np.zeros(X.shape[0], dtype=int)
    if target == "posterior":
        if y is None:
            raise ValueError(
                "target='posterior' requires y, the class labels of the rows."
            )
        check_consistent_length(X, y)
        check_classification_targets(y)
        classes, codes = np.unique(column_or_1d(y), return_inverse=True)
    rng = check_random_state(random_state)
    share = min(1.0, X.shape[0] / (n_rows + n_queries))
    n_queries = max(1, int(share * n_queries))
    n_rows = min(n_rows, X.shape[0] - n_queries)
    errors, seconds = np.empty((2, len(samplers), n_draws))
    for draw in range(n_draws):
        order = rng.permutation(X.shape[0])[: n_rows + n_queries]
        queries, rows = np.split(order, [n_queries])
        seed = rng.randint(2**31 - 1)
        onehot = None if classes is None else np.eye(len(classes))[codes[rows]]
        for i, sampler in enumerate(samplers.values()):
            errors[i, draw], seconds[i, draw] = _measure(
                sampler, X[rows], X[queries], onehot, seed
            )
    return Comparison(list(samplers), errors, seconds.min(axis=1), target)


def _measure(sampler, rows, queries, onehot, seed):
    """Return the error of one fit, and the time to transform 1000 rows, in seconds."""
    fitted = clone(sampler).set_params(random_state=seed).fit(rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*[Ff]eatures of")
        start = time.perf_counter()
        fitted.transform(rows)
        seconds = (time.perf_counter() - start) * 1000 / rows.shape[0]
    estimate = fitted.approximate_kernel(queries, rows)
    kernel = fitted.exact_kernel(queries, rows)
    if onehot is None:
        with np.errstate(all="ignore"):  # NaN if kernel values are infinite
            error = np.linalg.norm(estimate - kernel) / np.linalg.norm(kernel)
        return error, seconds
    left, right = (_posteriors(weights, onehot) for weights in (estimate, kernel))
    return 0.5 * np.mean(np.sum(np.abs(left - right), axis=1)), seconds


def _posteriors(weights, onehot):
    scores = np.maximum(weights @ onehot, 0)
    totals = scores.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(totals > 0, scores / totals, onehot.mean(axis=0))


def _error_of_mean(values):
    """Return the standard error of the mean of each row; NaN for a single draw."""
    if values.shape[1] == 1:
        return np.full(len(values), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
