"""Tables of ridge on random features beside other models."""

import sys
from functools import partial

import numpy as np
from tqdm import tqdm

from ..commands import Results
from ..tables import Table
from .ridge_models import (
    LEVELS,
    regressors,
    results_of,
    shifted_regressors,
)
from .splits import REGRESSION, shift_of, split_of

KINDS = {  # the rows, and the candidates
    "splits": (split_of, regressors),
    "shift": (shift_of, shifted_regressors),
}
BASE = "boosting"
SHOWN = ", ".join(f"{100 * level:.0f}" for level in LEVELS)
INSIDE = f"Coverage of intervals of {SHOWN} % (%)"


def ridge_tables(splits=3, seeds=2, sets=REGRESSION, cache=""):
    """Ridge on random features beside other models: errors, intervals, shifts.

    Twelve regression tables with fixed splits (at most 8000 training and 2000 test
    rows), columns and targets standardised by the training rows. Everything is as
    constructed, except for support vectors and kernel ridge, whose penalty and width
    are chosen by three folds, on at most 2000 training rows, and the Gaussian process,
    which has a length scale per column and takes at most 1000. Ratios are geometric
    means. Then covariate shift: the rows below the median of a column for training (at
    most 3000), those above it for the test, in turn for the columns with the most
    distinct values.

    With --cache the results are also written to a file, from which those of all models
    without RandomFeatureRidge are read the next time.
    """
    measured = partial(_measured, splits, seeds, Results(cache))
    found = measured("splits", sets)
    if not found:
        raise SystemExit("No regression data set is on this machine.")
    return [*_accuracy(found), *_shift(measured("shift", sets))]


def _measured(splits, seeds, results, kind, names):
    """Return {model: {table: [results of a split and a seed, ...]}}."""
    rows_of, candidates_of = KINDS[kind]
    found = {}
    for name in tqdm(names, desc=kind, file=sys.stderr):
        try:
            parts = [rows_of(name, split) for split in range(splits)]
        except OSError as error:
            tqdm.write(f"{name} is left out: {error}", file=sys.stderr)
            continue
        for split, rows in enumerate(parts):
            for seed in range(seeds):
                candidates = candidates_of(seed, rows[0].shape[1])
                for model, candidate in candidates.items():
                    key = name, kind, split, seed if candidate.seeded else 0, model
                    run = partial(results_of, candidate, split, *rows)
                    value = results.get(key, run, again=candidate.tested)
                    found.setdefault(model, {}).setdefault(name, []).append(value)
    return found


def _values(found, model, name, what):
    return np.array([run[what] for run in found[model][name]])


def _geometric(values):
    return np.exp(np.mean(np.log(values)))


def _table(title, found, cell, digits, summaries, models=None):
    """Return a table with a row per table and per summary, a column per model."""
    models = list(found) if models is None else models
    names = list(found[models[0]])
    cells = np.array([[cell(model, name) for model in models] for name in names])
    rows = list(zip(names, cells, strict=True))
    if len(names) > 1:
        rows += [(label, function(cells)) for label, function in summaries.items()]
    shown = [[label, *(f"{v:.{digits}f}" for v in values)] for label, values in rows]
    return Table(title, ["data set", *models], shown)


def _columns(function):
    return partial(np.apply_along_axis, function, 0)


MEAN = {"mean": _columns(np.mean)}
RATIOS = {"geometric mean": _columns(_geometric), "largest": _columns(np.max)}


def _means(title, found, what, digits, scale=1.0):
    def cell(model, name):
        return scale * _values(found, model, name, what).mean()

    return _table(title, found, cell, digits, MEAN)


def _over(title, found, what, base=BASE, digits=2):
    def cell(model, name):
        values = _values(found, model, name, what)
        return _geometric(values / _values(found, base, name, what))

    return _table(title, found, cell, digits, RATIOS)


def _accuracy(found):
    def furthest(model, name):
        return 100 * _values(found, model, name, "furthest").max()

    return [
        _over(f"RMSE divided by that of {BASE}", found, "rmse"),
        _means(
            "RMSE, divided by the standard deviation of the training targets",
            found,
            "rmse",
            3,
        ),
        _means("100 R²", found, "r2", 1, scale=100),
        _coverage(found),
        _table(
            "Largest distance of a prediction from the range of the training targets, "
            "in percent of the range",
            found,
            furthest,
            1,
            {"largest": _columns(np.max)},
        ),
        _means("Processor seconds of fit and predict", found, "seconds", 1),
    ]


def _coverage(found):
    models = [m for m in found if all(len(r[0]["inside"]) for r in found[m].values())]
    shares = np.array(
        [
            [_values(found, model, name, "inside").mean(axis=0) for model in models]
            for name in found[BASE]
        ]
    )
    rows = [*zip(found[BASE], shares, strict=True), ("mean", shares.mean(axis=0))]
    rows = [[name, *map(_in_percent, values)] for name, values in rows]
    return Table(INSIDE, ["data set", *models], rows)


def _in_percent(shares):
    return " / ".join(f"{100 * share:.1f}" for share in shares)


def _shift(found):
    title = f"RMSE divided by that of {BASE}, under covariate shift"
    rows = []
    for model, runs in found.items():
        far = np.mean([_values(found, model, name, "far").mean() for name in runs])
        row = [model, f"{100 * far:.1f}"]
        inside = [np.mean([run["inside"] for run in runs[n]], axis=0) for n in runs]
        row.append(_in_percent(np.mean(inside, axis=0)) if len(inside[0]) else "")
        rows.append(row)
    columns = [
        "model",
        "percent of predictions outside the range of the targets by over a tenth of it",
        INSIDE,
    ]
    return [
        _over(title, found, "rmse"),
        Table("Means over the data sets under covariate shift", columns, rows),
    ]
