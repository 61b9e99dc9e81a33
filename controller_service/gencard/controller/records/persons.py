r"""Persons of records: at most k records of a person count, and a person's records can be counted.

The records of a person that count follow from this person's records and a secret key alone: they are
sorted by a keyed hash of all their stored attributes, and the first k count. The choice is therefore the
same for every query, and one person's records do not change the choice among another person's. A rule by
the place in the file would not protect persons: an additional person would move all others.
"""

import hmac
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.controller.records.encoding import EngineColumn, quoted
from gencard.core.coding import Attribute, Edges, codes_of_numbers
from gencard.core.errors import TooLargeError, UndeclaredLevelError
from gencard.core.types import IntArray

MOST_IN_MEMORY = 20_000_000
"""Records of a dataset with a person key: codes and hashes of all are held at once."""

_RANGES = 16
"""Number of ranges of persons' hashes; one range is sorted and counted at a time."""


@dataclass(frozen=True, slots=True)
class Persons:
    """The column that identifies persons.

    Args:
        column: Name of the column in the file; queries return its values as keyed hashes only.
        most_records: Number of records of one person that count.
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

        Args:
            column: Column of the person.
            expressions: Number of each stored attribute; all attributes, since they decide about the
                place.
            names: Attributes whose numbers are selected.
        """
        short = {name: f"s{axis}" for axis, name in enumerate(expressions)}
        inner = [f"{text} AS {short[name]}" for name, text in expressions.items()]
        columns = [f"{short[name]} AS c{axis}" for axis, name in enumerate(names)]
        key = quoted(self.key.hex(), "'")
        absent = f"({column.absent(())}) OR {column.text} = ''"
        person = f"CASE WHEN {absent} THEN NULL ELSE sha256(concat({key}, 'person', {column.text})) END"
        place = f"sha256(concat_ws('|', {key}, 'place', person, {', '.join(short.values())}))"
        outer = [
            *columns,
            f"coalesce({_word('person', 1)}, 0) AS person_high",
            f"coalesce({_word('person', 17)}, 0) AS person_low",
            f"{_word('hash', 1)} AS place",
            "person IS NULL AS nobody",
        ]
        query = f"SELECT {', '.join(inner)}, {person} AS person FROM records"  # noqa: S608 - quoted
        return f"SELECT {', '.join(outer)} FROM (SELECT *, {place} AS hash FROM ({query}))"  # noqa: S608

    def gathered(self, batches: Generator[list[NDArray[Any]], None, None]) -> list["Gathered"]:
        """Return all records, by ranges of the hashes of persons; a person's records are in one range.

        Args:
            batches: Results of ``query``, with its expressions turned into codes.

        Raises:
            TooLargeError: There are too many records for the memory.
            UndeclaredLevelError: A record has no person.
        """
        ranges: list[list[list[NDArray[Any]]]] = [[] for _ in range(_RANGES)]
        records = 0
        with closing(batches):  # a refusal ends what a database sends
            for *batch, nobody in batches:
                if np.any(nobody):
                    raise UndeclaredLevelError(attribute=self.column)
                records += len(batch[0])
                check_number(records)
                for parts, inside in zip(ranges, _inside(batch[-3]), strict=True):
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


def _inside(high: NDArray[np.uint64]) -> list[NDArray[np.intp]]:
    """Positions of the records of each range, by the first half of their person's hash."""
    numbers = high // np.uint64(2**64 // _RANGES)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, _RANGES, dtype=np.uint64)))


def _sorted(parts: list[list[NDArray[Any]]]) -> "Gathered":
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

    columns: list[NDArray[Any]]
    first: IntArray

    @property
    def _numbers(self) -> IntArray:
        """Number of records of each person."""
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
        """Return the code of each record's level of a derived attribute of persons, shape ``(n,)``.

        Args:
            attribute: Derived per person.
            counts: 1 for each record that counts, else 0.
        """
        sums = np.add.reduceat(counts, self.first) if len(self.first) else counts
        coding = attribute.coding
        if not isinstance(coding, Edges):
            return np.repeat(np.minimum(sums, 1), self._numbers)
        clipped = np.minimum(sums, coding.edges[-1]).astype(np.float64)
        return np.repeat(codes_of_numbers(attribute.name, coding, clipped), self._numbers)


def _word(name: str, begin: int) -> str:
    """64 bits of a hash in hex."""
    return f"CAST('0x' || substr({name}, {begin}, 16) AS UBIGINT)"
