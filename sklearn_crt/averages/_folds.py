"""Scores of all sigmas and sizes on one fold, from one product with the frequencies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring

from .._array import namespace_of, on_host, taken
from .._compat import cached_property, warn
from .._workers import blas_within_processors
from ..maps import iter_path
from ..rows import Rows
from ._exact import ExactKernel
from ._features import (
    N_GROUPS,
    find_cancelling,
    group_columns,
    group_shares,
    split_sums,
    with_error,
)
from ._sums import ClassWeights, FeatureSums, KernelSums


class Candidate(NamedTuple):
    """A point of the grid; None is for what the kernel does not have."""

    n_components: int | None
    sigma: float | str | None

    @property
    def params(self) -> dict[str, Any]:
        """The parameters of the kernel."""
        values = self._asdict().items()
        return {name: value for name, value in values if value is not None}

    def of(self, model: Any) -> Any:
        """Return an estimator, not fitted, whose kernel has these parameters."""
        model = clone(model)
        if self.params:
            model.kernel.set_params(**self.params)
        return model


class Block(NamedTuple):
    """Kernel sums of a candidate on some of the test rows."""

    candidate: Candidate
    rows: slice
    sums: KernelSums


class Part(NamedTuple):
    """Rows of a fold, their targets and their weights."""

    X: Rows
    y: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, whole: tuple[Rows, np.ndarray, np.ndarray], index: np.ndarray) -> Part:
        """Return the part of these rows."""
        return cls(*(taken(values, index) for values in whole))


def score_fold(
    model: Any,
    X: Rows,
    y: np.ndarray,
    weights: np.ndarray,
    split: tuple,
    candidates: Sequence[Candidate],
    scoring: Any,
) -> list[float]:
    """Return the scores of all candidates on one fold.

    They are nan where it cannot be fitted, as in scikit-learn: the other folds go on.
    """
    # X (n_samples, n_features), y (n_samples,) or (n_samples, n_outputs), weights
    # (n_samples,)
    train, test = (np.arange(X.shape[0])[part] for part in split)
    try:
        table = _fold_table(model, (X, y, weights), train, test, candidates, scoring)
    except Exception as error:
        warn(
            f"Fitting a fold failed, and its scores are nan: {error!r}",
            FitFailedWarning,
        )
        table = {}
    return [table.get(candidate, np.nan) for candidate in candidates]


def _fold_table(model, data, train, test, candidates, scoring):
    """Return the score of each candidate, from rows of training and test."""
    train, test = (Part.of(data, rows) for rows in (train, test))
    exact = isinstance(model.kernel, ExactKernel)
    path = hasattr(model.kernel, "with_sigma")
    if not on_host(test.X) or not (exact or path):
        return _each(model, train, test, candidates, scoring)
    train = Part.of(train, np.flatnonzero(train.weights > 0))
    # fitted, but for the kernel sums: these are made for all candidates together
    targets = model._check_targets(train.y, first=True, final=True)
    model._seen = model._statistics_of(targets, train.weights)
    model.n_features_in_ = test.X.shape[1]
    raw, train = train, train._replace(y=targets)
    by_label = is_classifier(model) and scoring in (None, "accuracy")
    sizes, sigmas = (list(dict.fromkeys(values)) for values in zip(*candidates))
    if exact:
        blocks = _exact_blocks(model, train, test.X, sigmas)
    else:
        blocks = _feature_blocks(model, train, test.X, sizes, sigmas, not by_label)
    call = blas_within_processors(data[-1].size)  # in which the blocks are made
    if by_label:
        return call(_accuracies, model, blocks, test)
    return call(_scores, model, blocks, raw, test, scoring)


def _each(model, train, test, candidates, scoring):
    """Return the score of each candidate, each fitted by itself."""
    plain = bool(namespace_of(test.weights).all(test.weights == 1))
    options = {} if plain else {"sample_weight": test.weights}
    table = {}
    for candidate in candidates:
        fitted = candidate.of(model)
        fitted._add(*train, final=True)  # warnings of each candidate would be many
        fitted._engine.quiet = True
        table[candidate] = _score(fitted, scoring, test, options)
    return table


def _exact_blocks(model, train, X, sigmas):
    """Yield the blocks of the exact kernel, its distances taken once."""
    sigma = "median" if "median" in sigmas else sigmas[0]  # which keeps a sample
    engine = clone(model.kernel).set_params(sigma=sigma)._make_engine(model._encoder())
    engine.add(*train)
    numbers = [engine.resolve(sigma) for sigma in sigmas]
    for rows, path in engine.path_sums(X, numbers):
        for sigma, sums in zip(sigmas, path, strict=True):
            yield Block(Candidate(None, sigma), rows, sums)


def _feature_blocks(model, train, X, sizes, sigmas, errors) -> Iterator[Block]:
    """Yield the blocks of a sampler: one product with the frequencies for all."""
    encoder = model._encoder()
    X_train, y, weights = train
    if is_classifier(model):  # sorted by class, one product with a vector per class
        order = np.argsort(y, kind="stable")
        X_train, y, weights = X_train[order], y[order], weights[order]

    def encode(rows):
        if is_classifier(model):
            return ClassWeights(y[rows], weights[rows], encoder.n_averages)
        return encoder.encode(y[rows], weights[rows])

    rest = sorted(set(sizes))
    while rest:  # once, and again for each odd number of sines and cosines
        first = "median" if "median" in sigmas else sigmas[0]
        sampler = clone(model.kernel).set_params(n_components=rest[-1], sigma=first)
        sampler.fit(train.X, sample_weight=train.weights)
        path = [sampler.with_sigma(sigma).map_ for sigma in sigmas]
        sums = [FeatureSums() for _ in path]
        for rows, features in iter_path(path, X_train, key=True):
            targets = encode(rows)
            for k, (mantissa, exponent) in enumerate(features):
                sums[k] = sums[k].with_rows(mantissa, exponent, targets)
        columns = {size: [member.prefix(size) for member in path] for size in rest}
        rest = [size for size in rest if any(c is None for c in columns[size])]
        ready = {size: c for size, c in columns.items() if size not in rest}
        members = [
            Member(total, member.frequency_index(), encoder.weight(total.sums), errors)
            for total, member in zip(sums, path, strict=True)
        ]
        yield from _path_blocks(iter_path(path, X), members, ready, sigmas)


class Member:
    """A map of the path: the sums of its features, and all its sizes."""

    def __init__(self, sums, index, weights, errors):
        self._index, self._n_columns = index, weights.size
        self._plain, self._parted = sums, None
        if errors:
            groups = group_columns(index, weights.size)
            self._parted = sums.with_columns(split_sums(weights, groups))

    def averages(
        self,
        mantissa: np.ndarray | None,
        exponent: np.ndarray | None,
        segments: Sequence[slice | np.ndarray],
    ) -> Iterator[KernelSums]:
        """Yield the kernel sums over the first, the first two, ... segments."""
        if self._parted is None or mantissa is None:
            for found in self._plain.prefix_averages(mantissa, exponent, segments):
                yield KernelSums(*found)
            return
        found = self._parted.prefix_averages(mantissa, exponent, segments)
        columns = np.empty(0, dtype=int)
        for segment, (values, log_scale) in zip(segments, found, strict=True):
            columns = np.append(columns, np.arange(self._n_columns)[segment])
            signed = np.broadcast_to(self._plain.signed, self._n_columns)[columns]
            cancels = find_cancelling(mantissa[:, columns], signed)
            if cancels is None:
                yield KernelSums(values[:, :-N_GROUPS], log_scale)
                continue
            index = None if self._index is None else self._index[columns]
            shares = group_shares(index, columns.size)
            yield with_error(values, log_scale, cancels, shares)


def _path_blocks(chunks, members, columns, sigmas):
    """Yield the blocks of all sizes and sigmas, each feature computed once.

    ``columns[size][k]`` are the columns of a size for a member of the path.
    """
    segments = [
        [
            _as_slice(np.setdiff1d(now, before))
            for before, now in pairwise([[], *(c[k] for c in columns.values())])
        ]
        for k in range(len(members))
    ]
    for rows, features in chunks:
        for k, (mantissa, exponent) in enumerate(features):
            averages = members[k].averages(mantissa, exponent, segments[k])
            for size, sums in zip(columns, averages, strict=True):
                yield Block(Candidate(size, sigmas[k]), rows, sums)


def _as_slice(columns):
    """Return a slice for columns that follow each other: it copies nothing."""
    if np.all(np.diff(columns) == 1):
        return slice(columns[0], columns[-1] + 1)
    return columns


def _accuracies(model, blocks, test):
    """Return the accuracy of each candidate; keeps no class scores."""
    hits: defaultdict[Candidate, float] = defaultdict(float)
    right = np.searchsorted(model.classes_, test.y)  # unknown ones are never hit
    right = np.minimum(right, model.classes_.size - 1)
    right[model.classes_[right] != test.y] = -1
    weights = test.weights.astype(np.float64)
    for candidate, rows, sums in blocks:
        codes = model._best_codes(sums.scores)
        hits[candidate] += (codes == right[rows]) @ weights[rows]
    return {candidate: total / weights.sum() for candidate, total in hits.items()}


def _scores(model, blocks, train, test, scoring):
    """Return the score of each candidate, from all its kernel sums."""
    kept, table = defaultdict(list), {}
    for block in blocks:
        kept[block.candidate].append(block)
    weights = test.weights.astype(np.float64)
    options = {} if np.all(weights == 1) else {"sample_weight": weights}
    for candidate, parts in kept.items():
        unfitted = candidate.of(model)
        model._made_of = unfitted.kernel if candidate.n_components is None else None
        model._engine = KnownSums(parts, unfitted, train)
        table[candidate] = _score(model, scoring, test, options)
    return table


def _score(model, scoring, test, options):
    """Return a score, nan where the scorer raises."""
    scorer = check_scoring(model, scoring)
    try:
        return float(scorer(model, test.X, test.y, **options))
    except Exception as error:
        warn(f"Scoring failed, and this score is nan: {error!r}", UserWarning)
        return np.nan


class KnownSums:
    """An engine whose kernel sums on the test rows are known already."""

    quiet = True  # warnings of each candidate would be many

    def __init__(self, blocks, unfitted, train):
        self._blocks, self._unfitted, self._train = blocks, unfitted, train

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield the test rows and their kernel sums."""
        for _, rows, sums in self._blocks:
            yield rows, sums._replace(scores=sums.scores.copy())

    @cached_property
    def _fitted(self):
        return self._unfitted.fit(*self._train)._engine

    def __getattr__(self, name):  # of scorers that look at the kernel
        return getattr(self._fitted, name)
