"""Scores of all sigmas and sizes on one fold, from one product with the frequencies."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
from sklearn.base import clone
from sklearn.metrics import check_scoring

from ..utils._accumulator import ClassWeights, FeatureSums
from ._classifier import NadarayaWatsonClassifier


def score_fold(sampler, X, codes, weights, split, sizes, sigmas, classes, scoring):
    """Return the scores of all candidates on one fold, sizes before sigmas.

    Parameters
    ----------
    sampler : sampler
        Unfitted, with an integer seed.
    X : ndarray or CSR of shape (n_samples, n_features)
        All rows.
    codes : ndarray of int of shape (n_samples,)
        Labels, as indices into ``classes``.
    weights : ndarray of shape (n_samples,)
        Sample weights.
    split : pair of index arrays
        Training and test rows of the fold.
    sizes, sigmas : list
        The candidates.
    classes : ndarray of shape (n_classes,)
        The labels.
    scoring : str, callable or None
        A scorer; None is the accuracy.

    Returns
    -------
    scores : list of float
        One a candidate.
    """
    train, test = (np.arange(codes.size)[part] for part in split)
    train = train[weights[train] > 0]
    fold = _Fold()
    fold.classes_, labels = np.unique(codes[train], return_inverse=True)
    fold._add_targets(labels, weights[train], first=True)
    by_class = np.argsort(labels, kind="stable")
    labels, rows = labels[by_class], train[by_class]

    def encode(chunk):
        part = weights[rows[chunk]]
        return ClassWeights(labels[chunk], part, fold.classes_.size)

    table, rest = {}, sorted(set(sizes))
    while rest:  # once, and again for each odd number of sines and cosines
        first = "median" if "median" in sigmas else sigmas[0]
        sampler = clone(sampler).set_params(n_components=rest[-1], sigma=first)
        sampler.fit(X[train], sample_weight=weights[train])
        path = [sampler.with_sigma(sigma) for sigma in sigmas]
        sums = [FeatureSums() for _ in path]
        for chunk, features in sampler.iter_path(X[rows], path, key=True):
            for total, (mantissa, exponent) in zip(sums, features, strict=True):
                total.add(mantissa, exponent, encode(chunk))
        columns = {size: [member.prefix(size) for member in path] for size in rest}
        rest = [size for size in rest if any(c is None for c in columns[size])]
        ready = {size: c for size, c in columns.items() if size not in rest}
        blocks = _score_path(sampler.iter_path(X[test], path), sums, ready)
        part = X[test], codes[test], weights[test].astype(np.float64)
        score = _accuracy if scoring in (None, "accuracy") else _score
        table |= score(fold, blocks, *part, classes, scoring)
    return [table[size, k] for size in sizes for k in range(len(sigmas))]


def _accuracy(fold, blocks, X, codes, weights, *_):
    """Return the accuracies by size and sigma; keeps no class scores."""
    hits = defaultdict(float)
    for place, rows, block in blocks:
        fold.blocks = [block]
        hits[place] += (fold.predict(None) == codes[rows]) @ weights[rows]
    return {place: total / weights.sum() for place, total in hits.items()}


def _score(fold, blocks, X, codes, weights, classes, scoring):
    """Return the scores of a scorer by size and sigma, from all the class scores."""
    kept, named = defaultdict(list), _Fold()
    for place, _, block in blocks:
        kept[place].append(block)
    named.__dict__.update(fold.__dict__, classes_=classes[fold.classes_])
    options = {} if np.all(weights == 1) else {"sample_weight": weights}
    scorer, table = check_scoring(named, scoring), {}
    for place, named.blocks in kept.items():
        table[place] = scorer(named, X, classes[codes], **options)
    return table


class _Fold(NadarayaWatsonClassifier):
    """A classifier whose class scores on the test rows are known already."""

    def _score_blocks(self, X):
        yield from (
            (None, scores.copy(), log_scale) for scores, log_scale in self.blocks
        )

    def _warn_empty(self, n_rows, instead):
        pass

    def __sklearn_is_fitted__(self):
        return True


def _score_path(chunks, sums, columns):
    """Yield size and place in the path, rows, and their class scores with a scale.

    ``columns[size][k]`` are the columns of a size for a member of the path.
    """
    segments = [
        [
            _as_slice(np.setdiff1d(now, before))
            for before, now in pairwise([[], *(c[k] for c in columns.values())])
        ]
        for k in range(len(sums))
    ]
    for rows, features in chunks:
        for k, (mantissa, exponent) in enumerate(features):
            scored = sums[k].prefix_averages(mantissa, exponent, segments[k])
            for size, block in zip(columns, scored, strict=True):
                yield (size, k), rows, block


def _as_slice(columns):
    """Return a slice for columns that follow each other: it copies nothing."""
    if np.all(np.diff(columns) == 1):
        return slice(columns[0], columns[-1] + 1)
    return columns
