"""The page as an application, and its server.

The application: routes, sign-in, sessions around every view, handling of errors. The server: TLS on a
loopback port, in a thread of its own, bounded against slow callers.
"""

import asyncio
import hashlib
import json
import logging
import secrets
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from hmac import compare_digest
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import uvicorn
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from gencard.controller.base.fair_use import Bounds, Shares
from gencard.controller.base.listening import TlsFiles, bound
from gencard.controller.controller_state import ControllerState
from gencard.controller.page import register_views, views
from gencard.controller.page.oidc import ANSWER, ATTEMPT_SECONDS, Oidc, oidc_of
from gencard.controller.page.passkeys import (
    SIGN_IN,
    Ceremonies,
    DecisionPages,
    Session,
    Sessions,
    fields_of,
)
from gencard.controller.page.security import (
    ATTEMPT,
    NO_STORE,
    Form,
    Wall,
    refusal_of,
    session_cookie,
    set_cookie,
)
from gencard.controller.page.views import ChangeResult, Context, FormAction, View
from gencard.controller.settings_tables import PageTable
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import (
    GencardError,
    InternalError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from gencard.shell import as_written, visible
from gencard.wire.canonical import sha256
from gencard.wire.keys import Identity

# Templates and files of the page, read once; everything that a template prints is escaped.

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A file that browsers fetch: its bytes, kind, and a digest that its address carries."""

    content: bytes
    kind: str
    digest: str


@cache
def assets() -> Mapping[str, Asset]:
    by_name: dict[str, Asset] = {}
    for entry in (files(__package__) / "static").iterdir():
        if (kind := _KINDS.get(entry.name.rpartition(".")[2])) is not None:
            content = entry.read_bytes()
            by_name[entry.name] = Asset(content, kind, hashlib.sha256(content).hexdigest()[:12])
    return by_name


@cache
def environment() -> Environment:
    """Return the environment of templates: all texts are escaped, an unknown name is an error."""
    environment = Environment(
        loader=PackageLoader(__package__, "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # the address of a file for browsers changes with the file's content
    environment.globals["asset"] = lambda name: f"/static/{name}?{assets()[name].digest}"
    # its result counts as safe HTML, which it is not inside an attribute
    del environment.filters["tojson"]
    environment.filters |= {
        "ago": ago,
        "day": lambda time: f"{time.astimezone(UTC):%Y-%m-%d}",
        "json": json.dumps,
        "minute": lambda time: f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        "number": "{:,}".format,
        "person": lambda uri: uri.rpartition("/")[2],
    }
    return environment


def _without_controls(value: Any) -> Any:
    """Escape the control characters of a text: browsers would obey characters that reorder text."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return visible(value, lambda letter: letter if letter == "\t" else as_written(letter))


_SPANS = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def ago(time: datetime, now: datetime) -> str:
    """Return the time since or until a moment, in its largest unit.

    >>> from datetime import timedelta
    >>> then = datetime(2026, 1, 1, tzinfo=UTC)
    >>> ago(then, then + timedelta(hours=49)), ago(then + timedelta(days=3), then)
    ('2 days', 'in 3 days')
    """
    seconds = (now - time).total_seconds()
    for span, unit in _SPANS:
        if (count := int(abs(seconds) // span)) > 0:
            text = f"{count} {unit}{'' if count == 1 else 's'}"
            return text if seconds >= 0 else f"in {text}"
    return "just now"


Report = Callable[[str, str, str], None]
Answer = Callable[[Request], Response]
_BOUNDS = Bounds(per_identity=8, calls=32, per_second=10, request_seconds=60)
"""Limits of each steward, and of each visitor who signs in: by name if it is known, else by address."""


@dataclass(frozen=True, slots=True)
class PageParts:
    """The application's parts; ``report`` is called with incidents and receives no exception text."""

    desk: Desk
    ceremonies: Ceremonies
    sessions: Sessions
    report: Report
    views: Sequence[View]
    changes: Sequence[FormAction]
    oidc: Oidc | None = None
    shares: Shares = field(default_factory=lambda: Shares(_BOUNDS))
    strangers: Shares = field(default_factory=lambda: Shares(replace(_BOUNDS, calls=_BOUNDS.calls // 2)))
    at_issuer: Shares = field(default_factory=lambda: Shares(replace(_BOUNDS, calls=_BOUNDS.calls // 4)))

    def application(self) -> ASGIApp:
        """Everything behind the outer wall."""
        options = self.ceremonies.assertion_options
        issuer = "" if self.oidc is None else urlsplit(self.oidc.table.issuer).hostname
        sign_in = {"title": "Sign in", "issuer": issuer}
        routes = [
            Route("/static/{name}", partial(self._ending, "/static", _static), methods=["GET"]),
            self._open("/sign-in", "GET", lambda _: _page("sign_in.html", sign_in)),
            self._open("/sign-in/options", "POST", lambda _: _json(options(SIGN_IN))),
            self._open("/sign-in", "POST", partial(self._in_lane, self._sign_in)),
            self._open("/passkey", "GET", lambda _: _page("passkey.html", {"title": "New passkey"})),
            self._open("/passkey/options", "POST", partial(self._in_lane, self._passkey_options)),
            self._open("/passkey", "POST", partial(self._in_lane, self._passkey)),
            self._signed_in("/sign-out", "POST", self._sign_out),
            self._signed_in("/decide/options", "POST", self._decide_options),
            self._signed_in("/decide", "POST", self._decide),
        ]
        if self.oidc is not None:
            for path, answer in (("/sign-in/oidc", self._to_issuer), (ANSWER, self._from_issuer)):
                at_issuer = partial(self._with_issuer, partial(answer, self.oidc))
                routes.append(self._open(path, "GET", at_issuer))
        routes += [self._signed_in(one.path, "POST", partial(self._change, one)) for one in self.changes]
        routes += [self._signed_in(one.path, "GET", partial(self._view, one)) for one in self.views]
        nowhere = NotFoundError(what="page")
        routes.append(Route("/{path:path}", lambda _: _refusal(nowhere), methods=["GET", "POST"]))
        return Wall(Starlette(routes=routes), self.ceremonies.origin, _refusal)

    def _open(self, path: str, method: str, answer: Answer) -> Route:
        """Return a public route; only connections limit its use, unless its answer is queued.

        Stewards behind a tunnel share its address with other callers, so cheap answers are not limited
        by address.
        """
        return Route(path, partial(self._ending, path, answer), methods=[method])

    def _in_lane(self, answer: Answer, request: Request) -> Response:
        """Limit an answer by the steward of the passkey or link in the request, else by address."""
        form = Form(request)
        name = self.ceremonies.holder(form.text("assertion"), form.text("link"))
        lane = (self.shares, f"sign-in {name}") if name else (self.strangers, _address(request))
        with lane[0].taken(lane[1]):
            return answer(request)

    def _with_issuer(self, answer: Answer, request: Request) -> Response:
        """Limit an answer by address in a queue of its own: waiting for an issuer delays no passkey."""
        with self.at_issuer.taken(_address(request)):
            return answer(request)

    def _signed_in(
        self, path: str, method: str, answer: Callable[[Session, Request], Response]
    ) -> Route:
        """Return a route for stewards with a session; others are led to the sign-in."""
        return self._open(path, method, partial(self._in_session, answer))

    def _in_session(self, answer: Callable[[Session, Request], Response], request: Request) -> Response:
        polled = request.headers.get("x-gencard-poll") == "yes"
        try:
            session = self.sessions.find(session_cookie(request), by_person=not polled)
        except UnauthenticatedError:
            session = None
        if session is None:
            if request.headers.get("hx-request") == "true":
                response = Response(status_code=204, headers={"hx-redirect": "/sign-in"})
            elif request.method == "POST":
                response = _refusal(UnauthenticatedError(advice="Sign in, then decide again."))
            else:
                response = RedirectResponse("/sign-in", 303)
            set_cookie(response, "", 0)
            return response
        # a change must come from a form of this session
        if request.method == "POST" and not compare_digest(
            Form(request).text("csrf").encode(), session.csrf.encode()
        ):
            raise PermissionDeniedError
        with self.shares.taken(session.who.uri):
            return answer(session, request)

    def _ending(self, path: str, answer: Answer, request: Request) -> Response:
        try:
            return answer(request)
        except GencardError as error:
            refusal = error
        except Exception as error:  # its text may quote a record: only its class is logged
            incident = secrets.token_hex(8)
            self.report(f"page {path}", incident, type(error).__name__)
            refusal = InternalError(incident=incident)
        return _refusal(refusal)

    def _sign_in(self, request: Request) -> Response:
        answer = Form(request).text("assertion")
        who, passkey = self.ceremonies.assertion(SIGN_IN, answer, "sign-in")
        token = self.sessions.open(who, passkey.key, session_cookie(request))
        response = RedirectResponse("/", 303)
        set_cookie(response, token)
        return response

    def _to_issuer(self, oidc: Oidc, request: Request) -> Response:  # noqa: ARG002
        browser = secrets.token_urlsafe(32)
        response = RedirectResponse(oidc.begin(browser), 303)
        set_cookie(response, browser, ATTEMPT_SECONDS, kind=ATTEMPT)
        return response

    def _from_issuer(self, oidc: Oidc, request: Request) -> Response:
        """Answer with a page that leads on: browsers omit the session's cookie in a foreign redirect."""
        pairs = request.query_params.multi_items()
        answer = dict(pairs) if len(pairs) == len(dict(pairs)) else {}
        subject, name = oidc.end(session_cookie(request, ATTEMPT), answer)
        known_as = sha256(f"{oidc.table.issuer} {subject}".encode())
        who = self.desk.enter(name, {"way": "oidc", "key": known_as})
        token = self.sessions.open(who, "", session_cookie(request))
        response = _page("signed_in.html", {"title": "Signed in"})
        response.headers["refresh"] = "0; url=/"
        set_cookie(response, "", 0, kind=ATTEMPT)
        set_cookie(response, token)
        return response

    def _passkey_options(self, request: Request) -> Response:
        return _json(self.ceremonies.enrolment_options(Form(request).text("link")))

    def _passkey(self, request: Request) -> Response:
        form = Form(request)
        self.ceremonies.enrol(form.text("link"), form.text("credential"))
        return RedirectResponse("/sign-in", 303)

    def _sign_out(self, session: Session, request: Request) -> Response:  # noqa: ARG002
        self.sessions.close(session_cookie(request))
        response = RedirectResponse("/sign-in", 303)
        set_cookie(response, "", 0)
        response.headers["clear-site-data"] = '"cache", "cookies", "storage"'
        return response

    def _decide_options(self, session: Session, request: Request) -> Response:
        options = DecisionPages(self.desk, self.ceremonies).options(session, Form(request))
        return _json(options) if options else Response(status_code=204)

    def _decide(self, session: Session, request: Request) -> Response:
        decisions = DecisionPages(self.desk, self.ceremonies)
        return self._done(session, decisions.decide(session, Form(request)))

    def _change(self, change: FormAction, session: Session, request: Request) -> Response:
        return self._done(session, change.make(Form(request), self.desk, session.who))

    def _done(self, session: Session, done: ChangeResult) -> Response:
        if done.template:
            return self._shown(session, done.template, done.location, done.context)
        if done.notice:
            session.notices.append(done.notice)
        return RedirectResponse(done.location, 303)

    def _view(self, view: View, session: Session, request: Request) -> Response:
        context = {"title": view.title, **view.show(request, self.desk, session.who)}
        # a part of a page does not show them
        notices = request.headers.get("hx-request") != "true"
        place = view.under or view.path
        return self._shown(session, view.template, place, context, notices=notices)

    def _shown(
        self, session: Session, template: str, place: str, context: Context, *, notices: bool = True
    ) -> Response:
        texts: list[str] = []
        if notices:
            texts, session.notices[:] = list(session.notices), []
        common: Context = {
            "who": session.who,
            "csrf": session.csrf,
            "navigation": [one for one in self.views if one.label],
            "place": place,
            "notices": texts,
            "now": self.sessions.clock(),
            "request_id": lambda: str(uuid4()),
            "fields_of": fields_of,
        }
        return _page(template, {**common, **context})


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _page(template: str, context: Context, status: int = 200) -> Response:
    """Return a page; without ``who`` in its context, that of a visitor who is not signed in."""
    content = environment().get_template(template).render({"who": None, **context})
    return HTMLResponse(content, status)


def _refusal(error: GencardError) -> Response:
    status, message, advice = refusal_of(error)
    context = {"title": "Request failed", "message": message, "advice": advice}
    return _page("error.html", context, status)


def _static(request: Request) -> Response:
    asset = assets().get(request.path_params["name"])
    if asset is None:
        raise NotFoundError(what="file")
    same = request.url.query == asset.digest
    headers = {"cache-control": "private, max-age=86400, immutable" if same else NO_STORE}
    return Response(asset.content, media_type=asset.kind, headers=headers)


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


# The server.

MODULES = (views, register_views)
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
            # of these nothing, or part of a request, has come since the last answer
            waiting = [
                one
                for one in others
                if one is not self
                and (one.cycle is None or one.cycle.response_complete or one.cycle.more_body)
            ]
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
    def host(self) -> str:
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
    listeners = bound(table.address, "page.address")
    for listener in listeners:
        listener.listen(BACKLOG)
    port = listeners[0].getsockname()[1]
    origin = table.origin or f"https://localhost:{port}"

    def key(who: Identity) -> str:
        person = desk.person(who)
        return "" if person is None else " ".join(sorted(person.keys_in_force))

    idle = timedelta(minutes=table.idle_minutes)
    sessions = Sessions(idle, key, state.passkeys.is_kept, state.cards.clock)
    ceremonies = Ceremonies(state.passkeys, origin, lambda who: desk.person(who) is not None)
    shown = [view for module in MODULES for view in module.VIEWS]
    changes = [change for module in MODULES for change in module.CHANGES]
    oidc = None if table.oidc is None else oidc_of(table.oidc, origin, state.cards.clock)
    parts = PageParts(desk, ceremonies, sessions, report, shown, changes, oidc)
    server = uvicorn.Server(_config(parts.application(), tls))
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
