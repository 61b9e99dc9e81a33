"""Code lists of files, and the comments of drafts that an edit makes wrong."""

import os
import tomllib

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.units import CodeList, codes_in
from gencard.controller.records.schema_file import read_schema
from gencard.controller.shell.main import app
from gencard.core.domain import LARGEST_SIZE
from gencard.core.errors import GencardError, InvalidInputError


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("a.txt", "01\n02\n01\n", "line 3 has the code of line 1 again"),
        ("a.txt", "01\n\n02\n", "line 2 has no code"),
        ("a.txt", "01\n 02\n", "line 2 has spaces around its code"),
        ("a.txt", "", "has no codes"),
        ("a.txt", f"{'x' * 201}\n", "line 1 has a code of more than 200"),
        ("a.txt", "a\nb\x00\n", "line 2 has control characters"),
        ("a.csv", "01\n02\n", "line 1 is no header: .*such as code,label"),
        ("a.csv", "AG\nZH\n", "line 1 is no header"),
        ("a.csv", "AG;Aargau\nZH;Zurich\n", "line 1 is no header"),
        ("a.tsv", "\ncode\nAG\n", "line 1 is no header"),
        ("a.csv", "", "line 1 is no header"),
        ("a.csv", "code,name\n01,\n02,B\n01,C\n", "line 4 has the code of line 2 again"),
        ("a.csv", 'code,name\n01,"A\nA"\n', "line 2 has control characters"),
        ("a.csv", "code,name\n01\n", "line 2 has 1 cells, the header has 2"),
        ("a.csv", "code,name,more\n01,A,B\n", "line 1 has more than two columns"),
        ("a.csv", "code,name\n,A\n", "line 2 has no code"),
        ("a.csv", 'code,name\n01,"A', "line 2 is not valid CSV"),
        ("a.xlsx", "", "must be a .txt"),
        ("a.txt", "\n".join(map(str, range(LARGEST_SIZE + 1))), f"at most {LARGEST_SIZE:,} labels"),
    ],
)
def test_a_list_that_is_not_clear_is_refused_with_its_line(tmp_path, name, text, problem):
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError, match=problem):
        codes_in(tmp_path / name, "canton")


@pytest.mark.parametrize("head", ["code", "Code", " VALUE ", "canton", "Canton"])
def test_the_line_that_is_the_header_is_known(tmp_path, head):
    (tmp_path / "a.csv").write_text(f"{head},name\nAG,Aargau\nZH,Zurich\n")
    listed = codes_in(tmp_path / "a.csv", "canton")
    assert listed == CodeList(("AG", "ZH"), ("Aargau", "Zurich"), head.strip())


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.txt").write_bytes("ä".encode("latin-1"))
    os.mkfifo(tmp_path / "b.txt")
    for name in ("a.txt", "b.txt", "c.txt"):
        with pytest.raises(InvalidInputError):
            codes_in(tmp_path / name, "canton")


@pytest.fixture
def house(tmp_path):
    rng = np.random.default_rng(1)
    codes = [f"{code:05}" for code in range(1_000, 1_400)]
    frame = pd.DataFrame(
        {
            "city": rng.choice(codes, 4_000),
            "sex": rng.choice(["f", "m"], 4_000),
            "mood": rng.choice(["low", "medium", "high"], 4_000),
            "born": rng.choice(pd.date_range("1950-01-01", "2000-01-01").astype(str), 4_000),
            "seen": rng.choice(pd.date_range("2010-01-01", "2012-01-01").astype(str), 4_000),
            "pay": rng.lognormal(7, 1, 4_000),
            "hours": rng.integers(0, 60, 4_000),
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    words = ["init", str(tmp_path / "house"), "--data", str(tmp_path / "people.csv")]
    assert CliRunner().invoke(app, words).exit_code == 0
    return tmp_path / "house"


def edited(house, *words):
    settings = ["--config", str(house / "controller.toml")]
    result = CliRunner().invoke(app, ["schema", "set", *map(str, words), *settings])
    assert not isinstance(result.exception, GencardError), result.exception
    assert result.exit_code == 0, result.output
    return result.output


def section(house, name):
    """The table of an attribute in the schema's text, with its comment."""
    parts = (house / "schema.toml").read_text().split("[[attributes]]")
    (part,) = [part for part in parts if f'name = "{name}"\n' in part]
    return part


@pytest.mark.parametrize("form", [".txt", ".csv", ".tsv"])
def test_hundreds_of_codes_come_from_a_file(house, tmp_path, form):
    codes = [f"{code:05}" for code in range(1_399, 999, -1)]
    lines = codes if form == ".txt" else ["code", *codes]
    if form == ".csv":
        lines = [f"{code};Town of {code}" for code in lines]
    elif form == ".tsv":
        lines = [f"{code}\tTown, {code}" for code in lines]
    path = tmp_path / f"codes{form}"
    path.write_text("\n".join(lines), encoding="utf-8-sig")
    before = (house / "schema.toml").read_text()
    assert "# Left out: 'city': " in before
    said = edited(house, "city", "--new", "--labels-from", path)
    assert ("is the header; 400 codes follow" in said) is (form != ".txt")
    assert "# Left out: 'city'" not in (house / "schema.toml").read_text()
    labels = read_schema(house / "schema.toml").coding.attribute("city").coding
    assert labels.labels == tuple(codes)
    assert labels.text
    if form != ".txt":
        edited(house, "city", "--add-label", "99999")
        mark = "of" if form == ".csv" else ""
        assert f'"01399",  # Town {mark}'.strip() in section(house, "city")
        assert read_schema(house / "schema.toml").coding.attribute("city").coding.labels[-1] == "99999"
    result = CliRunner().invoke(app, ["check", "--config", str(house / "controller.toml")])
    assert result.exit_code == 0, result.output


def test_numbers_stay_numbers_and_other_options_of_levels_are_refused(house, tmp_path):
    path = tmp_path / "codes.txt"
    path.write_text("\n".join(map(str, range(60))))
    edited(house, "hours", "--labels-from", path, "--integer")
    coding = read_schema(house / "schema.toml").coding.attribute("hours").coding
    assert (len(coding.labels), coding.integer, coding.text) == (60, True, False)
    for words in (["--labels", "a,b"], ["--edges", "0,10"]):
        given = ["schema", "set", "hours", "--labels-from", str(path), *words]
        result = CliRunner().invoke(app, [*given, "--config", str(house / "controller.toml")])
        assert "goes without --labels and --edges" in str(result.exception)


LEVELS = "State a public last edge"


@pytest.mark.parametrize(
    ("name", "words", "gone", "left"),
    [
        ("hours", ["--edges", "0,20,60"], ["drafted from", LEVELS], ""),
        ("hours", ["--labels", "1,2"], ["drafted from", LEVELS], ""),
        ("hours", ["--above"], [LEVELS], "Edges drafted from the records, then changed by a steward."),
        ("hours", ["--description", "Weekly"], ["changed"], f"Edges drafted from the records. {LEVELS}"),
        ("hours", ["--fine", "10"], [], "Edges drafted from the records, then changed by a steward."),
        ("pay", ["--step", "0.01"], ["are rounded"], "then changed by a steward"),
        ("pay", ["--missing"], [], "Values are rounded to multiples of"),
        ("sex", ["--add-label", "x"], [], "Labels drafted from the records, then changed by a steward."),
        ("sex", ["--other", "x"], [], "Labels drafted from the records, then changed by a steward."),
        ("sex", ["--labels", "m,f"], ["drafted"], ""),
        ("mood", ["--not-ordered"], ["recognised"], "Labels drafted from the records, then changed"),
        ("born", ["--edges", "1950-01-01,2001-01-01"], ["drafted"], ""),
        ("seen", ["--edges", "2010-01-01,2013-01-01"], ["Periods drafted"], ""),
        ("seen", ["--age-at", "2020-01-01", "--edges", "0,9,20"], ["Periods drafted"], ""),
    ],
)
def test_a_comment_says_nothing_that_an_edit_has_made_wrong(house, name, words, gone, left):
    before = section(house, name)
    edited(house, name, *words)
    after = section(house, name)
    comment = after.partition("\n")[0]
    assert before.partition("\n")[0] != comment or "--description" in words or "born" in name
    assert left in comment
    assert not [sentence for sentence in gone if sentence in comment], comment
    assert "#" not in comment or left
    edited(house, name, "--description", "Again")
    edited(house, name, "--missing")
    assert section(house, name).count("then changed") <= 1
    tomllib.loads((house / "schema.toml").read_text())
