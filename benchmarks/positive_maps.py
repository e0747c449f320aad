"""Error of positive maps on eight UCI sets: python -m benchmarks.positive_maps.

At one number of columns and sigma="scale": the relative error of the kernel and the
total variation of Nadaraya-Watson posteriors, each draw with rows and frequencies of
its own and the same rows for all maps; then geometric means over the sets, and ratios
to OPRF with standard errors over the sets. Last, the error that n_components_for was
asked for and the one observed.
"""

import argparse

import numpy as np
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sklearn_crt as crt
from sklearn_crt.datasets import fetch_uci

from .tables import Table, report
from .timing import header

SPACE = "\N{NO-BREAK SPACE}"  # a ratio and its error stay on one line
SETS = ["abalone", "banknote", "car", "yeast", "cmc", "nursery", "wifi", "chess"]
MAPS = {
    "sines and cosines": crt.TrigRBFSampler(),
    "OPRF": crt.OPRFSampler(),
    "OPRF, simplex": crt.OPRFSampler(coupling="simplex"),
    "OPRF, antithetic": crt.OPRFSampler(coupling="antithetic"),
    "dense": crt.DERFSampler(),
    "dense, antithetic": crt.DERFSampler(coupling="antithetic"),
    "anchored": crt.AnchoredRBFSampler(),
    "anchored, antithetic": crt.AnchoredRBFSampler(coupling="antithetic"),
}


def load(name):
    """Return rows, categories one-hot and columns standardised, and classes."""
    bunch = fetch_uci(name, download_if_missing=False)
    one_hot = OneHotEncoder(sparse_output=False)
    categories = (one_hot, bunch.categorical_features)
    columns = make_column_transformer(categories, remainder="passthrough")
    X = make_pipeline(columns, StandardScaler()).fit_transform(bunch.data)
    return X.astype(np.float64), bunch.target


def measure(metric, n_components, n_draws):
    """Return mean errors of the maps on the sets, shape (n_sets, n_maps)."""
    maps = {
        name: clone(sampler).set_params(n_components=n_components)
        for name, sampler in MAPS.items()
    }
    options = {"metric": metric, "n_draws": n_draws, "random_state": 0}
    return np.array(
        [crt.compare_samplers(X, maps, y=y, **options).mean for X, y in map(load, SETS)]
    )


def table(errors, title):
    """Return the geometric means over the sets, and the ratios to OPRF."""
    logs = np.log(errors)
    ratios = logs - logs[:, [list(MAPS).index("OPRF")]]
    spread = ratios.std(axis=0, ddof=1) / np.sqrt(len(SETS))
    rows = [
        [name, *(f"{e:.3f}" for e in column), f"{np.exp(log.mean()):.3f}"]
        + [f"{np.exp(r):.2f}{SPACE}x/{SPACE}{np.exp(s):.2f}"]
        for name, column, log, r, s in zip(
            MAPS, errors.T, logs.T, ratios.mean(axis=0), spread, strict=True
        )
    ]
    return Table(title, ["map", *SETS, "geometric mean", "over OPRF"], rows)


def asked_and_observed(errors=(0.03, 0.01), n_fits=50):
    """Return the table of n_components_for, observed over many fits and 62500 pairs."""
    rows = []
    for name in SETS:
        X, _ = load(name)
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


def main():
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--n-components", type=int, default=128)
    parser.add_argument("--n-draws", type=int, default=20)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    options = parser.parse_args()
    width, n_draws = options.n_components, options.n_draws
    tables = [
        table(measure("kernel", width, n_draws), f"Kernel, {width} columns"),
        table(measure("posterior", width, n_draws), f"Posterior, {width} columns"),
        asked_and_observed(),
    ]
    command = f"python -m benchmarks.positive_maps --n-draws {n_draws}"
    page = "positive_maps.inc" if options.write else None
    report(tables, header(), command, page)


if __name__ == "__main__":
    main()
