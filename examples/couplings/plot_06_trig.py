"""
Do orthogonal frequencies improve random Fourier features?
==========================================================

The figure shows the exact variance of a kernel estimate from one block of d orthogonal
frequencies, relative to that from d independent frequencies, as a function of the
distance between the two rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler

distances = np.linspace(0.05, 5, 100)
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for d in (2, 4, 16, 64):
    rows = np.zeros((101, d))
    rows[1:, 0] = distances
    orthogonal, independent = (
        TrigRBFSampler(sigma=1.0, n_components=2 * d, coupling=coupling)
        .fit(rows)
        .kernel_variance(rows[:1], rows[1:])[0]
        for coupling in ("orthogonal", "iid")
    )
    ax.plot(distances, orthogonal / independent, label=f"d = {d}")
ax.axhline(1, color="grey", linewidth=1, label="independent")
ax.set(xlabel="distance $|x - y|$ for $\\sigma = 1$", ylabel="ratio of the variances")
ax.legend()

# %%
# The reduction is largest for neighbouring rows and in high dimension: for d = 64 the
# variance is 20 times smaller. For distant rows there is no reduction. Where a curve is
# above the grey line, orthogonality increases the variance, here by at most 2 %.
