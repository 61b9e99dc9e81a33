"""A card as a steward sees it, and what became of a decision."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from gencard.client.card_view import CHANGE_HEADS, CardView, change_lines
from gencard.client.display import Diff, Displayable, Facts, Grid, Part, named
from gencard.core.card.budget import Price
from gencard.core.card.card import Card, CardState, Change
from gencard.core.card.mechanism import AS_COUNTED
from gencard.core.domain import Clique
from gencard.core.psi_risk.risk import REFUSED
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name

WIDEST_MAP = 16
"""Attributes beyond which the table of pairs would not fit a terminal."""

_MOST_PAIRS = 12
_ONLY_ROUNDED = re.compile(r"rounding \d+")
_HERE, _BEFORE, _BOTH, _NONE = "here", "before", "both", "·"


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """What one steward decided, until another one decides the same.

    Args:
        kind: Such as "approve".
        by: URI of the steward.
        reason: As written into the log.
        shown: SHA-256, in hex, of what that steward was shown.
        digest: SHA-256, in hex, of the decision: what both have to agree on.
        arguments: What goes with the decision, such as marginals to drop.
        expires: Until when it waits.
    """

    kind: str
    by: str
    reason: str
    shown: str
    digest: str
    arguments: Mapping[str, Any]
    time: datetime
    expires: datetime

    def line(self) -> str:
        """Who decided what, when and why."""
        with_what = f" with {arguments_text(self.arguments)}" if self.arguments else ""
        when = f"{time_text(self.time)}, waits until {time_text(self.expires)}"
        return f"{self.kind}{with_what} by {short_name(self.by)}, {when}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Together:
    """Which attributes are in one table, as square matrices over ``attributes``.

    Args:
        here: Whether this card releases a table of both; on the diagonal, of the attribute at all.
        before: The same of all other cards granted on the present records, to anybody.
        cards: Names of those cards.
    """

    attributes: Clique
    here: Sequence[Sequence[bool]]
    before: Sequence[Sequence[bool]]
    cards: tuple[str, ...]

    def new_pairs(self) -> Iterator[Clique]:
        """Pairs of attributes that this card would be the first to release together."""
        for row, one in enumerate(self.attributes):
            for column, other in enumerate(self.attributes[:row]):
                if self.here[row][column] and not self.before[row][column]:
                    yield other, one

    def grid(self) -> Grid:
        """The lower half of the matrices in one table."""
        numbers = [str(place + 1) for place in range(len(self.attributes))]
        lines = [
            (number, name, *(self._cell(row, column) for column in range(row + 1)))
            for row, (number, name) in enumerate(zip(numbers, self.attributes, strict=True))
        ]
        padded = [(*line, *[""] * (len(numbers) + 2 - len(line))) for line in lines]
        return Grid(("", "", *numbers), padded)

    def _cell(self, row: int, column: int) -> str:
        here, before = self.here[row][column], self.before[row][column]
        return (_BOTH if before else _HERE) if here else (_BEFORE if before else _NONE)


@dataclass(frozen=True, slots=True, repr=False)
class CardReview(Displayable):
    """A card, what approving it would offer, and who decided what on it.

    Args:
        changes: Differences between the proposal and what ``approve`` would offer.
        price: Of that offer; None where there is none.
        refusal: Why approving is refused; empty where it is not.
        two: Two stewards have to approve.
        shown: SHA-256, in hex, of all this: a decision names it, and holds for nothing else.
        checks: Whether the tables pass the checks of counts; empty if there are no checks.
    """

    card: Card
    changes: tuple[Change, ...]
    price: Price | None
    refusal: str
    two: bool
    shown: str
    together: Together
    firsts: tuple[FirstDecision, ...] = ()
    checks: str = ""

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def checked(self) -> bool:
        """Whether approving would offer exact counts with checks, which the records may fail."""
        if not self.waits or self.price is None:
            return False
        requested = self.card.proposed
        now = {change.field: change.new for change in self.changes}
        transform = now.get("transform", str(requested.transform))
        noisy = bool(self.price.epsilon or self.price.rho)
        return not noisy and transform != str(AS_COUNTED) and not _ONLY_ROUNDED.fullmatch(transform)

    @property
    def waits(self) -> bool:
        """Whether the card waits for a steward."""
        return self.card.state is CardState.REQUESTED

    @property
    def next_step(self) -> str:
        """What a steward may do."""
        if self.waits:
            fails = self.refusal or self.checks.startswith(REFUSED)
            return "counter or reject" if fails else "approve, counter or reject"
        return "revoke" if self.card.envelope and self.card.state is not CardState.REVOKED else ""

    def lines(self) -> list[tuple[str, str]]:
        """The card in names and values."""
        lines = [line for line in CardView(self.card).lines() if line[0] not in ("Next", "SHA-256")]
        lines.insert(1, ("Analyst", short_name(self.card.analyst)))
        if self.price is not None:
            lines.append(("Approve offers", f"price {self.price}"))
        if self.refusal:
            lines.append(("Approve fails", self.refusal))
        if self.checks:
            lines.append(("Checks", self.checks))
        if self.two:
            lines.append(("Stewards", "two must decide"))
        return [*lines, ("Next", self.next_step), ("Shown", self.shown)]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        if self.changes:
            parts += ["Approving changes the proposal:", Diff(CHANGE_HEADS, change_lines(self.changes))]
        if 0 < len(self.together.attributes) <= WIDEST_MAP:
            parts += ["Attributes that are in one table of this card or of cards granted before:"]
            parts += [self.together.grid()]
        if new := [named(pair) for pair in self.together.new_pairs()]:
            more = f" and {len(new) - _MOST_PAIRS} more" if len(new) > _MOST_PAIRS else ""
            parts += [f"Together for the first time: {'; '.join(new[:_MOST_PAIRS])}{more}"]
        if self.card.history:
            parts += ["History:", Grid(("Time", "Who", "What", "Remark"), self._history())]
        return self.name, [*parts, *(f"First decision: {first.line()}" for first in self.firsts)]

    def _history(self) -> list[tuple[str, str, str, str]]:
        return [
            (time_text(step.time), short_name(step.actor), step.action, step.remark)
            for step in self.card.history
        ]

    def __repr__(self) -> str:
        return f"<CardReview {self.name}: {self.card.state}; {self.next_step or 'nothing to decide'}>"


@dataclass(frozen=True, slots=True, repr=False)
class Decision(Displayable):
    """What became of a decision.

    Args:
        by: URIs of those who decided, first to last.
        done: False where it waits for a second steward.
        expires: Until when it waits; None once it is done.
        result: What came of it: texts, by name.
    """

    kind: str
    resource: str
    arguments: Mapping[str, Any]
    shown: str
    by: tuple[str, ...]
    done: bool
    time: datetime
    expires: datetime | None = None
    result: Mapping[str, str] = field(default_factory=dict)

    @property
    def commands(self) -> tuple[str, ...]:
        """What the second steward types: look, then decide the same; none once it is done."""
        if self.done:
            return ()
        decide = command_of(self.kind, self.resource, self.arguments, self.shown)
        if "/cards/" not in self.resource:
            return (decide,)
        look = "answers" if "/answers/" in self.resource else "show"
        return f"gencard steward {look} {self.resource}", decide

    def lines(self) -> list[tuple[str, str]]:
        """The decision in names and values."""
        lines = [
            ("Decision", f"{self.kind} {self.resource}"),
            ("By", ", ".join(map(short_name, self.by))),
            ("State", "done" if self.done else "waiting for another steward; no effect yet"),
        ]
        if self.expires is not None:
            lines.append(("Waits until", time_text(self.expires)))
        lines += [
            (name.replace("_", " "), text) for name, text in self.result.items() if len(text) < 100
        ]
        return lines

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Decision", [
            Facts(self.lines()),
            *(f"The other steward: {command}" for command in self.commands),
        ]

    def __repr__(self) -> str:
        return f"<Decision {self.kind} {self.resource}: {'done' if self.done else 'waits for another'}>"


_COMMANDS = {
    "release-answer": "release",
    "refuse-answer": "refuse",
    "dismiss-refusal": "dismiss",
}
_FILE = "request"
"""An argument that is a file: too long to be typed, and written beside the name."""


def command_of(kind: str, resource: str, arguments: Mapping[str, Any], shown: str) -> str:
    """The shell's command for the same decision by another steward.

    >>> command_of("counter", "datasets/d/cards/c", {"drop": [["a", "b"]]}, "ab12")
    'gencard steward counter datasets/d/cards/c --drop a,b --shown ab12'
    """
    name = resource.removeprefix("people/").removeprefix("ledger/")
    subject = f"{name}-request.json" if _FILE in arguments else name
    words = ["gencard", "steward", _COMMANDS.get(kind, kind), subject]
    for option, value in arguments.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            text = ",".join(one) if isinstance(one, list | tuple) else str(one)
            if one is True:
                words.append(f"--{option}")
            elif one not in (False, "") and option != _FILE:
                words += [f"--{option}", shlex.quote(text)]
    return " ".join([*words, "--shown", shown])


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Arguments in one line."""
    return ", ".join(f"{name} {value}" for name, value in arguments.items())
