"""Programs of analysts on the file's values: types and values in dry run, rehearsal and run.

Names of outputs hold each column's type. So a run whose types differ from those of the dry run fails at
the controller, on synthetic rows or on the records.
"""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.client import histogram, total
from gencard.controller.shell.main import app as steward_shell
from gencard.core.errors import AnswerWaitingError, InvalidInputError
from gencard.run.levels import Stored, drawn_numbers
from gencard.run.session import frame_of
from gencard.wire.canonical import sha256
from tests.system.house import House, build
from tests.system.programs import has_r
from tests.system.raw_calls import configure
from tests.system.sandboxes import needs_sandbox

pytestmark = [needs_sandbox, pytest.mark.timeout(300)]

RECORDS = 1_200
ZONE = "America/New_York"

SCHEMA = f"""
title = "Visits to a hospital"
description = "For tests."
declared_by = "the tests"
reviewed = true

[[attributes]]
name = "ward"
labels = ["007", "01", "1", "7"]
missing = true

[[attributes]]
name = "children"
labels = ["0", "1", "2"]
integer = true

[[attributes]]
name = "insured"
labels = ["false", "true"]
boolean = true

[[attributes]]
name = "spent"
edges = [0, 10, 100, 1_000, 5_000]
points = [0]
step = "0.01"
above = "highest"

[[attributes]]
name = "visits"
edges = [0, 1, 5, 90]
step = "1"
missing = true

[[attributes]]
name = "born"
dates = ["1940-01-01", "1980-01-01", "2010-12-31"]
step = 1
missing = true

[[attributes]]
name = "came"
dates = ["2013-01-01", "2013-07-01", "2013-12-31"]
zone = "{ZONE}"

[[attributes]]
name = "clock"
time_of = "came"
edges = ["00:00", "06:00", "12:00", "18:00", "24:00"]

[[attributes]]
name = "paid"
edges = [0, 3_000_000_000, 9_000_000_000]
step = "1000000"

[[attributes]]
name = "weight"
edges = [0, 50, 200]
decimals = 0

[[attributes]]
name = "hours"
edges = [0, 20, 80]
step = "1"

[[attributes]]
name = "salary"
edges = [0, 50_000, 500_000]
step = "1"
"""
"""``hours`` is none of the policy's columns, ``weight`` has no step, and no card names ``salary``."""

COLUMNS = ["born", "came", "clock", "paid", "salary", "spent", "visits"]
PAIRS = [
    ("ward", "children"),
    ("insured", "spent"),
    ("visits", "born"),
    ("came", "clock"),
    ("paid", "weight"),
    ("hours",),
]
STATISTICS = [*PAIRS, histogram("spent"), total("spent"), histogram("clock")]


def records() -> pd.DataFrame:
    """Amounts beyond the last edge, and off their step; missing numbers, dates and codes."""
    rng = np.random.default_rng(5)
    days = pd.to_datetime("1940-01-01") + pd.to_timedelta(rng.integers(0, 25_000, RECORDS), unit="D")
    seconds = rng.integers(0, 364 * 86_400, RECORDS)
    came = pd.Timestamp("2013-01-01 12:00", tz=ZONE) + pd.to_timedelta(seconds, unit="s")
    spent = np.exp(rng.normal(4, 1.6, RECORDS)).round(3)
    spent[0] = 51_234.56
    frame = pd.DataFrame(
        {
            "ward": np.array(["007", "01", "1", "7"])[rng.integers(0, 4, RECORDS)],
            "children": rng.integers(0, 3, RECORDS),
            "insured": np.array(["false", "true"])[rng.integers(0, 2, RECORDS)],
            "spent": np.where(rng.random(RECORDS) < 0.2, 0, spent),
            "visits": pd.Series(rng.poisson(4, RECORDS), dtype="Int64"),
            "born": days.strftime("%Y-%m-%d"),
            "came": came.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%SZ"),
            "paid": rng.integers(0, 9_001, RECORDS) * 1_000_000,
            "weight": rng.integers(2, 150, RECORDS),
            "hours": rng.integers(0, 80, RECORDS),
            "salary": rng.integers(0, 500_000, RECORDS),
        }
    )
    for place, name in enumerate(("ward", "visits", "born")):
        frame.loc[rng.random(RECORDS) < 0.05 + place / 50, name] = None
    return frame


IN_PYTHON = """
import pandas as pd
from gencard.run import output, records
frame = records()
types = [f"{name}: {column.dtype.name}" for name, column in frame.items()]
output.table("types", pd.DataFrame({"missing": frame.isna().sum().to_numpy() * 1.0}, index=types))
wards = [f"text {one}" for one in frame["ward"].cat.categories if isinstance(one, str)]
output.table("wards", pd.DataFrame({"n": 1.0}, index=wards))
numbers = pd.DataFrame({
    name: (column - pd.Timestamp(0)).dt.days if column.dtype.kind == "M" else column
    for name, column in frame.drop(columns="ward").items()
}).astype("float64")
for what in ("mean", "max", "min", "std"):
    output.table(what, getattr(numbers, what)())
output.table("sum by ward", frame.groupby("ward", observed=False)["spent"].sum())
output.table("largest", frame[["visits", "clock"]].max(), counts=[])
"""
IN_R = """#!/usr/bin/env Rscript
frame <- records()
types <- sapply(frame, function(column) paste(class(column)[1], typeof(column)))
names <- paste0(names(frame), ": ", types)
output$table("types", data.frame(missing = 1.0 * colSums(is.na(frame)), row.names = names))
wards <- levels(frame$ward)
output$table("wards", data.frame(n = rep(1, 4), row.names = paste("text", wards)))
numbers <- frame[setdiff(names(frame), "ward")]
for (what in c("mean", "max", "min", "sd")) {
  values <- vapply(numbers, function(one) do.call(what, list(as.numeric(one), na.rm = TRUE)), 1.0)
  output$table(sub("sd", "std", what), data.frame(value = values, row.names = names(numbers)))
}
sums <- tapply(frame$spent, frame$ward, sum)
output$table("sum by ward", data.frame(spent = as.vector(sums), row.names = names(sums)))
output$table("largest", sapply(frame[c("visits", "clock")], max, na.rm = TRUE), counts = character())
"""
SNOOPS = """
import os
import numpy as np
from gencard.run import output, records, session
frame, held = records(), session._SESSION
try:
    left = len(os.read(0, 100))
except OSError:
    left = 0
spent = held.stored["spent"]
output.scalar("attributes", len(held.coding.attributes))
output.scalar("columns of codes", len(held.dataset.domain))
output.scalar("columns of numbers", len(held.stored))
output.scalar("largest", spent.max())
output.scalar("off their step", np.sum(spent != (spent * 100).round() / 100))
output.scalar("hours that differ", frame["hours"].nunique())
output.scalar("unread bytes", left)
"""
"""Looks at all that the process of a program holds of the records."""

TYPES_IN_PYTHON = {
    "ward": "category",
    "children": "int64",
    "insured": "bool",
    "spent": "float64",
    "visits": "Int64",
    "born": "datetime64[s]",
    "came": "datetime64[s]",
    "clock": "int64",
    "paid": "int64",
    "weight": "float64",
    "hours": "float64",
}
TYPES_IN_R = {
    "ward": "factor integer",
    "children": "integer integer",
    "insured": "logical logical",
    "spent": "numeric double",
    "visits": "integer integer",
    "born": "Date double",
    "came": "Date double",
    "clock": "integer integer",
    "paid": "numeric double",
    "weight": "numeric double",
    "hours": "numeric double",
}
PROGRAMS = {"values.py": IN_PYTHON, "values.R": IN_R, "snoops.py": SNOOPS}
TYPES = {"values.py": TYPES_IN_PYTHON, "values.R": TYPES_IN_R}
LIBRARIES = ["R"] if has_r() else []


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built: House = build(tmp_path_factory.mktemp("values"), records(), SCHEMA)
    columns = json.dumps([*COLUMNS, "weight"])
    offered = f"{{ reviewed_runs = 9, columns = {columns}, libraries = {json.dumps(LIBRARIES)} }}"
    policy = {"analyses": offered, "histograms": '"exact"', "sums": '"exact"', "most_marginals": "99"}
    configure(built, "datasets.policy", **policy)
    built.raise_caps()
    built.edit({"most_per_card": "{ statistics = 100_000 }"})
    yield built.start()
    built.stop()


@pytest.fixture(scope="module")
def card(house):
    """A card that names the programs, and no columns: it gets all that are on offer and have a step."""
    programs = sorted(sha256(text.encode()) for text in PROGRAMS.values())
    granted = {"programs": programs, "reviewed_runs": 5, "libraries": LIBRARIES}
    with house.analyst() as analyst:
        yield analyst.propose("survey", STATISTICS, purpose="To see", analyses=granted).accept()


@pytest.fixture(scope="module")
def release(card):
    return card.release(RECORDS, seed=3, progress=False)


@pytest.fixture(scope="module")
def run(card, release, house, tmp_path_factory):
    """Run a program by its name: its dry run, and its answer, with every number released."""

    def run(name: str):
        program = tmp_path_factory.mktemp("program") / name
        program.write_text(PROGRAMS[name])
        dry = card.dry_run(program, progress=False)
        with pytest.raises(AnswerWaitingError) as caught:
            card.run(program=program, progress=False)
        words = ["emergency", "answers", "release", caught.value.fields["answer"], "--red"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GENCARD_CONTROLLER", str(house.settings_file))
            assert CliRunner().invoke(steward_shell, words, catch_exceptions=False).exit_code == 0
        return dry, card.run(program=program, progress=False)

    return run


NEEDS_R = pytest.mark.skipif(not has_r(), reason="R is not installed")


@pytest.fixture(scope="module", params=["values.py", pytest.param("values.R", marks=NEEDS_R)])
def ran(request, run):
    """A program's name, its dry run and its answer."""
    return request.param, *run(request.param)


def counted() -> pd.DataFrame:
    """The records as pandas reads them, rounded and clamped as the schema declares."""
    frame = records()
    local = pd.to_datetime(frame["came"]).dt.tz_convert(ZONE)
    days = partial(pd.Timedelta, unit="D")
    born = (pd.to_datetime(frame["born"]) - pd.Timestamp(0)) / days(1)
    came = (local.dt.tz_localize(None).dt.normalize() - pd.Timestamp(0)) / days(1)
    return pd.DataFrame(
        {
            "children": frame["children"],
            "insured": frame["insured"] == "true",
            "spent": (np.floor(frame["spent"] * 100 + 0.5 + 1e-9) / 100).clip(upper=5_000),
            "visits": frame["visits"].astype("float64"),
            "born": born,
            "came": came,
            "clock": 60 * local.dt.hour + local.dt.minute,
            "paid": frame["paid"],
            "weight": frame["weight"].lt(50).map({True: 24.5, False: 125.0}),
            "hours": frame["hours"].lt(20).map({True: 9.5, False: 50.0}),
        }
    ).astype("float64")


def column(outputs, name) -> dict[str, float | None]:
    """The first column of an output, by its rows."""
    table = next(one for one in outputs if one.name == name)
    return dict(zip(table.row_names, (row[0] for row in table.values), strict=True))


def test_types_are_the_same_in_dry_run_rehearsal_and_run(ran):
    """Names of rows are part of the shape that all three must share."""
    program, dry, answer = ran
    for outputs in (dry.outputs, answer.estimates.tables):
        assert [*column(outputs, "types")] == [f"{name}: {one}" for name, one in TYPES[program].items()]
        assert [*column(outputs, "wards")] == [f"text {ward}" for ward in ("007", "01", "1", "7")]


def test_the_rehearsal_gives_the_numbers_of_the_dry_run(ran):
    """The answer has its differences to the rehearsal."""
    _, dry, answer = ran
    for output in dry.outputs:
        released = column(answer.estimates.tables, output.name)
        differences = column(answer.estimates.tables, f"{output.name}: difference to the synthetic rows")
        for name, value in column(dry.outputs, output.name).items():
            assert released[name] - differences[name] == pytest.approx(value, rel=1e-9, abs=1e-6)


def test_results_are_those_of_pandas_on_the_file(ran):
    """Five digits leave: mean, extremes, deviation, missing values, and a sum by codes."""
    _, _, answer = ran
    frame, tables = counted(), answer.estimates.tables
    for what in ("mean", "max", "min", "std"):
        expected, released = getattr(frame, what)(), column(tables, what)
        assert [*released] == [*expected.index]
        for name, value in expected.items():
            assert released[name] == pytest.approx(value, rel=5e-5), (what, name)
    assert column(tables, "max")["spent"] == 5_000, "one person spent more"
    assert column(tables, "largest") == frame[["visits", "clock"]].max().to_dict(), "no counts"
    absent = [records().isna().sum().get(name, 0) for name in TYPES_IN_PYTHON]
    assert [*column(tables, "types").values()] == absent
    by_ward = frame["spent"].groupby(records()["ward"]).sum()
    assert column(tables, "sum by ward") == pytest.approx(by_ward.to_dict(), rel=5e-5)


def test_dry_run_and_answer_name_what_came_by_levels(ran, card):
    """One has no step, the other is none of the policy's columns."""
    _, dry, answer = ran
    assert card.terms.analyses.columns == ("born", "came", "clock", "paid", "spent", "visits")
    assert dict(dry.lines())["By levels"] == "weight, hours"
    assert "by levels, each as its midpoint: weight, hours" in answer.estimates.notes


def test_a_dry_run_has_the_columns_of_the_release(card, release):
    """Values and types of ``release.frame``, for all that is not by levels."""
    columns = card.terms.analyses.columns
    drawn = drawn_numbers(
        release.dataset, release.coding, columns, release.receipt.drawing_seed, release.places()
    )
    frame = frame_of(release.dataset, release.coding, Stored(drawn))
    assert [*frame] == [*release.frame]
    for name in frame.columns.difference(["weight", "hours"]):
        pd.testing.assert_series_equal(frame[name], release.frame[name])


def test_columns_that_are_named_are_asked_for_and_no_others(house):
    granted = {"programs": [sha256(IN_PYTHON.encode())], "reviewed_runs": 1}
    with house.analyst() as analyst:
        for columns in ([], ["weight"], ["came", "spent"]):
            analyses = {**granted, "columns": columns}
            offer = analyst.propose("survey", STATISTICS, purpose="To see", analyses=analyses)
            assert (offer.terms.analyses.columns, offer.changes) == (tuple(columns), ())
        countered = offer.counter(marginals=[("insured", "spent")], analyses=granted)
        assert countered.terms.analyses.columns == ("spent",)
        assert countered.counter(analyses=analyses).terms.analyses.columns == ("spent",)


def test_no_card_gets_columns_that_its_statistics_leave_out_or_the_policy_does_not_offer(house):
    granted = {"programs": [sha256(IN_PYTHON.encode())], "reviewed_runs": 1}
    granted["columns"] = ["hours", "salary", "spent", "ward"]
    with house.analyst() as analyst:
        offer = analyst.propose("survey", STATISTICS, purpose="To see", analyses=granted)
        assert offer.terms.analyses.columns == ("spent",)
        reasons = [one.reason for one in offer.changes if one.field == "analyses.columns"]
        assert set(reasons) == {"COLUMN_NOT_OFFERED"}


def test_a_program_finds_nothing_beyond_the_columns_of_its_card(run):
    """Neither other attributes, nor numbers that came by levels, nor values before step and clamp."""
    _, answer = run("snoops.py")
    values = {one.name: one.values[0][0] for one in answer.estimates.tables}
    assert values["attributes"] == values["columns of codes"] == len(TYPES_IN_PYTHON)
    assert values["columns of numbers"] == 6
    assert (values["largest"], values["off their step"]) == (5_000, 0)
    assert (values["hours that differ"], values["unread bytes"]) == (2, 0)


def test_a_card_without_columns_gives_its_programs_levels(house, tmp_path):
    """Cards that were signed before programs asked for all columns do the same."""
    program = tmp_path / "values.py"
    program.write_text(IN_PYTHON)
    granted = {"programs": [sha256(IN_PYTHON.encode())], "reviewed_runs": 1, "columns": []}
    with house.analyst() as analyst:
        card = analyst.propose("survey", PAIRS, purpose="To see", analyses=granted).accept()
        card.release(RECORDS, seed=3, progress=False)
        dry = card.dry_run(program, progress=False)
    by_levels = ("spent", "visits", "born", "came", "clock", "paid", "weight", "hours")
    assert dry.by_levels == by_levels
    types = dict(one.split(": ") for one in column(dry.outputs, "types"))
    assert {types[name] for name in by_levels} == {"float64", "datetime64[s]"}


@pytest.mark.parametrize("name", ["ward", "grown", "nothing"])
def test_check_refuses_columns_without_numbers_of_their_own(tmp_path, name):
    derived = '\n[[attributes]]\nname = "grown"\nof = "hours"\nedges = [0, 20, 80]\n'
    built = build(tmp_path, records(), SCHEMA + derived)
    offered = f"{{ reviewed_runs = 1, columns = ['hours', '{name}'] }}"
    configure(built, "datasets.policy", analyses=offered, most_marginals="99")
    built.raise_caps()
    with pytest.raises(InvalidInputError, match=f"names '{name}', which has no edges"):
        built.start()


def test_a_derived_attribute_needs_no_source_on_the_card(tmp_path):
    """Programs and measures get its levels alone."""
    derived = '\n[[attributes]]\nname = "grown"\nof = "hours"\nedges = [0, 20, 80]\n'
    built = build(tmp_path, records(), SCHEMA + derived)
    policy = {"analyses": "{ reviewed_runs = 1 }", "measures": '["propensity"]', "most_marginals": "99"}
    configure(built, "datasets.policy", **policy)
    built.raise_caps()
    program = tmp_path / "derived.py"
    program.write_text(
        "from gencard.run import output, records\n"
        "output.scalar('grown', records()['grown'].nunique(), count=True)\n"
    )
    granted = {"programs": [sha256(program.read_bytes())], "reviewed_runs": 1}
    built.start()
    try:
        with built.analyst() as analyst:
            pairs = [("ward", "grown")]
            terms = {"purpose": "To see", "analyses": granted, "measures": ["propensity"]}
            card = analyst.propose("survey", pairs, **terms).accept()
            card.release(RECORDS, progress=False)
            assert card.dry_run(program, progress=False).outputs[0].values == ((2,),)
            with pytest.raises(AnswerWaitingError):
                card.run(program=program, progress=False)
            assert card.measures(["propensity"], progress=False)
    finally:
        built.stop()
