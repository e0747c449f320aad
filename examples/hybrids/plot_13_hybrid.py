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

from sklearn_crt.theory import hrf_max_relative_error, hrf_relative_error

# %%
# The rows have norm r and 64 dimensions. All samplers use as many multiplications per
# row as random Fourier features with 128 frequencies. A hybrid has m frequencies, which
# its base maps share, and n frequencies for the coefficient. The products take 64 (m +
# n) multiplications, and the features take another 4m(n + 1) or 4m(2n + 1).

n_features, n_frequencies, n = 64, 128, 8


def fair(kind):
    if kind in ("trigonometric", "positive"):
        return n_frequencies
    columns = 4 * (n + 1) if kind == "angular" else 4 * (2 * n + 1)
    budget = n_features * n_frequencies
    return (budget - n_features * n) // (n_features + columns)


angles = np.linspace(0, np.pi, 200)
radii = np.linspace(0.5, 2, 40)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for kind in ("trigonometric", "positive", "angular", "gaussian"):
    error = hrf_relative_error(angles, 1.5, fair(kind), n, kind=kind)
    largest = [hrf_max_relative_error(r, fair(kind), n, kind=kind) for r in radii]
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
