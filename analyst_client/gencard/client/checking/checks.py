"""Checks of what the controller sends: signed statements, its log, and rows, by replay."""

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gencard.client.common.arguments import LARGEST_WORD, checked_number
from gencard.client.common.display import Displayable, Facts, Part
from gencard.client.common.formats import appearing
from gencard.client.common.rows import difference, same_bytes, write_rows
from gencard.client.connection.credentials import Checkpoint
from gencard.client.terms import number_stddevs, stddevs, sum_stddevs
from gencard.core.card.card import CardRecord, Offer
from gencard.core.card.terms import CardTerms, Proposal, Tier
from gencard.core.catalogue import CatalogueEntry
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import computed_for, same_numbers, with_computed, zeros_for
from gencard.core.errors import GencardError, InvalidPsiError, NotReplayableError, VerificationError
from gencard.core.generators.contract import Generator, Model, rng_of
from gencard.core.scale import Places
from gencard.core.statistics.linear import are_functions_of, fine_cells
from gencard.core.statistics.numbers import check_numbers_agree, places_of
from gencard.core.statistics.psi import Psi
from gencard.core.types import VersionKind
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.run.levels import Midpoints, Numbers, Values
from gencard.v1 import ledger_pb2 as pb
from gencard.wire import dsse
from gencard.wire.canonical import digest_of, sha256, time_text
from gencard.wire.documents import (
    AuditedBox,
    Receipt,
    SignedAnswer,
    answer_of_document,
    card_of_document,
    card_statement,
    receipt_of_document,
    receipt_statement,
)
from gencard.wire.dsse import ANSWER, CARD, RECEIPT, VERDICT, predicate_of, statement, subject_digest
from gencard.wire.keys import KeyHistory
from gencard.wire.log import LogEntry, check_consistency, check_entry, check_in_log, check_inclusion
from gencard.wire.psi import coding_digest, psi_document

if TYPE_CHECKING:
    import pandas as pd

    from gencard.client.connection.connection import Connection
    from gencard.core.generators.model_file import KeptFits


# Statements that the client signs, and those that others signed.


def checked_answer(answer: CardRecord, proposal: Proposal) -> CardRecord:
    """The controller's answer to a proposal, which must quote these terms, or it hides differences."""
    if answer.proposed != proposal:
        raise VerificationError(problem="the controller answered with other terms than requested")
    return answer


def checked_offer(card: CardRecord, offer: Offer, entry: CatalogueEntry, *, analyst: str) -> bytes:
    """Return the statement to sign, after checking that its bytes state the offer that is displayed."""
    stated = card_of_statement(offer.statement)
    agreements = {
        "terms": stated.terms == offer.terms,
        "price": stated.price == offer.price,
        "name": stated.name == card.name,
        "dataset": card.name.startswith(f"{stated.terms.dataset}/cards/"),
        "analyst": stated.analyst == card.analyst == analyst,
        "schema": stated.coding_digest == coding_digest(entry.coding),
        "version of the records": stated.version == entry.version,
        "expiry": stated.expire_time == time_text(offer.expire_time),
        "digest": subject_digest(offer.statement) == offer.digest,
    }
    for what, agrees in agreements.items():
        if not agrees:
            raise VerificationError(problem=f"the statement to sign and the offer differ in {what}")
    return offer.statement


def card_of_statement(payload: bytes) -> CardTerms:
    """The card inside a statement, which must be the one sequence of bytes that means it."""
    document = predicate_of(payload, CARD)
    card = card_of_document(document)
    if subject_digest(payload) != digest_of(document):
        raise VerificationError(problem="the card does not match its digest")
    if card_statement(card) != payload:
        raise VerificationError(problem="the card is not in canonical form")
    return card


def card_payload(
    envelope: bytes, controller: KeyHistory, analyst: Sequence[Ed25519PublicKey] = ()
) -> bytes:
    """Return the statement if the analyst signed first, the controller second, and no other key.

    Args:
        analyst: The analyst's present key and earlier ones. If none is known, the analyst's signature is
            not checked.
    """
    if not analyst:
        return controller.payload_of(envelope, unknown=1)
    _, signatures = dsse.opened(envelope)
    signers = [key for key in analyst if dsse.key_id(key) in signatures]
    return controller.payload_of(envelope, (signers or analyst)[:1])


def checked_receipt(envelope: bytes, keys: KeyHistory, card: CardTerms, *, card_digest: str) -> Receipt:
    """The receipt of a release, signed by the controller, about this card and within its terms."""
    payload = keys.payload_of(envelope)
    receipt = receipt_of_document(predicate_of(payload, RECEIPT, compared=True))
    if receipt_statement(receipt) != payload:
        raise VerificationError(problem="the receipt is not in canonical form")
    if receipt.card_digest != card_digest:
        raise VerificationError(problem="the receipt names another card")
    if not receipt.name.startswith(f"{card.name}/releases/"):
        raise VerificationError(problem="the receipt names a release of another card")
    _check_maker(receipt, card)
    if receipt.rows > card.terms.rows:
        raise VerificationError(problem="the receipt names more rows than the card allows")
    if receipt.time >= card.expire_time:
        raise VerificationError(problem="the receipt is dated after the end of the card")
    return receipt


def version_kind_of(receipts: Iterable[Receipt]) -> VersionKind | None:
    """The kind of version of a card's records in its receipts, which must agree; None if none has it."""
    kinds = {receipt.version_kind for receipt in receipts if receipt.version_kind is not None}
    if len(kinds) > 1:
        raise VerificationError(problem="the receipts differ in the kind of version of the records")
    return kinds.pop() if kinds else None


def checked_signed_answer(
    envelope: bytes, keys: KeyHistory, card: CardTerms, *, card_digest: str
) -> SignedAnswer:
    """The answer of a run on the records, signed by the controller, for this card, within its terms."""
    payload = keys.payload_of(envelope)
    document = predicate_of(payload, ANSWER, compared=True)
    answer = answer_of_document(document)
    # Decoding is strict, so the answer encodes to this document again. Only the bytes can differ: order
    # of names, spaces, a repeated name. Other bytes must not have a valid signature for the same answer.
    if statement(ANSWER, answer.name, document) != payload:
        raise VerificationError(problem="the signed answer is not in canonical form")
    if answer.card_digest != card_digest or not answer.name.startswith(f"{card.name}/answers/"):
        raise VerificationError(problem="the signed answer belongs to another card")
    if answer.version != card.version:
        raise VerificationError(problem="the signed answer is about other records than the card names")
    analyses, kind = card.terms.analyses, answer.question.kind
    granted = kind in analyses.kinds or answer.question.formula in analyses.programs
    if not granted or answer.numbers > max(analyses.numbers, analyses.program_numbers):
        raise VerificationError(problem="the signed answer is not one that the card grants")
    return answer


def _check_maker(receipt: Receipt, card: CardTerms) -> None:
    """Check that seed, black box and treatment of uniques in a receipt are those of the card."""
    without = card.terms.without_uniques
    seedless = without or card.tier is not Tier.BY_CONSTRUCTION
    tier: Tier | None = Tier.PRIVATE if receipt.private_box else Tier.BY_CONSTRUCTION
    if receipt.audited is not None:  # a receipt that names boxes of two tiers states none
        tier = None if receipt.private_box else Tier.AUDITED
    if (tier, receipt.seed is None) != (card.tier, seedless):
        raise VerificationError(problem="the receipt and the card differ in tier")
    if receipt.most_records != card.most_records:
        problem = "the receipt and the card differ in the number of records that count for a person"
        raise VerificationError(problem=problem)
    if receipt.without_uniques != without:
        raise VerificationError(problem="the receipt and the card differ in the treatment of uniques")
    box = receipt.private_box if receipt.audited is None else receipt.audited.digest
    if box and box != card.generator_digest:
        raise VerificationError(problem="the receipt and the card name different black boxes")


def passing_verdict(
    envelopes: Iterable[bytes], audited: AuditedBox, keys: KeyHistory, card: CardTerms, card_digest: str
) -> bytes:
    """The envelope of the passing verdict, for this card, that a receipt names."""
    from gencard.core.audit.report import Verdict  # noqa: PLC0415 - loads scipy.stats

    matches = [envelope for envelope in envelopes if _digest_of(envelope) == audited.verdict_digest]
    if not matches:
        raise VerificationError(problem="the verdict that the receipt names is missing")
    payload = keys.payload_of(matches[0])
    verdict = predicate_of(payload, VERDICT)
    facts = {
        "blackBox": card.terms.generator,
        "boxDigest": {"sha256": card.generator_digest},
        "verdict": str(Verdict.NO_EVIDENCE),
    }
    agrees = all(verdict.get(name) == value for name, value in facts.items())
    if subject_digest(payload) != card_digest or not agrees:
        raise VerificationError(problem="the verdict is not about the card's generator")
    return matches[0]


def _digest_of(envelope: bytes) -> str:
    try:
        return sha256(dsse.opened(envelope)[0])
    except GencardError:
        return ""


# The controller's log: each answer must continue what was verified before. The newest verified
# checkpoint is kept beside the certificate, so that a forked or shortened log is refused.

LOG_SEEN = "log_seen.json"
"""File of the newest verified checkpoint, beside the certificate."""


class LogWatch:
    """The controller's log; keeps the last verified checkpoint to notice a fork or rollback."""

    def __init__(self, connection: "Connection") -> None:
        self._connection, self._file = connection, connection.credentials.folder / LOG_SEEN

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint, proved to continue the one kept before."""
        # before the request: another program of the user may store a newer one meanwhile
        seen = self._seen()
        answer = self._connection.call(self._connection.log.GetCheckpoint, pb.GetCheckpointRequest())
        new = self._connection.keys.checkpoint_of(answer.checkpoint)
        if seen is not None:
            if new.size < seen.size:
                problem = f"the log has fewer than the {seen.size} entries it had before"
                raise VerificationError(problem=problem)
            path: list[bytes] = []
            if 0 < seen.size < new.size:
                request = pb.GetConsistencyProofRequest(old_size=seen.size, new_size=new.size)
                proof = self._connection.call(self._connection.log.GetConsistencyProof, request)
                path = list(proof.path)
            if seen.size:
                roots = bytes.fromhex(seen.root), bytes.fromhex(new.root)
                check_consistency(seen.size, new.size, path, *roots)
        newest = self._seen(seen)
        if newest is None or newest.size <= new.size:
            with appearing(self._file, "log") as part:
                part.write_bytes(new.envelope)
        return new

    def check_entry(self, index: int, checkpoint: Checkpoint) -> str:
        """The leaf hash, in hex, of the entry at ``index``, proved to be in the log."""
        index = checked_number("entry", index, 0, LARGEST_WORD)
        request = pb.GetInclusionProofRequest(index=index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        root = bytes.fromhex(checkpoint.root)
        check_inclusion(proof.leaf, index, checkpoint.size, proof.path, root)
        return proof.leaf.hex()

    def entry(
        self, body: bytes, signed: Receipt | SignedAnswer, controller: str
    ) -> tuple[LogEntry, Checkpoint]:
        """The log entry of a release or answer, proved to be in the newest checkpoint, and that one."""
        check_entry(body, signed, controller)
        return self.proved(body, signed.log_index)

    def proved(self, body: bytes, index: int) -> tuple[LogEntry, Checkpoint]:
        """An entry with its proof that it is in the newest checkpoint, and that checkpoint."""
        checkpoint = self.checkpoint()
        request = pb.GetInclusionProofRequest(index=index, size=checkpoint.size)
        proof = self._connection.call(self._connection.log.GetInclusionProof, request)
        entry = LogEntry(body, checkpoint.size, tuple(proof.path))
        check_in_log(entry, index, bytes.fromhex(checkpoint.root))
        return entry, checkpoint

    def _seen(self, verified: Checkpoint | None = None) -> Checkpoint | None:
        """The kept checkpoint; its signature is checked unless these very bytes were verified."""
        if not self._file.exists():
            return None
        envelope = read_file(self._file, "log", DOCUMENT_LIMIT)
        if verified and verified.envelope == envelope:
            return verified
        return self._connection.keys.checkpoint_of(envelope)


# Replay: recompute rows from psi, card and seed, which proves that they depend on nothing else.


_MOST_CELLS = 1_000_000_000
"""Most cells of a model in a replay; the default of the controller's limit is 50 million."""


_ROUNDING = 1e-9
"""Relative tolerance of standard deviations: machines differ in the last digits of exp."""


@dataclass(frozen=True, slots=True)
class Replayed(Displayable):
    """A successful replay: every byte agrees."""

    release: str
    rows: int
    seed: int
    digest: str

    @classmethod
    def of(cls, receipt: Receipt) -> "Replayed":
        return cls(receipt.name, receipt.rows, receipt.drawing_seed, receipt.rows_digest)

    def __str__(self) -> str:
        return f"Every byte agrees: {self.rows:,} rows with seed {self.seed}, SHA-256 {self.digest}."

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Replayed", [str(self), Facts([("Release", self.release)])]


def rebuilt(card: CardTerms, psi: Psi, receipt: Receipt, coding: Coding) -> Dataset:
    """The rows recomputed from psi, card and receipt; NotReplayableError if they came from records."""
    if receipt.seed is None or card.tier is not Tier.BY_CONSTRUCTION:
        raise NotReplayableError
    check_psi(card, psi, coding)
    if sha256(psi_document(psi)) != receipt.psi_digest:
        raise VerificationError(problem="the receipt names another psi")
    model = _fitted(card, psi.fitted, receipt.psi_digest, coding)
    dataset = model.sample(receipt.rows, rng=rng_of(receipt.seed))
    dataset = with_computed(dataset, computed_for(card, coding))
    if dataset.digest() != receipt.rows_digest:
        from gencard.core.generators import registry  # noqa: PLC0415 - as below

        problem = "the replayed rows do not match the receipt"
        if not registry.is_digest_of(card.terms.generator, card.generator_digest):
            problem = (
                "the replayed rows differ, and this installation has another version of the generator"
            )
        raise VerificationError(problem=problem)
    return dataset


@cache
def _fits() -> "KeptFits":
    """Fits of this process, so that replays of further releases of a card cost their draw only."""
    from gencard.core.generators.model_file import KeptFits  # noqa: PLC0415 - as below

    return KeptFits(most_fits=4)


def _fitted(card: CardTerms, psi: Psi, psi_digest: str, coding: Coding) -> Model:
    """Fit the card's generator to psi, or take the fit of an earlier replay."""
    # loads every generator, for a replay alone
    from gencard.core.generators.model_file import model_of, saved_fit  # noqa: PLC0415

    # All that a fit depends on, so that a replay never uses the fit of another psi, schema or version.
    # Derivations decide which zeros ``zeros_for`` adds.
    key = f"{psi_digest} {coding_digest(coding)} {card.generator_digest} {bool(card.derivations)}"
    if saved := _fits().fit(card.name, key):
        return model_of(saved)
    model = generator_of(card, coding).fit(psi, psi.domain)
    _fits().keep(card.name, key, saved_fit(model))
    return model


def generator_of(card: CardTerms, coding: Coding) -> Generator:
    """The generator that the card names, in its version, with the schema's structural zeros."""
    # loads every generator, for a replay alone
    from gencard.core.generators import registry  # noqa: PLC0415

    zeros = zeros_for(card, coding)
    return registry.generator_named(
        card.terms.generator, structural_zeros=zeros, max_cells=_MOST_CELLS, digest=card.generator_digest
    )


def check_psi(card: CardTerms, psi: Psi, coding: Coding) -> None:
    """Check that psi holds the card's statistics, measured as agreed.

    Exact histograms and sums must agree with the marginals, and with each other.
    """
    terms, linear = card.terms, tuple(linear.statistic for linear in psi.linear)
    same = psi.cliques == terms.marginals and are_functions_of(linear, terms.moments, coding)
    cliques = (*terms.cliques, *terms.number_cliques)
    same = same and psi.domain == coding.domain.covered_by(cliques)
    if not same or not _same_numbers(terms, psi, coding):
        raise VerificationError(problem="psi does not hold the statistics that the card names")
    recorded = [measurement.stddev for measurement in psi.measurements]
    recorded += [stddev for linear in psi.linear for stddev in linear.stddevs]
    recorded += [one.stddev for one in psi.histograms]
    recorded += [stddev for one in psi.sums for stddev in (one.stddev, one.counts_stddev)]
    agreed = (*stddevs(terms), *sum_stddevs(terms, linear), *number_stddevs(terms, coding))
    if not np.allclose(recorded, agreed, rtol=_ROUNDING, atol=0):
        raise VerificationError(problem="psi does not have the noise that the card names")
    counts = [one.values for one in psi.measurements]
    counts += [np.array(one.counts) for one in psi.histograms]
    if any(np.any(values % terms.transform.rounding) for values in counts):
        raise VerificationError(problem="psi is not rounded as the card says")
    try:
        check_numbers_agree(psi, coding)
    except InvalidPsiError as error:
        raise VerificationError(problem=error.message) from None


def _same_numbers(terms: Proposal, psi: Psi, coding: Coding) -> bool:
    """Whether psi has the histograms and sums of the terms, with as many counts as they have cells."""
    histograms = tuple((one.attribute, len(one.counts)) for one in psi.histograms)
    with_counts = tuple((one.sum, bool(one.counts)) for one in psi.sums)
    return histograms == tuple((name, fine_cells(coding, name)) for name in terms.histograms) and (
        with_counts == tuple((one, one.counts_beside(terms.marginals, coding)) for one in terms.sums)
    )


def places_by(card: CardTerms, psi: Callable[[], Psi], coding: Coding) -> dict[str, Places]:
    """Return the places of the numbers of a card's rows inside their levels, by attribute.

    Args:
        psi: Called if the card has histograms.
    """
    if not card.terms.histograms:
        return {}
    known = psi()
    check_psi(card, known, coding)
    return places_of(known, coding)


def check_delivered_file(
    path: Path,
    dataset: Dataset,
    coding: Coding,
    drawing_seeds: Sequence[int],
    places: Mapping[str, Places] | None = None,
) -> None:
    """Compare a file with the one that a release of these rows writes, with numbers or with intervals.

    Args:
        drawing_seeds: Seeds of the numbers drawn within intervals, one for each receipt.

    Raises:
        VerificationError: The file differs from the delivered one; names the difference.
    """
    problems: list[str | None] = []
    for numbers in _variants(dataset, coding, drawing_seeds, places):
        problems.append(_file_problem(path, dataset, coding, numbers))
        if problems[-1] is None:
            return
    raise VerificationError(problem=f"{path.name} differs from the delivered file: {_nearest(problems)}")


def check_delivered_frame(
    frame: "pd.DataFrame",
    dataset: Dataset,
    coding: Coding,
    drawing_seeds: Sequence[int],
    places: Mapping[str, Places] | None = None,
) -> None:
    """Compare a frame with the one that a release of these rows gives; as ``check_delivered_file``."""
    from gencard.run.session import frame_of  # noqa: PLC0415 - loads pandas

    problems = [
        _frame_problem(frame, frame_of(dataset, coding, numbers))
        for numbers in _variants(dataset, coding, drawing_seeds, places)
    ]
    if None not in problems:
        raise VerificationError(problem=f"the data differ from the delivered ones: {_nearest(problems)}")


def _variants(
    dataset: Dataset, coding: Coding, seeds: Sequence[int], places: Mapping[str, Places] | None
) -> list[Values | None]:
    """The forms in which a release delivers these codes: numbers by each seed, levels, midpoints."""
    names = dataset.domain.attributes
    if any(isinstance(coding.attribute(name).coding, Edges) for name in names):
        seeds = list(dict.fromkeys(seeds))
        drawn = [Numbers(seed, places=places) for seed in seeds]
        if same_numbers(coding, names):
            drawn += [Numbers.of_rows(seed, dataset, coding, places) for seed in seeds]
        return [*drawn, None, Midpoints()]
    return [Midpoints(), None]


def _nearest(problems: list[str | None]) -> str:
    """The problem of the variant nearest to the data: one with a difference in values only."""
    mismatches = [problem for problem in problems if problem is not None]
    return next((problem for problem in mismatches if problem.startswith("the values")), mismatches[0])


def _file_problem(path: Path, dataset: Dataset, coding: Coding, values: Values | None) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder) / f"again{path.suffix.lower()}"
        write_rows(dataset, coding, again, values)
        with path.open("rb") as left, again.open("rb") as right:
            if same_bytes(left, right):
                return None
        return difference(path, again)


def _frame_problem(frame: "pd.DataFrame", expected: "pd.DataFrame") -> str | None:
    if list(frame.columns) != list(expected.columns):
        return "the columns or their order"
    if not frame.index.equals(expected.index):
        return "the index"
    for name in expected.columns:
        if frame[name].dtype != expected[name].dtype:
            return f"the type of '{name}'"
    for name in expected.columns:
        if not frame[name].equals(expected[name]):
            return f"the values of '{name}'"
    return None
