"""
Does attention to distant positions have a low rank?
====================================================

FMMformers compute attention to neighbouring positions exactly, and attention to all
others from a few features. This works only if the attention matrix has a low rank once
a band around its diagonal is removed. This example computes this rank numerically.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt.attention import linear_attention, softmax_attention

# %%
# The example uses three attention matrices of 128 rows. In the first, the scores
# decrease with the distance between positions; the second has random queries and keys
# in 16 dimensions; the third combines both. Each matrix is computed as the attention
# output for v = I.
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
    """Return the number of singular values above 1 % of the largest one."""
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
ax.set(
    xlabel="removed neighbours on each side (-1: none)",
    ylabel="rank (singular values above 1 %)",
)
ax.legend()
ax.grid(alpha=0.3)

# %%
# If the scores decrease with the distance, removing a band that contains most of the
# attention reduces the rank. Without such a decrease, no band has this effect. The rank
# of an approximation by linear attention is at most its number of features:
exact = softmax_attention(q, k, np.eye(L))
one = linear_attention(q, k, np.eye(L), "elu+1")
two = one + linear_attention(q, k, np.eye(L), "elu(-)+1")
print([int(np.linalg.matrix_rank(matrix)) for matrix in (exact, one, two)])
plt.show()
