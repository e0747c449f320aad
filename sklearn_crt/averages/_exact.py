"""Exact kernel averages over all training rows, computed in blocks and in log space."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal, NamedTuple, Self

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
from .._fitted import Batch, Step, computed_once, no_step
from .._workers import Workspace
from ..maps import Gaussian, Laplacian, Matern, RadialKernel
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
    Averages,
    HasLogProfile,
    Kernel,
    KernelSums,
    add_block,
    check_kernel_values,
    log_kernel,
)
from ._targets import Targets

KERNEL_NAMES = "gaussian", "laplacian", "matern"
_SEED = 0, 0, 0, 0  # for the sample of rows that sigma="median" uses


class RowKernel(TypedBaseEstimator, metaclass=ABCMeta):
    """Base class of kernels that are evaluated between a query and stored rows.

    An instance is the value of the parameter ``kernel`` of an estimator; the stored
    rows are the training rows or prototypes.
    """

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
        # nu = infinity yields the Gaussian kernel
        "nu": [Interval(Real, 0, None, closed="right")],
    }

    @abstractmethod
    def _averages(self, targets: Targets) -> RowAverages:
        """Return the fitted value of an estimator that has not seen any rows yet."""

    def _copy(self) -> Self:
        """Return an independent copy, which shares only a callable kernel."""
        params = self.get_params(deep=False)
        if not isinstance(self.sigma, (str, Real)):
            params["sigma"] = np.array(self.sigma)
        return type(self)(**params)

    def _fitted(self, value: Any) -> Self:
        """Return a copy with the fitted attributes."""
        fitted = self._copy()
        fitted.sigma_ = value.sigma
        return fitted


class ExactKernel(RowKernel):
    r"""Exact kernel between a query and all training rows.

    Pass it as the parameter ``kernel`` of the Nadaraya-Watson and local linear
    estimators, whose default it is, to choose the kernel and its ``sigma``. Predictions
    involve no approximation; in return the model stores the training rows, and the time
    of a prediction is proportional to their number. The object has no ``fit`` method,
    because the estimator fits it.

    Parameters
    ----------
    kernel : {"gaussian", "laplacian", "matern"} or callable, default="gaussian"
        The kernel function. A callable takes rows of shapes (n, d) and (m, d), already
        multiplied by sigma, and returns non-negative kernel values of shape (n, m). An
        object with a method ``log_profile(r)`` is accepted as well, for example
        ``sklearn_crt.extend.ExponentialPower(1.2)``; the method returns the
        logarithm of a kernel that decreases with the distance r.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale, as in the samplers: one number, or one number per feature.
        ``"auto"`` chooses the multiple of ``"scale"`` with the lowest leave-one-out
        error on up to 1000 rows. Multiples from 1/2 to 32 are compared, first in
        octaves (factors of two), and then in quarters of an octave around the best one.
        Most of them exceed 1 because kernel averages need a narrower kernel than linear
        models. The error is the squared error for numerical targets, and the error rate
        plus a fifth of the Brier score for labels.
    nu : float, default=1.5
        Smoothness of ``kernel="matern"``. Other kernels ignore it.

    Attributes
    ----------
    sigma_ : float or ndarray of shape (n_features,)
        Value of ``sigma`` in use, an attribute of ``kernel_`` of a fitted estimator.

    See Also
    --------
    Prototypes : The same kernel with few weighted points instead of training rows.
    NadarayaWatsonClassifier : Classification with this kernel.
    NadarayaWatsonRegressor : Regression with this kernel.

    Notes
    -----
    With :math:`r = |\sigma (x - y)|` the kernels are :math:`e^{-r^2 / 2}` (Gaussian),
    :math:`e^{-r}` (Laplacian), and the Matern kernel with smoothness nu. Each
    prediction requires the distances to all training rows.

    Invalid parameters raise a ValueError in ``fit`` of the estimator.

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

    A grid search can compare different types of kernels:

    >>> grid = {"kernel": [ExactKernel(), OPRFSampler(random_state=0)]}
    >>> search = GridSearchCV(NadarayaWatsonClassifier(), grid).fit(X, y)
    >>> search.best_params_
    {'kernel': ExactKernel()}
    """

    def __init__(
        self,
        kernel: Literal["gaussian", "laplacian", "matern"]
        | HasLogProfile
        | Callable[..., Any] = "gaussian",
        *,
        sigma: Sigma = "auto",
        nu: float = 1.5,
    ):
        self.kernel = kernel
        self.sigma = sigma
        self.nu = nu

    def _averages(self, targets: Targets) -> ExactAverages:
        return ExactAverages(
            targets=targets,
            row_kernel=self,
            kernel=get_kernel(self.kernel, self.nu),
            sigma_parameter=self.sigma,
            statistics=Statistics(_SEED),
        )


@dataclass(frozen=True)
class StatedRadial(RadialKernel):
    """A kernel of the Euclidean distance given by a ``log_profile`` of the user."""

    stated: Any

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        logs = np.asarray(self.stated.log_profile(r))
        wrong = (logs == np.inf) | (np.isnan(logs) & ~np.isnan(r))
        check_kernel_values(logs, r.shape, not wrong.any())
        return logs


def get_kernel(kernel: str | HasLogProfile | Callable, nu: float) -> Kernel:
    """Return the kernel for a name or an object; callables are returned unchanged."""
    if kernel == "matern":
        return Matern(nu)
    if isinstance(kernel, str):
        return {"gaussian": Gaussian(), "laplacian": Laplacian()}[kernel]
    if isinstance(kernel, RadialKernel):
        return kernel
    return StatedRadial(kernel) if hasattr(kernel, "log_profile") else kernel


Part = tuple[Any, ...]  # rows, targets, weights, and for prototypes their moments
_QUERY_ROWS, _KEY_ROWS = 256, 2048  # block of kernel values computed at a time
_DEVICE_ROWS = 2**11, 2**13  # the same on other devices: 128 MiB in float64


@dataclass(frozen=True)
class Keys:
    """Rows or prototypes with targets and weights, over which kernel sums are taken."""

    kernel: Kernel
    targets: Targets
    parts: tuple[Part, ...]
    origin: np.ndarray  # (n_features,)

    def sums(
        self, X: Rows, sigma: float | np.ndarray, *, left_out: bool = False
    ) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums.

        ``left_out`` excludes the rows at distance 0 from a query.
        """
        query_rows, key_rows = (_QUERY_ROWS, _KEY_ROWS) if on_host(X) else _DEVICE_ROWS
        frame, kind = self.frame(X, sigma)
        frame.check(X)
        keys: Any = None
        if self.targets.n_products(X.shape[1]):  # encoded rows would take much memory
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
            assert total is not None  # there is at least one block
            values = self.targets.solve(total.values, queries, sigma)
            yield rows, KernelSums(values, total.log_scale)

    def frame(self, X: Any, sigma: Any) -> tuple[Frame, Any]:
        """Return the scaling of the inputs, and the type to convert tables to or None.

        The second value is the sparse type of the rows, or ``numpy.ndarray``.
        """
        sides = [X, *(rows for rows, *_ in self.parts)]
        kinds = [type(rows) for rows in sides if sparse.issparse(rows)]
        if callable(self.kernel):  # it is given rows that are scaled but not centred
            return Frame(sigma).to(X), None
        if kinds and not self.targets.n_products(X.shape[1]):
            return Frame(sigma), kinds[0]  # centring would make sparse rows dense
        # Centring does not change distances, and reduces their error in float32, which
        # grows with the norms. The moments of local linear fits, which have few
        # features, would suffer from cancellation far from zero.
        return Frame(sigma, self.origin).to(X), np.ndarray if kinds else None

    def _blocks(
        self, frame: Frame, X: Any, kind: Any, size: int
    ) -> Iterator[tuple[Inputs, Array]]:
        """Yield blocks of the stored rows in the data type of X, and their targets."""
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


class Choice(NamedTuple):
    """What was chosen for all rows seen: ``sigma``, the targets and the prototypes."""

    sigma: float | np.ndarray
    targets: Targets  # with the chosen penalty of local linear fits
    points: Any = None  # the prototypes, None if the rows themselves are used


@dataclass(frozen=True, eq=False, kw_only=True)
class RowAverages(Averages):
    """Fitted kernel averages over training rows or over prototypes."""

    row_kernel: RowKernel  # a private copy of the parameter of the estimator
    kernel: Kernel
    sigma_parameter: Sigma
    statistics: Statistics
    known_choice: Choice | None = None  # for exactly these rows, None if not yet made

    @property
    def _is_auto(self) -> bool:
        return isinstance(self.sigma_parameter, str) and self.sigma_parameter == "auto"

    def _read(self, *tables: tuple[Any, Any]) -> Statistics:
        """Return the statistics of the rows so far and of additional weighted rows."""
        sigma, statistics = self.sigma_parameter, self.statistics
        median = isinstance(sigma, str) and sigma == "median"
        for X, weights in tables:
            statistics = statistics.read(X, None, weights, median=median)
        return statistics

    @property
    def choice(self) -> Choice:
        """What was chosen for the rows seen so far, computed when first needed."""
        return self.known_choice or computed_once(self, "computed", self._choose)

    @abstractmethod
    def _choose(self) -> Choice:
        """Choose ``sigma`` and the penalty of the targets by leave-one-out error."""

    @property
    def sigma(self) -> float | np.ndarray:
        """The inverse length scale for the rows seen so far."""
        return self.choice.sigma

    @property
    def chosen_targets(self) -> Targets:
        """The targets, with the penalty that was chosen by leave-one-out error."""
        return self.choice.targets.reduced()

    def with_targets(self, targets: Targets) -> Self:
        """Return a copy that computes other predictions from the same kernel sums."""
        return replace(self, known_choice=self.choice._replace(targets=targets))

    @property
    @abstractmethod
    def keys(self) -> Keys:
        """The rows or prototypes to be summed over, with the chosen targets."""

    @property
    def fitted_kernel(self) -> RowKernel:
        """A copy of the kernel with the fitted attributes."""
        return self.row_kernel._fitted(self)

    def blocks_of_sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        yield from self.keys.sums(X, self.sigma)


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactAverages(RowAverages):
    """Fitted kernel averages over all training rows."""

    parts: tuple[Part, ...] = ()  # the batches of rows, with their targets and weights
    n_given: int = 0  # number of rows given, including those with weight 0
    dropped: tuple[np.ndarray, ...] = ()  # positions of the latter, which are not kept

    def plus(self, batch: Batch, step: Step = no_step) -> ExactAverages:
        dropped = self.dropped
        if len(batch.dropped):
            dropped += (self.n_given + batch.dropped,)
        value = replace(
            self,
            statistics=self._read((batch.X, batch.weights)),
            parts=(*self.parts, batch[:3]),
            n_given=self.n_given + batch.n_given,
            dropped=dropped,
            known_choice=None,
        ).having_seen(batch, self.seen)
        if not self._is_auto:  # raises if the given sigma does not fit the rows
            sigma = resolve_sigma(self.sigma_parameter, value.statistics)
            value._keys().frame(batch.X, sigma)[0].check(batch.X)
        return value

    def fitted(self, batch: Batch, step: Step = no_step) -> ExactAverages:
        """Return the averages with ``sigma`` chosen; later rows may still change it."""
        value = self.plus(batch)
        value = replace(value, known_choice=value.choice)
        value._keys().frame(batch.X, value.sigma)[0].check(batch.X)
        return value

    def __add__(self, other: ExactAverages) -> ExactAverages:
        return replace(
            self,
            statistics=self._read(*((X, weights) for X, _, weights in other.parts)),
            parts=self.parts + other.parts,
            n_given=self.n_given + other.n_given,
            dropped=self.dropped
            + tuple(self.n_given + positions for positions in other.dropped),
            known_choice=None,
            seen=self.seen + other.seen,
        )

    def frozen(self, step: Step = no_step) -> ExactAverages:
        """Return the averages with ``sigma`` fixed, so that later rows keep it."""
        choice = self.choice
        return replace(
            self,
            sigma_parameter=choice.sigma,
            targets=choice.targets,
            statistics=self.statistics.without_rows(),
            known_choice=choice,
        )

    def _choose(self) -> Choice:
        """Return the ``sigma`` and the targets with the lowest leave-one-out error."""
        parameter = "scale" if self._is_auto else self.sigma_parameter
        first = resolve_sigma(parameter, self.statistics)
        if not self._is_auto and len(self.targets.candidates()) == 1:
            return Choice(first, self.targets)
        X, y, weights = joined_parts(self.parts)
        keys = sample(X.shape[0])
        X_part, y_part, weights = (to_host(taken(a, keys)) for a in (X, y, weights))
        frame, kind = self._keys().frame(X_part, first)
        rows = frame.rows(as_kind(X_part, kind))
        encoded = self.targets.encode(y_part, weights, np.float64, rows)
        parts = self.kernel, rows, encoded, self.targets
        rest = (X.shape[0],) if self._is_auto else (rows.shape[0], np.ones(1))
        best, targets = best_multiple(*parts, *rest)
        return Choice(first * best if self._is_auto else first, targets)

    def converted(self, converter: Callable[[Any], Any]) -> ExactAverages:
        """Return the averages with rows in another array library or on a device."""
        parts = tuple(
            tuple(a if sparse.issparse(a) else converter(a) for a in rows)
            for rows in self.parts
        )
        return replace(self, parts=parts)

    @property
    def keys(self) -> Keys:
        return self._keys(self.chosen_targets)

    def _keys(self, targets: Targets | None = None) -> Keys:
        origin = self.statistics.query.mean
        return Keys(self.kernel, targets or self.targets, self.parts, origin)


def joined_parts(parts: tuple[Part, ...]) -> Part:
    """Concatenate batches of rows, their targets and their weights."""
    if len(parts) == 1:
        return parts[0]
    X, y, weights = zip(*parts, strict=True)
    if any(map(sparse.issparse, X)):
        return sparse.vstack(X).tocsr(), np.concatenate(y), np.concatenate(weights)
    return tuple(joined(list(blocks)) for blocks in (X, y, weights))


def as_kind(X: Any, kind: Any) -> Any:
    """Convert rows to the type that queries and stored rows are to have."""
    if kind is np.ndarray:
        return X.toarray() if sparse.issparse(X) else X
    return X if kind is None or sparse.issparse(X) else kind(X)
