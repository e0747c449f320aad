"""The fitted value of a sampler, and attributes of samplers that read it."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._compat import RandomState
from .._values import check_same_params
from ..arrays.namespaces import type_name
from ..life_cycle.fitted import FittedValue, Step, no_step
from ..maps import FeatureMap
from ..rows import Sigma, Statistics


class SamplerBatch(NamedTuple):
    """Validated queries and keys, and the weights of the queries."""

    X: Any  # (n_rows, n_features)
    X_key: Any = None  # (n_keys, n_features), None if the keys are the rows of X
    weights: Any = None  # (n_rows,)


@dataclass(frozen=True, eq=False)
class SamplerValue(FittedValue):
    """The statistics of the rows, and the feature map that is computed from them."""

    unfitted: Any  # unfitted copy; its parameters stay in effect until the next fit
    statistics: Statistics
    dtype: str = ""  # floating-point dtype of the first rows
    map: FeatureMap | None = None  # None until all blocks of rows have been read
    is_frozen: bool = False

    def read(self, batch: SamplerBatch, n_before: int = 0) -> SamplerValue:
        """Return a copy with the same map whose statistics include additional rows.

        ``n_before`` is the number of preceding rows that are read elsewhere, for
        instance in other blocks.
        """
        sigma = getattr(self.unfitted, "sigma", None)
        median = isinstance(sigma, str) and sigma == "median"
        options = {"median": median, "n_before": n_before, **self.unfitted._reads()}
        statistics = self.statistics.read(*batch, **options)
        dtype = self.dtype or type_name(batch.X)
        return replace(self, statistics=statistics, dtype=dtype)

    def with_map(self, statistics: Statistics | None = None) -> SamplerValue:
        """Return a copy with the map for the given (by default, its own) statistics.

        If this object already has a map, the frequencies of the map are reused,
        provided that their distribution does not depend on the statistics.
        """
        if statistics is None:
            statistics = self.statistics
        made = self.unfitted._make_map(statistics, self.map).astype(self.dtype)
        return replace(self, statistics=statistics, map=made)

    def with_seed(self, random_state: RandomState) -> SamplerValue:
        """Return the result of fitting to the same rows with another seed."""
        seed = Statistics.seeded(random_state).seed
        return replace(self, map=None).with_map(replace(self.statistics, seed=seed))

    def with_sigma(self, sigma: Sigma) -> SamplerValue:
        """Return the result of fitting to the same rows with another sigma."""
        unfitted = unfitted_copy(self.unfitted)
        unfitted.sigma = sigma
        return replace(self, unfitted=unfitted).with_map()

    def parts(self) -> Any:
        """Return the fitted samplers whose maps are parts of a composed map."""
        return self.unfitted._fit_parts(self.statistics)

    def plus(self, batch: SamplerBatch, step: Step = no_step) -> SamplerValue:  # type: ignore[override]
        return self.read(batch).with_map()

    fitted = plus  # type: ignore[assignment]  # skips a call, as fits are frequent

    def __add__(self, other: SamplerValue) -> SamplerValue:
        check_same_params(self.unfitted.get_params(), other.unfitted.get_params())
        statistics = self.statistics + other.statistics
        if self.map is None:
            dtype = np.result_type(self.dtype, other.dtype).name
            return replace(self, statistics=statistics, dtype=dtype)
        return self.with_map(statistics)

    def frozen(self) -> SamplerValue:
        assert self.map is not None
        feature_map = self.unfitted._map_without_rows(self.map)
        seed = Statistics(self.statistics.seed)  # statistics without rows
        return replace(self, statistics=seed, map=feature_map, is_frozen=True)

    @property
    def owner(self) -> str:  # type: ignore[override]
        return type(self.unfitted).__name__


def unfitted_copy(sampler):
    """Return an unfitted copy; for plain parameters, ``clone`` takes twice as long."""
    params = sampler.get_params(deep=False)
    for name, value in params.items():
        if isinstance(value, Sized) or hasattr(value, "get_params"):
            params[name] = clone(value, safe=False)
    return type(sampler)(**params)


# fitted attributes
def fitted(path: str, doc: str) -> Any:
    """Return a read-only property that looks up a dotted path in the fitted sampler."""
    return property(attrgetter(path), doc=doc)


def _center_of(sampler):
    center = sampler.map_.frame.center
    return np.zeros(sampler.n_features_in_) if center is None else center


# the attribute ``center_`` of samplers that centre the rows
centered: Any = property(
    _center_of, doc="Vector that is subtracted from the rows; zero without centring."
)
