"""Training and test rows: fixed splits, covariate shift, labels, rare labels.

Regression tables are files ``ucireg/NAME.csv.gz`` without a header, whose last column
is the target, and ``ucireg/NAME.mask.csv.gz``, which marks the test rows of ten splits,
one per column. They lie in a folder of SKLEARN_CRT_DATA, as do ``labels/*.csv.gz``.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ..cases import load

# the tables with fixed splits
REGRESSION = "airfoil", "autos", "concrete", "elevators", "energy", "housing"
REGRESSION += "parkinsons", "pendulum", "protein", "pumadyn32nm", "stock", "wine"
MOST, MOST_TEST = 8000, 2000  # rows of a split
MOST_SHIFTED, MOST_ALONG_TARGET = 3000, 1500
MOST_LABELS, MOST_RARE = 5000, 8000
SHARE = 0.02  # of the positives of a rare table
# what is positive, of a table of labels, whose rows are then thinned out to SHARE
RARE = {
    "rare_phoneme": ("phoneme", lambda y: y == 1),
    "rare_letter": ("letter", lambda y: y == "H"),
}


def split_of(name, split):
    """Return X, y, X_test and y_test of a fixed split, all standardised.

    The means and deviations are those of the training rows. Raises OSError if there is
    no file.
    """
    table = _read(f"ucireg/{name}.csv.gz")
    test = _read(f"ucireg/{name}.mask.csv.gz")[:, split].astype(bool)
    rng = np.random.default_rng(100 + split)
    train = _some(table[~test], MOST, rng)
    test = _some(table[test], MOST_TEST, rng)
    return _standardised(train, test)


def shift_of(name, place):
    """Return rows on both sides of the median of a column, as ``split_of``.

    The columns are those with the most distinct values, the place counts from 0.
    """
    table = _read(f"ucireg/{name}.csv.gz")
    distinct = [len(np.unique(column)) for column in table[:, :-1].T]
    column = table[:, np.argsort(distinct, kind="stable")[::-1][place]]
    return _two_sides(table, column, MOST_SHIFTED, place)


def shift_along_target(name):
    """Return rows on both sides of the median of a column, as ``split_of``.

    The column is the one that is most correlated with the target.
    """
    table = _read(f"ucireg/{name}.csv.gz")
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


# files and target columns of tables of numbers and categories, which become one-hot
MIXED = {"churn": ("mlc_churn", "churn"), "hpc": ("hpc_data", "class")}


def labels_of(name, split):
    """Return X, y, X_test and y_test of a table of labels, columns standardised."""
    source, is_positive = RARE.get(name, (name, None))
    rng = np.random.default_rng(split)
    if source == "phoneme":
        table = _read("labels/phoneme.csv.gz")
        X, y = table[:, :-1], table[:, -1]
    elif source in MIXED:
        X, y = _mixed(*MIXED[source])
    else:
        X, y = load(source)
    keep = rng.permutation(len(y))
    if is_positive is None:
        keep = keep[:MOST_LABELS]
    else:
        y = is_positive(y)
        negative = keep[~y[keep]][: round((1 - SHARE) * MOST_RARE)]
        n_positive = round(SHARE / (1 - SHARE) * len(negative))
        keep = np.concatenate([negative, keep[y[keep]][:n_positive]])
    return random_split(X[keep], y[keep], split, stratify=y[keep])


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


def _read(file):
    """Return a file of numbers."""
    return np.loadtxt(data_file(file), delimiter=",")


def _mixed(file, target):
    """Return one-hot columns and labels of a table that has a row of names."""
    import pandas as pd  # for these tables only

    table = pd.read_csv(data_file(f"mixed/{file}.csv.gz")).drop(columns="rownames")
    y = table.pop(target).to_numpy()
    return pd.get_dummies(table).fillna(0).to_numpy(float), y


def _some(rows, most, rng):
    return rows[rng.permutation(len(rows))[:most]] if len(rows) > most else rows


def _standardised(train, test):
    scaler = StandardScaler().fit(train)
    train, test = scaler.transform(train), scaler.transform(test)
    return train[:, :-1], train[:, -1], test[:, :-1], test[:, -1]
