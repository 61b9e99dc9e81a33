"""A controller with a page on a free port, and stewards who are signed in at it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from gencard.wire.keys import Role
from tests.page.browsing import WIDE, Visitor, visitor
from tests.system.house import House, build

STEWARDS = ("sam", "kim")
"""Both are enrolled; sam is of the demonstration's people."""


def with_page(folder: Path, *, idle_minutes: int = 15) -> House:
    """A controller whose settings have a page, with two stewards; not yet started."""
    house = build(folder)
    house.edit({"automatic": "false"})
    with house.settings_file.open("a") as settings:
        settings.write(f'\n[page]\naddress = "127.0.0.1:0"\nidle_minutes = {idle_minutes}\n')
    house.enrol("kim", Role.STEWARD, "service")
    return house


def origin_of(house: House) -> str:
    """Return the origin of the page."""
    assert house.controller is not None
    assert house.controller.page is not None
    return house.controller.page.origin


def uri_of(house: House, name: str) -> str:
    """The URI of somebody enrolled."""
    assert house.controller is not None
    identities = house.controller.controller_state.settings.signing.identities
    line = (identities / f"{name}.toml").read_text().splitlines()[0]
    return line.partition('"')[2].rstrip('"')


def passkey_link(house: House, name: str) -> str:
    """A one-time link, as ``gencard-controller person passkey`` prints it."""
    assert house.controller is not None
    holder = uri_of(house, name)
    token = house.controller.controller_state.passkeys.new_link(holder, holder)
    return f"{origin_of(house)}/passkey#{token}"


def enrol_passkey(house: House, steward: Visitor, name: str) -> None:
    """Open the link, and make the passkey."""
    steward.page.goto(passkey_link(house, name))
    steward.page.get_by_role("button", name="Make the passkey").click()
    steward.page.wait_for_url("**/sign-in")


def sign_in(steward: Visitor) -> None:
    """With the passkey that the browser has."""
    steward.open("/sign-in")
    steward.page.get_by_role("button", name="Sign in").click()
    steward.page.get_by_role("heading", name="Queue").wait_for()


@contextmanager
def signed_in(
    house: House,
    browser: Browser,
    name: str = "sam",
    *,
    dark: bool = False,
    size: tuple[int, int] = WIDE,
) -> Iterator[Visitor]:
    """A steward's browser after the sign-in, with a new passkey."""
    with visitor(browser, origin_of(house), dark=dark, size=size) as steward:
        enrol_passkey(house, steward, name)
        sign_in(steward)
        yield steward


def decide_on(page: Page, button: str, reason: str = "seen", *, done: bool = True) -> None:
    """Fill the reason beside a button, and press it."""
    form = page.locator("form", has=page.get_by_role("button", name=button, exact=False)).first
    form.get_by_label("Reason").fill(reason)
    form.get_by_role("button", name=button).click()
    if done:
        page.get_by_role("status").wait_for()
    else:
        page.get_by_text("Request failed").first.wait_for()
