"""Fit estimators to Dask collections, block by block."""

from __future__ import annotations

import copy
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
    columns_of,
    read_rows,
    with_noted_params,
    with_value,
)
from ..metric import LearnedMetric
from ..metric._column_sigmas import N_DRAWN
from ..ridge._base import BaseRandomFeatureRidge
from ..ridge._candidate_sums import sampled_rows
from ..rows import plain_targets
from ..rows.raw_table import TableReader, validated_table
from ..samplers import BaseFeatureSampler, CentersRBFSampler
from ..samplers._kernel_parameter import resolve_sampler
from ..tables import AnovaSampler
from .blocks import Blocks, FittedPart, sum_over_blocks, tree_sum

E = TypeVar("E")
_AHEAD = (StandardScaler, MinMaxScaler, MaxAbsScaler, FrozenEstimator)


def read_statistics(sampler: Any, blocks: Blocks) -> Any:
    """Return, as a lazy value, the statistics that a sampler collects from blocks."""
    sampler._validate_params()
    # created once, so that all blocks share one seed
    parts = sampler, sampler._empty_value(None)
    names = "X", "sample_weight"
    return sum_over_blocks(blocks, _statistics_of, *parts, names=names)


def _statistics_of(shell, empty, block):
    sampler, batch = read_rows(shell, block.X, None, None, block.weights)
    call = blas_within_processors(batch.X.shape[0])
    return FittedPart(call(empty.read, batch, block.n_before), columns_of(sampler))


def with_statistics(sampler: Any, found: FittedPart) -> Any:
    """Return the sampler with the feature map that the statistics determine."""
    return with_value(sampler, found.value.with_map(), found.noted)


def labels(blocks: Blocks) -> Any:
    """Return a lazy array of the sorted labels of all blocks."""
    unique = dask.delayed(_unique, pure=False)
    return tree_sum(_union, [unique(table) for table in blocks.select("y")])


def _unique(table):
    y = plain_targets(table[0])
    if y.dtype.kind == "O":
        _check_one_type(y.tolist())
    return np.unique(y) if len(y) else None


def _union(a, b):
    _check_one_type([*a.tolist(), *b.tolist()])
    return np.unique(np.concatenate([a, b]))


def _check_one_type(labels):
    """Raise ValueError if some labels are strings and others are numbers."""
    of_kind: dict[bool, Any] = {}
    for label in labels:
        of_kind.setdefault(isinstance(label, str), label)
    if len(of_kind) > 1:
        raise ValueError(
            "Mix of label input types (string and number) in y: among them are "
            f"{of_kind[True]!r} and {of_kind[False]!r}. Convert all blocks of y to one "
            "type, for instance with y.astype(str)."
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
    Each block is read twice: first for the statistics that determine the feature map,
    then to accumulate the statistics of its features (for each candidate sigma in ridge
    regression). Each block is read a third time to draw a sample of the rows if kernel
    averages select ``sigma``, or if ridge regression learns one ``sigma`` per column. A
    single pass suffices if the map is already fixed (``FrozenEstimator(sampler)``) and
    ``classes`` is given. Each scaler in a pipeline requires an additional pass.

    Results are reproducible: the statistics are added in a tree of fixed order, so two
    runs agree to the last bit, no matter which worker processes which block. Apart from
    rounding, the results equal those of ``estimator.fit`` on all rows, with one
    exception: if the lengths of the blocks are unknown (as in a DataFrame),
    ``sigma="median"`` and hybrid samplers use a different sample of the rows.

    Parameters
    ----------
    estimator : sampler, averages, ridge, LearnedMetric or Pipeline
        The estimator to fit, which is not modified. The parameter ``kernel`` of kernel
        averages (NadarayaWatsonClassifier, NadarayaWatsonRegressor) and of ridge
        regression (RandomFeatureRidge, RandomFeatureRidgeClassifier) must be
        ``"linear"``, a sampler of this package, or any transformer in a
        ``FrozenEstimator``. ``LearnedMetric`` learns from a sample drawn from all
        blocks, which is the same sample as for rows in memory. A pipeline must end in
        one of these estimators; its other steps may be ``StandardScaler``,
        ``MinMaxScaler``, ``MaxAbsScaler``, or any transformer in a ``FrozenEstimator``.
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
    ahead: list[Any] = []
    last = made.steps[-1][1] if isinstance(made, Pipeline) else made
    if isinstance(last, (BaseNadarayaWatson, BaseRandomFeatureRidge)):
        fit_last, tables = _fit_sums, (X, y, sample_weight)
    elif isinstance(last, LearnedMetric):
        fit_last, tables = _fit_metric, (X, y, sample_weight)
    elif isinstance(last, BaseFeatureSampler):
        fit_last, tables = _fit_sampler, (X, None, sample_weight)
    else:
        raise TypeError(
            "sklearn_crt.dask.fit takes samplers that estimate a kernel, "
            "NadarayaWatsonClassifier, NadarayaWatsonRegressor, RandomFeatureRidge, "
            "RandomFeatureRidgeClassifier, LearnedMetric, and pipelines of scalers "
            f"that end in one of them, got {last!r}. {_instead(last)}"
        )
    if last is made:
        return fit_last(last, tables, ahead, classes)
    _check_scalers(made)
    for _, scaler in made.steps[:-1]:
        if scaler not in (None, "passthrough"):
            ahead.append(_fit_scaler(scaler, X, ahead))
    scalers = iter(ahead)
    made.steps = [
        (name, step if step in (None, "passthrough") else next(scalers))
        for name, step in made.steps[:-1]
    ] + [(made.steps[-1][0], fit_last(last, tables, ahead, classes))]
    return made


def _check_scalers(pipeline):
    """Raise TypeError if a step cannot be fitted block by block."""
    for name, step in pipeline.steps[:-1]:
        if not (step in (None, "passthrough") or isinstance(step, _AHEAD)):
            raise TypeError(
                f"Step {name!r} of the pipeline, {step!r}, cannot be fitted block by "
                "block. The steps before the last one may be StandardScaler, "
                "MinMaxScaler, MaxAbsScaler and FrozenEstimator. Fit this step to a "
                "sample of the rows, and wrap it in FrozenEstimator."
            )


def _fit_scaler(scaler, X, ahead):
    """Return the scaler after fitting it to one block after another."""
    if isinstance(scaler, FrozenEstimator):
        return scaler
    blocks = Blocks(X, ahead=ahead)
    learn = dask.delayed(_learn, pure=False)
    last = dask.delayed(scaler, pure=False, traverse=False)
    for number, table in enumerate(blocks.select("X")):
        last = learn(last, blocks.layout, number, table)
    fitted = last.compute()
    return _or_raise(fitted if hasattr(fitted, "n_features_in_") else None)


def _learn(scaler, layout, number, table):
    X = layout.read(number, X=table[0])
    # a copy is fitted, because a task must not modify the result of another task
    return copy.deepcopy(scaler).partial_fit(X) if X.shape[0] else scaler


def _fit_sampler(sampler, tables, ahead, classes):
    X, y, sample_weight = tables
    found = read_statistics(sampler, Blocks(X, y, sample_weight, ahead)).compute()
    return with_statistics(sampler, _or_raise(found, sample_weight))


def _instead(estimator):
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


def _fit_sums(model, tables, ahead, classes):
    X, y, sample_weight = tables
    model._validate_params()
    if model._keeps_rows:
        raise TypeError(
            f"{model!r} keeps training rows, which blocks do not exchange. Use a "
            "sampler, such as OPRFSampler(), or fit the estimator to a sample of the "
            "rows in memory."
        )
    transformer = model._transformer
    if y is None:
        raise ValueError(f"{type(model).__name__} needs y, the targets.")
    blocks = Blocks(X, y, sample_weight, ahead)
    sampler = _fitted_sampler(model, transformer, blocks, sample_weight, classes)
    shell = model
    if isinstance(sampler, AnovaSampler):
        shell = _with_kernel(model, sampler)
    if isinstance(model, BaseNadarayaWatson) and not isinstance(model.kernel, str):
        _, selects_sigma = resolve_sampler(
            model.kernel, model.sigma, type(model).__name__
        )
        if selects_sigma:
            sampler = _with_best_sigma(model, sampler, blocks, sample_weight)
    start = {"sampler": sampler, "is_fixed": True}
    if isinstance(model, BaseRandomFeatureRidge):
        start |= _choices_of_ridge(model, sampler, blocks, sample_weight)
    found = sum_over_blocks(blocks, _sums_of, shell, start).compute()
    found = _or_raise(found, sample_weight)
    value, noted = replace(found.value, **start).fixed(), found.noted
    if shell is not model:
        value = replace(value, settings=replace(value.settings, kernel=model.kernel))
        model, noted = with_noted_params(model, noted), {}
    return _finished(model, value, noted)


def _fitted_sampler(model, transformer, blocks, sample_weight, classes):
    """Return the fitted transformer that computes the features; set ``classes_``."""
    fixed = transformer is None or isinstance(transformer, FrozenEstimator)
    sampler = transformer if fixed else clone(transformer)
    reads_tables = isinstance(sampler, AnovaSampler)
    reads_tables = reads_tables and isinstance(model, BaseRandomFeatureRidge)
    if not (fixed or reads_tables or isinstance(sampler, BaseFeatureSampler)):
        raise TypeError(
            f"{sampler!r} has no statistics that blocks could exchange. Fit it "
            "to a sample of the rows, and pass FrozenEstimator(sampler)."
        )
    found = None
    if reads_tables:
        found = sum_over_blocks(blocks, _reader_of, sampler)
    elif not fixed:
        found = read_statistics(sampler, blocks)
    if not is_classifier(model):
        if classes is not None:
            raise ValueError("classes= is for classifiers.")
        (found,) = dask.compute(found)
    else:
        if classes is not None:
            _check_one_type(np.asarray(classes, dtype=object).tolist())
        given = None if classes is None else np.unique(classes)
        # in a single graph, work shared by rows and targets is done only once
        found, there = dask.compute(found, labels(blocks) if given is None else None)
        model.classes_ = given if given is not None else _or_raise(there)
    if fixed:
        return sampler
    found = _or_raise(found, sample_weight)
    if reads_tables:
        return _fitted_to_tables(model, sampler, found, blocks)
    return with_statistics(sampler, found)


def _reader_of(sampler, block):
    """Return the reader for the table in a block, and the columns of the table."""
    shell = copy.copy(sampler)
    X = validated_table(shell, block.X, reset=True)
    return FittedPart(TableReader.of(X, sampler.categories), columns_of(shell))


def _fitted_to_tables(model, sampler, found, blocks):
    """Return the sampler after fitting it to a sample of rows from all blocks."""
    noted = {**found.noted, "_reader": found.value, "_fit_namespace": None}
    sampler = with_noted_params(sampler, noted)
    y = np.zeros(0, np.intp if is_classifier(model) else np.float64)
    # created once, so that all blocks share one seed
    empty = sampler._empty_value(Batch(np.zeros((0, 0)), y, np.zeros(0)))
    parts = _with_kernel(model, sampler), empty
    total = sum_over_blocks(blocks, _sample_of_block, *parts).compute()
    return with_value(sampler, total.value.frozen())


def _with_kernel(model, sampler):
    """Return a copy of a model that reads tables as the sampler does."""
    shell = copy.copy(model)
    shell.kernel = FrozenEstimator(sampler)
    return shell


def _sample_of_block(shell, empty, block):
    """Return a sample of the rows of a block, from which a kernel or metric is learned.

    ``empty`` is the value to which the rows are added; None creates a new one.
    """
    model, batch = read_rows(shell, *block[:3])
    if empty is None:
        empty = model._empty_value(batch)
    value = replace(empty, n_before=block.n_before).plus(batch)
    return FittedPart(value, columns_of(model))


def _with_best_sigma(model, sampler, blocks, sample_weight):
    """Return the sampler with the best ``sigma`` for a sample of the rows."""
    found = sum_over_blocks(blocks, _sample_of, model).compute()
    found = _or_raise(found, sample_weight)
    rows = found.value.few
    batch = Batch(rows.X, rows.y, rows.weights)
    value = with_value(model, None, found.noted)._empty_value(batch)
    return value.with_best_sigma(sampler, found.value).sampler


def _sample_of(shell, block):
    """Return those rows of a block that may be used to choose sigma."""
    model, batch = read_rows(shell, *block[:3])
    rows = SampledRows.of([batch], model._empty_value(batch).targets, block.n_before)
    return FittedPart(rows, columns_of(model))


def _or_raise(found, sample_weight=None):
    if found is None and sample_weight is not None:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if found is None:
        raise ValueError("Found array with 0 sample(s): all blocks are empty.")
    return found


def _choices_of_ridge(model, sampler, blocks, sample_weight):
    """Return fields of ``RidgeSums``: the candidates for sigma, or the selected one."""
    batch = Batch(np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    value = replace(model._empty_value(batch), sampler=sampler)

    def sampled(size: int) -> Any:
        found = sum_over_blocks(blocks, _rows_of_ridge, model, size).compute()
        return _or_raise(found, sample_weight).value

    if value.learns_columns:
        value = value.with_columns_of(sampled(N_DRAWN))
    value = value.with_candidates()
    if len(value.path) > 1:
        n_rows = sampler._value.statistics.query.n_rows
        size = value.n_rows_for_sigma(n_rows)
        if size is not None:
            value = value.with_best_sigma_of_sample(sampled(size), n_rows)
    names = "sigmas_of_columns", "path", "balances", "scores_before"
    return {name: getattr(value, name) for name in names}


def _rows_of_ridge(shell, size, block):
    """Return a sample of a block's rows, from which sigma is learned or selected."""
    model, batch = read_rows(shell, *block[:3])
    return FittedPart(sampled_rows([batch], size, block.n_before), columns_of(model))


def _sums_of(shell, start, block):
    """Return the accumulated statistics of a block, without the feature map."""
    model, batch = read_rows(shell, *block[:3])
    value = model._empty_value(batch)
    if isinstance(model, BaseRandomFeatureRidge):
        start = {**start, "n_before": block.n_before}
    value = replace(value, **start)
    value = blas_within_processors(batch.X.shape[0])(value.plus, batch)
    return FittedPart(value.without_map(), columns_of(model))


def _fit_metric(metric, tables, ahead, classes):
    X, y, sample_weight = tables
    metric._validate_params()
    if y is None:
        raise ValueError("LearnedMetric needs y, the targets.")
    blocks = Blocks(X, y, sample_weight, ahead)
    found = sum_over_blocks(blocks, _sample_of_block, metric, None).compute()
    found = _or_raise(found, sample_weight)
    return _finished(metric, found.value, found.noted)


def _finished(estimator, value, noted):
    """Return a copy with the value that the blocks gave; warn as ``fit`` does."""
    model = with_value(estimator, value, noted)
    model._warn_of_sums()
    return model
