"""
How do the kernels and their frequencies differ?
================================================

The sharper the peak of a kernel, the heavier the tail of its spectral distribution,
from which the frequencies are drawn.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
)

samplers = {
    "exponential power 0.7": ExponentialPowerSampler(alpha=0.7),
    "Laplacian": LaplacianSampler(),
    "Matern 3/2": MaternSampler(nu=1.5),
    "Matern 4": MaternSampler(nu=4),
    "Gaussian": TrigRBFSampler(),
}
n_frequencies = 200_000
options = {"sigma": 1.0, "n_components": 2 * n_frequencies, "coupling": "iid"}
r = np.linspace(0, 3, 200)
rows = np.outer(r, np.eye(16)[0])

# %%
# Left: the kernels. Right: the proportion of 200,000 random frequencies in 16
# dimensions whose norm is above R.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
R = np.geomspace(0.5, 1e4, 200)
for name, sampler in samplers.items():
    sampler.set_params(random_state=0, **options).fit(rows)
    left.plot(r, sampler.exact_kernel(rows, rows[:1])[:, 0], label=name)
    norms = np.sort(np.linalg.norm(sampler.frequencies_, axis=0))
    above = n_frequencies - np.searchsorted(norms, R)
    right.loglog(R, np.maximum(above, 1e-9) / n_frequencies, label=name)
left.set(xlabel="distance r", ylabel="kernel")
left.legend()
right.set(xlabel="R", ylabel="proportion with |w| > R", ylim=(1e-5, 2))
for ax in (left, right):
    ax.grid(alpha=0.3)
plt.show()

# %%
# On the right, a straight line corresponds to a power law. Its exponent is alpha for
# the exponential power kernel, and 2 nu for the Matern kernel. One in a hundred
# frequencies of the Laplacian kernel has a norm above 300.
