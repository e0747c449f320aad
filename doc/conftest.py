"""Pages whose examples need more than the package itself."""

import pytest

NEEDED = {"large_data.rst": ["dask.dataframe", "pyarrow"], "skrub.rst": ["skrub"]}


def pytest_runtest_setup(item):
    """Skip the examples of a page where something that they need is missing."""
    for name in NEEDED.get(item.path.name, []):
        pytest.importorskip(name, reason=f"the examples of this page need {name}")
