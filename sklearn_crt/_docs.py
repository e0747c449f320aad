"""Texts that the docstrings of several classes share, written once."""

from __future__ import annotations

import re
import textwrap
from typing import TypeVar

_SHARED = {
    "sigma": """\
        sigma : float, {"scale", "median"} or array-like of shape (n_features,), \
default="scale"
            Multiplies the inputs: the Gaussian kernel is
            ``exp(-|sigma * (x - y)|^2 / 2)``, so ``gamma = sigma^2 / 2`` and
            ``length_scale = 1 / sigma``. ``"scale"`` is scikit-learn's
            ``gamma="scale"`` for the Gaussian kernel; ``"median"`` is one over the
            median distance of up to 1000 rows.""",
    "coupling": """\
        coupling : str or Coupling, default="orthogonal"
            Joint law of the frequencies: ``"iid"``, ``"orthogonal"``, ``"simplex"``,
            ``"simplex+"``, ``"halton"``, ``"sobol"``, ``"structured-orthogonal"``,
            ``"structured-simplex"`` or an object. All but the structured ones are
            exactly unbiased; the user guide says which helps which map.""",
    "coupling_positive": """\
        coupling : str or Coupling, default="orthogonal"
            Joint law of the frequencies: ``"iid"``, ``"orthogonal"``, ``"simplex"``,
            ``"simplex+"``, ``"antithetic"``, ``"halton"``, ``"sobol"``,
            ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but
            the structured ones are exactly unbiased. ``"antithetic"`` takes pairs w,
            -w on orthogonal directions: the least error here at d or more columns, and
            half the product; the user guide says which helps which map.""",
    "coupling_noise": """\
        coupling : str or Coupling, default="orthogonal"
            Joint law of the noise between points and rows: ``"iid"``,
            ``"orthogonal"``, ``"antithetic"`` (points on both sides of a row),
            ``"simplex"``, ``"halton"``, ``"sobol"``, the structured ones or an
            object.""",
    "center": """\
        center : bool, default=True
            Whether to subtract the mean of the columns first. The kernel stays the
            same, the variance is often much smaller. Sparse input stays sparse.""",
    "center_discrete": """\
        center : bool, default=True
            Whether to subtract the mean of the columns first, which changes no kernel
            value. Without effect where ``positive`` is true.""",
    "positive": """\
        positive : bool, default=False
            Whether to subtract the minimum of the columns instead, less ``epsilon``,
            so that all features are positive. Values below the minimum of the rows
            seen by ``fit`` are raised to it: for such rows the estimate is that of
            the kernel at the raised row.
        epsilon : float, default=1e-8
            Least value of a coordinate where ``positive`` is true, after the
            multiplication by sigma.""",
    "kernel": """\
        kernel : {"gaussian", "softmax"}, default="gaussian"
            ``"softmax"`` is ``exp(sigma^2 x.y)``: each row of features is multiplied
            by ``exp(|sigma * x|^2 / 2)``.""",
    "sigma_radial": """\
        sigma : float, {"scale", "median"} or array-like of shape (n_features,), \
default="scale"
            Multiplies the inputs, all columns or each one, so ``length_scale = 1 /
            sigma``. ``"scale"`` is that of scikit-learn's ``gamma="scale"`` for the
            Gaussian kernel; ``"median"`` is one over the median distance of up to 1000
            rows.""",
    "n_components_pairs": """\
        n_components : int, default=100
            Number of columns of the output; two a frequency, one with
            ``random_phase``. An odd number gives the last frequency one column with a
            random phase.""",
    "metric": """\
        metric : array-like of shape (n_features, n_features), default=None
            Symmetric positive definite M: the kernel is that of the distance
            ``sqrt(u' M u)``, u = sigma * (x - y). None is the identity.""",
    "random_phase": """\
        random_phase : bool, default=False
            Whether each column is ``sqrt(2 / m) cos(w.x + b)`` with a frequency w and a
            phase b of its own. At equal columns, pairs of sines and cosines have less
            variance near x = y; these have less where the kernel is small.""",
    "phase_": """\
        phase_ : float or ndarray of shape (n_components,)
            Phase of the last column where ``n_components`` is odd, or phases of all
            the columns with ``random_phase``, in radians.""",
    "radial_errors": """\
        ``fit`` raises ValueError for a sigma that is not positive and finite, a
        ``metric`` that is not symmetric positive definite or has another shape, an
        unknown coupling (the message names the known ones), for n_components < 1 and
        for NaN or infinite input.""",
    "radial_variance": """\
        with :math:`\\kappa` the kernel as a function of the distance r, m the number
        of frequencies, p that of the ordered pairs of frequencies in common blocks and
        g(r) what an orthogonal pair saves: a mean of that of the Gaussian kernel over a
        law of scales, by quadrature to about 1e-6. For couplings other than ``"iid"``
        and ``"orthogonal"``, stratified ones included, ``kernel_variance`` is that of
        independent frequencies (p = 0).

        In float32 inner products w.x beyond 2^20 are computed in float64.""",
    "n_jobs": """\
        n_jobs : int, default=None
            Number of threads of ``transform``; -1 is all processors. None is as many as
            the linear algebra would take, at most one a processor that the process may
            use, and one inside of the workers of joblib.""",
    "random_state": """\
        random_state : int, RandomState instance or None, default=None
            Seed of the frequencies. Draws nest: the frequencies of a fit with half
            the columns are the first of those of this one.""",
    "fitted": """\
        sigma_ : float or ndarray of shape (n_features,)
            The multiplier in use.
        map_ : FeatureMap
            The drawn map, a value that needs no sampler.
        frequencies_ : Frequencies
            Those of the map, at unit bandwidth.
        n_features_in_ : int
            Number of columns of X.
        feature_names_in_ : ndarray of shape (`n_features_in_`,)
            Names of the columns, where X has string names.""",
    "center_": """\
        center_ : ndarray of shape (n_features,)
            The vector subtracted from the rows, zero without ``center``.""",
    "center_discrete_": """\
        center_ : ndarray of shape (n_features,)
            The vector subtracted from the rows: the mean, or the minimum less
            ``epsilon / sigma`` where ``positive`` is true, or zero.""",
    "discrete_errors": """\
        ``fit`` raises ValueError for a sigma or epsilon that is not positive and
        finite, for n_components < 1 and for NaN or infinite input.""",
    "errors": """\
        ``fit`` raises ValueError for a sigma that is not positive and finite, for an
        unknown coupling (the message names the known ones), for n_components < 1 and
        for NaN or infinite input.""",
    "variance": """\
        ``kernel_variance`` is this formula for ``"iid"`` and ``"orthogonal"``, and
        with another function in place of 1F1 for ``"simplex"`` and a Coupling object
        of any fixed angle (user guide, couplings). For ``"simplex+"``, ``"halton"``,
        ``"sobol"`` and other objects it is that of independent frequencies, p = 0, for
        structured blocks without padding that of the exact blocks;
        ``variance_is_exact_`` is then False.""",
    "nw_parameters": """\
        sampler : None, "exact", "prototypes" or transformer, default=None
            None: X already holds features, whose inner products are the kernel (the
            last step of a Pipeline); ``fit`` warns of rows that look like none. A
            sampler: it is cloned, fitted, and used on
            both sides in log space, so nothing over- or underflows; a
            ``FrozenEstimator`` around a fitted sampler is used as it is. ``"exact"``:
            the kernel itself, which costs n_train * n_query. ``"prototypes"``: the
            kernel itself, on few weighted points, the k-means of the rows of each class
            (or of like targets); several times as accurate per number stored as
            features, and no estimate that more columns would make exact.
        kernel : {"gaussian", "laplacian", "matern"} or callable, default="gaussian"
            Kernel of ``"exact"`` and ``"prototypes"``. A callable takes two arrays
            (n, d) and (m, d) of rows multiplied by sigma and returns the kernel (n, m).
            An object with a method ``log_profile(r)``, the log of a kernel that falls
            with the distance r (``sklearn_crt.maps.ExponentialPowerRadial(1.2)``,
            ``LaplacianRadial("l1")``), is a kernel too; ``tol`` needs this method of a
            callable.
        sigma : float, {"auto", "learned", "scale", "median"} or array-like of shape \
(n_features,), default="auto"
            Multiplies the inputs of ``"exact"`` and ``"prototypes"``, as in the
            samplers. ``"auto"`` is the multiple of ``"scale"`` (1/2 to 45, 1/8 to 45 of
            prototypes) of least leave-one-out squared error, on up to 500 (2000) of the
            rows: averages want a narrower kernel than linear models. ``"learned"``:
            one number a column, see :func:`~sklearn_crt.learn_sigma`.
        nu : float, default=1.5
            Smoothness of ``kernel="matern"``.
        tol : float, default=0.0
            In [0, 1). With ``sampler="exact"`` the answer is within ``tol`` of the
            exact one: in total variation of the probabilities, or in ``tol`` times the
            range of the targets. Dense rows from 4000 on are kept sorted in about
            2 sqrt(n) clusters, and clusters of little weight are skipped: 10 times
            faster and more on 10^6 rows in clusters. Where too little can be skipped
            the sum is exact.
        bound : {"estimated", "certified"}, default="estimated"
            What ``tol`` promises. ``"estimated"``: clusters are skipped that as normal
            clouds would have little weight, so many as left-out averages of 256
            training rows allow: their mean error (and two standard errors) is at most
            tol / 2 and that of 95 % at most tol. So it holds on average over queries
            like the training rows; single ones may err more, and queries unlike the
            rows too. ``"certified"``: no query errs more than ``tol`` (but for
            rounding), by the distance of each cluster, from its radius and half
            spaces; skips less.
        n_prototypes : int, default=128
            Number of points of ``sampler="prototypes"``; classes have their shares of
            them, at least one each. With as many as rows it is the exact estimator.
        clouds : bool, default=False
            Whether each prototype is a Gaussian cloud as wide as its rows are spread
            (Gaussian kernel only): closer probabilities where the kernel is wide.
        random_state : int, RandomState instance or None, default=None
            Seed of a sampler whose own ``random_state`` is None, of k-means, and of the
            sample of rows behind ``sigma="median"``.""",
    "nw_fitted": """\
        sampler_ : transformer, "exact", "prototypes" or None
            The fitted sampler.
        sigma_ : float or ndarray of shape (n_features,)
            The multiplier in use, of ``"exact"`` and ``"prototypes"``.
        prototypes_ : Centers
            Points and weights, of ``"prototypes"``.
        n_features_in_ : int
            Number of columns of X.
        feature_names_in_ : ndarray of shape (`n_features_in_`,)
            Names of the columns, where X has string names.""",
}

T = TypeVar("T")


def fill_doc(cls: type[T]) -> type[T]:
    """Replace lines ``%(name)s`` of a docstring by the shared texts, as a decorator."""

    def text(match):
        return textwrap.indent(textwrap.dedent(_SHARED[match[2]]), match[1])

    doc = cls.__doc__
    if doc is not None:  # None under python -OO
        cls.__doc__ = re.sub(r"(?m)^( *)%\((\w+)\)s$", text, doc)
    return cls
