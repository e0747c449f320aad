"""The least that a map must do: one product and one elementwise function.

No validation, no allocation of the output, no shifts and scales. In chunks of rows the
output of the product is still in the cache when the function reads it.
"""

import numpy as np

CHUNK = 256


def blocks(n, chunk):
    """Yield slices of at most ``chunk`` rows."""
    return (slice(start, start + chunk) for start in range(0, n, chunk))


def one_function(X, W, out, function, chunk):
    """Write function(X @ W) to out."""
    for rows in blocks(X.shape[0], chunk):
        part = out[rows]
        np.matmul(X[rows], W, out=part)
        function(part, out=part)


def cosine_sine(X, W, out, phases, chunk):
    """Write the cosines and sines of X @ W to the halves of out."""
    half = W.shape[1]
    for rows in blocks(X.shape[0], chunk):
        part = out[rows]
        angles = np.matmul(X[rows], W, out=phases[: part.shape[0]])
        np.cos(angles, out=part[:, :half])
        np.sin(angles, out=part[:, half:])


def make_rooflines(X, n_columns):
    """Return the rooflines by name, as functions without arguments.

    The positive maps do the work of "exp", RBFSampler that of "cos" and TrigRBFSampler
    that of "cos and sin", for which it knows a shorter way in float64.
    """
    rng = np.random.default_rng(0)
    W = rng.standard_normal((X.shape[1], n_columns)) / np.sqrt(X.shape[1])
    W = W.astype(X.dtype)
    half = np.ascontiguousarray(W[:, : n_columns // 2])
    out = np.zeros((X.shape[0], n_columns), dtype=X.dtype)
    phases = np.zeros((X.shape[0], half.shape[1]), dtype=X.dtype)
    rooflines = {}
    for suffix, chunk in (("", CHUNK), (", whole", X.shape[0])):
        rooflines |= {
            f"exp{suffix}": lambda c=chunk: one_function(X, W, out, np.exp, c),
            f"cos{suffix}": lambda c=chunk: one_function(X, W, out, np.cos, c),
            f"cos and sin{suffix}": lambda c=chunk: cosine_sine(
                X, half, out, phases, c
            ),
        }
    return rooflines
