"""Rows of a table at unit bandwidth, and what ``fit`` reads of them."""

from ._centers import Centers
from ._chunks import (
    blas_within_processors,
    effective_n_threads,
    in_threads,
    one_blas_thread,
    row_chunks,
    width_of,
)
from ._covariance import Covariance
from ._frame import Frame
from ._metric import metric_factor
from ._moments import Moments
from ._row_sample import RowSample
from ._scratch import Scratch, kept_scratch
from ._sigma import Sigma, check_sigma, resolve_sigma
from ._statistics import Statistics
from ._unit_rows import Rows, TableLike, UnitRows

__all__ = [
    "Centers",
    "Covariance",
    "Frame",
    "Moments",
    "RowSample",
    "Rows",
    "Scratch",
    "Sigma",
    "Statistics",
    "TableLike",
    "UnitRows",
    "blas_within_processors",
    "check_sigma",
    "effective_n_threads",
    "in_threads",
    "kept_scratch",
    "metric_factor",
    "one_blas_thread",
    "resolve_sigma",
    "row_chunks",
    "width_of",
]
