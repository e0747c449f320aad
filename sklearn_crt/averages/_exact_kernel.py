"""Kernels of all the training rows: where the weights of an average come from."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Self

import numpy as np

from .._compat import (
    DOC_LINK,
    HasMethods,
    Interval,
    StrOptions,
    TypedBaseEstimator,
)
from .._types import HasLogProfile
from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, RadialKernel
from ..rows import Sigma
from ._clustered import ClusteredEngine
from ._exact import ExactEngine
from ._sums import Kernel, Targets, check_kernel_values

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
            StrOptions({"auto", "learned", "scale", "median"}),
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
    sigma : float, {"auto", "learned", "scale", "median"} or array-like, default="auto"
        Inverse length scale, as in the samplers: a number, or one for each column.
        ``"auto"`` is the multiple of ``"scale"``, from 1/2 to 45, with the least
        leave-one-out squared error on up to 500 rows: averages need a narrower kernel
        than linear models. ``"learned"`` fits one number per column, with the least
        leave-one-out error on up to 1200 rows.
    nu : float, default=1.5
        Smoothness of ``kernel="matern"``; the other kernels have none.
    tol : float, default=0.0
        Tolerance of each answer, in [0, 1).

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
        kernel = get_kernel(self.kernel, self.nu)
        parts = kernel, self.sigma, _SEED, targets
        if self.tol > 0:
            return ClusteredEngine(*parts, float(self.tol))
        return ExactEngine(*parts)


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
