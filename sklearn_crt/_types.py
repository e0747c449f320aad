"""Types of parameters that several estimators share."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np

GaussianOrSoftmax: TypeAlias = Literal["gaussian", "softmax"]
RandomState: TypeAlias = int | np.random.RandomState | None


class HasLogProfile(Protocol):
    """A kernel of the distance, which states its logarithm."""

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        """Return the logarithm of the kernel at distances r."""
