"""Items that wait for a steward, as kinds and digests, and the messages about them.

A message has fixed sentences and a link. It has no name, no label, no purpose and no number.
"""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum

from sqlalchemy import Connection, select

from gencard.controller.operations.failures import Refusals
from gencard.controller.state import results, stewards
from gencard.controller.state.tables import cards
from gencard.core.card.card import CardState
from gencard.wire.signatures.canonical import digest_of, time_text

ENDS_SOON = timedelta(days=14)
"""Time before a certificate's end from which on stewards are notified."""

LONG = timedelta(days=1)
"""Time after which a waiting item is notified again, once a day."""


class NoticeKind(StrEnum):
    """Kind of a waiting item."""

    PROPOSAL = "proposal"
    RUN = "run"
    FAILURE = "failure"
    SECOND = "second-decision"
    LONG = "long"
    CERTIFICATE = "certificate"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Notice:
    """An item that waits for a steward.

    Args:
        resource: Name of the item; messages do not contain it.
        since: Time when the item began to wait; the end of a certificate.
    """

    kind: NoticeKind
    resource: str
    since: datetime

    @property
    def digest(self) -> str:
        """Digest of the item, by which the state remembers that stewards were notified."""
        return digest_of({"kind": self.kind, "resource": self.resource, "since": time_text(self.since)})


Certificates = Callable[[Connection], Iterator[tuple[str, datetime]]]
"""Certificates that people or the service rely on: a name and the end of each."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Reads the items that wait for a steward from the state and from certificates."""

    refusals: Refusals
    certificates: Certificates

    def notices(self, tx: Connection, now: datetime) -> list[Notice]:
        """Return all waiting items, and a reminder if an item has waited for long."""
        firsts = stewards.waiting_first_decisions(tx, now)
        seconds = (Notice(NoticeKind.SECOND, first.digest, first.time) for first in firsts)
        waiting = [*self._proposals(tx), *self._runs(tx), *self._failures(tx), *seconds]
        if any(now - notice.since >= LONG for notice in waiting):
            day = datetime.combine(now.date(), datetime.min.time(), now.tzinfo)
            waiting.append(Notice(NoticeKind.LONG, "queue", day))
        ends = (end for end in self.certificates(tx) if end[1] - now <= ENDS_SOON)
        return [*waiting, *(Notice(NoticeKind.CERTIFICATE, name, end) for name, end in ends)]

    def _proposals(self, tx: Connection) -> Iterator[Notice]:
        requested = cards.c.state == CardState.REQUESTED
        for name, time in tx.execute(select(cards.c.name, cards.c.changed).where(requested)):
            yield Notice(NoticeKind.PROPOSAL, name, time)

    def _runs(self, tx: Connection) -> Iterator[Notice]:
        for run in results.waiting_runs(tx):
            yield Notice(NoticeKind.RUN, run.name, run.created)

    def _failures(self, tx: Connection) -> Iterator[Notice]:
        for refused in self.refusals.waiting(tx):
            yield Notice(NoticeKind.FAILURE, refused.name, refused.time)


_SENTENCES = {
    NoticeKind.PROPOSAL: "A proposal is waiting for a steward's decision.",
    NoticeKind.RUN: "The output of a run is waiting for a steward's decision.",
    NoticeKind.FAILURE: (
        "Work on the records failed or was refused and is waiting for a steward's review."
    ),
    NoticeKind.SECOND: "A decision is waiting for a second steward.",
    NoticeKind.LONG: "Something has been waiting for a steward for more than a day.",
    NoticeKind.CERTIFICATE: "A certificate expires within 14 days, or has expired.",
    NoticeKind.TEST: "This is a test. No action is needed.",
}


@dataclass(frozen=True, slots=True)
class Message:
    """A notification about items that wait for a steward.

    Args:
        name: Name of the message, by which receivers recognise a repeated one.
        controller: Trust domain of the controller on which the items wait.
        link: Address of the page; empty if there is no page.
        time: Time when the message was made.
    """

    name: str
    kinds: tuple[str, ...]
    controller: str
    link: str
    time: datetime

    @property
    def text(self) -> str:
        """Text of the message: all sentences, then the link."""
        return "\n".join((*sentences(self.kinds), f"Where: {self._where}"))

    @property
    def _where(self) -> str:
        return self.link or f"gencard steward queue ({self.controller})"

    def body(self) -> str:
        """Return the body for a webhook: JSON with type, time and data; chats show ``text``."""
        data = {"waiting": list(self.kinds), "controller": self.controller, "link": self.link}
        event = "steward.test" if self.kinds == (NoticeKind.TEST,) else "steward.waiting"
        document = {"type": event, "timestamp": time_text(self.time), "text": self.text, "data": data}
        return json.dumps(document)

    def mail(self, sender: str, to: Collection[str]) -> EmailMessage:
        """Return the message as a mail in plain text."""
        mail = EmailMessage()
        test = self.kinds == (NoticeKind.TEST,)
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
    return [_SENTENCES[kind] for kind in NoticeKind if kind in kinds]
