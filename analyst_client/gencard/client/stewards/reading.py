"""Messages of the stewards' service as what a steward looks at."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gencard.client.common.display import Displayable, Grid, Part, named, percent
from gencard.client.stewards.views import WIDEST_MAP, AnswerReview, CardReview
from gencard.core.errors import GencardError, VerificationError
from gencard.measures.psi_risk.risk import PsiRisk
from gencard.v1 import steward_pb2 as pb
from gencard.wire import steward
from gencard.wire.canonical import time_text
from gencard.wire.codec import value_of

_FOR_STEWARDS = (
    "Numbers about records, for stewards only. They decide nothing; the log records who looked."
)


@dataclass(frozen=True, slots=True, repr=False)
class RiskReview(steward.RiskReview, Displayable):
    """Risk of psi: small counts, attributes that follow for certain, confident guesses."""

    @property
    def examined(self) -> tuple[PsiRisk, datetime]:
        """The report and its time; raises VerificationError if there is none."""
        if self.report is None or self.time is None:
            raise VerificationError(problem="the controller sent no report of risk")
        return self.report, self.time

    def document(self) -> dict[str, Any]:
        """The report as an object of JSON types."""
        report, time = self.examined
        about = {"card": self.card, "togetherWith": list(self.cards)}
        return {**about, "time": time_text(time), **report.json()}

    def _panel(self) -> tuple[str, Sequence[Part]]:
        report, time = self.examined
        extent = (
            f"{report.records:,} records, {len(report.attributes)} attributes, {report.tables:,} tables"
        )
        if self.cards:
            extent += f", with the exact counts of {len(self.cards)} other cards"
        extent += f"; examined {time_text(time)}"
        parts: list[Part] = [_FOR_STEWARDS, extent, *report.failing_lines]
        parts += [*report.tail_lines, *report.histogram_lines]
        parts += [*_small(report), *_certain(report)]
        if self.worst:
            lines = [(one.known, one.certain, f"{one.records:,}") for one in self.worst]
            parts += ["Keys that make most records certain:"]
            parts += [Grid(("Known", "Certain", "Records"), lines)]
        heat_map = _heat_map(report) if len(report.attributes) <= WIDEST_MAP else []
        return f"Risk of psi: {self.card}", [*parts, *_guesses(report), *heat_map]

    def __repr__(self) -> str:
        return f"<RiskReview {self.card}: {self.examined[0].small.small:,} small counts>"


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
    """Format a share; a share above 0 is never shown as 0."""
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


def risk_of(message: pb.RiskReview, name: str) -> RiskReview:
    """The risk of a card; raises VerificationError if it is another card's, or there is no report."""
    try:
        review = value_of(RiskReview, message)
    except GencardError:
        raise VerificationError(problem="the controller sent no report of risk") from None
    if review.card != name:
        raise VerificationError(problem="the controller sent another card than requested")
    _ = review.examined
    return review
