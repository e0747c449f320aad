"""Fit estimators to Dask collections, and compute predictions lazily.

This package requires the extra ``dask``: ``pip install "sklearn-crt[dask]"``.
"""

from .fitting import fit
from .mapping import map_rows

__all__ = ["fit", "map_rows"]
__dir__ = __all__.copy  # so that dir() shows only public names
