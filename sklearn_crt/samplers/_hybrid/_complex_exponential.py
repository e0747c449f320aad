"""Exponential features with a complex diagonal matrix: exact at one pair of rows."""

from __future__ import annotations

import numpy as np

from ..._compat import StrOptions
from ..._docs import fill_doc
from ...frequencies import Coupling, get_coupling
from ...maps import DiagonalExponentialMap, GaussianKernel, PairedColumns
from .._base import BaseFeatureSampler, fitted
from ._draw import draw_normal_and_phase


@fill_doc
class ComplexExponentialSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from complex exponential features (CE).

    Parameters
    ----------
    diagonal : array-like of shape (n_features,) or complex, default=1.0
        The diagonal a, without zeros: 1 gives positive features, the imaginary unit
        sines and cosines.
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output; one a frequency where a is real, otherwise
        two, and for an odd number one with a random phase.
    %(coupling)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    diagonal_ : ndarray of shape (n_features,)
        The diagonal a, real if it can be.
    phase_ : float
        Phase of the last column where that is single, in radians.
    %(fitted)s

    See Also
    --------
    HybridSampler : With ``kind="clustered"`` has one such map a pair of clusters.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)`, products with a coordinate by
    coordinate, and squares without conjugates ([1]_, equations 14 to 16)

    .. math::

       f(x) &= \tfrac{1}{\sqrt m} e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = \tfrac{1}{\sqrt m} e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}, \\
       \operatorname{Var} &= \frac{K^2}{m} \left( \tfrac12 e^{|z|^2}
       + \tfrac12 \operatorname{Re} e^{z \cdot z} - 1 \right), \quad z = a x + y / a .

    Queries have the columns Re f, Im f, keys Re g, -Im g. The variance is zero where
    z = 0. A real a and orthogonal frequencies save what they save for positive
    features.

    ``kernel_variance`` is this formula for ``"iid"``, and for ``"orthogonal"`` where a
    is real; elsewhere that of independent frequencies.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ComplexExponentialSampler, best_diagonal
    >>> X, Y = np.array([[0.5, -1.0]]), np.array([[0.3, 0.4]])
    >>> a = best_diagonal(X[0], Y[0])
    >>> sampler = ComplexExponentialSampler(a, sigma=1.0, random_state=0)
    >>> bool(sampler.fit(X, X_key=Y).kernel_variance(X, Y)[0, 0] < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "diagonal": ["array-like", complex, float, int],
    }

    def __init__(
        self,
        diagonal=1.0,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency, 1 where the diagonal is real."""
        return 2 if np.any(np.imag(self.diagonal)) else 1

    def _make_map(self, statistics, drawn):
        diagonal = self._full_diagonal(statistics.n_features)
        single = not np.iscomplexobj(diagonal)
        columns = PairedColumns.of(self.n_components, single=single)
        coupling = get_coupling(self.coupling, type(self).__name__)
        frequencies, phase = draw_normal_and_phase(
            coupling, columns.n_frequencies, statistics, drawn
        )
        return DiagonalExponentialMap(
            self._frame(statistics),
            self.n_components,
            frequencies,
            coupling,
            columns,
            phase,
            diagonal,
            GaussianKernel(softmax=self.kernel == "softmax"),
        )

    def _full_diagonal(self, d):
        """Return the diagonal of each feature, real if it can be."""
        a = np.asarray(self.diagonal)
        if a.ndim > 1 or a.size not in (1, d) or not np.all(np.isfinite(a) & (a != 0)):
            raise ValueError(
                f"diagonal={self.diagonal!r} must be finite and nonzero: a number or "
                f"one for each of the {d} features."
            )
        a = np.broadcast_to(a, d).astype(complex)
        return a if np.any(a.imag) else a.real.copy()

    def __getstate__(self):
        """Return the state, with a complex number as an array: skops knows none."""
        state = super().__getstate__()
        if isinstance(self.diagonal, complex):
            state["diagonal"] = np.asarray(self.diagonal)
        return state

    def __setstate__(self, state):
        """Restore the state."""
        diagonal = state["diagonal"]
        if isinstance(diagonal, np.ndarray) and diagonal.ndim == 0:
            state = {**state, "diagonal": diagonal.item()}
        super().__setstate__(state)

    diagonal_ = fitted("map_.diagonal", "The diagonal, real if it can be.")
    phase_ = fitted("map_.phase", "Phase of a single last column, in radians.")
