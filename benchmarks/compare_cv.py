"""Compare NadarayaWatsonClassifierCV with the equal GridSearchCV.

Run as ``python -m benchmarks.compare_cv``. Nursery, one-hot and standardised, where
SKLEARN_CRT_DATA has the file, else the digits of scikit-learn; ten sigmas, six numbers
of features, five folds. One process, the two take turns; medians and their ratio.
"""

import argparse
import time

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tqdm import tqdm

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.datasets import fetch_uci

SIGMAS, SIZES = np.logspace(-2, 2, 10), [16, 32, 48, 64, 96, 128]


def load():
    """Return name, standardised rows and labels."""
    try:
        X, y = fetch_uci("nursery", download_if_missing=False, return_X_y=True)
    except OSError:
        X, y = load_digits(return_X_y=True)
        return "digits", StandardScaler().fit_transform(X), y
    X = OneHotEncoder(sparse_output=False).fit_transform(X)
    return "nursery", StandardScaler().fit_transform(X), y


def main():
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare_cv", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    name, X, y = load()
    print(f"{name}, {X.shape[0]} x {X.shape[1]}, processor seconds\n")
    print("| sampler | GridSearchCV | NadarayaWatsonClassifierCV | ratio | same |")
    print("| --- | ---: | ---: | ---: | --- |")
    for cls in tqdm((OPRFSampler, TrigRBFSampler)):
        sampler = cls(random_state=0)
        grid = {"sampler__n_components": SIZES, "sampler__sigma": SIGMAS}
        searches = {
            "grid": GridSearchCV(NadarayaWatsonClassifier(sampler), grid, cv=5),
            "path": NadarayaWatsonClassifierCV(
                sampler, sigmas=SIGMAS, n_components=SIZES, cv=5
            ),
        }
        seconds = {label: [] for label in searches}
        for _ in range(args.repeats):
            for label, search in searches.items():
                start = time.process_time()
                search.fit(X, y)
                seconds[label].append(time.process_time() - start)
        scores = [s.cv_results_["mean_test_score"] for s in searches.values()]
        best = [s.best_index_ for s in searches.values()]
        same = best[0] == best[1] and np.allclose(*scores, rtol=0, atol=1e-12)
        a, b = (np.median(times) for times in seconds.values())
        print(f"| {cls.__name__} | {a:.2f} | {b:.2f} | {a / b:.1f} | {same} |")


if __name__ == "__main__":
    main()
