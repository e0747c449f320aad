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

for command, sets in json.loads(sys.argv[1]).items():
    sys.argv[1:] = [command, "--sets", *sets]
    print(f"==== {command}", file=sys.stderr)
    try:
        runpy.run_module("benchmarks.choices", run_name="__main__")
    except SystemExit as error:
        print(error, file=sys.stderr)
"""


def test_a_missing_file_is_named_with_its_source(tmp_path):
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    run = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(SETS)],
        cwd=ROOT,
        env=os.environ | {"SKLEARN_CRT_DATA": "", "SCIKIT_LEARN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in run.stderr
    said = dict(each.split("\n", 1) for each in run.stderr.split("==== ")[1:])
    assert said.keys() == SETS.keys()
    for command, sets in SETS.items():
        for name in sets:
            assert f"{name} is left out: Data set '{name}': no file" in said[command]
        assert "https://archive.ics.uci.edu" in said[command]
        assert f"No data set of {', '.join(sets)} is on this machine." in said[command]


def test_options_are_described():
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    command = [sys.executable, "-m", "benchmarks.choices", "--help"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "usage:" in run.stdout
