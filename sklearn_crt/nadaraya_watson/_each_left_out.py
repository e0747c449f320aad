r"""Leave-one-out cross-validation of the exact estimator in closed form.

The prediction for a row from all the others is the kernel average without its own term,

.. math:: \hat y_{-i}(x_i) = \frac{\sum_{j \ne i} w_j K(x_i, x_j)\, y_j}
                                  {\sum_{j \ne i} w_j K(x_i, x_j)},

so one pass over the pairs of rows scores all folds, where n fits would be needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.model_selection import LeaveOneOut

from ..rows import Rows, blas_within_processors

_ERRORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg_mean_squared_error": np.square,
    "neg_mean_absolute_error": np.abs,
    "neg_root_mean_squared_error": np.abs,  # of one row
}


def scores_each(model: Any, cv: Any, scoring: Any) -> bool:
    """Return whether ``score_each`` has the scores of a search.

    Parameters
    ----------
    model : NadarayaWatsonClassifier or NadarayaWatsonRegressor
        Unfitted.
    cv : splitter
        Of the search.
    scoring : str, callable or None
        Of the search.

    Returns
    -------
    has : bool
        For the exact estimator and scores that a single row has.
    """
    if not (isinstance(cv, LeaveOneOut) and isinstance(model.sampler, str)):
        return False
    if is_classifier(model):
        return scoring in (None, "accuracy")
    return isinstance(scoring, str) and scoring in _ERRORS


def score_each(
    model: Any,
    X: Rows,
    y: np.ndarray,
    weights: np.ndarray,
    sigmas: Sequence[float | str],
    scoring: str | None,
) -> np.ndarray:
    """Return the scores of all folds of one row, for each sigma.

    Parameters
    ----------
    model : NadarayaWatsonClassifier or NadarayaWatsonRegressor
        Unfitted, with sampler "exact".
    X : ndarray or CSR of shape (n_samples, n_features)
        The rows.
    y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Their targets.
    weights : ndarray of shape (n_samples,)
        Their weights, positive.
    sigmas : sequence of float
        The candidates, numbers.
    scoring : str or None
        As ``scores_each`` allows it.

    Returns
    -------
    scores : ndarray of shape (n_samples, n_sigmas)
        As those of n fits.
    """
    targets = model._check_targets(y, first=True, final=True)
    model._add_targets(targets, weights, first=True)
    engine = model.set_params(sigma=sigmas[0])._make_engine()
    engine.add(X, targets, weights)
    scores = np.empty((weights.size, len(sigmas)))
    with blas_within_processors(weights.size):
        for rows, path in engine.left_out(sigmas):
            for k, sums in enumerate(path):
                if is_classifier(model):
                    found = _codes(model, sums.scores, targets[rows], weights[rows])
                    scores[rows, k] = found == targets[rows]
                else:
                    found = _means(model, sums.scores, targets[rows], weights[rows])
                    errors = _ERRORS[str(scoring)](found - targets[rows])
                    scores[rows, k] = -errors.mean(axis=1)
    return scores


def _codes(model, sums, codes, weights):
    """Return codes of largest score, of the prior of the others where there is none."""
    best = np.argmax(sums, axis=1)
    empty = np.flatnonzero(~np.any(sums > 0, axis=1))
    if empty.size:
        counts = np.tile(model.class_count_, (empty.size, 1))
        counts[np.arange(empty.size), codes[empty]] -= weights[empty]
        best[empty] = np.argmax(counts, axis=1)
    return best


def _means(model, sums, y, weights):
    """Return averages, the mean of the others where all kernel weights vanish."""
    seen, own = model._seen, weights[:, None].astype(np.float64)
    others = (seen.weight * seen.mean - own * y) / (seen.weight - own)
    found = sums[:, -1:] > 0
    return np.where(found, sums[:, :-1] / np.where(found, sums[:, -1:], 1), others)
