"""Table of attention: features, a coreset, and the mean of the values."""

import sys

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

import sklearn_crt as crt
from sklearn_crt.attention import (
    coreset_attention,
    linear_attention,
    softmax_attention,
)

from ..tables import Table

SIZES = 0.5, 1.0, 1.5
N_ROWS, N_COLUMNS = 500, 16
MAPS = {
    "sines and cosines": crt.TrigRBFSampler(),
    "PosRF (FAVOR+)": crt.samplers.PositiveRBFSampler(),
    "OPRF (FAVOR++)": crt.OPRFSampler(),
    "OPRF, antithetic": crt.OPRFSampler(coupling="antithetic"),
    "DERF, antithetic": crt.DERFSampler(coupling="antithetic"),
}


def attention(widths=(128,), seeds=10):
    """Error of attention from features and a coreset, where values depend on the keys.

    Root mean squared error of the output over the deviation of the values, over draws
    of rows and frequencies: 500 queries and keys of 16 columns, normal, of three sizes,
    the deviations of the columns from 0.3 to 1.7 times the size, falling for keys where
    they grow for queries; values tanh(k M) for a normal M.
    """
    tables = []
    for width in widths:
        squares = {}
        for seed in tqdm(range(seeds), file=sys.stderr):
            for size in SIZES:
                for name, error in _errors(seed, size, width).items():
                    squares.setdefault(name, {}).setdefault(size, []).append(error)
        rows = [
            [name, *(f"{np.sqrt(np.mean(errors)):.3f}" for errors in by_size.values())]
            for name, by_size in squares.items()
        ]
        title = f"Error of the output, {width} columns or points"
        sizes = [f"size {size}" for size in SIZES]
        tables.append(Table(title, ["attention", *sizes], rows))
    return tables


def _errors(seed, size, width):
    """Return mean squared errors over the variance of the values, by method."""
    q, k, v = _rows(seed, size)
    found = {"mean of the values": v.mean(axis=0)}
    for name, sampler in MAPS.items():
        options = {"sigma": N_COLUMNS**-0.25, "kernel": "softmax"}
        options |= {"n_components": width, "random_state": seed}
        sampler = clone(sampler).set_params(**options).fit(q, X_key=k)
        found[name] = linear_attention(q, k, v, sampler)
    found["coreset"] = coreset_attention(q, k, v, width)
    exact = softmax_attention(q, k, v)
    return {
        name: np.mean((output - exact) ** 2) / v.var() for name, output in found.items()
    }


def _rows(seed, size):
    rng, scale = np.random.default_rng(seed), np.linspace(0.3, 1.7, N_COLUMNS)
    q, k = rng.normal(size=(2, N_ROWS, N_COLUMNS))
    q, k = size * q * scale, size * k * scale[::-1]
    return q, k, np.tanh(k @ rng.normal(size=(N_COLUMNS, N_COLUMNS)))
