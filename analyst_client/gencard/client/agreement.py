"""A card that both sides signed, and what it gives: rows, psi, replay."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from gencard.client.checking.checks import (
    LogWatch,
    Replayed,
    card_of_statement,
    card_payload,
    check_delivered_frame,
    check_psi,
    checked_receipt,
    passing_verdict,
    places_by,
    rebuilt,
    version_kind_of,
)
from gencard.client.common import formats as folder
from gencard.client.common.arguments import checked, checked_rows, checked_seed, text
from gencard.client.common.display import Displayable, Facts, Part
from gencard.client.common.formats import (
    README,
    RECEIPT,
    ROWS,
    check_free,
    clear_release,
    save_documents,
    write_bytes,
)
from gencard.client.common.psi_tables import NamedPsi
from gencard.client.common.rows import cells_of, check_rows_fit, write_rows
from gencard.client.connection.connection import (
    Connection,
    ProgressDisplay,
    pages,
    progress_bar,
    result_of,
)
from gencard.client.connection.credentials import Checkpoint
from gencard.client.connection.tables import fetch_rows
from gencard.core.card.budget import counted
from gencard.core.card.card import CardRecord, CardState
from gencard.core.card.terms import CardTerms, Tier
from gencard.core.coding import Coding, Edges, StructuralZeros, zeros_inside
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import invented_words
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    CardStateError,
    InvalidInputError,
    NoPsiError,
    NotReplayableError,
    VerificationError,
)
from gencard.core.scale import Places
from gencard.core.types import FloatArray, Progress
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.run.levels import NumberedRows, Numbers, PlacesOf, ValueForm, Values, values_of
from gencard.v1 import negotiation_pb2 as negotiation
from gencard.v1 import synthesis_pb2 as pb
from gencard.wire.canonical import json_bytes
from gencard.wire.codec import part_of
from gencard.wire.documents import Receipt
from gencard.wire.dsse import subject_digest
from gencard.wire.log import LogEntry, log_entry_document
from gencard.wire.psi import coding_digest, coding_document, psi_document
from gencard.wire.tables import psi_of_chunks

if TYPE_CHECKING:
    import pandas as pd

    from gencard.client.findings.fidelity import FidelityReport


# A release: rows and the signed receipt of their inputs.


@dataclass(frozen=True, eq=False, repr=False)
class Release(Displayable):
    """Rows that were verified against digest and receipt.

    Args:
        receipt: The signed facts about the rows: card, psi, seed, digests.
        envelope: The receipt as the controller signed it.
        documents: Returns the other documents of the release, by file name.
        derivations: As the card says: numbers of derived attributes are those of their sources.
        histograms: Attributes whose numbers psi places inside their levels, at ``places``.
    """

    dataset: Dataset
    coding: Coding
    receipt: Receipt
    envelope: bytes
    documents: Callable[[], dict[str, bytes]]
    derivations: bool = False
    histograms: Clique = ()
    places: PlacesOf = field(default_factory=lambda: dict)

    @property
    def name(self) -> str:
        """datasets/{dataset}/cards/{card}/releases/{release}."""
        return self.receipt.name

    @property
    def card(self) -> str:
        """Name of the card: ``analyst.card(release.card)`` gives psi, tables and report."""
        return self.name.partition("/releases/")[0]

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """The rows with their declared labels and types; ``attrs["gencard"]`` is the release's name.

        Attributes with edges are numbers, drawn within the released interval with the release's seed,
        so that they are reproducible: as the card's histogram says, or uniformly if it has none.
        """
        return self.to_frame()

    @checked()
    def to_frame(self, values: ValueForm = "numbers") -> "pd.DataFrame":
        """The rows in one of three forms.

        Args:
            values: "numbers" as in ``frame``; "levels": every attribute as a categorical, those with
                edges of intervals, so that nothing is drawn; "midpoints": the midpoint of each interval.

        Raises:
            InvalidInputError: Another form.
        """
        from gencard.run.session import frame_of  # noqa: PLC0415 - loads pandas

        frame = frame_of(self.dataset, self.coding, self._values(values, self.dataset))
        frame.attrs["gencard"] = self.name
        return frame

    @checked(rows=text)
    def save(
        self,
        folder: str | Path,
        rows: str = ROWS,
        *,
        values: ValueForm = "numbers",
        replace: bool = False,
    ) -> Path:
        """Write rows, card, psi, schema and receipt, so that ``gencard verify FOLDER`` can check them.

        Args:
            folder: Created if missing.
            rows: Name of the file for the rows; ends in .parquet, .csv, .dta, .sav or .xlsx.
            values: The form of attributes with edges, as in ``to_frame``.
            replace: Overwrite another release in the folder.

        Raises:
            InvalidInputError: The folder cannot be written, or holds another release; or the format
                cannot hold the rows.
        """
        names = self.dataset.domain.attributes
        check_rows_fit(Path(rows), self.coding, names, self.receipt.rows, values)
        saved_receipt = b""
        with suppress(InvalidInputError):
            saved_receipt = read_file(Path(folder) / RECEIPT, "receipt", DOCUMENT_LIMIT)
        check_free(Path(folder), replace=replace or saved_receipt == self.envelope)
        clear_release(Path(folder))
        save_documents(Path(folder), {**self.documents(), RECEIPT: self.envelope})
        drawn = self._values(values, self.dataset)
        if isinstance(drawn, Numbers) and drawn.invented(self.coding, self.dataset.domain.attributes):
            readme = "".join(f"{name}: {value}\n" for name, value in self.lines())
            write_bytes(Path(folder) / README, readme.encode())
        self.write(Path(folder) / rows, values=values)
        return Path(folder)

    @checked()
    def write(self, path: str | Path, *, values: ValueForm = "numbers") -> None:
        """Write the rows only; the file appears when it is complete.

        In .dta and .sav, labels are value labels; in .xlsx they are texts. "Missing" is the system's
        missing value or an empty cell.

        Args:
            path: Its name ends in .csv, .parquet, .dta, .sav or .xlsx.
            values: The form of attributes with edges, as in ``to_frame``.

        Raises:
            InvalidInputError: Another ending, rows that the format cannot hold, or a place that cannot
                be written.
        """
        write_rows(self.dataset, self.coding, Path(path), self._values(values, self.dataset))

    @checked()
    def to_csv(self, path: str | Path, *, values: ValueForm = "numbers") -> None:
        """Write the rows as CSV (RFC 4180, UTF-8); the file appears when it is complete.

        Missing is an empty cell. A label gets a leading apostrophe where a spreadsheet would run it as
        a formula, or where it is empty and values may be missing; ``gencard replay`` knows both.

        Args:
            path: Its name ends in .csv.
            values: The form of attributes with edges, as in ``to_frame``.

        Raises:
            InvalidInputError: Another ending, or a place that cannot be written.
        """
        if Path(path).suffix.lower() != ".csv":
            raise InvalidInputError(field="path", problem="needs a name that ends in .csv")
        self.write(path, values=values)

    @checked()
    def head(self, rows: int = 5, *, values: ValueForm = "numbers") -> list[tuple[str, ...]]:
        """The first rows as texts, "NA" for missing; the same values as in files and frames."""
        first = Dataset(self.dataset.domain, self.dataset.codes[:rows])
        return cells_of(first, self.coding, self._values(values, first))

    def _values(self, form: str, rows: Dataset) -> Values | None:
        seed = self.receipt.drawing_seed
        if self.derivations:
            return values_of(form, seed, rows, self.coding, places=self.places)
        return values_of(form, seed, places=self.places)

    @checked(name=text)
    def numbers(self, name: str) -> FloatArray | None:
        """The numbers of an attribute as in ``frame``, shape ``(rows,)``, NaN for "missing".

        Dates are days since 1970-01-01, times of day minutes since midnight.

        Returns:
            None for an attribute without edges.

        Raises:
            UnknownAttributeError: The schema does not have the attribute.
        """
        edges, values = self.coding.attribute(name).coding, self._values("numbers", self.dataset)
        if not isinstance(edges, Edges) or values is None:
            return None
        return values.of(name, edges, self.dataset.column(name))

    def lines(self) -> list[tuple[str, str]]:
        words = invented_words(self.coding, self.dataset.domain.attributes, self.histograms)
        return [
            ("Release", self.name),
            ("Rows", f"{self.receipt.rows:,}"),
            *([("Numbers", words)] if words else []),
            *_made_by(self.receipt),
            *([("Records", counted(self.receipt.most_records))] if self.receipt.most_records else []),
            *([("Version", kind.wording)] if (kind := self.receipt.version_kind) else []),
            ("SHA-256", self.receipt.rows_digest),
            ("Entry of the log", str(self.receipt.log_index)),
        ]

    def __repr__(self) -> str:
        return f"<Release {self.name}: {self.receipt.rows:,} rows; to_frame() or save(folder)>"

    def _panel(self) -> tuple[str, Sequence[Part]]:
        return "Release", [Facts(self.lines())]


def _made_by(receipt: Receipt) -> list[tuple[str, str]]:
    """The seed, or for black boxes tier, digest and verdict."""
    if receipt.without_uniques:
        return [("Uniques", "replicated uniques were removed; no replay")]
    if receipt.private_box:
        return [
            ("Tier", "private: sampled from one noisy fit of a black box; no psi, no replay"),
            ("Reliable for", Tier.PRIVATE.holds_against),
            ("Black box", receipt.private_box),
        ]
    if receipt.audited is None:
        return [("Seed", str(receipt.seed))]
    return [
        ("Tier", "audited: generated from records by a black box; no replay"),
        ("Reliable for", Tier.AUDITED.holds_against),
        ("Black box", receipt.audited.digest),
        ("Verdict", receipt.audited.verdict_digest),
    ]


@dataclass(frozen=True)
class Agreement:
    """A card with the signatures of both parties, verified; ``digest`` is its SHA-256, in hex."""

    connection: Connection
    card: CardTerms
    digest: str
    envelope: bytes
    coding: Coding

    @classmethod
    def of(cls, connection: Connection, negotiation: CardRecord, coding: Coding) -> "Agreement":
        """Raises CardStateError before agreement, VerificationError where a signature is not right."""
        if not negotiation.envelope:
            raise CardStateError(state=negotiation.state)
        credentials, envelope = connection.credentials, negotiation.envelope
        is_own = credentials.identity().uri == negotiation.analyst
        own_keys = credentials.public_signing_keys() if is_own else ()
        payload = card_payload(envelope, connection.keys.cards(envelope), own_keys)
        card = card_of_statement(payload)
        if card.name != negotiation.name or card.analyst != negotiation.analyst:
            raise VerificationError(problem="the envelope contains another card")
        if card.coding_digest != coding_digest(coding):
            raise VerificationError(problem="the dataset's schema is not the one that the card names")
        return cls(connection, card, subject_digest(payload), envelope, coding)

    @property
    def domain(self) -> Domain:
        """The attributes that the card names: what its rows are over."""
        return self.coding.domain.covered_by(self.card.terms.cliques)

    @property
    def structural_zeros(self) -> tuple[StructuralZeros, ...]:
        return zeros_inside(self.coding.structural_zeros, self.domain)

    def release(self, rows: int, seed: int, progress: ProgressDisplay, scratch: Path | None) -> Release:
        """Have rows made, and fetch them; raises InvalidNumberError."""
        request = pb.GenerateReleaseRequest(
            card=self.card.name,
            rows=checked_rows(rows),
            seed=checked_seed(seed),
            request_id=str(uuid4()),
        )
        with progress_bar("Generating", progress) as reported:
            operation = self.connection.call(self.connection.synthesis.GenerateRelease, request)
            message = result_of(self.connection, operation, pb.Release, reported)
            if (message.rows, message.seed) != (rows, seed):
                problem = "the release does not have the requested number of rows or seed"
                raise VerificationError(problem=problem)
            return self._fetched(message, self._release(message.name).log_entry, reported, scratch)

    def fetch(self, name: str, progress: ProgressDisplay, scratch: Path | None = None) -> Release:
        with progress_bar("Fetching", progress) as reported:
            answer = self._release(name)
            return self._fetched(answer.release, answer.log_entry, reported, scratch)

    def receipts(self) -> Iterator[Receipt]:
        """Receipts of all releases, newest first, verified."""
        request = pb.ListReleasesRequest(parent=self.card.name)
        for page in pages(self.connection, self.connection.synthesis.ListReleases, request):
            for message in page.releases:
                yield self._receipt(message)

    @cached_property
    def psi(self) -> NamedPsi:
        """Fetched once, checked against the card and against the digest that the receipts sign.

        Raises:
            NoPsiError: The card is of tier private.
            CardStateError: There is no release yet, with which psi is measured; or the card has ended.
        """
        if self.card.tier is Tier.PRIVATE:
            raise NoPsiError
        request = pb.StreamPsiRequest(card=self.card.name)
        stub = self.connection.synthesis
        try:
            psi, digest = psi_of_chunks(self.connection.stream(stub.StreamPsi, request))
        except CardStateError as error:
            if error.fields.get("state") == CardState.AGREED:
                error.advice = (
                    "psi is measured with the first release: `card.generate(...)`, then ask again."
                )
            raise
        check_psi(self.card, psi, self.coding)
        receipts = list(self.receipts())
        version_kind_of(receipts)
        if any(receipt.psi_digest != digest for receipt in receipts):
            raise VerificationError(problem="a receipt of this card names another psi")
        parts = (psi.domain, psi.measurements, psi.linear, psi.histograms, psi.sums)
        return NamedPsi(*parts, coding=self.coding)

    @cached_property
    def places(self) -> dict[str, Places]:
        """Places of the rows' numbers inside their levels, by attribute; raises as ``psi``."""
        return places_by(self.card, lambda: self.psi, self.coding)

    def replay(self, data: "pd.DataFrame | Release") -> Replayed:
        """Make a release again and compare all of it: rows, numbers, types, order, index."""
        if self.card.tier is not Tier.BY_CONSTRUCTION:
            raise NotReplayableError
        dataset = self._rows_of(data).dataset
        digest = dataset.digest()
        receipts = [known for known in self.receipts() if known.rows_digest == digest]
        if not receipts:
            raise VerificationError(problem="the data are not a release of this card")
        receipt = receipts[0]
        rebuilt(self.card, self.psi, receipt, self.coding)
        if not isinstance(data, Release):
            seeds = [known.drawing_seed for known in receipts]
            check_delivered_frame(data, dataset, self.coding, seeds, self.places)
        return Replayed.of(receipt)

    def fidelity(self, data: "pd.DataFrame | Release | Dataset | NumberedRows") -> "FidelityReport":
        """Compare the marginals of rows with psi, and their numbers if the data have them."""
        from gencard.client.findings.fidelity import FidelityReport  # noqa: PLC0415 - scipy.special only where wanted
        from gencard.measures.utility.fidelity import fidelity  # noqa: PLC0415 - as above

        about = data.name if isinstance(data, Release) else self.card.name
        rows, psi = self._rows_of(data), self.psi
        facts = fidelity(psi, rows.dataset, coding=self.coding, numbers=rows.numbers)
        return FidelityReport(facts, self.coding, about)

    def _rows_of(self, data: "pd.DataFrame | Release | Dataset | NumberedRows") -> NumberedRows:
        """The codes and the numbers behind any form of rows."""
        if isinstance(data, NumberedRows):
            return data
        if isinstance(data, Dataset):
            return NumberedRows(data, lambda _name: None)
        if isinstance(data, Release):
            return NumberedRows(data.dataset, data.numbers)
        from gencard.run.session import rows_of_frame  # noqa: PLC0415 - loads pandas

        return rows_of_frame(data, self.coding, self.domain)

    def _release(self, name: str) -> pb.GetReleaseResponse:
        stub = self.connection.synthesis
        return self.connection.call(stub.GetRelease, pb.GetReleaseRequest(name=name))

    def _fetched(
        self, message: pb.Release, entry: bytes, progress: Progress, scratch: Path | None
    ) -> Release:
        """The release, once receipt, rows, log entry and verdict are found to belong together."""
        receipt = self._receipt(message)
        dataset = fetch_rows(
            self.connection,
            receipt.name,
            receipt.rows,
            progress,
            domain=self.domain,
            scratch=scratch,
            digest=receipt.rows_digest,
        )
        if len(dataset) != receipt.rows:
            raise VerificationError(problem="the receipt names other rows")
        logged = LogWatch(self.connection).entry(entry, receipt, self.card.controller)
        verdict = None
        if receipt.audited is not None:  # off the card
            request = negotiation.GetCardRequest(name=self.card.name)
            facts = self.connection.call(self.connection.negotiation.GetCard, request).card.attestations
            keys = self.connection.keys.cards(*facts)
            verdict = passing_verdict(facts, receipt.audited, keys, self.card, self.digest)
        return Release(
            dataset,
            self.coding,
            receipt,
            message.receipt,
            partial(self._documents, verdict, *logged),
            self.card.derivations,
            self.card.terms.histograms,
            lambda: self.places,
        )

    def _receipt(self, message: pb.Release) -> Receipt:
        keys = self.connection.keys.cards(message.receipt)
        receipt = checked_receipt(message.receipt, keys, self.card, card_digest=self.digest)
        message.DiscardUnknownFields()  # a newer controller may say more than is compared here
        others = {"digest": receipt.rows_digest, "receipt": message.receipt, "created": message.created}
        if part_of(receipt, pb.Release, **others) != message:
            raise VerificationError(problem="the release does not match its receipt")
        return receipt

    def _documents(
        self, verdict: bytes | None, entry: LogEntry, checkpoint: Checkpoint
    ) -> dict[str, bytes]:
        """Return the documents saved beside the rows of a release, by file name: card, schema, psi, log.

        There is no psi under a card of tier private. ``entry`` has its proof for the checkpoint.
        """
        return {
            **({} if verdict is None else {folder.VERDICT: verdict}),
            **self.proof(entry, checkpoint),
            **({} if self.card.tier is Tier.PRIVATE else {folder.PSI: psi_document(self.psi)}),
        }

    def proof(self, entry: LogEntry, checkpoint: Checkpoint) -> dict[str, bytes]:
        """Return the documents that all checks of the card need, by file name."""
        changes = self.connection.keys.changes()
        return {
            **({} if changes is None else {folder.KEYS: changes}),
            folder.CHECKPOINT: checkpoint.envelope,
            folder.LOG_ENTRY: log_entry_document(entry),
            folder.CARD: self.envelope,
            folder.SCHEMA: json_bytes(coding_document(self.coding)),
        }
