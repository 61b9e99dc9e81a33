"""Registers that stewards read besides cards: queue, answers to release, budgets, people, log."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gencard.analysis.answers.answer import AnalysisAnswer
from gencard.client.common.display import Displayable, Facts, Grid, Part
from gencard.client.stewards.card_review import first_line
from gencard.core.card.budget import Spend
from gencard.core.errors import GencardError
from gencard.core.output_rules import Colour
from gencard.core.program_outputs import DIGITS, Number
from gencard.wire import steward
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import short_name

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
        """Under ``QUEUE_HEADS``."""
        return time_text(self.since), self.text, self.resource, self.waits_for, short_name(self.who)


def _number_line(cell: steward.ReviewedNumber) -> tuple[str, ...]:
    """Under ``_NUMBER_HEADS``."""
    numbers = _number(cell.value), _number(cell.dry)
    return cell.row, cell.column, *numbers, str(cell.mark), ", ".join(cell.rules)


@dataclass(frozen=True, slots=True)
class AnswerSummary(steward.AnswerSummary):
    """An answer that waits for a steward, without its numbers."""

    def line(self) -> tuple[str, ...]:
        """Under ``ANSWER_HEADS``."""
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
        lines += self._extent()
        lines.append(("Asked", time_text(self.summary.time)))
        if self.cells:
            marks = [cell.mark for cell in self.cells]
            counts = ", ".join(f"{marks.count(colour)} {colour}" for colour in Colour)
            lines.append(
                (
                    "Numbers",
                    f"{len(marks)}: {counts}. Read the program: marks rely on the counts that it "
                    "reports",
                )
            )
        if self.reasons:
            lines.append(("Refused by", ", ".join(self.reasons)))
        if self.two:
            lines.append(("Stewards", "two must decide"))
        return [*lines, ("Next", "release or refuse"), ("Shown", self.shown)]

    def _extent(self) -> list[tuple[str, str]]:
        """Number of records of a checked run's answer, and its noise."""
        try:
            answer = None if self.document is None else AnalysisAnswer.of_json(self.document)
        except GencardError:  # it is printed as it is
            answer = None
        return [] if answer is None else [("Records", f"{answer.n:,g}, {answer.noise}")]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        for output in dict.fromkeys(cell.output for cell in self.cells):
            lines = [_number_line(cell) for cell in self.cells if cell.output == output]
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
        """Under ``ACCOUNT_HEADS``."""
        prices = str(self.spent), str(self.reserved), str(self.cap)
        return self.dataset, self.scope, short_name(self.holder) or "—", *prices


def spend_line(spend: Spend) -> tuple[str, ...]:
    """Under ``LINE_HEADS``."""
    about = str(spend.line), time_text(spend.created), short_name(spend.analyst), spend.kind
    return *about, str(spend.price), str(spend.state), spend.resource


@dataclass(frozen=True, slots=True)
class Person(steward.Person):
    """A person who is enrolled."""

    def line(self) -> tuple[str, ...]:
        """Under ``PEOPLE_HEADS``."""
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
        """Under ``REFUSAL_HEADS``."""
        about = time_text(self.time), self.operation, short_name(self.analyst)
        return *about, self.kind, self.resource, self.reason


@dataclass(frozen=True, slots=True)
class LogLine(steward.LogLine):
    """One entry of the log, as the controller says it; ``Steward.entry`` proves one."""

    def line(self) -> tuple[str, ...]:
        """Under ``LOG_HEADS``."""
        details = ", ".join(f"{name}={_short(text)}" for name, text in sorted(self.details.items()))
        who = short_name(self.actor)
        return str(self.index), time_text(self.time), who, self.action, self.resource, details


def _short(text: str) -> str:
    return text[:12] + "…" if len(text) == 64 else text


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Number) -> str:
    return "missing" if value is None else f"{value:.{DIGITS}g}"
