"""Defaults of the kernel averages against k neighbours: python -m benchmarks.averages.

Tables of scikit-learn and UCI as a first user has them: columns standardised,
categories one-hot, no parameter set. Accuracy for labels, R2 for numbers, in percent;
means over random splits (70 % training rows) and the standard error of their
differences from k neighbours. A UCI table that is not in SKLEARN_CRT_DATA is left out.
"""

import argparse
import sys
import time
import warnings

import numpy as np
from sklearn import datasets
from sklearn.compose import make_column_transformer
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tqdm import tqdm

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
)
from sklearn_crt.datasets import fetch_uci

LABELS = ["iris", "breast_cancer", "digits", "wine"]
UCI_LABELS = ["banknote", "car", "cmc", "wifi", "yeast", "letter"]
NUMBERS, UCI_NUMBERS = ["diabetes"], ["housing", "sgemm"]
MOST_ROWS = 5000


def load(name, most=MOST_ROWS):
    """Return rows and targets, at most so many; None where there is no file."""
    if name in LABELS + NUMBERS:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        return X, y
    try:
        table = fetch_uci(name, download_if_missing=False)
    except OSError:
        return None
    X, y = table.data, table.target
    keep = np.random.default_rng(0).permutation(len(y))[:most]
    if table.categorical_features:
        encode = make_column_transformer(
            (OneHotEncoder(sparse_output=False), table.categorical_features),
            remainder="passthrough",
        )
        X = encode.fit_transform(X)
    return np.asarray(X, dtype=np.float64)[keep], np.asarray(y)[keep]


def estimators(of_numbers, searches):
    """Return the estimators by name, k neighbours first."""
    if of_numbers:
        found = {"k neighbours": KNeighborsRegressor()}
        found["exact"] = NadarayaWatsonRegressor("exact")
        if searches:
            found["search"] = NadarayaWatsonRegressorCV(random_state=0)
        return found
    found = {"k neighbours": KNeighborsClassifier()}
    found["exact"] = NadarayaWatsonClassifier("exact")
    if searches:
        found["search"] = NadarayaWatsonClassifierCV(random_state=0)
    return found


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="benchmarks.averages", description=__doc__)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--searches", action="store_true", help="searches too: slow")
    args = parser.parse_args()
    lines, names = {"labels": [], "numbers": []}, LABELS + UCI_LABELS
    for name in tqdm(names + NUMBERS + UCI_NUMBERS, file=sys.stderr):
        loaded = load(name)
        if loaded is None:
            continue
        X, y = loaded
        of_numbers = name in NUMBERS + UCI_NUMBERS
        scores = {}
        start = time.process_time()
        for seed in range(args.splits):
            split = train_test_split(
                X, y, test_size=0.3, random_state=seed, stratify=None
            )
            X_train, X_test, y_train, y_test = split
            for label, estimator in estimators(of_numbers, args.searches).items():
                model = make_pipeline(StandardScaler(), estimator)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model.fit(X_train, y_train)
                    score = 100 * model.score(X_test, y_test)
                scores.setdefault(label, []).append(score)
        seconds = time.process_time() - start
        lines["numbers" if of_numbers else "labels"].append((name, scores, seconds))
    for kind, rows in lines.items():
        columns = list(rows[0][1])
        print(f"\n| {kind} | {' | '.join(columns)} | seconds |")
        print("| --- |" + " ---: |" * (len(columns) + 1))
        for name, scores, seconds in rows:
            base = np.array(scores["k neighbours"])
            cells = []
            for label in columns:
                values = np.array(scores[label])
                cell = f"{values.mean():.1f}"
                if label != "k neighbours" and values.size > 1:
                    gap = (values - base).std(ddof=1) / np.sqrt(values.size)
                    cell += f" ({gap:.1f})"
                cells.append(cell)
            print(f"| {name} | {' | '.join(cells)} | {seconds:.1f} |")
        means = [np.mean([np.mean(s[label]) for _, s, _ in rows]) for label in columns]
        print("| mean | " + " | ".join(f"{mean:.1f}" for mean in means) + " | |")


if __name__ == "__main__":
    main()
