"""The vault: exact codes from files, typed errors, and no word of a record in any of them."""

import ast
import gc
import hmac
import os
import stat
import subprocess
import sys
import weakref
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencard.controller.jobs import process
from gencard.controller.records.encoding import how_read
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.vault import OpenRecords, Vault, check_detected, silently
from gencard.core.coding import Attribute, Coding, Edges, Labels, Reading, StructuralZeros
from gencard.core.errors import (
    DatasetChangedError,
    DatasetError,
    DatasetUnavailableError,
    EmptyDatasetError,
    GencardError,
    InvalidInputError,
    MissingAttributeError,
    TooLargeError,
    UndeclaredLevelError,
)
from gencard.core.statistics.marginals import count_all
from gencard.core.statistics.measure import measure
from tests.shared_data import shared_file

CANARY = "CANARY-Ann-Smith-HIV"
SEX = Attribute("sex", Labels(("f", "m"), missing=True))
EDUCATION = Attribute("education", Labels(("9", "12", "16.5"), ordered=True))
AGE = Attribute("age", Edges((0.0, 18.0, 65.0, 120.0), missing=True))
CODING = Coding((SEX, EDUCATION, AGE))
FRAME = pd.DataFrame(
    {
        "age": [17.5, 18, 120, None],
        "sex": ["f", "m", None, "f"],
        "education": [9.0, 16.5, 12.0, 9.0],
        "ignored": ["x", "y", "z", CANARY],
    }
)
CODES = [[0, 0, 0], [1, 2, 1], [2, 1, 2], [0, 0, 3]]
KINDS = ("csv", "parquet")


def repeated(times):
    return FRAME.take(np.tile(np.arange(len(FRAME)), times))


def stored(frame: pd.DataFrame, folder: Path, kind: str) -> Path:
    path = folder / f"records.{kind}"
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    return path


def refusal(action) -> GencardError:
    """The error, seen to say nothing of any record, neither itself nor by its cause."""
    with pytest.raises(GencardError) as caught:
        action()
    error = caught.value
    assert CANARY not in f"{error} {error.fields}"
    assert error.__context__ is None
    assert error.__cause__ is None
    return error


@pytest.fixture(params=KINDS)
def path(request, tmp_path) -> Path:
    return stored(FRAME, tmp_path, request.param)


class TestReading:
    def test_values_become_their_codes(self, path):
        dataset = Vault(path, CODING).dataset(CODING.domain.attributes, most_records=4)
        assert dataset.domain == CODING.domain
        assert dataset.codes.tolist() == CODES

    def test_attributes_come_in_the_order_asked_for(self, path):
        dataset = Vault(path, CODING).dataset(("age", "sex"), most_records=4)
        assert dataset.codes.tolist() == [[row[2], row[0]] for row in CODES]

    def test_counting_is_counting_the_codes(self, path):
        vault = Vault(path, CODING)
        cliques = [("sex", "age"), ("age", "sex"), ("education",)]
        dataset = vault.dataset(CODING.domain.attributes, most_records=4)
        for table, other in zip(vault.count(cliques), count_all(dataset, cliques), strict=True):
            np.testing.assert_array_equal(table, other)

    def test_only_what_is_asked_for_must_be_declared(self, path):
        coding = Coding((Attribute("sex", Labels(("f",))), EDUCATION, AGE))
        assert [int(table.sum()) for table in Vault(path, coding).count([("age", "education")])] == [4]
        error = refusal(lambda: Vault(path, coding).count([("sex",)]))
        assert isinstance(error, UndeclaredLevelError)
        assert error.fields == {"attribute": "sex"}

    @pytest.mark.parametrize("kind", KINDS)
    def test_declared_values_may_stand_for_missing(self, tmp_path, kind):
        frame = pd.DataFrame({"age": [-8, 17, 30], "sex": ["f", "unknown", "m"]})
        readings = {"age": Reading(("-8", "n/a")), "sex": Reading(("unknown",))}
        vault = Vault(stored(frame, tmp_path, kind), Coding((SEX, AGE)), readings)
        dataset = vault.dataset(("sex", "age"), most_records=9)
        assert dataset.codes.tolist() == [[0, 3], [2, 0], [1, 1]]

    def test_one_number_has_one_code_however_it_is_written(self, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text("education\n9\n9.0\n1.65e1\n 12 \n")
        dataset = Vault(path, Coding((EDUCATION,))).dataset(("education",), most_records=9)
        assert dataset.codes.ravel().tolist() == [0, 0, 2, 1]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("numbers", [[1, 2, 30, 7], [1, 2, 30, None, 7], [-1, 0, 1.5, 7]])
    def test_labels_beside_other_are_found_in_a_column_of_floats(self, tmp_path, kind, numbers):
        """The floats are whole numbers with gaps, as in pandas; its ``value_counts`` is the referee."""
        frame = pd.DataFrame({"x": np.repeat(np.array(numbers, float), range(1, len(numbers) + 1))})
        labels = tuple(f"{number:g}" for number in numbers[:3])
        coding = Coding((Attribute("x", Labels((*labels, "other"), missing=True)),))
        vault = Vault(stored(frame, tmp_path, kind), coding, {"x": Reading(other="other")})
        counts = frame.x.value_counts()
        expected = [*(counts[number] for number in numbers[:3]), counts[7], frame.x.isna().sum()]
        assert vault.count([("x",)])[0].tolist() == expected

    @pytest.mark.parametrize("zone", ["America/New_York", "UTC", "Asia/Tokyo"])
    def test_days_of_times_with_a_zone_are_those_of_utc_on_every_host(self, tmp_path, zone):
        """Read in a process of its own, whose host is elsewhere."""
        times = pd.to_datetime(["2020-01-01 23:30"] * 20 + ["2020-01-02 00:30"] * 20).tz_localize("UTC")
        path = stored(pd.DataFrame({"t": times}), tmp_path, "parquet")
        program = (
            "from pathlib import Path\n"
            "from gencard.controller.records.vault import OpenRecords\n"
            f"with OpenRecords(Path({str(path)!r})) as records:\n"
            "    day = records.columns[0].calendar_date\n"
            "    print(records.rows(f'SELECT CAST({day} AS VARCHAR), count(*) FROM records GROUP BY 1'))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"TZ": zone},
            capture_output=True,
            check=True,
        )
        expected = times.strftime("%Y-%m-%d").value_counts().to_dict()
        assert dict(ast.literal_eval(done.stdout.decode())) == expected

    def test_the_last_moment_of_a_day_is_in_it(self, tmp_path):
        texts = ["2019-12-31 23:59:59.999999999", "2020-01-01 00:00:00", "1969-12-31 23:59:59.9999995"]
        frame = pd.DataFrame({"t": pd.to_datetime(texts, format="ISO8601").as_unit("ns")})
        with OpenRecords(stored(frame, tmp_path, "parquet")) as records:
            (column,) = records.columns
            days = records.rows(f"SELECT CAST({column.calendar_date} AS VARCHAR) FROM records")
        assert column.kind == "TIMESTAMP_NS"
        assert [day for (day,) in days] == [text[:10] for text in texts]

    def test_a_float_of_half_the_digits_is_the_number_that_it_prints(self, tmp_path):
        numbers = np.array([0.1, 0.7, 1.3, 16_777_217, 1e-30], dtype=np.float32)
        coding = Coding((Attribute("x", Edges((0.0, 0.7, 1.3, 1e9))),))
        path = stored(pd.DataFrame({"x": numbers}), tmp_path, "parquet")
        codes = Vault(path, coding).dataset(("x",), most_records=9).codes.ravel()
        assert codes.tolist() == [0, 1, 2, 2, 0]

    @pytest.mark.parametrize(
        "values", [[9007199254740993, 9007199254740992], ["007", "7"], ["1e3", "1000"]]
    )
    def test_codes_that_are_one_number_stay_apart(self, tmp_path, values):
        frame = pd.DataFrame({"x": values})
        coding = Coding((Attribute("x", Labels((str(values[0]), "other"))),))
        for kind in KINDS:
            vault = Vault(stored(frame, tmp_path, kind), coding, {"x": Reading(other="other")})
            assert vault.count([("x",)])[0].tolist() == [1, 1]

    @pytest.mark.parametrize("labels", [("001", "099", "x"), ("001", "099")])
    def test_a_declared_label_is_not_missing_where_a_mark_is_the_same_number(self, tmp_path, labels):
        path = tmp_path / "records.csv"
        path.write_text("x\n001\n099\n99\n099\n\n99.0\n")
        coding = Coding((Attribute("x", Labels(labels, missing=True)),))
        vault = Vault(path, coding, {"x": Reading(("99",))})
        codes = vault.dataset(("x",), most_records=9).codes.ravel().tolist()
        absent = len(labels)
        assert codes == [0, 1, absent, 1, absent, absent]

    @pytest.mark.parametrize("text", ["1_2", "+-9", "0x9", "9 0", "٩"])
    def test_what_programs_do_not_write_is_no_number(self, tmp_path, text):
        path = tmp_path / "records.csv"
        path.write_text(f"education\n9\n{text}\n")
        error = refusal(lambda: Vault(path, Coding((EDUCATION,))).count([("education",)]))
        assert isinstance(error, UndeclaredLevelError)

    def test_labels_that_differ_as_text_alone_stay_text(self, tmp_path):
        coding = Coding((Attribute("area", Labels(("1", "01", "1.0"))),))
        path = tmp_path / "records.csv"
        path.write_text("area\n01\n1.0\n1\n")
        assert Vault(path, coding).dataset(("area",), most_records=9).codes.ravel().tolist() == [1, 2, 0]

    def test_truth_values_and_dates_are_read_as_text(self, tmp_path):
        frame = pd.DataFrame({"yes": [True, False], "day": pd.to_datetime(["2026-01-02", "2026-01-03"])})
        frame["day"] = frame["day"].dt.date
        coding = Coding(
            (
                Attribute("yes", Labels(("false", "true"))),
                Attribute("day", Labels(("2026-01-03", "2026-01-02"))),
            )
        )
        dataset = Vault(stored(frame, tmp_path, "parquet"), coding).dataset(
            ("yes", "day"), most_records=2
        )
        assert dataset.codes.tolist() == [[1, 1], [0, 0]]

    def test_names_and_labels_may_hold_any_character(self, tmp_path):
        name, label = 'a"; DROP TABLE records; --', "it's; \"quoted\" 'twice'\\"
        coding = Coding((Attribute(name, Labels(("x", label))),))
        for kind in KINDS:
            path = stored(pd.DataFrame({name: [label, "x", label]}), tmp_path, kind)
            (table,) = Vault(path, coding).count([(name,)])
            assert table.tolist() == [1, 2]

    def test_the_census_is_counted_as_pandas_counts_it(self):
        path = shared_file("ons2011_first50k.parquet")
        frame = pd.read_parquet(path).drop(columns="Person ID", errors="ignore").iloc[:, :6].astype(str)
        labels = {name: tuple(sorted(frame[name].unique())) for name in frame}
        coding = Coding(tuple(Attribute(name, Labels(labels[name])) for name in frame))
        cliques = list(combinations(coding.domain.attributes, 2))
        for clique, table in zip(cliques, Vault(path, coding).count(cliques), strict=True):
            one, two = (pd.Categorical(frame[name], labels[name]) for name in clique)
            np.testing.assert_array_equal(table, pd.crosstab(one, two, dropna=False))


@settings(max_examples=30)
@given(st.data())
def test_codes_agree_with_a_search_by_hand(tmp_path_factory, data):
    labels = data.draw(st.lists(st.text("ab1. ", min_size=1), min_size=1, max_size=5, unique=True))
    values = data.draw(st.lists(st.sampled_from([*labels, None]), min_size=1, max_size=20))
    edges = sorted(data.draw(st.lists(st.integers(-9, 9), min_size=2, max_size=5, unique=True)))
    numbers = data.draw(
        st.lists(st.none() | st.floats(edges[0], edges[-1]), min_size=len(values), max_size=len(values))
    )
    path = tmp_path_factory.mktemp("vault") / "records.parquet"
    pd.DataFrame(
        {"x": pd.Series(values, dtype=object), "y": pd.Series(numbers, dtype=float)}
    ).to_parquet(path)
    coding = Coding(
        (
            Attribute("x", Labels(tuple(labels), missing=True)),
            Attribute("y", Edges(tuple(map(float, edges)), missing=True)),
        )
    )
    codes = Vault(path, coding).dataset(("x", "y"), most_records=20).codes
    for (x, y), value, number in zip(codes.tolist(), values, numbers, strict=True):
        assert coding.attribute("x").coding.level_names[x] == ("missing" if value is None else value)
        if number is None:
            assert y == len(edges) - 1
        else:
            assert edges[y] <= number
            assert number < edges[y + 1] or (number == edges[-1] and y == len(edges) - 2)


class TestRefusals:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("column", "value"),
        [
            ("sex", CANARY),
            ("sex", "F"),
            ("education", ""),
            ("education", "13"),
            ("education", CANARY),
            ("education", None),
            ("education", "inf"),
            ("age", CANARY),
            ("age", "121"),
            ("age", "-0.5"),
            ("age", "-inf"),
        ],
    )
    def test_an_undeclared_value_is_refused_by_attribute(self, tmp_path, kind, column, value):
        frame = FRAME.astype(object)
        frame.loc[2, column] = value
        frame[column] = frame[column].map(lambda one: None if pd.isna(one) else str(one))
        vault = Vault(stored(frame, tmp_path, kind), CODING)
        for action in (vault.check, lambda: vault.dataset((column,), most_records=9)):
            error = refusal(action)
            assert isinstance(error, UndeclaredLevelError)
            assert error.fields == {"attribute": column}

    def test_what_is_said_to_be_impossible_and_occurs_is_found(self, path):
        zeros = (StructuralZeros(("age", "sex"), ((2, 0), (0, 1))),)
        Vault(path, Coding(CODING.attributes, zeros)).check()
        zeros += (StructuralZeros(("age", "sex"), ((3, 0),)),)
        error = refusal(Vault(path, Coding(CODING.attributes, zeros)).check)
        assert error.fields == {"attribute": "age, sex"}

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_file_without_records_is_refused(self, tmp_path, kind):
        vault = Vault(stored(FRAME.iloc[:0], tmp_path, kind), CODING)
        for action in (vault.check, lambda: vault.count([("sex",)])):
            assert isinstance(refusal(action), EmptyDatasetError)
        assert isinstance(refusal(lambda: vault.dataset(("sex",), most_records=9)), EmptyDatasetError)

    @pytest.mark.parametrize("kind", KINDS)
    def test_an_empty_file_is_refused(self, tmp_path, kind):
        (tmp_path / f"records.{kind}").touch()
        assert isinstance(refusal(Vault(tmp_path / f"records.{kind}", CODING).check), EmptyDatasetError)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_missing_attribute_is_named(self, tmp_path, kind):
        frame = FRAME.rename(columns={"sex": "Sex"})
        error = refusal(Vault(stored(frame, tmp_path, kind), CODING).check)
        assert isinstance(error, MissingAttributeError)
        assert error.fields == {"attribute": "sex"}

    def test_garbage_is_unavailable(self, tmp_path):
        path = tmp_path / "records.parquet"
        path.write_bytes(b"PAR1" + CANARY.encode() * 99 + b"PAR1")
        assert type(refusal(Vault(path, CODING).check)) is DatasetUnavailableError

    def test_a_parquet_file_garbled_inside_is_unavailable(self, tmp_path):
        frame = repeated(5_000)
        path = stored(frame, tmp_path, "parquet")
        content = bytearray(path.read_bytes())
        # the same bytes in each run: a length that is read from other ones may ask for all memory
        content[8:2_000] = np.random.default_rng(0).bytes(1_992)
        path.write_bytes(content)
        assert isinstance(refusal(Vault(path, CODING).check), DatasetError)

    @pytest.mark.parametrize("line", [f'"{CANARY}', f"f,{CANARY},1,2,3,4,5,6", "\xff\xfe"])
    def test_a_garbled_csv_file_is_refused(self, tmp_path, line):
        path = tmp_path / "records.csv"
        path.write_bytes(b"sex,education,age\n" + b"f,9,1\n" * 5_000 + line.encode("latin-1") + b"\n")
        assert isinstance(refusal(Vault(path, CODING).check), DatasetError)

    @pytest.mark.parametrize("name", ["absent.csv", "absent.parquet"])
    def test_a_missing_file_is_unavailable(self, tmp_path, name):
        vault = Vault(tmp_path / name, CODING)
        for action in (vault.check, lambda: vault.version(b"salt")):
            assert type(refusal(action)) is DatasetUnavailableError

    @pytest.mark.parametrize("name", ["records.json", "records", "*.csv", "a?.csv", "[ab].parquet"])
    def test_a_path_that_means_something_else_is_refused(self, tmp_path, name):
        stored(FRAME, tmp_path, "csv")
        assert type(refusal(Vault(tmp_path / name, CODING).check)) is InvalidInputError

    def test_more_records_than_memory_may_hold_are_refused(self, path):
        error = refusal(lambda: Vault(path, CODING).dataset(("sex",), most_records=3))
        assert isinstance(error, TooLargeError)

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_file_that_vanishes_meanwhile_is_seen_afterwards(self, tmp_path, kind):
        path = stored(repeated(40_000), tmp_path, kind)
        vault = Vault(path, CODING)
        version = vault.version(b"salt")
        batches = vault._batches(("sex",))
        next(batches)
        path.unlink()
        refusal(lambda: (list(batches), vault.confirm(version, b"salt")))

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_file_cut_short_meanwhile_is_seen_afterwards(self, tmp_path, kind):
        path = stored(repeated(40_000), tmp_path, kind)
        vault = Vault(path, CODING)
        version = vault.version(b"salt")
        batches = vault._batches(("sex",))
        next(batches)
        os.truncate(path, path.stat().st_size // 2)
        error = refusal(lambda: (list(batches), vault.confirm(version, b"salt")))
        assert isinstance(error, DatasetError)


class TestFormat:
    @pytest.mark.parametrize("marks", [{"skip": 2}, {"quote": "'"}, {"quote": ""}])
    def test_what_would_be_ignored_is_refused(self, marks):
        for encoding in ("utf-8", "utf-8-sig", "UTF8"):
            with pytest.raises(InvalidInputError, match=r"format\.delimiter.*required"):
                FileFormat(encoding=encoding, **marks)
        assert FileFormat(delimiter=",", **marks).delimiter == ","
        assert FileFormat(encoding="cp1252", **marks).delimiter == ""


TEXTS = {
    "commas": "a,b\n1,x\n2,y\n",
    "semicolons": "a;b\r\n1,5;x\r\n2,5;y\r\n",
    "tabs": "a\tb\n1\t\n\ty",
    "one column": "a\n1\n2\n",
    "quoted": 'a,"b ""c"""\n"1,5","x\ny"\n2,"it\'s ""so"""\n',
    "comments": "# of the office\n# 2026\na,b\n1,x\n2,y\n",
    "lines before": "by the office\n\na,b,c\n1,x,2\n2,y,3\n",
    "mark of order": "\ufeffa,b\n1,x\n",
    "names in need of a quote": "o'k,a,a,\n1,2,3,4\n5,6,7,8\n",
    "nothing but a header": "a,b\n",
    "lines of two lengths": "a,b\n1,x\n2,y,3\n",
    "no lines": "\n",
}
FIRST_LINES_OF_THEIR_OWN = {"comments", "lines before"}
"""Lines before the header, which the engine by itself leaves out."""
UNREADABLE = {"lines of two lengths", "no lines"}


def read(path, file_format):
    try:
        with OpenRecords(path, file_format) as records:
            return records.rows("DESCRIBE records"), records.rows("SELECT * FROM records")
    except GencardError as error:
        return error.reason


def by_itself(path, options):
    """Return the engine's reading of a file with detected marks, as far as marks are not stated."""
    table = f"read_csv('{path}', all_varchar = true, header = true, comment = ''{options})"
    try:
        with duckdb.connect() as engine:
            rows = engine.execute(f"SELECT * FROM {table}").fetchall()
            return engine.execute(f"DESCRIBE SELECT * FROM {table}").fetchall(), rows
    except duckdb.Error:
        return "DATASET_UNAVAILABLE"


class TestMarks:
    """The engine detects no property of a CSV file when its records are counted."""

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
    def test_names_and_values_are_those_of_the_engine(self, text, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text(text, newline="")
        stated = FileFormat(delimiter=",", skip=1)
        options = ", delim = ',', quote = '\"', escape = '\"', skip = 1"
        ours, theirs = read(path, stated), by_itself(path, options)
        if "\n\n" not in text:  # after which the engine reads the header as a record, too
            assert ours == theirs or isinstance(ours, str)

    @pytest.mark.parametrize("name", [name for name in TEXTS if name not in FIRST_LINES_OF_THEIR_OWN])
    def test_a_delimiter_that_is_not_stated_is_that_of_the_first_lines(self, name, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text(TEXTS[name], newline="")
        ours, theirs = read(path, FileFormat()), by_itself(path, "")
        assert ours == theirs or isinstance(ours, str)
        assert isinstance(ours, str) == (name in UNREADABLE)

    @pytest.mark.parametrize("name", sorted(FIRST_LINES_OF_THEIR_OWN))
    def test_where_the_engine_would_count_otherwise_the_format_must_be_stated(self, name, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text(TEXTS[name], newline="")
        with suppress(DatasetUnavailableError), pytest.raises(InvalidInputError, match="not stated"):
            check_detected(path, FileFormat())

    @pytest.mark.parametrize(
        ("text", "marks", "rows"),
        [
            ("a;b\n1;'x;y'\n", {"delimiter": ";", "quote": "'"}, [("1", "x;y")]),
            ('a,b\n1,"x\\"y"\n', {"delimiter": ",", "escape": "\\"}, [("1", 'x"y')]),
            ("# of 2026\na,b\n# more\n1,x\n", {"delimiter": ",", "comment": "#"}, [("1", "x")]),
            ("by us\nsince 1990\na,b\n1,x\n", {"delimiter": ",", "skip": 2}, [("1", "x")]),
            ("1,x\n2,y\n", {"delimiter": ",", "header": False}, [("1", "x"), ("2", "y")]),
            ('a,b\n1,"x\n', {"delimiter": ",", "quote": ""}, [("1", '"x')]),
        ],
    )
    @pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
    def test_marks_that_are_stated_are_used(self, text, marks, rows, encoding, tmp_path):
        path = tmp_path / "records.csv"
        path.write_text(text, newline="", encoding=encoding)
        if "comment" in marks and encoding != "utf-8":
            with pytest.raises(InvalidInputError, match=r"format\.comment"):
                FileFormat(encoding, **marks)
            return
        description, values = read(path, FileFormat(encoding, **marks))
        assert values == rows
        expected = ["a", "b"] if marks.get("header", True) else ["column0", "column1"]
        assert [name for name, *_ in description] == expected

    def test_new_marks_at_their_usual_values_are_the_same_version(self):
        before = how_read(FileFormat(delimiter=","), {})
        assert how_read(FileFormat(delimiter=",", escape='"', comment="", header=True), {}) == before
        assert "escape" not in before
        assert how_read(FileFormat(delimiter=",", escape="\\"), {}) != before

    @pytest.mark.parametrize(
        "file_format", [FileFormat(), FileFormat(delimiter=","), FileFormat("cp1252")]
    )
    @given(
        values=st.lists(st.text("#;%!/-@~1x", min_size=1, max_size=4), min_size=2, max_size=30),
        mark=st.sampled_from("#%;!/@~"),
    )
    @settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def test_no_value_is_taken_for_a_comment(self, file_format, values, mark, tmp_path):
        values = [f"{mark}N/A", *values]
        path = tmp_path / "records.csv"
        pd.DataFrame({"c0": values, "c1": 1}).to_csv(path, index=False)
        with OpenRecords(path, file_format) as records:
            rows = records.rows("SELECT c0 FROM records")
        assert [value for (value,) in rows] == values

    def test_no_query_detects_anything(self, tmp_path):
        (tmp_path / "records.csv").write_text("a,b\n1,x\n")
        with OpenRecords(tmp_path / "records.csv") as records:
            (view,) = records.rows("SELECT sql FROM duckdb_views() WHERE view_name = 'stored'")
        assert "auto_detect" in view[0]


class TestVersion:
    def test_it_is_the_keyed_digest_of_the_bytes(self, path):
        expected = hmac.new(b"salt", path.read_bytes(), "sha256").hexdigest()
        assert Vault(path, CODING).version(b"salt") == expected
        assert Vault(path, CODING).version(b"other") != expected

    def test_a_file_that_is_read_otherwise_is_another_version(self, tmp_path):
        path = stored(FRAME, tmp_path, "csv")
        readings = [{}, {"age": Reading(("-8",))}, {"age": Reading(other="30")}]
        formats = [FileFormat(), FileFormat(decimal=","), FileFormat(dates=("%d.%m.%Y",))]
        vaults = [Vault(path, CODING, reading, form) for reading in readings for form in formats]
        assert len({vault.version(b"salt") for vault in vaults}) == len(vaults)
        same = Vault(path, CODING, {"sex": Reading()}, FileFormat(dates=[]))  # as a job reads its JSON
        assert same.version(b"salt") == vaults[0].version(b"salt")

    def test_a_changed_file_is_another_version(self, path):
        vault = Vault(path, CODING)
        version = vault.version(b"salt")
        vault.confirm(version, b"salt")
        path.write_bytes(path.read_bytes() + b" ")
        with pytest.raises(DatasetChangedError):
            vault.confirm(version, b"salt")


class TestEngine:
    @pytest.mark.parametrize(
        "query",
        [
            "SELECT * FROM read_csv('{other}')",
            "SELECT * FROM read_text('/proc/self/environ')",
            "COPY records TO '{folder}/out.csv'",
            "ATTACH '{folder}/out.db'",
            "INSTALL httpfs",
            "LOAD '{folder}/evil.duckdb_extension'",
            "SET enable_external_access = true",
            "SET temp_directory = '{folder}'",
            "SELECT * FROM frame",
        ],
    )
    def test_it_reaches_one_file_and_nothing_else(self, tmp_path, path, query):
        frame = FRAME  # in reach of an engine that looks for Python variables
        other = tmp_path / "other.csv"
        other.write_text(f"a\n{CANARY}\n")
        with OpenRecords(path) as records:
            refusal(lambda: records.rows(query.format(other=other, folder=tmp_path)))
        assert len(frame) == 4
        assert {entry.name for entry in tmp_path.iterdir()} == {path.name, "other.csv"}

    def test_nothing_of_its_errors_gets_out(self):
        def fail(error: Exception) -> None:
            raise error

        for error in (duckdb.ConversionException(CANARY), RuntimeError(CANARY), OSError(CANARY)):
            assert (
                type(refusal(lambda error=error: silently(lambda: fail(error))))
                is DatasetUnavailableError
            )
        with pytest.raises(MemoryError) as caught:
            silently(lambda: fail(duckdb.OutOfMemoryException(CANARY)))
        assert caught.value.__context__ is None
        assert not caught.value.args

    def test_nothing_that_was_read_outlives_an_error(self):
        """Not even until garbage is looked for: an error and a frame that hold each other would."""
        batch = np.zeros(3)
        released = weakref.ref(batch)
        gc.disable()
        try:
            with suppress(DatasetUnavailableError):
                silently(partial(np.add, batch, np.zeros(4)))
            del batch
            assert released() is None
        finally:
            gc.enable()

    def test_it_leaves_no_file(self, tmp_path, path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        vault = Vault(path, CODING)
        measure(vault, [("sex", "age")], CODING.domain)
        assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


_MEASURE = """
import sys
from itertools import combinations
from pathlib import Path
from gencard.controller.records.vault import Vault
from gencard.core.coding import Attribute, Coding, Labels
coding = Coding(tuple(Attribute(f"a{k}", Labels(tuple(map(str, range(k + 2))))) for k in range(15)))
Vault(Path(sys.argv[1]), coding).count(list(combinations(coding.domain.attributes, 2)))
status = Path("/proc/self/status").read_text().splitlines()
print(next(int(line.split()[1]) // 1024 for line in status if line.startswith("VmHWM")))
"""


def test_memory_does_not_grow_with_the_records(tmp_path):
    columns = ", ".join(f"CAST(hash(i * 17 + {k}) % {k + 2} AS VARCHAR) AS a{k}" for k in range(15))
    peaks = []
    for records in (100_000, 2_000_000):
        path = tmp_path / f"{records}.parquet"
        query = f"SELECT {columns} FROM range({records}) r(i)"
        duckdb.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet)")
        done = subprocess.run(
            [sys.executable, "-I", "-c", _MEASURE, path],
            env=process._ENVIRONMENT,
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 100
    assert peaks[1] < 400, peaks


def test_the_file_is_only_read(path):
    before = path.stat()
    Vault(path, CODING).check()
    assert (path.stat().st_mtime_ns, stat.S_IMODE(path.stat().st_mode)) == (
        before.st_mtime_ns,
        stat.S_IMODE(before.st_mode),
    )
