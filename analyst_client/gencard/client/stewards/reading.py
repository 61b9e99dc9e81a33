"""Messages of the stewards' service as what a steward looks at."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gencard.client.display import Displayable, Grid, Part, named, percent
from gencard.client.stewards.card_review import WIDEST_MAP, CardReview
from gencard.client.stewards.registers import AnswerReview
from gencard.core.errors import GencardError, VerificationError
from gencard.core.psi_risk.risk import PsiRisk
from gencard.core.typed_json import PLAIN
from gencard.v1 import steward_pb2 as pb
from gencard.wire.codec import datetime_of, value_of
from gencard.wire.signatures.canonical import time_text

_FOR_STEWARDS = (
    "Numbers about records, for stewards only. They decide nothing; the log records who looked."
)


@dataclass(frozen=True, slots=True, repr=False)
class RiskReview(Displayable):
    """Risk of psi: small counts, attributes that follow for certain, confident guesses.

    Args:
        together_with: Other cards whose exact counts were taken with this card's.
        worst: Keys that make most records certain: what is known, what follows, of how many records.
        time: When the records were looked at.
    """

    card: str
    report: PsiRisk
    together_with: tuple[str, ...]
    worst: tuple[tuple[str, str, int], ...]
    time: datetime

    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""
        about = {"card": self.card, "togetherWith": list(self.together_with)}
        return {**about, "time": time_text(self.time), **self.report.json()}

    def _panel(self) -> tuple[str, Sequence[Part]]:
        report = self.report
        parts: list[Part] = [_FOR_STEWARDS, self._extent(), *report.failing_lines]
        parts += [*_small(report), *_certain(report)]
        if self.worst:
            lines = [(known, certain, f"{records:,}") for known, certain, records in self.worst]
            parts += ["Keys that make most records certain:"]
            parts += [Grid(("Known", "Certain", "Records"), lines)]
        heat_map = _heat_map(report) if len(report.attributes) <= WIDEST_MAP else []
        return f"Risk of psi: {self.card}", [*parts, *_guesses(report), *heat_map]

    def _extent(self) -> str:
        report, others = self.report, len(self.together_with)
        counts = (
            f"{report.records:,} records, {len(report.attributes)} attributes, {report.tables:,} tables"
        )
        with_others = f", with the exact counts of {others} other cards" if others else ""
        return f"{counts}{with_others}; examined {time_text(self.time)}"

    def __repr__(self) -> str:
        return f"<RiskReview {self.card}: {self.report.small.small:,} small counts>"


def _small(report: PsiRisk) -> list[Part]:
    small, few = report.small, f"Cells of fewer than {report.threshold}"
    rows = [
        ("all together", small),
        *((named(one.clique), one) for one in report.worst_tables if one.small),
    ]
    lines = [(name, f"{one.single:,}", f"{one.small:,}", f"{one.records:,}") for name, one in rows]
    heads = ("Table", "Cells of 1 record", few, "Records in them")
    return ["Small counts:", Grid(heads, lines, numbers=True)]


def _certain(report: PsiRisk) -> list[Part]:
    lines = [
        (f"up to {one.width}", f"{one.facts:,}", f"{one.guessed:,}", f"{one.skipped:,}")
        for one in report.facts
    ]
    heads = ("Attributes known", "Facts", "Also true of the most frequent level", "Not examined")
    title = "Certain: some attributes of a person determine another one."
    return [title, Grid(heads, lines, numbers=True)]


def _guesses(report: PsiRisk) -> list[Part]:
    lines = [
        (str(one.width), f"{one.guesses:,}", f"{one.right:,}", f"{one.held:,}", f"{one.unexpected:,}")
        for one in report.guesses
    ]
    heads = ("Attributes known", "Guesses", "Right", "Cells with a record", "Of them unexpected")
    title = "Likely: guesses above 90 % at levels that fewer than half of the records have."
    return [title, Grid(heads, lines, numbers=True)] if lines else []


def _heat_map(report: PsiRisk) -> list[Part]:
    """One attribute known (row), another one certain (column)."""
    numbers = [str(place + 1) for place in range(len(report.attributes))]
    lines = [
        (
            f"{numbers[place]} {name}",
            *("" if other == place else _share(one) for other, one in enumerate(row)),
        )
        for place, (name, row) in enumerate(zip(report.attributes, report.certain, strict=True))
    ]
    title = "Certain from one attribute (row) about another (column), of all records:"
    return [title, Grid(("", *numbers), lines, numbers=True)]


def _share(share: float) -> str:
    """What is not 0 is never shown as 0."""
    return "·" if not share else percent(share) if share >= 0.01 else "< 1 %"


def card_review_of(message: pb.CardReview, name: str) -> CardReview:
    """A card to be decided on; raises VerificationError if it is another one."""
    review = value_of(CardReview, message)
    if review.name != name:
        raise VerificationError(problem="the controller sent another card than requested")
    return review


def answer_review_of(message: pb.AnswerReview, name: str) -> AnswerReview:
    """An answer to be decided on; raises VerificationError if it is another one."""
    review = value_of(AnswerReview, message)
    if review.name != name:
        raise VerificationError(problem="the controller sent another answer than requested")
    return review


def risk_of(message: pb.GetRiskResponse, name: str) -> RiskReview:
    """What the exact counts of a card reveal; raises VerificationError where there is no such report."""
    try:
        report = PLAIN.read(PsiRisk, json.loads(message.report), field="risk")
    except (ValueError, GencardError):
        raise VerificationError(problem="the controller sent no report of risk") from None
    worst = tuple((one.known, one.certain, one.records) for one in message.worst)
    return RiskReview(name, report, tuple(message.cards), worst, datetime_of(message.time))
