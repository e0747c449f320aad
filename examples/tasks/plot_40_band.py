"""
Which training rows and which interval belong to a prediction?
==============================================================

How heavy is an abalone of a given length, in which interval do most weights lie, and on
which observations is the prediction based? Local linear regression on 600 observations
answers all three questions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from sklearn_crt import LocalLinearRegressor
from sklearn_crt.datasets import fetch_uci
from sklearn_crt.inspection import CoverageDisplay, PredictionIntervalDisplay

# %%
# The abalone data from UCI contain the length and the weight of shellfish. If this data
# set is neither on this machine nor available for download, the diabetes data of
# scikit-learn are used instead.
try:
    data = fetch_uci("abalone").data[:, [1, 4]].astype(float)
    x, y = 200 * data[:, :1], 200 * data[:, 1]  # stored in units of 200
    names = "length (mm)", "weight (g)"
except OSError:
    data, y = load_diabetes(return_X_y=True, scaled=False)
    x, names = data[:, 2:3], ("body-mass index", "disease after a year")
n_train = min(600, len(y) // 2)
x, x_new, y, y_new = train_test_split(x, y, train_size=n_train, random_state=0)

# %%
# No parameter has to be set. The width of the kernel is chosen to minimise the
# leave-one-out error, and the intervals are scaled by the errors of similar rows.
model = LocalLinearRegressor().fit(x, y)
at = np.quantile(x, [0.2, 0.9])[:, None]
weights = model.kernel_weights(at).toarray()
numbers = model.effective_sample_size(at)

# %%
# Left: half of all new rows are expected to lie in the dark band, and nine of ten in
# the light one. Where there are hardly any training rows, the bands become very wide.
# Each cross marks a prediction and is labelled with its value and its effective number
# of training rows. The coloured points are the training rows that contribute to the
# prediction; darker points have larger weights.
#
# Right: the proportion of new rows inside the intervals against the requested
# proportion, for all rows and for deciles of their similarity to the training rows.
figure, (ax, right) = plt.subplots(
    1, 2, figsize=(12, 4.5), layout="constrained", width_ratios=(5, 3)
)
PredictionIntervalDisplay.from_estimator(model, x, y, ax=ax)
CoverageDisplay.from_estimator(model, x_new, y_new, ax=right)
for own, color in zip(weights, ("Blues", "Oranges"), strict=True):
    near = own > 0.1 * own.max()
    shade = 0.2 + 0.8 * own[near] / own.max()
    ax.scatter(x[near, 0], y[near], c=shade, cmap=color, vmin=0, vmax=1, s=14)
for place, number in zip(at, numbers, strict=True):
    (value,) = model.predict(place[None])
    ax.plot(place, value, "x", color="red", markersize=10, markeredgewidth=3, zorder=4)
    note = {"xytext": (-45, 60), "textcoords": "offset points", "ha": "center"}
    note["arrowprops"] = {"arrowstyle": "-", "color": "red", "shrinkB": 8}
    text = f"{value:.0f}, from {number:.0f} rows"
    ax.annotate(text, (place[0], value), color="red", **note)
ax.set(xlabel=names[0], ylabel=names[1])
plt.show()
