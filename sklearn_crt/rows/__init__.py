"""Rows of a table at unit bandwidth, and what ``fit`` reads of them.

Private: what extensions need is in ``sklearn_crt.extend``.
"""

from .centers import Centers
from .frame import Frame, Sigma, check_sigma, metric_factor, resolve_sigma
from .inputs import DenseInputs, Inputs, Rows, SparseInputs, TableLike
from .statistics import Covariance, Moments, RowSample, Statistics
from .targets import (
    check_same_classes,
    check_same_outputs,
    label_codes,
    number_columns,
    weighted_rows,
)

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
    "check_same_classes",
    "check_same_outputs",
    "check_sigma",
    "label_codes",
    "metric_factor",
    "number_columns",
    "resolve_sigma",
    "weighted_rows",
]
