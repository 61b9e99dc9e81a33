"""Rows in files of Stata, SPSS and Excel: other programs read the same codes and labels from them."""

import csv
import json
import shutil
import subprocess
import zipfile
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from unittest.mock import patch

import numpy as np
import openpyxl
import pandas as pd
import pyreadstat
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gencard.client.common import formats as limits
from gencard.client.common.rows import difference, read_numbered, read_rows, write_rows
from gencard.core.coding import BOOLEANS, Attribute, Coding, Edges, Labels, days_of_date
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, InvalidInputError
from gencard.core.scale import Scale
from gencard.files import statistics
from gencard.run.levels import Midpoints, Numbers
from tests.client.test_frames import datasets

FORMATS = (".dta", ".sav", ".xlsx")


def days(year):
    return float(days_of_date(date(year, 1, 1)))


DAY = Scale(Decimal(1), (Decimal(0), Decimal(600), Decimal(1440)), times=True)
CODING = Coding(
    (
        Attribute("sex", Labels(("female", "männlich", "=HYPERLINK(1)"), missing=True), "As registered"),
        Attribute("children", Labels(("0", "1", "5"), integer=True, missing=True)),
        Attribute("grade", Labels(("1", "2", "6"), ordered=True)),
        Attribute("postcode", Labels(("01067", "1067", "NA"), text=True, missing=True)),
        Attribute("owner", Labels(BOOLEANS, boolean=True, missing=True)),
        Attribute("answer", Labels(("missing", "#N/A", "1,5", 'say "x"', "two\nlines"), missing=True)),
        Attribute("age", Edges((0, 18.5, 65.5), missing=True)),
        Attribute("income", Edges((-5, 10, 50), decimals=2)),
        Attribute("inhabitants", Edges((0, 10, 5_000_000_000), decimals=0, missing=True)),
        Attribute("born", Edges((days(1930), days(1990), days(2020)), True, 0, dates=True)),
        Attribute("slept", Edges.of_scale((Decimal(0), Decimal(600)), DAY, missing=True)),
    )
)


CODES = {"sex": (1, 2, 3), "children": (0, 1, 5), "grade": (1, 2, 6), "owner": (0, 1)}
"""Numbers of the levels in files of Stata and SPSS."""


def rows_of(coding, rows=400, seed=1):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in coding.domain.sizes]
    return Dataset(coding.domain, np.column_stack(codes))


def of_one(name, levels):
    """All levels of one attribute, and a second attribute that is never missing."""
    coding = Coding((Attribute(name, levels), Attribute("rest", Edges((0, 1)))))
    codes = [[code, 0] for code in range(levels.size)]
    return coding, Dataset(coding.domain, np.array(codes))


def refusal(ending, coding, dataset, tmp_path, values=None):
    with pytest.raises(InvalidInputError) as refused:
        write_rows(dataset, coding, tmp_path / f"rows{ending}", values)
    assert list(tmp_path.iterdir()) == []
    return str(refused.value)


@pytest.mark.parametrize("ending", FORMATS)
class TestRoundTrip:
    @pytest.mark.parametrize("values", [Numbers(3), None, Midpoints()], ids=["drawn", "levels", "mid"])
    def test_the_codes_are_the_same(self, ending, values, tmp_path):
        dataset, path = rows_of(CODING), tmp_path / f"rows{ending}"
        write_rows(dataset, CODING, path, values)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]
        assert read_rows(path, CODING, CODING.domain).digest() == dataset.digest()

    def test_the_numbers_are_exact(self, ending, tmp_path):
        dataset, path = rows_of(CODING), tmp_path / f"rows{ending}"
        write_rows(dataset, CODING, path, Numbers(3))
        known, drawn = read_numbered(path, CODING, CODING.domain), Numbers(3)
        for one in CODING.attributes:
            if isinstance(one.coding, Edges):
                expected = drawn.of(one.name, one.coding, dataset.column(one.name))
                np.testing.assert_array_equal(known.numbers(one.name), expected)

    @settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.filter_too_much])
    @given(drawn=datasets(), numbers=st.booleans())
    def test_any_schema_comes_back_or_is_refused(self, ending, numbers, drawn, tmp_path_factory):
        coding, dataset = drawn
        path = tmp_path_factory.mktemp("drawn") / f"rows{ending}"
        try:
            write_rows(dataset, coding, path, Numbers(3) if numbers else None)
        except InvalidInputError as error:
            assert f"cannot be written as {ending}" in str(error)  # noqa: PT017 - others fail below
            assert not path.exists()
            assume(False)
        with patch.object(statistics, "read", statistics._read):  # a process takes most of a second
            assert read_rows(path, coding, coding.domain).digest() == dataset.digest()

    def test_no_rows(self, ending, tmp_path):
        path = tmp_path / f"rows{ending}"
        write_rows(rows_of(CODING, 0), CODING, path, Numbers(1))
        assert len(read_rows(path, CODING, CODING.domain)) == 0

    def test_many_labels(self, ending, tmp_path):
        coding, dataset = of_one(
            "city", Labels(tuple(f"Ort {i}, Straße" for i in range(300)), missing=True)
        )
        write_rows(dataset, coding, tmp_path / f"rows{ending}")
        read = read_rows(tmp_path / f"rows{ending}", coding, coding.domain)
        assert read.digest() == dataset.digest()

    def test_a_place_that_cannot_be_written(self, ending, tmp_path):
        for place in (tmp_path / "absent" / f"rows{ending}", Path(f"/proc/rows{ending}")):
            with pytest.raises(InvalidInputError, match="cannot write"):
                write_rows(rows_of(CODING), CODING, place)

    def test_what_is_no_such_file(self, ending, tmp_path):
        path = tmp_path / f"rows{ending}"
        for content in (b"", b"PK\x03\x04 no archive", b"$FL2" + b"\xff" * 300, b"<stata_dta>" * 9):
            path.write_bytes(content)
            with pytest.raises(InvalidInputError, match=r"cannot (be )?read"):
                read_rows(path, CODING, CODING.domain)


def test_a_file_of_spss_that_crashes_its_reader_is_refused(tmp_path):
    """A column of numbers that says of itself that it is text ends the process of pyreadstat 1.3."""
    coding = Coding((Attribute("a", Labels(("x", "y"), text=True)), Attribute("b", Labels(("x", "y")))))
    path = tmp_path / "rows.sav"
    write_rows(rows_of(coding), coding, path)
    content = path.read_bytes()
    assert content[176:184] == b"\2\0\0\0\1\0\0\0"  # the record of a column, a text of one byte
    assert content[208:216] == b"\2\0\0\0\0\0\0\0"  # and that of numbers
    path.write_bytes(content[:212] + b"\5" + content[213:])
    with pytest.raises(GencardError):
        read_rows(path, coding, coding.domain)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A workbook of levels: openpyxl rounds numbers of 17 digits as it saves a file again."""
    path = tmp_path_factory.mktemp("book") / "rows.xlsx"
    write_rows(rows_of(CODING), CODING, path)
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written")
    dataset = rows_of(CODING)
    for ending in FORMATS:
        write_rows(dataset, CODING, folder / f"rows{ending}", Numbers(3))
    return folder, dataset


class TestOtherPrograms:
    """pyreadstat, openpyxl, pandas, R and PSPP find the codes, labels and missing values."""

    def codes(self, dataset, name):
        return np.array([*CODES[name], np.nan])[dataset.column(name)]

    @pytest.mark.parametrize("ending", [".dta", ".sav"])
    def test_pyreadstat(self, written, ending):
        folder, dataset = written
        read = pyreadstat.read_dta if ending == ".dta" else pyreadstat.read_sav
        frame, facts = read(folder / f"rows{ending}", dates_as_pandas_datetime=True)
        for name in CODES:
            numbers = frame[name].astype("Float64").to_numpy(np.float64, na_value=np.nan)
            np.testing.assert_array_equal(numbers, self.codes(dataset, name))
        assert facts.variable_value_labels["sex"] == {1: "female", 2: "männlich", 3: "=HYPERLINK(1)"}
        assert facts.variable_value_labels["owner"] == {0: "false", 1: "true"}
        assert "children" not in facts.variable_value_labels
        assert facts.column_names_to_labels["sex"] == "As registered"
        assert set(frame["postcode"]) == {"01067", "1067", "NA", ""}
        assert set(frame["born"].dropna().dt.year) <= set(range(1930, 2021))
        assert frame["slept"].dropna().iloc[0].second == 0
        missing = dataset.column("born") == 2
        np.testing.assert_array_equal(frame["born"].isna(), missing)

    def test_pandas_reads_stata(self, written):
        folder, dataset = written
        frame = pd.read_stata(folder / "rows.dta")
        names = np.array(["female", "männlich", "=HYPERLINK(1)", None])
        expected = list(names[dataset.column("sex")])
        assert frame["sex"].astype(object).where(frame["sex"].notna(), None).tolist() == expected

    def test_excel_has_texts_numbers_and_dates_and_no_formula(self, written):
        folder, dataset = written
        sheet = openpyxl.load_workbook(folder / "rows.xlsx")["rows"]
        head, *rows = sheet.iter_rows()
        assert [cell.value for cell in head] == list(CODING.domain.attributes)
        kinds = {}
        for row in rows:
            for name, cell in zip(CODING.domain.attributes, row, strict=True):
                if cell.value is not None:
                    kinds.setdefault(name, set()).add(cell.data_type)
        texts = ("sex", "grade", "postcode", "answer")
        assert {name for name, kind in kinds.items() if kind == {"s"}} == set(texts)
        assert {name for name, kind in kinds.items() if kind == {"d"}} == {"born", "slept"}
        assert kinds["owner"] == {"b"}
        assert len(rows) == len(dataset)
        assert b"<f" not in zipfile.ZipFile(folder / "rows.xlsx").read("xl/worksheets/sheet1.xml")

    def test_pandas_reads_excel(self, written):
        folder, dataset = written
        frame = pd.read_excel(
            folder / "rows.xlsx", keep_default_na=False, na_values=[""], engine="calamine"
        )
        names = np.array(["01067", "1067", "NA", None])
        read = frame["postcode"].astype(object)
        assert read.where(read.notna(), None).tolist() == list(names[dataset.column("postcode")])

    @pytest.mark.parametrize("ending", [".dta", ".sav"])
    def test_haven(self, written, ending, tmp_path):
        folder, dataset = written
        known = in_r(
            f"""
            library(haven)
            frame <- read_{ending[1:]}("{folder}/rows{ending}")
            write_{ending[1:]}(frame, "{tmp_path}/rows{ending}")
            is_time <- function(x) inherits(x, "POSIXct") || inherits(x, "hms")
            plain <- lapply(zap_labels(zap_formats(zap_label(frame))), function(x)
              if (is_time(x)) as.numeric(x) %% 86400 / 60
              else if (inherits(x, "Date")) as.numeric(x) else unclass(x))
            list(values = plain, labels = lapply(frame, function(x) as.list(attr(x, "labels"))),
                 about = attr(frame$sex, "label"), dates = class(frame$born))
            """,
            "haven",
        )
        values, labels = known["values"], known["labels"]
        for name in CODES:
            column = np.array(
                [np.nan if value is None else value for value in values[name]], dtype=float
            )
            np.testing.assert_array_equal(column, self.codes(dataset, name))
        assert labels["sex"] == {"female": 1, "männlich": 2, "=HYPERLINK(1)": 3}
        assert labels["answer"] == {"missing": 1, "#N/A": 2, "1,5": 3, 'say "x"': 4, "two\nlines": 5}
        assert known["about"] == "As registered"
        assert known["dates"] == "Date"
        drawn = Numbers(3)
        for one in CODING.attributes:
            if isinstance(one.coding, Edges):
                expected = drawn.of(one.name, one.coding, dataset.column(one.name))
                column = [np.nan if value is None else value for value in values[one.name]]
                np.testing.assert_allclose(column, expected, rtol=1e-14)
        # what R wrote is the same by values, but for formats of times of day
        assert difference(tmp_path / f"rows{ending}", folder / f"rows{ending}") in (
            None,
            "the type of 'slept'",
        )

    def test_readxl(self, written):
        folder, dataset = written
        known = in_r(
            f"""
            frame <- readxl::read_excel("{folder}/rows.xlsx", guess_max = 400, na = "")
            list(rows = nrow(frame), sex = frame$sex, born = as.numeric(as.Date(frame$born)))
            """,
            "readxl",
        )
        names = np.array(["female", "männlich", "=HYPERLINK(1)", None])
        assert known["sex"] == list(names[dataset.column("sex")])
        assert known["rows"] == len(dataset)
        assert [day is None for day in known["born"]] == (dataset.column("born") == 2).tolist()

    def test_pspp(self, written, tmp_path):
        if shutil.which("pspp-convert") is None:
            pytest.skip("no pspp-convert")
        folder, dataset = written
        for name, options in {"codes": (), "labels": ("--labels",)}.items():
            words = ("pspp-convert", "-O", "csv", *options, folder / "rows.sav", tmp_path / name)
            shown = subprocess.run(words, check=True, capture_output=True, text=True)
            assert not shown.stdout + shown.stderr
        with (tmp_path / "codes").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for name in CODES:
            column = [float(row[name].strip() or "nan") for row in rows]
            np.testing.assert_array_equal(column, self.codes(dataset, name))
        with (tmp_path / "labels").open(newline="", encoding="utf-8") as file:
            labels = [row["sex"].strip() for row in csv.DictReader(file)]
        names = np.array(["female", "männlich", "=HYPERLINK(1)", ""])
        assert labels == list(names[dataset.column("sex")])


@cache
def r_package(name):
    if shutil.which("Rscript") is None:
        return False
    asked_for = f'quit(status = !requireNamespace("{name}", quietly = TRUE))'
    return subprocess.run(("Rscript", "-e", asked_for), check=False, capture_output=True).returncode == 0


def in_r(program, package):
    """The last value of a program in R, which is skipped without its package."""
    for needed in (package, "jsonlite"):
        if not r_package(needed):
            pytest.skip(f"no R package {needed}")
    words = (
        "options(digits = 17);"
        f"cat(jsonlite::toJSON({{{program}}}, digits = NA, na = 'null', auto_unbox = TRUE))"
    )
    shown = subprocess.run(("Rscript", "-e", words), check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)


LONG = "x" * 40_000


class TestLimits:
    """Rows that a format cannot hold are refused before a byte is written; the error names others."""

    @pytest.mark.parametrize(
        ("name", "ending", "why"),
        [
            ("a" * 33, ".dta", "has 33 characters"),
            ("a" * 32, ".dta", "at most 31 fit beside the number of its value labels"),
            ("two words", ".dta", "letters, digits and _ only"),
            ("a-b", ".dta", "letters, digits and _ only"),
            ("1a", ".dta", "no digit first"),
            *(
                (name, ".dta", "the name is a word of Stata")
                for name in ("_cons", "if", "byte", "_N", "str17")
            ),
            ("ä" * 33, ".sav", "has 66 bytes"),
            ("two words", ".sav", "has letters, digits"),
            ("_a", ".sav", "a letter first"),
            ("@a", ".sav", "a letter first"),
            ("a.", ".sav", "no point last"),
            ("with", ".sav", "is a word of SPSS"),
            ("REST", ".sav", "'REST' differs by case alone"),
            ("a\x01", ".xlsx", "character that no cell holds"),
            (LONG, ".xlsx", "has 40,000 characters"),
        ],
    )
    def test_names(self, name, ending, why, tmp_path):
        coding, dataset = of_one(name, Labels(("x", "y")))
        text = refusal(ending, coding, dataset, tmp_path)
        assert why in text
        assert "Write .csv" in text
        assert ending not in text.partition("Write")[2]

    @pytest.mark.parametrize("name", ["a" * 31, "größe", "年齢", "If", "str2046", "_x1"])
    def test_names_that_stata_has(self, name, tmp_path):
        coding, dataset = of_one(name, Labels(("x", "y")))
        write_rows(dataset, coding, tmp_path / "rows.dta")
        assert read_rows(tmp_path / "rows.dta", coding, coding.domain).digest() == dataset.digest()

    @pytest.mark.parametrize("name", ["ä" * 32, "größe", "年齢", "a.b", "a$", "a_"])
    def test_names_that_spss_has(self, name, tmp_path):
        coding, dataset = of_one(name, Labels(("x", "y")))
        write_rows(dataset, coding, tmp_path / "rows.sav")
        assert read_rows(tmp_path / "rows.sav", coding, coding.domain).digest() == dataset.digest()

    @pytest.mark.parametrize("name", ["=A1", "#REF!", "two words", "sum", " x ", "'x", "_x1_"])
    def test_names_that_excel_has(self, name, tmp_path):
        coding, dataset = of_one(name, Labels(("x", "y")))
        write_rows(dataset, coding, tmp_path / "rows.xlsx")
        assert read_rows(tmp_path / "rows.xlsx", coding, coding.domain).digest() == dataset.digest()

    @pytest.mark.parametrize(
        ("levels", "endings", "why"),
        [
            (Labels(("", "b")), FORMATS, "empty"),
            (Labels((" ", "b")), (".sav", ".dta", ".xlsx"), "label"),
            (Labels(("a\0b", "a")), FORMATS, "character"),
            (Labels((LONG, "b")), FORMATS, "40,000"),
            (Labels(("x" * 121, "b")), (".sav",), "has 121 bytes"),
            (Labels(("ä" * 61, "b")), (".sav",), "has 122 bytes"),
            (Labels(("a", "a ")), (".dta", ".sav"), "ends with a space"),
            (Labels(("a", "a "), text=True), (".dta", ".sav"), "ends with a space"),
            (Labels(("0.5", "1")), (".dta",), "labels belong to whole numbers"),
            (Labels(("1", "3000000000")), (".dta",), "labels belong to whole numbers"),
            (Labels(("1", str(2**53)), integer=True), FORMATS, "would be rounded"),
            (Labels(("A", "_x0041_")), (".xlsx",), "_x0041_"),
            (Labels(("a\r", "a")), (".xlsx",), "that no cell holds"),
            (Labels(("\ufffe", "a")), (".xlsx",), "that no cell holds"),
            (Edges((0, 1e308)), FORMATS, "numbers beyond"),
            (Edges((days(1850), days(1950)), False, 0, dates=True), (".xlsx",), "1900-03-01"),
            (
                Edges((days(1500), days(1950)), False, 0, dates=True),
                (".sav", ".xlsx"),
                "dates from 1500",
            ),
            (Edges((days(50), days(1950)), False, 0, dates=True), FORMATS, "dates from 0050-01-01"),
        ],
        ids=lambda value: repr(value)[:40],
    )
    def test_levels(self, levels, endings, why, tmp_path):
        coding, dataset = of_one("a", levels)
        values = Numbers(1) if isinstance(levels, Edges) else None
        for ending in FORMATS:
            if ending in endings:
                assert why in refusal(ending, coding, dataset, tmp_path, values)
            else:
                path = tmp_path / f"rows{ending}"
                write_rows(dataset, coding, path, values)
                assert read_rows(path, coding, coding.domain).digest() == dataset.digest()
                path.unlink()

    def test_rows_and_columns_of_excel(self, tmp_path):
        many = limits.RowsToWrite((Attribute("a", Labels(("x",))),), 1_048_576, by_levels=True)
        with pytest.raises(
            InvalidInputError, match="1,048,576 rows, and at most 1,048,575 fit"
        ) as refused:
            limits.check_fits(".xlsx", many)
        assert "Write .csv, .parquet, .dta or .sav instead." in str(refused.value)
        wide = tuple(Attribute(f"a{i}", Labels(("x",))) for i in range(16_385))
        with pytest.raises(InvalidInputError, match="16,385 columns"):
            limits.check_fits(".xlsx", limits.RowsToWrite(wide, 1, by_levels=True))

    def test_a_last_row_of_missing_values_is_no_row_of_excel(self, tmp_path):
        coding = Coding((Attribute("a", Labels(("x",), missing=True)),))
        text = refusal(".xlsx", coding, Dataset(coding.domain, np.array([[0], [1]])), tmp_path)
        assert "the last row has missing values only" in text
        write_rows(Dataset(coding.domain, np.array([[1], [0]])), coding, tmp_path / "rows.xlsx")
        read = read_rows(tmp_path / "rows.xlsx", coding, coding.domain)
        assert read.codes.tolist() == [[1], [0]]

    def test_names_that_would_share_value_labels(self, tmp_path):
        names = ["a1", *(f"b{i}" for i in range(9)), "a"]
        coding = Coding(tuple(Attribute(name, Labels(("x", "y"))) for name in names))
        assert "would have the same name" in refusal(".dta", coding, rows_of(coding), tmp_path)

    def test_a_long_description_is_shortened_visibly(self, tmp_path):
        coding = Coding((Attribute("a", Labels(("x", "y")), "ä" * 300),))
        for ending, read in ((".dta", pyreadstat.read_dta), (".sav", pyreadstat.read_sav)):
            write_rows(rows_of(coding), coding, tmp_path / f"rows{ending}")
            _, facts = read(tmp_path / f"rows{ending}")
            assert facts.column_names_to_labels["a"] == "ä" * 79 + "…"

    def test_long_texts_of_stata(self, tmp_path):
        coding, dataset = of_one("a", Labels((LONG, "b"), text=True, missing=True))
        write_rows(dataset, coding, tmp_path / "rows.dta")
        assert read_rows(tmp_path / "rows.dta", coding, coding.domain).digest() == dataset.digest()

    @pytest.mark.parametrize(
        ("name", "extra"),
        [("rows.xlsx", "openpyxl"), ("rows.dta", "pyreadstat"), ("rows.sav", "pyreadstat")],
    )
    def test_without_its_package(self, name, extra, monkeypatch, tmp_path):
        import sys

        part = "workbook" if name.endswith("xlsx") else "statistics"
        monkeypatch.delitem(sys.modules, f"gencard.client.common.{part}", raising=False)
        monkeypatch.setitem(sys.modules, extra, None)
        with pytest.raises(InvalidInputError, match=r"gencard\[files\]"):
            write_rows(rows_of(CODING), CODING, tmp_path / name)


class TestOutput:
    @pytest.mark.parametrize("name", ["release", "release.1", "v1.2", ".release", "a b"])
    def test_folders(self, name):
        assert limits.is_folder(Path(name))

    @pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.b.xlsx", "a.dta", "a.sav", "a.parquet"])
    def test_files(self, name):
        assert not limits.is_folder(Path(name))

    @pytest.mark.parametrize(
        "name", ["rows.xsl", "rows.json", "rows.csv.gz", "rows.zsav", "rows.xls", "a.b"]
    )
    def test_another_ending_is_refused_unless_it_is_a_folder(self, name, tmp_path):
        with pytest.raises(InvalidInputError, match=r"\.csv, \.parquet, \.dta, \.sav or \.xlsx"):
            limits.is_folder(tmp_path / name)
        (tmp_path / name).mkdir()
        assert limits.is_folder(tmp_path / name)


class TestDifference:
    """A file is compared by its values, and each change is named."""

    @pytest.mark.parametrize("ending", FORMATS)
    def test_written_twice_it_is_the_same(self, written, ending, tmp_path):
        folder, dataset = written
        write_rows(dataset, CODING, tmp_path / f"rows{ending}", Numbers(3))
        assert difference(folder / f"rows{ending}", tmp_path / f"rows{ending}") is None

    @pytest.mark.parametrize("ending", FORMATS)
    def test_one_number(self, written, ending, tmp_path):
        folder, dataset = written
        write_rows(dataset, CODING, tmp_path / f"rows{ending}", Numbers(4))
        shown = difference(tmp_path / f"rows{ending}", folder / f"rows{ending}")
        assert shown in ("the values of 'age'", "the values in line 2", "the values in line 3")

    @pytest.mark.parametrize("value", ["=1+1", "fe male", 1])
    def test_one_cell(self, book, value, tmp_path):
        changed = openpyxl.load_workbook(book)
        changed["rows"]["A7"].value = value
        changed.save(tmp_path / "rows.xlsx")
        assert difference(tmp_path / "rows.xlsx", book) == "the values in line 7"

    def test_a_formula_that_shows_the_label(self, book, tmp_path):
        changed = openpyxl.load_workbook(book)
        cell = next(row[0] for row in changed["rows"].iter_rows() if row[0].value == "=HYPERLINK(1)")
        cell.data_type = "f"
        changed.save(tmp_path / "rows.xlsx")
        assert difference(tmp_path / "rows.xlsx", book) == f"the values in line {cell.row}"

    def test_another_sheet(self, book, tmp_path):
        changed = openpyxl.load_workbook(book)
        changed.create_sheet("more")
        changed.save(tmp_path / "rows.xlsx")
        assert difference(tmp_path / "rows.xlsx", book) == "the sheets"

    def test_a_workbook_that_was_saved_again_is_the_same(self, book, tmp_path):
        openpyxl.load_workbook(book).save(tmp_path / "rows.xlsx")
        assert (tmp_path / "rows.xlsx").read_bytes() != book.read_bytes()
        assert difference(tmp_path / "rows.xlsx", book) is None

    @pytest.mark.parametrize(
        ("change", "shown"),
        [
            ({"variable_value_labels": {"a": {1: "y", 2: "x"}}}, "the labels of 'a'"),
            ({"missing_ranges": {"a": [2]}}, "what it declares as missing"),
            ({"column_labels": {"a": "other"}}, None),
            ({}, None),
        ],
    )
    def test_what_a_file_of_spss_says_of_its_values(self, change, shown, tmp_path):
        coding = Coding((Attribute("a", Labels(("x", "y")), "About"),))
        write_rows(rows_of(coding), coding, tmp_path / "rows.sav")
        frame, facts = pyreadstat.read_sav(tmp_path / "rows.sav")
        same = {"variable_value_labels": facts.variable_value_labels, "column_labels": {"a": "About"}}
        pyreadstat.write_sav(frame, tmp_path / "other.sav", **{**same, **change})
        assert difference(tmp_path / "other.sav", tmp_path / "rows.sav") == shown
