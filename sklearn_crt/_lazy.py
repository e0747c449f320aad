"""Tables that are not there yet: what estimators say of collections of Dask."""

from __future__ import annotations

from typing import Any


def is_lazy(table: Any) -> bool:
    """Return whether a table is a collection of Dask, without importing Dask.

    Parameters
    ----------
    table : object
        Anything.

    Returns
    -------
    lazy : bool
        Whether its numbers are still to be computed.
    """
    graph = getattr(table, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def refuse_lazy(estimator: Any, instead: str, *tables: Any) -> None:
    """Raise TypeError for a collection of Dask, which would be loaded as a whole.

    Parameters
    ----------
    estimator : estimator
        Whose method was called.
    instead : str
        The call to make.
    *tables : object
        Arguments of the method.

    Raises
    ------
    TypeError
        If one of the tables is such a collection.
    """
    for table in tables:
        if is_lazy(table):
            kind = f"{type(table).__module__.split('.')[0]} {type(table).__name__}"
            raise TypeError(
                f"{type(estimator).__name__} takes tables in memory, and would load "
                f"all of this {kind}. Call {instead}, which goes block by block; or "
                "compute() it first, where it fits into memory."
            )
