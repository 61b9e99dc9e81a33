"""`init` and `check` read a file once: the one copies its columns, the other holds its numbers."""

import pickle
import re
import subprocess
import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencard.controller.drafting import profiles as door
from gencard.controller.drafting.folder import schema_text
from gencard.controller.drafting.profiles import Profile, profiles
from gencard.controller.drafting.schema_draft import detect
from gencard.controller.policy.statistics import allowed_pairs
from gencard.controller.records import vault as door_of_vault
from gencard.controller.records.file_format import USUAL, FileFormat
from gencard.controller.records.records import check_records
from gencard.controller.records.schema_file import schema_of_table
from gencard.controller.records.vault import OpenRecords, Vault
from gencard.core.values import TEXT_RULES, number_of, shown_rules
from tests.controller.test_check_values import entry_of

COMMAS = FileFormat(delimiter=",", decimal=",", thousands=".", trim=True)


def frame(records: int = 400) -> pd.DataFrame:
    """Columns of many kinds, with marks of missing values."""
    rng = np.random.default_rng(7)
    start = pd.Timestamp("2020-01-01")
    return pd.DataFrame(
        {
            "number": rng.normal(50, 10, records).round(3),
            "holes": np.where(rng.random(records) < 0.1, np.nan, rng.integers(0, 9, records)),
            "marks": rng.choice([-9.0, -7.0, 0.0, 1.5, 3.0], records),
            "zeros": rng.choice([0.0, -0.0, 1.0], records),
            "infinite": rng.choice([0.0, -0.0, np.inf, 2.0], records),
            "single": rng.choice(np.float32([0.7, 0.1, 1e-7]), records),
            "code": rng.choice(["001", "01", "1", "NA"], records),
            "text": rng.choice(["a", " a", "b ", "", "?"], records),
            "german": rng.choice(["1.234,5", "7,25", "-"], records),
            "day": (start + pd.to_timedelta(rng.integers(0, 900, records), "D")).strftime("%Y-%m-%d"),
            "time": start + pd.to_timedelta(rng.integers(0, 90_000, records), "min"),
            "truth": rng.random(records) < 0.3,
            "v": rng.integers(0, 4, records),
            "n": np.arange(records),
            "empty": [None] * records,
        }
    )


def stored(folder: Path, kind: str) -> Path:
    path = folder / f"records.{kind}"
    frame().to_csv(path, index=False) if kind == "csv" else frame().to_parquet(path)
    return path


def without_mean(looks: list[Profile]) -> list[dict[str, object]]:
    """The profiles, but for the last digits of means, which depend on the order of addition."""
    rounded = [
        {**asdict(one), "mean": one.mean if one.mean is None else f"{one.mean:.12g}"} for one in looks
    ]
    return [{name: repr(value) for name, value in one.items()} for one in rounded]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
class TestReadOnce:
    def test_no_column_is_looked_at_in_the_file(self, tmp_path, kind):
        path, names = stored(tmp_path, kind), list[str]()
        expected, away = without_mean(profiles(path, USUAL)), path.with_suffix(".away")

        def hidden(name: str) -> None:
            names.append(name)
            if len(names) == 1:
                path.rename(away)
            if len(names) == len([*frame()]):
                away.rename(path)

        assert without_mean(profiles(path, USUAL, hidden)) == expected
        assert names == [*frame()]

    @pytest.mark.parametrize("file_format", [USUAL, COMMAS], ids=["usual", "commas"])
    def test_different_values_say_the_same_as_records(self, tmp_path, kind, file_format, monkeypatch):
        path = stored(tmp_path, kind)
        by_values = profiles(path, file_format)
        monkeypatch.setattr(door._Look, "of_values", door._Look.of_records)
        assert without_mean(by_values) == without_mean(profiles(path, file_format))

    @pytest.mark.parametrize("most", [0, 40_000])
    def test_a_file_beyond_memory_is_read_in_parts(self, tmp_path, kind, most, monkeypatch):
        path = stored(tmp_path, kind)
        expected = without_mean(profiles(path, USUAL))
        with OpenRecords(path) as records:
            whole = len(list(records.parts()))
        monkeypatch.setattr(door_of_vault, "MOST_COPIED", most)
        with OpenRecords(path) as records:
            parts = [[column.name for column in part] for part in records.parts()]
        assert whole == 1 < len(parts)
        assert [name for part in parts for name in part] == [*frame()]
        assert without_mean(profiles(path, USUAL)) == expected

    def test_a_column_beyond_memory_is_read_from_the_file(self, tmp_path, kind, monkeypatch):
        path = stored(tmp_path, kind)
        expected = without_mean(profiles(path, USUAL))
        of_values = door._Look.of_values

        def failing(records, column):
            if column.name in ("marks", "n"):
                raise MemoryError
            return of_values(records, column)

        monkeypatch.setattr(door._Look, "of_values", failing)
        assert without_mean(profiles(path, USUAL)) == expected


def test_the_engine_copies_as_much_as_it_may(tmp_path):
    """A file of more than the engine's memory is drafted, in parts."""
    path = tmp_path / "wide.parquet"
    rng = np.random.default_rng(1)
    texts = np.array([f"{number:040}" for number in range(50)])
    wide = {f"c{place}": texts[rng.integers(0, 50, 400_000)] for place in range(40)}
    pd.DataFrame(wide).to_parquet(path)
    with OpenRecords(path) as records:
        parts = [len(part) for part in records.parts()]
    assert sum(parts) == 40
    assert len(parts) > 1
    looks = profiles(path, USUAL)
    assert {(one.distinct, one.rare, one.longest) for one in looks} == {(50, 0, 40)}


def test_a_column_of_different_values_needs_memory_for_its_values_alone(tmp_path, monkeypatch):
    """Neither groups of texts nor ranks of numbers are held, if the different values do not fit."""
    rng = np.random.default_rng(1)
    texts = [f"{number:064}" for number in range(200_000)]
    path = tmp_path / "different.parquet"
    pd.DataFrame({"text": texts, "number": rng.random(200_000)}).to_parquet(path)
    monkeypatch.setitem(door_of_vault._ENGINE, "memory_limit", "24MiB")
    text, number = profiles(path, USUAL)
    assert (text.values, text.longest, text.rare) == ((), 64, 0)
    assert text.distinct == pytest.approx(200_000, rel=0.1)
    assert number.quantiles[4] == pytest.approx(0.5, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(-50, 50), min_size=8, max_size=60),
    scale=st.sampled_from([1, 4, 10, 1000]),
)
def test_quantiles_are_those_of_the_records(tmp_path_factory, numbers, scale):
    """The value at rank max(1, ceil(q n)), by brute force."""
    path = tmp_path_factory.mktemp("q") / "records.csv"
    values = [number / scale for number in numbers]
    pd.DataFrame({"x": values}).to_csv(path, index=False)
    (look,) = profiles(path, detect(path)[0])
    kept = sorted(value for value in values if not (look.marks and value < 0))
    expected = [kept[max(1, -(-eighth * len(kept) // 8)) - 1] for eighth in range(9)]
    assert list(look.quantiles) == expected
    assert look.present == len(kept)
    assert look.mean == pytest.approx(np.mean(kept))


DECLARED = {
    "title": "t",
    "declared_by": "d",
    "attributes": [
        {"name": "code", "labels": ["001", "01", "1"], "missing": ["NA"]},
        {"name": "number", "edges": [0, 40, 60, 200], "step": 0.1, "missing": True},
        {"name": "day", "dates": ["2020-01-01", "2021-01-01", "2022-12-31"]},
        {"name": "high", "of": "number", "edges": [0, 60, 200], "missing": True},
    ],
}
OF_PERSONS = DECLARED | {"person": "v", "most_records": 3}


def told(vault: Vault) -> list[object]:
    """Collect the answers of a vault to the questions of `check`."""
    names = vault.coding.domain.attributes
    dataset, numbers = vault.read(names, ("number",), most_records=1_000)
    counts = vault.count([(name,) for name in names] + [("code", "day")])
    fine = vault.summed((), vault.coding.with_step).fine_counts()
    return [
        dataset.codes.tolist(),
        numbers["number"].tolist(),
        [table.tolist() for table in (*counts, *fine)],
        vault.adjustments(),
        vault.unzoned(),
    ]


@pytest.mark.parametrize("table", [DECLARED, OF_PERSONS], ids=["records", "persons"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_records_in_memory_say_the_same_as_the_file(tmp_path, kind, table):
    schema, path = schema_of_table(table), stored(tmp_path, kind)
    vault = Vault(path, schema.coding, schema.readings, persons=schema.persons(b"salt"))
    expected, read = told(vault), list[int]()
    held = vault.held(read.append)
    if not vault.persons:  # tests of dates are asked beside
        path.unlink()
    assert told(held) == expected
    assert read == [len(frame())]
    held.check()


def test_dates_with_a_time_are_counted_in_memory(tmp_path):
    path = tmp_path / "records.csv"
    days = ["2020-01-01", "2020-01-02T10:00", "2020-01-03T00:00", "", "x"] * 3
    pd.DataFrame({"day": days, "x": 1}).to_csv(path, index=False)
    attribute = {"name": "day", "dates": ["2020-01-01", "2022-12-31"], "missing": True}
    schema = schema_of_table(DECLARED | {"attributes": [attribute]})
    vault = Vault(path, schema.coding, schema.readings)
    assert vault.held().unzoned() == vault.unzoned() == {"day": 3}


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.text("019.eE+_ -", max_size=4), min_size=1, max_size=30),
    labels=st.sets(st.sampled_from(["0", "1", "19", "09", "1e9", "99"]), min_size=1).map(sorted),
)
def test_codes_compared_by_value_are_counted_whatever_the_labels_are(tmp_path_factory, texts, labels):
    """By brute force: the labels, which are looked up first, change no count."""
    path = tmp_path_factory.mktemp("codes") / "records.csv"
    pd.DataFrame({"code": texts, "x": 1}).to_csv(path, index=False)
    attribute = {"name": "code", "labels": labels, "missing": ["99"]}
    schema = schema_of_table(DECLARED | {"attributes": [attribute]})
    present = [text for text in texts if text and number_of(text.strip()) != 99]
    decimals = [text for text in present if "." in text and number_of(text.strip()) is not None]
    wholes = [text.strip() for text in present if "." not in text]
    signs = [sum(bool(re.fullmatch(rule.pattern, one)) for one in wholes) for rule in TEXT_RULES]
    expected = sum(shown_rules(len(decimals), *signs).values())
    vault = Vault(path, schema.coding, schema.readings, FileFormat(delimiter=","))
    assert vault.held().texts_by_value() == vault.texts_by_value() == {"code": expected}


def test_check_loads_no_pandas(tmp_path):
    """Loading pandas takes as long as checking a million records."""
    entry = entry_of(tmp_path, **frame())
    entry.schema_file.write_text(schema_text(schema_of_table(DECLARED)))
    settings_file = tmp_path / "entry.pickle"
    settings_file.write_bytes(pickle.dumps(entry))
    program = """if True:
        import pickle, sys
        from gencard.controller.records.records import check_records
        check_records(pickle.load(open(sys.argv[1], "rb")), lambda domain: [])
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program, str(settings_file)], check=True)


def test_records_beyond_memory_stay_in_the_file(tmp_path, monkeypatch):
    schema, path = schema_of_table(DECLARED), stored(tmp_path, "csv")
    monkeypatch.setattr(door_of_vault, "MOST_HELD", 1_000)
    vault = Vault(path, schema.coding, schema.readings)
    assert vault.held() is vault


def test_check_opens_the_file_once(tmp_path, monkeypatch):
    entry = entry_of(tmp_path, **frame())
    entry.schema_file.write_text(schema_text(schema_of_table(DECLARED)))
    opened, enter = list[Path](), OpenRecords.__enter__
    monkeypatch.setattr(
        OpenRecords, "__enter__", lambda self: (opened.append(entry.data), enter(self))[1]
    )
    checked = check_records(entry, partial(allowed_pairs, entry.policy))
    assert opened == [entry.data]
    assert checked.adjustments["number"].rounded > 0
    assert checked.small is not None
    assert checked.small.records == len(frame())
