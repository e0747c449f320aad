"""
What does a shape matrix do?
============================

Matern, Laplacian and exponential power kernels depend on the distance between two rows.
A shape matrix M defines this distance as the square root of ``(x - y)' M (x - y)``, so
that the kernel decreases at different rates in different directions.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import MaternSampler

# %%
# The kernel between the origin and all points of a grid, without a shape matrix, with a
# diagonal one, and with one whose axes are rotated by 30 degrees. Colours show the
# estimate from 1000 random features, and lines the exact kernel at 0.2, 0.4, 0.6, 0.8.
turn = np.array([[np.cos(np.pi / 6), -np.sin(np.pi / 6)], [0.5, np.cos(np.pi / 6)]])
shapes = {
    "no shape matrix": None,
    "columns of different scale": np.diag([3.0, 0.4]),
    "rotated axes": turn @ np.diag([3.0, 0.4]) @ turn.T,
}
side = np.linspace(-3, 3, 81)
points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
origin = np.zeros((1, 2))

figure, axes = plt.subplots(
    1, 3, figsize=(10, 3.6), layout="constrained", sharex=True, sharey=True
)
for ax, (name, M) in zip(axes, shapes.items(), strict=True):
    sampler = MaternSampler(
        nu=1.5, sigma=1.0, n_components=1000, shape_matrix=M, random_state=0
    ).fit(points)
    estimate = sampler.approximate_kernel(origin, points).reshape(81, 81)
    exact = sampler.exact_kernel(origin, points).reshape(81, 81)
    image = ax.pcolormesh(side, side, estimate, vmin=0, vmax=1, shading="gouraud")
    lines = ax.contour(side, side, exact, [0.2, 0.4, 0.6, 0.8], colors="white")
    ax.clabel(lines, fontsize=7)
    ax.set(title=name, xlabel="first column", aspect="equal")
axes[0].set(ylabel="second column")
figure.colorbar(image, ax=axes, label="estimated kernel")
plt.show()

# %%
# With a diagonal matrix, the kernel is that of rescaled columns, as with one sigma per
# column. Any other matrix also takes the correlation of the columns into account, for
# instance if M is the inverse of a covariance matrix.
