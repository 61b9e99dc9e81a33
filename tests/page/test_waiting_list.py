"""One list of what waits: page, API, notifications and metrics say the same of each kind of item."""

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import NamedTuple

import pytest

from gencard.client.steward import Steward as Client
from gencard.controller.failures import Refusals, error_document
from gencard.controller.notify import SENTENCES, post_of, sentences
from gencard.controller.people.keys import issue, read_authority
from gencard.controller.state import requests, stewards
from gencard.controller.state.requests import OperationState
from gencard.controller.stewards.waiting import EVERY_KIND
from gencard.core.errors import AnswerWaitingError, MeasurementRefusedError
from gencard.wire.steward import Kind, WaitingKind
from tests.page.by_http import http_steward, page_house
from tests.page.furniture import RUNS
from tests.page.served import uri_of
from tests.system.receivers import https_receiver
from tests.system.stewards import Steward
from tests.system.test_metrics import offer_metrics, read, values
from tests.system.test_word import tell

PAIRS = [("sex", "health")]
ITEM = re.compile(
    r'<span class="tag (\w+)">.*?<span class="path">([^<]*)</span>.*?<span class="waits[^"]*">([^<]*)<',
    re.DOTALL,
)


class Said(NamedTuple):
    """Kind, name and addressee of an item, as one interface states them."""

    kind: str
    resource: str
    waits_for: str


def expired(house, uri, file):
    """Put a certificate that has ended in the place of one in use."""
    authority, then = read_authority(house.folder / "authority"), datetime.now(UTC) - timedelta(days=91)
    file.write_bytes(issue(authority, uri, then).certificate_pem)


def decide(house, kind, resource, *names):
    for name in names:
        desk = Steward(house.controller.controller_state, uri_of(house, name))
        desk.decide(kind, resource)


def fail(state):
    """Let an operation on the records fail."""
    name, now = "operations/00000000000000ff", state.cards.clock()
    owner = "spiffe://gencard.local/pilot/analyst/ana"
    with state.database.transaction() as tx:
        fields = {"kind": "measure", "resource": "datasets/survey/cards/0", "request": b"{}"}
        requests.create_operation(tx, name, owner=owner, now=now, **fields)
        requests.move_operation(tx, name, OperationState.RUNNING, now, permille=1)
        error = error_document(MeasurementRefusedError())
        requests.move_operation(tx, name, OperationState.FAILED, now, error=error)


def fill(house):
    """Let items of each kind wait; one proposal waits for a second steward."""
    with house.analyst() as analyst:
        analyses = {"kinds": ["crosstab"], "checked_runs": 1, "numbers": 200}
        plain, first, offered, agreed = (
            analyst.propose("survey", PAIRS, purpose=purpose, analyses=asked).name
            for purpose, asked in (("a", None), ("b", None), ("c", None), ("d", analyses))
        )
        decide(house, Kind.APPROVE, first, "sam")
        for name in (offered, agreed):
            decide(house, Kind.APPROVE, name, "sam", "kim")
        with pytest.raises(AnswerWaitingError):
            analyst.card(agreed).accept().run("health ~ sex", "crosstab", progress=False)
    fail(house.controller.controller_state)
    decide(house, Kind.DISABLE, "people/kim", "sam")
    expired(house, uri_of(house, "aud"), house.person("aud") / "certificate.pem")
    health = house.folder / "health" / "certificate.pem"
    expired(house, uri_of(house, "aud"), health)
    return {
        Said("proposal", plain, "a steward"),
        Said("proposal", first, "another steward"),
        Said("offer", offered, "the analyst"),
        Said("refusal", "operations/00000000000000ff", "a steward"),
        Said("decision", "people/kim", "another steward"),
        Said("certificate", "people/aud", "a steward"),
        Said("certificate", "health.certificate", "a steward"),
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    house = page_house(tmp_path_factory.mktemp("list"), f"{RUNS}stewards = 2\n")
    offer_metrics(house, 0)
    yield house.start()
    house.stop()


@pytest.fixture(scope="module")
def expected(house):
    return fill(house)


@pytest.fixture(scope="module")
def by_api(house, expected):
    """Items as ``gencard steward queue`` lists them."""
    with Client.connect(house.address, folder=house.person("sam")) as client:
        return [Said(one.kind, one.resource, one.waits_for) for one in client.queue()]


def test_the_api_lists_each_kind(by_api, expected):
    assert len(by_api) == len(set(by_api)), "none twice"
    (answer,) = {*by_api} - expected
    assert (answer.kind, answer.waits_for) == ("answer", "a steward")
    assert {*by_api} >= expected
    assert {one.kind for one in by_api} == {*map(str, WaitingKind)}


def test_the_page_lists_the_same(house, by_api):
    with http_steward(house, "sam") as sam:
        page = sam.http.get("/").text
    table = page.partition('<table class="list queue">')[2].partition("</table>")[0]
    assert [Said(*map(unescape, one)) for one in ITEM.findall(table)] == by_api


def test_pages_of_each_size_list_the_same(house, by_api):
    desk = Steward(house.controller.controller_state)
    for size in range(1, len(by_api) + 1):
        rows, token = [], ""
        while True:
            page = desk.desk.queue(desk.who, size, token)
            rows += page.rows
            if not (token := page.next_token):
                break
        assert [Said(one.kind, one.resource, one.waits_for) for one in rows] == by_api


def test_notifications_say_the_same(house, by_api, tmp_path):
    waits = [one for one in by_api if one.waits_for != "the analyst"]
    expected = {one.kind for one in waits} | {"decision"}
    before = house.settings_file.read_text()
    with https_receiver(tmp_path / "receiver") as receiver:
        tell(house, receiver)
        state = house.controller.controller_state
        post = post_of(replace(state, settings=house.settings()))
        assert post.collect()
        post.deliver(*post.channels)
    house.settings_file.write_text(before)
    document = json.loads(receiver.came[0][1])
    assert set(document["data"]["waiting"]) == expected
    assert sentences(expected) == document["text"].splitlines()[:-1]
    with state.database.reading() as tx:
        seconds = sum(one.waits_for == "another steward" and one.kind != "decision" for one in waits)
        assert len(stewards.announced_digests(tx)) == len(waits) + seconds


def test_metrics_count_the_same_proposals(house, by_api):
    metrics = values(read(house))
    shown = {name[1]: value for name, value in metrics.items() if name[0] == "gencard_waiting"}
    assert shown == {"proposal": Counter(one.kind for one in by_api)["proposal"]}


def test_each_kind_for_a_steward_has_a_sentence():
    assert {*SENTENCES} - {"long", "test"} == {*EVERY_KIND} - {WaitingKind.OFFER}


def test_a_first_decision_on_a_refusal_that_blocks_nobody_is_listed(house, by_api, monkeypatch):
    """A refused run can be dismissed before it waits, and then a second steward has to know."""
    (refusal,) = (one.resource for one in by_api if one.kind == "refusal")
    decide(house, Kind.DISMISS_REFUSAL, refusal, "sam")
    state = house.controller.controller_state
    with state.database.reading() as tx:
        assert refusal in {one.resource for one in state.desk().waiting.items(tx).rows}
        monkeypatch.setattr(Refusals, "waiting", lambda _self, _tx: [])
        items = state.desk().waiting.items(tx).rows
        assert [one.kind for one in items if one.resource == refusal] == ["decision"]
        assert refusal in {one.resource for one in state.desk().waiting.firsts(tx)}
