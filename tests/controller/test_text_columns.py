"""Codes stay text: which columns of a file are text, what is drafted of them, and that it is said."""

from datetime import date
from decimal import Decimal
from itertools import combinations

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gencard.client.common.rows import read_rows
from gencard.controller.drafting.folder import drafted_schema_text
from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.schema_file import schema_of_text
from gencard.controller.records.vault import Vault
from gencard.controller.shell.main import app
from gencard.core.coding import Attribute, Coding, Edges, Labels
from gencard.core.errors import InvalidCodingError, UndeclaredLevelError
from gencard.run.session import dataset_of_frame
from gencard.wire.psi import coding_digest, coding_document, coding_of_document

TODAY = date(2026, 11, 20)
RECORDS = 60


def csv_file(folder, values, *, name="a"):
    path = folder / "t.csv"
    lines = [f'"{value}"' for value in (values * RECORDS)[:RECORDS]]
    path.write_text("\n".join([f"{name};b", *(f"{line};x" for line in lines)]) + "\n", encoding="utf-8")
    return path


def drafted(path, name="a"):
    made = draft_schema(path, "t", today=TODAY)
    Vault(path, made.schema.coding, made.schema.readings, made.format).check()
    return next(one for one in made.attributes if one.name == name)


@pytest.mark.parametrize(
    ("values", "labels", "why"),
    [
        (["01067", "1067", "99999"], ("01067", "1067", "99999"), "leading zero"),
        (["001", "002", "003"], ("001", "002", "003"), "leading zero"),
        (["00", "0"], ("0", "00"), "leading zero"),
        (["+049", "49"], ("+049", "49"), "leading zero"),
        (["007", "1.5"], ("007", "1.5"), "leading zero"),
        (["9007199254740992", "9007199254740993"], None, "15 digits"),
        (["12345678901234567", "0.5"], ("0.5", "12345678901234567"), "15 digits"),
        (["1E5", "2E5"], ("1E5", "2E5"), "digits-E-digits"),
        (["1_0", "20"], ("1_0", "20"), "underscore"),
        (["١٢", "12"], ("12", "١٢"), "ASCII"),
    ],
)
def test_codes_are_drafted_as_texts_and_the_rule_is_said(tmp_path, values, labels, why):
    one = drafted(csv_file(tmp_path, values))
    assert one.coding.labels == (labels or tuple(values))
    assert (one.coding.integer, one.coding.ordered, one.coding.by_value) == (False, False, False)
    assert why in one.why
    assert why in one.note


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["1e-05", "0.30000000000000004", "+3.2"], ("1e-05", "0.30000000000000004", "3.2")),
        (["1E5", "0.5"], ("0.5", "100000")),
        (["+49", "33"], ("33", "49")),
        (["-03", "3"], ("-3", "3")),
        (["0", "10"], ("0", "10")),
        (["0.5", "00.5", "1"], ("0.5", "1")),
        (["123456789012345", "5"], ("5", "123456789012345")),
    ],
)
def test_numbers_are_drafted_as_numbers(tmp_path, values, labels):
    one = drafted(csv_file(tmp_path, values))
    assert one.coding.labels == labels
    assert one.coding.by_value
    assert one.why == ""


def test_the_marks_of_the_file_are_those_of_the_rule(tmp_path):
    """A decimal comma is a decimal mark."""
    one = drafted(csv_file(tmp_path, ["1,5", "2E5", "3,25"]))
    assert isinstance(one.coding, Labels)
    assert one.coding.by_value


def test_texts_of_parquet_are_text_and_numbers_are_numbers(tmp_path):
    columns = {
        "a": pa.array(["1", "2", "10"] * 20),
        "large": pa.array([2**53 + 1, 2**53] * 30),
        "whole": pa.array([1, 2, 3] * 20),
        "float": pa.array([1.0, 2.0, None] * 20),
    }
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    assert drafted(path).coding == Labels(("1", "2", "10"), text=True)
    assert "stored as text" in drafted(path).why
    assert drafted(path, "large").coding == Labels((f"{2**53}", f"{2**53 + 1}"), text=True)
    assert "too large" in drafted(path, "large").why
    assert drafted(path, "whole").coding == Labels(("1", "2", "3"), integer=True, ordered=True)
    assert drafted(path, "float").coding == Labels(("1", "2"), integer=True, ordered=True, missing=True)


def test_many_codes_are_left_out_and_the_rule_is_said(tmp_path):
    made = draft_schema(csv_file(tmp_path, [f"{code:05}" for code in range(59)]), "t", today=TODAY)
    (one,) = made.left_out
    assert "leading zero" in one.note


@pytest.mark.parametrize("last", ["21991231", "20190231", "22000101"])
def test_whole_numbers_are_dates_if_all_are_valid_ones(tmp_path, last):
    valid = last == "21991231"
    one = drafted(csv_file(tmp_path, ["18000101", "20200229", last]))
    assert (isinstance(one.coding, Edges) and one.coding.dates) is valid
    assert ("YYYYMMDD" in one.note) is valid
    path = tmp_path / "t.parquet"
    days = pa.array([18000101.0, 20200229.0, float(last), None] * 20)
    pq.write_table(pa.table({"a": days}), path)
    assert (isinstance(drafted(path).coding, Edges) and drafted(path).coding.dates) is valid


class TestSchema:
    TEXT = Attribute("a", Labels(("01", "1"), text=True))

    def test_the_flag_is_in_file_and_document_and_absent_where_it_is_not_set(self, tmp_path):
        text = drafted_schema_text(draft_schema(csv_file(tmp_path, ["01", "1"]), "t", today=TODAY))
        assert "\ntext = true\n" in text
        assert schema_of_text(text, "t").coding.attribute("a").coding == self.TEXT.coding
        coding, plain = Coding((self.TEXT,)), Coding((Attribute("a", Labels(("01", "1"))),))
        assert coding_of_document(coding_document(coding)) == coding
        assert coding_digest(coding) != coding_digest(plain)
        assert "text" not in coding_document(plain)["attributes"][0]

    @pytest.mark.parametrize("flag", ["integer", "boolean"])
    def test_texts_are_neither_whole_numbers_nor_truth_values(self, flag):
        labels = ("false", "true") if flag == "boolean" else ("1", "2")
        with pytest.raises(InvalidCodingError, match="text excludes"):
            Attribute("a", Labels(labels, text=True, **{flag: True}))


class TestReader:
    """Files of rows are read by the same rules."""

    @pytest.mark.parametrize(
        ("labels", "cells", "codes"),
        [
            (Labels(("1", "2"), integer=True), ["1.0", "2", "01"], (0, 1, 0)),
            (Labels(("1", "2.5")), ["1.0", "2.50", "1e0"], (0, 1, 0)),
            (Labels(("1", "N")), ["1.0", "N", "1"], (0, 1, 0)),
            (Labels(("1", "N")), ["01"], None),
            (Labels(("01", "1"), text=True), ["01", "1"], (0, 1)),
            (Labels(("01", "1"), text=True), ["1.0"], None),
            (Labels(("10", "20")), ["1_0"], None),
            (Labels(("12", "13")), ["١٢"], None),
            (Labels((f"{2**53}", "1")), [f"{2**53 + 1}"], None),
        ],
    )
    @pytest.mark.parametrize("kind", ["csv", "parquet", "frame"])
    def test_texts(self, tmp_path, labels, cells, codes, kind):
        coding = Coding((Attribute("a", labels),))
        frame = pd.DataFrame({"a": pd.Series(cells, dtype=object)})

        def read():
            if kind == "frame":
                return dataset_of_frame(frame, coding, coding.domain)
            path = tmp_path / f"t.{kind}"
            frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
            return read_rows(path, coding, coding.domain)

        if codes is None:
            with pytest.raises(UndeclaredLevelError):
                read()
        else:
            assert tuple(read().codes[:, 0].tolist()) == codes

    @pytest.mark.parametrize(
        ("edges", "cells", "codes"),
        [
            (Edges((0.0, 5.0, 2000.0), missing=True), ["1e3", " .5", "NaN", "", "+7"], [1, 0, 2, 2, 1]),
            (Edges((0.0, 5000.0)), ["1_000"], None),
            (Edges((0.0, 5000.0)), ["١٢"], None),
            (Edges((0.0, 5000.0)), ["0x1A"], None),
            (Edges((0.0, 20000.0), decimals=0, dates=True), ["20190305", "2019-03-05"], [0, 0]),
            (Edges((0.0, 20000.0), decimals=0, dates=True), ["2019-W10-2"], None),
            (Edges((-90000.0, 20000.0), decimals=0, dates=True), ["17991231"], None),
        ],
    )
    def test_numbers_and_dates(self, tmp_path, edges, cells, codes):
        coding = Coding((Attribute("a", edges), Attribute("b", Labels(("x",)))))
        path = tmp_path / "t.csv"
        path.write_text("a,b\n" + "".join(f"{cell},x\n" for cell in cells), encoding="utf-8")
        records = Vault(path, coding)
        if codes is None:
            for read in (records.check, lambda: read_rows(path, coding, coding.domain)):
                with pytest.raises(UndeclaredLevelError):
                    read()
        else:
            assert read_rows(path, coding, coding.domain).codes[:, 0].tolist() == codes
            assert records.dataset(("a",), most_records=9).codes[:, 0].tolist() == codes

    @pytest.mark.parametrize(
        "labels",
        [
            Labels(("1", "2"), text=True),
            Labels(("1", "2", "N")),
            Labels(("01", "2e0")),
            Labels(("1.0", "2"), text=True),
        ],
    )
    def test_stored_numbers(self, tmp_path, labels):
        coding = Coding((Attribute("a", Labels(labels.labels, missing=True, text=labels.text)),))
        frame = pd.DataFrame({"a": [1.0, 2.0, None]})
        frame.to_parquet(tmp_path / "t.parquet")
        read = read_rows(tmp_path / "t.parquet", coding, coding.domain)
        absent = len(labels.labels)
        assert read.codes[:, 0].tolist() == [0, 1, absent]
        assert dataset_of_frame(frame, coding, coding.domain).codes[:, 0].tolist() == [0, 1, absent]


class TestShell:
    """`init` says the rule; `check` says that labels of before are compared as numbers."""

    def run(self, *words):
        done = CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return " ".join(done.output.split())

    def test_init_and_check(self, tmp_path):
        path = csv_file(tmp_path, ["01", "02"])
        said = self.run("init", str(tmp_path / "c"), "--data", str(path))
        assert "2 labels, because a value has a leading zero" in said
        config = ("--config", str(tmp_path / "c" / "controller.toml"))
        assert "compared as numbers" not in self.run("check", *config)
        self.run("schema", "set", "a", "--not-text", *config)
        assert "60 are texts that are compared as numbers" in self.run("check", *config)
        self.run("schema", "set", "a", "--text", *config)
        assert "compared as numbers" not in self.run("check", *config)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.text("019+-._eE١", min_size=1, max_size=18), min_size=1, max_size=4, unique=True)
)
def test_a_draft_can_be_measured_and_two_codes_are_never_one(tmp_path, values):
    """Only numbers share a level with another text, and only with the same number."""
    path = csv_file(tmp_path, values)
    made = draft_schema(path, "t", today=TODAY)
    vault = Vault(path, made.schema.coding, made.schema.readings, made.format)
    vault.check()
    if "a" not in made.schema.coding.domain or not isinstance(
        coding := made.schema.coding.attribute("a").coding, Labels
    ):
        return
    codes = dict(zip(values, vault.dataset(("a",), most_records=99).codes[:, 0].tolist(), strict=False))
    for one, other in combinations(values, 2):
        if codes[one] == codes[other] < len(coding.labels):
            assert coding.by_value
            assert Decimal(one) == Decimal(other)
