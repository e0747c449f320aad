"""
How do the kernels and their frequencies differ?
================================================

A sharper peak of the kernel is a heavier tail of the frequencies.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt.extend import chi_law
from sklearn_crt.frequencies import stable_law, student_law
from sklearn_crt.kernels import exponential_power_kernel, matern_kernel

r = np.linspace(0, 3, 200)[:, None]
zero = np.zeros((1, 1))
kernels = {
    "exponential power 0.7": exponential_power_kernel(r, zero, alpha=0.7),
    "Laplacian": matern_kernel(r, zero, nu=0.5),
    "Matern 3/2": matern_kernel(r, zero, nu=1.5),
    "Matern 4": matern_kernel(r, zero, nu=4),
    "Gaussian": matern_kernel(r, zero, nu=np.inf),
}
d = 16
laws = [stable_law(d, 0.7), *(student_law(d, nu) for nu in (0.5, 1.5, 4)), chi_law(d)]

# %%
# Left the kernels, right the share of frequencies with a norm above R in 16 dimensions.
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
norms = np.geomspace(0.5, 1e4, 200)
for (name, values), law in zip(kernels.items(), laws, strict=True):
    left.plot(r, values, label=name)
    right.loglog(norms, np.clip(1 - law.cdf(norms), 1e-9, 1), label=name)
left.set(xlabel="distance r", ylabel="kernel")
left.legend()
right.set(xlabel="R", ylabel="share of frequencies with |w| > R", ylim=(1e-5, 2))
for ax in (left, right):
    ax.grid(alpha=0.3)
plt.show()

# %%
# On the right a straight line is a power law: of exponent alpha for the exponential
# power kernel, 2 nu for the Matern kernel. One Laplacian frequency in a hundred is
# above 300.
