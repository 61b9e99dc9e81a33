"""S53 at the page: where two stewards decide, one alone disables no steward and enrols no analyst."""

import pytest

from gencard.client import new_request
from gencard.controller.stewards.desk import DecisionChannel
from gencard.wire.keys import Identity
from gencard.wire.steward import Kind
from tests.page.by_http import http_steward, page_running
from tests.page.served import uri_of


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with page_running(tmp_path_factory.mktemp("two"), "stewards = 2\n") as house:
        yield house


@pytest.fixture
def stewards(house):
    with http_steward(house, "sam") as sam, http_steward(house, "kim") as kim:
        yield sam, kim


def shown(house, kind, resource, **arguments):
    """Digest of what the page shows before a decision."""
    desk = house.controller.controller_state.desk(DecisionChannel("page"))
    return desk.preview(Identity.of(uri_of(house, "sam")), Kind(kind), resource, arguments).shown


def is_enabled(house, name):
    return "disabled = true" not in (house.folder / "identities" / f"{name}.toml").read_text()


def test_s53_one_steward_does_not_disable_the_other(house, stewards):
    sam, kim = stewards
    given = {"path": "/people", "shown": shown(house, "disable", "people/kim")}
    assert sam.decide("disable", "people/kim", **given).status_code == 303
    assert sam.decide("disable", "people/kim", **given).status_code == 409
    assert is_enabled(house, "kim")
    assert "disable, decided by" in kim.http.get("/").text
    assert "Two stewards must agree on this." in kim.http.get("/people").text


def test_s53_two_stewards_enrol_an_analyst(house, stewards, tmp_path):
    keys = new_request(tmp_path, "ben")
    arguments = {"request": keys.file.read_text(), "role": "analyst", "project": "pilot"}
    arguments |= {"fingerprint": keys.fingerprint, "address": "localhost:1"}
    given = {"path": "/people", "shown": shown(house, "enrol", "people/ben", **arguments), **arguments}
    file = house.folder / "identities" / "ben.toml"
    sam, kim = stewards
    assert sam.decide("enrol", "people/ben", **given).status_code == 303
    assert not file.exists()
    assert kim.decide("enrol", "people/ben", **given).is_success
    assert file.exists()
