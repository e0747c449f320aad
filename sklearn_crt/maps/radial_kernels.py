"""Radial kernels: their base class, and the Gaussian kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Self, TypeAlias

import numpy as np

from .._compat import validate_parameter_constraints
from ..arrays.namespaces import Array, namespace_of
from ..rows import Inputs
from .variance import trigonometric_block_covariance

# exponent whose exponential is finite, even after multiplication by a moderate factor
LARGEST = 700.0

GaussianOrSoftmax: TypeAlias = Literal["gaussian", "softmax"]  # values of ``kernel``


@dataclass(frozen=True)
class GaussianKernel:
    r"""The Gaussian kernel :math:`K = e^{-|x-y|^2/2}`, or the softmax kernel.

    Since :math:`e^{x \cdot y} = K e^{|x|^2/2} e^{|y|^2/2}`, multiplying the features of
    the Gaussian kernel by a factor for each row gives features of the softmax kernel.
    """

    softmax: bool = False

    def log_row_factor(self, rows: Inputs) -> Any:
        """Return the logs of the row factors, or None if all of them are 1."""
        # -> (..., n_rows, 1)
        return 0.5 * rows.raw_sq_norms if self.softmax else None

    def plus_row_factor(self, term: Array, rows: Inputs) -> Array:
        """Add the logs of the row factors to a term of the exponents."""
        return term + 0.5 * rows.raw_sq_norms if self.softmax else term

    def log_pair_factor(self, X: Inputs, Y: Inputs) -> np.ndarray | float:
        """Return the log of the ratio of this kernel to the Gaussian kernel."""
        # -> (n_X, n_Y)
        if not self.softmax:
            return 0.0
        # multiplied by 0.5 first, because the sum of two squares may overflow
        return 0.5 * X.raw_sq_norms + 0.5 * Y.raw_sq_norms.T

    def values(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return the kernel matrix, (n_X, n_Y)."""
        return np.exp(self.log_pair_factor(X, Y) - 0.5 * X.sq_distances(Y))

    def variance(
        self, share: np.ndarray, log_unit: np.ndarray, X: Inputs, Y: Inputs
    ) -> np.ndarray:
        """Convert the Gaussian variance, share * exp(log_unit), for this kernel."""
        # share, log_unit (n_X, n_Y), overwritten -> (n_X, n_Y)
        np.maximum(share, 0, out=share)
        if self.softmax:
            log_unit += 2 * self.log_pair_factor(X, Y)
        with np.errstate(over="ignore", divide="ignore"):
            if log_unit.max(initial=0) < LARGEST:
                share *= np.exp(log_unit, out=log_unit)
                return share
            log_unit[share == 0] = 0  # it may be infinite, and 0 * inf would be NaN
            log_unit += np.log(share, out=share)
            return np.exp(log_unit, out=log_unit)


class RadialKernel(ABC):
    """A kernel that is a function of the distance r between two rows.

    To use your own kernel, derive a dataclass from this class and implement
    ``log_profile``. The fields of the dataclass are the parameters of the kernel, which
    can be tuned by grid search.
    """

    _parameter_constraints: dict[str, list[Any]] = {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the kernel.

        Parameters
        ----------
        deep : bool, default=True
            Not used, present for API consistency by convention.

        Returns
        -------
        params : dict
            Names and values of the parameters.
        """
        found: Any = fields(self) if is_dataclass(self) else ()
        return {each.name: getattr(self, each.name) for each in found if each.init}

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of the kernel.

        Parameters
        ----------
        **params : dict
            New parameter values, by name.

        Returns
        -------
        self : RadialKernel
            The kernel. Estimators that have already been fitted keep their own copy of
            the kernel, so they do not change.

        Raises
        ------
        ValueError
            If the kernel has no parameter with a given name.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for the kernel {self!r}. Valid "
                    f"parameters are: {sorted(known)}."
                )
            object.__setattr__(self, name, value)
        return self

    def check_params(self) -> None:
        """Raise ValueError if a parameter is out of range."""
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(), type(self).__name__
        )

    @abstractmethod
    def log_profile(self, r: np.ndarray) -> np.ndarray:
        """Return the logarithm of the kernel.

        Parameters
        ----------
        r : ndarray
            Non-negative distances between rows, after multiplication by sigma.

        Returns
        -------
        log_kernel : ndarray
            Logarithm of the kernel at each distance. It must be 0 at r = 0, and
            decrease as r increases.
        """

    def pair_variance(self, r: np.ndarray) -> np.ndarray:
        """Return the variance of the kernel estimate from a single frequency.

        Parameters
        ----------
        r : ndarray
            Distances.

        Returns
        -------
        variance : ndarray
            The variance (1 + k(2r) - 2 k(r)^2) / 2, computed without cancellation.
        """
        return 0.5 * np.expm1(self.log_profile(2 * r)) - np.expm1(
            2 * self.log_profile(r)
        )

    def knows_angle(self, cosine: float | None) -> bool:
        """Return whether ``block_covariance`` is defined for a given angle.

        Parameters
        ----------
        cosine : float or None
            Cosine of the angle between two frequencies; None if it is not fixed.

        Returns
        -------
        known : bool
            Always False, unless a subclass overrides the method.
        """
        return False

    def block_covariance(
        self, r: np.ndarray, n_features: int, cosine: float
    ) -> np.ndarray:
        """Return the covariance of kernel estimates from two frequencies in a block.

        Parameters
        ----------
        r : ndarray
            Distances.
        n_features : int
            Dimension of the frequencies.
        cosine : float
            Cosine of the angle between the two frequencies.

        Returns
        -------
        covariance : ndarray
            Mean of the product of the two estimates, minus the squared kernel value. It
            is negative if the coupling reduces the variance.
        """
        raise NotImplementedError(
            f"{self!r} does not implement the covariance of blocks."
        )

    def distances(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return the distances on which the kernel depends (a hook for subclasses).

        Parameters
        ----------
        X, Y : Inputs
            Queries and keys.

        Returns
        -------
        r : ndarray of shape (n_X, n_Y)
            Euclidean distances, unless a subclass uses another norm.
        """
        squares = X.sq_distances(Y)
        return namespace_of(squares).sqrt(squares)


@dataclass(frozen=True)
class Gaussian(RadialKernel):
    r"""Gaussian kernel, also called the squared-exponential or RBF kernel.

    .. math:: k(r) = e^{-r^2 / 2}, \qquad r = |\sigma (x - y)|

    In estimators, ``kernel="gaussian"`` is short for ``kernel=Gaussian()``. The inverse
    length scale :math:`\sigma` is the parameter ``sigma`` of the estimator.

    See Also
    --------
    sklearn_crt.TrigRBFSampler : Random features of this kernel.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier
    >>> from sklearn_crt.kernels import Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> NadarayaWatsonClassifier(Gaussian(), sigma=2.0).fit(X, y).kernel_
    Gaussian()
    """

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return -0.5 * (r * r)

    def pair_variance(self, r: np.ndarray) -> np.ndarray:
        return 0.5 * np.expm1(-(r**2)) ** 2  # (1 - k^2)^2 / 2

    def knows_angle(self, cosine: float | None) -> bool:
        return cosine is not None

    def block_covariance(
        self, r: np.ndarray, n_features: int, cosine: float
    ) -> np.ndarray:
        return trigonometric_block_covariance(r**2, n_features, cosine)
