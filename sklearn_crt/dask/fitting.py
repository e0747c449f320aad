"""Fit estimators to Dask collections, block by block."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import dask
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from ..arrays.threads import blas_within_processors
from ..averages._base import BaseNadarayaWatson
from ..averages._sigma_choice import SampledRows
from ..life_cycle.fitted import (
    Batch,
    check_same_columns,
    read_rows,
    with_noted_params,
    with_value,
)
from ..metric import LearnedMetric
from ..ridge._base import BaseRandomFeatureRidge
from ..ridge._candidate_sums import sampled_rows
from ..rows.raw_table import TableReader, validated_table
from ..rows.row_sample import RowSample
from ..samplers import BaseFeatureSampler, CentersRBFSampler
from ..tables import AnovaSampler
from .blocks import Blocks

E = TypeVar("E")
_AHEAD = (StandardScaler, MinMaxScaler, MaxAbsScaler, FrozenEstimator)
_SUMS = (BaseNadarayaWatson, BaseRandomFeatureRidge)


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
    Each block is read twice: first for the statistics that determine the feature map,
    then to accumulate the sums of its features. Ridge regression and kernel averages
    read each block another time for each sample of the rows from which they select
    ``sigma``. There are further passes for each scaler in a pipeline, and to count the
    rows if there are weights or if the lengths of the blocks are unknown (as in a
    DataFrame).

    Apart from rounding, the results equal those of ``estimator.fit`` on all rows. They
    are reproducible: the parts are added in a tree of fixed order, so two runs agree to
    the last bit, no matter which worker processes which block.

    Parameters
    ----------
    estimator : sampler, averages, ridge, LearnedMetric or Pipeline
        The estimator to fit, which is not modified. The parameter ``kernel`` of kernel
        averages (NadarayaWatsonClassifier, NadarayaWatsonRegressor) and of ridge
        regression (RandomFeatureRidge, RandomFeatureRidgeClassifier) must be
        ``"linear"``, a sampler of this package, or any transformer in a
        ``FrozenEstimator``. A pipeline must end in one of these estimators; its other
        steps may be ``StandardScaler``, ``MinMaxScaler``, ``MaxAbsScaler``, or any
        transformer in a ``FrozenEstimator``.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows, in blocks of any length. Columns that are split into several blocks are
        joined.
    y : dask collection or array-like of shape (n_samples,) or (n_samples, n_outputs)
        Class labels or numeric targets; samplers ignore them.
    sample_weight : dask collection or array-like of shape (n_samples,), default=None
        Non-negative weights. In a pipeline, only the last step uses them.
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
        If X is in memory, if the estimator keeps training rows (``CentersRBFSampler``,
        and kernel averages with ``Prototypes`` or an exact kernel, which is the
        default), if it selects parameters by cross-validation, or if a step of a
        pipeline needs all rows at once.
    ValueError
        If a parameter, X, y or a weight is out of range, if a block has different
        columns from those that its collection declares, or if blocks have labels of
        different types.

    See Also
    --------
    map_rows : Compute features or predictions lazily.

    Notes
    -----
    The computation uses the active scheduler: a ``distributed.Client``, if there is
    one. All columns must have the same floating-point dtype; DataFrames with columns of
    strings or categories raise an error, except in ridge regression with an
    :class:`~sklearn_crt.AnovaSampler`, which learns its kernel from a sample of the
    rows of all blocks.

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
    made: Any = clone(estimator)
    last = made.steps[-1][1] if isinstance(made, Pipeline) else made
    is_sampler = isinstance(last, BaseFeatureSampler)
    if not (is_sampler or isinstance(last, (*_SUMS, LearnedMetric))):
        raise TypeError(
            "sklearn_crt.dask.fit supports samplers that estimate a kernel, "
            "NadarayaWatsonClassifier, NadarayaWatsonRegressor, RandomFeatureRidge, "
            "RandomFeatureRidgeClassifier, LearnedMetric, and pipelines of scalers "
            f"that end with one of them, got {last!r}. {_instead(last)}"
        )
    last._validate_params()
    if y is None and not is_sampler:
        raise ValueError(f"{type(last).__name__} requires the targets y.")
    if getattr(last, "_keeps_rows", False):
        raise TypeError(
            f"{last!r} stores training rows, which blocks cannot exchange. Use a "
            "sampler, such as OPRFSampler(), or fit the estimator to a sample of the "
            "rows in memory."
        )
    if classes is not None and not is_classifier(last):
        raise ValueError(
            f"classes can only be passed for classifiers, got {type(last).__name__}."
        )
    ahead = made.steps[:-1] if isinstance(made, Pipeline) else []
    for name, step in ahead:
        if not (step in (None, "passthrough") or isinstance(step, _AHEAD)):
            raise TypeError(
                f"Step {name!r} of the pipeline, {step!r}, cannot be fitted block by "
                "block. The steps before the last one may be StandardScaler, "
                "MinMaxScaler, MaxAbsScaler and FrozenEstimator. Fit this step to a "
                "sample of the rows, and wrap it in FrozenEstimator."
            )
    blocks = Blocks.of(X, None if is_sampler else y, sample_weight)
    for number, (name, step) in enumerate(ahead):
        if step not in (None, "passthrough"):
            scaler = _fitted_scaler(step, blocks)
            made.steps[number] = name, scaler
            blocks = blocks.transformed(scaler)
    if isinstance(last, _SUMS):
        fitted = _fit_sums(last, blocks, classes)
    elif is_sampler:
        fitted = _with_map(_computed(_lazy_statistics(last, blocks)))
    else:
        fitted = _computed(_lazy_total(last, blocks, _with_sampled_rows, None))
    if last is made:
        return fitted
    made.steps[-1] = made.steps[-1][0], fitted
    return made


def _instead(estimator: Any) -> str:
    """Return what to do with an estimator that cannot be fitted to blocks."""
    if isinstance(estimator, CentersRBFSampler):
        return (
            "CentersRBFSampler chooses centres among rows that it keeps, and blocks "
            "do not exchange rows. Fit it to a sample of the rows in memory, then call "
            "map_rows(sampler.transform, X)."
        )
    if hasattr(estimator, "cv"):
        return (
            "A cross-validated search needs the rows in memory. Run it on a sample of "
            "the rows, and pass best_estimator_ to this function."
        )
    return "For other estimators use dask-ml, or partial_fit block by block."


# ------------------------------------------------------------------ totals of blocks
def _lazy_total(
    model: Any, blocks: Blocks, value_of_rows: Callable[..., Any], *shared: Any
) -> Any:
    """Return a lazy copy of a model whose value is the sum of those of the blocks."""
    return blocks.total(_of_block, model, value_of_rows, shared, add=_merged)


def _of_block(model, value_of_rows, shared, n_before, X, y, weights):
    """Return a copy of a model with the value of a block, and with its columns."""
    rest: tuple[Any, ...] = y, weights
    if isinstance(model, BaseFeatureSampler):
        rest = (None, None, weights)  # targets and keys are not used
    model, batch = read_rows(model, X, *rest)
    call = blas_within_processors(batch.X.shape[0])
    return with_value(model, call(value_of_rows, model, batch, n_before, *shared))


def _merged(model: Any, other: Any) -> Any:
    check_same_columns(model, other)
    return with_value(model, model._value + other._value)


def _computed(total: Any) -> Any:
    """Return the sum over the blocks, and raise ValueError if there were no rows."""
    (found,) = dask.compute(total)
    if found is None:
        raise ValueError(
            "Found array with 0 sample(s): all blocks are empty, or their weights are "
            "zero. Sample weights must contain at least one non-zero number."
        )
    return found


def _with_sampled_rows(model, batch, n_before, empty):
    """Return the sample of the rows from which a kernel or metric is learned.

    ``empty`` is the value to which the rows are added; None creates a new one.
    """
    empty = model._empty_value(batch) if empty is None else empty
    return replace(empty, n_before=n_before).plus(batch)


# ----------------------------------------------------------- samplers and transformers
def _lazy_statistics(sampler: Any, blocks: Blocks) -> Any:
    """Return, as a lazy value, the sampler with the statistics of all blocks."""
    # created once, so that all blocks share one seed
    return _lazy_total(sampler, blocks, _statistics_of, sampler._empty_value(None))


def _statistics_of(sampler, batch, n_before, empty):
    return empty.read(batch, n_before)


def _with_map(sampler: Any) -> Any:
    """Return the sampler with the feature map that its statistics determine."""
    return with_value(sampler, sampler._value.with_map())


def _fitted_scaler(scaler: Any, blocks: Blocks) -> Any:
    """Return the scaler after fitting it to one block after another."""
    if isinstance(scaler, FrozenEstimator):
        return scaler
    learn = dask.delayed(_after_block, pure=False)
    last = dask.delayed(scaler, pure=False, traverse=False)
    for table in blocks.tables:
        last = learn(last, table)
    fitted = last.compute()
    return _computed(fitted if hasattr(fitted, "n_features_in_") else None)


def _after_block(scaler, table):
    X, *_ = table
    # a copy is fitted, because a task must not modify the result of another task
    return copy.deepcopy(scaler).partial_fit(X) if X.shape[0] else scaler


def _labels_of(n_before, X, y, weights):
    _check_one_type(y.tolist() if y.dtype.kind == "O" else [])
    return np.unique(y)


def _union(a, b):
    _check_one_type([*a.tolist(), *b.tolist()])
    return np.unique(np.concatenate([a, b]))


def _check_one_type(labels: list[Any]) -> None:
    """Raise ValueError if some labels are strings and others are numbers."""
    of_kind = {isinstance(label, str): label for label in labels}
    if len(of_kind) > 1:
        raise ValueError(
            "Mix of label input types (string and number) in y: among them are "
            f"{of_kind[True]!r} and {of_kind[False]!r}. Convert all blocks of y to one "
            "type, for instance with y.astype(str)."
        )


def _table_reader_of(sampler, n_before, X, y, weights):
    """Return a copy of the sampler with the reader for the table in a block."""
    shell = copy.copy(sampler)
    table = validated_table(shell, X, reset=True)
    return with_value(shell, TableReader.of(table, sampler.categories))


def _fitted_to_tables(model: Any, sampler: Any, found: Any, blocks: Blocks) -> Any:
    """Return the sampler after fitting it to a sample of rows from all blocks."""
    noted = {"_reader": found._value, "_fit_namespace": None}
    sampler = with_noted_params(found, noted)
    y = np.zeros(0, np.intp if is_classifier(model) else np.float64)
    # created once, so that all blocks share one seed
    empty = sampler._empty_value(Batch(np.zeros((0, 0)), y, np.zeros(0)))
    shell = _with_kernel(model, sampler)
    total = _computed(_lazy_total(shell, blocks, _with_sampled_rows, empty))
    return with_value(sampler, total._value.frozen())


def _with_kernel(model: Any, sampler: Any) -> Any:
    """Return a copy of a model that reads tables as the sampler does."""
    shell = copy.copy(model)
    shell.kernel = FrozenEstimator(sampler)
    return shell


# ------------------------------------------------------------------ averages and ridge
def _fit_sums(model: Any, blocks: Blocks, classes: Any) -> Any:
    """Return averages or ridge regression after fitting them to the blocks."""
    sampler = _fitted_sampler(model, blocks, classes)
    is_ridge = isinstance(model, BaseRandomFeatureRidge)
    start = {"sampler": sampler, "is_fixed": True}
    if is_ridge:
        start |= _choices_of_ridge(model, sampler, blocks)
    elif not isinstance(model.kernel, str) and model._sampler_and_choice[1]:
        start |= _choices_of_averages(model, sampler, blocks)
    reads_tables = isinstance(sampler, AnovaSampler)
    shell = _with_kernel(model, sampler) if reads_tables else model
    found = _computed(_lazy_total(shell, blocks, _sums_of, start, is_ridge))
    value = replace(found._value, **start).fixed()
    if reads_tables:
        value = replace(value, settings=replace(value.settings, kernel=model.kernel))
        found = with_noted_params(found, {"kernel": model.kernel})
    fitted = with_value(found, value)
    fitted._warn_of_sums()
    return fitted


def _sums_of(model, batch, n_before, start, is_ridge):
    """Return the accumulated statistics of a block, without the feature map."""
    start = {**start, "n_before": n_before} if is_ridge else start
    return replace(model._empty_value(batch), **start).plus(batch).without_map()


def _fitted_sampler(model: Any, blocks: Blocks, classes: Any) -> Any:
    """Return the fitted transformer that computes the features; set ``classes_``."""
    sampler = model._transformer
    fixed = sampler is None or isinstance(sampler, FrozenEstimator)
    is_ridge = isinstance(model, BaseRandomFeatureRidge)
    reads_tables = is_ridge and isinstance(sampler, AnovaSampler)
    found = labels = None
    if reads_tables:
        sampler = clone(sampler)
        found = blocks.total(_table_reader_of, sampler, add=_merged)
    elif isinstance(sampler, BaseFeatureSampler):
        sampler = clone(sampler)
        sampler._validate_params()
        found = _lazy_statistics(sampler, blocks)
    elif not fixed:
        raise TypeError(
            f"{sampler!r} has no statistics that blocks could exchange. Fit it "
            "to a sample of the rows, and pass FrozenEstimator(sampler)."
        )
    if classes is not None:
        _check_one_type(np.asarray(classes, dtype=object).tolist())
        labels = np.unique(classes)
    elif is_classifier(model):
        labels = blocks.total(_labels_of, add=_union)
    # in a single graph, work shared by rows and targets is done only once
    found, labels = dask.compute(found, labels)
    if is_classifier(model):
        model.classes_ = _computed(labels)
    if fixed:
        return sampler
    found = _computed(found)
    if reads_tables:
        return _fitted_to_tables(model, sampler, found, blocks)
    return _with_map(found)


def _choices_of_averages(model: Any, sampler: Any, blocks: Blocks) -> dict[str, Any]:
    """Return fields of ``FeatureAverages``: the sampler with the best ``sigma``."""
    found = _computed(_lazy_total(model, blocks, _rows_of_averages))
    rows = found._value.few
    value = found._empty_value(Batch(rows.X, rows.y, rows.weights))
    value = value.with_best_sigma(sampler, found._value)
    return {name: getattr(value, name) for name in ("sampler", "calibration")}


def _rows_of_averages(model, batch, n_before):
    return SampledRows.of([batch], model._empty_value(batch).targets, n_before)


def _choices_of_ridge(model: Any, sampler: Any, blocks: Blocks) -> dict[str, Any]:
    """Return fields of ``RidgeSums``: the candidates for sigma, or the selected one."""
    batch = Batch(np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    value = replace(model._empty_value(batch), sampler=sampler)

    def sampled(size: int) -> RowSample:
        return _computed(_lazy_total(model, blocks, _rows_of_ridge, size))._value

    statistics = getattr(getattr(sampler, "_value", None), "statistics", None)
    n_rows = 0 if statistics is None else statistics.query.n_rows
    value = value.with_best_sigma_of(sampled, n_rows)
    names = "sigmas_of_columns", "path", "balances", "scores_before"
    return {name: getattr(value, name) for name in names}


def _rows_of_ridge(model, batch, n_before, size):
    return sampled_rows([batch], size, n_before)
