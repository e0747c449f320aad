"""
How accurate is linear attention?
=================================

The error of linear attention with random features is inversely proportional to the
square root of the number of features, but it grows exponentially with the squared norm
of queries and keys.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.attention import linear_attention, softmax_attention
from sklearn_crt.samplers import PositiveRBFSampler

# %%
# One attention head is simulated, with 128 queries and keys of dimension d = 64. The
# entries of q and k have the standard deviations 0.3, 0.6 and 1, so that :math:`|x|^2 =
# |q|^2 / \sqrt d` is 0.7, 2.9 and 8 on average.
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
    """Return the mean errors of the attention matrix (v = I) and of the output."""
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
# The upper row of the figure shows the error of the attention matrix, and the lower row
# that of the output.
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
        ax.axhline(1, color="grey", linestyle=":", label="constant output 0")
        ax.grid(alpha=0.3)
axes[0, 0].legend()
axes[0, 0].set_xticks(WIDTHS, WIDTHS)
axes[0, 0].set_yticks([0.03, 0.1, 0.3, 1, 3], [0.03, 0.1, 0.3, 1, 3])
axes[0, 0].minorticks_off()
for row, what in zip(axes, ("attention matrix", "output"), strict=True):
    for ax in row:
        ax.set_ylabel(f"error of the {what}")

# %%
# If the entries have unit variance (right), no features have an error below 1, which is
# also the error of the constant output 0. Random Fourier features only seem to be the
# best in this case: most of their denominators cannot be distinguished from noise, and
# the output for such rows is replaced by the mean of the values.
plt.show()
