"""Training and test rows: fixed splits, covariate shift, random splits.

Regression tables are files ``ucireg/NAME.csv.gz`` without a header, whose last column
is the target, and ``ucireg/NAME.mask.csv.gz``, which marks the test rows of ten splits,
one per column. They lie in a folder of SKLEARN_CRT_DATA.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

# the tables with fixed splits
REGRESSION = "airfoil", "autos", "concrete", "elevators", "energy", "housing"
REGRESSION += "parkinsons", "pendulum", "protein", "pumadyn32nm", "stock", "wine"
MOST, MOST_TEST = 8000, 2000  # rows of a split
MOST_SHIFTED, MOST_ALONG_TARGET = 3000, 1500


def sets_here(names, rows_of):
    """Yield the data sets on this machine, each with its name and ``rows_of(name)``.

    For the others, a message says which file is missing. If all are missing, the
    program ends with a message instead of an empty table.
    """
    found = False
    for name in tqdm(names, file=sys.stderr):
        try:
            rows = rows_of(name)
        except OSError as error:
            tqdm.write(f"{name} is left out: {error}", file=sys.stderr)
        else:
            found = True
            yield name, rows
    if names and not found:
        raise SystemExit(f"No data set of {', '.join(names)} is on this machine.")


def split_of(name, split):
    """Return X, y, X_test and y_test of a fixed split, all standardised.

    The means and deviations are those of the training rows. Raises OSError if there is
    no file.
    """
    table = read(f"ucireg/{name}.csv.gz")
    test = read(f"ucireg/{name}.mask.csv.gz")[:, split].astype(bool)
    rng = np.random.default_rng(100 + split)
    train = _some(table[~test], MOST, rng)
    test = _some(table[test], MOST_TEST, rng)
    return _standardised(train, test)


def splits_of(rows_of, n_splits):
    """Return a function that returns ``rows_of(name, split)`` for all splits."""
    return lambda name: [rows_of(name, split) for split in range(n_splits)]


def shift_of(name, place):
    """Return rows on both sides of the median of a column, as ``split_of``.

    The columns are those with the most distinct values, the place counts from 0.
    """
    table = read(f"ucireg/{name}.csv.gz")
    distinct = [len(np.unique(column)) for column in table[:, :-1].T]
    column = table[:, np.argsort(distinct, kind="stable")[::-1][place]]
    return _two_sides(table, column, MOST_SHIFTED, place)


def shift_along_target(name):
    """Return rows on both sides of the median of a column, as ``split_of``.

    The column is the one that is most correlated with the target.
    """
    table = read(f"ucireg/{name}.csv.gz")
    varies = table[:, :-1].std(axis=0) > 0
    columns = table[:, :-1][:, varies]
    correlations = np.corrcoef(columns.T, table[:, -1])[-1, :-1]
    column = columns[:, np.abs(correlations).argmax()]
    return _two_sides(table, column, MOST_ALONG_TARGET, 0)


def _two_sides(table, column, most, seed):
    """Return rows with values up to the median of a column, and the other rows."""
    lower, rng = column <= np.median(column), np.random.default_rng(seed)
    train = _some(table[lower], most, rng)
    test = _some(table[~lower], MOST_TEST, rng)
    return _standardised(train, test)


def random_split(X, y, seed, **options):
    """Return X, y, X_test and y_test, columns standardised; 70 % are training rows."""
    parts = train_test_split(X, y, test_size=0.3, random_state=seed, **options)
    X, X_test, y, y_test = parts
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


def some_rows_of(X, y, most, seed):
    """Return at most so many rows and targets."""
    keep = np.random.default_rng(seed).permutation(len(y))[:most]
    return (X, y) if len(y) <= most else (X[keep], y[keep])


def data_file(file):
    """Return the path of a file in the first folder that has it."""
    folders = os.environ.get("SKLEARN_CRT_DATA", "").split(os.pathsep)
    for path in (Path(folder, file) for folder in folders if folder):
        if path.exists():
            return path
    raise OSError(f"SKLEARN_CRT_DATA names no folder with {file}")


def read(file):
    """Return a file of numbers."""
    return np.loadtxt(data_file(file), delimiter=",")


def _some(rows, most, rng):
    return rows[rng.permutation(len(rows))[:most]] if len(rows) > most else rows


def _standardised(train, test):
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]
