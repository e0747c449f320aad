"""
Is attention beyond the neighbours of low rank?
===============================================

FMMformers treat neighbours exactly and the rest by few features. That needs the rest
to be of low rank: the numerical rank of attention matrices without a band around the
diagonal.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt.attention import linear_attention, softmax_attention

# %%
# Three attention matrices of 128 rows: scores that fall with the distance of rows, as
# positions make them; random queries and keys in 16 dimensions; and both together. A
# matrix is the output for v = I.
L = 128
rng, place = np.random.default_rng(0), np.arange(L)
q, k = rng.standard_normal((2, L, 16))
near = -abs(place[:, None] - place) / 4.0
scores = {
    "distance": near,
    "random": q @ k.T / 4,
    "distance and random": near + q @ k.T / 4,
}


def rank_beyond(matrix, band):
    """Number of singular values above 1 % of the largest one of the whole matrix."""
    rest = np.where(abs(place[:, None] - place) <= band, 0, matrix)
    values = np.linalg.svd(rest, compute_uv=False)
    return int(np.sum(values > 0.01 * np.linalg.norm(matrix, 2)))


bands = [-1, 0, 1, 2, 5, 10, 20, 40]
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, score in scores.items():
    weights = np.exp(score - score.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    ranks = [rank_beyond(weights, band) for band in bands]
    print(f"{name}: {dict(zip(bands, ranks, strict=True))}")
    ax.plot(bands, ranks, marker="o", label=name)
ax.set(xlabel="neighbours on each side left out (-1: none)", ylabel="rank to 1 %")
ax.legend()
ax.grid(alpha=0.3)

# %%
# Where scores fall with the distance a narrow band takes away most of the rank; where
# they do not, no band does. The rank of a far field is that of its features:
exact = softmax_attention(q, k, np.eye(L))
one = linear_attention(q, k, np.eye(L), "elu+1")
two = one + linear_attention(q, k, np.eye(L), "elu(-)+1")
print([int(np.linalg.matrix_rank(matrix)) for matrix in (exact, one, two)])
plt.show()
