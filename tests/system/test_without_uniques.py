"""Releases without replicated uniques: nobody can find out which are missing, or if any had to be."""

import threading
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest

from gencard.client.checking.bundle import Bundle, Keys, Outcome, verify
from gencard.client.connection.connection import cancel
from gencard.controller import operations as run_module
from gencard.controller import releases as run
from gencard.core.errors import (
    CardStateError,
    DatasetUnavailableError,
    InvalidInputError,
    JobLimitError,
    NotReplayableError,
    ServiceBusyError,
    StorageError,
    UniqueFreeFailedError,
)
from gencard.measures.privacy.disclosure import replicated_rows
from gencard.v1 import synthesis_pb2
from tests.system.house import build, request_id
from tests.system.raw_calls import configure, eventually, is_idle, state_unchanged

WIDE = """
title = "Many levels"
declared_by = "the tests"
reviewed = true

[[attributes]]
name = "one"
labels = [{labels}]

[[attributes]]
name = "two"
labels = [{labels}]
"""
LEVELS = [f"l{number}" for number in range(20)]
RECORDS = 250
BOTH = [("one", "two")]
SEVERAL = 400
"""Rows among which there are enough of each kind; a row that is alone is always a record's twin."""


@pytest.fixture(scope="module")
def frame():
    """Every record is unique."""
    cells = np.random.default_rng(4).permutation(len(LEVELS) ** 2)[:RECORDS]
    found = np.divmod(cells, len(LEVELS))
    return pd.DataFrame({name: np.array(LEVELS)[found[place]] for place, name in enumerate(BOTH[0])})


@pytest.fixture(scope="module")
def house(tmp_path_factory, frame):
    schema = WIDE.format(labels=", ".join(f'"{label}"' for label in LEVELS))
    built = build(tmp_path_factory.mktemp("wide"), frame, schema)
    built.edit({"most_per_card": "{ statistics = 1_000 }"})
    configure(built, "datasets.policy", without_uniques="true")
    built.raise_caps()
    built.settings_file.write_text(
        built.settings_file.read_text().partition("\n[[black_boxes]]")[0] + "\n"
    )
    yield built.start()
    built.stop()


@pytest.fixture
def card(ana):
    return ana.propose("survey", BOTH, purpose="a test", rows=700, without_uniques=True).accept()


@pytest.fixture
def tasks(monkeypatch):
    """Names of the jobs that run, and what takes their place by name: an error or a function."""
    names, instead, real = [], {}, run_module.Run.job

    def job(self, task, description):
        names.append(task.name)
        if isinstance(instead.get(task.name), Exception):
            raise instead.pop(task.name)
        if task.name in instead:
            instead.pop(task.name)()
        return real(self, task, description)

    monkeypatch.setattr(run_module.Run, "job", job)
    return names, instead


def begin(analyst, card, rows):
    connection = analyst._connection
    request = synthesis_pb2.GenerateReleaseRequest(card=card.name, rows=rows, request_id=request_id())
    return connection.call(connection.synthesis.GenerateRelease, request)


def test_they_are_gone_and_nobody_can_find_out_which(ana, card, frame, tmp_path):
    plain = ana.propose("survey", BOTH, purpose="a test", rows=700).accept()
    made = plain.release(SEVERAL, seed=2, progress=False)
    assert card.price.statistics == plain.price.statistics + 1
    free = card.release(SEVERAL, progress=False)
    original = plain.agreement._rows_of(frame).dataset
    assert len(replicated_rows(original, made.dataset))
    assert not len(replicated_rows(original, free.dataset))
    assert len(free.dataset) == SEVERAL
    assert (free.receipt.seed, free.receipt.without_uniques) == (None, True)
    with pytest.raises(NotReplayableError):
        card.replay(free)
    with pytest.raises(CardStateError):
        card.release(SEVERAL, progress=False)
    with pytest.raises(InvalidInputError):
        card.release(SEVERAL, seed=3, progress=False)
    assert "without replicated uniques" in str(_checks(free, tmp_path, ana))


def _checks(release, folder, analyst):
    release.save(folder / "kept")
    keys = Keys.of(analyst._connection.credentials)
    checks = verify(Bundle.of([folder / "kept"]), keys, datetime.now(UTC))
    assert not [check for check in checks if check.outcome is Outcome.FAILED]
    return checks


class TestOneTry:
    """The number of rows without twins is a fact about records; a card discloses it once."""

    def test_a_failure_is_the_last_word_also_after_a_restart(self, house, ana, card, tasks):
        with pytest.raises(UniqueFreeFailedError):
            card.release(1, progress=False)
        assert tasks[0] == ["measure", "synthesise", "thin_out"]
        house.stop()
        house.start()
        with house.analyst() as again, state_unchanged(house), pytest.raises(UniqueFreeFailedError):
            again.card(card.name).release(SEVERAL, progress=False)
        assert tasks[0][3:] == []

    def test_all_failures_at_the_records_look_alike(self, card, tasks):
        tasks[1]["thin_out"] = JobLimitError(what="memory")
        for _ in range(2):
            with pytest.raises(UniqueFreeFailedError):
                card.release(SEVERAL, progress=False)

    def test_so_does_one_that_comes_after_them(self, card, monkeypatch):
        def full(*_):
            raise StorageError

        monkeypatch.setattr(run, "_move", full)
        for _ in range(2):
            with pytest.raises(UniqueFreeFailedError):
                card.release(SEVERAL, progress=False)

    def test_what_ends_before_the_records_are_seen_is_no_try(self, card, tasks):
        tasks[1]["thin_out"] = DatasetUnavailableError()
        with pytest.raises(DatasetUnavailableError):
            card.release(SEVERAL, progress=False)
        assert len(card.release(SEVERAL, progress=False).dataset) == SEVERAL

    def test_there_is_one_at_a_time_and_a_cancelled_one_told_nothing(self, house, ana, card, tasks):
        waits, goes_on = threading.Event(), threading.Event()
        tasks[1]["thin_out"] = lambda: (waits.set(), goes_on.wait(60))
        first = begin(ana, card, SEVERAL)
        assert waits.wait(60)
        with pytest.raises(ServiceBusyError):
            card.release(1, progress=False)
        cancel(ana._connection, first.name)
        goes_on.set()
        assert eventually(lambda: is_idle(house))
        assert len(card.release(SEVERAL, progress=False).dataset) == SEVERAL
