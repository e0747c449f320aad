"""Fit estimators to Dask collections, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import add
from types import NoneType
from typing import Any, TypeVar

import dask
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils.multiclass import unique_labels

from ..averages._base import BaseNadarayaWatson
from ..life_cycle.fitted import (
    Batch,
    copied,
    read_rows,
    with_noted_params,
    with_value,
)
from ..metric import LearnedMetric
from ..ridge._base import BaseRandomFeatureRidge
from ..rows import plain_targets
from ..rows.raw_table import TableReader, validated_table
from ..samplers import BaseFeatureSampler
from ..tables import AnovaSampler
from .blocks import artificial_rows, row_blocks, total

E = TypeVar("E")
_KINDS = (BaseFeatureSampler, LearnedMetric, BaseNadarayaWatson, BaseRandomFeatureRidge)
# fields of the sums of averages and ridge regression that samples of rows determine
_LEARNED = (
    *("sampler", "is_fixed", "selects_sigma", "comparison", "calibration"),
    *("sigmas_of_columns", "path", "balances", "scores_before"),
)


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
            "sklearn_crt.dask.fit supports samplers that estimate a kernel, kernel "
            "averages and ridge regression on the features of a sampler or of a "
            f"FrozenEstimator, and LearnedMetric, but {model!r} needs the rows "
            "themselves. Fit it, or its kernel, to a sample of the rows in memory."
        )
    model._validate_params()
    if y is None and not is_sampler:
        raise ValueError(f"{type(model).__name__} requires the targets y.")
    if classes is not None and not is_classifier(model):
        raise ValueError(
            f"classes can only be passed for classifiers, got {type(model).__name__}."
        )
    class_weight = getattr(model, "class_weight", None)
    blocks = row_blocks(X, None if is_sampler else y, sample_weight, class_weight)
    if isinstance(model, LearnedMetric):
        return dask.compute(total(blocks, _part, model, {}, add=_merged))[0]
    first = []
    if classes is not None:
        model.classes_ = np.unique(plain_targets(np.asarray(classes, dtype=object)))
    elif is_classifier(model):
        first = [total(blocks, _labels, add=_union)]
    if isinstance(sampler, BaseFeatureSampler):
        sampler = clone(sampler)
        sampler._validate_params()
        start = sampler._empty_value(None)  # created once, so that blocks share a seed
        first.append(total(blocks, _statistics, sampler, start, add=_merged))
    # in a single graph, so that work shared by rows and targets is done only once
    found = list(dask.compute(*first))
    if is_classifier(model) and classes is None:
        model.classes_ = found.pop(0)
    if found:
        sampler = with_value(found[0], found[0]._value.with_map())
    if is_sampler:
        return sampler
    kernel = model.kernel
    if isinstance(sampler, AnovaSampler):
        sampler = _fitted_to_tables(model, sampler, X, blocks)
        model.kernel = FrozenEstimator(sampler)
    known = _fields_with_best_sigma(model, sampler, X, y, blocks)
    (model,) = dask.compute(total(blocks, _part, model, known, add=_merged))
    value = replace(model._value, **known).fixed()
    if isinstance(sampler, AnovaSampler):
        value = replace(value, settings=replace(value.settings, kernel=kernel))
        model = with_noted_params(model, {"kernel": kernel})
    model = with_value(model, value)
    model._warn_of_sums()
    return model


# ------------------------------------------------------------ sums over the blocks
def _part(model, known, n_before, block):
    """Return a copy of a model that has learned from a block, as in ``partial_fit``.

    Some fields of the fitted value are known before.
    """
    model, batch = read_rows(model, block.X, block.y, block.sample_weight)
    value = replace(model._empty_value(batch), n_before=n_before, **known).plus(batch)
    # workers send back the sums of features, but not the feature map
    return with_value(model, value.without_map() if known else value)


def _merged(model, other):
    return copied(model).merge(other)  # a task must not change the result of another


def _labels(n_before, block):
    return np.unique(block.y)


def _union(labels, others):
    unique_labels(labels, others)  # raises ValueError for strings and numbers
    return np.unique(np.concatenate([labels, others]))


def _statistics(sampler, start, n_before, block):
    sampler, batch = read_rows(sampler, block.X, None, None, block.total_weight)
    return with_value(sampler, start.read(batch, n_before))


# ------------------------------------------------------------------- samples of rows
def _fields_with_best_sigma(
    model: Any, sampler: Any, X: Any, y: Any, blocks: list[Any]
) -> dict[str, Any]:
    """Return the fields of a fitted value that ``fit`` learns from samples of rows."""
    if is_classifier(model):
        y = model.classes_[[0, 0]]
    else:
        y = np.ones((2, *np.shape(y)[1:]))
    shell, batch = read_rows(model, artificial_rows(X), y, None)
    value = replace(shell._empty_value(batch), sampler=sampler, is_fixed=True)
    is_ours = isinstance(sampler, BaseFeatureSampler)
    n_rows = sampler._value.statistics.query.n_rows if is_ours else 0
    value = value.with_best_sigma_of(partial(_drawn, model, blocks), n_rows)
    return {name: vars(value)[name] for name in _LEARNED if name in vars(value)}


def _drawn(model: Any, blocks: list[Any], draw: Callable[..., Any]) -> Any:
    """Return the sample of all rows that a function draws from each of the blocks."""
    return dask.compute(total(blocks, _drawn_of_block, model, draw, add=add))[0]


def _drawn_of_block(model, draw, n_before, block):
    _, batch = read_rows(model, block.X, block.y, block.sample_weight)
    return draw([batch], n_before=n_before)


def _fitted_to_tables(model: Any, sampler: Any, X: Any, blocks: list[Any]) -> Any:
    """Return an ``AnovaSampler`` after fitting it to a sample of rows of all blocks."""
    sampler, y = copied(sampler), np.zeros(0, "i" if is_classifier(model) else "d")
    table = validated_table(sampler, artificial_rows(X), reset=True)
    sampler._reader = TableReader.of(table, sampler.categories)
    sampler._note_params()
    shell = copied(model)
    shell.kernel = FrozenEstimator(sampler)  # with the reader for the rows
    start = sampler._empty_value(Batch(np.zeros((0, 0)), y, np.zeros(0)))
    value = _drawn(shell, blocks, partial(_sampled_table, start))
    return with_value(sampler, value.frozen())


def _sampled_table(start, batches, n_before):
    return replace(start, n_before=n_before).plus(*batches)
