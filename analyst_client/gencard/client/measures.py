"""Measures of a release: what was found of it at the records, as far as our role may know."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from gencard.client import operations
from gencard.client.connection import Connection
from gencard.client.paging import pages
from gencard.client.progress import Shown, shown
from gencard.core.errors import VerificationError
from gencard.core.measures.finding import Finding
from gencard.core.measures.findings_json import finding_of_json_object
from gencard.core.measures.registry import MEASURES
from gencard.v1 import measures_pb2 as pb
from gencard.wire.canonical import Document, document_of

FORMAT = "gencard.measures.v1"
_OTHERS = "these are no measures of this release"


@dataclass(frozen=True, slots=True)
class ReleaseMeasures:
    """What was found of one release.

    Args:
        release: datasets/{dataset}/cards/{card}/releases/{release}.
        findings: By measure, in the order of a report; None where these records do not allow it.
        lacking: What other measures need that the dataset or the release does not have.
        statistics: What it cost us, in independent statistics.
    """

    release: str
    findings: Mapping[str, Finding | None] = field(default_factory=dict)
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    statistics: int = 0

    @classmethod
    def of(cls, told: pb.Measures) -> "ReleaseMeasures":
        """What the controller told.

        Raises:
            InvalidInputError, VerificationError: It is not what was asked for.
        """
        try:
            return cls._of_document(told, document_of(told.document, "measures"))
        except (KeyError, TypeError, AttributeError):
            raise VerificationError(problem=_OTHERS) from None

    @classmethod
    def _of_document(cls, told: pb.Measures, document: Document) -> "ReleaseMeasures":
        release = told.name.partition("/measures/")[0]
        if document["format"] != FORMAT or document["release"] != release:
            raise VerificationError(problem=_OTHERS)
        found = {one["name"]: _finding(one) for one in document["measures"]}
        lacking = {name: tuple(needs) for name, needs in document["lacking"].items()}
        return cls(release, _ordered(found), lacking, told.statistics)

    def joined(self, other: "ReleaseMeasures") -> "ReleaseMeasures":
        """Both runs together; the same release has the same findings."""
        return ReleaseMeasures(
            self.release,
            _ordered({**other.findings, **self.findings}),
            {**other.lacking, **self.lacking},
            self.statistics + other.statistics,
        )


def run(
    connection: Connection, release: str, measures: Sequence[str], progress: Shown
) -> ReleaseMeasures:
    """Have a release measured.

    Args:
        measures: Names; none for all that apply and that our role may know.

    Raises:
        PermissionDeniedError: The card does not name a measure, or names none.
        BudgetExceededError: The price is not covered.
        InvalidInputError: No such measure, or it needs what is not there.
    """
    request = pb.RunMeasuresRequest(release=release, measures=measures, request_id=str(uuid4()))
    with shown("Measuring", progress) as tell:
        operation = connection.call(connection.measures.RunMeasures, request)
        name = operations.result_of(connection, operation, pb.Measures, tell).name
    return _fetched(connection, name)


def known(connection: Connection, release: str) -> ReleaseMeasures:
    """All that was measured of a release before and that we may know."""
    request = pb.ListMeasuresRequest(parent=release)
    found = ReleaseMeasures(release)
    for page in pages(connection, connection.measures.ListMeasures, request):
        for one in page.measures:
            if set(one.measures) - found.findings.keys():
                found = found.joined(_fetched(connection, one.name))
    return found


def _fetched(connection: Connection, name: str) -> ReleaseMeasures:
    answer = connection.call(connection.measures.GetMeasures, pb.GetMeasuresRequest(name=name))
    return ReleaseMeasures.of(answer.measures)


def _finding(one: Document) -> Finding | None:
    return None if one["found"] is None else finding_of_json_object(one["name"], one["found"])


def _ordered(found: Mapping[str, Finding | None]) -> dict[str, Finding | None]:
    return {name: found[name] for name in MEASURES if name in found}


def in_words(names: Iterable[str]) -> str:
    """Titles of measures, for people."""
    return ", ".join(MEASURES[name].title for name in names)
