"""
Are the numbers of the paper reproduced?
========================================

*Chefs' Random Tables* (:arxiv:`2205.15317`) compares random features of the Gaussian
kernel on eight UCI data sets (Table 1). This example repeats the comparison on the five
data sets that are included in the package, prints our accuracies beside those of the
paper, and draws them. It needs no network, and about 40 seconds of processor time.
:doc:`/papers/crt_table1` repeats it on all eight data sets.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import (
    GeometricSampler,
    GERFSampler,
    NadarayaWatsonClassifier,
    OPRFSampler,
    PoissonSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.datasets import fetch_uci
from sklearn_crt.exceptions import ApproximationWarning

# %%
# Samplers, and the results of the paper
# --------------------------------------
# For each data set, the paper states the mean and the standard deviation of the test
# accuracy over 50 draws of the features, in percent. A deviation of 0.05 stands for "<
# 0.05". With one exception, the samplers have the names of the paper:
# ``PositiveRBFSampler`` computes PosRF, the features of Performers.
SAMPLERS = {
    "TrigRF": TrigRBFSampler(),
    "PosRF": PositiveRBFSampler(center=False),
    "GERF": GERFSampler(center=False),
    "PoisRF": PoissonSampler(center=False),
    "GeomRF": GeometricSampler(center=False),
    "OPRF": OPRFSampler(center=False),
    "PoisRF+": PoissonSampler(positive=True),
    "GeomRF+": GeometricSampler(positive=True),
}
PAPER = {  # in the order of the samplers
    "banknote": (66.2, 83.4, 92.4, 84.4, 94.5, 92.6, 80.1, 85.6),
    "car": (66.3, 69.2, 70.9, 66.3, 66.3, 69.5, 66.3, 67.2),
    "yeast": (29.7, 34.4, 42.9, 36.9, 35.9, 44.4, 29.7, 31.0),
    "cmc": (46.6, 45.1, 47.8, 46.6, 47.3, 46.3, 35.5, 43.5),
    "wifi": (15.2, 88.8, 93.3, 95.3, 95.8, 93.3, 77.2, 82.9),
}
PAPER_DEVIATIONS = {
    "banknote": (0.05, 3.7, 4.3, 2.1, 3.0, 3.4, 5.9, 7.7),
    "car": (0.05, 3.0, 2.5, 0.0, 0.05, 3.0, 0.05, 1.5),
    "yeast": (0.05, 3.2, 5.0, 6.0, 3.4, 4.9, 0.05, 2.4),
    "cmc": (0.05, 4.0, 3.9, 4.3, 3.4, 3.8, 5.3, 5.2),
    "wifi": (0.05, 6.2, 4.1, 2.8, 2.0, 4.1, 13.1, 9.8),
}
SIGMAS = np.logspace(-2, 2, 10)
N_DRAWS, N_FEATURES = 50, 128

# %%
# The protocol
# ------------
# The paper does not specify its split beyond 90, 5 and 5 % for training, validation and
# testing; the permutation below was found by trial. Categorical columns are one-hot
# encoded, and then all columns are standardised (:doc:`/user_guide/datasets`).


def split_and_encode(name):
    """Return the rows and labels for training, validation and testing."""
    data = fetch_uci(name)
    y = np.unique(data.target, return_inverse=True)[1]
    # without the last row, as the paper counts the line ends of the file
    order = np.random.default_rng(42).permutation(len(y) - 1)
    n_train, n_test = int(0.9 * len(order)), int(0.05 * len(order))
    parts = order[:n_train], order[n_train : n_train + n_test], order[-n_test:]
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    encoder = make_pipeline(
        make_column_transformer(
            (one_hot, data.categorical_features), remainder="passthrough"
        ),
        StandardScaler(),
    ).fit(data.data[parts[0]])
    # float32 takes half the time, and gives the same table
    X = encoder.transform(data.data).astype(np.float32)
    return [(X[rows], y[rows]) for rows in parts]


# %%
# A Nadaraya-Watson classifier predicts the class with the largest sum of kernel values
# between the query and the training rows of that class. With random features, all sums
# over the training rows are computed once, so that predictions take a single matrix
# product. ``NadarayaWatsonClassifier(sampler)`` does the same, and also returns
# probabilities; the two lines are written out here because they are called 20,000
# times.
def accuracy_of_features(sampler, train, rows):
    """Return the accuracy of a classifier on the features of a fitted sampler."""
    labels = np.eye(train[1].max() + 1, dtype=train[0].dtype)[train[1]]
    class_sums = sampler.transform(train[0]).T @ labels
    return np.mean((sampler.transform(rows[0]) @ class_sums).argmax(axis=1) == rows[1])


def test_accuracies(sampler, train, validation, test, progress):
    """Return the test accuracies of all draws for the sigma with the best mean."""
    sampler.set_params(n_components=N_FEATURES)
    scores = []
    for seed in range(N_DRAWS):
        sampler.set_params(random_state=seed, sigma=1.0).fit(train[0])
        scores.append(
            [
                accuracy_of_features(sampler.with_sigma(sigma), train, validation)
                for sigma in SIGMAS
            ]
        )
        progress.update()
    sigma = SIGMAS[np.argmax(np.mean(scores, axis=0))]
    accuracies = []
    for seed in range(N_DRAWS):
        sampler.set_params(random_state=seed, sigma=sigma)
        model = NadarayaWatsonClassifier(sampler)
        accuracies.append(100 * model.fit(*train).score(*test))
        progress.update()
    return accuracies


def test_accuracy_of_kernel(train, validation, test):
    """Return the test accuracy of the exact kernel."""
    models = [NadarayaWatsonClassifier(sigma=sigma).fit(*train) for sigma in SIGMAS]
    best = np.argmax([model.score(*validation) for model in models])
    return 100 * models[best].score(*test)


# %%
# Ours beside the paper's
# -----------------------
means, deviations, exact = {}, {}, {}
print("50 draws for each of 8 samplers, 10 sigmas and 5 data sets: about 40 seconds\n")
total = 2 * N_DRAWS * len(SAMPLERS) * len(PAPER)
with (
    threadpool_limits(1),  # more threads would take more time for arrays of this size
    warnings.catch_warnings(action="ignore", category=ApproximationWarning),
    # disable=None: a bar in a terminal, and none in a file
    tqdm(total=total, desc="Table 1", unit=" draws", disable=None) as progress,
):
    for name in PAPER:
        parts = split_and_encode(name)
        results = [test_accuracies(s, *parts, progress) for s in SAMPLERS.values()]
        means[name] = np.mean(results, axis=1)
        deviations[name] = np.std(results, axis=1, ddof=1)
        exact[name] = test_accuracy_of_kernel(*parts)

print("test accuracy in %: ours / the paper's\n")
print("         ", *(f"{label:>11}" for label in (*SAMPLERS, "exact")))
for name, row in means.items():
    cells = [
        f"{ours:.1f} / {theirs:.1f}"
        for ours, theirs in zip(row, PAPER[name], strict=True)
    ]
    print(f"{name:9}", *(f"{cell:>11}" for cell in cells), f"{exact[name]:11.1f}")

# %%
# Both results are means over 50 draws, and the paper's is rounded to 0.1. Two correct
# implementations differ by more than two standard errors in 5 % of the cells. The
# paper's TrigRF column contains the accuracy of a constant prediction, and its GERF
# column features without a complex conjugate, so these two differ
# (:doc:`/user_guide/errata`).
difference = np.array([means[name] - PAPER[name] for name in PAPER])
variance = np.array(
    [deviations[name] ** 2 + np.square(PAPER_DEVIATIONS[name]) for name in PAPER]
)
z = difference / np.sqrt(variance / N_DRAWS + 0.1**2 / 12)
print("\ndifference in standard errors\n")
print("         ", *(f"{label:>11}" for label in SAMPLERS))
for name, row in zip(PAPER, z, strict=True):
    print(f"{name:9}", *(f"{value:11.1f}" for value in row))
compared = [k for k, label in enumerate(SAMPLERS) if label not in ("TrigRF", "GERF")]
close = np.abs(z[:, compared]) <= 2
print(f"\n{close.sum()} of {close.size} cells without TrigRF and GERF within 2")

figure = plt.figure(figsize=(10, 4), layout="constrained")
width = 0.095
halves = figure.subfigures(1, 2)
for half, names in zip(halves, (["banknote", "wifi", "car"], ["yeast", "cmc"])):
    ax, places = half.subplots(), np.arange(len(names))
    for k, label in enumerate(SAMPLERS):
        x, color = places + width * (k - 4), f"C{k + (k == 7)}"
        ax.bar(x, [means[name][k] for name in names], width, color=color, label=label)
        ax.plot(x, [PAPER[name][k] for name in names], "k_", ms=9, mew=2)
    ax.plot([], [], "k_", ms=9, mew=2, label="the paper")
    heights = [exact[name] for name in names]
    ax.bar(places + width * 4, heights, width, color="0.5", label="exact kernel")
    ax.set(xlabel="data set", ylabel="test accuracy (%)", ylim=(0, None))
    ax.set_xticks(places, names)
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)
halves[1].legend(loc="outside right")
figure.savefig("table1.png", dpi=150)
print("The figure is stored as table1.png in the current folder.")

# %%
# Black lines are the paper's numbers. With 128 features, kernel averages are clearly
# less accurate than with the exact kernel (grey), which ``NadarayaWatsonClassifier()``
# uses by default. For data of this size, use the exact kernel; features are for models
# whose size and prediction time must not depend on the number of rows, and for linear
# models, as in the next example (:ref:`sphx_glr_auto_examples_plot_02_grid_search.py`).
plt.show()
