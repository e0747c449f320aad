"""BLAS has its threads again after Ctrl-C, and in forked processes.

What is tried may hang, and the tests of other files need their BLAS, so functions of
this file run in a process of their own.
"""

import faulthandler
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import threadpoolctl

from sklearn_crt import OPRFSampler
from sklearn_crt.arrays import threads

# from threadpoolctl 3.7 the threads of OpenBLAS belong to one thread of Python
clear_controlling_thread = getattr(
    getattr(threadpoolctl, "OpenBLASController", None),
    "clear_controlling_thread",
    lambda force: None,
)
N_THREADS = 3  # of BLAS, where there is no limit


def blas():
    """Return the libraries whose limit is one of the process, as ours is."""
    libraries = threadpoolctl.ThreadpoolController().lib_controllers
    return [lib for lib in libraries if lib.info().get("threading_layer") == "pthreads"]


def set_threads():
    clear_controlling_thread(force=True)
    for library in blas():
        library.set_num_threads(N_THREADS)
    clear_controlling_thread(force=True)


def lifted():
    return all(library.num_threads == N_THREADS for library in blas())


def lifted_soon():
    """Return whether BLAS has its threads within a second: another thread may do it."""
    waiting = threading.Event()
    return any(lifted() or waiting.wait(0.001) for _ in range(1000)) or lifted()


# --------------------------------------------------------------------------- Ctrl-C
def interrupted(function, steps):
    """Call a function, with Ctrl-C at places where Python looks for signals.

    That is, when a function of Python begins and when one of C returns. The first comes
    at the first of the ``steps``, the next so many places after the one before. Returns
    the error, how many have come, and the number of places after the last.
    """
    n_raised = n_places = 0

    def look(frame, event, arg):
        nonlocal n_raised, n_places
        if frame is here or event not in {"call", "c_return", "c_exception"}:
            return
        n_places += 1
        if n_raised < len(steps) and n_places == steps[n_raised]:
            n_raised, n_places = n_raised + 1, 0
            raise KeyboardInterrupt  # and Python takes this function away

    def look_again(frame, event, arg):
        if event == "exception":
            sys.setprofile(look)
        return look_again

    here, error = sys._getframe(), None
    sys.settrace(look_again)
    sys.setprofile(look)
    try:
        function()
    except KeyboardInterrupt as raised:
        error = raised
    sys.setprofile(None)
    sys.settrace(None)
    return error, n_raised, n_places


def interrupt_everywhere(n_threads, *widths):
    """Return how often BLAS was left with one thread, and calls that then failed."""
    n_rows = 600

    def call():
        return threads.in_threads(lambda rows: 1, n_rows, n_threads)

    set_threads()
    expected = call()
    _, _, n_places = interrupted(call, [])
    n_tried, left, failed = [0] * (1 + len(widths)), [], []
    for n_more in range(1 + len(widths)):
        following = [range(1, 1 + width) for width in widths[:n_more]]
        for steps in itertools.product(range(1, n_places + 1), *following):
            # the error, and with it each frame, is there while BLAS is looked at
            error, n_raised, _ = interrupted(call, steps)
            if n_raised < len(steps):
                continue
            n_tried[n_more] += 1
            if not lifted_soon():
                left.append(steps)
                set_threads()
            if call() != expected:
                failed.append(steps)
            del error
    assert left or min(n_tried) > 30, n_tried
    return f"left {left} failed {failed}"


# ---------------------------------------------------------------------------- forks
def fork_beside_threads(n_forks):
    """Return the exit status of the first child that was not as it should be."""
    set_threads()
    # where a fork meets threads of OpenBLAS in a product, the threads that wait for it
    # wait for ever, so in NumPy alone: that begins at 10,000 numbers
    X = np.random.default_rng(0).standard_normal((1000, 8), np.float32)
    # so many columns that two threads share the rows
    sampler = OPRFSampler(n_components=4200, n_jobs=2, random_state=0).fit(X)
    expected, over = sampler.transform(X), threading.Event()

    def work():
        while not over.is_set():
            sampler.transform(X)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    status = 0
    for i in range(n_forks):
        over.wait(0.001 * (i % 8))
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(10, exit=True)
            if not lifted():
                os._exit(2)
            os._exit(0 if np.array_equal(sampler.transform(X), expected) else 3)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            break
    over.set()
    for thread in threads:
        thread.join()
    return f"status {status} lifted {lifted()}"


def fork_during_a_change():
    """Return how many calls of a library had begun and not ended when it was forked."""
    if not blas():
        return "0"
    begun, ended, is_inside = [], [], threading.Event()
    kind = type(blas()[0])
    change = kind.set_num_threads

    def slowly(self, number):
        begun.append(number)
        is_inside.set()
        time.sleep(0.1)
        ended.append(change(self, number))

    kind.set_num_threads = slowly
    user = threading.Thread(target=threads.with_one_blas_thread, args=(int,))
    user.start()
    is_inside.wait()
    child = os.fork()
    if child == 0:
        os._exit(len(begun) - len(ended))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    user.join()
    return str(status)


# ---------------------------------------------------------------------------- tests
def run(*calls):
    """Return what functions of this file return in a process of their own."""
    command = [sys.executable, "-W", "ignore", __file__, *calls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return dict(zip(calls, done.stdout.splitlines(), strict=True))


INTERRUPTS = "interrupt_everywhere 2 4"
FORKS = "fork_beside_threads 4", "fork_during_a_change"


@pytest.fixture(scope="module")
def found():
    """Return the results in one process, which spends most of its time on imports."""
    return run(INTERRUPTS, *(FORKS if hasattr(os, "fork") else ()))


def test_interrupts_leave_blas_as_it_was(found):
    """Wherever they come, one or two in a row."""
    assert found[INTERRUPTS] == "left [] failed []"


@pytest.mark.slow
def test_interrupts_of_one_thread_leave_blas_as_it_was():
    """Wherever they come, one, two or three in a row."""
    found = run("interrupt_everywhere 1 30 3")
    assert [*found.values()] == ["left [] failed []"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_forks_beside_threads_leave_blas_as_it_was(found):
    """The child has the threads of BLAS from before any limit, and can transform."""
    assert found[FORKS[0]] == "status 0 lifted True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs forks")
def test_forks_wait_while_a_thread_is_inside_a_library(found):
    """A lock that the thread holds in the library would stay locked in the child."""
    assert found[FORKS[1]] == "0"


if __name__ == "__main__":
    for call in sys.argv[1:]:
        name, *numbers = call.split()
        print(globals()[name](*map(int, numbers)), flush=True)
