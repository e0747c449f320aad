import warnings
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn import config_context
from sklearn.utils.validation import validate_data

from sklearn_crt import OPRFSampler, TrigRBFSampler

pd = pytest.importorskip("pandas")
LARGE = np.full((3, 2), 3e38, np.float32)  # finite numbers whose sum is not
TABLES = {
    "plain": np.ones((3, 2)),
    "float32": np.ones((3, 2), np.float32),
    "columns first": np.asfortranarray(np.eye(2)),
    "large": LARGE,
    "integers": np.ones((3, 2), int),
    "list": [[1.0, 2.0]],
    "other byte order": np.ones((3, 2), ">f8"),
    "matrix of names": pd.DataFrame({"a": [1.0], "b": [2.0]}),
    "sparse": sparse.csr_array(np.eye(2)),
    "missing": np.array([[1.0, np.nan]]),
    "infinite": np.array([[np.inf, 1.0]]),
    "both signs": np.array([[np.inf, -np.inf]]),
    "no rows": np.ones((0, 2)),
    "too few columns": np.ones((3, 1)),
    "one row": np.ones(2),
    "three axes": np.ones((3, 2, 1)),
    "complex": np.ones((3, 2), complex),
    "strings": np.array([["a", "b"]]),
}
NOT_FINITE = "missing", "infinite", "both signs"


def outcome(function, *arguments):
    """Return what a call returns, or its error and warnings as text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments)
        except (ValueError, TypeError) as error:
            result = f"{type(error).__name__}: {error}"
    return result, [str(warning.message) for warning in caught]


@pytest.mark.each_value
@pytest.mark.parametrize("assume_finite", [False, True])
@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("table", TABLES)
def test_tables_are_judged_as_scikit_learn_judges(table, names, assume_finite, rng):
    """By its own validation, though most tables need none of its checks."""
    X, rows = TABLES[table], rng.normal(size=(10, 2))
    if names:
        rows = pd.DataFrame(rows, columns=["a", "b"])
    sigma = 1e-38 if table == "large" else "scale"
    sampler = TrigRBFSampler(n_components=4, sigma=sigma, random_state=0).fit(rows)
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
    judge = partial(validate_data, sampler, reset=False, **options)
    with config_context(assume_finite=assume_finite):
        expected, expected_messages = outcome(judge, X)
        if assume_finite and table in NOT_FINITE:
            assert not isinstance(expected, str)  # what is promised is not looked at
            return
        result, messages = outcome(sampler.transform, X)
    assert messages == expected_messages
    if isinstance(expected, str):
        assert result == expected
        return
    assert result.dtype == expected.dtype
    with warnings.catch_warnings(action="ignore"):
        assert_array_equal(result, sampler.transform(expected))


@pytest.mark.parametrize("key", [False, True])
def test_rows_are_checked_before_they_are_mapped(key, rng):
    sampler = OPRFSampler().fit(rng.normal(size=(10, 2)))
    transform = sampler.transform_key if key else sampler.transform
    with pytest.raises(ValueError, match="Input X contains NaN"):
        transform(np.array([[0.0, np.nan]]))
    with pytest.raises(ValueError, match="X has 3 features, but OPRFSampler is"):
        transform(np.zeros((1, 3)))
