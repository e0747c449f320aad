"""Seconds that kernel_variance takes: python -m benchmarks.variances.

All pairs of 2000 and 2000 rows of 16 normal columns at sigma=1/4, float64, 512
columns out, one thread, processor time: of the first call, which also makes tables of
what blocks of frequencies save, and of the median of three further calls. Each sampler
has the parameters of the common tests and every coupling that it can use, where the
variance is a closed form.
"""

import argparse
import sys
import time
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt.frequencies import coupling_names
from sklearn_crt.samplers import HybridSampler, clustered_hybrid, gaussian_hybrid
from tests.cases import sampler_cases
from tests.hybrids import optimal_parts

from .tables import Table, header, report

SIGMA, N_COLUMNS = 0.25, 512
HYBRIDS = {  # whose coupling is that of their parts
    "HybridSampler()": lambda coupling, **params: HybridSampler(
        **optimal_parts(coupling), **params
    ),
    "gaussian_hybrid(kernel='softmax')": partial(gaussian_hybrid, kernel="softmax"),
    "clustered_hybrid(center=True)": partial(clustered_hybrid, center=True),
}


def cases():
    """Return lists of samplers by their names without coupling, one per coupling."""
    found = {}
    for sampler in sampler_cases():
        if isinstance(sampler, HybridSampler):
            continue
        params = sampler.get_params(deep=False)
        params |= {"sigma": SIGMA, "n_components": N_COLUMNS, "random_state": 0}
        params |= {"n_jobs": None}
        plain = sampler.set_params(**params)
        names = coupling_names() if "coupling" in params else [""]
        name = _without_coupling(plain)
        rows = found.setdefault(name, {})
        for coupling in names:
            change = {"coupling": coupling} if coupling else {}
            rows[coupling or "iid"] = type(sampler)(**params | change)
    params = {"sigma": SIGMA, "n_components": N_COLUMNS, "random_state": 0}
    for name, make in HYBRIDS.items():
        couplings = "iid", "orthogonal", "simplex"
        found[name] = {one: make(coupling=one, **params) for one in couplings}
    return found


def _without_coupling(sampler):
    cls = type(sampler)
    defaults = cls().get_params(deep=False)
    own = {
        name: value
        for name, value in sampler.get_params(deep=False).items()
        if value != defaults[name]
        and name not in ("coupling", "sigma", "n_components", "random_state")
    }
    return f"{cls.__name__}({', '.join(f'{k}={v!r}' for k, v in own.items())})"


def seconds(sampler, X, Y):
    """Return those of the first and of further calls; None without a closed form."""
    try:
        sampler.fit(X)
    except ValueError:  # a coupling that the sampler cannot use
        return None
    if not sampler.map_.variance_is_exact:
        return None
    found = []
    for _ in range(4):
        start = time.process_time()
        sampler.kernel_variance(X, Y)
        found.append(time.process_time() - start)
    return found[0], float(np.median(found[1:]))


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.variances", description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument(
        "--write", action="store_true", help="write the table into the documentation"
    )
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, args.rows, 16))
    columns, rows, slowest = coupling_names(), [], 0.0
    for name, members in tqdm(cases().items(), file=sys.stderr):
        with threadpool_limits(1):
            found = {key: seconds(one, X, Y) for key, one in members.items()}
        slowest = max([slowest, *(max(pair) for pair in found.values() if pair)])
        cells = [found.get(column) for column in columns]
        rows.append(
            [name, *("" if c is None else f"{c[0]:.2f}, {c[1]:.2f}" for c in cells)]
        )
    known = [any(row[i] for row in rows) for i in range(1 + len(columns))]
    rows = [[c for c, k in zip(r, known, strict=True) if k] for r in rows if any(r[1:])]
    columns = [c for c, k in zip(["sampler", *columns], known, strict=True) if k]
    title = f"kernel_variance of {args.rows} x {args.rows} pairs: seconds"
    notes = (f"The first call, the median of three more; at most {slowest:.2f}.",)
    table = Table(title, columns, rows, notes)
    report([table], header(1), "variances.inc" if args.write else None)


if __name__ == "__main__":
    main()
