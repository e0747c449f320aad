"""Random keys, drawn in proportion to attention weights that features estimate."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_random_state, gen_batches

from .._compat import RandomState
from ._features import Features, check_rows, resolve

_CHUNK = 2**21  # number of array elements that are processed at a time


class KeySampler:
    r"""Draw keys at random, in proportion to estimated softmax weights.

    A pass over the keys prepares the sampler. Each query then requires one evaluation
    of its features, and the time per draw grows only with the logarithm of the number
    of keys. Sampled softmax uses such draws to train classifiers with many classes: the
    keys are the embeddings of the classes, and the loss is computed from the true class
    and a few drawn classes.

    Parameters
    ----------
    k : ndarray of shape (n_keys, d)
        Keys, float32 or float64.
    feature_map : fitted sampler, FeatureMap or str
        Positive features of the softmax kernel, such as those of
        ``OPRFSampler(kernel="softmax")``, as for :func:`linear_attention`. Features
        that can be negative raise ValueError, because estimated weights may then be
        negative.

    Attributes
    ----------
    n_keys : int
        Number of keys.
    n_components : int
        Number of features.

    Raises
    ------
    TypeError, ValueError
        If the keys or the features are not as described above.

    See Also
    --------
    linear_attention : The mean of values under the distribution of the draws.

    Notes
    -----
    Let f and g be the features of queries and keys. Key j has the probability

    .. math:: p_j(q) = \frac{\sum_i f_i(q) g_i(k_j)}{\sum_i f_i(q) G_i} ,
       \qquad G_i = \sum_j g_i(k_j),

    which estimates the softmax probability that is proportional to :math:`e^{q \cdot
    k_j / \sqrt d}`. Since all features are positive, this is a mixture: a draw chooses
    a feature i with probability proportional to :math:`f_i(q) G_i`, and then key j with
    probability :math:`g_i(k_j) / G_i`, by binary search in the cumulative sums of the
    i-th feature. For n keys and m features, the pass takes O(n m d) operations and
    memory for n m numbers, a query O(m d) operations, and a draw O(log n + log m). The
    draws have exactly the probabilities :math:`p_j(q)`. Section 4.2 of [1]_ applies
    hybrid features to softmax sampling as in [2]_, in O(m log n) operations per draw.

    For scores :math:`q \cdot k` without the division by :math:`\sqrt d`, multiply the
    queries by :math:`\sqrt d` (and fit the sampler on such queries).

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.
    .. [2] A. S. Rawat et al., "Sampled Softmax with Random Fourier Features",
       NeurIPS 2019, :arxiv:`1907.10747`.

    Examples
    --------
    Estimate the denominator of the softmax from 200 of 10000 keys:

    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.attention import KeySampler
    >>> rng = np.random.default_rng(0)
    >>> q, k = 0.5 * rng.normal(size=(5, 16)), 0.5 * rng.normal(size=(10_000, 16))
    >>> features = OPRFSampler(
    ...     sigma=16**-0.25, kernel="softmax", n_components=128, random_state=0
    ... ).fit(q, X_key=k)
    >>> sampler = KeySampler(k, features)
    >>> index = sampler.sample(q, 200, random_state=0)
    >>> scores = np.einsum("id,ijd->ij", q, k[index]) / 4
    >>> logs = scores - sampler.log_probability(q, index)
    >>> estimate = np.exp(logs).mean(axis=1)
    >>> exact = np.exp(q @ k.T / 4).sum(axis=1)
    >>> bool(np.abs(estimate / exact - 1).max() < 0.1)
    True
    """

    def __init__(self, k: np.ndarray, feature_map: Any):
        k = _rows(k, "k")
        self._map, self._n_features = resolve(feature_map, k), k.shape[1]
        if not self._map.is_positive:
            raise ValueError(
                "feature_map must have positive features, because negative weights "
                "cannot be used as probabilities. Use OPRFSampler, PositiveRBFSampler, "
                "DERFSampler or AnchoredRBFSampler with kernel='softmax'."
            )
        self._log_keys = self._log_features(k, key=True)  # (n_keys, n_components)
        self.n_keys, self.n_components = self._log_keys.shape
        top = self._log_keys.max(axis=0)
        top = np.where(np.isfinite(top), top, 0.0)
        # one row per feature, in which a draw searches
        self._cumulative = np.cumsum(np.exp(self._log_keys - top).T, axis=1)
        with np.errstate(divide="ignore"):
            self._log_sums = top + np.log(self._cumulative[:, -1])

    def sample(
        self, q: np.ndarray, n_draws: int, *, random_state: RandomState = None
    ) -> np.ndarray:
        """Draw keys for each query, with replacement.

        Parameters
        ----------
        q : ndarray of shape (n_queries, d)
            Queries.
        n_draws : int
            Number of draws per query.
        random_state : int, RandomState instance or None, default=None
            Source of the draws.

        Returns
        -------
        index : ndarray of int of shape (n_queries, n_draws)
            Indices of the drawn keys.

        Raises
        ------
        ValueError
            If q has another number of columns than the keys, or if ``n_draws`` is not
            positive.
        """
        q, rng = self._queries(q), check_random_state(random_state)
        if n_draws < 1:
            raise ValueError(f"n_draws={n_draws} must be 1 or more.")
        index = np.empty((len(q), n_draws), dtype=np.intp)
        size = max(1, _CHUNK // max(self.n_components, n_draws))
        for rows in gen_batches(len(q), size):
            weights = self._weights(self._log_features(q[rows]) + self._log_sums)[0]
            cumulative = np.cumsum(weights, axis=1)
            u = rng.random_sample((2, len(cumulative), n_draws))
            levels = u[0] * cumulative[:, -1:]
            # more than one search in the same row is a single call
            feature = np.stack(
                [
                    np.searchsorted(row, level, side="right")
                    for row, level in zip(cumulative, levels, strict=True)
                ]
            )
            feature = np.minimum(feature, self.n_components - 1)
            index[rows] = self._search(feature, u[1])
        return index

    def _search(self, feature: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Return the first key whose cumulative sum exceeds u times the total."""
        level = u * self._cumulative[feature, -1]
        low = np.zeros(feature.shape, dtype=np.intp)
        high = np.full(feature.shape, self.n_keys - 1)
        for _ in range(int(self.n_keys - 1).bit_length()):
            middle = (low + high) // 2
            above = self._cumulative[feature, middle] > level
            high = np.where(above, middle, high)
            low = np.where(above, low, np.minimum(middle + 1, high))
        return low

    def log_probability(
        self, q: np.ndarray, index: ArrayLike | None = None
    ) -> np.ndarray:
        """Return the logarithms of the probabilities with which keys are drawn.

        Parameters
        ----------
        q : ndarray of shape (n_queries, d)
            Queries.
        index : array-like of int of shape (n_queries, n_draws), default=None
            Indices of keys, such as those that ``sample`` returns; all keys if None,
            which takes time proportional to the number of keys.

        Returns
        -------
        log_probability : ndarray of shape (n_queries, n_draws) or (n_queries, n_keys)
            Logarithms of the probabilities. In sampled softmax, subtract them, plus the
            logarithm of the number of draws, from the scores of the drawn classes.

        Raises
        ------
        ValueError
            If the shapes of q and index do not match.
        """
        q = self._queries(q)
        queries = self._log_features(q)
        _, log_totals = self._weights(queries + self._log_sums)
        if index is None:
            width, chosen = self.n_keys, None
        else:
            chosen = np.asarray(index)
            if chosen.ndim != 2 or len(chosen) != len(q):
                raise ValueError(
                    f"index has shape {chosen.shape}, but must have one row for each "
                    f"of the {len(q)} queries."
                )
            width = chosen.shape[1]
        logs = np.empty((len(q), width))
        for i, row in enumerate(queries):
            keys = self._log_keys if chosen is None else self._log_keys[chosen[i]]
            logs[i] = self._weights(row + keys)[1] - log_totals[i]
        return logs

    def _queries(self, q: np.ndarray) -> np.ndarray:
        q = _rows(q, "q")
        if q.shape[1] != self._n_features:
            raise ValueError(
                f"q has {q.shape[1]} columns, but the keys have {self._n_features}."
            )
        return q

    def _log_features(self, rows: np.ndarray, *, key: bool = False) -> np.ndarray:
        """Return the logs of the features, in float64."""
        mantissa, exponent = Features.of(self._map, rows, key=key)
        if mantissa is not None:
            with np.errstate(divide="ignore"):
                exponent = exponent + np.log(mantissa)
        return exponent.astype(np.float64)

    @staticmethod
    def _weights(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return exp(logs - maximum), and the log of the sum of exp(logs), by rows."""
        top = logs.max(axis=1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        weights = np.exp(logs - top)
        with np.errstate(divide="ignore"):
            return weights, np.log(weights.sum(axis=1)) + top[:, 0]


def _rows(rows: np.ndarray, name: str) -> np.ndarray:
    """Return validated rows, a matrix of float32 or float64 numbers."""
    rows = check_array(rows, dtype=[np.float64, np.float32], input_name=name)
    check_rows(rows, name)
    return rows
