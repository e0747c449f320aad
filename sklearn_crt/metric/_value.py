"""The fitted value of a learned metric: a sample of the rows, and what follows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from sklearn.utils import murmurhash3_32

from .._array import to_host
from .._compat import cached_property
from .._fitted import Batch, FittedValue, Step, no_step
from ..rows import are_labels
from ..rows.sample import DistinctSample
from ._candidates import Metric, Parameters, Table, learn

_MOST_ROWS, _MOST_ENTRIES = 2**14, 2**22  # of X in the sample


def _kind_of(y: np.ndarray) -> str:
    """Return the kind of plain targets; integers can be labels or numbers."""
    if y.ndim > 1 or y.dtype.kind == "f":
        return "numbers"
    return "integers" if y.dtype.kind in "iu" else "labels"


def _as_floats(y: np.ndarray) -> np.ndarray:
    """Return targets as floats; strings become numbers that identify them."""
    if y.dtype.kind in "fiub":
        return y.astype(np.float64)
    labels, codes = np.unique(y, return_inverse=True)
    names = (str(label).encode() for label in labels)
    return np.array([murmurhash3_32(n, positive=True) for n in names], float)[codes]


@dataclass(frozen=True, eq=False)
class MetricValue(FittedValue):
    """A random sample of the rows, and the metric that is learned from it.

    The sample depends on the content of the rows alone. So the metric is the same
    whatever the order of the rows, and whether they come at once, in batches, or in
    parts that are merged.
    """

    parameters: Parameters
    sample: DistinctSample | None = None
    kind: str = "integers"  # of the targets
    known: Metric | None = None  # of all rows, None if not computed yet
    is_frozen: bool = False
    owner: ClassVar[str] = "LearnedMetric"

    def fitted(self, batch: Batch, step: Step = no_step) -> MetricValue:
        value = self.plus(batch)
        return replace(value, known=value.learned(step))

    def plus(self, batch: Batch, step: Step = no_step) -> MetricValue:
        X, y, weights = map(to_host, batch[:3])
        size = max(2, min(_MOST_ROWS, _MOST_ENTRIES // X.shape[1]))
        sample = DistinctSample.of([(X, _as_floats(y), weights)], size)
        return self + replace(self, sample=sample, kind=_kind_of(y), known=None)

    def __add__(self, other: MetricValue) -> MetricValue:
        if self.sample is None or other.sample is None:
            return other if self.sample is None else self
        samples, kinds = (self.sample, other.sample), {self.kind, other.kind}
        shapes = [sample.y.shape[1:] for sample in samples]
        if kinds >= {"labels", "numbers"} or shapes[0] != shapes[1]:
            before, found = (
                f"{np.prod(shape, dtype=int)} columns of {kind}"
                for shape, kind in zip(shapes, (self.kind, other.kind), strict=True)
            )
            raise ValueError(
                f"y has {found}, but the earlier rows had {before}. Labels are "
                "strings, booleans or integers in one column; numbers are floats."
            )
        kind = (kinds - {"integers"} or kinds).pop()
        return replace(self, sample=samples[0] + samples[1], kind=kind, known=None)

    def frozen(self, step: Step = no_step) -> MetricValue:
        return MetricValue(self.parameters, known=self.metric, is_frozen=True)

    @cached_property
    def metric(self) -> Metric:
        """The metric learned from all rows so far."""
        return self.learned() if self.known is None else self.known

    def learned(self, step: Step = no_step) -> Metric:
        """Return the metric, learned from the sample."""
        assert self.sample is not None
        sample = self.sample
        X = sample.X if isinstance(sample.X, np.ndarray) else sample.X.toarray()
        by_class = self.kind == "labels" or (
            self.kind == "integers"
            and (self.parameters.method == "nca" or are_labels(sample.y.astype(int)))
        )
        X = X.astype(np.float64, copy=False)
        table = Table.of(X, sample.y, sample.weights, by_class=by_class)
        return learn(table, self.parameters, step)
