"""The commands whose numbers the pages quote, on a machine without their files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("command", ["metric", "ridge", "quantiles", "intervals"])
def test_a_missing_file_is_named_with_its_source(command, tmp_path):
    pytest.importorskip("tqdm")
    if not (ROOT / "benchmarks").exists():
        pytest.skip("the benchmarks are not here")
    sets = {"metric": ["abalone", "yeast"]}.get(command, ["sgemm"])
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.choices", command, "--sets", *sets],
        cwd=ROOT,
        env=os.environ | {"SKLEARN_CRT_DATA": "", "SCIKIT_LEARN_DATA": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    for name in sets:
        assert f"{name} is left out: Data set '{name}': no file" in run.stderr
    assert "https://archive.ics.uci.edu" in run.stderr
    assert f"No data set of {', '.join(sets)} is on this machine." in run.stderr
