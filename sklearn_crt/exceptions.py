"""The warning category of the package, which can be used to filter its warnings."""

from __future__ import annotations

__all__ = ["ApproximationWarning"]
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
