"""Columns at centres beside random features, for ridge: python -m benchmarks.centers.

Five tables that the choice of maps was not made on: digits, breast cancer and diabetes
of scikit-learn, housing and sgemm of UCI (4000 rows). Columns standardised, random
splits of 70 % training rows; a fifth of these chooses sigma (1/4 to 2 times "scale", by
ridge on the exact kernel) and, for each map, the penalty. The relative error of the
kernel between test and training rows, |estimate - K|_F / |K|_F, is a geometric mean;
scores are accuracy, or R2 of numbers, in percent. Processor microseconds of transform a
row are those of digits in float64 on one thread, least of 5. Kernel columns are no
estimate of the kernel; ridge on them has the penalty alpha b' K_ZZ b, or the plain one.
Last, logistic regression with its default penalty on digits.
"""

import argparse
import sys
import time

import numpy as np
from scipy import linalg
from sklearn import datasets
from sklearn.cluster import KMeans
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

import sklearn_crt as crt
from sklearn_crt.datasets import fetch_uci

from .tables import Table, report
from .timing import header

SETS = ["digits", "breast_cancer", "diabetes", "housing", "sgemm"]
PENALTIES = np.logspace(-6, 1, 8)
FACTORS = 0.25, 0.5, 1.0, 2.0


def load(name):
    """Return rows, targets (one column a class for labels), and whether these are."""
    if name in ("housing", "sgemm"):
        bunch = fetch_uci(name, download_if_missing=False)
        X, y = np.asarray(bunch.data, dtype=np.float64), np.log(bunch.target)
    else:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    keep = np.random.default_rng(0).permutation(len(y))[:4000]
    X, y = X[keep], y[keep]
    if name in ("digits", "breast_cancer"):
        return X, LabelBinarizer(neg_label=-1).fit_transform(y).astype(float), True
    return X, y[:, None], False


class KMeansNystroem(Nystroem):
    """Nystroem with k-means centres in place of random rows."""

    def fit(self, X, y=None):
        """Find the centres, and whiten."""
        model = KMeans(self.n_components, n_init=1, random_state=self.random_state)
        centers = model.fit(X).cluster_centers_
        return super().fit(centers)


def maps(sigma, width, seed):
    """Return the maps by name."""
    theirs = {"gamma": sigma**2 / 2, "n_components": width, "random_state": seed}
    ours = {"sigma": sigma, "n_components": width, "random_state": seed}
    centers = crt.CentersRBFSampler(**ours)
    return {
        "RBFSampler": RBFSampler(**theirs),
        "TrigRBFSampler": crt.TrigRBFSampler(**ours),
        "DERFSampler, antithetic": crt.DERFSampler(coupling="antithetic", **ours),
        "Nystroem": Nystroem(**theirs),
        "Nystroem, k-means": KMeansNystroem(**theirs),
        "CentersRBFSampler": centers,
        "CentersRBFSampler, plain penalty": centers,
    }


def score(found, y, labels):
    """Return the accuracy, or R2, in percent."""
    if not labels:
        return 100 * (1 - np.sum((found - y) ** 2) / np.sum((y - y.mean(axis=0)) ** 2))
    if y.shape[1] == 1:
        return 100 * np.mean((found > 0) == (y > 0))
    return 100 * np.mean(found.argmax(axis=1) == y.argmax(axis=1))


class Sums:
    """What ridge regression needs of some rows: they add up over batches."""

    def __init__(self, F, y):
        self.n_rows, self.mean, self.center = len(F), y.mean(axis=0), F.mean(axis=0)
        self.gram = (F - self.center).T @ (F - self.center)
        self.moments = (F - self.center).T @ (y - self.mean)

    def score(self, penalty, F, y, labels):
        """Return the score on other rows."""
        gram = self.gram + penalty
        gram[np.diag_indices_from(gram)] += 1e-10 * self.n_rows
        b = linalg.solve(gram, self.moments, assume_a="pos")
        return score((F - self.center) @ b + self.mean, y, labels)


def best_score(F, y, penalty, F_test, y_test, labels):
    """Return the score with the penalty that a fifth of the rows chooses."""
    cut = int(0.8 * len(F))
    part = Sums(F[:cut], y[:cut])
    scores = [part.score(a * penalty, F[cut:], y[cut:], labels) for a in PENALTIES]
    alpha = PENALTIES[np.argmax(scores)]
    return Sums(F, y).score(alpha * penalty, F_test, y_test, labels)


def exact_sigma(X, y, labels):
    """Return the sigma of best ridge on the exact kernel, on at most 1000 rows."""
    X, y = X[:1000], y[:1000]
    cut, scale = int(0.8 * len(X)), np.sqrt(2 / X.shape[1])
    best = -np.inf, scale
    for sigma in scale * np.array(FACTORS):
        K = rbf_kernel(X, X[:cut], gamma=sigma**2 / 2)
        mean = y[:cut].mean(axis=0)
        for alpha in PENALTIES[1::2]:
            gram = K[:cut] + alpha * np.eye(cut)
            b = linalg.solve(gram, y[:cut] - mean, assume_a="pos")
            best = max(best, (score(K[cut:] @ b + mean, y[cut:], labels), sigma))
    return best[1]


def measure(name, widths, n_splits):
    """Return the error of the kernel and the score, by width and map: lists."""
    X, y, labels = load(name)
    found = {}
    for seed in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(
            X, y, train_size=0.7, random_state=seed
        )
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        sigma = exact_sigma(X_train, y_train, labels)
        some = X_train[:1000]
        kernel = rbf_kernel(X_test[:500], some, gamma=sigma**2 / 2)
        for width in widths:
            if width > len(X_train):
                continue
            for label, sampler in maps(sigma, width, seed).items():
                F = sampler.fit(X_train).transform(X_train)
                F_test = sampler.transform(X_test)
                estimate = F_test[:500] @ F[:1000].T
                error = np.linalg.norm(estimate - kernel) / np.linalg.norm(kernel)
                penalty = np.eye(F.shape[1])
                if label == "CentersRBFSampler":
                    penalty = sampler.penalty_
                cell = error, best_score(F, y_train, penalty, F_test, y_test, labels)
                found.setdefault((width, label), []).append(cell)
    return {key: np.array(cells) for key, cells in found.items()}


def microseconds(width, repeats=5):
    """Return the time of transform a row, by map, interleaved."""
    X = StandardScaler().fit_transform(load("digits")[0])
    fitted = {n: s.fit(X) for n, s in maps(0.1, width, 0).items()}
    times = {name: [] for name in fitted}
    for _ in range(repeats):
        for name, sampler in fitted.items():
            start = time.process_time()
            sampler.transform(X)
            times[name].append((time.process_time() - start) / len(X) * 1e6)
    return {name: min(values) for name, values in times.items()}


def logistic(width):
    """Return the accuracy of LogisticRegression() on digits, by map."""
    X, y = datasets.load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    sigma = np.sqrt(2 / X.shape[1])
    model, found = LogisticRegression(max_iter=500), {}
    for name, sampler in maps(sigma, width, 0).items():
        model.fit(sampler.fit(X_train).transform(X_train), y_train)
        found[name] = 100 * model.score(sampler.transform(X_test), y_test)
    return found


def tables(widths, n_splits):
    """Yield a table a width."""
    found = {s: measure(s, widths, n_splits) for s in tqdm(SETS, file=sys.stderr)}
    for width in widths:
        seconds, accuracies = microseconds(width), logistic(width)
        rows, used = [], [s for s in SETS if (width, "Nystroem") in found[s]]
        for label in maps(1.0, width, 0):
            cells = [found[name][width, label] for name in used]
            errors = [np.exp(np.log(cell[:, 0]).mean()) for cell in cells]
            scores = [cell[:, 1].mean() for cell in cells]
            error = np.exp(np.mean(np.log(errors)))
            columns = label.startswith("Centers")
            rows.append([label, "–" if columns else f"{error:.4f}"])
            rows[-1] += [f"{value:.1f}" for value in [*scores, np.mean(scores)]]
            rows[-1] += [f"{seconds[label]:.1f}", f"{accuracies[label]:.1f}"]
        columns = ["map", "error of the kernel", *used, "mean", "µs a row"]
        title = f"Ridge on {width} columns"
        yield Table(title, [*columns, "logistic, digits"], rows)


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.centers", description=__doc__.split("\n\n")[1]
    )
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 512])
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    options = parser.parse_args()
    with threadpool_limits(1):
        found = list(tables(options.widths, options.splits))
    command = " ".join(["python -m benchmarks.centers", *sys.argv[1:]])
    report(found, header(), command, "centers.inc" if options.write else None)


if __name__ == "__main__":
    main()
