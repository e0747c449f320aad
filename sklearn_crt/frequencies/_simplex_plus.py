"""Simplex frequencies whose angles follow their norms."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from ._coupling import Coupling
from ._frequencies import Frequencies
from ._orthogonal import Orthogonal
from ._radial import RadialLaw
from ._registry import register
from ._simplex import Simplex, apply_simplex

_MAX_SWEEPS = 10
_TINY = 1e-300  # length of a vector that has no direction


def balance(sizes: np.ndarray, n_sweeps: int = _MAX_SWEEPS) -> np.ndarray:
    r"""Turn vectors of given lengths until their sum is as short as it gets.

    Cyclic sweeps :math:`u_i \leftarrow -\sum_{j \ne i} e_j u_j / |\cdot|` from the
    simplex (Reid et al. 2023, equation 17), O(d) a vector by a running total, the
    blocks side by side, each until its own sum is 0 or no sweep is left.

    Parameters
    ----------
    sizes : ndarray of shape (n_blocks, d)
        Lengths e, at least one of a block positive.
    n_sweeps : int
        Largest number of sweeps.

    Returns
    -------
    unit : ndarray of shape (n_blocks, d, d)
        The directions u.
    """
    n_blocks, d = sizes.shape
    unit = np.broadcast_to(apply_simplex(np.eye(d), axis=0), (n_blocks, d, d)).copy()
    if d == 1:
        return unit
    tolerance = 1e-12 * sizes.sum(axis=1)
    going = np.arange(n_blocks)
    for _ in range(n_sweeps):
        total = np.einsum("bi,bil->bl", sizes[going], unit[going])
        open_ = np.linalg.norm(total, axis=1) >= tolerance[going]
        going, total = going[open_], total[open_]
        for i in range(d):
            size, vector = sizes[going, i, None], unit[going, i]
            rest = total - size * vector
            length = np.linalg.norm(rest, axis=1, keepdims=True)
            turned = -rest / np.maximum(length, _TINY)
            vector = np.where(length < _TINY, vector, turned)
            unit[going, i] = vector
            total = rest + size * vector
    return unit


@register("simplex+")
class SimplexPlus(Simplex):
    r"""Simplex blocks in which longer frequencies stand at wider angles.

    Each direction of a block points away from the sum of the other frequencies, each
    times the factor by which the features weigh it, which a sampler says by ``weigh``.
    That makes their sum 0 wherever no norm exceeds all others together [1]_. Norms are
    drawn for each block, and the block is rotated at random after that, so each
    frequency has its law. Angles are not fixed: no closed form of the variance exists.

    Parameters
    ----------
    stratified : bool, default=False
        As for ``Simplex``.

    Notes
    -----
    At most 10 sweeps of equation 17, from the simplex, O(d^2) each a block; blocks
    whose sum is below 1e-12 of their norms rest. A vector of a block needs the norms
    of all the others, so a last partial block is cut from a whole one.

    References
    ----------
    .. [1] I. Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`,
       section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import Simplex, SimplexPlus, chi_law
    >>> for coupling in (Simplex(), SimplexPlus()):
    ...     W = coupling.draw(chi_law, 8, 8, np.random.default_rng(0)).to_dense()
    ...     print(f"{np.linalg.norm(W.sum(axis=1)):.3f}")
    2.679
    0.000
    """

    weight_dependent = True

    def __init__(self, *, stratified: bool = False):
        super().__init__(stratified=stratified)
        self._coefficient: float | None = 0.0

    def weigh(self, coefficient: float | None) -> Coupling:
        weighed = copy.copy(self)
        weighed._coefficient = coefficient
        return weighed

    def cosine(self, n_features: int) -> float | None:
        return None if self._coefficient is not None else super().cosine(n_features)

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        if self._coefficient is None:
            return super().draw(radial_law, n_frequencies, n_features, rng)
        # each vector of a block needs the norms of all the others: draw whole blocks
        whole = -(-n_frequencies // n_features) * n_features
        frequencies = super().draw(radial_law, whole, n_features, rng)
        return Frequencies(frequencies.to_dense()[:, :n_frequencies])

    def _directions(
        self, norms: np.ndarray, n_features: int, rng: np.random.Generator
    ) -> np.ndarray:
        if self._coefficient is None:
            return super()._directions(norms, n_features, rng)
        rotation = Orthogonal()._directions(norms, n_features, rng)
        log_factor = self._coefficient * norms**2
        log_factor = log_factor - log_factor.max(axis=1, keepdims=True)
        # the sweeps commute with rotations
        return balance(norms * np.exp(log_factor)) @ rotation
