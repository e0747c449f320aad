"""
How far may a new value lie, and which rows say so?
===================================================

A curve through noisy points, with a band that is to hold nine new values of ten, and
two of its answers with the rows they rest on.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklearn_crt import LocalLinearRegressor

rng = np.random.default_rng(1)


def draw(n):
    """Return points about a sine whose noise grows to the right."""
    x = rng.uniform(0, 10, size=n)
    return x[:, None], np.sin(x) + (0.08 + 0.06 * x) * rng.normal(size=n)


x, y = draw(400)
model = LocalLinearRegressor().fit(x, y)
curve = np.linspace(0, 10, 400)[:, None]
low, high = model.predict_interval(curve, coverage=0.9).T

# %%
# The band is wide where the noise is. The two answers that are marked with a cross rest
# on the coloured points: the darker a point, the larger its weight.
at = np.array([[2.0], [8.0]])
weights = model.kernel_weights(at).toarray()
numbers = model.effective_rows(at)
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
ax.fill_between(curve[:, 0], low, high, color="0.85", label="nine of ten new values")
ax.plot(curve[:, 0], model.predict(curve), color="black", label="prediction")
ax.scatter(x[:, 0], y, s=8, color="0.55", label="training rows")
for own, number, color in zip(weights, numbers, ("Blues", "Oranges"), strict=True):
    order = np.argsort(own)[-int(number) :]  # of a few the weights are negative
    shade = 0.3 + 0.7 * own[order] / own.max()
    rows = x[order, 0], y[order]
    ax.scatter(*rows, c=shade, cmap=color, vmin=0, vmax=1, s=22, zorder=3)
for place, number in zip(at, numbers, strict=True):
    (value,) = model.predict(place[None])
    ax.plot(place, value, "x", color="red", markersize=11, markeredgewidth=3, zorder=4)
    note = {"xytext": (place[0], -2.2), "ha": "center", "color": "red"}
    ax.annotate(f"rests on {number:.0f} rows", (place[0], value), **note)
ax.set(xlabel="x", ylabel="y", ylim=(-2.5, 3))
ax.legend(loc="upper left", ncols=3)
plt.show()

# %%
# Of new values the band holds
x_new, y_new = draw(20_000)
low, high = model.predict_interval(x_new, coverage=0.9).T
print(f"{np.mean((low <= y_new) & (y_new <= high)):.1%}")
