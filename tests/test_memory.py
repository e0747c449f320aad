"""A table that is larger than the memory it may take."""

import json
import subprocess
import sys

import numpy as np
import pytest

SCRIPT = """
import json, sys
import numpy as np
import sklearn_crt
from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler


def peak():  # of this process, not of the one it was forked from
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


before = peak()
X = np.load(sys.argv[1], mmap_mode="r")
y = np.load(sys.argv[2], mmap_mode="r")
model = NadarayaWatsonClassifier(OPRFSampler(n_components=128, random_state=0))
if sys.argv[3] == "batches":
    for start in range(0, len(X), 100_000):
        rows = slice(start, start + 100_000)
        model.partial_fit(X[rows], y[rows], classes=[0, 1, 2])
else:
    model.fit(X, y)
accuracy = np.mean(model.predict(X[:100_000]) == y[:100_000])
print(json.dumps({"grown": peak() - before, "accuracy": accuracy}))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table of 400,000 rows and their labels."""
    rng, folder = np.random.default_rng(0), tmp_path_factory.mktemp("table")
    y = rng.integers(0, 3, size=400_000)
    X = np.lib.format.open_memmap(
        folder / "X.npy", mode="w+", dtype=np.float32, shape=(400_000, 20)
    )
    for start in range(0, len(X), 100_000):
        rows = slice(start, start + 100_000)
        X[rows] = rng.standard_normal((100_000, 20), dtype=np.float32)
        X[rows, 0] += 4 * y[rows]
    X.flush()
    np.save(folder / "y.npy", y)
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    "way", ["batches", pytest.param("at once", marks=pytest.mark.slow)]
)
def test_rows_take_less_memory_than_their_features(way, folder):
    """Of 205 MB, and of 32 MB of rows, which the process maps to read them."""
    command = [sys.executable, "-c", SCRIPT, "X.npy", "y.npy", way]
    out = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder
    )
    assert out.returncode == 0, out.stderr
    result = json.loads(out.stdout)
    assert result["grown"] < 150  # MB
    assert result["accuracy"] > 0.5
