"""Notices of items that wait for a steward, as kinds and digests, and the messages about them.

A message has fixed sentences and a link. It has no name, no label, no purpose and no number.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime

from gencard.controller.stewards.waiting import ANALYST
from gencard.wire.canonical import digest_of, time_text
from gencard.wire.steward import FirstDecision, Waiting, WaitingKind

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
        event = "steward.test" if self.kinds == (TEST,) else "steward.waiting"
        document = {"type": event, "timestamp": time_text(self.time), "text": self.text, "data": data}
        return json.dumps(document)

    def mail(self, sender: str, to: Collection[str]) -> EmailMessage:
        """Return the message as a mail in plain text."""
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
