"""Structured couplings beside dense ones: python -m benchmarks.compare_couplings.

Median processor time of interleaved repetitions, one thread. In brackets, how many
times faster than the dense product of the same frequencies. --write makes the table of
the user guide.
"""

import argparse
import sys
import time

import numpy as np
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import PositiveRBFSampler
from sklearn_crt.frequencies import (
    Frequencies,
    Orthogonal,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
)

from .tables import Table, report
from .timing import header, interleave

TYPES = ("float64", "float32")
SIZES = {
    "quick": [(64, 64), (512, 512)],
    "default": [
        *((d, m) for d in (64, 128, 256, 300) for m in (256, 1024)),
        *(
            (d, m)
            for d in (512, 600, 1024, 2048, 3000, 4096)
            for m in (256, 1024, 4096)
        ),
    ],
}
N_ROWS = 1000
N_BLOCKS, BLOCK = 100, 256


class FastOrthogonal(StructuredOrthogonal):
    """Never written out, however few the columns or frequencies."""

    _dense_up_to = 0


class FastSimplex(StructuredSimplex):
    """Never written out, however few the columns or frequencies."""

    _dense_up_to = 0


COUPLINGS = {
    "structured-orthogonal": FastOrthogonal(),
    "structured-simplex": FastSimplex(),
}


def products(d, m, dtype):
    """Return the products of rows with frequencies, dense and by fast transforms."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N_ROWS, d)).astype(dtype)
    projections = {"dense": Frequencies(rng.standard_normal((d, m)))}
    for name, coupling in COUPLINGS.items():
        projections[name] = coupling.draw(chi_law, m, d, rng)
    moved = {name: p.to(dtype) for name, p in projections.items()}
    return {name: lambda p=p: p.apply(X) for name, p in moved.items()}


def samplers(d, m, dtype, method):
    """Return fit or transform of positive features with simplex blocks."""
    X = np.random.default_rng(0).standard_normal((N_ROWS, d)).astype(dtype)
    candidates = {}
    for name in ("simplex", "structured-simplex"):
        sampler = PositiveRBFSampler(coupling=name, n_components=m, random_state=0)
        sampler.fit(X)
        candidates[name] = lambda s=sampler: getattr(s, method)(X)
    return candidates


def draws():
    """Return the draw of orthogonal blocks, and the QR decompositions alone."""
    blocks = np.random.default_rng(0).standard_normal((N_BLOCKS, BLOCK, BLOCK))

    def bare():
        for block in blocks:
            r, tau, _, _ = lapack.dgeqrf(block.T, lwork=64 * BLOCK)
            lapack.dorgqr(r, tau, lwork=64 * BLOCK, overwrite_a=True)

    def draw():
        rng = np.random.default_rng(0)
        Orthogonal().draw(chi_law, N_BLOCKS * BLOCK, BLOCK, rng)

    return {
        "geqrf and orgqr of LAPACK": bare,
        "numpy.linalg.qr": lambda: np.linalg.qr(blocks),
        "Orthogonal().draw": draw,
    }


def against_first(title, first_column, results):
    """Return a table of milliseconds, with ratios to the first candidate."""
    names = list(next(iter(results.values())))
    rows = []
    for case, seconds in results.items():
        base = seconds[names[0]]
        cells = [f"{1e3 * s:.3g} ({base / s:.2f})" for s in seconds.values()]
        rows.append([case, f"{1e3 * base:.3g}", *cells[1:]])
    return Table(f"{title}: milliseconds (times faster)", [first_column, *names], rows)


def main():
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.compare_couplings", description=__doc__
    )
    parser.add_argument("--cases", default="default", choices=list(SIZES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs"
    )
    args = parser.parse_args()
    largest = SIZES[args.cases][-1]
    todo = {
        f"w.x of {N_ROWS} rows": {
            f"{d} to {m}, {dtype}": lambda d=d, m=m, t=dtype: products(d, m, t)
            for d, m in SIZES[args.cases]
            for dtype in TYPES
        },
        f"PositiveRBFSampler, {N_ROWS} rows": {
            f"{method}, {largest[0]} to {largest[1]}, {dtype}": (
                lambda t=dtype, f=method: samplers(*largest, t, f)
            )
            for method in ("transform", "fit")
            for dtype in TYPES
        },
        "draw of orthogonal blocks": {f"{N_BLOCKS} blocks, {BLOCK} columns": draws},
    }
    tables = []
    progress = tqdm(total=sum(map(len, todo.values())), file=sys.stderr)
    with threadpool_limits(1, user_api="blas"):
        for title, cases in todo.items():
            results = {}
            for case, candidates in cases.items():
                progress.set_description(case)
                results[case] = interleave(
                    candidates(), args.repeats, time.process_time
                )
                progress.update()
            tables.append(against_first(title, "what", results))
        facts = header(1, args.repeats, time.process_time)
    command = "python -m benchmarks.compare_couplings " + " ".join(sys.argv[1:])
    report(tables, facts, command.strip(), "couplings.inc" if args.write else None)


if __name__ == "__main__":
    main()
