"""Channels of notifications: a signed webhook, and mail by SMTP. Each try ends within seconds."""

import base64
import binascii
import smtplib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gencard.controller.base.files import secret_bytes
from gencard.controller.notify.messages import Message
from gencard.controller.settings_tables import MailTable, NotifyTable, WebhookTable
from gencard.core.errors import InvalidInputError

SECONDS = 10.0
"""Timeout in seconds of each step of a try: connecting, sending, waiting for a response."""


class Fate(StrEnum):
    """Outcome of a try: accepted, failed and to be retried, or rejected for ever by the receiver."""

    TAKEN = "taken"
    FAILED = "failed"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of a try.

    Args:
        problem: Reason of a failure: a text of this module or the name of an error's class; empty if
            the message was accepted.
    """

    fate: Fate
    problem: str = ""


class Channel(Protocol):
    """A channel of notifications."""

    @property
    def name(self) -> str:
        """In the state, in logs and on the terminal."""
        ...

    def send(self, message: Message, now: datetime) -> Attempt:
        """Try once; raises nothing that depends on the receiver."""
        ...


@dataclass(frozen=True, slots=True)
class Webhook:
    """Sends messages as standardwebhooks.com specifies: signed, with name and time in the headers.

    The name stays the same from try to try. No redirect is followed: a redirect could send messages to
    any host. Proxies that the environment names are not used.
    """

    url: str = field(repr=False)
    secret: bytes = field(repr=False)
    trusted: ssl.SSLContext
    name: str = "webhook"

    def send(self, message: Message, now: datetime) -> Attempt:
        """Try once; only the status of the answer is read."""
        import httpx  # noqa: PLC0415 - the extra ``page``, and not for those who want mail alone
        from standardwebhooks.webhooks import Webhook as Signer  # noqa: PLC0415

        body, time = message.body(), now.astimezone(UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": message.name,
            "webhook-timestamp": str(int(time.timestamp())),
            "webhook-signature": Signer(self.secret).sign(message.name, time, body),
        }
        client = httpx.Client(verify=self.trusted, timeout=SECONDS, trust_env=False)
        try:
            with client, client.stream("POST", self.url, content=body, headers=headers) as answer:
                return _attempt_of(answer.status_code)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Attempt(Fate.FAILED, type(error).__name__)


def _attempt_of(status: int) -> Attempt:
    if 200 <= status < 300:
        return Attempt(Fate.TAKEN)
    if status == 410:
        return Attempt(Fate.GONE, "the receiver answers 410: it wants no more messages")
    if 300 <= status < 400:
        return Attempt(Fate.FAILED, f"the receiver answers {status}, a redirect, which is not followed")
    return Attempt(Fate.FAILED, f"the receiver answers {status}")


@dataclass(frozen=True, slots=True)
class Mail:
    """Sends mail through one server."""

    table: MailTable
    password: str = field(repr=False)
    trusted: ssl.SSLContext
    name: str = "mail"

    def send(self, message: Message, now: datetime) -> Attempt:  # noqa: ARG002  a message has its time
        """Try once. A mail that is refused for some of its addressees counts as accepted."""
        try:
            with self._connected() as server:
                if self.table.security == "starttls":
                    server.starttls(context=self.trusted)
                if self.table.user:
                    server.login(self.table.user, self.password)
                server.send_message(message.mail(self.table.sender, self.table.to))
        except (smtplib.SMTPException, OSError) as error:
            return Attempt(Fate.FAILED, type(error).__name__)
        return Attempt(Fate.TAKEN)

    def _connected(self) -> smtplib.SMTP:
        host, port = self.table.host, self.table.port
        if self.table.security == "tls":
            return smtplib.SMTP_SSL(host, port, timeout=SECONDS, context=self.trusted)
        return smtplib.SMTP(host, port, timeout=SECONDS)


def channels_of(table: NotifyTable) -> tuple[Channel, ...]:
    """Return the ways that the settings name.

    Raises:
        InvalidInputError: A file of a secret or an authority cannot be used, or a library is missing.
    """
    channels: list[Channel] = []
    if table.webhook is not None:
        channels.append(_webhook(table.webhook))
    if table.mail is not None:
        file = table.mail.password_file
        password = _line(file, "notify.mail.password_file") if file else ""
        trusted = _trusted(table.mail.authority, "notify.mail.authority")
        channels.append(Mail(table.mail, password, trusted))
    return tuple(channels)


def _webhook(table: WebhookTable) -> Webhook:
    try:
        import httpx  # noqa: F401, PLC0415
        import standardwebhooks  # noqa: F401, PLC0415
    except ImportError:
        problem = "needs the libraries of the extra 'page': pip install 'gencard[controller,page]'"
        raise InvalidInputError(field="notify.webhook", problem=problem) from None
    place = "notify.webhook.secret_file"
    try:
        secret = base64.b64decode(_line(table.secret_file, place).removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) < 24:  # the least that the standard allows
        problem = "must hold whsec_ and at least 24 random bytes in base64"
        raise InvalidInputError(field=place, problem=problem)
    return Webhook(
        table.url.get_secret_value(), secret, _trusted(table.authority, "notify.webhook.authority")
    )


def _line(file: Path, place: str) -> str:
    """Return the single line of a secret file; raises InvalidInputError."""
    try:
        text = secret_bytes(file, place).decode("ascii").strip()
    except UnicodeDecodeError:
        text = ""
    if not text or not text.isprintable():
        raise InvalidInputError(field=place, problem="the file must hold one line of plain characters")
    return text


def _trusted(authority: Path | None, place: str) -> ssl.SSLContext:
    """Return a TLS context for the system's authorities, or for one; raises InvalidInputError."""
    try:
        context = ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError):
        raise InvalidInputError(field=place, problem="is not a certificate in PEM") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
