"""Fit estimators to Dask collections, and compute predictions lazily.

This module requires the extra ``dask``: ``pip install "sklearn-crt[dask]"``.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import dask
import dask.array as da
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.multiclass import unique_labels

from .arrays.threads import blas_for_fit
from .arrays.validation import is_lazy
from .averages._base import BaseNadarayaWatson
from .life_cycle.fitted import Batch, copied, read_rows, with_value
from .metric import LearnedMetric
from .ridge._base import BaseRandomFeatureRidge
from .rows import plain_targets
from .samplers import BaseFeatureSampler
from .sums.map_sums import MapSums
from .tables import AnovaSampler

__all__ = ["fit", "map_rows"]
__dir__ = __all__.copy  # so that dir() shows only public names

E = TypeVar("E")
_KINDS = (BaseFeatureSampler, LearnedMetric, BaseNadarayaWatson, BaseRandomFeatureRidge)
_BRANCHES = 8  # number of parts that a single task adds up
# numbers of entries and of rows of a block on which warnings are based
_CHECKED, _LEAST_CHECKED = 10**6, 256


def fit(
    estimator: E,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    classes: ArrayLike | None = None,
) -> E:
    """Fit an estimator to Dask arrays or DataFrames, block by block.

    Use it for tables that do not fit into memory, or that are spread over a cluster.
    Apart from rounding, the result equals that of ``estimator.fit`` on all rows, and
    two runs agree to the last bit, no matter which worker processes which block.

    Parameters
    ----------
    estimator : sampler, averages, ridge or LearnedMetric
        The estimator to fit, which is not modified. The parameter ``kernel`` of kernel
        averages must be ``"linear"``, a sampler of this package, or any transformer in
        a ``FrozenEstimator``.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows, in blocks of any length. They must be numbers, except in ridge regression
        with an :class:`~sklearn_crt.AnovaSampler`, which reads raw tables: there, the
        declared type of a column determines whether it contains categories.
    y : dask collection or array-like of shape (n_samples,) or (n_samples, n_outputs)
        Class labels or numeric targets; samplers ignore them. If X is a DataFrame, y
        must have the same partitions.
    sample_weight : dask collection or array-like of shape (n_samples,), default=None
        Non-negative weights; None means that all rows have weight 1.
    classes : array-like of shape (n_classes,), default=None
        All class labels, in any order. By default, they are collected from y.

    Returns
    -------
    estimator : estimator
        A fitted estimator of the same class. It can be used for predictions, pickled
        and merged like any other estimator.

    Raises
    ------
    TypeError
        If X is in memory, or if the estimator needs the rows themselves, such as
        ``CentersRBFSampler``, pipelines, and kernel averages with an exact kernel
        (the default) or ``Prototypes``.
    ValueError
        If a parameter, X, y or a weight is out of range, or if blocks have different
        columns or labels of different types.

    See Also
    --------
    map_rows : Compute features or predictions lazily.

    Notes
    -----
    Each block is read by one pass for the statistics that determine the feature map,
    one for each sample of the rows from which ``sigma`` is selected, one for the sums
    of features, and one to count the rows if there are weights or if the lengths of the
    blocks are unknown (as in a DataFrame). The active scheduler is used: a
    ``distributed.Client``, if there is one.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler
    >>> from sklearn_crt import dask as crt_dask
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(1000, 4))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> model = NadarayaWatsonClassifier(OPRFSampler(random_state=0))
    >>> model = crt_dask.fit(model, X, y)
    >>> bool(model.score(X[:1000].compute(), y[:1000].compute()) > 0.8)
    True
    """
    model: Any = clone(estimator)
    is_sampler = isinstance(model, BaseFeatureSampler)
    sampler: Any = model if is_sampler else getattr(model, "_transformer", None)
    if (
        not isinstance(model, _KINDS)
        or getattr(model, "_keeps_rows", False)
        or not isinstance(sampler, (*_KINDS, AnovaSampler, FrozenEstimator, NoneType))
    ):
        raise TypeError(
            f"sklearn_crt.dask.fit cannot fit {model!r}, which needs the rows "
            "themselves. It supports LearnedMetric, samplers that estimate a kernel, "
            "and kernel averages and ridge regression on the features of such a "
            "sampler or of a FrozenEstimator. Fit the model, or its kernel, to a "
            "sample of the rows in memory."
        )
    model._validate_params()
    if y is None and not is_sampler:
        raise ValueError(f"{type(model).__name__} requires the targets y.")
    if classes is not None and not is_classifier(model):
        raise ValueError(
            f"classes can only be passed for classifiers, got {type(model).__name__}."
        )
    class_weight = getattr(model, "class_weight", None)
    blocks = _blocks(X, None if is_sampler else y, sample_weight, class_weight)
    labels, statistics = None, sampler
    if classes is not None:
        labels = np.unique(plain_targets(np.asarray(classes, dtype=object)))
    elif is_classifier(model):
        labels = _sum(blocks, _labels, _union)
    if isinstance(sampler, BaseFeatureSampler) and not is_sampler:
        sampler._validate_params()
        statistics = _sum(blocks, partial(_part, _started(sampler, X)), _merged)
    # in a single graph, so that work shared by rows and targets is done only once
    labels, sampler = dask.compute(labels, statistics)
    if labels is not None:
        model.classes_ = labels
    model = _started(model, X, y)
    if isinstance(model._value, MapSums):
        model = _with_best_sigma(model, sampler, blocks)
    total = _sum(blocks, partial(_part, model), _merged)
    checked = _sum(blocks[:1], partial(_first_rows, model))
    found, checked = dask.compute(total, checked)
    value = found._value
    if isinstance(value, MapSums):
        value = value.with_map_of(model._value).fixed()
    found = with_value(found, value.with_map() if is_sampler else value)
    found._warn_after_fit(checked)
    return found


def map_rows(method: Any, X: Any) -> Any:
    """Apply a method of a fitted estimator to the rows of a Dask collection, lazily.

    Use it to compute features or predictions for tables that do not fit into memory.

    Parameters
    ----------
    method : callable
        Method that takes rows and returns one row or one number per input row, such as
        ``sampler.transform`` or ``model.predict_proba``. Its estimator is sent to each
        worker once.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Input rows. Nothing is computed by this call.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, ...)
        Lazy array of the results, with the correct shape and dtype, in the same blocks
        of rows as X.

    Raises
    ------
    TypeError
        If X is in memory, or if the method returns several arrays.

    See Also
    --------
    fit : Fit an estimator to Dask collections.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt import dask as crt_dask
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(1000, 2))
    >>> sampler = crt_dask.fit(OPRFSampler(n_components=64, random_state=0), X)
    >>> Z = crt_dask.map_rows(sampler.transform, X)
    >>> Z.shape, Z.chunksize, Z.dtype
    ((10000, 64), (1000, 64), dtype('float64'))
    """
    _check_lazy(X)
    with warnings.catch_warnings(action="ignore"):  # of artificial rows
        found = method(_artificial_rows(X, 2))
    if isinstance(found, tuple):
        raise TypeError(
            f"map_rows requires a method that returns one array, but {method.__name__} "
            f"returns {len(found)}. Select one of them: lambda rows: "
            f"estimator.{method.__name__}(rows)[0]."
        )
    empty = np.asarray(found)[:0]
    once = dask.delayed(method, pure=False, traverse=False)
    if _is_frame(X):
        return X.map_partitions(_result, once, empty, meta=empty)
    rows, columns, *others = range(empty.ndim + 1)
    axes = dict(zip(others, empty.shape[1:], strict=True))
    pairs = X, (rows, columns), once, None, empty, None
    options = {"new_axes": axes, "concatenate": True, "meta": empty}
    return da.blockwise(_result, (rows, *others), *pairs, **options)


def _result(X, method, empty):
    return np.asarray(method(X)) if X.shape[0] else empty


# --------------------------------------------------------------- blocks of the rows
class _Block(NamedTuple):
    """A block of rows in memory."""

    X: Any  # (n_rows, n_features)
    y: Any  # (n_rows,) or (n_rows, n_outputs), or None
    sample_weight: Any  # (n_rows,) or None
    class_weight: Any  # parameter of the classifier

    @property
    def total_weight(self) -> Any:
        """Weights of the rows, including class weights; None if there are none."""
        if not isinstance(self.class_weight, dict):
            return self.sample_weight
        # not by scikit-learn, which requires rows of each class with a weight
        labels, codes = np.unique(plain_targets(self.y), return_inverse=True)
        factors = [self.class_weight.get(label, 1) for label in labels.tolist()]
        given = 1 if self.sample_weight is None else np.asarray(self.sample_weight)
        return np.array(factors)[codes.ravel()] * given

    @property
    def n_rows(self) -> int:
        """Number of rows with positive weight."""
        weights = self.total_weight
        return self.X.shape[0] if weights is None else int(np.count_nonzero(weights))


def _blocks(
    X: Any, y: Any, sample_weight: Any, class_weight: Any
) -> list[tuple[int, Any]]:
    """Return lazy blocks with rows, and the number of rows before each of them.

    Only rows with positive weight count. Counting takes an additional pass if there are
    weights, or if the lengths of the blocks are unknown.
    """
    _check_lazy(X)
    options: dict[str, Any] = {"class_weight": class_weight}
    # In a single expression, so that targets that are computed from the rows share
    # their work, and because Dask may join the parts of a file differently for each.
    if _is_frame(X):
        for name, table in ("y", y), ("sample_weight", sample_weight):
            n_parts = table.npartitions if _is_frame(table) else None
            if table is not None and n_parts != X.npartitions:
                raise ValueError(
                    f"X is a Dask DataFrame of {X.npartitions} partitions, but {name} "
                    "is not. Take both from one DataFrame, or pass arrays, such as "
                    "X.to_dask_array(lengths=True)."
                )
        options |= {"enforce_metadata": False, "align_dataframes": False}
        lazily = X.map_partitions(
            _Block, y, sample_weight, meta=(None, object), **options
        )
    else:
        pairs: list[Any] = []
        for number, table in enumerate((X, y, sample_weight), start=1):
            array = None if table is None else _lazy_array(table)
            pairs += [array, None if array is None else (0, number)[: array.ndim]]
        options |= {"dtype": object, "meta": np.empty(0, object)}
        lazily = da.blockwise(_Block, (0,), *pairs, concatenate=True, **options)
    blocks = lazily.to_delayed()
    has_weights = sample_weight is not None or class_weight is not None
    sizes = [math.nan] if has_weights or _is_frame(X) else lazily.chunks[0]
    if any(map(math.isnan, sizes)):
        sizes = dask.compute(*(block.n_rows for block in blocks))
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    found = [(starts[i], blocks[i]) for i in np.flatnonzero(sizes)]
    if not found:
        raise ValueError(
            "Found array with 0 sample(s): all blocks are empty, or all weights are 0."
        )
    return found


def _lazy_array(table: Any) -> Any:
    """Return a Dask array of a collection, or of targets or weights in memory."""
    if is_lazy(table):
        return table.to_dask_array() if _is_frame(table) else table
    values = np.asarray(table)  # for instance labels in a column of pandas
    # Dask does not know the size of objects
    return da.from_array(values, chunks=-1 if values.dtype == object else "auto")


def _is_frame(table: Any) -> bool:
    """Return whether a collection is a Dask DataFrame or Series."""
    return hasattr(table, "map_partitions") and hasattr(table, "divisions")


def _check_lazy(X: Any) -> None:
    """Raise TypeError if a table is not a collection of Dask."""
    if not is_lazy(X):
        raise TypeError(
            f"sklearn_crt.dask requires Dask arrays or DataFrames, got {type(X)}. For "
            "data in memory, call the method of the estimator itself, or convert the "
            "data with dask.array.from_array(X)."
        )


def _artificial_rows(X: Any, n_rows: int) -> Any:
    """Return rows in memory, with the columns and types of a collection."""
    if _is_frame(X):
        return X._meta_nonempty.iloc[[0] * n_rows]
    return np.ones((n_rows, *X.shape[1:]), X.dtype)


def _sum(blocks: list[Any], function: Any, add: Any = None) -> Any:
    """Return the lazy sum of ``function(n_before, block)`` over the blocks.

    Parts are added in a tree of fixed order, so that rounding does not depend on which
    worker is the fastest.
    """
    call, merge = (dask.delayed(f, pure=False) for f in (operator.call, reduce))
    once = dask.delayed(function, pure=False, traverse=False)  # sent to workers once
    parts = [call(once, *block) for block in blocks]
    while len(parts) > 1:
        groups = range(0, len(parts), _BRANCHES)
        parts = [merge(add, parts[i : i + _BRANCHES]) for i in groups]
    return parts[0]


# ---------------------------------------------------------- what each block is used for
def _started(model: Any, X: Any, y: Any = None) -> Any:
    """Return a model that knows the columns of X, and to which no rows were added."""
    artificial = np.ones((2, *np.shape(y)[1:]))
    if is_classifier(model):
        artificial = model.classes_  # all of them, because some may have weight 0
    rows = _artificial_rows(X, len(artificial))
    block = _Block(rows, artificial, None, None)
    model, batch = read_rows(model, *_arguments(model, block))
    return with_value(model, model._empty_value(batch))


def _arguments(model, block):
    """Return the arguments of the method of a model that validates rows."""
    if isinstance(model, BaseFeatureSampler):
        return block.X, None, None, block.total_weight
    return block.X, block.y, block.sample_weight


def _read(model, block):
    """Return the validated rows of a block, as a further batch of a started model."""
    return copied(model)._read(*_arguments(model, block), first=False, final=False)


def _part(model, n_before, block):
    """Return a copy of a started model with the rows of a block."""
    batch = _read(model, block)
    call = blas_for_fit(batch.X.shape[0])  # as in partial_fit
    return with_value(model, call(model._value.read, batch, n_before))


def _merged(model, other):
    return copied(model).merge(other)  # a task must not change the result of another


def _labels(n_before, block):
    return np.unique(plain_targets(block.y))


def _union(labels, others):
    unique_labels(labels, others)  # raises ValueError for strings and numbers
    return np.unique(np.concatenate([labels, others]))


def _first_rows(model, n_before, block):
    """Return the first rows of a block, on which the warnings of ``fit`` are based."""
    batch = _read(model, block)
    n_rows = max(_LEAST_CHECKED, _CHECKED // batch.X.shape[1])
    parts = batch[:3]  # rows, targets or keys, and weights
    return type(batch)(*(each if each is None else each[:n_rows] for each in parts))


def _drawn(model: Any, blocks: list[Any], draw: Callable[..., Any]) -> Any:
    """Return the sample of all rows that a function draws from each of the blocks."""

    def sample(n_before, block):
        return draw([_read(model, block)], n_before=n_before)

    return _sum(blocks, sample, operator.add).compute()


def _with_best_sigma(model: Any, sampler: Any, blocks: list[Any]) -> Any:
    """Return a started model whose map is fixed, with the sigma that is best."""
    n_rows = 0
    if isinstance(sampler, BaseFeatureSampler):
        sampler = with_value(sampler, sampler._value.with_map())
        n_rows = sampler._value.statistics.query.n_rows
    elif isinstance(sampler, AnovaSampler):
        sampler = copied(model._value.sampler)  # which can read the table
        sampler._note_params()
        y = np.zeros(0, "i" if is_classifier(model) else "d")
        start = sampler._empty_value(Batch(np.zeros((0, 0)), y, np.zeros(0)))
        found = _drawn(
            model, blocks, lambda part, n_before: start.read(*part, n_before)
        )
        sampler = with_value(sampler, found.frozen())
    value = replace(model._value, sampler=sampler, is_fixed=True)
    value = value.with_best_sigma_of(partial(_drawn, model, blocks), n_rows)
    return with_value(model, value)
