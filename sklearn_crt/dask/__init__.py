"""Fit estimators to Dask collections, and compute predictions lazily.

This package requires the extra ``dask``: ``pip install "sklearn-crt[dask]"``.
"""

from .blocks import map_rows
from .fitting import fit

__all__ = ["fit", "map_rows"]


def __dir__() -> list[str]:
    return __all__
