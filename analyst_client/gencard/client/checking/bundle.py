"""Files of saved releases, recognised by their content and not by their names, and what they prove."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.client.checking.checks import card_of_statement, card_payload, checked_receipt, rebuilt
from gencard.client.common.formats import WELL_KNOWN
from gencard.client.connection.credentials import Credentials, known_history
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import (
    GencardError,
    InvalidInputError,
    InvalidPsiError,
    NoPsiError,
    NotReplayableError,
    VerificationError,
)
from gencard.core.statistics.psi import Psi
from gencard.files import (
    BUNDLE_LIMIT,
    DOCUMENT_LIMIT,
    PSI_LIMIT,
    files_in,
    open_file,
    read_file,
    size_of,
    too_large,
)
from gencard.files.content import WRITTEN
from gencard.wire import dsse
from gencard.wire.canonical import check_json, document_of, json_bytes
from gencard.wire.documents import Receipt
from gencard.wire.dsse import ANSWER, CARD, CHECKPOINT, RECEIPT, REVOCATION, VERDICT, subject_digest
from gencard.wire.keys import CARDS, LINKS, LOG, KeyHistory, changes_in
from gencard.wire.log import is_log_entry
from gencard.wire.psi import (
    PSI_OPENS,
    coding_digest,
    coding_document,
    coding_of_document,
    psi_document,
    psi_of_document,
)

ENVELOPES = {CARD: "card", RECEIPT: "receipt", CHECKPOINT: "checkpoint", VERDICT: "verdict",
             REVOCATION: "revocation", ANSWER: "answer"}  # fmt: skip
"""Kind of a signed document, by the type of its statement."""

DAMAGED = "damaged"
"""Kind of a file that has the name of a document but not a document's content."""

_ENVELOPE = {"payload", "payloadType", "signatures"}
_NOT_SIGNED = (
    "contains no signed document, so nothing can be verified; "
    "name the folder of a release, or its card.json and receipt.json"
)
OWN_KEY = "your own, from your connection folder"
"""Text that names the connection folder as the source of the analyst's keys."""


@dataclass(frozen=True, slots=True)
class File:
    """A document and where it came from."""

    path: Path
    content: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """Contents of some files, by kind: the kinds of ``ENVELOPES`` and ``WELL_KNOWN``, and "rows".

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
            InvalidInputError: A file is missing, not regular or too large, or all files together are too
                large. Or the caller named a file that is no document of a release.
        """
        bundle, left = cls(), BUNDLE_LIMIT.most
        walk: list[tuple[Path, bool]] = []  # each file, and whether the caller named it, not its folder
        for path in paths:
            if path.is_dir():
                walk += [(file, False) for file in files_in(path, "file") if not file.is_dir()]
            else:
                walk.append((path, True))
        for path, is_named in walk:
            left -= _size_read(path, is_named=is_named)
            if left < 0:
                raise too_large(path, "file", BUNDLE_LIMIT)
        for path, is_named in walk:
            kind, content = _recognised(path, is_named=is_named)
            if kind == DAMAGED or kind != WELL_KNOWN.get(path.name, kind):
                bundle.damaged.append(path)
            elif kind is not None:
                bundle.files.setdefault(kind, []).append(File(path, content))
            elif is_named:
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
            usual = (name for name, usual_kind in WELL_KNOWN.items() if usual_kind == kind)
            name = next(usual, "a file of rows")
            problem = f"not found; name {name}, or the folder of the release that holds it"
            raise InvalidInputError(field=kind, problem=problem)
        if len(files) > 1:
            names = ", ".join(str(file.path) for file in files)
            raise InvalidInputError(field=kind, problem=f"there are several, and one is needed: {names}")
        return files[0]

    def schema(self) -> Coding:
        """Raises InvalidInputError, InvalidCodingError; VerificationError for bytes in another form."""
        content = self.one("schema").content
        coding = coding_of_document(document_of(content, "schema"))
        if json_bytes(coding_document(coding)) != content:
            raise VerificationError(problem="the schema is not in canonical form")
        return coding

    def psi(self) -> Psi:
        """Read the saved psi; bytes that are not the canonical form of their content are rejected."""
        if self._card_of_tier(Tier.PRIVATE):
            raise NoPsiError
        content = self.one("psi").content
        psi = psi_of_document(content)
        if psi_document(psi) != content:
            raise InvalidPsiError(problem="the document is not in canonical form")
        return psi

    def domain(self) -> Domain:
        """The attributes of psi's marginals, or under a card of tier private its own."""
        card = self._card_of_tier(Tier.PRIVATE)
        if card is None:
            return self.psi().fitted.domain
        return self.schema().domain.covered_by(card.terms.cliques)

    def _card_of_tier(self, tier: Tier) -> CardTerms | None:
        """Return the one card if it has this tier, else None; its signatures are not checked here."""
        if len(self.all("card")) != 1:
            return None
        card = card_of_statement(dsse.opened(self.one("card").content)[0])
        return card if card.tier is tier else None


@dataclass(frozen=True, slots=True)
class Keys:
    """Trusted keys. They must not come from the bundle: its author could exchange keys and signatures.

    Args:
        analyst: The analyst's present and earlier keys. If empty, the signature is not checked.
        log: None if the log's key is not known; every checkpoint then fails its check.
        analyst_source: Source of the analyst's keys, shown to the reader, who has to trust it.
    """

    controller: KeyHistory
    analyst: tuple[Ed25519PublicKey, ...]
    log: KeyHistory | None
    analyst_source: str = OWN_KEY

    @classmethod
    def of(cls, credentials: Credentials) -> "Keys":
        """Take the controller's pinned keys with their successors, and our own keys as the analyst's."""
        cards, log = (known_history(credentials, use) for use in (CARDS, LOG))
        return cls(cards, credentials.public_signing_keys(), log)

    def followed(self, bundle: Bundle) -> "Keys":
        """Successors of these keys, by the changes in a bundle, which must not tell another history."""
        keys = self
        for file in bundle.all("keys"):
            changes = changes_in(file.content)
            log = None if keys.log is None else keys.log.followed(changes)
            keys = replace(keys, controller=keys.controller.followed(changes), log=log)
        return keys


def with_fingerprint(keys: Keys, fingerprint: str) -> Keys:
    """Keep the analyst's key of this fingerprint (as ``gencard enrol`` shows it): it is then believed.

    Raises:
        VerificationError: No key of the analyst's has it.
    """
    digits = "".join(fingerprint.split()).lower()
    matching_keys = tuple(key for key in keys.analyst if dsse.key_id(key) == digits)
    if not matching_keys:
        raise VerificationError(problem="the analyst's key does not have the fingerprint that you gave")
    return replace(keys, analyst=matching_keys, analyst_source="it has the fingerprint that you gave")


def signed_card(bundle: Bundle, keys: Keys) -> CardTerms:
    """The card; raises VerificationError where one side did not sign it.

    Where no key of the analyst is known, only the controller's signature is checked.
    """
    envelope = bundle.one("card").content
    return card_of_statement(card_payload(envelope, keys.controller, keys.analyst))


def rebuild(bundle: Bundle, keys: Keys) -> tuple[Receipt, Dataset, Coding]:
    """The rows of the one receipt, made again from psi, card and seed.

    Raises:
        VerificationError: A document does not match, or the recomputed rows differ.
        NotReplayableError: A black box made the rows, from records.
        InvalidInputError: Card, psi, schema or receipt is missing, or there are several.
    """
    keys = keys.followed(bundle)
    card = signed_card(bundle, keys)
    if card.tier is not Tier.BY_CONSTRUCTION:
        raise NotReplayableError
    coding = checked_schema(bundle, card)
    receipt = receipt_in(bundle, card, bundle.one("receipt"), keys)
    return receipt, rebuilt(card, bundle.psi(), receipt, coding), coding


def card_digest(bundle: Bundle) -> str:
    """SHA-256, in hex, of the card; its signatures are not checked."""
    return subject_digest(dsse.opened(bundle.one("card").content)[0])


def checked_schema(bundle: Bundle, card: CardTerms) -> Coding:
    """The schema; raises VerificationError where the card names another one."""
    coding = bundle.schema()
    if coding_digest(coding) != card.coding_digest:
        raise VerificationError(problem="the card names another schema")
    return coding


def receipt_in(bundle: Bundle, card: CardTerms, file: File, keys: Keys) -> Receipt:
    """A receipt of the card; raises VerificationError where it is not one."""
    return checked_receipt(file.content, keys.controller, card, card_digest=card_digest(bundle))


def _is_document(path: Path) -> bool:
    return path.suffix.lower() == ".json" or path.name in WELL_KNOWN


def _size_read(path: Path, *, is_named: bool) -> int:
    """Bytes of a file that are held in memory.

    Rows are read in parts, and a large file of a folder is no document of ours unless its name says so.
    """
    size = size_of(path, "file")
    is_other = size > DOCUMENT_LIMIT.most and not (is_named or _is_document(path))
    return 0 if is_other or path.suffix.lower() in WRITTEN else size


def _recognised(path: Path, *, is_named: bool) -> tuple[str | None, bytes]:
    """Kind and content of a file; the content of rows stays where it is."""
    if path.suffix.lower() in WRITTEN:
        return "rows", b""
    if not _size_read(path, is_named=is_named):
        return (DAMAGED if _is_document(path) else None), b""
    with open_file(path, "file") as file:
        is_psi = file.read(len(PSI_OPENS)) == PSI_OPENS
    content = read_file(path, "file", PSI_LIMIT if is_psi else DOCUMENT_LIMIT)
    kind = _kind_of(content)
    return (None if kind == DAMAGED and not _is_document(path) else kind), content


def _kind_of(content: bytes) -> str | None:
    """The kind of a document; None for JSON that is nothing of ours, DAMAGED for what cannot be read."""
    try:
        check_json(content)
        value = json.loads(content)
    except (ValueError, RecursionError):
        return DAMAGED
    if not isinstance(value, dict):
        return None
    if _ENVELOPE & value.keys():
        # signed documents have one form; in another one they are damaged
        try:
            payload, _ = dsse.opened(content)
            kind = document_of(payload, "statement").get("predicateType", "")
        except GencardError:
            return DAMAGED
        return ENVELOPES.get(kind, DAMAGED) if isinstance(kind, str) else DAMAGED
    marks = {"keys": LINKS, "psi": "measurements", "schema": "structuralZeros"}
    kinds = (kind for kind, name in marks.items() if name in value)
    return "log entry" if is_log_entry(value) else next(kinds, None)
