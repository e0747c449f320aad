"""Orthogonal blocks, drawn one by one and many at once."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.frequencies import Orthogonal, _blocks, _orthogonal, chi_law
from sklearn_crt.testing import assert_coupling


def draw(n_frequencies, n_features):
    rng = np.random.default_rng(0)
    return Orthogonal().draw(chi_law, n_frequencies, n_features, rng).to_dense()


@pytest.mark.parametrize("n_frequencies", [1, 7, 70, 71, 500])
def test_one_by_one_equals_many_at_once(n_frequencies, monkeypatch):
    alone = draw(n_frequencies, 70)
    monkeypatch.setattr(_orthogonal, "_ONE_BY_ONE", 1000)
    assert_allclose(draw(n_frequencies, 70), alone, atol=1e-12)


@pytest.mark.parametrize("n_features", [3, 70])
def test_groups_of_blocks_change_nothing(n_features, monkeypatch):
    together = draw(5 * n_features + 2, n_features)
    monkeypatch.setattr(_blocks, "_GROUP", 2 * n_features**2)
    assert_allclose(draw(5 * n_features + 2, n_features), together, atol=1e-12)


@pytest.mark.parametrize("n_features", [3, 70])
def test_draws_nest(n_features):
    large = draw(3 * n_features + 1, n_features)
    for m in (1, n_features - 1, n_features, 2 * n_features + 1):
        assert_allclose(draw(m, n_features), large[:, :m], atol=1e-12)


def test_law_of_blocks_drawn_one_by_one():
    assert_coupling(Orthogonal(), chi_law, 70, n_blocks=1000)
