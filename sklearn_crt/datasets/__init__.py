"""Data sets of the papers on random features, read from their original files."""

from .uci import fetch_uci

__all__ = ["fetch_uci"]


def __dir__() -> list[str]:
    return __all__
