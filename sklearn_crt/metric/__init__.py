"""Metrics learned from rows and targets."""

from ._learned import LearnedMetric

__all__ = ["LearnedMetric"]


def __dir__() -> list[str]:
    return __all__
