"""Sources of records by one interface, and the records of a person that count."""

import hmac
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gencard.controller.records.encoding import (
    EngineColumn,
    adjusted_numbers,
    check_numbers,
    encoders_of,
    scales_of,
    sources_of,
    with_derived,
)
from gencard.controller.records.file_format import quoted
from gencard.core.card.sums import Sum
from gencard.core.coding import Attribute, Coding, Edges, Reading, codes_of_numbers
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import (
    DatasetChangedError,
    EmptyDatasetError,
    TooLargeError,
    TooManyRecordsError,
    UndeclaredLevelError,
)
from gencard.core.scale import Adjustments
from gencard.core.statistics.linear import UnitSums
from gencard.core.statistics.marginals import Counter
from gencard.core.types import FloatArray, IntArray

# Persons: at most k records of a person count, and a person's records can be counted.
#
# The records of a person that count follow from this person's records and a secret key alone: they are
# sorted by a keyed hash of all their stored attributes, and the first k count. The choice is therefore
# the same for every query, and one person's records do not change the choice among another person's. A
# rule by the place in the file would not protect persons: an additional person would move all others.


Batch = list[NDArray[Any]]
"""Columns of some records, arrays of shape ``(n,)``."""

MOST_IN_MEMORY = 20_000_000
"""Records of a dataset with a person key: codes and hashes of all are held at once."""

_RANGES = 16  # number of ranges of persons' hashes; one range is sorted and counted at a time


@dataclass(frozen=True, slots=True)
class Persons:
    """The column that identifies persons.

    Args:
        column: Name of the column in the file; queries return its values as keyed hashes only.
        key: Secret of the dataset, without which a chooser of records cannot know which count.
    """

    column: str
    most_records: int
    key: bytes = b""

    @classmethod
    def of(cls, column: str, most_records: int, salt: bytes) -> "Persons":
        """Return the persons of a dataset, with a key derived from its salt."""
        return cls(column, most_records, hmac.new(salt, b"gencard.persons.v1", sha256).digest())

    @property
    def rule(self) -> tuple[str, int]:
        """Column and number, which decide about the counts, together with the key."""
        return self.column, self.most_records

    def query(self, column: EngineColumn, expressions: Mapping[str, str], names: Sequence[str]) -> str:
        """Return SQL for numbers of each record, person (in two halves), place, and lack of a person.

        All stored attributes have an expression, since they decide about the place.
        """
        short = {name: f"s{axis}" for axis, name in enumerate(expressions)}
        inner = [f"{text} AS {short[name]}" for name, text in expressions.items()]
        columns = [f"{short[name]} AS c{axis}" for axis, name in enumerate(names)]
        key = quoted(self.key.hex())
        absent = f"({column.absent(())}) OR {column.text} = ''"
        person = f"CASE WHEN {absent} THEN NULL ELSE sha256(concat({key}, 'person', {column.text})) END"
        place = f"sha256(concat_ws('|', {key}, 'place', person, {', '.join(short.values())}))"
        outer = [
            *columns,
            f"coalesce({_word('person', 1)}, 0) AS person_high",
            f"coalesce({_word('person', 17)}, 0) AS person_low",
            f"{_word('hash', 1)} AS place",
            "person IS NULL AS lacks_person",
        ]
        query = f"SELECT {', '.join(inner)}, {person} AS person FROM records"  # noqa: S608 - quoted
        return f"SELECT {', '.join(outer)} FROM (SELECT *, {place} AS hash FROM ({query}))"  # noqa: S608

    def gathered(self, batches: Generator[Batch, None, None]) -> list["Gathered"]:
        """Return all records, by ranges of the hashes of persons; a person's records are in one range.

        ``batches`` are results of ``query``, as codes. Raises TooLargeError for too many records, or
        UndeclaredLevelError for one without a person.
        """
        ranges: list[list[Batch]] = [[] for _ in range(_RANGES)]
        records = 0
        with closing(batches):  # a refusal ends what a database sends
            for *batch, lacks_person in batches:
                if np.any(lacks_person):
                    raise UndeclaredLevelError(attribute=self.column)
                records += len(batch[0])
                check_number(records)
                # by the first half of the hash of a record's person
                numbers = batch[-3] // np.uint64(2**64 // _RANGES)
                order = np.argsort(numbers, kind="stable")
                ends = np.searchsorted(numbers[order], np.arange(1, _RANGES, dtype=np.uint64))
                for parts, inside in zip(ranges, np.split(order, ends), strict=True):
                    parts.append([column[inside] for column in batch])
        return [_sorted(ranges.pop(0)) for _ in range(_RANGES)] if records else []


def check_number(records: int) -> None:
    """Raise TooLargeError if so many records of persons do not fit into memory."""
    if records > MOST_IN_MEMORY:
        raise TooLargeError(
            what="A dataset with persons",
            limit=f"{MOST_IN_MEMORY:,} records",
            advice="Declare no `person` in the schema, or offer a file of fewer records.",
        )


def _sorted(parts: list[Batch]) -> "Gathered":
    """Return the records of one range; the last three columns are hashes of person and place."""
    *columns, high, low, place = map(np.concatenate, zip(*parts, strict=True))
    parts.clear()
    order = np.lexsort((place, low, high))
    high, low = high[order], low[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
    return Gathered([column[order] for column in columns], np.flatnonzero(first))


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Records of some persons, sorted by person, and among those of a person by their place.

    Args:
        columns: Arrays of shape ``(n,)``.
        first: Position of each person's first record, increasing.
    """

    columns: Batch
    first: IntArray

    @property
    def _numbers(self) -> IntArray:
        records = len(self.columns[0]) if self.columns else 0
        return np.diff(self.first, append=records)

    @property
    def owners(self) -> IntArray:
        """Place of each record's person among the persons."""
        return np.repeat(np.arange(len(self.first)), self._numbers)

    def kept(self, most_records: int) -> NDArray[np.intp]:
        """Return the positions of the records that count, at most ``most_records`` of each person."""
        numbers = self._numbers
        rank = np.arange(numbers.sum()) - np.repeat(self.first, numbers)
        return np.flatnonzero(rank < most_records)

    def levels(self, attribute: Attribute, counts: IntArray) -> NDArray[Any]:
        """Return codes of an attribute of persons, shape ``(n,)``; ``counts`` is 1 where one counts."""
        sums = np.add.reduceat(counts, self.first) if len(self.first) else counts
        coding = attribute.coding
        if not isinstance(coding, Edges):
            return np.repeat(np.minimum(sums, 1), self._numbers)
        clipped = np.minimum(sums, coding.edges[-1]).astype(np.float64)
        return np.repeat(codes_of_numbers(attribute.name, coding, clipped), self._numbers)


def _word(name: str, begin: int) -> str:
    """64 bits of a hash in hex."""
    return f"CAST('0x' || substr({name}, {begin}, 16) AS UBIGINT)"


NOT_COVERED = (
    "the version of a database table does not cover all values of its records, so stored numbers of "
    "two states of the table could be subtracted; ask for levels, or have the steward offer the records "
    "as a file"
)
"""Why stored numbers of a table are not given."""


def check_version(now: str, version: str) -> None:
    """Raise DatasetChangedError if the records have another version."""
    if not hmac.compare_digest(now, version):
        raise DatasetChangedError()


def checked_cliques(coding: Coding) -> list[Clique]:
    """Return the cliques to count in a check of records: each attribute, then each structural zero."""
    alone = [(name,) for name in coding.domain.attributes]
    return [*alone, *(entry.clique for entry in coding.structural_zeros)]


def check_zeros(coding: Coding, tables: Sequence[NDArray[np.int64]]) -> None:
    """Check that structural zeros are empty in ``tables``, the counts of ``checked_cliques``."""
    zeros = coding.structural_zeros
    for entry, table in zip(zeros, tables[len(tables) - len(zeros) :], strict=True):
        if any(table[cell] for cell in entry.cells):
            raise UndeclaredLevelError(attribute=", ".join(entry.clique))


class StreamedRecords(ABC):
    """Records that are read one after another; the records of persons that count are chosen here."""

    __slots__ = ()

    coding: Coding
    readings: Mapping[str, Reading]
    persons: Persons | None
    covers_values: ClassVar[bool] = True
    """Whether records with any other value are another version: yes, it is made of a file's bytes, or of
    each record's values."""

    def check(self) -> None:
        """Read every record once; raises UndeclaredLevelError for such values or a structural zero."""
        tables: list[NDArray[np.int64]] = []
        with suppress(UndeclaredLevelError):
            tables = self.count(checked_cliques(self.coding))
        if not tables:
            stored, undeclared = self.coding.stored, set[str]()
            encoders = encoders_of(self.coding, self.readings, stored)
            for batch in self._numbers(stored):
                for name, encoder, numbers in zip(stored, encoders, batch, strict=False):
                    if not encoder.declared(numbers).all():
                        undeclared.add(name)
            persons = self.persons.column if self.persons else ""
            names = ", ".join(name for name in stored if name in undeclared)
            raise UndeclaredLevelError(attribute=names or persons)
        check_zeros(self.coding, tables)

    def adjustments(self) -> dict[str, Adjustments]:
        """Return how many values of each attribute on a scale are rounded and clamped."""
        scales = scales_of(self.coding)
        counts = dict.fromkeys(scales, Adjustments())
        names = self.coding.stored if self.persons else tuple(scales)
        for batch in self._numbers(names) if scales else ():
            columns = dict(zip(names, batch, strict=False))
            for name, scale in scales.items():
                counts[name] += scale.adjustments(columns[name])
        return counts

    def count(self, cliques: Sequence[Clique]) -> list[NDArray[np.int64]]:
        """Marginals on the cliques, in their order: the ``MarginalSource`` of real records."""
        domain = self.coding.domain.covered_by(cliques)
        counter = Counter(domain, cliques)
        records = 0
        for batch in self._batches(domain.attributes):
            counter.add(batch[: len(domain)])
            records += len(batch[0])
        if not records:
            raise EmptyDatasetError()
        return counter.marginals()

    def summed(self, sums: Sequence[Sum], histograms: Sequence[str]) -> UnitSums:
        """Exact sums, all checked, and histograms of attributes with a step; records are read once."""
        groups = tuple(dict.fromkeys(name for one in sums for name in (*one.by, *one.present)))
        of = [name for one in sums for name in one.of]
        numbers = tuple(dict.fromkeys((*histograms, *of)))
        summed = UnitSums(self.coding, sums, histograms)
        for batch in self._batches(groups, numbers):
            columns = iter(batch)
            codes = {name: next(columns) for name in groups}
            summed.add(codes, {name: next(columns) for name in numbers})
        return summed

    def dataset(self, attributes: Clique, *, most_records: int) -> Dataset:
        """Return the records on some attributes; raises TooManyRecordsError above ``most_records``."""
        return self.read(attributes, (), most_records=most_records)[0]

    def read(
        self, attributes: Clique, uncoded: Clique, *, most_records: int
    ) -> tuple[Dataset, dict[str, FloatArray]]:
        """Return the records on some attributes, and the numbers of some attributes as stored.

        Uncoded numbers lie between their edges, NaN for missing. Raises TooManyRecordsError, or
        InvalidInputError for an attribute without numbers.
        """
        dataset, numbers, _ = self.read_owned(attributes, uncoded, most_records=most_records)
        return dataset, numbers

    def read_owned(
        self, attributes: Clique, uncoded: Clique, *, most_records: int
    ) -> tuple[Dataset, dict[str, FloatArray], IntArray | None]:
        """Return the same and each record's person by number; None without persons."""
        check_numbers(self.coding, uncoded)
        batches: list[Batch] = []
        records = 0
        for batch in self._batches(attributes, uncoded):
            records += len(batch[0])
            if records > most_records:
                raise TooManyRecordsError(limit=most_records)
            batches.append(batch)
        if not records:
            raise EmptyDatasetError()
        columns = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
        owners = columns.pop() if self.persons else None
        dataset = Dataset.of_columns(self.coding.domain.project(attributes), columns[: len(attributes)])
        return dataset, dict(zip(uncoded, columns[len(attributes) :], strict=True)), owners

    def _batches(self, attributes: Clique, uncoded: Clique = ()) -> Iterator[Batch]:
        """Yield codes of the attributes, then numbers of uncoded attributes, in batches as in the file.

        Records of persons that count come by ranges of the persons' hashes, followed by their persons.
        """
        sources = sources_of(self.coding, attributes)
        if self.persons is None:
            for batch in self._coded(sources, uncoded):
                yield with_derived(self.coding, attributes, sources, batch)
            return
        persons = 0
        for part in self._gathered(self.persons, sources, uncoded):
            rows = part.kept(self.persons.most_records)
            if len(rows):
                columns = with_derived(self.coding, attributes, sources, part.columns, part.levels)
                yield [column[rows] for column in (*columns, persons + part.owners)]
                persons += len(part.first)

    def _gathered(self, persons: Persons, stored: Clique, uncoded: Clique) -> list[Gathered]:
        return persons.gathered(self._coded(stored, uncoded))

    def _coded(self, stored: Clique, uncoded: Clique) -> Generator[Batch, None, None]:
        """Codes of stored attributes, then all else that each batch has."""
        encoders = encoders_of(self.coding, self.readings, (*stored, *uncoded))
        for batch in self._numbers((*stored, *uncoded)):
            codes = [encoder.codes(batch[axis]) for axis, encoder in enumerate(encoders)]
            yield [*codes[: len(stored)], *adjusted_numbers(self.coding, uncoded, batch[len(stored) :])]

    @abstractmethod
    def _numbers(self, attributes: Clique) -> Iterator[Batch]:
        """Yield numbers of stored attributes for encoders, then the columns of ``Persons.query``."""
