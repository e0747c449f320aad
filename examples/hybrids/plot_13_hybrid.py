"""
When does a hybrid pay?
=======================

Sines and cosines are exact where two rows are equal, pairs of positive features where
they are opposite. The angular hybrid of the paper mixes the two by the angle, and its
error vanishes at both ends for rows of one length.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt.theory import hrf_max_relative_error, hrf_relative_error

# %%
# Rows of length r in 64 dimensions. All maps cost as many multiplications per row as
# 128 frequencies of sines and cosines: a hybrid has m frequencies, which its base maps
# share, and n for the coefficient, and (m + n) 64 multiplications for the products and
# 4m(n + 1) or 4m(2n + 1) for the columns.

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
# Left: at r = 1.5 the largest error of the angular hybrid is a fifth of that of either
# map alone. Right: the largest error over all angles; trigonometric and positive maps
# have the same one, blue under dashes. It grows like exp(2 r^2) for all: hybrids are
# for short rows. The user guide compares them with optimal positive features
# (:doc:`/user_guide/hybrid`).
