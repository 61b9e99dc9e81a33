"""Datasets of the settings as they are offered; their records are read for a version, or a check."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gencard.controller.records.catalogue import PREFIX, DatasetEntry, DatasetSource, Holdout
from gencard.controller.records.encoding import are_plain_days, without_offset, without_zone
from gencard.controller.records.file_format import enough_memory
from gencard.controller.records.schema_file import PublicSchema, place_of, read_schema
from gencard.controller.records.table_address import TableAddress, secret_of
from gencard.controller.records.vault import RecordSource, Vault, check_detected, open_source
from gencard.core.card.sums import Histogram, cell_names
from gencard.core.coding import PLAIN
from gencard.core.domain import Clique, Domain
from gencard.core.errors import GencardError, InvalidCodingError, UndeclaredLevelError
from gencard.core.policy import NumbersOffer, Policy
from gencard.core.scale import Adjustments
from gencard.core.types import Counts
from gencard.measures.privacy.psi_risk import LongTail, long_tails


def entry_of(source: DatasetSource, salt: bytes) -> DatasetEntry:
    """Return a dataset on offer, with its version; raises InvalidInputError or DatasetError."""
    schema = read_schema(source.schema_file)
    for place in (source.data, source.holdout):
        if isinstance(place, Path):
            check_detected(place, source.file_format)
    with _opened(source, schema) as records:
        digest = records.digest(salt)
        version, kind = records.version(salt, digest), records.version_kind
        covers_values = records.covers_values
    holdout = None
    if source.holdout is not None:
        with _opened(source, schema, source.holdout) as records:
            own = records.digest(salt)
            holdout = Holdout(source.holdout, records.version(salt, own), own)
    return DatasetEntry(
        name=f"{PREFIX}{source.name}",
        schema=schema,
        policy=source.policy,
        data=source.data,
        format=source.file_format,
        version=version,
        digest=digest,
        holdout=holdout,
        declared=source.measures,
        version_kind=kind,
        covers_values=covers_values,
    )


def check_rights(source: DatasetSource, among: Iterable[DatasetSource]) -> bool:
    """Check that roles that read tables for a dataset can read the declared tables, and change nothing.

    Args:
        among: All datasets of the settings: a role may read the tables of several datasets.

    Returns:
        Whether the rights could be checked. Spark has no such query; files of DuckDB are opened
        read-only.

    Raises:
        RoleNotReadOnlyError: A role may do more; the error names the statements that change it.
        DatasetUnavailableError: A database cannot be reached.
    """
    tables = [place for place in (source.data, source.holdout) if isinstance(place, TableAddress)]
    for address in tables:
        if address.engine == "postgresql":
            from gencard.controller.records.rights import check_role  # noqa: PLC0415 - large libraries

            places = (place for one in among for place in (one.data, one.holdout))
            addresses = [place for place in places if isinstance(place, TableAddress)]
            check_role(address, address.secret(), f"{PREFIX}{source.name}", addresses)
    return not any(address.engine in ("spark", "sc") for address in tables)


@dataclass(frozen=True, slots=True)
class CheckedRecords:
    """Facts about records that keep to the schema, which ``check`` prints for the steward alone.

    Args:
        adjustments: Number of values of each attribute that are counted differently than stored.
        small: Small cells in the exact counts of all pairs; None for a holdout.
        note: Sentence on the file as a whole, such as on its empty rows; may be empty.
    """

    adjustments: Mapping[str, Adjustments]
    small: "SmallCells | None"
    note: str = ""


def check_records(
    source: DatasetSource,
    pairs: Callable[[Domain], Sequence[Clique]],
    *,
    holdout: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> CheckedRecords:
    """Read every record once, or of the holdout, and check that all keep to the schema.

    ``pairs`` chooses the pairs of attributes whose small cells are counted. Raises InvalidInputError
    or DatasetError.
    """
    schema = read_schema(source.schema_file)
    place = source.holdout if holdout else None
    naming = _naming(f"{PREFIX}{source.name}: {'holdout' if holdout else 'data'}", source.schema_file)
    with naming, _opened(source, schema, place, progress) as records:
        undeclared: UndeclaredLevelError | None = None
        try:
            records.check()
        except UndeclaredLevelError as error:
            undeclared = error
        timed = {name: count for name, count in records.unzoned().items() if count}
        for name in timed:  # says more of these values than that they are undeclared
            if schema.readings.get(name, PLAIN).zone:
                raise without_offset(name)
            if are_plain_days(schema.coding.attribute(name).coding):
                raise without_zone(name)
        if undeclared is not None:
            raise undeclared
        adjustments = records.adjustments()
        adjustments |= {name: Adjustments(timed=count) for name, count in timed.items()}
        texts = records.texts_by_value()
        adjustments |= {name: Adjustments(texts=count) for name, count in texts.items()}
        note = records.note if isinstance(records, Vault) else ""
        if holdout:
            return CheckedRecords(adjustments, None, note)
        small = _small_cells(records, source.policy, schema, pairs(schema.coding.domain))
        return CheckedRecords(adjustments, small, note)


@dataclass(frozen=True, slots=True)
class SmallTable:
    """A table of one attribute or a pair, or a histogram, that has cells of few records.

    Args:
        name: Attributes of the table, or the text of the histogram.
        width: Number of attributes; 0 for a histogram.
        few: Number of its cells that hold one record or more, and fewer than the threshold.
        fewest: Levels of the cells with the fewest records, in the order of the attributes, and the
            records.
    """

    name: str
    width: int
    few: int
    fewest: tuple[tuple[tuple[str, ...], int], ...]


@dataclass(frozen=True, slots=True)
class SmallCells:
    """Cells of a dataset's pairs that hold few records: exact facts, for the steward alone.

    Args:
        pairs: Pairs of attributes that the policy allows.
        single: Cells that hold one record.
        few: Cells that hold one record or more, and fewer than ``threshold``.
        occupied: Cells that hold one record or more.
        threshold: Threshold of the policy's checks, or ``FEW`` without one.
        tables: Histograms, single attributes, then pairs with small cells; most small cells first.
        tails: Numbers of which groups of a tenth of the records wait.
    """

    pairs: int
    single: int
    few: int
    occupied: int
    records: int
    threshold: int
    tables: tuple[SmallTable, ...]
    tails: tuple[LongTail, ...] = ()


FEW = 10
"""Records below which statistical offices usually hold a cell back."""

_NAMED_CELLS = 3  # cells of a table that are named


def _small_cells(
    source: RecordSource, policy: Policy, schema: PublicSchema, pairs: Sequence[Clique]
) -> SmallCells:
    """Count the cells that an exact release of the pairs would show."""
    domain = schema.coding.domain
    threshold = policy.transform.threshold or FEW
    singles: list[Clique] = [(name,) for name in domain.attributes]
    tables = source.count([*singles, *pairs])
    numbers = schema.coding.with_step
    fine = source.summed((), numbers).fine_counts() if numbers else []
    limit = policy.analyses.rules.of_persons(schema.most_records).influence
    pair_tables, records = tables[len(singles) :], int(tables[0].sum())
    levels = {one.name: one.coding.level_names for one in schema.coding.attributes}
    histograms = [
        _small_table(str(Histogram(name)), counts, threshold, [cell_names(schema.coding, name)])
        for name, counts in zip(numbers, fine, strict=True)
        if policy.histograms is NumbersOffer.EXACT
    ]
    small = [
        _small_table(
            " × ".join(clique), counts, threshold, [levels[name] for name in clique], len(clique)
        )
        for clique, counts in zip([*singles, *pairs], tables, strict=True)
    ]
    single = sum(int((counts == 1).sum()) for counts in pair_tables)
    few = sum(one.few for one in small[len(singles) :])
    occupied = sum(int((counts > 0).sum()) for counts in pair_tables)
    with_few = [one for one in (*histograms, *small) if one.few]
    ordered = tuple(sorted(with_few, key=lambda one: (one.width, -one.few)))
    tails = long_tails(schema.coding, dict(zip(numbers, fine, strict=True)), records, limit)
    return SmallCells(len(pairs), single, few, occupied, records, threshold, ordered, tails)


def _small_table(
    name: str, counts: Counts, threshold: int, levels: Sequence[Sequence[str]], width: int = 0
) -> SmallTable:
    places = np.argwhere((counts > 0) & (counts < threshold))
    lowest = sorted((int(counts[tuple(place)]), tuple(map(int, place))) for place in places)
    named = tuple(
        (tuple(own[code] for own, code in zip(levels, place, strict=True)), records)
        for records, place in lowest[:_NAMED_CELLS]
    )
    return SmallTable(name, width, len(places), named)


@contextmanager
def _naming(place: str, schema_file: Path) -> Iterator[None]:
    """Add to an error the file that it is about, and the schema's line with the attribute."""
    try:
        with enough_memory():
            yield
    except GencardError as error:
        error.add_note(f"In {place}.")
        if isinstance(error, InvalidCodingError):
            error.add_note(f"Declared in {place_of(schema_file, error.fields['attribute'])}.")
        raise


def _opened(
    source: DatasetSource,
    schema: PublicSchema,
    place: Path | TableAddress | None = None,
    held: Callable[[int], None] | None = None,
) -> AbstractContextManager[RecordSource]:
    place = place or source.data
    return open_source(
        place, schema, source.file_format, schema.persons(), secret=secret_of(place), held=held
    )
