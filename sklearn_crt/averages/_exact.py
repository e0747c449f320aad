"""The kernel of all the training rows, and its sums in blocks and in log space."""

from __future__ import annotations

import copy
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._array import (
    Array,
    joined,
    namespace_of,
    on_host,
    part,
    taken,
    to_host,
    to_namespace_of,
)
from .._compat import DOC_LINK, HasMethods, Interval, StrOptions, TypedBaseEstimator
from .._types import HasLogProfile
from .._workers import Workspace
from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, RadialKernel
from ..rows import (
    Frame,
    Inputs,
    Rows,
    Sigma,
    Statistics,
    resolve_sigma,
    type_for_weights,
)
from ._bandwidth import best_multiple, sample
from ._sums import (
    Kernel,
    KernelSums,
    add_block,
    check_kernel_values,
    log_kernel,
    path_over_blocks,
)
from ._targets import Targets

KERNEL_NAMES = "gaussian", "laplacian", "matern"
_SEED = 0, 0, 0, 0  # of the rows sampled for sigma="median"


class RowKernel(TypedBaseEstimator, metaclass=ABCMeta):
    """The parameter ``kernel`` of an average that keeps rows, or points for them."""

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    kernel: Any
    sigma: Sigma
    nu: float
    sigma_: float | np.ndarray
    _parameter_constraints: dict = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable, HasMethods("log_profile")],
        "sigma": [
            Interval(Real, 0, None, closed="neither"),
            StrOptions({"auto", "scale", "median"}),
            "array-like",
        ],
        "nu": [Interval(Real, 0, None, closed="right")],  # infinity is the Gaussian
    }

    @abstractmethod
    def _make_engine(self, targets: Targets) -> Any:
        """Return what adds rows and answers queries, without rows."""

    def _copy(self) -> Self:
        """Return a copy that no caller changes, with the same callable."""
        params = self.get_params(deep=False)
        if not isinstance(self.sigma, (str, Real)):
            params["sigma"] = np.array(self.sigma)
        return type(self)(**params)

    def _fitted(self, engine: Any) -> Self:
        """Return a copy with what the engine has learned."""
        fitted = self._copy()
        fitted.sigma_ = engine.sigma
        return fitted


class ExactKernel(RowKernel):
    r"""Weights of an average from the kernel itself, of all the training rows.

    The value of ``kernel`` in the Nadaraya-Watson estimators, and their default. It has
    no ``fit`` of its own: the estimator reads the rows.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "matern"} or callable, default="gaussian"
        The kernel. A callable takes rows of shapes (n, d) and (m, d), already
        multiplied by sigma, and returns the kernel (n, m), 0 or more. An object with a
        method ``log_profile(r)``, the logarithm of a kernel that falls with the
        distance r, works too (``sklearn_crt.extend.ExponentialPowerRadial(1.2)``).
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale, as in the samplers: a number, or one for each column.
        ``"auto"`` is the multiple of ``"scale"`` with the least leave-one-out error on
        up to 1000 rows, from 1/2 to 32 in octaves and then to a quarter of one:
        averages need a narrower kernel than linear models. The error is the squared one
        of numbers; of labels it is mistakes plus a fifth of the Brier score.
    nu : float, default=1.5
        Smoothness of ``kernel="matern"``; the other kernels have none.
    tol : float, default=0.0
        Tolerance of each answer, in [0, 1): in total variation for probabilities, as a
        share of the range of the targets for numbers. From 4000 dense rows on, rows are
        then kept in clusters, and far clusters count by their summaries: seven times as
        fast on 10^6 rows of 64 columns. All rows are summed where that does not pay.

    Attributes
    ----------
    sigma_ : float or ndarray of shape (n_features,)
        The multiplier of the rows, on ``kernel_`` of a fitted estimator.

    See Also
    --------
    Prototypes : The same kernel of a few points that stand for the rows.
    NadarayaWatsonClassifier : Averages of labels.
    NadarayaWatsonRegressor : Averages of numbers.

    Notes
    -----
    With :math:`r = |\sigma (x - y)|` the kernels are :math:`e^{-r^2 / 2}` (Gaussian),
    :math:`e^{-r}` (Laplacian) and Matern's of smoothness nu. An answer costs as much as
    the distances from all the training rows.

    With ``tol``, ``fit`` answers 2000 of the training rows without themselves, and
    takes the largest share of summaries for which none of these answers is off by more
    than the tolerance, with a margin of 64. That is a promise for queries of the law of
    the training rows: of 127,805 answers on ten sets none was off by more than
    ``tol=0.01``, on sets that the rule was not made on a few were (see the guide).
    Queries farther out are sums of all rows. Copies of rows with little noise make the
    training rows look safer than new rows are.

    A parameter out of range is a ValueError of the estimator's ``fit``.

    References
    ----------
    E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its Applications
    9 (1964), :doi:`10.1137/1109020`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_crt import ExactKernel, NadarayaWatsonClassifier, OPRFSampler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NadarayaWatsonClassifier(ExactKernel("matern", sigma=3.0)).fit(X, y)
    >>> round(model.score(X, y), 2)
    0.99

    Kernels of different kinds go into one grid:

    >>> grid = {"kernel": [ExactKernel(), OPRFSampler(random_state=0)]}
    >>> search = GridSearchCV(NadarayaWatsonClassifier(), grid).fit(X, y)
    >>> search.best_params_
    {'kernel': ExactKernel()}
    """

    _parameter_constraints = {
        **RowKernel._parameter_constraints,
        "tol": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        kernel: Literal["gaussian", "laplacian", "matern"]
        | HasLogProfile
        | Callable[..., Any] = "gaussian",
        *,
        sigma: Sigma = "auto",
        nu: float = 1.5,
        tol: float = 0.0,
    ):
        self.kernel = kernel
        self.sigma = sigma
        self.nu = nu
        self.tol = tol

    def _make_engine(self, targets: Targets) -> Any:
        parts = get_kernel(self.kernel, self.nu), self.sigma, _SEED, targets
        if self.tol == 0:
            return ExactEngine(*parts)
        from ._clustered import ClusteredEngine  # built on the engine below

        return ClusteredEngine(float(self.tol), *parts)


@dataclass(frozen=True)
class StatedRadial(RadialKernel):
    """A kernel of the Euclidean distance that an object states as ``log_profile``."""

    stated: Any

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        logs = np.asarray(self.stated.log_profile(r))
        wrong = (logs == np.inf) | (np.isnan(logs) & ~np.isnan(r))
        check_kernel_values(logs, r.shape, not wrong.any())
        return logs


def get_kernel(kernel: str | HasLogProfile | Callable, nu: float) -> Kernel:
    """Return the kernel of a name, objects as kernels, and callables as they are."""
    if kernel == "matern":
        return MaternRadial(nu)
    if isinstance(kernel, str):
        return {"gaussian": GaussianRadial(), "laplacian": LaplacianRadial()}[kernel]
    if isinstance(kernel, RadialKernel):
        return kernel
    return StatedRadial(kernel) if hasattr(kernel, "log_profile") else kernel


Part = tuple[Any, ...]  # rows, targets, weights, and for points their spread
_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time
_DEVICE_ROWS = 2**11, 2**13  # the same elsewhere: 128 MiB in float64


@dataclass(frozen=True)
class Keys:
    """Rows with targets and weights, to be summed over for any query."""

    kernel: Kernel
    targets: Targets
    parts: tuple[Part, ...]
    origin: np.ndarray  # (n_features,)

    def sums(
        self, X: Rows, sigma: float | np.ndarray, *, left_out: bool = False
    ) -> Iterator[tuple[slice, KernelSums]]:
        """Yield queries and their kernel sums, maybe without rows at distance 0."""
        query_rows, key_rows = (_QUERY_ROWS, _KEY_ROWS) if on_host(X) else _DEVICE_ROWS
        frame, kind = self.frame(X, sigma)
        frame.check(X)
        keys: Any = None
        if self.targets.n_products(X.shape[1]):  # too many to be kept
            query_rows *= 4
        else:
            keys = list(self._blocks(frame, X, kind, key_rows))
        workspace = Workspace() if on_host(X) else None
        for rows in gen_batches(X.shape[0], query_rows):
            queries, total = frame.rows(as_kind(part(X, rows), kind)), None
            for block, targets in keys or self._blocks(frame, X, kind, key_rows):
                logs = log_kernel(self.kernel, queries, block, workspace)
                if left_out:
                    logs[queries.sq_distances(block) == 0] = -np.inf
                total = add_block(total, logs, targets, workspace)
            assert total is not None  # there are keys
            values = self.targets.solve(total.values, queries, unit=sigma)
            yield rows, KernelSums(values, total.log_scale)

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield queries and their kernel sums for several numbers sigma."""
        frame, kind = self.frame(X, 1.0)
        frame.check(X)
        keys = list(self._blocks(frame, X, kind, _KEY_ROWS))
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = frame.rows(as_kind(X[rows], kind))
            totals = path_over_blocks(self.kernel, queries, keys, sigmas)
            yield rows, [KernelSums(*total) for total in totals]

    def frame(self, X: Any, sigma: Any) -> tuple[Frame, Any]:
        """Return the frame of the rows, and the kind of table of all, or None."""
        sides = [X, *(rows for rows, *_ in self.parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        if callable(self.kernel):  # takes rows as they are
            return Frame(sigma).to(X), None
        if kinds and not self.targets.n_products(X.shape[1]):
            return Frame(sigma), kinds[0]  # no centre: rows would become dense
        # distances do not change, and their float32 error falls with the norms; the
        # products of rows, of few columns, would cancel far from zero
        return Frame(sigma, self.origin).to(X), np.ndarray if kinds else None

    def _blocks(
        self, frame: Frame, X: Any, kind: Any, size: int
    ) -> Iterator[tuple[Inputs, Array]]:
        """Yield blocks of the rows in the type of X, and their encoded targets."""
        for some_rows in self.parts:
            arrays = [to_namespace_of(array, X) for array in some_rows]
            dtype = type_for_weights(arrays[2], X.dtype)
            for block in gen_batches(arrays[0].shape[0], size):
                some, y, weights, *spread = (part(array, block) for array in arrays)
                if on_host(X):
                    some = some.astype(X.dtype, copy=False)
                else:
                    some = namespace_of(X).astype(some, X.dtype, copy=False)
                keys = frame.rows(as_kind(some, kind))
                yield keys, self.targets.encode(y, weights, dtype, keys, *spread)


class RowEngine(ABC):
    """Sums over rows, or over points that stand for them, for one sigma."""

    quiet = False  # whether warnings are left to others

    def __init__(
        self, kernel: Kernel, sigma: Sigma, seed: tuple[int, ...], targets: Targets
    ):
        self.targets, self._kernel, self._sigma = targets, kernel, sigma
        self._statistics = Statistics(seed)
        self._choice: Any = None  # what follows from the rows, once it was asked for
        self.asked: dict[str, np.ndarray] = {}  # what else was computed of the rows

    def copy(self) -> Self:
        """Return an engine that further rows may be added to, apart from this one."""
        return copy.copy(self)

    def _read(self, X, weights):
        """Read the statistics of further rows, after which nothing is chosen yet."""
        median = isinstance(self._sigma, str) and self._sigma == "median"
        self._statistics = self._statistics.read(X, None, weights, median=median)
        self._choice, self.asked = None, {}

    @property
    def _is_auto(self) -> bool:
        return isinstance(self._sigma, str) and self._sigma == "auto"

    @property
    def chosen(self) -> Any:
        """Sigma and the targets for the rows seen so far, and what stands for these."""
        if self._choice is None:
            self._choice = self._choose(self._sigma)
        return self._choice

    @abstractmethod
    def _choose(self, sigma):
        """Return what follows from the rows for a parameter sigma."""

    @property
    def sigma(self) -> float | np.ndarray:
        """The multiplier of the inputs for the rows seen so far."""
        return self.chosen[0]

    @property
    def chosen_targets(self) -> Targets:
        """The targets with what was chosen by rows left out."""
        return self.chosen[1].reduced()

    def with_targets(self, targets: Targets) -> Self:
        """Return an engine that answers with other targets of the same matrix."""
        other = self.copy()
        other._choice = self.sigma, targets, *self.chosen[2:]
        return other

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """What is summed over, with what was chosen."""

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield queries and their kernel sums, in which nothing cancels."""
        yield from self.keys.sums(X, self.sigma)


class ExactEngine(RowEngine):
    """The exact estimator: keeps the training rows."""

    _parts: tuple[Part, ...] = ()

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] | None = None,
    ) -> None:
        """Keep rows of positive weight."""
        self._read(X, weights)
        self._parts += ((X, y, weights),)
        if final or not self._is_auto:  # raises for one that does not fit the rows
            sigma = self.sigma if final else self.resolve(self._sigma)
            self._keys().frame(X, sigma)[0].check(X)
        if final:
            self._prepare(X)

    def _prepare(self, X):
        """Do what the first query would else have to wait for."""

    def merge(self, other: ExactEngine) -> None:
        """Keep the rows of another engine too."""
        for rows in other._all_parts():
            self.add(*rows)

    def freeze(self) -> None:
        """Fix sigma for good; rows that are added later do not change it."""
        self._sigma, self.targets = self.chosen
        self._statistics = self._statistics.without_rows()

    def resolve(self, sigma: Sigma) -> float | np.ndarray:
        """Return the number behind another sigma, for the rows seen so far."""
        return self._choose(sigma)[0]

    def _choose(self, sigma: Sigma) -> tuple[float | np.ndarray, Targets]:
        """Return the number behind sigma, and the targets, by leave-one-out."""
        is_auto = isinstance(sigma, str) and sigma == "auto"
        first = resolve_sigma("scale" if is_auto else sigma, self._statistics)
        if not is_auto and len(self.targets.candidates()) == 1:
            return first, self.targets
        X, y, weights = joined_parts(self._all_parts())
        keys = sample(X.shape[0])
        X_part, y_part, weights = (to_host(taken(a, keys)) for a in (X, y, weights))
        frame, kind = self._keys().frame(X_part, first)
        rows = frame.rows(as_kind(X_part, kind))
        encoded = self.targets.encode(y_part, weights, np.float64, rows)
        parts = self._kernel, rows, encoded, self.targets
        rest = (X.shape[0],) if is_auto else (rows.shape[0], np.ones(1))
        best, targets = best_multiple(*parts, *rest)
        return (first * best if is_auto else first), targets

    def _all_parts(self) -> tuple:
        """Return the rows in parts, as they came."""
        return self._parts

    @property
    def keys(self) -> Keys:
        return self._keys(self.chosen_targets)

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        if on_host(X) != on_host(self._parts[0][0]):  # the estimator was moved
            self._parts = tuple(
                tuple(to_namespace_of(a, X) for a in rows) for rows in self._parts
            )
        yield from super().sums(X)

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield queries and their kernel sums for several numbers sigma."""
        yield from self._keys().path_sums(X, sigmas)

    def _keys(self, targets: Targets | None = None) -> Keys:
        origin = self._statistics.query.mean
        return Keys(self._kernel, targets or self.targets, self._parts, origin)


def joined_parts(parts: tuple[Part, ...]) -> Part:
    """Return rows that came in parts, their targets and weights, as single arrays."""
    if len(parts) == 1:
        return parts[0]
    X, y, weights = zip(*parts, strict=True)
    if any(map(sparse.issparse, X)):
        return sparse.vstack(X).tocsr(), np.concatenate(y), np.concatenate(weights)
    return tuple(joined(list(blocks)) for blocks in (X, y, weights))


def as_kind(X: Any, kind: Any) -> Any:
    """Return rows as a table of the kind that all sides are to be."""
    if kind is np.ndarray:
        return X.toarray() if sparse.issparse(X) else X
    return X if kind is None or sparse.issparse(X) else kind(X)
