"""Threads that look at what waits and send word of it; no call of anybody waits for them.

What was told, and what is still to be sent, is in the state: a crash loses nothing, and repeats at most
a message whose try it interrupted, under the same name.
"""

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from gencard.controller.controller_state import ControllerState
from gencard.controller.notify.channels import Attempt, Channel, Fate, channels_of
from gencard.controller.notify.messages import Message, Waits, sentences
from gencard.controller.people.certificates import certificate_ends
from gencard.controller.settings.settings import Settings
from gencard.controller.state import stewards
from gencard.controller.state.database import Database
from gencard.controller.state.stewards import MessageRow, MessageState
from gencard.controller.stewards.desk import Desk
from gencard.core.errors import GencardError, StorageError

_AGAIN = (10, 60, 300, 900)
"""Seconds to the next try after the first ones; an hour after all others."""

_LATEST = 3_600
_GIVE_UP = timedelta(days=2)

Report = Callable[[str, str, str], None]
"""Called with place, incident and kind, as for jobs."""


@dataclass(frozen=True, slots=True)
class Post:
    """What the threads of word work at.

    Args:
        controller: The trust domain.
        link: Where stewards look; empty where there is no page.
        quiet: Least time between two messages.
    """

    database: Database
    waits: Waits
    channels: tuple[Channel, ...]
    controller: str
    link: str
    interval: timedelta
    clock: Callable[[], datetime]

    def collect(self) -> bool:
        """Make one message for each channel of all that waits and was not told of yet.

        Returns:
            Whether there is a new one, or more in one that waits.
        """
        now = self.clock()
        with self.database.reading() as tx:
            notices = {notice.digest: notice for notice in self.waits.notices(tx, now)}
            announced, newest = stewards.announced_digests(tx), stewards.newest_message_time(tx)
        fresh = notices.keys() - announced
        recent = newest is not None and now - newest < self.interval
        if announced == notices.keys() or (fresh and recent):
            return False
        with self.database.transaction() as tx:
            stewards.remember_announced(tx, notices.keys())
            stewards.forget_messages(tx, now)
            for channel in self.channels if fresh else ():
                kinds = {notices[digest].kind for digest in fresh}
                stewards.add_message(tx, f"word_{secrets.token_hex(12)}", channel.name, kinds, now)
        return bool(fresh)

    def deliver(self, channel: Channel) -> Attempt | None:
        """Try the oldest message of a channel, where one is due."""
        now = self.clock()
        with self.database.reading() as tx:
            row = stewards.next_message(tx, channel.name)
        if row is None or row.due > now:
            return None
        with self.database.transaction() as tx:
            stewards.begin_try(tx, row.name, now + _delay(row.tries))
        attempt = channel.send(self.message(row), now) if sentences(row.kinds) else Attempt(Fate.TAKEN)
        if attempt.fate is Fate.FAILED and now - row.created < _GIVE_UP:
            return attempt
        state = MessageState.SENT if attempt.fate is Fate.TAKEN else MessageState.LOST
        with self.database.transaction() as tx:
            stewards.end_message(tx, row.name, state)
        return attempt

    def message(self, row: MessageRow) -> Message:
        return Message(row.name, row.kinds, self.controller, self.link, row.created)


def _delay(tries: int) -> timedelta:
    """From one try to the next."""
    return timedelta(seconds=_AGAIN[tries] if tries < len(_AGAIN) else _LATEST)


class Notifier:
    """One thread that looks, and one for each channel, so that a slow one holds up no other.

    Args:
        report: Told, by place and kind, when a message is not taken and when the state fails.
        seconds: Between two looks.
    """

    def __init__(self, post: Post, report: Report, *, seconds: float = 5.0) -> None:
        self._post, self._report, self._seconds = post, report, seconds
        self._stopping = threading.Event()
        work = {"looking": self._look}
        work |= {channel.name: self._sender(channel) for channel in post.channels}
        self._threads = [
            threading.Thread(target=self._repeat, args=one, name=f"notify-{one[0]}", daemon=True)
            for one in work.items()
        ]

    def start(self) -> None:
        """Start the threads, where there is a channel."""
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

    def _sender(self, channel: Channel) -> Callable[[], bool]:
        """Sends what is due; False once the receiver is gone, until the next start."""

        def send() -> bool:
            attempt = self._post.deliver(channel)
            if attempt is not None and attempt.problem:
                self._report(f"notify.{channel.name}", secrets.token_hex(8), attempt.problem)
            return attempt is None or attempt.fate is not Fate.GONE

        return send

    def _repeat(self, name: str, step: Callable[[], bool]) -> None:
        """Take steps until the end; a failure of the state is reported once, until it is over."""
        failing = False
        while not self._stopping.is_set():
            try:
                if not step():
                    return
                failing = False
            except StorageError:
                if not failing:
                    self._report(f"notify.{name}", secrets.token_hex(8), "StorageError")
                failing = True
            except Exception as error:  # word must not end because of one mistake
                if not failing:
                    self._report(f"notify.{name}", secrets.token_hex(8), type(error).__name__)
                failing = True
            self._stopping.wait(self._seconds)


def post_of(opened: ControllerState) -> Post:
    """What the settings say of word.

    Raises:
        InvalidInputError: A secret or an authority cannot be used, or a library is missing.
    """
    settings, desk = opened.settings, opened.desk()
    certificates = partial(_certificates, settings, desk)
    return Post(
        opened.database,
        Waits(opened.refusals, certificates),
        channels_of(settings.notify),
        settings.identity.trust_domain,
        link_of(settings),
        timedelta(seconds=settings.notify.quiet_seconds),
        opened.cards.clock,
    )


def link_of(settings: Settings) -> str:
    """Where stewards look: as the settings say, or the page; empty where there is none."""
    page = settings.page
    if settings.notify.link or page is None:
        return settings.notify.link
    port = page.address.rpartition(":")[2]
    return page.origin or ("" if port == "0" else f"https://localhost:{port}")


def _certificates(settings: Settings, desk: Desk, tx: Connection) -> Iterator[tuple[str, datetime]]:
    """Of the service, its authority, its health check, and everybody who is enrolled."""
    health, server = settings.signing.identities.parent / "health", settings.server
    own = () if server.insecure_dev else (server.certificate, server.authority)
    yield from certificate_ends(*own, health / "certificate.pem")
    with suppress(GencardError):  # a person's file that cannot be read silences no other word
        for person in desk.effects.people.views(*desk.reader.times(tx)):
            if person.certificate_until is not None and not person.disabled:
                yield person.uri, person.certificate_until
