"""The fitted value of a learned metric: the rows so far, or sums over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from .._array import joined
from .._compat import cached_property
from .._fitted import (
    KEPT_ENTRIES,
    Batch,
    FittedValue,
    Step,
    no_step,
)
from .._state import same
from ..rows import Rows, are_labels
from ._agop import Coding, FourierFeatures, Round, TrainingAndHeldOut, TrainingRows
from ._candidates import Learned, Metric, Parameters, learn_metric, row_hashes


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
                "merge needs metrics with the same frequencies, but those of these two "
                "follow from different rows, which are no longer kept. Fit one "
                "LearnedMetric(method='agop') to at least "
                f"{KEPT_ENTRIES // self.features.weights.shape[0] + 1} rows, pass a "
                "copy.deepcopy of it to each process for partial_fit, and merge these "
                "copies. The rows of that first fit then count once."
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
    """The metric, and the rows or the sums over rows to which more can be added.

    All rows are kept as long as they are few. Then sums over them replace them, if the
    metric was learned by AGOP. No other method can learn from sums, so further rows
    cannot be added then.
    """

    parameters: Parameters
    batches: tuple[Batch, ...] = ()
    fixed_sums: FixedSums | None = None
    known: Metric | None = None  # of all rows, None if not computed yet
    is_frozen: bool = False
    owner: ClassVar[str] = "LearnedMetric"

    def fitted(self, batch: Batch, step: Step = no_step) -> MetricValue:
        """Return the metric learned from rows, with copies of them if they are few."""
        learned = learn_metric(batch, self.parameters, step)
        if _n_entries(batch) > KEPT_ENTRIES:
            return self._without_rows(batch, learned)
        metric = learned.metric(self.parameters.n_components)
        return replace(self, batches=(_own_copy(batch),), known=metric)

    def plus(self, batch: Batch, step: Step = no_step) -> MetricValue:
        """Return the value with further rows; many rows are replaced by sums."""
        self._check_targets(batch.y)
        if self.fixed_sums is not None:
            fixed_sums = self.fixed_sums.plus(*batch[:3], self.parameters.n_jobs)
            return replace(self, fixed_sums=fixed_sums, known=None)
        if _n_entries(*self.batches, batch) > KEPT_ENTRIES:
            return self.in_sums(joined_batches([*self.batches, batch]))
        return replace(self, batches=(*self.batches, _own_copy(batch)), known=None)

    def __add__(self, other: MetricValue) -> MetricValue:
        if other.fixed_sums is not None and self.fixed_sums is not None:
            fixed_sums = self.fixed_sums.merged(other.fixed_sums)
            return replace(self, fixed_sums=fixed_sums, known=None)
        value, rows = (
            (other, self.batches) if other.fixed_sums else (self, other.batches)
        )
        for batch in rows:
            value = value.plus(batch)
        return value

    def frozen(self, step: Step = no_step) -> MetricValue:
        """Return the metric alone, to which no rows can be added."""
        return MetricValue(self.parameters, known=self.metric, is_frozen=True)

    def in_sums(self, batch: Batch) -> MetricValue:
        """Return the value with sums in place of these rows; ``"auto"`` uses AGOP."""
        method = self.parameters.method
        method = "agop" if method == "auto" else method
        learned = learn_metric(batch, self.parameters._replace(method=method))
        return self._without_rows(batch, learned)

    def emptied(self) -> MetricValue:
        """Return the value with the same frequencies, but without rows in its sums."""
        sums = self.fixed_sums
        assert sums is not None
        sums = replace(sums, first=sums.first.of_no_rows(), since=None)
        return replace(self, fixed_sums=sums, known=None)

    @cached_property
    def metric(self) -> Metric:
        """The metric learned from all rows so far."""
        if self.known is not None:
            return self.known
        if self.fixed_sums is not None:
            learned = self.fixed_sums.relearned()
        else:
            learned = learn_metric(joined_batches(self.batches), self.parameters)
        return learned.metric(self.parameters.n_components)

    def _without_rows(self, batch: Batch, learned: Learned) -> MetricValue:
        """Return the metric of these rows, with the sums over them if it has any."""
        made_of, fixed_sums = learned.made_of, None
        if made_of is not None:
            coding = Coding.of(batch.y, batch.weights)
            sums = made_of.features, coding, made_of.sums
            learned = replace(learned, made_of=None)
            fixed_sums = FixedSums(learned, *sums, None, self.parameters.seed)
        metric = learned.metric(self.parameters.n_components)
        return MetricValue(self.parameters, (), fixed_sums, metric)

    def check_can_grow(self, method: str) -> None:
        """Raise ValueError if there is nothing to which rows could be added."""
        super().check_can_grow(method)
        if self.known is not None and not (self.batches or self.fixed_sums):
            raise ValueError(
                f"{method} cannot add rows to a metric that {self.known.method!r} has "
                f"learned from more than {KEPT_ENTRIES} entries of X, which are not "
                "kept. Only 'agop' can learn from sums over rows: set method='agop' "
                "(and shuffle the rows if the target was constant), or pass all rows "
                "to fit."
            )

    def _check_targets(self, y: np.ndarray) -> None:
        """Raise ValueError if targets and earlier targets are not of the same kind."""
        if self.fixed_sums is not None:
            coding = self.fixed_sums.coding
            shape = coding.mean.shape if coding.mean.size > 1 else ()
            known = coding.by_class, shape
        elif self.batches:
            first = self.batches[0].y
            known = are_labels(first), first.shape[1:]
        else:
            return
        # integers can be either, so the kind of the others decides
        is_integer = y.dtype.kind in "iu" and y.ndim == 1
        found = known[0] if is_integer else are_labels(y), y.shape[1:]
        if found != known:
            names = [
                "labels" if labels else f"{shape[0] if shape else 1} columns of numbers"
                for labels, shape in (found, known)
            ]
            raise ValueError(
                f"y has {names[0]}, but the earlier rows had {names[1]}. Labels are "
                "strings, booleans or integers; numbers are floats."
            )


def _n_entries(*batches: Batch) -> int:
    """Return the number of entries of X in all batches."""
    return sum(batch.X.shape[0] * batch.X.shape[1] for batch in batches)


def _own_copy(batch: Batch) -> Batch:
    """Return copies of the rows, because the caller may overwrite the originals."""
    return Batch(*(array.copy() for array in batch[:3]))
