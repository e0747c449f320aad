"""
By how much does a simplex reduce the variance?
===============================================

If the frequencies of positive features point to the vertices of a simplex, the angles
between them are as large as possible, and the variance is smaller than with orthogonal
frequencies. The reduction depends on the norm of x + y.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler
from sklearn_crt.samplers import PositiveRBFSampler

# %%
# The curves show the exact variance with one block of d frequencies, relative to that
# with d independent frequencies, for A = 0 (left), and for the value of A that OPRF
# chooses for each pair (right).
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
axes[0].set_ylabel("variance relative to independent")
axes[1].legend(loc="upper left", bbox_to_anchor=(1, 1))
plt.show()

# %%
# Orthogonal frequencies (dashed) reduce the variance only if x + y has a moderate norm.
# If the norm is small, the error is proportional to the sum of all frequencies, which
# is nearly zero for a simplex: for d = 64, less than one percent of the variance
# remains. If the norm is large, no coupling helps, because the error is dominated by
# rare large features. With OPRF, these features dominate only at larger norms.
