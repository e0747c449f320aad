"""Compare times with an earlier version: python -m benchmarks.speed REVISION.

The revision is installed beside this version (see oracle.py), and both compute the same
in turns, in one process with one thread of BLAS. ``--only`` names what to compare:

* features: 1024 random features of 20000 rows, beside those of scikit-learn's
  RBFSampler, with the largest relative difference between both versions.
* rows: predictions of a single row, beside those of scikit-learn's k nearest neighbours
  and of histogram gradient boosting.
* averages: kernel averages of 1000 rows over all training rows.
* local: local linear regression of 1000 rows, in a learned metric.
* sigma: the fit of local linear regression, which selects ``sigma`` and ``alpha``.
* queries: the same fit with 1000 rows, and with 500 rows, whose leave-one-out errors
  are compared (this version alone).
* attention: softmax attention of 64 columns, float32.
* stream: the longest call of ``partial_fit`` with ``Prototypes``, and the score.
* causal: causal linear attention in torch, beside fused exact attention, and beside the
  matrix products and exponentials alone that linear attention consists of (this
  version alone).
* remainder: the largest proportion of the kernel weight that local fits leave out, of
  10000 queries of each of ten data sets (this version alone).

A ratio is the time of the earlier version over that of this one.
"""

import argparse
import importlib
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from unittest import mock

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.neighbors import KNeighborsRegressor
from threadpoolctl import threadpool_limits

import sklearn_crt
from sklearn_crt.attention import linear_attention

from .oracle import BEFORE, install
from .tables import Table, header, interleave, report

N_COLUMNS, N_QUERIES = 20, 1000
N_CALLS = 5  # predictions of single rows, timed together
CLOCKS = time.process_time, time.perf_counter


def data(n_rows, dtype=np.float64):
    """Return training rows, targets and queries."""
    X, y = make_friedman1(n_rows + N_QUERIES, N_COLUMNS, noise=0.5, random_state=0)
    X = X.astype(dtype)
    return X[:n_rows], y[:n_rows], X[n_rows:]


def estimators(module):
    """Return estimators with given parameters, by name."""
    fit = {"sigma": 1.5, "alpha": 0.1}
    return {
        "NadarayaWatsonRegressor": module.NadarayaWatsonRegressor(sigma=1.5),
        "NadarayaWatsonClassifier": module.NadarayaWatsonClassifier(sigma=1.5),
        "LocalLinearRegressor": module.LocalLinearRegressor(**fit),
        "LocalLinearClassifier": module.LocalLinearClassifier(**fit),
    }


def features(modules, n_columns):
    """Yield random features of both versions, and those of scikit-learn."""
    X64 = np.random.default_rng(0).standard_normal((20_000, n_columns))
    for dtype in (np.float32, np.float64):
        X, about = X64.astype(dtype), f"{n_columns} columns, {np.dtype(dtype)}"
        given = {"n_components": 1024, "random_state": 0}
        peer = RBFSampler(gamma=1 / n_columns, **given).fit(X)
        yield f"RBFSampler, {about}", [partial(peer.transform, X)] * 2
        for name in ("OPRFSampler", "PoissonSampler"):
            packages = (
                importlib.import_module(f"{m.__name__}.samplers") for m in modules
            )
            maps = [getattr(p, name)(**given).fit(X) for p in packages]
            before, now = (m.transform(X) for m in maps)
            gap = np.max(np.abs(now - before) / np.abs(before))
            calls = [partial(m.transform, X) for m in maps]
            yield f"{name}, {about}, differs by {gap:.0e}", calls


def labels_for(model, y):
    """Return labels for a classifier, given or by name, else numbers."""
    name = model if isinstance(model, str) else type(model).__name__
    return y > np.mean(y) if "Classifier" in name else y


def one_row(modules, n_rows):
    """Yield the name of each estimator, and predictions of a row by both versions."""
    X, y, queries = data(n_rows)
    peers = {
        "KNeighborsRegressor": KNeighborsRegressor(),
        "HistGradientBoostingRegressor": HistGradientBoostingRegressor(),
    }
    for name in (*peers, *estimators(modules[0])):
        models = [peers.get(name) or estimators(m)[name] for m in modules]
        for model in models:
            model.fit(X, labels_for(model, y))

        def calls(model):
            for _ in range(N_CALLS):
                model.predict(queries[:1])

        yield f"{name}, one row of {n_rows}", [lambda m=m: calls(m) for m in models]


def averages(modules, n_rows):
    """Yield predictions of kernel averages by both versions."""
    for dtype in (np.float64, np.float32):
        X, y, queries = data(n_rows, dtype)
        for name in ("NadarayaWatsonClassifier", "NadarayaWatsonRegressor"):
            models = [estimators(m)[name] for m in modules]
            for model in models:
                model.fit(X, labels_for(model, y))
            calls = [lambda m=m, q=queries: m.predict(q) for m in models]
            yield f"{name}, {n_rows} rows, {np.dtype(dtype)}", calls


def local(modules, n_rows):
    """Yield predictions of local fits in a learned metric by both versions."""
    X, y, queries = data(n_rows)
    metric = modules[1].LearnedMetric(random_state=0).fit(X[:3000], y[:3000])
    X, queries = metric.transform(X), metric.transform(queries)
    first = modules[1].LocalLinearRegressor().fit(X, y)
    params = {"sigma": first.sigma_, "alpha": first.alpha_}
    models = [m.LocalLinearRegressor(**params).fit(X, y) for m in modules]
    gap = np.ptp([m.predict(queries) for m in models], axis=0).max() / np.ptp(y)
    name = f"LocalLinearRegressor, {n_rows} rows, differs by {gap:.1e} of the range"
    yield name, [lambda m=m: m.predict(queries) for m in models]


def sigma(modules, n_rows):
    """Yield fits of local linear regression by both versions."""
    X, y, _ = data(n_rows)
    for name in ("LocalLinearRegressor", "LocalLinearClassifier"):
        models = [getattr(m, name)() for m in modules]
        with_targets = [(m, labels_for(m, y)) for m in models]
        calls = [partial(m.fit, X, t) for m, t in with_targets]
        before, now = ((m.fit(X, t).sigma_, m.alpha_) for m, t in with_targets)
        said = "the same sigma and alpha" if before == now else f"{before}, {now}"
        yield f"{name}.fit, {n_rows} rows, {said}", calls


def queries(repeats):
    """Return the table of fits that compare the errors of 1000 or of 500 rows."""

    def fitted(name, n_queries, X, y):
        with mock.patch("sklearn_crt.averages._sigma._N_FITS", n_queries):
            return getattr(sklearn_crt, name)().fit(X, y)

    rows = []
    for n_rows in SUBJECTS["sigma"][1]:
        X, y, others = data(n_rows)
        for name in ("LocalLinearRegressor", "LocalLinearClassifier"):
            own, truth = labels_for(name, y), labels_for(name, friedman(others))
            calls = {n: partial(fitted, name, n, X, own) for n in (1000, 500)}
            chosen = [
                f"{m.sigma_:.3g}, {m.alpha_:g}, {m.score(others, truth):.4f}"
                for m in (calls[n]() for n in calls)
            ]
            long, short = interleave(calls, repeats, CLOCKS[0]).values()
            cells = [f"{1e3 * s:.3g}" for s in (long, short)]
            rows.append(
                [f"{name}, {n_rows} rows", *cells, f"{long / short:.2f}", *chosen]
            )
    columns = ["fit of", "1000", "500", "ratio", "sigma, alpha, score (1000)", "(500)"]
    return Table("selection of sigma on 1000 and on 500 queries: ms", columns, rows)


def attention(modules, n_rows):
    """Yield exact attention by both versions."""
    q, k, v = np.random.default_rng(0).standard_normal((3, n_rows, 64), np.float32)
    functions = [
        importlib.import_module(f"{m.__name__}.attention").softmax_attention
        for m in modules
    ]
    for causal in (False, True):
        calls = [partial(f, q, k, v, causal=causal) for f in functions]
        yield f"softmax_attention, {n_rows} rows, {causal=}", calls


def training_sets(rng, n_rows=2000, d=6):
    """Yield names and rows: spread, curved, discrete, heavy-tailed, near duplicates."""
    X = rng.standard_normal((n_rows, d))
    yield "normal", X
    yield "uniform", rng.uniform(size=X.shape)
    yield "two clusters", X + 20 * (np.arange(n_rows) % 2)[:, None]
    yield "heavy tails", rng.standard_t(1.5, size=X.shape)
    yield "lognormal", np.exp(X)
    yield "curve", np.sin(np.outer(rng.uniform(0, 9, n_rows), np.arange(1, d + 1)))
    yield "grid", np.rint(X)
    yield "duplicates", np.repeat(X[: n_rows // 10], 10, axis=0)
    twins = np.repeat(X[: n_rows // 12], 12, axis=0)
    yield "near duplicates", twins + 0.05 * rng.standard_normal(twins.shape)
    yield "one column matters", X * np.array([1.0, *np.full(d - 1, 1e-6)])


def left_out(remainder=1e-3, n_queries=10_000):
    """Return the table of the largest proportions of the weight that are left out.

    A third of the queries are drawn as the training rows, a third are training rows
    that are shifted a little, and a third are up to 100 times as far away.
    """
    rows, rng = [], np.random.default_rng(0)
    for name, X in training_sets(rng):
        base = X[rng.integers(len(X), size=n_queries)]
        gaps = rng.standard_normal(base.shape) * X.std()
        queries = (
            base
            + gaps * np.repeat([1.0, 1e-3, 100], n_queries // 3 + 1)[:n_queries, None]
        )
        weights, worst = rng.exponential(size=len(X)), []
        for multiple in (0.5, 2.0, 8.0):
            model = sklearn_crt.LocalLinearRegressor(
                sigma=multiple / X.std(), alpha=0.1, remainder=remainder
            ).fit(X, X[:, 0], weights)
            keys, logs = model._value.keys, []
            for _, sums in keys.sums(queries, model.sigma_):
                found = keys.targets.weight(sums.scores)
                logs.append(np.log(found) + sums.log_scale[:, 0])
            shares = -np.expm1(np.concatenate(logs) - model.log_weights(queries))
            worst.append(np.max(shares))
        rows.append([name, *(f"{share:.1e}" for share in worst)])
    columns = ["rows", *(f"sigma {m} / std" for m in (0.5, 2.0, 8.0))]
    return Table(f"largest proportion left out, {remainder=}", columns, rows)


def streams(modules, n_rows=300_000, n_given=10_000):
    """Return the table of calls of ``partial_fit`` with prototypes."""
    X, y, queries = data(n_rows)
    rows, given = [], {"sigma": 1.5}
    for name in ("NadarayaWatsonRegressor", "LocalLinearRegressor"):
        for version, module in zip(("before", "now"), modules, strict=True):
            prototypes = module.Prototypes(random_state=0)
            params = {**given, "alpha": 0.1} if "Linear" in name else given
            model, seconds = getattr(module, name)(prototypes, **params), []
            for start in range(0, n_rows, n_given):
                part = slice(start, start + n_given)
                begin = CLOCKS[0]()
                model.partial_fit(X[part], y[part])
                seconds.append(CLOCKS[0]() - begin)
            error = np.sqrt(np.mean((model.predict(queries) - friedman(queries)) ** 2))
            rows.append([name, version, f"{max(seconds):.2f}", f"{sum(seconds):.1f}"])
            rows[-1].append(f"{error:.4f}")
    columns = ["estimator", "version", "longest call (s)", "all calls (s)", "RMSE"]
    return Table(f"partial_fit of {n_rows} rows, {n_given} at a time", columns, rows)


def friedman(X):
    """Return the targets of ``data`` without noise."""
    waves = 10 * np.sin(np.pi * X[:, 0] * X[:, 1])
    return waves + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]


def causal(repeats, n_features=256, chunk=64):
    """Return the table of causal attention in torch, one head of 64 columns."""
    import torch

    torch.set_num_threads(1)
    rows, rng = [], np.random.default_rng(0)
    sampler = sklearn_crt.OPRFSampler(
        sigma=64**-0.25, n_components=n_features, kernel="softmax", random_state=0
    )
    for length in (512, 2048, 8192):
        arrays = 0.3 * rng.standard_normal((3, length, 64), np.float32)
        features = sampler.fit(arrays[0], X_key=arrays[1])
        q, k, v = torch.from_numpy(arrays)
        W = torch.from_numpy(rng.standard_normal((64, n_features), np.float32)) / 8
        values = torch.cat([v, torch.ones(length, 1)], dim=1).view(-1, chunk, 65)

        def products(q=q, k=k, W=W, values=values):
            left, right = ((x @ W).exp().view(-1, chunk, n_features) for x in (q, k))
            sums = torch.cumsum(right.mT @ values, 0)
            return left @ sums + torch.tril(left @ right.mT) @ values

        todo = {
            "linear": partial(
                linear_attention, q, k, v, feature_map=features, causal=True
            ),
            "fused": partial(
                torch.nn.functional.scaled_dot_product_attention,
                *(x[None, None] for x in (q, k, v)),
                is_causal=True,
            ),
            "products": products,
        }
        found = interleave(todo, repeats, CLOCKS[0])
        cells = [f"{1e3 * found[name]:.3g}" for name in todo]
        ratios = [found["fused"] / found[name] for name in ("linear", "products")]
        rows.append([str(length), *cells, *(f"{ratio:.2f}" for ratio in ratios)])
    columns = ["length", "linear", "fused exact", "products alone"]
    columns += ["fused / linear", "fused / products"]
    return Table(f"causal attention in torch, {n_features=}: ms", columns, rows)


SUBJECTS = {
    "features": (features, (8, 16, 64)),
    "rows": (one_row, (3000, 30_000)),
    "averages": (averages, (10_000, 50_000)),
    "local": (local, (3000, 10_000, 30_000)),
    "sigma": (sigma, (3000, 10_000)),
    "attention": (attention, (512, 2048, 8192)),
}


def compare(modules, subject, repeats):
    """Return the table of a subject."""
    function, sizes = SUBJECTS[subject]
    rows, n_calls = [], N_CALLS if subject == "rows" else 1
    for size in sizes:
        for name, (before, now) in function(modules, size):
            todo, cells = {"before": before, "now": now}, []
            for clock in CLOCKS:
                found = interleave(todo, repeats, clock)
                seconds = [found["before"] / n_calls, found["now"] / n_calls]
                cells += [f"{1e3 * s:.3g}" for s in seconds]
                cells.append(f"{seconds[0] / seconds[1]:.2f}")
            rows.append([name, *cells])
    columns = ["before", "now", "ratio", "before (wall)", "now (wall)", "ratio (wall)"]
    return Table(f"{subject}: milliseconds", ["what", *columns], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("revision", help="the version to compare with, as for git")
    names = [*SUBJECTS, "queries", "stream", "causal", "remainder"]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1, "blas"):
        install(options.revision, folder)
        modules = [importlib.import_module(name) for name in (BEFORE, "sklearn_crt")]
        others: dict[str, Callable[[], Table]] = {
            "queries": partial(queries, options.repeats),
            "stream": partial(streams, modules),
            "causal": partial(causal, options.repeats),
            "remainder": left_out,
        }
        tables = [
            others[name]()
            if name in others
            else compare(modules, name, options.repeats)
            for name in options.only
        ]
    report(tables, header(1, options.repeats, CLOCKS[0]))


if __name__ == "__main__":
    sys.exit(main())
