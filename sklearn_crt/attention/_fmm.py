"""Near field and far field, as in the fast multipole method."""

from __future__ import annotations

from collections.abc import Sequence

from .._arrays import Array
from ._linear import linear_attention
from ._softmax import softmax_attention


def fmm_attention(
    q: Array,
    k: Array,
    v: Array,
    feature_maps: Sequence[object] = ("elu+1", "elu(-)+1"),
    *,
    band: int,
    near_weight: float | Array = 0.5,
    far_weight: float | Array = 0.5,
    causal: bool = False,
    key_mask: Array | None = None,
) -> Array:
    r"""Add exact attention to near keys and linear attention to all keys.

    Attention between rows that stand far apart often varies slowly, and a few features
    do for it; between neighbours it does not. So neighbours are treated exactly.

    Parameters
    ----------
    q : array of shape (..., n_rows, d)
        Queries.
    k : array of shape (..., n_rows, d)
        Keys.
    v : array of shape (..., n_rows, e)
        Values.
    feature_maps : list, default=("elu+1", "elu(-)+1")
        The r maps of the far field, each a ``feature_map`` of :func:`linear_attention`.
    band : int
        The near field of row i are the keys with abs(i - j) <= band.
    near_weight, far_weight : float or array, default=0.5
        Weights of the near field and of each far field. Positive numbers, for instance
        the sigmoid of free parameters; arrays broadcast against (..., n_rows, e), one a
        head for instance.
    causal : bool, default=False
        Whether row i sees the keys 0 ... i alone.
    key_mask : array of shape (..., n_rows), default=None
        True for the keys that count; or numbers that are added to the scores of keys.

    Returns
    -------
    output : array of shape (..., n_rows, e)
        The weights of the values in a row add up to near_weight + r far_weight.

    Raises
    ------
    TypeError, ValueError
        As for :func:`softmax_attention` and :func:`linear_attention`.

    Notes
    -----
    With the near field D and feature maps :math:`\phi_1 ... \phi_r` [1]_,

    .. math:: w_1 D V + w_2 \sum_{l=1}^r \frac{\phi_l(Q) (\phi_l(K)^\top V)}
       {\phi_l(Q) (\phi_l(K)^\top 1)} ,

    in time O(L (band + r m) (d + e)). One map of m columns makes a matrix of rank m,
    not 1; r maps make one of rank r m - (r - 1) at most, since all keep the vector of
    ones.

    References
    ----------
    .. [1] T. M. Nguyen et al., "FMMformer: Efficient and Flexible Transformer via
       Decomposed Near-field and Far-field Attention", NeurIPS 2021,
       :arxiv:`2108.02347`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.attention import fmm_attention
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 50, 4))
    >>> fmm_attention(q, k, np.ones_like(v), band=3).round(6)[0]
    array([1.5, 1.5, 1.5, 1.5])
    """
    near = softmax_attention(q, k, v, causal=causal, band=band, key_mask=key_mask)
    output = near_weight * near
    for feature_map in feature_maps:
        far = linear_attention(q, k, v, feature_map, causal=causal, key_mask=key_mask)
        output = output + far_weight * far
    return output
