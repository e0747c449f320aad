"""A check that several threads can use one fitted estimator at the same time."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier

N_THREADS = 4
_SWITCH_INTERVAL = 1e-4  # number of seconds until Python switches threads
_TIMEOUT = 120  # maximum number of seconds that a thread waits for the others
_FEW = 20  # number of queries for methods that compare queries with all rows

# How to call each method; only methods that the estimator has are checked.
QUERIES: dict[str, Callable[[Any, np.ndarray], Any]] = {
    "transform": lambda model, X: model.transform(X),
    "transform_key": lambda model, X: model.transform_key(X),
    "exact_kernel": lambda model, X: model.exact_kernel(X[:_FEW]),
    "approximate_kernel": lambda model, X: model.approximate_kernel(X[:_FEW]),
    "kernel_variance": lambda model, X: model.kernel_variance(X[:_FEW]),
    "predict": lambda model, X: model.predict(X),
    "predict_proba": lambda model, X: model.predict_proba(X),
    "decision_function": lambda model, X: model.decision_function(X),
    "predict_quantiles": lambda model, X: model.predict_quantiles(X[:_FEW], [0.2, 0.5]),
    "predict_interval": lambda model, X: model.predict_interval(X[:_FEW]),
    "kernel_weights": lambda model, X: model.kernel_weights(X[:_FEW]),
    "effective_sample_size": lambda model, X: model.effective_sample_size(X[:_FEW]),
    "approximation_error": lambda model, X: model.approximation_error(X[:_FEW]),
    "slopes": lambda model, X: model.slopes(X[:_FEW]),
    "fitted attributes": lambda model, X: _fitted_attributes(model),
    "pickle": lambda model, X: pickle.dumps(model),
}


def assert_thread_safe(
    estimator: Any, X: np.ndarray, y: np.ndarray | None = None
) -> None:
    """Assert that a fitted estimator can be shared between threads.

    Four threads call the same method at the same time. They do so directly after
    ``fit``, ``partial_fit`` and ``merge``, before any lazily computed value has been
    cached. The results of these and later calls must be bitwise identical to the
    results of a copy that only one thread uses, and no call may change the pickle of
    the estimator. Finally, one thread calls ``partial_fit`` while the others call a
    method. Each result of the method must match the model either before or after the
    update.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator; the check uses a clone. Set ``random_state`` to an
        integer, so that repeated fits give the same model.
    X : ndarray of shape (n_samples, n_features)
        A few hundred rows. Each half is used as a batch for ``partial_fit``.
    y : ndarray of shape (n_samples,), default=None
        Targets of the rows, if the estimator needs them.

    Raises
    ------
    AssertionError
        If the result of a thread differs, or if a method raises an error in a thread.
    """
    with warnings.catch_warnings(), _hasty_threads():
        # warning filters are global, so they are set once instead of in each thread
        warnings.simplefilter("ignore")
        for way, model in _fitted_models(estimator, X, y):
            for name in _queries_of(model):
                _assert_same_in_threads(model, name, X, way)
        _assert_one_of_two_models(estimator, X, y)


def _fitted_models(
    estimator: Any, X: np.ndarray, y: np.ndarray | None
) -> Iterator[tuple[str, Any]]:
    """Yield the name of each way to fit an estimator, and the fitted model."""
    yield "fit", clone(estimator).fit(X, y)
    first, second = _two_batches(X, y)
    try:
        model = _after_batches(estimator, y, first, second)
    except (AttributeError, ValueError):
        return  # the estimator does not support batches with these parameters
    yield "partial_fit", model
    if not hasattr(estimator, "merge"):
        return
    model, other = (_after_batches(estimator, y, half) for half in (first, second))
    yield "merge", model.merge(other)


def _two_batches(X: np.ndarray, y: np.ndarray | None) -> tuple[Any, Any]:
    """Split the rows and targets into two batches."""
    middle = len(X) // 2
    cut = slice(middle), slice(middle, None)
    return tuple((X[part], None if y is None else y[part]) for part in cut)  # type: ignore[return-value]


def _after_batches(estimator: Any, y: np.ndarray | None, *batches: Any) -> Any:
    """Return a clone that has been fitted to the batches by ``partial_fit``."""
    model = clone(estimator)
    options = {}
    if is_classifier(model) and y is not None:
        options["classes"] = np.unique(y)
    for batch in batches:
        model.partial_fit(*batch, **options)
        options = {}
    return model


def _queries_of(model: Any) -> list[str]:
    """Return the names of the ``QUERIES`` that a fitted estimator supports."""
    always = ("fitted attributes", "pickle")
    return [name for name in QUERIES if name in always or hasattr(model, name)]


def _assert_same_in_threads(model: Any, name: str, X: np.ndarray, way: str) -> None:
    """Assert that a query gives the same result in several threads as in one."""
    query, alone, shared = QUERIES[name], copy.deepcopy(model), copy.deepcopy(model)
    before = pickle.dumps(shared)
    try:
        expected = query(alone, X)
    except ValueError:
        return  # this model does not support the query, even in a single thread
    where = f"{name} after {way} of {model!r}"
    for found in _at_once(lambda: query(shared, X), where):
        assert _equal(found, expected), f"{where}: threads do not agree with one thread"
    assert _equal(query(shared, X), expected), f"{where}: later results differ"
    assert pickle.dumps(shared) == before, f"{where} changed what a pickle stores"


def _assert_one_of_two_models(
    estimator: Any, X: np.ndarray, y: np.ndarray | None
) -> None:
    """Assert that queries during ``partial_fit`` use the old or the new model."""
    first, second = _two_batches(X, y)
    try:
        model = _after_batches(estimator, y, first)
        later = copy.deepcopy(model).partial_fit(*second)
    except (AttributeError, ValueError):
        return
    for name in _queries_of(model):
        query, shared = QUERIES[name], copy.deepcopy(model)
        try:
            allowed = [query(copy.deepcopy(one), X) for one in (model, later)]
        except ValueError:
            continue
        numbers = iter(range(N_THREADS))

        def learn_or_ask(
            shared: Any = shared, query: Any = query, numbers: Any = numbers
        ) -> Any:
            if next(numbers) == 0:
                shared.partial_fit(*second)
            return query(shared, X)

        where = f"{name} during partial_fit of {model!r}"
        for found in _at_once(learn_or_ask, where):
            assert _is_of_one(found, *allowed), (
                f"{where}: a result belongs to neither of the two models"
            )
        assert _equal(query(shared, X), allowed[1]), f"{where}: later results differ"


def _is_of_one(found: Any, before: Any, after: Any) -> bool:
    """Return whether a result is that of the old or of the new model.

    Attributes are read one after another, so some of them may come from the old model
    and others from the new one.
    """
    if isinstance(found, _Attributes):
        return all(
            any(
                name in one and _equal(found[name], one[name])
                for one in (before, after)
            )
            for name in found
        )
    return _equal(found, before) or _equal(found, after)


def _at_once(function: Callable[[], Any], where: str) -> list[Any]:
    """Call a function in several threads at the same time, and return the results."""
    barrier = threading.Barrier(N_THREADS, timeout=_TIMEOUT)
    results: list[Any] = [None] * N_THREADS
    errors: list[Exception] = []

    def work(i: int) -> None:
        barrier.wait()
        try:
            results[i] = function()
        except Exception as error:  # raised again below, in the main thread
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(i,), daemon=True) for i in range(N_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_TIMEOUT)
    if errors:
        raise AssertionError(f"{where} raised in a thread") from errors[0]
    return results


@contextmanager
def _hasty_threads() -> Iterator[None]:
    """Make Python switch between threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


class _Attributes(dict[str, Any]):
    """Dictionary of those fitted attributes of an estimator that can be compared."""


def _fitted_attributes(model: Any) -> _Attributes:
    """Return the fitted attributes that are arrays, numbers, strings or dicts."""
    names = [
        name
        for name in sorted({*dir(type(model)), *vars(model)})
        if name.endswith("_") and not name.startswith("_") and hasattr(model, name)
    ]
    values = {name: getattr(model, name) for name in names}
    kinds = (np.ndarray, np.number, float, int, str, dict)
    found = values.items()
    return _Attributes((name, each) for name, each in found if isinstance(each, kinds))


def _equal(a: Any, b: Any) -> bool:
    """Return whether two results are identical, bit for bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[name], b[name]) for name in a)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    if sparse.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    a, b = np.asarray(a), np.asarray(b)
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
