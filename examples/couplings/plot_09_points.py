"""
Blocks of frequencies or quasi-random points?
=============================================

Orthogonal and simplex frequencies are drawn in independent blocks, so the squared error
is inversely proportional to the number of blocks. All points of a Sobol sequence depend
on each other, and their error decreases faster. If there are many frequencies, it is
therefore smaller.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler

# %%
# The figure shows the median over pairs of rows of the squared error, averaged over 20
# draws. The rows are normally distributed.
rng = np.random.default_rng(0)
couplings = "iid", "orthogonal", "simplex", "sobol"
panels = {
    "sines and cosines, d = 4": (TrigRBFSampler, 4),
    "positive, d = 4": (PositiveRBFSampler, 4),
    "positive, d = 16": (PositiveRBFSampler, 16),
}


def squared_error(sampler, X):
    errors = []
    for seed in range(20):
        fitted = sampler.set_params(random_state=seed).fit(X)
        errors.append(fitted.approximate_kernel(X) - fitted.exact_kernel(X))
    mean = np.mean(np.square(errors), axis=0)
    return np.median(mean[np.triu_indices(len(X), 1)])


figure, axes = plt.subplots(1, 3, figsize=(11, 3.8), layout="constrained")
for ax, (title, (sampler, d)) in zip(axes, panels.items(), strict=True):
    X = rng.normal(size=(40, d)) * 0.5 / np.sqrt(d)
    columns = 2 if sampler is TrigRBFSampler else 1  # of a frequency
    numbers = d * 2 ** np.arange(8 if d == 4 else 5)
    for coupling in couplings:
        errors = [
            squared_error(
                sampler(sigma=1.0, n_components=columns * m, coupling=coupling), X
            )
            for m in numbers
        ]
        ax.loglog(numbers, errors, marker="o", markersize=3, label=coupling)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="frequencies", ylabel="median squared error", title=title)
    ax.grid(alpha=0.3)
axes[0].legend()
plt.show()

# %%
# In four dimensions Sobol points have a smaller error from a few blocks on, for both
# kinds of features. In sixteen dimensions the simplex is better for the first blocks.
# All these estimates are unbiased, but ``kernel_variance`` predicts the error only for
# blocks.
