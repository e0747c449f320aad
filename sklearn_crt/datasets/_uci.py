"""Fetch the data sets of the random-feature papers."""

import os
from importlib import resources
from typing import Any

from sklearn.utils import Bunch

from ._files import load
from ._registry import DATASETS, UCIDataset
from ._table import parse, to_frame


def fetch_uci(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Bunch | tuple[Any, Any]:
    """Load a data set of the random-feature papers from its original file.

    Parameters
    ----------
    name : str
        ``"abalone"``, ``"banknote"``, ``"car"``, ``"yeast"``, ``"cmc"``,
        ``"nursery"``, ``"wifi"``, ``"chess"`` (the eight of the papers [2]_),
        ``"wine"``, ``"letter"``, ``"sgemm"``, ``"skin"``, ``"ijcnn1"``, which comes
        from the LIBSVM collection, or ``"housing"``, which UCI has withdrawn and which
        needs a local file.
    data_home : str or path-like, default=None
        Folder of downloads, by default :func:`sklearn.datasets.get_data_home`. The
        file is kept in its sub-folder ``sklearn_crt``.
    download_if_missing : bool, default=True
        If False, raise an error where the file is not on this machine.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        If True, `data` is a pandas DataFrame and `target` a pandas Series.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : {ndarray, DataFrame} of shape (n_samples, n_features)
            Without a categorical column a float64 array; with one an object array in
            which categories are str and numbers float. As a frame, categorical columns
            have dtype "category" and the others float64.
        target : {ndarray, Series} of shape (n_samples,)
            Classes as in the file: int64 where they are integers, otherwise str
            (dtype "category" in a frame); float64 for regression.
        frame : DataFrame of shape (n_samples, n_features + 1) or None
            `data` and `target` together if `as_frame=True`, otherwise None.
        feature_names : list of str
            Names of the columns of `data`.
        target_names : ndarray of shape (n_classes,) or None
            The classes, sorted; None for regression.
        categorical_features : list of int
            Indices of the columns of `data` whose values are names without an order.
        DESCR : str
            Description of the data set.
        filename : str
            Path of the file that was read.

    (data, target) : tuple if ``return_X_y`` is True
        The two attributes of that name.

    Raises
    ------
    ValueError
        If `name` is not a known data set.
    OSError
        If no file with the right checksum is on this machine and it cannot be
        downloaded, or must not be (`download_if_missing=False`).
    ImportError
        If `as_frame=True` and pandas is not installed.

    Notes
    -----
    A file with the right sha256, plain, ``.gz``, ``.bz2`` or ``.zip`` (the checksum is
    that of the unpacked content), is looked for in the sub-folder ``sklearn_crt`` of
    `data_home`, in `data_home`, and in the folders named by the environment variable
    ``SKLEARN_CRT_DATA`` (separated by :data:`os.pathsep`) down to three levels of
    sub-folders. Otherwise it is downloaded from UCI [1]_ with
    :func:`sklearn.datasets.fetch_file`, checked, and kept. No checksum is known for
    ``"skin"`` and ``"ijcnn1"``: a file of the right name is taken as it is.

    The papers one-hot encode the categorical columns and standardise all the columns.

    References
    ----------
    .. [1] Kelly, M., Longjohn, R., Nottingham, K. The UCI Machine Learning Repository.
       https://archive.ics.uci.edu
    .. [2] Likhosherstov, V. et al. (2022). Chefs' random tables: non-trigonometric
       random features. NeurIPS. arXiv:2205.15317

    Examples
    --------
    >>> from sklearn_crt.datasets import fetch_uci
    >>> abalone = fetch_uci("abalone")  # doctest: +SKIP
    >>> abalone.data.shape  # doctest: +SKIP
    (4177, 8)
    >>> abalone.categorical_features  # doctest: +SKIP
    [0]
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise ValueError(f"name={name!r} is no known data set; use {list(DATASETS)}.")
    spec = DATASETS[name]
    path, content = load(spec, data_home, download_if_missing)
    bunch = parse(spec, content)
    bunch.DESCR = _describe(spec)
    bunch.filename = str(path)
    if as_frame:
        to_frame(bunch, spec.column_names.split()[spec.target])
    return (bunch.data, bunch.target) if return_X_y else bunch


def _describe(spec: UCIDataset) -> str:
    folder = resources.files(__package__) / "descr"
    text = (folder / f"{spec.name}.rst").read_text(encoding="utf-8")
    return f"{text}\n.. rubric:: Citation\n\n{spec.citation}\n"
