"""Sign-in by OpenID Connect: authorization code with PKCE, at the one issuer that the settings name.

The issuer says who a person is; the enrolment here says what the person may do. An attempt is valid
once, for ten minutes, in the browser that began it.
"""

import asyncio
import hmac
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from gencard.controller.base.files import secret_bytes
from gencard.controller.page.passkeys import Challenges
from gencard.controller.settings_tables import OidcTable, is_https
from gencard.core.errors import InvalidInputError, UnauthenticatedError
from gencard.wire.canonical import sha256

ANSWER = "/sign-in/oidc/answer"
"""Path to which the issuer redirects the browser."""
ATTEMPT_SECONDS = 600
LARGEST = 256 * 1024
"""Largest response of the issuer, in bytes."""
ANSWER_SECONDS = 5.0
KEPT_SECONDS = 600.0
AGAIN_SECONDS = 30.0
"""Shortest time in seconds between two requests for keys that a token names and that are not known."""
LEEWAY = 30
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519")
"""Accepted signatures: by keys that the issuer alone has, so neither "none" nor a shared secret."""
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_FOREIGN = (JoseError, ValueError, KeyError, TypeError, AttributeError, RecursionError)

Fetched = Mapping[str, Any]


@dataclass(slots=True)
class Issuer:
    """Client of the issuer's published documents, over TLS, with limits, cached for ten minutes."""

    address: str
    trust: ssl.SSLContext
    now: Callable[[], float] = time.monotonic
    _kept: dict[str, tuple[float, Fetched]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def metadata(self) -> Fetched:
        """Return the metadata; raises UnauthenticatedError if foreign, or with addresses without TLS."""
        path = "/.well-known/openid-configuration"
        metadata = self._once(self.address.removesuffix("/") + path, KEPT_SECONDS)
        usable = all(is_https(str(metadata.get(name, ""))) for name in _ENDPOINTS)
        if metadata.get("issuer") != self.address or not usable:
            raise UnauthenticatedError
        return metadata

    def keys(self, seconds: float = KEPT_SECONDS) -> Fetched:
        """Return the issuer's public keys, not older than this."""
        return self._once(str(self.metadata()["jwks_uri"]), seconds)

    def _once(self, address: str, seconds: float) -> Fetched:
        with self._lock:
            fetched_at, answer = self._kept.get(address, (0.0, None))
        if answer is None or self.now() - fetched_at > seconds:
            answer = self.fetched("GET", address)
            with self._lock:
                self._kept[address] = self.now(), answer
        return answer

    def fetched(self, method: str, address: str, **sent: Any) -> Fetched:
        """Return the JSON object from an address; raises UnauthenticatedError if there is none."""
        try:
            content = json.loads(asyncio.run(self._body(method, address, sent)))
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, RecursionError):
            content = None
        if not isinstance(content, dict):
            raise UnauthenticatedError
        return content

    async def _body(self, method: str, address: str, sent: Mapping[str, Any]) -> bytes:
        """Return the body of a response, within one timeout: slow headers evade every other timeout."""
        headers = {"accept": "application/json", "accept-encoding": "identity"}
        body = bytearray()
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx.AsyncClient(verify=self.trust, timeout=ANSWER_SECONDS, trust_env=False) as client,
            client.stream(method, address, headers=headers, **sent) as answer,
        ):
            # Raw: a small compressed answer could unpack to far more than LARGEST.
            async for part in answer.aiter_raw(8_192):
                body += part
                if len(body) > LARGEST:
                    raise ValueError
            return bytes(body) if answer.status_code == httpx.codes.OK else b""


@dataclass(frozen=True, slots=True)
class Oidc:
    """Sign-in at the issuer; the clock is for the times in a token."""

    table: OidcTable
    issuer: Issuer
    secret: str
    origin: str
    clock: Callable[[], datetime]
    attempts: Challenges = field(default_factory=lambda: Challenges(seconds=ATTEMPT_SECONDS))
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def begin(self, browser: str) -> str:
        """Return the issuer's address for a browser that signs in.

        Args:
            browser: Secret of the browser that begins; only this browser can complete the attempt.
        """
        endpoint = str(self.issuer.metadata()["authorization_endpoint"])
        state = self.attempts.new(_purpose(browser)).hex()
        parameters = {
            "response_type": "code",
            "scope": "openid",
            "client_id": self.table.client_id,
            "redirect_uri": f"{self.origin}{ANSWER}",
            "state": state,
            "nonce": self._drawn("nonce", state),
            "code_challenge": create_s256_code_challenge(self._drawn("verifier", state)),
            "code_challenge_method": "S256",
        }
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(parameters)}"

    def end(self, browser: str, answer: Mapping[str, str]) -> tuple[str, str]:
        """Check the issuer's answer and return its subject, and the name of the steward."""
        state = answer.get("state", "")
        try:
            challenge = bytes.fromhex(state)
        except ValueError:
            challenge = b""
        self.attempts.take(challenge, _purpose(browser))
        metadata = self.issuer.metadata()
        names_itself = metadata.get("authorization_response_iss_parameter_supported") is True
        # Mix-up attack (RFC 9207): the answer of another issuer would have its code sent to this one.
        if answer.get("iss", "" if names_itself else self.issuer.address) != self.issuer.address:
            raise UnauthenticatedError
        form = {
            "grant_type": "authorization_code",
            "code": answer.get("code", ""),
            "redirect_uri": f"{self.origin}{ANSWER}",
            "client_id": self.table.client_id,
            "code_verifier": self._drawn("verifier", state),
        }
        login = (quote(self.table.client_id, safe=""), quote(self.secret, safe=""))
        endpoint = str(self.issuer.metadata()["token_endpoint"])
        auth = login if self.secret else None
        token = str(self.issuer.fetched("POST", endpoint, data=form, auth=auth).get("id_token", ""))
        claims = self._claims(token, KEPT_SECONDS) or self._claims(token, AGAIN_SECONDS)
        if claims is None or not self._are_right(claims, self._drawn("nonce", state)):
            raise UnauthenticatedError
        subject = str(claims["sub"])
        if subject not in self.table.subjects:
            raise UnauthenticatedError
        return subject, self.table.subjects[subject]

    def _claims(self, token: str, seconds: float) -> CodeIDToken | None:
        """Return the claims of a token that a key of the issuer signed; else None."""
        published = self.issuer.keys(seconds)
        try:
            # keys of known kinds that are not there to encrypt to
            usable = [
                key
                for key in published["keys"]
                if key.get("kty") in ("EC", "OKP", "RSA") and key.get("use") != "enc"
            ]
            keys = KeySet.import_key_set({"keys": usable})
            token_content = jwt.decode(token, keys, algorithms=ALGORITHMS)
        except _FOREIGN:
            return None
        options = {"iss": {"essential": True, "value": self.issuer.address}}
        return CodeIDToken(token_content.claims, token_content.header, options)

    def _are_right(self, claims: CodeIDToken, nonce: str) -> bool:
        own = self.table.client_id
        try:
            claims.validate(now=int(self.clock().timestamp()), leeway=LEEWAY)
            for_others = claims["aud"] not in (own, [own]) or claims.get("azp", own) != own
            same = hmac.compare_digest(claims["nonce"].encode(), nonce.encode())
        except _FOREIGN:
            return False
        return same and not for_others and isinstance(claims["sub"], str)

    def _drawn(self, what: str, state: str) -> str:
        """Return the nonce or verifier of an attempt, derived from its state by a secret key."""
        return hmac.new(self._key, f"{what} {state}".encode(), "sha256").hexdigest()


def _purpose(browser: str) -> str:
    return f"oidc {sha256(browser.encode())}"


def oidc_of(table: OidcTable, origin: str, clock: Callable[[], datetime]) -> Oidc:
    """Return the sign-in that the settings describe; the issuer is called at the first sign-in."""
    content = b""
    if table.secret_file is not None:
        content = secret_bytes(table.secret_file, "page.oidc.secret_file")
    secret = content.decode(errors="replace").strip()
    try:
        trust = ssl.create_default_context(cafile=table.authority and str(table.authority))
    except (OSError, ssl.SSLError):
        problem = "is not a file of certificates"
        raise InvalidInputError(field="page.oidc.authority", problem=problem) from None
    return Oidc(table, Issuer(table.issuer, trust), secret, origin, clock)
