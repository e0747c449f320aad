"""
Is a complex parameter useful?
==============================

Random Fourier features and positive features belong to a family with a sign s and a
complex parameter A, from which ``GERFSampler`` chooses the best member. This example
shows the variance of the chosen member, and what happens if A is not real.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import GERFSampler, PositiveRBFSampler

X = np.random.default_rng(0).normal(size=(200, 64))
sigmas = np.geomspace(0.05, 0.5, 15)
maps = {
    "TrigRBFSampler": TrigRBFSampler(),
    "PositiveRBFSampler": PositiveRBFSampler(),
    "OPRFSampler": OPRFSampler(),
    "GERFSampler": GERFSampler(),
}
pairs = np.triu_indices(len(X), 1)


def mean_log_variance(sampler):
    return np.mean(np.log(sampler.kernel_variance(X)[pairs]))


# %%
# Left: the log variance of each sampler, averaged over all pairs of rows. Right: the
# same mean for the best member of the family, and for members whose parameter rho = 1 /
# (1 - 8A) is rotated in the complex plane. The formula is given in
# :class:`~sklearn_crt.GERFSampler`.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, sampler in maps.items():
    sampler.set_params(n_components=128, coupling="iid")
    means = [mean_log_variance(sampler.set_params(sigma=s).fit(X)) for s in sigmas]
    style = {"color": "black", "linestyle": ":"} if name == "GERFSampler" else {}
    axes[0].plot(sigmas, means, label=name, **style)
axes[0].set(xlabel="sigma", ylabel="mean log variance, 128 features")

angles = np.linspace(0, 0.6, 40)
for sigma in (0.05, 0.1, 0.2, 0.4):
    best = GERFSampler(sigma=sigma, coupling="iid").fit(X)
    # with an even number of features, each frequency of a complex member has two
    options = {"sigma": sigma, "coupling": "iid", "n_components": 128, "s": best.s_}
    members = [(1 - np.exp(-1j * angle) * (1 - 8 * best.A_)) / 8 for angle in angles]
    means = [mean_log_variance(GERFSampler(A=A, **options).fit(X)) for A in members]
    label = f"sigma = {sigma}, s = {best.s_:+d}"
    axes[1].plot(angles, np.subtract(means, means[0]), label=label)
axes[1].set(xlabel="angle of rho", ylabel="mean log variance minus that of the real A")
axes[1].set(xlim=(0, 0.6), ylim=(0, 4))
for ax in axes:
    ax.grid(alpha=0.3)
    ax.legend()
plt.show()

# %%
# The best member has a real parameter. For a small sigma it is close to random Fourier
# features, with A > 0, and for a large sigma it is OPRF. Every rotation away from the
# real axis increases the variance, as in all other experiments that we know of.
