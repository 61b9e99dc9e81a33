"""Views and decisions of stewards: one class for each thing, on both sides and in the shells.

The classes hold what crosses the wire and nothing else. They are here and not in the core because they
hold what is signed (the question of a run) and JSON in its canonical form (arguments of an action).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from gencard.analysis.output_checks.rounding import rounded_count
from gencard.core.card.budget import Price
from gencard.core.card.card import CardRecord, Change
from gencard.core.card.terms import Proposal
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, TooLargeError
from gencard.core.json_codecs import written
from gencard.core.policy import Colour
from gencard.core.program_outputs import Number
from gencard.measures.privacy.psi_risk import PsiRisk
from gencard.wire.canonical import digest_of, json_bytes, time_text
from gencard.wire.documents import Question
from gencard.wire.keys import Identity

LONGEST_REASON = 200
"""Characters."""

LARGEST_ARGUMENTS = 1 << 18
"""Bytes of an action's arguments, as RFC 8785 JSON."""

PROGRAM = "program"
"""Kind of the question of a run of an analyst's program."""


class WaitingKind(StrEnum):
    """Kinds of items that wait: in the queue, on the page, in notifications and in metrics."""

    PROPOSAL = "proposal"
    """A card for which a steward can offer terms."""
    OFFER = "offer"
    """A card whose terms the analyst can accept."""
    ANSWER = "answer"
    """Output of a run that a steward releases or refuses."""
    REFUSAL = "refusal"
    """Work on the records that failed or was refused, and that a steward reviews."""
    DECISION = "decision"
    """A decision with which a second steward has to agree."""
    CERTIFICATE = "certificate"
    """A certificate of a person or of the service that ends within 14 days, or has ended."""


@dataclass(frozen=True, slots=True, order=True)
class Waiting:
    """An item of the queue.

    Args:
        since: Time since when it waits; of a certificate, its end.
        resource: Name of a card, answer, operation, person, ledger line or certificate.
        kind: One of ``WaitingKind``; a controller of a later version may have others.
        waits_for: "a steward", "another steward" or "the analyst".
        who: URI of the person whom it concerns.
    """

    since: datetime
    resource: str
    kind: str
    waits_for: str
    text: str
    who: str

    @property
    def token(self) -> str:
        """Page token of a list that ends with this item."""
        return f"{time_text(self.since)} {self.kind} {self.resource}"


class Kind(StrEnum):
    """Kinds of actions; beside each its resource and its arguments.

    Arguments that are not named here are refused; those with a default may be left out.
    """

    APPROVE = "approve"
    """datasets/D/cards/C. Offer what was asked, or the nearest that the policy allows."""
    COUNTER = "counter"
    """datasets/D/cards/C; ``drop``: lists of attributes, ``rows``; or ``terms``: a whole document."""
    REJECT = "reject"
    """datasets/D/cards/C; ``remark``: shown to the analyst."""
    REVOKE = "revoke"
    """datasets/D/cards/C; ``remark``: shown to the analyst."""
    RELEASE_ANSWER = "release-answer"
    """datasets/D/cards/C/answers/A; ``withhold``: names of numbers, ``digits``, ``red``."""
    REFUSE_ANSWER = "refuse-answer"
    """datasets/D/cards/C/answers/A; ``code``: of the reason, which the analyst gets."""
    SETTLE = "settle"
    """ledger/N."""
    VOID = "void"
    """ledger/N."""
    DISMISS_REFUSAL = "dismiss-refusal"
    """operations/O."""
    CLEAR_AUDITS = "clear-audits"
    """datasets/D; ``black_box``."""
    ENROL = "enrol"
    """people/NAME; ``request``: the document, ``fingerprint``, ``role``, ``project``, ``address``,
    ``again``."""
    DISABLE = "disable"
    """people/NAME."""
    ENABLE = "enable"
    """people/NAME."""
    ROTATE = "rotate"
    """keys/cards or keys/log."""


def kind_of(text: str) -> Kind:
    """Return the kind of a name; raises InvalidInputError if no action has it."""
    if text not in set(Kind):
        raise InvalidInputError(field="kind", problem=f"must be one of {', '.join(Kind)}")
    return Kind(text)


@dataclass(frozen=True, slots=True)
class Action:
    """An action that a steward requests.

    Args:
        arguments: JSON: texts, whole numbers, truth values, lists and objects of them.
        reason: One printable line of at most 200 characters, written into the log.
        shown: SHA-256, in hex, of what the steward was shown; reviews and previews give it.

    Raises:
        InvalidInputError: The reason is not such a line, or the arguments have no canonical form.
        TooLargeError: The arguments have more than 256 KiB.
    """

    kind: Kind
    resource: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    shown: str = ""

    def __post_init__(self) -> None:
        if not self.reason.strip() or len(self.reason) > LONGEST_REASON or not self.reason.isprintable():
            problem = f"must be one printable line of 1 to {LONGEST_REASON} characters"
            raise InvalidInputError(field="reason", problem=problem)
        check_arguments(json_bytes(dict(self.arguments)))

    @property
    def digest(self) -> str:
        """SHA-256, in hex, of all but the reason: two stewards have to agree on it."""
        facts = {"kind": str(self.kind), "resource": self.resource, "shown": self.shown}
        return digest_of({**facts, "arguments": dict(self.arguments)})


def check_arguments(content: bytes) -> None:
    """Raise TooLargeError if arguments of an action have more than 256 KiB."""
    if len(content) > LARGEST_ARGUMENTS:
        what, advice = "The number of bytes of the arguments", "Send a shorter text."
        raise TooLargeError(what=what, limit=LARGEST_ARGUMENTS, advice=advice)


@dataclass(frozen=True, slots=True)
class FirstDecision:
    """A decision of one steward that waits until another steward decides the same.

    Args:
        digest: SHA-256, in hex, of the action: both stewards have to agree on it.
        by: URI of the steward.
    """

    digest: str
    kind: str
    resource: str
    arguments: Mapping[str, Any]
    shown: str
    reason: str
    by: str
    time: datetime
    expires: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """An action on which one or two stewards decided.

    Args:
        by: URIs of the stewards who decided, first to last.
        done: False if it waits for a second steward, until ``expires``.
        result: Texts by name, such as the answer to an enrolment.
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


@dataclass(frozen=True, slots=True)
class Preview:
    """Facts that a steward has to see before a decision.

    Args:
        facts: Document on which the decision is taken, by name.
        shown: SHA-256, in hex, of the facts: the decision names it.
    """

    kind: str
    resource: str
    arguments: Mapping[str, Any]
    facts: Mapping[str, Any]
    two: bool
    shown: str
    firsts: tuple[FirstDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class Together:
    """Attributes that are released together, as square matrices over ``attributes``.

    Args:
        here: True where this card, as offered or as it would be, releases a table of both; on the
            diagonal, a table of the attribute at all.
        before: The same of all other cards that were granted on the present records, to any analyst.
    """

    attributes: Clique
    here: tuple[tuple[bool, ...], ...]
    before: tuple[tuple[bool, ...], ...]
    cards: tuple[str, ...]

    def new_pairs(self) -> Iterator[Clique]:
        """Pairs of attributes that this card would be the first to release together."""
        for row, one in enumerate(self.attributes):
            for column, other in enumerate(self.attributes[:row]):
                if self.here[row][column] and not self.before[row][column]:
                    yield other, one


@dataclass(frozen=True, slots=True)
class CardReview:
    """A card as a steward sees it.

    Args:
        offer: Terms that ``approve`` would offer; None if it cannot, or if the card does not wait.
        changes: Differences between the proposal and these terms.
        refusal: Reason why approving fails, with advice; both empty if it does not.
        shown: SHA-256, in hex, of all this: a decision names it, and applies to nothing else.
    """

    card: CardRecord
    offer: Proposal | None
    changes: tuple[Change, ...]
    price: Price | None
    refusal: str
    advice: str
    two: bool
    shown: str
    together: Together
    firsts: tuple[FirstDecision, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """An answer (datasets/{dataset}/cards/{card}/answers/{answer}) that waits, without its numbers."""

    name: str
    analyst: str
    question: Question = field(metadata=written(inline=True))
    time: datetime

    @property
    def card(self) -> str:
        return self.name.partition("/answers/")[0]

    @property
    def reviewed(self) -> bool:
        """Whether a program of the analyst's gave the answer."""
        return self.question.kind == PROGRAM


@dataclass(frozen=True, slots=True)
class ReviewedNumber:
    """One number that a program gave on the records; None if it is missing.

    Args:
        dry: Number at its place on the synthetic rows.
        rules: Codes of the rules that it breaks.
        base: A number of records is released as a multiple of it, as in checked runs; 1 for other
            numbers.
    """

    output: str
    row: str
    column: str
    value: Number
    dry: Number
    mark: Colour
    rules: tuple[str, ...]
    base: int = 1

    @property
    def leaving(self) -> Number:
        """The number as it is released."""
        return rounded_count(self.value, self.base)

    @property
    def marks(self) -> tuple[str, ...]:
        """Codes of the rules that it breaks, and how it is rounded."""
        rounding = (f"is released as a multiple of {self.base}",) if self.base > 1 else ()
        return (*self.rules, *rounding)


@dataclass(frozen=True, slots=True)
class AnswerReview:
    """An answer that waits, for stewards alone: its numbers come from the records.

    Args:
        document: Answer of a checked run as JSON; None if the output rules refused it.
        marks: Verdicts of the output rules on each part of a checked run's answer, as JSON.
        reasons: Codes of the rules that refused it.
        shown: SHA-256, in hex, of all this: a decision names it.
    """

    summary: AnswerSummary
    cells: tuple[ReviewedNumber, ...]
    program: str
    document: Any
    marks: Any
    reasons: tuple[str, ...]
    two: bool
    shown: str
    firsts: tuple[FirstDecision, ...] = ()

    @property
    def name(self) -> str:
        return self.summary.name


@dataclass(frozen=True, slots=True)
class BudgetAccount:
    """One budget.

    Args:
        scope: dataset, project or analyst.
        holder: Project or URI of the analyst; empty for a dataset.
        spent: Amount spent, or reserved (as ``reserved`` says).
    """

    dataset: str
    scope: str
    holder: str
    cap: Price
    spent: Price
    reserved: Price


@dataclass(frozen=True, slots=True)
class Person:
    """A person who is enrolled.

    Args:
        fingerprint: SHA-256, in hex, of the signing key.
        certificate_until: End of the certificate; None if the controller does not know it.
        last_seen: Time of the newest entry in the log that the person caused; None if there is none.
        shown: SHA-256, in hex, for decisions on this person.
    """

    uri: str
    fingerprint: str
    disabled: bool
    certificate_until: datetime | None
    last_seen: datetime | None
    shown: str

    @property
    def identity(self) -> Identity:
        return Identity.of(self.uri)


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure at the records that counts against its analyst.

    Args:
        operation: Name of the operation or run, which ended with the code ``reason``.
        resource: Card under which it ran.
        shown: SHA-256, in hex, for a decision on it.
    """

    operation: str
    analyst: str
    kind: str
    resource: str
    reason: str
    time: datetime
    shown: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """One entry of the log; ``index`` is from 0, ``actor`` the controller's URI if no other acted."""

    index: int
    time: datetime
    action: str
    actor: str
    resource: str
    details: Mapping[str, str]


class RiskState(StrEnum):
    """State of a look at the risk of psi; outdated if card, records or other cards changed since."""

    NONE = "none"
    RUNNING = "running"
    READY = "ready"
    OUTDATED = "outdated"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CertainKey:
    """A key that determines an attribute of all records that have it; both are texts for people."""

    known: str
    certain: str
    records: int


@dataclass(frozen=True, slots=True)
class RiskReview:
    """The risk of a card's psi, for stewards alone.

    Args:
        operation: The newest look, whether or not it has ended; empty if there was none.
        stage, permille, problem: Progress of the newest look, and the reason if it failed.
        report: Report of the newest look that ended well, even if it is outdated; ``time`` is its time.
        worst: Keys of the report that make most records certain.
        cards: Other cards whose exact counts were taken together with this card's.
    """

    card: str
    state: RiskState
    operation: str = ""
    stage: str = ""
    permille: int = 0
    problem: str = ""
    report: PsiRisk | None = None
    worst: tuple[CertainKey, ...] = ()
    cards: tuple[str, ...] = ()
    time: datetime | None = None
