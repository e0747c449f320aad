"""
What does the coefficient of a hybrid do?
=========================================

A hybrid estimates the kernel by two base maps, one of which is accurate for equal rows
and the other one for opposite rows. A coefficient that depends on the angle between the
rows gives each base map a large weight where it is accurate.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt.theory import hrf_relative_error

# %%
# Left: the mean of the coefficient, that is, the weight of the positive features, with
# the standard deviation of its estimate from n = 8 random directions. Right: the
# relative errors of the two base maps with m = 64 frequencies, and of the hybrid, for
# rows of norm 1.25.
theta = np.linspace(0, np.pi, 300)
mean, deviation = theta / np.pi, np.sqrt(theta / np.pi * (1 - theta / np.pi) / 8)
kinds = {
    "random Fourier features": "trigonometric",
    "positive features": "positive",
    "angular hybrid": "angular",
}

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].plot(theta, mean, label="weight of positive features")
axes[0].fill_between(theta, mean - deviation, mean + deviation, alpha=0.3)
axes[0].plot(theta, 1 - mean, label="weight of random Fourier features")
axes[0].set(ylabel="coefficient", ylim=(-0.1, 1.35))
for name, kind in kinds.items():
    error = hrf_relative_error(theta, 1.25, 64, 8, kind=kind)
    axes[1].plot(theta, error, label=name, lw=3 if kind == "angular" else 1.5)
axes[1].set(ylabel="relative error of the kernel estimate")
for ax in axes:
    ax.set_xlabel("angle between the rows")
    ax.set_xticks([0, np.pi / 2, np.pi], ["0", "90°", "180°"])
    ax.grid(alpha=0.3)
    ax.legend(loc="upper center")
plt.show()

# %%
# The error of random Fourier features vanishes for equal rows and is largest for
# opposite rows; for positive features, the opposite is true. The error of the hybrid
# vanishes at both ends. In between, the random coefficient adds to it.
