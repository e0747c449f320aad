"""Sums of parts in an order that does not depend on who is ready first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dask

_BRANCHES = 8  # parts that are added in one task


def tree_sum(add: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Return the sum of parts, each of which may be None.

    Parameters
    ----------
    add : callable
        Returns the sum of two parts, and changes neither: Dask keeps results, and
        computes lost ones anew.
    parts : list of Delayed
        At least one.

    Returns
    -------
    total : Delayed
        Of a shape that follows from their number alone, so that two runs agree to the
        last bit; None where all parts are.
    """
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
