"""Run the steps of a job of the workflow file, from a clean checkout of HEAD.

    python .ci/workflow.py [JOB] [--list]

The environment is new, so a package that the job does not install is missed here too.
Steps of others (uses: ...) are left out.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"


def steps_of(workflow, name):
    """Return the commands of a job."""
    jobs = workflow["jobs"]
    if name not in jobs:
        sys.exit(f"{name!r} is no job of {WORKFLOW}; use one of {[*jobs]}.")
    return [step["run"] for step in jobs[name]["steps"] if "run" in step]


def main():
    """Run the steps, each in a shell of its own, until one fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="?", default="documentation")
    parser.add_argument("--list", action="store_true", help="show the steps alone")
    arguments = parser.parse_args()
    workflow = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    steps = steps_of(workflow, arguments.job)
    if arguments.list:
        print(*steps, sep="\n")
        return
    with tempfile.TemporaryDirectory() as work:
        checkout, environment = Path(work, "checkout"), Path(work, "venv")
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        head = subprocess.check_output(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, text=True
        )
        subprocess.run(
            ["git", "checkout", "-q", head.strip()], cwd=checkout, check=True
        )
        venv.create(environment, with_pip=True)
        variables = {
            **os.environ,
            **workflow.get("env", {}),
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "RUNNER_TEMP": work,
        }
        variables.pop("PYTHONPATH", None)
        for step in steps:
            if re.search(r"\$\{\{", step):
                sys.exit(f"this step has expressions that are GitHub's alone: {step}")
            print(f"\n==== {step}", flush=True)
            command = ["bash", "-eo", "pipefail", "-c", step]
            done = subprocess.run(command, cwd=checkout, env=variables)
            if done.returncode:
                sys.exit(f"failed with status {done.returncode}: {step}")


if __name__ == "__main__":
    main()
