"""The statistical contract: intervals and probabilities hold on ordinary tables.

Each cell is an estimator on a table. It is fitted to several draws, and judged by means
over them. A bound allows for what varies between draws, such that the probability that
any cell of an implementation fails that keeps the contract is below ``RISK``. The log
loss of random features is judged unless ``fit`` warned that there are too few of them.

A new estimator is one line in ``estimators.py``, a new table one function in
``tables.py``. The cells of ``SHORT`` run in each test run, with few draws, and all
cells with ``-m slow``.
"""

import numpy as np
import pytest

from .estimators import ESTIMATORS
from .measures import (
    coverage_bounds,
    excess_margin,
    least_error_over_sigma,
    measured,
    total_bounds,
)
from .tables import TABLES

RISK = 1e-6
N_DRAWS, N_DRAWS_SMALL, SMALL = 10, 20, 100  # draws of large and of small tables
N_DRAWS_SHORT = 7  # of either in each test run
MOST_EXCESS = 0.02  # of a log loss over the best reference
CELLS = [
    (estimator, table)
    for table, each in TABLES.items()
    for estimator, kind in ESTIMATORS.items()
    if (kind.classifier if each.are_labels else kind.regressor) is not None
]
SHORT = {
    ("averages", "five bits 300"),
    ("averages", "importance weights 100"),
    ("averages", "labels of groups 200"),
    ("averages", "noise 200"),
    ("averages", "noise labels 40"),
    ("averages", "one in two hundred 3000"),
    ("averages, OPRF", "noise labels 40"),
    ("averages", "ten levels 300"),
    ("local linear", "five bits 300"),
    ("local linear", "ten levels 300"),
    ("local linear", "weak labels 40"),
    ("ridge", "five bits 300"),
    ("ridge", "smooth 40"),
    ("ridge, ANOVA", "noise labels 40"),
    ("ridge, ANOVA", "smooth 20"),
}
LEVEL = RISK / (3 * len(CELLS))  # at most three bounds per cell


def allowed_coverage(table):
    return (0.82, 0.97) if table.n_rows < 40 else (0.87, 0.94)


def allowed_total(table):
    return 1 / 8 if "hundred" in table.name else 0.1


def faults_of_numbers(kind, table, draws):
    """Yield what is outside its bounds, for a regressor."""
    found = [measured(kind.regressor(), draw) for draw in draws]
    coverage = np.mean([each.coverage for each in found])
    least, most = coverage_bounds(found, *allowed_coverage(table), LEVEL)
    if not least <= coverage <= most:
        yield f"coverage {coverage:.3f}, allowed {least:.3f} to {most:.3f}"
    error, margin = np.mean([each.error for each in found]), excess_margin(found, LEVEL)
    most = kind.most_error * np.exp(margin)
    if error > most and kind.selects_only_sigma:
        # useless columns may harm averages more than that, whatever sigma is
        best = [least_error_over_sigma(kind.regressor(), draw) for draw in draws]
        most = max(most, 1.02 * np.mean(best) * np.exp(margin))
    if not error <= most:
        yield f"error {error:.3f} of the reference, allowed {most:.3f}"


def faults_of_labels(kind, table, draws):
    """Yield what is outside its bounds, for a classifier."""
    found = [measured(kind.classifier(), draw) for draw in draws]
    # where random features are too few, ``fit`` has to say so
    if judged := [each for each in found if not each.is_stated]:
        excess = np.mean([each.excess for each in judged])
        most = MOST_EXCESS + excess_margin(judged, LEVEL)
        if not excess <= most:
            yield f"log loss {excess:+.3f} above the reference, allowed {most:+.3f}"
    if any(each.n_effective < table.n_rows for each in found):
        return  # totals refer to the weighted population
    ratios, *bounds = total_bounds(found, allowed_total(table), LEVEL)
    for ratio, least, most in zip(ratios, *bounds):
        if not least <= ratio <= most:
            yield f"total {ratio:.2f} of the events, allowed {least:.2f} to {most:.2f}"


def test_the_short_form_names_cells_of_the_contract():
    assert set(CELLS) >= SHORT


def check(estimator, table, n_draws):
    faults_of = faults_of_labels if table.are_labels else faults_of_numbers
    draws = [table.draw(seed) for seed in range(n_draws)]
    faults = faults_of(ESTIMATORS[estimator], table, draws)
    assert not (faults := list(faults)), "; ".join(faults)


@pytest.mark.parametrize("estimator, table", sorted(SHORT))
def test_statistics_of_few_draws(estimator, table):
    check(estimator, TABLES[table], N_DRAWS_SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("estimator, table", CELLS)
def test_statistics(estimator, table):
    table = TABLES[table]
    check(estimator, table, N_DRAWS_SMALL if table.n_rows < SMALL else N_DRAWS)
