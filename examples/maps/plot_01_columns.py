"""
How many random features does a kernel need?
============================================

On the digits that scikit-learn ships: the error of the kernel and the accuracy of a
linear classifier on the features, against the number of columns.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sklearn_crt import OPRFSampler, PositiveRBFSampler, TrigRBFSampler

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# ``sigma`` multiplies the inputs, so ``gamma = sigma^2 / 2``; ``sigma="scale"``, the
# default, is the ``gamma="scale"`` of :class:`~sklearn.svm.SVC`.
gamma = 0.5 * TrigRBFSampler(sigma="scale").fit(X_train).sigma_ ** 2
maps = {
    "RBFSampler": RBFSampler(gamma=gamma),
    "Nystroem": Nystroem(gamma=gamma),
    "TrigRBFSampler": TrigRBFSampler(),
    "PositiveRBFSampler": PositiveRBFSampler(),
    "OPRFSampler": OPRFSampler(),
}
widths, seeds = (32, 64, 128, 256, 512), range(3)
exact = rbf_kernel(X_test, gamma=gamma)
errors = {name: np.empty((len(widths), len(seeds))) for name in maps}
scores = {name: np.empty((len(widths), len(seeds))) for name in maps}
for name, sampler in maps.items():
    for i, width in enumerate(widths):
        for seed in seeds:
            sampler.set_params(n_components=width, random_state=seed).fit(X_train)
            features = sampler.transform(X_test)
            error = features @ features.T - exact
            errors[name][i, seed] = np.linalg.norm(error) / np.linalg.norm(exact)
            model = RidgeClassifier(1e-3).fit(sampler.transform(X_train), y_train)
            scores[name][i, seed] = model.score(features, y_test)

# %%
# Random features, and scikit-learn's own dashed; means over three draws.
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name in maps:
    style = "--" if name in ("RBFSampler", "Nystroem") else "-"
    axes[0].plot(widths, errors[name].mean(axis=1), style, marker="o", label=name)
    axes[1].plot(widths, scores[name].mean(axis=1), style, marker="o", label=name)
svc = SVC(gamma="scale").fit(X_train, y_train).score(X_test, y_test)
axes[1].axhline(svc, color="grey", label="exact kernel (SVC)")
axes[0].set(xscale="log", yscale="log", ylabel="relative error of the kernel matrix")
axes[0].set_yticks([0.05, 0.1, 0.2], ["0.05", "0.1", "0.2"])
axes[1].set(xscale="log", ylabel="test accuracy of RidgeClassifier")
for ax in axes:
    ax.set(xlabel="n_components (columns)", xticks=widths, xticklabels=widths)
    ax.minorticks_off()
    ax.grid(alpha=0.3)
axes[1].legend()
plt.show()

# %%
# Orthogonal frequencies have a smaller error than the independent ones of
# ``RBFSampler`` at every width. Nystroem looks at the data, and is better still on
# this small set; its cost grows with the cube of the number of columns. Of the maps
# whose features are all positive, the one with the optimal parameter is the better.
