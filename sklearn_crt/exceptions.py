"""The warning categories of the package, which can be used to filter its warnings."""

from __future__ import annotations

__all__ = ["ApproximationWarning", "ColumnWarning"]
__dir__ = __all__.copy  # so that dir() shows only public names


class ApproximationWarning(RuntimeWarning):
    """Warning about results that may be inaccurate because of an approximation.

    It is issued if features estimate the kernel poorly, if the kernel weights of a
    prediction vanish, if features overflow or underflow, and if phases are too large
    for the floating-point dtype. Each method call warns at most once about each
    problem, and the warning reports the number of affected rows.

    In a grid search over ``sigma``, such warnings are expected for some values. Use
    this class to ignore them without hiding other warnings.

    See Also
    --------
    sklearn_crt.NadarayaWatsonClassifier : Its ``approximation_error`` estimates errors.
    sklearn_crt.compare_samplers : Measure the errors of several samplers.

    Examples
    --------
    >>> import warnings
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_crt import NadarayaWatsonClassifier, TrigRBFSampler
    >>> from sklearn_crt.exceptions import ApproximationWarning
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NadarayaWatsonClassifier(TrigRBFSampler(random_state=0))
    >>> search = GridSearchCV(model, {"sigma": [0.3, 1.0, 3.0]})
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", ApproximationWarning)
    ...     search = search.fit(X, y)
    >>> search.best_params_
    {'sigma': 1.0}
    """


class ColumnWarning(UserWarning):
    """Warning about columns of a raw table that are not read as they are written.

    It is issued if text is read as numbers or dates, and reports how many cells of the
    column count as missing values. It is also issued if a column of text consists of
    numbers with other characters, such as ``"$1,200"``, most of which are different,
    and if more than half of the values of a column are categories that were not in the
    training data.

    See Also
    --------
    sklearn_crt.tables.TableRegressor : A model for raw tables.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from sklearn_crt.exceptions import ColumnWarning
    >>> from sklearn_crt.tables import TableRegressor
    >>> power = np.array([f"{x / 10}" for x in range(59)] + ["?"], dtype=object)
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always", ColumnWarning)
    ...     model = TableRegressor(random_state=0).fit(power[:, None], np.arange(60))
    >>> print(found[0].message)
    Column 0 of X contains text that is read as numbers, except for 1 of 60 cells, such
    as '?', which are treated as missing values. Convert the column to numbers or dates,
    or to the type category.
    """
