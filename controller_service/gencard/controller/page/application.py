"""The page as an application: routes, sign-in, sessions around every view, one end for every error."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gencard.controller.page.decisions import Decisions, fields_of
from gencard.controller.page.oidc import ANSWER, ATTEMPT_SECONDS, Oidc
from gencard.controller.page.passkeys import SIGN_IN, Ceremonies
from gencard.controller.page.registry import Change, Context, Done, View
from gencard.controller.page.rendering import asset_response, rendered
from gencard.controller.page.security import (
    ATTEMPT,
    Form,
    Wall,
    forget_session,
    session_cookie,
    set_attempt,
    set_session,
)
from gencard.controller.page.sessions import Session, Sessions
from gencard.controller.service.access import Bounds, Shares
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import (
    AccessError,
    GencardError,
    InternalError,
    NegotiationError,
    NotFoundError,
    OperationError,
    PermissionDeniedError,
    ServiceBusyError,
    TooLargeError,
    UnauthenticatedError,
)
from gencard.wire.signatures.canonical import sha256

Report = Callable[[str, str, str], None]
STRANGERS = "strangers"
_BOUNDS = Bounds(per_identity=8, calls=32, per_second=10, request_seconds=60)
"""Of each steward, and of all who are not signed in together."""

_STATUS: Sequence[tuple[type[GencardError], int]] = (
    (UnauthenticatedError, 401),
    (NotFoundError, 404),
    (AccessError, 403),
    (NegotiationError, 409),
    (TooLargeError, 413),
    (ServiceBusyError, 429),
    (InternalError, 500),
    (OperationError, 503),
)


_WORDS: Mapping[type[GencardError], tuple[str, str]] = {
    UnauthenticatedError: (
        "You are not signed in, or the passkey, its link or the issuer's answer was not accepted.",
        "Sign in again. A link for a new passkey works once, within 15 minutes.",
    ),
    PermissionDeniedError: (
        "The request did not come from a form of this page in your session.",
        "Load the page again, then repeat what you did.",
    ),
    ServiceBusyError: ("There are too many requests.", "Wait a moment, then load the page again."),
}
"""Text and advice of errors whose usual words are about certificates and calls."""


@dataclass(frozen=True, slots=True)
class Page:
    """The application's parts.

    Args:
        report: Where incidents go; gets no exception text.
    """

    desk: Desk
    ceremonies: Ceremonies
    sessions: Sessions
    report: Report
    views: Sequence[View]
    changes: Sequence[Change]
    oidc: Oidc | None = None
    shares: Shares = field(default_factory=lambda: Shares(_BOUNDS))

    def application(self) -> ASGIApp:
        """Everything behind the outer wall."""
        routes = [
            Route("/static/{name}", self._static, methods=["GET"]),
            self._open("/sign-in", "GET", self._sign_in_page),
            self._open("/sign-in/options", "POST", self._sign_in_options),
            self._open("/sign-in", "POST", self._sign_in),
            self._open("/passkey", "GET", self._passkey_page),
            self._open("/passkey/options", "POST", self._passkey_options),
            self._open("/passkey", "POST", self._passkey),
            self._signed_in("/sign-out", "POST", self._sign_out),
            self._signed_in("/decide/options", "POST", self._decide_options),
            self._signed_in("/decide", "POST", self._decide),
        ]
        if self.oidc is not None:
            routes.append(self._open("/sign-in/oidc", "GET", partial(self._to_issuer, self.oidc)))
            routes.append(self._open(ANSWER, "GET", partial(self._from_issuer, self.oidc)))
        routes += [self._signed_in(one.path, "POST", partial(self._change, one)) for one in self.changes]
        routes += [self._signed_in(one.path, "GET", partial(self._view, one)) for one in self.views]
        routes.append(Route("/{path:path}", self._nowhere, methods=["GET", "POST"]))
        application = Starlette(routes=routes)
        return Wall(application, self.ceremonies.origin, self._refusal)

    def _open(self, path: str, method: str, answer: Callable[[Request], Response]) -> Route:
        """A route for everybody; all strangers share one share."""

        def endpoint(request: Request) -> Response:
            return self._ending(path, lambda: self._in_share(STRANGERS, lambda: answer(request)))

        return Route(path, endpoint, methods=[method])

    def _signed_in(
        self, path: str, method: str, answer: Callable[[Session, Request], Response]
    ) -> Route:
        """A route for stewards with a session; others are led to the sign-in."""

        def endpoint(request: Request) -> Response:
            return self._ending(path, lambda: self._in_session(request, answer))

        return Route(path, endpoint, methods=[method])

    def _in_session(self, request: Request, answer: Callable[[Session, Request], Response]) -> Response:
        polled = request.headers.get("x-gencard-poll") == "yes"
        try:
            session = self.sessions.find(session_cookie(request), by_person=not polled)
        except UnauthenticatedError:
            session = None
        if session is None:
            return self._to_sign_in(request)
        if request.method == "POST":
            session.check_csrf(Form(request).text("csrf"))
        return self._in_share(session.who.uri, lambda: answer(session, request))

    def _in_share(self, who: str, answer: Callable[[], Response]) -> Response:
        with self.shares.taken(who):
            return answer()

    def _to_sign_in(self, request: Request) -> Response:
        """A page asks again after the sign-in; a part of one makes the browser go there."""
        if request.headers.get("hx-request") == "true":
            response = Response(status_code=204, headers={"hx-redirect": "/sign-in"})
        elif request.method == "POST":
            response = self._refusal(UnauthenticatedError(advice="Sign in, then decide again."))
        else:
            response = RedirectResponse("/sign-in", 303)
        forget_session(response)
        return response

    def _ending(self, path: str, answer: Callable[[], Response]) -> Response:
        """Every request ends here: in an answer, or in one error of the catalogue and no stray word."""
        try:
            return answer()
        except GencardError as error:
            refusal = error
        except Exception as error:  # its text may quote a record: only its class is logged
            incident = secrets.token_hex(8)
            self.report(f"page {path}", incident, type(error).__name__)
            refusal = InternalError(incident=incident)
        return self._refusal(refusal)

    def _refusal(self, error: GencardError) -> Response:
        status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
        message, advice = _WORDS.get(type(error), (error.message, error.advice))
        advice = error.fields.get("advice", advice)
        context = {"title": "Not done", "message": message, "advice": advice, "who": None}
        return HTMLResponse(rendered("error.html", context), status)

    def _static(self, request: Request) -> Response:
        def answer() -> Response:
            response = asset_response(request.path_params["name"], request.url.query)
            if response is None:
                raise NotFoundError(what="file")
            return response

        return self._ending("/static", answer)

    def _nowhere(self, request: Request) -> Response:  # noqa: ARG002 - Starlette calls it so
        return self._refusal(NotFoundError(what="page"))

    def _sign_in_page(self, request: Request) -> Response:  # noqa: ARG002
        issuer = "" if self.oidc is None else urlsplit(self.oidc.table.issuer).hostname
        context = {"title": "Sign in", "who": None, "issuer": issuer}
        return HTMLResponse(rendered("sign_in.html", context))

    def _sign_in_options(self, request: Request) -> Response:  # noqa: ARG002
        return _json(self.ceremonies.assertion_options(SIGN_IN))

    def _sign_in(self, request: Request) -> Response:
        answer = Form(request).text("assertion")
        who, passkey = self.ceremonies.assertion(SIGN_IN, answer, "sign-in")
        token = self.sessions.open(who, passkey.key, session_cookie(request))
        response = RedirectResponse("/", 303)
        set_session(response, token)
        return response

    def _to_issuer(self, oidc: Oidc, request: Request) -> Response:  # noqa: ARG002
        browser = secrets.token_urlsafe(32)
        response = RedirectResponse(oidc.begin(browser), 303)
        set_attempt(response, browser, ATTEMPT_SECONDS)
        return response

    def _from_issuer(self, oidc: Oidc, request: Request) -> Response:
        """Not a redirect: with one that another site began, no browser sends the session's cookie."""
        pairs = request.query_params.multi_items()
        answer = dict(pairs) if len(pairs) == len(dict(pairs)) else {}
        subject, name = oidc.end(session_cookie(request, ATTEMPT), answer)
        known_as = sha256(f"{oidc.table.issuer} {subject}".encode())
        who = self.desk.enter(name, {"way": "oidc", "key": known_as})
        token = self.sessions.open(who, "", session_cookie(request))
        response = HTMLResponse(rendered("signed_in.html", {"title": "Signed in", "who": None}))
        response.headers["refresh"] = "0; url=/"
        set_attempt(response, "", 0)
        set_session(response, token)
        return response

    def _passkey_page(self, request: Request) -> Response:  # noqa: ARG002
        return HTMLResponse(rendered("passkey.html", {"title": "New passkey", "who": None}))

    def _passkey_options(self, request: Request) -> Response:
        return _json(self.ceremonies.enrolment_options(Form(request).text("link")))

    def _passkey(self, request: Request) -> Response:
        form = Form(request)
        self.ceremonies.enrol(form.text("link"), form.text("credential"))
        return RedirectResponse("/sign-in", 303)

    def _sign_out(self, session: Session, request: Request) -> Response:  # noqa: ARG002
        self.sessions.close(session_cookie(request))
        response = RedirectResponse("/sign-in", 303)
        forget_session(response)
        response.headers["clear-site-data"] = '"cache", "cookies", "storage"'
        return response

    def _decide_options(self, session: Session, request: Request) -> Response:
        options = Decisions(self.desk, self.ceremonies).options(session, Form(request))
        return _json(options) if options else Response(status_code=204)

    def _decide(self, session: Session, request: Request) -> Response:
        return self._done(session, Decisions(self.desk, self.ceremonies).decide(session, Form(request)))

    def _change(self, change: Change, session: Session, request: Request) -> Response:
        return self._done(session, change.make(Form(request), self.desk, session.who))

    def _done(self, session: Session, done: Done) -> Response:
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
        self,
        session: Session,
        template: str,
        place: str,
        context: Context,
        *,
        notices: bool = True,
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
        return HTMLResponse(rendered(template, {**common, **context}))


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")
