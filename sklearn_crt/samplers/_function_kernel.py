"""A function of two arrays of rows as a kernel of scikit-learn's ``Nystroem``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import Kernel


class FunctionKernel(Kernel):
    """Wrapper that lets ``Nystroem`` use a function of two arrays of rows as a kernel.

    Without it, ``Nystroem`` would call the function for one pair of rows at a time.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel values for all pairs of rows, (n_X, n_Y)."""
        Y = X if Y is None else Y
        values, shape = np.asarray(self.function(X, Y)), (X.shape[0], Y.shape[0])
        if values.shape != shape or not np.all(np.isfinite(values)):
            raise ValueError(
                "kernel must return a finite value for each pair of rows, in an array "
                f"of shape {shape}; got {values!r}."
            )
        return values

    def diag(self, X: Any) -> Any:
        """Return the kernel value of each row with itself, (n_X,)."""
        return np.array([self(row, row)[0, 0] for row in X[:, None]])

    def is_stationary(self) -> bool:
        """Return False, because values may depend on more than differences of rows."""
        return False

    def __repr__(self) -> str:
        """Return the name of the function."""
        return f"{type(self).__name__}({self.function!r})"
