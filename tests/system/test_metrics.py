"""Metrics of a real service: what happened is counted, and nothing in them depends on a record."""

import re
import socket
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gencard.controller.upkeep import metrics
from gencard.core.errors import GencardError, InvalidInputError
from tests.system.house import build, survey

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
    assert seen["gencard_operations", "succeeded", "release"] == 1
    assert 0 < seen["gencard_ledger_used_ratio", "survey", "statistics"] < 1
    assert seen["gencard_waiting", "refusal"] == 0
    assert seen["gencard_log_entries",] > 2
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
    assert "gencard_log_entries" in read(house)


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


def stable(text):
    """Without how often a client asked whether it is done yet, and when certificates were made.

    A client that has all rows may leave before their stream has ended, or after.
    """
    text = re.sub('"CANCELLED"(.*StreamRows)', r'"OK"\1', text)
    lines = [line for line in text.splitlines() if not re.search("Operation|certificate_end", line)]
    return "\n".join(lines)
