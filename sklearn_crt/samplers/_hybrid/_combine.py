"""Sums of maps are concatenations; products of maps are row-wise outer products."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ._base import BaseFeatureSampler


def distinct_rows(sample):
    """Return the distinct rows of a sample and their weights, in an order of their own.

    So what is fitted to them does not depend on the order of the rows of a table, and
    a weight of two is a row that comes twice.
    """
    rows, weights = sample.rows, sample.weights
    if rows.shape[0] == 0:  # all the weights are zero
        return np.zeros((1, rows.shape[1]), rows.dtype), np.ones(1)
    direction = np.random.default_rng(0).standard_normal(rows.shape[1])
    order = np.argsort(rows @ direction, kind="stable")
    rows, weights = rows[order], weights[order]
    changes = rows[1:] != rows[:-1]
    first = np.append(True, np.asarray(changes.sum(axis=1)).ravel() > 0)
    return rows[first], np.add.reduceat(weights, np.flatnonzero(first))


def spread_rows(rows, weights, n_rows, offset):
    """Return n_rows rows at even steps of the cumulated weight, in their order."""
    steps = (np.arange(n_rows) + offset) / n_rows
    cumulated = np.cumsum(weights)
    places = np.searchsorted(cumulated, steps * cumulated[-1])
    return rows[np.minimum(places, rows.shape[0] - 1)]


def fit_part(part, samples, n_components, seed, **params):
    """Return a fitted clone of a sampler, which may be written elsewhere.

    Parameters
    ----------
    part : sampler
        With ``fit``, ``transform`` and, where that is another map, ``transform_key``.
    samples : list of pairs of rows and weights
        Of the queries and, where they differ, of the keys.
    n_components, seed : int
        Its width, or None for its own, and its seed.
    **params
        Further parameters to set where the sampler has them.

    Returns
    -------
    fitted : sampler
        The clone.
    """
    part = clone(part)
    params |= {"random_state": seed}
    if n_components is not None:
        params["n_components"] = n_components
    known = part.get_params(deep=False)
    part.set_params(**{name: value for name, value in params.items() if name in known})
    options, (rows, weights) = {}, samples[0]
    if has_fit_parameter(part, "sample_weight") and np.any(weights != 1):
        options["sample_weight"] = weights
    if len(samples) > 1 and has_fit_parameter(part, "X_key"):
        options["X_key"] = samples[1][0]
    return part.fit(rows, **options)


def width_of(part, rows):
    """Return the number of columns of a fitted sampler."""
    if isinstance(part, BaseFeatureSampler):
        return part.n_components
    return part.transform(rows[:1]).shape[1]


def constant_of(coefficient):
    """Return the constant part of a coefficient, which a sampler may have."""
    return float(getattr(coefficient, "a_", 0.0))


def frequencies_of(parts):
    """Return the projections of the samplers that have one."""
    return [part.projection_ for part in parts if hasattr(part, "projection_")]


def log_features(part, X, key):
    """Return mantissas, which may be a single one, and exponents or None, of a map."""
    ones = np.ones((1, 1), X.dtype)
    if not hasattr(part, "iter_log_features"):
        sides = {True: "transform_key", False: "transform"}
        side = sides[key and hasattr(part, "transform_key")]
        features = getattr(part, side)(X)
        features = features.toarray() if hasattr(features, "toarray") else features
        return np.asarray(features, dtype=X.dtype), None
    chunks = [chunk[1:] for chunk in part.iter_log_features(X, key=key)]
    stacked = []
    for pieces, default in zip(zip(*chunks, strict=True), (ones, None), strict=True):
        if pieces[0] is None:
            stacked.append(default)
        else:
            stacked.append(pieces[0] if len(pieces) == 1 else np.vstack(pieces))
    return tuple(stacked)


class Term(NamedTuple):
    """Columns of a base map, times those of a coefficient map or a constant."""

    base: int
    coefficient: int | None
    scale: float
    key_sign: int  # what an imaginary factor on both sides amounts to
    columns: slice
    n_outer: int  # columns of the coefficient map, 1 without


def terms_of(constants, n_coefficients, n_bases):
    r"""Return the terms of a composition, and its number of columns.

    .. math:: \sum_k \lambda_k K_k + (1 - \sum_k \lambda_k) K_{last}, \qquad
       \lambda_k = a_k + r_{1k} \cdot r_{2k}

    Parameters
    ----------
    constants : list of float
        The a_k. Terms with a_k = 0 are left out.
    n_coefficients, n_bases : list of int
        Numbers of columns of the coefficient maps and of the base maps, of which
        there is one more.
    """
    last, plain = len(n_bases) - 1, [*constants, 1 - sum(constants)]
    terms, start = [], 0

    def add(base, coefficient, weight):
        nonlocal start
        n_outer = 1 if coefficient is None else n_coefficients[coefficient]
        stop = start + n_outer * n_bases[base]
        scale, sign = abs(weight) ** 0.5, 1 if weight > 0 else -1
        columns = slice(start, stop)
        terms.append(Term(base, coefficient, scale, sign, columns, n_outer))
        start = stop

    for base, weight in enumerate(plain):
        if weight != 0:
            add(base, None, weight)
    for k in range(last):
        add(k, k, 1.0)
        add(last, k, -1.0)
    return terms, start


def write_terms(terms, bases, coefficients, key, out):
    """Write the features of a composition to out.

    ``bases`` and ``coefficients`` hold arrays (n_rows, width), or (1, 1) for ones.
    """
    one = np.ones((1, 1), out.dtype)
    for term in terms:
        if term.scale == 0:  # of a feature that may be infinite
            out[:, term.columns] = 0
            continue
        factor = one if term.coefficient is None else coefficients[term.coefficient]
        scale = term.scale * (term.key_sign if key else 1)
        factor = factor * np.asarray(scale, out.dtype)
        _outer(np.multiply, term, factor, bases[term.base], out)


def write_exponents(terms, bases, coefficients, out):
    """Write the exponents of the features; None stands for zeros."""
    zero = np.zeros((1, 1), out.dtype)
    for term in terms:
        one = None if term.coefficient is None else coefficients[term.coefficient]
        pair = (zero if part is None else part for part in (one, bases[term.base]))
        _outer(np.add, term, *pair, out)


def _outer(operation, term, factor, base, out):
    view = out[:, term.columns].reshape(out.shape[0], term.n_outer, -1)
    operation(factor[:, :, None], base[:, None, :], out=view)
