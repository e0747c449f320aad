"""Memory that the chunks of rows use in turn, where malloc gives each its own pages."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, resource, sys
import numpy as np
import sklearn_crt
from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor


def faults(call, *args):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    call(*args)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


for kind, name, dtype in json.loads(sys.argv[1]):
    rng = np.random.default_rng(0)
    n_rows = 3000 if name == "exact" else 12_000
    X = rng.standard_normal((n_rows, 16)).astype(dtype)
    if name == "exact":
        kernel, n_numbers = "gaussian", n_rows**2
    else:
        sampler = getattr(sklearn_crt, name)
        kernel = sampler(n_components=512, random_state=0)
        n_numbers = n_rows * 512
    make = {"C": NadarayaWatsonClassifier, "R": NadarayaWatsonRegressor}[kind]
    model = make(kernel, sigma=0.3)
    y = rng.integers(0, 4, n_rows)
    model.fit(X[:2000], y[:2000]).predict(X[:2000])  # what is made once
    pages = n_numbers * X.itemsize / resource.getpagesize()
    steps = {"fit": faults(model.fit, X, y), "predict": faults(model.predict, X)}
    print(json.dumps({step: n_faults / pages for step, n_faults in steps.items()}))
"""

CASES = [
    ("C", "OPRFSampler", "float32"),
    ("R", "OPRFSampler", "float32"),
    ("C", "TrigRBFSampler", "float32"),
    ("R", "DERFSampler", "float64"),
    ("C", "exact", "float32"),
    ("R", "exact", "float32"),
]


@pytest.fixture(scope="module")
def shares(request):
    """Return the faults over the pages of all the features, of one process."""
    environment = {
        **os.environ,
        "MALLOC_TRIM_THRESHOLD_": "65536",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    chosen = {
        tuple(item.callspec.params.values())
        for item in request.session.items
        if item.path == request.path
    }
    cases = [case for case in CASES if case in chosen]
    command = [sys.executable, "-c", SCRIPT, json.dumps(cases)]
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr
    lines = map(json.loads, run.stdout.splitlines())
    return dict(zip(cases, lines, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="the setting is one of glibc")
@pytest.mark.parametrize(
    "kind, name, dtype",
    [CASES[0], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[1:])],
)
def test_chunks_share_their_memory(kind, name, dtype, shares):
    """Under the setting of Dask's workers, each large array faults all its pages in.

    An array of a chunk that is new in each is, over all chunks, an array of the size of
    all the features together. The limit is less than one such array.
    """
    arrays = shares[kind, name, dtype]
    print(arrays)
    assert max(arrays.values()) < 0.75, arrays
