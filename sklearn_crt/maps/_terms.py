"""Sums of maps are concatenations; products of maps are row-wise outer products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._base import LogFeatures


class Term(NamedTuple):
    """Columns of a base map, times those of a coefficient map or a constant.

    Attributes
    ----------
    base : int
        Index of the base map.
    coefficient : int or None
        Index of the coefficient map; None for a constant.
    scale : float
        Factor of the columns of both sides.
    key_sign : int
        Further factor of the key side, 1 or -1: what an imaginary factor on both sides
        amounts to.
    columns : slice
        Its columns.
    n_outer : int
        Number of columns of the coefficient map, 1 without.
    """

    base: int
    coefficient: int | None
    scale: float
    key_sign: int
    columns: slice
    n_outer: int


def terms_of(
    constants: Sequence[float], n_coefficients: Sequence[int], n_bases: Sequence[int]
) -> list[Term]:
    r"""Return the terms of a sum of products.

    .. math:: \sum_k \lambda_k K_k + (1 - \sum_k \lambda_k) K_{last}, \qquad
       \lambda_k = a_k + r_{1k} \cdot r_{2k}

    Parameters
    ----------
    constants : list of float
        The a_k. Terms with a_k = 0 are left out.
    n_coefficients, n_bases : list of int
        Numbers of columns of the coefficient maps and of the base maps, of which
        there is one more.

    Returns
    -------
    terms : list of Term
        Side by side.
    """
    last, plain = len(n_bases) - 1, [*constants, 1 - sum(constants)]
    wanted: list[tuple[int, int | None, float]]
    wanted = [(base, None, weight) for base, weight in enumerate(plain) if weight != 0]
    for k in range(last):
        wanted += [(k, k, 1.0), (last, k, -1.0)]
    terms, start = [], 0
    for base, coefficient, weight in wanted:
        n_outer = 1 if coefficient is None else n_coefficients[coefficient]
        columns = slice(start, start + n_outer * n_bases[base])
        scale, sign = abs(weight) ** 0.5, 1 if weight > 0 else -1
        terms.append(Term(base, coefficient, scale, sign, columns, n_outer))
        start = columns.stop
    return terms


def write_products(
    terms: Sequence[Term],
    bases: Sequence[np.ndarray | None],
    coefficients: Sequence[np.ndarray | None],
    key: bool,
    out: np.ndarray,
) -> None:
    """Write the features of a sum of products.

    Parameters
    ----------
    terms : list of Term
        The terms.
    bases, coefficients : list of ndarray of shape (n_rows, n_columns) or None
        Features of the parts; None stands for ones.
    key : bool
        Whether they are those of the key side.
    out : ndarray of shape (n_rows, n_components)
        Overwritten.
    """
    for term in terms:
        if term.scale == 0:  # of a feature that may be infinite
            out[:, term.columns] = 0
            continue
        factor = None if term.coefficient is None else coefficients[term.coefficient]
        scale = out.dtype.type(term.scale * (term.key_sign if key else 1))
        if factor is None:
            factor = np.full((1, term.n_outer), scale)
        elif scale != 1:
            factor = factor * scale
        _outer(np.multiply, term, factor, _ones_if_none(bases[term.base], out), out)


def write_exponents(
    terms: Sequence[Term],
    bases: Sequence[np.ndarray | None],
    coefficients: Sequence[np.ndarray | None],
    out: np.ndarray,
) -> None:
    """Write the exponents of the features of a sum of products.

    Parameters
    ----------
    terms : list of Term
        The terms.
    bases, coefficients : list of ndarray or None
        Exponents of the parts, with one column or all; None stands for zeros.
    out : ndarray of shape (n_rows, n_components)
        Overwritten.
    """
    zero = np.zeros((1, 1), out.dtype)
    for term in terms:
        one = None if term.coefficient is None else coefficients[term.coefficient]
        pair = one, bases[term.base]
        factor, base = (zero if part is None else part for part in pair)
        _outer(np.add, term, factor, base, out)


def mantissas(features: Sequence[LogFeatures]) -> list[np.ndarray | None]:
    """Return the mantissas of the features of parts.

    Parameters
    ----------
    features : list of (mantissa, exponent)
        Of the parts.

    Returns
    -------
    mantissas : list of ndarray or None
        The first of each.
    """
    return [mantissa for mantissa, _ in features]


def exponents(features: Sequence[LogFeatures]) -> list[np.ndarray | None]:
    """Return the exponents of the features of parts.

    Parameters
    ----------
    features : list of (mantissa, exponent)
        Of the parts.

    Returns
    -------
    exponents : list of ndarray or None
        The second of each.
    """
    return [exponent for _, exponent in features]


def _ones_if_none(part: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    return np.ones((1, 1), out.dtype) if part is None else part


def _outer(
    operation: np.ufunc,
    term: Term,
    factor: np.ndarray,
    base: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write all products (or sums) of a column of one and a column of the other."""
    part = out[:, term.columns]
    width = part.shape[1] // term.n_outer
    for i in range(term.n_outer):
        column = factor[:, i : i + 1] if factor.shape[1] > 1 else factor
        operation(base, column, out=part[:, i * width : (i + 1) * width])
