"""Tables of linear models: ridge on features, few columns, columns at centres."""

import sys
import time
from itertools import product

import numpy as np
from scipy import linalg
from scipy.stats import ttest_rel
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import root_mean_squared_error
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelBinarizer, StandardScaler
from tqdm import tqdm

import sklearn_crt as crt

from ..cases import load
from ..tables import Table, interleave

TRIG = {
    "RBFSampler": RBFSampler(),
    "TrigRBFSampler": crt.TrigRBFSampler(),
    "TrigRBFSampler(random_phase=True)": crt.TrigRBFSampler(random_phase=True),
}
LINEAR = {
    "RBFSampler": RBFSampler(),
    "Nystroem": Nystroem(),
    **TRIG,
    "MaternSampler": crt.samplers.MaternSampler(),
    "LaplacianSampler": crt.samplers.LaplacianSampler(),
}
N_TRAIN = {"letter": 15000, "chess": 20000, "sgemm": 40000}
FACTORS = 0.25, 1.0, 4.0  # of sqrt(2 / d)
RAW_CENTERS = "CentersRBFSampler, whiten=False"
RAW = RAW_CENTERS, f"{RAW_CENTERS}, plain penalty"
LARGE = "digits", "letter", "chess", "nursery", "sgemm", "magic", "penbased"
LARGE += "satimage", "spambase", "texture"
PENALTIES = np.logspace(-6, 1, 8)


def linear_models(widths=(250, 1000), seeds=3, sets=tuple(N_TRAIN)):
    """Ridge on random features beside Nystroem and boosting, on three sets of UCI.

    A fifth of the training rows chooses sigma, of 1/4, 1 and 4 times sqrt(2 / d), the
    "scale" of standardised columns; all maps have the same choice. Scores on the other
    rows and processor seconds of one fit and predict at the chosen sigma, means over
    the splits.
    """
    cells = {}
    progress = tqdm(total=len(sets) * seeds * len(widths), file=sys.stderr)
    for name in sets:
        X, y, numbers = _with_log_times(name)
        for seed in range(seeds):
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, train_size=N_TRAIN[name], test_size=5000, random_state=seed
            )
            train, test = (X_train, y_train), (X_test, y_test)
            for width in widths:
                todo = _linear_candidates(X.shape[1], numbers, width, seed)
                for model, choices in todo.items():
                    mapped = len(choices) > 1
                    label = f"{model}, {width} columns" if mapped else model
                    if mapped or width == widths[0]:
                        result = _score_and_seconds(choices, train, test)
                        cells.setdefault(label, {}).setdefault(name, []).append(result)
                progress.update()
    rows = [
        [label, *("{:.3f} ({:.1f} s)".format(*np.mean(r[n], axis=0)) for n in r)]
        for label, r in sorted(cells.items(), key=lambda item: "columns" in item[0])
    ]
    kinds = {"sgemm": "R2 of log time"}
    titles = [f"{name}, {kinds.get(name, 'accuracy')}" for name in sets]
    title = "test score (processor seconds of fit and predict)"
    return [Table(title, ["in front of ridge", *titles], rows)]


def _with_log_times(name):
    # rows, targets, and whether these are numbers
    X, y = load(name)
    return (X, np.log(y), True) if name == "sgemm" else (X, y, False)


def _with_sigma(sampler, sigma):
    sampler = clone(sampler)
    if isinstance(sampler, RBFSampler | Nystroem):
        return sampler.set_params(gamma=sigma**2 / 2)
    return sampler.set_params(sigma=sigma)


def _linear_candidates(n_features, numbers, width, seed):
    # lists of models by name; validation chooses one of each list
    linear = Ridge(1e-2) if numbers else RidgeClassifier(1e-2)
    models = {"no features": [make_pipeline(StandardScaler(), linear)]}
    for name, sampler in LINEAR.items():
        sampler = clone(sampler).set_params(n_components=width, random_state=seed)
        models[name] = [
            make_pipeline(StandardScaler(), _with_sigma(sampler, sigma), linear)
            for sigma in np.multiply(FACTORS, (2 / n_features) ** 0.5)
        ]
    boosting = (
        HistGradientBoostingRegressor if numbers else HistGradientBoostingClassifier
    )
    return models | {"HistGradientBoosting (no ridge)": [boosting(random_state=seed)]}


def _score_and_seconds(models, train, test):
    X, y = train
    rows, held_out = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
    if len(models) > 1:
        models = [
            max(
                models,
                key=lambda m: m.fit(X[rows], y[rows]).score(X[held_out], y[held_out]),
            )
        ]
    start = time.process_time()
    score = models[0].fit(*train).score(*test)
    return score, time.process_time() - start


def few_columns(
    widths=(32, 64, 128, 256, 512, 1024),
    seeds=5,
    sets=("sgemm", "letter", "chess", "nursery"),
):
    """Pairs of sines and cosines beside single cosines, by the number of columns.

    Ridge on the features of three maps of the Gaussian kernel, on sets of UCI,
    standardised. Pairs estimate the kernel with less error at equal columns, and have
    half as many frequencies: the table shows which matters to a linear model. A fifth
    of the training rows chooses sigma for each map, of 1/4, 1 and 4 times sqrt(2 / d).
    Errors on 5000 other rows, or those that are left, mean and standard deviation over
    splits and draws.
    """
    rows = []
    progress = tqdm(total=len(sets) * seeds, file=sys.stderr)
    for name in sets:
        X, y, numbers = _with_log_times(name)
        found = []
        for seed in range(seeds):
            found.append(_errors_by_width(X, y, numbers, widths, seed))
            progress.update()
        what = "RMSE" if numbers else "error rate"
        for sampler in TRIG:
            values = np.array([[run[sampler, w] for w in widths] for run in found])
            cells = zip(values.mean(axis=0), values.std(axis=0), strict=True)
            label = f"{name}, {what}: {sampler}"
            rows.append([label, *(f"{m:.3f} ± {s:.3f}" for m, s in cells)])
    title = "test error by number of columns, ± standard deviation"
    return [Table(title, ["in front of ridge", *map(str, widths)], rows)]


def _errors_by_width(X, y, numbers, widths, seed):
    # test error by map and width
    n_test = min(5000, len(X) // 4)
    n_train = min(8000, len(X) - n_test)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_train, test_size=n_test, random_state=seed
    )
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    kept, held_out = train_test_split(np.arange(n_train), test_size=0.2, random_state=0)
    linear = Ridge(1e-2) if numbers else RidgeClassifier(1e-2)

    def error(model, rows, y):
        if numbers:
            return root_mean_squared_error(y, model.predict(rows))
        return 1 - model.score(rows, y)

    found = {}
    for name, sampler in TRIG.items():
        for width in widths:
            sampler = clone(sampler).set_params(n_components=width, random_state=seed)
            models = [
                make_pipeline(_with_sigma(sampler, sigma), linear)
                for sigma in np.multiply(FACTORS, (2 / X.shape[1]) ** 0.5)
            ]
            validation = [
                error(m.fit(X[kept], y[kept]), X[held_out], y[held_out]) for m in models
            ]
            best = models[int(np.argmin(validation))].fit(X, y)
            found[name, width] = error(best, X_test, y_test)
    return found


def centers(
    widths=(128, 512),
    seeds=4,
    sets=("digits", "breast_cancer", "diabetes", "housing", "sgemm"),
    large=LARGE,
    rows=20_000,
):
    """Columns at centres beside random features, for ridge.

    Five sets that the choice of maps was not made on: digits, breast cancer and
    diabetes of scikit-learn, housing and sgemm of UCI (4000 rows). Columns
    standardised, random splits of 70 % training rows; a fifth of these chooses sigma
    (1/4 to 2 times "scale", by ridge on the exact kernel) and, for each map, the
    penalty. The relative error of the kernel between test and training rows,
    |estimate - K|_F / |K|_F, is a geometric mean; scores are accuracy, or R2 of
    numbers, in percent. Processor microseconds of transform a row are those of digits
    in float64 on one thread, least of 5. Kernel columns are no estimate of the kernel;
    ridge on them has the penalty alpha b' K_ZZ b, or the plain one. Last, logistic
    regression with its default penalty on digits.

    The last table has the choices of centres on ten sets, at the larger width: test
    score as above, and in brackets processor time of fit and transform of the training
    rows over that of Nystroem at the same sigma. The last columns count the sets where
    that is at most one, and the score is at least Nystroem's up to rounding, or not
    less by a t-test of the splits at 5 %.
    """
    found = {
        name: _errors_and_scores(name, widths, seeds)
        for name in tqdm(sets, file=sys.stderr)
    }
    tables = [_centers_table(found, width) for width in widths]
    return [*tables, _choices_of_centers(max(widths), seeds, large, rows)]


def _choices_of_centers(width, seeds, sets, n_rows):
    cells = {}
    for name in tqdm(sets, file=sys.stderr):
        for seed in range(seeds):
            train, test, labels = _standardised(name, n_rows, seed)
            sigma = _exact_sigma(*train, labels)
            todo = {"Nystroem": _maps_and_centers(sigma, width, seed)["Nystroem"]}
            rows = clone(todo["Nystroem"]).fit(train[0]).components_
            todo["Nystroem's rows, whitened"] = crt.CentersRBFSampler(
                sigma=sigma, n_components=width, centers=rows, whiten=True
            )
            for method, whiten in product(("kmeans", "rpcholesky", "random"), (0, 1)):
                todo[f"{method}, whitened" if whiten else method] = (
                    crt.CentersRBFSampler(
                        sigma=sigma,
                        n_components=width,
                        centers=method,
                        whiten=bool(whiten),
                        random_state=seed,
                    )
                )
            names = list(todo)  # another order each time
            for label in np.random.default_rng(seed).permutation(names):
                sampler = todo[label]
                start = time.process_time()
                F = sampler.fit(train[0]).transform(train[0])
                seconds = time.process_time() - start
                penalty = getattr(sampler, "penalty_", np.eye(F.shape[1]))
                F_test = sampler.transform(test[0])
                score = _best_score(F, train[1], penalty, F_test, test[1], labels)
                cells.setdefault((label, name), []).append((score, seconds))
    means = {key: np.mean(values, axis=0) for key, values in cells.items()}
    lines = []
    for label in names:
        pairs = [(means[label, n], means["Nystroem", n]) for n in sets]
        ratios = [ours[1] / theirs[1] for ours, theirs in pairs]
        scores = [ours[0] for ours, _ in pairs]
        shown = [f"{s:.1f} ({r:.2f})" for s, r in zip(scores, ratios, strict=True)]
        mean = f"{np.mean(scores):.2f} ({np.exp(np.mean(np.log(ratios))):.2f})"
        fast = [n for n, ratio in zip(sets, ratios, strict=True) if ratio <= 1]
        ahead = sum(means[label, n][0] > means["Nystroem", n][0] - 1e-3 for n in fast)
        behind = sum(_is_behind(cells[label, n], cells["Nystroem", n]) for n in fast)
        lines.append([label, *shown, mean, str(ahead), str(len(fast) - behind)])
    title = (
        f"Score of ridge on {width} columns (time of fit and transform over Nystroem's)"
    )
    counts = "as good in at most the time", "not behind in at most the time"
    return Table(title, ["centres", *sets, "mean", *counts], lines)


def _is_behind(ours, theirs):
    """Return whether scores of the same splits are less by more than chance."""
    ours, theirs = (np.array(cells)[:, 0] for cells in (ours, theirs))
    return ttest_rel(ours, theirs, alternative="less").pvalue < 0.05


def _standardised(name, n_rows, seed):
    # training and test rows with targets, and whether these are labels
    X, y = load(name)
    keep = np.random.default_rng(0).permutation(len(y))[:n_rows]
    X, y, labels = X[keep], y[keep], name not in ("diabetes", "housing", "sgemm")
    if labels:
        y = LabelBinarizer(neg_label=-1).fit_transform(y).astype(float)
    else:
        y = (np.log(y) if name in ("housing", "sgemm") else y)[:, None]
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=0.7, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    train, test = (
        (scaler.transform(X_train), y_train),
        (scaler.transform(X_test), y_test),
    )
    return train, test, labels


def _centers_table(found, width):
    rows, used = [], [name for name in found if (width, "Nystroem") in found[name]]
    seconds, accuracies = _seconds_on_digits(width), _logistic_on_digits(width)
    for label in _maps_and_centers(1.0, width, 0):
        cells = [found[name][width, label] for name in used]
        errors = [np.exp(np.log(cell[:, 0]).mean()) for cell in cells]
        scores = [cell[:, 1].mean() for cell in cells]
        error = np.exp(np.mean(np.log(errors)))
        rows.append([label, "–" if label in RAW else f"{error:.4f}"])
        rows[-1] += [f"{value:.1f}" for value in [*scores, np.mean(scores)]]
        rows[-1] += [f"{1e6 * seconds[label]:.1f}", f"{accuracies[label]:.1f}"]
    columns = ["map", "error of the kernel", *used, "mean", "µs per row"]
    title = f"Ridge on {width} columns"
    return Table(title, [*columns, "logistic, digits"], rows)


class KMeansNystroem(Nystroem):
    """Nystroem with k-means centres in place of random rows."""

    def fit(self, X, y=None):
        """Find the centres, and whiten."""
        model = KMeans(self.n_components, n_init=1, random_state=self.random_state)
        return super().fit(model.fit(X).cluster_centers_)


def _maps_and_centers(sigma, width, seed):
    theirs = {"gamma": sigma**2 / 2, "n_components": width, "random_state": seed}
    ours = {"sigma": sigma, "n_components": width, "random_state": seed}
    at_centers = crt.CentersRBFSampler(whiten=False, **ours)
    return {
        "RBFSampler": RBFSampler(**theirs),
        "TrigRBFSampler": crt.TrigRBFSampler(**ours),
        "DERFSampler, antithetic": crt.DERFSampler(coupling="antithetic", **ours),
        "Nystroem": Nystroem(**theirs),
        "Nystroem, k-means": KMeansNystroem(**theirs),
        **dict.fromkeys(RAW, at_centers),
        "CentersRBFSampler": crt.CentersRBFSampler(**ours),
    }


def _score(found, y, labels):
    # accuracy, or R2, in percent
    if not labels:
        return 100 * (1 - np.sum((found - y) ** 2) / np.sum((y - y.mean(axis=0)) ** 2))
    if y.shape[1] == 1:
        return 100 * np.mean((found > 0) == (y > 0))
    return 100 * np.mean(found.argmax(axis=1) == y.argmax(axis=1))


class RidgeSums:
    """What ridge regression needs of some rows, for all penalties."""

    def __init__(self, F, y):
        self.n_rows, self.mean, self.center = len(F), y.mean(axis=0), F.mean(axis=0)
        self.gram = (F - self.center).T @ (F - self.center)
        self.moments = (F - self.center).T @ (y - self.mean)

    def score(self, penalty, F, y, labels):
        """Return the score on other rows."""
        gram = self.gram + penalty
        gram[np.diag_indices_from(gram)] += 1e-10 * self.n_rows
        b = linalg.solve(gram, self.moments, assume_a="pos")
        return _score((F - self.center) @ b + self.mean, y, labels)


def _best_score(F, y, penalty, F_test, y_test, labels):
    # with the penalty that a fifth of the rows chooses
    cut = int(0.8 * len(F))
    part = RidgeSums(F[:cut], y[:cut])
    scores = [part.score(a * penalty, F[cut:], y[cut:], labels) for a in PENALTIES]
    alpha = PENALTIES[np.argmax(scores)]
    return RidgeSums(F, y).score(alpha * penalty, F_test, y_test, labels)


def _exact_sigma(X, y, labels):
    # of best ridge on the exact kernel, on at most 1000 rows
    X, y = X[:1000], y[:1000]
    cut, scale = int(0.8 * len(X)), np.sqrt(2 / X.shape[1])
    best = -np.inf, scale
    for sigma in scale * np.array([0.25, 0.5, 1.0, 2.0]):
        K = rbf_kernel(X, X[:cut], gamma=sigma**2 / 2)
        mean = y[:cut].mean(axis=0)
        for alpha in PENALTIES[1::2]:
            gram = K[:cut] + alpha * np.eye(cut)
            b = linalg.solve(gram, y[:cut] - mean, assume_a="pos")
            best = max(best, (_score(K[cut:] @ b + mean, y[cut:], labels), sigma))
    return best[1]


def _errors_and_scores(name, widths, seeds):
    # (n_seeds, 2) by width and map
    found = {}
    for seed in range(seeds):
        train, test, labels = _standardised(name, 4000, seed)
        (X_train, y_train), (X_test, y_test) = train, test
        sigma = _exact_sigma(X_train, y_train, labels)
        kernel = rbf_kernel(X_test[:500], X_train[:1000], gamma=sigma**2 / 2)
        for width in widths:
            if width > len(X_train):
                continue
            for label, sampler in _maps_and_centers(sigma, width, seed).items():
                F = sampler.fit(X_train).transform(X_train)
                F_test = sampler.transform(X_test)
                estimate = F_test[:500] @ F[:1000].T
                error = np.linalg.norm(estimate - kernel) / np.linalg.norm(kernel)
                penalty = np.eye(F.shape[1])
                if label == RAW_CENTERS:
                    penalty = sampler.penalty_
                cell = error, _best_score(F, y_train, penalty, F_test, y_test, labels)
                found.setdefault((width, label), []).append(cell)
    return {key: np.array(cells) for key, cells in found.items()}


def _seconds_on_digits(width):
    # of transform, for each row, by map
    X = StandardScaler().fit_transform(load("digits")[0])
    maps = {n: s.fit(X) for n, s in _maps_and_centers(0.1, width, 0).items()}
    transforms = {name: lambda s=s: s.transform(X) for name, s in maps.items()}
    seconds = interleave(transforms, 5, time.process_time, summary=min)
    return {name: least / len(X) for name, least in seconds.items()}


def _logistic_on_digits(width):
    # accuracy of LogisticRegression() in percent, by map
    X_train, X_test, y_train, y_test = train_test_split(*load("digits"), random_state=0)
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    sigma = np.sqrt(2 / X_train.shape[1])
    model, found = LogisticRegression(max_iter=500), {}
    for name, sampler in _maps_and_centers(sigma, width, 0).items():
        model.fit(sampler.fit(X_train).transform(X_train), y_train)
        found[name] = 100 * model.score(sampler.transform(X_test), y_test)
    return found
