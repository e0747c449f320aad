"""Tables of positive maps: their error, and orthogonal frequencies or pairs."""

import sys
import time

import numpy as np
from scipy.stats import gmean
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import sklearn_crt as crt

from ..cases import UCI_SETS, gamma_of, load, make_rows, of_sizes
from ..tables import Table, interleave

SPACE = "\N{NO-BREAK SPACE}"  # a ratio and its error stay on one line
POSITIVE = {
    "sines and cosines": crt.TrigRBFSampler(),
    "OPRF": crt.OPRFSampler(),
    "OPRF, simplex": crt.OPRFSampler(coupling="simplex"),
    "OPRF, antithetic": crt.OPRFSampler(coupling="antithetic"),
    "dense": crt.DERFSampler(),
    "dense, antithetic": crt.DERFSampler(coupling="antithetic"),
    "anchored": crt.samplers.AnchoredRBFSampler(),
    "anchored, antithetic": crt.samplers.AnchoredRBFSampler(coupling="antithetic"),
}
PAIRS = [("OPRF", "OPRF, antithetic"), ("dense", "dense, antithetic")]
PAIRED = [name for pair in PAIRS for name in pair]


def positive_maps(widths=(128,), seeds=20, sets=UCI_SETS, fits=50):
    """Error of positive maps on eight UCI sets.

    At sigma="scale": the relative error of the kernel and the total variation of
    Nadaraya-Watson posteriors, each draw with rows and frequencies of its own and the
    same rows for all maps; then geometric means over the sets, and ratios to OPRF with
    standard errors over the sets. Last, the error that n_components_for was asked for
    and the one observed.
    """
    data = {name: standardised(name) for name in sets}
    tables = []
    for width in widths:
        maps = _with_width(POSITIVE, width)
        for target in ("kernel", "posterior"):
            options = {"target": target, "n_draws": seeds, "random_state": 0}
            errors = np.array(
                [
                    crt.compare_samplers(maps, X, y=y, **options)["error"]
                    for X, y in tqdm(data.values(), file=sys.stderr, desc=target)
                ]
            )
            title = f"{target.capitalize()}, {width} columns"
            tables.append(_over_oprf(title, errors, sets))
    return [*tables, _asked_and_observed(data, fits)]


def standardised(name):
    """Return the rows of a set, standardised, and the targets."""
    X, y = load(name)
    return StandardScaler().fit_transform(X[:, X.std(axis=0) > 0]), y


def _with_width(maps, width):
    return {n: clone(s).set_params(n_components=width) for n, s in maps.items()}


def _over_oprf(title, errors, sets):
    # errors (n_sets, n_maps)
    logs = np.log(errors)
    ratios = logs - logs[:, [list(POSITIVE).index("OPRF")]]
    spread = ratios.std(axis=0, ddof=1) / np.sqrt(len(sets))
    rows = [
        [name, *(f"{e:.3f}" for e in column), f"{np.exp(log.mean()):.3f}"]
        + [f"{np.exp(r):.2f}{SPACE}x/{SPACE}{np.exp(s):.2f}"]
        for name, column, log, r, s in zip(
            POSITIVE, errors.T, logs.T, ratios.mean(axis=0), spread, strict=True
        )
    ]
    return Table(title, ["map", *sets, "geometric mean", "over OPRF"], rows)


def _asked_and_observed(data, n_fits, errors=(0.03, 0.01)):
    # observed over the fits and 62500 pairs
    rows = []
    for name, (X, _) in tqdm(data.items(), file=sys.stderr, desc="n_components_for"):
        rng = np.random.default_rng(1)
        i, j = rng.choice(len(X), (2, 250), replace=False)
        row = [name]
        for asked in errors:
            sampler = crt.TrigRBFSampler()
            width = crt.n_components_for(sampler, X, rms_error=asked, random_state=0)
            squares = []
            for seed in range(n_fits):
                sampler.set_params(n_components=width, random_state=seed).fit(X)
                error = sampler.approximate_kernel(X[i], X[j])
                error -= sampler.exact_kernel(X[i], X[j])
                squares.append(np.mean(error**2))
            row += [str(width), f"{np.sqrt(np.mean(squares)) / asked:.3f}"]
        rows.append(row)
    columns = ["set"]
    for asked in errors:
        columns += [f"columns for {asked}", "observed / asked"]
    return Table("n_components_for, sines and cosines", columns, rows)


def pairs(
    widths=(128, 512), seeds=20, sets=(*UCI_SETS, "breast_cancer", "digits"), repeats=7
):
    """Orthogonal frequencies or antithetic pairs.

    OPRF and its dense form with each of the two couplings, at equal columns and
    sigma="scale", on ten sets: the relative error of the kernel, and the accuracy of
    Nadaraya-Watson and of ridge regression on the features, over seeds that choose
    rows, split and frequencies, the same for all maps. Last the time of transform.
    """
    data = {name.replace("_", " "): standardised(name) for name in sets}
    metrics = {
        "Relative error of the kernel": lambda X, y, maps: (
            crt.compare_samplers(maps, X, y=y, n_draws=seeds, random_state=0).errors
        ),
        "Accuracy of Nadaraya-Watson, per cent": lambda *of: _accuracies(
            *of, seeds, _average
        ),
        "Accuracy of ridge regression, per cent": lambda *of: _accuracies(
            *of, seeds, _ridge
        ),
    }
    tables = []
    for width in widths:
        maps = _with_width({name: POSITIVE[name] for name in PAIRED}, width)
        for metric, measure in metrics.items():
            progress = tqdm(data.items(), file=sys.stderr, desc=metric)
            means = [measure(X, y, maps).mean(axis=1) for _, (X, y) in progress]
            title = f"{metric}, {width} columns, {seeds} seeds"
            is_error = "error" in metric
            tables.append(_gains(title, list(data), np.array(means), is_error))
    return [*tables, _times_of_pairs(repeats)]


def _accuracies(X, y, maps, seeds, model_of):
    # on a held-out third in per cent (n_maps, n_seeds)
    scores = np.empty((len(maps), seeds))
    for seed in range(seeds):
        keep = np.random.default_rng(seed).permutation(len(X))[:4000]
        parts = train_test_split(X[keep], y[keep], test_size=1 / 3, random_state=seed)
        for i, sampler in enumerate(maps.values()):
            model = model_of(clone(sampler).set_params(random_state=seed))
            model.fit(parts[0], parts[2])
            scores[i, seed] = 100 * model.score(parts[1], parts[3])
    return scores


def _average(sampler):
    return crt.NadarayaWatsonClassifier(sampler, sigma="scale")


def _ridge(sampler):
    # features of one size
    return make_pipeline(sampler, StandardScaler(), RidgeClassifier())


def _gains(title, sets, means, is_error):
    # means (n_sets, n_maps), and the gain of pairs with its standard error
    cell = "{:.3f}" if is_error else "{:.1f}"
    rows = [
        [name, *map(cell.format, row)] for name, row in zip(sets, means, strict=True)
    ]
    whole = gmean(means) if is_error else means.mean(axis=0)
    rows.append(["geometric mean" if is_error else "mean", *map(cell.format, whole)])
    gains = dict.fromkeys(PAIRED, "")
    for before, after in PAIRS:
        one, other = means[:, PAIRED.index(before)], means[:, PAIRED.index(after)]
        change = np.log(other / one) if is_error else other - one
        mean, error = change.mean(), change.std(ddof=1) / np.sqrt(len(change))
        gains[after] = (
            f"{np.exp(mean):.2f} x/ {np.exp(error):.2f}"
            if is_error
            else f"{mean:+.1f} +- {error:.1f}"
        )
    rows.append(["pairs over orthogonal" if is_error else "gain", *gains.values()])
    return Table(title, ["set", *PAIRED], rows)


def _times_of_pairs(repeats):
    rows = []
    cases = of_sizes(((16, 256), (16, 1024), (256, 1024)), 20000)
    for case in tqdm(cases, file=sys.stderr, desc="transform"):
        X, _ = make_rows(case)
        options = {"n_components": case.n_components, "n_jobs": 1, "random_state": 0}
        options["sigma"] = float(np.sqrt(2 * gamma_of(X)))
        maps = {n: clone(POSITIVE[n]).set_params(**options).fit(X) for n in PAIRED}
        transforms = {name: lambda s=s, X=X: s.transform(X) for name, s in maps.items()}
        seconds = interleave(transforms, repeats, time.process_time)
        cells = [
            f"{1e3 * seconds[name]:.0f} ({seconds[pair[0]] / seconds[name]:.2f})"
            for pair in PAIRS
            for name in pair
        ]
        rows.append([str(case), *cells])
    title = "Transform: milliseconds (times faster than orthogonal)"
    return Table(title, ["rows to columns", *PAIRED], rows)
