"""Centring and scaling of rows, and the statistics of rows that ``fit`` needs.

This package is private; ``sklearn_crt.extend`` exports what extensions need.
"""

from .clustering import Centers
from .frame import Frame, Sigma, check_sigma, resolve_sigma, shape_factor
from .inputs import DenseInputs, Inputs, Rows, TableLike
from .statistics import ColumnMoments, Covariance, Statistics
from .targets import (
    are_labels,
    as_numbers,
    check_same_classes,
    check_same_outputs,
    label_codes,
    number_columns,
    plain_targets,
    read_weights,
    type_for_weights,
    weighted_rows,
)
