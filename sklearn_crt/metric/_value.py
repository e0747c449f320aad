"""The fitted value of a learned metric: the rows so far, or sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._array import joined
from .._compat import cached_property
from .._fitted import Batch, FittedValue, Step, no_step
from .._state import same
from ..rows import Rows
from ._agop import FourierFeatures, Round, TrainingAndHeldOut, TrainingRows
from ._candidates import Learned, Parameters, learn_metric, row_hashes
from ._targets import Coding

KEPT_ENTRIES = 2**22  # entries of X that partial_fit keeps before it fixes frequencies


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """Return the batches concatenated into one."""
    if len(batches) == 1:
        return batches[0]
    X, y, weights = zip(*(batch[:3] for batch in batches), strict=True)
    return Batch(joined(X), np.concatenate(y), np.concatenate(weights))


@dataclass(frozen=True, eq=False)
class FixedSums:
    """Sums of features with fixed frequencies, to which further rows can be added."""

    learned: Learned  # the metric that determined the frequencies, without its rows
    features: FourierFeatures
    coding: Coding
    first: TrainingAndHeldOut  # sums of the rows that determined the frequencies
    since: TrainingAndHeldOut | None  # sums of later rows
    seed: int

    def plus(
        self, X: Rows, y: np.ndarray, weights: np.ndarray, n_jobs: Any
    ) -> FixedSums:
        """Return the sums with further rows added."""
        coding = self.coding.with_labels(y)
        hashes = row_hashes(X, self.features.frame, self.seed)
        table = TrainingRows(X, coding.codes(y), weights, hashes, coding)
        return self._plus(coding, table.sums(self.features, n_jobs))

    def merged(self, other: FixedSums) -> FixedSums:
        """Return the sums of both, with the rows that they have in common only once."""
        classes = other.coding.classes
        coding = self.coding if classes is None else self.coding.with_labels(classes)
        firsts = (one.coding.moved(one.first, coding) for one in (self, other))
        if not (same(self.features, other.features) and same(*firsts)):
            raise ValueError(
                "merge needs metrics with the same frequencies, which depend on the "
                "first rows. Fit one LearnedMetric(method='agop') to a sample of the "
                "rows, pass a copy.deepcopy of it to each process for partial_fit, and "
                "merge these copies."
            )
        if other.since is None:
            return self
        return self._plus(coding, other.coding.moved(other.since, coding))

    def _plus(self, coding: Coding, new: TrainingAndHeldOut) -> FixedSums:
        first = self.coding.moved(self.first, coding)
        if self.since is not None:
            new = self.coding.moved(self.since, coding) + new
        return replace(self, coding=coding, first=first, since=new)

    def relearned(self) -> Learned:
        """Return the metric learned from all rows so far."""
        sums = self.first if self.since is None else self.first + self.since
        found = Round(self.features, sums, self.coding.by_class)
        L = found.factor(every=True)
        if L.shape[1] == 0:
            return replace(self.learned, method="none", L=self.learned.unit)
        return replace(self.learned, method="agop", L=L)


@dataclass(frozen=True, eq=False)
class MetricValue(FittedValue):
    """The rows that are kept, or the sums over discarded rows, and their metric."""

    parameters: Parameters
    batches: tuple[Batch, ...] = ()
    fixed_sums: FixedSums | None = None
    learned: Learned | None = None  # from all rows, None if not computed yet

    @property
    def has_sums(self) -> bool:
        """Whether further rows can be added: there are sums or kept rows."""
        return bool(self.batches or self.fixed_sums)

    def fitted(self, batch: Batch, step: Step = no_step) -> MetricValue:
        """Return the metric learned from rows, and the sums if the method has any."""
        parameters = self.parameters
        found = learn_metric(
            *batch[:3], parameters, n_jobs=parameters.n_jobs, step=step
        )
        made_of, learned, fixed_sums = found.made_of, replace(found, made_of=None), None
        if made_of is not None and parameters.method == "agop":
            coding = Coding.of(batch.y, batch.weights)
            sums = made_of.features, coding, made_of.sums
            fixed_sums = FixedSums(learned, *sums, None, parameters.seed)
        return MetricValue(parameters, (), fixed_sums, learned)

    def plus(self, batch: Batch, step: Step = no_step) -> MetricValue:
        """Return the value with further rows; with many rows, frequencies are fixed."""
        self._check_targets(batch.y)
        if self.fixed_sums is None:
            # only this method can learn a metric from sums over rows
            parameters = self.parameters._replace(method="agop")
            more = MetricValue(parameters, (*self.batches, batch))
            n_entries = sum(b.X.shape[0] * b.X.shape[1] for b in more.batches)
            return more.frozen() if n_entries > KEPT_ENTRIES else more
        fixed_sums = self.fixed_sums.plus(*batch[:3], self.parameters.n_jobs)
        return replace(self, fixed_sums=fixed_sums, learned=None)

    def __add__(self, other: MetricValue) -> MetricValue:
        if other.fixed_sums is not None and self.fixed_sums is not None:
            fixed_sums = self.fixed_sums.merged(other.fixed_sums)
            return replace(self, fixed_sums=fixed_sums, learned=None)
        value, rows = (
            (other, self.batches) if other.fixed_sums else (self, other.batches)
        )
        for batch in rows:
            value = value.plus(batch)
        return value

    def frozen(self, step: Step = no_step) -> MetricValue:
        """Return the value with fixed frequencies and without the kept rows."""
        if not self.batches:
            return self
        return self.fitted(joined_batches(self.batches))

    @cached_property
    def solved(self) -> MetricValue:
        """The value with the metric learned from all its rows."""
        if self.learned is not None:
            return self
        if self.fixed_sums is not None:
            return replace(self, learned=self.fixed_sums.relearned())
        return replace(self, learned=self.frozen().learned)

    def emptied(self) -> MetricValue:
        """Return the value with the same frequencies, but without rows in its sums."""
        sums = self.fixed_sums
        assert sums is not None
        sums = replace(sums, first=sums.first - sums.first, since=None)
        return replace(self, fixed_sums=sums, learned=None)

    @cached_property
    def components(self) -> np.ndarray:
        """The linear map for standardised columns; needs a learned metric."""
        # (n_components or n_features, n_features)
        assert self.learned is not None
        return self.learned.components(self.parameters.n_components)

    @property
    def components_of_columns(self) -> np.ndarray:
        """The linear map for the original columns; needs a learned metric."""
        assert self.learned is not None
        return self.components * self.learned.frame.sigma

    def _check_targets(self, y: np.ndarray) -> None:
        """Raise ValueError if targets and earlier targets are not of the same kind."""
        kinds = [(Coding.is_of_labels(y), y.shape[1:])]
        if self.batches:
            known = self.batches[0].y
            kinds.append((Coding.is_of_labels(known), known.shape[1:]))
        elif self.fixed_sums is not None:
            coding = self.fixed_sums.coding
            n_outputs = coding.mean.shape if coding.mean.size > 1 else ()
            kinds.append((coding.by_class, n_outputs))
        else:
            return
        if kinds[0] != kinds[1]:
            names = [
                "labels"
                if by_class
                else f"{shape[0] if shape else 1} columns of numbers"
                for by_class, shape in kinds
            ]
            raise ValueError(
                f"y has {names[0]}, but the earlier rows had {names[1]}. Labels are "
                "strings, booleans or integers; numbers are floats."
            )
