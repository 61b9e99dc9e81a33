"""Threads that notify stewards of waiting items; no call of the service waits for these threads.

The state keeps which items were notified and which messages are still to be sent. A crash loses nothing,
and repeats at most a message whose try it interrupted, under the same name.
"""

import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from gencard.controller.controller_state import ControllerState
from gencard.controller.notify.channels import Attempt, Channel, Fate, channels_of
from gencard.controller.notify.messages import Message, notices, sentences
from gencard.controller.settings import Settings
from gencard.controller.state import stewards
from gencard.controller.state.database import Database
from gencard.controller.state.stewards import MessageRow, MessageState
from gencard.controller.stewards.waiting import EVERY_KIND, WaitingList
from gencard.core.errors import StorageError
from gencard.wire.steward import WaitingKind

_AGAIN = (10, 60, 300, 900)
"""Seconds to the next try after the first ones; an hour after all others."""

_LATEST = 3_600
_GIVE_UP = timedelta(days=2)

Report = Callable[[str, str, str], None]
"""Called with place, incident and kind, as for jobs."""


@dataclass(frozen=True, slots=True)
class Post:
    """Queue of notifications, which the threads of ``Notifier`` fill and deliver.

    Args:
        controller: The trust domain.
        link: Address of the page; empty if there is no page.
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
        """Make a message for each channel about all waiting items that were not notified yet.

        Returns:
            Whether there is a new message, or a waiting message has new items.
        """
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
    """Return the delay before the next try."""
    return timedelta(seconds=_AGAIN[tries] if tries < len(_AGAIN) else _LATEST)


class Notifier:
    """A thread that collects items, and one for each channel: a slow channel delays no other.

    Args:
        report: Called with place and kind if a message is not accepted and if the state fails.
        seconds: Seconds between two collections.
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

    def _sender(self, channel: Channel) -> Callable[[], bool]:
        """Return a function that sends due messages; it returns False once the receiver is gone."""

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
    """Return the queue of notifications that the settings configure.

    Raises:
        InvalidInputError: A secret or an authority cannot be used, or a library is missing.
    """
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
