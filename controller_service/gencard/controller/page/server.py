"""The page's server: TLS on a loopback port, in a thread of its own, bounded against slow callers."""

import asyncio
import logging
import ssl
import threading
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gencard.controller.base.listening import TlsFiles, bound
from gencard.controller.controller_state import ControllerState
from gencard.controller.page.application import PageParts, Report
from gencard.controller.page.oidc import oidc_of
from gencard.controller.page.passkeys import Ceremonies, Sessions
from gencard.controller.page.views import (
    answers,
    budget,
    cards,
    log,
    people,
    queue,
    releases,
    risk,
)
from gencard.controller.settings.stewards import PageTable
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import GencardError
from gencard.wire.keys import Identity

MODULES = (queue, cards, risk, answers, releases, budget, people, log)
"""Modules of views, in the order of the navigation."""

MOST_CONNECTIONS = 100
REQUEST_SECONDS = 20
"""A connection that has begun and not sent the lines of a whole request by then is closed."""
IDLE_SECONDS = 30
BACKLOG = 100
"""Connections that may wait to be accepted, at each address."""
HEADER_BYTES = 16 * 1024
START_SECONDS = 30.0
CERTIFICATE_SECONDS = 5
"""Seconds between two looks for a renewed certificate."""


# Workaround: uvicorn has no timeout for receiving a request (Kludex/uvicorn#157); its timeout_keep_alive
# ends with the first byte that comes.
class PatientProtocol(H11Protocol):
    """HTTP/1.1 that waits for a whole request so long and no longer, for each of a connection's.

    A first byte ends uvicorn's own wait for the next request: without this one, half a request would
    hold its connection for ever.
    """

    _waiting: asyncio.TimerHandle | None = None
    _since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        if len(self.connections) > MOST_CONNECTIONS:
            # Otherwise a client that holds all connections open would lock stewards out: the oldest
            # connection without a whole request ends, of the address that has most of them.
            others = (one for one in self.connections if isinstance(one, PatientProtocol))
            waiting = [one for one in others if one is not self and one.has_no_request]
            if waiting:
                connections = Counter(one.host for one in waiting)
                oldest = min(waiting, key=lambda one: (-connections[one.host], one._since))
                self.connections.discard(oldest)  # its end is noticed a moment later
                oldest.transport.abort()
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    @property
    def has_no_request(self) -> bool:
        """Whether nothing, or part of a request, has come since the last answer."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    @property
    def host(self) -> str:
        """Address of the other side."""
        return self.client[0] if self.client else ""

    def _wait(self) -> None:
        """Continue to wait if part of a request has arrived, but not while a request is answered."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._waiting is None:
            self._waiting = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


@dataclass(frozen=True, slots=True)
class PageServer:
    """A started page."""

    server: uvicorn.Server
    thread: threading.Thread
    origin: str

    def stop(self, grace: float) -> None:
        """Refuse new connections, let running requests end for ``grace`` seconds."""
        self.server.config.timeout_graceful_shutdown = int(grace)
        self.server.should_exit = True
        self.thread.join(grace + START_SECONDS)


def start_page(
    table: PageTable, state: ControllerState, desk: Desk, tls: TlsFiles, report: Report
) -> PageServer:
    """Serve the page.

    Args:
        desk: Desk for stewards of the page.

    Raises:
        InvalidInputError: The address is taken, or the certificate cannot be used.
    """
    listeners = bound(table.address, "page.address")
    for listener in listeners:
        listener.listen(BACKLOG)
    port = listeners[0].getsockname()[1]
    origin = table.origin or f"https://localhost:{port}"

    def includes(who: Identity) -> bool:
        return desk.person(who) is not None

    def key(who: Identity) -> str:
        person = desk.person(who)
        return "" if person is None else " ".join(sorted(person.keys_in_force))

    idle = timedelta(minutes=table.idle_minutes)
    sessions = Sessions(idle, key, state.passkeys.is_kept, state.cards.clock)
    ceremonies = Ceremonies(state.passkeys, origin, includes)
    views = [view for module in MODULES for view in module.VIEWS]
    changes = [change for module in MODULES for change in module.CHANGES]
    oidc = None if table.oidc is None else oidc_of(table.oidc, origin, state.cards.clock)
    parts = PageParts(desk, ceremonies, sessions, report, views, changes, oidc)
    config = _config(parts.application(), tls)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=(listeners,), name="page", daemon=True)
    thread.start()
    return PageServer(server, thread, origin)


def _config(application: ASGIApp, tls: TlsFiles) -> uvicorn.Config:
    logging.getLogger("uvicorn.error").disabled = True  # its tracebacks and paths disclose internals
    config = uvicorn.Config(
        application,
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=MOST_CONNECTIONS + 1,
        timeout_keep_alive=IDLE_SECONDS,
        h11_max_incomplete_event_size=HEADER_BYTES,
        ssl_certfile=tls.certificate,
        ssl_keyfile=tls.key,
        ssl_keyfile_password=tls.password() or None,
        timeout_notify=CERTIFICATE_SECONDS,
    )
    config.load()
    assert config.ssl is not None  # noqa: S101 - for the types: a certificate is given
    config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
    config.callback_notify = _Renewal(config.ssl, tls).look
    return config


class _Renewal:
    """Takes a renewed certificate over; one that cannot be used leaves the present one in force."""

    def __init__(self, context: ssl.SSLContext, tls: TlsFiles) -> None:
        self._context, self._tls, self._seen = context, tls, tls.stamp()

    async def look(self) -> None:
        try:
            stamp = self._tls.stamp()
            if stamp != self._seen:
                self._tls.read()
                self._context.load_cert_chain(self._tls.certificate, self._tls.key, self._tls.password())
                self._seen = stamp
        except (GencardError, OSError):  # ssl.SSLError too: between two files of a renewal
            pass
