"""The receipt of a release: what it was made from, signed by the controller."""

from dataclasses import dataclass

from gencard.core.errors import VerificationError
from gencard.wire.signatures.canonical import Document, integer_of, text_of, time_text_of
from gencard.wire.signatures.dsse import RECEIPT, statement


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a release was made from. With psi and the card a seed fixes every byte of the rows.

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
    """

    name: str
    card_digest: str
    psi_digest: str
    rows_digest: str
    rows: int
    seed: int | None
    versions: tuple[tuple[str, str], ...]
    log_index: int
    time: str
    audited: "AuditedBox | None" = None
    without_uniques: bool = False
    private_box: str = ""

    @property
    def drawing_seed(self) -> int:
        """What numbers inside intervals are drawn by: the seed, or one that follows from the rows."""
        return int(self.rows_digest[:16], 16) if self.seed is None else self.seed


@dataclass(frozen=True, slots=True)
class AuditedBox:
    """Which black box made the rows, and what speaks for it.

    Args:
        digest: SHA-256, in hex, of all that ran.
        verdict_digest: SHA-256, in hex, of the controller's statement that its audit passed.
    """

    digest: str
    verdict_digest: str


def receipt_statement(receipt: Receipt) -> bytes:
    """What the controller signs; its subject is the rows."""
    return statement(RECEIPT, receipt.name, _document(receipt), receipt.rows_digest)


def receipt_of_document(document: Document) -> Receipt:
    """Raises VerificationError where the document is not a receipt."""
    try:
        return Receipt(
            name=text_of(document["name"]),
            card_digest=text_of(document["card"]["sha256"]),
            psi_digest="" if "private" in document else text_of(document["psi"]["sha256"]),
            rows_digest=text_of(document["data"]["sha256"]),
            rows=integer_of(document["rows"]),
            seed=integer_of(document["seed"]) if _is_replayable(document) else None,
            versions=_versions(document["versions"]),
            log_index=integer_of(document["logIndex"]),
            time=time_text_of(document["time"]),
            audited=_audited_of(document["audited"]) if "audited" in document else None,
            without_uniques=document.get("withoutUniques") is True,
            private_box=_private_of(document["private"]) if "private" in document else "",
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise VerificationError(problem="the document is not a receipt") from None


def _versions(document: Document) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, text_of(version)) for name, version in document.items()))


def _is_replayable(document: Document) -> bool:
    by_box = "audited" in document or "private" in document
    return not by_box and document.get("withoutUniques") is not True


def _private_of(document: Document) -> str:
    return text_of(document["box"]["sha256"])


def _audited_of(document: Document) -> AuditedBox:
    return AuditedBox(text_of(document["box"]["sha256"]), text_of(document["verdict"]["sha256"]))


def _document(receipt: Receipt) -> Document:
    """A seed stands in it, or what decided about the rows in its place."""
    document: Document = {
        "card": {"sha256": receipt.card_digest},
        "data": {"sha256": receipt.rows_digest},
        "logIndex": str(receipt.log_index),
        "name": receipt.name,
        "rows": str(receipt.rows),
        "time": receipt.time,
        "versions": dict(receipt.versions),
    }
    if receipt.psi_digest:
        document["psi"] = {"sha256": receipt.psi_digest}
    if receipt.private_box:
        document["private"] = {"box": {"sha256": receipt.private_box}}
    if receipt.seed is not None:
        document["seed"] = str(receipt.seed)
    if receipt.without_uniques:
        document["withoutUniques"] = True
    if receipt.audited is not None:
        document["audited"] = {
            "box": {"sha256": receipt.audited.digest},
            "verdict": {"sha256": receipt.audited.verdict_digest},
        }
    return document
