"""Fixtures of the tests of ridge regression."""

import pytest

from sklearn_crt.ridge import _base, _sums


@pytest.fixture
def few_features(monkeypatch):
    """Let ``n_components="auto"`` be at most 128, which takes less time."""
    for module in (_base, _sums):
        monkeypatch.setattr(module, "FEWEST", 64)
    monkeypatch.setattr(_sums, "MOST", 128)
