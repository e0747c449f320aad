"""
How much does a simplex save?
=============================

Positive features with frequencies at the widest common angle, a simplex, have a smaller
variance than with orthogonal ones. By how much depends on the length of x + y.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler, PositiveRBFSampler

# %%
# One block of d frequencies, relative to d independent ones, from the exact variance.
# Left with A = 0, right with the A of OPRF that is the best for each pair.
sums = np.geomspace(1e-2, 10, 60)
dimensions = {3: "tab:blue", 16: "tab:orange", 64: "tab:green"}
styles = {"orthogonal": "--", "simplex": "-"}


def variances(sampler, d, coupling):
    options = {"sigma": 1.0, "n_components": d, "center": False, "coupling": coupling}
    rows = (s / 2 * np.eye(d)[:1] for s in sums)
    return [sampler(**options).fit(row).kernel_variance(row)[0, 0] for row in rows]


figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, sampler in zip(axes, (PositiveRBFSampler, OPRFSampler), strict=True):
    for d, color in dimensions.items():
        independent = np.array(variances(sampler, d, "iid"))
        for coupling, style in styles.items():
            ratio = variances(sampler, d, coupling) / independent
            ax.loglog(sums, ratio, style, color=color, label=f"{coupling}, d = {d}")
    ax.set(xlabel="|x + y|", title=sampler.__name__)
    ax.grid(alpha=0.3)
axes[0].set_ylabel("variance, independent = 1")
axes[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# Orthogonal frequencies (dashed) save only where x + y has a moderate length. For short
# sums the error is that of the sum of all frequencies, which a simplex nearly cancels:
# at d = 64 less than one percent is left. For long ones nothing helps: rare large
# features carry the error. OPRF moves that end to longer sums.
