"""Files that were kept, recognised by what they hold and not by their names."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gencard.client.signing import card_of_statement
from gencard.core.card import Card, Tier
from gencard.core.coding import Coding
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError, NoPsiError
from gencard.core.statistics.psi import Psi
from gencard.wire.canonical import Document, document_of
from gencard.wire.dsse import opened
from gencard.wire.key_history import LINKS
from gencard.wire.psi_document import psi_of_document
from gencard.wire.schema_codec import coding_of_document
from gencard.wire.statements import CARD, CHECKPOINT, RECEIPT, REVOCATION, VERDICT

ENVELOPES = {CARD: "card", RECEIPT: "receipt", CHECKPOINT: "checkpoint", VERDICT: "verdict",
             REVOCATION: "revocation"}  # fmt: skip
"""Kind of a signed document, by the type of its statement."""

_ROWS = (".csv", ".parquet")
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """A document and where it came from."""

    path: Path
    content: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """What some files hold, by kind: the kinds of ``ENVELOPES``, "psi", "schema", "keys" and "rows"."""

    files: dict[str, list[File]] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Bundle":
        """Sort files, and the files of folders; what is nothing of ours in a folder is left alone.

        Raises:
            InvalidInputError: A file is not there, is too large, or is nothing of ours.
        """
        bundle = cls()
        for path, named in _walk(paths):
            kind, content = _recognised(path)
            if kind is not None:
                bundle.files.setdefault(kind, []).append(File(path, content))
            elif named:
                raise InvalidInputError(field="file", problem=f"{path} is nothing that can be verified")
        return bundle

    def all(self, kind: str) -> list[File]:
        return self.files.get(kind, [])

    def one(self, kind: str) -> File:
        """Raises InvalidInputError where there is none, or more than one."""
        found = self.all(kind)
        if len(found) != 1:
            raise InvalidInputError(field=kind, problem=f"one is needed, and there are {len(found)}")
        return found[0]

    def schema(self) -> Coding:
        """Raises InvalidInputError or InvalidCodingError."""
        return coding_of_document(document_of(self.one("schema").content, "schema"))

    def psi(self) -> Psi:
        """Raises InvalidInputError or InvalidPsiError; NoPsiError where the card says there is none."""
        if self._card_of_tier(Tier.PRIVATE):
            raise NoPsiError
        return psi_of_document(self.one("psi").content)

    def domain(self) -> Domain:
        """The attributes of the rows: psi's, or under a card of tier private those that it names.

        Raises:
            InvalidInputError, InvalidPsiError, VerificationError: A document is missing or wrong.
        """
        card = self._card_of_tier(Tier.PRIVATE)
        if card is None:
            return self.psi().domain
        return self.schema().domain.covered_by(card.terms.cliques)

    def _card_of_tier(self, tier: Tier) -> Card | None:
        """The card, where there is one of this tier; its signatures are for others to check."""
        if len(self.all("card")) != 1:
            return None
        card = card_of_statement(opened(self.one("card").content)[0])
        return card if card.tier is tier else None


def _walk(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Files, and whether they were named themselves."""
    for path in paths:
        if path.is_dir():
            yield from ((file, False) for file in sorted(path.iterdir()) if file.is_file())
        else:
            yield path, True


def _recognised(path: Path) -> tuple[str | None, bytes]:
    """Kind and content of a file; the content of rows stays where it is."""
    if path.suffix.lower() in _ROWS and path.exists():
        return "rows", b""
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidInputError(field="file", problem=f"{path} is too large")
        content = path.read_bytes()
    except OSError:
        raise InvalidInputError(field="file", problem=f"cannot read {path}") from None
    try:
        return _kind(document_of(content, "file"), content), content
    except GencardError:
        return None, content


def _kind(document: Document, content: bytes) -> str | None:
    if "payloadType" in document:
        return ENVELOPES.get(document_of(opened(content)[0], "statement").get("predicateType", ""))
    if LINKS in document:
        return "keys"
    if "measurements" in document:
        return "psi"
    return "schema" if "structuralZeros" in document else None
