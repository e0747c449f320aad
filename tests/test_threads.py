"""One fitted estimator that many threads use at once."""

import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_crt import (
    DERFSampler,
    HybridSampler,
    MaternSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PoissonSampler,
    Prototypes,
    TrigRBFSampler,
)

N_THREADS = 8
N_ROWS = 600  # two chunks
METHODS = (
    "transform",
    "transform_key",
    "kernel_variance",
    "approximate_kernel",
    "predict",
    "predict_proba",
    "decision_function",
)


@pytest.fixture
def hasty():
    """Let threads take turns as often as they can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def at_once(function):
    """Call a function of no arguments in eight threads, which begin together."""
    barrier = threading.Barrier(N_THREADS, timeout=60)
    results, errors = [None] * N_THREADS, []

    def work(i):
        barrier.wait()
        try:
            results[i] = function()
        except Exception as error:  # seen by the test, not by the thread
            errors.append(error)

    threads = [
        threading.Thread(target=work, args=(i,), daemon=True) for i in range(N_THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not errors
    return results


@pytest.mark.filterwarnings("ignore:This hybrid needs|.* maps need:UserWarning")
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel:RuntimeWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        OPRFSampler(n_jobs=2),
        TrigRBFSampler(n_components=7, random_phase=True),
        DERFSampler(),
        PoissonSampler(),
        MaternSampler(nu=2.7),
        HybridSampler(kind="clustered"),
        NadarayaWatsonClassifier(),
        NadarayaWatsonClassifier(OPRFSampler()),
        NadarayaWatsonClassifier(TrigRBFSampler()),
        NadarayaWatsonRegressor(HybridSampler()),
        NadarayaWatsonRegressor(Prototypes()),
    ],
    ids=repr,
)
def test_threads_give_what_one_gives(rng, estimator, hasty):
    """Bitwise, from tables that are not there yet when they begin."""
    X = rng.standard_normal((N_ROWS, 6))
    queries = [X.astype(dtype) for dtype in ("float64", "float32")]
    y = (X[:, 0] > 0).astype(int)
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    stored = pickle.dumps(estimator.fit(X, y))

    def all_methods(fitted):
        found = []
        for name in METHODS:
            if hasattr(fitted, name):
                few = slice(20 if "kernel" in name else None)
                found += [getattr(fitted, name)(rows[few]) for rows in queries]
        return found

    expected = all_methods(pickle.loads(stored))
    shared = pickle.loads(stored)
    for results in at_once(lambda: all_methods(shared)):
        for result, one in zip(results, expected, strict=True):
            assert np.array_equal(result, one)


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel:RuntimeWarning")
def test_threads_that_fit_clones(rng, hasty):
    X = rng.standard_normal((N_ROWS, 6))
    y = (X[:, 0] > 0).astype(int)
    model = NadarayaWatsonClassifier(TrigRBFSampler(random_state=0))
    expected = clone(model).fit(X, y).predict_proba(X)
    for result in at_once(lambda: clone(model).fit(X, y).predict_proba(X)):
        assert np.array_equal(result, expected)


# Signals and forks ----------------------------------------------------------------

# BLAS that has three threads, and a sampler whose transform holds it to one
PRELUDE = """
import os, random, signal, sys, threading, time
import numpy as np
from sklearn_crt import OPRFSampler, _workers

libraries = _workers._get_threadpool_controller().lib_controllers
blas = [library for library in libraries if library.user_api == "blas"]
_workers._clear_controlling_thread(force=True)
for library in blas:
    library.set_num_threads(3)
_workers._clear_controlling_thread(force=True)
X = np.random.default_rng(0).standard_normal((2000, 8))
sampler = OPRFSampler(n_components=256, n_jobs=2, random_state=0).fit(X)

def lifted(seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if all(library.num_threads == 3 for library in blas):
            return True
        time.sleep(0.001)
    return False
"""

INTERRUPTED = """
random.seed(int(sys.argv[2]))
sending = threading.Event()

def send():
    while True:
        sending.wait()
        sending.clear()
        for _ in range(random.randint(2, 4)):
            time.sleep(random.uniform(0, 0.005))
            os.kill(os.getpid(), signal.SIGINT)
        sent.set()

sent = threading.Event()
threading.Thread(target=send, daemon=True).start()
n_left = 0
for _ in range(int(sys.argv[1])):
    sent.clear()
    sending.set()
    while not sent.is_set():
        try:
            while not sent.is_set():
                sampler.transform(X)
        except KeyboardInterrupt:
            pass
    try:
        time.sleep(0.001)
    except KeyboardInterrupt:
        pass
    n_left += not lifted()
assert sampler.transform(X).shape == (2000, 256)
print("left", n_left)
"""

FORKED = """
over = threading.Event()

def work():
    while not over.is_set():
        sampler.transform(X)

threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
n_left = n_hung = 0
for _ in range(int(sys.argv[1])):
    time.sleep(random.uniform(0, 0.01))
    child = os.fork()
    if child == 0:
        os._exit(0 if lifted(0.1) else 1)
    end = time.monotonic() + 5
    while (found := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.005)
    if found[0] == 0:
        n_hung += 1
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    n_left += found[1] != 0
over.set()
for thread in threads:
    thread.join()
print("hung", n_hung)
print("left", n_left)
"""


def run_script(script, *arguments, timeout):
    """Return what a process of its own prints; one that hangs is an error."""
    command = [sys.executable, "-W", "ignore", "-c", PRELUDE + script]
    command += map(str, arguments)
    run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert run.returncode == 0, run.stderr
    return run.stdout.split("\n")[:-1]


no_signals = pytest.mark.skipif(os.name != "posix", reason="needs signals and forks")


@no_signals
@pytest.mark.parametrize(
    "n_bursts, seed", [(60, 0), pytest.param(2000, 1, marks=pytest.mark.slow)]
)
def test_interrupts_leave_blas_as_it_was(n_bursts, seed):
    """Also two to four in a row, and the process ends."""
    found = run_script(INTERRUPTED, n_bursts, seed, timeout=20 + n_bursts / 5)
    assert found == ["left 0"]


@no_signals
@pytest.mark.parametrize("n_forks", [15, pytest.param(500, marks=pytest.mark.slow)])
def test_forks_beside_threads_that_transform(n_forks):
    found = run_script(FORKED, n_forks, timeout=30 + n_forks)
    assert found == ["hung 0", "left 0"]
