"""
What does a linear model gain from random features?
===================================================

Two half moons cannot be separated by a line. A linear model on random features
separates them, because it is a kernel machine, whose decision boundary is curved.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from sklearn_crt import TrigRBFSampler

# %%
# A linear model of the two columns, the same model of 200 random Fourier features, and
# a support vector machine with the exact kernel. The inverse length scale sigma = 2
# corresponds to gamma = 2.
X, y = make_moons(600, noise=0.2, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
sampler = TrigRBFSampler(sigma=2.0, n_components=200, random_state=0)
models = {
    "linear": LogisticRegression(),
    "linear on random features": make_pipeline(sampler, LogisticRegression()),
    "exact kernel (SVC)": SVC(gamma=2.0),
}
grid = np.stack(
    np.meshgrid(np.linspace(-1.7, 2.7, 150), np.linspace(-1.3, 1.8, 110)), axis=-1
)

figure, axes = plt.subplots(
    1, 3, figsize=(11, 3.4), layout="constrained", sharex=True, sharey=True
)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X_train, y_train)
    values = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    ax.contourf(*grid.T, values.T, [-1e9, 0, 1e9], colors=["C0", "C1"], alpha=0.25)
    ax.contour(*grid.T, values.T, [0], colors="black")
    for label in (0, 1):
        ax.scatter(*X_test[y_test == label].T, s=8, color=f"C{label}")
    ax.set_title(f"{name}: accuracy {model.score(X_test, y_test):.2f}")
    ax.set_xlabel("first column")
axes[0].set_ylabel("second column")
plt.show()

# %%
# The model on random features is nearly as accurate as the exact kernel machine. Its
# training time grows linearly with the number of rows.
