"""Warnings of the package, to be filtered as one."""

from __future__ import annotations

__all__ = ["ApproximationWarning"]


def __dir__() -> list[str]:
    return __all__


class ApproximationWarning(RuntimeWarning):
    """Random features are too few, or a float type too short, for a reliable result.

    All warnings about the quality of an approximation are of this class: features that
    estimate the kernel poorly, predictions whose kernel weights vanish, features that
    under- or overflow, and phases that the float type does not resolve. A query raises
    it at most once, with the number of rows that are affected. A grid search over
    ``sigma`` tries values for which such warnings are expected; this class lets you
    silence them without hiding other warnings.

    See Also
    --------
    sklearn_crt.NadarayaWatsonClassifier : Has ``approximation_error``.
    sklearn_crt.compare_samplers : The errors of several samplers on your rows.

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
