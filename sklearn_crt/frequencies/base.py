"""Frequency matrices, and their joint distributions, which are called couplings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from .._compat import cached_property
from ..arrays.loops import dense_product
from ..arrays.namespaces import asarray_like, namespace_of
from .radial_laws import Family


class Frequencies:
    """Random frequencies, stored as the columns of a matrix.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_frequencies)
        One frequency per column, for ``sigma=1``.

    Attributes
    ----------
    sq_norms : ndarray of shape (n_frequencies,)
        Squared norms of the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import Frequencies
    >>> frequencies = Frequencies(np.array([[3.0, 0.0], [4.0, 1.0]]))
    >>> frequencies.apply(np.array([[1.0, 1.0]]))
    array([[7., 1.]])
    >>> frequencies.sq_norms
    array([25.,  1.])
    """

    weights: Any
    sq_norms: Any

    def __init__(self, weights: np.ndarray):
        # matrix products are twice as fast if the array is contiguous
        self.weights = np.ascontiguousarray(weights)
        self.sq_norms = np.einsum("lm,lm->m", weights, weights)

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.weights.shape[-1]

    @property
    def n_features(self) -> int:
        """Dimension of the frequencies."""
        return self.weights.shape[-2]

    @property
    def dtype(self) -> Any:
        """Floating-point dtype of the frequencies."""
        return self.sq_norms.dtype

    def apply(self, X: Any, out: np.ndarray | None = None) -> Any:
        """Compute the inner products of rows with the frequencies.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (..., n_samples, n_features)
            Rows, as an array of the same library as the frequencies.
        out : ndarray of shape (..., n_samples, n_frequencies), default=None
            Output array, to which the result may be written.

        Returns
        -------
        projection : array of shape (..., n_samples, n_frequencies)
            The inner product w.x of each row x with each frequency w.
        """
        return dense_product(X, self.weights, out)

    def of_shift(self, shift: np.ndarray) -> np.ndarray:
        """Return the inner products of the frequencies with a common shift of the rows.

        Parameters
        ----------
        shift : ndarray of shape (n_features,)
            Vector that is subtracted from all rows.

        Returns
        -------
        products : ndarray of shape (n_frequencies,)
            The inner products. They are cached until the method is called with another
            vector, because computing them can take longer than multiplying a chunk of
            sparse rows by the frequencies.
        """
        known, products = self.__dict__.get("_of_shift", (None, None))
        if known is None or known.dtype != shift.dtype or np.any(known != shift):
            products = self.apply(shift[None, :])[0]
            self.__dict__["_of_shift"] = shift.copy(), products
        return products

    def __getstate__(self) -> dict[str, object]:
        """Return the state for pickling, without cached arrays."""
        return {k: v for k, v in self.__dict__.items() if k != "_of_shift"}

    def stack(self, scale: float, offsets: Any) -> Any:
        """Return the matrix that maps (x, 1, r) to scale * w.x + offset + r, or None.

        Parameters
        ----------
        scale : float
            Factor by which the inner products w.x are multiplied.
        offsets : array of shape (1, n_frequencies)
            Offset for each frequency w.

        Returns
        -------
        stacked : array of shape (n_features + 2, n_frequencies) or None
            The matrix, or None if the frequencies are not stored as a matrix. The
            number r is added to the result for every frequency.
        """
        xp = namespace_of(self.weights)
        ones = xp.ones_like(offsets)
        return xp.concat([scale * self.weights, offsets, ones], axis=-2)

    def to(self, like: Any) -> Frequencies:
        """Convert the frequencies to the library, device and dtype of an array.

        Parameters
        ----------
        like : array
            Array with the library, device and floating-point dtype of the rows.

        Returns
        -------
        frequencies : Frequencies
            The same object if nothing needs to be converted, otherwise a copy.
        """
        weights = asarray_like(self.weights, like)
        return self if weights is self.weights else self._moved(weights, like)

    def _moved(self, weights: Any, like: Any) -> Frequencies:
        moved = Frequencies.__new__(type(self))
        moved.weights, moved.sq_norms = weights, asarray_like(self.sq_norms, like)
        return moved

    def to_dense(self) -> np.ndarray:
        """Return the frequencies as a dense matrix.

        Returns
        -------
        weights : ndarray of shape (n_features, n_frequencies)
            One frequency per column.
        """
        return self.weights


@dataclass(frozen=True, eq=False)
class Affine:
    """Functions scale * w.x + offset, one per frequency, for ``Inputs.affine``."""

    frequencies: Frequencies
    scale: float
    offsets: Any  # (1, n_frequencies)

    @cached_property
    def stacked(self) -> Any:
        """The cached result of ``Frequencies.stack``."""
        return self.frequencies.stack(self.scale, self.offsets)

    def to(self, like: Any) -> Affine:
        """Convert the functions to the library, device and dtype of an array."""
        offsets = asarray_like(self.offsets, like)
        return Affine(self.frequencies.to(like), self.scale, offsets)


class JointFrequencies(Frequencies):
    """Frequencies of several maps, concatenated without storing a joint matrix."""

    def __init__(self, parts: Sequence[Frequencies]):
        self.parts = parts

    @property
    def sq_norms(self) -> np.ndarray:
        norms = [part.sq_norms for part in self.parts]
        return np.concatenate(norms) if norms else np.zeros(0)

    @property
    def weights(self) -> np.ndarray:  # computed on demand
        if not self.parts:
            return np.zeros((0, 0))
        return np.hstack([part.to_dense() for part in self.parts])

    def apply(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        return np.hstack([part.apply(X) for part in self.parts])

    def to(self, like: Any) -> Frequencies:
        moved = [part.to(like) for part in self.parts]
        is_same = all(new is old for new, old in zip(moved, self.parts, strict=True))
        return self if is_same else JointFrequencies(moved)


@dataclass(frozen=True, eq=False)
class PairSample:
    """Pairs of standard normal frequencies from the blocks of a coupling."""

    sq_norms: np.ndarray  # (n_pairs,), the sum of both squared norms
    inner: np.ndarray  # (n_pairs,), the inner product of both
    cosine: float  # of a coupling with a fixed angle
    reference: np.ndarray  # (n_pairs,), the inner products for this angle


class Coupling(ABC):
    """Joint distribution of the frequencies that a feature map uses.

    Each frequency follows the spectral distribution of the kernel. A coupling makes the
    frequencies depend on each other to reduce the variance of the kernel estimate. The
    estimate remains unbiased, because the distribution of a single frequency does not
    change. Draws are nested: with generators in the same state, the first m frequencies
    in a draw of 2 m frequencies are the same as in a draw of m.

    Attributes
    ----------
    exact : bool
        Whether each frequency follows the spectral distribution of the kernel exactly;
        False for structured couplings.
    bias : float
        Upper bound on the relative bias of the kernel estimate for rows of norm 0.7
        with ``sigma=1``; 0 if ``exact`` is True.
    independent_norms : bool
        Whether the norms of the frequencies in a block are independent, as closed forms
        of the variance assume; False for stratified norms.
    norm_dependent : bool
        Whether the directions of the frequencies depend on their norms, so that
        ``weigh`` has an effect.
    opposite : bool
        Whether each drawn frequency w represents the pair w and -w. Only positive
        exponential maps can use such a coupling.
    """

    exact = True
    bias = 0.0
    independent_norms = True
    norm_dependent = False
    opposite = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        """Draw frequencies.

        Parameters
        ----------
        radial_law : callable
            Function that takes the dimension and returns the distribution of the norm
            of a frequency: an object with the methods ``ppf(u)``, ``cdf(r)`` and
            ``rvs(size, random_state)``. A smaller draw from ``rvs`` must equal the
            beginning of a larger draw.
        n_frequencies, n_features : int
            Number m and dimension d of the frequencies.
        rng : numpy.random.Generator
            Random generator. Directions, norms and other quantities are drawn from
            separate child generators, which are created by ``rng.spawn``.

        Returns
        -------
        frequencies : Frequencies
            The m frequencies.
        """

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        """Return the sizes of the blocks of dependent frequencies.

        Parameters
        ----------
        n_frequencies, n_features : int
            Number m and dimension d of the frequencies.

        Returns
        -------
        sizes : ndarray of int
            Sizes of the blocks, which sum to m.
        """
        return np.ones(n_frequencies, dtype=int)

    def _sampled_pairs(self, n_features: int) -> PairSample | None:
        """Return pairs of frequencies whose angle depends on their norms, or None."""
        return None

    def cosine(self, n_features: int) -> float | None:
        """Return the cosine of the angle between any two frequencies of a block.

        Parameters
        ----------
        n_features : int
            Dimension d of the frequencies.

        Returns
        -------
        cosine : float or None
            The cosine; None if the angle is not fixed.
        """
        return None

    def n_pairs(self, n_frequencies: int, n_features: int) -> int:
        """Return the number of ordered pairs of frequencies that share a block.

        Parameters
        ----------
        n_frequencies, n_features : int
            Number m and dimension d of the frequencies.

        Returns
        -------
        n_pairs : int
            The sum of s (s - 1) over the sizes s of the blocks.
        """
        sizes = self.block_sizes(n_frequencies, n_features)
        return int(np.sum(sizes * (sizes - 1)))

    def weigh(self, coefficient: float | None) -> Coupling:
        """Return the coupling for features that weight frequencies by their norms.

        Parameters
        ----------
        coefficient : float or None
            Coefficient c in the weight ``|w| exp(c |w|^2)`` that the features give to a
            frequency w; None if directions that depend on the norms would not reduce
            the variance.

        Returns
        -------
        coupling : Coupling
            The coupling itself, or a copy with this coefficient if ``norm_dependent``.
        """
        return self


C = TypeVar("C", bound=Coupling)
_REGISTRY: dict[str, type[Coupling]] = {}


def register(name: str) -> Callable[[type[C]], type[C]]:
    """Return a class decorator that makes a coupling available under a name.

    Parameters
    ----------
    name : str
        Name of the coupling, for the parameter ``coupling`` of samplers.

    Returns
    -------
    decorator : callable
        Function that registers a class and returns it. It must be possible to construct
        the class without arguments.
    """

    def add(cls: type[C]) -> type[C]:
        _REGISTRY[name] = cls
        return cls

    return add


def coupling_names() -> list[str]:
    """Return the names that ``coupling`` accepts, in the order of registration."""
    return list(_REGISTRY)


def get_coupling(
    coupling: str | Coupling,
    owner: str,
    usable: Callable[[Any], bool] | None = None,
    reason: str = "",
) -> Coupling:
    """Return the coupling with a given name; return coupling objects unchanged.

    Parameters
    ----------
    coupling : str or Coupling
        Value of the parameter ``coupling`` of a sampler.
    owner : str
        Class name of the sampler, for the error message.
    usable : callable, default=None
        Function that takes a coupling object or class, and returns whether the sampler
        can use this coupling. None excludes the couplings in which a frequency w
        represents the pair w and -w.
    reason : str, default=""
        Reason why some couplings cannot be used, for the error message.

    Returns
    -------
    coupling : Coupling
        The coupling.

    Raises
    ------
    ValueError
        If the name is unknown, or if the sampler cannot use the coupling. The message
        lists the names that can be used.

    Examples
    --------
    >>> from sklearn_crt.extend import get_coupling
    >>> get_coupling("orthogonal", "MySampler")
    Orthogonal()
    """
    usable = usable or (lambda kind: not kind.opposite)
    kind: Any = _REGISTRY.get(coupling) if isinstance(coupling, str) else coupling
    if kind is not None and usable(kind):
        return coupling if isinstance(coupling, Coupling) else kind()
    choice = ", ".join(repr(name) for name, kind in _REGISTRY.items() if usable(kind))
    raise ValueError(
        f"coupling={coupling!r} is not supported by {owner}{reason}; use one of "
        f"{choice}, or another Coupling object."
    )
