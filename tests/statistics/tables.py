"""Tables on which intervals and probabilities are judged.

A function with the decorator ``numbers`` or ``labels`` makes one table: from a random
generator and a number of rows it returns the columns and the targets, and optionally
sample weights, or one group per row. The decorator states the numbers of training rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

N_TEST = 1000  # new rows per draw


@dataclass(frozen=True)
class Table:
    """A kind of table, and the number of its training rows."""

    name: str
    make: Callable[[np.random.Generator, int], tuple]
    n_rows: int
    are_labels: bool
    levels: bool = False  # whether rows repeat a few combinations of values

    def draw(self, seed: int) -> Draw:
        """Return training rows and new rows, with columns scaled by the former."""
        return _drawn(self, seed)


@lru_cache(maxsize=20)  # the estimators of a table follow each other
def _drawn(table: Table, seed: int) -> Draw:
    # no seed of one table is that of another one
    rng = np.random.default_rng([seed, *table.name.encode()])
    X, y, *rest = table.make(rng, table.n_rows + N_TEST)
    n, weights, groups = table.n_rows, None, None
    for each in rest:
        if each.dtype.kind == "f":
            weights = each[:n]
        else:
            groups = each
    mean, spread = X[:n].mean(axis=0), X[:n].std(axis=0)
    Z = (X - mean) / np.where(spread > 0, spread, 1)
    new = slice(n, None)
    if groups is not None:  # new rows are those of new groups
        new = n + np.flatnonzero(~np.isin(groups[n:], groups[:n]))
        groups = groups[:n]
    return Draw(Z[:n], y[:n], Z[new], y[new], weights, groups, table.levels)


@dataclass(frozen=True, eq=False)
class Draw:
    """Training rows and new rows."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    weights: np.ndarray | None
    groups: np.ndarray | None
    levels: bool

    @property
    def fit_params(self) -> dict[str, Any]:
        """The arguments of ``fit`` in addition to X and y."""
        given = {"sample_weight": self.weights, "groups": self.groups}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def n_effective(self) -> float:
        """The number of independent training rows."""
        if self.groups is not None:
            return len(np.unique(self.groups))
        if self.weights is not None:
            return self.weights.sum() ** 2 / (self.weights**2).sum()
        return len(self.y)


TABLES: dict[str, Table] = {}


def _table(are_labels: bool, sizes: tuple[int, ...], levels: bool = False) -> Any:
    def add(make: Callable) -> Callable:
        title = make.__name__.replace("_", " ")
        for n in sizes:
            name = f"{title} {n}"
            TABLES[name] = Table(name, make, n, are_labels, levels)
        return make

    return add


def numbers(*sizes: int, levels: bool = False) -> Any:
    """Register a table with numeric targets, for these numbers of training rows."""
    return _table(False, sizes, levels)


def labels(*sizes: int, levels: bool = False) -> Any:
    """Register a table with the labels 0 and 1, or more classes."""
    return _table(True, sizes, levels)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def columns_for(n_rows: int) -> int:
    """Return a number of columns for small and large tables."""
    return {20: 3, 40: 5, 50: 20, 200: 40}.get(n_rows - N_TEST, 10)


def draw_labels(rng, p):
    return (rng.random(len(p)) < p).astype(int)


# ------------------------------------------------------------------- numeric targets
@numbers(20, 40, 50, 200, 800)
def noise(rng, n):
    return rng.normal(size=(n, columns_for(n))), rng.normal(size=n)


@numbers(20, 40, 50, 200, 800)
def weak(rng, n):
    X = rng.normal(size=(n, columns_for(n)))
    return X, 0.25 * X[:, 0] + rng.normal(size=n)


@numbers(20, 40, 50, 200, 800)
def smooth(rng, n):
    X = rng.normal(size=(n, columns_for(n)))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n)


@numbers(60)
def wide(rng, n):
    X = rng.normal(size=(n, 200))
    return X, X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)


@numbers(60, 300)
def heavy_tails(rng, n):
    X = rng.normal(size=(n, 4))
    return X, X[:, 0] + 0.5 * rng.standard_t(3, size=n)


@numbers(300, 1000, levels=True)
def ten_levels(rng, n):
    x = rng.integers(0, 10, (n, 1)).astype(float)
    return x, (x[:, 0] % 2) * 2 - 1 + 0.3 * rng.normal(size=n)


@numbers(600, levels=True)
def seven_by_seven(rng, n):
    x = rng.integers(0, 7, (n, 2)).astype(float)
    return x, np.sin(x[:, 0]) * x[:, 1] + 0.3 * rng.normal(size=n)


@numbers(500)
def counts(rng, n):
    X = rng.normal(size=(n, 4))
    return X, rng.poisson(np.exp(0.5 * X[:, 0] + 0.5)).astype(float)


@numbers(400, 3000)
def half_zeros(rng, n):
    X = rng.normal(size=(n, 4))
    X[rng.random(n) < 0.5] = 0
    return X, X[:, 0] + 0.3 * rng.normal(size=n)


@numbers(400, 3000)
def half_zeros_target_zero(rng, n):
    X = rng.normal(size=(n, 4))
    zero = rng.random(n) < 0.5
    X[zero] = 0
    return X, np.where(zero, 0, X[:, 0] + 0.3 * rng.normal(size=n))


@numbers(100, 600)
def importance_weights(rng, n):
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, y, rng.exponential(size=n)


@numbers(600)
def weights_of_five(rng, n):
    X = rng.normal(size=(n, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)
    return X, y, np.where(rng.random(n) < 0.3, 5.0, 1.0)


@numbers(300, 1000)
def noise_that_grows(rng, n):
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + np.exp(X[:, 1] / 2) * 0.5 * rng.normal(size=n)


@numbers(1000)
def sentinels(rng, n):
    X = rng.normal(size=(n, 4))
    X[rng.random(X.shape) < 0.05] = -999999.0
    y = np.where(X[:, 0] > -1e4, np.sin(2 * X[:, 0]), 1.0)
    return X, y + 0.2 * rng.normal(size=n)


@numbers(1500)
def trend(rng, n):
    X = rng.normal(size=(n, 5))
    return X, 3 * X[:, 0] + rng.normal(size=n)


@numbers(400)
def random_intercepts(rng, n):
    groups = np.arange(n) // 10
    x = rng.normal(size=(n, 1)) + 2 * rng.normal(size=(n, 4))[groups]
    X = np.c_[x, rng.normal(size=(n, 2))]
    return X, X[:, -1] + rng.normal(size=n)[groups] + 0.5 * rng.normal(size=n), groups


# --------------------------------------------------------------------------- classes
@labels(40, 200, 1000)
def noise_labels(rng, n):
    d = {40: 5, 200: 10}.get(n - N_TEST, 60)
    return rng.normal(size=(n, d)), draw_labels(rng, np.full(n, 0.3))


@labels(40, 200, 1000)
def weak_labels(rng, n):
    X = rng.normal(size=(n, {40: 5, 200: 10}.get(n - N_TEST, 60)))
    return X, draw_labels(rng, sigmoid(0.5 * X[:, 0] - 0.5))


@labels(300)
def three_classes(rng, n):
    X = rng.normal(size=(n, 6))
    score = np.c_[X[:, 0], X[:, 1], np.zeros(n)] + rng.gumbel(size=(n, 3))
    return X, score.argmax(axis=1)


@labels(200)
def labels_of_groups(rng, n):
    """All rows of a group have the same label, and the groups are independent."""
    groups, n_groups = np.arange(n) // 5, n // 5
    X = rng.normal(size=(n_groups, 3))[groups] + 0.1 * rng.normal(size=(n, 3))
    return X, draw_labels(rng, np.full(n_groups, 0.4))[groups], groups


@labels(3000)
def one_in_two_hundred(rng, n):
    X = rng.normal(size=(n, 5))
    return X, draw_labels(rng, sigmoid(1.5 * X[:, 0] - 6.5))


@labels(2000, levels=True)
def four_by_four_by_four(rng, n):
    X = rng.integers(0, 4, (n, 3))
    p = sigmoid(1.5 * rng.normal(size=64))
    return X.astype(float), draw_labels(rng, p[X @ [16, 4, 1]])


@labels(300, 1000, levels=True)
def five_bits(rng, n):
    X = rng.integers(0, 2, (n, 5))
    p = sigmoid(2 * rng.normal(size=32))
    return X.astype(float), draw_labels(rng, p[X @ [16, 8, 4, 2, 1]])


@labels(1500)
def weighted_labels(rng, n):
    X = rng.normal(size=(n, 4))
    y = draw_labels(rng, sigmoid(2 * np.sin(2 * X[:, 0])))
    return X, y, np.where(X[:, 0] > 0, 5.0, 1.0)
