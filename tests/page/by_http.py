"""Stewards at the page with nothing but HTTP and a passkey in software; a house whose clock is set."""

import json
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from uuid import uuid4

import httpx
from sqlalchemy import select

from gencard.controller.state.tables import checkpoints, metadata
from gencard.controller.wiring.serving import serve
from gencard.core.errors import NotFoundError
from gencard.wire.canonical import sha256
from tests.page.served import origin_of, passkey_link, uri_of, with_page
from tests.page.software_key import SoftwareKey
from tests.system.house import Clock, House

_FIELD = r'name="{}" value="([^"]*)"'


@dataclass
class PageHouse(House):
    """A house with a page whose clock can be set ahead."""

    clock: Clock = field(default_factory=Clock)

    @property
    def authority(self) -> Path:
        return self.folder / "authority" / "certificate.pem"

    @property
    def origin(self) -> str:
        return origin_of(self)

    def start(self) -> "PageHouse":
        self.controller = serve(self.settings(), self.clock)
        return self

    def link(self, name: str) -> str:
        """The secret of a new one-time link."""
        return passkey_link(self, name).partition("#")[2]

    def content(self) -> str:
        """A digest of all that the state holds: what has no effect leaves it as it is.

        Without checkpoints: whoever looks at an entry of the log has its present root signed.
        """
        assert self.controller is not None
        with self.controller.controller_state.database.reading() as tx:
            rows = [
                [table.name, *map(str, tx.execute(select(table)).all())]
                for table in metadata.sorted_tables
                if table is not checkpoints
            ]
        return sha256(json.dumps(rows).encode())


def page_house(folder: Path, policy: str = "") -> PageHouse:
    """Two stewards, sam and kim, to whom the policy leaves every proposal; not yet started.

    Args:
        policy: Further lines of it.
    """
    house = PageHouse(with_page(folder).folder)
    text = house.settings_file.read_text()
    house.settings_file.write_text(
        text.replace("automatic = false\n", f"automatic = false\n{policy}", 1)
    )
    return house


@contextmanager
def page_running(folder: Path, policy: str = "") -> Iterator[PageHouse]:
    house = page_house(folder, policy)
    try:
        yield house.start()
    finally:
        house.stop()


@dataclass
class HttpSteward:
    """A steward who speaks HTTP, with a passkey in software."""

    house: PageHouse
    name: str
    key: SoftwareKey
    http: httpx.Client

    @classmethod
    def of(cls, house: PageHouse, name: str) -> "HttpSteward":
        """One who has neither passkey nor session."""
        trust = ssl.create_default_context(cafile=str(house.authority))
        http = httpx.Client(base_url=house.origin, verify=trust, headers={"origin": house.origin})
        return cls(house, name, SoftwareKey(house.origin), http)

    def enrol(self, link: str = "") -> httpx.Response:
        """Make a passkey by a link."""
        link = link or self.house.link(self.name)
        options = self.http.post("/passkey/options", data={"link": link})
        if options.is_error:
            return options
        made = json.dumps(self.key.registered(options.json()))
        return self.http.post("/passkey", data={"link": link, "credential": made})

    def assertion(self, **changes: object) -> str:
        """A fresh answer to a sign-in's challenge.

        Args:
            changes: What the key says otherwise than it should.
        """
        options = self.http.post("/sign-in/options").json()
        self.key = self.key.but(count=self.key.count + 1)
        return json.dumps(self.key.but(**changes).asserted(options))

    def sign_in(self, assertion: str = "") -> httpx.Response:
        return self.http.post("/sign-in", data={"assertion": assertion or self.assertion()})

    def field(self, path: str, name: str) -> str:
        """The value of a hidden field on a page."""
        values = re.findall(_FIELD.format(name), self.http.get(path).text)
        assert values, f"{path} has no {name}"
        return unescape(values[0])

    def decide(self, kind: str, resource: str, path: str = "", **fields: str) -> httpx.Response:
        """Send the form of a decision, with the passkey where that is asked for."""
        path = path or f"/cards/{resource}"
        sent = {
            "csrf": self.field(path, "csrf"),
            "shown": self.field(path, "shown"),
            "kind": kind,
            "resource": resource,
            "reason": "as agreed",
            "request_id": str(uuid4()),
        } | fields
        options = self.http.post("/decide/options", data=sent)
        if options.status_code == 200:
            self.key = self.key.but(count=self.key.count + 1)
            sent |= {"assertion": json.dumps(self.key.asserted(options.json()))}
        return self.http.post("/decide", data=sent)


@contextmanager
def http_steward(house: PageHouse, name: str, *, signed_in: bool = True) -> Iterator[HttpSteward]:
    """A steward with a passkey, taken off in the end, and usually with a session."""
    assert house.controller is not None
    steward, uri = HttpSteward.of(house, name), uri_of(house, name)
    with steward.http:
        assert steward.enrol().status_code == 303
        if signed_in:
            assert steward.sign_in().status_code == 303
        yield steward
    with suppress(NotFoundError):
        key = sha256(steward.key.identifier)
        house.controller.controller_state.passkeys.remove(uri, uri, key)
