"""Orthogonal and simplex frequencies from fast transforms in place of a rotation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ._coupling import Coupling
from ._frequencies import Frequencies
from ._hadamard import HadamardFrequencies
from ._radial import RadialLaw
from ._registry import register

_MIN_SIZE = 16  # below, three products are too far from a rotation


@register("structured-orthogonal")
class StructuredOrthogonal(Coupling):
    r"""Blocks of orthogonal frequencies in time O(d log d) a block and row.

    The rotation of ``Orthogonal`` is replaced by :math:`H D_3 H D_2 H D_1`, where the
    :math:`D_i` are diagonal matrices of random signs and H is the orthonormal
    Walsh-Hadamard matrix. Rows are padded with zeros to d', the next power of two, at
    least 16; a block has d' frequencies, and their norms have the law of dimension d'.
    So frequencies are orthogonal before their last d' - d coordinates are dropped [1]_.

    Attributes
    ----------
    exact : bool
        False: directions are nearly uniform.
    bias : float
        0.01: estimates of the Gaussian kernel are biased by less than 1 % for rows
        of norm 0.7 and every d. The bias falls with d' and grows with the norm.

    Notes
    -----
    Up to d = 256 or m = 256 the dense product is faster, and the frequencies are
    written out. Beyond, only signs and norms are kept, about 5 m numbers; so memory is
    O(m + d) everywhere.

    References
    ----------
    .. [1] K. Choromanski, M. Rowland, A. Weller, "The Unreasonable Effectiveness of
       Structured Random Orthogonal Embeddings", NeurIPS 2017, :arxiv:`1703.00864`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import StructuredOrthogonal, chi_law
    >>> rng = np.random.default_rng(0)
    >>> frequencies = StructuredOrthogonal().draw(chi_law, 1000, 512, rng)
    >>> frequencies.apply(np.ones((3, 512))).shape
    (3, 1000)
    """

    exact = False
    bias = 0.01  # at most 0.007 in dimension 16, at distance 1.4
    _simplex = False
    _n_products = 3
    _dense_up_to = 256  # columns or frequencies: the dense product is faster

    def _size(self, n_features: int) -> int:
        """Return the size d' of a block."""
        return max(_MIN_SIZE, 1 << (n_features - 1).bit_length())

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        size = self._size(n_features)
        full, rest = divmod(n_frequencies, size)
        return np.array([size] * full + [rest] * (rest > 0))

    def cosine(self, n_features: int) -> float | None:
        return 0.0 if n_features == self._size(n_features) else None

    def draw(
        self,
        radial_law: Callable[[int], RadialLaw],
        n_frequencies: int,
        n_features: int,
        rng: np.random.Generator,
    ) -> Frequencies:
        signs_rng, norms_rng = rng.spawn(2)
        size = self._size(n_features)
        norms = radial_law(size).rvs(n_frequencies, random_state=norms_rng)
        shape = (-(-n_frequencies // size), self._n_products, size)  # block after block
        signs = 2.0 * signs_rng.integers(0, 2, shape, dtype=np.int8) - 1
        signs = np.ascontiguousarray(np.swapaxes(signs, 0, 1))
        frequencies = HadamardFrequencies(signs, norms, n_features, self._simplex)
        if min(n_features, n_frequencies) > self._dense_up_to:
            return frequencies
        return Frequencies(frequencies.to_dense())


@register("structured-simplex")
class StructuredSimplex(StructuredOrthogonal):
    r"""Blocks of simplex frequencies in time O(d log d) a block and row.

    As ``StructuredOrthogonal``, with the simplex matrix S applied to the products in
    O(d'): frequencies point to the corners of a simplex in the padded dimension d',
    with the cosine :math:`-1 / (d' - 1)` between any two of a block [1]_.

    Attributes
    ----------
    exact, bias : bool, float
        False and 0.01, as for ``StructuredOrthogonal``.

    References
    ----------
    .. [1] I. Reid et al., "Simplex Random Features", ICML 2023, section 3.3,
       :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import StructuredSimplex, chi_law
    >>> rng = np.random.default_rng(0)
    >>> W = StructuredSimplex().draw(chi_law, 16, 16, rng).to_dense()
    >>> unit = W / np.linalg.norm(W, axis=0)
    >>> round(float(unit[:, 0] @ unit[:, 1]), 4)  # -1 / 15
    -0.0667
    """

    _simplex = True

    def cosine(self, n_features: int) -> float | None:
        size = self._size(n_features)
        return -1 / (size - 1) if n_features == size else None
