"""The only module that imports private or version-dependent scikit-learn names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.parallel import _get_threadpool_controller
from sklearn.utils.validation import _check_sample_weight

if TYPE_CHECKING:  # scikit-learn has no types: functions keep theirs under these two
    F = TypeVar("F", bound=Callable[..., Any])

    def validate_params(
        parameter_constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[F], F]: ...

    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[F], F]: ...

else:
    from sklearn.base import _fit_context
    from sklearn.utils._param_validation import validate_params

try:  # public from scikit-learn 1.9
    from sklearn.callback import CallbackSupportMixin
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stand-in before scikit-learn had callbacks: nobody listens."""

        def _init_callback_context(self, **kwargs):
            return self

        def _nobody_listens(self, *args, **kwargs):
            return self

        subcontext = call_on_fit_task_begin = call_on_fit_task_end = _nobody_listens


try:  # from threadpoolctl 3.7 the threads of OpenBLAS belong to one thread of Python
    from threadpoolctl import OpenBLASController

    _clear_controlling_thread = OpenBLASController.clear_controlling_thread
except (ImportError, AttributeError):

    def _clear_controlling_thread(force=False):
        """Stand-in where any thread may set the number."""


try:  # vendored by scikit-learn since 1.7
    from sklearn.externals.array_api_compat import array_namespace
    from sklearn.externals.array_api_compat import device as array_device
except ImportError:

    class _NumPyNamespace:
        """NumPy under the names of the array API standard, also before NumPy 2."""

        _renamed = {"concat": "concatenate"}

        def __getattr__(self, name):
            return getattr(np, self._renamed.get(name, name))

        @staticmethod
        def astype(array, dtype, /, *, copy=True):
            return array.astype(dtype, copy=copy)

    def array_namespace(*arrays: Any) -> Any:
        """Stand-in before scikit-learn had other libraries: NumPy alone."""
        for array in arrays:
            if not isinstance(array, (np.ndarray, np.generic)):
                raise TypeError(
                    f"{type(array).__name__} needs scikit-learn 1.7 or later; with "
                    "this version only NumPy arrays are taken."
                )
        return _NumPyNamespace()

    def array_device(array: Any) -> Any:
        """Stand-in: NumPy arrays have one device."""
        return "cpu"


try:  # from scikit-learn 1.9 estimators are judged with arrays of other libraries
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
        """Stand-in: all arrays are made NumPy arrays, as scikit-learn does."""
        return False

    def is_writeable_array(array: Any) -> bool:
        """Stand-in: NumPy arrays are."""
        return True

    def check_same_namespace(
        X: Any, estimator: Any, *, attribute: str, method: str
    ) -> None:
        """Stand-in: there is one namespace."""

    def move_to(*arrays: Any, xp: Any, device: Any) -> Any:
        """Stand-in: arrays are where they have to be."""
        return arrays[0] if len(arrays) == 1 else arrays

    def supported_float_dtypes(xp: Any, device: Any = None) -> tuple[Any, ...]:
        """Stand-in: those of NumPy."""
        return np.float64, np.float32


__all__ = [
    "ARRAY_API",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "_check_partial_fit_first_call",
    "_check_sample_weight",
    "_clear_controlling_thread",
    "_fit_context",
    "_get_threadpool_controller",
    "array_device",
    "array_namespace",
    "check_same_namespace",
    "is_array_api_obj",
    "is_writeable_array",
    "move_to",
    "supported_float_dtypes",
    "validate_params",
]
