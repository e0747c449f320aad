"""Fitting on collections of Dask, and lazy features and predictions.

Needs the extra ``dask``: ``pip install "sklearn-crt[dask]"``.
"""

from ._fit import fit
from ._map_rows import map_rows

__all__ = ["fit", "map_rows"]
