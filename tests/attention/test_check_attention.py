"""The contract of attention passes for our maps and fails for each fault."""

import warnings

import numpy as np
import pytest

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.attention import linear_attention
from sklearn_crt.samplers import HybridSampler, PositiveRBFSampler
from sklearn_crt.testing import check_attention

SIGMA = 4**-0.25


def positive(q, k, n_components, random_state):
    """Return positive features that know nothing of the rows."""
    sampler = PositiveRBFSampler(
        sigma=SIGMA,
        kernel="softmax",
        center=False,
        n_components=n_components,
        random_state=random_state,
    )
    return sampler.fit(np.zeros((1, 4)))


def right(q, k, v, *, causal, n_components, random_state):
    feature_map = positive(q, k, n_components, random_state)
    return linear_attention(q, k, v, feature_map, causal=causal)


def key_factor_dropped(q, k, v, *, causal, n_components, random_state):
    """Gaussian features of the keys."""
    feature_map = positive(q, k, n_components, random_state)
    bias = -0.5 * np.sum((SIGMA * k) ** 2, axis=-1)
    return linear_attention(q, k, v, feature_map, causal=causal, key_mask=bias)


def shift_a_key_row(q, k, v, *, causal, n_components, random_state):
    """Each key divided by its largest feature."""
    feature_map = positive(q, k, n_components, random_state)
    bias = -np.log(feature_map.transform_key(k).max(axis=-1))
    return linear_attention(q, k, v, feature_map, causal=causal, key_mask=bias)


def A_from_the_future(q, k, v, *, causal, n_components, random_state):
    """Parameters of the whole sequence in causal attention."""
    sampler = OPRFSampler(
        sigma=SIGMA,
        kernel="softmax",
        n_components=n_components,
        random_state=random_state,
    )
    return linear_attention(q, k, v, sampler.fit(q, X_key=k), causal=causal)


def last_row_seen(name):
    """Return an attention whose rows see a millionth of the last query, key or value.

    The first row has no error else, so that it alone stays as it is.
    """

    def attention(q, k, v, *, causal, **options):
        out = right(q, k, v, causal=causal, **options)
        out[1:] += 1e-6 * causal * {"q": q, "k": k, "v": v}[name][-1]
        return out

    return attention


def zero_mask(q, k, v, *, causal, n_components, random_state):
    """Scores of 0, not of minus infinity, where nothing is to be seen."""
    if not causal:
        return right(
            q, k, v, causal=False, n_components=n_components, random_state=random_state
        )
    feature_map = positive(q, k, n_components, random_state)
    products = feature_map.transform(q) @ feature_map.transform_key(k).T
    products = np.where(np.tri(len(q), dtype=bool), products, 1.0)
    return products @ v / products.sum(axis=1, keepdims=True)


def without_logs(q, k, v, *, causal, n_components, random_state):
    """Features as numbers, which over- and underflow."""
    feature_map = positive(q, k, n_components, random_state)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        products = feature_map.transform(q) @ feature_map.transform_key(k).T
        if causal:
            products = np.tril(products)
        return products @ v / products.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "attention",
    [
        PositiveRBFSampler(kernel="softmax"),
        OPRFSampler(kernel="softmax"),
        OPRFSampler(kernel="softmax", coupling="simplex", center=False),
        TrigRBFSampler(kernel="softmax"),
        pytest.param(
            HybridSampler(kernel="softmax", n_coefficients=1), marks=pytest.mark.slow
        ),
        right,
    ],
)
def test_correct_ones_pass(attention):
    check_attention(attention, n_components=256)


@pytest.mark.parametrize(
    "fault, message",
    [
        (key_factor_dropped, r"do not converge to softmax_attention\(causal=False"),
        (shift_a_key_row, r"do not converge to softmax_attention\(causal=False"),
        (A_from_the_future, "not causal: rows before 9 change by"),
        *((last_row_seen(name), f"later rows of {name} change") for name in "qkv"),
        (zero_mask, r"do not converge to softmax_attention\(causal=True"),
        (without_logs, "not finite at scale"),
    ],
)
def test_each_fault_is_found(fault, message):
    n_draws = 48 if "converge" in message else 8
    with pytest.raises(AssertionError, match=message):
        check_attention(fault, n_draws=n_draws)
