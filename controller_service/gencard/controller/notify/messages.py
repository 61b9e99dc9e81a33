"""The messages: fixed sentences, and a place to look at. No name, no label, no purpose, no number."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

from gencard.controller.notify.waiting import Kind
from gencard.wire.signatures.canonical import time_text

_SENTENCES = {
    Kind.PROPOSAL: "A proposal waits for a steward's decision.",
    Kind.RUN: "The output of a reviewed run waits for a steward's decision.",
    Kind.FAILURE: "An operation failed at the records and waits for a steward to look at it.",
    Kind.SECOND: "A decision waits for a second steward.",
    Kind.LONG: "Something has waited for a steward for more than a day.",
    Kind.CERTIFICATE: "A certificate runs out within 14 days, or has run out.",
    Kind.TEST: "This is a test. Nothing waits because of it.",
}


@dataclass(frozen=True, slots=True)
class Message:
    """Word of some kinds of things that wait.

    Args:
        name: Receivers know a repeated message by it.
        controller: The trust domain, which says whose queue it is.
        link: The page's address; empty where there is no page.
        time: When the message was made.
    """

    name: str
    kinds: tuple[str, ...]
    controller: str
    link: str
    time: datetime

    @property
    def text(self) -> str:
        """All sentences, then where to look."""
        return "\n".join((*sentences(self.kinds), f"Where: {self._where}"))

    @property
    def _where(self) -> str:
        return self.link or f"gencard steward queue ({self.controller})"

    def body(self) -> str:
        """As a webhook's body: JSON with type, time and data; ``text`` is what chats show."""
        data = {"waiting": list(self.kinds), "controller": self.controller, "link": self.link}
        event = "steward.test" if self.kinds == (Kind.TEST,) else "steward.waiting"
        document = {"type": event, "timestamp": time_text(self.time), "text": self.text, "data": data}
        return json.dumps(document)

    def mail(self, sender: str, to: Collection[str]) -> EmailMessage:
        """As a mail in plain text."""
        mail = EmailMessage()
        test = self.kinds == (Kind.TEST,)
        mail["Subject"] = f"Gencard {self.controller}: {'test' if test else 'a steward is needed'}"
        mail["From"], mail["To"] = sender, ", ".join(to)
        mail["Date"], mail["Message-ID"] = format_datetime(self.time), f"<{self.name}@{self.controller}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(f"{self.text}\n\nThis mail holds no data. Do not answer it.\n")
        return mail


def sentences(kinds: Collection[str]) -> list[str]:
    """One for each kind; a kind of another version has none.

    >>> sentences(["proposal", "unheard-of"])
    ["A proposal waits for a steward's decision."]
    """
    return [_SENTENCES[kind] for kind in Kind if kind in kinds]
