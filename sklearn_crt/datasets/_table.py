"""From the text of a file to arrays and frames."""

import io
from contextlib import suppress

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from ._registry import UCIDataset


def parse(spec: UCIDataset, content: bytes) -> Bunch:
    """Take the arrays and their names out of the content of a file."""
    names = spec.column_names.split()
    if spec.svmlight:
        rows, classes = load_svmlight_file(
            io.BytesIO(content), n_features=len(names) - 1
        )
        table = np.column_stack([rows.toarray(), classes])
    else:
        lines = content.decode("utf-8").splitlines()[spec.header :]
        table = np.array([line.split(spec.separator) for line in lines if line.strip()])
    first = spec.target % len(names)
    targets = range(first, first + spec.n_targets)
    excluded = {*targets, *spec.dropped}
    features = [column for column in range(len(names)) if column not in excluded]
    categorical = [features.index(column) for column in spec.categorical]
    data = table[:, features].astype(object if categorical else np.float64)
    if categorical:
        for j in set(range(len(features))).difference(categorical):
            data[:, j] = data[:, j].astype(np.float64)
    target = np.array(table[:, first].tolist())  # no wider than its longest value
    if spec.task == "regression":
        target = table[:, targets].astype(np.float64).mean(axis=1)
    else:
        with suppress(ValueError):  # classes that are not integers stay strings
            target = target.astype(np.int64)
    return Bunch(
        data=data,
        target=target,
        frame=None,
        feature_names=[names[column] for column in features],
        target_names=None if spec.task == "regression" else np.unique(target),
        categorical_features=categorical,
    )


def to_frame(bunch: Bunch, target_name: str) -> None:
    """Turn the arrays of a bunch into pandas objects, in place."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas: install it, or use as_frame=False."
        ) from error
    columns = {}
    for j, name in enumerate(bunch.feature_names):
        categorical = j in bunch.categorical_features
        dtype = "category" if categorical else np.float64
        columns[name] = pd.Series(bunch.data[:, j], dtype=dtype)
    target_dtype = "category" if bunch.target.dtype.kind == "U" else None
    columns[target_name] = pd.Series(bunch.target, dtype=target_dtype)
    bunch.frame = pd.DataFrame(columns)
    bunch.data = bunch.frame[bunch.feature_names]
    bunch.target = bunch.frame[target_name]
