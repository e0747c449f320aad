"""Run the steps of a job of a workflow file, from a clean checkout of HEAD.

    python .ci/workflow.py [JOB] [--file tests.yml] [--list]

The environment is new, so a package that the job does not install is missed here too.
Jobs that it needs run before it, each in an environment of its own and in the same
checkout, where it finds what they made. Steps of others (uses: ...) are left out.
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
WORKFLOWS = ROOT / ".github" / "workflows"


def steps_of(workflow, name):
    """Return pairs of a job and its commands, the jobs that it needs first."""
    jobs = workflow["jobs"]
    if name not in jobs:
        sys.exit(f"{name!r} is no job of this workflow; use one of {[*jobs]}.")
    needs = jobs[name].get("needs", [])
    before = [needs] if isinstance(needs, str) else needs
    own = [step["run"] for step in jobs[name].get("steps", []) if "run" in step]
    return [*(pair for job in before for pair in steps_of(workflow, job)), (name, own)]


def main():
    """Run a job after those that it needs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("job", nargs="?", default="documentation")
    parser.add_argument("--list", action="store_true", help="show the steps alone")
    parser.add_argument("--file", default="tests.yml", help="of .github/workflows")
    arguments = parser.parse_args()
    path = WORKFLOWS / arguments.file
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = steps_of(workflow, arguments.job)
    if arguments.list:
        for name, steps in jobs:
            print(f"# {name}", *steps, sep="\n")
        return
    with tempfile.TemporaryDirectory() as work:
        checkout = Path(work, "checkout")
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        head = subprocess.check_output(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, text=True
        )
        subprocess.run(
            ["git", "checkout", "-q", head.strip()], cwd=checkout, check=True
        )
        for name, steps in jobs:
            environment = Path(work, "venv", name)
            venv.create(environment, with_pip=True)
            variables = {
                **os.environ,
                **workflow.get("env", {}),
                **workflow["jobs"][name].get("env", {}),
                "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "RUNNER_TEMP": work,
            }
            variables.pop("PYTHONPATH", None)
            run(steps, checkout, variables)


def run(steps, checkout, variables):
    """Run commands, each in a shell of its own, until one fails."""
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
