"""Rows that many tests share."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from sklearn_crt.averages._sums import normalised


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def far():
    """Return rows around -60 in seven columns, as the raw wifi table has."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, size=400)
    X = rng.normal(-60.0, 5.0, size=(400, 7)) + 5.0 * y[:, None]
    return X, y


@pytest.fixture
def frequencies_of():
    """Return a function that returns normalised class scores before they are smoothed.

    Those of local linear fits can be negative.
    """
    return lambda model, X: model._decode(model._value, X, normalised, "")
