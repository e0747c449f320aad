"""Fetch data sets of the UCI repository, and verify and parse their files."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import socket
import struct
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from importlib import resources
from pathlib import Path
from typing import IO, Any, cast
from urllib.error import HTTPError

import numpy as np
from sklearn.datasets import fetch_file, get_data_home, load_svmlight_file
from sklearn.utils import Bunch

from .registry import DATASETS, UCIDataset

_CACHE = "sklearn_crt"  # sub-folder of data_home
_DEPTH = 3  # levels of sub-folders that are searched below SKLEARN_CRT_DATA
# number of retries of a download, and the delay between them in seconds
_N_RETRIES, _DELAY = 3, 1
_SILENCE = 30  # seconds without any data after which a download is cancelled
_MOST_TIMES = 4  # largest accepted file size, as a multiple of the original size


def _open_zip(file: IO[bytes], name: str) -> IO[bytes]:
    """Open the file with a given name in an archive."""
    return zipfile.ZipFile(file).open(name)


_OPENERS: dict[str, Callable[[IO[bytes], str], IO[bytes]]] = {
    ".gz": lambda file, name: cast(IO[bytes], gzip.GzipFile(fileobj=file)),
    ".bz2": lambda file, name: bz2.BZ2File(file),
    ".zip": _open_zip,
}
# errors that decompression can raise; RuntimeError is raised for encrypted archives
_UNREADABLE = (
    OSError,
    EOFError,
    KeyError,
    RuntimeError,
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

_DataHome = str | os.PathLike[str] | None


def load(
    spec: UCIDataset, data_home: _DataHome, download_if_missing: bool
) -> tuple[Path, Bunch]:
    """Return the path and the contents of the verified file of a data set."""
    rejected = []
    for path in _candidates(spec, data_home):
        try:
            packed = path.read_bytes()
        except OSError as error:
            rejected.append((path, f"unreadable: {error}"))
            continue
        bunch, found = _check(spec, packed, path.suffix)
        if bunch is not None:
            return path, bunch
        rejected.append((path, found))
    if spec.url is None:
        raise _not_found(spec, rejected, "UCI no longer offers it")
    if not download_if_missing:
        reason = f"download_if_missing=False; True downloads it from {spec.url}"
        raise _not_found(spec, rejected, reason)
    suffix = next((end for end in _OPENERS if spec.url.endswith(end)), "")
    try:
        folder = Path(get_data_home(data_home), _CACHE)
        folder.mkdir(exist_ok=True)
        for path, _ in rejected:
            # downloads are deleted, but not the user's own files
            if path.parent == folder:
                with suppress(OSError):
                    path.unlink()
        path = folder / (spec.file_name + suffix)
        for _ in range(2):  # a damaged download is retried once
            bunch, found = _check(spec, _download(spec.url, path), suffix)
            if bunch is not None:
                return path, bunch
            path.unlink()
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # the error keeps the response of the server open
        reason = f"the download from {spec.url} failed: {str(error).strip()}"
        raise _not_found(spec, rejected, reason) from error
    raise _not_found(spec, rejected, f"{spec.url} contains a different file ({found})")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Limit how long a connection waits for data, unless the user has set a limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_SILENCE if before is None else before)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def _download(url: str, path: Path) -> bytes:
    """Download a file, store it, and return its contents."""
    path.unlink(missing_ok=True)  # the contents are verified later, after decompression
    # Each retry issues a warning, which would end the download if warnings were errors.
    with _time_limit(), warnings.catch_warnings(action="ignore", category=UserWarning):
        folder, name = path.parent, path.name
        options = {"n_retries": _N_RETRIES, "delay": _DELAY}
        fetch_file(url, folder=folder, local_filename=name, sha256=None, **options)
    return path.read_bytes()


def _candidates(spec: UCIDataset, data_home: _DataHome) -> Iterator[Path]:
    """Yield the existing files of a data set, compressed or not, in search order."""
    if spec.included:
        yield Path(str(resources.files(__package__) / "files" / f"{spec.file_name}.gz"))
    places = []
    # if the folder cannot be created, the other folders are still searched
    with suppress(OSError):
        home = Path(get_data_home(data_home))
        places += [(home / _CACHE, 0), (home, 0)]
    folders = os.environ.get("SKLEARN_CRT_DATA", "").split(os.pathsep)
    places += [(Path(folder).expanduser(), _DEPTH) for folder in folders if folder]
    for folder, depth in places:
        for level in range(depth + 1):
            for suffix in ("", *_OPENERS):
                pattern = "*/" * level + spec.file_name + suffix
                yield from sorted(folder.glob(pattern))


def _check(spec: UCIDataset, packed: bytes, suffix: str) -> tuple[Bunch | None, str]:
    """Return the parsed contents of a correct file, otherwise None and the reason."""
    limit = _MOST_TIMES * spec.n_bytes
    content = packed
    if suffix in _OPENERS:
        try:
            with _OPENERS[suffix](io.BytesIO(packed), spec.file_name) as file:
                content = file.read(limit + 1)
        except _UNREADABLE as error:
            return None, f"unreadable: {error}"
    if len(content) > limit:
        times = f"{_MOST_TIMES} times the size of the original"
        return None, f"more than {limit} bytes, {times}"
    if spec.sha256 is not None:
        found = hashlib.sha256(content).hexdigest()
        return (parse(spec, content), found) if found == spec.sha256 else (None, found)
    try:
        bunch = parse(spec, content)
        _check_form(spec, content, bunch)
    except (ValueError, OverflowError) as error:
        return None, f"not in the format of the original: {error}"
    return bunch, ""


def _check_form(spec: UCIDataset, content: bytes, bunch: Bunch) -> None:
    """Raise an error if a file without a known checksum cannot be the original."""
    n_rows = len(bunch.target)
    if spec.n_rows not in (n_rows, None):
        raise ValueError(f"{n_rows} rows instead of {spec.n_rows}")
    classes = bunch.target_names.tolist()
    if spec.classes and classes != [*spec.classes]:
        raise ValueError(f"classes {classes[:9]} instead of {[*spec.classes]}")
    if spec.svmlight:
        # omitted values are 0, so a truncated line would not be noticed
        if not content.endswith(b"\n"):
            raise ValueError("the last line is incomplete")
    else:
        n_columns = len(spec.column_names.split())
        for line in content.decode("utf-8").splitlines()[spec.header :]:
            found = len(line.split(spec.separator))
            if line.strip() and found != n_columns:
                raise ValueError(f"{found} columns instead of {n_columns}: {line[:80]}")
    if not bunch.categorical_features and not np.isfinite(bunch.data).all():
        raise ValueError("values that are not finite")


def _not_found(
    spec: UCIDataset, rejected: list[tuple[Path, str]], reason: str
) -> OSError:
    checked = f" with sha256 {spec.sha256}" if spec.sha256 else ""
    message = (
        f"Data set {spec.name!r}: there is no file {spec.file_name}{checked} "
        f"on this machine, and {reason}. Put the original file (plain, .gz, .bz2 or "
        ".zip) into data_home, or into a folder that is listed in the environment "
        "variable SKLEARN_CRT_DATA."
    )
    if rejected:
        skipped = ", ".join(f"{path} ({found})" for path, found in rejected)
        what = "checksum" if spec.sha256 else "format"
        message += f" Files with a wrong {what} were skipped: {skipped}."
    return OSError(message)


def parse(spec: UCIDataset, content: bytes) -> Bunch:
    """Parse the content of a file into arrays and column names."""
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
        if not lines:  # NumPy would only warn
            raise ValueError("no rows")

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
        with suppress(ValueError):  # classes that are not integers remain strings
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
    """Replace the arrays of a bunch by pandas objects."""
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


def fetch_uci(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Any:
    """Load a UCI or LIBSVM data set that is used in papers on random features.

    Parameters
    ----------
    name : str
        ``"abalone"``, ``"banknote"``, ``"car"``, ``"yeast"``, ``"cmc"``, ``"nursery"``,
        ``"wifi"``, ``"chess"`` (the eight data sets of [2]_), ``"wine"``, ``"letter"``,
        ``"sgemm"``, ``"skin"``, ``"ijcnn1"`` (from the LIBSVM collection) or
        ``"housing"`` (withdrawn by UCI, so a local file is required). ``"banknote"``,
        ``"car"``, ``"cmc"``, ``"wifi"`` and ``"yeast"`` are included in this package.
    data_home : str or path-like, default=None
        Folder for downloads, by default :func:`sklearn.datasets.get_data_home`. The
        file is stored in its sub-folder ``sklearn_crt``.
    download_if_missing : bool, default=True
        If False, raise an error instead of downloading a missing file.
    return_X_y : bool, default=False
        If True, return ``(data, target)`` instead of a Bunch.
    as_frame : bool, default=False
        If True, `data` is a pandas DataFrame and `target` a pandas Series.

    Returns
    -------
    bunch : :class:`~sklearn.utils.Bunch`
        Dictionary-like object, with the following attributes.

        data : {ndarray, DataFrame} of shape (n_samples, n_features)
            A float64 array if there is no categorical column, otherwise an object array
            of strings (categories) and floats (numbers). If `as_frame=True`,
            categorical columns have dtype "category" and all others float64.
        target : {ndarray, Series} of shape (n_samples,)
            For classification, class labels: int64 if they are integers, otherwise
            strings (dtype "category" in a Series). For regression, float64 numbers.
        frame : DataFrame of shape (n_samples, n_features + 1) or None
            `data` and `target` together if `as_frame=True`, otherwise None.
        feature_names : list of str
            Names of the columns of `data`.
        target_names : ndarray of shape (n_classes,) or None
            The sorted class labels; None for regression.
        categorical_features : list of int
            Indices of the categorical columns of `data`. Their categories have no
            order.
        DESCR : str
            Description of the data set.
        filename : str
            Path of the file that was read.

    (data, target) : tuple if ``return_X_y`` is True
        The attributes `data` and `target`.

    Raises
    ------
    ValueError
        If `name` is not a known data set.
    OSError
        If there is no valid file on this machine, and it cannot be downloaded or
        `download_if_missing=False`.
    ImportError
        If `as_frame=True` and pandas is not installed.

    Notes
    -----
    The files of ``"banknote"``, ``"car"``, ``"cmc"``, ``"wifi"`` and ``"yeast"`` are
    part of this package (CC BY 4.0; the authors are named in ``DESCR``), so these data
    sets need neither a network nor a folder.

    For all other data sets, the function looks for a file with the correct SHA-256
    checksum of its uncompressed content, either plain or compressed as ``.gz``,
    ``.bz2`` or ``.zip``, in the sub-folder ``sklearn_crt`` of `data_home`, in
    `data_home` itself, and in the folders listed in the environment variable
    ``SKLEARN_CRT_DATA`` (separated by :data:`os.pathsep`), including three levels of
    their sub-folders. If no such file exists, it is downloaded from UCI [1]_ with
    :func:`sklearn.datasets.fetch_file`, verified and stored; an incorrect file in the
    sub-folder ``sklearn_crt`` is removed first. No checksum is known for ``"skin"`` and
    ``"ijcnn1"``, so the numbers of rows and columns and the class labels are checked
    instead. A file is rejected if it is more than four times as large as the original
    file after decompression. A download is cancelled if no data arrive for 30 seconds.

    In the papers, categorical columns are one-hot encoded, and then all columns are
    standardised.

    References
    ----------
    .. [1] Kelly, M., Longjohn, R., Nottingham, K. The UCI Machine Learning Repository.
       https://archive.ics.uci.edu
    .. [2] Likhosherstov, V. et al. (2022). Chefs' random tables: non-trigonometric
       random features. NeurIPS. arXiv:2205.15317

    Examples
    --------
    >>> from sklearn_crt.datasets import fetch_uci
    >>> car = fetch_uci("car")
    >>> car.data.shape
    (1728, 6)
    >>> car.data[0].tolist()
    ['vhigh', 'vhigh', '2', '2', 'small', 'low']
    >>> car.categorical_features
    [0, 1, 2, 3, 4, 5]
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise ValueError(
            f"name={name!r} is not a known data set; use one of {list(DATASETS)}."
        )
    spec = DATASETS[name]
    path, bunch = load(spec, data_home, download_if_missing)
    bunch.DESCR = _describe(spec)
    bunch.filename = str(path)
    if as_frame:
        to_frame(bunch, spec.column_names.split()[spec.target])
    return (bunch.data, bunch.target) if return_X_y else bunch


def _describe(spec: UCIDataset) -> str:
    page = (resources.files(__package__) / "descr.rst").read_text(encoding="utf-8")
    text = page.partition(f".. _{spec.name}:\n\n")[2].partition("\n.. _")[0]
    return f"{text}\n.. rubric:: Citation\n\n{spec.citation}\n"
