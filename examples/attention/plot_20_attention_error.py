"""
How accurate is linear attention?
=================================

The error of attention from random features falls with the root of the number of
features, from a level that grows with the exponential of the squared length of queries
and keys.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler, PositiveRBFSampler, TrigRBFSampler
from sklearn_crt.attention import linear_attention, softmax_attention

# %%
# One head with d = 64 and 128 rows. The size of the entries of q and k is 0.3, 0.6 and
# 1; :math:`|x|^2 = |q|^2 / \sqrt d` is 0.7, 2.9 and 8 on average.
D, LENGTH, WIDTHS, N_DRAWS = 64, 128, [64, 128, 256, 512, 1024], 3
options = {"sigma": D**-0.25, "kernel": "softmax"}
maps = {
    "FAVOR+": PositiveRBFSampler(**options),
    "FAVOR++": OPRFSampler(**options),
    "FAVOR++ simplex": OPRFSampler(coupling="simplex", **options),
    "trigonometric": TrigRBFSampler(**options),
}
rng = np.random.default_rng(0)
rows, v = rng.standard_normal((2, LENGTH, D)), rng.standard_normal((LENGTH, 16))


def relative(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


def errors(q, k, sampler, width):
    """Mean errors of the attention matrix (the output for v = I) and of the output."""
    exact = [softmax_attention(q, k, values) for values in (np.eye(LENGTH), v)]
    found = []
    for seed in range(N_DRAWS):
        sampler.set_params(n_components=width, random_state=seed).fit(q, X_key=k)
        found.append(
            [
                relative(linear_attention(q, k, values, sampler), target)
                for values, target in zip((np.eye(LENGTH), v), exact, strict=True)
            ]
        )
    return np.mean(found, axis=0)


# %%
# Above the error of the attention matrix, below that of the output.
figure, axes = plt.subplots(
    2, 3, figsize=(11, 6), layout="constrained", sharex=True, sharey=True
)
for column, size in zip(axes.T, (0.3, 0.6, 1.0), strict=True):
    q, k = size * rows
    lengths = np.mean(np.sum(q**2, axis=1)) / np.sqrt(D)
    for name, sampler in maps.items():
        table = np.array([errors(q, k, sampler, width) for width in WIDTHS])
        for ax, curve in zip(column, table.T, strict=True):
            ax.loglog(WIDTHS, curve, marker="o", label=name)
        print(f"|x|^2 = {lengths:.1f}, {name}: {table[-1, 0]:.2f}, {table[-1, 1]:.2f}")
    column[0].set_title(f"mean |x|^2 = {lengths:.1f}")
    column[1].set_xlabel("features")
    for ax in column:
        ax.axhline(1, color="grey", linestyle=":", label="the answer 0")
        ax.grid(alpha=0.3)
axes[0, 0].legend()
axes[0, 0].set_xticks(WIDTHS, WIDTHS)
axes[0, 0].set_yticks([0.03, 0.1, 0.3, 1, 3], [0.03, 0.1, 0.3, 1, 3])
axes[0, 0].minorticks_off()
for row, what in zip(axes, ("attention matrix", "output"), strict=True):
    for ax in row:
        ax.set_ylabel(f"error of the {what}")

# %%
# At entries of unit variance, right, no map is better than an error of 1, which the
# answer 0 has too. Sines and cosines look best there for a reason that helps nobody:
# most of their denominators cannot be told from noise, and such rows are given the mean
# of the values.
plt.show()
