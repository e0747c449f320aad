"""Data sets of the papers on random features, read from their original files."""

from .uci import fetch_uci

__all__ = ["fetch_uci"]
__dir__ = __all__.copy  # so that dir() shows only public names
