"""The number of features for a given error, and measured errors of samplers."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Mapping
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from ._compat import Interval, RandomState, StrOptions, validated
from .maps import TrigonometricMap
from .rows import TableLike
from .samplers import BaseFeatureSampler

__all__ = ["Comparison", "compare_samplers", "n_components_for"]


def __dir__() -> list[str]:
    return __all__


_SIDE = 8  # number of queries and of keys in a block of pairs
_MOST = 10**7  # frequencies


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
    r"""Return the number of features for a given error of the kernel.

    The number is computed from the closed form of the variance of random Fourier
    features, without drawing any features. Samplers of positive features raise an
    error, because their errors have heavy tails: the mean is dominated by rare draws
    that a single fit does not contain. Use :func:`compare_samplers` for them.

    Parameters
    ----------
    sampler : sampler
        Sampler with the parameters to use, such as ``TrigRBFSampler(sigma=0.3)`` or
        ``MaternSampler()``; ``n_components`` is ignored. The sampler is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; at least two.
    rms_error : float
        Root mean squared difference between the estimate and the kernel, over pairs of
        distinct rows and draws of the frequencies. Kernel values are at most 1, so 0.01
        corresponds to two correct digits.
    n_pairs : int, default=4096
        Approximate number of random pairs of rows over which the error is averaged.
    random_state : int, RandomState instance or None, default=None
        Seed of the random choice of pairs.

    Returns
    -------
    n_components : int
        The smallest number of features whose expected error is at most ``rms_error``, a
        multiple of the number of features per frequency.

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
    With m frequencies, p of whose ordered pairs share a block, the mean over the pairs
    of rows of the variance is :math:`(m \alpha - p \beta) / m^2`; alpha and beta follow
    from ``kernel_variance`` of one and of two frequencies. Couplings without a closed
    form are treated as independent frequencies, so the number is too large for them.

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

    n_frequencies = _least(is_enough)
    return n_frequencies * one.map_.columns_per_frequency


def _fit_with_frequencies(sampler, X, n_frequencies, seed):
    """Fit the sampler with a given number of frequencies, or raise an error."""
    fitted = clone(sampler).set_params(random_state=seed, n_components=2)
    with warnings.catch_warnings():  # the warning about few features is expected here
        warnings.filterwarnings("ignore", ".*on a sample of rows the stated error")
        width = n_frequencies * fitted.fit(X).map_.columns_per_frequency
        if width != 2:
            fitted.set_params(n_components=width).fit(X)
    if not isinstance(fitted.map_, TrigonometricMap):
        raise ValueError(
            f"n_components_for needs features that are sines and cosines; the errors "
            f"of {type(sampler).__name__} have heavy tails or no closed form, so no "
            "number of columns can be stated. Measure them with compare_samplers, or "
            "use TrigRBFSampler, LaplacianSampler, MaternSampler or "
            "ExponentialPowerSampler."
        )
    return fitted


def _pair_blocks(X, n_pairs, rng):
    """Yield pairs of disjoint sets of a few rows."""
    side = min(_SIDE, X.shape[0] // 2)
    for _ in range(math.ceil(n_pairs / side**2)):
        chosen = rng.choice(X.shape[0], 2 * side, replace=False)
        yield X[chosen[:side]], X[chosen[side:]]


def _least(is_enough):
    """Return the smallest sufficient number, found by bisection."""
    high = 1
    while not is_enough(high):
        high *= 2
        if high > _MOST:
            raise ValueError(
                f"More than {_MOST} frequencies would be needed; ask for a larger "
                "rms_error."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = {
    "kernel": "Relative error of the kernel",
    "posterior": "Total variation of the class probabilities",
}
_HEADER = "error", "standard error", "ms per 1000 rows"


class Comparison(dict[str, Any]):
    """Table of the errors of several samplers, as :func:`compare_samplers` returns it.

    A dictionary of columns, which ``pandas.DataFrame`` accepts. Printing it shows a
    table that is sorted by error, and notebooks display it as HTML.

    Parameters
    ----------
    names : list of str
        Names of the samplers.
    errors : ndarray of shape (n_samplers, n_draws)
        Error of each sampler in each draw. All samplers use the same rows in a draw, so
        differences between samplers are paired.
    seconds : ndarray of shape (n_samplers,)
        Minimum time of ``transform`` over the draws, for 1000 rows.
    target : {"kernel", "posterior"}
        Description of the error measure.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler, TrigRBFSampler, compare_samplers
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> samplers = {"sines and cosines": TrigRBFSampler(), "positive": OPRFSampler()}
    >>> table = compare_samplers(samplers, X, random_state=0)
    >>> list(table)
    ['sampler', 'error', 'standard_error', 'seconds']
    >>> table["sampler"]
    ['sines and cosines', 'positive']
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
        return self["sampler"][int(np.argmin(self["error"]))]

    def against(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean differences to one sampler, and their standard errors.

        Parameters
        ----------
        name : str
            Name of the sampler.

        Returns
        -------
        differences, standard_errors : ndarray of shape (n_samplers,)
            Mean differences and standard errors by name. A difference is positive if
            the sampler has a larger error than the given one.
        """
        differences = self.errors - self.errors[self["sampler"].index(name)]
        return differences.mean(axis=1), _error_of_mean(differences)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot the error against the time, one point per sampler, with standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, new axes are created with matplotlib.

        Returns
        -------
        ax : matplotlib Axes
            The axes, with logarithmic scales.
        """
        if ax is None:
            import matplotlib.pyplot as plt

            _, ax = plt.subplots(layout="constrained")
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
    r"""Measure the errors of several samplers on your rows, with standard errors.

    The closed forms of the variance do not tell which sampler suits kernel averages
    best, because their means are dominated by rare draws of the frequencies. This
    function draws rows and frequencies several times and compares the estimates with
    the exact kernel.

    Parameters
    ----------
    samplers : list of sampler, or dict of str to sampler
        Samplers with the parameters to use, by name. They are cloned. Use the same
        ``sigma`` for all of them, because every error decreases with ``sigma``.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows, scaled as they will be for the samplers.
    y : array-like of shape (n_samples,), default=None
        Classes, for ``target="posterior"``.
    target : {"kernel", "posterior"}, default="kernel"
        ``"kernel"``: the relative error :math:`|\hat K - K|_F / |K|_F` between queries
        and rows. ``"posterior"``: the mean over the queries of the total variation
        :math:`\frac12 \sum_c |\hat p_c - p_c|` between the Nadaraya-Watson class
        probabilities from the estimate and from the kernel. Negative scores are
        replaced by 0, and a query without a positive score gets the class frequencies.
    n_rows, n_queries : int, default=1000, 200
        Number of rows on which the samplers are fitted, and number of further rows that
        are used as queries. If X has fewer rows, both are reduced in proportion.
    n_draws : int, default=5
        Number of repetitions, each with its own rows and frequencies.
    random_state : int, RandomState instance or None, default=None
        Seed of the repetitions.

    Returns
    -------
    table : Comparison
        A dictionary with the columns ``"sampler"``, ``"error"``, ``"standard_error"``
        and ``"seconds"`` (of ``transform``, for 1000 rows), in the order of
        ``samplers``. Printing it shows a table, ``table.plot()`` plots the error
        against the time, and ``pandas.DataFrame(table)`` converts it.

    Raises
    ------
    ValueError
        If there is no sampler, or if y is None and ``target="posterior"``.
    TypeError
        If ``samplers`` contains an object that is not a sampler.

    See Also
    --------
    n_components_for : Compute the number of features for a given error.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_crt import OPRFSampler, TrigRBFSampler, compare_samplers
    >>> X = StandardScaler().fit_transform(load_digits().data)
    >>> samplers = {"sines and cosines": TrigRBFSampler(), "positive": OPRFSampler()}
    >>> compare_samplers(samplers, X, random_state=0)
    Relative error of the kernel, mean over n_draws=5
                        error  standard error  ms per 1000 rows
    sines and cosines  0.3038          0.0093               ...
    positive           0.4785          0.0541               ...
    """
    if not isinstance(samplers, Mapping):
        # long representations have line breaks
        samplers = {" ".join(repr(sampler).split()): sampler for sampler in samplers}
    if not samplers:
        raise ValueError("compare_samplers needs at least one sampler.")
    if not all(hasattr(sampler, "exact_kernel") for sampler in samplers.values()):
        raise TypeError(
            "samplers must be a list or a dict of samplers of sklearn_crt; the rows X "
            "are the second argument."
        )
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    classes, codes = None, np.zeros(X.shape[0], dtype=int)
    if target == "posterior":
        if y is None:
            raise ValueError("target='posterior' needs the classes y of the rows.")
        check_consistent_length(X, y)
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
    """Return the error of one fit, and the time for 1000 rows in seconds."""
    fitted = clone(sampler).set_params(random_state=seed).fit(rows)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(All features of|Features of)")
        start = time.perf_counter()
        fitted.transform(rows)
        seconds = (time.perf_counter() - start) * 1000 / rows.shape[0]
    estimate = fitted.approximate_kernel(queries, rows)
    kernel = fitted.exact_kernel(queries, rows)
    if onehot is None:
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
    """Return the standard error of the mean of each row, NaN for a single value."""
    if values.shape[1] == 1:
        return np.full(len(values), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
