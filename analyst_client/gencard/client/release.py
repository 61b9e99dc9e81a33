"""A release: rows and the signed receipt of their inputs."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gencard.client.common.arguments import checked, text
from gencard.client.common.display import Displayable, Facts, Part
from gencard.client.common.files.folder import (
    README,
    RECEIPT,
    ROWS,
    check_free,
    clear_release,
    save_documents,
    write_bytes,
)
from gencard.client.common.files.rows import cells_of, check_rows_fit, write_rows
from gencard.core.card.budget import counted
from gencard.core.card.terms import Tier
from gencard.core.coding import Coding, Edges
from gencard.core.dataset import Dataset
from gencard.core.derived_cells import invented_words
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.types import FloatArray
from gencard.files import DOCUMENT_LIMIT, read_file
from gencard.run.levels import Numbers, PlacesOf, ValueForm, Values, values_of
from gencard.wire.documents.receipt import Receipt

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Release(Displayable):
    """Rows that were verified against digest and receipt.

    Args:
        dataset: The codes.
        coding: The schema of the codes.
        receipt: The signed facts about the rows: card, psi, seed, digests.
        envelope: The receipt as the controller signed it.
        documents: Returns the other documents of the release, by file name.
        derivations: As the card says: numbers of derived attributes are those of their sources.
        histograms: Attributes whose numbers are placed inside their levels by psi.
        places: Returns where, by attribute.
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
        from gencard.run.frames import frame_of  # noqa: PLC0415 - loads pandas

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
        self._check_fits(rows, values)
        check_free(Path(folder), replace=replace or self._is_in(Path(folder)))
        clear_release(Path(folder))
        save_documents(Path(folder), {**self.documents(), RECEIPT: self.envelope})
        drawn = self._values(values, self.dataset)
        if isinstance(drawn, Numbers) and drawn.invented(self.coding, self.dataset.domain.attributes):
            readme = "".join(f"{name}: {value}\n" for name, value in self.lines())
            write_bytes(Path(folder) / README, readme.encode())
        self.write(Path(folder) / rows, values=values)
        return Path(folder)

    def _check_fits(self, rows: str, values: ValueForm) -> None:
        names = self.dataset.domain.attributes
        check_rows_fit(Path(rows), self.coding, names, self.receipt.rows, values)

    def _is_in(self, folder: Path) -> bool:
        """Whether a folder holds this release."""
        with suppress(InvalidInputError):
            return read_file(folder / RECEIPT, "receipt", DOCUMENT_LIMIT) == self.envelope
        return False

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
        """Return the values that are written for intervals."""
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

    @property
    def _invented(self) -> str:
        return invented_words(self.coding, self.dataset.domain.attributes, self.histograms)

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("Release", self.name),
            ("Rows", f"{self.receipt.rows:,}"),
            *([("Numbers", words)] if (words := self._invented) else []),
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
