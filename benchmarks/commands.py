"""Commands whose options are the parameters of a function that returns tables."""

import argparse
import inspect
import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from importlib import import_module

from threadpoolctl import threadpool_limits

from .tables import header, report

OPTIONS = {
    "block": "rows of a block",
    "cache": "file of the results, for further runs",
    "columns": "number of them",
    "device": "of torch",
    "exact": "the longest for exact attention",
    "features": "number of them",
    "frequencies": "number of them",
    "length": "number of queries",
    "lengths": "numbers of queries",
    "libraries": "of arrays, where they are installed",
    "methods": "to compare",
    "repeats": "of what is timed",
    "rows": "numbers of them, or the most of a set",
    "seeds": "number of random splits and draws",
    "sets": "of data",
    "splits": "number of splits",
    "threads": "of BLAS and torch",
    "widths": "numbers of columns",
}


@dataclass(frozen=True)
class Command:
    """A function that returns tables, its page, and its options with --quick.

    The parameters of the function and their defaults are the options. The function may
    also return a pair of tables and further facts. BLAS has one thread if ``threads``
    is 1.
    """

    tables: Callable
    page: str
    quick: dict = field(default_factory=dict)
    threads: int | str = 1

    @property
    def name(self):
        """The name of the function."""
        return self.tables.__name__

    @property
    def defaults(self):
        """The defaults of the options."""
        parameters = inspect.signature(self.tables).parameters
        return {name: of.default for name, of in parameters.items() if name != "write"}

    def add_options(self, parser):
        """Add the options to those of the command line."""
        for name, default in self.defaults.items():
            values = default if isinstance(default, tuple) else (default,)
            shown = " ".join(map(str, values))
            about = {"help": f"{OPTIONS.get(name, '')} (default: {shown or 'none'})"}
            about |= {"type": type(values[0]), "metavar": name.upper()}
            if isinstance(default, tuple):
                about["nargs"] = "+"
            if isinstance(default, tuple) and isinstance(values[0], str):
                about["choices"] = values
            parser.add_argument(f"--{name}", **about)
        if self.quick:
            parser.add_argument(
                "--quick", action="store_true", help="few of all, to see that it runs"
            )
        parser.add_argument(
            "--write", action="store_true", help="write the page of the docs"
        )

    def run(self, args):
        """Print the tables, and write them where that is asked for."""
        given = {name: getattr(args, name) for name in self.defaults}
        given = {name: value for name, value in given.items() if value is not None}
        quick = self.quick if getattr(args, "quick", False) else {}
        options = self.defaults | quick | given
        if "write" in inspect.signature(self.tables).parameters:
            options["write"] = args.write
        with threadpool_limits(1) if self.threads == 1 else nullcontext():
            found = self.tables(**options)
        tables, facts = found if isinstance(found, tuple) else (found, [])
        facts = [*header(options.get("threads", self.threads)), *facts]
        report(tables, facts, self.page if args.write else None)

    def main(self):
        """Do what the command line of ``python -m benchmarks.NAME`` asks for."""
        module = sys.modules[self.tables.__module__]
        parser = command_parser(self.name, module.__doc__)
        self.add_options(parser)
        self.run(parser.parse_args())


def command_parser(name, description):
    """Return a parser of the options of ``python -m benchmarks.NAME``."""
    return argparse.ArgumentParser(
        prog=f"benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def result_alone(function, *arguments, threads=1):
    """Return what a function returns in a process of its own, with so many threads."""
    limits = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
    os.environ |= dict.fromkeys(limits, str(threads))  # for processes that now start
    module = function.__module__
    if module == "__main__":
        module = sys.modules[module].__spec__.name
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as pool:
        return pool.submit(_call, module, function.__name__, arguments).result()


def _call(module, name, arguments):
    return getattr(import_module(module), name)(*arguments)
