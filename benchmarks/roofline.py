"""The least that a map must do: one product and one elementwise function.

No validation, no allocation of the output, no shifts and scales. In chunks of rows the
output of the product is still in the cache when the function reads it. With several
threads each has its share of the rows.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.utils import gen_batches, gen_even_slices
from threadpoolctl import threadpool_limits

from sklearn_crt.maps._circle import has_fast_tangent

CHUNK = 256


def product_and(function, X, W, out):
    """Write function(X @ W) to out."""
    for rows in gen_batches(X.shape[0], CHUNK):
        part = out[rows]
        np.matmul(X[rows], W, out=part)
        function(part, out=part)


def cosine_sine(X, W, out):
    """Write the cosines and sines of X @ W to the halves of out."""
    half, phases = W.shape[1], np.empty((CHUNK, W.shape[1]), dtype=X.dtype)
    for rows in gen_batches(X.shape[0], CHUNK):
        part = out[rows]
        angles = np.matmul(X[rows], W, out=phases[: part.shape[0]])
        np.cos(angles, out=part[:, :half])
        np.sin(angles, out=part[:, half:])


def half_angle(X, W, out):
    """Write the same from one tangent of half the angle."""
    half, phases = W.shape[1], np.empty((CHUNK, W.shape[1]), dtype=X.dtype)
    for rows in gen_batches(X.shape[0], CHUNK):
        part = out[rows]
        angles = np.matmul(X[rows], W, out=phases[: part.shape[0]])
        tangents = np.tan(angles, out=angles)
        share = np.square(tangents)
        share += 1
        np.divide(2, share, out=share)
        np.subtract(share, 1, out=part[:, :half])
        np.multiply(tangents, share, out=part[:, half:])


def make_rooflines(X, n_columns, n_threads=1):
    """Return the rooflines by name, as functions without arguments.

    The positive maps do the work of "product, exp", RBFSampler that of "product, cos".
    TrigRBFSampler does that of "half product, cos and sin", the faster of the two ways
    that NumPy has to get both: the tangent where it takes a nanosecond.
    """
    rng = np.random.default_rng(0)
    W = rng.standard_normal((X.shape[1], n_columns)) / np.sqrt(X.shape[1])
    W = W.astype(X.dtype)
    half = np.ascontiguousarray(W[:, : n_columns // 2])
    out = np.zeros((X.shape[0], n_columns), dtype=X.dtype)
    pairs = half_angle if has_fast_tangent() else cosine_sine
    work = {
        "product, exp": lambda rows: product_and(np.exp, X[rows], W, out[rows]),
        "product, cos": lambda rows: product_and(np.cos, X[rows], W, out[rows]),
        "half product, cos and sin": lambda rows: pairs(X[rows], half, out[rows]),
    }
    shares = list(gen_even_slices(X.shape[0], n_threads))
    pool = ThreadPoolExecutor(n_threads)

    def run(function):
        if n_threads == 1:
            function(slice(None))
        else:
            with threadpool_limits(1, user_api="blas"):
                list(pool.map(function, shares))

    return {name: lambda f=function: run(f) for name, function in work.items()}
