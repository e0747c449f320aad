"""How the time of transform grows: python -m benchmarks.growth.

With rows, columns and features: median processor seconds of interleaved repetitions,
one thread, float64; ``--write`` also draws growth.png.
"""

import sys
import time

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from tqdm import tqdm

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import SimplexRBFSampler

from .commands import Command
from .tables import ROOT, Table, interleave

CENTRE = {"rows": 5000, "columns": 64, "features": 1024}
CURVES = {
    "rows": [500, 1000, 2000, 5000, 10000, 20000, 50000],
    "columns": [4, 16, 64, 256, 1024, 4096],
    "features": [32, 128, 512, 1024, 2048, 4096, 8192],
}
FEW = {"rows": [500, 1000], "columns": [4, 16], "features": [32, 128]}
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


def growth(sizes="all", repeats=5, write=False):
    """Return the tables, and draw the curves of the docs."""
    curves, tables = CURVES if sizes == "all" else FEW, []
    progress = tqdm(total=sum(map(len, curves.values())), file=sys.stderr)
    for what, values in curves.items():
        rows = []
        for value in values:
            times = measure(**CENTRE | {what: value}, repeats=repeats)
            rows.append([str(value), *(f"{1e3 * times[name]:.3g}" for name in MAPS)])
            progress.update()
        title = f"Time of transform in milliseconds, {other_sizes(what)}"
        tables.append(Table(title, [what, *MAPS], rows))
    if write:
        plot(tables, ROOT / "doc" / "_static" / "growth.png")
    return tables


def other_sizes(what):
    """Return the sizes that stay the same."""
    return ", ".join(f"{n} {k}" for k, n in CENTRE.items() if k != what)


def plot(tables, path):
    """Draw seconds against sizes, one panel per table."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    for ax, table in zip(axes, tables, strict=True):
        sizes, *times = np.array(table.rows, dtype=float).T
        what, *names = table.columns
        for name, milliseconds in zip(names, times, strict=True):
            ax.loglog(sizes, milliseconds / 1e3, ".-", label=name)
        ax.set(xlabel=what, title=other_sizes(what))
    axes[0].set_ylabel("seconds of transform")
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    Command(growth, "growth.inc", {"sizes": "few", "repeats": 1}).main()
