"""The commands whose numbers the pages quote, on a machine without their files."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


SETS = {
    "metric": ["abalone", "yeast"],
    "ridge": ["sgemm"],
    "quantiles": ["sgemm"],
    "intervals": ["sgemm"],
}
# in one process, of which most of the time would be spent on importing scikit-learn
COMMANDS = """
import json, runpy, sys

for command, options in json.loads(sys.argv[1]).items():
    sys.argv[1:] = [command, *options]
    print(f"==== {command}", file=sys.stderr)
    try:
        runpy.run_module("benchmarks.choices", run_name="__main__")
    except SystemExit as error:
        print(error, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run a command without its files for each item of SETS, and one for help."""
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    commands = {name: ["--sets", *sets] for name, sets in SETS.items()}
    home = str(tmp_path_factory.mktemp("data"))
    run = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands | {"--help": []})],
        cwd=ROOT,
        env=os.environ | {"SKLEARN_CRT_DATA": "", "SCIKIT_LEARN_DATA": home},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in run.stderr
    return run


def test_a_missing_file_is_named_with_its_source(run):
    said = dict(each.split("\n", 1) for each in run.stderr.split("==== ")[1:])
    assert said.keys() == {*SETS, "--help"}
    for command, sets in SETS.items():
        for name in sets:
            assert f"{name} is left out: Data set '{name}': no file" in said[command]
        assert "https://archive.ics.uci.edu" in said[command]
        assert f"No data set of {', '.join(sets)} is on this machine." in said[command]


def test_options_are_described(run):
    assert run.stderr.endswith("==== --help\n0\n")  # the exit status
    assert "usage:" in run.stdout
