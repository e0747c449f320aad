"""How the time of transform grows: python -m benchmarks.growth.

With rows, columns and features: median processor seconds of interleaved repetitions,
one thread, float64; writes growth.png.
"""

import sys
import time
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import SimplexRBFSampler

from .tables import ROOT, Table, command_parser, header, interleave, report

CENTRE = {"rows": 5000, "columns": 64, "features": 1024}
CURVES = {
    "rows": [500, 1000, 2000, 5000, 10000, 20000, 50000],
    "columns": [4, 16, 64, 256, 1024, 4096],
    "features": [32, 128, 512, 1024, 2048, 4096, 8192],
}
QUICK = {"rows": [500, 1000], "columns": [4, 16], "features": [32, 128]}
MAPS = {
    "RBFSampler": RBFSampler(),
    "TrigRBFSampler": TrigRBFSampler(),
    "OPRFSampler": OPRFSampler(),
    "SimplexRBFSampler, structured": SimplexRBFSampler(coupling="structured-simplex"),
}


def measure(rows, columns, features, repeats):
    """Return seconds of transform by name of the map."""
    X = np.random.default_rng(0).standard_normal((rows, columns)) / columns**0.5
    fitted = {
        name: sampler.set_params(n_components=features, random_state=0).fit(X)
        for name, sampler in MAPS.items()
    }
    candidates = {name: lambda m=m: m.transform(X) for name, m in fitted.items()}
    return interleave(candidates, repeats, time.process_time)


def grow(args):
    """Print the tables and draw the curves."""
    import matplotlib.pyplot as plt

    curves = QUICK if args.quick else CURVES
    path = ROOT / "doc" / "_static" / "growth.png" if args.write else args.output
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    tables = []
    progress = tqdm(total=sum(map(len, curves.values())), file=sys.stderr)
    for ax, (what, sizes) in zip(axes, curves.items(), strict=True):
        results = {}
        for size in sizes:
            with threadpool_limits(1):
                results[size] = measure(**CENTRE | {what: size}, repeats=args.repeats)
            progress.update()
        for name in MAPS:
            ax.loglog(sizes, [results[s][name] for s in sizes], ".-", label=name)
        others = ", ".join(f"{n} {k}" for k, n in CENTRE.items() if k != what)
        ax.set(xlabel=what, title=others)
        rows = [
            [str(size), *(f"{1e3 * times[name]:.3g}" for name in MAPS)]
            for size, times in results.items()
        ]
        tables.append(
            Table(f"Time of transform in milliseconds, {others}", [what, *MAPS], rows)
        )
    axes[0].set_ylabel("seconds of transform")
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=100)
    facts = header(1, args.repeats, time.process_time)
    report(tables, facts, "growth.inc" if args.write else None)


def main():
    """Measure what the command line asks for."""
    parser = command_parser("growth", __doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("growth.png"))
    parser.add_argument("--quick", action="store_true", help="two small sizes each")
    parser.add_argument(
        "--write", action="store_true", help="write the page and figure of the docs"
    )
    grow(parser.parse_args())


if __name__ == "__main__":
    main()
