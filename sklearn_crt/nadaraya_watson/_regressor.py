"""Nadaraya-Watson regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from .._arrays import Array, joined, like, namespace_of, to_host
from .._compat import _fit_context
from .._dispatch import at_home, float_types
from .._docs import fill_doc
from ..rows import TableLike
from ._base import BaseNadarayaWatson
from ._reliability import trust
from ._targets import Numbers


@dataclass(frozen=True, eq=False)
class TargetMoments:
    """Weight, mean and range of targets; ``a + b`` is that of both sets of rows.

    Attributes
    ----------
    weight : float
        Sum of the weights.
    mean, least, most : ndarray of shape (n_outputs,)
        Of each output.
    """

    weight: float
    mean: np.ndarray
    least: np.ndarray
    most: np.ndarray

    @classmethod
    def of(cls, y: Array, weights: Array) -> TargetMoments:
        """Return those of some rows."""
        if isinstance(y, np.ndarray):
            mean = np.average(y, axis=0, weights=weights)
            weight = float(weights.sum(dtype=np.float64))
            return cls(weight, mean, y.min(axis=0), y.max(axis=0))
        xp = namespace_of(y)
        weights = xp.astype(weights, y.dtype)
        weight = float(xp.sum(weights))
        mean = xp.matmul(weights / weight, y)
        parts = xp.stack([mean, xp.min(y, axis=0), xp.max(y, axis=0)])
        return cls(weight, *to_host(parts).astype(np.float64))

    def __add__(self, other: TargetMoments) -> TargetMoments:
        weight = self.weight + other.weight
        return TargetMoments(
            weight,
            self.mean + (other.weight / weight) * (other.mean - self.mean),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )


@fill_doc
class NadarayaWatsonRegressor(RegressorMixin, BaseNadarayaWatson):
    r"""Kernel-weighted averages of the training targets.

    Parameters
    ----------
    %(nw_parameters)s

    Attributes
    ----------
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted means of the targets, predicted where all kernel weights vanish.
    %(nw_fitted)s

    See Also
    --------
    NadarayaWatsonClassifier : Class probabilities.
    OPRFSampler : The sampler to start with: positive and of least variance.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` of weight :math:`w_j` [1]_ [2]_,

    .. math:: \hat y(x) = \frac{\sum_j w_j K(x, x_j) y_j}{\sum_j w_j K(x, x_j)} .

    See :class:`NadarayaWatsonClassifier` for how features replace the kernel, and for
    the standard error s of a denominator S with maps that can be negative. Averages of
    such maps are moved into the range of the training targets. A row is *unreliable*
    where :math:`S < 2s`: its average counts with the weight
    :math:`(\max(S, 0) / 2s)^2`, and ``y_mean_`` with the rest. One warning says for how
    many rows. Positive maps and exact kernels have none of this.

    References
    ----------
    .. [1] E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its
       Applications 9 (1964), :doi:`10.1137/1109020`.
    .. [2] G. S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> sampler = OPRFSampler(sigma=4.0, n_components=512, random_state=0)
    >>> model = NadarayaWatsonRegressor(sampler).fit(x, np.sin(x[:, 0]))
    >>> bool(model.score(x, np.sin(x[:, 0])) > 0.9)
    True
    """

    _seen: TargetMoments
    _y_checks: dict = {"multi_output": True, "y_numeric": True}

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of training rows.

        Until about 4 million entries of X have come, the sampler is fitted on all
        rows so far and any order of batches equals ``fit`` on all of them; then, or
        with ``freeze()``, the map is fixed, the rows are forgotten, and memory stays
        constant.

        With ``"prototypes"`` the rows are then replaced by eight times as many points
        as there are to be prototypes, which later rows go into. ``"exact"`` keeps all
        rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The estimator.
        """
        return self._add(X, y, sample_weight, final=False)

    def _check_targets(self, y, first, final):
        if isinstance(y, np.ndarray):
            y = np.asarray(y, dtype=np.float64)
        else:
            y = namespace_of(y).astype(y, float_types(y)[0])
        if first:
            self._one_output = y.ndim == 1
            self._n_outputs = 1 if y.ndim == 1 else y.shape[1]
        y = y if y.ndim > 1 else y[:, None]
        if y.shape[1] != self._n_outputs:
            raise ValueError(
                f"y has {y.shape[1]} outputs, but the first batch had "
                f"{self._n_outputs}."
            )
        return y

    def _encoder(self):
        return Numbers(self._n_outputs)

    def _add_targets(self, y, weights, first):
        seen = TargetMoments.of(y, weights)
        self._seen = seen if first else self._seen + seen

    @property
    def y_mean_(self) -> np.ndarray:
        """Weighted mean of each output."""
        return at_home(self, self._seen.mean)

    def _check_mergeable(self, other):
        if other._n_outputs != self._n_outputs:
            raise ValueError(
                f"merge needs as many outputs on both sides, got {self._n_outputs} "
                f"and {other._n_outputs}."
            )

    def _merge_targets(self, other):
        self._seen = self._seen + other._seen

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the averages of the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            ``y_mean_``, in part or altogether, where a row is unreliable. Never
            outside the range of the training targets.
        """
        self._check_rows(X, "predict")
        return self._squeezed(self._decode(X))

    def _squeezed(self, values):
        return values[:, 0] if self._one_output else values

    def _decode(self, X):
        blocks, n_unreliable = [], 0
        for _, (scores, _, error) in self._score_blocks(X):
            xp, seen = namespace_of(scores), self._seen
            mean, least, most = (
                like(part, scores) for part in (seen.mean, seen.least, seen.most)
            )
            weights = scores[:, -1]
            empty = ~(weights > 0)
            divisors = xp.where(empty, xp.ones_like(weights), weights)
            block = scores[:, :-1] / divisors[:, None]
            block = xp.where(empty[:, None], mean, block)
            if error is not None:  # averages with negative weights may leave the range
                inside = xp.where(block > most, most, block)
                inside = xp.where(inside < least, least, inside)
                block = xp.where((error > 0)[:, None], inside, block)
                share = trust(weights, error)[:, None]
                block = block + (1 - share) * (mean - block)
                empty = share[:, 0] < 1
            blocks.append(block)
            n_unreliable += int(xp.count_nonzero(empty))
        self._warn_unreliable(
            n_unreliable,
            "the mean of the targets is predicted there, in part or altogether",
        )
        return self._cast(joined(blocks), X)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: several outputs, smooth at the default."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # sigma="scale" is wide for averages
        tags.target_tags.multi_output = True
        return tags
