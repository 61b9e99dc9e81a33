"""A little issuer of OpenID Connect on loopback, which lies where a test wants it to."""

import time
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode
from uuid import uuid4

from authlib.oauth2.rfc7636 import create_s256_code_challenge
from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.page.hostile_requests import serving

CLIENT, SECRET = "gencard-page", "a-secret-of-both"


def new_key(name: str) -> ECKey:
    return ECKey.generate_key("P-256", {"kid": name})


@dataclass
class Issuer:
    """Statements of the issuer about itself and about the person who signs in.

    Args:
        subject: Who signs in next.
        lies: Claims of the next ID tokens that differ from what they should be.
        published: What its metadata say otherwise.
        key, keys: What it signs with, and what it publishes.
        algorithm: Of its signatures.
        endless: What it sends in place of its metadata.
    """

    subject: str = "s-sam"
    lies: Mapping[str, Any] = field(default_factory=dict)
    published: Mapping[str, Any] = field(default_factory=dict)
    key: ECKey = field(default_factory=lambda: new_key("first"))
    keys: list[ECKey] = field(default_factory=list)
    algorithm: str = "ES256"
    endless: Callable[[], AsyncIterator[bytes]] | None = None
    address: str = ""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def application(self) -> Starlette:
        routes = [
            Route("/.well-known/openid-configuration", self.metadata),
            Route("/keys", self.show_keys),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]
        return Starlette(routes=routes)

    async def metadata(self, request: Request) -> Response:
        self.calls.append("metadata")
        if self.endless is not None:
            return StreamingResponse(self.endless())
        at = self.address
        shown = {
            "issuer": at,
            "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token",
            "jwks_uri": f"{at}/keys",
        }
        return JSONResponse(shown | dict(self.published))

    async def show_keys(self, request: Request) -> Response:
        self.calls.append("keys")
        published = [key.as_dict(private=False) for key in self.keys or [self.key]]
        return JSONResponse({"keys": [{"kty": "new"}, *published]})

    async def authorize(self, request: Request) -> Response:
        asked, code = dict(request.query_params), str(uuid4())
        self.codes[code] = asked | {"sub": self.subject}
        back = urlencode({"code": code, "state": asked["state"], "iss": self.address})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}", 303)

    async def token(self, request: Request) -> Response:
        self.calls.append("token")
        form = dict(parse_qsl((await request.body()).decode()))
        asked = self.codes.pop(form["code"], {})
        challenge = create_s256_code_challenge(form["code_verifier"])
        who = b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {who}":
            return JSONResponse({"error": "invalid_client"}, 401)
        if challenge != asked.get("code_challenge") or form["redirect_uri"] != asked["redirect_uri"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        return JSONResponse({"access_token": "none", "id_token": self.id_token(asked)})

    def id_token(self, asked: Mapping[str, str]) -> str:
        now = int(time.time())
        times = {"iat": now, "exp": now + 60}
        who = {"iss": self.address, "sub": asked["sub"], "aud": CLIENT, "nonce": asked["nonce"]}
        claims = {
            name: value for name, value in {**who, **times, **self.lies}.items() if value is not None
        }
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])


@contextmanager
def issuing(folder: Path) -> Iterator[Issuer]:
    """An issuer with the certificate and key of a folder."""
    issuer = Issuer()
    with serving(issuer.application(), folder / "certificate.pem", folder / "key.pem") as origin:
        issuer.address = origin
        yield issuer
