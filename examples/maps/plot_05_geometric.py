"""
Which random features for which sigma?
======================================

The variance of six maps of the Gaussian kernel against ``sigma``, on the wine data
that scikit-learn ships: no random numbers, since every map knows its variance.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    GeometricSampler,
    OPRFSampler,
    PoissonSampler,
    TrigRBFSampler,
)

X = StandardScaler().fit_transform(load_wine(return_X_y=True)[0])
maps = {
    "TrigRBFSampler": TrigRBFSampler(),
    "OPRFSampler": OPRFSampler(),
    "PoissonSampler": PoissonSampler(),
    "PoissonSampler, positive": PoissonSampler(positive=True),
    "GeometricSampler": GeometricSampler(),
    "GeometricSampler, positive": GeometricSampler(positive=True),
}
sigmas = np.geomspace(0.05, 2, 16)
# where the error exceeds the kernel fit says so; here the curves do
warnings.filterwarnings("ignore", message=".*stated error")

# %%
# The median over all pairs of rows of the variance of an estimate from 128 columns.
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for name, sampler in maps.items():
    sampler.set_params(n_components=128)
    medians = [
        np.median(sampler.set_params(sigma=sigma).fit(X).kernel_variance(X))
        for sigma in sigmas
    ]
    style = "--" if "positive" in name or name == "OPRFSampler" else "-"
    ax.plot(sigmas, medians, style, label=name)
ax.set(xscale="log", yscale="log", ylim=(1e-12, 1e2))
ax.set(xlabel="sigma", ylabel="median variance of the kernel estimate")
ax.grid(alpha=0.3)
ax.legend()
plt.show()

# %%
# Maps with positive features are dashed. Sines and cosines win at small ``sigma``,
# where all kernel values are near one, OPRF at large ``sigma``. Of the discrete maps
# the geometric one with ``positive=True`` stays closest to OPRF there, and the Poisson
# one with ``positive=True`` is the one to avoid.
