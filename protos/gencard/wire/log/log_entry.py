"""The log's entry of a release or an answer, with the proof that a signed checkpoint covers it.

The leaf of the log's Merkle tree is the hash of the entry's bytes, so anybody can rebuild it from the
entry and follow the path up to the checkpoint's root (RFC 9162, 2.1.3.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gencard.core.errors import InvalidInputError, VerificationError
from gencard.core.json_codecs import written
from gencard.core.typed_json import text_scalar
from gencard.wire.documents.answer_document import SignedAnswer
from gencard.wire.documents.receipt import Receipt
from gencard.wire.log.merkle import check_inclusion, leaf_hash
from gencard.wire.signatures.canonical import Document, digest_of, document_of, json_bytes
from gencard.wire.signatures.dsse import DOCUMENT, read_document

FORMAT = "gencard.log-entry.v1"
_FIELDS = {"entry", "format", "path", "size"}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of the log and where it stands.

    Args:
        body: The entry: RFC 8785 JSON bytes, as the log hashes them.
        size: Number of entries of the log that the path is for.
        path: Hashes from the leaf upwards, 32 bytes each.
    """

    body: bytes = field(metadata=written("entry", scalar=text_scalar(bytes.decode, str.encode)))
    size: int
    path: tuple[bytes, ...]
    format: str = field(default=FORMAT, init=False, repr=False)


def log_entry_document(entry: LogEntry) -> bytes:
    """The one sequence of bytes for an entry with its proof."""
    return json_bytes(DOCUMENT.write(entry))


def log_entry_of_document(data: bytes) -> LogEntry:
    """Raises VerificationError where the bytes are not an entry with its proof, in its one form."""
    try:
        document = document_of(data, "log entry")
    except InvalidInputError:
        document = {}
    entry = read_document(LogEntry, document, "a log entry")
    if log_entry_document(entry) != data:
        raise VerificationError(problem="the log entry is not in canonical form")
    return entry


def is_log_entry(document: Document) -> bool:
    """Whether a JSON document has the fields of a log entry."""
    return document.keys() == _FIELDS and document["format"] == FORMAT


def resource_of(body: bytes) -> str:
    """Return the name of an entry's subject; raise VerificationError if the bytes are no entry."""
    return _text(_facts(body), "resource")


def check_release_entry(body: bytes, receipt: Receipt, controller: str) -> None:
    """Check that an entry of the log is the one that the receipt of a release names.

    Raises:
        VerificationError: It is about something else; names what.
    """
    facts, recorded = _facts_and_details(body)
    agreements = {
        "kind of entry": facts.get("action") == "release",
        "index": facts.get("index") == str(receipt.log_index),
        "release": facts.get("resource") == receipt.name,
        "controller": facts.get("actor") == controller,
        "rows": recorded.get("data_digest") == receipt.rows_digest,
        "psi": recorded.get("psi_digest", "") == receipt.psi_digest,
    }
    _refuse_differences(agreements, "the receipt")


def check_answer_entry(body: bytes, answer: SignedAnswer) -> None:
    """Check that an entry of the log is the one that a signed answer names.

    Raises:
        VerificationError: It is about something else; names what.
    """
    facts, recorded = _facts_and_details(body)
    digest = "" if answer.answer is None else digest_of(answer.answer)
    agreements = {
        "kind of entry": facts.get("action") == "answer",
        "index": facts.get("index") == str(answer.log_index),
        "answer": facts.get("resource") == answer.name,
        "who released it": facts.get("actor") == answer.released_by,
        "verdict": recorded.get("verdict") == answer.verdict,
        "numbers": recorded.get("data_digest", "") == digest,
    }
    _refuse_differences(agreements, "the signed answer")


def _facts_and_details(body: bytes) -> tuple[Document, Document]:
    facts = _facts(body)
    details = facts.get("details")
    return facts, details if isinstance(details, dict) else {}


def _refuse_differences(agreements: Mapping[str, bool], other: str) -> None:
    for what, agrees in agreements.items():
        if not agrees:
            raise VerificationError(problem=f"the log entry and {other} differ in {what}")


def check_in_log(entry: LogEntry, index: int, root: bytes) -> None:
    """Check that the log with this root holds the entry at ``index``; raises VerificationError."""
    check_inclusion(leaf_hash(entry.body), index, entry.size, entry.path, root)


def _facts(body: bytes) -> Document:
    try:
        return document_of(body, "entry")
    except InvalidInputError:
        raise VerificationError(problem="the log entry is malformed") from None


def _text(facts: Document, name: str) -> str:
    value = facts.get(name)
    if not isinstance(value, str):
        raise VerificationError(problem="the log entry is malformed")
    return value
