"""What holds for any model, any rows and any order of calls, on cases drawn at random.

Answers are compared up to rounding: by how much they change where the numbers of the
rows change in their last digit. So tables far from zero and heavy tails are included.
"""

import copy
import math
import os
import pickle
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from traceback import extract_tb

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, reject, seed, settings
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor

N_EXAMPLES, N_SLOW = 4, 320  # of each property and kind of model
SEED = int(os.environ.get("PROPERTY_SEED", 20261122))  # of the slow ones
OWN_WARNINGS = (
    r".* features of \d+ rows are too small|Features of .* are too large"
    r"|For \d+ rows, the sum of the kernel weights"
    "|The average of a training row depends"
    "|kernel='linear' requires features of a kernel|partial_fit changed the feature map"
    r"|.*the predicted error of the kernel estimate"
    r"|This hybrid requires|\d+ maps require"
    r"|All rows are equal|The frequencies of|Kernel values of"
    r"|For \d+ rows, \w+ computes features"
    r"|\d+ of \d+ rows are copies of other rows"
)


# ---------------------------------------------------------------------------- answers
def quietly(call, *, refusable=True):
    """Return the result and the warnings; a refusal in own words ends the example."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("error")
        warnings.filterwarnings("always", OWN_WARNINGS)
        try:
            return call(), [str(warning.message) for warning in said]
        except (ValueError, TypeError) as error:
            check_refusal(error)
            if not refusable:
                raise
    return reject()


def check_refusal(error):
    """Fail for an error that is not in the words of the package or scikit-learn."""
    where = Path(extract_tb(error.__traceback__)[-1].filename).parts
    assert not {"numpy", "scipy", "pandas"}.intersection(where), f"raw {error!r}"
    assert len(str(error)) > 20, f"curt {error!r}"


def fit(case, rows=slice(None), weights=None, *, model=None, method="fit"):
    """Return a model fitted on some rows, or with these rows added."""
    model = clone(case.model) if model is None else model
    options = {} if weights is None else {"sample_weight": weights}
    if method == "partial_fit" and is_classifier(model):
        options["classes"] = np.unique(case.y)
    targets = [case.y[rows]] if hasattr(model, "predict") else []
    return getattr(model, method)(case.table(rows), *targets, **options)


def answers(model, table):
    """Return all that a model says about rows."""
    if is_regressor(model):
        return [model.predict(table)]
    names = "predict_proba", "decision_function", "transform", "transform_key"
    return [getattr(model, name)(table) for name in names if hasattr(model, name)]


def compare(case, found, plain, *, alone=True, loss=1.0):
    """Assert that found() are the answers of plain(case), up to last digits of rows.

    Beside the largest answer about a row, or about all of them if not alone. ``loss``
    is how many times as much is lost to rounding as usual.
    """
    cases = [case, *(case.nudged(k) for k in range(3))]
    expected, _ = quietly(lambda: [*map(plain, cases)])
    found, _ = quietly(found, refusable=False)
    base = 2e-6 if case.X.dtype == np.float32 else 1e-9
    for other, right, *near in zip(found, *expected):
        parts = (part.reshape(len(part), -1) for part in (other, right, *near))
        other, right, *near = parts
        size = np.abs(right).max(axis=1 if alone else None, keepdims=True)
        if is_regressor(case.model):
            size = np.abs(case.y).max()
        elif right.shape[1] == 1 and np.unique(case.y).size == 2:
            size = 1.0  # of a difference of probabilities
        with np.errstate(invalid="ignore"):  # of infinities
            gaps = np.max([np.abs(n - right).max(axis=1) for n in near], axis=0)
            allowed = (
                loss * base * size + 100 * np.nan_to_num(gaps, nan=np.inf)[:, None]
            )
            off = ~(np.abs(other - right) <= allowed) & (other != right)
        assert not off.any(), f"{other[off][:3]} is not {right[off][:3]}"


def of_fit(case):
    return answers(fit(case), case.table())


# ------------------------------------------------------------------------- properties
def outputs_are_numbers(case):
    """In their shape, type and range, whatever the rows; or a refusal in own words."""
    table, params, model = case.table(), pickle.dumps(case.model), clone(case.model)
    targets = [case.y] if hasattr(model, "predict") else []
    asked = case.with_far_rows().table()
    found, said = quietly(lambda: answers(model.fit(table, *targets), asked))
    assert pickle.dumps(clone(model)) == params, "fit changed a parameter"
    rows = table.toarray() if sparse.issparse(table) else np.asarray(table)
    assert np.array_equal(rows, case.X), "fit changed the rows"
    n, d_type = 2 * len(rows), np.float32 if rows.dtype == np.float32 else np.float64
    if hasattr(model, "exact_kernel"):
        assert {array.shape for array in found} == {(n, model.map_.n_components)}
        for method in model.exact_kernel, model.approximate_kernel:
            kernel, more = quietly(lambda method=method: method(asked))
            assert kernel.shape == (n, n)
            found, said = [*found, kernel], said + more
    for array in found:
        assert not np.isnan(array).any()
        too_large = any("are too large" in message for message in said)
        assert too_large or np.isfinite(array).all(), "infinite without a word"
        assert array.dtype == (np.float64 if is_regressor(model) else d_type)
        assert len(array) == n
    if is_classifier(model):
        shares, labels = found[0], quietly(lambda: model.predict(asked))[0]
        assert shares.shape == (n, len(np.unique(case.y)))
        assert shares.min() >= 0
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
        chosen = shares[np.arange(n), np.searchsorted(model.classes_, labels)]
        assert np.all(chosen >= shares.max(axis=1) - 1e-6), "predict is not the largest"
    if is_regressor(model):
        slack = (1e-6 if d_type is np.float32 else 1e-12) * np.abs(case.y).max(axis=0)
        assert found[0].shape == (n, *case.y.shape[1:])
        if getattr(model, "clip", True):  # else planes go on beyond the targets
            assert np.all(found[0] >= case.y.min(axis=0) - slack)
            assert np.all(found[0] <= case.y.max(axis=0) + slack)


def rows_stand_alone(case):
    rows = case.rng.integers(0, len(case.X), case.rng.integers(1, 9))
    model, _ = quietly(lambda: fit(case))

    def of_all(case):
        return [part[rows] for part in answers(model, case.table())]

    compare(case, lambda: answers(model, case.table(rows)), of_all)


def batches_are_one_fit(case):
    """In the order of the rows."""
    rng, n, model = case.rng, len(case.X), clone(case.model)
    if case.has_clusters:
        reject()
    order = np.arange(n)

    def in_batches():
        for rows in np.split(order, np.sort(rng.integers(1, n, min(n - 1, 3)))):
            if rows.size:
                fit(case, rows, model=model, method="partial_fit")
        return answers(model, case.table())

    compare(case, in_batches, of_fit)


def merging_is_one_fit(case):
    if case.has_clusters or case.has_few_anchors:
        reject()

    def merged():
        cut = case.rng.integers(1, max(2, len(case.X)))
        model = fit(case, slice(0, cut), method="partial_fit")
        if cut < len(case.X):
            model.merge(fit(case, slice(cut, None), method="partial_fit"))
        return answers(model, case.table())

    compare(case, merged, of_fit)


def weights_are_repetitions(case):
    case = case.without_choices()  # each copy of a row is left out on its own
    counts = case.rng.integers(0, 3, len(case.X))
    counts[0] = 2  # so there are rows
    rows = np.repeat(np.arange(len(case.X)), counts)
    if case.jumps or not np.isin(case.y, case.y[rows]).all():
        reject()
    whole = replace(case, X=case.X[rows], y=case.y[rows])
    compare(whole, lambda: answers(fit(case, weights=counts), whole.table()), of_fit)


def sparse_is_dense(case):
    if case.jumps:
        reject()
    table = case.of_sparse_rows()
    fitted, _ = quietly(lambda: fit(table))
    sigma = getattr(getattr(fitted, "kernel_", fitted), "sigma_", 1.0)
    # w.x - w.c is taken where nothing is subtracted from sparse rows, and a factor
    # epsilon at the least number of a column is rounding beside other rows
    norms = np.square(sigma * case.X.astype(float)).sum(axis=1)
    loss = 10 + 10 * math.sqrt(float(norms.max()))
    dense = replace(case, form="C")
    compare(dense, lambda: of_fit(table), of_fit, alone=False, loss=loss)


def copies_answer_the_same(case):
    model, again = quietly(lambda: fit(case))[0], clone(case.model)

    def second_fit():
        if hasattr(again, "n_components"):
            again.set_params(n_components=3)
        fit(case, slice(0, 1), model=again)
        return fit(case, model=again.set_params(**case.model.get_params(deep=False)))

    stored, again = pickle.loads(pickle.dumps(model)), quietly(second_fit)[0]
    for other in stored, again, copy.copy(model), copy.deepcopy(model):
        assert_equal(other, model, case)


def assert_equal(one, other, case):
    expected, _ = quietly(lambda: answers(other, case.table()))
    found, _ = quietly(lambda: answers(one, case.table()), refusable=False)
    for pair in zip(found, expected):
        np.testing.assert_array_equal(*pair)


def failed_calls_change_nothing(case):
    model, _ = quietly(lambda: fit(case, method=["fit", "partial_fit"][case.seed % 2]))
    before, X, y = copy.deepcopy(model), case.X.astype(float), case.y
    wide, missing = np.hstack([X, X[:, :1]]), X + np.nan
    is_average = hasattr(model, "predict")
    y = [y] if is_average else []
    use = model.predict if is_average else model.transform
    calls = [
        *(lambda t=t: model.fit(t, *y) for t in (missing, X[0], X + np.inf)),
        *(lambda t=t: model.partial_fit(t, *y) for t in (missing, wide, X + np.inf)),
        *(lambda t=t: use(t) for t in (missing, wide, X[0], X[:0])),
        lambda: model.merge(clone(case.model)),
        lambda: model.merge(fit(replace(case, X=wide, form="C"))),
        lambda: model.merge(3),
        lambda: model.fit(X, *y, sample_weight=np.full(len(X), -1.0)),
        lambda: model.partial_fit(X, *y, sample_weight=np.ones(len(X) + 1)),
    ]
    if is_average:
        calls.append(lambda: model.fit(X, *y, sample_weight=np.zeros(len(X))))
        calls.append(lambda: model.fit(X, np.concatenate(y + y)))
        new = ["new"] * len(X) if is_classifier(model) else y[0] * np.nan
        calls.append(lambda: model.partial_fit(X, new))
    for k, call in enumerate(calls):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                call()
            except (ValueError, TypeError) as error:
                check_refusal(error)
            else:
                pytest.fail(f"call {k} is no error")
        assert_equal(model, before, case)


def any_sequence_is_one_fit(case):
    """Of batches, merges, copies, answers, failures and changes of parameters."""
    rng, n = case.rng, len(case.X)
    kinds = ["add", "merge", "pickle", "copy", "ask", "fail", "set"]
    names = ["add", *rng.choice(kinds, 12)]
    steps = [(name, rng.integers(0, n, rng.integers(1, 9))) for name in names]
    seen = np.concatenate([rows for name, rows in steps if name in ("add", "merge")])
    if replace(case, X=case.X[seen]).jumps:  # of many rows a sample, another one each
        reject()

    def walk():
        model = clone(case.model)
        for step, rows in steps:
            if step == "add":
                fit(case, rows, model=model, method="partial_fit")
            elif step == "merge":
                model.merge(fit(case, rows, method="partial_fit"))
            elif step == "ask":
                answers(model, case.table())
            elif step == "fail":
                with pytest.raises((ValueError, TypeError)):
                    fit(replace(case, X=case.X[:, :0]), rows, model=model)
            elif step == "set" and hasattr(model, "n_components"):
                before = model.get_params()
                model.set_params(n_components=before["n_components"] + 1, sigma=0.123)
                with pytest.raises(ValueError, match="partial_fit adds rows to a"):
                    fit(case, rows, model=model, method="partial_fit")
                model.set_params(**{k: before[k] for k in ("n_components", "sigma")})
            elif step == "pickle":
                model = pickle.loads(pickle.dumps(model))
            elif step == "copy":
                before, model = model, copy.copy(model)
                fit(case, rows, model=before, method="partial_fit")  # shares nothing
        return answers(model.freeze() if rng.random() < 0.5 else model, case.table())

    def at_once(case):
        return answers(fit(case, seen, method="partial_fit"), case.table())

    compare(case, walk, at_once)


# ------------------------------------------------------------------------------- runs
PROPERTIES = [
    outputs_are_numbers,
    rows_stand_alone,
    batches_are_one_fit,
    merging_is_one_fit,
    weights_are_repetitions,
    sparse_is_dense,
    copies_answer_the_same,
    failed_calls_change_nothing,
    any_sequence_is_one_fit,
]


def run(holds, cases, n_examples, number):
    """Look for a case in which a property does not hold, and say how many were seen."""
    counts = Counter()

    @settings(
        max_examples=n_examples,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @seed(number)
    @given(cases())
    def search(case):
        counts["drawn"] += 1
        holds(case)
        counts["held"] += 1

    try:
        search()
    finally:
        print(f"{holds.__name__}({cases.__name__}), seed {number}: {dict(counts)}")


@pytest.mark.parametrize("holds", PROPERTIES)
def test_property(holds, cases):
    run(holds, cases, N_EXAMPLES, 0)


@pytest.mark.slow
@pytest.mark.parametrize("holds", PROPERTIES)
def test_property_of_many_cases(holds, cases):
    run(holds, cases, N_SLOW, SEED)
