"""Files of saved releases, recognised by their content and not by their names, and what they prove."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.client.checking.checks import (
    card_of_statement,
    card_payload,
    check_delivered_file,
    check_psi,
    checked_receipt,
    checked_signed_answer,
    passing_verdict,
    places_by,
    rebuilt,
    version_kind_of,
)
from gencard.client.common.display import plain
from gencard.client.common.formats import WELL_KNOWN
from gencard.client.common.rows import BY_VALUES, is_by_values, read_rows
from gencard.client.connection.credentials import Checkpoint, Credentials, checkpoint_of, known_history
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
from gencard.wire import log as wire_log
from gencard.wire.canonical import (
    Document,
    check_json,
    document_of,
    json_bytes,
    sha256,
    time_of,
    time_text,
)
from gencard.wire.documents import Receipt, SignedAnswer
from gencard.wire.dsse import (
    ANSWER,
    CARD,
    CHECKPOINT,
    RECEIPT,
    REVOCATION,
    VERDICT,
    predicate_of,
    subject_digest,
)
from gencard.wire.keys import CARDS, LINKS, LOG, KeyHistory, changes_in, grouped
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
        if self._private_card():
            raise NoPsiError
        content = self.one("psi").content
        psi = psi_of_document(content)
        if psi_document(psi) != content:
            raise InvalidPsiError(problem="the document is not in canonical form")
        return psi

    def domain(self) -> Domain:
        """The attributes of psi's marginals, or under a card of tier private its own."""
        card = self._private_card()
        if card is None:
            return self.psi().fitted.domain
        return self.schema().domain.covered_by(card.terms.cliques)

    def _private_card(self) -> CardTerms | None:
        """The one card if its tier is private, else None; its signatures are not checked here."""
        if len(self.all("card")) != 1:
            return None
        card = card_of_statement(dsse.opened(self.one("card").content)[0])
        return card if card.tier is Tier.PRIVATE else None


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
    if {"payload", "payloadType", "signatures"} & value.keys():
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


# Offline verification of saved files: card, schema, psi, receipts, rows, answers, log, verdicts.


class Outcome(StrEnum):
    """Outcome of one check; only ``failed`` fails the verification.

    ``not checked`` means that a file or key needed for the check is missing.
    """

    PASSED = "passed"
    FAILED = "failed"
    NOTED = "noted"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckLine:
    what: str
    outcome: Outcome
    detail: str


@dataclass(frozen=True, slots=True)
class AnsweredOnline:
    """Answer of the controller about the card at this moment.

    Args:
        facts: Signed facts about the card: verdicts and revocations.
        problem: Reason for which the controller gave no answer, such as a card of another analyst.
    """

    facts: tuple[bytes, ...] = ()
    is_revoked: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Record:
    checks: list[CheckLine] = field(default_factory=list)

    @contextmanager
    def check(self, what: str) -> Iterator[Callable[[str], None]]:
        """Run a block as one check and record its outcome; the block says what it confirmed."""
        details = [""]
        try:
            yield details.append
        except GencardError as error:
            self.checks.append(CheckLine(what, Outcome.FAILED, error.message))
        else:
            self.checks.append(CheckLine(what, Outcome.PASSED, details[-1]))

    def note(self, what: str, detail: str) -> None:
        self.checks.append(CheckLine(what, Outcome.NOTED, detail))

    def leave(self, what: str, detail: str) -> None:
        """Record a check that could not be made, and what it needs."""
        self.checks.append(CheckLine(what, Outcome.NOT_CHECKED, detail))


def verify(
    bundle: Bundle, keys: Keys, now: datetime, online: AnsweredOnline | None = None
) -> list[CheckLine]:
    """Run every check; stops if the card's signatures fail, since all else depends on them.

    Args:
        online: The controller's answer about the card; None if it was not asked, so that only a
            revocation among the files is seen.
    """
    record, card, coding = _Record(), None, None
    keys = _check_files(bundle, keys, record)
    with record.check(f"Card, signed by {'both' if keys.analyst else 'the controller'}") as confirm:
        card = signed_card(bundle, keys)
        confirm(card.name)
    if card is None:
        return record.checks
    if keys.analyst:
        _, signatures = dsse.opened(bundle.one("card").content)
        signers = [key_id for key_id in map(dsse.key_id, keys.analyst) if key_id in signatures]
        record.note("Analyst's key", f"{grouped(signers[0])}: {keys.analyst_source}")
    else:
        need = "give the analyst's public signing key with --analyst-key FILE"
        record.leave("Analyst's signature", f"of {card.analyst}: {need}")
    over = "ended" if now >= time_of(card.expire_time) else "ends"
    record.note("Validity of the card", f"{over} {card.expire_time}{_seen(bundle, keys, online)}")
    with record.check("Schema") as confirm:
        coding = checked_schema(bundle, card)
        confirm(card.coding_digest)
    receipts = _receipts(bundle, card, keys, record)
    record.note("Tier", f"{card.tier}: reliable for {card.tier.holds_against}")
    _check_audited(bundle, card, keys, receipts, record)
    _check_data(bundle, card, coding, receipts, record)
    _check_log(bundle, card, keys, [*receipts, *_answers(bundle, card, keys, record)], record)
    _check_facts(bundle, keys, record)
    if online is not None:
        _check_online(bundle, keys, online, now, record)
    _leave_missing(bundle, receipts, record)
    return record.checks


def _check_files(bundle: Bundle, keys: Keys, record: _Record) -> Keys:
    """Check that no file is damaged; returns the keys with their successors."""
    for path in bundle.damaged:
        with record.check(f"File {path.name}"):
            kind = WELL_KNOWN.get(path.name, "document")
            problem = f"the file is damaged: it is not a {kind} in canonical form"
            raise VerificationError(problem=problem)
    if bundle.all("keys"):
        with record.check("Key rotations") as confirm:
            keys = keys.followed(bundle)
            log = () if keys.log is None else keys.log.changes
            changes = sorted((*keys.controller.changes, *log), key=lambda change: change.time)
            confirm(", ".join(f"{change.use} {change.number}, {change.time}" for change in changes))
    return keys


def _receipts(bundle: Bundle, card: CardTerms, keys: Keys, record: _Record) -> list[Receipt]:
    receipts = []
    for file in bundle.all("receipt"):
        with record.check(f"Receipt {file.path.name}") as confirm:
            receipt = receipt_in(bundle, card, file, keys)
            receipts.append(receipt)
            maker = f"seed {receipt.seed}" if receipt.audited is None else "by an audited black box"
            maker = "by one noisy fit of a private black box" if receipt.private_box else maker
            maker = "without replicated uniques" if receipt.without_uniques else maker
            confirm(f"{receipt.rows:,} rows, {maker}, {receipt.time}")
    if any(receipt.version_kind for receipt in receipts):
        with record.check("Version of the records") as confirm:
            kind = version_kind_of(receipts)
            confirm(kind.wording if kind else "not said")
    return receipts


def _check_audited(
    bundle: Bundle, card: CardTerms, keys: Keys, receipts: list[Receipt], record: _Record
) -> None:
    """Check that each receipt of a black box has a passing verdict among the files."""
    envelopes = [file.content for file in bundle.all("verdict")]
    boxes = {receipt.audited for receipt in receipts if receipt.audited is not None}
    digest = card_digest(bundle)
    for audited in sorted(boxes, key=lambda box: box.verdict_digest):
        with record.check("Audit of the generator") as confirm:
            passing_verdict(envelopes, audited, keys.controller, card, digest)
            confirm(card.terms.generator)


def _check_data(
    bundle: Bundle, card: CardTerms, coding: Coding | None, receipts: list[Receipt], record: _Record
) -> None:
    if card.tier is Tier.PRIVATE:
        with record.check("psi") as confirm:
            if bundle.all("psi"):
                problem = "a card of tier private has no psi, but a psi file was found"
                raise VerificationError(problem=problem)
            confirm("none; the generator adds noise, and no statistics are released")
    if coding is None:
        return
    if card.tier is not Tier.PRIVATE:
        with record.check("psi") as confirm:
            check_psi(card, bundle.psi(), coding)
            digest = sha256(bundle.one("psi").content)
            if any(receipt.psi_digest != digest for receipt in receipts):
                raise VerificationError(problem="a receipt names another psi")
            confirm(digest)
    for file in bundle.all("rows"):
        with record.check(f"Rows {file.path.name}") as confirm:
            confirm(_rows_digest(bundle, file, card, coding, receipts))


def _rows_digest(
    bundle: Bundle, file: File, card: CardTerms, coding: Coding, receipts: list[Receipt]
) -> str:
    dataset = read_rows(file.path, coding, coding.domain.covered_by(card.terms.cliques))
    digest, size = dataset.digest(), len(dataset)
    own = [one for one in receipts if (one.rows_digest, one.rows) == (digest, size)]
    if not own:
        raise VerificationError(problem="no receipt matches these rows")
    places = places_by(card, bundle.psi, coding)
    check_delivered_file(file.path, dataset, coding, [one.drawing_seed for one in own], places)
    return f"{digest}, {BY_VALUES}" if is_by_values(file.path) else digest


def _answers(bundle: Bundle, card: CardTerms, keys: Keys, record: _Record) -> list[SignedAnswer]:
    digest, answers = card_digest(bundle), []
    for file in bundle.all("answer"):
        with record.check(f"Answer {file.path.name}") as confirm:
            one = checked_signed_answer(file.content, keys.controller, card, card_digest=digest)
            answers.append(one)
            confirm(f"{one.verdict} by {one.released_by}, {one.numbers:,} numbers, {one.time}")
    return answers


def _check_log(
    bundle: Bundle,
    card: CardTerms,
    keys: Keys,
    signed: Sequence[Receipt | SignedAnswer],
    record: _Record,
) -> None:
    """Check that checkpoints are signed and consistent, and cover what receipts and answers name."""
    known: dict[int, Checkpoint] = {}
    for file in bundle.all("checkpoint"):
        with record.check(f"Log {file.path.name}") as confirm:
            if keys.log is None:
                problem = "the log's key is not known; name it with --log-key FILE"
                raise VerificationError(problem=problem)
            checkpoint = checkpoint_of(file.content, keys.log)
            if known.setdefault(checkpoint.size, checkpoint).root != checkpoint.root:
                problem = "the log was forked: two checkpoints of the same size have different roots"
                raise VerificationError(problem=problem)
            confirm(f"{checkpoint.size} entries, {checkpoint.time}")
    for one in signed:
        with record.check(f"Log entry {one.log_index}") as confirm:
            checkpoint = _covering(bundle, one, card.controller, known)
            confirm(f"included in the signed log of {checkpoint.size} entries, {checkpoint.time}")


def _covering(
    bundle: Bundle,
    signed: Receipt | SignedAnswer,
    controller: str,
    checkpoints: Mapping[int, Checkpoint],
) -> Checkpoint:
    """The checkpoint that covers the log entry of a receipt or an answer."""
    entries = [wire_log.log_entry_of_document(file.content) for file in bundle.all("log entry")]
    own = [entry for entry in entries if wire_log.resource_of(entry.body) == signed.name]
    for entry in own:
        wire_log.check_entry(entry.body, signed, controller)
        if entry.size in checkpoints:
            checkpoint = checkpoints[entry.size]
            wire_log.check_in_log(entry, signed.log_index, bytes.fromhex(checkpoint.root))
            return checkpoint
    missing = "there is no proof that it is in the log"
    again, with_proof = "save the release or the answer again", ", with log_entry.json"
    if own:
        missing, with_proof = "the checkpoint of the proof is missing", ""
    raise VerificationError(problem=f"{missing}; {again}{with_proof}")


def _check_facts(bundle: Bundle, keys: Keys, record: _Record) -> None:
    digest = card_digest(bundle)
    for file in bundle.all("verdict"):
        with record.check(f"Verdict {file.path.name}") as confirm:
            fact = _fact(file, VERDICT, keys, digest)
            confirm(f"{fact.get('blackBox', '?')}: {fact.get('verdict', '?')}")
    for file in bundle.all("revocation"):
        with record.check(f"Revocation {file.path.name}"):
            _refuse_revoked(_fact(file, REVOCATION, keys, digest))


def _fact(file: File, kind: str, keys: Keys, card_digest: str) -> Document:
    payload = keys.controller.payload_of(file.content)
    fact = predicate_of(payload, kind)
    if subject_digest(payload) != card_digest:
        raise VerificationError(problem="this document is about another card")
    return fact


def _refuse_revoked(fact: Document) -> NoReturn:
    time, remark = fact.get("time", "at some time"), fact.get("remark", "")
    reason = f" ({plain(str(remark))})" if remark else ""
    raise VerificationError(problem=f"the controller revoked this card, {time}{reason}")


def _check_online(
    bundle: Bundle, keys: Keys, online: AnsweredOnline, now: datetime, record: _Record
) -> None:
    """Check that the card is not revoked; fails too if a revocation is not signed, or another card's."""
    if online.problem:
        record.leave(_ONLINE, online.problem)
        return
    with record.check(_ONLINE) as confirm:
        for envelope in online.facts:  # receipts and verdicts are among them
            if document_of(dsse.opened(envelope)[0], "statement").get("predicateType") == REVOCATION:
                payload = keys.controller.payload_of(envelope)
                if subject_digest(payload) != card_digest(bundle):
                    raise VerificationError(problem="the controller answered about another card")
                _refuse_revoked(predicate_of(payload, REVOCATION))
        if online.is_revoked:
            problem = "the controller calls this card revoked, without signing it"
            raise VerificationError(problem=problem)
        confirm(f"none, as the controller answered at {time_text(now)}")


_ONLINE = "Revocation, asked online"


def _leave_missing(bundle: Bundle, receipts: Sequence[Receipt], record: _Record) -> None:
    alone = bool(bundle.all("answer")) and not receipts
    if not bundle.all("rows") and not alone:
        record.leave("Rows", "not found; name their file as well")
    if not bundle.all("receipt") and not alone:
        record.leave("Receipt", "not found, so rows and psi cannot be matched with the card")
    if not bundle.all("checkpoint"):
        record.leave("Log", "no checkpoint found, so the log cannot be checked")
    if not receipts and bundle.all("psi"):
        record.leave("psi", "only its format was checked: no receipt confirms its counts")
    if bundle.ignored:
        names = ", ".join(sorted(path.name for path in bundle.ignored))
        record.note("Other files", f"{names}: not part of the release, and covered by no signature")


def evidence_time(bundle: Bundle, keys: Keys) -> str:
    """Time of the newest checkpoint, receipt, answer or verdict that the controller signed, or empty.

    If no revocation is among the files, they cannot show a revocation after this time.
    """
    times = []
    for kind in ("checkpoint", "answer", "receipt", "verdict"):
        history = keys.log if kind == "checkpoint" else keys.controller
        if history is None:
            continue
        for file in bundle.all(kind):
            with suppress(GencardError, KeyError, TypeError):
                payload = history.payload_of(file.content)
                times.append(str(document_of(payload, "statement")["predicate"]["time"]))
    return max(times, default="")


def _seen(bundle: Bundle, keys: Keys, online: AnsweredOnline | None) -> str:
    """Until when a revocation would be seen, if none is among the files and nothing was asked."""
    if bundle.all("revocation") or (online is not None and not online.problem):
        return ""
    time = evidence_time(bundle, keys)
    return f"; not revoked{f' until {time}' if time else ''}, as far as these files show"
