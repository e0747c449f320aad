"""Functions that return the hybrids of Choromanski et al. (2022) as samplers."""

from __future__ import annotations

from typing import Any, Literal

from ...frequencies import Antithetic, Coupling, get_coupling
from .._base import BaseFeatureSampler
from .._positive import PositiveRBFSampler
from .._trigonometric import TrigRBFSampler
from .clustered import ClusteredSampler
from .coefficients import AngularCoefficient, GaussianCoefficient
from .sampler import HybridSampler


def angular_hybrid(
    *,
    n_coefficients: int = 1,
    coupling: str | Coupling = "orthogonal",
    **params: Any,
) -> HybridSampler:
    r"""Return the angular hybrid: positive features weighted by the angle.

    Positive features with frequencies w and -w are exact for opposite rows x and -x,
    and random Fourier features are exact for equal rows. The weight of the positive
    features is the angle between the two rows divided by pi, so the variance is zero
    both for equal and for opposite rows. The variance grows quickly with the norm of
    the rows.

    Parameters
    ----------
    n_coefficients : int, default=1
        Number n of random directions that are used to estimate the angle.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies of each map depend on each other, as for
        :class:`~sklearn_crt.TrigRBFSampler`. If the coupling is structured, orthogonal
        directions are used for the angle.
    **params : dict
        Further parameters of :class:`HybridSampler`: ``shared``, ``sigma``,
        ``n_components``, ``center``, ``kernel``, ``n_jobs`` and ``random_state``.

    Returns
    -------
    sampler : HybridSampler
        Unfitted sampler whose ``bases`` and ``coefficients`` are set.

    Raises
    ------
    ValueError
        If ``coupling`` is not the name of a coupling.

    See Also
    --------
    HybridSampler : The general hybrid, with optimal positive features by default.
    gaussian_hybrid : A hybrid whose weight is one minus a Gaussian kernel.

    Notes
    -----
    Let :math:`\theta` be the angle between x and y, and let t be one of n random
    directions. The hybrid combines the estimates of the two base maps ([1]_, section
    2.4 and equation 19):

    .. math:: \hat K = \hat\lambda \hat K_{positive}
       + (1 - \hat\lambda) \hat K_{trigonometric}, \qquad
       \hat\lambda = \frac12 - \frac{1}{2n} \sum_t \operatorname{sign}(t \cdot x)
       \operatorname{sign}(t \cdot y), \qquad E \hat\lambda = \frac\theta\pi .

    To use m frequencies in each base map, set ``n_components=4 * m * (n + 1)``. In [1]_
    the two base maps share their frequencies (``shared=True``).

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import angular_hybrid
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> sampler = angular_hybrid(sigma=1.0, n_components=80, random_state=0).fit(X)
    >>> bool(np.diag(sampler.kernel_variance(X, -X)).max() < 1e-15)
    True
    """
    coefficient = AngularCoefficient(coupling=_exact(coupling))
    return HybridSampler(
        bases=_positive_and_trigonometric(coupling),
        coefficients=[("angle", coefficient)],
        n_coefficients=n_coefficients,
        **params,
    )


def gaussian_hybrid(
    *,
    lambda_sigma: float = 1.0,
    n_coefficients: int = 1,
    coupling: str | Coupling = "orthogonal",
    **params: Any,
) -> HybridSampler:
    r"""Return the Gaussian hybrid: positive features weighted by the distance.

    The hybrid has the same base maps as :func:`angular_hybrid`. The weight of the
    positive features is one minus a Gaussian kernel, normalised so that the weight is
    one for opposite rows x and -x with the largest norm in the data. In contrast to the
    angular hybrid, the variance is zero only for equal rows.

    Parameters
    ----------
    lambda_sigma : float, default=1.0
        Inverse length scale of the Gaussian kernel in the weight, for rows that are
        already multiplied by ``sigma``.
    n_coefficients : int, default=1
        Number n of frequencies that are used to estimate the weight.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies of each map depend on each other, as for
        :class:`~sklearn_crt.TrigRBFSampler`. If the coupling is structured, orthogonal
        frequencies are used for the weight.
    **params : dict
        Further parameters of :class:`HybridSampler`: ``shared``, ``sigma``,
        ``n_components``, ``center``, ``kernel``, ``n_jobs`` and ``random_state``.

    Returns
    -------
    sampler : HybridSampler
        Unfitted sampler whose ``bases`` and ``coefficients`` are set.

    Raises
    ------
    ValueError
        If ``coupling`` is not the name of a coupling.

    See Also
    --------
    angular_hybrid : A hybrid whose weight is the angle divided by pi.

    Notes
    -----
    Let :math:`\tau` be ``lambda_sigma``, let all rows be multiplied by sigma, and let r
    be the largest norm of these rows ([1]_, section F). Then

    .. math:: \hat K = \hat\lambda \hat K_{positive}
       + (1 - \hat\lambda) \hat K_{trigonometric}, \qquad
       E \hat\lambda = \frac{1 - e^{-\tau^2 |x - y|^2 / 2}}{1 - e^{-2 \tau^2 r^2}} .

    To use m frequencies in each base map, set ``n_components=4 * m * (2 * n + 1)``. In
    [1]_ the two base maps share their frequencies (``shared=True``).

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import gaussian_hybrid
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = gaussian_hybrid(lambda_sigma=0.5, n_components=120, random_state=0)
    >>> bool(np.diag(sampler.fit(X).kernel_variance(X)).max() < 1e-15)
    True
    """
    coefficient = GaussianCoefficient(sigma=lambda_sigma, coupling=_exact(coupling))
    return HybridSampler(
        bases=_positive_and_trigonometric(coupling),
        coefficients=[("distance", coefficient)],
        n_coefficients=n_coefficients,
        **params,
    )


def clustered_hybrid(
    *,
    n_clusters: int | tuple[int, int] = 2,
    diagonal: Literal["complex", "real"] = "complex",
    statistic: Literal["moments", "centers"] = "moments",
    n_pairs: int | None = None,
    default: BaseFeatureSampler | None = None,
    coupling: str | Coupling = "orthogonal",
    **params: Any,
) -> HybridSampler:
    r"""Return the clustered hybrid: one map for each pair of clusters.

    Queries and keys are clustered by k-means. Each pair of clusters has its own
    exponential features, with a diagonal matrix that makes the variance small for this
    pair. Use this hybrid if the spread of the clusters is less than about half the norm
    of their centres.

    Parameters
    ----------
    n_clusters : int or tuple of two int, default=2
        Number of clusters for queries and for keys: one number for both, or a pair.
    diagonal : {"complex", "real"}, default="complex"
        Whether the diagonals may have imaginary entries. If they may,
        ``statistic="centers"`` makes the variance zero at the cluster centres. Real
        diagonals, as used for the tables in [1]_, need only one column per frequency.
    statistic : {"moments", "centers"}, default="moments"
        Whether the diagonals are computed from the second moments of the clusters, or
        only from their centres, as in [1]_. The moments give a lower variance unless
        the clusters are very narrow.
    n_pairs : int, default=None
        Number of pairs of clusters with a map of their own, namely those with the
        largest product of the numbers of their rows. All other pairs share the map
        ``default``. None means all pairs.
    default : sampler, default=None
        Unfitted sampler for the pairs without a map of their own. None means random
        Fourier features.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies of each map depend on each other, as for
        :class:`~sklearn_crt.TrigRBFSampler`.
    **params : dict
        Further parameters of :class:`HybridSampler`: ``sigma``, ``n_components``,
        ``center``, ``kernel``, ``n_jobs`` and ``random_state``.

    Returns
    -------
    sampler : HybridSampler
        Unfitted sampler whose only base is a
        :class:`~sklearn_crt.ClusteredSampler`.

    See Also
    --------
    angular_hybrid : A hybrid that needs no clusters.
    ComplexExponentialSampler : The features for a single pair of clusters.

    Notes
    -----
    For a pair of clusters with centres r and c, the map is ([1]_, sections 2.4 and H)

    .. math:: f(x) = e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \qquad
       g(y) = e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}, \qquad
       |a_l| = \sqrt{|c_l / r_l|}

    where :math:`a_l` is imaginary if :math:`r_l c_l > 0`. The variance is zero for x =
    r and y = c.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import TrigRBFSampler
    >>> from sklearn_crt.samplers import clustered_hybrid
    >>> centers = np.array([[1.0, 0.5, -1.0], [-1.0, 1.0, 0.5]])
    >>> X = np.repeat(centers, 50, axis=0)
    >>> X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    >>> options = {"sigma": 1.0, "n_components": 80, "random_state": 0}
    >>> for sampler in (TrigRBFSampler(**options), clustered_hybrid(**options)):
    ...     print(f"{np.median(sampler.fit(X).kernel_variance(X)):.1e}")
    4.0e-03
    1.7e-05
    """
    base = ClusteredSampler(
        n_clusters=n_clusters,
        diagonal=diagonal,
        statistic=statistic,
        n_pairs=n_pairs,
        default=default,
        coupling=coupling,
    )
    return HybridSampler(bases=[("clustered", base)], coefficients=[], **params)


def _positive_and_trigonometric(coupling: str | Coupling) -> list[tuple[str, Any]]:
    """Return a base map exact for opposite rows, and one exact for equal rows."""
    pairs = get_coupling(coupling, "A hybrid")
    if not pairs.norm_dependent:  # Antithetic needs angles that ignore the norms
        pairs = Antithetic(pairs)
    positive = PositiveRBFSampler(coupling=pairs, center=False)
    trigonometric = TrigRBFSampler(coupling=coupling)
    return [("positive", positive), ("trigonometric", trigonometric)]


def _exact(coupling: str | Coupling) -> str | Coupling:
    """Return the coupling, or ``"orthogonal"`` if it is not exactly unbiased."""
    return coupling if get_coupling(coupling, "A hybrid").exact else "orthogonal"
