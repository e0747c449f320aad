"""Rows of a table at unit bandwidth, and what ``fit`` reads of them.

Private: what extensions need is in ``sklearn_crt.extend``.
"""

from .centers import Centers
from .frame import Frame
from .inputs import DenseInputs, Inputs, Rows, SparseInputs, TableLike
from .sigma import Sigma, check_sigma, metric_factor, resolve_sigma
from .statistics import Covariance, Moments, RowSample, Statistics
from .weights import weighted_rows

__all__ = [
    "Centers",
    "Covariance",
    "DenseInputs",
    "Frame",
    "Inputs",
    "Moments",
    "RowSample",
    "Rows",
    "Sigma",
    "SparseInputs",
    "Statistics",
    "TableLike",
    "check_sigma",
    "metric_factor",
    "resolve_sigma",
    "weighted_rows",
]
