"""Metrics of a real service: what happened is counted, and nothing in them depends on a record."""

import socket
from typing import ClassVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from sqlalchemy import select

from gencard.controller.service import metrics
from gencard.controller.state.ledger import Account, Scope
from gencard.controller.state.tables import operations
from gencard.core.errors import GencardError, InvalidInputError
from tests.system.house import build, survey
from tests.system.raw_calls import configure
from tests.system.test_s25_checks import housed

PAIR = [("sex", "health")]


def with_metrics(folder, data=None):
    folder.mkdir(exist_ok=True)
    house = build(folder, data)
    offer_metrics(house, 0)
    return house.start()


def offer_metrics(house, port):
    with house.settings_file.open("a") as settings:
        settings.write(f'\n[metrics]\naddress = "127.0.0.1:{port}"\n')


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    built = with_metrics(tmp_path_factory.mktemp("metrics"))
    with built.analyst() as analyst:
        card = analyst.propose("survey", PAIR, purpose="To count", rows=100).accept()
        card.generate(5, progress=False)
        with pytest.raises(GencardError):
            analyst.card("cards/none")
    yield built
    built.stop()


def address(house):
    return f"http://127.0.0.1:{house.controller.metrics.port}/metrics"


def read(house):
    with urlopen(address(house), timeout=20) as answer:
        assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
        return answer.read().decode()


def values(text):
    return {
        (sample.name, *map(sample.labels.get, sorted(sample.labels, reverse=True))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_happened_is_counted(house):
    seen = values(read(house))
    propose = "/gencard.v1.NegotiationService/ProposeCard"
    assert seen["gencard_calls_total", propose, "OK"] == 1
    assert any(name[0] == "gencard_calls_total" and name[2] == "NOT_FOUND" for name in seen)
    assert seen["gencard_operations", "ended", "release"] == 1
    assert 0 < seen["gencard_ledger_used_ratio", "survey", "statistics"] < 1
    assert seen["gencard_waiting", "proposal"] == 0
    ends = [value for name, value in seen.items() if "certificate_end" in name[0]]
    assert len(ends) == 2
    assert min(ends) > 1_700_000_000


def test_other_paths_and_methods_are_not_there(house):
    for request in (
        Request(address(house).replace("metrics", "state")),
        Request(address(house), data=b"x"),
    ):
        with pytest.raises(HTTPError, match="404"):
            urlopen(request, timeout=20)


def test_who_sends_nothing_holds_few_places_and_not_for_ever(house, monkeypatch):
    assert metrics._Handler.timeout == metrics.REQUEST_SECONDS
    monkeypatch.setattr(metrics._Handler, "timeout", 2)
    port = house.controller.metrics.port
    held = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    for connection in held:
        connection.settimeout(60)
        assert connection.recv(1) == b""
        connection.close()
    assert "gencard_operations" in read(house)


def test_an_address_that_is_taken_starts_nothing(house, tmp_path):
    taken = build(tmp_path)
    offer_metrics(taken, house.controller.metrics.port)
    with pytest.raises(InvalidInputError, match=r"metrics\.address: is in use"):
        taken.start()


def test_other_records_give_the_same_metrics(tmp_path):
    """Two controllers that do the same, at records that have nothing in common."""
    texts = []
    for seed in (1, 2):
        house = with_metrics(tmp_path / str(seed), survey(seed=seed))
        try:
            with house.analyst() as analyst:
                analyst.propose("survey", PAIR, purpose="To count", rows=100).accept().generate(
                    5, progress=False
                )
            texts.append(read(house))
        finally:
            house.stop()
    first, second = map(stable, texts)
    assert first == second


class TestTwoWorlds:
    """One record more or less: what fails, what waits, what it costs; the metrics are the same."""

    CELLS: ClassVar = {
        ("female", "good"): 40,
        ("female", "fair"): 40,
        ("male", "good"): 40,
        ("male", "fair"): 40,
        ("male", "bad"): 40,
    }
    SETTINGS: ClassVar = {
        "release": {"transform": "{ threshold = 10, rounding = 5 }"},
        "run": {"analyses": '{ kinds = ["crosstab"], checked_runs = 80, numbers = 200 }'},
    }

    def ended(self, folder, kind, last):
        """End of the work if one cell has so many records; the ledger, and the metrics then."""
        folder.mkdir()
        house = housed(folder, "{}", {**self.CELLS, ("female", "bad"): last})
        configure(house, "datasets.policy", **self.SETTINGS[kind])
        house.raise_caps()
        offer_metrics(house, 0)
        house.start()
        analyses = {"kinds": ["crosstab"], "checked_runs": 2} if kind == "run" else None
        try:
            with house.analyst() as ana:
                card = ana.propose(
                    "survey", [("sex", "health")], purpose="a test", rows=100, analyses=analyses
                ).accept()
                try:
                    if kind == "run":
                        card.run("sex ~ health", "crosstab", progress=False)
                    else:
                        card.generate(rows=9, progress=False)
                    end = "released"
                except GencardError as error:
                    end = error.reason
            state = house.controller.controller_state
            with state.database.reading() as tx:
                spent = state.ledger.spent(tx, Account(Scope.DATASET, "datasets/survey"))
            return end, spent, stable(read(house))
        finally:
            house.stop()

    @pytest.mark.parametrize("kind", SETTINGS)
    def test_how_work_ended_does_not_show(self, kind, tmp_path):
        one, other = (self.ended(tmp_path / str(last), kind, last) for last in (10, 9))
        assert one[0] == "released"
        assert other[0] != "released"
        assert kind == "release" or one[1] != other[1], "the ledger differs"
        assert one[2] == other[2]

    def test_no_label_says_how_work_ended(self, house):
        with house.controller.controller_state.database.reading() as tx:
            states = set(tx.execute(select(operations.c.state)).scalars())
        assert states == {"succeeded"}
        words = ("succeeded", "failed", "cancelled", "refusal", "answer", "leakage", "verdict", "Rows")
        assert not [word for word in words if word in read(house)]


def stable(text):
    """The metrics without the time at which certificates end: they were made with the house."""
    return "\n".join(line for line in text.splitlines() if "certificate_end" not in line)
