"""Measured errors: the numbers themselves, pairing, the table and the plot."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin

from sklearn_crt import OPRFSampler, TrigRBFSampler, compare_samplers
from sklearn_crt.accuracy import Comparison


class Wrong(TransformerMixin, BaseEstimator):
    """Claims the Gaussian kernel and returns a number times it."""

    def __init__(self, factor=1.0, random_state=None):
        self.factor = factor
        self.random_state = random_state

    def fit(self, X):
        return self

    def transform(self, X):
        return X

    def exact_kernel(self, X, Y):
        return np.exp(-0.5 * np.sum((X[:, None] - Y) ** 2, axis=2))

    def approximate_kernel(self, X, Y):
        return self.factor * self.exact_kernel(X, Y)


@pytest.fixture
def X(rng):
    return rng.normal(size=(60, 3))


def test_relative_error_of_a_known_map(X):
    result = compare_samplers({"right": Wrong(), "less": Wrong(0.75)}, X, n_draws=3)
    assert_allclose(result.errors, [[0, 0, 0], [0.25] * 3])
    assert result.best == "right"
    assert_allclose(result["standard_error"], 0, atol=1e-15)


def test_posteriors_of_a_known_map(X):
    class Flipped(Wrong):
        def approximate_kernel(self, X, Y):
            return -self.exact_kernel(X, Y)

    y = np.arange(60) % 2
    maps = {"scaled": Wrong(3.0), "flipped": Flipped()}
    result = compare_samplers(maps, X, y=y, target="posterior", random_state=0)
    assert_allclose(result.errors[0], 0, atol=1e-15)
    # no positive score: the shares of the classes, whatever the row
    assert np.all((result.errors[1] > 0.01) & (result.errors[1] < 0.5))


def test_total_variation(rng):
    class One(Wrong):
        def approximate_kernel(self, X, Y):
            return np.ones((len(X), len(Y)))

    X = np.repeat([[0.0], [100.0]], 30, axis=0)
    y = np.repeat(["a", "b"], 30)
    result = compare_samplers([One()], X, y=y, target="posterior", n_draws=20)
    # shares near a half against certainty
    assert_allclose(result["error"], 0.5, atol=0.05)


def test_draws_are_paired_and_reproducible(X):
    maps = {"a": TrigRBFSampler(), "b": TrigRBFSampler(), "c": OPRFSampler()}
    first, again = (compare_samplers(maps, X, random_state=3) for _ in range(2))
    assert_allclose(first.errors, again.errors)
    assert_allclose(first.errors[0], first.errors[1])
    differences, errors = first.against("a")
    assert_allclose(differences, (first.errors - first.errors[0]).mean(axis=1))
    assert_allclose(errors[:2], 0)
    assert np.std(first.errors[0]) > 0


def test_error_falls_with_columns(rng):
    X = rng.normal(size=(300, 4))
    maps = [TrigRBFSampler(n_components=n) for n in (64, 1024)]
    result = compare_samplers(maps, X, random_state=0)
    assert result["sampler"] == [repr(sampler) for sampler in maps]
    assert_allclose(result["error"][0] / result["error"][1], 4, rtol=0.3)
    assert result.errors.shape == (2, 5)
    assert np.all(result["seconds"] > 0)


def test_few_rows_keep_the_proportion(X):
    seen = []

    class Sizes(Wrong):
        def approximate_kernel(self, X, Y):
            seen.append((len(X), len(Y)))
            return self.exact_kernel(X, Y)

    compare_samplers([Sizes()], X, n_draws=1)
    compare_samplers([Sizes()], X, n_draws=1, n_rows=20, n_queries=7)
    assert seen == [(10, 50), (7, 20)]


def test_sparse_rows(X):
    X[X < 0] = 0
    maps = [TrigRBFSampler(sigma=1.0), OPRFSampler(sigma=1.0)]
    dense, csr = (
        compare_samplers(maps, Z, random_state=0) for Z in (X, sparse.csr_array(X))
    )
    assert_allclose(csr.errors, dense.errors, rtol=1e-8)


@pytest.fixture
def table():
    errors = np.array([[0.3, 0.5], [0.1, 0.1]])
    return Comparison(["one", "<other>"], errors, np.array([1e-3, 2e-3]), "kernel")


def test_table_prints_the_least_error_first(table):
    title, header, *rows = repr(table).splitlines()
    assert title == "Relative error of the kernel, mean over n_draws=2"
    assert "standard error" in header
    assert [row.split() for row in rows] == [
        ["<other>", "0.1000", "0.0000", "2.00"],
        ["one", "0.4000", "0.1000", "1.00"],
    ]
    assert len({len(line) for line in (header, *rows)}) == 1
    assert str(table) == repr(table)


def test_table_displays_as_html(table):
    html = table._repr_html_()
    assert html.count("<tr>") == 3
    assert html.index("&lt;other&gt;") < html.index("one") < html.index("0.4000")
    assert "<other>" not in html


def test_table_is_a_dictionary_of_columns_in_the_order_given(table):
    assert list(table) == ["sampler", "error", "standard_error", "seconds"]
    assert table["sampler"] == ["one", "<other>"]
    assert_allclose(table["error"], [0.4, 0.1])
    frame = pytest.importorskip("pandas").DataFrame(table)
    assert list(frame.columns) == list(table)
    assert_allclose(frame.set_index("sampler").loc["one", "standard_error"], 0.1)


def test_table_is_copied_and_pickled_whole(table):
    for copied in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        assert repr(copied) == repr(table)
        assert_allclose(copied.errors, table.errors)


def test_plot_draws_error_against_time(table):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    ax = table.plot(figure.add_subplot())
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["one", "<other>"]
    assert ax.get_ylabel() == "Relative error of the kernel"


def test_one_draw_has_no_standard_error(X):
    result = compare_samplers([Wrong(0.5)], X, n_draws=1)
    assert np.isnan(result["standard_error"]).all()


def test_what_is_refused(X):
    with pytest.raises(ValueError, match="at least one sampler"):
        compare_samplers([], X)
    with pytest.raises(TypeError, match="samplers must be a list or a dict of sampl"):
        compare_samplers(X, [Wrong()])
    with pytest.raises(ValueError, match="requires y, the class labels"):
        compare_samplers([Wrong()], X, target="posterior")
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        compare_samplers([Wrong()], X, y=X[:, 0], target="posterior")
    with pytest.raises(ValueError, match=r"1 sample\(s\) .*minimum of 2 is required"):
        compare_samplers([Wrong()], X[:1])
    with pytest.raises(ValueError, match="'target' parameter"):
        compare_samplers([Wrong()], X, target="accuracy")


@pytest.mark.filterwarnings("ignore:Kernel values of OPRFSampler")
def test_a_sampler_without_an_error_is_not_the_best(rng):
    X = rng.normal(size=(60, 3))
    options = {"kernel": "softmax", "n_components": 64}
    samplers = {sigma: OPRFSampler(sigma=sigma, **options) for sigma in (40.0, 0.5)}
    result = compare_samplers(samplers, X, random_state=0)
    assert np.isnan(result["error"][0])  # some values of the kernel are infinite
    assert result.best == 0.5
