"""The script that type checkers accept is one that runs."""

import runpy
from pathlib import Path


def test_user_script_runs():
    runpy.run_path(str(Path(__file__).with_name("user_script.py")))["main"]()
