"""The receipt of a release: what it was made from, signed by the controller."""

from dataclasses import dataclass

from gencard.core.errors import VerificationError
from gencard.wire.canonical import Document, integer_of, text_of, time_text_of
from gencard.wire.statements import RECEIPT, statement


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a release was made from. With psi and the card it fixes every byte of the rows.

    Args:
        name: datasets/{dataset}/cards/{card}/releases/{release}.
        card_digest: SHA-256, in hex, of the card.
        psi_digest: SHA-256, in hex, of psi's document.
        rows_digest: SHA-256, in hex, of the rows (Dataset.digest).
        seed: Seed of the draw.
        versions: Name and version of what computed it, sorted by name.
        log_index: Position in the controller's log of the entry that preceded the release.
    """

    name: str
    card_digest: str
    psi_digest: str
    rows_digest: str
    rows: int
    seed: int
    versions: tuple[tuple[str, str], ...]
    log_index: int
    time: str


def receipt_statement(receipt: Receipt) -> bytes:
    """What the controller signs; its subject is the rows."""
    return statement(RECEIPT, receipt.name, _document(receipt), receipt.rows_digest)


def receipt_of_document(document: Document) -> Receipt:
    """Raises VerificationError where the document is not a receipt."""
    try:
        return Receipt(
            name=text_of(document["name"]),
            card_digest=text_of(document["card"]["sha256"]),
            psi_digest=text_of(document["psi"]["sha256"]),
            rows_digest=text_of(document["data"]["sha256"]),
            rows=integer_of(document["rows"]),
            seed=integer_of(document["seed"]),
            versions=_versions(document["versions"]),
            log_index=integer_of(document["logIndex"]),
            time=time_text_of(document["time"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise VerificationError(problem="the document is not a receipt") from None


def _versions(document: Document) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text_of(version)) for name, version in document.items()))


def _document(receipt: Receipt) -> Document:
    return {
        "card": {"sha256": receipt.card_digest},
        "data": {"sha256": receipt.rows_digest},
        "logIndex": str(receipt.log_index),
        "name": receipt.name,
        "psi": {"sha256": receipt.psi_digest},
        "rows": str(receipt.rows),
        "seed": str(receipt.seed),
        "time": receipt.time,
        "versions": dict(receipt.versions),
    }
