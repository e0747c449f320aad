"""Call a function of the benchmarks in a process with other surroundings.

What NumPy dispatches to and how many processors BLAS sees are settled when they are
imported, so a case that changes them needs a process of its own.
"""

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def in_child(function, *arguments, environment=None, n_processors=None):
    """Call a function of a module in a fresh process, and return what it returns.

    Parameters
    ----------
    function : callable
        Of a module of this package.
    *arguments : object
        What can be pickled.
    environment : dict, default=None
        Variables beside those of this process.
    n_processors : int, default=None
        How many processors the child may run on; those of this process if None.
        Linux only.
    """
    request = pickle.dumps((function.__module__, function.__name__, arguments))
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", str(n_processors or 0)],
        input=request,
        stdout=subprocess.PIPE,
        env=os.environ | (environment or {}),
        cwd=ROOT,
        check=True,
    )
    return pickle.loads(child.stdout)


def main():
    """Do what the parent asks for on standard input."""
    n_processors = int(sys.argv[1])
    if n_processors:  # before NumPy is imported, so BLAS starts its threads there too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n_processors])
    module, name, arguments = pickle.loads(sys.stdin.buffer.read())
    result = getattr(importlib.import_module(module), name)(*arguments)
    sys.stdout.buffer.write(pickle.dumps(result))


if __name__ == "__main__":
    main()
