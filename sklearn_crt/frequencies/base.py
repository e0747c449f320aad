"""Frequencies, and couplings, which are joint distributions of frequencies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.random import Generator

from .._array import asarray_like
from .._compat import cached_property
from .._docstrings import complete_docstring
from .._kernels import dense_product, stack
from .._names import name_constructor
from .radial import Family


class Frequencies:
    """Frequencies that are stored as the columns of a matrix.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_frequencies)
        One frequency in each column, for ``sigma=1``.

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
        # a contiguous array makes products twice as fast
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
        """The floating type."""
        return self.sq_norms.dtype

    def apply(self, X: Any, out: np.ndarray | None = None) -> Any:
        """Apply the frequencies to rows.

        Parameters
        ----------
        X : {array, sparse matrix} of shape (..., n_samples, n_features)
            Rows, in the array library of the frequencies.
        out : ndarray of shape (..., n_samples, n_frequencies), default=None
            Array that may be overwritten with the result and returned.

        Returns
        -------
        projection : array of shape (..., n_samples, n_frequencies)
            The inner products w.x.
        """
        return dense_product(X, self.weights, out)

    def of_shift(self, shift: np.ndarray) -> np.ndarray:
        """Return the inner products with a vector by which many rows are shifted.

        Parameters
        ----------
        shift : ndarray of shape (n_features,)
            The vector.

        Returns
        -------
        products : ndarray of shape (n_frequencies,)
            They are cached until the method is called with another vector, because they
            may take longer than the products with a chunk of sparse rows.
        """
        known, products = self.__dict__.get("_of_shift", (None, None))
        if known is None or known.dtype != shift.dtype or np.any(known != shift):
            products = self.apply(shift[None, :])[0]
            self.__dict__["_of_shift"] = shift.copy(), products
        return products

    def __getstate__(self) -> dict[str, object]:
        """Return the state, without cached arrays."""
        return {k: v for k, v in self.__dict__.items() if k != "_of_shift"}

    def stack(self, scale: float, offsets: Any) -> Any:
        """Return the matrix that maps (x, 1, r) to scale * w.x + offset + r, or None.

        Parameters
        ----------
        scale : float
            Factor of the inner products.
        offsets : array of shape (1, n_frequencies)
            Numbers that are added to each column.

        Returns
        -------
        stacked : array of shape (n_features + 2, n_frequencies) or None
            The matrix; None if the frequencies are not applied as a matrix.
        """
        return stack(self.weights, scale, offsets)

    def to(self, like: Any) -> Frequencies:
        """Return a copy for the array library, device and data type of an array.

        Parameters
        ----------
        like : array
            Array whose library, device and floating type the rows will have.

        Returns
        -------
        frequencies : Frequencies
            These frequencies, or a copy in the library, device and type of the array.
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
            One frequency in each column.
        """
        return self.weights


@dataclass(frozen=True, eq=False)
class Affine:
    """The form scale * w.x + offset of each frequency, for ``Inputs.affine``."""

    frequencies: Frequencies
    scale: float
    offsets: Any  # (1, n_frequencies)

    @cached_property
    def stacked(self) -> Any:
        """The cached result of ``Frequencies.stack``."""
        return self.frequencies.stack(self.scale, self.offsets)

    def to(self, like: Any) -> Affine:
        """Return a copy for the library, device and data type of an array."""
        offsets = asarray_like(self.offsets, like)
        return Affine(self.frequencies.to(like), self.scale, offsets)


class JointFrequencies(Frequencies):
    """Concatenated frequencies of several maps, without a joint matrix."""

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
        return JointFrequencies([part.to(like) for part in self.parts])


class Coupling(ABC):
    """Joint distribution of the frequencies that a feature map uses.

    Each frequency follows the spectral distribution of the kernel. A coupling
    does not change the distribution of a single frequency, so the estimate of the
    kernel remains unbiased. It changes the cross moments of the frequencies so that the
    variance decreases. Draws are nested: if the generators are in the same state, the
    first m of 2m frequencies are the same as in a draw of m frequencies.

    Attributes
    ----------
    exact : bool
        Whether each frequency has exactly the distribution of the kernel; False for
        structured projections.
    bias : float
        Bound on the relative bias of an estimate for rows of norm 0.7 and sigma 1; 0 if
        ``exact`` is True.
    independent_norms : bool
        Whether the norms of a block are independent, as closed forms of the variance
        assume; False for stratified norms.
    norm_dependent : bool
        Whether directions depend on norms, so that ``weigh`` has an effect.
    opposite : bool
        Whether each frequency w of a draw represents w and -w, which only positive
        exponential maps can use.
    """

    exact = True
    bias = 0.0
    independent_norms = True
    norm_dependent = False
    opposite = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        name_constructor(cls)
        complete_docstring(cls)

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
            Function that returns the distribution of the norm of a frequency in a given
            dimension. This is an object with ``rvs(size, random_state)``, whose smaller
            draws are the beginning of larger ones, ``ppf(u)`` and ``cdf(r)``.
        n_frequencies, n_features : int
            Number m of frequencies, and their dimension d.
        rng : numpy.random.Generator
            Source of randomness. Separate draws use child generators.

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
            Number m of frequencies, and their dimension d.

        Returns
        -------
        sizes : ndarray of int
            They sum to m.
        """
        return np.ones(n_frequencies, dtype=int)

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
            Number m of frequencies, and their dimension d.

        Returns
        -------
        n_pairs : int
            The sum of s (s - 1) over the sizes s of the blocks.
        """
        sizes = self.block_sizes(n_frequencies, n_features)
        return int(np.sum(sizes * (sizes - 1)))

    def fixed_cosine(self, n_features: int) -> float | None:
        """Return ``cosine`` if the norms are independent, as closed forms assume.

        Parameters
        ----------
        n_features : int
            Dimension d of the frequencies.

        Returns
        -------
        cosine : float or None
            The cosine; None if there is no closed form for pairs of frequencies of a
            block.
        """
        return self.cosine(n_features) if self.independent_norms else None

    def weigh(self, coefficient: float | None) -> Coupling:
        """Return the coupling for features that weight frequencies by their norms.

        Parameters
        ----------
        coefficient : float or None
            Coefficient c of features in which a frequency w has the weight ``|w| exp(c
            |w|^2)``; None if directions that depend on norms would not reduce the
            variance.

        Returns
        -------
        coupling : Coupling
            Itself, unless ``norm_dependent``.
        """
        return self


C = TypeVar("C", bound=Coupling)
_REGISTRY: dict[str, type[Coupling]] = {}


def register(name: str) -> Callable[[type[C]], type[C]]:
    """Return a class decorator that makes a coupling available under a name.

    Parameters
    ----------
    name : str
        New value for the parameter ``coupling`` of samplers.

    Returns
    -------
    decorator : callable
        Function that registers a class and returns it. The class must be callable
        without arguments.
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
    """Return the coupling with a given name, or the object itself.

    Parameters
    ----------
    coupling : str or Coupling
        Value of the parameter ``coupling`` of a sampler.
    owner : str
        Name of the class of the sampler, for the error message.
    usable : callable, default=None
        Function that returns whether the sampler can use a coupling, given as an object
        or as its class. None excludes couplings whose frequencies w represent w and -w.
    reason : str, default=""
        Reason why some couplings cannot be used, for the error message.

    Returns
    -------
    coupling : Coupling
        The object.

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
    if usable is None:
        usable = _stands_for_itself
    kind: Any = _REGISTRY.get(coupling) if isinstance(coupling, str) else coupling
    if kind is not None and usable(kind):
        return coupling if isinstance(coupling, Coupling) else kind()
    choice = ", ".join(repr(name) for name, kind in _REGISTRY.items() if usable(kind))
    raise ValueError(
        f"coupling={coupling!r} is not one that {owner} can use{reason}; use one of "
        f"{choice}, or another Coupling object."
    )


def _stands_for_itself(coupling: Any) -> bool:
    """Return whether each frequency w represents only w, and not -w as well."""
    return not coupling.opposite
