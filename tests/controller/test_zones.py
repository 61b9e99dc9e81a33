"""Instants in files: their date and time of day in a declared zone, beside ``zoneinfo``."""

from datetime import UTC, date, datetime, timedelta
from importlib import resources
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from gencard.controller.drafting.schema_draft import draft_schema
from gencard.controller.records.encoding import how_read, zones
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import schema_of_text
from gencard.controller.records.vault import Vault
from gencard.controller.shell.main import app
from gencard.core.coding import Reading, days_of_date
from gencard.core.errors import InvalidInputError, UndeclaredLevelError
from tests.system.house import build, survey

ZONES = (
    *("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("Pacific/Apia", "America/Sao_Paulo", "Africa/Casablanca", "Asia/Tehran"),
)
FIRST, LAST = date(1970, 1, 1), date(2025, 12, 31)


def rules_of(zone: str) -> ZoneInfo:
    """Return the rules of the package tzdata, not those of this host."""
    with (resources.files("tzdata") / "zoneinfo" / zone).open("rb") as file:
        return ZoneInfo.from_file(file, key=zone)


def schema(zone: str, more: str = ""):
    dates = f'dates = ["{FIRST}", "{LAST}"]'
    time = '[[attributes]]\nname = "hour"\ntime_of = "left"\nedges = ["00:00", "24:00"]'
    stated = f'zone = "{zone}"\n{more}\n{time}' if zone else f"step = 1\n{more}"
    text = f'title = "t"\ndeclared_by = "d"\n[[attributes]]\nname = "left"\n{dates}\n{stated}\n'
    return schema_of_text(text, "s.toml")


def vault(path, one):
    return Vault(path, one.coding, one.readings, USUAL)


@pytest.mark.parametrize(("ending", "unit"), [("csv", ""), ("parquet", "us"), ("parquet", "ns")])
@pytest.mark.parametrize("zone", ZONES)
def test_dates_and_minutes_are_those_of_zoneinfo(tmp_path, zone, ending, unit):
    """At random instants, and second by second around days of change."""
    rng = np.random.default_rng(3)
    span = int((datetime(2025, 12, 29, tzinfo=UTC) - datetime(1970, 1, 3, tzinfo=UTC)).total_seconds())
    seconds = {int(one) for one in rng.integers(0, span, 2_000)}
    changes = [datetime(2011, 12, 30, 10), datetime(2018, 2, 18, 2), datetime(2013, 3, 10, 7)]
    instants = [datetime(1970, 1, 3, tzinfo=UTC) + timedelta(seconds=one) for one in seconds]
    instants += [
        one.replace(tzinfo=UTC) + timedelta(seconds=off) for one in changes for off in (-1, 0, 1, 3_599)
    ]
    frame = pd.DataFrame({"left": pd.to_datetime(instants, utc=True)})
    path = tmp_path / f"r.{ending}"
    if ending == "csv":
        frame.assign(left=[one.isoformat() for one in instants]).to_csv(path, index=False)
    else:
        frame.assign(left=frame.left.dt.as_unit(unit)).to_parquet(path)
    names = ("left", "hour")
    _, numbers = vault(path, schema(zone)).read((), names, most_records=10_000)
    local = [one.astimezone(rules_of(zone)) for one in instants]
    assert numbers["left"].tolist() == [days_of_date(one.date()) for one in local]
    assert numbers["hour"].tolist() == [60 * one.hour + one.minute for one in local]


def test_the_engine_of_files_knows_every_zone_that_a_schema_may_name():
    """The names are those of the package tzdata, whatever the host has."""
    assert {"UTC", "America/New_York", "Asia/Kathmandu"} < zones()
    assert not {"localtime", "Factory", "posixrules", "tzdata.zi", ""} & zones()
    with duckdb.connect() as connection:
        rows = connection.execute("SELECT name FROM pg_timezone_names()").fetchall()
    assert zones() <= {name for (name,) in rows}


def test_fractions_of_a_second_do_not_reach_the_next_day(tmp_path):
    text = "left\n2013-01-01T23:59:59.9999999Z\n2013-01-01 23:59:59.123456789+00\n"
    (tmp_path / "r.csv").write_text(text)
    names = ("left", "hour")
    _, numbers = vault(tmp_path / "r.csv", schema("UTC")).read((), names, most_records=9)
    assert numbers["hour"].tolist() == [1439, 1439]
    assert numbers["left"].tolist() == [days_of_date(date(2013, 1, 1))] * 2


@pytest.mark.parametrize(
    "value", ["2013-01-01T05:15:00", "2013-01-01", "2013-01-01 05:15", "2013-13-01T00:00Z"]
)
def test_a_value_without_an_offset_has_no_level_under_a_zone(tmp_path, value):
    (tmp_path / "r.csv").write_text(f"left\n2013-01-01T05:15:00Z\n{value}\n")
    with pytest.raises(UndeclaredLevelError, match="left, hour"):
        vault(tmp_path / "r.csv", schema("America/New_York")).check()


@pytest.mark.parametrize(
    "value", ["2013-01-01T05:15:00Z", "2013-01-01 05:15:00", "2013-01-01T00:00:00Z"]
)
def test_an_instant_has_no_level_without_a_zone(tmp_path, value):
    (tmp_path / "r.csv").write_text(f"left\n2013-01-01\n2013-01-02 00:00:00\n{value}\n")
    with pytest.raises(UndeclaredLevelError, match="left"):
        vault(tmp_path / "r.csv", schema("")).check()


def test_types_of_columns_say_what_is_wrong(tmp_path):
    frame = pd.DataFrame({"left": pd.to_datetime(["2013-01-01 05:15"])})
    frame.to_parquet(tmp_path / "naive.parquet")
    frame.assign(left=frame.left.dt.tz_localize("UTC")).to_parquet(tmp_path / "utc.parquet")
    with pytest.raises(
        InvalidInputError, match="'left' is not valid: it has a zone, but its values have no"
    ):
        vault(tmp_path / "naive.parquet", schema("UTC")).check()
    with pytest.raises(
        InvalidInputError, match="'left' is not valid: its values have a time of day, and it has no zone"
    ):
        vault(tmp_path / "utc.parquet", schema("")).check()


def test_versions_of_records_without_zones_stay():
    before = '"readings": {"a": {"absent": ["?"], "age_at": null, "other": null}}'
    assert before in how_read(USUAL, {"a": Reading(("?",))})
    assert '"zone": "UTC"' in how_read(USUAL, {"a": Reading(zone="UTC")})


def test_a_draft_asks_for_the_zone_and_guesses_none(tmp_path):
    rows = 40
    instants = [datetime(2013, 1, 1, 5, tzinfo=UTC) + timedelta(hours=7 * row) for row in range(rows)]
    frame = pd.DataFrame(
        {
            "left": [one.isoformat() for one in instants],
            "came": [one.strftime("%Y-%m-%d %H:%M:%S") for one in instants],
            "day": [one.strftime("%Y-%m-%d 00:00:00") for one in instants],
            "cost": [row**2 + 0.5 for row in range(rows)],
        }
    )
    frame.to_csv(tmp_path / "r.csv", index=False)
    drafted = draft_schema(tmp_path / "r.csv", "t", today=date(2026, 1, 1))
    notes = {one.name: one.note for one in drafted.left_out}
    assert "in which zone do they count?" in notes["left"]
    assert "schema set left --new --edges FIRST,LAST --zone ZONE" in notes["left"]
    assert "have no offset from UTC" in notes["came"]
    assert drafted.schema.coding.domain.attributes == ("day", "cost")
    cost = drafted.attributes[-1]
    moves = (1_600 - 0) / rows  # by the drafted edges
    expected = f"by up to {moves:.0f} ({100 * moves / frame.cost.mean():.0f} %); a lower last edge with"
    assert (cost.scale.edges[0], cost.scale.edges[-1]) == (0, 1_600)
    assert (
        f"One record moves the mean of cost {expected} above = 'highest' costs less." == cost.influence
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A survey whose departures are times with an offset and arrivals are times without one."""
    rows = survey(60)
    start = datetime(2013, 1, 1, 23, 30, tzinfo=UTC)
    left = [start + timedelta(hours=6 * row) for row in range(60)]
    rows["left"] = [one.isoformat() for one in left]
    rows["came"] = [
        f"{one:%Y-%m-%d} 00:00:00" if row % 4 else f"{one:%Y-%m-%d %H:%M}"
        for row, one in enumerate(left)
    ]
    return build(tmp_path_factory.mktemp("timed"), rows)


@pytest.fixture
def checked(house):
    """The output and the error of a check, under a schema with more attributes."""
    schema_file = house.folder / "schema.toml"
    before = schema_file.read_text()

    def check(more: str) -> tuple[str, str]:
        schema_file.write_text(f"{before}\n[[attributes]]\n{more}\n")
        try:
            result = CliRunner().invoke(app, ["check", "--config", str(house.settings_file)])
        finally:
            schema_file.write_text(before)
        error = result.exception
        notes = getattr(error, "__notes__", []) if error else []
        return " ".join(result.output.split()), " ".join([str(error or ""), *notes])

    return check


DAYS = 'dates = ["2013-01-01", "2013-01-31"]'


def test_check_counts_times_without_a_zone_of_earlier_schemas(checked):
    output, error = checked(f'name = "came"\n{DAYS}')
    words = "of the values of came, 15 are times without a zone, and are read as UTC (texts: as written)"
    assert words in output
    assert not error
    assert "of the values of left, 60 are times" in checked(f'name = "left"\n{DAYS}')[0]


def test_check_refuses_times_without_a_zone_under_a_step_and_says_where(checked):
    """By a text of its own, not as any value without a level."""
    for name in ("came", "left"):
        _, error = checked(f'name = "{name}"\n{DAYS}\nstep = 1')
        assert f"'{name}' is not valid: its values have a time of day, and it has no zone" in error
        assert "Declared in schema.toml, line" in error


def test_check_under_a_zone(checked):
    output, error = checked(f'name = "left"\n{DAYS}\nzone = "UTC"')
    assert not error
    assert "times without" not in output
    _, error = checked(f'name = "came"\n{DAYS}\nzone = "UTC"')
    assert "'came' is not valid: it has a zone, but its values have no offset from UTC" in error
    assert "Declared in schema.toml, line" in error


def test_times_are_found_as_they_are_written(tmp_path):
    """Without a zone, a midnight with an offset is a time; with one, dates and times lack an offset."""
    texts = {
        "2013-01-01": 0,
        "2013-01-01 00:00": 0,
        "2013-01-01T00:00:00.000": 0,
        "2013-01-01 00:00:01": 1,
        "2013-01-01T05:15": 1,
        "2013-01-01T00:00:00Z": 1,
        "2013-01-01 00:00:00+00": 1,
        "2013-01-01T05:15:00-05:00": 1,
        "nonsense": 0,
        "12:00": 0,
    }
    text = f'title = "t"\ndeclared_by = "d"\n[[attributes]]\nname = "left"\n{DAYS}\nmissing = true\n'
    for value, count in texts.items():
        (tmp_path / "r.csv").write_text(f'left,other\n"{value}",1\n')
        found = vault(tmp_path / "r.csv", schema_of_text(text, "s.toml")).unzoned()
        assert found == {"left": count}, value
        zoned = schema_of_text(f'{text}zone = "UTC"\n', "s.toml")
        no_offset = value[:4] == "2013" and not value.endswith(("Z", "+00", "-05:00"))
        assert vault(tmp_path / "r.csv", zoned).unzoned() == {"left": no_offset}, value
        for one in (text, f'{text}zone = "UTC"\n'):  # what stands for "missing" is no time
            marked = schema_of_text(one.replace("missing = true", f'missing = ["{value}"]'), "s.toml")
            assert vault(tmp_path / "r.csv", marked).unzoned() == {"left": 0}, value
