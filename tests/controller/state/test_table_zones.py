"""Instants in files and in tables: one date and one time of day, whoever converts them.

DuckDB converts by ICU, PostgreSQL by its own or the system's files, Spark by Java's: none reads the
package tzdata, which names the zones. So the answers of all are compared with instants worked out by
hand, and at random instants from 1970 to 2025 with the rules of tzdata. Rules of later years, and of
zones before 1970, may differ from one release of an engine to the next; those here do not.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import PublicSchema, schema_of_table
from gencard.controller.records.vault import Vault, open_source
from gencard.core.coding import days_of_date, minutes_of_time
from gencard.core.errors import InvalidInputError, MissingAttributeError, UndeclaredLevelError

pytest.importorskip("ibis")
from tests.controller.state.test_tables import SALT, engine, socket, stored  # noqa: F401  # fixtures
from tests.controller.test_zones import rules_of

BY_HAND = {
    "America/New_York": (
        ("2013-03-10T06:59:59.999999", "2013-03-10", "01:59"),
        ("2013-03-10T07:00:00", "2013-03-10", "03:00"),  # no clock shows 02:00 to 02:59
        ("2013-11-03T05:30:00", "2013-11-03", "01:30"),  # the hour that comes twice
        ("2013-11-03T06:30:00", "2013-11-03", "01:30"),
        ("2013-11-03T03:59:59.999999", "2013-11-02", "23:59"),
        ("2013-11-03T04:00:00", "2013-11-03", "00:00"),
        ("1969-12-31T23:59:59.500000", "1969-12-31", "18:59"),  # before 1970
        ("1970-01-01T04:59:59.999999", "1969-12-31", "23:59"),
        ("1970-01-01T05:00:00", "1970-01-01", "00:00"),
        ("1850-01-01T04:56:01", "1849-12-31", "23:59"),  # by the sun, 4:56:02 behind
        ("1850-01-01T04:56:02", "1850-01-01", "00:00"),
    ),
    "Pacific/Apia": (
        ("2011-12-30T09:59:59", "2011-12-29", "23:59"),  # which had no 30 December
        ("2011-12-30T10:00:00", "2011-12-31", "00:00"),
    ),
    "Africa/Monrovia": (
        ("1972-01-07T00:44:29", "1972-01-06", "23:59"),  # 44:30 behind
        ("1972-01-07T00:44:30", "1972-01-07", "00:44"),
    ),
    "Asia/Kathmandu": (
        ("1985-12-31T18:29:59", "1985-12-31", "23:59"),
        ("1985-12-31T18:30:00", "1986-01-01", "00:15"),
    ),
    "Australia/Lord_Howe": (
        ("2013-04-06T14:59:59", "2013-04-07", "01:59"),  # half an hour comes twice
        ("2013-04-06T15:00:00", "2013-04-07", "01:30"),
    ),
    "Africa/Casablanca": (
        ("2019-05-05T01:59:59", "2019-05-05", "02:59"),  # Ramadan
        ("2019-05-05T02:00:00", "2019-05-05", "02:00"),
    ),
    "UTC": (
        ("2012-02-29T23:59:59.999999", "2012-02-29", "23:59"),
        ("2012-03-01T00:00:00", "2012-03-01", "00:00"),
    ),
}
"""Zone -> instants in UTC, their date and time of day there."""

DATES = {"dates": ["1849-12-31", "1970-01-01", "2026-01-01"]}


def utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def instants() -> list[dt.datetime]:
    """All of ``BY_HAND``, then random ones."""
    seconds = np.random.default_rng(3).integers(86_400, 20_440 * 86_400, 1_000)
    given = [utc(text) for rows in BY_HAND.values() for text, *_ in rows]
    return given + [
        dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=int(one)) for one in seconds
    ]


@pytest.fixture(scope="module")
def expected(instants) -> np.ndarray:
    """Date in days, then minute, in each zone: two rows a zone, one column an instant."""
    rows = []
    for zone, by_hand in BY_HAND.items():
        local = [one.astimezone(rules_of(zone)) for one in instants]
        days = [days_of_date(one.date()) for one in local]
        minutes = [60 * one.hour + one.minute for one in local]
        for text, day, time in by_hand:
            place = instants.index(utc(text))
            days[place] = days_of_date(dt.date.fromisoformat(day))
            minutes[place] = minutes_of_time(time)
        rows += [days, minutes]
    return np.array(rows, dtype=float)


def records_of(instants: list[dt.datetime], unit: str = "us") -> pa.Table:
    """The same instants in a column for each zone, and their number."""
    column = pa.array(instants, pa.timestamp("us", tz="UTC")).cast(pa.timestamp(unit, tz="UTC"))
    columns = {f"z{axis}": column for axis in range(len(BY_HAND))}
    return pa.table({"id": np.arange(len(instants)), **columns})


def schema_of(**more: object) -> PublicSchema:
    attributes = [{"name": "id", "edges": [0, 10_000], "step": 1}]
    for axis, zone in enumerate(BY_HAND):
        attributes.append({"name": f"z{axis}", "zone": zone, **DATES})
        time = {"name": f"t{axis}", "time_of": f"z{axis}", "edges": ["00:00", "12:00", "24:00"]}
        attributes.append(time)
    table = {"title": "t", "declared_by": "d", "attributes": attributes}
    return schema_of_table(table | more)


def read(source, schema: PublicSchema) -> np.ndarray:
    names = schema.coding.domain.attributes
    _, numbers = source.read((), names, most_records=10_000)
    order = np.argsort(numbers["id"])
    return np.array([numbers[name][order] for name in names[1:]])


@pytest.mark.parametrize("form", ["csv", "us", "ns"])
def test_a_file_has_the_dates_and_times_of_the_zone(tmp_path, instants, expected, form):
    path, schema = tmp_path / f"r.{'csv' if form == 'csv' else 'parquet'}", schema_of()
    if form == "csv":
        offsets = (dt.UTC, dt.timezone(dt.timedelta(hours=-9, minutes=-30)), rules_of("Asia/Tokyo"))
        texts = [one.astimezone(offsets[place % 3]) for place, one in enumerate(instants)]
        texts = [
            one.isoformat() if one.year > 1900 else one.astimezone(dt.UTC).isoformat() for one in texts
        ]
        columns = {f"z{axis}": texts for axis in range(len(BY_HAND))}
        pyarrow.csv.write_csv(pa.table({"id": range(len(texts)), **columns}), path)
    else:
        pq.write_table(records_of(instants, form), path)
    vault = Vault(path, schema.coding, schema.readings)
    np.testing.assert_array_equal(read(vault, schema), expected)


def test_milliseconds_are_instants_too(tmp_path):
    one, schema = utc("1969-12-31T23:59:59.500000"), schema_of()
    pq.write_table(records_of([one], "ms"), tmp_path / "r.parquet")
    rows = read(Vault(tmp_path / "r.parquet", schema.coding, schema.readings), schema)
    assert rows[:2].ravel().tolist() == [-1, 18 * 60 + 59]


def test_a_table_has_the_dates_and_times_of_the_zone(engine, socket, tmp_path, instants, expected):  # noqa: F811
    schema = schema_of()
    address = stored(engine, records_of(instants), tmp_path, socket)
    with open_source(address, schema, USUAL, None) as table:
        table.check()
        assert not any(table.unzoned().values())
        np.testing.assert_array_equal(read(table, schema), expected)


def test_persons_have_the_dates_and_times_of_the_zone(engine, socket, tmp_path, instants, expected):  # noqa: F811
    names = pa.array([f"p{place}" for place in range(len(instants))])
    schema = schema_of(person="who", most_records=1)
    address = stored(engine, records_of(instants).append_column("who", names), tmp_path, socket)
    with open_source(address, schema, USUAL, schema.persons(SALT)) as table:
        np.testing.assert_array_equal(read(table, schema), expected)


INSTANT, LOCAL = "2013-01-01T05:15:00", dt.datetime(2013, 1, 1, 5, 15)
MIDNIGHT = dt.datetime(2013, 1, 1)
NO_OFFSET = "'left' is not valid: it has a zone, but its values have no offset"
NO_ZONE = "'left' is not valid: its values have a time of day, and it has no zone"
UNDECLARED = "undeclared: left"
TYPES = {
    "instants": (pa.array([utc(INSTANT)], pa.timestamp("us", tz="UTC")), "", NO_ZONE),
    "midnights of UTC": (
        pa.array([MIDNIGHT.replace(tzinfo=dt.UTC)], pa.timestamp("us", tz="UTC")),
        "",
        NO_ZONE,
    ),
    "instants of another offset": (
        pa.array([utc(INSTANT)], pa.timestamp("us", tz="+09:00")),
        "",
        NO_ZONE,
    ),
    "local times": (pa.array([LOCAL], pa.timestamp("us")), NO_OFFSET, UNDECLARED),
    "local midnights": (pa.array([MIDNIGHT], pa.timestamp("us")), NO_OFFSET, ""),
    "dates": (pa.array([MIDNIGHT.date()]), NO_OFFSET, ""),
    "seconds before 1970": (pa.array([-5]), NO_OFFSET, UNDECLARED),
    "seconds in fractions": (pa.array([1_357_017_300.5]), NO_OFFSET, UNDECLARED),
    "seconds in decimals": (pa.array([Decimal("1357017300.5")]), NO_OFFSET, UNDECLARED),
}
"""Column -> refusal under a zone, then without one; empty where the values are read."""
OF_FILES = TYPES | {
    "instants in nanoseconds": (
        pa.array([1_357_017_300 * 10**9], pa.timestamp("ns", tz="UTC")),
        "",
        NO_ZONE,
    ),
    "local nanoseconds": (pa.array([1_357_017_300 * 10**9], pa.timestamp("ns")), NO_OFFSET, UNDECLARED),
    "midnights in nanoseconds": (pa.array([1_356_998_400 * 10**9], pa.timestamp("ns")), NO_OFFSET, ""),
    "midnights in milliseconds": (pa.array([MIDNIGHT], pa.timestamp("ms")), NO_OFFSET, ""),
    "texts of instants": (pa.array([f"{INSTANT}+09:00"]), "", UNDECLARED),
    "texts of local times": (pa.array([INSTANT]), UNDECLARED, UNDECLARED),
    "texts of dates": (pa.array(["2013-01-01"]), UNDECLARED, ""),
    "texts of midnights": (pa.array(["2013-01-01 00:00:00"]), UNDECLARED, ""),
}


def declared(*, zone: bool, person: bool = False) -> PublicSchema:
    attribute = {"name": "left", **DATES} | ({"zone": "UTC"} if zone else {"step": 1})
    persons = {"person": "who", "most_records": 1} if person else {}
    return schema_of_table({"title": "t", "declared_by": "d", "attributes": [attribute], **persons})


def outcome(place, schema: PublicSchema) -> str:
    """The refusal of a check, ``UNDECLARED`` if values are; empty where all is in order."""
    try:
        with open_source(place, schema, USUAL, schema.persons(SALT)) as source:
            source.version(SALT)
            source.check()
    except UndeclaredLevelError as error:
        return f"undeclared: {error.fields['attribute']}"
    except InvalidInputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("zone", [True, False])
@pytest.mark.parametrize("kind", OF_FILES)
def test_what_each_type_of_a_file_may_be(tmp_path, kind, zone):
    column, *refusals = OF_FILES[kind]
    pq.write_table(pa.table({"left": column}), tmp_path / "r.parquet")
    refusal = refusals[not zone]
    found = outcome(tmp_path / "r.parquet", declared(zone=zone))
    assert refusal in found if refusal else not found


@pytest.mark.parametrize("person", [False, True])
@pytest.mark.parametrize("zone", [True, False])
@pytest.mark.parametrize("kind", TYPES)
def test_what_each_type_of_a_table_may_be(engine, socket, tmp_path, kind, zone, person):  # noqa: F811
    column, *refusals = TYPES[kind]
    if engine == "spark" and pa.types.is_decimal(column.type):
        column = column.cast(pa.decimal128(20, 2))
    records = pa.table({"left": column, "who": ["p"]})
    found = outcome(stored(engine, records, tmp_path, socket), declared(zone=zone, person=person))
    assert refusals[not zone] in found if refusals[not zone] else not found


def test_a_time_of_day_is_that_of_its_instants_alone(engine, socket, tmp_path):  # noqa: F811
    """A column may have the name of the derived attribute, beside the instants or without them."""
    named = pa.table({"left": pa.array([utc(INSTANT)]), "hour": pa.array([7])})
    named = named.set_column(0, "left", named["left"].cast(pa.timestamp("us", tz="UTC")))
    hour = {"name": "hour", "time_of": "left", "edges": ["00:00", "24:00"]}
    attributes = [{"name": "left", "zone": "UTC", **DATES}, hour]
    schema = schema_of_table({"title": "t", "declared_by": "d", "attributes": attributes})
    for records in (named, named.drop_columns("left")):
        pq.write_table(records, tmp_path / "r.parquet")
        for place in (tmp_path / "r.parquet", stored(engine, records, tmp_path, socket)):
            if "left" not in records.column_names:
                with (
                    pytest.raises(MissingAttributeError) as caught,
                    open_source(place, schema, USUAL, None) as source,
                ):
                    source.count([("hour",)])
                assert caught.value.fields["attribute"] == "left"
                continue
            with open_source(place, schema, USUAL, None) as source:
                assert source.read((), ("hour",), most_records=9)[1]["hour"].tolist() == [5 * 60 + 15]


def test_a_mark_of_missing_instants_is_refused_in_a_table(engine, socket, tmp_path):  # noqa: F811
    """Texts of instants differ from one engine to the next."""
    attribute = {"name": "left", "zone": "UTC", **DATES, "missing": ["1900-01-01 00:00:00+00"]}
    schema = schema_of_table({"title": "t", "declared_by": "d", "attributes": [attribute]})
    column = pa.array([utc(INSTANT), None], pa.timestamp("us", tz="UTC"))
    address = stored(engine, pa.table({"left": column}), tmp_path, socket)
    assert "in a table only NULL is missing" in outcome(address, schema)
    attribute["missing"] = True
    schema = schema_of_table({"title": "t", "declared_by": "d", "attributes": [attribute]})
    with open_source(address, schema, USUAL, None) as table:
        assert [counts.tolist() for counts in table.count([("left",)])] == [[0, 1, 1]]


def test_times_of_earlier_schemas_are_counted_and_read_in_utc(engine, socket, tmp_path):  # noqa: F811
    """In tables and in files; a date alone is no time, and a text has the date that is written."""
    late = dt.datetime(2013, 1, 1, 23, 59)
    columns = {
        "left": pa.array([utc("2013-01-01T23:59:00"), utc("2013-01-02T00:00:00"), None]),
        "came": pa.array([late, MIDNIGHT, None], pa.timestamp("us")),
        "day": pa.array([MIDNIGHT.date()] * 3),
    }
    columns["left"] = columns["left"].cast(pa.timestamp("us", tz="UTC"))
    attributes = [
        {"name": name, "dates": ["2013-01-01", "2013-01-02", "2013-01-03"], "missing": True}
        for name in columns
    ]
    schema = schema_of_table({"title": "t", "declared_by": "d", "attributes": attributes})
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    texts = {name: pc.cast(column, pa.string()) for name, column in columns.items()}
    texts["left"] = pa.array(["2013-01-02T08:59:00+09:00", "2013-01-02T00:00:00Z", None])
    pyarrow.csv.write_csv(pa.table(texts), tmp_path / "r.csv")
    places = (tmp_path / "r.parquet", tmp_path / "r.csv")
    for place in (*places, stored(engine, pa.table(columns), tmp_path, socket)):
        with open_source(place, schema, USUAL, None) as source:
            source.check()
            found = {name: count for name, count in source.unzoned().items() if count}
            assert found == {"left": 2, "came": 1}
            written = place == tmp_path / "r.csv"
            assert source.count([("left",)])[0].tolist() == ([0, 2, 1] if written else [1, 1, 1])
            assert source.count([("came",)])[0].tolist() == [2, 0, 1]
