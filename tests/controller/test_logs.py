"""S16: lines of known keys, and no text of anybody else."""

import io
import json
import logging

import pytest

from gencard.controller.base import logs
from gencard.controller.base.fair_use import trace_id, traced
from gencard.controller.wiring.serving import report

SECRET = "CANARY-Ann-Smith-HIV"


@pytest.fixture
def lines():
    """Read the output of a configured process back as JSON."""
    stream, root = io.StringIO(), logging.getLogger()
    before, level = root.handlers[:], root.level
    for handler in before:
        root.removeHandler(handler)
    handler = logs.configure(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    root.removeHandler(handler)
    for old in before:
        root.addHandler(old)
    root.setLevel(level)


def test_s16_an_incident_carries_its_three_fields(lines):
    report("/gencard.v1.CatalogService/ListDatasets", "0a1b2c", "KeyError")
    (line,) = lines()
    assert line.pop("time").endswith("Z")
    assert line.pop("trace") == trace_id()
    assert line == {
        "level": "ERROR",
        "logger": "gencard.controller",
        "event": "incident",
        "place": "/gencard.v1.CatalogService/ListDatasets",
        "incident": "0a1b2c",
        "kind": "KeyError",
    }


def test_s16_nothing_else_of_a_record_is_written(lines):
    try:
        raise KeyError(SECRET)
    except KeyError:
        logging.getLogger("grpc._server").exception("Exception calling application: %s", SECRET)
        logging.getLogger("sqlalchemy.engine").error(SECRET)
        logging.getLogger("gencard.controller").error("about %s", SECRET, stack_info=True)
        logging.getLogger("gencard.controller").error(
            "incident", extra={"request": SECRET}, exc_info=True
        )
        logging.getLogger("gencardlike").error(SECRET)
    written = lines()
    assert SECRET not in json.dumps(written)
    assert [line["event"] for line in written] == [logs.WITHHELD] * 3 + ["incident", logs.WITHHELD]
    assert {key for line in written for key in line} == {"time", "level", "logger", "event", "trace"}


def test_s16_one_record_is_one_short_line(lines):
    report("a\nb", "1", "x" * 10_000)
    (line,) = lines()
    assert line["place"] == "a\nb"
    assert len(line["kind"]) == logs.LONGEST


def test_s16_grpc_is_redacted_for_every_handler(caplog):
    logs.silence_grpc()
    logs.silence_grpc()
    assert len(logging.getLogger("grpc._server").filters) == 1
    try:
        raise KeyError(SECRET)
    except KeyError:
        logging.getLogger("grpc._server").exception(SECRET)
    assert SECRET not in caplog.text


def test_a_line_names_the_work_that_it_is_about(lines):
    with traced("ab" * 16):
        report("release", "1", "KeyError")
        with traced("cd" * 16):
            report("release", "2", "KeyError")
        report("release", "3", "KeyError")
    report("settings", "4", "KeyError")
    first, inner, again, outside = (line["trace"] for line in lines())
    assert (first, inner, again) == ("ab" * 16, "cd" * 16, "ab" * 16)
    assert len(outside) == 32
    assert outside == trace_id() != first
