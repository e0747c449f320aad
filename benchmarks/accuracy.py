"""Accuracy per column and per second: python -m benchmarks.accuracy.

Squared errors of the kernel on fixed pairs of rows, over many seeds, in bins of the
distance, for every map and coupling and for the two maps of scikit-learn. All maps
have the same kernel, sigma and number of columns. Seconds are those of transform.
"""

import contextlib
import sys
import time
import warnings

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import sklearn_crt as crt
from sklearn_crt.datasets import fetch_uci

from .cases import gamma_of
from .commands import Command
from .tables import ROOT, Table

N_ROWS, N_BINS = 400, 4
BLOCKS = ["iid", "orthogonal", "simplex"]
QUASI = ["halton", "sobol"]
FAST = ["structured-orthogonal", "structured-simplex"]


LINES = {  # of couplings; colours are maps
    "iid": ":",
    "orthogonal": "-",
    "simplex": "--",
    "simplex+": "-.",
    "halton": (0, (1, 4)),
    "sobol": (0, (3, 1, 1, 1, 1, 1)),
    "structured-orthogonal": (0, (6, 3)),
    "structured-simplex": (0, (6, 3, 1, 3)),
}


def load():
    """Return standardised tables by name."""
    rng = np.random.default_rng(0)
    tables = {"digits": load_digits().data}
    with contextlib.suppress(OSError):
        tables["letter"] = fetch_uci("letter", download_if_missing=False).data
    centres = rng.standard_normal((10, 32))
    tables["ten Gaussians in 32 columns"] = centres[
        rng.integers(10, size=5000)
    ] + rng.standard_normal((5000, 32))
    return {n: StandardScaler().fit_transform(X) for n, X in tables.items()}


def make_maps(gamma, n_components):
    """Return all the maps of the Gaussian kernel by name."""
    ours = {"sigma": float(np.sqrt(2 * gamma)), "n_components": n_components}
    theirs = {"gamma": gamma, "n_components": n_components}
    maps = {
        "RBFSampler": RBFSampler(**theirs),
        "Nystroem": Nystroem(**theirs),
    }
    couplings = {
        crt.TrigRBFSampler: [*BLOCKS[:2], *QUASI, FAST[0]],
        crt.samplers.PositiveRBFSampler: [*BLOCKS, "simplex+", *QUASI, *FAST],
        crt.OPRFSampler: [*BLOCKS, "simplex+", *QUASI, *FAST],
    }
    for cls, names in couplings.items():
        for name in names:
            label = f"{cls.__name__.removesuffix('Sampler')}, {name}"
            maps[label] = cls(coupling=name, **ours)
    maps["GERF, orthogonal"] = crt.samplers.GERFSampler(**ours)
    maps["Poisson"] = crt.samplers.PoissonSampler(**ours)
    maps["Geometric"] = crt.samplers.GeometricSampler(**ours)
    return maps


def make_pairs(X):
    """Return two sets of rows, and the bin of the distance of each pair."""
    rng = np.random.default_rng(1)
    rows = X[rng.choice(len(X), 2 * N_ROWS, replace=len(X) < 2 * N_ROWS)]
    left, right = rows[:N_ROWS], rows[N_ROWS:]
    distances = np.linalg.norm(left - right, axis=1)
    # a row with itself, moved a little: near pairs are rare among random ones
    near = left + 0.3 * (right - left)
    left, right = np.vstack([left, left]), np.vstack([right, near])
    distances = np.concatenate([distances, 0.3 * distances])
    edges = np.quantile(distances, np.linspace(0, 1, N_BINS + 1)[1:-1])
    return left, right, distances, np.searchsorted(edges, distances)


def measure(sampler, X, left, right, kernel, seeds):
    """Return squared errors of the pairs, mean over the seeds, and seconds per row."""
    total, seconds = 0.0, []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            fitted = clone(sampler).set_params(random_state=seed).fit(X)
            start = time.process_time()
            features = fitted.transform(left)
            seconds.append(time.process_time() - start)
            keys = getattr(fitted, "transform_key", fitted.transform)(right)
            estimate = np.einsum("nm,nm->n", features, keys)
            total = total + np.square(estimate - kernel)
    return total / len(seeds), np.median(seconds) / len(left)


def run(widths, n_seeds):
    """Yield name, bins, and for each width and map the errors and the seconds."""
    for name, X in load().items():
        gamma = gamma_of(X)
        left, right, distances, bins = make_pairs(X)
        kernel = np.exp(-gamma * distances**2)
        jobs = [
            (width, label, sampler)
            for width in widths
            for label, sampler in make_maps(gamma, width).items()
        ]
        results = Parallel(n_jobs=-1, return_as="generator")(
            delayed(measure)(sampler, X[:2000], left, right, kernel, range(n_seeds))
            for _, _, sampler in jobs
        )
        results = tqdm(results, total=len(jobs), desc=name, file=sys.stderr)
        measured = {
            (width, label): result
            for (width, label, _), result in zip(jobs, results, strict=True)
        }
        yield name, np.sqrt(2 * gamma) * distances, bins, measured


def table(name, distances, bins, measured, width):
    """Return the table of root mean squared errors of one width."""
    spans = [distances[bins == k] for k in range(N_BINS)]
    columns = ["map", "all pairs"]
    columns += [f"distance {span.min():.2f} to {span.max():.2f}" for span in spans]
    columns += ["microseconds per row"]
    rows = []
    for (of_width, label), (errors, seconds) in measured.items():
        if of_width == width:
            means = [errors.mean(), *(errors[bins == k].mean() for k in range(N_BINS))]
            cells = [f"{np.sqrt(mean):.4f}" for mean in means]
            rows.append([label, *cells, f"{1e6 * seconds:.2f}"])
    title = f"{name}, {width} features: root mean squared error of the kernel estimates"
    return Table(title, columns, sorted(rows, key=lambda row: float(row[1])))


def plot(results, widths, path):
    """Draw error against seconds, one panel per table of data, one line per map."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(results), figsize=(4.2 * len(results), 4.6), layout="constrained"
    )
    labels = list(dict.fromkeys(label for _, label in results[0][3]))
    families = list(dict.fromkeys(label.split(", ")[0] for label in labels))
    colours = dict(zip(families, plt.cm.tab10.colors, strict=False))
    for ax, (name, _, _, measured) in zip(axes, results, strict=True):
        for label in labels:
            errors, seconds = zip(*(measured[w, label] for w in widths), strict=True)
            family, _, coupling = label.partition(", ")
            line = LINES.get(coupling, "-")
            ax.loglog(
                1e6 * np.array(seconds),
                [np.sqrt(e.mean()) for e in errors],
                linestyle=line,
                marker=".",
                color=colours[family],
                label=label,
            )
        ax.set(title=name, xlabel="microseconds per row, transform")
    axes[0].set_ylabel("root mean squared error of the kernel")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center",
                  ncols=5, fontsize="small")  # fmt: skip
    figure.savefig(path, dpi=100)


def accuracy(seeds=200, widths=(64, 256, 1024), write=False):
    """Return the tables for the middle width, and draw the figure of the docs."""
    results = list(run(widths, seeds))
    if write:
        plot(results, widths, ROOT / "doc" / "_static" / "accuracy.png")
    tables = [table(*result, widths[len(widths) // 2]) for result in results]
    return tables, [f"{seeds} seeds, {2 * N_ROWS} pairs"]


if __name__ == "__main__":
    Command(accuracy, "accuracy.inc").main()
