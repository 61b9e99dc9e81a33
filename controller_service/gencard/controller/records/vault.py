"""Real records are opened in this file, and nowhere else.

Records are streamed from CSV or Parquet as codes, in batches, by an engine that may read one file, or
the files of one folder, write no file (it has no place to spill to) and load no extension. Its errors
quote values and are dropped here: only the kind of an error is raised, with neither text nor cause.
"""

import hmac
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import duckdb
import numpy as np
from numpy.typing import NDArray

from gencard.controller.records import encoding
from gencard.controller.records.file_format import (
    CLOSED_ENGINE,
    USUAL,
    FileFormat,
    ParquetFolder,
    check_path,
    hmac_of,
    open_records,
    open_table,
    quoted,
    silently,
)
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.source import Batch, Persons, StreamedRecords, check_version
from gencard.controller.records.table_address import TableAddress
from gencard.core.coding import PLAIN, Coding, Edges, Labels, Reading
from gencard.core.domain import Clique
from gencard.core.errors import (
    DatasetUnavailableError,
    EmptyDatasetError,
    InvalidInputError,
    MissingAttributeError,
    TooLargeError,
)
from gencard.core.types import VersionKind
from gencard.core.values import shown_rules
from gencard.files import ParquetSize, check_footer
from gencard.files.content import (
    PARQUET,
    TEXT,
    StoredColumn,
    check_names,
    ending_of,
    is_packed,
    is_stored,
    open_content,
    read_stored,
    too_many_bytes,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from gencard.controller.records.tables import IbisTable, PersonTable

_BATCH = 1 << 16  # records

MOST_HELD = 256 << 20
"""Bytes of the numbers of records that ``held`` keeps in memory."""

MOST_COPIED = 256 << 20
"""Most bytes of columns to copy at once: half of the engine's memory; queries have the rest."""

_FEW_BYTES = 8 << 20  # size of CSV files below which one thread is enough
_ENGINE = CLOSED_ENGINE | {"memory_limit": "512MiB"}


@dataclass(frozen=True, slots=True)
class Vault(StreamedRecords):
    """One file of real records, or one folder, under its public schema.

    Args:
        path: A CSV file with a header, a Parquet file, or a folder of Parquet files.
        memory: Numbers that ``held`` has read; None if each method reads the file.
        note: Sentences of ``held`` on the file as a whole, for the steward alone.
    """

    path: Path
    coding: Coding
    readings: Mapping[str, Reading] = field(default_factory=dict)
    format: FileFormat = USUAL
    persons: Persons | None = None
    memory: "_ReadNumbers | None" = None
    note: str = ""
    version_kind: ClassVar = VersionKind.BYTES

    def held(self, progress: Callable[[int], None] = lambda _: None) -> "Vault":
        """Read the file, and return the same records in memory, if they do not take too much."""
        tests, notes = list[_Test](), list[str]()
        batches: list[Batch] = []
        records, size = 0, 0
        for batch in self._read(self.coding.stored, None if self.persons else tests, notes):
            size += sum(column.nbytes for column in batch)
            if size > MOST_HELD:
                return replace(self, note=" ".join(notes)) if notes else self
            batches.append(batch)
            records += len(batch[0])
            progress(records)
        memory = _ReadNumbers(self.coding.stored, tuple(tests), tuple(batches))
        return replace(self, memory=memory, note=" ".join(notes))

    def digest(self, salt: bytes) -> str:
        """HMAC-SHA256 of the file, in hex: says whether two files are the same, and no more.

        Of a folder: of the names and bytes of all its files of records.
        """
        # salted: a plain digest would let an analyst test guesses of the whole file
        folder = folder_at(self.path)
        return silently(lambda: folder.digest(salt, hmac_of) if folder else hmac_of(self.path, salt))

    def version(self, salt: bytes, digest: str = "") -> str:
        """Return the digest, combined with the reading unless that is the default.

        A file that is read differently has other counts, so it is another version: otherwise the
        difference of two exact tables could describe the few records that are read differently.
        ``digest`` is that of the file, if it is known.
        """
        digest = digest or self.digest(salt)
        reading = encoding.how_read(
            self.format, self.readings, self.persons.rule if self.persons else None
        )
        if reading == encoding.how_read(USUAL, {}):
            return digest
        if not self.format.is_utf8 and len(self.coding.stored) == 1:
            reading += " empty lines are records"  # before, they were none if the file has one column
        return hmac.new(salt, f"{digest} {reading}".encode(), sha256).hexdigest()

    def confirm(self, version: str, salt: bytes) -> None:
        """Raise DatasetChangedError if the file has another version."""
        check_version(self.version(salt), version)

    def unzoned(self) -> dict[str, int]:
        """Count values of attributes of dates that lack a zone, or the offset that a zone needs."""
        counts = self._counted("zone") if encoding.of_dates(self.coding) else {}
        return {test.name: sum(signs) for test, signs in counts.items()}

    def texts_by_value(self) -> dict[str, int]:
        """Count values of text columns, such as 007, that are compared with labels as numbers."""
        counts = self._counted("text") if encoding.by_value(self.coding) else {}
        # a file that says which columns are texts needs no other sign
        return {
            test.name: sum(shown_rules(*signs).values() if len(signs) > 1 else signs)
            for test, signs in counts.items()
        }

    def _counted(self, kind: str) -> "dict[_Test, list[int]]":
        if self.memory is not None and not self.persons:
            memory, first = self.memory, len(self.memory.stored)
            places = slice(first, first + len(memory.tests))
            counts = _counted(memory.tests, (batch[places] for batch in memory.batches))
            return {test: signs for test, signs in counts.items() if test.kind == kind}
        with OpenRecords(self.path, self.format) as records:
            tests = {test: sql for test, sql in self._tests(records).items() if test.kind == kind}
            batches = records.batches(encoding.query_of([*tests.values()])) if tests else ()
            return _counted(tuple(tests), batches)

    def _tests(self, records: "OpenRecords") -> "dict[_Test, str]":
        """Return SQL of the tests: whether a date fits its zone, and signs that a text is a code.

        A test is a whole number: bit k is set if a value shows sign k.
        """
        tests: dict[_Test, str] = {}
        names = (*encoding.of_dates(self.coding), *encoding.by_value(self.coding))
        for name, column in zip(names, records.columns_named(names), strict=True):
            absent = column.absent(self.readings.get(name, PLAIN).absent)
            signs: tuple[str, ...]
            match self.coding.attribute(name).coding:
                case Labels(labels=labels) if column.kind == "VARCHAR":
                    kind, signs = "text", ("true",) if records.typed else column.text_rules
                    if not records.typed:  # few values show a sign, and to look for it is slow
                        absent = f"{column.is_plain_label(labels)} OR {absent}"
                case Labels():
                    continue
                case Edges():
                    zone = self.readings.get(name, PLAIN).zone
                    kind, signs = "zone", (column.local if zone else column.timed,)
            bits = [f"CASE WHEN {sign} THEN {1 << place} ELSE 0 END" for place, sign in enumerate(signs)]
            shown = f"CASE WHEN {absent} THEN 0 ELSE {' + '.join(bits)} END"
            tests[_Test(kind, name, len(signs))] = f"CAST({shown} AS UTINYINT)"
        return tests

    def _numbers(self, attributes: Clique) -> Iterator[Batch]:
        if self.memory is not None:
            return self.memory.numbers(attributes)
        return self._read(attributes)

    def _coded(self, stored: Clique, uncoded: Clique) -> Generator[Batch, None, None]:
        if self.memory is None or self.persons:
            yield from StreamedRecords._coded(self, stored, uncoded)
            return
        encoders = encoding.encoders_of(self.coding, self.readings, stored)
        codes = [self.memory.codes(encoder) for encoder in encoders]
        for place, numbers in enumerate(self.memory.numbers(uncoded)):
            yield [
                *(column[place] for column in codes),
                *encoding.adjusted_numbers(self.coding, uncoded, numbers[: len(uncoded)]),
            ]

    def _read(
        self, attributes: Clique, tested: "list[_Test] | None" = None, notes: list[str] | None = None
    ) -> Iterator[Batch]:
        """Yield numbers, then columns of ``Persons.query``, or tests; fills ``tested``, ``notes``."""
        stored_names = self.coding.stored if self.persons else attributes
        names = (*stored_names, self.persons.column) if self.persons else stored_names
        with OpenRecords(self.path, self.format) as records:
            if notes is not None and records.note:
                notes.append(records.note)
            columns = records.columns_named(
                [self.readings.get(name, PLAIN).time_of or name for name in names]
            )
            encoders_here = encoding.encoders_of(self.coding, self.readings, stored_names)
            encoders = zip(stored_names, encoders_here, columns, strict=False)
            numbers = {name: encoder.expression(column) for name, encoder, column in encoders}
            of_persons = self.persons and self.persons.query(columns[-1], numbers, attributes)
            tests = {} if tested is None else self._tests(records)
            if tested is not None:
                tested += tests
            of_all = encoding.query_of([*(numbers[name] for name in attributes), *tests.values()])
            yield from records.batches(of_persons or of_all)


class _Test(NamedTuple):
    """A question to each value; ``kind`` is "zone" or "text": see ``unzoned`` and ``texts_by_value``."""

    kind: str
    name: str
    signs: int


def _counted(tests: Sequence[_Test], batches: Iterable[Batch]) -> dict[_Test, list[int]]:
    counts = {test: [0] * test.signs for test in tests}
    for batch in batches:
        for signs, shown in zip(counts.values(), batch, strict=True):
            if shown.any():  # most columns show none
                for place in range(len(signs)):
                    signs[place] += int(np.count_nonzero(shown & (1 << place)))
    return counts


@dataclass(frozen=True, slots=True)
class _ReadNumbers:
    """Numbers of all records that a vault has read: of ``stored``, then ``tests``, by batch."""

    stored: Clique
    tests: tuple[_Test, ...]
    batches: tuple[Batch, ...]
    coded: dict[str, Batch] = field(default_factory=dict)

    def codes(self, encoder: encoding.Encoder) -> Batch:
        """Codes of an attribute by batch, computed once; raises UndeclaredLevelError."""
        if encoder.name not in self.coded:
            place = self.stored.index(encoder.name)
            self.coded[encoder.name] = [encoder.codes(batch[place]) for batch in self.batches]
        return self.coded[encoder.name]

    def numbers(self, attributes: Clique) -> Iterator[Batch]:
        """Yield the same as ``Vault._read``, without tests."""
        places = [self.stored.index(name) for name in attributes]
        for batch in self.batches:
            added = batch[len(self.stored) + len(self.tests) :]
            yield [*(batch[place] for place in places), *added]


RecordSource: TypeAlias = "Vault | IbisTable | PersonTable"
"""Records under a public schema: they can be counted, checked, and read up to a bound.

Every method may raise DatasetUnavailableError (the file is gone or garbled, or the database cannot be
reached or refuses), MissingAttributeError, UndeclaredLevelError and EmptyDatasetError.
"""


@contextmanager
def open_source(
    place: Path | TableAddress,
    schema: PublicSchema,
    file_format: FileFormat,
    persons: Persons | None,
    *,
    secret: str = "",
    held: Callable[[int], None] | None = None,
) -> Iterator[RecordSource]:
    """Open the records at a place, for the length of the context; a database may need a secret.

    With ``held``, a file is read once for all questions, and this is called with the number of
    records read. Raises DatasetUnavailableError, or InvalidInputError without the libraries or for a
    table with the format of a file.
    """
    if isinstance(place, Path):
        vault = Vault(place, schema.coding, schema.readings, file_format, persons)
        yield vault if held is None else vault.held(held)
        return
    from gencard.controller.records.databases import open_table  # noqa: PLC0415 - large libraries
    from gencard.controller.records.tables import PersonTable  # noqa: PLC0415

    usual = replace(USUAL, file_mib=file_format.file_mib)
    if replace(file_format, dates=tuple(file_format.dates)) != usual:  # a job has lists
        problem = "applies to files only, not to tables of a database"
        raise InvalidInputError(field="format", problem=problem)
    with open_table(place, secret, schema.coding, schema.readings) as table:
        yield PersonTable(table, schema.coding, table.readings, persons) if persons else table


class OpenRecords:
    """One file or folder, opened by an engine that can reach nothing else; ``records`` is its table.

    Each query reads the file again, unless ``parts`` has copied its columns into the engine's memory.
    Workbooks and files of statistical packages are in memory from the beginning.

    Args:
        explains: Whether errors say why such a file cannot be read, with the cell or the names of
            columns: for the steward, not for callers of the service.
    """

    def __init__(self, path: Path, file_format: FileFormat = USUAL, *, explains: bool = False) -> None:
        self._path, self._format, self._explains = path, file_format, explains
        self.described: Mapping[str, StoredColumn] = {}
        self.note = ""

    @property
    def typed(self) -> bool:
        """Whether the file says which columns are texts; without types, all columns are texts."""
        return ending_of(self._path) not in TEXT

    def _stored(self) -> "pa.Table":
        with suppress(*(() if self._explains else (InvalidInputError, TooLargeError))):
            form = self._format
            how: dict[str, Any] = {"sheet": form.sheet, "skip": form.skip, "most_bytes": form.most_bytes}
            stored = read_stored(self._path, "data", **how)
            self.described = {one.name: one for one in stored.columns}
            self.note = stored.note
            return stored.table
        raise DatasetUnavailableError

    def __enter__(self) -> "OpenRecords":
        check_path(self._path)
        folder = self._folder = folder_at(self._path)
        files = folder.files if folder else (self._path,)
        is_parquet = folder is not None or ending_of(self._path) in PARQUET
        if folder is None:
            self._check_bytes(silently(lambda: self._path.stat().st_size))
        for file in files if is_parquet else ():
            silently(partial(_check_footer, file))
        self._engine = silently(self._open)
        if is_parquet:
            # refused if it would unpack to far more than its size says
            listed = folder.listed if folder else quoted(str(self._path))
            # a file without rows has no column, which is for others to refuse
            sums = "coalesce(sum(total_uncompressed_size), 0), count(DISTINCT path_in_schema)"
            ((unpacked, columns),) = self.rows(f"SELECT {sums} FROM parquet_metadata({listed})")  # noqa: S608
            ((rows,),) = self.rows(
                f"SELECT coalesce(sum(num_rows), 0) FROM parquet_file_metadata({listed})"  # noqa: S608  # quoted
            )
            stored = sum(silently(lambda: [file.stat().st_size for file in files]))
            ParquetSize(stored, int(unpacked), int(rows), int(columns)).check("data")
            if unpacked:
                self._check_bytes(int(unpacked))
        if folder is not None:
            folder.check_columns(self.rows)
        self.columns = [
            encoding.EngineColumn(name.strip() if self._format.trim else name, kind, self._format, name)
            for name, kind, *_ in self.rows("DESCRIBE records")
        ]
        return self

    def __exit__(self, *_: object) -> None:
        silently(self._engine.close)

    def _open(self) -> duckdb.DuckDBPyConnection:
        allowed = self._folder.listed if self._folder else f"[{quoted(str(self._path))}]"
        few = not self.typed and self._path.stat().st_size < _FEW_BYTES
        # on a small file threads only wait for each other
        engine = duckdb.connect(":memory:", config=_ENGINE | ({"threads": 1} if few else {}))
        engine.execute("SET enable_progress_bar = false")
        engine.execute("SET TimeZone = 'UTC'")  # of no host: dates of times with a zone are in UTC
        engine.execute(f"SET allowed_paths = {allowed}")
        # the order matters: the files are allowed first, then access ends, then nothing can undo it
        engine.execute("SET enable_external_access = false")
        engine.execute("SET lock_configuration = true")
        if is_stored(self._path):
            table = "held"
            engine.register(table, self._stored())
        elif self._folder:
            table = self._folder.table
        else:
            table = open_table(engine, self._path, self._format)
        engine.execute(f"CREATE TEMP VIEW stored AS SELECT * FROM {table}")  # noqa: S608  # quoted
        engine.execute(_UNCOPIED)
        return engine

    def parts(self) -> Iterator[list[encoding.EngineColumn]]:
        """Copy the columns into memory, as many at once as fit; yield these.

        Until the next part, ``records`` is the copy and has no other columns. A column that does not
        fit by itself is yielded alone, and read from the file.
        """
        begin, width = 0, len(self.columns)
        while begin < len(self.columns):
            part = self.columns[begin : begin + width]
            if self._copy(part) or width == 1:
                yield part
                begin += width
            else:
                width = (width + 1) // 2
        self.uncopy()

    def _copy(self, columns: Sequence[encoding.EngineColumn]) -> bool:
        """Copy some columns as they are stored; return False if they take too much memory."""
        self.uncopy()
        names = ", ".join(column.sql for column in columns)
        with suppress(MemoryError):
            self.rows(f"CREATE TEMP TABLE copied AS SELECT {names} FROM stored")  # noqa: S608  # quoted
            ((used,),) = self.rows("SELECT sum(memory_usage_bytes) FROM duckdb_memory()")
            if used <= MOST_COPIED:
                self.rows("CREATE OR REPLACE TEMP VIEW records AS SELECT * FROM copied")
                return True
        self.uncopy()
        return False

    def uncopy(self) -> None:
        """Drop the copy; ``records`` is the file again."""
        self.rows(_UNCOPIED)
        self.rows("DROP TABLE IF EXISTS copied")

    def _check_bytes(self, size: int) -> None:
        """Refuse a file that is empty or too large, by the number of its unpacked bytes."""
        if not size:
            raise EmptyDatasetError()
        if size > self._format.most_bytes:
            raise too_many_bytes(self._format.most_bytes)

    def check_names(self) -> None:
        """Raise InvalidInputError for names in Parquet that are equal to the engine: a and A."""
        if ending_of(self._path) in PARQUET or self._folder:
            from pyarrow.parquet import read_schema  # noqa: PLC0415 - only for a first look

            file = self._folder.files[0] if self._folder else self._path
            check_names(silently(lambda: read_schema(file).names), "data", "")

    def columns_named(self, names: Sequence[str]) -> list[encoding.EngineColumn]:
        """Raises MissingAttributeError, which names all that the file lacks."""
        columns = self.columns[::-1]
        by_name = {column.name: column for column in columns}
        if not self.typed:  # the engine leaves out spaces around names, pyarrow does not
            by_name = {column.name.strip(" "): column for column in columns} | by_name
        if missing := [name for name in dict.fromkeys(names) if name not in by_name]:
            raise MissingAttributeError(attribute=", ".join(missing))
        return [by_name[name] for name in names]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = silently(lambda: self._engine.execute(query).fetchall())
        return rows

    def batches(self, query: str) -> Iterator[Batch]:
        """Yield the result in batches, one array per column."""
        reader = silently(lambda: self._engine.sql(query).to_arrow_reader(_BATCH))
        while (batch := silently(lambda: next(reader, None))) is not None:
            yield [_array(column) for column in batch.columns]


def _array(column: Any) -> NDArray[Any]:
    """Return the values of a pyarrow column; its own conversion loads pandas, which takes 0.2 s."""
    from pyarrow import types  # noqa: PLC0415 - the engine has loaded it

    is_plain = types.is_integer(column.type) or types.is_floating(column.type)
    if is_plain and not column.null_count:
        return np.from_dlpack(column)
    array: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


_UNCOPIED = "CREATE OR REPLACE TEMP VIEW records AS SELECT * FROM stored"


def check_detected(path: Path, file_format: FileFormat) -> None:
    """Refuse a CSV file without a stated format if the engine's own detection counts other records.

    Earlier versions left the format to the engine. An archive, a workbook, or a file of a statistical
    package is refused with the reason if it cannot be read.
    """
    if is_stored(path):
        with OpenRecords(path, file_format, explains=True):
            return
    if is_packed(path):
        with open_content(path, "data", file_format.most_bytes) as content:
            while content.read(1 << 20):
                pass
        return
    is_stated = file_format.delimiter or file_format.line_ends or not file_format.is_utf8
    if ending_of(path) not in TEXT or path.is_dir() or is_stated:
        return
    with OpenRecords(path, file_format) as records:
        ((stated,),) = records.rows("SELECT count(*) FROM records")
        detected = f"read_csv({quoted(str(path))}, all_varchar = true, header = true, comment = '')"
        with suppress(DatasetUnavailableError):  # by itself it could not read the file
            ((count,),) = records.rows(f"SELECT count(*) FROM {detected}")  # noqa: S608  # quoted
            if count != stated:
                problem = (
                    "is not stated, and the file can be read in two ways, with different numbers of "
                    "records; state format.delimiter, quote, escape, comment, header and skip, as a new "
                    "draft by `dataset add` does"
                )
                raise InvalidInputError(field="format", problem=problem)


def _check_footer(path: Path) -> None:
    with open_records(path) as file:
        check_footer(file, "data")


def folder_at(path: Path) -> ParquetFolder | None:
    """Return the folder of Parquet files, if the path is one; raises as ``ParquetFolder.at``."""
    return silently(lambda: ParquetFolder.at(path) if path.is_dir() else None)
