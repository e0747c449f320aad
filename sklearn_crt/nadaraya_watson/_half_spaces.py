r"""Half spaces that hold clusters of rows: how near a row can come to a query.

Let c_j be the centre of a cluster near the query q, and c_k that of another one with
the rows x. Along the unit vector e from c_j to c_k,

.. math::

   e \cdot (x - q) = \frac{|x - c_j|^2 - |x - c_k|^2 + |q - c_k|^2 - |q - c_j|^2}
                          {2 |c_j - c_k|}
                   \ge \frac{G_{jk} + |q - c_k|^2 - |q - c_j|^2}{2 |c_j - c_k|},
   \qquad G_{jk} = \min_x \left(|x - c_j|^2 - |x - c_k|^2\right),

and no distance |x - q| is smaller than that. In many dimensions it is much more than
the distance of the centre less the radius, which is hardly ever positive there. Such
half spaces between centres make k-means fast [1]_.

References
----------
.. [1] C. Elkan, "Using the triangle inequality to accelerate k-means", ICML 2003.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rows import effective_n_threads, in_threads

_N_NEAREST = 4  # centres c_j that are tried for a query
_CHUNK_ROWS = 512


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """Bounds G of all pairs of clusters.

    Attributes
    ----------
    least : ndarray of shape (n_clusters, n_clusters), float32
        ``least[j, k]`` is G_jk, rounded down.
    factors : ndarray of shape (n_clusters, n_clusters), float32
        ``1 / (2 |c_j - c_k|)``, rounded down; 0 where the centres are one.
    """

    least: np.ndarray
    factors: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, starts: np.ndarray, centers: np.ndarray) -> HalfSpaces:
        """Return the bounds of sorted rows: one product with all the centres.

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            Rows sorted by cluster.
        starts : ndarray of int of shape (n_clusters + 1,)
            Where the clusters begin, and n.
        centers : ndarray of shape (n_clusters, n_features), float64
            Their means.

        Returns
        -------
        half_spaces : HalfSpaces
            Of all pairs.
        """
        n_clusters, n_features = centers.shape
        near = centers.astype(np.float32)
        squares = np.einsum("ij,ij->i", centers, centers)
        largest = np.sqrt(np.einsum("ij,ij->i", X, X).max() * squares.max())
        # of the products, of the squares and of the centres in single precision
        rounding = (4 * n_features + 32) * np.finfo(np.float32).eps * largest
        rounding += 8 * np.finfo(np.float32).eps * squares.max()

        def bound(part):
            found = []
            for k in range(n_clusters)[part]:
                least = np.full(n_clusters, np.inf, dtype=np.float32)
                own = 2 * near[k]
                for start in range(starts[k], starts[k + 1], _CHUNK_ROWS):
                    stop = min(start + _CHUNK_ROWS, starts[k + 1])
                    rows = X[start:stop].astype(np.float32, copy=False)
                    gaps = (rows @ own)[:, None] - rows @ (2 * near.T)
                    np.minimum(least, gaps.min(axis=0), out=least)
                found.append(least + (squares - squares[k]))
            return np.array(found)

        blocks = in_threads(bound, n_clusters, effective_n_threads(None, n_clusters))
        least = np.concatenate(blocks).T - rounding
        gaps = squares[:, None] + squares - 2 * centers @ centers.T
        rounding = 1e-12 * squares.max()
        factors = np.zeros_like(gaps)
        apart = gaps > rounding
        factors[apart] = (0.5 - 1e-6) / np.sqrt(gaps[apart] + rounding)
        return cls(_rounded_down(least), factors.astype(np.float32))

    def distances(self, to_centers: np.ndarray) -> np.ndarray:
        """Return the least distances that rows of the clusters can have from queries.

        Parameters
        ----------
        to_centers : ndarray of shape (n_queries, n_clusters), float64
            Distances of the queries from the centres.

        Returns
        -------
        least : ndarray of shape (n_queries, n_clusters)
            Not negative.
        """
        n_nearest = min(_N_NEAREST, to_centers.shape[1])
        nearest = np.argpartition(to_centers, n_nearest - 1, axis=1)[:, :n_nearest]
        squares = np.square(to_centers)
        best = np.zeros_like(squares)
        for j in nearest.T:
            along = self.least[j] + squares
            along -= np.take_along_axis(squares, j[:, None], axis=1)
            along *= self.factors[j]
            np.maximum(best, along, out=best)
        return best


def _rounded_down(values):
    """Return the values in single precision, none of them larger than it was."""
    single = values.astype(np.float32)
    return np.nextafter(single, np.float32(-np.inf))
