"""Centring and scaling of rows, and the statistics of rows that ``fit`` needs.

This package is private; ``sklearn_crt.extend`` exports what extensions need.
"""

from .centers import Centers as Centers
from .frame import Frame as Frame
from .frame import Sigma as Sigma
from .frame import check_sigma as check_sigma
from .frame import resolve_sigma as resolve_sigma
from .frame import shape_factor as shape_factor
from .inputs import DenseInputs as DenseInputs
from .inputs import Inputs as Inputs
from .inputs import Rows as Rows
from .inputs import TableLike as TableLike
from .statistics import ColumnMoments as ColumnMoments
from .statistics import Covariance as Covariance
from .statistics import Statistics as Statistics
from .targets import are_labels as are_labels
from .targets import as_numbers as as_numbers
from .targets import check_same_classes as check_same_classes
from .targets import check_same_outputs as check_same_outputs
from .targets import label_codes as label_codes
from .targets import number_columns as number_columns
from .targets import plain_targets as plain_targets
from .targets import read_weights as read_weights
from .targets import type_for_weights as type_for_weights
from .targets import weighted_rows as weighted_rows
