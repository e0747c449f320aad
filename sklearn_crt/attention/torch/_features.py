"""Random features as a layer of torch."""

from __future__ import annotations

from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from ...maps import map_arrays
from ...rows import Frame
from ._maps import arrays_of


class RandomFeatures(nn.Module):
    """The features of a fitted sampler as a layer, with a sigma that is learned.

    Parameters
    ----------
    sampler : fitted sampler
        Which is not changed.
    learn_sigma : bool, default=True
        Whether sigma takes a gradient.
    device, dtype : default=None
        Of parameters and buffers.

    Attributes
    ----------
    log_sigma : Parameter of shape () or (1, n_features)
        Logarithm of sigma, which so stays positive; or one per column.

    Raises
    ------
    NotFittedError
        If the sampler is not fitted.

    See Also
    --------
    LinearAttention : Averages of values by such features.

    Notes
    -----
    Frequencies stay as they were drawn, and so do parameters that ``fit`` chose for the
    sigma before, such as the A of :class:`~sklearn_crt.OPRFSampler`: at any sigma the
    features are unbiased.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt import TrigRBFSampler
    >>> from sklearn_crt.attention.torch import RandomFeatures
    >>> X = torch.randn(100, 5)
    >>> sampler = TrigRBFSampler(n_components=64, random_state=0).fit(X.numpy())
    >>> layer = RandomFeatures(sampler)
    >>> model = torch.nn.Sequential(layer, torch.nn.Linear(64, 1))
    >>> model(X).sum().backward()
    >>> bool(layer.log_sigma.grad != 0)
    True
    """

    def __init__(
        self,
        sampler: Any,
        *,
        learn_sigma: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_is_fitted(sampler)
        place = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        like = torch.empty(1, sampler.n_features_in_, dtype=torch.float64)
        self._map = sampler.map_.to(like)
        for name, array in arrays_of(self._map).items():
            self.register_buffer(name, array.to(**place))
        sigma = torch.as_tensor(self._map.frame.sigma, dtype=torch.float64)
        self.log_sigma = nn.Parameter(sigma.log().to(**place), learn_sigma)

    def forward(self, X: Tensor, key: bool = False) -> Tensor:
        """Return the features of rows.

        Parameters
        ----------
        X : Tensor of shape (..., n_samples, n_features)
            Rows, float32 or float64.
        key : bool, default=False
            Whether to take the features of the key side, where the two differ.

        Returns
        -------
        features : Tensor of shape (..., n_samples, n_components)
            Whose inner products estimate the kernel.
        """
        buffers = dict(self.named_buffers())
        feature_map = map_arrays(lambda name, _: buffers[name].to(X.dtype), self._map)
        sigma = self.log_sigma.to(X.dtype).exp()
        frame = Frame(sigma, feature_map.frame.center)
        return feature_map.features(frame.rows(X), key=key)
