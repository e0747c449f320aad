"""Tables with categories and missing values: kernels beside boosting."""

import importlib.util
import time
from functools import partial

import numpy as np
import pandas as pd
from sklearn.datasets import fetch_covtype
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.metrics import accuracy_score, log_loss, mean_squared_error, r2_score
from sklearn.model_selection import train_test_split

from sklearn_crt import AnovaSampler, RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.tables import TableClassifier, TableRegressor

from ..tables import Table
from .splits import (
    MOST_TEST,
    REGRESSION,
    data_file,
    sets_here,
    some_rows_of,
    split_of,
    splits_of,
)

ADULT = "age workclass fnlwgt education education_num marital occupation relationship"
ADULT += " race sex gain loss hours country income"
# file and target (None: the last column)
LABELS = {
    "adult": ("adult", "income"),
    "attrition": ("attrition", "Attrition"),
    "credit": ("credit_data", "Status"),
    "churn": ("mlc_churn", "churn"),
    "lending": ("lending_club", "Class"),
    "german": ("german", None),
    "hpc": ("hpc_data", "class"),
    "arrests": ("Arrests", "released"),
    "chile": ("Chile", "vote"),
    "titanic": ("TitanicSurvival", "survived"),
}
NUMBERS = {
    "diamonds": ("diamonds", "price"),
    "ames": ("ames", "Sale_Price"),
    "wage": ("Wage", "wage"),
    "computers": ("Computers", "price"),
    "loans": ("loans_full_schema", "interest_rate"),
    "slid": ("SLID", "wages"),
    "imports": ("auto_imports", None),
    "nmes": ("NMES1988", "visits"),
}
# columns that tell the target, and one that has nearly as many values as rows
LEFT_OUT = {"wage": ["logwage"], "loans": ["grade", "sub_grade", "emp_title"]}
# further tables of up to LARGE_ROWS rows, with another name for the same file
LARGE = {"adult-large": "adult", "diamonds-large": "diamonds", "covtype": "covtype"}
LARGE_ROWS = 50_000
PACKAGES = {  # of the models that are left out where they are not installed
    "CatBoost": "catboost",
    "LightGBM": "lightgbm",
    "EBM": "interpret",
    "skrub": "skrub",
}
NAMES = "boosting", *PACKAGES, "ANOVA", "blend"


def tables(
    rows=3000,
    seeds=2,
    sets=(*LABELS, *NUMBERS, *REGRESSION, *LARGE),
    methods=NAMES,
):
    """Tables with categories and missing values, and plain tables of numbers.

    Eighteen mixed tables, raw (70 % of at most 3000 rows for training), twelve tables
    of numbers with fixed splits (at most 3000 rows for training), and three tables of
    up to 50,000 rows (70 % for training). The score is accuracy for labels and R2 for
    numbers, in percent. Skewed positive targets are replaced by their logarithms. All
    models are as constructed; boosting, CatBoost and LightGBM are told which columns
    are categories. EBM is the explainable boosting machine of interpret, and skrub its
    tabular_pipeline, which ends in boosting. Models that are not installed are left out
    (the dependency group ``models`` has them). Seconds are those of the processor, for
    fitting and predicting with one thread.
    """
    return _report(*_found(rows, seeds, sets, methods))


def _found(rows, seeds, sets, methods):
    """Return the means of all measures by table and model, and the models."""
    found, names = {}, _installed(methods)
    parts_of = splits_of(partial(_parts, rows), seeds)
    for table, splits in sets_here(sets, parts_of):
        found[table] = {
            name: np.mean([_measured(name, table, *parts) for parts in splits], axis=0)
            for name in names
        }
    return found, names


def _installed(methods):
    """Return the models whose packages are installed."""
    return [n for n in methods if importlib.util.find_spec(PACKAGES.get(n, "numpy"))]


def load_mixed(name):
    """Return the raw columns and the target of a mixed table."""
    if name == "covtype":
        found = fetch_covtype(as_frame=True, n_retries=1)
        return found.data, found.target.astype(str).to_numpy(dtype=object)
    file, target = {**LABELS, **NUMBERS}[name]
    options = {"na_values": ["NA", "", "?"], "keep_default_na": False}
    if name == "adult":
        options |= {"names": ADULT.split(), "skipinitialspace": True}
        parts = [_file(f"adult-{part}", options) for part in ("train", "test")]
        frame = pd.concat(parts, ignore_index=True)
        frame["income"] = frame["income"].str.rstrip(".")
    elif target is None:
        frame = _file(file, options | {"header": None})
        frame.columns = [f"c{column}" for column in frame.columns]
        target = frame.columns[-1]
    else:
        frame = _file(file, options).drop(columns=["rownames"])
    frame = frame.dropna(subset=[target]).reset_index(drop=True)
    frame = frame.drop(columns=LEFT_OUT.get(name, []))
    y = frame.pop(target)
    for column in frame.columns[[t.kind not in "iuf" for t in frame.dtypes]]:
        text = frame[column].astype(str).astype(object)
        frame[column] = text.where(frame[column].notna(), None)
    if name in LABELS:
        return frame, y.astype(str).to_numpy(dtype=object)
    y = y.astype(float)
    return frame, (np.log(y) if y.min() > 0 and abs(y.skew()) > 1.5 else y).to_numpy()


def _file(name, options):
    return pd.read_csv(data_file(f"mixed/{name}.csv.gz"), **options)


def _parts(rows, name, seed):
    """Return X, X_test, y, y_test."""
    if name in REGRESSION:
        X, y, X_test, y_test = split_of(name, seed)
        X, y = some_rows_of(X, y, rows, seed)
        return pd.DataFrame(X), pd.DataFrame(X_test), y, y_test[:MOST_TEST]
    rows = LARGE_ROWS if name in LARGE else rows
    X, y = load_mixed(LARGE.get(name, name))
    keep = np.random.default_rng(seed).permutation(len(y))[:rows]
    return train_test_split(X.iloc[keep], y[keep], test_size=0.3, random_state=seed)


def _model(method, labels, texts):
    """Return a model as constructed, but for its seed, one thread, and categories."""
    kind = "Classifier" if labels else "Regressor"
    boosting = (
        HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    )
    if method == "boosting":
        return boosting(categorical_features="from_dtype", random_state=0)
    if method == "blend":
        return (TableClassifier if labels else TableRegressor)(random_state=0)
    if method == "ANOVA":
        ridge = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge
        return ridge(AnovaSampler(random_state=0))
    package = importlib.import_module(PACKAGES[method])
    if method == "skrub":
        return package.tabular_pipeline(boosting(random_state=0))
    if method == "EBM":
        glassbox = importlib.import_module("interpret.glassbox")
        model = getattr(glassbox, f"ExplainableBoosting{kind}")
        return model(random_state=0, n_jobs=1)
    if method == "LightGBM":
        model = getattr(package, f"LGBM{kind}")
        return model(random_state=0, n_jobs=1, verbose=-1)
    options = {"allow_writing_files": False, "thread_count": 1, "verbose": False}
    model = getattr(package, f"CatBoost{kind}")
    return model(cat_features=texts, random_seed=0, **options)


def _measured(method, table, X, X_test, y, y_test):
    """Return the score, the log loss or the mean squared error, and seconds."""
    labels = _has_labels(table)
    texts = [column for column in X.columns if X[column].dtype.kind not in "iuf"]
    if method in {"boosting", "LightGBM"}:
        known = {
            column: pd.CategoricalDtype(X[column].dropna().unique()) for column in texts
        }
        X, X_test = X.astype(known), X_test.astype(known)
    elif method == "CatBoost":
        X, X_test = (
            Z.assign(**{c: Z[c].fillna("missing") for c in texts}) for Z in (X, X_test)
        )
    model = _model(method, labels, texts)
    start = time.process_time()
    model.fit(X, y)
    found = np.asarray(model.predict(X_test)).ravel()
    if labels:
        p = np.clip(model.predict_proba(X_test), 1e-6, None)
    seconds = time.process_time() - start
    if not labels:
        error = mean_squared_error(y_test, found)
        return [100 * r2_score(y_test, found), error, seconds]
    p /= p.sum(axis=1, keepdims=True)
    known = np.isin(y_test, model.classes_)
    loss = log_loss(y_test[known], p[known], labels=list(model.classes_))
    return [100 * accuracy_score(y_test, found), loss, seconds]


def _has_labels(table):
    return LARGE.get(table, table) in {*LABELS, "covtype"}


def _report(means, names):
    """Return tables of scores, of log losses and errors, and of seconds."""
    reports = []
    for title, known in (
        ("Data sets with categories", [*LABELS, *NUMBERS]),
        ("Numeric data sets", REGRESSION),
        ("Large data sets", LARGE),
    ):
        chosen = [table for table in known if table in means]
        if not chosen:
            continue
        values = np.array([[means[t][name] for name in names] for t in chosen])
        scores, losses, seconds = np.moveaxis(values, 2, 0)
        lines = [(t, row, ".1f") for t, row in zip(chosen, scores, strict=True)]
        lines.append(("mean", scores.mean(axis=0), ".2f"))
        wins = (scores[:, -1:] > scores).sum(axis=0)
        lines.append((f"tables on which {names[-1]} is better", wins, ".0f"))
        is_label = np.array([_has_labels(table) for table in chosen])
        if is_label.any():
            mean = losses[is_label].mean(axis=0)
            lines.append(("mean log loss (classification)", mean, ".4f"))
        if not is_label.all():
            roots = np.log(np.sqrt(losses[~is_label]))
            ratio = np.exp((roots - roots[:, -1:]).mean(axis=0))
            lines.append((f"RMSE relative to {names[-1]} (regression)", ratio, ".3f"))
        lines.append(("seconds, mean", seconds.mean(axis=0), ".2f"))
        lines.append(("seconds, maximum", seconds.max(axis=0), ".2f"))
        rows = [[line, *(format(v, form) for v in row)] for line, row, form in lines]
        reports.append(
            Table(f"{title}: accuracy or 100 R²", ["data set", *names], rows)
        )
    return reports
