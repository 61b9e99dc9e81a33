"""``gencard-controller person passkey``, and what settings of a page are refused."""

import re

import pytest

from gencard.controller.settings import Settings
from gencard.controller.wiring.opening import open_controller_state
from gencard.core.errors import InvalidInputError
from tests.system.house import build
from tests.system.people import steward

PAGE = '\n[page]\naddress = "127.0.0.1:7444"\n'


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A controller that does not run."""
    house = build(tmp_path_factory.mktemp("links"))
    with house.settings_file.open("a") as settings:
        settings.write(PAGE)
    return house


@pytest.fixture
def state(house):
    opened = open_controller_state(house.settings())
    yield opened
    opened.database.close()


def passkey(house, *words):
    return steward(house, "person", "passkey", *words)


def test_a_link_is_printed_once_and_kept_as_a_digest(house, state):
    printed = passkey(house, "sam").output
    (token,) = re.findall(r"https://localhost:7444/passkey#(\S+)", printed)
    assert state.passkeys.holder_of_link(token).endswith("/steward/sam")
    assert token.encode() not in (house.folder / "state" / "state.sqlite").read_bytes()


def test_passkeys_are_listed_and_removed_by_the_shell(house, state):
    kept = state.passkeys.add(state.passkeys.new_link(uri(state), uri(state)), b"id", b"key", 0)
    assert kept.key[:16] in passkey(house, "sam").output
    assert "Removed: 1 passkey of sam" in passkey(house, "sam", "--remove", kept.key[:8]).output
    assert not state.passkeys.is_kept(kept.key)
    assert "does not exist" in str(passkey(house, "sam", "--remove", "all").exception)
    with state.database.reading() as tx:
        assert b"remove-passkey" in state.log.entry(tx, state.log.size(tx) - 1)


def uri(state):
    return f"spiffe://{state.settings.identity.trust_domain}/pilot/steward/sam"


@pytest.mark.parametrize("name", ["ana", "nobody"])
def test_nobody_but_a_steward_gets_a_link(house, name):
    assert isinstance(passkey(house, name).exception, InvalidInputError)


def test_a_disabled_steward_gets_no_link(house):
    try:
        steward(house, "person", "disable", "sam")
        assert "is disabled" in str(passkey(house, "sam").exception)
    finally:
        steward(house, "person", "enable", "sam")


@pytest.mark.parametrize(
    "lines",
    [
        'address = "0.0.0.0:7444"',
        'address = "192.0.2.1:7444"',
        'origin = "http://desk.example"',
        'origin = "https://127.0.0.1:7444"',
        'origin = "https://desk.example/page"',
        'origin = "https://sam@desk.example"',
        "idle_minutes = 0",
        "idle_minutes = 600",
    ],
)
def test_a_page_is_on_loopback_by_a_name_and_its_sessions_end(house, lines):
    file = house.folder / "other.toml"
    file.write_text(f"{house.settings_file.read_text().replace(PAGE, '')}\n[page]\n{lines}\n")
    with pytest.raises(InvalidInputError, match="page"):
        Settings.load(file)
