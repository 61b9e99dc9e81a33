"""A real Chromium at the stewards' page: visitors with passkeys, and what no page may do to them."""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    ConsoleMessage,
    Dialog,
    FloatRect,
    Locator,
    Page,
    Request,
    Response,
    sync_playwright,
)

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")

WIDE, NARROW = (1_200, 820), (380, 780)
"""Width and height of a visitor's window, in pixels."""

_SWITCHES = ("--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb")
_PASSKEY = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}
_GRAVE = ("serious", "critical")
_STANDARDS = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],  # of what passes or applies nowhere, one element each is listed
}
_AXE = Axe()


@contextmanager
def chromium_running() -> Iterator[Browser]:
    """Debian's Chromium; without its own sandbox where the tests run as root, which it refuses."""
    switches = [*_SWITCHES, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=switches)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watch:
    """Events in a visitor's pages that no input may cause.

    Args:
        origin: The page's own; requests to any other are foreign.
    """

    origin: str
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Errors of scripts and of the content security policy, as the console shows them."""
    foreign: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Responses of 500 and above."""

    def over(self, context: BrowserContext) -> None:
        """Watch every page of a context, those it opens later too."""
        context.on("dialog", self._dialog)
        context.on("console", self._console)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("request", self._request)
        context.on("response", self._response)

    def _dialog(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _console(self, message: ConsoleMessage) -> None:
        # Chromium reports every status of 400 and above there; the pages say it themselves.
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            self.errors.append(message.text)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.origin}/", "about:", "data:")):
            self.foreign.append(request.url)

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.failures.append(f"{response.status} {response.url}")

    def assert_calm(self) -> None:
        """Assert that the watch is empty."""
        seen = self.dialogs, self.errors, self.foreign, self.failures
        assert seen == ([], [], [], []), seen


@dataclass(frozen=True)
class Visitor:
    """One person's browser: cookies and passkeys of its own."""

    context: BrowserContext
    page: Page
    watch: Watch
    devtools: CDPSession
    authenticator: str

    @property
    def passkeys(self) -> list[Mapping[str, Any]]:
        """Return the content of the virtual authenticator, private keys included."""
        held = self.devtools.send("WebAuthn.getCredentials", {"authenticatorId": self.authenticator})
        return list(held["credentials"])

    def add_passkey(self, credential: Mapping[str, Any]) -> None:
        """Put in what ``passkeys`` of another visitor gave: a copied key."""
        sent = {"authenticatorId": self.authenticator, "credential": dict(credential)}
        self.devtools.send("WebAuthn.addCredential", sent)

    def verify_user(self, verified: bool) -> None:
        """Set whether the authenticator knows its user, by finger or PIN."""
        sent = {"authenticatorId": self.authenticator, "isUserVerified": verified}
        self.devtools.send("WebAuthn.setUserVerified", sent)

    def open(self, path: str) -> Page:
        """Go to a path of the page."""
        self.page.goto(self.watch.origin + path)
        return self.page

    def cookies(self) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self.context.cookies()}


@contextmanager
def visitor(
    browser: Browser, origin: str, *, dark: bool = False, size: tuple[int, int] = WIDE
) -> Iterator[Visitor]:
    """A new person at the page, who trusts its certificate unseen: a test of TLS does not use this."""
    context = browser.new_context(
        ignore_https_errors=True,
        color_scheme="dark" if dark else "light",
        viewport={"width": size[0], "height": size[1]},
        locale="en-GB",
        timezone_id="UTC",
        reduced_motion="reduce",
    )
    context.set_default_timeout(15_000)
    watch = Watch(origin)
    watch.over(context)
    page = context.new_page()
    devtools = context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    made = devtools.send("WebAuthn.addVirtualAuthenticator", {"options": _PASSKEY})
    try:
        yield Visitor(context, page, watch, devtools, made["authenticatorId"])
    finally:
        context.close()


def grave_findings(page: Page) -> list[str]:
    """List the findings of axe-core on the page that are serious or critical: rule and element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE.axe_script)
    found = f"axe.run({json.dumps(_STANDARDS)}).then(results => results.violations)"
    violations = page.evaluate(found)
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        for one in violations
        if one["impact"] in _GRAVE
        for node in one["nodes"]
    ]


def sideways(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    return int(
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    )


def first_paint(page: Page) -> float:
    """Milliseconds from navigation to the first paint with content, as the browser measured them."""
    entries = "performance.getEntriesByName('first-contentful-paint').map(one => one.startTime)"
    for _ in range(500):  # the page's policy forbids what playwright waits with
        if painted := page.evaluate(entries):
            return float(painted[0])
        page.wait_for_timeout(10)
    raise TimeoutError


def weight(page: Page) -> int:
    """Bytes of the page and all that it loaded, without their headers, uncompressed."""
    kinds = "['navigation', 'resource'].flatMap(kind => performance.getEntriesByType(kind))"
    return int(page.evaluate(f"{kinds}.reduce((sum, one) => sum + one.decodedBodySize, 0)"))


def take_picture(page: Page, picture: Path, *, height: int, top: Locator) -> None:
    """The page from an element on in 64 colours, as high as asked: the same bytes for the same page."""
    assert page.viewport_size is not None
    box = top.bounding_box()
    assert box is not None
    scrolled = page.evaluate("window.scrollY")
    shown: FloatRect = {
        "x": 0,
        "y": box["y"] + scrolled,
        "width": page.viewport_size["width"],
        "height": height,
    }
    page.screenshot(path=picture, clip=shown, full_page=True, animations="disabled", caret="hide")
    with Image.open(picture) as file:
        image = file.convert("RGB")
    image.quantize(64).save(picture, optimize=True)
