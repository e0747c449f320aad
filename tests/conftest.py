"""Fixtures that many tests share."""

import gc
import json
import os
from collections import Counter, OrderedDict
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path

# Before NumPy is imported: processes of `pytest -n` share the processors. With a thread
# of BLAS for each processor in each of them the tests take half as long again.
n_processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0))
if n_processes:
    n_threads = str(max(1, (os.cpu_count() or 1) // n_processes))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, n_threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # and do not spin meanwhile

# Nor is anything imported here that the process needs which only sends tests to others.
import pytest


def pytest_addoption(parser):
    """Add the option of a shorter run."""
    parser.addoption(
        "--few-cases",
        action="store_true",
        help="run some cases of each test",
    )


def case_numbers(items):
    """Yield each item and which case of its test it is."""
    seen = Counter()
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        yield item, seen[test]
        seen[test] += 1


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    """Mark cases as slow before -m is applied, and leave out others after it.

    Of a test with the marker ``each_value`` those cases stay that bring a new value of
    one of its parameters; the other combinations are slow. ``--few-cases`` keeps the
    first and every tenth case of each test, and every third of scikit-learn checks:
    other versions of it have others.
    """
    met = set()
    for item in items:
        if item.get_closest_marker("slow") or not item.get_closest_marker("each_value"):
            continue
        values = {
            (item.path, item.originalname, name, id(value))
            for name, value in item.callspec.params.items()
        }
        if values <= met:
            item.add_marker(pytest.mark.slow)
        met |= values
    yield
    if not config.getoption("--few-cases"):
        return
    left_out = {
        item
        for item, number in case_numbers(items)
        if number % (3 if item.path.name == "test_common.py" else 10)
    }
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collector from looking at all the tests again and again."""
    gc.disable()  # what is imported and collected stays
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


@pytest.hookimpl(tryfirst=True)  # before failures are counted
def pytest_collectreport(report):
    """Fail for a test file that cannot be imported: as a doctest module it skips."""
    is_test = report.nodeid.rsplit("/", 1)[-1].startswith("test_")
    if is_test and report.skipped and "unable to import" in str(report.longrepr):
        report.outcome = "failed"


@pytest.fixture(autouse=True)
def global_seed():
    """Seed NumPy's global generator, from which ``random_state=None`` draws.

    A test that names no seed has then the same outcome in each run, and a failure can
    be repeated.
    """
    import numpy as np

    np.random.seed(20240607)  # noqa: NPY002 -- scikit-learn reads this one


@pytest.fixture
def rng():
    """Return a generator with a fixed seed."""
    import numpy as np

    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def vectors():
    """Return the reference numbers, computed by scripts outside this package."""
    return json.loads((Path(__file__).parent / "test_vectors.json").read_text())


@pytest.fixture(scope="session")
def beyond():
    """Return the reference numbers of the maps that are in no paper."""
    return json.loads((Path(__file__).parent / "beyond_vectors.json").read_text())


@pytest.fixture(scope="session")
def pair4(vectors):
    """Return the pair of rows of the reference numbers at d = 4."""
    import numpy as np

    return np.array([vectors["x4"]]), np.array([vectors["y4"]])


@pytest.fixture(scope="session")
def pair64():
    """Return the pair of rows of the reference numbers at d = 64."""
    import numpy as np

    steps = np.arange(1, 65)
    return 0.5 * np.sin(steps)[None], 0.5 * np.cos(steps)[None]


@pytest.fixture(scope="session")
def given():
    """Return a coupling that draws given frequencies, a table for each number."""
    import numpy as np

    from sklearn_crt.extend import Coupling, Frequencies

    class Given(Coupling):
        """Frequencies that are given as tables, one frequency in a row."""

        def __init__(self, *tables):
            self.tables = tables

        def draw(self, radial_law, n_frequencies, n_features, rng):
            sizes = [len(table) for table in self.tables]
            # hybrids look at one frequency before they draw as many as they need
            place = sizes.index(n_frequencies) if n_frequencies in sizes else 0
            return Frequencies(np.array(self.tables[place][:n_frequencies], float).T)

    return Given


class _Drawn:
    """The latest draws of frequencies that follow a chi law, up to 300 MB of them."""

    def __init__(self):
        self.kept, self.n_bytes = OrderedDict(), 0

    def shared(self, draw):
        """Return what ``draw`` does, from the store where it was done before."""
        from sklearn_crt.extend import chi_law

        def drawn(coupling, radial_law, n_frequencies, n_features, rng):
            sizes, generator = (n_frequencies, n_features), rng.bit_generator
            if radial_law is not chi_law or min(sizes) > 256:  # some are no matrices
                return draw(coupling, radial_law, *sizes, rng)
            parameters = repr(sorted(vars(coupling).items()))
            states = repr(generator.seed_seq.state), repr(generator.state)
            key = type(coupling), parameters, *sizes, *states
            if key not in self.kept:
                frequencies = draw(coupling, radial_law, *sizes, rng)
                frequencies.weights.flags.writeable = False
                after = generator.seed_seq.n_children_spawned, generator.state
                self.kept[key] = frequencies, *after
                self.n_bytes += frequencies.weights.nbytes
                while self.n_bytes > 3e8 and len(self.kept) > 1:
                    oldest, *_ = self.kept.popitem(last=False)[1]
                    self.n_bytes -= oldest.weights.nbytes
                return frequencies
            self.kept.move_to_end(key)
            frequencies, n_children, state = self.kept[key]
            rng.spawn(n_children - generator.seed_seq.n_children_spawned)
            generator.state = state
            return frequencies

        return drawn


_DRAWN = _Drawn()


@pytest.fixture
def shared_draws(monkeypatch):
    """Draw the same frequencies of the Gaussian kernel once for many tests."""
    from sklearn_crt.extend import BlockCoupling, Independent, StructuredOrthogonal
    from sklearn_crt.frequencies import Halton, Sobol

    for kind in (Independent, BlockCoupling, Halton, Sobol, StructuredOrthogonal):
        monkeypatch.setattr(kind, "draw", _DRAWN.shared(kind.draw))


@pytest.fixture
def few_seeds(request, monkeypatch):
    """Check samplers with 24 seeds, and with 64 in slow tests."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr("sklearn_crt.testing.checks._N_DRAWS", 24)


@pytest.fixture
def given_folds(monkeypatch):
    """Fit models for raw tables to ``n_folds`` folds, also if they have few rows."""
    monkeypatch.setattr("sklearn_crt.tables._blend._LEAST_FOLDS", {})


def _use_few_folds(monkeypatch):
    monkeypatch.setattr("sklearn_crt.tables._blend._LEAST_FOLDS", {})
    monkeypatch.setattr("sklearn_crt.life_cycle.out_of_fold._MOST_FOLDS", 2)
    monkeypatch.setattr("sklearn_crt.life_cycle.out_of_fold._FOLDS_OF_MANY", 2)
    monkeypatch.setattr("sklearn_crt.tables._parts._MOST_TREES", 30)


@pytest.fixture
def few_folds(monkeypatch):
    """Use few folds and trees where it does not matter how many there are."""
    _use_few_folds(monkeypatch)


@pytest.fixture(scope="module")
def few_folds_in_module():
    """Use few folds and trees also in fixtures of a module that ask for this one."""
    with pytest.MonkeyPatch.context() as patch:
        _use_few_folds(patch)
        yield


@pytest.fixture
def not_dense(monkeypatch):
    """Return a context in which a kind of sparse table cannot be written out."""

    @contextmanager
    def forbid(kind):
        with monkeypatch.context() as patch:
            for name in ("toarray", "todense"):
                patch.setattr(kind, name, None)
            yield

    return forbid


@pytest.fixture(scope="session")
def apply_map():
    """Return a function that takes the features of raw rows from a map alone."""

    def apply(feature_map, X, *, key=False):
        return feature_map.features(feature_map.frame.rows(X), key=key)

    return apply


@pytest.fixture(scope="session")
def with_fault():
    """Return a function that makes samplers whose maps have other methods."""

    def make(base, **methods):
        class Faulty(base):
            def _make_map(self, statistics, drawn):
                made = super()._make_map(statistics, drawn)
                kind = type(f"Faulty{type(made).__name__}", (type(made),), methods)
                faulty = kind.__new__(kind)
                vars(faulty).update(made.__getstate__())
                return faulty

        return Faulty

    return make


@pytest.fixture(scope="session")
def value_of():
    """Return the function that reads the immutable value of a fitted estimator.

    It holds sums and points that no public attribute shows.
    """
    return attrgetter("_value")
