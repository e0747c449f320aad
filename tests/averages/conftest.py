"""Rows that many tests share."""

from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.preprocessing import StandardScaler

from sklearn_crt.rows import Centers


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
def frequencies_of(value_of):
    """Return a function that returns normalised class scores before they are smoothed.

    Those of local linear fits can be negative.
    """

    def normalised(scores, *_):
        return scores / np.maximum(scores, 0).sum(axis=1, keepdims=True)

    return lambda model, X: model._decode(value_of(model), X, normalised, "")


@pytest.fixture
def kept_entries(monkeypatch):
    """Return a function that sets above how many entries prototypes merge rows."""
    name = "sklearn_crt.averages._prototypes._KEPT_ENTRIES"
    return partial(monkeypatch.setattr, name)


@pytest.fixture
def few_rows_at_a_time(monkeypatch, kept_entries):
    """Merge rows beyond 2000, 250 at a time, and note how many points are merged."""
    kept_entries(3 * 2000)
    monkeypatch.setattr("sklearn_crt.averages._prototypes._CHUNK", 250)
    calls, reduced = [], Centers.reduced

    def noted(self, *given, **options):
        calls.append(self.shape[0])
        return reduced(self, *given, **options)

    monkeypatch.setattr(Centers, "reduced", noted)
    return calls
