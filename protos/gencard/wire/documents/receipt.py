"""The receipt of a release: what it was made from, signed by the controller."""

from dataclasses import dataclass, field

from gencard.core.errors import InvalidInputError
from gencard.core.json_codecs import written
from gencard.core.typed_json import PAIRS_AS_OBJECT
from gencard.core.types import Time, VersionKind
from gencard.wire.signatures.canonical import Document
from gencard.wire.signatures.dsse import DOCUMENT, RECEIPT, read_document, statement


@dataclass(frozen=True, slots=True)
class AuditedBox:
    """Black box that made the rows, and the evidence for it.

    Args:
        digest: SHA-256, in hex, of all that ran.
        verdict_digest: SHA-256, in hex, of the controller's statement that its audit passed.
    """

    digest: str = field(metadata=written("box.sha256"))
    verdict_digest: str = field(metadata=written("verdict.sha256"))


@dataclass(frozen=True, slots=True)
class Receipt:
    """Sources of a release. With psi and the card a seed fixes every byte of the rows.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}.
        card_digest: SHA-256, in hex, of the card.
        psi_digest: SHA-256, in hex, of psi's document; empty for a card of tier private, which has none.
        rows_digest: SHA-256, in hex, of the rows (Dataset.digest).
        seed: Seed of the draw; None where records decided about the rows: it is nobody's to know then.
        versions: Name and version of what computed it, sorted by name.
        log_index: Position in the controller's log of the entry that preceded the release.
        audited: The black box that made the rows.
        without_uniques: Replicated uniques were taken out, and other rows drawn.
        private_box: SHA-256, in hex, of the black box of tier private that made the rows; else empty.
        most_records: Of one person that counted, as on the card; 0 where each record stood for itself.
        version_kind: What the card's version of the records is an HMAC of; None in receipts from before
            that was said, and where the records are of another version by now.
    """

    name: str
    card_digest: str = field(metadata=written("card.sha256"))
    rows_digest: str = field(metadata=written("data.sha256"))
    rows: int
    versions: tuple[tuple[str, str], ...] = field(metadata=written(scalar=PAIRS_AS_OBJECT))
    log_index: int
    time: Time
    psi_digest: str = field(default="", metadata=written("psi.sha256", omit=True))
    seed: int | None = field(default=None, metadata=written(omit=True))
    audited: AuditedBox | None = field(default=None, metadata=written(omit=True))
    without_uniques: bool = field(default=False, metadata=written(omit=True))
    private_box: str = field(default="", metadata=written("private.box.sha256", omit=True))
    most_records: int = field(default=0, metadata=written(omit=True))
    version_kind: VersionKind | None = field(default=None, metadata=written(omit=True))

    def __post_init__(self) -> None:
        if bool(self.psi_digest) == bool(self.private_box):
            raise InvalidInputError(
                field="psi",
                problem="is required unless there is a private box, and not allowed with one",
            )
        if (self.seed is None) != self.drawn_by_records:
            problem = "is required if the rows follow from psi alone, and not allowed otherwise"
            raise InvalidInputError(field="seed", problem=problem)

    @property
    def drawn_by_records(self) -> bool:
        """Whether records decided about the rows, besides psi: nobody can replay them."""
        return bool(self.audited or self.without_uniques or self.private_box)

    @property
    def drawing_seed(self) -> int:
        """Seed of the numbers inside intervals: the seed, or one that follows from the rows."""
        return int(self.rows_digest[:16], 16) if self.seed is None else self.seed


def receipt_statement(receipt: Receipt) -> bytes:
    """Return the statement that the controller signs; its subject is the rows."""
    return statement(RECEIPT, receipt.name, DOCUMENT.write(receipt), receipt.rows_digest)


def receipt_of_document(document: Document) -> Receipt:
    """Raises VerificationError where the document is not a receipt."""
    return read_document(Receipt, document, "a receipt")
