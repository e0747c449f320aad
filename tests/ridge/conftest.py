"""Fixtures of the tests of ridge regression."""

import pytest

from sklearn_crt.ridge import _base, _candidate_sums


@pytest.fixture
def few_features(monkeypatch):
    """Let ``n_components="auto"`` be at most 128, which takes less time."""
    for module in (_base, _candidate_sums):
        monkeypatch.setattr(module, "FEWEST", 64)
    monkeypatch.setattr(_candidate_sums, "MOST", 128)
