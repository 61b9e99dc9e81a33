"""Files as people have them: one made-up survey, written by several programs and habits.

Each maps a name to a function that writes the file into a folder and returns its path; every run writes
the same bytes.
"""

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyreadstat

RECORDS = 2_000
_FIRST_NAMES = ("Ann", "Bob", "Çelik", "Dörte", "Émile", "Faruk")


def survey(seed: int = 12) -> pd.DataFrame:
    """An amount with zeros, dates, ordered answers, a truth value, free text and an identifier."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, RECORDS)
    health = np.clip(rng.integers(-1, 2, RECORDS) + (age < 40) + 1, 0, 3)
    income = np.where(rng.random(RECORDS) < 0.25, 0, np.exp(rng.normal(7.5, 0.8, RECORDS)).round(2))
    days = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 730, RECORDS), unit="D")
    names = rng.choice(_FIRST_NAMES, RECORDS)
    return pd.DataFrame(
        {
            "id": [f"P{number:06}" for number in rng.permutation(RECORDS)],
            "sex": rng.choice(["f", "m"], RECORDS),
            "age": age,
            "income": income,
            "visit": days,
            "health": health,
            "smoker": rng.random(RECORDS) < 0.3,
            "comment": [f"{name} said no. {number}" for number, name in enumerate(names)],
        }
    )


def _decimal_comma(number: float) -> str:
    return f"{number:,.2f}".translate(str.maketrans(",.", ".,"))


def _rare(values: pd.Series, mark: str, share: float, seed: int) -> pd.Series:
    """Some of the values replaced by a mark of missing ones."""
    chosen = np.random.default_rng(seed).random(len(values)) < share
    return values.astype(object).where(~chosen, mark)


def _answers(frame: pd.DataFrame, labels: Sequence[str]) -> pd.Series:
    return frame["health"].map(dict(enumerate(labels)))


def german(folder: Path) -> Path:
    """cp1252, semicolons, decimal commas with points between thousands, dd.mm.yyyy, `k.A.`."""
    frame = survey()
    frame["income"] = _rare(frame["income"].map(_decimal_comma), "k.A.", 0.05, seed=1)
    frame["visit"] = frame["visit"].dt.strftime("%d.%m.%Y")
    frame["health"] = _answers(frame, ("schlecht", "mittelmäßig", "gut", "sehr gut"))
    frame["smoker"] = frame["smoker"].map({True: "ja", False: "nein"})
    frame = frame.rename(columns={"sex": "Geschlecht", "age": "Alter", "comment": "Bemerkung"})
    path = folder / "umfrage.csv"
    frame.to_csv(path, sep=";", index=False, encoding="cp1252", errors="replace")
    return path


def utf16(folder: Path) -> Path:
    """UTF-16 with tabs, as a spreadsheet saves "Unicode text"; TRUE and FALSE."""
    frame = survey()
    frame["smoker"] = frame["smoker"].map({True: "TRUE", False: "FALSE"})
    frame["health"] = _answers(frame, ("poor", "fair", "good", "excellent"))
    path = folder / "unicode_text.csv"
    frame.to_csv(path, sep="\t", index=False, encoding="utf-16")
    return path


def byte_order_mark(folder: Path) -> Path:
    """UTF-8 with a byte order mark, ISO dates, `NA`, `?` and -9 for missing values."""
    frame = survey()
    frame["age"] = _rare(frame["age"], "-9", 0.03, seed=2)
    frame["sex"] = _rare(frame["sex"], "?", 0.02, seed=3)
    frame["visit"] = _rare(frame["visit"].dt.strftime("%Y-%m-%d"), "NA", 0.1, seed=4)
    path = folder / "export.csv"
    frame.to_csv(path, index=False, encoding="utf-8-sig")
    return path


def american(folder: Path) -> Path:
    """Commas between thousands in quotation marks, mm/dd/yyyy, row numbers without a name."""
    frame = survey()
    frame["income"] = frame["income"].map("{:,.2f}".format)
    frame["visit"] = frame["visit"].dt.strftime("%m/%d/%Y")
    frame["health"] = _answers(frame, ("never", "sometimes", "often", "always"))
    path = folder / "us.csv"
    frame.to_csv(path)
    return path


def spaces(folder: Path) -> Path:
    """`sep=;` in the first line, spaces around names and values, empty lines, commas in labels."""
    frame = survey()
    frame["health"] = _answers(frame, ("no, never", "yes, once", "yes, twice", "yes, often"))
    frame["smoker"] = frame["smoker"].map({True: " yes ", False: " no "})
    frame.columns = [f" {name} " for name in frame.columns]
    text = frame.to_csv(sep=";", index=False)
    path = folder / "spaces.csv"
    path.write_text("sep=;\n" + text.replace("\n", "\n\n", 3) + "\n\n", encoding="utf-8")
    return path


def quoted(folder: Path) -> Path:
    """All values in quotation marks; free text with line ends, delimiters and quotation marks."""
    frame = survey()
    frame["comment"] = [f'he said: "{text},\n{text};"' for text in frame["comment"]]
    frame["age"] = pd.cut(
        frame["age"], [0, 24, 44, 64, 120], labels=["under 25", "25-44", "45-64", "65+"]
    ).astype(str)
    path = folder / "quoted.csv"
    frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL)
    return path


def births(folder: Path) -> Path:
    """Dates of birth, e-mail addresses, postcodes of many values, negative codes, an empty column."""
    frame = survey()
    frame["birth_date"] = pd.Timestamp("2025-06-30") - pd.to_timedelta(frame["age"] * 365, unit="D")
    frame["contact"] = [f"{identifier.lower()}@example.org" for identifier in frame["id"]]
    frame["postcode"] = [f"X{number % 700:03}" for number in range(RECORDS)]
    frame["empty"] = ""
    frame["income"] = _rare(frame["income"], "-99", 0.05, seed=5)
    path = folder / "births.csv"
    frame.drop(columns="age").to_csv(path, index=False)
    return path


def _labelled() -> tuple[pd.DataFrame, dict[str, dict[Any, str]]]:
    """Return the survey with codes and their labels; -9 is "refused" and no number."""
    frame = survey()
    frame["sex"] = frame["sex"].map({"f": 2.0, "m": 1.0})
    frame["health"] = frame["health"].astype(float)
    frame["smoker"] = frame["smoker"].astype(float)
    frame["visit"] = frame["visit"].dt.date
    labels: dict[str, dict[Any, str]] = {
        "sex": {1.0: "male", 2.0: "female", 3.0: "other"},
        "health": dict(enumerate(("poor", "fair", "good", "excellent"))),
        "smoker": {0.0: "no", 1.0: "yes"},
    }
    return frame, labels


def spss(folder: Path) -> Path:
    """SPSS: value labels, of which one has no record, a user-missing code, dates."""
    frame, labels = _labelled()
    frame["income"] = _rare(frame["income"], "-9", 0.05, seed=6).astype(float)
    path = folder / "survey.sav"
    pyreadstat.write_sav(
        frame,
        path,
        column_labels={"sex": "Sex of the person", "income": "Net income"},
        variable_value_labels={**labels, "income": {-9.0: "refused"}},
        missing_ranges={"income": [{"lo": -9, "hi": -9}]},
    )
    return path


def stata(folder: Path) -> Path:
    """Stata: value labels and extended missing values."""
    frame, labels = _labelled()
    frame["health"] = _rare(frame["health"], "a", 0.05, seed=7)
    labels["health"]["a"] = "refused"
    path = folder / "survey.dta"
    pyreadstat.write_dta(
        frame, path, variable_value_labels=labels, missing_user_values={"health": ["a"]}
    )
    return path


def excel(folder: Path) -> Path:
    """Excel: texts, dates, truth values and empty cells; an empty second sheet."""
    frame = survey()
    frame["health"] = _rare(_answers(frame, ("poor", "fair", "good", "excellent")), "", 0.02, seed=8)
    path = folder / "survey.xlsx"
    with pd.ExcelWriter(path, engine="openpyxl") as book:
        frame.to_excel(book, sheet_name="answers", index=False)
        pd.DataFrame().to_excel(book, sheet_name="Sheet2")
    return path


MESSY: dict[str, Callable[[Path], Path]] = {
    write.__name__: write
    for write in (
        *(german, utf16, byte_order_mark, american, spaces, quoted, births),
        *(spss, stata, excel),
    )
}
