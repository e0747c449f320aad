import bz2
import contextlib
import gzip
import io
import re
import socket
import sys
import time
import tracemalloc
import zipfile
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sklearn_crt import datasets
from sklearn_crt.datasets import fetch_uci

# the sets themselves, of which one is given a made-up file
from sklearn_crt.datasets.registry import DATASETS

FILE = "data_banknote_authentication.txt"
# Three rows in the form of the file: CR LF, and no line end after the last row.
CONTENT = b"1.5,-2,0.25,3,0\r\n4,5,6,-7.5,1\r\n8,9,10,11,1"
DATA = np.array([[1.5, -2, 0.25, 3], [4, 5, 6, -7.5], [8, 9, 10, 11]])
FOUND = sha256(b"damaged").hexdigest()
PACK = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.fixture
def made_up(monkeypatch):
    """Put a set of known content and URL in the place of another one."""

    def put(name, content, url="http://127.0.0.1:9/unused", **changes):
        digest = None if content is None else sha256(content).hexdigest()
        changes = {"url": url, "sha256": digest, "included": False, **changes}
        spec = replace(DATASETS[name], **changes)
        monkeypatch.setitem(DATASETS, name, spec)
        return digest

    return put


@pytest.fixture
def served(server, made_up):
    """Serve the three rows as the data set banknote."""
    server.body = CONTENT
    server.digest = made_up("banknote", CONTENT, server.url + "/good")
    return server


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


NO_FILE = {"skin", "ijcnn1"}  # read where they are, but not among the files of CI

# Included files -------------------------------------------------------------------

INCLUDED = ["banknote", "car", "cmc", "wifi", "yeast"]


@pytest.mark.parametrize("name", INCLUDED)
def test_included_file_needs_neither_network_nor_variable(name, tmp_path):
    bunch = fetch_uci(name, data_home=tmp_path / "absent", download_if_missing=False)
    assert bunch.data.shape == FORM[name][0]
    assert bunch.data[0].tolist() == FORM[name][2]
    assert Counter(bunch.target.tolist()) == COUNTS[name]
    assert "CC BY 4.0" in bunch.DESCR
    assert Path(bunch.filename).parent == resources.files(datasets) / "files"
    assert not (tmp_path / "absent").exists()


def test_included_files_are_small_original_and_attributed():
    assert [name for name in sorted(DATASETS) if DATASETS[name].included] == INCLUDED
    folder = resources.files(datasets) / "files"
    names = {f"{DATASETS[name].file_name}.gz" for name in INCLUDED}
    assert {path.name for path in folder.iterdir()} == {*names, "LICENSE.txt"}
    text = (folder / "LICENSE.txt").read_text()
    assert "https://creativecommons.org/licenses/by/4.0/" in text
    for name in INCLUDED:
        packed = (folder / f"{DATASETS[name].file_name}.gz").read_bytes()
        assert len(packed) < 20_000
        content = gzip.decompress(packed)
        assert sha256(content).hexdigest() == DATASETS[name].sha256
        author, _, doi = DATASETS[name].citation.partition(",")
        assert author in text
        assert doi.rpartition("doi:")[2] in text


# Original files -------------------------------------------------------------------

COUNTS = {
    "abalone": {
        **{9: 689, 10: 634, 8: 568, 11: 487, 7: 391, 12: 267, 6: 259, 13: 203},
        **{14: 126, 5: 115, 15: 103, 16: 67, 17: 58, 4: 57, 18: 42, 19: 32, 20: 26},
        **{3: 15, 21: 14, 23: 9, 22: 6, 27: 2, 24: 2, 1: 1, 2: 1, 25: 1, 26: 1, 29: 1},
    },
    "banknote": {0: 762, 1: 610},
    "car": {"unacc": 1210, "acc": 384, "good": 69, "vgood": 65},
    "yeast": {
        **{"CYT": 463, "NUC": 429, "MIT": 244, "ME3": 163, "ME2": 51, "ME1": 44},
        **{"EXC": 35, "VAC": 30, "POX": 20, "ERL": 5},
    },
    "cmc": {1: 629, 2: 333, 3: 511},
    "nursery": {
        **{"not_recom": 4320, "priority": 4266, "spec_prior": 4044},
        **{"very_recom": 328, "recommend": 2},
    },
    "wifi": {1: 500, 2: 500, 3: 500, 4: 500},
    "chess": {
        **{"fourteen": 4553, "thirteen": 4194, "twelve": 3597, "eleven": 2854},
        **{"draw": 2796, "fifteen": 2166, "ten": 1985, "nine": 1712, "eight": 1433},
        **{"seven": 683, "six": 592, "five": 471, "sixteen": 390, "two": 246},
        **{"four": 198, "three": 81, "one": 78, "zero": 27},
    },
    "wine": {1: 59, 2: 71, 3: 48},
}
# rows, columns, categorical columns, first row, class of the last row
FORM = {
    "abalone": (
        (4177, 8),
        [0],
        ["M", 0.455, 0.365, 0.095, 0.514, 0.2245, 0.101, 0.15],
        12,
    ),
    "banknote": ((1372, 4), [], [3.6216, 8.6661, -2.8073, -0.44699], 1),
    "car": (
        (1728, 6),
        [0, 1, 2, 3, 4, 5],
        ["vhigh", "vhigh", "2", "2", "small", "low"],
        "vgood",
    ),
    "yeast": ((1484, 8), [], [0.58, 0.61, 0.47, 0.13, 0.5, 0, 0.48, 0.22], "CYT"),
    "cmc": ((1473, 9), [], [24, 2, 3, 3, 1, 1, 2, 3, 0], 3),
    "nursery": (
        (12960, 8),
        [0, 1, 2, 3, 4, 5, 6, 7],
        [
            *("usual", "proper", "complete", "1"),
            *("convenient", "convenient", "nonprob", "recommended"),
        ],
        "not_recom",
    ),
    "wifi": ((2000, 7), [], [-64, -56, -61, -66, -71, -82, -81], 4),
    "chess": (
        (28056, 6),
        [0, 1, 2, 3, 4, 5],
        ["a", "1", "b", "3", "c", "2"],
        "sixteen",
    ),
    "wine": (
        (178, 13),
        [],
        [14.23, 1.71, 2.43, 15.6, 127, 2.8, 3.06, 0.28, 2.29, 5.64, 1.04, 3.92, 1065],
        3,
    ),
    "letter": (
        (20000, 16),
        [],
        [2, 8, 3, 5, 1, 8, 13, 0, 6, 6, 10, 8, 0, 8, 0, 8],
        "A",
    ),
    "sgemm": (
        (241600, 14),
        [],
        [16, 16, 16, 8, 8, 8, 8, 2, 1, 1, 0, 0, 0, 0],
        17.8175,
    ),
    "skin": ((245057, 3), [], None, None),
    "ijcnn1": ((49990, 22), [], None, None),
    "housing": (
        (506, 13),
        [],
        [0.00632, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.9, 4.98],
        11.9,
    ),
}


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", sorted(set(DATASETS) - NO_FILE))
def test_form_of_original_file(name):
    shape, categorical, first, last = FORM[name]
    bunch = fetch_uci(name, download_if_missing=False)
    assert bunch.data.shape == shape
    assert bunch.target.shape == shape[:1]
    assert bunch.categorical_features == categorical
    assert bunch.data.dtype == (object if categorical else np.float64)
    assert bunch.data[0].tolist() == first
    assert bunch.target[-1] == last
    assert len(bunch.feature_names) == shape[1]
    assert bunch.frame is None
    for j in range(shape[1]):
        kind = str if j in categorical else float
        assert {type(value) for value in bunch.data[:, j].tolist()} == {kind}


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("name", COUNTS)
def test_class_counts_of_original_file(name):
    bunch = fetch_uci(name, download_if_missing=False)
    assert Counter(bunch.target.tolist()) == COUNTS[name]
    assert bunch.target_names.tolist() == sorted(COUNTS[name])
    assert bunch.target.dtype.kind in "iU"


@pytest.mark.usefixtures("real_data")
def test_letter_and_housing_targets():
    counts = Counter(fetch_uci("letter", download_if_missing=False).target.tolist())
    assert "".join(sorted(counts)) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert (min(counts.values()), max(counts.values())) == (734, 813)
    housing = fetch_uci("housing", download_if_missing=False)
    assert housing.target.dtype == np.float64
    assert (housing.target.min(), housing.target.max()) == (5, 50)
    assert housing.target.mean() == pytest.approx(22.53, abs=0.005)
    assert housing.target_names is None


@pytest.mark.usefixtures("real_data")
def test_sgemm_target_is_the_mean_of_four_runs():
    sgemm = fetch_uci("sgemm", download_if_missing=False)
    assert sgemm.target[0] == pytest.approx((115.26 + 115.87 + 118.55 + 115.8) / 4)
    assert (sgemm.target.min(), sgemm.target.max()) == pytest.approx(
        (13.3175, 3341.5075)
    )
    assert sgemm.feature_names[0] == "MWG"
    assert sgemm.feature_names[-1] == "SB"
    assert sgemm.target_names is None


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize("as_frame", [False, True])
def test_encoding_of_the_papers(as_frame):
    pytest.importorskip("pandas")
    bunch = fetch_uci("abalone", download_if_missing=False, as_frame=as_frame)
    encoder = make_column_transformer(
        (OneHotEncoder(sparse_output=False), bunch.categorical_features),
        remainder="passthrough",
    )
    X = StandardScaler().fit_transform(encoder.fit_transform(bunch.data))
    assert X.shape == (4177, 10)
    np.testing.assert_allclose(X.std(axis=0), 1)


@pytest.mark.usefixtures("real_data")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "sgemm" else name
        for name in sorted(set(DATASETS) - NO_FILE)
    ],
)
def test_frame_holds_the_same_values(name):
    pytest.importorskip("pandas")
    bunch = fetch_uci(name, download_if_missing=False)
    frame = fetch_uci(name, download_if_missing=False, as_frame=True)
    np.testing.assert_array_equal(frame.data.to_numpy(), bunch.data)
    np.testing.assert_array_equal(np.asarray(frame.target), bunch.target)
    assert list(frame.data.columns) == frame.feature_names == bunch.feature_names
    assert list(frame.frame.columns) == [*bunch.feature_names, frame.target.name]
    dtypes = [
        "category" if j in bunch.categorical_features else "float64"
        for j in range(bunch.data.shape[1])
    ]
    assert [str(dtype) for dtype in frame.data.dtypes] == dtypes


# Registry and descriptions --------------------------------------------------------


def test_fetch_uci_is_the_only_public_name():
    assert datasets.__all__ == ["fetch_uci"]


@pytest.mark.parametrize("spec", DATASETS.values(), ids=DATASETS)
def test_registry_entry(spec):
    assert (spec.sha256 is None) == (spec.name in NO_FILE)
    assert re.fullmatch("[0-9a-f]{64}", spec.sha256 or 64 * "0")
    names = spec.column_names.split()
    assert len(set(names)) == len(names)
    special = [*spec.categorical, *spec.dropped, spec.target % len(names)]
    assert len(set(special)) == len(special)
    assert set(special) <= set(range(len(names)))
    if spec.name == "ijcnn1":
        assert spec.url.startswith("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/")
    elif spec.name != "housing":
        assert spec.url.startswith("https://archive.ics.uci.edu/")
        zipped = spec.file_name.replace(".csv", "_dataset.zip")
        assert spec.url.endswith(("/" + spec.file_name, "/" + zipped))


@pytest.mark.parametrize("name", DATASETS)
def test_description(name, made_up, tmp_path):
    spec = DATASETS[name]
    row = ["1"] * len(spec.column_names.split())
    content = (spec.separator or " ").join(row).encode()
    content = b"1 1:1" if spec.svmlight else b"header\n" * spec.header + content
    made_up(name, content)
    (tmp_path / spec.file_name).write_bytes(content)
    text = fetch_uci(name, data_home=tmp_path).DESCR
    title, underline = text.splitlines()[:2]
    assert underline == "=" * len(title)
    licence = "none stated" if name in ("housing", "ijcnn1") else "CC BY 4.0"
    assert f":Licence: {licence}" in text
    assert spec.file_name in text
    assert spec.citation in text
    samples, columns = FORM[name][0]
    assert f":Samples: {samples}" in text
    assert f":Features: {columns}" in text
    for label, count in COUNTS.get(name, {}).items():
        if name not in ("abalone", "wifi"):
            assert re.search(rf"\b{label}\b[^0-9]* {count}\b", text)


# Parsing --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, content, data, target",
    [
        ("banknote", CONTENT, DATA.tolist(), [0, 1, 1]),
        # runs of blanks, also in front; the first column is dropped
        (
            "yeast",
            b"A_Y  1 2 3  4 5 6 7 8  MIT\n  B_Y 8 7 6 5 4 3 2 1 VAC  \n",
            [[1, 2, 3, 4, 5, 6, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1]],
            ["MIT", "VAC"],
        ),
        # digits of a categorical column stay str; an empty line at the end
        (
            "chess",
            b"a,1,b,3,c,2,draw\na,1,c,1,c,2,zero\n\n",
            [["a", "1", "b", "3", "c", "2"], ["a", "1", "c", "1", "c", "2"]],
            ["draw", "zero"],
        ),
        # one categorical column among numbers
        (
            "abalone",
            b"M,1,2,3,4,5,6,.5,15\n",
            [["M", 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.5]],
            [15],
        ),
        ("wifi", b"-1\t-2\t-3\t-4\t-5\t-6\t-7\t1\r\n", [list(range(-1, -8, -1))], [1]),
        # the class comes first
        ("wine", b"3,1,2,3,4,5,6,7,8,9,10,11,12,13\n", [list(range(1, 14))], [3]),
        # the target of a regression is float even if it looks like integers
        (
            "housing",
            b" 1 2 3 4 5 6 7 8 9 10 11 12 13 24\n",
            [list(range(1, 14))],
            [24.0],
        ),
        # svmlight form: columns from 1, those that are 0 left out
        (
            "ijcnn1",
            b"-1 1:0.5 22:-2\n1 3:1\n",
            [[0.5, *[0.0] * 20, -2.0], [0.0, 0.0, 1.0, *[0.0] * 19]],
            [-1, 1],
        ),
        # a header line, and the mean of several columns as the target
        (
            "sgemm",
            b"a,b,c\n" + b"1," * 14 + b"2,3,4,6\r\n",
            [[1.0] * 14],
            [3.75],
        ),
    ],
)
def test_parsing(name, content, data, target, made_up, tmp_path):
    made_up(name, content)
    (tmp_path / DATASETS[name].file_name).write_bytes(content)
    bunch = fetch_uci(name, data_home=tmp_path)
    assert bunch.data.tolist() == data
    assert bunch.target.tolist() == target
    assert type(bunch.target.tolist()[0]) is type(target[0])
    assert bunch.data.dtype == (object if bunch.categorical_features else np.float64)


def test_categorical_features_count_in_the_data(made_up, tmp_path):
    content = b"a_long_name  1 2 x 4 5 6 7 8  MIT\n"
    made_up("yeast", content, categorical=(3,))  # in the file; column 0 is dropped
    (tmp_path / "yeast.data").write_bytes(content)
    bunch = fetch_uci("yeast", data_home=tmp_path)
    assert bunch.categorical_features == [2]
    assert bunch.data.tolist() == [[1.0, 2.0, "x", 4.0, 5.0, 6.0, 7.0, 8.0]]
    assert bunch.target.dtype == "<U3"  # not as wide as the longest word of the file


# Local files ----------------------------------------------------------------------


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("folder", ["", "sklearn_crt"])
def test_file_in_data_home(suffix, folder, served, tmp_path):
    path = tmp_path / folder / (FILE + suffix)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(PACK[suffix](CONTENT))
    bunch = fetch_uci("banknote", data_home=str(tmp_path))
    np.testing.assert_array_equal(bunch.data, DATA)
    assert bunch.filename == str(path)
    assert served.requests == []


def test_file_in_default_data_home(served, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / FILE).write_bytes(CONTENT)
    fetch_uci("banknote")
    assert served.requests == []


@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("sub", ["", "a", "a/b", "a/b/c"])
def test_file_in_folder_of_the_variable(suffix, sub, served, tmp_path, folders):
    path = tmp_path / "data" / sub / (FILE + suffix)
    path.parent.mkdir(parents=True)
    path.write_bytes(PACK[suffix](CONTENT))
    folders("", tmp_path / "absent", tmp_path / "data")
    bunch = fetch_uci("banknote")
    np.testing.assert_array_equal(bunch.data, DATA)
    assert bunch.filename == str(path)
    assert served.requests == []


@pytest.mark.parametrize("empty", [None, (), ("", "")])
def test_working_directory_is_not_searched(empty, made_up, tmp_path, folders):
    made_up("banknote", CONTENT)
    (tmp_path / FILE).write_bytes(CONTENT)
    if empty is not None:
        folders(*empty)
    with contextlib.chdir(tmp_path), pytest.raises(OSError, match="on this machine"):
        fetch_uci("banknote", download_if_missing=False)


def test_search_is_not_endless(made_up, tmp_path, folders):
    made_up("banknote", CONTENT)
    path = tmp_path / "a/b/c/d" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    folders(tmp_path)
    with pytest.raises(OSError, match="on this machine"):
        fetch_uci("banknote", download_if_missing=False)


def test_wrong_local_file_is_passed_over(made_up, tmp_path, folders):
    made_up("banknote", CONTENT)
    for folder, content in {"home": b"damaged", "1": b"other", "2": CONTENT}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / FILE).write_bytes(content)
    folders(tmp_path / "1", tmp_path / "2")
    assert fetch_uci("banknote").filename == str(tmp_path / "2" / FILE)


@pytest.mark.parametrize(
    "suffix, packed, found",
    [
        ("", b"damaged", FOUND),
        (".gz", gzip.compress(b"damaged", mtime=0), FOUND),
        (".gz", gzip.compress(CONTENT, mtime=0)[:-9], "unreadable"),
        (".gz", gzip.compress(CONTENT, mtime=0)[:10] + b"\xff" * 20, "unreadable"),
        (".gz", b"not packed", "unreadable"),
        (".bz2", bz2.compress(CONTENT)[:-9], "unreadable"),
        (".bz2", b"not packed", "unreadable"),
    ],
)
def test_wrong_local_file_is_named(suffix, packed, found, made_up, tmp_path):
    digest = made_up("banknote", CONTENT)
    path = tmp_path / (FILE + suffix)
    path.write_bytes(packed)
    skipped = "Files with a wrong checksum were skipped"
    match = rf"{digest}.*{skipped}: {re.escape(str(path))} \({found}"
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote", data_home=tmp_path, download_if_missing=False)


def test_data_home_that_cannot_be_made(made_up, tmp_path, folders):
    made_up("banknote", CONTENT)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / FILE).write_bytes(CONTENT)
    (tmp_path / "file").write_bytes(b"a file is no folder")
    with pytest.raises(OSError, match=r"download .* failed: .*file.*SKLEARN_CRT_DATA"):
        fetch_uci("banknote", data_home=tmp_path / "file")
    folders(tmp_path / "data")
    fetch_uci("banknote", data_home=tmp_path / "file")


# Download -------------------------------------------------------------------------


def test_download_is_kept(served, tmp_path):
    bunch = fetch_uci("banknote")
    path = tmp_path / "home" / "sklearn_crt" / FILE
    assert bunch.filename == str(path)
    assert path.read_bytes() == CONTENT
    np.testing.assert_array_equal(bunch.data, DATA)
    again = fetch_uci("banknote")
    np.testing.assert_array_equal(again.data, DATA)
    assert served.requests == ["/good"]


@pytest.mark.parametrize(
    "path, body, reason",
    [
        ("/good", b"damaged", rf"contains a different file \({FOUND}\)"),
        ("/truncated", CONTENT, "retrieval incomplete"),
        ("/missing", CONTENT, "HTTP Error 404"),
        ("/garbage", CONTENT, "this is no HTTP"),
        (None, CONTENT, "refused"),
    ],
)
def test_failed_download_leaves_nothing(path, body, reason, served, made_up, tmp_path):
    url = served.url + path if path else f"http://127.0.0.1:{closed_port()}/x"
    served.body = body
    digest = made_up("banknote", CONTENT, url)
    match = rf"{FILE} with sha256 {digest}.*{url} .*{reason}.*SKLEARN_CRT_DATA"
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote")
    assert set(served.requests) == ({path} if path else set())
    assert list((tmp_path / "home" / "sklearn_crt").iterdir()) == []
    served.body = CONTENT
    made_up("banknote", CONTENT, served.url + "/good")
    np.testing.assert_array_equal(fetch_uci("banknote").data, DATA)


def test_download_is_tried_again(served, made_up):
    made_up("banknote", CONTENT, served.url + "/truncated")
    with pytest.raises(OSError, match="retrieval incomplete"):  # and not a warning
        fetch_uci("banknote")
    assert served.requests == ["/truncated"] * 4


def test_damaged_copy_is_replaced(served, tmp_path):
    path = tmp_path / "sklearn_crt" / FILE
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    np.testing.assert_array_equal(fetch_uci("banknote", data_home=tmp_path).data, DATA)
    assert path.read_bytes() == CONTENT
    fetch_uci("banknote", data_home=tmp_path)
    assert served.requests == ["/good"]


def test_damaged_copy_is_named_where_the_download_fails(served, made_up, tmp_path):
    made_up("banknote", CONTENT, served.url + "/missing")
    path = tmp_path / FILE
    path.write_bytes(b"damaged")
    skipped = "Files with a wrong checksum were skipped"
    match = rf"404.*{skipped}: {re.escape(str(path))} \({FOUND}\)"
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote", data_home=tmp_path)


def zipped(content, name=FILE):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def test_download_of_an_archive(server, made_up, tmp_path):
    """The checksum is that of the file inside."""
    home = tmp_path / "home" / "sklearn_crt"
    made_up("banknote", CONTENT, server.url + "/good/x.zip")
    for body in (zipped(b"damaged"), zipped(CONTENT, "other name"), b"no archive"):
        server.body = body
        with pytest.raises(OSError, match=r"x\.zip contains a different file"):
            fetch_uci("banknote")
        assert list(home.iterdir()) == []
    (home / (FILE + ".zip")).write_bytes(b"damaged")
    server.body = zipped(CONTENT)
    np.testing.assert_array_equal(fetch_uci("banknote").data, DATA)
    n_requests = len(server.requests)
    assert fetch_uci("banknote").filename == str(home / (FILE + ".zip"))
    assert len(server.requests) == n_requests


@pytest.mark.parametrize("suffix", PACK)
def test_file_without_a_known_checksum(suffix, server, made_up, tmp_path):
    """It is downloaded, kept packed as it is, and read again without the network."""
    made_up("banknote", None, server.url + "/x" + suffix)
    match = f"'banknote': there is no file {FILE} on this machine, and download"
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote", download_if_missing=False)
    server.body = PACK[suffix](CONTENT)
    for _ in range(2):
        bunch = fetch_uci("banknote")
        np.testing.assert_array_equal(bunch.data, DATA)
        assert bunch.filename == str(tmp_path / "home" / "sklearn_crt" / FILE) + suffix
    assert server.requests == ["/x" + suffix]


HTML = b"<!DOCTYPE html>\n<title>The site has moved</title>\n"
SKIN = b"70 81 119\t1\r\n255 0 13\t2\r\n" * 2
IJCNN1 = b"-1 1:0.5 22:-2\n1 3:1 22:0.25\n" * 2


@pytest.fixture
def small(made_up):
    """Put four rows in the place of a set whose checksum is not known."""

    def put(name, url="http://127.0.0.1:9/unused", **changes):
        made_up(name, None, url, n_rows=4, **changes)
        return {"skin": SKIN, "ijcnn1": IJCNN1}[name]

    return put


WRONG = [
    ("skin", HTML, "could not convert"),
    ("skin", b"", "no rows"),
    ("skin", SKIN[: len(SKIN) // 2], "2 rows instead of 4"),
    ("skin", SKIN[:-4], "column"),
    ("skin", SKIN * 2, "8 rows instead of 4"),
    ("skin", SKIN.replace(b"\r", b" 5\r"), "5 columns instead of 4"),
    ("skin", SKIN.replace(b"\t2", b"\t1"), r"classes \[1\] instead of \[1, 2\]"),
    ("skin", SKIN.replace(b"70", b"nan"), "not finite"),
    ("skin", b"\xff" + SKIN, "decode"),
    ("ijcnn1", HTML, "could not convert"),
    ("ijcnn1", b"", "no rows|0 rows"),
    ("ijcnn1", IJCNN1[: len(IJCNN1) // 2], "2 rows instead of 4"),
    ("ijcnn1", IJCNN1[:-3], "the last line is incomplete"),
    ("ijcnn1", IJCNN1.replace(b"-1 1:", b"0 1:"), r"classes \[0, 1\] instead of"),
    ("ijcnn1", IJCNN1.replace(b"22:", b"23:"), "feature"),
]


@pytest.mark.parametrize("name, body, reason", WRONG)
def test_wrong_download_without_a_checksum(name, body, reason, server, small, tmp_path):
    """It is tried again once, and not kept."""
    good = small(name, server.url + "/unannounced")
    server.body = body
    match = rf"{server.url}/unannounced contains a different file \(.*({reason})"
    with pytest.raises(OSError, match=match):
        fetch_uci(name)
    assert server.requests == ["/unannounced"] * 2
    assert list((tmp_path / "home" / "sklearn_crt").iterdir()) == []
    server.body = good
    assert fetch_uci(name).data.shape == (4, FORM[name][0][1])


@pytest.mark.parametrize("name, body, reason", WRONG)
@pytest.mark.parametrize("folder", ["sklearn_crt", ""])
def test_wrong_file_without_a_checksum(
    name, body, reason, folder, server, small, tmp_path
):
    """It is named, and replaced if it is a download of ours."""
    good = server.body = small(name, server.url + "/x")
    path = tmp_path / folder / DATASETS[name].file_name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(body)
    skipped = "Files with a wrong format were skipped"
    match = rf"{skipped}: {re.escape(str(path))} \(.*({reason})"
    with pytest.raises(OSError, match=match):
        fetch_uci(name, data_home=tmp_path, download_if_missing=False)
    assert path.exists()
    bunch = fetch_uci(name, data_home=tmp_path)
    assert len(bunch.data) == 4
    assert bunch.filename == str(tmp_path / "sklearn_crt" / path.name)
    assert path.read_bytes() == (good if folder else body)
    assert server.requests == ["/x"]


def test_wrong_file_is_removed_where_the_download_fails(server, small, tmp_path):
    small("skin", server.url + "/missing")
    path = tmp_path / "sklearn_crt" / "Skin_NonSkin.txt"
    path.parent.mkdir()
    path.write_bytes(HTML)
    with pytest.raises(OSError, match=rf"404.*{re.escape(str(path))}"):
        fetch_uci("skin", data_home=tmp_path)
    assert not path.exists()


def encrypted(content):
    """Return an archive whose file is marked as encrypted."""
    archive = bytearray(zipped(content))
    for place in (archive.index(b"PK\3\4") + 6, archive.index(b"PK\1\2") + 8):
        archive[place] |= 1
    return bytes(archive)


@pytest.mark.parametrize("content", [CONTENT, None], ids=["checksum", "no checksum"])
def test_encrypted_archive(content, server, made_up, tmp_path):
    made_up("banknote", content, server.url + "/x.zip")
    server.body = encrypted(CONTENT)
    path = tmp_path / "home" / "sklearn_crt" / (FILE + ".zip")
    path.parent.mkdir(parents=True)
    path.write_bytes(server.body)
    match = (
        rf"contains a different file .*encrypted.*{re.escape(str(path))} .*encrypted"
    )
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote")
    assert list(path.parent.iterdir()) == []


def deflated(content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(FILE, content)
    return file.getvalue()


@pytest.mark.each_value
@pytest.mark.parametrize("content", [CONTENT, None], ids=["checksum", "no checksum"])
@pytest.mark.parametrize(
    "suffix, pack", [*PACK.items(), (".zip", deflated)], ids=[*PACK, ".zip"]
)
def test_more_than_four_times_the_size(
    suffix, pack, content, server, made_up, tmp_path
):
    made_up("banknote", content, server.url + "/x" + suffix, n_bytes=1000)
    server.body = pack(b"1,2,3,4,0\r\n" * 2**18)
    path = tmp_path / (FILE + suffix)
    path.write_bytes(server.body)
    match = r"more than 4000 bytes.*more than 4000 bytes, 4 times the size"
    tracemalloc.start()
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote", data_home=tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * len(server.body) + 2**21
    assert list((tmp_path / "sklearn_crt").iterdir()) == []


@pytest.fixture
def short_patience():
    """Set the time that a connection waits for a byte."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.2)
    yield
    assert socket.getdefaulttimeout() == 0.2  # as it was before the download
    socket.setdefaulttimeout(before)


@pytest.mark.usefixtures("short_patience")
def test_silent_server(server, made_up):
    """It is given up after a time without a byte, each try apart."""
    made_up("banknote", CONTENT, server.url + "/silent")
    start = time.monotonic()
    with pytest.raises(OSError, match=f"{server.url}/silent failed: .*timed out"):
        fetch_uci("banknote")
    assert time.monotonic() - start < 5
    assert set(server.requests) == {"/silent"}


def test_no_download_unless_allowed(served):
    match = rf"there is no file {FILE}.*False; True downloads it from {served.url}"
    with pytest.raises(OSError, match=match):
        fetch_uci("banknote", download_if_missing=False)
    assert served.requests == []


@pytest.mark.parametrize("download_if_missing", [False, True])
def test_withdrawn_set_needs_a_local_file(download_if_missing):
    match = r"housing\.data.*UCI no longer offers it.*SKLEARN_CRT_DATA"
    with pytest.raises(OSError, match=match):
        fetch_uci("housing", download_if_missing=download_if_missing)


# Parameters -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["iris", "Abalone", "", None, 1, ["car"]])
def test_unknown_name(name):
    match = rf"name={re.escape(repr(name))}.*'abalone', .*'housing'"
    with pytest.raises(ValueError, match=match):
        fetch_uci(name)


def test_return_X_y(served):
    X, y = fetch_uci("banknote", return_X_y=True)
    np.testing.assert_array_equal(X, DATA)
    np.testing.assert_array_equal(y, [0, 1, 1])


def test_as_frame(made_up, tmp_path):
    pd = pytest.importorskip("pandas")
    content = b"M,1,2,3,4,5,6,.5,15\nF,1,2,3,4,5,6,.5,7\n"
    made_up("abalone", content)
    (tmp_path / "abalone.data").write_bytes(content)
    bunch = fetch_uci("abalone", data_home=tmp_path, as_frame=True)
    assert bunch.data["Sex"].cat.categories.tolist() == ["F", "M"]
    assert bunch.data["Shell_weight"].tolist() == [0.5, 0.5]
    assert bunch.target.name == "Rings"
    assert bunch.target.dtype == np.int64
    assert bunch.target_names.tolist() == [7, 15]
    X, y = fetch_uci("abalone", data_home=tmp_path, as_frame=True, return_X_y=True)
    pd.testing.assert_frame_equal(X, bunch.data)
    pd.testing.assert_series_equal(y, bunch.target)
    pd.testing.assert_frame_equal(bunch.frame, X.join(y))


def test_as_frame_of_named_classes(made_up, tmp_path):
    pytest.importorskip("pandas")
    content = b"vhigh,vhigh,2,2,small,low,unacc\nlow,low,4,4,big,med,acc\n"
    made_up("car", content)
    (tmp_path / "car.data").write_bytes(content)
    bunch = fetch_uci("car", data_home=tmp_path, as_frame=True)
    assert bunch.target.dtype == "category"
    assert bunch.target.tolist() == ["unacc", "acc"]
    assert bunch.target_names.tolist() == ["acc", "unacc"]


def test_as_frame_without_pandas(served, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        fetch_uci("banknote", as_frame=True)
    fetch_uci("banknote")
