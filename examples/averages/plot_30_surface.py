"""
How much better is local linear regression at the boundary?
===========================================================

A surface is estimated from 600 noisy points by a kernel average and by local linear
regression. The arrows show the slopes, which local linear regression also estimates.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import LocalLinearRegressor, NadarayaWatsonRegressor

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, size=(600, 2))


def surface(x):
    """Return the height of the true surface."""
    return np.sin(1.5 * x[:, 0]) + 0.5 * x[:, 1] ** 2 - 0.5 * x[:, 0]


y = surface(X) + 0.2 * rng.normal(size=600)
side = np.linspace(-2, 2, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
models = {
    "kernel average": NadarayaWatsonRegressor().fit(X, y),
    "local linear": LocalLinearRegressor().fit(X, y),
}

# %%
# At the edges all neighbours lie on one side, so kernel averages are biased towards the
# values further inside. The lower row shows that local linear regression has a smaller
# error.
truth = surface(grid)
options = {"cmap": "viridis", "vmin": truth.min(), "vmax": truth.max()}
figure, axes = plt.subplots(
    2, 2, figsize=(8, 7), layout="constrained", sharex=True, sharey=True
)
for (above, below), (name, model) in zip(axes.T, models.items(), strict=True):
    found = model.predict(grid)
    heights = above.pcolormesh(side, side, found.reshape(60, 60), **options)
    gap = (found - truth).reshape(60, 60)
    errors = below.pcolormesh(side, side, gap, cmap="RdBu", vmin=-1, vmax=1)
    rms = np.sqrt(np.mean(gap**2))
    above.set(title=name, ylabel="second column")
    below.set(title=f"error, root mean square {rms:.2f}", ylabel="second column")
    below.set_xlabel("first column")
places = grid.reshape(60, 60, 2)[4::10, 4::10].reshape(-1, 2)
slopes = models["local linear"].slopes(places)[:, :, 0]
axes[0, 1].quiver(*places.T, *slopes.T, color="white", scale=30)
figure.colorbar(heights, ax=axes[0]).set_label("height")
figure.colorbar(errors, ax=axes[1]).set_label("prediction error")
plt.show()

# %%
# The arrows are estimates of the gradient of the surface, so they point uphill. Their
# correlation with the true gradient is
gradient = np.stack([1.5 * np.cos(1.5 * places[:, 0]) - 0.5, places[:, 1]], axis=1)
print(f"{np.corrcoef(slopes.ravel(), gradient.ravel())[0, 1]:.2f}")
