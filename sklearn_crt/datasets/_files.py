"""Find the original file of a data set by its checksum, or download it."""

import bz2
import gzip
import hashlib
import io
import os
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError

from sklearn.datasets import fetch_file, get_data_home

from ._registry import UCIDataset

_CACHE = "sklearn_crt"  # sub-folder of data_home
_DEPTH = 3  # levels of sub-folders that are searched below SKLEARN_CRT_DATA
_N_RETRIES, _DELAY = 3, 1  # of a download; the delay is in seconds


def _open_zip(path: Path, mode: str) -> IO[Any]:
    """Open the one file of an archive PLACE/NAME.zip that is called NAME."""
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(path.stem))


_OPENERS: dict[str, Callable[..., IO[Any]]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".zip": _open_zip,
}

_DataHome = str | os.PathLike[str] | None


def load(
    spec: UCIDataset, data_home: _DataHome, download_if_missing: bool
) -> tuple[Path, bytes]:
    """Return the path and the unpacked, checked content of the file of a set."""
    rejected = []
    for path in _candidates(spec.file_name, data_home):
        content, found = _read(path)
        if found == spec.sha256 or (spec.sha256 is None and content):
            return path, content
        rejected.append(f"{path} ({found})")
    if spec.url is None:
        raise _not_found(spec, rejected, "UCI no longer offers it")
    if not download_if_missing:
        reason = f"download_if_missing=False; True downloads it from {spec.url}"
        raise _not_found(spec, rejected, reason)
    try:
        folder = Path(get_data_home(data_home), _CACHE)
        folder.mkdir(exist_ok=True)
        # It warns of each retry and of a damaged copy that it replaces: where warnings
        # are errors that would end the call.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            # the checksum is that of the content, so a packed file is checked below
            packed = next((end for end in _OPENERS if spec.url.endswith(end)), "")
            local_filename = spec.file_name + packed
            if packed:
                (folder / local_filename).unlink(missing_ok=True)
            path = fetch_file(
                spec.url,
                folder=folder,
                local_filename=local_filename,
                sha256=None if packed else spec.sha256,
                n_retries=_N_RETRIES,
                delay=_DELAY,
            )
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the answer of the server open
        reason = f"the download from {spec.url} failed: {str(error).strip()}"
        raise _not_found(spec, rejected, reason) from error
    content, found = _read(path)
    if not content or spec.sha256 not in (found, None):
        path.unlink()
        raise _not_found(spec, rejected, f"{spec.url} holds another file")
    return path, content


def _candidates(file_name: str, data_home: _DataHome) -> Iterator[Path]:
    """Yield the existing files of that name, packed or not, in order of search."""
    places = []
    with suppress(OSError):  # a home that cannot be made: the other folders may serve
        home = Path(get_data_home(data_home))
        places += [(home / _CACHE, 0), (home, 0)]
    folders = os.environ.get("SKLEARN_CRT_DATA", "").split(os.pathsep)
    places += [(Path(folder).expanduser(), _DEPTH) for folder in folders if folder]
    for folder, depth in places:
        for level in range(depth + 1):
            for suffix in ("", *_OPENERS):
                yield from sorted(folder.glob("*/" * level + file_name + suffix))


def _read(path: Path) -> tuple[bytes, str]:
    """Return the unpacked content and its sha256, or why it cannot be read."""
    try:
        with _OPENERS.get(path.suffix, open)(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, KeyError, zlib.error, zipfile.BadZipFile) as error:
        return b"", f"unreadable: {error}"
    return content, hashlib.sha256(content).hexdigest()


def _not_found(spec: UCIDataset, rejected: list[str], reason: str) -> OSError:
    checked = f" with sha256 {spec.sha256}" if spec.sha256 else ""
    message = (
        f"Data set {spec.name!r}: no file {spec.file_name}{checked} "
        f"on this machine, and {reason}. Way out: put the original file (plain, .gz, "
        ".bz2 or .zip) into data_home or into a folder named by the environment "
        "variable SKLEARN_CRT_DATA."
    )
    if rejected:
        message += f" Skipped for a wrong checksum: {', '.join(rejected)}."
    return OSError(message)
