"""The warning class of the package, with which all warnings can be filtered."""

from __future__ import annotations

__all__ = ["ApproximationWarning"]


def __dir__() -> list[str]:
    return __all__


class ApproximationWarning(RuntimeWarning):
    """Warning that an approximation by random features or a result may be inaccurate.

    All warnings about the quality of an approximation belong to this class: features
    that estimate the kernel poorly, predictions whose kernel weights vanish, features
    that overflow or underflow, and phases that are too large for the floating type. A
    query raises it at most once, with the number of affected rows. In a grid search
    over ``sigma``, such warnings are expected for some values. With this class you can
    silence them without hiding other warnings.

    See Also
    --------
    sklearn_crt.NadarayaWatsonClassifier : Estimates errors by ``approximation_error``.
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
