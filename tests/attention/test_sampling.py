"""Keys that are drawn in proportion to estimated weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from sklearn_crt import DERFSampler, OPRFSampler, TrigRBFSampler
from sklearn_crt.attention import KeySampler, linear_attention

D, FAMILY = 6, 1e-6


def rows(rng, n_queries=4, n_keys=50, scale=0.7):
    q = scale * rng.normal(size=(n_queries, D))
    return q, scale * rng.normal(size=(n_keys, D))


def fitted(q, k, sampler=OPRFSampler, **params):
    options = {"sigma": D**-0.25, "kernel": "softmax", "n_components": 32}
    return sampler(random_state=0, **options | params).fit(q, X_key=k)


def estimated(q, k, features):
    """Return the probabilities, from the features themselves."""
    weights = features.transform(q) @ features.transform_key(k).T
    return weights / weights.sum(axis=1, keepdims=True)


def assert_frequencies(index, expected):
    """Compare the numbers of draws with expected probabilities, by chi-square tests."""
    for drawn, probabilities in zip(index, expected, strict=True):
        counts = np.bincount(drawn, minlength=len(probabilities))
        p_value = stats.chisquare(counts, probabilities * len(drawn)).pvalue
        assert p_value > FAMILY / len(index), f"p = {p_value:.1e}"


@pytest.mark.parametrize("sampler", [OPRFSampler, DERFSampler])
def test_draws_have_the_estimated_probabilities(sampler, rng):
    q, k = rows(rng)
    features = fitted(q, k, sampler)
    keys = KeySampler(k, features)
    expected = estimated(q, k, features)
    assert_allclose(np.exp(keys.log_probability(q)), expected, rtol=1e-9)
    assert_frequencies(keys.sample(q, 40_000, random_state=0), expected)


def test_draws_without_the_sums_of_the_keys_are_seen(rng):
    """Features must be chosen by f_i G_i, not by f_i alone."""
    q, k = rows(rng)
    features = fitted(q, k)
    keys = KeySampler(k, features)
    keys._log_sums = np.zeros_like(keys._log_sums)
    with pytest.raises(AssertionError, match="p = "):
        assert_frequencies(
            keys.sample(q, 40_000, random_state=0), estimated(q, k, features)
        )


def test_importance_weights_estimate_the_denominator(rng):
    """Without bias, although the probabilities are estimates."""
    q, k = rows(rng, n_keys=400)
    keys = KeySampler(k, fitted(q, k, n_components=64))
    index = keys.sample(q, 20_000, random_state=1)
    scores = np.einsum("id,ijd->ij", q, k[index]) / np.sqrt(D)
    terms = np.exp(scores - keys.log_probability(q, index))
    exact = np.exp(q @ k.T / np.sqrt(D)).sum(axis=1)
    error = terms.std(axis=1) / np.sqrt(20_000)
    limit = stats.norm.isf(FAMILY / (2 * len(q)))
    assert np.all(np.abs(terms.mean(axis=1) - exact) < limit * error)
    # and with less variance than from keys that are drawn uniformly
    uniform = 400 * np.exp(q @ k.T / np.sqrt(D))
    assert np.all(terms.std(axis=1) < 0.6 * uniform.std(axis=1))


def test_probabilities_tend_to_the_softmax(rng):
    q, k = rows(rng)
    softmax = special.log_softmax(q @ k.T / np.sqrt(D), axis=1)
    errors = []
    for n_components in (32, 4096):
        keys = KeySampler(k, fitted(q, k, n_components=n_components))
        errors.append(np.abs(keys.log_probability(q) - softmax).max())
    assert errors[1] < errors[0] / 4  # 128 times as many features


def test_the_mean_of_values_is_linear_attention(rng):
    q, k = rows(rng)
    v = rng.normal(size=(50, 3))
    features = fitted(q, k)
    weights = np.exp(KeySampler(k, features).log_probability(q))
    assert_allclose(weights.sum(axis=1), 1)
    assert_allclose(weights @ v, linear_attention(q, k, v, features), rtol=1e-9)


def test_log_probabilities_of_some_keys(rng):
    q, k = rows(rng)
    keys = KeySampler(k, fitted(q, k))
    index = rng.integers(0, 50, (4, 7))
    whole = keys.log_probability(q)
    expected = np.take_along_axis(whole, index, axis=1)
    assert_allclose(keys.log_probability(q, index), expected)


@pytest.mark.parametrize("n_keys", [1, 2, 3, 17, 64])
def test_search_is_that_of_numpy(n_keys, rng):
    q, k = rows(rng, n_keys=n_keys)
    keys = KeySampler(k, fitted(q, k))
    feature, u = rng.integers(0, 32, 500), rng.random(500)
    u[:3] = 0, 1e-300, np.nextafter(1, 0)
    expected = [
        min(np.searchsorted(keys._cumulative[i], level * total, "right"), n_keys - 1)
        for i, level in zip(feature, u, strict=True)
        for total in [keys._cumulative[i, -1]]
    ]
    assert_array_equal(keys._search(feature, u), expected)


def test_large_rows_single_precision_and_deterministic_features(rng):
    q, k = rows(rng, scale=8.0)
    keys = KeySampler(k, fitted(q, k))
    assert np.isfinite(keys.sample(q, 10, random_state=0)).all()
    q, k = (some.astype(np.float32) for some in rows(rng))
    keys = KeySampler(k, "elu+1")
    assert keys.n_components == D
    assert_frequencies(
        keys.sample(q, 20_000, random_state=0), np.exp(keys.log_probability(q))
    )


def test_draws_depend_on_the_seed_alone(rng):
    q, k = rows(rng)
    keys = KeySampler(k, fitted(q, k))
    first, again, other = (keys.sample(q, 20, random_state=s) for s in (0, 0, 1))
    assert_array_equal(first, again)
    assert np.any(first != other)


def test_what_cannot_be_drawn_is_refused(rng):
    q, k = rows(rng)
    with pytest.raises(ValueError, match="must have positive features"):
        KeySampler(k, fitted(q, k, TrigRBFSampler))
    keys = KeySampler(k, fitted(q, k))
    with pytest.raises(ValueError, match="n_draws=0 must be 1 or more"):
        keys.sample(q, 0)
    with pytest.raises(ValueError, match="q has 3 columns, but the keys have 6"):
        keys.sample(q[:, :3], 1)
    with pytest.raises(ValueError, match="q has 3 columns, but the keys have 6"):
        KeySampler(k, "elu+1").sample(q[:, :3], 1)
    with pytest.raises(ValueError, match="index has shape"):
        keys.log_probability(q, [0, 1])
    with pytest.raises(ValueError, match="k contains NaN"):
        KeySampler(np.full_like(k, np.nan), fitted(q, k))
