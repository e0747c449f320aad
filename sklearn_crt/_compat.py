"""The only module that imports private or version-dependent names of scikit-learn.

It also contains replacements for names that differ between versions of Python.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import sklearn
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.parallel import _get_threadpool_controller
from sklearn.utils.validation import _check_feature_names_in, _check_sample_weight

# scikit-learn has no type annotations, so the types needed by users are declared here
if TYPE_CHECKING:
    from sklearn.base import BaseEstimator, TransformerMixin

    F = TypeVar("F", bound=Callable[..., Any])

    class TypedBaseEstimator(BaseEstimator):
        n_features_in_: int
        feature_names_in_: np.ndarray

    class TypedTransformerMixin(TransformerMixin):
        def fit_transform(
            self, X: Any, y: Any = None, **fit_params: Any
        ) -> np.ndarray: ...

    def validated(**constraints: Any) -> Callable[[F], F]: ...

    def validate_parameter_constraints(
        parameter_constraints: dict[str, Any],
        params: dict[str, Any],
        caller_name: str,
    ) -> None: ...

    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[F], F]: ...

    def available_if(check: Callable[[Any], bool]) -> Callable[[F], F]: ...

else:
    from sklearn.base import BaseEstimator, _fit_context
    from sklearn.base import TransformerMixin as TypedTransformerMixin
    from sklearn.utils._param_validation import (
        validate_parameter_constraints,
        validate_params,
    )
    from sklearn.utils.metaestimators import available_if

    class TypedBaseEstimator(BaseEstimator):
        """A base class that reads the signature of a constructor only once."""

        @classmethod
        def _get_param_names(cls):
            # Cached per class. Otherwise, this takes most of the time of ``clone`` and
            # ``get_params``, which a fit of a sampler with parts calls a hundred times.
            if "_param_names" not in vars(cls):
                cls._param_names = super()._get_param_names()
            return cls._param_names

    def validated(**constraints):
        """Validate the arguments of a function, but not those of nested calls."""
        return validate_params(constraints, prefer_skip_nested_validation=True)


RandomState: TypeAlias = int | np.random.RandomState | None  # type of ``random_state``

_PAGES = "https://sklearn-crt.readthedocs.io/en/latest/generated/{page}.html"


def _page_of(estimator: Any) -> dict[str, str]:
    """Return the name of the API reference page of an estimator."""
    name = type(estimator).__name__
    if name in sys.modules["sklearn_crt"].__all__:
        return {"page": f"sklearn_crt.{name}"}
    _, folder, *_ = type(estimator).__module__.split(".")
    return {"page": f"sklearn_crt.{folder}.{name}"}


# Values of the attributes _doc_link_module, _doc_link_template and
# _doc_link_url_param_generator. With them, the "?" in the HTML representation of an
# estimator links to its reference page.
DOC_LINK: tuple[Any, Any, Any] = "sklearn_crt", _PAGES, _page_of

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:
    import functools
    from contextlib import nullcontext

    def cached_property(function):
        """Cache a property without the lock that Python 3.11 shares between objects."""
        made = functools.cached_property(function)
        made.lock = nullcontext()
        return made


try:  # public since scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Substitute for versions of scikit-learn without callbacks; does nothing."""

        def _init_callback_context(self, **kwargs):
            return self

        def _nobody_listens(self, *args, **kwargs):
            return self

        subcontext = call_on_fit_task_begin = call_on_fit_task_end = _nobody_listens


try:  # from threadpoolctl 3.7 on, only one Python thread may limit OpenBLAS at a time
    from threadpoolctl import OpenBLASController

    _clear_controlling_thread = OpenBLASController.clear_controlling_thread
except (ImportError, AttributeError):

    def _clear_controlling_thread(force=False):
        """Do nothing, because any thread may set the limit in older versions."""


try:  # vendored by scikit-learn since 1.7
    from sklearn.externals.array_api_compat import array_namespace
    from sklearn.externals.array_api_compat import device as array_device
except ImportError:

    class _NumPyNamespace:
        """NumPy with the function names of the array API, for NumPy 1 and 2."""

        _renamed = {"concat": "concatenate", "unique_values": "unique"}

        def __getattr__(self, name):
            return getattr(np, self._renamed.get(name, name))

        @staticmethod
        def astype(array, dtype, /, *, copy=True):
            return array.astype(dtype, copy=copy)

        @staticmethod
        def unique_inverse(array):
            return np.unique(array, return_inverse=True)

        @staticmethod
        def matrix_transpose(array):
            return np.swapaxes(array, -1, -2)

    def array_namespace(*arrays: Any) -> Any:
        """Substitute for versions of scikit-learn that only support NumPy."""
        for array in arrays:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise TypeError(
                    f"{type(array).__name__} requires scikit-learn 1.7 or later; "
                    "earlier versions only support NumPy arrays."
                )
        return _NumPyNamespace()

    def array_device(array: Any) -> Any:
        """Substitute for versions that only support NumPy, which has one device."""
        return "cpu"


try:  # before scikit-learn 1.9, estimators do not support arrays of other libraries
    from sklearn.externals.array_api_compat import is_array_api_obj, is_writeable_array
    from sklearn.utils._array_api import (
        check_same_namespace,
        move_to,
        supported_float_dtypes,
    )

    ARRAY_API = True
except ImportError:
    ARRAY_API = False

    def is_array_api_obj(array: Any) -> bool:
        """Substitute: without support, all arrays are converted to NumPy arrays."""
        return False

    def is_writeable_array(array: Any) -> bool:
        """Substitute: all arrays are NumPy arrays, which are writeable."""
        return True

    def check_same_namespace(
        X: Any, estimator: Any, *, attribute: str, method: str
    ) -> None:
        """Substitute: NumPy is the only namespace, so there is nothing to check."""

    def move_to(*arrays: Any, xp: Any, device: Any) -> Any:
        """Substitute: NumPy arrays do not have to be moved."""
        return arrays[0] if len(arrays) == 1 else arrays

    def supported_float_dtypes(xp: Any, device: Any = None) -> tuple[Any, ...]:
        """Substitute: return the floating-point dtypes of NumPy."""
        return np.float64, np.float32


def boosting_scores(
    model: Any, Z: np.ndarray, *, staged: bool = False
) -> Iterator[np.ndarray]:
    """Yield the sum of all trees of histogram boosting, (n, k), or all partial sums.

    Categories in Z must be their positions in the sorted categories of ``fit``, and
    precede all numbers. Columns are not converted, which would take longer than the
    prediction of a single row.
    """
    Z = np.ascontiguousarray(Z, np.float64)
    total = np.zeros((len(Z), model.n_trees_per_iteration_), order="F")
    total += model._baseline_prediction
    every = model._predictors
    threads = _openmp_effective_n_threads()
    parts = ([trees] for trees in every) if staged else [every]
    for part in parts:
        model._predict_iterations(Z, part, total, False, threads)
        yield total.copy() if staged else total


def gains_of_columns(model: Any, n_columns: int) -> np.ndarray:
    """Return the total gain of the splits of each column in histogram boosting."""
    total = np.zeros(n_columns)
    for tree in (tree for trees in model._predictors for tree in trees):
        splits = tree.nodes[tree.nodes["is_leaf"] == 0]
        total += np.bincount(splits["feature_idx"], splits["gain"], n_columns)
    return total


_INSIDE = (str(Path(__file__).parent), str(Path(sklearn.__file__).parent))


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning for the line of user code that called this package.

    The stack frames of this package and of scikit-learn are skipped.
    """
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)
