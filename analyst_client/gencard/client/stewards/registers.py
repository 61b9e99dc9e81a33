"""What stewards look at besides cards: the queue, answers to release, budgets, people, the log."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gencard.client.display import Displayable, Facts, Grid, Part
from gencard.client.stewards.card_review import FirstDecision
from gencard.core.answers.answer import Answer
from gencard.core.card.budget import Price, Spend
from gencard.core.errors import GencardError
from gencard.core.output_checks.rules import Colour
from gencard.core.program_outputs import DIGITS, Number
from gencard.wire.signatures.canonical import time_text
from gencard.wire.signatures.identity import Identity, short_name

QUEUE_HEADS = ("Since", "What", "Resource", "Waits for", "Whose")
ACCOUNT_HEADS = ("Dataset", "Scope", "Holder", "Spent", "Reserved", "Cap")
LINE_HEADS = ("Line", "Time", "Analyst", "For", "Price", "State", "Resource")
ANSWER_HEADS = ("Asked", "Answer", "Analyst", "Kind", "Formula or program")
REFUSAL_HEADS = ("Time", "Operation", "Analyst", "For", "Under", "Reason")
PEOPLE_HEADS = ("Name", "Role", "Project", "State", "Certificate until", "Last seen", "Fingerprint")
LOG_HEADS = ("Entry", "Time", "Who", "Action", "Resource", "Details")
_NUMBER_HEADS = ("Row", "Column", "Records", "Dry run", "Mark", "Rules")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Something that waits.

    Args:
        since: It waits since then; of a certificate, its end.
        resource: Name of a card, answer, operation or person.
        kind: proposal, offer, answer, refusal, decision or certificate.
        waits_for: "a steward", "another steward" or "the analyst".
        text: One line, for people.
        who: URI of whose it is.
    """

    since: datetime
    resource: str
    kind: str
    waits_for: str
    text: str
    who: str

    def line(self) -> tuple[str, ...]:
        """Under ``QUEUE_HEADS``."""
        return time_text(self.since), self.text, self.resource, self.waits_for, short_name(self.who)


@dataclass(frozen=True, slots=True)
class Cell:
    """One number that a program gave on the records.

    Args:
        value: On the records; None where it is missing.
        dry: At its place on the synthetic rows.
        rules: Rules that it breaks.
    """

    output: str
    row: str
    column: str
    value: Number
    dry: Number
    mark: Colour
    rules: tuple[str, ...]

    def line(self) -> tuple[str, ...]:
        """Under the heads of an answer's table."""
        numbers = _number(self.value), _number(self.dry)
        return self.row, self.column, *numbers, str(self.mark), ", ".join(self.rules)


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """An answer that waits for a steward, without its numbers.

    Args:
        analyst: URI of who asked.
        kind: Kind of analysis; "program" for a program.
        formula: Of a program, its digest.
        where: The subpopulation; empty for all records.
        missing: "level", or "drop" if records with a missing value are left out.
        options: Of the analysis, as JSON; empty for none.
    """

    name: str
    analyst: str
    kind: str
    formula: str
    time: datetime
    where: str = ""
    missing: str = ""
    options: str = ""

    def line(self) -> tuple[str, ...]:
        """Under ``ANSWER_HEADS``."""
        return time_text(self.time), self.name, short_name(self.analyst), self.kind, _short(self.formula)


@dataclass(frozen=True, slots=True, repr=False)
class AnswerReview(Displayable):
    """An answer that waits for a steward, number by number. Its numbers come from the records.

    Args:
        cells: Of a program's run, every number.
        program: Of a program's run, its text.
        document: Of one of our analyses, the answer as JSON; empty where the rules refused it.
        marks: What the rules say of its numbers, as JSON.
        reasons: Codes of the rules that refused it.
        two: Two stewards have to release it.
        shown: SHA-256, in hex, of all this: a decision names it.
    """

    summary: AnswerSummary
    cells: tuple[Cell, ...]
    program: str
    document: str
    marks: str
    reasons: tuple[str, ...]
    two: bool
    shown: str
    firsts: tuple[FirstDecision, ...] = ()

    @property
    def name(self) -> str:
        return self.summary.name

    def lines(self) -> list[tuple[str, str]]:
        """The run in names and values."""
        summary = self.summary
        lines = [("Analyst", short_name(summary.analyst)), (summary.kind.capitalize(), summary.formula)]
        lines += [("Where", summary.where)] if summary.where else []
        if summary.missing == "drop":
            lines.append(("Missing values", "records with one in the formula are left out"))
        lines += [("Options", summary.options)] if summary.options else []
        lines += self._extent()
        lines.append(("Asked", time_text(summary.time)))
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
            answer = Answer.of_json(json.loads(self.document)) if self.document else None
        except (ValueError, GencardError):  # it is printed as it is
            answer = None
        return [] if answer is None else [("Records", f"{answer.n:,g}, {answer.noise}")]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines())]
        for output in dict.fromkeys(cell.output for cell in self.cells):
            lines = [cell.line() for cell in self.cells if cell.output == output]
            parts += [output, Grid(_NUMBER_HEADS, lines)]
        parts += [f"Answer: {self.document}"] if self.document else []
        parts += [f"Marks: {self.marks}"] if self.marks else []
        return self.name, [*parts, *(f"First decision: {first.line()}" for first in self.firsts)]

    def __repr__(self) -> str:
        return f"<AnswerReview {self.name}: {len(self.cells)} numbers; release or refuse>"


@dataclass(frozen=True, slots=True)
class Account:
    """One budget.

    Args:
        scope: dataset, project or analyst.
        holder: The project or analyst; empty for a dataset.
        spent: What was spent, what is reserved included.
    """

    dataset: str
    scope: str
    holder: str
    cap: Price
    spent: Price
    reserved: Price

    def line(self) -> tuple[str, ...]:
        """Under ``ACCOUNT_HEADS``."""
        prices = str(self.spent), str(self.reserved), str(self.cap)
        return self.dataset, self.scope, short_name(self.holder) or "—", *prices


def spend_line(spend: Spend) -> tuple[str, ...]:
    """Under ``LINE_HEADS``."""
    about = str(spend.line), time_text(spend.created), short_name(spend.analyst), spend.kind
    return *about, str(spend.price), str(spend.state), spend.resource


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody enrolled.

    Args:
        fingerprint: SHA-256, in hex, of the signing key.
        certificate_until: End of the certificate; None where the controller does not know it.
        last_seen: Time of the newest entry in the log that they caused.
        shown: For decisions on this person.
    """

    uri: str
    fingerprint: str
    disabled: bool
    certificate_until: datetime | None
    last_seen: datetime | None
    shown: str

    def line(self) -> tuple[str, ...]:
        """Under ``PEOPLE_HEADS``."""
        times = (self.certificate_until, self.last_seen)
        ends, last_seen = ("—" if time is None else time_text(time) for time in times)
        state = "disabled" if self.disabled else "enabled"
        who = Identity.of(self.uri)
        return who.name, str(who.role), who.project, state, ends, last_seen, self.fingerprint


@dataclass(frozen=True, slots=True, repr=False)
class Preview(Displayable):
    """What has to be seen before a decision that is not on a card or an answer.

    Args:
        facts: What it is about, by name.
        two: Two stewards have to decide.
        shown: SHA-256, in hex, of all this: the decision names it.
    """

    kind: str
    resource: str
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    two: bool
    shown: str
    firsts: tuple[FirstDecision, ...] = ()

    def lines(self) -> list[tuple[str, str]]:
        """The facts in names and values."""
        lines = [
            (name.replace("_", " ").capitalize(), _words(value)) for name, value in self.facts.items()
        ]
        lines += [("Stewards", "two must decide")] if self.two else []
        return [*lines, ("Shown", self.shown)]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        waiting = (f"First decision: {first.line()}" for first in self.firsts)
        return f"{self.kind} {self.resource}", [Facts(self.lines()), *waiting]

    def __repr__(self) -> str:
        return f"<Preview {self.kind} {self.resource}>"


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure at the records that counts against its analyst.

    Args:
        kind: What the operation was to do.
        reason: Code of its end.
        shown: For a decision on it.
    """

    operation: str
    analyst: str
    kind: str
    resource: str
    reason: str
    time: datetime
    shown: str

    def line(self) -> tuple[str, ...]:
        """Under ``REFUSAL_HEADS``."""
        about = time_text(self.time), self.operation, short_name(self.analyst)
        return *about, self.kind, self.resource, self.reason


@dataclass(frozen=True, slots=True)
class LogLine:
    """One entry of the log, as the controller says it; ``Steward.entry`` proves one."""

    index: int
    time: datetime
    actor: str
    action: str
    resource: str
    details: Mapping[str, str]

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
