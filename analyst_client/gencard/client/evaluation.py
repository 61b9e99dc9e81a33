"""Measures of a card: what was found at the records, as far as our role may know."""

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
from gencard.core.evaluation.evaluation import Finding
from gencard.core.evaluation.registry import EVALUATIONS, finding_of_json_object
from gencard.v1 import measures_pb2 as pb
from gencard.wire.signatures.canonical import Document, document_of

FORMAT = "gencard.measures.v2"
_OTHERS = "the findings do not belong to this card"


@dataclass(frozen=True, slots=True)
class CardMeasures:
    """What was found of one card, each measure once, on rows that the controller drew for it.

    Args:
        card: datasets/{dataset}/cards/{card}.
        findings: By measure, in the order of a report; None where these records do not allow it.
        unavailable: Why the card cannot have other measures.
        statistics: What they cost whoever asked first, in independent statistics.
    """

    card: str
    findings: Mapping[str, Finding | None] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    statistics: int = 0

    def with_finding(self, name: str, finding: Finding | None, statistics: int = 0) -> "CardMeasures":
        """These and one more."""
        return CardMeasures(
            self.card,
            _ordered({**self.findings, name: finding}),
            self.unavailable,
            self.statistics + statistics,
        )


def run(
    connection: Connection, card: str, measures: Sequence[str], progress: ProgressDisplay
) -> CardMeasures:
    """Have measures of a card taken; those that were taken before are free. All that there is then.

    Args:
        measures: Names; none for all that the card can have and our role may know.

    Raises:
        PermissionDeniedError: The card does not name a measure, or names none.
        RecordsProtectedError: The card cannot have it; says why.
        BudgetExceededError: The price is not covered.
        InvalidInputError: No such measure, or the card has no release yet.
    """
    request = pb.RunMeasuresRequest(card=card, measures=measures, request_id=str(uuid4()))
    with progress_bar("Measuring", progress) as reported:
        operation = connection.call(connection.measures.RunMeasures, request)
        result_of(connection, operation, pb.RunMeasuresResponse, reported)
    return known(connection, card)


def known(connection: Connection, card: str) -> CardMeasures:
    """All that was measured of a card before and that we may know.

    Raises:
        VerificationError: It is not what was asked for.
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
    """What is known and one more measure; none that is withheld by now."""
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
        return measures.with_finding(measure, _finding(document), answer.statistics)
    except (KeyError, TypeError, AttributeError):
        raise VerificationError(problem=_OTHERS) from None


def _finding(document: Document) -> Finding | None:
    if document["found"] is None:
        return None
    return finding_of_json_object(document["measure"], document["found"])


def _ordered(findings: Mapping[str, Finding | None]) -> dict[str, Finding | None]:
    return {name: findings[name] for name in EVALUATIONS if name in findings}
