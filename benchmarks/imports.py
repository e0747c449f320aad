"""What importing names of the package adds: python -m benchmarks.imports.

Processor time of a fresh process each: sklearn.kernel_approximation first, then the
first sampler, then all names. Shares are of the time of scikit-learn's module; the
median of a number of processes.
"""

import argparse
import subprocess
import sys

import numpy as np

CODE = """
import time
start = time.process_time()
import sklearn.kernel_approximation
theirs = time.process_time()
from sklearn_crt import OPRFSampler
first = time.process_time()
from sklearn_crt import *
every = time.process_time()
unit = theirs - start
print(unit, (first - theirs) / unit, (every - theirs) / unit)
"""


def main():
    """Print the medians."""
    parser = argparse.ArgumentParser(prog="benchmarks.imports", description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    command = [sys.executable, "-c", CODE]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        for _ in range(1 + args.repeats)  # the first writes compiled files
    ]
    seconds, first, every = np.median(
        [[float(part) for part in run.split()] for run in runs[1:]], axis=0
    )
    print(f"sklearn.kernel_approximation: {seconds:.2f} s")
    print(f"the first sampler adds {first:.1%}, all names {every:.1%}")


if __name__ == "__main__":
    main()
