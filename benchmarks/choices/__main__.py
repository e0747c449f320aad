"""Which map, which average: the tables behind the choices of the user guide.

``python -m benchmarks.choices NAME`` prints a table, or a few of one question:

* defaults: those of the kernel averages against k neighbours
* metric: learned metrics and local linear averages beside boosting and others
* evidence: local linear regression in each candidate of a metric, beside boosting
* tables: mixed tables, with categories and missing values, beside boosting
* ridge_tables: ridge on features beside other models
* coverage: intervals on tables, by similarity to the training rows, and shifted
* log_losses: class probabilities of averages and local fits beside boosting and ridge

``NAME --help`` says what it measures and what can be chosen; --quick takes a minute at
most. Sets of UCI come from the folder SKLEARN_CRT_DATA.
"""

import inspect
import warnings

from ..commands import Command, command_parser
from . import averages, coverage, metric, mixed, probabilities, ridge_tables

CHOICES = (
    Command(
        averages.defaults,
        "defaults.inc",
        {"seeds": 2, "sets": ("iris", "wine", "banknote", "diabetes")},
    ),
    Command(
        metric.metric,
        "metric.inc",
        {"seeds": 2, "rows": 500, "sets": ("banknote", "diabetes")},
    ),
    Command(
        mixed.tables,
        "mixed.inc",
        {"seeds": 1, "rows": 400, "sets": ("titanic", "imports", "airfoil")},
    ),
    Command(
        metric.evidence,
        "evidence.inc",
        {"splits": 1, "rows": 500, "sets": ("energy", "stock")},
    ),
    Command(
        ridge_tables.ridge_tables,
        "ridge_tables.inc",
        {"splits": 1, "seeds": 1, "sets": ("autos", "energy")},
    ),
    Command(
        coverage.coverage,
        "coverage.inc",
        {"splits": 1, "rows": 300, "sets": ("housing", "stock")},
    ),
    Command(
        probabilities.log_losses,
        "log_losses.inc",
        {"splits": 1, "sets": ("wifi", "rare_phoneme")},
    ),
)


def main():
    """Print the tables that the command line asks for."""
    parser = command_parser("choices", __doc__)
    form = parser.formatter_class
    subparsers = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for choice in CHOICES:
        text = inspect.getdoc(choice.tables)
        summary = text.splitlines()[0].replace("%", "%%")  # it is a format
        one = subparsers.add_parser(
            choice.name, help=summary, description=text, formatter_class=form
        )
        choice.add_options(one)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of models as constructed, on any table
    {choice.name: choice for choice in CHOICES}[args.name].run(args)


if __name__ == "__main__":
    main()
