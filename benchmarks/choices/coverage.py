"""Tables of the coverage of prediction intervals, with and without covariate shift."""

from functools import partial

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.pipeline import make_pipeline

from sklearn_crt import (
    LearnedMetric,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
    RandomFeatureRidge,
)
from sklearn_crt.inspection import predict_interval

from ..tables import table_of_sets
from .ridge_models import Process, is_inside
from .splits import (
    REGRESSION,
    sets_here,
    shift_along_target,
    some_rows_of,
    split_of,
    splits_of,
)

SHIFTS = "airfoil", "concrete", "parkinsons", "protein", "housing", "elevators"
SHIFTS += "energy", "stock", "wine", "pendulum"
REQUESTED = 0.5, 0.8, 0.9, 0.95, 0.99
NAMES = "local linear", "averages", "ridge", "Gaussian process"
MOST_PROCESS = 500  # rows of which the marginal likelihood is maximised
N_DECILES = 10
FEW_TEST, MORE = 50, 3  # with fewer test rows, so many times as many splits
LENGTH_SCALES = 1e-2, 1e3  # bounds


class ChosenProcess(Process):
    """A Gaussian process whose kernel is chosen on a sample of the rows."""

    def fit(self, X, y):
        """Choose the kernel, with a length scale for each column, and fit."""
        d = X.shape[1]
        kernel = ConstantKernel() * RBF(np.full(d, d**0.5), LENGTH_SCALES)
        few = GaussianProcessRegressor(kernel + WhiteKernel())
        few.fit(*some_rows_of(X, y, MOST_PROCESS, 0))
        self.set_params(kernel=few.kernel_, optimizer=None)
        return super().fit(X, y)


OF_LOCAL_FITS = "Coverage of intervals, local linear regression (%)"
SHIFTED = "Coverage and width of 90 % intervals after a shift"
BY_SIMILARITY = (
    "Coverage of 90 % intervals by similarity to the training rows, local linear "
    "regression (%)"
)


def coverage(splits=3, rows=2000, sets=REGRESSION):
    """Coverage of intervals on twelve tables, by deciles of similarity, and shifted.

    Columns and targets standardised; at most so many training and test rows of fixed
    splits, and three times as many of tables with fewer than 50 test rows.
    Kernel averages and local linear regression follow a learned metric, ridge
    regression and the Gaussian process have all columns. The kernel of the process is a
    constant times RBF with a length scale for each column, chosen on at most 500 rows,
    plus noise. First the percentages of test targets inside the intervals of local
    linear regression, and the interval score at 90 % (the width plus twenty times what
    a target is outside by), in deviations of the targets. Then the percentages at 90 %
    in the tenths of the test rows of a table that are least to most similar to the
    training rows by ``score_samples``. Last the percentages at 90 %, and the median
    widths, where the training rows are those below the median of the column that is
    most correlated with the target, at most 1500, and the test rows the others.
    """
    inside, scores, deciles, shifted = {}, {}, {}, {}
    for name, first in sets_here(sets, partial(split_of, split=0)):
        n_splits = splits * (MORE if len(first[-1]) < FEW_TEST else 1)
        tables = splits_of(split_of, n_splits)(name)
        found = [_scores(table, rows) for table in tables]
        inside[name], scores[name], deciles[name] = (
            np.nanmean(part, axis=0) for part in zip(*found, strict=True)
        )
    shifts = [name for name in SHIFTS if name in sets]
    for name, table in sets_here(shifts, shift_along_target):
        shifted[name] = _shift_scores(*table)
    requested = [f"{100 * level:.0f} %" for level in REQUESTED]
    columns = [f"{name}, {what}" for name in NAMES for what in ("inside", "width")]
    tenths = [str(k + 1) for k in range(N_DECILES)]
    return [
        table_of_sets(OF_LOCAL_FITS, requested, inside, 1),
        table_of_sets("Interval score of 90 % intervals", NAMES, scores, 2),
        table_of_sets(BY_SIMILARITY, tenths, deciles, 0),
        table_of_sets(SHIFTED, columns, shifted, 2),
    ]


def _models():
    metric = LearnedMetric(random_state=0)
    return {
        "local linear": make_pipeline(metric, LocalLinearRegressor()),
        "averages": make_pipeline(metric, NadarayaWatsonRegressor()),
        "ridge": RandomFeatureRidge(random_state=0),
        "Gaussian process": ChosenProcess(),
    }


def _scores(table, rows):
    """Return percentages inside, interval scores, and percentages by similarity."""
    X, y, X_test, y_test = table
    X, y = some_rows_of(X, y, rows, 1)
    X_test, y_test = some_rows_of(X_test, y_test, rows, 1)
    scores, inside, deciles = [], None, None
    for name, model in _models().items():
        model.fit(X, y)
        if name == "local linear":
            known = [
                is_inside(predict_interval(model, X_test, coverage=c), y_test)
                for c in REQUESTED
            ]
            inside = 100 * np.mean(known, axis=1)
            similar = model[-1].score_samples(model[:-1].transform(X_test))
            tenth = np.argsort(np.argsort(similar, kind="stable")) * N_DECILES
            tenth //= len(y_test)
            at_90 = known[REQUESTED.index(0.9)]
            deciles = [
                100 * at_90[tenth == k].mean() if np.any(tenth == k) else np.nan
                for k in range(N_DECILES)
            ]
        low, high = predict_interval(model, X_test, coverage=0.9).T
        outside = np.maximum(low - y_test, 0) + np.maximum(y_test - high, 0)
        scores.append(np.mean(high - low + 20 * outside))
    return inside, scores, deciles


def _shift_scores(X, y, X_test, y_test):
    """Return the percentage inside and the median width of each model."""
    found = []
    for model in _models().values():
        ends = predict_interval(model.fit(X, y), X_test, coverage=0.9)
        found.append(100 * is_inside(ends, y_test).mean())
        found.append(np.median(ends[:, 1] - ends[:, 0]))
    return np.array(found)
