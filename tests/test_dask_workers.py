"""Two worker processes of Dask, one of which dies."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler

da = pytest.importorskip("dask.array", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")
cloudpickle = pytest.importorskip("cloudpickle", reason="comes with dask")
crt_dask = pytest.importorskip("sklearn_crt.dask", reason="needs the extra dask")

SIZE, N_BLOCKS, D = 2**16, 16, 16  # a million rows
SEEN, KILL_AT = "block", 3 * N_BLOCKS // 2  # blocks that were read: half of the second


def make_rows(folder, block_info):
    """Return the rows of a block, and leave a note that they were asked for."""
    number = block_info[None]["chunk-location"][0]
    note = f"{SEEN}-{number}-{os.getpid()}-{time.monotonic_ns()}"
    (folder / note).touch()
    return np.random.default_rng([7, number]).standard_normal((SIZE, D), "float32")


def table(folder):
    chunks = ((SIZE,) * N_BLOCKS, (D,))
    meta = np.empty((0, D), np.float32)
    X = da.map_blocks(make_rows, folder, chunks=chunks, dtype=meta.dtype, meta=meta)
    return X, (X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)


def peak_memory():
    """Return the largest resident memory of this process so far, in MiB."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


def kill_when(folder, pid):
    """Kill a process once so many blocks were read."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if len(list(folder.iterdir())) >= KILL_AT:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.005)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_a_million_rows_and_a_worker_that_dies(tmp_path):
    """The sums are those of one process, the same twice and after a loss."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    model = NadarayaWatsonClassifier(OPRFSampler(n_components=512, random_state=0))
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    )
    fits = []
    with cluster, distributed.Client(cluster) as client:
        for name in ("first", "second", "lost"):
            folder = tmp_path / name
            folder.mkdir()
            before = set(client.run(os.getpid).values())
            if name == "lost":
                killer = threading.Thread(
                    target=kill_when, args=(folder, min(before)), daemon=True
                )
                killer.start()
            fits.append(crt_dask.fit(model, *table(folder)))
        killer.join(60)
        client.wait_for_workers(2, timeout=60)
        after = set(client.run(os.getpid).values())
        memory = client.run(peak_memory)
    assert min(before) not in after  # a worker was lost, and another one came
    n_read = len(list((tmp_path / "lost").iterdir()))
    assert n_read > 2 * N_BLOCKS  # so blocks were read again, each pass reads all once
    assert len(list((tmp_path / "first").iterdir())) == 2 * N_BLOCKS
    queries = np.random.default_rng(1).standard_normal((1000, D), "float32")
    first, *others = (fitted.decision_function(queries) for fitted in fits)
    for other in others:
        assert_array_equal(other, first)
    assert max(memory.values()) < 500  # MiB
    X, y = (table.compute(scheduler="threads") for table in table(tmp_path))
    with threadpool_limits(1):  # as in workers: of it depends the rounding of float32
        expected = model.fit(X, y)
    found = fits[0].decision_function(queries.astype(float))
    assert_allclose(found, expected.decision_function(queries.astype(float)), rtol=1e-9)
    assert_allclose(fits[0].class_count_, expected.class_count_, rtol=0)
    assert_allclose(fits[0].kernel_.A_, expected.kernel_.A_, rtol=1e-12)
