"""From the text of a file to arrays and frames."""

import io
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from ._registry import UCIDataset


def parse(spec: UCIDataset, content: bytes) -> Bunch:
    """Take the arrays and their names out of the content of a file."""
    names = spec.column_names.split()
    first = spec.target % len(names)
    targets = range(first, first + spec.n_targets)
    excluded = {*targets, *spec.dropped}
    features = [column for column in range(len(names)) if column not in excluded]
    categorical = [features.index(column) for column in spec.categorical]
    if spec.svmlight:
        rows, target = load_svmlight_file(io.BytesIO(content), n_features=len(features))
        data = rows.toarray()
    else:
        lines = content.decode("utf-8").splitlines()[spec.header :]
        lines = [line for line in lines if line.strip()]

        def read(columns: Sequence[int], dtype: type) -> np.ndarray:
            return np.loadtxt(
                lines,
                dtype,
                comments=None,
                delimiter=spec.separator,
                usecols=columns,
                ndmin=2,
            )

        data = read(features, str if categorical else np.float64)
        target = read(targets, np.float64 if spec.task == "regression" else str)
        target = target.mean(axis=1) if spec.task == "regression" else target[:, 0]
    if categorical:
        data = data.astype(object)
        for j in set(range(len(features))).difference(categorical):
            data[:, j] = data[:, j].astype(np.float64)
    if spec.task == "classification":
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
