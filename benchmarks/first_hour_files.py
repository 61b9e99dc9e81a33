"""Files of records for ``benchmarks.first_hour``: public data sets, and what people's programs write.

Each maps a name to a function that writes the file into a folder and returns its path. ``REFUSED`` are
files that no reading is right for.
"""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pandas as pd

from tests.messy_files import MESSY
from tests.shared_data import shared_file

Write = Callable[[Path], Path]

PUBLIC = (
    *("sd2011", "adult_raw", "nist_acs_national2019", "ons2011_first50k", "eusilc", "egsingle"),
    *("nhanes_chol", "api_clus1", "api_clus2", "api_srs", "api_strat"),
    *(f"numbers_{name}" for name in ("hours", "medexp", "price", "visits", "wage")),
)
_RECORDS = 2_000


def _public(name: str, ending: str, folder: Path) -> Path:
    """Write a public data set as CSV or Parquet."""
    path = folder / f"{name}.{ending}"
    frame = pd.read_parquet(shared_file(f"{name}.parquet"))
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
    return path


def people(records: int = _RECORDS, seed: int = 36) -> pd.DataFrame:
    """An age, an income that grows with it, a group."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, records)
    sex = rng.choice(["f", "m"], records)
    income = 900 + 12 * age + 150 * (sex == "m") + rng.gamma(2, 300, records)
    return pd.DataFrame({"age": age, "sex": sex, "income": income.round(1)})


Add = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame | None]


def _people_with(add: Add, name: str, folder: Path) -> Path:
    frame = people()
    changed = add(frame, np.random.default_rng(7))
    path = folder / f"{name}.csv"
    (frame if changed is None else changed).to_csv(path, index=False)
    return path


def _percentages(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["share"] = [f"{number}%" for number in rng.integers(0, 101, len(frame))]


def _currency(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["price"] = [f"${number:,.2f}" for number in rng.gamma(2, 900, len(frame))]


def _thousands(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["price"] = [f"{number:,}" for number in rng.integers(0, 90_000, len(frame))]


def _negatives(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["balance"] = rng.normal(-40, 300, len(frame)).round(2)
    frame["change"] = rng.integers(-20, 21, len(frame))


def _huge_and_small(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["stars"] = rng.choice([1e18, 2.5e18, 4e18], len(frame))
    frame["dose"] = rng.integers(1, 400, len(frame)) * 1e-7
    frame["ratio"] = rng.random(len(frame))


def _times_of_day(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["from"] = [f"{place // 60:02}:{place % 60:02}" for place in rng.integers(0, 1440, len(frame))]


def _timestamps(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    seconds = pd.to_timedelta(rng.integers(0, 86_400 * 700, len(frame)), unit="s")
    moments = pd.Timestamp("2022-01-01T00:00:00Z") + seconds
    frame["seen"] = pd.Series(moments).dt.strftime("%Y-%m-%dT%H:%M:%S+01:00")


def _duplicates(frame: pd.DataFrame, _: np.random.Generator) -> pd.DataFrame:
    return pd.concat([frame.head(200)] * 10)


def _large_integers(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["device"] = 2**53 + rng.integers(0, 3, len(frame))


def _codes(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["plz"] = rng.choice(["01067", "04109", "10115", "80331"], len(frame))
    frame["kind"] = rng.choice(["1", "01", "001"], len(frame))


def _dates(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    days = pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, len(frame)), "D"))
    frame["iso"], frame["german"] = days.dt.strftime("%Y-%m-%d"), days.dt.strftime("%d.%m.%Y")
    frame["compact"], frame["american"] = days.dt.strftime("%Y%m%d"), days.dt.strftime("%m/%d/%Y")


def _booleans(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    for name, spellings in (
        *(("a", ("True", "False")), ("b", ("TRUE", "FALSE")), ("c", ("yes", "no"))),
        *(("d", ("Y", "N")), ("e", ("1", "0")), ("f", ("t", "f"))),
    ):
        frame[name] = rng.choice(spellings, len(frame))


def _long_texts(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["story"] = ["word " * int(number) for number in rng.integers(200, 900, len(frame))]


def _missing_column(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["nothing"] = ""
    frame["age"] = frame["age"].astype(object).where(rng.random(len(frame)) > 0.2, "")


def _constant_column(frame: pd.DataFrame, _: np.random.Generator) -> None:
    frame["country"], frame["wave"] = "DE", 3


def _unicode_names(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    frame["größe in cm"] = rng.normal(170, 9, len(frame)).round(1)
    frame["年齢"] = rng.choice(["若い", "中年", "老年"], len(frame))
    return frame.rename(columns={"income": "Einkommen (€)", "sex": 'Q\'1 "x"'})


def _mixed_missing(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    marks = rng.choice(["1", "2", "3", "NA", "NULL", "", "99"], len(frame))
    frame["answer"], frame["country"] = marks, rng.choice(["DE", "NA", "FR", "IT"], len(frame))


def _heavy_tail(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    frame["income"] = rng.lognormal(8, 1.8, len(frame)).round(2)


def _labels_of_several_words(frame: pd.DataFrame, rng: np.random.Generator) -> None:
    words = ["no, never", 'so "so"', "yes; often", " padded ", "tab\there", "ünïcode – dash"]
    frame["says"] = rng.choice(words, len(frame))


def _few_records(frame: pd.DataFrame, _: np.random.Generator) -> pd.DataFrame:
    return frame.head(60)


_ODD: tuple[Add, ...] = (
    *(_percentages, _currency, _thousands, _negatives, _huge_and_small, _times_of_day, _timestamps),
    *(_duplicates, _large_integers, _codes, _dates, _booleans, _long_texts, _missing_column),
    *(_constant_column, _unicode_names, _mixed_missing, _heavy_tail, _labels_of_several_words),
    _few_records,
)


def one_column(folder: Path) -> Path:
    """A single number."""
    path = folder / "one_column.csv"
    people()[["income"]].to_csv(path, index=False)
    return path


def columns(count: int, folder: Path) -> Path:
    """Many columns of answers and a few numbers."""
    rng, frame = np.random.default_rng(count), people()
    answers = {f"q{place:03}": rng.integers(1, 4, _RECORDS) for place in range(count - 3)}
    path = folder / f"columns_{count}.csv"
    frame.assign(**answers).to_csv(path, index=False)
    return path


def million(folder: Path) -> Path:
    """A million records of eight columns."""
    records, rng = 1_000_000, np.random.default_rng(8)
    frame = people(records)
    frame["region"] = rng.choice(["north", "south", "east", "west"], records)
    frame["visits"] = rng.poisson(3, records)
    frame["height"] = rng.normal(1.7, 0.1, records).round(2)
    frame["smoker"] = rng.choice(["true", "false"], records)
    days = np.datetime64("2015-01-01") + rng.integers(0, 2_000, records)
    frame["day"] = days.astype(str)
    path = folder / "million.csv"
    frame.to_csv(path, index=False)
    return path


def tabs(folder: Path) -> Path:
    """Values between tabs, in UTF-16."""
    path = folder / "tabs.csv"
    people().to_csv(path, sep="\t", index=False, encoding="utf-16")
    return path


def _written(name: str, content: bytes, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def zipped(folder: Path) -> Path:
    """An archive with one text file."""
    path = folder / "people.zip"
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        archive.writestr("people.csv", _PLAIN)
    return path


def two_names(folder: Path) -> Path:
    """Two columns whose names differ by case alone."""
    return _written("names.csv", _PLAIN.replace(b"income", b"AGE", 1), folder)


def an_error(folder: Path) -> Path:
    """A workbook with a formula that was never computed."""
    path = folder / "error.xlsx"
    frame = people().astype(object)
    frame.loc[0, "age"] = "=1/0"
    frame.to_excel(path, index=False, engine="openpyxl")
    return path


_PLAIN = people().to_csv(index=False).encode()
_LINES = _PLAIN.split(b"\n")
_ENDS = b"\r\n".join(_LINES[:99]) + b"\r\n" + b"\n".join(_LINES[99:])

FILES: dict[str, Write] = {
    **{name: partial(_public, name, "csv") for name in PUBLIC},
    **{f"{name}.parquet": partial(_public, name, "parquet") for name in PUBLIC if "numbers" in name},
    **MESSY,
    **{add.__name__.strip("_"): partial(_people_with, add, add.__name__.strip("_")) for add in _ODD},
    **{write.__name__: write for write in (one_column, tabs, million, zipped)},
    "gzip": partial(_written, "people.csv.gz", gzip.compress(_PLAIN)),
    "tsv": partial(_written, "people.tsv", _PLAIN.replace(b",", b"\t")),
    "comments": partial(_written, "comments.csv", b"# made in 2020\n# by a program, here\n" + _PLAIN),
    "line ends": partial(_written, "ends.csv", _ENDS),
    **{f"columns_{count}": partial(columns, count) for count in (100, 300)},
}


REFUSED: dict[str, Write] = {
    "empty file": partial(_written, "empty.csv", b""),
    "header alone": partial(_written, "header.csv", b"age,sex,income\n"),
    "NUL bytes": partial(_written, "nul.csv", _PLAIN.replace(b"f", b"\x00", 1)),
    "ragged lines": partial(_written, "ragged.csv", _PLAIN + b"1,f\n2,m,3,4,5\n"),
    "unknown ending": partial(_written, "people.json", b"{}"),
    "names that differ by case": two_names,
    "an error in a workbook": an_error,
    "Parquet cut off": partial(_written, "cut.parquet", b"PAR1" + b"\x00" * 400),
}
"""Files that ``init`` refuses."""
