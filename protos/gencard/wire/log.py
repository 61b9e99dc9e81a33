"""The log's entry of a release or an answer, with the proof that a signed checkpoint covers it.

The leaf of the log's Merkle tree is the hash of the entry's bytes, so anybody can rebuild it from the
entry and follow the path up to the checkpoint's root (RFC 9162, 2.1.3.2).
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from gencard.core.errors import InvalidInputError, InvalidNumberError, VerificationError
from gencard.core.json_codecs import written
from gencard.core.typed_json import text_scalar
from gencard.wire.canonical import Document, digest_of, document_of, json_bytes
from gencard.wire.documents import Receipt, SignedAnswer
from gencard.wire.dsse import DOCUMENT, read_document

# Merkle trees as in RFC 9162: one hash stands for a whole log, and short proofs for its parts.
#
# A tree over entries 0..n-1 is read through its *nodes*: ``node(level, position)`` is the hash of the
# perfect subtree over the ``2**level`` entries that begin at ``position * 2**level``. Whoever holds the
# nodes makes proofs of about ``2 log2(n)`` hashes; whoever holds a root checks them with hashlib alone.

Node = Callable[[int, int], bytes]
"""(level, position) -> hash, 32 bytes."""

EMPTY = hashlib.sha256().digest()
"""Root of the tree without entries (RFC 9162, 2.1.1)."""


def leaf_hash(entry: bytes) -> bytes:
    """Hash of one entry; the prefix keeps entries and nodes apart."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Peaks:
    """Roots of the perfect subtrees that a growing tree is made of: all that its root needs.

    >>> Peaks([leaf_hash(b"first")]).root() == leaf_hash(b"first")
    True
    """

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self._peaks: list[tuple[int, bytes]] = []
        for leaf in leaves:
            self.append(leaf)

    def append(self, leaf: bytes) -> None:
        level = 0
        while self._peaks and self._peaks[-1][0] == level:
            leaf = node_hash(self._peaks.pop()[1], leaf)
            level += 1
        self._peaks.append((level, leaf))

    def root(self) -> bytes:
        if not self._peaks:
            return EMPTY
        *rest, (_, right) = self._peaks
        for _, left in reversed(rest):
            right = node_hash(left, right)
        return right


def root(node: Node, size: int) -> bytes:
    """Root of the tree over the first ``size`` entries."""
    return _hash(node, 0, size) if size else EMPTY


def inclusion_path(node: Node, index: int, size: int) -> list[bytes]:
    """Hashes from the leaf at ``index`` up to the root of the first ``size`` entries (2.1.3.1)."""
    if not 0 <= index < size:
        raise InvalidNumberError(field="index", expected=f"from 0 to {size - 1}")
    path, start, end = [], 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append(_hash(node, middle, end))
            end = middle
        else:
            path.append(_hash(node, start, middle))
            start = middle
    return path[::-1]


def consistency_path(node: Node, old_size: int, new_size: int) -> list[bytes]:
    """Hashes that show the first ``old_size`` entries to be the beginning of the log (2.1.4.1)."""
    if not 0 < old_size <= new_size:
        raise InvalidNumberError(field="old_size", expected=f"from 1 to {new_size}")
    path, start, end = [], 0, new_size
    while end != old_size:
        middle = start + _split(end - start)
        if old_size <= middle:
            path.append(_hash(node, middle, end))
            end = middle
        else:
            path.append(_hash(node, start, middle))
            start = middle
    return [*([_hash(node, start, end)] if start else []), *path[::-1]]


def check_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> None:
    """Check that a leaf is at ``index`` of the tree of this size and root (RFC 9162, 2.1.3.2)."""
    problem = VerificationError(problem=f"the proof does not place entry {index} in the log")
    if not 0 <= index < size:
        raise problem
    roots = _climbed(index, size - 1, leaf, path)
    if roots is None or roots[1] != root:
        raise problem


def check_consistency(
    old_size: int, new_size: int, path: Sequence[bytes], old_root: bytes, new_root: bytes
) -> None:
    """Check that the newer log begins with the older one: no fork, no rewrite (RFC 9162, 2.1.4.2)."""
    problem = VerificationError(
        problem=f"the log of size {new_size} does not continue that of {old_size}"
    )
    if not 0 < old_size <= new_size:
        raise problem
    if old_size == new_size:
        if path or old_root != new_root:
            raise problem
        return
    whole = old_size & (old_size - 1) == 0
    steps = [old_root, *path] if whole else list(path)
    first, last = old_size - 1, new_size - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    if not steps or _climbed(first, last, steps[0], steps[1:]) != (old_root, new_root):
        raise problem


def _climbed(first: int, last: int, node: bytes, path: Sequence[bytes]) -> tuple[bytes, bytes] | None:
    """The roots to which a path leads from a node: that of all up to the node, and that of all.

    Args:
        first, last: Positions of the node and of the last one of its level.

    Returns:
        None if the path is too short or too long.
    """
    old = new = node
    for step in path:
        if last == 0:
            return None
        if first & 1 or first == last:
            old, new = node_hash(step, old), node_hash(step, new)
            while first and not first & 1:  # levels at which a right edge has no sibling
                first, last = first >> 1, last >> 1
        else:
            new = node_hash(new, step)
        first, last = first >> 1, last >> 1
    return (old, new) if last == 0 else None


def _split(size: int) -> int:
    """The largest power of two below ``size``: where RFC 9162 splits a tree."""
    return 1 << (size - 1).bit_length() - 1


def _hash(node: Node, start: int, end: int) -> bytes:
    """Hash of the subtree over entries ``start`` to ``end - 1``, cut as RFC 9162 cuts it."""
    level = (end - start - 1).bit_length()
    if end - start == 1 << level:
        return node(level, start >> level)
    middle = start + (1 << level - 1)
    return node_hash(_hash(node, start, middle), _hash(node, middle, end))


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
    return document.keys() == _FIELDS and document["format"] == FORMAT


def resource_of(body: bytes) -> str:
    """Return the name of an entry's subject; raise VerificationError if the bytes are no entry."""
    value = _facts(body).get("resource")
    if not isinstance(value, str):
        raise VerificationError(problem="the log entry is malformed")
    return value


def check_entry(body: bytes, signed: Receipt | SignedAnswer, controller: str) -> None:
    """Check that an entry of the log is the one that the receipt of a release or an answer names.

    Args:
        controller: URI of the controller, which alone makes releases.
    """
    facts = _facts(body)
    details = facts.get("details")
    recorded = details if isinstance(details, dict) else {}
    is_release = isinstance(signed, Receipt)
    kind, document = ("release", "the receipt") if is_release else ("answer", "the signed answer")
    agreements = {
        "kind of entry": facts.get("action") == kind,
        "index": facts.get("index") == str(signed.log_index),
        kind: facts.get("resource") == signed.name,
    }
    if isinstance(signed, Receipt):
        agreements["controller"] = facts.get("actor") == controller
        agreements["rows"] = recorded.get("data_digest") == signed.rows_digest
        agreements["psi"] = recorded.get("psi_digest", "") == signed.psi_digest
    else:
        digest = "" if signed.answer is None else digest_of(signed.answer)
        agreements["who released it"] = facts.get("actor") == signed.released_by
        agreements["verdict"] = recorded.get("verdict") == signed.verdict
        agreements["numbers"] = recorded.get("data_digest", "") == digest
    for what, agrees in agreements.items():
        if not agrees:
            raise VerificationError(problem=f"the log entry and {document} differ in {what}")


def check_in_log(entry: LogEntry, index: int, root: bytes) -> None:
    """Check that the log with this root holds the entry at ``index``; raises VerificationError."""
    check_inclusion(leaf_hash(entry.body), index, entry.size, entry.path, root)


def _facts(body: bytes) -> Document:
    try:
        return document_of(body, "entry")
    except InvalidInputError:
        raise VerificationError(problem="the log entry is malformed") from None
