"""
Which random features for which sigma?
======================================

The figure shows the variance of six samplers of the Gaussian kernel as a function of
``sigma``, for the wine data of scikit-learn. No random numbers are needed, because
every sampler has a formula for its variance.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import GeometricSampler, PoissonSampler

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
# fit warns if the error exceeds the kernel; here the curves show it
warnings.filterwarnings("ignore", category=ApproximationWarning)

# %%
# Each curve shows the variance with 128 features, as the median over all pairs of rows.
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
# Samplers of positive features are dashed. For a small ``sigma``, where all kernel
# values are close to one, random Fourier features have the smallest variance; for a
# large ``sigma`` OPRF does. Of the samplers with discrete exponents,
# ``GeometricSampler(positive=True)`` is the closest to OPRF there, and
# ``PoissonSampler(positive=True)`` should be avoided.
