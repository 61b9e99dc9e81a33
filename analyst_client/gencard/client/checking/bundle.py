"""Files that were kept, recognised by what they hold and not by their names."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gencard.client.checking.signing import card_of_statement
from gencard.client.files.folder import WELL_KNOWN
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError, NoPsiError
from gencard.core.statistics.psi import Psi
from gencard.wire.codecs.schema_codec import coding_of_document
from gencard.wire.documents.key_history import LINKS
from gencard.wire.documents.psi_document import psi_of_document
from gencard.wire.documents.statements import CARD, CHECKPOINT, RECEIPT, REVOCATION, VERDICT
from gencard.wire.log.log_entry import is_log_entry
from gencard.wire.signatures.canonical import document_of
from gencard.wire.signatures.dsse import envelope_of, opened

ENVELOPES = {CARD: "card", RECEIPT: "receipt", CHECKPOINT: "checkpoint", VERDICT: "verdict",
             REVOCATION: "revocation"}  # fmt: skip
"""Kind of a signed document, by the type of its statement."""

DAMAGED = "damaged"
"""Stands for the kind of a file that was meant to hold a document and does not."""

_ROWS = (".csv", ".parquet")
_ENVELOPE = {"payload", "payloadType", "signatures"}
_NOT_SIGNED = (
    "contains no signed document, so nothing can be verified; "
    "name the folder of a release, or its card.json and receipt.json"
)
_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """A document and where it came from."""

    path: Path
    content: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """What some files hold, by kind: those of ``ENVELOPES`` and ``WELL_KNOWN``, and "rows".

    Args:
        damaged: Files that were meant to hold a document and do not.
        ignored: Other files of a folder, which are nothing that can be checked.
    """

    files: dict[str, list[File]] = field(default_factory=dict)
    damaged: list[Path] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)

    @classmethod
    def of(cls, paths: Iterable[Path]) -> "Bundle":
        """Sort files, and the files of folders.

        Raises:
            InvalidInputError: A file is not there or too large; or it was named by itself, and nobody
                signs what it holds.
        """
        bundle = cls()
        for path, named in _walk(paths):
            kind, content = _recognised(path)
            if kind == DAMAGED or kind != WELL_KNOWN.get(path.name, kind):
                bundle.damaged.append(path)
            elif kind is not None:
                bundle.files.setdefault(kind, []).append(File(path, content))
            elif named:
                raise InvalidInputError(field="file", problem=f"{path} {_NOT_SIGNED}")
            else:
                bundle.ignored.append(path)
        return bundle

    def all(self, kind: str) -> list[File]:
        return self.files.get(kind, [])

    def one(self, kind: str) -> File:
        """Raises InvalidInputError where there is none, or more than one."""
        files = self.all(kind)
        if not files:
            usual = (name for name, held in WELL_KNOWN.items() if held == kind)
            name = next(usual, "a .csv or .parquet file")
            problem = f"not found; name {name}, or the folder of the release that holds it"
            raise InvalidInputError(field=kind, problem=problem)
        if len(files) > 1:
            names = ", ".join(str(file.path) for file in files)
            raise InvalidInputError(field=kind, problem=f"there are several, and one is needed: {names}")
        return files[0]

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

    def _card_of_tier(self, tier: Tier) -> CardTerms | None:
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
    kind = _kind_of(content)
    meant = path.suffix.lower() == ".json" or path.name in WELL_KNOWN
    return (None if kind == DAMAGED and not meant else kind), content


def _kind_of(content: bytes) -> str | None:
    """The kind of a document; None for JSON that is nothing of ours, DAMAGED for what cannot be read."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return DAMAGED
    if not isinstance(value, dict):
        return None
    if _ENVELOPE & value.keys():
        return _kind_of_envelope(content)
    marks = {"keys": LINKS, "psi": "measurements", "schema": "structuralZeros"}
    kinds = (kind for kind, name in marks.items() if name in value)
    return "log entry" if is_log_entry(value) else next(kinds, None)


def _kind_of_envelope(content: bytes) -> str:
    """The kind of a signed document in its one form, else DAMAGED."""
    try:
        payload, signatures = opened(content)
        kind = document_of(payload, "statement").get("predicateType", "")
    except GencardError:
        return DAMAGED
    known = isinstance(kind, str) and envelope_of(payload, signatures) == content
    return ENVELOPES.get(kind, DAMAGED) if known else DAMAGED
