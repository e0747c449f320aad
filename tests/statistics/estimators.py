"""The estimators of the statistical contract: one line for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sklearn_crt as crt


@dataclass(frozen=True)
class Kind:
    """A regressor and a classifier, of which either may be absent."""

    regressor: Callable[[], Any] | None
    classifier: Callable[[], Any] | None
    # Largest root mean square error relative to that of the best of a constant, a
    # linear model and means of levels; larger for distances that count useless columns.
    most_error: float = 1.1
    selects_only_sigma: bool = False


ESTIMATORS = {
    "ridge": Kind(
        lambda: crt.RandomFeatureRidge(random_state=0),
        lambda: crt.RandomFeatureRidgeClassifier(random_state=0),
    ),
    "ridge, ANOVA": Kind(
        lambda: crt.RandomFeatureRidge(crt.AnovaSampler(random_state=0)),
        lambda: crt.RandomFeatureRidgeClassifier(crt.AnovaSampler(random_state=0)),
    ),
    "averages": Kind(
        crt.NadarayaWatsonRegressor,
        crt.NadarayaWatsonClassifier,
        most_error=1.5,
        selects_only_sigma=True,
    ),
    "averages, OPRF": Kind(
        None,
        lambda: crt.NadarayaWatsonClassifier(
            crt.OPRFSampler(n_components=400, random_state=0)
        ),
    ),
    "local linear": Kind(
        crt.LocalLinearRegressor, crt.LocalLinearClassifier, most_error=1.5
    ),
    "metric, local linear": Kind(
        lambda: crt.LocalLinearRegressor(metric=crt.LearnedMetric(random_state=0)),
        lambda: crt.LocalLinearClassifier(metric=crt.LearnedMetric(random_state=0)),
    ),
    "table": Kind(
        lambda: crt.tables.TableRegressor(random_state=0),
        lambda: crt.tables.TableClassifier(random_state=0),
    ),
}
