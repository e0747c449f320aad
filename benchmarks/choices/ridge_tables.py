"""Tables of ridge on random features beside other models."""

from functools import partial
from itertools import product

import numpy as np

from ..tables import MEAN, Table, geometric_mean, table_of_sets
from .ridge_models import (
    LEVELS,
    MOST,
    UNSEEDED,
    regressors,
    results_of,
    shifted_regressors,
)
from .splits import REGRESSION, sets_here, shift_of, split_of, splits_of

BASE = "boosting"
LARGEST = {"largest": partial(np.max, axis=0)}
SHOWN = ", ".join(f"{100 * level:.0f}" for level in LEVELS)
INSIDE = f"Coverage of intervals of {SHOWN} % (%)"


def ridge_tables(splits=3, seeds=2, sets=REGRESSION):
    """Ridge on random features beside other models: errors, intervals, shifts.

    Twelve regression tables with fixed splits (at most 8000 training and 2000 test
    rows), columns and targets standardised by the training rows. Everything is as
    constructed, except for support vectors and kernel ridge, whose penalty and width
    are chosen by three folds, on at most 2000 training rows, and the Gaussian process,
    which has a length scale per column and takes at most 1000. Ratios are geometric
    means. Then covariate shift: the rows below the median of a column for training (at
    most 3000), those above it for the test, in turn for the columns with the most
    distinct values.
    """
    found = _measured(split_of, regressors, sets, splits, seeds)
    shifted = _measured(shift_of, shifted_regressors, sets, splits, seeds)
    return [*_accuracy(found), *_shift(shifted)]


def _measured(rows_of, models_of, names, splits, seeds):
    """Return {table: {model: [results of a split and a seed, ...]}}."""
    found = {}
    for name, tables in sets_here(names, splits_of(rows_of, splits)):
        found[name] = runs_of = {}
        for split, seed in product(range(splits), range(seeds)):
            rows = tables[split]
            for label, model in models_of(seed, rows[0].shape[1]).items():
                runs = runs_of.setdefault(label, [])
                if seed > 0 and label in UNSEEDED:
                    runs.append(runs[-1])
                else:
                    runs.append(results_of(model, *rows, MOST.get(label), split))
    return found


def _accuracy(found):
    title = "RMSE, divided by the standard deviation of the training targets"
    distance = (
        "Largest distance of a prediction from the range of the training targets, in "
        "percent of the range"
    )
    furthest = 100 * _values(found, "furthest").max(axis=2)
    seconds = _values(found, "seconds").mean(axis=2)
    return [
        _ratios(f"RMSE divided by that of {BASE}", found),
        _table(title, found, _values(found, "rmse").mean(axis=2), 3),
        _table("100 R²", found, 100 * _values(found, "r2").mean(axis=2), 1),
        _coverage(found),
        _table(distance, found, furthest, 1, LARGEST),
        _table("Processor seconds of fit and predict", found, seconds, 1),
    ]


def _ratios(title, found):
    rmse = _values(found, "rmse")
    ratios = np.exp(np.log(rmse / rmse[:, :1]).mean(axis=2))  # the base is the first
    return _table(title, found, ratios, 2, {"geometric mean": geometric_mean} | LARGEST)


def _models(found):
    return next(iter(found.values()))


def _values(found, what):
    """Return an array of (tables, models, splits and seeds)."""
    return np.array(
        [
            [[run[what] for run in runs] for runs in row.values()]
            for row in found.values()
        ]
    )


def _table(title, found, values, digits, summaries=MEAN):
    lines = dict(zip(found, values, strict=True))
    return table_of_sets(title, list(_models(found)), lines, digits, summaries)


def _coverage(found):
    models = [model for model, runs in _models(found).items() if runs[0]["inside"]]
    shares = {
        name: [np.mean([run["inside"] for run in row[m]], axis=0) for m in models]
        for name, row in found.items()
    }
    shares["mean"] = np.mean(list(shares.values()), axis=0)
    rows = [[name, *map(_in_percent, values)] for name, values in shares.items()]
    return Table(INSIDE, ["data set", *models], rows)


def _in_percent(shares):
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def _shift(found):
    far = 100 * _values(found, "far").mean(axis=(0, 2))
    rows = []
    for model, percent in zip(_models(found), far, strict=True):
        inside = [[run["inside"] for run in row[model]] for row in found.values()]
        shares = _in_percent(np.mean(inside, axis=(0, 1)))
        rows.append([model, f"{percent:.1f}", shares])
    columns = [
        "model",
        "percent of predictions outside the range of the targets by over a tenth of it",
        INSIDE,
    ]
    return [
        _ratios(f"RMSE divided by that of {BASE}, under covariate shift", found),
        Table("Means over the data sets under covariate shift", columns, rows),
    ]
