"""The commands that the pages name, on a machine without their files."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# In one process, of which most of the time would be spent on importing scikit-learn:
# commands are parsed, then one is run.
SCRIPT = """
import argparse, importlib, json, runpy, sys

class Parsed(Exception):
    pass

real = argparse.ArgumentParser.parse_args

def parse_args(self, *args, **options):
    real(self, *args, **options)
    raise Parsed

refused = []
commands, last = json.load(sys.stdin)
for command in commands:
    module, *sys.argv[1:] = command
    try:
        if module == "benchmarks.compare":  # which checks the names of cases itself
            importlib.import_module(module).parse(sys.argv[1:])
            continue
        argparse.ArgumentParser.parse_args = parse_args
        runpy.run_module(module, run_name="__main__")
    except Parsed:
        pass
    except (SystemExit, ImportError) as error:
        refused.append(f"{command}: {error}")
    finally:
        argparse.ArgumentParser.parse_args = real
module, *sys.argv[1:] = last
try:
    runpy.run_module(module, run_name="__main__")
except SystemExit as error:
    print(json.dumps({"refused": refused, "last": str(error)}))
"""


def commands_in(text):
    """Return the module and the arguments of each command that a text names."""
    quoted = re.findall(r"`(python\s+-m\s+benchmarks\.[^`]+)`", text)
    own_line = re.findall(r"(?m)^ *(python -m benchmarks\.[^\n`]+)$", text)
    words = [shlex.split(each, comments=True) for each in (*quoted, *own_line)]
    return {tuple(each[2:]) for each in words}


def commands_of_pages():
    """Return the commands that pages, docstrings and examples name."""
    endings = {"doc": "rst inc", "sklearn_crt": "py", "examples": "py ipynb"}
    texts = [
        path.read_text("utf-8")
        for folder, names in endings.items()
        for ending in names.split()
        for path in (ROOT / folder).rglob(f"*.{ending}")
    ]
    texts += [(ROOT / f"{name}.rst").read_text() for name in ("README", "CONTRIBUTING")]
    return sorted(set().union(*map(commands_in, texts)))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Parse all commands, and run one without its files."""
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    commands = commands_of_pages()
    assert len(commands) > 30
    last = ["benchmarks.choices", "metric", "--sets", "abalone", "nursery"]
    home = str(tmp_path_factory.mktemp("data"))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env=os.environ | {"SKLEARN_CRT_DATA": "", "SCIKIT_LEARN_DATA": home},
        input=json.dumps([commands, last]),
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run


def test_commands_that_pages_name_exist(run):
    assert json.loads(run.stdout)["refused"] == [], run.stderr


def table_of(module, *arguments):
    """Return the rows of the table that a small run of a benchmark prints."""
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    lines = [line for line in run.stdout.splitlines() if line.startswith("| ``")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines]


@pytest.mark.slow
def test_arrays_of_torch_give_the_features_predictions_and_averages_of_numpy():
    pytest.importorskip("torch")
    pytest.importorskip("tqdm")
    options = "--device", "cpu", "--quick", "--repeats", "1"
    table = table_of("accelerators", *options)
    assert len(table) == 8
    assert all(row[-1] == "none" or float(row[-1]) < 1e-4 for row in table)


@pytest.mark.slow
def test_fits_on_a_cluster_survive_a_worker_and_equal_those_in_memory():
    pytest.importorskip("distributed")
    pytest.importorskip("tqdm")
    table = table_of("scale", "--rows", "1000000", "--block", "50000")
    assert len(table) == 4  # two of costs, two of checks
    for _, _, _, lost, _, apart, _ in table[2:]:
        assert lost == "none"
        assert float(apart) < 1e-4


def test_a_missing_file_is_named_with_its_source(run):
    for name in ("abalone", "nursery"):
        assert f"{name} is left out: Data set '{name}': there is no file" in run.stderr
    assert "https://archive.ics.uci.edu" in run.stderr
    message = "No data set of abalone, nursery is on this machine."
    assert json.loads(run.stdout)["last"] == message
