"""Checks of host, origin and size of every request to the page, and the headers of every answer.

The checks hold for each path, even for paths that do not exist.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gencard.core.errors import (
    AccessError,
    GencardError,
    InternalError,
    InvalidInputError,
    NegotiationError,
    NotFoundError,
    OperationCancelledError,
    OperationError,
    PermissionDeniedError,
    ServiceBusyError,
    TooLargeError,
    UnauthenticatedError,
)

COOKIE = "__Host-gencard"
ATTEMPT = "__Host-gencard-oidc"
"""Cookie of a sign-in that an issuer completes; browsers send it on the way back from the issuer."""
LARGEST_BODY = 512 * 1024
"""A counter-offer that drops thousands of marginals fits, and a request for enrolment."""
BODY_SECONDS = 20.0
MOST_FIELDS = 5_000
BODY = "gencard.body"
"""Key of the request's body in its scope."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "cross-origin-embedder-policy": "require-corp",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=(), "
    "publickey-credentials-create=(self), publickey-credentials-get=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
NO_STORE = "no-store"
_METHODS = ("GET", "HEAD", "POST")

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
"""Text and advice of errors whose usual texts are about certificates and calls."""


def refusal_of(error: GencardError) -> tuple[int, str, str]:
    """Return HTTP status, text and advice of an error."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 400)
    message, advice = _WORDS.get(type(error), (error.message, error.advice))
    return status, message, error.fields.get("advice", advice)


@dataclass(frozen=True, slots=True)
class Wall:
    """An ASGI application around the page; ``refuse`` returns the answer to a rejected request."""

    app: ASGIApp
    origin: str
    refuse: Callable[[GencardError], Response]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(HEADERS)
                headers.setdefault("cache-control", NO_STORE)
            await send(message)

        try:
            self._check(scope["method"], Headers(scope=scope))
            scope[BODY] = await _body(Headers(scope=scope), receive)
        except GencardError as error:
            refusal = self.refuse(error)
            # else the unread rest of the body would be parsed as the next request
            refusal.headers["connection"] = "close"
        else:
            await self.app(scope, receive, with_headers)
            return
        await refusal(scope, receive, with_headers)

    def _check(self, method: str, headers: Headers) -> None:
        # DNS rebinding: a foreign page whose name is pointed at this address sends that name as Host.
        if headers.getlist("host") != [urlsplit(self.origin).netloc]:
            raise InvalidInputError(field="host", problem="is not the address of this page")
        if method not in _METHODS:
            raise InvalidInputError(field="method", problem="is not GET or POST")
        if headers.get("sec-fetch-dest") in ("embed", "fencedframe", "frame", "iframe", "object"):
            raise PermissionDeniedError
        if "transfer-encoding" in headers and "content-length" in headers:
            problem = "cannot be combined with transfer-encoding"
            raise InvalidInputError(field="content-length", problem=problem)
        if method == "POST":
            self._check_origin(headers)

    def _check_origin(self, headers: Headers) -> None:
        """Raise PermissionDeniedError if a change was not sent by a page of this origin."""
        site = headers.getlist("sec-fetch-site")
        # With our policy "no-referrer", forms send Origin: null. Sec-Fetch-Site, which no script can
        # set, then says whether the form was ours.
        allowed = {self.origin, "null"} if site == ["same-origin"] else {self.origin}
        origins = headers.getlist("origin")
        if site not in ([], ["same-origin"]) or len(origins) != 1 or origins[0] not in allowed:
            raise PermissionDeniedError


async def _body(headers: Headers, receive: Receive) -> bytes:
    """Return the whole body; one that is too long, late or abandoned ends in an error."""
    what, advice = "The number of bytes of the request", "Send a shorter text."
    length = headers.get("content-length", "0")
    if len(length) > 9 or not length.isdecimal() or int(length) > LARGEST_BODY:
        raise TooLargeError(what=what, limit=LARGEST_BODY, advice=advice)
    body = bytearray()
    with suppress(TimeoutError):
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    break
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise TooLargeError(what=what, limit=LARGEST_BODY, advice=advice)
                if not message.get("more_body"):
                    return bytes(body)
    raise OperationCancelledError


class Form:
    """The fields of a form that was sent, each a text without control characters but line ends.

    Raises:
        InvalidInputError: The body is not that of a form.
    """

    def __init__(self, request: Request) -> None:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        try:
            body = request.scope[BODY].decode("ascii")
            pairs = parse_qsl(
                body,
                keep_blank_values=True,
                strict_parsing=bool(body),
                errors="strict",
                max_num_fields=MOST_FIELDS,
            )
        except ValueError:
            kind, pairs = "", []
        if kind != "application/x-www-form-urlencoded" or any(
            "\0" in name or "\0" in value for name, value in pairs
        ):
            raise InvalidInputError(field="form", problem="is not the body of a form")
        self._pairs = pairs

    def text(self, name: str) -> str:
        values = self.texts(name)
        if len(values) > 1:
            raise InvalidInputError(field=name, problem="is given twice")
        return values[0].strip() if values else ""

    def texts(self, name: str) -> list[str]:
        """Return all values of a field that may be there more than once."""
        return [value for field, value in self._pairs if field == name]


def request_id_of(form: Form) -> str:
    """Return the UUID by which a change that is sent twice is made once; raises InvalidInputError."""
    text = form.text("request_id")
    with suppress(ValueError):
        return str(UUID(text))
    raise InvalidInputError(field="request_id", problem="is not a UUID")


def session_cookie(request: Request, kind: str = COOKIE) -> str:
    """Return the secret of the browser's session; empty if the cookie is missing or occurs twice."""
    parts = (part for header in request.headers.getlist("cookie") for part in header.split(";"))
    pairs = (part.strip().partition("=") for part in parts)
    cookies = [value for name, _, value in pairs if name == kind]
    return cookies[0] if len(cookies) == 1 else ""


def set_cookie(
    response: Response, token: str, seconds: int | None = None, *, kind: str = COOKIE
) -> None:
    """Let the browser keep a secret, by default until it is closed; 0 seconds: forget it."""
    site: Literal["lax", "strict"] = "lax" if kind == ATTEMPT else "strict"
    response.set_cookie(
        kind, token, max_age=seconds, path="/", secure=True, httponly=True, samesite=site
    )
