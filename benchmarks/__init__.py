"""Speed, accuracy and structure of the package: doc/benchmarks.rst has the commands."""
