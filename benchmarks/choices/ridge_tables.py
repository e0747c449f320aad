"""Tables of ridge on random features beside other models, and its time by rows."""

import sys
import time
from functools import partial

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from tqdm import tqdm

from sklearn_crt import RandomFeatureRidge

from ..tables import Table, interleave
from .ridge_models import (
    LEVELS,
    Results,
    classifiers,
    label_results,
    number_results,
    regressors,
    shifted_regressors,
)
from .splits import RARE, REGRESSION, labels_of, shift_of, split_of

LABELS = "cmc", "letter", "phoneme", "wifi", "yeast"
KINDS = {  # the rows, the candidates, and what is measured
    "splits": (split_of, regressors, number_results),
    "shift": (shift_of, shifted_regressors, number_results),
    "labels": (labels_of, classifiers, label_results),
}
BASE = "boosting"
SHOWN = ", ".join(f"{100 * level:.0f}" for level in LEVELS)
INSIDE = f"Coverage of intervals of {SHOWN} % (%)"
TIMED = 10_000, 100_000, 1_000_000  # rows


def ridge_tables(splits=3, seeds=2, sets=(*REGRESSION, *LABELS, *RARE), cache=""):
    """Ridge on random features beside other models: errors, intervals, probabilities.

    Twelve regression tables with fixed splits (at most 8000 training and 2000 test
    rows), columns and targets standardised by the training rows. Everything is as
    constructed, except for support vectors and kernel ridge, whose penalty and width
    are chosen by three folds, on at most 2000 training rows, and the Gaussian process,
    which has a length scale per column and takes at most 1000. Ratios are geometric
    means. Then covariate shift: the rows below the median of a column for training (at
    most 3000), those above it for the test, in turn for the columns with the most
    distinct values. At last log losses on tables of labels (at most 5000 rows, 70 % of
    them for training), and on tables with 2 % positives (at most 8000 rows).

    With --cache the results are also written to a file, from which those of all models
    without RandomFeatureRidge are read the next time.
    """
    measured = partial(_measured, splits, seeds, Results(cache))
    numbers = [name for name in REGRESSION if name in sets]
    found = measured("splits", numbers)
    tables = [*_accuracy(found), *_shift(measured("shift", numbers))] if found else []
    for title, names in (
        ("Ordinary data sets", LABELS),
        ("Data sets with 2 % positives", RARE),
    ):
        found = measured("labels", [name for name in names if name in sets])
        tables += _probabilities(title, found) if found else []
    return tables


def _measured(splits, seeds, results, kind, names):
    """Return {model: {table: [results of a split and a seed, ...]}}."""
    rows_of, candidates_of, measure = KINDS[kind]
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
                    if seed > 0 and not candidate.seeded:
                        value = results[key]
                    else:
                        run = partial(measure, candidate, split, *rows)
                        value = results.get(key, candidate, run)
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


def _probabilities(title, found):
    return [
        _over(f"{title}: log loss divided by that of {BASE}", found, "loss", digits=3),
        _means(f"{title}: log loss", found, "loss", 3),
        _means(f"{title}: area under the ROC curve (%)", found, "auc", 1, scale=100),
        _means(f"{title}: processor seconds", found, "seconds", 1),
    ]


def ridge_time(rows=TIMED, repeats=3):
    """Processor time of ridge on random features and of boosting, by rows.

    Ten columns, one thread, everything as constructed: seconds of fit, microseconds of
    predict for each of 10,000 rows.
    """
    lines = []
    for n in tqdm(rows, file=sys.stderr):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, 10))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
        models = {
            "ridge": RandomFeatureRidge(random_state=0),
            "boosting": HistGradientBoostingRegressor(),
        }
        fits = {name: partial(model.fit, X, y) for name, model in models.items()}
        fit = interleave(fits, repeats, time.process_time)
        queries = rng.standard_normal((10_000, 10))
        asked = {name: partial(m.predict, queries) for name, m in models.items()}
        predict = interleave(asked, repeats, time.process_time)
        cells = [f"{fit[name]:.2f}" for name in models]
        cells += [f"{1e6 * predict[name] / len(queries):.1f}" for name in models]
        lines.append([f"{n}", *cells])
    columns = [f"{name}, {what}" for what in ("fit s", "predict µs") for name in models]
    return [
        Table(
            "Processor time of ridge regression and gradient boosting",
            ["rows", *columns],
            lines,
        )
    ]
