"""
How much does the mean of Poisson exponents matter?
===================================================

Poisson features give unbiased kernel estimates for every mean ``lambda`` of their
random exponents. The figure shows the variance as a function of ``lambda`` for the wine
data of scikit-learn, and marks the value that ``fit`` chooses.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import OPRFSampler
from sklearn_crt.samplers import PoissonSampler

X = StandardScaler().fit_transform(load_wine(return_X_y=True)[0])


def mean_log_second_moment(feature_map):
    """Return the mean log second moment of one product of features of a map."""
    rows = feature_map.frame.rows(X)
    variance, kernel = feature_map.variance(rows, rows), feature_map.kernel(rows, rows)
    n = feature_map.n_components
    return np.log(variance + kernel**2 / n).mean() + np.log(n)


# %%
# The distribution of the exponents is an attribute of the feature map, so it can be
# replaced to create a map with a different distribution.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, positive in zip(axes, (False, True), strict=True):
    for color, sigma in zip(("C0", "C1", "C2"), (0.1, 0.2, 0.4), strict=True):
        options = {"sigma": sigma, "n_components": 4096}
        sampler = PoissonSampler(positive=positive, **options).fit(X)
        drawn, best = sampler.map_, sampler.lambda_
        optimum = mean_log_second_moment(drawn)
        means = best * np.geomspace(0.05, 20, 41)
        laws = (replace(drawn.law, lambda_=mean) for mean in means)
        curve = [mean_log_second_moment(replace(drawn, law=law)) for law in laws]
        ax.plot(means, curve, color=color, label=f"sigma = {sigma}")
        ax.plot(best, optimum, "o", color=color)
        oprf = OPRFSampler(coupling="iid", **options).fit(X)
        ax.axhline(mean_log_second_moment(oprf.map_), color=color, linestyle=":")
    ax.set(xscale="log", xlabel="lambda", title=f"positive={positive}", ylim=(-4, 12))
    ax.grid(alpha=0.3)
axes[0].set_ylabel("mean log second moment of one product")
axes[1].plot([], [], "k:", label="OPRFSampler, in the colour of its sigma")
figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
plt.show()

# %%
# The circle marks the fitted value, which is at the minimum of each curve. Without the
# shift, a ``lambda`` that is ten times too large or too small increases the variance by
# a factor of 3 for ``sigma=0.1`` and of 2e7 for ``sigma=0.4``. The dotted lines show
# OPRF, whose features are positive even without a shift.
