"""Records in a request to a program: bytes of the request, and nothing that its card leaves out."""

from io import BytesIO
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

from gencard.controller.jobs import answering as programs
from gencard.controller.jobs.executor import ignore_progress
from gencard.controller.jobs.tasks import ProgramJob, ProgramPart, RecordsSource
from gencard.controller.records.file_format import USUAL
from gencard.controller.records.schema_file import schema_of_table
from gencard.controller.records.vault import Vault
from gencard.core.errors import InvalidInputError
from gencard.run.levels import Stored, by_levels
from gencard.run.r_language import bytes_of_r_request
from gencard.run.session import frame_of
from gencard.wire.black_box import BoxRequest, BoxTask, bytes_of_request, read_request

SALT = b"salt"
CLAMPED, ROUNDED, SALARY = 51_234.56, 12.345, 498_765.0
SCHEMA = {
    "title": "Visits",
    "declared_by": "the tests",
    "attributes": [
        {"name": "ward", "labels": ["007", "7"], "missing": True},
        {"name": "spent", "edges": [0, 10, 1_000], "step": "0.01", "above": "highest"},
        {"name": "salary", "edges": [0, 50_000, 400_000, 500_000], "step": "1"},
        {"name": "hours", "edges": [0, 20, 80], "step": "1"},
        {"name": "age", "edges": [0, 40, 130], "integer": True, "age_at": "2020-01-01"},
        {"name": "came", "dates": ["2013-01-01", "2013-12-31"], "zone": "America/New_York"},
        {"name": "clock", "time_of": "came", "edges": ["00:00", "12:00", "24:00"]},
        {"name": "rich", "of": "salary", "edges": [0, 400_000, 500_000]},
    ],
}
CARD = ("ward", "spent", "hours", "age", "clock", "rich")
"""Attributes on the card: the schema's, without salary and the day."""

PERSONS = {"person": "id", "most_records": 2}
COLUMNS = ("age", "clock", "spent")


def people(records: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    times = pd.Timestamp("2013-03-01", tz="UTC") + pd.to_timedelta(
        rng.integers(0, 200 * 86_400, records), unit="s"
    )
    frame = pd.DataFrame(
        {
            "id": [f"CANARY-{place // 4}" for place in range(records)],
            "ward": rng.choice(["007", "7", None], records),
            "spent": np.append([CLAMPED, ROUNDED], rng.integers(0, 99_000, records - 2) / 100),
            "salary": np.append([SALARY], rng.integers(1, 400_000, records - 1)),
            "hours": rng.integers(1, 80, records),
            "age": pd.to_datetime(rng.integers(-9_000, 9_000, records), unit="D").strftime("%Y-%m-%d"),
            "came": times.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "note": [f"CANARY {place}" for place in range(records)],
        }
    )
    return frame.sample(frac=1, random_state=1)


def request_at_records(folder, table: dict[str, Any], columns: tuple[str, ...]) -> BoxRequest:
    """The request that a program's job makes at the records."""
    path, schema = folder / "records.csv", schema_of_table(table)
    people().to_csv(path, index=False)
    persons = schema.persons(SALT)
    version = Vault(path, schema.coding, schema.readings, persons=persons).version(SALT)
    records = RecordsSource(str(path), False, USUAL, schema, version, SALT, 10_000, "")
    made: list[BoxRequest] = []

    def outputs(dataset, coding, agreed, stored, *, seed):
        made.append(BoxRequest(BoxTask.ANALYSE, dataset, 0, seed, coding=coding, stored=stored))
        return agreed

    sandboxed = SimpleNamespace(of_recipe=lambda *_: SimpleNamespace(agreed_outputs=outputs))
    part = ProgramPart(SimpleNamespace(), (), 500, 0, columns)
    with patch.object(programs, "SandboxedAnalysis", sandboxed):
        programs.run_once(ProgramJob(part, records, CARD), ignore_progress)
    return made[0]


@pytest.fixture(params=[{}, PERSONS], ids=["records", "persons"])
def request_made(request, tmp_path) -> BoxRequest:
    return request_at_records(tmp_path, {**SCHEMA, **request.param}, COLUMNS)


def test_it_has_the_attributes_of_the_card_and_numbers_of_its_columns(request_made):
    assert request_made.dataset.domain.attributes == CARD
    assert request_made.coding.domain.attributes == CARD
    assert {*request_made.stored} == {*COLUMNS}
    assert {len(one) for one in request_made.stored.values()} == {len(request_made.dataset)}
    assert by_levels(request_made.coding, CARD, COLUMNS) == ("hours", "rich")


def test_no_byte_of_it_is_a_value_that_the_card_leaves_out(request_made):
    frame = people()
    days = (pd.to_datetime(frame["came"]).dt.tz_localize(None) - pd.Timestamp(0)).dt.days
    born = (pd.to_datetime(frame["age"]) - pd.Timestamp(0)).dt.days
    numbers = [CLAMPED, ROUNDED, *frame["salary"], *days, *born[born.abs() > 200]]
    for made in (bytes_of_request(request_made), bytes_of_r_request(request_made)):
        assert np.float64(1_000).tobytes() in made, "a value that counts as the last edge"
        for number in numbers:
            assert np.float64(number).tobytes() not in made
            assert repr(float(number)).encode() not in made
        assert b"CANARY" not in made


def test_numbers_are_rounded_clamped_and_in_time(request_made):
    spent, clock = request_made.stored["spent"], request_made.stored["clock"]
    assert (spent == (spent * 100).round() / 100).all()
    assert 0 <= spent.min() <= spent.max() == 1_000
    assert (clock == clock.round()).all()
    assert 0 <= clock.min() <= clock.max() < 24 * 60
    assert (request_made.stored["age"] == request_made.stored["age"].round()).all(), "whole years"


def test_numbers_stand_beside_the_codes_of_their_records(tmp_path):
    """Records are in the order of the file; of persons, numbers and codes are left out together."""
    made = request_at_records(tmp_path, SCHEMA, COLUMNS)
    frame = frame_of(made.dataset, made.coding, Stored(made.stored))
    expected = people()
    pd.testing.assert_series_equal(
        frame["ward"].astype(object), expected["ward"].reset_index(drop=True), check_dtype=False
    )
    np.testing.assert_array_equal(frame["hours"] == 9.5, expected["hours"] < 20)
    whole = expected.assign(
        spent=(np.floor(expected["spent"] * 100 + 0.5 + 1e-9) / 100).clip(upper=1_000)
    )
    np.testing.assert_array_equal(frame["spent"], whole["spent"])
    of_persons = request_at_records(tmp_path, {**SCHEMA, **PERSONS}, COLUMNS)
    kept = frame_of(of_persons.dataset, of_persons.coding, Stored(of_persons.stored))
    keys = ["ward", "spent", "hours", "age", "clock"]
    both = kept[keys].astype(str).merge(frame[keys].astype(str), how="left", indicator=True)
    assert (len(kept), {*both["_merge"]}) == (2 * 15, {"both"})


@pytest.mark.parametrize("name", ["rich", "ward"])
def test_no_job_gets_numbers_of_what_is_derived_or_has_labels(tmp_path, name):
    with pytest.raises(InvalidInputError, match=name):
        request_at_records(tmp_path, SCHEMA, (name,))


def test_the_program_reads_the_same_frame(request_made):
    again = read_request(BytesIO(bytes_of_request(request_made)))
    frames = [frame_of(one.dataset, one.coding, Stored(one.stored)) for one in (request_made, again)]
    pd.testing.assert_frame_equal(*frames)
    types = ["category", "float64", "float64", "int64", "int64", "float64"]
    assert [*map(str, frames[1].dtypes)] == types
