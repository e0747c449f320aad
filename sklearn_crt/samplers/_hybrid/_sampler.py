"""Hybrid random features: base maps mixed with random coefficients."""

from __future__ import annotations

import warnings
from numbers import Integral, Real

import numpy as np
from sklearn import config_context
from sklearn.utils.validation import check_is_fitted

from .._compat import Interval, StrOptions
from ..frequencies import Coupling, JointProjection, get_coupling
from ..utils._docs import fill_doc
from ._base import BaseFeatureSampler
from ._clustered import ClusteredSampler, check_counts
from ._coefficients import AngularCoefficient, GaussianCoefficient
from ._combine import (
    Term,
    constant_of,
    distinct_rows,
    frequencies_of,
    log_features,
    terms_of,
    width_of,
    write_exponents,
    write_terms,
)
from ._draw import Draw
from ._gaussian import GaussianKernelMixin
from ._hybrid_variance import (
    HybridVarianceMixin,
    few_rows,
    mean_variances,
    row_pair,
)
from ._layout import Layout, best_n_coefficients
from ._mixture import mixture_parts
from ._positive_pair import PositivePairSampler
from ._rows import UnitRows
from ._trig_rbf import TrigRBFSampler

_NEEDED = ("fit", "transform", "exact_kernel", "kernel_variance")  # of each map


@fill_doc
class HybridSampler(HybridVarianceMixin, GaussianKernelMixin, BaseFeatureSampler):
    r"""Gaussian or softmax kernel from base maps mixed by coefficients (HRF).

    The estimate is :math:`\sum_k \hat\lambda_k \hat K_k + (1 - \sum_k \hat\lambda_k)
    \hat K_{last}` of base maps :math:`\hat K` and linearised coefficients
    :math:`\hat\lambda`, all random features, so that each base map counts where it is
    accurate.

    Parameters
    ----------
    kind : {"angular", "gaussian", "clustered"}, default="angular"
        Which coefficients and base maps are taken where ``coefficients`` and
        ``bases`` are None:

        - ``"angular"``: the angle over pi, from signs of projections, for
          PositivePairSampler; TrigRBFSampler has the rest. The variance is zero for
          rows of one length at angles 0 and pi.
        - ``"gaussian"``: one minus a Gaussian kernel, normalised, with the same maps.
        - ``"clustered"``: a map adapted to each pair of clusters of queries and keys
          (:class:`~sklearn_crt.samplers.ClusteredSampler`).
    bases : list of samplers, default=None
        Base maps, unfitted; the last has the rest of the coefficients. Their
        ``n_components``, ``sigma``, ``kernel`` and ``random_state`` are set here,
        where they have them. Any sampler with ``fit``, ``transform``,
        ``transform_key`` if asymmetric, ``exact_kernel`` and ``kernel_variance``.
    coefficients : list of samplers, default=None
        Coefficient maps, unfitted, one less than bases. Such a map is a sampler of
        the coefficient less the constant ``a_`` (0 without this attribute). It
        keeps its parameters except ``random_state``, and sees rows at unit bandwidth.
    n_coefficients : int or "auto", default="auto"
        Number of frequencies of each coefficient map that ``kind`` makes; ``"auto"``
        takes that of least mean variance on rows of the data.
    lambda_sigma : float, default=1.0
        Bandwidth of Gaussian coefficients, multiplies rows at unit bandwidth.
    shared : bool, default=False
        Whether base maps have one seed, so that maps with the same law share their
        frequencies. Coefficients never share with them.
    n_clusters : int or tuple of two int, default=2
        Number of clusters for ``kind="clustered"``, of queries and keys.
    mixture : {"zero-one", "gaussian"}, default="zero-one"
        Coefficients of ``kind="clustered"``: the map of the pair of clusters alone,
        or Gaussian kernels about the pairs of centres and TrigRBFSampler for the rest.
    diagonal : {"complex", "real"}, default="complex"
        Whether the maps of ``kind="clustered"`` may have imaginary diagonals.
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output. All are used: the largest layout that fits,
        then further frequencies of single base maps. Where not even the smallest
        layout fits, the last base map alone, with a warning that says how many
        columns the hybrid needs.
    %(coupling)s
        It is that of the maps that ``kind`` makes; coefficients are orthogonal where
        it is only nearly exact, as structured ones.
    center : bool, default=False
        Whether to subtract the mean of the columns first: angles and coefficients
        are those of centred rows then. Sparse rows are densified chunk by chunk.
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    bases_, coefficients_ : list of samplers
        The fitted maps.
    a_ : list of float
        The constant parts of the coefficients.
    spare_ : sampler or None
        A further map of the last base in columns that no layout fills.
    spare_weight_ : float
        The weight of its estimate.
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows, zero without ``center``.
    %(fitted)s

    See Also
    --------
    TrigRBFSampler : Best for pairs of rows that are close.
    PositiveRBFSampler : Best for pairs of rows that are opposite.

    Notes
    -----
    Queries and keys have the columns ([1]_, lemma 2.3), with :math:`\otimes` the outer
    product of the rows, A the k-th and L the last base map,

    .. math::

       &\sqrt{|a_k|}\, A_k(x), \quad r_{1k}(x) \otimes A_k(x), \quad
       \sqrt{|1 - \textstyle\sum a|}\, L(x), \quad r_{1k}(x) \otimes L(x), \\
       &\pm\sqrt{|a_k|}\, A_k(y), \quad r_{2k}(y) \otimes A_k(y), \quad
       \pm\sqrt{|1 - \textstyle\sum a|}\, L(y), \quad -r_{2k}(y) \otimes L(y)

    with the signs of :math:`a_k` and :math:`1 - \sum a`; parts with :math:`a_k = 0`
    are left out. With 2m columns a base and n frequencies a coefficient that is
    4m(n + 1) columns for ``"angular"`` and 4m(2n + 1) for ``"gaussian"``, computed in
    O((n + m) d + m n) a row.

    The maps are independent, so the variance is ([1]_, theorem 3.1)

    .. math:: \sum_k E \hat\lambda_k^2 \operatorname{Var} \hat K_k
       + E\bigl(1 - \sum_k \hat\lambda_k\bigr)^2 \operatorname{Var} \hat K_{last} .

    Independent frequencies that are shared by the positive and the trigonometric map
    subtract :math:`\frac2m K^2 (1 - \cos(|x|^2 - |y|^2)) E \hat\lambda (1 -
    \hat\lambda)`. Where ``variance_is_exact_`` is false, ``kernel_variance`` is that
    of independent maps.

    Parameters of the maps, clusters and variances of layouts are those of up to 1000
    rows of each side.

    %(errors)s

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import HybridSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> sampler = HybridSampler(sigma=1.0, n_components=200, random_state=0).fit(X)
    >>> sampler.transform(X).shape
    (100, 200)
    >>> bool(np.diag(sampler.kernel_variance(X)).max() < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
        "kind": [StrOptions({"angular", "gaussian", "clustered"})],
        "bases": [list, tuple, None],
        "coefficients": [list, tuple, None],
        "n_coefficients": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
        "lambda_sigma": [Interval(Real, 0, None, closed="neither")],
        "shared": ["boolean"],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), tuple],
        "mixture": [StrOptions({"zero-one", "gaussian"})],
        "diagonal": [StrOptions({"complex", "real"})],
        "coupling": [str, Coupling],
        "center": ["boolean"],
    }
    _law_is_fitted = True
    _reads_rows = True

    def __init__(
        self,
        *,
        kind="angular",
        bases=None,
        coefficients=None,
        n_coefficients="auto",
        lambda_sigma=1.0,
        shared=False,
        n_clusters=2,
        mixture="zero-one",
        diagonal="complex",
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        center=False,
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.kind = kind
        self.bases = bases
        self.coefficients = coefficients
        self.n_coefficients = n_coefficients
        self.lambda_sigma = lambda_sigma
        self.shared = shared
        self.n_clusters = n_clusters
        self.mixture = mixture
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ------------------------------------------------------------------ fitting
    def _center(self):
        return self.center_ if self.center else None

    def _fit_parameters(self, moments, key_moments):
        center = 0.5 * (moments.mean + key_moments.mean)
        self.center_ = center if self.center else np.zeros_like(center)

    def _coupling(self):
        return get_coupling(self.coupling, type(self).__name__)

    def _draw_projection(self, n_features, rng):
        *streams, cluster_rng = rng.spawn(4)
        samples = [self._unit_sample(s) for s in self._row_samples.values()]
        bases, coefficients = self._parts(samples, cluster_rng)
        seeds = [stream.integers(2**31 - 1, size=len(bases)) for stream in streams]
        # the last base has the first seed: alone it is the map that it is in a hybrid
        base_seeds = seeds[0][[0] * len(bases)] if self.shared else seeds[0][::-1]
        draw = Draw(samples, base_seeds, seeds[1])
        layout = self._layout(bases, coefficients, draw)
        fallback = getattr(bases[-1], "fallback", bases[-1])
        if layout is None:
            widths, rest = [self.n_components], 0
            bases, coefficients, counts = [fallback], [], []
        else:
            widths, rest = layout.split(self.n_components)
            counts = layout.n_coefficients
        self.bases_ = draw.bases(bases, widths)
        self.coefficients_ = draw.coefficients(coefficients, counts)
        self.a_ = [constant_of(part) for part in self.coefficients_]
        self._terms, start = terms_of(self.a_, counts, widths)
        self.spare_, self.spare_weight_ = None, 0.0
        if rest:
            self.spare_ = draw.base(fallback, rest, seeds[2][0])
            self.spare_weight_ = self._best_spare_weight(samples)
            main, spare = (1 - self.spare_weight_) ** 0.5, self.spare_weight_**0.5
            self._terms = [t._replace(scale=main * t.scale) for t in self._terms]
            columns = slice(start, start + rest)
            self._terms.append(Term(len(bases), None, spare, 1, columns, 1))
        return JointProjection(
            frequencies_of([*self.bases_[::-1], *self.coefficients_])
        )

    def _unit_sample(self, sample):
        """Return the distinct rows of a sample at unit bandwidth, and their weights."""
        rows, weights = distinct_rows(sample)
        return UnitRows(rows, self.sigma_, self._center()).matrix, weights

    def _parts(self, samples, rng):
        """Return the unfitted base maps and coefficient maps."""
        bases, coefficients = self.bases, self.coefficients
        if self.kind == "clustered":
            check_counts(self.n_clusters)
            if self.mixture == "gaussian" and bases is None and coefficients is None:
                options = self.n_clusters, self.lambda_sigma, self.coupling, rng
                return mixture_parts(samples, *options)
        if bases is None:
            bases = self._own_bases()
        if coefficients is None:
            coefficients = self._own_coefficients()
        for part in (*bases, *coefficients):
            missing = [name for name in _NEEDED if not hasattr(part, name)]
            if missing or isinstance(part, type):
                lack = f"it lacks {', '.join(missing)}" if missing else "it is a class"
                raise ValueError(
                    f"{part!r} is no sampler: {lack}. Give objects with "
                    f"{', '.join(_NEEDED)} as bases and coefficients."
                )
        if len(bases) != len(coefficients) + 1:
            raise ValueError(
                f"{len(bases)} bases and {len(coefficients)} coefficients do not fit: "
                "each base but the last needs one coefficient, and the last base has "
                "what remains of one."
            )
        return bases, coefficients

    def _own_bases(self):
        coupling = self.coupling
        if self.kind != "clustered":
            return [
                PositivePairSampler(coupling=coupling),
                TrigRBFSampler(coupling=coupling),
            ]
        return [
            ClusteredSampler(
                n_clusters=self.n_clusters, diagonal=self.diagonal, coupling=coupling
            )
        ]

    def _own_coefficients(self):
        if self.kind == "clustered":
            return []
        # few directions, whose signs need their exact law
        coupling = self._coupling()
        coupling = coupling if coupling.exact else "orthogonal"
        if self.kind == "angular":
            return [AngularCoefficient(coupling=coupling)]
        return [GaussianCoefficient(sigma=self.lambda_sigma, coupling=coupling)]

    def _layout(self, bases, coefficients, draw):
        """Return the numbers of columns of the maps, or None where none fits."""
        own = self.coefficients is None
        counts = [
            part._features_per_frequency if own else None for part in coefficients
        ]
        fitted = draw.coefficients(coefficients, counts)
        counts = [width_of(part, draw.samples[0][0]) for part in fitted]
        layout = Layout.of(bases, [constant_of(part) for part in fitted], counts)
        if own and coefficients and self.n_coefficients != "auto":
            layout = layout.with_coefficients(self.n_coefficients)
        elif own and coefficients and layout.fits(self.n_components):
            singles = draw.bases(bases, layout.units)
            variances = mean_variances(singles, fitted, *few_rows(draw.samples))
            n = best_n_coefficients(layout, self.n_components, *variances)
            layout = layout.with_coefficients(n)
        if layout.fits(self.n_components):
            return layout
        warnings.warn(
            f"This hybrid needs n_components={layout.smallest} or more, got "
            f"n_components={self.n_components}: the last base map is used alone.",
            UserWarning,
            stacklevel=2,
        )
        return None

    # ------------------------------------------------------------- transforming
    @property
    def symmetric_(self) -> bool:
        """Whether ``transform_key`` is the same map as ``transform``."""
        check_is_fitted(self)
        parts = [*self.bases_, *self.coefficients_, self.spare_]
        same = all(getattr(part, "symmetric_", True) for part in parts)
        return same and all(term.key_sign > 0 for term in self._terms)

    def frequency_index(self):
        """Return None: most columns are products of two frequencies."""
        return None

    def prefix(self, n_components):
        """Return the columns that make the map of fewer components.

        Parameters
        ----------
        n_components : int
            Their number, at most that of this map.

        Returns
        -------
        columns : ndarray of int of shape (n_components,), or None
            All of them, or None: another width has another layout.
        """
        same = n_components == self.n_components
        return np.arange(n_components) if same else None

    def approximate_kernel(self, X, Y=None):
        if len(self._terms) > 1 or not isinstance(self.bases_[0], ClusteredSampler):
            return super().approximate_kernel(X, Y)
        rows = self._unit_pair(X, Y)
        kernel = self.bases_[0].approximate_kernel(*row_pair(*(Z.matrix for Z in rows)))
        with np.errstate(divide="ignore", over="ignore"):
            log_size = np.log(np.abs(kernel)) + self._log_pair_factor(*rows)
            kernel = np.copysign(np.exp(log_size), kernel)
        return kernel.astype(self._float_type(X), copy=False)

    def _part_features(self, rows, key):
        """Return the features of the base maps and of the coefficient maps."""
        parts = (
            [part for part in (*self.bases_, self.spare_) if part is not None],
            self.coefficients_,
        )
        x = rows.matrix
        with config_context(assume_finite=True):  # checked once
            return [[log_features(part, x, key) for part in side] for side in parts]

    def _features(self, rows, out, key):
        return self._products(rows, self._part_features(rows, key), out, key)

    def _products(self, rows, parts, out, key):
        """Return mantissas and exponents of the products of the features of parts."""
        bases, coefficients = parts
        mantissas = ([m for m, _ in side] for side in (bases, coefficients))
        write_terms(self._terms, *mantissas, key, out)
        factor, exponents = self._log_row_factor(rows), None
        if any(exponent is not None for _, exponent in (*bases, *coefficients)):
            logs = ([e for _, e in side] for side in (bases, coefficients))
            exponents = np.empty_like(out)
            write_exponents(self._terms, *logs, exponents)
        if exponents is None or factor is None:
            return out, factor if exponents is None else exponents
        return out, exponents + factor

    def _fill(self, X, out, key):
        # exponentials of the columns of the maps, not of their products, unless one
        # could be too large and the other too small
        n_zero, overflows = 0, []
        with np.errstate(over="call", call=lambda *_: overflows.append(1)):
            for chunk in self._chunks(X):
                rows, part = self._unit(X[chunk], self.projection_), out[chunk]
                bases, coefficients = parts = self._part_features(rows, key)
                if any(exponent is not None for _, exponent in coefficients):
                    _, exponent = self._products(rows, parts, part, key)
                    part *= np.exp(np.where(part == 0, -np.inf, exponent))
                else:
                    factor = self._log_row_factor(rows)
                    factor = 0 if factor is None else factor
                    logs = (factor if e is None else e + factor for _, e in bases)
                    bases = [m * np.exp(e) for (m, _), e in zip(bases, logs)]
                    coefficients = [m for m, _ in coefficients]
                    write_terms(self._terms, bases, coefficients, key, part)
                n_zero += int(np.sum(~part.any(axis=1)))
        return n_zero, bool(overflows)
