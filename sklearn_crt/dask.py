"""Fit estimators to Dask collections, and compute predictions lazily.

This module requires the extra ``dask``: ``pip install "sklearn-crt[dask]"``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce
from operator import add
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import dask
import dask.array as da
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight
from sklearn.utils.multiclass import unique_labels

from .arrays.threads import blas_for_fit
from .arrays.validation import is_lazy
from .averages._base import BaseNadarayaWatson
from .life_cycle.fitted import Batch, copied, read_rows, with_noted_params, with_value
from .metric import LearnedMetric
from .ridge._base import BaseRandomFeatureRidge
from .rows import plain_targets
from .rows.raw_table import TableReader, validated_table
from .samplers import BaseFeatureSampler
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
    if isinstance(model, LearnedMetric):
        return _sum(blocks, _part, model, None, add=_merged).compute()
    labels = checked = None
    if classes is not None:
        labels = np.unique(plain_targets(np.asarray(classes, dtype=object)))
    elif is_classifier(model):
        labels = _sum(blocks, _labels, add=_union)
    if isinstance(sampler, BaseFeatureSampler):
        sampler = clone(sampler)
        sampler._validate_params()
        start = sampler._empty_value(None)  # created once, so that blocks share a seed
        sampler = _sum(blocks, _part, sampler, start, add=_merged)
    if is_sampler:
        checked = _sum(blocks[:1], _first_rows, model, add=None)
    # in a single graph, so that work shared by rows and targets is done only once
    labels, sampler, checked = dask.compute(labels, sampler, checked)
    if isinstance(sampler, BaseFeatureSampler):
        sampler = with_value(sampler, sampler._value.with_map())
    if is_sampler:
        sampler._warn_after_fit(checked)
        return sampler
    if labels is not None:
        model.classes_ = labels
    kernel = model.kernel
    if isinstance(sampler, AnovaSampler):
        sampler = _fitted_to_tables(model, sampler, X, blocks)
        model.kernel = FrozenEstimator(sampler)
    start = _start_with_best_sigma(model, sampler, X, y, blocks)
    total = _sum(blocks, _part, model, start, add=_merged)
    checked = _sum(blocks[:1], _first_rows, model, add=None)
    model, checked = dask.compute(total, checked)
    value = model._value.with_map_of(start).fixed()
    if isinstance(sampler, AnovaSampler):
        value = replace(value, settings=replace(value.settings, kernel=kernel))
        model = with_noted_params(model, {"kernel": kernel})
    model = with_value(model, value)
    model._warn_after_fit(checked)
    return model


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
        found = method(_artificial_rows(X))
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
        weights = self.sample_weight
        if not isinstance(self.class_weight, dict):
            return weights
        factors = compute_sample_weight(self.class_weight, plain_targets(self.y))
        return factors if weights is None else factors * np.asarray(weights)

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
            if table is not None:
                table = table.to_dask_array() if _is_frame(table) else da.asarray(table)
            pairs += [table, None if table is None else (0, number)[: table.ndim]]
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


def _sum(blocks: list[Any], function: Any, *shared: Any, add: Any) -> Any:
    """Return the lazy sum of ``function(*shared, n_before, block)`` over the blocks.

    Parts are added in a tree of fixed order, so that rounding does not depend on which
    worker is the fastest.
    """
    call, merge = (dask.delayed(each, pure=False) for each in (_of_block, reduce))
    # sent to each worker once
    once = dask.delayed((function, shared), pure=False, traverse=False)
    parts = [call(once, *block) for block in blocks]
    while len(parts) > 1:
        groups = range(0, len(parts), _BRANCHES)
        parts = [merge(add, parts[i : i + _BRANCHES]) for i in groups]
    return parts[0]


def _of_block(task, n_before, block):
    function, shared = task
    return blas_for_fit(block.n_rows)(function, *shared, n_before, block)


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


def _artificial_rows(X: Any) -> Any:
    """Return two rows in memory, with the columns and types of a collection."""
    return X._meta_nonempty if _is_frame(X) else np.ones((2, *X.shape[1:]), X.dtype)


# ---------------------------------------------------------- what each block is used for
def _read(model, block):
    """Return a copy of a model that has validated a block, and the block's batch."""
    if isinstance(model, BaseFeatureSampler):
        return read_rows(model, block.X, None, None, block.total_weight)
    return read_rows(model, block.X, block.y, block.sample_weight)


def _part(model, start, n_before, block):
    """Return a copy of a model that has learned from a block, as in ``partial_fit``.

    ``start`` is the value without rows; None if each block may create its own.
    """
    model, batch = _read(model, block)
    if isinstance(model, BaseFeatureSampler):
        return with_value(model, start.read(batch, n_before))
    value = model._empty_value(batch) if start is None else start
    value = replace(value, n_before=n_before).plus(batch)
    # workers send back the sums of features, but not the feature map
    return with_value(model, value if start is None else value.without_map())


def _merged(model, other):
    return copied(model).merge(other)  # a task must not change the result of another


def _labels(n_before, block):
    return np.unique(plain_targets(block.y))


def _union(labels, others):
    unique_labels(labels, others)  # raises ValueError for strings and numbers
    return np.unique(np.concatenate([labels, others]))


def _first_rows(model, n_before, block):
    """Return the first rows of a block, on which the warnings of ``fit`` are based."""
    _, batch = _read(model, block)
    n_rows = max(_LEAST_CHECKED, _CHECKED // batch.X.shape[1])
    parts = batch[:3]  # rows, targets or keys, and weights
    return type(batch)(*(each if each is None else each[:n_rows] for each in parts))


def _sample(model, draw, n_before, block):
    return draw([_read(model, block)[1]], n_before=n_before)


def _drawn(model: Any, blocks: list[Any], draw: Callable[..., Any]) -> Any:
    """Return the sample of all rows that a function draws from each of the blocks."""
    return _sum(blocks, _sample, model, draw, add=add).compute()


def _start_with_best_sigma(
    model: Any, sampler: Any, X: Any, y: Any, blocks: list[Any]
) -> Any:
    """Return a value without rows, with the sigma that is best on samples of rows."""
    y = np.ones((2, *np.shape(y)[1:]))
    if is_classifier(model):
        options = {"classes": model.classes_, "y": model.classes_}
        weights = compute_class_weight(model.class_weight, **options)
        y = model.classes_[[np.argmax(weights)] * 2]  # not of a class of weight 0
    shell, batch = read_rows(model, _artificial_rows(X), y, None)
    value = replace(shell._empty_value(batch), sampler=sampler, is_fixed=True)
    is_ours = isinstance(sampler, BaseFeatureSampler)
    n_rows = sampler._value.statistics.query.n_rows if is_ours else 0
    return value.with_best_sigma_of(partial(_drawn, model, blocks), n_rows)


def _fitted_to_tables(model: Any, sampler: Any, X: Any, blocks: list[Any]) -> Any:
    """Return an ``AnovaSampler`` after fitting it to a sample of rows of all blocks."""
    sampler, y = copied(sampler), np.zeros(0, "i" if is_classifier(model) else "d")
    table = validated_table(sampler, _artificial_rows(X), reset=True)
    sampler._reader = TableReader.of(table, sampler.categories)
    sampler._note_params()
    shell = copied(model)
    shell.kernel = FrozenEstimator(sampler)  # with the reader for the rows
    start = sampler._empty_value(Batch(np.zeros((0, 0)), y, np.zeros(0)))
    value = _drawn(shell, blocks, partial(_sampled_table, start))
    return with_value(sampler, value.frozen())


def _sampled_table(start, batches, n_before):
    return replace(start, n_before=n_before).plus(*batches)
