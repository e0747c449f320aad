"""Execute short runs of the notebooks of a folder, each in a fresh kernel.

A stored notebook must contain outputs, and none of them may be an error. Data files are
not downloaded. If the path of a single notebook is given instead of a folder, only this
notebook is executed, and the text of its outputs is printed. The environment variable
SKLEARN_CRT_NOTEBOOKS selects another run ("ordinary" or "full").
"""

import importlib.util
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError


def check_stored(notebook):
    """Return what is wrong with the stored outputs, or None."""
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    if not outputs:
        return "is stored without outputs; execute it and save it"
    if any(out.output_type == "error" for out in outputs):
        return "is stored with an error; execute it and save it"


def missing_modules(notebook):
    """Return the modules that the metadata require and that are not installed."""
    required = notebook.metadata.get("requires", [])
    return [name for name in required if importlib.util.find_spec(name) is None]


def execute(notebook, folder):
    """Execute the notebook, and return the traceback of a failing cell, or None."""
    client = NotebookClient(
        notebook,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
    )
    try:
        client.execute()
    except CellExecutionError as error:
        return f"fails\n{error}"


def print_text(notebook):
    """Print the outputs that are text or have a text form."""
    for cell in notebook.cells:
        for out in cell.get("outputs", []):
            text = out.get("text") or out.get("data", {}).get("text/plain", "")
            print(text.rstrip(), end="\n\n")


def main(source):
    source = Path(source)
    single = source.suffix == ".ipynb"
    paths = [source] if single else sorted(source.glob("*.ipynb"))
    if not paths:
        return f"no notebook in {source}"
    failures = 0
    os.environ.setdefault("SKLEARN_CRT_DOWNLOAD", "0")  # the kernels inherit both
    os.environ.setdefault("SKLEARN_CRT_NOTEBOOKS", "short")
    with tempfile.TemporaryDirectory() as temporary:
        folder = source.parent if single else source
        folder = shutil.copytree(folder, Path(temporary, "notebooks"))
        for path in paths:
            start = time.perf_counter()
            notebook = nbformat.read(path, as_version=4)
            if missing := missing_modules(notebook):
                print(f"{path.name}: skipped, needs {', '.join(missing)}", flush=True)
                continue
            problem = check_stored(notebook) or execute(notebook, str(folder))
            failures += problem is not None
            if single:
                print_text(notebook)
            seconds = time.perf_counter() - start
            print(f"{path.name}: {problem or 'passed'} ({seconds:.0f} s)", flush=True)
    return f"{failures} of {len(paths)} notebooks failed" if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
