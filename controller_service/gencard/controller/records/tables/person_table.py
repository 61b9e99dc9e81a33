"""Records of persons in a table of a database: the records that count are chosen here, as in the vault.

- The choice follows from a hash of a record's values as the vault's engine writes them. No other engine
  writes numbers in the same form, and a read-only transaction cannot keep a choice, so that every table
  of counts would choose anew. Each record therefore leaves the database once for each job, as one number
  for each attribute, and the vault's statement, in the vault's engine, computes the hashes.
- Codes of all records are kept in memory, within the vault's bound, and serve all queries of the job.
- The version is an HMAC of the sum of the records' hashes: it depends on no order, and on every value.
"""

import hmac
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gencard.controller.records.encoding import (
    EngineColumn,
    TextEncoder,
    encoder_of,
    encoders_of,
    how_read,
    quoted,
)
from gencard.controller.records.file_format import USUAL, silently
from gencard.controller.records.persons import Gathered, Persons, check_number
from gencard.controller.records.source import StreamedRecords, check_version
from gencard.controller.records.tables.codes import key_text, value_of
from gencard.controller.records.tables.table import IbisTable
from gencard.core.coding import PLAIN, Coding, Reading
from gencard.core.dataset import code_dtype
from gencard.core.domain import Clique
from gencard.core.errors import UndeclaredLevelError
from gencard.core.types import VersionKind

_ENGINE: dict[str, str | int | float | list[str]] = {
    "memory_limit": "256MiB",
    "threads": 2,
    "temp_directory": "",  # nothing may spill to disk
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_PERSON = "person"


@dataclass(slots=True)
class _Held:
    """Codes of all records on the stored attributes, by person; attributes with undeclared values."""

    gathered: list[Gathered] = field(default_factory=list)
    undeclared: set[str] = field(default_factory=set)
    places: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PersonTable(StreamedRecords):
    """A table of Ibis under its public schema, of persons of whom at most k records count.

    Methods raise the errors of ``IbisTable`` and of ``Vault``.
    """

    table: IbisTable
    coding: Coding
    readings: Mapping[str, Reading]
    persons: Persons
    _kept: list[_Held] = field(default_factory=list, init=False, repr=False)

    @property
    def version_kind(self) -> VersionKind:
        return self.table.version_kind

    def digest(self, salt: bytes) -> str:
        """Return the HMAC-SHA256 of the table's place, in hex: datasets on one table share records."""
        return self.table.digest(salt)

    def version(self, salt: bytes, digest: str = "") -> str:  # noqa: ARG002  # a file's version needs it
        """Return the fingerprint, in hex, of the records, and of how they are read; nothing is held.

        Raises:
            TooLargeError: There are more records than a job could hold.
        """
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
        reading = how_read(USUAL, self.readings, self.persons.rule)
        text = f"gencard.person_table.v1 {self.version_kind} {reading} {places % 2**64}"
        return hmac.new(salt, text.encode(), sha256).hexdigest()

    def unzoned(self) -> dict[str, int]:
        """Count values of attributes of dates that lack a zone, or the offset that a zone needs."""
        return self.table.unzoned()

    def texts_by_value(self) -> dict[str, int]:
        """Count values of text columns that are compared with labels as numbers."""
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

    def _codes(self, held: _Held) -> Generator[list[NDArray[Any]], None, None]:
        """Yield codes of stored attributes, then other columns; note undeclared values in ``held``."""
        names = self.coding.stored
        encoders = encoders_of(self.coding, self.readings, names)
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

    def _numbers(self, attributes: Clique) -> Iterator[list[NDArray[Any]]]:
        stored_attributes = [self.coding.attribute(name) for name in self.coding.stored]
        columns = self.table.columns((*self.coding.stored, self.persons.column))
        columns_sent = {_PERSON: key_text(columns.pop(), self.persons.column)}
        numbers: dict[str, str] = {}
        for axis, (attribute, column) in enumerate(zip(stored_attributes, columns, strict=True)):
            reading = self.readings.get(attribute.name, PLAIN)
            sent = columns_sent[f"s{axis}"] = value_of(column, attribute, reading)
            encoder = encoder_of(attribute, replace(reading, absent=()))
            if isinstance(encoder, TextEncoder):
                numbers[attribute.name] = quoted(f"s{axis}", '"')
                continue
            kind = (
                "VARCHAR" if sent.type().is_string() else "DATE" if sent.type().is_date() else "DOUBLE"
            )
            numbers[attribute.name] = encoder.expression(EngineColumn(f"s{axis}", kind))
        query = self.persons.query(EngineColumn(_PERSON, "VARCHAR"), numbers, attributes)
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


def _sum(batch: list[NDArray[Any]]) -> int:
    """Return the sum of the hashes of a batch's records: the column before the last."""
    return int(batch[-2].sum(dtype=np.uint64))
