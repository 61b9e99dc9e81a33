"""Notifications to stewards about waiting items, by webhook and mail; they contain only an item's kind.

In: the state. Out: messages of fixed sentences, sent by threads of their own; no call of the service
waits for them. The state keeps which items were notified and which messages are still to be sent. A
crash loses nothing, and repeats at most a message whose try it interrupted, under the same name.
"""

import base64
import binascii
import json
import secrets
import smtplib
import ssl
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

from gencard.controller.base.files import secret_bytes
from gencard.controller.controller_state import ControllerState
from gencard.controller.settings import Settings
from gencard.controller.settings_tables import MailTable, NotifyTable, WebhookTable
from gencard.controller.state import stewards
from gencard.controller.state.database import Database
from gencard.controller.state.stewards import MessageState
from gencard.controller.stewards.waiting import ANALYST, EVERY_KIND, WaitingList
from gencard.core.errors import InvalidInputError, StorageError
from gencard.wire.canonical import digest_of, time_text
from gencard.wire.steward import FirstDecision, Waiting, WaitingKind

# Notices, as kinds and digests, and messages: fixed sentences and a link, without a name, a label, a
# purpose or a number.

AFTER_LONG = timedelta(days=1)
"""Time after which a waiting item is notified again, once a day."""

LONG, TEST = "long", "test"
"""Kinds of messages besides those of ``WaitingKind``: a reminder, and a message without an item."""

SENTENCES: Mapping[str, str] = {
    WaitingKind.PROPOSAL: "A proposal is waiting for a steward's decision.",
    WaitingKind.ANSWER: "The output of a run is waiting for a steward's decision.",
    WaitingKind.REFUSAL: (
        "Work on the records failed or was refused and is waiting for a steward's review."
    ),
    WaitingKind.DECISION: "A decision is waiting for a second steward.",
    LONG: "Something has been waiting for a steward for more than a day.",
    WaitingKind.CERTIFICATE: "A certificate expires within 14 days, or has expired.",
    TEST: "This is a test. No action is needed.",
}


def notices(items: Iterable[Waiting], firsts: Iterable[FirstDecision], now: datetime) -> dict[str, str]:
    """Return the kind of each notice by its digest, by which the state remembers notified stewards.

    Each item for a steward is one notice, each first decision another: it may come later, lapse, and be
    made again. A daily reminder is one more, if an item has waited for long.
    """
    own = (item for item in items if item.waits_for != ANALYST and item.kind != WaitingKind.DECISION)
    due: list[tuple[str, str, datetime]] = [(item.kind, item.resource, item.since) for item in own]
    due += [(WaitingKind.DECISION, first.digest, first.time) for first in firsts]
    if any(now - since >= AFTER_LONG for kind, _, since in due if kind != WaitingKind.CERTIFICATE):
        due.append((LONG, "queue", datetime.combine(now.date(), datetime.min.time(), now.tzinfo)))
    return {
        digest_of({"kind": kind, "resource": resource, "since": time_text(since)}): str(kind)
        for kind, resource, since in due
    }


@dataclass(frozen=True, slots=True)
class Message:
    """A notification about items that wait for a steward.

    Args:
        name: Name of the message, by which receivers recognise a repeated one.
        controller: Trust domain of the controller on which the items wait.
        link: Address of the page; empty if there is no page.
    """

    name: str
    kinds: tuple[str, ...]
    controller: str
    link: str
    time: datetime

    @property
    def text(self) -> str:
        """Text of the message: all sentences, then the link."""
        where = self.link or f"gencard steward queue ({self.controller})"
        return "\n".join((*sentences(self.kinds), f"Where: {where}"))

    def body(self) -> str:
        """Return the body for a webhook: JSON with type, time and data; chats show ``text``."""
        data = {"waiting": list(self.kinds), "controller": self.controller, "link": self.link}
        event = "steward.test" if self.kinds == (TEST,) else "steward.waiting"
        document = {"type": event, "timestamp": time_text(self.time), "text": self.text, "data": data}
        return json.dumps(document)

    def mail(self, sender: str, to: Collection[str]) -> EmailMessage:
        mail = EmailMessage()
        test = self.kinds == (TEST,)
        mail["Subject"] = f"Gencard {self.controller}: {'test' if test else 'a steward is needed'}"
        mail["From"], mail["To"] = sender, ", ".join(to)
        mail["Date"], mail["Message-ID"] = format_datetime(self.time), f"<{self.name}@{self.controller}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{self.text}\n\nThis mail contains no data. Do not reply to it.\n")
        return mail


def sentences(kinds: Collection[str]) -> list[str]:
    """Return a sentence for each kind; an unknown kind has none.

    >>> sentences(["proposal", "unheard-of"])
    ["A proposal is waiting for a steward's decision."]
    """
    return [sentence for kind, sentence in SENTENCES.items() if kind in kinds]


# Channels: a signed webhook, and mail by SMTP. Each try ends within seconds.

SECONDS = 10.0
"""Timeout in seconds of each step of a try: connecting, sending, waiting for a response."""


class DeliveryOutcome(StrEnum):
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

    outcome: DeliveryOutcome
    problem: str = ""


class Channel(Protocol):
    @property
    def name(self) -> str:
        """In the state, in logs and on the terminal."""

    def send(self, message: Message, now: datetime) -> Attempt:
        """Try once; raises nothing that depends on the receiver."""


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
                status = answer.status_code
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return Attempt(DeliveryOutcome.FAILED, type(error).__name__)
        if 200 <= status < 300:
            return Attempt(DeliveryOutcome.TAKEN)
        if status == 410:
            return Attempt(DeliveryOutcome.GONE, "the receiver answers 410: it wants no more messages")
        why = ", a redirect, which is not followed" if 300 <= status < 400 else ""
        return Attempt(DeliveryOutcome.FAILED, f"the receiver answers {status}{why}")


@dataclass(frozen=True, slots=True)
class Mail:
    table: MailTable
    password: str = field(repr=False)
    trusted: ssl.SSLContext
    name: str = "mail"

    def send(self, message: Message, now: datetime) -> Attempt:  # noqa: ARG002  a message has its time
        """Try once. A mail that is refused for some of its addressees counts as accepted."""
        table = self.table
        connect: Callable[..., smtplib.SMTP] = smtplib.SMTP
        if table.security == "tls":
            connect = partial(smtplib.SMTP_SSL, context=self.trusted)
        try:
            with connect(table.host, table.port, timeout=SECONDS) as server:
                if table.security == "starttls":
                    server.starttls(context=self.trusted)
                if table.user:
                    server.login(table.user, self.password)
                server.send_message(message.mail(table.sender, table.to))
        except (smtplib.SMTPException, OSError) as error:
            return Attempt(DeliveryOutcome.FAILED, type(error).__name__)
        return Attempt(DeliveryOutcome.TAKEN)


def channels_of(table: NotifyTable) -> tuple[Channel, ...]:
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


# Threads that make messages and deliver them.

_AGAIN = (10, 60, 300, 900, 3_600)
"""Seconds to the next try after the first ones; the last holds after all others."""

_GIVE_UP = timedelta(days=2)

Report = Callable[[str, str, str], None]
"""Called with place, incident and kind, as for jobs."""


@dataclass(frozen=True, slots=True)
class Post:
    """Queue of notifications, which the threads of ``Notifier`` fill and deliver.

    Args:
        interval: Shortest time between two messages.
    """

    database: Database
    waiting: WaitingList
    channels: tuple[Channel, ...]
    controller: str
    link: str
    interval: timedelta
    clock: Callable[[], datetime]

    def collect(self) -> bool:
        """Make a message about all waiting items not notified yet; return whether any is new."""
        now = self.clock()
        with self.database.reading() as tx:
            items = self.waiting.items(tx, EVERY_KIND - {WaitingKind.OFFER}).rows
            kinds = notices(items, self.waiting.firsts(tx), now)
            announced, newest = stewards.announced_digests(tx), stewards.newest_message_time(tx)
        fresh = kinds.keys() - announced
        recent = newest is not None and now - newest < self.interval
        if announced == kinds.keys() or (fresh and recent):
            return False
        with self.database.transaction() as tx:
            stewards.remember_announced(tx, kinds.keys())
            stewards.forget_messages(tx, now)
            for channel in self.channels if fresh else ():
                name, new = f"word_{secrets.token_hex(12)}", {kinds[digest] for digest in fresh}
                stewards.add_message(tx, name, channel.name, new, now)
        return bool(fresh)

    def deliver(self, channel: Channel) -> Attempt | None:
        """Try the oldest message of a channel, if a message is due."""
        now = self.clock()
        with self.database.reading() as tx:
            row = stewards.next_message(tx, channel.name)
        if row is None or row.due > now:
            return None
        with self.database.transaction() as tx:
            pause = timedelta(seconds=_AGAIN[min(row.tries, len(_AGAIN) - 1)])
            stewards.begin_try(tx, row.name, now + pause)
        attempt = Attempt(DeliveryOutcome.TAKEN)
        if sentences(row.kinds):
            message = Message(row.name, row.kinds, self.controller, self.link, row.created)
            attempt = channel.send(message, now)
        if attempt.outcome is DeliveryOutcome.FAILED and now - row.created < _GIVE_UP:
            return attempt
        state = MessageState.SENT if attempt.outcome is DeliveryOutcome.TAKEN else MessageState.LOST
        with self.database.transaction() as tx:
            stewards.end_message(tx, row.name, state)
        return attempt


class Notifier:
    """A thread that collects items, and one for each channel: a slow channel delays no other.

    Args:
        report: Called with place and kind if a message is not accepted and if the state fails.
        seconds: Seconds between two collections.
    """

    def __init__(self, post: Post, report: Report, *, seconds: float = 5.0) -> None:
        self._post, self._report, self._seconds = post, report, seconds
        self._stopping = threading.Event()
        work: dict[str, Callable[[], bool]] = {"looking": self._look}
        work |= {channel.name: partial(self._send, channel) for channel in post.channels}
        self._threads = [
            threading.Thread(target=self._repeat, args=one, name=f"notify-{one[0]}", daemon=True)
            for one in work.items()
        ]

    def start(self) -> None:
        """Start the threads, if there is a channel."""
        for thread in self._threads if self._post.channels else ():
            thread.start()

    def stop(self, grace: float = 2.0) -> None:
        """Send nothing more. A try that is under way is left to end by itself, and counts as failed."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(grace)

    def _look(self) -> bool:
        self._post.collect()
        return True

    def _send(self, channel: Channel) -> bool:
        """Send a message that is due; False once the receiver is gone."""
        attempt = self._post.deliver(channel)
        if attempt is not None and attempt.problem:
            self._report(f"notify.{channel.name}", secrets.token_hex(8), attempt.problem)
        return attempt is None or attempt.outcome is not DeliveryOutcome.GONE

    def _repeat(self, name: str, step: Callable[[], bool]) -> None:
        """Take steps until the end; a failure of the state is reported once, until it is over."""
        failing = False
        while not self._stopping.is_set():
            try:
                if not step():
                    return
                failing = False
            except Exception as error:  # word must not end because of one mistake
                kind = "StorageError" if isinstance(error, StorageError) else type(error).__name__
                if not failing:
                    self._report(f"notify.{name}", secrets.token_hex(8), kind)
                failing = True
            self._stopping.wait(self._seconds)


def post_of(opened: ControllerState) -> Post:
    settings = opened.settings
    return Post(
        opened.database,
        opened.desk().waiting,
        channels_of(settings.notify),
        settings.identity.trust_domain,
        link_of(settings),
        timedelta(seconds=settings.notify.quiet_seconds),
        opened.cards.clock,
    )


def link_of(settings: Settings) -> str:
    """Return the link of messages: that of the settings, or the page's address, or none."""
    page = settings.page
    if settings.notify.link or page is None:
        return settings.notify.link
    port = page.address.rpartition(":")[2]
    return page.origin or ("" if port == "0" else f"https://localhost:{port}")
