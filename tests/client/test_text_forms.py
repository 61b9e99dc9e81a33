"""Text files in the forms that people have: the client reads the same codes as the controller."""

import gzip
import inspect
import re
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from gencard.client.common import rows as client_rows
from gencard.client.common.rows import read_numbered, read_rows, unread_columns, write_rows
from gencard.client.shell.main import app
from gencard.controller.drafting.schema_draft import detect
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute, Coding, Edges, Labels, days_of_date
from gencard.core.dataset import Dataset
from gencard.core.errors import GencardError, InvalidInputError
from gencard.wire.canonical import json_bytes
from gencard.wire.psi import coding_document

_YEARS = tuple(float(days_of_date(date(year, 1, 1))) for year in (2019, 2021, 2023))
CODING = Coding(
    (
        Attribute("sex", Labels(("männlich", "weiblich"), missing=True)),
        Attribute("pay", Edges((0, 1_000, 2_000, 9_000), missing=True)),
        Attribute("score", Labels(("0.5", "1.5", "2.5"))),
        Attribute("day", Edges(_YEARS, True, 0, dates=True)),
    )
)
CODES = ((0, 1, 0, 0), (1, 0, 1, 1), (2, 3, 2, 1), (0, 2, 1, 0))
PLAIN = ["sex,pay,score,day", "männlich,1234.5,0.5,2020-12-31", "weiblich,12.25,1.5,2021-01-30",
         ",,2.5,2022-05-06", "männlich,2345,1.5,2019-02-28"]  # fmt: skip
GERMAN = ["sex;pay;score;day", "männlich;1.234,5;0,5;31.12.2020", "weiblich;12,25;1,5;30.01.2021",
          ";;2,5;06.05.2022", "männlich;2.345;1,5;28.02.2019"]  # fmt: skip
AMERICAN = ["sex,pay,score,day", 'männlich,"1,234.5",0.5,12/31/2020', "weiblich,12.25,1.5,01/30/2021",
            ",,2.5,05/06/2022", 'männlich,"2,345.0",1.5,02/28/2019']  # fmt: skip


def joined(lines, end="\n", delimiter=","):
    return "".join(line.replace(",", delimiter) + end for line in lines)


FORMS = {
    "plain": joined(PLAIN).encode(),
    "a mark of the order of bytes": joined(PLAIN).encode("utf-8-sig"),
    "semicolons, decimal commas, cp1252": joined(GERMAN, delimiter=",").encode("cp1252"),
    "semicolons, decimal commas, UTF-8": joined(GERMAN, delimiter=",").encode(),
    "semicolons": joined(PLAIN, delimiter=";").encode(),
    "bars": joined(PLAIN, delimiter="|").encode(),
    "tabs in .csv": joined(PLAIN, delimiter="\t").encode(),
    "UTF-16 with tabs": joined(PLAIN, "\r\n", "\t").encode("utf-16"),
    "UTF-16 without a mark": joined(PLAIN, "\r\n", "\t").encode("utf-16-le"),
    "a line sep=": ("sep=;\n" + joined(PLAIN, delimiter=";")).encode(),
    "comments before the header": ("# made, in 2020\n# by a program\n" + joined(PLAIN)).encode(),
    "mixed line ends": ("\r\n".join(PLAIN[:3]) + "\n" + "\r".join(PLAIN[3:]) + "\r").encode(),
    "line ends of before": joined(PLAIN, "\r").encode(),
    "all values quoted": "".join(
        ",".join(f'"{cell}"' for cell in line.split(",")) + "\r\n" for line in PLAIN
    ).encode(),
    "empty lines": joined(PLAIN, "\n\n").encode(),
    "thousands and months first": joined(AMERICAN).encode(),
    "spaces around values": joined(PLAIN, delimiter=" ; ").encode(),
    "cp1252 with commas": joined(PLAIN).encode("cp1252"),
    "another column with line ends": joined(
        [PLAIN[0] + ",note", *(f'{line},"a; ""b""|\n\tc"' for line in PLAIN[1:])]
    ).encode(),
}  # fmt: skip


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


def codes_of_controller(path: Path, coding: Coding) -> list[tuple[int, ...]]:
    """The codes of records, in no order, as the controller reads them by its own draft of the form."""
    file_format, *_ = detect(path)
    (counts,) = Vault(path, coding, format=file_format).count([coding.domain.attributes])
    cells = np.argwhere(counts)
    return sorted(tuple(map(int, cell)) for cell in cells for _ in range(int(counts[tuple(cell)])))


def codes_of_client(path: Path, coding: Coding) -> list[tuple[int, ...]]:
    return sorted(map(tuple, read_rows(path, coding, coding.domain).codes.tolist()))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("form", FORMS)
def test_client_and_controller_read_the_same_codes(tmp_path, form, name):
    path = written(tmp_path, name, FORMS[form])
    assert codes_of_client(path, CODING) == sorted(CODES)
    assert codes_of_controller(path, CODING) == sorted(CODES)


def test_numbers_are_those_of_the_plain_file(tmp_path):
    numbers = [
        read_numbered(written(tmp_path, "t.csv", FORMS[form]), CODING, CODING.domain).numbers("pay")
        for form in FORMS
    ]
    for one in numbers:
        np.testing.assert_array_equal(one, [1234.5, 12.25, np.nan, 2345])


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_an_empty_line_of_one_column_is_a_missing_value(tmp_path, encoding):
    coding = Coding((Attribute("a", Labels(("ä", "b", "two\nlines"), missing=True)),))
    path = written(tmp_path, "t.csv", 'a\nä\n\nb\n"two\nlines"\n'.encode(encoding))
    expected = [(0,), (1,), (2,), (3,)]
    assert codes_of_client(path, coding) == codes_of_controller(path, coding) == expected


REFUSED = {
    "day and month": (joined(PLAIN[:1]) + "weiblich,1,0.5,01/02/2020\n", "day and month"),
    "no one format of dates": (
        joined(PLAIN[:1]) + "weiblich,1,0.5,31/01/2020\n" * 20 + "weiblich,1,0.5,2020-01-31\n" * 20,
        "value",
    ),
    "a decimal comma with commas": (joined(PLAIN[:1]) + "weiblich,1,5,0.5,2020-01-01\n", "line 2"),
    "a short line": (joined(PLAIN) + "weiblich,1\n", "line 6"),
    "a long line": (joined(PLAIN) + "weiblich,1,0.5,2020-01-01,more\n", "line 6"),
    "two delimiters": ("sex;x,sex\nweiblich;y,weiblich\n", "has the names|no attribute"),
    "an undeclared number with marks": ("sex;pay;score;day\n" + "weiblich;1,5;x;2020-01-01\n", "score"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_be_read_in_two_ways_is_refused(tmp_path, case):
    text, words = REFUSED[case]
    path = written(tmp_path, "t.csv", text.encode())
    with pytest.raises(GencardError, match=words):
        read_rows(path, CODING, CODING.domain)


def test_a_comma_between_thousands_or_before_decimals_is_refused(tmp_path):
    coding = Coding((CODING.attribute("sex"), CODING.attribute("pay")))
    text = 'sex,pay\nweiblich,"1,234"\nweiblich,"2,345"\n'
    path = written(tmp_path, "t.csv", text.encode())
    with pytest.raises(InvalidInputError, match=r"1234 or 1\.234"):
        read_rows(path, coding, coding.domain)
    (tmp_path / "t.csv").write_text(text + 'weiblich,"3,5"\n')
    assert read_numbered(path, coding, coding.domain).numbers("pay").tolist() == [1.234, 2.345, 3.5]
    (tmp_path / "t.csv").write_text(text + "weiblich,3.5\nweiblich,4.5\n")
    assert read_numbered(path, coding, coding.domain).numbers("pay").tolist() == [1234, 2345, 3.5, 4.5]


def test_another_column_tells_the_order_of_day_and_month(tmp_path):
    text = "day,other\n01/02/2020,31/12/2020\n02/01/2020,30/12/2020\n"
    coding = Coding((Attribute("day", Edges((_YEARS[0], 18_270.0, _YEARS[2]), True, 0, dates=True)),))
    path = written(tmp_path, "t.csv", text.encode())
    assert read_numbered(path, coding, coding.domain).numbers("day").tolist() == [18_293.0, 18_263.0]


def test_a_file_that_was_always_read_is_read_by_no_look(tmp_path, monkeypatch):
    rows = Dataset(CODING.domain, np.array(CODES))
    write_rows(rows, CODING, tmp_path / "rows.csv")
    monkeypatch.setattr(client_rows, "form_of", None)
    assert read_rows(tmp_path / "rows.csv", CODING, CODING.domain).digest() == rows.digest()


def test_more_cells_than_are_held_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(client_rows, "MOST_CELLS", 10)
    for name in ("rows.xlsx", "rows.sav"):
        write_rows(Dataset(CODING.domain, np.array(CODES)), CODING, tmp_path / name)
        with pytest.raises(InvalidInputError, match="more than 10 cells"):
            read_rows(tmp_path / name, CODING, CODING.domain)


COMMANDS = ("utility", "fidelity", "verify", "replay")
"""Commands that read files of rows."""


def test_commands_that_read_files_of_rows_read_them_by_one_function():
    """All use ``read_rows`` or ``read_numbered``; no module opens such a file otherwise."""
    folder = Path(inspect.getfile(client_rows)).parents[1]
    users = {
        str(path.relative_to(folder))
        for path in folder.rglob("*.py")
        if re.search(r"\bread_(rows|numbered)\(", path.read_text())
    }
    assert users == {"common/rows.py", "checking/bundle.py", "shell/checking.py"}
    assert {*COMMANDS} <= {*typer.main.get_command(app).commands}
    others = [path for path in folder.rglob("*.py") if "csv.reader" in path.read_text()]
    assert [path.name for path in others] == ["formats.py"]


@pytest.mark.parametrize("form", FORMS)
def test_utility_says_how_it_read_a_file(tmp_path, form):
    rows = tmp_path / "rows.csv"
    write_rows(Dataset(CODING.domain, np.array(CODES * 20)), CODING, rows)
    records = written(tmp_path, "records.csv", FORMS[form])
    schema = tmp_path / "schema.json"
    schema.write_bytes(json_bytes(coding_document(CODING)))
    words = ["utility", str(rows), str(records), "--schema", str(schema)]
    shown = CliRunner().invoke(app, words, env={"COLUMNS": "300"})
    assert shown.exit_code == 0, shown.stderr
    read, plain = (read_numbered(path, CODING, CODING.domain) for path in (records, rows))
    assert shown.stdout.count("Read as: ") == (read.form != plain.form)
    assert shown.stdout.count("Not compared") == (form == "another column with line ends")


def test_the_german_form_in_words(tmp_path):
    path = written(tmp_path, "t.csv", FORMS["semicolons, decimal commas, cp1252"])
    read = read_numbered(path, CODING, CODING.domain)
    expected = "cp1252, semicolons, decimal comma, points between thousands, dates as %d.%m.%Y"
    assert str(read.form) == expected
    assert unread_columns(path, read) == ()


def test_advice_on_workbooks_names_no_option_that_there_is_not(tmp_path):
    path = tmp_path / "two.xlsx"
    with pd.ExcelWriter(path) as book:
        for sheet in "ab":
            pd.DataFrame({"sex": ["weiblich"]}).to_excel(book, sheet_name=sheet, index=False)
    with pytest.raises(InvalidInputError, match="several sheets") as caught:
        read_rows(path, CODING, CODING.domain)
    assert "--sheet" not in str(caught.value)
    pd.DataFrame([["a title", None], ["sex", "pay"], ["weiblich", 1]]).to_excel(
        path, index=False, header=False
    )
    with pytest.raises(InvalidInputError) as caught:
        read_rows(path, CODING, CODING.domain)
    assert "--skip" not in str(caught.value)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_spaces_around_names_of_columns(tmp_path, name):
    """The same schema fits the file plain and packed."""
    coding = Coding((Attribute("a", Labels(("x", "y"))), Attribute("b", Labels(("1", "2")))))
    path = written(tmp_path, name, b"a , b\nx,1\ny,2\n")
    assert codes_of_client(path, coding) == codes_of_controller(path, coding) == [(0, 0), (1, 1)]
