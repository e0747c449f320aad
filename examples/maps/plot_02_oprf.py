"""
Where do optimal positive features help?
========================================

Positive features of the Gaussian kernel at x and y have a variance that depends on
x + y. With one parameter A, ``OPRFSampler`` makes it small at the length of x + y that
is typical of the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler, PositiveRBFSampler

# %%
# Pairs x = y along one axis, so x + y is twice as long as x. ``fit`` on one such
# pair tunes A for it; A = 0, ``PositiveRBFSampler``, is the map to compare with.
sums = np.linspace(0.05, 8, 60)
options = {"sigma": 1.0, "n_components": 1, "center": False, "coupling": "iid"}


def variances(sampler, n_features):
    rows = np.zeros((sums.size, n_features))
    rows[:, 0] = sums / 2
    return np.array([sampler.kernel_variance(row[None])[0, 0] for row in rows])


def tuned_for(sum_, n_features):
    return OPRFSampler(**options).fit(np.eye(n_features)[:1] * sum_ / 2)


def log_classical(n_features):
    classical = PositiveRBFSampler(**options).fit(np.zeros((1, n_features)))
    return np.log(variances(classical, n_features))


figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for d in (4, 16, 64):
    best = [variances(tuned_for(s, d), d)[i] for i, s in enumerate(sums)]
    axes[0].plot(sums, np.log(best) - log_classical(d), label=f"d = {d}")
for typical in (1, 2, 4, 8):
    ratio = np.log(variances(tuned_for(typical, 64), 64)) - log_classical(64)
    axes[1].plot(sums, ratio, label=f"A for |x + y| = {typical}")
titles = "a parameter for each pair", "one parameter for all pairs (d = 64)"
for ax, title in zip(axes, titles, strict=True):
    ax.axhline(0, color="black", linewidth=0.8, label="A = 0")
    ax.set(xlabel="|x + y|", title=title, ylim=(-60, 20))
    ax.grid(alpha=0.3)
    ax.legend()
axes[0].set_ylabel("log variance, less that for A = 0")
plt.show()

# %%
# Left: tuned for each pair, A never loses, and the gain grows without bound. Right: one
# A for all pairs, as in practice. It gains much where x + y is long, and loses where
# it is far shorter than that A is tuned for, where the variance is small anyway.
