"""
What is it for?
===============

Kernel methods on tables that are too long for them: predictions with an error band, and
kernels whose error is known beforehand. As a script this takes some seconds and leaves
the figure in ``quickstart.png``.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    NadarayaWatsonClassifier,
    OPRFSampler,
    RandomFeatureRidge,
    TrigRBFSampler,
)

# %%
# Predictions with an error band
# ------------------------------
# The data are 3000 noisy points of a curve with a gap. Ridge regression on 200 random
# features approximates a Gaussian process, at a cost that is proportional to the number
# of rows instead of its cube. ``fit`` selects the penalty and ``sigma``, the inverse
# length scale of the kernel (``length_scale = 1 / sigma``).
rng = np.random.default_rng(0)


def draw(n):
    """Return points of the curve, none between 0.5 and 2, and noisy heights."""
    x = rng.uniform(-3, 1.5, size=n)
    x = (x + 1.5 * (x > 0.5))[:, None]
    return x, np.sin(4 * x[:, 0]) + 0.5 * x[:, 0] + 0.3 * rng.normal(size=n)


x, y = draw(3000)
sampler = TrigRBFSampler(n_components=200, random_state=0)
model = RandomFeatureRidge(sampler)
start = time.perf_counter()
model.fit(x, y)
print(f"{len(x)} rows in {time.perf_counter() - start:.2f} s, sigma {model.sigma_}")
places = np.linspace(-3.2, 3.2, 300)[:, None]
mean, std = model.predict(places, return_std=True)
x_new, y_new = draw(3000)
mean_new, std_new = model.predict(x_new, return_std=True)
inside = 100 * np.mean(abs(y_new - mean_new) < 1.645 * std_new)
print(f"{inside:.0f} % of new rows are inside the band of 90 %")

# %%
# The same kernel, sooner
# -----------------------
# Both maps estimate the Gaussian kernel of the handwritten digits. ``sigma`` multiplies
# the rows, so ``gamma = sigma**2 / 2``. The processor's clock runs while 17970 rows are
# mapped. What the error will be, ``kernel_variance`` says without a draw.
X = load_digits().data
many = np.tile(X, (10, 1))
sigma = TrigRBFSampler(sigma="scale").fit(X).sigma_
exact = rbf_kernel(X, gamma=sigma**2 / 2)
widths = 32, 64, 128, 256, 512, 1024
maps = {
    "RBFSampler": RBFSampler(gamma=sigma**2 / 2),
    "TrigRBFSampler": TrigRBFSampler(sigma=sigma),
}
seconds, errors, stated = {}, {}, []
for name, sampler in maps.items():
    seconds[name], errors[name] = [], []
    for width in widths:
        sampler.set_params(n_components=width, random_state=0).fit(X)
        times = []
        for _ in range(7):
            start = time.process_time()
            features = sampler.transform(many)[: len(X)]
            times.append(time.process_time() - start)
        seconds[name].append(min(times))
        errors[name].append(np.sqrt(np.mean((features @ features.T - exact) ** 2)))
        if name == "TrigRBFSampler":
            stated.append(np.sqrt(sampler.kernel_variance(X).mean()))

figure = plt.figure(figsize=(10, 4), layout="constrained")
left, right = (half.subplots() for half in figure.subfigures(1, 2))
left.plot(*(values[::3] for values in (x[:, 0], y)), ".", color="0.75", ms=3)
left.fill_between(places[:, 0], mean - 1.645 * std, mean + 1.645 * std, alpha=0.3)
left.plot(places[:, 0], mean, color="C0", label="RandomFeatureRidge, band of 90 %")
left.set(xlabel="x", ylabel="y", ylim=(-3.5, 4.5))
left.set_title(f"{inside:.0f} % of new rows are inside the band")
for name, color in {"RBFSampler": "grey", "TrigRBFSampler": "C0"}.items():
    milliseconds = 1000 * np.array(seconds[name])
    right.loglog(milliseconds, errors[name], "o-", color=color, label=name)
right.loglog(milliseconds, stated, "k:", lw=2, label="stated by kernel_variance")
right.set(xlabel="processor milliseconds for 17970 rows, 32 to 1024 columns")
right.set(ylabel="root mean square error of the kernel", ylim=(0.012, 0.5))
right.set_yticks([0.02, 0.05, 0.1, 0.2], ["0.02", "0.05", "0.1", "0.2"])
right.minorticks_off()
right.set_title("the same error of the kernel, sooner")
for ax in (left, right):
    ax.grid(alpha=0.3)
    ax.legend()
figure.savefig("quickstart.png", dpi=150)

# %%
# Left: the band is as wide as the noise where there are rows, and opens where there are
# none. Right: pairs of sines and cosines of orthogonal frequencies have a smaller error
# of this kernel in as many columns, and the transform is written for the caches of a
# processor. Only the ratio of the times means something; it depends on the machine, and
# a pipeline, which also fits a model, gains less.
# :class:`~sklearn.kernel_approximation.Nystroem`, which chooses its features from the
# rows, needs fewer columns than both on smooth data such as this
# (:ref:`sphx_glr_auto_examples_maps_plot_01_columns.py`).
reached = np.interp(
    errors["RBFSampler"][-1], errors["TrigRBFSampler"][::-1], widths[::-1]
)
print(f"RBFSampler with 1024 columns: error {errors['RBFSampler'][-1]:.4f}")
print(f"TrigRBFSampler reaches it with {reached:.0f}")

# %%
# A kernel average is a classifier that learns in one pass, from batches too. Positive
# features keep it valid at every width of the kernel
# (:ref:`sphx_glr_auto_examples_maps_plot_07_positive.py`).
model = make_pipeline(
    StandardScaler(),
    NadarayaWatsonClassifier(OPRFSampler(sigma=0.4, n_components=512, random_state=0)),
)
X, y = load_wine(return_X_y=True)
score = model.fit(X[::2], y[::2]).score(X[1::2], y[1::2])
print(f"accuracy on the other half of wine: {score:.2f}")
