"""Monomials with random integer exponents: the parameters, and the map they make."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np

from .._compat import Interval, RandomState, StrOptions, warn
from ..frequencies import Frequencies, Independent
from ..maps import CountLaw, DiscreteMap, GaussianKernel, GaussianOrSoftmax
from ..rows import Frame, Sigma, Statistics
from ._base import BaseFeatureSampler
from ._exponential import middle

_EPSILON = 1e-8  # least coordinate of positive features, unless the user states one
_NEAR = 0.1  # coordinates, multiplied by sigma, of rows near others that are all equal


class DiscreteSampler(BaseFeatureSampler):
    """Features from monomials of counts, whose law a subclass chooses."""

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "positive": ["boolean"],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "center": ["boolean"],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        positive: bool = False,
        epsilon: float | None = None,
        center: bool = True,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.positive = positive
        self.epsilon = epsilon
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _doubtful_below(self) -> float:  # type: ignore[override]
        return math.inf if self.positive else 64  # its rows are far from its centre

    @abstractmethod
    def _choose_law(self, statistics: Statistics, frame: Frame) -> CountLaw:
        """Return the law of the counts."""

    @abstractmethod
    def _law_of(self, sizes: np.ndarray) -> CountLaw:
        """Return the law of the counts for rows with coordinates of these sizes."""

    def _make_map(self, statistics, drawn):
        frame, epsilon = self._frame(statistics), self._least_coordinate()
        if epsilon is not None:
            minimum = np.minimum(statistics.query.minimum, statistics.key.minimum)
            minimum = np.where(np.isfinite(minimum), minimum, 0)  # without any row
            center = minimum - epsilon / np.asarray(frame.sigma)
            frame = replace(frame, center=center)
        elif self.center:
            frame = replace(frame, center=middle(statistics))
        rng = statistics.frequency_stream()
        if _are_all_alike(statistics, self.center):
            law = self._law_of(np.full(statistics.n_features, _NEAR))
            warn(
                f"All rows are equal, which says nothing about the exponents of "
                f"{type(self).__name__}: they are those for rows at distances of about "
                f"{_NEAR * math.sqrt(statistics.n_features):.2g} / sigma from there.",
                UserWarning,
            )
        else:
            law = self._choose_law(statistics, frame)
        # frequency after frequency, so the first of them need no others
        counts = law.draw((self.n_components, statistics.n_features), rng)
        return DiscreteMap(
            frame,
            self.n_components,
            Frequencies(counts.T.astype(np.float64)),
            Independent(),
            law,
            GaussianKernel(softmax=self.kernel == "softmax"),
            epsilon,
        )

    def _least_coordinate(self) -> float | None:
        """Return the smallest coordinate of positive features, None for signed ones."""
        if not self.positive:
            if self.epsilon is not None:
                raise ValueError(
                    f"epsilon={self.epsilon} has no effect with positive=False: it is "
                    "the smallest coordinate after the column minima are subtracted. "
                    "Use epsilon=None, or positive=True."
                )
            return None
        if not self.center:
            raise ValueError(
                "center=False has no effect with positive=True, which subtracts the "
                "column minima in place of the means. Use center=True, or "
                "positive=False."
            )
        return _EPSILON if self.epsilon is None else self.epsilon


def _are_all_alike(statistics, shifted):
    """Return whether all rows are one row up to rounding, or zero if not shifted."""
    squares = statistics.both.mean_square.sum()
    spread = statistics.both.variance.sum() if shifted else squares
    return bool(spread <= 1e-28 * squares)
