"""Requests that no browser sends: mutated requests, raw bytes over TLS, and a page at another origin."""

import random
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "X" * 40)
WORDS = (
    *("", "0", "-1", "9" * 400, "NaN", "null", "true", "[]", "{}", "%", "%zz", "*", ";", "&&"),
    *(
        "../../etc/passwd",
        "..%2f..%2fstate",
        "%00",
        "\x00",
        "\U0001f4a3",
        "\u202e",
        "ﬀ",
        "\r\nSet-Cookie: a=b",
    ),
    *("' OR 1=1 --", '"><script>alert(1)</script>', "{{7*7}}", "${7*7}", "a" * 5_000),
    *("datasets/survey/cards/", "datasets/survey/cards/0000000000000000"),
    "spiffe://gencard.local/pilot/steward/sam",
)
HEADERS = (
    *(("content-type", kind) for kind in ("application/json", "multipart/form-data", "text/plain", "x")),
    ("content-type", "multipart/form-data; boundary=x"),
    ("content-type", "application/x-www-form-urlencoded; charset=utf-7"),
    *(("accept", "\x7f"), ("accept-language", "x" * 3_000), ("range", "bytes=0-,0-,0-")),
    *(("cookie", "=;=;;;" * 50), ("cookie", "__Host-session=" + "a" * 3_000)),
    *(("hx-request", "true"), ("hx-target", "<x>"), ("hx-current-url", "javascript:alert(1)")),
    *(("x-forwarded-host", "evil.example"), ("x-forwarded-proto", "http")),
    *(("x-http-method-override", "DELETE"), ("if-none-match", "*"), ("content-encoding", "gzip")),
    *(("upgrade", "websocket"), ("expect", "100-continue")),
)
"""None of these says whose request it is; bytes that HTTP forbids are left to the raw tests."""


@dataclass(frozen=True)
class Mutant:
    """One request, as ``httpx.Client.request`` takes it."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


def mutants(
    paths: Sequence[str], form: Mapping[str, str], number: int, *, seed: int = 1
) -> Iterator[Mutant]:
    """Requests to these paths, each wrong in one to three ways; the same for the same seed.

    Args:
        form: Fields of a form that would be right, a token against forged requests included.
    """
    rng = random.Random(seed)
    for _ in range(number):
        path, fields = rng.choice(paths), dict(form)
        headers: dict[str, str] = {}
        method, body = rng.choice(("GET", "POST")), None
        for _ in range(rng.randint(1, 3)):
            way = rng.randrange(6)
            if way == 0:
                method = rng.choice(METHODS)
            elif way == 1:
                path = _mutated_path(path, rng)
            elif way == 2 and fields:
                fields[rng.choice(sorted(fields))] = rng.choice(WORDS)
            elif way == 3:
                fields = {**fields, rng.choice(WORDS)[:200]: rng.choice(WORDS)}
            elif way == 4:
                headers |= dict([rng.choice(HEADERS)])
            else:
                body = rng.choice((rng.randbytes(300), b"--x\r\n\r\n", b"[" * 10_000, b"{", b"%" * 99))
        sent = urlencode(fields, errors="replace").encode() if body is None else body
        shown = {"content-type": "application/x-www-form-urlencoded"} | headers
        yield Mutant(method, path, shown, sent if method != "GET" else b"")


def _mutated_path(path: str, rng: random.Random) -> str:
    word = urlencode({"": rng.choice(WORDS)}, errors="replace")[1:]
    ways = (
        path + "/" + word, path + "?token=" + word, path + "?" + word, "/" + word + path, path.upper(),
        path[: rng.randrange(1, len(path) + 1)], path.replace("/", "//"), path + "/%2e%2e/%2e%2e/people",
    )  # fmt: skip
    return "/" + rng.choice(ways).lstrip("/")


def answer_to(origin: str, authority: Path, sent: bytes, *, seconds: float = 5.0) -> bytes:
    """Send raw bytes over TLS; return the answer until the other side closes or sends nothing more."""
    received = b""
    with connected(origin, authority, seconds) as channel:
        try:
            channel.sendall(sent)
            while more := channel.recv(65_536):
                received += more
        except (TimeoutError, ConnectionError, ssl.SSLError):
            pass
    return received


@contextmanager
def connected(origin: str, authority: Path, seconds: float = 5.0) -> Iterator[ssl.SSLSocket]:
    """A TLS connection to the page, which shows a certificate of the controller's authority."""
    host, _, port = origin.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=str(authority))
    with (
        socket.create_connection((host, int(port)), seconds) as plain,
        context.wrap_socket(plain, server_hostname=host) as channel,
    ):
        yield channel


@contextmanager
def foreign_origin(certificate: Path, key: Path, page: Callable[[str], str]) -> Iterator[str]:
    """Serve a foreign site on this machine: same host, so same site to a browser, but another port.

    Args:
        page: The page's text, by its path.
    """

    async def show(request: Request) -> HTMLResponse:
        return HTMLResponse(page(request.url.path))

    with serving(Starlette(routes=[Route("/{path:path}", show)]), certificate, key) as origin:
        yield origin


@contextmanager
def serving(application: Starlette, certificate: Path, key: Path) -> Iterator[str]:
    """The origin of an application on a free port of loopback, over TLS."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            application, ssl_certfile=certificate, ssl_keyfile=key, log_level="critical", lifespan="off"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        try:
            yield f"https://localhost:{listening.getsockname()[1]}"
        finally:
            server.should_exit = server.force_exit = True
            thread.join(10)
