"""Two worker processes of Dask, one of which dies or runs out of memory."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, RandomFeatureRidge

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
        client.wait_for_workers(2, timeout=150)
        after = set(client.run(os.getpid).values())
        memory = client.run(peak_memory)
    assert min(before) not in after  # a worker was lost, and another one came
    n_read = len(list((tmp_path / "lost").iterdir()))
    # so blocks were read again: each pass (statistics, choice of sigma, sums) reads all
    # once
    assert n_read > 3 * N_BLOCKS
    assert len(list((tmp_path / "first").iterdir())) == 3 * N_BLOCKS
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


FEW, LIMIT = 2**11, 600 * 2**20  # rows of a block, bytes of a worker


def troubled_rows(folder, trouble, times, block_info):
    """Return the rows of a block, the fourth of which meets with trouble at first."""
    number = block_info[None]["chunk-location"][0]
    if number == 3 and len(list(folder.iterdir())) < times:
        (folder / str(time.monotonic_ns())).touch()
        if trouble == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        kept = np.ones(2 * LIMIT // 8)
        time.sleep(30)  # the nanny looks ten times a second
        raise AssertionError(f"{kept.nbytes} bytes were let be")
    return np.random.default_rng([7, number]).standard_normal((FEW, D), "float32")


def troubled_table(folder, trouble, times):
    folder.mkdir()
    meta = np.empty((0, D), np.float32)
    chunks = ((FEW,) * N_BLOCKS, (D,))
    options = {"chunks": chunks, "dtype": meta.dtype, "meta": meta}
    return da.map_blocks(troubled_rows, folder, trouble, times, **options)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are killed")
def test_fit_and_map_rows_survive_the_loss_of_a_worker(tmp_path):
    """Killed or out of memory, a worker is replaced; one that always is says so."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    sampler = OPRFSampler(n_components=64, random_state=0)
    cluster = distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        memory_limit=LIMIT,
        dashboard_address=None,
    )
    fits, features, ridges = [], [], []
    ridge = RandomFeatureRidge(sampler)
    with cluster, distributed.Client(cluster):
        for trouble in ("none", "killed", "memory"):
            times = int(trouble != "none")
            X = troubled_table(tmp_path / f"fit {trouble}", trouble, times)
            fits.append(crt_dask.fit(sampler, X))
            X = troubled_table(tmp_path / f"map {trouble}", trouble, times)
            features.append(crt_dask.map_rows(fits[0].transform, X).compute())
            X = troubled_table(tmp_path / f"ridge {trouble}", trouble, times)
            ridges.append(crt_dask.fit(ridge, X, X[:, 0]))
            for what in ("fit", "map", "ridge"):  # it did meet with it
                assert len(list((tmp_path / f"{what} {trouble}").iterdir())) == times
        cluster.scheduler.allowed_failures = 0
        X = troubled_table(tmp_path / "always", "memory", 9)
        with pytest.raises(distributed.scheduler.KilledWorker):
            crt_dask.fit(sampler, X)
        with pytest.raises(distributed.scheduler.KilledWorker):
            crt_dask.map_rows(fits[0].transform, X).compute()
    rows = np.random.default_rng(1).standard_normal((50, D), "float32")
    assert features[0].shape == (FEW * N_BLOCKS, 64)
    for fitted, mapped in zip(fits[1:], features[1:], strict=True):
        assert_array_equal(fitted.transform(rows), fits[0].transform(rows))
        assert_array_equal(mapped, features[0])
    for model in ridges[1:]:
        assert_array_equal(model.coef_, ridges[0].coef_)
