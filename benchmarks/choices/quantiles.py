"""Tables of quantiles, intervals and densities from the weights of rows."""

import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KernelDensity
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    LearnedMetric,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
)
from sklearn_crt.life_cycle.intervals import weighted_quantiles

from ..tables import Table, interleave
from .averages import sets_here

TABLES = "abalone_rings", "diabetes", "friedman1", "friedman2", "housing", "sgemm"
LEVELS = 0.05, 0.25, 0.5, 0.75, 0.95
COLUMNS = "forest", "boosting", "average", "metric, average", "local linear"
COLUMNS += ("metric, local linear",)
DENSITY_ROWS = 10_000, 100_000


class QuantileForest:
    """Quantile regression forest: weights of training rows that share leaves.

    Meinshausen 2006, with the defaults of scikit-learn's forest, as quantile-forest.
    """

    def __init__(self, seed):
        self._forest = RandomForestRegressor(random_state=seed)

    def fit(self, X, y):
        """Fit the trees."""
        self._leaves, self._y = self._forest.fit(X, y).apply(X), y
        return self

    def predict_quantiles(self, X, levels):
        """Return quantiles of the targets with the weights of the leaves."""
        weights = np.zeros((len(X), len(self._y)))
        for own, theirs in zip(self._forest.apply(X).T, self._leaves.T, strict=True):
            same = own[:, None] == theirs
            weights += same / same.sum(axis=1, keepdims=True)
        return weighted_quantiles(weights, self._y, np.array(levels))


class Boosting:
    """A model of scikit-learn for each quantile."""

    def __init__(self, seed):
        self._seed = seed

    def fit(self, X, y):
        """Keep the rows: the levels come later."""
        self._rows = X, y
        return self

    def predict_quantiles(self, X, levels):
        """Fit a model for each level."""
        options = {"loss": "quantile", "random_state": self._seed}
        models = (HistGradientBoostingRegressor(quantile=q, **options) for q in levels)
        return np.stack([m.fit(*self._rows).predict(X) for m in models], axis=1)


def quantiles(rows=4000, seeds=4, sets=TABLES):
    """Quantiles of averages and local linear fits beside a forest and boosting.

    Pinball loss, mean over the levels 5, 25, 50, 75 and 95 %, in hundredths of the
    standard deviation of the targets; means over random splits (70 % training rows),
    columns standardised, everything as constructed, but local linear fits have
    ``clip=True``: answers of the others never leave the range of the targets. The
    forest is a quantile regression forest, boosting a model for each level. Then the
    share of test targets in intervals of 90 %, and the processor seconds of the five
    quantiles, fit included.
    """
    losses, shares, seconds = {}, {}, {}
    for name, X, y in sets_here([s for s in TABLES if s in sets], rows):
        scores = [_scores(X, y, seed) for seed in range(seeds)]
        losses[name], times, covers = map(np.array, zip(*scores, strict=True))
        shares[name], seconds[name] = covers, times
    ends = ["average", "local linear", "metric, local linear"]
    return [
        _means("hundredths", COLUMNS, losses, 2),
        _means("percent of targets in intervals of 90 %", ends, shares, 1),
        _means("seconds", COLUMNS, seconds, 1),
    ]


def _scores(X, y, seed):
    """Return losses and seconds of the models, and shares of targets in intervals."""
    y = y.astype(float)
    y = (y - y.mean()) / y.std()
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed
    )
    scaler = StandardScaler().fit(X_train)
    X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    losses, times, covers = [], [], []
    for name in COLUMNS:
        start, rows = time.process_time(), (X_train, X_test)
        if name.startswith("metric"):
            metric = LearnedMetric(random_state=seed).fit(X_train, y_train)
            rows = metric.transform(X_train), metric.transform(X_test)
        model = _model(name, seed).fit(rows[0], y_train)
        found = model.predict_quantiles(rows[1], LEVELS)
        times.append(time.process_time() - start)
        each = zip(found.T, LEVELS, strict=True)
        losses.append([mean_pinball_loss(y_test, q, alpha=level) for q, level in each])
        if name in ("average", "local linear", "metric, local linear"):
            low, high = model.predict_interval(rows[1]).T
            covers.append(100 * np.mean((low <= y_test) & (y_test <= high)))
    return 100 * np.mean(losses, axis=1), times, covers


def _model(name, seed):
    if name in ("forest", "boosting"):
        return (QuantileForest if name == "forest" else Boosting)(seed)
    if "linear" in name:
        return LocalLinearRegressor(clip=True)
    return NadarayaWatsonRegressor()


def _means(title, columns, found, digits):
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    if len(means) > 1:
        means["mean"] = np.mean(list(means.values()), axis=0)
    rows = [[name, *(f"{v:.{digits}f}" for v in vs)] for name, vs in means.items()]
    return Table(title, ["table", *columns], rows)


def density(rows=DENSITY_ROWS):
    """Log densities of averages beside scikit-learn's ``KernelDensity``.

    Normal clouds in eight columns, 1000 queries of the same distribution,
    ``sigma="scale"``; the time of ``KernelDensity.score_samples`` over that of
    ``log_weights``, and the largest difference of the two, less the constant.
    """
    rng, lines = np.random.default_rng(0), []
    centers = 3 * rng.normal(size=(20, 8))
    for n in rows:
        X = centers[rng.integers(20, size=n + 1000)] + rng.normal(size=(n + 1000, 8))
        X, Q = X[:n], X[n:]
        model = NadarayaWatsonRegressor(sigma="scale").fit(X, X[:, 0])
        tree = KernelDensity(bandwidth=1 / model.sigma_).fit(X)
        tasks = {
            "tree": lambda tree=tree, Q=Q: tree.score_samples(Q),
            "average": lambda model=model, Q=Q: model.log_weights(Q),
        }
        gaps = tasks["average"]() - tasks["tree"]()
        times = interleave(tasks, 3, time.process_time)
        ratio = times["tree"] / times["average"]
        worst = np.abs(gaps - np.median(gaps)).max()
        lines.append([str(n), f"{ratio:.1f}", f"{worst:.0e}"])
    return [Table("density", ["rows", "times as fast", "difference"], lines)]
