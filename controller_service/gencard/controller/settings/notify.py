"""The settings table of word to stewards: a webhook, mail, or both."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from gencard.controller.settings.files import Section, is_loopback
from gencard.core.errors import InvalidInputError

Mailbox = Annotated[str, Field(pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,190}$")]
Port = Annotated[int, Field(ge=1, le=65_535)]


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
        return "must hold no password; the messages are signed with secret_file"
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
            problem = "may be none only for a server on this machine"
            raise InvalidInputError(field="notify.mail.security", problem=problem)
        if bool(self.user) != (self.password_file is not None):
            raise InvalidInputError(
                field="notify.mail.user", problem="needs password_file, and the other way round"
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
