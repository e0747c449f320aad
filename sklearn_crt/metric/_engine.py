"""What a learned metric keeps of its rows: the rows themselves, or sums over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._compat import cached_property
from .._state import same
from .._workers import blas_within_processors
from ..rows import Rows
from ._agop import FourierFeatures, Round, TrainingAndHeldOut, TrainingRows
from ._candidates import Learned, Parameters, learn_metric
from ._row_hashes import row_hashes
from ._targets import Coding

KEPT_ENTRIES = 2**22  # of X, which partial_fit keeps before frequencies are fixed
Batch = tuple[Rows, np.ndarray, np.ndarray]  # rows, targets, weights


def joined_batches(batches: Sequence[Batch]) -> Batch:
    """Return batches as one."""
    if len(batches) == 1:
        return batches[0]
    tables, targets, weights = zip(*batches, strict=True)
    if any(map(sparse.issparse, tables)):
        X = sparse.vstack([sparse.csr_array(table) for table in tables], "csr")
    else:
        X = np.vstack(tables)
    return X, np.concatenate(targets), np.concatenate(weights)


@dataclass(frozen=True, eq=False)
class FixedSums:
    """Sums of features at fixed frequencies, to which further rows can be added."""

    learned: Learned  # what fixed the frequencies, without its rows
    features: FourierFeatures
    coding: Coding
    first: TrainingAndHeldOut  # of the rows that fixed the frequencies
    since: TrainingAndHeldOut | None  # of the rows that came later
    seed: int

    def plus(
        self, X: Rows, y: np.ndarray, weights: np.ndarray, n_jobs: Any
    ) -> FixedSums:
        """Return the sums with further rows."""
        coding = self.coding.with_labels(y)
        hashes = row_hashes(X, self.features.frame, self.seed)
        table = TrainingRows(X, coding.codes(y), weights, hashes, coding)
        return self._plus(coding, table.sums(self.features, n_jobs))

    def merged(self, other: FixedSums) -> FixedSums:
        """Return the sums of both, the rows that they have in common once."""
        classes = other.coding.classes
        coding = self.coding if classes is None else self.coding.with_labels(classes)
        firsts = (one.coding.moved(one.first, coding) for one in (self, other))
        if not (same(self.features, other.features) and same(*firsts)):
            raise ValueError(
                "merge needs metrics with the same frequencies, which follow from the "
                "first rows: fit one LearnedMetric(method='agop') to a sample of the "
                "rows, give each process a copy.deepcopy of it for partial_fit, and "
                "merge these."
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
        """Return the metric of all rows so far."""
        sums = self.first if self.since is None else self.first + self.since
        found = Round(self.features, sums, self.coding.by_class)
        L = found.factor(every=True)
        if L.shape[1] == 0:
            return replace(self.learned, method="none", L=self.learned.unit)
        return replace(self.learned, method="agop", L=L)


@dataclass(frozen=True, eq=False)
class MetricEngine:
    """The rows that are kept, or the sums over those that are not, and their metric."""

    parameters: Parameters
    batches: tuple[Batch, ...] = ()
    fixed_sums: FixedSums | None = None
    learned: Learned | None = None  # of all rows, None before it is asked for

    @classmethod
    def of(
        cls,
        batch: Batch,
        parameters: Parameters,
        n_jobs: int | None,
        step: Callable[[], None] = lambda: None,
    ) -> MetricEngine:
        """Return the metric of rows, and their sums where the method has them."""
        call = blas_within_processors(batch[0].shape[0])
        found = call(learn_metric, *batch, parameters, n_jobs=n_jobs, step=step)
        made_of, learned, fixed_sums = found.made_of, replace(found, made_of=None), None
        if made_of is not None and parameters.method == "agop":
            coding = Coding.of(*batch[1:])
            sums = made_of.features, coding, made_of.sums
            fixed_sums = FixedSums(learned, *sums, None, parameters.seed)
        return cls(parameters, (), fixed_sums, learned)

    @property
    def has_sums(self) -> bool:
        """Whether there is something that rows could be added to."""
        return bool(self.batches or self.fixed_sums)

    def plus(self, batches: Sequence[Batch], n_jobs: int | None) -> MetricEngine:
        """Return the engine with further rows; many of them fix the frequencies."""
        for _, y, _ in batches:
            self._check_targets(y)
        if self.fixed_sums is None:
            made = replace(self, batches=(*self.batches, *batches), learned=None)
            n_entries = sum(X.shape[0] * X.shape[1] for X, *_ in made.batches)
            return made.frozen(n_jobs) if n_entries > KEPT_ENTRIES else made
        fixed_sums = self.fixed_sums
        for batch in batches:
            call = blas_within_processors(batch[0].shape[0])
            fixed_sums = call(fixed_sums.plus, *batch, n_jobs)
        return replace(self, fixed_sums=fixed_sums, learned=None)

    def merged(self, other: MetricEngine, n_jobs: int | None) -> MetricEngine:
        """Return the engine with the rows of another."""
        if other.fixed_sums is None:
            return self.plus(other.batches, n_jobs)
        if self.fixed_sums is None:
            return other.plus(self.batches, n_jobs)
        return replace(
            self, fixed_sums=self.fixed_sums.merged(other.fixed_sums), learned=None
        )

    def frozen(self, n_jobs: int | None) -> MetricEngine:
        """Return the engine with fixed frequencies, without the rows kept so far."""
        if not self.batches:
            return self
        return MetricEngine.of(joined_batches(self.batches), self.parameters, n_jobs)

    def solved(self, n_jobs: int | None) -> MetricEngine:
        """Return the engine with the metric of all its rows."""
        if self.learned is not None:
            return self
        if self.fixed_sums is not None:
            return replace(self, learned=self.fixed_sums.relearned())
        return replace(self, learned=self.frozen(n_jobs).learned)

    def emptied(self) -> MetricEngine:
        """Return the frequencies with no rows."""
        sums = self.fixed_sums
        assert sums is not None
        sums = replace(sums, first=sums.first - sums.first, since=None)
        return replace(self, fixed_sums=sums, learned=None)

    @cached_property
    def components(self) -> np.ndarray:
        """The map of standardised columns, where there is a metric."""
        # (n_components or n_features, n_features)
        assert self.learned is not None
        return self.learned.components(self.parameters.n_components)

    def _check_targets(self, y: np.ndarray) -> None:
        """Raise ValueError for targets of another kind than those before."""
        kinds = [(Coding.is_of_labels(y), y.shape[1:])]
        if self.batches:
            known = self.batches[0][1]
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
                f"y has {names[0]}, but the rows before had {names[1]}. Labels are "
                "strings, booleans or integers, numbers are floats."
            )
