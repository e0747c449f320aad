"""Independent kernel estimates from blocks of frequencies, or from several seeds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from scipy import stats
from sklearn import config_context
from sklearn.base import clone

from .._compat import cached_property
from ..life_cycle.fitted import with_value
from ..maps import FeatureMap
from ..samplers import BaseFeatureSampler

C = TypeVar("C", bound=Callable[..., None])
FAMILY = 1e-6  # probability that a correct sampler fails one check


def with_few_columns(check: C) -> C:
    """Decorate a check so that it ignores warnings about fits with few features."""

    @wraps(check)
    def quiet(*args: Any, **params: Any) -> Any:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", ".*the predicted error of the kernel estimate"
            )
            return check(*args, **params)

    return cast(C, quiet)


def contract_rows(n_features: int = 4, random_state: int = 0) -> np.ndarray:
    """Return rows with mean zero, on the coordinate axes and in random directions.

    Rows on the axes reveal a wrong rotation; any row reveals a wrong ``sigma``.
    """
    # -> (6, n_features)
    rng = np.random.default_rng(random_state)
    rows = rng.standard_normal((3, n_features))
    rows[0] = np.eye(n_features)[0]
    rows[1] = np.eye(n_features)[-1]
    rows *= 0.7 / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.concatenate([rows, -rows])


def fit_sides(
    sampler: BaseFeatureSampler, X: np.ndarray, Y: np.ndarray | None
) -> BaseFeatureSampler:
    """Fit a sampler on queries X and keys Y, or only on X if Y is None."""
    return sampler.fit(X) if Y is None else sampler.fit(X, X_key=Y)


def stated_bias(feature_map: FeatureMap | None) -> float:
    """Return the largest relative bias that the couplings of a map declare."""
    coupling = getattr(feature_map, "coupling", None)
    own = 0.0 if coupling is None else coupling.bias
    return max([own, *map(stated_bias, getattr(feature_map, "parts", ()))])


def seed_estimates(
    sampler: BaseFeatureSampler,
    X: np.ndarray,
    Y: np.ndarray | None = None,
    *,
    n_draws: int = 64,
) -> np.ndarray:
    """Fit a sampler with many seeds and return its estimates of the kernel."""
    # X, Y (n_X, n_features) -> (n_draws, n_X, n_Y)
    drawn, estimates = clone(sampler), []
    for seed in range(n_draws):
        # Inputs that are valid for the first seed are valid for all others. Skipping
        # their validation saves a third of the time.
        with config_context(skip_parameter_validation=seed > 0, assume_finite=seed > 0):
            drawn.random_state = seed
            if seed and _reads_the_same_for_any_seed(drawn):
                drawn = with_value(drawn, drawn._value.with_seed(seed))
            else:
                fit_sides(drawn, X, Y)
            estimates.append(drawn.approximate_kernel(X, Y))
    return np.stack(estimates)


def _reads_the_same_for_any_seed(fitted: Any) -> bool:
    """Return whether a fit with another seed would learn the same values from the rows.

    This holds if ``fit`` is inherited and keeps no random sample of the rows.
    """
    if type(fitted).fit is not BaseFeatureSampler.fit:
        return False
    statistics = fitted._value.statistics
    return statistics.sample is None and not statistics.side_samples


def assert_mean(
    estimates: np.ndarray, expected: np.ndarray, *, bias: float = 0.0
) -> None:
    """Assert that independent estimates have the expected mean, using t statistics."""
    # estimates (n_draws, ...), expected (...)
    n = estimates.shape[0]
    error = np.abs(estimates.mean(axis=0) - expected) - bias * np.abs(expected)
    standard = estimates.std(axis=0, ddof=1) / np.sqrt(n) + 1e-12
    t = np.maximum(error, 0) / standard
    limit = stats.t.isf(FAMILY / (2 * np.size(expected)), n - 1)
    worst = np.unravel_index(np.argmax(t), np.shape(t))
    mean, claim = estimates.mean(axis=0)[worst], np.asarray(expected)[worst]
    assert np.all(t < limit), (
        f"biased: t = {np.max(t):.1f} (limit {limit:.1f}) at {worst}, mean "
        f"{mean:.6g}, expected {claim:.6g}"
    )


def coupled_size(sampler: BaseFeatureSampler, n_features: int) -> int:
    """Return the number of frequencies per block, or 0 if no blocks are independent."""
    coupling = getattr(getattr(sampler, "map_", None), "coupling", None)
    if coupling is None:
        return n_features
    # several blocks need many frequencies, as some couplings pad the dimension to 16
    sizes = coupling.block_sizes(32 * n_features, n_features)
    return max(n_features, int(np.max(sizes))) if len(sizes) > 1 else 0


def _is_symmetric(fitted: BaseFeatureSampler, X: np.ndarray) -> bool:
    """Return whether queries and keys have identical features."""
    if not getattr(fitted, "symmetric_", False):
        return False
    return np.array_equal(fitted.transform(X), fitted.transform_key(X))


def cuts_into_blocks(fitted: BaseFeatureSampler) -> bool:
    """Return whether the frequencies of a sampler split into independent groups."""
    if fitted.map_.frequency_index() is None:
        return False
    return coupled_size(fitted, fitted.n_features_in_) > 0


def _columns_of_frequencies(index: np.ndarray, n_frequencies: int) -> np.ndarray:
    """Return, for each k, the index of the k-th column of each frequency.

    For a frequency with fewer than k columns, the total number of columns is returned,
    which is an index beyond the last column.
    """
    # index (n_columns,) -> (n_layers, n_frequencies)
    order = np.argsort(index, kind="stable")
    counts = np.bincount(index, minlength=n_frequencies)
    index, first = index[order], np.cumsum(counts) - counts
    # position of each column among the columns of the same frequency
    place = np.arange(len(index)) - first[index]
    columns = np.full((counts.max(), n_frequencies), len(index))
    columns[place, index] = order
    return columns


def _layers(features: np.ndarray, columns: np.ndarray) -> list[np.ndarray]:
    """Return the features for each list of columns, with 0 beyond the last column."""
    features = np.pad(features, ((0, 0), (0, 1)))
    return [features[:, each] for each in columns]


def block_estimates(
    sampler: BaseFeatureSampler,
    X: np.ndarray,
    Y: np.ndarray | None = None,
    *,
    n_blocks: int = 50_000,
    block: int | None = None,
    random_state: int = 0,
) -> tuple[np.ndarray, BaseFeatureSampler]:
    """Return independent kernel estimates, one per block of frequencies of one fit."""
    # X, Y (n_X, n_features) -> (n_blocks, n_X, n_Y)
    block = X.shape[1] if block is None else block
    draws = Draws(
        sampler=sampler, X=X, Y=Y, sizes=[(n_blocks, block)], random_state=random_state
    )
    return draws.blocks(n_blocks, block)


def composed_estimates(
    fitted: Any, X: np.ndarray, Y: np.ndarray | None = None, *, n_blocks: int = 20_000
) -> np.ndarray | None:
    """Return independent kernel estimates of a hybrid, from estimates of its parts."""
    # X, Y (n_X, n_features) -> (n_blocks, n_X, n_Y)
    whole, parts = fitted.map_, fitted._value.parts()
    spare = [] if parts.spare is None else [parts.spare]
    if not all(map(_is_simple, [*parts.bases, *parts.coefficients, *spare])):
        return None
    sides = whole.frame.pair(X, Y)
    queries, keys = (side.matrix for side in sides)

    def draw(part: Any, seed: int) -> np.ndarray:
        return _part_estimates(part, queries, keys, n_blocks, seed)

    n_bases, n_lambdas = len(parts.bases), len(parts.coefficients)
    seeds = [0] * n_bases if whole.shared else range(n_bases)
    kernels = list(map(draw, parts.bases, seeds))
    lambdas = list(map(draw, parts.coefficients, range(10, 10 + n_lambdas)))
    lambdas = [a + part for a, part in zip(whole.constants, lambdas, strict=True)]
    lambdas = [*lambdas, np.asarray(1 - sum(lambdas))]
    estimates = sum(lam * k for lam, k in zip(lambdas, kernels, strict=True))
    for part in spare:
        gap = draw(part, 20) - estimates
        estimates = estimates + whole.spare_weight * gap
    return estimates * np.exp(whole.factor.log_pair_factor(*sides))


def _is_simple(part: Any) -> bool:
    """Return whether ``_part_estimates`` can compute the estimates of a part.

    The frequencies of the part, or of all its own parts, must split into blocks.
    """
    if hasattr(part, "blocks_"):
        return all(map(_is_simple, part._value.parts().samplers))
    cut = hasattr(part, "map_") and cuts_into_blocks(part)
    return cut and part.map_.n_components % part.map_.columns_per_frequency == 0


def _part_estimates(
    part: Any, X: np.ndarray, Y: np.ndarray, n_blocks: int, seed: int
) -> np.ndarray:
    """Return independent kernel estimates of a fitted sampler.

    If the sampler has clusters, each pair of rows uses the sampler of its block.
    """
    if not hasattr(part, "blocks_"):
        options = {"n_blocks": n_blocks, "random_state": seed}
        block = part.map_.n_frequencies
        return block_estimates(part, X, Y, block=block, **options)[0]
    samplers = {
        block.columns.start: sampler
        for block, sampler in zip(
            part.blocks_, part._value.parts().samplers, strict=True
        )
    }
    estimates = np.empty((n_blocks, X.shape[0], Y.shape[0]))
    for block, i, j in part.map_.members(*map(part.map_.frame.rows, (X, Y))):
        sampler = samplers[block.columns.start]
        some = _part_estimates(sampler, X[i], Y[j], n_blocks, seed)
        estimates[:, i[:, None], j] = some
    return estimates


class Draws:
    """Kernel estimates of one sampler, which several checks share.

    A fit with many frequencies is split into independent blocks of few frequencies.
    Each block has the same distribution as a separate fit with this number of
    frequencies.
    """

    def __init__(
        self,
        sampler: BaseFeatureSampler,
        X: np.ndarray,
        Y: np.ndarray | None,
        sizes: list[tuple[int, int]],  # numbers of blocks, and frequencies per block
        random_state: int = 0,
    ):
        self.sampler, self.X, self.Y, self.sizes = sampler, X, Y, sizes
        self._seed = {"random_state": random_state}
        self._blocks: dict[tuple[int, int], tuple[np.ndarray, BaseFeatureSampler]] = {}

    def _fit(self, **params: Any) -> BaseFeatureSampler:
        return fit_sides(clone(self.sampler).set_params(**params), self.X, self.Y)

    @cached_property
    def fitted(self) -> BaseFeatureSampler:
        """The sampler, fitted with its own parameters."""
        return self._fit()

    @cached_property
    def _narrowest(self) -> BaseFeatureSampler:
        return self._fit(n_components=1, **self._seed)

    def _fit_frequencies(self, n_frequencies: int) -> BaseFeatureSampler:
        n_components = n_frequencies * self._narrowest.map_.columns_per_frequency
        return self._fit(n_components=n_components, **self._seed)

    def _stride(self, block: int) -> int:
        """Return the number of frequencies between the starts of consecutive blocks."""
        whole = coupled_size(self._narrowest, self.X.shape[1])
        return -(-block // whole) * whole

    @cached_property
    def _wide(self) -> tuple[int, list[np.ndarray], list[np.ndarray]]:
        """The number of frequencies of a wide fit, and features of X and of Y."""
        X, Y = self.X, self.Y
        n_frequencies = max(self._stride(size) * n for n, size in self.sizes)
        wide = self._fit_frequencies(n_frequencies)
        index = np.asarray(wide.map_.frequency_index())
        columns = _columns_of_frequencies(index, n_frequencies)
        queries = _layers(wide.transform(X), columns)
        if Y is None and _is_symmetric(self._narrowest, X):
            return n_frequencies, queries, queries
        keys = wide.transform_key(X if Y is None else Y)
        return n_frequencies, queries, _layers(keys, columns)

    def blocks(
        self, n_blocks: int, block: int
    ) -> tuple[np.ndarray, BaseFeatureSampler]:
        """Return the same results as ``block_estimates``."""
        if (n_blocks, block) not in self._blocks:
            (n_frequencies, *sides), stride = self._wide, self._stride(block)
            estimates = np.zeros((n_blocks, *(len(side[0]) for side in sides)))
            for layers in zip(*sides, strict=True):
                query, key = (
                    layer[:, : n_blocks * stride].reshape(-1, n_blocks, stride)
                    for layer in layers
                )
                query, key = query[..., :block], key[..., :block]
                estimates += query.transpose(1, 0, 2) @ key.transpose(1, 2, 0)
            estimates *= n_frequencies / block
            self._blocks[n_blocks, block] = estimates, self._fit_frequencies(block)
        return self._blocks[n_blocks, block]

    def judge_mean(self, n_blocks: int, block: int, n_draws: int) -> None:
        """Raise AssertionError if the mean error exceeds the declared bias."""
        sampler, X, Y, fitted = self.sampler, self.X, self.Y, self.fitted
        expected = fitted.exact_kernel(X, Y)
        bias = stated_bias(getattr(fitted, "map_", None))
        assert_mean(seed_estimates(sampler, X, Y, n_draws=n_draws), expected, bias=bias)
        if n_blocks and cuts_into_blocks(fitted):
            estimates, narrow = self.blocks(n_blocks, block)
            assert_mean(estimates, narrow.exact_kernel(X, Y), bias=bias)

    def judge_variance(self, n_blocks: int, block: int, n_draws: int) -> None:
        """Raise AssertionError if the variance differs from ``kernel_variance``."""
        X, Y, narrow, estimates = self.X, self.Y, cast(Any, self.fitted), None
        if cuts_into_blocks(narrow):
            estimates, narrow = self.blocks(n_blocks, block)
        elif hasattr(narrow, "bases_"):
            estimates = composed_estimates(narrow, X, Y)
        if estimates is None:
            estimates = seed_estimates(self.sampler, X, Y, n_draws=n_draws)
        if hasattr(narrow.map_, "variance_with_error"):
            expected, error = narrow.kernel_variance(X, Y, return_error=True)
        else:
            expected, error = narrow.kernel_variance(X, Y), 0.0
        squares = np.square(estimates - estimates.mean(axis=0))
        sample = np.mean(squares, axis=0)
        squared = np.var(squares, axis=0) / len(estimates)
        standard = np.sqrt(squared + error**2) + 1e-12
        z = np.abs(sample - expected) / standard
        limit = stats.norm.isf(FAMILY / (2 * z.size))
        worst = np.unravel_index(np.argmax(z), z.shape)
        assert z.max() < limit, (
            f"wrong variance: z = {z.max():.1f} (limit {limit:.1f}) at {worst}, sample "
            f"{sample[worst]:.6g}, formula {expected[worst]:.6g}"
        )
