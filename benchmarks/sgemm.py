"""Table 5 of the paper on Laplacian kernels, SGEMM: python -m benchmarks.sgemm.

Ridge regression on orthogonal features of all training rows (arXiv:2502.15575). With
the paper's 7,168 frequencies, that is, 14,336 columns, one kernel takes ten minutes
of processor time and 5 GiB of memory. The data set is read by ``fetch_uci``.
"""

import sys
import time

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from tqdm import tqdm

from sklearn_crt import ExponentialPowerSampler, LaplacianSampler, MaternSampler
from sklearn_crt.datasets import fetch_uci

from .commands import Command
from .tables import Table

SAMPLERS = {
    "Laplacian": LaplacianSampler(),
    "exponential-power, alpha = 0.7": ExponentialPowerSampler(alpha=0.7),
    "Matérn, nu = 3/2": MaternSampler(nu=1.5),
}
PAPER = {  # 100 R^2 of ORF: mean and standard deviation
    "Laplacian": "97.1 ± 0.02",
    "exponential-power, alpha = 0.7": "97.1 ± 0.10",
    "Matérn, nu = 3/2": "96.3 ± 0.02",
}
SIGMAS = [1.4, 2.0, 2.8, 4.0, 5.6, 8.0]
PENALTIES = [1e-4, 1e-3, 1e-2, 1e-1]
CHUNK = 4096


def load(max_rows):
    """Return X_train, X_test, y_train, y_test as in the notebook on this paper."""
    X, y = fetch_uci("sgemm", return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(
        normalize(X.astype(np.float32)), np.log(y), test_size=0.2, random_state=0
    )
    mean, deviation = y_train.mean(), y_train.std()
    y_train, y_test = ((y - mean) / deviation for y in (y_train, y_test))
    order = np.random.default_rng(0).permutation(len(y_train))[:max_rows]
    return X_train[order], X_test, y_train[order], y_test


def add_rows(sampler, X, y, gram, moments):
    """Add the rows to the Gram matrix of the features and to their moments with y."""
    for start in tqdm(range(0, len(X), CHUNK), leave=False, file=sys.stderr):
        rows = slice(start, start + CHUNK)
        features = sampler.transform(X[rows])
        gram += features.T @ features
        moments += features.T @ y[rows]


def solve(gram, moments, penalty):
    """Return the coefficients of ridge regression."""
    system = gram.copy()
    system[np.diag_indices_from(system)] += penalty
    factor = cho_factor(system, overwrite_a=True, check_finite=False)
    return cho_solve(factor, moments, check_finite=False)


def score(sampler, X, y, coefficients):
    """Return 100 R^2."""
    parts = [X[start : start + CHUNK] for start in range(0, len(X), CHUNK)]
    predicted = [sampler.transform(part) @ coefficients for part in parts]
    return 100 * r2_score(y, np.concatenate(predicted))


def fit_and_validate(sampler, X, y, held_out):
    """Return the sums over the other rows, and the best score with its penalty.

    ``held_out`` is the number of rows at the end that are used for validation.
    """
    gram = np.zeros((sampler.n_components,) * 2)  # sums of float32 products
    moments = np.zeros(sampler.n_components)
    add_rows(sampler, X[:-held_out], y[:-held_out], gram, moments)
    X, y = X[-held_out:], y[-held_out:]
    best = max((score(sampler, X, y, solve(gram, moments, p)), p) for p in PENALTIES)
    return gram, moments, *best


def measure(name, X, X_test, y, y_test, n_frequencies):
    """Return the row of the table for one kernel."""
    start = time.process_time()
    sampler = SAMPLERS[name].set_params(coupling="orthogonal", random_state=0)
    few = slice(max(len(X) // 5, 1000))
    validation = {}
    for sigma in SIGMAS:
        sampler.set_params(sigma=sigma, n_components=min(4096, n_frequencies))
        *_, validation[sigma], _ = fit_and_validate(
            sampler.fit(X[:1]), X[few], y[few], len(X[few]) // 5
        )
    sigma = max(validation, key=validation.get)

    sampler.set_params(sigma=sigma, n_components=2 * n_frequencies).fit(X[:1])
    n_held_out = len(X) // 10
    gram, moments, _, penalty = fit_and_validate(sampler, X, y, n_held_out)
    add_rows(sampler, X[-n_held_out:], y[-n_held_out:], gram, moments)
    found = score(sampler, X_test, y_test, solve(gram, moments, penalty))
    seconds = time.process_time() - start
    chosen = [f"{sigma:g}", f"{penalty:g}"]
    return [name, f"{found:.2f}", PAPER[name], *chosen, f"{seconds:.0f}"]


def sgemm(frequencies=7168, rows=10**6):
    """Return the table of all kernels."""
    data = load(rows)
    lines = [measure(name, *data, frequencies) for name in SAMPLERS]
    title = (
        f"SGEMM, {len(data[0]):,} training rows, {frequencies:,} orthogonal "
        f"frequencies ({2 * frequencies:,} columns)"
    )
    columns = ["kernel", "100 R²", "paper", "sigma", "penalty", "processor seconds"]
    return [Table(title, columns, lines)]


if __name__ == "__main__":
    Command(sgemm, "sgemm.inc", {"frequencies": 128, "rows": 2000}).main()
