"""Decisions on answers: released or refused, by the output rules or by a steward; signed and logged.

What a run costs is settled with its decision. Under exact counts a released answer costs one statistic
for each number. A refusal depends on the records too: each of its reasons is one more fact about them,
so it costs one statistic for each reason. Under noise the budget of the run is spent either way.
"""

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection

from gencard.controller.cards.book import CardBook
from gencard.controller.state.cards import offer_of
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.runs import RunRow, RunState, RunStore
from gencard.core.card.budget import Price
from gencard.core.card.card import CardState
from gencard.core.errors import CardStateError, InvalidInputError
from gencard.wire.documents.answer_document import Question, SignedAnswer, Verdict, answer_statement
from gencard.wire.signatures.canonical import digest_of, document_of, time_text
from gencard.wire.signatures.dsse import DOCUMENT, sign

STEWARD = "STEWARD_DECISION"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run gave at the records, before anybody decided.

    Args:
        answer: As the core writes it; None where the rules refused it.
        numbers: How many numbers it holds.
        reasons: Codes of the rules that refused it.
        rules: Their version.
        review: The rules leave the decision to a steward.
        marks: For a steward alone: what the rules say of each number.
    """

    answer: Any
    numbers: int
    reasons: tuple[str, ...]
    rules: str
    review: bool = False
    marks: Any = None

    @classmethod
    def of(cls, row: RunRow) -> "Outcome":
        """Raises InvalidInputError where the run has not come so far."""
        if row.outcome is None:
            raise InvalidInputError(field="answer", problem="is not ready for a decision")
        document = json.loads(row.outcome)
        return cls(**document | {"reasons": tuple(document["reasons"])})

    def stored(self) -> bytes:
        """As the state keeps it."""
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)}).encode()


@dataclass(frozen=True, slots=True)
class Decisions:
    """Ends runs with something signed.

    Args:
        store: Of runs.
    """

    cards: CardBook
    ledger: Ledger
    store: RunStore

    def release(self, tx: Connection, row: RunRow, outcome: Outcome, by: str) -> RunRow:
        """Sign the answer as it stands in the outcome; the run as it is now.

        Args:
            by: URI of who decides.

        Raises:
            InvalidInputError: Somebody has decided before, or the rules left no answer.
            CardStateError: The card was revoked.
        """
        if outcome.answer is None:
            raise InvalidInputError(field="answer", problem="was refused by the output rules")
        return self._end(tx, row, outcome, Verdict.RELEASED, by)

    def refuse(self, tx: Connection, row: RunRow, outcome: Outcome, by: str) -> RunRow:
        """Sign that nothing leaves, and the reasons; the run as it is now. Raises as ``release``."""
        refusal = replace(outcome, answer=None, numbers=0, reasons=tuple(sorted(set(outcome.reasons))))
        return self._end(tx, row, refusal, Verdict.REFUSED, by)

    def _end(self, tx: Connection, row: RunRow, outcome: Outcome, verdict: Verdict, by: str) -> RunRow:
        card, now = self.cards.card(tx, row.card), self.cards.clock()
        if card.state is CardState.REVOKED:
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
        state = RunState.RELEASED if verdict is Verdict.RELEASED else RunState.REFUSED
        values = {"statistics": statistics, "envelope": envelope, "log_index": entry.index, "ended": now}
        self.store.move(tx, row.name, state, outcome=None, **values)
        return self.store.get(tx, row.name)

    def _settle(self, tx: Connection, row: RunRow, outcome: Outcome) -> int:
        """Settle the ledger's line; the statistics that it came to."""
        if row.line is None:
            return 0
        price = self.ledger.line(tx, row.line).price
        most = price.statistics
        statistics = min(most, outcome.numbers or max(1, len(outcome.reasons)))
        self.ledger.settle_at(
            tx, row.line, Price(statistics, price.epsilon, price.rho), self.cards.clock()
        )
        return statistics


def question_of(row: RunRow) -> Question:
    """What a run was asked."""
    return DOCUMENT.read(Question, document_of(row.request, "question"), field="question")
