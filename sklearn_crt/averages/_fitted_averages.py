"""Fitted values of kernel averages; with an exact kernel, they hold all rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import sparse

from .._values import same
from ..arrays.namespaces import Array, taken, to_host
from ..arrays.validation import as_kind
from ..life_cycle.fitted import (
    Batch,
    LearnedValue,
    S,
    Step,
    joined_batches,
    no_step,
)
from ..rows import Rows, Sigma, Statistics, resolve_sigma
from ..rows.statistics import added
from ..samplers._kernel_parameter import RowKernel, is_auto
from ._kernel_rows import DrawnRows, KernelRows, Part, joined_parts
from ._sigma_choice import (
    N_KEYS,
    N_KEYS_OF_FITS,
    OCTAVES,
    best_multiple,
)
from ._target_columns import Targets

if TYPE_CHECKING:
    from ._prototypes import Prototypes

# with the seed of the sample of rows for sigma="median"
_NO_ROWS = Statistics((0, 0, 0, 0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Averages(LearnedValue[S]):
    """Base class of fitted kernel averages.

    Subclasses store training rows, prototypes, or sums of features times targets. The
    method ``sums`` of the solution yields slices of the queries and their kernel sums,
    as ``KernelSums``; its attribute ``sigma`` is the inverse length scale.
    """

    targets: Targets
    seen: Any = None  # ClassCounts or TargetMoments of all rows

    @property
    @abstractmethod
    def kernel_in_use(self) -> Any:
        """The attribute ``kernel_`` of the estimator."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RowAverages(Averages[KernelRows]):
    """Fitted kernel averages over training rows or over prototypes.

    The solution is a ``KernelRows`` object, with the chosen ``sigma`` and the chosen
    targets: for local linear fits, those with the chosen penalty.
    """

    # whether each training row is stored, so that it can be left out
    keeps_all_rows: ClassVar[bool] = False
    unfitted: RowKernel | Prototypes  # a copy of the parameter ``kernel``
    kernel: RowKernel
    sigma_parameter: Sigma
    statistics: Statistics = _NO_ROWS

    def _read(self, *tables: tuple[Rows, Array]) -> Statistics:
        """Return statistics that include additional weighted rows."""
        sigma, statistics = self.sigma_parameter, self.statistics
        median = isinstance(sigma, str) and sigma == "median"
        for X, weights in tables:
            statistics = statistics.read(X, None, weights, median=median)
        return statistics

    def _first_sigma(self) -> float | np.ndarray:
        """Return ``sigma``, or the value whose multiples are tried for ``"auto"``."""
        given = self.sigma_parameter
        return resolve_sigma("scale" if is_auto(given) else given, self.statistics)

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        """Return the averages after choosing ``sigma``, which later rows may change."""
        value = super().fitted(batch, step)
        value.solution.stored(batch.X).frame.check(batch.X)
        return value

    @property
    def kernel_in_use(self) -> Any:
        return self.unfitted

    def check_mergeable(self, other: RowAverages) -> None:
        """Raise ValueError if the other averages use another kernel or ``sigma``."""
        pairs: dict[str, tuple[Any, Any]] = {
            "kernel": (self.unfitted, other.unfitted),
            "sigma": (self.sigma_parameter, other.sigma_parameter),
        }
        mine, theirs = (getattr(v.targets, "alphas", None) for v in (self, other))
        pairs["alpha"] = mine, theirs
        for name, (mine, theirs) in pairs.items():
            if not same(mine, theirs):
                raise ValueError(
                    f"merge requires the same {name} in both estimators, got {mine!r} "
                    f"and {theirs!r}."
                )


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactAverages(RowAverages):
    """Fitted kernel averages over all training rows."""

    keeps_all_rows: ClassVar[bool] = True
    parts: tuple[Part, ...] = ()  # the batches of rows, with their targets and weights
    n_given: int = 0  # number of rows passed, including those with weight 0
    dropped: tuple[np.ndarray, ...] = ()  # positions of rows with weight 0

    def plus(self, batch: Batch, step: Step = no_step) -> ExactAverages:
        dropped = self.dropped
        if len(batch.dropped):
            dropped += (self.n_given + batch.dropped,)
        new = self.targets.statistics_of(batch.y, batch.weights)
        value = replace(
            self,
            statistics=self._read((batch.X, batch.weights)),
            parts=(*self.parts, batch[:3]),
            n_given=self.n_given + batch.n_given,
            dropped=dropped,
            known=None,
            seen=added(self.seen, new),
        )
        # raises ValueError if sigma has the wrong shape
        if not is_auto(self.sigma_parameter):
            keys = value._keys(resolve_sigma(self.sigma_parameter, value.statistics))
            keys.frame(batch.X)[0].check(batch.X)
        return value

    def __add__(self, other: ExactAverages) -> ExactAverages:
        self.check_mergeable(other)
        return replace(
            self,
            statistics=self._read(*((X, weights) for X, _, weights in other.parts)),
            parts=self.parts + other.parts,
            n_given=self.n_given + other.n_given,
            dropped=self.dropped
            + tuple(self.n_given + positions for positions in other.dropped),
            known=None,
            seen=self.seen + other.seen,
        )

    def training_rows(self) -> Batch:
        return joined_batches(self.parts)

    def _without_rows(self) -> ExactAverages:
        """Return a copy without statistics; predictions need the rows themselves."""
        return replace(self, statistics=self.statistics.without_rows())

    def _learn(self, step: Step = no_step) -> KernelRows:
        """Choose the ``sigma`` and the targets with the lowest leave-one-out error."""
        first, selects_sigma = self._first_sigma(), is_auto(self.sigma_parameter)
        is_fit = len(self.targets.candidates()) > 1
        is_given = not (selects_sigma or is_fit)
        if is_given and not self.targets.is_wide(self.parts[0][0].shape[1]):
            return self._keys(first)
        X, y, weights = map(to_host, joined_parts(self.parts))
        few = DrawnRows.of(weights, N_KEYS_OF_FITS if is_fit else N_KEYS)
        X, y = taken(X, few.places), y[few.places]
        frame, kind = self._keys(first).frame(X)
        rows = frame.rows(as_kind(X, kind))
        targets = self.targets.adapted(rows, few.weights)
        if is_given:
            return self._keys(first, targets)
        best = best_multiple(
            self.kernel,
            rows,
            targets.encode(y, few.weights, np.float64, rows),
            targets,
            len(weights) if selects_sigma else rows.shape[0],
            OCTAVES if selects_sigma else np.ones(1),
            weights_of_first=lambda n: few.first(n).weights,
        )
        return self._keys(first * best.multiple, best.targets)

    def converted(self, converter: Callable[[Array], Array]) -> ExactAverages:
        """Return a copy whose rows belong to another array library or device."""
        parts = tuple(
            tuple(a if sparse.issparse(a) else converter(a) for a in rows)
            for rows in self.parts
        )
        known = self.known and replace(self.known, parts=parts)
        return replace(self, parts=parts, known=known)

    def _keys(
        self, sigma: float | np.ndarray, targets: Targets | None = None
    ) -> KernelRows:
        targets = (targets or self.targets).reduced()
        origin = self.statistics.query.mean
        return KernelRows(
            kernel=self.kernel,
            sigma=sigma,
            targets=targets,
            parts=self.parts,
            origin=origin,
        )
