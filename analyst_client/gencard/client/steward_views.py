"""Views of stewards: a card, what became of a decision, and the registers."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.client.card_view import CHANGE_HEADS, CardView, change_lines
from gencard.client.common.display import Diff, Displayable, Facts, Grid, Part, named
from gencard.core.card.budget import Spend
from gencard.core.card.card import CardState
from gencard.core.card.privacy import AS_COUNTED
from gencard.core.errors import GencardError
from gencard.core.json_codecs import written
from gencard.core.policy import Colour
from gencard.core.program_outputs import DIGITS, Number
from gencard.measures.privacy.psi_risk import REFUSED
from gencard.wire import steward
from gencard.wire.canonical import time_text
from gencard.wire.keys import short_name
from gencard.wire.steward import FirstDecision, Together

WIDEST_MAP = 16
"""Attributes beyond which the table of pairs would not fit a terminal."""

_MOST_PAIRS = 12
_ONLY_ROUNDED = re.compile(r"rounding \d+")
_HERE, _BEFORE, _BOTH, _NONE = "+", "o", "*", "·"
_MARKS = {(True, False): _HERE, (False, True): _BEFORE, (True, True): _BOTH, (False, False): _NONE}
"""Marks of pairs, by whether one table has both: of this card, and of cards granted before."""


def first_line(first: FirstDecision) -> str:
    """A first decision in one line: action, steward, times, reason."""
    arguments = ", ".join(f"{name} {value}" for name, value in first.arguments.items())
    with_what = f" with {arguments}" if arguments else ""
    when = f"{time_text(first.time)}, waits until {time_text(first.expires)}"
    return f"{first.kind}{with_what} by {short_name(first.by)}, {when}: {first.reason}"


def together_grid(together: Together) -> Grid:
    """The lower half of both matrices in one table."""
    numbers = [str(place + 1) for place in range(len(together.attributes))]
    lines = [
        (
            number,
            name,
            *(
                _MARKS[bool(together.here[row][column]), bool(together.before[row][column])]
                for column in range(row + 1)
            ),
        )
        for row, (number, name) in enumerate(zip(numbers, together.attributes, strict=True))
    ]
    padded = [(*line, *[""] * (len(numbers) + 2 - len(line))) for line in lines]
    return Grid(("", "", *numbers), padded, numbers=True)


@dataclass(frozen=True, slots=True, repr=False)
class CardReview(steward.CardReview, Displayable):
    """A card, what approving it would offer, and who decided what on it.

    Args:
        checks: Whether the tables pass the checks of counts; empty if there are no checks.
        tails: Sentences about numbers whose answers will wait for a steward.
    """

    checks: str = field(default="", metadata=written(private=True))
    tails: tuple[str, ...] = field(default=(), metadata=written(private=True))

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def exact(self) -> bool:
        """Whether approving would offer exact statistics."""
        return self.waits and self.price is not None and not (self.price.epsilon or self.price.rho)

    @property
    def checked(self) -> bool:
        """Whether approving would offer exact counts with checks, or sums, which records may fail."""
        requested = self.card.proposed
        now = {change.field: change.new for change in self.changes}
        transform = now.get("transform", str(requested.transform))
        has_checks = transform != str(AS_COUNTED) and not _ONLY_ROUNDED.fullmatch(transform)
        return self.exact and (has_checks or bool(requested.sums))

    @property
    def waits(self) -> bool:
        """Whether the card waits for a steward."""
        return self.card.state is CardState.REQUESTED

    @property
    def next_step(self) -> str:
        """Decisions that a steward may take about the card."""
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
        lines += [("Answers", line) for line in self.tails]
        if self.two:
            lines.append(("Stewards", "two must decide"))
        return [*lines, ("Next", self.next_step), ("Shown", self.shown)]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        if self.changes:
            parts += ["Approving changes the proposal:", Diff(CHANGE_HEADS, change_lines(self.changes))]
        if 0 < len(self.together.attributes) <= WIDEST_MAP:
            parts += [
                f"Attributes that are in one table of this card ({_HERE}), of cards granted before "
                f"({_BEFORE}), of both ({_BOTH}):"
            ]
            parts += [together_grid(self.together)]
        if new := [named(pair) for pair in self.together.new_pairs()]:
            more = f" and {len(new) - _MOST_PAIRS} more" if len(new) > _MOST_PAIRS else ""
            parts += [f"Together for the first time: {'; '.join(new[:_MOST_PAIRS])}{more}"]
        if self.card.history:
            steps = [
                (time_text(step.time), short_name(step.actor), step.action, step.remark)
                for step in self.card.history
            ]
            parts += ["History:", Grid(("Time", "Who", "What", "Remark"), steps)]
        return self.name, [*parts, *(f"First decision: {first_line(first)}" for first in self.firsts)]

    def __repr__(self) -> str:
        return f"<CardReview {self.name}: {self.card.state}; {self.next_step or 'nothing to decide'}>"


@dataclass(frozen=True, slots=True, repr=False)
class Decision(steward.Decision, Displayable):
    """A decision, and its outcome."""

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands of the second steward: look, then decide the same; empty after the decision."""
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


_COMMANDS = {"release-answer": "release", "refuse-answer": "refuse", "dismiss-refusal": "dismiss"}
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


# Registers that stewards read besides cards: queue, answers to release, budgets, people, log.

QUEUE_HEADS = ("Since", "What", "Resource", "Waits for", "Whose")
ACCOUNT_HEADS = ("Dataset", "Scope", "Holder", "Spent", "Reserved", "Cap")
LINE_HEADS = ("Line", "Time", "Analyst", "For", "Price", "State", "Resource")
ANSWER_HEADS = ("Asked", "Answer", "Analyst", "Kind", "Formula or program")
REFUSAL_HEADS = ("Time", "Operation", "Analyst", "For", "Under", "Reason")
PEOPLE_HEADS = ("Name", "Role", "Project", "State", "Certificate until", "Last seen", "Fingerprint")
LOG_HEADS = ("Entry", "Time", "Who", "Action", "Resource", "Details")
_NUMBER_HEADS = ("Row", "Column", "Records", "Dry run", "Mark", "Rules")


@dataclass(frozen=True, slots=True)
class Waiting(steward.Waiting):
    """An item of the queue."""

    def line(self) -> tuple[str, ...]:
        return time_text(self.since), self.text, self.resource, self.waits_for, short_name(self.who)


@dataclass(frozen=True, slots=True)
class AnswerSummary(steward.AnswerSummary):
    """An answer that waits for a steward, without its numbers."""

    def line(self) -> tuple[str, ...]:
        return (
            time_text(self.time),
            self.name,
            short_name(self.analyst),
            self.question.kind,
            _short(self.question.formula),
        )


@dataclass(frozen=True, slots=True, repr=False)
class AnswerReview(steward.AnswerReview, Displayable):
    """An answer that waits for a steward, number by number. Its numbers come from the records."""

    def lines(self) -> list[tuple[str, str]]:
        """The run in names and values."""
        question = self.summary.question
        lines = [("Analyst", short_name(self.summary.analyst))]
        lines.append((question.kind.capitalize(), question.formula))
        lines += [("Where", question.where)] if question.where else []
        if question.missing == "drop":
            lines.append(("Missing values", "records with one in the formula are left out"))
        lines += [("Options", question.options)] if question.options else []
        with suppress(GencardError):  # a document of another form is printed as it is
            if self.document is not None:
                answer = AnalysisAnswer.of_json(self.document)
                lines.append(("Records", f"{answer.n:,g}, {answer.noise}"))
        lines.append(("Asked", time_text(self.summary.time)))
        if self.cells:
            marks = [cell.mark for cell in self.cells]
            counts = ", ".join(f"{marks.count(colour)} {colour}" for colour in Colour)
            advice = "Read the program: marks rely on the counts that it reports"
            lines.append(("Numbers", f"{len(marks)}: {counts}. {advice}"))
        if self.reasons:
            lines.append(("Refused by", ", ".join(self.reasons)))
        if self.two:
            lines.append(("Stewards", "two must decide"))
        return [*lines, ("Next", "release or refuse"), ("Shown", self.shown)]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        for output in dict.fromkeys(cell.output for cell in self.cells):
            lines = [
                (
                    cell.row,
                    cell.column,
                    _number(cell.value),
                    _number(cell.dry),
                    str(cell.mark),
                    ", ".join(cell.rules),
                )
                for cell in self.cells
                if cell.output == output
            ]
            parts += [output, Grid(_NUMBER_HEADS, lines)]
        parts += [f"Answer: {_words(self.document)}"] if self.document else []
        parts += [f"Marks: {_words(self.marks)}"] if self.marks else []
        return self.name, [*parts, *(f"First decision: {first_line(first)}" for first in self.firsts)]

    def __repr__(self) -> str:
        return f"<AnswerReview {self.name}: {len(self.cells)} numbers; release or refuse>"


@dataclass(frozen=True, slots=True)
class BudgetAccount(steward.BudgetAccount):
    """One budget."""

    def line(self) -> tuple[str, ...]:
        prices = str(self.spent), str(self.reserved), str(self.cap)
        return self.dataset, self.scope, short_name(self.holder) or "—", *prices


def spend_line(spend: Spend) -> tuple[str, ...]:
    about = str(spend.line), time_text(spend.created), short_name(spend.analyst), spend.kind
    return *about, str(spend.price), str(spend.state), spend.resource


@dataclass(frozen=True, slots=True)
class Person(steward.Person):
    """A person who is enrolled."""

    def line(self) -> tuple[str, ...]:
        times = (self.certificate_until, self.last_seen)
        ends, last_seen = ("—" if time is None else time_text(time) for time in times)
        state = "disabled" if self.disabled else "enabled"
        who = self.identity
        return who.name, str(who.role), who.project, state, ends, last_seen, self.fingerprint


@dataclass(frozen=True, slots=True, repr=False)
class Preview(steward.Preview, Displayable):
    """Facts that a steward has to see before a decision that is not on a card or an answer."""

    def lines(self) -> list[tuple[str, str]]:
        """The facts in names and values."""
        lines = [
            (name.replace("_", " ").capitalize(), _words(value)) for name, value in self.facts.items()
        ]
        lines += [("Stewards", "two must decide")] if self.two else []
        return [*lines, ("Shown", self.shown)]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        waiting = (f"First decision: {first_line(first)}" for first in self.firsts)
        return f"{self.kind} {self.resource}", [Facts(self.lines()), *waiting]

    def __repr__(self) -> str:
        return f"<Preview {self.kind} {self.resource}>"


@dataclass(frozen=True, slots=True)
class Failure(steward.Failure):
    """A failure at the records that counts against its analyst."""

    def line(self) -> tuple[str, ...]:
        about = time_text(self.time), self.operation, short_name(self.analyst)
        return *about, self.kind, self.resource, self.reason


@dataclass(frozen=True, slots=True)
class LogLine(steward.LogLine):
    """One entry of the log, as the controller says it; ``Steward.entry`` proves one."""

    def line(self) -> tuple[str, ...]:
        details = ", ".join(f"{name}={_short(text)}" for name, text in sorted(self.details.items()))
        who = short_name(self.actor)
        return str(self.index), time_text(self.time), who, self.action, self.resource, details


def _short(text: str) -> str:
    return text[:12] + "…" if len(text) == 64 else text


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Number) -> str:
    return "missing" if value is None else f"{value:.{DIGITS}g}"
