"""
Why positive features?
======================

A kernel average divides by an estimated sum of kernel values. With random Fourier
features this estimate can be negative, which is impossible with positive features.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler

X = StandardScaler().fit_transform(load_wine().data)
sigmas = np.linspace(0.2, 1.6, 8)
samplers = TrigRBFSampler, PositiveRBFSampler, OPRFSampler
share = {cls.__name__: [] for cls in samplers}
for cls in samplers:
    for sigma in sigmas:
        wrong = []
        for seed in range(10):
            sampler = cls(sigma=sigma, n_components=128, random_state=seed).fit(X[::2])
            sums = sampler.approximate_kernel(X[1::2], X[::2]).sum(axis=1)
            wrong.append(np.mean(sums <= 0))
        share[cls.__name__].append(100 * np.mean(wrong))

# %%
# The figure shows the proportion of queries for which the estimated sum of kernel
# values is not positive.
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, values in share.items():
    ax.plot(sigmas, values, marker="o", label=name)
ax.set(xlabel="sigma", ylabel="queries without a valid denominator (%)")
ax.legend()

# %%
# With random Fourier features, up to half of the queries have no valid average if
# ``sigma`` is large, because the true sums are far smaller than the errors of their
# estimates. With positive features every query has a valid average. Its accuracy
# depends on the variance of the features, which is smaller with OPRF.
