"""Orthogonal blocks of few and of many columns, and any number of them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.extend import Orthogonal, chi_law
from sklearn_crt.testing import assert_coupling

DIMENSIONS = [1, 3, 63, 64, 70]  # from 64 on, blocks are drawn one by one


def draw(n_frequencies, n_features):
    rng = np.random.default_rng(0)
    return Orthogonal().draw(chi_law, n_frequencies, n_features, rng).to_dense()


@pytest.mark.parametrize("n_features", DIMENSIONS)
def test_directions_are_those_of_a_decomposition_of_each_block(n_features):
    """Rows of Q, signs of R's diagonal taken out, of the numbers as they are drawn."""
    n_blocks = 3 if n_features == 1 else 2 + 2**17 // n_features**2
    n_frequencies = n_blocks * n_features - n_features // 2  # the last one is partial
    drawn = draw(n_frequencies, n_features)
    rng, norms_rng = np.random.default_rng(0).spawn(2)
    norms = chi_law(n_features).rvs(n_frequencies, random_state=norms_rng)
    assert_allclose(np.linalg.norm(drawn, axis=0), norms, rtol=1e-12)
    vectors = rng.standard_normal((n_frequencies, n_features))
    whole = n_frequencies - n_frequencies % n_features
    parts = vectors[:whole].reshape(-1, n_features, n_features), vectors[None, whole:]
    found = (drawn / norms).T
    for part, start in zip(parts, (0, whole)):
        q, r = np.linalg.qr(np.swapaxes(part, 1, 2))
        signs = np.sign(np.einsum("bii->bi", r))
        expected = np.swapaxes(q * signs[:, None], 1, 2).reshape(-1, n_features)
        assert_allclose(found[start : start + len(expected)], expected, atol=1e-11)


@pytest.mark.parametrize("n_frequencies", [1, 60, 100, 101])
def test_few_directions_are_those_of_a_decomposition(n_frequencies):
    """Up to a quarter of the columns, the Gram matrix is decomposed instead."""
    drawn = draw(n_frequencies, 400)
    rng = np.random.default_rng(0).spawn(2)[0]
    q, r = np.linalg.qr(rng.standard_normal((n_frequencies, 400)).T)
    expected = q * np.sign(np.diag(r))
    assert_allclose(drawn / np.linalg.norm(drawn, axis=0), expected, atol=1e-14)


@pytest.mark.parametrize("n_features", [3, 70])
def test_draws_nest(n_features):
    large = draw(3 * n_features + 1, n_features)
    for m in (1, n_features - 1, n_features, 2 * n_features + 1):
        assert_allclose(draw(m, n_features), large[:, :m], atol=1e-12)


def test_law_of_blocks_drawn_one_by_one():
    assert_coupling(Orthogonal(), chi_law, 65, n_blocks=400)
