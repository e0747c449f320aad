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
# In one process, of which most of the time would be spent on importing scikit-learn.
PARSE = """
import argparse, importlib, json, runpy, sys

class Parsed(Exception):
    pass

real = argparse.ArgumentParser.parse_args

def parse_args(self, *args, **options):
    real(self, *args, **options)
    raise Parsed

for command in json.load(sys.stdin):
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
        print(*command, error)
    finally:
        argparse.ArgumentParser.parse_args = real
"""


@pytest.fixture(scope="module")
def folder():
    """Return the folder of the repository, with benchmarks that can be run."""
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    return ROOT


def commands_in(text):
    """Return the module and the arguments of each command that a text names."""
    quoted = re.findall(r"`(python\s+-m\s+benchmarks\.[^`]+)`", text)
    own_line = re.findall(r"(?m)^ *(python -m benchmarks\.[^\n`]+)$", text)
    words = [shlex.split(each, comments=True) for each in (*quoted, *own_line)]
    return {tuple(each[2:]) for each in words}


def test_commands_that_pages_name_exist(folder):
    texts = [
        path.read_text("utf-8")
        for part, endings in {
            "doc": ("rst", "inc"),
            "sklearn_crt": ("py",),
            "examples": ("py", "ipynb"),
        }.items()
        for ending in endings
        for path in (folder / part).rglob(f"*.{ending}")
    ]
    texts += [
        (folder / f"{name}.rst").read_text() for name in ("README", "CONTRIBUTING")
    ]
    commands = set().union(*map(commands_in, texts))
    assert len(commands) > 30
    run = subprocess.run(
        [sys.executable, "-c", PARSE],
        cwd=folder,
        input=json.dumps(sorted(commands)),
        capture_output=True,
        text=True,
    )
    assert (run.stdout, run.returncode) == ("", 0), run.stdout + run.stderr


def test_a_missing_file_is_named_with_its_source(folder, tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.choices", "metric"]
        + ["--sets", "abalone", "yeast"],
        cwd=folder,
        env=os.environ | {"SKLEARN_CRT_DATA": "", "SCIKIT_LEARN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in run.stderr
    for name in ("abalone", "yeast"):
        assert f"{name} is left out: Data set '{name}': no file" in run.stderr
    assert "https://archive.ics.uci.edu" in run.stderr
    assert "No data set of abalone, yeast is on this machine." in run.stderr
