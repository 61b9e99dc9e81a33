"""The settings tables of what reaches stewards: their page, and word by webhook or mail."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from gencard.controller.settings.files import Address, Section, is_loopback
from gencard.core.errors import InvalidInputError

Mailbox = Annotated[str, Field(pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]
Subject = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,255}$")]
Holder = Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,63}$")]


def _https(origin: str) -> str:
    parts = urlsplit(origin)
    host = parts.hostname or ""
    is_host_name = bool(host) and not host.replace(".", "").isdigit() and ":" not in host
    if origin and (not is_host_name or origin != f"https://{parts.netloc}" or "@" in parts.netloc):
        problem = "is not of the form https://name or https://name:port"
        raise InvalidInputError(field="page.origin", problem=problem)
    return origin


def _issuer(address: str) -> str:
    if not is_https(address) or urlsplit(address).query:
        problem = "is not an address that begins with https://, without a query"
        raise InvalidInputError(field="page.oidc.issuer", problem=problem)
    return address


def is_https(address: str) -> bool:
    """Whether an address is one that TLS protects, without a user's name and without a fragment."""
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    plain = address.isascii() and address.isprintable() and not {*' "<>\\#@'} & {*address}
    return parts.scheme == "https" and bool(host) and plain


class OidcTable(Section):
    """Sign-in at an issuer of OpenID Connect, beside passkeys; its stewards have no other rights.

    ``issuer``: its address, as it names itself. ``client_id``, ``secret_file``: of the page there,
    where its redirect address is ``ORIGIN/sign-in/oidc/answer``; a public client has no secret.
    ``subjects``: the enrolled steward's name for each subject. ``authority``: as for the webhook.
    """

    issuer: Annotated[str, AfterValidator(_issuer)]
    client_id: Subject
    secret_file: Path | None = None
    authority: Path | None = None
    subjects: Mapping[Subject, Holder]


class PageTable(Section):
    """The stewards' page, served where this table is there; its certificate is that of the service.

    ``address``: on loopback; elsewhere the page is reached by a tunnel. ``origin``: as browsers see the
    page, ``https://name:port``; default: localhost and the port. Passkeys are bound to the name.
    ``idle_minutes``: after so long without a request a session ends.
    """

    address: Address = "127.0.0.1:7444"
    origin: Annotated[str, AfterValidator(_https)] = ""
    idle_minutes: int = Field(default=15, ge=1, le=60)
    oidc: OidcTable | None = None

    @model_validator(mode="after")
    def _is_on_loopback(self) -> "PageTable":
        if not is_loopback(self.address):
            raise InvalidInputError(field="page.address", problem="must be an address on loopback")
        return self


class WebhookTable(Section):
    """A receiver of signed messages, as standardwebhooks.com describes them.

    ``url`` is https, or http on loopback. ``secret_file`` holds ``whsec_`` and the receiver's secret,
    ``authority`` the certificate of a private authority.
    """

    url: SecretStr
    secret_file: Path
    authority: Path | None = None

    @model_validator(mode="after")
    def _is_private(self) -> "WebhookTable":
        if problem := _problem(self.url.get_secret_value()):
            raise InvalidInputError(field="notify.webhook.url", problem=problem)
        return self


def _problem(url: str) -> str:
    """What is wrong with a receiver's address; empty where nothing is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not an address"
    if not host or parts.fragment or not url.isascii() or not url.isprintable() or " " in url:
        return "is not an address"
    if parts.username or parts.password:
        return "must contain no password; the messages are signed with secret_file"
    at = f"[{host}]:{port or 0}" if ":" in host else f"{host}:{port or 0}"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(at)):
        return "must begin with https://, or http:// for a receiver on this machine"
    return ""


class MailTable(Section):
    """A mail server, and who is written to.

    ``security``: ``starttls``, ``tls``, or ``none`` for a server on this machine. ``user`` and
    ``password_file`` where the server asks for them; ``authority`` as for the webhook.
    """

    host: str = Field(pattern=r"^[A-Za-z0-9.:-]{1,255}$")
    port: Port = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = Field(default="", pattern=r"^[\x21-\x7e]{0,255}$")
    password_file: Path | None = None
    authority: Path | None = None
    sender: Mailbox
    to: tuple[Mailbox, ...] = Field(min_length=1, max_length=50)

    @model_validator(mode="after")
    def _is_private(self) -> "MailTable":
        if self.security == "none" and not is_loopback(f"{self.host}:{self.port}"):
            problem = "may be 'none' only for a server on this machine"
            raise InvalidInputError(field="notify.mail.security", problem=problem)
        if bool(self.user) != (self.password_file is not None):
            raise InvalidInputError(
                field="notify.mail.user", problem="and password_file must be given together"
            )
        return self


class NotifyTable(Section):
    """Word to stewards that something waits; nobody is told where neither table is there.

    ``link`` is where stewards look; by default the page's origin. ``quiet_seconds`` is the least time
    between two messages: what comes to wait meanwhile stands in the next one.
    """

    link: str = Field(default="", pattern=r"^(https://[\x21-\x7e]{1,300})?$")
    quiet_seconds: int = Field(default=300, ge=0, le=86_400)
    webhook: WebhookTable | None = None
    mail: MailTable | None = None
