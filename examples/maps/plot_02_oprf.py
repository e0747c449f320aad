"""
When are optimal positive features better?
==========================================

The variance of a Gaussian kernel value that is estimated from positive features depends
on the norm of x + y. ``OPRFSampler`` has a parameter A that makes this variance small
for the norms that are typical of the data.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler
from sklearn_crt.samplers import PositiveRBFSampler

# %%
# Each pair consists of two equal rows x = y on one axis, so the norm of x + y is twice
# that of x. If ``fit`` is called with one such pair, A is optimal for that pair. The
# reference is A = 0, that is, ``PositiveRBFSampler``.
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
titles = "one A for each pair", "one A for all pairs (d = 64)"
for ax, title in zip(axes, titles, strict=True):
    ax.axhline(0, color="black", linewidth=0.8, label="A = 0")
    ax.set(xlabel="|x + y|", title=title, ylim=(-60, 20))
    ax.grid(alpha=0.3)
    ax.legend()
axes[0].set_ylabel("log variance minus that for A = 0")
plt.show()

# %%
# Left: if A is chosen for each pair, the variance is never larger than with A = 0, and
# the improvement grows without bound. Right: in practice a single A is used for all
# pairs. The variance is then much smaller than with A = 0 if the norm of x + y is
# large. It is larger if the norm is far below the value for which A was chosen, but the
# variance is small there in any case.
