from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.maps import OutsideMap
from sklearn_crt.rows import Frame, kept_scratch


@pytest.fixture(autouse=True)
def kept():
    """Let this thread have something to keep."""
    with kept_scratch():
        pass


def test_a_loop_inside_of_a_loop_has_memory_of_its_own():
    with kept_scratch() as outer:
        numbers = outer.array("rows", (3,), np.float64)
        numbers[:] = 1
        with kept_scratch() as inner:
            inner.array("rows", (3,), np.float64)[:] = 2
        assert_array_equal(numbers, 1)


def test_threads_have_memory_of_their_own():
    with kept_scratch() as mine, ThreadPoolExecutor(1) as pool:

        def other():
            with kept_scratch() as scratch:
                return scratch

        assert pool.submit(other).result() is not mine


def test_small_memory_is_kept_and_large_is_not():
    with kept_scratch() as scratch:
        small = scratch.array("small", (8,), np.float64)
        scratch.array("large", (2**18,), np.float64)
    with kept_scratch() as again:
        assert again is scratch
        assert np.shares_memory(again.array("small", (8,), np.float64), small)
        assert "large" not in again._memory


def test_memory_is_put_back_after_an_error():
    with kept_scratch() as before:
        pass
    with pytest.raises(KeyError, match="what"), kept_scratch():
        raise KeyError("what")
    with kept_scratch() as after:
        assert after is before


@pytest.mark.parametrize("sampler", [TrigRBFSampler, OPRFSampler])
def test_features_that_were_given_stay(sampler, rng):
    """Also where the next transform of the thread takes the same memory."""
    X, Y = rng.normal(size=(2, 600, 3))
    fitted = sampler(random_state=0).fit(X)
    first = fitted.transform(X)
    kept = first.copy()
    fitted.transform(Y)
    assert_array_equal(first, kept)


def test_transform_inside_of_transform(rng):
    X = rng.normal(size=(5000, 3))
    inside = TrigRBFSampler(sigma=1.0, n_components=8, random_state=0).fit(X)
    outer = OutsideMap(Frame(2.0), 8, inside)
    with kept_scratch() as scratch:
        rows, features = outer.frame.rows(X, scratch), np.empty((5000, 8))
        outer.features(rows, features)
        assert_array_equal(rows.matrix, 2.0 * X)  # the inner loop left them alone
    assert_array_equal(features, inside.transform(2.0 * X))
