"""
Why positive features?
======================

A kernel average divides by an estimated sum of kernel values. Sines and cosines can
estimate a sum that is negative; positive features can not.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import OPRFSampler, PositiveRBFSampler, TrigRBFSampler

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
# The share of queries whose sum of kernel values is estimated as zero or less.
figure, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
for name, values in share.items():
    ax.plot(sigmas, values, marker="o", label=name)
ax.set(xlabel="sigma", ylabel="queries without a valid denominator (%)")
ax.legend()

# %%
# With sines and cosines up to half of the queries have no valid average at large sigma,
# where the true sums are far smaller than the noise. The two positive maps always have
# one; how good it is, is a matter of their variance, which OPRF makes small.
