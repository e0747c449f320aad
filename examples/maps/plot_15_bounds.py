"""
How sharp are the bounds for optimal positive features?
=======================================================

The products of optimal positive features are bounded, so the probability of a large
error decreases exponentially with the number of frequencies. This example compares
bounds on this probability with measured frequencies of large errors, and a bound on the
variance that orthogonal frequencies save with the variance that they save.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import OPRFSampler
from sklearn_crt.theory import (
    oprf_tail_bound,
    orthogonal_gain_bound,
    rf_conformity_gap,
)

# %%
# The estimates of one kernel value come from many independent blocks of frequencies,
# which are drawn by a single sampler.
d, n_frequencies, n_draws = 4, 48, 20_000
x, y = np.array([[0.4, 0.2, 0.1, 0.0]]), np.array([[0.4, 0.3, -0.1, 0.1]])
pair = {"sq_sum": np.sum((x + y) ** 2), "sq_norms": np.sum(x**2) + np.sum(y**2)}


def errors(coupling):
    sampler = OPRFSampler(
        sigma=1.0,
        n_components=n_frequencies * n_draws,
        coupling=coupling,
        center=False,
        random_state=0,
    ).fit(x, X_key=y)
    products = n_draws * sampler.transform(x) * sampler.transform(y)
    estimates = products.reshape(n_draws, n_frequencies).sum(axis=1)
    return estimates - sampler.exact_kernel(x, y)[0, 0], sampler.A_


# %%
# Left: the probability that an estimate exceeds the kernel by eps or more. Hoeffding's
# inequality uses only the largest value of a product; the Legendre transform uses all
# of its moments. Right: the reduction of the variance by orthogonal frequencies,
# relative to the squared kernel, for M = d frequencies. The lower bound is that of
# theorem 9.1 of *Chefs' Random Tables*.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
eps = np.linspace(0.02, 1.0, 50)
for coupling, style in (("iid", "o"), ("orthogonal", "x")):
    error, A = errors(coupling)
    measured = np.mean(error[:, None] >= eps, axis=0)
    seen = measured > 0
    axes[0].semilogy(
        eps[seen], measured[seen], style, ms=4, label=f"measured, {coupling}"
    )
options = {"n_frequencies": n_frequencies, "n_features": d, "A": A}
legendre = oprf_tail_bound(eps, **pair, **options, upper=True)
hoeffding = oprf_tail_bound(eps, **pair, **options)
axes[0].semilogy(eps, hoeffding, "--", label="bound, Hoeffding")
axes[0].semilogy(eps, legendre, label="bound, Legendre transform")
axes[0].set(xlabel="eps", ylabel="probability of an error above eps")
axes[0].set(ylim=(1e-5, 3))

lengths = np.linspace(0.05, 3, 60)
for dimension in (4, 16, 64):
    # for x = y, relative to the squared kernel exp(|x + y|^2 - 2 |x|^2 - 2 |y|^2)
    relative = np.exp(-0.5 * lengths**2)
    bound = orthogonal_gain_bound(dimension, dimension, 1.0, relative)
    exact = (1 - 1 / dimension) * rf_conformity_gap(
        lengths, dimension, 0.0, relative=True
    )
    (line,) = axes[1].semilogy(lengths, exact, label=f"d = {dimension}, exact")
    axes[1].semilogy(lengths, bound, "--", color=line.get_color(), label="bound")
axes[1].set(xlabel="norm of x + y", ylabel="relative reduction of the variance")
for ax in axes:
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left" if ax is axes[0] else "lower right", fontsize=8)
plt.show()

# %%
# For large errors, the curve of the Legendre transform is parallel to the measured
# probabilities, because no better exponent exists. Hoeffding's inequality is of little
# use for this number of frequencies. Orthogonal frequencies satisfy the same bound. The
# bound on the variance is exact for small rows; for large rows, orthogonal frequencies
# save more than it guarantees.
