"""
Which columns, and which directions, decide?
============================================

A metric learned from the targets beside the importances of boosting, and what it does
to the boundary between two classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import LearnedMetric, LocalLinearRegressor, NadarayaWatsonClassifier

X, y = load_diabetes(return_X_y=True, as_frame=True)
parts = train_test_split(X, y, test_size=0.3, random_state=0)
X_train, X_test, y_train, y_test = parts
model = make_pipeline(LearnedMetric(random_state=0), LocalLinearRegressor())
boosting = HistGradientBoostingRegressor(random_state=0)
for each in (model, boosting):
    print(f"R2 {each.fit(X_train, y_train).score(X_test, y_test):.2f}")

# %%
# ``feature_importances_`` is the diagonal of the metric, for columns of unit variance:
# how fast the target changes along each. Permutation asks another question, how much
# worse predictions become where a column is shuffled.
metric = model[0].feature_importances_
shuffled = [
    permutation_importance(each, X_test, y_test, n_repeats=5, random_state=0)
    for each in (model, boosting)
]
names = {"metric": metric}
for name, found in zip(("metric and planes", "boosting"), shuffled, strict=True):
    means = np.maximum(found.importances_mean, 0)
    names[f"permutation, {name}"] = means / means.sum()
order, height = np.argsort(metric), np.arange(X.shape[1])
figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
for k, (name, values) in enumerate(names.items()):
    ax.barh(height + 0.27 * (1 - k), values[order], height=0.25, label=name)
ax.set_yticks(height, X.columns[order])
ax.set(xlabel="share of the importance", ylabel="column")
ax.legend()
plt.show()

# %%
# Two classes on a chequered board of two columns that are hidden in eight: each is the
# sum of two, and four more are noise. The picture is a cut through the eight columns;
# without a metric, the noise decides which rows are near.
rng = np.random.default_rng(0)
rows = rng.normal(size=(3000, 8))
hidden = (rows[:, :4:2] + rows[:, 1:4:2]) / np.sqrt(2)
labels = (np.sin(2.2 * hidden[:, 0]) * np.sin(2.2 * hidden[:, 1]) > 0).astype(int)
side = np.linspace(-2, 2, 150)
board = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
cut = np.zeros((len(board), 8))
cut[:, :4] = np.repeat(board, 2, axis=1) / np.sqrt(2)
classifiers = {
    "without a metric": make_pipeline(StandardScaler(), NadarayaWatsonClassifier()),
    "with a metric": make_pipeline(
        LearnedMetric(random_state=0), NadarayaWatsonClassifier()
    ),
}
figure, axes = plt.subplots(1, 2, figsize=(8, 3.9), layout="constrained", sharey=True)
for ax, (name, classifier) in zip(axes, classifiers.items(), strict=True):
    classifier.fit(rows[:2000], labels[:2000])
    score = classifier.score(rows[2000:], labels[2000:])
    shares = classifier.predict_proba(cut)[:, 1].reshape(150, 150)
    picture = ax.pcolormesh(side, side, shares, cmap="RdBu", vmin=0, vmax=1)
    truth = np.sin(2.2 * board[:, 0]) * np.sin(2.2 * board[:, 1])
    ax.contour(side, side, truth.reshape(150, 150), [0], colors="black", linewidths=1)
    ax.set(title=f"{name}: {100 * score:.0f} % right", xlabel="first hidden column")
axes[0].set_ylabel("second hidden column")
bar = figure.colorbar(picture, ax=axes)
bar.set_label("probability of the second class")
plt.show()

# %%
# The black lines are the true boundary.
