"""Estimators fitted to collections of Dask, block by block."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import dask
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

from .._fitted import (
    Batch,
    check_params,
    columns_of,
    empty_value,
    finished,
    read_rows,
    transformer_of,
    value_of,
    with_value,
)
from .._workers import blas_within_processors
from ..averages._base import BaseNadarayaWatson
from ..metric import LearnedMetric
from ..metric._value import KEPT_ENTRIES, joined_batches
from ..ridge._base import BaseRandomFeatureRidge
from ..rows import are_labels, plain_targets
from ..samplers import BaseFeatureSampler, CentersRBFSampler
from .blocks import Blocks

E = TypeVar("E")
_BRANCHES = 8  # parts that are added in one task
_AHEAD = (StandardScaler, MinMaxScaler, MaxAbsScaler, FrozenEstimator)


def tree_sum(add: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Return the sum of parts, each of which may be None."""
    merge = dask.delayed(_add_all, pure=False)
    while len(parts) > 1:
        groups = range(0, len(parts), _BRANCHES)
        parts = [merge(add, list(parts[i : i + _BRANCHES])) for i in groups]
    return parts[0]


def _add_all(add, parts):
    total = None
    for part in parts:
        if total is None:
            total = part
        elif part is not None:
            total = add(total, part)
    return total


@dataclass(frozen=True)
class FittedPart:
    """The fitted value of some blocks, and attributes that describe their columns."""

    value: Any
    noted: dict[str, Any]

    def __add__(self, other: FittedPart) -> FittedPart:
        """Return the fitted value of the rows of both."""
        return FittedPart(self.value + other.value, self.noted)


def read_statistics(sampler: Any, blocks: Blocks) -> Any:
    """Return the statistics that a sampler reads from blocks of rows, lazily."""
    check_params(sampler)
    # made once: all blocks are read with one seed
    empty = dask.delayed(empty_value(sampler), pure=False, traverse=False)
    shell = dask.delayed(sampler, pure=False, traverse=False)
    read = dask.delayed(_read_block, pure=False)
    tables = blocks.select("X", "sample_weight")
    pairs = enumerate(zip(tables, blocks.starts(len(tables)), strict=True))
    parts = [read(shell, empty, blocks.layout, number, *pair) for number, pair in pairs]
    return tree_sum(operator.add, parts)


def _read_block(shell, empty, layout, number, table, n_before):
    X, _, weights = _block(layout, number, (table[0], None, table[1]))
    if X is None:
        return None
    sampler, batch = read_rows(shell, X, None, None, weights)
    call = blas_within_processors(batch.X.shape[0])
    return FittedPart(call(empty.read, batch, n_before), columns_of(sampler))


def with_statistics(sampler: Any, found: FittedPart) -> Any:
    """Return a sampler with the map that follows from the statistics of all blocks."""
    return with_value(sampler, found.value.with_map(), found.noted)


def labels(blocks: Blocks) -> Any:
    """Return the labels of blocks of rows, lazily."""
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
    """Raise ValueError for strings and numbers, which would all become strings."""
    of_kind: dict[bool, Any] = {}
    for label in labels:
        of_kind.setdefault(isinstance(label, str), label)
    if len(of_kind) > 1:
        raise ValueError(
            "Mix of label input types (string and number) in y: among them are "
            f"{of_kind[True]!r} and {of_kind[False]!r}. Give all blocks of y one type, "
            "y.astype(str) for instance."
        )


def fit(
    estimator: E,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    classes: ArrayLike | None = None,
) -> E:
    """Return an estimator fitted to Dask arrays or DataFrames, block by block.

    A block is read twice: for the statistics that choose the map, then for the sums of
    its features, at each of the sigmas of ridge regression. Once is enough with a fixed
    map, ``FrozenEstimator(sampler)``, and with ``classes``; each scaler of a pipeline
    reads it once more. Statistics and sums are added in a tree of fixed order: two runs
    agree to the last bit whichever worker computes what. They differ from
    ``estimator.fit`` on all the rows by rounding alone, but for ``sigma="median"`` and
    hybrids: blocks of unknown lengths (those of a DataFrame) have another sample of the
    rows.

    Parameters
    ----------
    estimator : sampler, averages, ridge, LearnedMetric or Pipeline
        Left as it is. Averages (NadarayaWatsonClassifier, NadarayaWatsonRegressor) have
        as kernel, and ridge regression (RandomFeatureRidge,
        RandomFeatureRidgeClassifier) has as sampler, ``"linear"``, a sampler of this
        package, or any transformer in a ``FrozenEstimator``. ``LearnedMetric`` learns
        by ``"agop"``, which ``"auto"`` is here too: about 4 million entries of X, drawn
        from all blocks, fix the frequencies, and the sums are those of all rows. A
        pipeline ends in one of these; before it may stand ``StandardScaler``,
        ``MinMaxScaler``, ``MaxAbsScaler``, or any transformer in a ``FrozenEstimator``.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows, in blocks of any lengths; blocks of columns are joined.
    y : dask collection or array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels, or numbers; not looked at by samplers.
    sample_weight : dask collection or array-like of shape (n_samples,), default=None
        Non-negative weights; of a pipeline, for its last step.
    classes : array-like of shape (n_classes,), default=None
        All the labels, sorted or not; read from y where they are None.

    Returns
    -------
    estimator : estimator
        Fitted, of the same class: it predicts, pickles and merges as any other.

    Raises
    ------
    TypeError
        If X is in memory, or the estimator keeps rows (``ExactKernel``, the default
        kernel, ``Prototypes`` and ``CentersRBFSampler``) or searches by
        cross-validation, or a step of a pipeline needs all rows.
    ValueError
        If a parameter, X, y or a weight is out of range, a block has other columns than
        its collection declares, or blocks have labels of two types.

    See Also
    --------
    map_rows : Lazy features and predictions.

    Notes
    -----
    Computed by the scheduler in use, a ``distributed.Client`` where there is one.
    Columns are of one floating type: DataFrames of strings or categories raise.

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
    """Raise TypeError for a step that cannot be fitted from sums over blocks."""
    for name, step in pipeline.steps[:-1]:
        if not (step in (None, "passthrough") or isinstance(step, _AHEAD)):
            raise TypeError(
                f"Step {name!r} of the pipeline, {step!r}, cannot be fitted block by "
                "block: before the last step may stand StandardScaler, MinMaxScaler, "
                "MaxAbsScaler and FrozenEstimator. Fit it to a sample of the rows, and "
                "give FrozenEstimator of it."
            )


def _fit_scaler(scaler, X, ahead):
    """Return a scaler fitted to one block after another."""
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
    # a copy, as the result of another task must not be modified
    return copy.deepcopy(scaler).partial_fit(X) if X.shape[0] else scaler


def _fit_sampler(sampler, tables, ahead, classes):
    X, y, sample_weight = tables
    found = read_statistics(sampler, Blocks(X, y, sample_weight, ahead)).compute()
    return with_statistics(sampler, _or_raise(found, sample_weight))


def _instead(estimator):
    if isinstance(estimator, CentersRBFSampler):
        return (
            "CentersRBFSampler chooses centres among rows that it keeps, and blocks "
            "exchange none: fit it to a sample of the rows in memory, then "
            "map_rows(sampler.transform, X)."
        )
    if hasattr(estimator, "cv"):
        return (
            "A search scores folds of rows that are in memory: run it on a sample of "
            "the rows, and give best_estimator_ here."
        )
    return "Other estimators are for dask-ml, or for partial_fit block by block."


def _fit_sums(model, tables, ahead, classes):
    X, y, sample_weight = tables
    check_params(model)
    transformer = transformer_of(model)
    if y is None:
        raise ValueError(f"{type(model).__name__} needs y, its targets.")
    blocks = Blocks(X, y, sample_weight, ahead)
    sampler = _fitted_sampler(model, transformer, blocks, sample_weight, classes)
    shell = dask.delayed(model, pure=False, traverse=False)
    source = dask.delayed(sampler, pure=False, traverse=False)
    add_up = dask.delayed(_add_up, pure=False)
    tables = blocks.select("X", "y", "sample_weight")
    parts = [add_up(shell, source, blocks.layout, *pair) for pair in enumerate(tables)]
    found = _or_raise(tree_sum(operator.add, parts).compute(), sample_weight)
    value = found.value.with_map_of(sampler).frozen()
    return finished(model, value, found.noted)


def _fitted_sampler(model, transformer, blocks, sample_weight, classes):
    """Return the fitted sampler or transformer of a model, and set its labels."""
    fixed = transformer is None or isinstance(transformer, FrozenEstimator)
    sampler = transformer if fixed else clone(transformer)
    if not (fixed or isinstance(sampler, BaseFeatureSampler)):
        raise TypeError(
            f"{sampler!r} has no statistics that blocks could exchange. Fit it "
            "to a sample of the rows, and give FrozenEstimator(sampler)."
        )
    found = None if fixed else read_statistics(sampler, blocks)
    if not is_classifier(model):
        if classes is not None:
            raise ValueError("classes= is for classifiers.")
        (found,) = dask.compute(found)
    else:
        if classes is not None:
            _check_one_type(np.asarray(classes, dtype=object).tolist())
        given = None if classes is None else np.unique(classes)
        # in one graph: targets that follow from the rows are computed with them
        found, there = dask.compute(found, labels(blocks) if given is None else None)
        model.classes_ = given if given is not None else _or_raise(there)
    if fixed:
        return sampler
    return with_statistics(sampler, _or_raise(found, sample_weight)).freeze()


def _or_raise(found, sample_weight=None):
    if found is None and sample_weight is not None:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if found is None:
        raise ValueError("Found array with 0 sample(s): all blocks are empty.")
    return found


def _add_up(shell, sampler, layout, number, table):
    """Return the sums of a block, without the map."""
    X, y, weights = _block(layout, number, table)
    if X is None:
        return None
    model, batch = read_rows(shell, X, y, weights)
    value = empty_value(model, batch).with_fixed(sampler)
    value = blas_within_processors(batch.X.shape[0])(value.plus, batch)
    return FittedPart(value.without_map(), columns_of(model))


@dataclass(frozen=True)
class PrioritizedRows:
    """Rows of smallest random priority, and attributes that describe the columns."""

    batch: Batch
    priorities: np.ndarray  # (n_rows,)
    columns: dict[str, Any]

    def __add__(self, other: PrioritizedRows) -> PrioritizedRows:
        """Return the rows of smallest priority, as many as a metric keeps."""
        batch = joined_batches([self.batch, other.batch])
        both = np.concatenate([self.priorities, other.priorities])
        size = max(1, KEPT_ENTRIES // batch.X.shape[1])
        least = np.sort(np.argsort(both)[:size])
        X, y, weights = (array[least] for array in batch[:3])
        return PrioritizedRows(Batch(X, y, weights), both[least], self.columns)


def _fit_metric(metric, tables, ahead, classes):
    X, y, sample_weight = tables
    check_params(metric)
    if not hasattr(metric, "partial_fit"):
        raise TypeError(
            f"{metric!r} needs all rows at once, and blocks exchange none. Give "
            "method='agop', or fit it to a sample of the rows in memory."
        )
    if y is None:
        raise ValueError("LearnedMetric needs y, its targets.")
    blocks = Blocks(X, y, sample_weight, ahead)
    tables = blocks.select("X", "y", "sample_weight")
    shell = dask.delayed(metric, pure=False, traverse=False)
    read = dask.delayed(_rows_with_priorities, pure=False)
    drawn = [read(shell, blocks.layout, *pair) for pair in enumerate(tables)]
    found = _or_raise(tree_sum(operator.add, drawn).compute(), sample_weight)
    # integers of a block may be few where those of all blocks are counts
    X, y, weights = found.batch[:3]
    are_counts = y.dtype.kind in "fiu" and not are_labels(y)
    batch = Batch(X, y.astype(float) if are_counts else y, weights)
    noted = {**found.columns, "_are_counts": are_counts}
    model = with_value(metric, None, noted)
    value = empty_value(model, batch).plus(batch).frozen()
    if value.fixed_sums is None:  # nothing differs that could be learned from
        return with_value(model, value)
    shell = with_value(model, value.emptied())
    shell = dask.delayed(shell, pure=False, traverse=False)
    add_up = dask.delayed(_add_metric, pure=False)
    parts = [add_up(shell, blocks.layout, *pair) for pair in enumerate(tables)]
    total = tree_sum(operator.add, parts).compute()
    return with_value(model, total.value, total.noted)


def _rows_with_priorities(shell, layout, number, table):
    """Return the rows of a block with random priorities, or None for an empty block."""
    X, y, weights = _block(layout, number, table)
    if X is None:
        return None
    model, batch = read_rows(shell, X, y, weights)
    priorities = np.random.default_rng(number).random(len(batch.y))
    return PrioritizedRows(batch, priorities, columns_of(model))


def _add_metric(shell, layout, number, table):
    """Return the sums of the features of a block at frequencies fixed before."""
    X, y, weights = _block(layout, number, table)
    if X is None:
        return None
    model = copy.copy(shell).partial_fit(X, y, weights)
    return FittedPart(value_of(model), columns_of(model))


def _block(layout, number, table):
    """Return the rows, targets and weights of a block, or None if it has no rows."""
    X, y, sample_weight = table
    X = layout.read(number, X=X, y=y)
    weights = None if sample_weight is None else np.asarray(sample_weight)
    if X.shape[0] == 0 or (weights is not None and not weights.any()):
        return None, None, None
    return X, plain_targets(y), weights
