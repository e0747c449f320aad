"""Exact kernel averages over all training rows, computed in blocks and in log space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from .._array import to_host
from .._fitted import Batch, Step, computed_once, no_step
from .._kernel_parameter import RowKernel, copied_sigma, is_auto, row_kernel
from .._state import same
from ..rows import Rows, Sigma, Statistics, resolve_sigma
from ..rows.sample import DistinctSample
from ._keys import Keys, Part, as_kind
from ._local_targets import LocalLinear
from ._sigma import N_KEYS, N_KEYS_OF_FITS, best_multiple, number_of_distinct_rows
from ._sums import Averages, KernelSums
from ._targets import Targets

_SEED = 0, 0, 0, 0  # seed of the sample of rows for sigma="median"


class Choice(NamedTuple):
    """Choices based on all rows so far: ``sigma``, the targets and the prototypes."""

    sigma: float | np.ndarray
    targets: Targets  # for local linear fits, with the chosen penalty
    points: Any = None  # prototypes, or None if all rows are used


@dataclass(frozen=True, eq=False, kw_only=True)
class RowAverages(Averages):
    """Fitted kernel averages over training rows or over prototypes."""

    unfitted: Any  # a copy of the parameter ``kernel`` of the estimator
    kernel: RowKernel
    sigma_parameter: Sigma
    statistics: Statistics
    known_choice: Choice | None = None  # None if not made yet for these rows

    @property
    def _is_auto(self) -> bool:
        return is_auto(self.sigma_parameter)

    def _read(self, *tables: tuple[Any, Any]) -> Statistics:
        """Return statistics that include additional weighted rows."""
        sigma, statistics = self.sigma_parameter, self.statistics
        median = isinstance(sigma, str) and sigma == "median"
        for X, weights in tables:
            statistics = statistics.read(X, None, weights, median=median)
        return statistics

    def _first_sigma(self) -> float | np.ndarray:
        """Return ``sigma``, or the value whose multiples are tried for ``"auto"``."""
        parameter = "scale" if self._is_auto else self.sigma_parameter
        return resolve_sigma(parameter, self.statistics)

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        """Return the averages after choosing ``sigma``, which later rows may change."""
        value = self.plus(batch, step)
        value = replace(value, known_choice=value.choice)
        value.keys.stored(batch.X, value.sigma)
        return value

    def frozen(self) -> Self:
        """Return averages with a fixed ``sigma`` and only what predictions need."""
        choice = self.choice
        return replace(
            self,
            sigma_parameter=choice.sigma,
            targets=choice.targets,
            statistics=self.statistics.without_rows(),
            known_choice=choice,
            is_frozen=True,
        )

    @property
    def choice(self) -> Choice:
        """The choices based on all rows so far, which are made when first needed."""
        return self.known_choice or computed_once(self, "computed", self._choose)

    @abstractmethod
    def _choose(self) -> Choice:
        """Choose ``sigma`` and the penalty of the targets by leave-one-out error."""

    @property
    def sigma(self) -> float | np.ndarray:
        """The inverse length scale for the rows seen so far."""
        return self.choice.sigma

    @property
    def chosen_targets(self) -> Targets:
        """The targets, with the penalty that was chosen by leave-one-out error."""
        return self.choice.targets.reduced()

    def with_targets(self, targets: Targets) -> Self:
        """Return a copy that computes other predictions from the same kernel sums."""
        value = replace(self, known_choice=self.choice._replace(targets=targets))
        if isinstance(targets, LocalLinear):
            vars(value)["keys"] = self.keys.with_targets(targets)
        return value

    @property
    def keys(self) -> Keys:
        """The rows or prototypes over which sums are taken, with the chosen targets."""
        return computed_once(self, "keys", self._chosen_keys)

    @abstractmethod
    def _chosen_keys(self) -> Keys:
        """Return the rows or prototypes with the chosen targets."""

    @property
    def kernel_in_use(self) -> Any:
        return self.unfitted

    def check_mergeable(self, other: Any) -> None:
        """Raise ValueError if the other averages use another kernel or ``sigma``."""
        pairs = {
            "kernel": (self.unfitted, other.unfitted),
            "sigma": (self.sigma_parameter, other.sigma_parameter),
        }
        for name in ("alphas", "remainder"):
            mine, theirs = (getattr(v.targets, name, None) for v in (self, other))
            pairs[name.removesuffix("s")] = mine, theirs
        for name, (mine, theirs) in pairs.items():
            if not same(mine, theirs):
                raise ValueError(
                    f"merge needs the same {name} on both sides, got {mine!r} and "
                    f"{theirs!r}."
                )

    def blocks_of_sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        yield from self.keys.sums(X, self.sigma)


def exact_averages(kernel: Any, sigma: Sigma, targets: Targets) -> ExactAverages:
    """Return the averages of an estimator before any rows are added."""
    kernel = row_kernel(kernel)
    return ExactAverages(
        targets=targets,
        unfitted=kernel,
        kernel=kernel,
        sigma_parameter=copied_sigma(sigma),
        statistics=Statistics(_SEED),
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class ExactAverages(RowAverages):
    """Fitted kernel averages over all training rows."""

    parts: tuple[Part, ...] = ()  # the batches of rows, with their targets and weights
    n_given: int = 0  # number of rows passed, including those with weight 0
    dropped: tuple[np.ndarray, ...] = ()  # positions of rows with weight 0

    def plus(self, batch: Batch, step: Step = no_step) -> ExactAverages:
        dropped = self.dropped
        if len(batch.dropped):
            dropped += (self.n_given + batch.dropped,)
        value = replace(
            self,
            statistics=self._read((batch.X, batch.weights)),
            parts=(*self.parts, batch[:3]),
            n_given=self.n_given + batch.n_given,
            dropped=dropped,
            known_choice=None,
        ).having_seen(batch, self.seen)
        if not self._is_auto:  # raises ValueError if sigma has the wrong shape
            sigma = resolve_sigma(self.sigma_parameter, value.statistics)
            value._keys().frame(batch.X, sigma)[0].check(batch.X)
        return value

    def fitted(self, batch: Batch, step: Step = no_step) -> ExactAverages:
        value = super().fitted(batch)
        value._keys().frame(batch.X, value.sigma)[0].check(batch.X)
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
            known_choice=None,
            seen=self.seen + other.seen,
        )

    def _choose(self) -> Choice:
        """Return the ``sigma`` and the targets with the lowest leave-one-out error."""
        first, is_given = self._first_sigma(), not self._is_auto
        is_given = is_given and len(self.targets.candidates()) == 1
        if is_given and not self.targets.is_wide(self.parts[0][0].shape[1]):
            return Choice(first, self.targets)
        parts = (tuple(map(to_host, part)) for part in self.parts)
        is_fit = len(self.targets.candidates()) > 1
        few = DistinctSample.of(parts, N_KEYS_OF_FITS if is_fit else N_KEYS)
        frame, kind = self._keys().frame(few.X, first)
        rows = frame.rows(as_kind(few.X, kind))
        targets = self.targets.adapted(rows, few.weights)
        if is_given:
            return Choice(first, targets)
        encoded = targets.encode(few.y, few.weights, np.float64, rows)
        options = self.kernel, rows, encoded, targets
        if not self._is_auto:
            best = best_multiple(*options, rows.shape[0], np.ones(1))
            return Choice(first, best.targets)
        best = best_multiple(*options, number_of_distinct_rows(few))
        return Choice(first * best.multiple, best.targets)

    def converted(self, converter: Callable[[Any], Any]) -> ExactAverages:
        """Return a copy whose rows belong to another array library or device."""
        parts = tuple(
            tuple(a if sparse.issparse(a) else converter(a) for a in rows)
            for rows in self.parts
        )
        return replace(self, parts=parts)

    def _chosen_keys(self) -> Keys:
        return self._keys(self.chosen_targets)

    def _keys(self, targets: Targets | None = None) -> Keys:
        origin = self.statistics.query.mean
        return Keys(self.kernel, targets or self.targets, self.parts, origin)
