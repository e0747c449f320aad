"""
When is a hybrid more accurate?
===============================

Kernel estimates from random Fourier features are exact if two rows are equal, and those
from antithetic pairs of positive features are exact if they are opposite. The angular
hybrid of the paper combines both kinds of features, with weights that depend on the
angle between the rows. For rows of equal norm, its error vanishes in both cases.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler
from sklearn_crt.extend import Antithetic, Independent
from sklearn_crt.samplers import PositiveRBFSampler, angular_hybrid, gaussian_hybrid

# %%
# The rows have norm r and 64 dimensions. All samplers use as many multiplications per
# row as random Fourier features with 128 frequencies. A hybrid has m frequencies, which
# its base maps share, and n frequencies for the coefficient. The products take 64 (m +
# n) multiplications, and the features take another 4m(n + 1) or 4m(2n + 1).
#
# The method ``kernel_variance`` returns the mean squared error of the estimates. For
# independent frequencies, it depends only on the norms and on the angle, so the rows
# that are passed to it need only two columns.

n_features, n_frequencies, n = 64, 128, 8


def fair(kind):
    if kind in ("trigonometric", "positive"):
        return n_frequencies
    columns = 4 * (n + 1) if kind == "angular" else 4 * (2 * n + 1)
    budget = n_features * n_frequencies
    return (budget - n_features * n) // (n_features + columns)


def relative_error(kind, radius, angles):
    """Return the standard deviation of the kernel estimate, divided by the kernel."""
    rows = radius * np.array([[1.0, 0.0]])
    others = radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    m = fair(kind)
    params = {"sigma": 1.0, "kernel": "softmax", "coupling": "iid"}
    if kind == "trigonometric":
        sampler = TrigRBFSampler(n_components=2 * m, **params)
    elif kind == "positive":
        params |= {"coupling": Antithetic(Independent()), "center": False}
        sampler = PositiveRBFSampler(n_components=2 * m, **params)
    elif kind == "angular":
        width = 4 * m * (n + 1)
        sampler = angular_hybrid(n_coefficients=n, n_components=width, **params)
    else:
        width = 4 * m * (2 * n + 1)
        sampler = gaussian_hybrid(n_coefficients=n, n_components=width, **params)
    sampler.fit(rows, X_key=others)
    variance = sampler.kernel_variance(rows, others)
    return (np.sqrt(variance) / sampler.exact_kernel(rows, others))[0]


angles = np.linspace(0, np.pi, 200)
radii = np.linspace(0.5, 2, 40)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for kind in ("trigonometric", "positive", "angular", "gaussian"):
    error = relative_error(kind, 1.5, angles)
    largest = [relative_error(kind, r, angles).max() for r in radii]
    label = f"{kind}, {fair(kind)} frequencies"
    style = "--" if kind == "positive" else "-"  # it lies on another line
    axes[0].plot(angles, error, style, label=label)
    axes[1].semilogy(radii, largest, style, label=label)
axes[0].set(xlabel="angle between the rows", ylabel="relative error at r = 1.5")
axes[1].set(xlabel="length r of the rows", ylabel="largest relative error")
for ax in axes:
    ax.grid(alpha=0.3)
    ax.legend()
plt.show()

# %%
# Left: for r = 1.5 the largest error of the angular hybrid is a fifth of that of either
# kind of feature alone. Right: the largest error over all angles, which is the same for
# random Fourier features (blue) and positive features (dashed). For all samplers it
# grows like exp(2 r^2), so hybrids are useful only for rows with a small norm. The user
# guide compares hybrids with optimal positive features (:doc:`/user_guide/hybrid`).
