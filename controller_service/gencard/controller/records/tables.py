"""Records in a table of a database, as a source of marginals: the database counts.

- Recodes are CASE expressions, so that the database sends numbers of cells and counts, never values.
- A ``cover`` of the cliques is counted by few wide GROUP BYs; marginals are summed out of its tables.
- A table has no bytes to digest. Its version is a fingerprint: an HMAC of the tables of counts of a
  cover of all pairs of attributes. Those tables are kept, and serve all cliques inside them. Where
  attributes have a step, it also covers all codes and units of each record, and so fine counts and sums.
- Numbers are summed in whole units, in decimals of 38 digits.
"""

import hmac
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import sha256
from itertools import chain, combinations, islice
from operator import and_, mul, or_
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

try:
    import ibis
except ImportError:  # the extra ``ibis``, which opening a table names
    ibis = None

from gencard.controller.records import encoding
from gencard.controller.records import table_codes as sql
from gencard.controller.records.file_format import CLOSED_ENGINE, USUAL, quoted, silently
from gencard.controller.records.source import (
    Batch,
    Gathered,
    Persons,
    StreamedRecords,
    check_number,
    check_version,
    check_zeros,
    checked_cliques,
)
from gencard.core.card.sums import Sum, scale_of
from gencard.core.coding import PLAIN, Attribute, Coding, Reading
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    EmptyDatasetError,
    MissingAttributeError,
    TooLargeError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.scale import Adjustments
from gencard.core.statistics.linear import UnitSums, unit_bounds
from gencard.core.statistics.marginals import MOST_CELLS, cover, project
from gencard.core.types import FloatArray, VersionKind

_TABLE_CELLS = 10**6  # largest number of cells of a table that is counted for many cliques: 8 MB
_MOST_KEPT = 24  # tables of a fingerprint, which are kept
_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class IbisTable:
    """A table of Ibis under its public schema.

    Args:
        run: Executes an expression and yields batches of Arrow.
        snapshot: Whether all statements see the same records, so that one check of the version is
            enough.
        instants: Columns whose values are instants by their type.
    """

    run: Callable[[Any], Iterable[Any]]
    records: Any
    coding: Coding
    readings: Mapping[str, Reading] = field(default_factory=dict)
    identity: str = ""
    snapshot: bool = False
    instants: Collection[str] = ()
    _kept: dict[Clique, _Counts] = field(default_factory=dict, init=False, repr=False)
    _looks: list[str] = field(default_factory=list, init=False, repr=False)
    covers_values: ClassVar[bool] = False
    """Whether records with any other value are another version: no, a version covers codes and, if
    attributes have a step, whole units. Stored numbers of two states could be subtracted."""

    @property
    def version_kind(self) -> VersionKind:
        return VersionKind.SNAPSHOT if self.snapshot else VersionKind.FINGERPRINT

    def digest(self, salt: bytes) -> str:
        """Return the HMAC-SHA256 of the table's place, in hex: datasets on one table share records."""
        return hmac.new(salt, f"gencard.table.v1 {self.identity}".encode(), sha256).hexdigest()

    def version(self, salt: bytes, digest: str = "") -> str:  # noqa: ARG002  # a file's version needs it
        """Return the fingerprint, in hex, of the coded records.

        Equal fingerprints mean that the marginals on all pairs of attributes are equal, if a cover of
        the pairs has at most ``_MOST_KEPT`` tables; else the marginals on the sets of a cover of the
        attributes. If an attribute has a step, they mean that all codes and units are equal, so that no
        two exact sums or histograms of different records have one version.
        """
        if self.snapshot and self._looks:
            return self._looks[0]
        self._check_columns(self.coding.stored)
        # by kind, so that a card's version tells it, and receipts of one card agree on it
        header = f"gencard.fingerprint.v1 {self.version_kind} {self.coding.domain}"
        fingerprint = hmac.new(salt, header.encode(), sha256)
        domain = self._with_undeclared()
        pairs: list[Clique] = [*combinations(domain.attributes, 2)] or [domain.attributes]
        sets = cover(domain, pairs, _TABLE_CELLS)
        if len(sets) > _MOST_KEPT:
            sets = cover(domain, [(name,) for name in domain.attributes], _TABLE_CELLS)
        for names in sets:
            table = self._counted(names)
            cells = np.flatnonzero(table)
            fingerprint.update(np.column_stack([cells, table.ravel()[cells]]).astype("<i8").tobytes())
            self._kept.setdefault(names, table)
        if encoding.scales_of(self.coding):
            # the sum of the hashes of all records, of their codes and units
            records, _, _ = self._with_units(self.coding.stored, tuple(encoding.scales_of(self.coding)))
            (batch,) = self._batches(sql.sum_of_hashes(records))
            fingerprint.update(f"gencard.numbers.v1 {int(batch[0][0])}".encode())
        self._looks.append(fingerprint.hexdigest())
        return self._looks[-1]

    def confirm(self, version: str, salt: bytes) -> None:
        """Raise DatasetChangedError if the table has another version."""
        check_version(self.version(salt), version)

    def check(self) -> None:
        """Count every attribute; raises UndeclaredLevelError for such values or a structural zero."""
        check_zeros(self.coding, self.count(checked_cliques(self.coding)))

    def adjustments(self) -> dict[str, Adjustments]:
        """Return how many values of each attribute on a scale are rounded and clamped."""
        names = tuple(encoding.scales_of(self.coding))
        self._check_columns(names)
        tests: dict[str, Any] = {}
        for axis, name in enumerate(names):
            own = sql.adjustments(*self._stored(name))
            tests |= {f"t{axis}_{place}": test.fill_null(False).sum() for place, test in enumerate(own)}
        if not names:
            return {}
        (batch,) = self._batches(self.records.aggregate(**tests))
        counts = iter([int(column[0] or 0) for column in batch])
        return {name: Adjustments(*islice(counts, 3)) for name in names}

    def unzoned(self) -> dict[str, int]:
        """Count values of attributes of dates that lack a zone, or the offset that a zone needs."""
        names = encoding.of_dates(self.coding)  # instants that have a zone are dates here
        columns = zip(names, self.columns(names), strict=True)
        tests = {
            name: column.notnull() if name in self.instants else sql.is_timed(column)
            for name, column in columns
            if column.type().is_timestamp()
        }
        return self._counted_values({name: test.fill_null(False) for name, test in tests.items()})

    def texts_by_value(self) -> dict[str, int]:
        """Count values of text columns that are compared with labels as numbers."""
        names = encoding.by_value(self.coding)
        columns = zip(names, self.columns(names), strict=True)
        return self._counted_values({name: True for name, one in columns if one.type().is_string()})

    def _counted_values(self, tests: Mapping[str, Any]) -> dict[str, int]:
        """Count the values of each attribute that are not missing and pass its test."""
        if not tests:
            return {}
        counted = (
            ~reduce(or_, sql.absences(self.records[name], self._reading(name).absent)) & test
            for name, test in tests.items()
        )
        query = self.records.aggregate(**{f"t{axis}": one.sum() for axis, one in enumerate(counted)})
        (batch,) = self._batches(query)
        return {name: int(column[0] or 0) for name, column in zip(tests, batch, strict=True)}

    def count(self, cliques: Sequence[Clique]) -> list[_Counts]:
        """Marginals on the cliques, in their order: a ``MarginalSource``."""
        domain = self.coding.domain
        if sum(domain.project(clique).cells for clique in cliques) > MOST_CELLS:
            raise TooLargeError(what="The number of cells of the marginals", limit=MOST_CELLS)
        self._check_columns(encoding.sources_of(self.coding, domain.covered_by(cliques).attributes))
        marginals: dict[Clique, _Counts] = {}
        undeclared: set[str] = set()
        # tables on sets of attributes such that every clique lies inside one set
        rest = [one for one in cliques if not any(set(one) <= set(names) for names in self._kept)]
        sets = cover(self._with_undeclared(), rest, _TABLE_CELLS)
        counted = ((names, self._counted(names)) for names in sets)
        for inside, table in chain(self._kept.items(), counted):
            for clique in {tuple(one) for one in cliques if set(one) <= set(inside)} - marginals.keys():
                marginal = project(table, inside, clique)
                undeclared |= {name for axis, name in enumerate(clique) if marginal.take(0, axis).any()}
                marginals[clique] = np.array(marginal[(slice(1, None),) * len(clique)], order="C")
        self._refuse(undeclared)
        return [marginals[tuple(clique)] for clique in cliques]

    def summed(self, sums: Sequence[Sum], histograms: Sequence[str]) -> UnitSums:
        """Exact sums, all checked, and histograms of attributes with a step, added in the database."""
        summed = UnitSums(self.coding, sums, histograms)
        names = dict.fromkeys((*histograms, *(name for one in sums for name in one.attributes)))
        self.count([(name,) for name in names])  # refuses what is undeclared
        for by in dict.fromkeys(one.by for one in sums):
            places = [place for place, one in enumerate(sums) if one.by == by]
            self._add_sums(summed, by, places)
        for place, name in enumerate(histograms):
            table, codes, units = self._with_units((name,), (name,))
            scale = scale_of(self.coding, name)
            starts = [first for first, _ in unit_bounds(scale, scale.cells[:-1])]
            cell = sql.cell_of(units[name], starts)
            if self.coding.attribute(name).coding.missing:
                missing = codes[name] == self.coding.domain.size(name) - 1
                cell = ibis.cases((missing, len(starts)), else_=cell)
            grouped = table.select(cell=cell.cast("int64")).group_by("cell")
            for cells, counts in self._batches(grouped.aggregate(records=lambda own: own.count())):
                summed.add_cells(place, cells, counts)
        return summed

    def _add_sums(self, summed: UnitSums, by: Clique, places: Sequence[int]) -> None:
        sums = [summed.sums[place] for place in places]
        numbers = tuple(dict.fromkeys(name for one in sums for name in one.of))
        names = tuple(dict.fromkeys((*by, *numbers, *(name for one in sums for name in one.present))))
        table, codes, units = self._with_units(names, numbers)
        cell: Any = ibis.literal(0, "int64")
        for name in by:
            cell = cell * self.coding.domain.size(name) + codes[name]
        columns: dict[str, Any] = {}
        for axis, one in enumerate(sums):
            present = [
                codes[name] < self.coding.domain.size(name) - 1 for name in one.population(self.coding)
            ]
            inside = reduce(and_, present, ibis.literal(True))
            product = reduce(mul, [units[name] for name in one.of], ibis.literal(1, "int64"))
            columns[f"n{axis}"] = ibis.cases((inside, 1), else_=0).cast("int64")
            columns[f"p{axis}"] = ibis.cases((inside, product), else_=0).cast("int64")
        grouped = table.select(cell=cell, **columns).group_by("cell")
        names_by_axis = enumerate(columns)
        added = {f"t{axis}": lambda own, name=name: sql.total(own[name]) for axis, name in names_by_axis}
        for cells, *totals in self._batches(grouped.aggregate(**added)):
            for axis, place in enumerate(places):
                summed.add_totals(place, cells, totals[2 * axis], totals[2 * axis + 1])

    def _with_units(self, names: Clique, numbers: Clique) -> tuple[Any, dict[str, Any], dict[str, Any]]:
        """Return records of codes and units, and both columns by name; a missing value's unit is 0."""
        scales = {name: scale_of(self.coding, name) for name in numbers}
        values = {
            f"v{axis}": sql.bounded_number(
                self.records[name], self.coding.attribute(name), scales[name], self._reading(name)
            )
            for axis, name in enumerate(numbers)
        }
        coded, codes = self._coded(names, **values)
        # each step has a name, so that no engine computes it again in the next
        coded = sql.computed_once(coded)
        columns = {f"c{axis}": code for axis, code in enumerate(codes)}
        columns |= {value: coded[value] for value in values}
        columns |= {
            f"w{axis}": sql.steps_about(coded[f"v{axis}"], scales[name])
            for axis, name in enumerate(numbers)
        }
        table = sql.computed_once(coded.select(**columns))
        own = {name: table[f"c{axis}"] for axis, name in enumerate(names)}
        units = {}
        for axis, name in enumerate(numbers):
            attribute = self.coding.attribute(name).coding
            present = own[name].between(0, attribute.size - 1 - attribute.missing)
            unit = sql.unit_of(table[f"v{axis}"], table[f"w{axis}"], scales[name])
            units[f"u{axis}"] = ibis.cases((present, unit), else_=0).cast("int64")
        codes_named = {f"c{axis}": own[name] for axis, name in enumerate(names)}
        table = sql.computed_once(table.select(**codes_named, **units))
        return (
            table,
            {name: table[f"c{axis}"] for axis, name in enumerate(names)},
            {name: table[f"u{axis}"] for axis, name in enumerate(numbers)},
        )

    def dataset(self, attributes: Clique, *, most_records: int) -> Dataset:
        """Return the records on some attributes, held in memory; raises as ``read``."""
        return self.read(attributes, (), most_records=most_records)[0]

    def read(
        self, attributes: Clique, uncoded: Clique, *, most_records: int
    ) -> tuple[Dataset, dict[str, FloatArray]]:
        """Return the records on some attributes, and the numbers of some attributes as stored.

        A table has no order: the records are sorted. Else as ``StreamedRecords.read``.
        """
        names = tuple(dict.fromkeys((*attributes, *uncoded)))
        self._check_columns(encoding.sources_of(self.coding, names))
        encoding.check_numbers(self.coding, uncoded)
        values = {
            f"v{axis}": sql.stored_number(*self._stored(name)) for axis, name in enumerate(uncoded)
        }
        coded, codes_of = self._coded(names, **values)
        expressions = {f"c{axis}": code for axis, code in enumerate(codes_of)}
        expressions |= {name: coded[name] for name in values}
        query = coded.select(**expressions).limit(most_records + 1)
        columns = [np.concatenate(parts) for parts in zip(*self._batches(query), strict=True)]
        if not columns or not len(columns[0]):
            raise EmptyDatasetError()
        if len(columns[0]) > most_records:
            raise TooManyRecordsError(limit=most_records)
        codes = dict(zip(names, columns[: len(names)], strict=True))
        self._refuse({name for name in names if codes[name].min() == sql.UNDECLARED})
        sources = zip(uncoded, columns[len(names) :], strict=True)
        numbers = {name: self._numbers(name, values, codes[name]) for name, values in sources}
        order = np.lexsort([*numbers.values(), *codes.values()][::-1])
        domain = self.coding.domain.project(attributes)
        coded = [codes[name][order].astype(code_dtype(domain.size(name))) for name in attributes]
        return Dataset.of_columns(domain, coded), {name: one[order] for name, one in numbers.items()}

    def read_owned(
        self, attributes: Clique, uncoded: Clique, *, most_records: int
    ) -> tuple[Dataset, dict[str, FloatArray], None]:
        """Return the same; each record is protected by itself. Raises as ``read``."""
        return *self.read(attributes, uncoded, most_records=most_records), None

    def number(self) -> int:
        (batch,) = self._batches(self.records.aggregate(records=self.records.count()))
        return int(batch[0][0])

    def columns(self, names: Clique) -> list[Any]:
        """Columns as expressions; raises MissingAttributeError."""
        self._check_columns(names)
        return [self.records[name] for name in names]

    def stream(self, expressions: Mapping[str, Any]) -> Iterator[Any]:
        """Batches of Arrow: some expressions of each record, in no order."""
        return self._answer(self.records.select(**expressions))

    def undeclared(self, name: str) -> dict[str, int]:
        """Values of an attribute that have no level, as text, and their counts: for stewards alone."""
        self._check_columns([name])
        text = sql.text_of(self.records[name]).fill_null("")
        coded = self.records.select(value=text, code=sql.code_of(*self._stored(name)))
        query = coded.filter(coded.code == sql.UNDECLARED).group_by("value")
        text_counts = query.aggregate(records=lambda table: table.count())
        batches = ((texts.tolist(), counts.tolist()) for texts, counts in self._batches(text_counts))
        return {text: count for batch in batches for text, count in zip(*batch, strict=True)}

    def _with_undeclared(self) -> Domain:
        """Domain with an additional first level of each attribute: undeclared values."""
        sizes = zip(self.coding.domain.attributes, self.coding.domain.sizes, strict=True)
        return Domain.of({name: size + 1 for name, size in sizes})

    def _counted(self, names: Clique) -> _Counts:
        domain = self._with_undeclared().project(names)
        coded, codes = self._coded(names)
        cell: Any = 0
        for code, size in zip(codes, domain.sizes, strict=True):
            cell = cell * size + (code + 1)
        counted = coded.select(cell=cell).group_by("cell")
        query = counted.aggregate(records=lambda table: table.count())
        flat = np.zeros(domain.cells, dtype=np.int64)
        for cells, counts in self._batches(query):
            flat[cells] = counts
        if not flat.any():
            raise EmptyDatasetError()
        return flat.reshape(domain.sizes)

    def _coded(self, names: Clique, **values: Any) -> tuple[Any, list[Any]]:
        """Return records of stored attributes' codes and of other values, and codes of some attributes.

        Derived attributes are expressions of named codes, so that no engine computes a code again in
        each case.
        """
        sources = encoding.sources_of(self.coding, names)
        short = {name: f"s{axis}" for axis, name in enumerate(sources)}
        own = {short[name]: sql.code_of(*self._stored(name)) for name in sources}
        coded = self.records.select(**own, **values)
        codes = {name: coded[short[name]] for name in sources}
        for name in names:
            if (how := self.coding.attribute(name).derivation) is not None:
                sizes = self.coding.domain.project(how.sources).sizes
                codes[name] = sql.derived_code([codes[source] for source in how.sources], sizes, how)
        return coded, [codes[name] for name in names]

    def _stored(self, name: str) -> tuple[Any, Attribute, Reading]:
        return self.records[name], self.coding.attribute(name), self._reading(name)

    def _numbers(self, name: str, values: NDArray[Any], codes: NDArray[Any]) -> FloatArray:
        attribute = self.coding.attribute(name)
        stored = sql.numbers_of_stored(values, attribute, self._reading(name))
        (numbers,) = encoding.adjusted_numbers(self.coding, (name,), [stored])
        if attribute.coding.missing:
            numbers[codes == attribute.coding.size - 1] = np.nan
        return numbers

    def _check_columns(self, names: Iterable[str]) -> None:
        if missing := [name for name in dict.fromkeys(names) if name not in self.records.columns]:
            raise MissingAttributeError(attribute=", ".join(missing))

    def _reading(self, name: str) -> Reading:
        return self.readings.get(name, PLAIN)

    def _refuse(self, undeclared: set[str]) -> None:
        """Raise UndeclaredLevelError, which names stored attributes, not derived ones."""
        if undeclared:
            sources = encoding.sources_of(self.coding, tuple(undeclared))
            names = [name for name in sources if name in undeclared or self._counted((name,))[0]]
            raise UndeclaredLevelError(attribute=", ".join(names))

    def _batches(self, query: Any) -> Iterator[Batch]:
        for batch in self._answer(query):
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def _answer(self, query: Any) -> Iterator[Any]:
        reader = silently(lambda: iter(self.run(query)))
        while (batch := silently(lambda: next(reader, None))) is not None:
            yield batch


# Records of persons: the records that count are chosen here, as in the vault.
#
# - The choice follows from a hash of a record's values as the vault's engine writes them. No other
#   engine writes numbers in the same form, and a read-only transaction cannot keep a choice, so that
#   every table of counts would choose anew. Each record therefore leaves the database once for each
#   job, as one number for each attribute, and the vault's statement, in the vault's engine, computes
#   the hashes.
# - Codes of all records are kept in memory, within the vault's bound, and serve all queries of the job.
# - The version is an HMAC of the sum of the records' hashes: it depends on no order, and on every value.


_ENGINE = CLOSED_ENGINE | {"memory_limit": "256MiB"}
_PERSON = "person"


@dataclass(slots=True)
class _Held:
    """Codes of all records on the stored attributes, by person; attributes with undeclared values."""

    gathered: list[Gathered] = field(default_factory=list)
    undeclared: set[str] = field(default_factory=set)
    places: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PersonTable(StreamedRecords):
    """A table of Ibis under its public schema, of persons of whom at most k records count."""

    table: IbisTable
    coding: Coding
    readings: Mapping[str, Reading]
    persons: Persons
    _kept: list[_Held] = field(default_factory=list, init=False, repr=False)

    @property
    def version_kind(self) -> VersionKind:
        return self.table.version_kind

    def digest(self, salt: bytes) -> str:
        return self.table.digest(salt)

    def version(self, salt: bytes, digest: str = "") -> str:  # noqa: ARG002  # a file's version needs it
        """Return the fingerprint, in hex, of records and reading; TooLargeError beyond memory."""
        check_number(self.table.number())  # before the dataset is offered, and any budget is spent
        keyed = replace(self, persons=Persons.of(*self.persons.rule, salt))
        return self._fingerprint(salt, sum(_sum(batch) for batch in keyed._numbers(())))

    def confirm(self, version: str, salt: bytes) -> None:
        """Raise DatasetChangedError if the records have another version."""
        same_key = self.persons == Persons.of(*self.persons.rule, salt)
        if same_key and (self.table.snapshot or not self._kept):
            now = self._fingerprint(salt, self._held().places)  # held, since a job counts next
        else:
            now = self.version(salt)
        check_version(now, version)

    def _fingerprint(self, salt: bytes, places: int) -> str:
        reading = encoding.how_read(USUAL, self.readings, self.persons.rule)
        text = f"gencard.person_table.v1 {self.version_kind} {reading} {places % 2**64}"
        return hmac.new(salt, text.encode(), sha256).hexdigest()

    def unzoned(self) -> dict[str, int]:
        return self.table.unzoned()

    def texts_by_value(self) -> dict[str, int]:
        return self.table.texts_by_value()

    def _gathered(self, persons: Persons, stored: Clique, uncoded: Clique) -> list[Gathered]:
        if uncoded:
            return persons.gathered(self._coded(stored, uncoded))
        records_held = self._held()
        if undeclared := [name for name in stored if name in records_held.undeclared]:
            raise UndeclaredLevelError(attribute=", ".join(undeclared))
        axes = [self.coding.stored.index(name) for name in stored]
        return [
            Gathered([part.columns[axis] for axis in axes], part.first) for part in records_held.gathered
        ]

    def _held(self) -> _Held:
        if not self._kept:
            records_held = _Held()
            records_held.gathered = self.persons.gathered(self._codes(records_held))
            self._kept.append(records_held)
        return self._kept[0]

    def _codes(self, held: _Held) -> Generator[Batch, None, None]:
        """Yield codes of stored attributes, then other columns; note undeclared values in ``held``."""
        names = self.coding.stored
        encoders = encoding.encoders_of(self.coding, self.readings, names)
        for batch in self._numbers(names):
            held.places += _sum(batch)
            for axis, (name, encoder) in enumerate(zip(names, encoders, strict=True)):
                try:
                    batch[axis] = encoder.codes(batch[axis])
                except UndeclaredLevelError:  # refused when it is asked for
                    held.undeclared.add(name)
                    size = self.coding.attribute(name).coding.size
                    batch[axis] = np.zeros(len(batch[axis]), dtype=code_dtype(size))
            yield batch

    def _numbers(self, attributes: Clique) -> Iterator[Batch]:
        stored_attributes = [self.coding.attribute(name) for name in self.coding.stored]
        columns = self.table.columns((*self.coding.stored, self.persons.column))
        columns_sent = {_PERSON: sql.key_text(columns.pop(), self.persons.column)}
        numbers: dict[str, str] = {}
        for axis, (attribute, column) in enumerate(zip(stored_attributes, columns, strict=True)):
            reading = self.readings.get(attribute.name, PLAIN)
            sent = columns_sent[f"s{axis}"] = sql.value_of(column, attribute, reading)
            encoder = encoding.encoder_of(attribute, replace(reading, absent=()))
            if isinstance(encoder, encoding.TextEncoder):
                numbers[attribute.name] = quoted(f"s{axis}", '"')
                continue
            kind = "DATE" if sent.type().is_date() else "DOUBLE"
            kind = "VARCHAR" if sent.type().is_string() else kind
            numbers[attribute.name] = encoder.expression(encoding.EngineColumn(f"s{axis}", kind))
        query = self.persons.query(encoding.EngineColumn(_PERSON, "VARCHAR"), numbers, attributes)
        batches = self.table.stream(columns_sent)
        with closing(silently(_engine)) as engine:  # reaches nothing but the batches
            for batch in batches:
                answer = silently(partial(_answer, engine, query, batch))
                yield [column.to_numpy() for column in answer.columns]


def _engine() -> duckdb.DuckDBPyConnection:
    engine = duckdb.connect(":memory:", config=_ENGINE)
    engine.execute("SET TimeZone = 'UTC'")
    engine.execute("SET enable_external_access = false")
    engine.execute("SET lock_configuration = true")
    return engine


def _answer(engine: duckdb.DuckDBPyConnection, query: str, batch: Any) -> Any:
    engine.register("records", pa.Table.from_batches([batch]))
    return engine.sql(query).to_arrow_table()


def _sum(batch: Batch) -> int:
    return int(batch[-2].sum(dtype=np.uint64))
