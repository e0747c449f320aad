"""Speed and accuracy of the package: doc/benchmarks.rst has the commands."""
