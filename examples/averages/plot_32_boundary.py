"""
How does a learned metric change a decision boundary?
=====================================================

The two classes form a chequerboard in two hidden variables. The data have eight
columns: each hidden variable is the sum of two columns, and the other four are noise.
Without a learned metric, the distances between rows are dominated by noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import LearnedMetric, NadarayaWatsonClassifier

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
    ax.set(title=f"{name}: {100 * score:.0f} % correct", xlabel="first hidden column")
axes[0].set_ylabel("second hidden column")
bar = figure.colorbar(picture, ax=axes)
bar.set_label("probability of the second class")
plt.show()

# %%
# The figure shows a two-dimensional section of the space of the eight columns. The
# black lines mark the true boundary.
