"""
Blocks of frequencies or quasi-random points?
=============================================

Orthogonal and simplex frequencies are drawn in independent blocks, so the squared error
is inversely proportional to the number of blocks. The points of a Sobol sequence all
depend on each other, and their error decreases faster. With many frequencies, they
therefore have the smaller error.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler

# %%
# The rows are normally distributed. For each pair of rows, the squared error is
# averaged over 20 draws; the figure shows the median over all pairs.
rng = np.random.default_rng(0)
couplings = "iid", "orthogonal", "simplex", "sobol"
panels = {
    "Fourier features, d = 4": (TrigRBFSampler, 4),
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
# In four dimensions Sobol points have a smaller error for both kinds of features,
# except with very few blocks. In sixteen dimensions the simplex is better if there are
# only a few blocks. All of these estimates are unbiased, but ``kernel_variance``
# predicts the error only for blocks of frequencies.
