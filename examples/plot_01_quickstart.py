"""
What is this package for?
=========================

This example fits a kernel method with prediction intervals, at a cost that is
proportional to the number of rows, and approximates a kernel with a predictable error.
If it is run as a script, it takes a few seconds and saves the figure as
``quickstart.png``.
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
# Predictions with intervals
# --------------------------
# The data are 3000 noisy points on a curve that has a gap. Ridge regression on 200
# random features approximates a Gaussian process, at a cost that is proportional to the
# number of rows instead of its cube. ``fit`` selects the penalty and ``sigma``, the
# inverse length scale of the kernel (``length_scale = 1 / sigma``).
rng = np.random.default_rng(0)


def draw(n):
    """Return points on the curve with noise, and none between 0.5 and 2."""
    x = rng.uniform(-3, 1.5, size=n)
    x = (x + 1.5 * (x > 0.5))[:, None]
    return x, np.sin(4 * x[:, 0]) + 0.5 * x[:, 0] + 0.3 * rng.normal(size=n)


x, y = draw(3000)
sampler = TrigRBFSampler(n_components=200, random_state=0)
model = RandomFeatureRidge(sampler)
start = time.perf_counter()
model.fit(x, y)
print(f"{len(x)} rows in {time.perf_counter() - start:.2f} s, sigma {model.sigma_:.2f}")
places = np.linspace(-3.2, 3.2, 300)[:, None]
mean, std = model.predict(places, return_std=True)
x_new, y_new = draw(3000)
mean_new, std_new = model.predict(x_new, return_std=True)
inside = 100 * np.mean(abs(y_new - mean_new) < 1.645 * std_new)
print(f"{inside:.0f} % of new rows lie in the 90 % band")

# %%
# The same kernel in less time
# ----------------------------
# Both samplers approximate the Gaussian kernel between images of handwritten digits.
# The rows are multiplied by ``sigma``, so ``gamma = sigma**2 / 2``. The time is the
# processor time of ``transform`` for 17970 rows. ``kernel_variance`` predicts the error
# of the approximation from a formula.
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
left.plot(places[:, 0], mean, color="C0", label="RandomFeatureRidge, 90 % band")
left.set(xlabel="x", ylabel="y", ylim=(-3.5, 4.5))
left.set_title(f"{inside:.0f} % of new rows lie in the band")
for name, color in {"RBFSampler": "grey", "TrigRBFSampler": "C0"}.items():
    milliseconds = 1000 * np.array(seconds[name])
    right.loglog(milliseconds, errors[name], "o-", color=color, label=name)
right.loglog(milliseconds, stated, "k:", lw=2, label="predicted by kernel_variance")
right.set(xlabel="processor milliseconds for 17970 rows, 32 to 1024 features")
right.set(ylabel="root mean squared error of the kernel", ylim=(0.012, 0.5))
right.set_yticks([0.02, 0.05, 0.1, 0.2], ["0.02", "0.05", "0.1", "0.2"])
right.minorticks_off()
right.set_title("the same error in less time")
for ax in (left, right):
    ax.grid(alpha=0.3)
    ax.legend()
figure.savefig("quickstart.png", dpi=150)

# %%
# Left: the band is as wide as the noise where there are training rows, and becomes
# wider in the gap and beyond the data. Right: for the same number of features, random
# Fourier features with orthogonal frequencies have a smaller error. ``transform`` is
# faster because it makes good use of the processor caches. The absolute times depend on
# the machine, so only their ratio is meaningful. The speedup is smaller for a pipeline
# that also fits a model. :class:`~sklearn.kernel_approximation.Nystroem`, which adapts
# its features to the training rows, needs fewer features than either sampler on such
# smooth data (:ref:`sphx_glr_auto_examples_maps_plot_01_columns.py`).
reached = np.interp(
    errors["RBFSampler"][-1], errors["TrigRBFSampler"][::-1], widths[::-1]
)
print(f"RBFSampler with 1024 features: error {errors['RBFSampler'][-1]:.4f}")
print(f"TrigRBFSampler has the same error with {reached:.0f} features")

# %%
# A kernel average can be used as a classifier. It is fitted in a single pass over the
# data, which can be split into batches. With positive features, its probabilities are
# valid for every ``sigma`` (:ref:`sphx_glr_auto_examples_maps_plot_07_positive.py`).
model = make_pipeline(
    StandardScaler(),
    NadarayaWatsonClassifier(OPRFSampler(sigma=0.4, n_components=512, random_state=0)),
)
X, y = load_wine(return_X_y=True)
score = model.fit(X[::2], y[::2]).score(X[1::2], y[1::2])
print(f"accuracy on the other half of wine: {score:.2f}")
