"""Descriptions of the data sets: files, checksums and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"


@dataclass(frozen=True, kw_only=True)
class UCIDataset:
    """Description of a delimited or svmlight text file, with zero-based columns."""

    name: str
    file_name: str
    url: str | None  # None if it is no longer offered and a local copy is needed
    # checksum of the uncompressed file; if None, rows and columns are checked instead
    sha256: str | None
    n_bytes: int  # approximate size of the uncompressed file
    column_names: str  # names of all columns of the file, separated by spaces
    citation: str
    included: bool = False  # in the folder `files` of this package, compressed by gzip
    separator: str | None = ","  # None for any amount of whitespace
    # lines have the form "class column:value ..."; the last name is that of the class
    svmlight: bool = False
    # index of the target column, or of the first of several that are averaged
    target: int = -1
    n_targets: int = 1
    header: bool = False
    categorical: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()
    task: Literal["classification", "regression"] = "classification"
    # the following fields are checked if there is no checksum
    n_rows: int | None = None
    classes: tuple[int, ...] = ()


_ENTRIES = (
    UCIDataset(
        name="abalone",
        file_name="abalone.data",
        url=_UCI + "abalone/abalone.data",
        sha256="de37cdcdcaaa50c309d514f248f7c2302a5f1f88c168905eba23fe2fbc78449f",
        n_bytes=191_873,
        column_names="Sex Length Diameter Height Whole_weight Shucked_weight "
        "Viscera_weight Shell_weight Rings",
        categorical=(0,),
        citation="Nash, W. et al. (1994). Abalone. doi:10.24432/C55C7W",
    ),
    UCIDataset(
        name="banknote",
        file_name="data_banknote_authentication.txt",
        included=True,
        url=_UCI + "00267/data_banknote_authentication.txt",
        sha256="d0539aaed2139ba7a587b3e34fb345ce503ff7d5d33dbf9912d8e195ce425cb9",
        n_bytes=46_400,
        column_names="variance skewness curtosis entropy class",
        citation="Lohweg, V. (2012). Banknote Authentication. doi:10.24432/C55P57",
    ),
    UCIDataset(
        name="car",
        file_name="car.data",
        included=True,
        url=_UCI + "car/car.data",
        sha256="b703a9ac69f11e64ce8c223c0a40de4d2e9d769f7fb20be5f8f2e8a619893d83",
        n_bytes=51_867,
        column_names="buying maint doors persons lug_boot safety class",
        categorical=(0, 1, 2, 3, 4, 5),
        citation="Bohanec, M. (1988). Car Evaluation. doi:10.24432/C5JP48",
    ),
    UCIDataset(
        name="yeast",
        file_name="yeast.data",
        included=True,
        url=_UCI + "yeast/yeast.data",
        sha256="7cf61776fc04f527f93bf57a327b863893a1225d82df02d457e8950173218258",
        n_bytes=94_976,
        separator=None,
        column_names="Sequence_Name mcg gvh alm mit erl pox vac nuc localization_site",
        dropped=(0,),
        citation="Nakai, K. (1991). Yeast. doi:10.24432/C5KG68",
    ),
    UCIDataset(
        name="cmc",
        file_name="cmc.data",
        included=True,
        url=_UCI + "cmc/cmc.data",
        sha256="ad2a49da55df24b061a994ecc4d90c856aba35acd05138851aa251c4f06303c9",
        n_bytes=30_962,
        column_names="wife_age wife_edu husband_edu num_children wife_religion "
        "wife_working husband_occupation standard_of_living_index media_exposure "
        "contraceptive_method",
        citation="Lim, T. (1999). Contraceptive Method Choice. doi:10.24432/C59W2D",
    ),
    UCIDataset(
        name="nursery",
        file_name="nursery.data",
        url=_UCI + "nursery/nursery.data",
        sha256="8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d",
        n_bytes=1_059_371,
        column_names="parents has_nurs form children housing finance social health "
        "class",
        categorical=(0, 1, 2, 3, 4, 5, 6, 7),
        citation="Rajkovic, V. (1989). Nursery. doi:10.24432/C5P88W",
    ),
    UCIDataset(
        name="wifi",
        file_name="wifi_localization.txt",
        included=True,
        url=_UCI + "00422/wifi_localization.txt",
        sha256="2ae62faa28071e47b875d6bb64175238574a8d1366d1b64ab355bc1c87220294",
        n_bytes=62_000,
        separator="\t",
        column_names="router_1 router_2 router_3 router_4 router_5 router_6 router_7 "
        "room",
        citation="Bhatt, R. (2017). Wireless Indoor Localization. doi:10.24432/C51880",
    ),
    UCIDataset(
        name="chess",
        file_name="krkopt.data",
        url=_UCI + "chess/king-rook-vs-king/krkopt.data",
        sha256="497b61d20d3d9e2ce310f9f4d2ca92dbdb0691d9e449d983ec6f7baf387dc7a9",
        n_bytes=531_806,
        column_names="white-king-file white-king-rank white-rook-file white-rook-rank "
        "black-king-file black-king-rank white-depth-of-win",
        categorical=(0, 1, 2, 3, 4, 5),
        citation="Bain, M., Hoff, A. (1994). Chess (KRK). doi:10.24432/C57W2S",
    ),
    UCIDataset(
        name="wine",
        file_name="wine.data",
        url=_UCI + "wine/wine.data",
        sha256="6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659",
        n_bytes=10_782,
        column_names="class Alcohol Malic_acid Ash Alcalinity_of_ash Magnesium "
        "Total_phenols Flavanoids Nonflavanoid_phenols Proanthocyanins "
        "Color_intensity Hue OD280/OD315_of_diluted_wines Proline",
        target=0,
        citation="Aeberhard, S., Forina, M. (1992). Wine. doi:10.24432/C5PC7J",
    ),
    UCIDataset(
        name="letter",
        file_name="letter-recognition.data",
        url=_UCI + "letter-recognition/letter-recognition.data",
        sha256="2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
        n_bytes=712_565,
        column_names="lettr x-box y-box width high onpix x-bar y-bar x2bar y2bar xybar "
        "x2ybr xy2br x-ege xegvy y-ege yegvx",
        target=0,
        citation="Slate, D. (1991). Letter Recognition. doi:10.24432/C5ZP40",
    ),
    UCIDataset(
        name="sgemm",
        file_name="sgemm_product.csv",
        url=_UCI + "00440/sgemm_product_dataset.zip",
        sha256="b545b908c203eaa4d0b78c88e3a7196857efc34da3b6da9be774f017f2b5e960",
        n_bytes=14_353_701,
        column_names="MWG NWG KWG MDIMC NDIMC MDIMA NDIMB KWI VWM VWN STRM STRN SA SB "
        "Run1 Run2 Run3 Run4",
        target=14,
        n_targets=4,
        header=True,
        task="regression",
        citation="Paredes, E., Ballester-Ripoll, R. (2017). SGEMM GPU kernel "
        "performance. doi:10.24432/C5MK70",
    ),
    UCIDataset(
        name="skin",
        file_name="Skin_NonSkin.txt",
        url=_UCI + "00229/Skin_NonSkin.txt",
        sha256=None,
        n_bytes=3_400_000,
        separator=None,
        column_names="B G R class",
        n_rows=245_057,
        classes=(1, 2),
        citation="Bhatt, R., Dhall, A. (2009). Skin Segmentation. doi:10.24432/C5T30C",
    ),
    UCIDataset(
        name="ijcnn1",
        file_name="ijcnn1",
        url=_LIBSVM + "binary/ijcnn1.bz2",
        sha256=None,
        n_bytes=8_000_000,
        svmlight=True,
        column_names=" ".join(f"x{j}" for j in range(1, 23)) + " class",
        n_rows=49_990,
        classes=(-1, 1),
        citation="Prokhorov, D. (2001). IJCNN 2001 neural network competition.",
    ),
    UCIDataset(
        name="housing",
        file_name="housing.data",
        url=None,
        sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        n_bytes=49_082,
        separator=None,
        column_names="CRIM ZN INDUS CHAS NOX RM AGE DIS RAD TAX PTRATIO B LSTAT MEDV",
        task="regression",
        citation="Harrison, D., Rubinfeld, D. (1978). doi:10.1016/0095-0696(78)90006-2",
    ),
)

DATASETS: dict[str, UCIDataset] = {entry.name: entry for entry in _ENTRIES}
