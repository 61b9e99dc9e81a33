"""Decisions on answers: released or refused, by the output rules or by a steward; signed and logged.

What a run costs is settled with its decision. Under exact counts a released answer costs one statistic
for each number. A refusal depends on the records too: that there is no answer is one fact about them, so
it costs one statistic, whatever rule was broken. Under noise the budget of the run is spent either way.

A refusal because of the records, and an answer that waits because of them, count in ``limits.refusals``
until a steward reviews the refusal or decides on the answer. An answer that waits ends as refused when
its card ends.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import Connection

from gencard.analysis.answers.answer import AnalysisAnswer, AnswerTable
from gencard.analysis.output_checks.rule_checks import judged_outputs
from gencard.controller.cards.book import CardBook, question_of
from gencard.controller.state import results
from gencard.controller.state.cards import ENDED, offer_of
from gencard.controller.state.ledger import Ledger
from gencard.controller.state.results import RunRow, RunState, RunTier
from gencard.core.card.budget import Price, SpendState
from gencard.core.card.card import CardRecord, CardState
from gencard.core.errors import CardStateError, InvalidInputError
from gencard.core.policy import OUTPUT_RULES, RULES_VERSION, USUAL_RULES, Colour, Rule, Rules
from gencard.core.program_outputs import Outputs, outputs_of_json, outputs_to_json, significant
from gencard.core.typed_json import PLAIN
from gencard.wire.canonical import digest_of, time_text
from gencard.wire.documents import AnswerVerdict, SignedAnswer, answer_statement
from gencard.wire.dsse import sign
from gencard.wire.steward import ReviewedNumber

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
        reasons: Codes of the refusal: ``OUTPUT_RULES`` for every reason that depends on the records.
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

    def stored(self) -> bytes:
        return json.dumps({one.name: getattr(self, one.name) for one in fields(self)}).encode()


@dataclass(frozen=True, slots=True)
class Decisions:
    """Ends runs with something signed."""

    cards: CardBook
    ledger: Ledger

    def release(self, tx: Connection, row: RunRow, outcome: RunOutcome, by: str) -> RunRow:
        """Sign the answer of the outcome, by the URI of who decides, and return the changed run."""
        if outcome.answer is None:
            raise InvalidInputError(field="answer", problem="was refused by the output rules")
        return self._end(tx, row, outcome, AnswerVerdict.RELEASED, by)

    def refuse(self, tx: Connection, row: RunRow, outcome: RunOutcome, by: str) -> RunRow:
        """Sign that nothing leaves, and the reasons; the run as it is now. Raises as ``release``."""
        return self._end(tx, row, _without_answer(outcome, outcome.reasons), AnswerVerdict.REFUSED, by)

    def hold(self, tx: Connection, row: RunRow, outcome: RunOutcome, *, counts: bool) -> RunRow:
        """Let an answer wait for a steward, its price reserved; return the run as it is now.

        Until then it counts in ``limits.refusals`` if ``counts``.
        """
        results.move_run(tx, row.name, RunState.WAITING, outcome=outcome.stored(), counts=int(counts))
        return results.get_run(tx, row.name)

    def end_with_cards(self, tx: Connection, card: str | None = None) -> None:
        """Sign a refusal for each answer that waits under a card that has ended, or under this card."""
        for row in self.waiting_in_vain(tx, card):
            outcome = _without_answer(RunOutcome.of(row), (CARD_ENDED,))
            self._end(tx, row, outcome, AnswerVerdict.REFUSED, self.cards.controller, ended_card=True)

    def waiting_in_vain(self, tx: Connection, card: str | None = None) -> list[RunRow]:
        """Runs that wait for a steward under a card that has ended."""
        rows = (row for row in results.find_runs(tx, state=RunState.WAITING) if card in (None, row.card))
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


# Review of a reviewed run by a steward, cell by cell, and the answer that the decision leaves.

_OF_BEFORE = ("as on the coded records: intervals are their midpoints",)
"""Note of a run that waits since before its columns were kept with it."""

WITHHELD, ROUNDED = "NUMBERS_WITHHELD", "NUMBERS_ROUNDED"


def is_named_by(cell: ReviewedNumber, name: str) -> bool:
    """Return True if a name means this number: its output, or output/row or output/row/column."""
    return name in (cell.output, f"{cell.output}/{cell.row}", f"{cell.output}/{cell.row}/{cell.column}")


@dataclass(frozen=True, slots=True)
class Review:
    """A reviewed run that waits for a steward.

    Args:
        dry: Outputs on the synthetic rows.
        base: Numbers of records are released as multiples of this base.
        notes: How the attributes were passed to the program.
    """

    program: str
    outputs: Outputs
    dry: Outputs
    rules: Rules = USUAL_RULES
    base: int = 1
    notes: tuple[str, ...] = _OF_BEFORE

    @classmethod
    def of(cls, outcome: RunOutcome) -> "Review":
        """Read the review of an outcome; raises InvalidInputError if the outcome is of a checked run."""
        marks = outcome.marks
        if not isinstance(marks, dict) or "program" not in marks:
            raise InvalidInputError(field="answer", problem="is not that of a program")
        review = cls(
            marks["program"], outputs_of_json(marks["outputs"]), outputs_of_json(marks["dry_run"])
        )
        if "limits" not in marks:  # it ran before reviewed runs had rules of the policy
            return review
        rules = PLAIN.read(Rules, marks["limits"], field="limits")
        notes = tuple(map(str, marks.get("notes", _OF_BEFORE)))
        return replace(review, rules=rules, base=rules.checks.rounding, notes=notes)

    def cells(self) -> Iterator[ReviewedNumber]:
        verdicts_of = judged_outputs(self.outputs, self.rules)
        for output, dry, verdicts in zip(self.outputs, self.dry, verdicts_of, strict=True):
            for row, *lines in zip(output.row_names, output.values, dry.values, verdicts, strict=True):
                for column, value, before, verdict in zip(output.column_names, *lines, strict=True):
                    base = self.base if column in output.counts else 1
                    rules = tuple(map(str, verdict.broken))
                    yield ReviewedNumber(
                        output.name, row, column, value, before, verdict.colour, rules, base
                    )

    def released(
        self, digest: str, withheld: Collection[str], digits: int | None, *, red: bool
    ) -> tuple[Any, int, tuple[str, ...]]:
        """Return the answer to release, its number of numbers, and codes of the changes made to it.

        Args:
            withheld: Names of cells, as ``is_named_by`` reads them.
            digits: Significant digits of released numbers; None leaves the numbers unrounded.
            red: Whether numbers marked red are released too.
        """
        cells = list(self.cells())
        for name in withheld:
            if not any(is_named_by(cell, name) for cell in cells):
                raise InvalidInputError(
                    field="--withhold", problem=f"does not name a number of this answer: '{name}'"
                )
        # Judged on the numbers as the program gave them: rounding must not turn a red number green.
        left = [
            cell.value is not None
            and (red or cell.mark is not Colour.RED)
            and not any(is_named_by(cell, name) for name in withheld)
            for cell in cells
        ]
        if not any(left):
            raise InvalidInputError(field="answer", problem="would contain no number; refuse it instead")
        withholds = any(
            cell.value is not None and not stays for cell, stays in zip(cells, left, strict=True)
        )
        codes = ((WITHHELD,) if withholds else ()) + (() if digits is None else (ROUNDED,))
        values = [cell.leaving if stays else None for cell, stays in zip(cells, left, strict=True)]
        if digits is not None:
            values = [significant(value, digits) for value in values]
        rest = iter(values)
        tables = [
            tuple(tuple(next(rest) for _ in row) for row in output.values) for output in self.outputs
        ]
        outputs = tuple(
            replace(output, values=table) for output, table in zip(self.outputs, tables, strict=True)
        )
        return answer_of(digest, outputs, self.dry, self.notes, self.base), sum(left), codes


def marks_document(
    program: str, outputs: Outputs, dry: Outputs, rules: Rules, notes: tuple[str, ...]
) -> dict[str, Any]:
    """Return the document that the state keeps for a steward and that ``Review.of`` reads."""
    return {
        "program": program,
        "outputs": outputs_to_json(outputs),
        "dry_run": outputs_to_json(dry),
        "limits": PLAIN.write(rules),
        "notes": list(notes),
    }


def answer_of(digest: str, outputs: Outputs, dry: Outputs, notes: tuple[str, ...], base: int = 1) -> Any:
    """Return outputs as an answer: each table, followed by its difference to the synthetic rows."""
    tables: list[AnswerTable] = []
    for output, before in zip(outputs, dry, strict=True):
        differences = tuple(
            tuple(
                None if value is None or dry_value is None else value - dry_value
                for value, dry_value in zip(row, dry_row, strict=False)
            )
            for row, dry_row in zip(output.values, before.values, strict=True)
        )
        names = output.row_names, output.column_names
        tables.append(AnswerTable(output.name, *names, output.values))
        tables.append(
            AnswerTable(f"{output.name}: difference to the synthetic rows", *names, differences)
        )
    notes = (*notes, "a steward saw each number of the program's, and released these")
    if base > 1:
        notes = (*notes, f"numbers of records are multiples of {base}")
    return AnalysisAnswer("program", digest, 0.0, tables=tuple(tables), notes=notes).to_json()
