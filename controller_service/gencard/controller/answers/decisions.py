"""Decisions on answers: released or refused, by the output rules or by a steward; signed and logged.

What a run costs is settled with its decision. Under exact counts a released answer costs one statistic
for each number. A refusal depends on the records too: that there is no answer is one fact about them, so
it costs one statistic, whatever rule was broken. Under noise the budget of the run is spent either way.

A refusal because of the records, and an answer that waits because of them, count in ``limits.refusals``
until a steward reviews the refusal or decides on the answer. An answer that waits ends as refused when
its card ends.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.cards.released import question_of
from gencard.controller.state import results
from gencard.controller.state.cards import ENDED, offer_of
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.results import RunRow, RunState, RunTier
from gencard.core.card.budget import Price, SpendState
from gencard.core.card.card import CardRecord, CardState
from gencard.core.errors import CardStateError, InvalidInputError
from gencard.core.output_rules import OUTPUT_RULES, RULES_VERSION, Colour, Rule
from gencard.wire.documents.answer_document import (
    AnswerVerdict,
    SignedAnswer,
    answer_statement,
)
from gencard.wire.signatures.canonical import digest_of, time_text
from gencard.wire.signatures.dsse import sign

STEWARD = "STEWARD_DECISION"
CARD_ENDED = "card-ended"
"""Reason of a refusal: the card was revoked, given back or expired before a steward decided."""

PRICE = 1
"""Statistics that a refusal costs under exact counts."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Result of a run on the records, before the rules or a steward decide whether it is released.

    Args:
        answer: JSON document of the answer; None if the rules refused it.
        numbers: Number of numbers in the answer.
        reasons: Codes of the refusal: ``OUTPUT_RULES`` for every reason that depends on the records.
        rules: Version of the output rules.
        review: Whether the rules leave the decision to a steward.
        marks: Findings of the rules on each number, for a steward alone.
    """

    answer: Any
    numbers: int
    reasons: tuple[str, ...]
    rules: str
    review: bool = False
    marks: Any = None

    @classmethod
    def of(cls, row: RunRow) -> "RunOutcome":
        """Return a run's outcome; raises InvalidInputError if the run does not wait for a decision."""
        if row.outcome is None or row.state is not RunState.WAITING:
            raise InvalidInputError(field="answer", problem="is not ready for a decision")
        document = json.loads(row.outcome)
        return cls(**document | {"reasons": tuple(document["reasons"])})

    @classmethod
    def refused(cls, rule: Rule) -> "RunOutcome":
        """Return a refusal because of the records by a rule that judges the run as a whole."""
        mark = {"part": "run", "colour": str(Colour.RED), "rules": [str(rule)]}
        return cls(None, 0, (OUTPUT_RULES,), RULES_VERSION, marks=[mark])

    @property
    def depends_on_records(self) -> bool:
        """Whether it is refused, or waits, because of the records."""
        return self.review or OUTPUT_RULES in self.reasons

    def stored(self) -> bytes:
        """Return the outcome as the bytes that the state keeps."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)}).encode()


@dataclass(frozen=True, slots=True)
class Decisions:
    """Ends runs with something signed."""

    cards: CardBook
    ledger: Ledger

    def release(self, tx: Connection, row: RunRow, outcome: RunOutcome, by: str) -> RunRow:
        """Sign the answer of the outcome and return the changed run.

        Args:
            by: URI of the person who decides.

        Raises:
            InvalidInputError: The run was decided before, or the rules left no answer.
            CardStateError: The card has ended, and with it all answers that wait under it.
        """
        if outcome.answer is None:
            raise InvalidInputError(field="answer", problem="was refused by the output rules")
        return self._end(tx, row, outcome, AnswerVerdict.RELEASED, by)

    def refuse(self, tx: Connection, row: RunRow, outcome: RunOutcome, by: str) -> RunRow:
        """Sign that nothing leaves, and the reasons; the run as it is now. Raises as ``release``."""
        return self._end(tx, row, _without_answer(outcome, outcome.reasons), AnswerVerdict.REFUSED, by)

    def hold(self, tx: Connection, row: RunRow, outcome: RunOutcome, *, counts: bool) -> RunRow:
        """Let an answer wait for a steward, its price reserved; the run as it is now.

        Args:
            counts: Whether it counts in ``limits.refusals`` until then.
        """
        results.move_run(tx, row.name, RunState.WAITING, outcome=outcome.stored(), counts=int(counts))
        return results.get_run(tx, row.name)

    def end_with_cards(self, tx: Connection, card: str | None = None) -> None:
        """Sign a refusal for each answer that waits under a card that has ended.

        Args:
            card: Name of a card, for its answers alone; None for all cards.
        """
        for row in self.waiting_in_vain(tx, card):
            outcome = _without_answer(RunOutcome.of(row), (CARD_ENDED,))
            self._end(tx, row, outcome, AnswerVerdict.REFUSED, self.cards.controller, ended_card=True)

    def waiting_in_vain(self, tx: Connection, card: str | None = None) -> list[RunRow]:
        """Runs that wait for a steward under a card that has ended."""
        rows = (row for row in results.waiting_runs(tx) if card in (None, row.card))
        return [row for row in rows if _is_over(row, self.cards.card(tx, row.card))]

    def _end(
        self,
        tx: Connection,
        row: RunRow,
        outcome: RunOutcome,
        verdict: AnswerVerdict,
        by: str,
        *,
        ended_card: bool = False,
    ) -> RunRow:
        card, now = self.cards.card(tx, row.card), self.cards.clock()
        if _is_over(row, card) and not ended_card:
            raise CardStateError(state=card.state)
        statistics = self._settle(tx, row, outcome)
        details = {"verdict": str(verdict), "statistics": str(statistics)}
        if outcome.answer is not None:
            details["data_digest"] = digest_of(outcome.answer)
        entry = self.cards.log.append(
            tx, action="answer", actor=by, resource=row.name, details=details, now=now
        )
        answer = SignedAnswer(
            name=row.name,
            card_digest=offer_of(card).digest,
            version=row.version,
            question=question_of(row),
            rules=outcome.rules,
            verdict=verdict,
            released_by=by,
            numbers=outcome.numbers,
            log_index=entry.index,
            time=time_text(now),
            reasons=outcome.reasons,
            answer=outcome.answer,
        )
        envelope = sign(answer_statement(answer), [self.cards.signing_key(tx)])
        state = RunState.RELEASED if verdict is AnswerVerdict.RELEASED else RunState.REFUSED
        values = {"statistics": statistics, "envelope": envelope, "log_index": entry.index, "ended": now}
        # a steward's decision is the review; what the card's end refuses goes on counting
        counts = OUTPUT_RULES in outcome.reasons or (CARD_ENDED in outcome.reasons and row.counts)
        kept = outcome.stored() if counts else None
        results.move_run(tx, row.name, state, outcome=kept, counts=int(counts), **values)
        return results.get_run(tx, row.name)

    def _settle(self, tx: Connection, row: RunRow, outcome: RunOutcome) -> int:
        """Settle the ledger's line; the statistics that it came to."""
        if row.line is None:
            return 0
        line = self.ledger.line(tx, row.line)
        price = line.price
        if line.state is not SpendState.RESERVED:  # a restore has settled what it found
            return price.statistics
        most = price.statistics
        # Never above the reservation: the budget was checked for that price only.
        statistics = min(most, outcome.numbers or PRICE)
        self.ledger.settle_at(
            tx, row.line, Price(statistics, price.epsilon, price.rho), self.cards.clock()
        )
        return statistics


def _is_over(row: RunRow, card: CardRecord) -> bool:
    """Whether no answer may be released under a card any more.

    Outputs of a program that ran before its card expired may be decided on later: reading them takes
    days.
    """
    return card.state is CardState.REVOKED or (row.tier is RunTier.CHECKED and card.state in ENDED)


def _without_answer(outcome: RunOutcome, reasons: tuple[str, ...]) -> RunOutcome:
    return replace(outcome, answer=None, numbers=0, reasons=tuple(sorted(set(reasons))))
