"""
How many random features does a kernel need?
============================================

For the digits data of scikit-learn, this example shows the error of the approximated
kernel and the accuracy of a linear classifier as functions of the number of features.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# The inputs are multiplied by ``sigma``, so ``gamma = sigma^2 / 2``. The default
# ``sigma="scale"`` is equivalent to ``gamma="scale"`` of :class:`~sklearn.svm.SVC`.
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
# The curves are means over three draws. Those of scikit-learn's samplers are dashed.
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
    ax.set(xlabel="n_components", xticks=widths, xticklabels=widths)
    ax.minorticks_off()
    ax.grid(alpha=0.3)
axes[1].legend()
plt.show()

# %%
# Orthogonal frequencies have a smaller error than the independent frequencies of
# ``RBFSampler`` for every number of features. Nystroem adapts its features to the data,
# and has an even smaller error on this small data set; its cost grows with the cube of
# the number of features. Of the two samplers of positive features, ``OPRFSampler``,
# which optimises its parameter, is better.
