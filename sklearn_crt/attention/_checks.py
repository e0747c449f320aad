"""Shapes and types of queries, keys and values."""

from __future__ import annotations

from .._arrays import Array, namespace_of


def check_rows(rows: Array, name: str) -> None:
    """Raise where an array holds no rows of real floating numbers.

    Parameters
    ----------
    rows : array of shape (..., n_rows, n_columns)
        Queries, keys or values.
    name : str
        Their name in messages.

    Raises
    ------
    TypeError, ValueError
        If the type or the shape is not allowed.
    """
    namespace_of(rows)
    kind = str(rows.dtype)
    if "float32" not in kind and "float64" not in kind:
        raise TypeError(f"{name} must be float32 or float64, got {rows.dtype}.")
    if rows.ndim < 2 or rows.shape[-2] < 1 or rows.shape[-1] < 1:
        raise ValueError(
            f"{name} must have a shape (..., n_rows, n_columns) without empty axes, "
            f"got {tuple(rows.shape)}."
        )


def check_values(k: Array, v: Array) -> None:
    """Raise where values do not belong to keys.

    Parameters
    ----------
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.

    Raises
    ------
    TypeError, ValueError
        If types or numbers of rows differ.
    """
    check_rows(v, "v")
    if v.dtype != k.dtype:
        raise TypeError(f"k and v must have one type, got {k.dtype} and {v.dtype}.")
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"k and v must have as many rows, got {k.shape[-2]} and {v.shape[-2]}."
        )


def check_attention_inputs(q: Array, k: Array, v: Array, causal: bool) -> None:
    """Raise where queries, keys and values do not fit together.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries.
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.
    causal : bool
        Whether row i sees keys up to i alone, which needs as many queries as keys.

    Raises
    ------
    TypeError, ValueError
        If they do not.
    """
    namespace_of(q, k, v)
    check_rows(q, "q")
    check_rows(k, "k")
    check_values(k, v)
    if q.dtype != k.dtype:
        raise TypeError(f"q and k must have one type, got {q.dtype} and {k.dtype}.")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"q and k must have as many columns, got {q.shape[-1]} and {k.shape[-1]}."
        )
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            "causal=True needs as many queries as keys, got "
            f"{q.shape[-2]} and {k.shape[-2]}; to go on after earlier tokens use "
            "LinearAttentionState."
        )
