"""Orthogonal frequencies: rows of Haar-distributed rotations."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack

from ._blocks import BlockCoupling
from ._registry import register

_ONE_BY_ONE = 64  # columns from which a call of LAPACK for each block costs least


@register("orthogonal")
class Orthogonal(BlockCoupling):
    r"""Blocks of d orthogonal frequencies with independent norms.

    The directions of a block are rows of a Haar-distributed orthogonal matrix, each
    times a norm of its own law (chi with d degrees of freedom for the Gaussian
    kernel), so each frequency has exactly its law [1]_.

    Parameters
    ----------
    stratified : bool, default=False
        Whether the d norms of a block are drawn one from each d-th part of their law,
        in random order. The estimate stays unbiased; for the heavy-tailed kernels
        (Laplacian, Matern) its variance falls by up to a half, where right angles
        alone gain little. ``kernel_variance`` has no closed form then.

    Notes
    -----
    The Q of a QR decomposition of a Gaussian matrix is Haar only after its columns
    are multiplied by the signs of R's diagonal: with LAPACK's signs the first vector
    lies in one half space, and an estimate from positive features loses 21 % at d = 4.

    References
    ----------
    .. [1] F. X. Yu, A. T. Suresh, K. Choromanski, D. Holtmann-Rice, S. Kumar,
       "Orthogonal Random Features", NeurIPS 2016, :arxiv:`1610.09072`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import Orthogonal, chi_law
    >>> W = Orthogonal().draw(chi_law, 3, 3, np.random.default_rng(0)).to_dense()
    >>> bool(np.allclose(W.T @ W, np.diag(np.diag(W.T @ W))))
    True
    """

    def cosine(self, n_features: int) -> float | None:
        return 0.0

    def _directions(
        self, norms: np.ndarray, n_features: int, rng: np.random.Generator
    ) -> np.ndarray:
        # vector after vector, so the first of a block need no others
        gaussian = rng.standard_normal((*norms.shape, n_features))
        if n_features >= _ONE_BY_ONE:
            for vectors in gaussian:
                _orthogonalise(vectors)
            return gaussian
        q, r = np.linalg.qr(np.swapaxes(gaussian, -1, -2))
        return np.swapaxes(q * _signs(r)[..., None, :], -1, -2)


def _orthogonalise(vectors: np.ndarray) -> None:
    """Replace rows by those of Q, in their own memory."""
    work = 64 * len(vectors)
    r, tau, _, _ = lapack.dgeqrf(vectors.T, lwork=work, overwrite_a=True)
    signs = _signs(r[: len(vectors)])
    q, _, _ = lapack.dorgqr(r, tau, lwork=work, overwrite_a=True)
    np.multiply(q.T, signs[:, None], out=vectors)


def _signs(r: np.ndarray) -> np.ndarray:
    return np.where(np.einsum("...ii->...i", r) < 0, -1.0, 1.0)
