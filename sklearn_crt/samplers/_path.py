"""One fit for many values of sigma and many numbers of components."""

from __future__ import annotations

import copy

import numpy as np
from sklearn.utils.validation import check_is_fitted


class SigmaPathMixin:
    """Features of one draw of frequencies along a path of sigmas.

    The projection is at unit bandwidth, so another sigma only scales it; draws nest,
    so fewer components are some of the columns.
    """

    def with_sigma(self, sigma):
        """Return this fitted sampler with another sigma, without reading the rows.

        Parameters
        ----------
        sigma : float, {"scale", "median"} or array-like of shape (n_features,)
            The new value; ``"median"`` only where it was the old one too.

        Returns
        -------
        sampler : sampler
            A copy, equal to one that was fitted with ``sigma`` on the same rows. It
            shares the frequencies unless their law depends on the data.
        """
        check_is_fitted(self)
        other = copy.copy(self)
        other.sigma = sigma
        if isinstance(sigma, str) and sigma == "median" and self._sample is None:
            raise ValueError(
                "sigma='median' needs a sample of the rows, which only a sampler "
                f"fitted with sigma='median' keeps, got sigma={self.sigma!r} there."
            )
        dtype = self.projection_.sq_norms.dtype
        return other._choose(dtype, draw=self._law_is_fitted)

    def iter_path(self, X, path, *, key=False):
        """Yield ``iter_log_features`` of several ``with_sigma``, chunk by chunk.

        The frequencies are applied once a chunk, not once a sampler, wherever all
        the samplers share them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        path : list of sampler
            Returned by ``with_sigma`` for numbers.
        key : bool, default=False
            Whether to take the map of the key side.

        Yields
        ------
        rows : slice
            The rows of the chunk.
        features : iterator
            The pair of mantissa and exponent for each sampler of the path.
        """
        X = self._validate(X, reset=False)
        drawn = {id(s.projection_): s._frequencies(X.dtype) for s in path}
        for rows in self._chunks(X):
            yield rows, self._path_features(X[rows], path, key, drawn)

    def _path_features(self, X, path, key, drawn):
        shared = {}  # the frequencies of a projection, about a centre
        for sampler in path:
            frequencies = drawn[id(sampler.projection_)]
            center = sampler._center()
            place = sampler.projection_, None if center is None else center.tobytes()
            if np.ndim(sampler.sigma_) > 0:
                unit = sampler._unit(X, frequencies)
            else:
                if place not in shared:
                    shared[place] = sampler._unit(X, frequencies, sigma=1.0)
                unit = shared[place].scaled(sampler.sigma_)
            out = np.empty((X.shape[0], self.n_components), dtype=X.dtype)
            yield sampler._features(unit, out, key)

    def prefix(self, n_components):
        """Return the columns that make the map of fewer components.

        Parameters
        ----------
        n_components : int
            Their number, at most that of this map.

        Returns
        -------
        columns : ndarray of int of shape (n_components,), or None
            Times one number they are the features of a sampler with this
            ``n_components`` fitted on the same rows; None where these are not among
            the columns (an odd number of sines and cosines).
        """
        if n_components == self.n_components:
            return np.arange(n_components)
        n_frequencies = n_components // self._features_per_frequency
        columns = np.flatnonzero(self.frequency_index() < n_frequencies)
        return columns if columns.size == n_components else None
