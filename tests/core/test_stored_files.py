"""Files of Excel, Stata and SPSS as users see them, and files that are refused with the cell."""

import datetime as dt
import os
import re
import signal
import subprocess
import sys
import time
import unicodedata
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from shutil import which

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.core.errors import GencardError, InvalidInputError, TooLargeError
from gencard.files import apart
from gencard.files.content import distinct_labels, read_stored

pyreadstat = pytest.importorskip("pyreadstat")
statistics, workbooks = map(import_module, ("gencard.files.statistics", "gencard.files.workbooks"))


def read(path: Path, **options):
    return read_stored(path, "data", **options)


def read_here(path: Path) -> pa.Table:
    """The table of a file, read in this process: another one takes most of a second."""
    of_workbooks = {"sheet": "", "skip": 0} if path.suffix == ".xlsx" else {}
    reader = workbooks if path.suffix == ".xlsx" else statistics
    return reader._read(path, "data", most_bytes=10**9, **of_workbooks).table


def columns(path: Path, **options) -> dict:
    return read(path, **options).table.to_pydict()


LABELS = {"sex": {1: "male", 2: "female", 3: "other"}, "income": {-9: "refused", 98: "98 or more"}}


@pytest.fixture
def survey() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "sex": [1.0, 2.0, np.nan, 1.0],
            "income": [20.5, 98.0, -9.0, 33.0],
            "code": ["007", "7 ", "", None],
            "n": [1.0, 2.0, 2.0**53 - 1, np.nan],
            "day": [dt.date(2020, 2, 29), dt.date(1900, 1, 1), None, dt.date(1959, 12, 31)],
            "at": [
                dt.datetime(2020, 1, 2, 3, 4, 5),
                dt.datetime(1999, 1, 1),
                None,
                dt.datetime(1950, 6, 1),
            ],
        }
    )


def test_spss_values_are_those_that_people_see(tmp_path, survey):
    survey["hour"] = [dt.time(3, 4), dt.time(0), None, dt.time(23, 59, 30)]
    path = tmp_path / "a.sav"
    pyreadstat.write_sav(
        survey,
        path,
        column_labels={"sex": "Sex of the person"},
        variable_value_labels=LABELS,
        missing_ranges={"income": [{"lo": -9, "hi": -9}], "code": ["7"]},
    )
    stored = read(path)
    assert stored.table.to_pydict() == {
        "sex": ["male", "female", None, "male"],
        "income": [20.5, 98.0, None, 33.0],
        "code": ["007", None, None, None],
        "n": [1, 2, 2**53 - 1, None],
        "day": [dt.date(2020, 2, 29), dt.date(1900, 1, 1), None, dt.date(1959, 12, 31)],
        "at": [dt.datetime(2020, 1, 2, 3, 4, 5), dt.datetime(1999, 1, 1), None, dt.datetime(1950, 6, 1)],
        "hour": ["03:04:00", "00:00:00", None, "23:59:30"],
    }
    described = {one.name: one for one in stored.columns}
    assert described["sex"].description == "Sex of the person"
    assert described["sex"].labels == ("male", "female", "other")
    assert described["income"].missing == ("-9 = refused",)
    assert "no label" in described["income"].note


def test_stata_values_are_those_that_people_see(tmp_path, survey):
    survey["income"] = [20.5, 98.0, "b", 33.0]
    path = tmp_path / "a.dta"
    labels = {"sex": LABELS["sex"], "income": {"b": "refused"}}
    pyreadstat.write_dta(
        survey, path, variable_value_labels=labels, missing_user_values={"income": ["b"]}
    )
    stored = read(path)
    values = stored.table.to_pydict()
    assert values["sex"] == ["male", "female", None, "male"]
    assert values["income"] == [20.5, 98.0, None, 33.0]
    assert values["code"] == ["007", "7 ", None, None]
    assert values["day"] == [dt.date(2020, 2, 29), dt.date(1900, 1, 1), None, dt.date(1959, 12, 31)]
    assert values["at"][0] == dt.datetime(2020, 1, 2, 3, 4, 5)
    assert {one.name: one.missing for one in stored.columns}["income"] == (".b = refused",)


def test_two_codes_of_one_label_stay_two(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 8.0, 9.0, 10.0]})
    labels = {"a": {1: "yes", 8: "other", 9: "other", 10: ""}}
    pyreadstat.write_sav(frame, tmp_path / "a.sav", variable_value_labels=labels)
    assert columns(tmp_path / "a.sav")["a"][:3] == ["yes", "other (8)", "other (9)"]


DECIMALS = st.decimals(-1000, 1000, places=6).map(float)
"""Excel and its libraries write 15 digits."""


@settings(max_examples=25)
@given(
    values=st.lists(
        st.one_of(st.none(), st.integers(-(10**15), 10**15).map(float), DECIMALS),
        min_size=1,
        max_size=20,
    ),
    texts=st.lists(
        st.text(st.characters(categories=["L", "N", "P"]), max_size=9), min_size=1, max_size=20
    ),
)
def test_stata_and_excel_give_every_number_and_text_back(tmp_path_factory, values, texts):
    size = max(len(values), len(texts))
    numbers = [*values, *[None] * (size - len(values))]
    words = [*texts, *[""] * (size - len(texts))]
    folder = tmp_path_factory.mktemp("files")
    pyreadstat.write_dta(pd.DataFrame({"x": np.array(numbers, float), "t": words}), folder / "a.dta")
    sheet = book_of([["x", "t"], *zip(numbers, words, strict=True)], folder / "a.xlsx")
    for path in (folder / "a.dta", sheet):
        held = read_here(path).to_pydict()
        rows = len(held["x"])
        assert held["x"] == numbers[:rows]
        assert held["t"] == [word or None for word in words][:rows]
        assert all(one is None for one in numbers[rows:])


def book_of(rows, path: Path, change=lambda sheet: None) -> Path:
    book = openpyxl.Workbook()
    for number, row in enumerate(rows, 1):
        for place, value in enumerate(row, 1):
            cell = book.active.cell(number, place, value)
            if isinstance(value, str) and not value.startswith("="):
                cell.data_type = "s"
    change(book.active)
    book.save(path)
    return path


PEOPLE = [["id", "name", "day"], ["001", "Ann", dt.date(2020, 1, 2)], ["002", "Bo", dt.date(2020, 1, 3)]]


def test_a_workbook_holds_what_its_cells_hold(tmp_path):
    rows = [
        ["id", "x", "on", "day", "at", "mixed"],
        ["001", 1, True, dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4), 1],
        ["002", 2.5, False, None, dt.datetime(2020, 1, 2), "x"],
        [None, None, None, dt.date(9999, 12, 31), None, dt.date(2020, 1, 2)],
        [None] * 6,
    ]
    stored = read(book_of(rows, tmp_path / "a.xlsx"))
    assert stored.table.to_pydict() == {
        "id": ["001", "002", None],
        "x": [1.0, 2.5, None],
        "on": [True, False, None],
        "day": [dt.date(2020, 1, 2), None, dt.date(9999, 12, 31)],
        "at": [dt.datetime(2020, 1, 2, 3, 4), dt.datetime(2020, 1, 2), None],
        "mixed": ["1", "x", "2020-01-02"],
    }
    assert "several types" in stored.columns[-1].note


def shifted(sheet) -> None:
    sheet.move_range("A1:C3", rows=2, cols=1)


def test_a_table_may_stand_anywhere_in_its_sheet(tmp_path):
    path = book_of(PEOPLE, tmp_path / "a.xlsx", shifted)
    assert columns(path) == columns(book_of(PEOPLE, tmp_path / "b.xlsx"))


def with_cell(cell: str, value):
    def change(sheet) -> None:
        sheet[cell] = value

    return change


def as_error(sheet) -> None:
    sheet["B3"] = "#DIV/0!"
    sheet["B3"].data_type = "e"


REFUSED = {
    "an error": (as_error, "an error in cell B3"),
    "a formula that was never computed": (
        with_cell("C3", "=1/0"),
        "a formula without a value in cell C3",
    ),
    "merged cells": (lambda sheet: sheet.merge_cells("A2:B2"), "merged cells from cell A2"),
    "a merged header": (lambda sheet: sheet.merge_cells("A1:B1"), "cell B1"),
    "no name": (with_cell("B1", None), "cell B1"),
    "a number as a name": (with_cell("B1", 2020), "cell B1"),
    "two columns of one name": (with_cell("B1", "ID"), "'id' and 'ID' in cell B1"),
    "a title above": (
        lambda sheet: (sheet.insert_rows(1), sheet.cell(1, 1, "Survey")),
        "without a name above it in cell B2",
    ),
    "a value beside the table": (with_cell("F3", "note"), "without a name above it in cell F3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_sheet_that_is_no_table_is_refused_with_the_cell(tmp_path, name):
    change, words = REFUSED[name]
    path = book_of(PEOPLE, tmp_path / "a.xlsx", change)
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert words in str(caught.value)
    assert "Ann" not in str(caught.value)


def with_durations(values, path: Path) -> Path:
    """A workbook of one column with durations, whose cells have the format [h]:mm."""

    def as_hours(sheet) -> None:
        for row in range(2, sheet.max_row + 1):
            if isinstance(sheet.cell(row, 2).value, dt.timedelta):
                sheet.cell(row, 2).number_format = "[h]:mm"

    rows = [["id", "worked"], *([one, value] for one, value in enumerate(values))]
    return book_of(rows, path, as_hours)


HOURS = [dt.timedelta(hours=26, minutes=30), None, dt.timedelta(hours=8), -dt.timedelta(minutes=15)]


def test_durations_are_hours(tmp_path):
    stored = read(with_durations(HOURS, tmp_path / "a.xlsx"))
    assert stored.table.to_pydict()["worked"] == [26.5, None, 8.0, -0.25]
    assert "durations, read as hours" in stored.columns[1].note
    # 8:00 is stored as the same number, whether its format is [h]:mm or h:mm
    mixed = read(with_durations([*HOURS, dt.time(8)], tmp_path / "b.xlsx"))
    assert mixed.table.to_pydict()["worked"] == [26.5, None, 8.0, -0.25, 8.0]
    whole = read(with_durations([dt.timedelta(hours=30)], tmp_path / "c.xlsx"))
    assert whole.table.to_pydict()["worked"] == [30]


@pytest.mark.parametrize("value", ["late", 7, dt.date(2020, 1, 2), True])
@pytest.mark.parametrize("first", [False, True])
def test_durations_beside_other_values_are_refused_with_the_cell(tmp_path, value, first):
    values = [value, None, *HOURS] if first else [*HOURS, value]
    with pytest.raises(InvalidInputError, match=f"in cell B{4 if first else 6}") as caught:
        read(with_durations(values, tmp_path / "a.xlsx"))
    assert "late" not in str(caught.value)


def test_durations_of_libreoffice_and_old_workbooks_are_hours(tmp_path):
    odf = pytest.importorskip("odf.opendocument")
    table, text = (pytest.importorskip(f"odf.{name}") for name in ("table", "text"))
    book, sheet = odf.OpenDocumentSpreadsheet(), table.Table(name="s")
    book.spreadsheet.addElement(sheet)
    for value in ("worked", "PT08H30M00S", "PT26H30M00S", "-PT01H00M00S"):
        is_name = not value.endswith("S")
        kind = {"valuetype": "string"} if is_name else {"valuetype": "time", "timevalue": value}
        cell, row = table.TableCell(**kind), table.TableRow()
        if is_name:
            cell.addElement(text.P(text=value))
        row.addElement(cell)
        sheet.addElement(row)
    book.save(tmp_path / "a.ods")
    assert columns(tmp_path / "a.ods") == {"worked": [8.5, 26.5, -1.0]}
    xlwt = pytest.importorskip("xlwt")
    old = xlwt.Workbook()
    page = old.add_sheet("s")
    page.write(0, 0, "worked")
    for row, days in enumerate((8.5 / 24, 26.5 / 24), 1):
        page.write(row, 0, days, xlwt.easyxf(num_format_str="[h]:mm"))
    old.save(tmp_path / "a.xls")
    assert columns(tmp_path / "a.xls") == {"worked": [8.5, 26.5]}


def test_empty_rows_between_records_are_counted(tmp_path):
    rows = [[None], *PEOPLE[:2], [None] * 3, PEOPLE[2], [None] * 3, [None] * 3, PEOPLE[2], [None] * 3]
    stored = read(book_of(rows, tmp_path / "a.xlsx"))
    assert stored.table.num_rows == 6
    assert stored.note == "Each of 3 empty rows is a record; the first is row 4."
    assert read(book_of(PEOPLE, tmp_path / "b.xlsx")).note == ""


def test_a_second_row_of_names_is_refused(tmp_path):
    rows = [["height", "weight"], ["cm", "kg"], *[[170 + one, 60.5 + one] for one in range(5)]]
    with pytest.raises(InvalidInputError, match="second row of names: the text in cell A2"):
        read(book_of(rows, tmp_path / "a.xlsx"))


def test_a_title_is_skipped_if_that_is_stated(tmp_path):
    rows = [["Survey of 2020"], [None], *PEOPLE]
    path = book_of(rows, tmp_path / "a.xlsx")
    assert list(columns(path, skip=2)) == PEOPLE[0]


def test_the_sheet_is_asked_for(tmp_path):
    def more(sheet) -> None:
        sheet.parent.create_sheet("others")["A1"] = "x"
        sheet.parent.create_sheet("empty")

    path = book_of(PEOPLE, tmp_path / "a.xlsx", more)
    with pytest.raises(InvalidInputError, match="'Sheet', 'others', 'empty'"):
        read(path)
    assert list(columns(path, sheet="Sheet")) == PEOPLE[0]
    with pytest.raises(InvalidInputError, match="is not one of the sheets"):
        read(path, sheet="Sheet1")


def test_an_old_workbook_and_one_of_libreoffice_are_read_alike(tmp_path):
    xlwt = pytest.importorskip("xlwt")
    frame = pd.DataFrame({"id": ["001", "002"], "x": [1.5, 2.0]})
    book = xlwt.Workbook()
    sheet = book.add_sheet("data", cell_overwrite_ok=True)
    for row, values in enumerate([list(frame), *frame.to_numpy().tolist()]):
        for column, value in enumerate(values):
            sheet.write(row, column, value)
    book.save(tmp_path / "a.xls")
    frame.to_excel(tmp_path / "a.ods", index=False, engine="odf")
    for name in ("a.xls", "a.ods"):
        assert columns(tmp_path / name) == {"id": ["001", "002"], "x": [1.5, 2.0]}
    sheet.row(2).set_cell_error(1, 0x07)
    book.save(tmp_path / "b.xls")
    with pytest.raises(InvalidInputError, match="an error in cell B3"):
        read(tmp_path / "b.xls")


# Hostile files


@pytest.mark.parametrize("ending", ["xlsx", "xls", "ods", "dta", "sav", "zsav", "sas7bdat", "xpt"])
@pytest.mark.parametrize("content", [b"", b"\x00" * 5_000, b"PK\x03\x04", b"secret,1\n" * 900, b"$FL2"])
def test_what_is_no_such_file_is_refused_without_its_words(tmp_path, ending, content):
    path = tmp_path / f"a.{ending}"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError) as caught:
        read(path)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


@pytest.mark.parametrize("ending", ["xlsx", "dta", "sav"])
def test_a_truncated_file_is_refused(tmp_path, ending, survey):
    path = tmp_path / f"a.{ending}"
    if ending == "xlsx":
        book_of(PEOPLE * 50, path)
    else:
        getattr(pyreadstat, f"write_{ending}")(pd.concat([survey] * 200), path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(GencardError):
        read(path)


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path):
    path = book_of(PEOPLE, tmp_path / "a.xlsx")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/media/large.bin", b"\x00" * (8 << 20))
    with pytest.raises(TooLargeError, match=r"limits\.file_mib"):
        read(path, most_bytes=4 << 20)
    frame = pd.DataFrame({f"x{one}": np.zeros(50_000) for one in range(20)})
    pyreadstat.write_sav(frame, tmp_path / "a.zsav", compress=True)
    assert (tmp_path / "a.zsav").stat().st_size < 1 << 20
    with pytest.raises(TooLargeError, match=r"limits\.file_mib"):
        read(tmp_path / "a.zsav", most_bytes=4 << 20)


def test_a_file_that_crashes_its_reader_is_refused(tmp_path, survey):
    """Other bytes at six places of a file: some such files crash the library."""
    pyreadstat.write_sav(survey, tmp_path / "whole.sav")
    content = (tmp_path / "whole.sav").read_bytes()
    for place in range(0, len(content), max(len(content) // 6, 1)):
        (tmp_path / "a.sav").write_bytes(content[:place] + b"\xff" * 9 + content[place + 9 :])
        with suppress(GencardError):
            read(tmp_path / "a.sav")


def test_a_device_is_no_file(tmp_path):
    (tmp_path / "a.dta").symlink_to("/dev/zero")
    with pytest.raises(InvalidInputError, match="not a regular file"):
        read(tmp_path / "a.dta")


# Referees


HAVEN = """
suppressMessages(library(haven))
path <- commandArgs(TRUE)[1]
one <- if (endsWith(path, "dta")) read_dta(path) else read_sav(path)
for (name in names(one)) {
  x <- one[[name]]
  if (inherits(x, "haven_labelled")) x <- as.character(as_factor(x))
  if (inherits(x, "POSIXct")) x <- format(x, "%Y-%m-%d %H:%M:%S", tz = "UTC")
  if (is.character(x)) x[x == ""] <- NA
  cat(name, ifelse(is.na(x), "NA", trimws(format(x, digits = 17, scientific = FALSE))), sep = "\\t")
  cat("\\n")
}
"""


def has_haven() -> bool:
    script = "quit(status = !requireNamespace('haven', quietly = TRUE))"
    return (
        bool(which("Rscript")) and not subprocess.run(["Rscript", "-e", script], check=False).returncode
    )


@pytest.mark.skipif(not has_haven(), reason="needs R with haven")
@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_haven_reads_the_same(tmp_path, survey, ending):
    path = tmp_path / f"a.{ending}"
    labels = {"sex": LABELS["sex"]}
    if ending == "dta":
        pyreadstat.write_dta(survey, path, variable_value_labels=labels)
    else:
        missing = {"income": [{"lo": -9, "hi": -9}]}
        pyreadstat.write_sav(survey, path, variable_value_labels=labels, missing_ranges=missing)
    script = tmp_path / "read.R"
    script.write_text(HAVEN)
    output = subprocess.run(["Rscript", script, path], check=True, capture_output=True, text=True).stdout
    by_haven = {line.split("\t")[0]: line.split("\t")[1:] for line in output.splitlines()}
    for name, values in columns(path).items():
        assert [shown(one) for one in values] == [as_shown(one, values) for one in by_haven[name]], name


def shown(value) -> str:
    return "NA" if value is None else str(value).rstrip()


def as_shown(text: str, values) -> str:
    if any(isinstance(value, int | float) for value in values) and text != "NA":
        return str(next(kind for kind in (int, float) if is_of(kind, values))(float(text)))
    return text


def is_of(kind: type, values) -> bool:
    return any(isinstance(value, kind) for value in values)


@pytest.mark.skipif(not which("pspp-convert"), reason="needs PSPP")
def test_pspp_reads_the_same(tmp_path, survey):
    path, as_csv = tmp_path / "a.sav", tmp_path / "a.csv"
    pyreadstat.write_sav(
        survey[["sex", "income", "code", "n"]],
        path,
        variable_value_labels={"sex": LABELS["sex"]},
        missing_ranges={"income": [{"lo": -9, "hi": -9}]},
    )
    subprocess.run(
        ["pspp-convert", "--recode", "--labels", path, as_csv], check=True, capture_output=True
    )
    by_pspp = pd.read_csv(as_csv, dtype=str, keep_default_na=False)
    for name, values in columns(path).items():
        ours = [float(one) if isinstance(one, int | float) else (one or "").strip() for one in values]
        theirs = [text.strip() for text in by_pspp[name]]
        numbers = [float(text) if text and name in ("income", "n") else text for text in theirs]
        assert ours == numbers, name


@given(
    st.dictionaries(
        st.integers(0, 9), st.sampled_from(["", "1", "a", "a (1)", "a (2)", "caf\u00e9", "cafe\u0301"])
    )
)
def test_codes_have_different_labels(labels):
    shown = distinct_labels(labels)
    forms = [unicodedata.normalize("NFC", label) for label in shown.values()]
    assert len({*forms}) == len(labels)
    assert all(forms)


def test_one_far_cell_does_not_take_the_memory(tmp_path):
    path = book_of(PEOPLE, tmp_path / "a.xlsx", with_cell("XFD1048576", 1))
    with pytest.raises(InvalidInputError, match="unpacks to far more"):
        read(path)


def test_the_cells_of_a_sheet_are_looked_at_once(tmp_path, monkeypatch):
    """Beside the library's own reading, wherever in the file the sheet is."""
    path = book_of(PEOPLE, tmp_path / "a.xlsx", as_error)
    moved = tmp_path / "b.xlsx"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(moved, "w") as other:
        for name in archive.namelist():
            content = archive.read(name).replace(b"/xl/worksheets/sheet1", b"/xl/pages/first")
            other.writestr(name.replace("worksheets/sheet1", "pages/first"), content)
    opened: list[str] = []
    original = zipfile.ZipFile.open

    def counted(archive, name, *words, **options):
        opened.append(str(getattr(name, "filename", name)))
        return original(archive, name, *words, **options)

    monkeypatch.setattr(zipfile.ZipFile, "open", counted)
    for one, part in ((path, "xl/worksheets/sheet1.xml"), (moved, "xl/pages/first.xml")):
        opened.clear()
        with pytest.raises(InvalidInputError, match="an error in cell B3"):
            read_here(one)
        assert opened.count(part) == 1


def test_a_formula_may_give_the_empty_text(tmp_path):
    path = book_of([["a", "b"], ["x", 1.5], ["y", 2.5]], tmp_path / "a.xlsx", with_cell("C2", None))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    parts[sheet] = re.sub(
        rb'<c r="A2"[^>]*>.*?</c>', b'<c r="A2" t="str"><f>IF(1,"","")</f><v></v></c>', parts[sheet]
    )
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert columns(path) == {"a": [None, "y"], "b": [1.5, 2.5]}


def test_a_transport_file_of_sas_is_whole_and_holds_one_data_set(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0] * 40})
    for name in ("a", "b"):
        pyreadstat.write_xport(frame, tmp_path / f"{name}.xpt", table_name=name, file_format_version=5)
    content = (tmp_path / "a.xpt").read_bytes()
    assert columns(tmp_path / "a.xpt")["a"] == frame["a"].tolist()
    (tmp_path / "cut.xpt").write_bytes(content[:-33])
    with pytest.raises(InvalidInputError, match="is cut off"):
        read(tmp_path / "cut.xpt")
    more = content.index(b"HEADER RECORD*******MEMBER ")
    (tmp_path / "two.xpt").write_bytes(content + content[more:])
    with pytest.raises(InvalidInputError, match="several data sets"):
        read(tmp_path / "two.xpt")


# Processes that read files apart


def test_a_process_that_reads_ends_with_the_one_that_started_it():
    child = "import os, time; from gencard.files import apart; apart.end_with_parent(os.getppid()); "
    child += "print(os.getpid(), flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        number = int(process.stdout.readline())
        process.kill()
    for _ in range(100):
        if not is_running(number):
            return
        time.sleep(0.1)
    os.kill(number, signal.SIGKILL)
    pytest.fail("the process outlives its parent")


def is_running(number: int) -> bool:
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("ending", ["xlsx", "sav"])
def test_a_file_that_takes_too_long_is_refused(tmp_path, ending, survey, monkeypatch):
    path = tmp_path / f"a.{ending}"
    if ending == "sav":
        pyreadstat.write_sav(survey, path)
    else:
        book_of(PEOPLE, path)
    monkeypatch.setattr(apart, "_SECONDS", 0.01)
    with pytest.raises(InvalidInputError, match="takes too long"):
        read(path)


def test_a_workbook_that_takes_the_memory_of_a_job_is_a_lack_of_memory(tmp_path):
    """calamine ends its process there; the one that reads goes on."""
    path = book_of([["id", "x"], [1, 2]], tmp_path / "a.xlsx", with_cell("B1000000", 3))
    code = (
        "import resource, sys; from pathlib import Path; from gencard.files.content import read_stored\n"
        "import gencard.files.workbooks\n"
        "size = int(open('/proc/self/statm').read().split()[0]) * 4096 + (24 << 20)\n"
        "resource.setrlimit(resource.RLIMIT_AS, (size, size))\n"
        "try:\n    read_stored(Path(sys.argv[1]), 'data')\n"
        "except MemoryError:\n    print('no memory')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=False
    )
    assert done.stdout == "no memory\n", done.stderr
