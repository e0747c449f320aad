"""Metrics that are learned from rows and their targets."""

from ._learned import LearnedMetric

__all__ = ["LearnedMetric"]


def __dir__() -> list[str]:
    return __all__
