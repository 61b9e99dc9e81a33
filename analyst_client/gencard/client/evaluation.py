"""Evaluations of a card at the records, as far as our role may see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from gencard.client.connection.connection import (
    Connection,
    ProgressDisplay,
    pages,
    progress_bar,
    result_of,
)
from gencard.core.errors import VerificationError
from gencard.measures.evaluation.evaluation import Finding
from gencard.measures.evaluation.registry import REPORTED, finding_of_json_object
from gencard.v1 import measures_pb2 as pb
from gencard.wire.canonical import document_of

FORMAT = "gencard.measures.v2"
_OTHERS = "the findings do not belong to this card"


@dataclass(frozen=True, slots=True)
class CardMeasures:
    """Evaluations of one card, each run once, on rows that the controller drew for them.

    Args:
        card: datasets/{dataset}/cards/{card}.
        findings: By evaluation, in the order of a report; None if the records do not allow it.
        unavailable: Evaluations that the card cannot have, with the reason.
        statistics: Their total price, paid by the first caller, in independent statistics.
    """

    card: str
    findings: Mapping[str, Finding | None] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    statistics: int = 0

    def with_finding(self, name: str, finding: Finding | None, statistics: int = 0) -> "CardMeasures":
        """A copy with one more finding."""
        findings = {**self.findings, name: finding}
        ordered = {one: findings[one] for one in REPORTED if one in findings}
        return CardMeasures(self.card, ordered, self.unavailable, self.statistics + statistics)


def run(
    connection: Connection, card: str, measures: Sequence[str], progress: ProgressDisplay
) -> CardMeasures:
    """Run evaluations of a card and return all that exist; those already run are free.

    Args:
        measures: Names; empty for all that are available to our role.

    Raises:
        PermissionDeniedError: The card does not name an evaluation.
        RecordsProtectedError: The card cannot have an evaluation; states the reason.
        BudgetExceededError: The price exceeds the budget.
        InvalidInputError: An evaluation is unknown, or the card has no release yet.
    """
    request = pb.RunMeasuresRequest(card=card, measures=measures, request_id=str(uuid4()))
    with progress_bar("Measuring", progress) as reported:
        operation = connection.call(connection.measures.RunMeasures, request)
        result_of(connection, operation, pb.RunMeasuresResponse, reported)
    return known(connection, card)


def known(connection: Connection, card: str) -> CardMeasures:
    """All existing evaluations of a card that our role may see.

    Raises:
        VerificationError: An answer belongs to another card or evaluation.
    """
    request = pb.ListMeasuresRequest(parent=card)
    measures = CardMeasures(card)
    for page in pages(connection, connection.measures.ListMeasures, request):
        measures = CardMeasures(
            card,
            measures.findings,
            {one.measure: one.reason for one in page.unavailable},
            measures.statistics,
        )
        for one in page.measures:
            measures = _fetched(connection, measures, one.name)
    return measures


def _fetched(connection: Connection, measures: CardMeasures, name: str) -> CardMeasures:
    """``measures`` with one more evaluation, unless it is withheld by now."""
    measure = name.rpartition("/")[2]
    if measure in measures.unavailable:
        return measures
    answer = connection.call(connection.measures.GetMeasures, pb.GetMeasuresRequest(name=name)).measures
    try:
        document = document_of(answer.document, "measures")
        if (document["format"], document["card"], document["measure"]) != (
            FORMAT,
            measures.card,
            measure,
        ):
            raise VerificationError(problem=_OTHERS)
        content = document["found"]
        finding = None if content is None else finding_of_json_object(measure, content)
        return measures.with_finding(measure, finding, answer.statistics)
    except (KeyError, TypeError, AttributeError):
        raise VerificationError(problem=_OTHERS) from None
