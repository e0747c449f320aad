"""Checks for any sampler or coupling, including third-party implementations."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone

from ..frequencies import Coupling, Frequencies, RadialLaw
from ..samplers import BaseFeatureSampler
from .estimates import (
    FAMILY,
    Draws,
    assert_mean,
    contract_rows,
    cuts_into_blocks,
    with_few_columns,
)

_N_DRAWS = 64  # number of seeds with which check_sampler judges the mean


@with_few_columns
def assert_unbiased(
    sampler: BaseFeatureSampler,
    X: np.ndarray | None = None,
    Y: np.ndarray | None = None,
    *,
    n_blocks: int = 50_000,
    n_draws: int = 64,
) -> None:
    """Assert that the kernel estimates of a sampler are unbiased.

    The mean of the estimates must equal the exact kernel, up to the relative ``bias``
    that the coupling declares, which is 0 for exact couplings.

    Parameters
    ----------
    sampler : sampler
        The sampler to check. Its ``sigma`` must be a number. The norms of the rows,
        multiplied by sigma, should not exceed 1; otherwise the estimates have heavy
        tails.
    X, Y : ndarray, default=None
        Queries and keys. If X is None, a small set of rows is generated. If Y is None,
        the queries are also used as keys.
    n_blocks : int, default=50000
        Number of independent blocks into which the frequencies of a fit with many
        features are split. This part of the check is skipped if ``n_blocks`` is 0, or
        if the features cannot be split because the ``frequency_index()`` of the map is
        None.
    n_draws : int, default=64
        Number of fits with different seeds, which also reveal wrong scale factors.

    Raises
    ------
    AssertionError
        If the mean of the estimates differs significantly from the kernel.

    Examples
    --------
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.testing import assert_unbiased
    >>> assert_unbiased(OPRFSampler(sigma=1.0), n_blocks=1000)
    """
    X = contract_rows() if X is None else X
    block = X.shape[1]
    Draws(sampler, X, Y, [(n_blocks, block)]).judge_mean(n_blocks, block, n_draws)


@with_few_columns
def assert_variance(
    sampler: BaseFeatureSampler,
    X: np.ndarray | None = None,
    Y: np.ndarray | None = None,
    *,
    n_blocks: int = 50_000,
    block: int | None = None,
    n_draws: int = 400,
) -> None:
    """Assert that the variance of the estimates equals ``kernel_variance``.

    Parameters
    ----------
    sampler : sampler
        The sampler to check. Its ``sigma`` must be a number. The norms of the rows,
        multiplied by sigma, should not exceed 1; otherwise the estimates have heavy
        tails.
    X, Y : ndarray, default=None
        Queries and keys. If X is None, a small set of rows is generated. If Y is None,
        the queries are also used as keys.
    n_blocks : int, default=50000
        Number of independent estimates. Each uses one block of frequencies of a sampler
        fitted with many blocks.
    block : int, default=None
        Number of frequencies per estimate; the number of columns of X if None.
    n_draws : int, default=400
        Number of fits with different seeds, which are used if the features of the
        sampler, or of its component samplers, cannot be split into blocks.

    Raises
    ------
    AssertionError
        If the z statistic of the sample variance is significant for any pair of rows,
        at a family-wise level of 1e-6.
    """
    X = contract_rows() if X is None else X
    block = X.shape[1] if block is None else block
    Draws(sampler, X, Y, [(n_blocks, block)]).judge_variance(n_blocks, block, n_draws)


def assert_coupling(
    coupling: Coupling,
    radial_law: Callable[[int], RadialLaw],
    n_features: int = 4,
    *,
    n_blocks: int = 20_000,
) -> None:
    """Assert that the frequencies of a coupling have the declared joint distribution.

    The norms must follow the given distribution, independently of each other and of the
    directions. The directions must be uniform, and any two frequencies in a block must
    form the angle whose cosine the coupling declares.

    If the norms are stratified (``independent_norms`` is False), they may depend on
    each other. In this case, if the range of the norms is divided into d intervals of
    equal probability, each interval must contain exactly one norm of a block. The order
    of the intervals must be uniformly random, and the positions within the intervals
    independent.

    Parameters
    ----------
    coupling : Coupling
        The coupling to check.
    radial_law : callable
        Function that returns the distribution of the norms for a given dimension, such
        as ``chi_law``.
    n_features : int, default=4
        Dimension d of the frequencies.
    n_blocks : int, default=20000
        Number of blocks of d frequencies.

    Raises
    ------
    AssertionError
        If one of the conditions above is violated.

    Examples
    --------
    >>> from sklearn_crt.extend import Orthogonal, chi_law
    >>> from sklearn_crt.testing import assert_coupling
    >>> assert_coupling(Orthogonal(), chi_law)
    """
    d, m = n_features, n_features * n_blocks
    drawn = coupling.draw(radial_law, m, d, np.random.default_rng(0))
    frequencies = drawn.to_dense().T
    norms = np.linalg.norm(frequencies, axis=1)
    unit = (frequencies / norms[:, None]).reshape(n_blocks, d, d)
    assert_allclose(drawn.sq_norms, norms**2, rtol=1e-10)

    cosine = coupling.cosine(d)
    if cosine is not None and d > 1:
        gram = unit @ np.swapaxes(unit, 1, 2)
        off = ~np.eye(d, dtype=bool)
        assert_allclose(gram[:, off], cosine, atol=1e-10, err_msg="angles in a block")
    p_value = stats.kstest(norms, radial_law(d).cdf).pvalue
    assert p_value > FAMILY, f"norms have the wrong distribution: p = {p_value:.1e}"
    assert_mean(unit, np.zeros((d, d)))
    # the mean of each moment over the blocks has expectation 0 and a known variance
    second = np.einsum("nia,nib->iab", unit, unit) / n_blocks - np.eye(d) / d
    spread = np.full((d, d), 1 / (d * (d + 2)))
    np.fill_diagonal(spread, 2 * (d - 1) / (d**2 * (d + 2)))
    ranks = stats.rankdata(norms).reshape(n_blocks, d) / m - 0.5  # variance 1 / 12
    places = ranks
    if not coupling.independent_norms:
        places = _places_in_strata(radial_law(d).cdf(norms).reshape(n_blocks, d)) - 0.5
    among_norms = (places.T @ places / n_blocks)[~np.eye(d, dtype=bool)]
    with_directions = np.einsum("nj,nia->jia", ranks, unit) / n_blocks
    for moment, variance, what in (
        (second, spread, "directions are not uniform"),
        (among_norms, 1 / 144, "norms of a block depend on each other"),
        (with_directions, 1 / (12 * d), "norms and directions depend on each other"),
    ):
        z = np.abs(moment) / np.sqrt(variance / n_blocks + 1e-24)
        limit = stats.norm.isf(FAMILY / (2 * max(1, z.size)))
        assert np.all(z < limit), f"{what}: z = {z.max():.1f} (limit {limit:.1f})"


def _places_in_strata(quantiles: np.ndarray) -> np.ndarray:
    """Assert that each stratum contains one norm; return positions within strata."""
    d = quantiles.shape[1]
    places, strata = np.modf(np.clip(quantiles, 0, 1 - 1e-12) * d)
    border = np.abs(places - 0.5) > 0.5 - 1e-3 * d  # too close to identify the stratum
    inside = ~border.any(axis=1)
    whole = np.sort(strata[inside], axis=1) == np.arange(d)
    assert whole.all(), "a block does not have one norm in each stratum"
    if d > 1:
        counts = [np.bincount(column.astype(int), minlength=d) for column in strata.T]
        p_value = min(stats.chisquare(count).pvalue for count in counts)
        assert p_value > FAMILY / d, (
            f"the order of the strata is not uniform: p = {p_value:.1e}"
        )
    return places


@with_few_columns
def assert_nested(sampler: BaseFeatureSampler, X: np.ndarray) -> None:
    """Assert that frequencies are nested, and that the number of columns is correct.

    With the same seed, the frequencies of a sampler with fewer columns must be the
    first frequencies of a sampler with more columns. For a composed map, this must hold
    for each of its component maps. If the number of columns is too small for all
    component maps, only the shape of the features is checked.

    Parameters
    ----------
    sampler : sampler
        The sampler to check.
    X : ndarray of shape (n_samples, n_features)
        Rows on which the sampler is fitted.

    Raises
    ------
    AssertionError
        If ``transform`` does not return ``n_components`` columns, or if the frequencies
        are not nested.
    """
    d = X.shape[1]

    def fit(width: int) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This hybrid requires")
            wide = clone(sampler).set_params(random_state=0, n_components=width)
            return wide.fit(X)

    largest = _single_frequencies(fit(6 * d + 1).map_.frequencies)
    for width in (1, 2, 3, max(1, d - 1), d, d + 1, 2 * d + 1):
        fitted = fit(width)
        shape = fitted.transform(X).shape
        assert shape == (X.shape[0], width), f"{shape[1]} columns for {width}"
        assert fitted.get_params()["n_components"] == width, "fit sets n_components"
        parts = _single_frequencies(fitted.map_.frequencies)
        if len(parts) < len(largest):
            continue
        for part, wide in zip(parts, largest, strict=True):
            first = part.to_dense()
            nested = wide.to_dense()[:, : first.shape[1]]
            message = f"draws of {width} columns"
            assert_allclose(first, nested, atol=1e-12, err_msg=message)


def _single_frequencies(frequencies: Frequencies) -> list[Frequencies]:
    """Return the parts of joint frequencies as a flat list."""
    parts = getattr(frequencies, "parts", None)
    if parts is None:
        return [frequencies]
    return [single for part in parts for single in _single_frequencies(part)]


@with_few_columns
def assert_invariant(sampler: BaseFeatureSampler, X: np.ndarray) -> None:
    """Assert that the features do not depend on how they are computed.

    Up to rounding errors, the features of a row must not depend on the other rows, on
    the order of the rows or on the number of threads. They must also be the same after
    ``partial_fit`` on batches, for sparse and for float32 input, after pickling, and
    after a second fit with the same seed.

    Parameters
    ----------
    sampler : sampler
        The sampler to check.
    X : ndarray of shape (n_samples, n_features), float64
        At least a few hundred rows, so that they are processed in several chunks.

    Raises
    ------
    AssertionError
        If the features differ by more than rounding errors.
    """
    sampler = clone(sampler).set_params(random_state=0)
    fitted = clone(sampler)
    params = fitted.get_params()
    fitted.fit(X)
    again = clone(sampler).fit(X)
    threads = clone(sampler).set_params(n_jobs=2).fit(X)
    restored = pickle.loads(pickle.dumps(fitted))
    batches = clone(sampler)
    for batch in np.array_split(X, 5):
        batches.partial_fit(batch)
    csr = clone(sampler).fit(sparse.csr_array(X))
    single = clone(sampler).fit(X.astype(np.float32))
    phases = _largest_phases(fitted, X)  # large phases have visible rounding errors
    rounding = 1e-11 + 2.0**-50 * phases
    for side in ("transform", "transform_key"):
        features = getattr(fitted, side)(X)
        scale = np.abs(features).max()

        def same(
            other: np.ndarray,
            tolerance: float | np.ndarray,
            what: str,
            features: np.ndarray = features,
            scale: float = scale,
        ) -> None:
            assert np.all(np.isfinite(other)), what
            assert np.all(np.abs(other - features) <= tolerance * scale), what

        apart = np.vstack([getattr(fitted, side)(X[i : i + 1]) for i in range(9)])
        same(np.vstack([apart, features[9:]]), rounding, "a row depends on other rows")
        backwards = getattr(fitted, side)(np.asfortranarray(X[::-1]))[::-1]
        same(backwards, rounding, "the order of the rows matters")
        same(getattr(again, side)(X), 0, "a second fit with the same seed differs")
        same(getattr(threads, side)(X), rounding, "threads change the features")
        same(getattr(restored, side)(X), 0, "pickling changes the features")
        same(getattr(batches, side)(X), 100 * rounding, "partial_fit differs from fit")
        from_csr = getattr(csr, side)(sparse.csr_array(X))
        same(from_csr, 100 * rounding, "sparse input differs")
        narrow = getattr(single, side)(X.astype(np.float32))
        assert narrow.dtype == np.float32, "float32 input has features of another dtype"
        same(narrow, 1e-3 + 2.0**-21 * phases, "float32 differs")
    other = clone(sampler).set_params(random_state=1).fit(X)
    assert not np.allclose(other.transform(X), fitted.transform(X)), "one draw for all"
    assert fitted.get_params() == params, "fit changed a parameter"


def _largest_phases(fitted: Any, X: np.ndarray) -> np.ndarray:
    """Return the bound |sigma x| |w| on the phases, for each row and each column.

    If columns depend on several frequencies, there is a single bound for each row.
    """
    norms = np.linalg.norm(fitted.sigma_ * X, axis=1)
    index, sq_norms = fitted.map_.frequency_index(), fitted.map_.frequencies.sq_norms
    sq_norms = sq_norms.max(initial=0) if index is None else sq_norms[index]
    return norms[:, None] * np.sqrt(sq_norms)


@with_few_columns
def check_sampler(
    sampler: BaseFeatureSampler, n_features: int = 4, *, X: np.ndarray | None = None
) -> None:
    """Run all checks on a sampler: nesting, invariance, bias and variance.

    If ``variance_is_exact_`` is True, the variance is checked for the coupling of the
    sampler. Otherwise it is checked for ``coupling="iid"``, provided that the sampler
    has the parameter ``coupling``. If all frequencies depend on each other, the mean is
    estimated from 64 fits instead of the blocks of one fit.

    Parameters
    ----------
    sampler : sampler
        The sampler to check. Its parameters are used as they are, except that a
        ``sigma`` that depends on the data is replaced by 1.
    n_features : int, default=4
        Number of columns of the generated rows, if X is None.
    X : ndarray of shape (n_samples, n_features), default=None
        Rows of norm 1 or less for the checks of the mean and the variance. If None,
        rows of norm 0.7 are generated. For a sampler whose feature map uses clusters,
        pass rows that form clusters.

    Raises
    ------
    AssertionError
        If one of the checks fails.

    Examples
    --------
    >>> from sklearn_crt import TrigRBFSampler
    >>> from sklearn_crt.testing import check_sampler
    >>> check_sampler(TrigRBFSampler())
    """
    sigma = getattr(sampler, "sigma", 1.0)
    if sigma is None or isinstance(sigma, str):
        sampler = clone(sampler).set_params(sigma=1.0)
    X = contract_rows(n_features) if X is None else X
    n_features = X.shape[1]
    assert_nested(sampler, X)
    rng = np.random.default_rng(1)
    assert_invariant(sampler, 0.3 * rng.standard_normal((1400, n_features)) + 0.1)
    fitted = clone(sampler).fit(X)
    if fitted.map_.frequency_index() is not None:
        fitted = fitted.set_params(n_components=4 * n_features).fit(X)
    exact = getattr(fitted, "variance_is_exact_", True)
    # The variance needs all blocks, because the squares of positive features have heavy
    # tails.
    sizes = [(50_000, n_features), (20_000, 2 * n_features + 1)]
    for_mean = [(min(50_000, 200_000 // n_features), n_features)]
    draws = Draws(sampler, X, None, sizes if exact else for_mean)
    draws.judge_mean(*draws.sizes[0], n_draws=_N_DRAWS)
    if not exact:
        if "coupling" not in sampler.get_params():
            return
        draws = Draws(clone(sampler).set_params(coupling="iid"), X, None, sizes)
        if not draws.fitted.variance_is_exact_:
            return
    for size in sizes if cuts_into_blocks(draws.fitted) else sizes[:1]:
        draws.judge_variance(*size, n_draws=400)
