"""Datasets of the settings as they are offered; their records are read for a version, or a check."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from gencard.controller.policy.statistics import objection
from gencard.controller.records.catalogue import PREFIX, DatasetEntry, Holdout
from gencard.controller.records.schema_file import PublicSchema, read_schema
from gencard.controller.records.vault import Vault
from gencard.controller.settings.settings import DatasetTable
from gencard.core.errors import GencardError


def entry_of(entry: DatasetTable, salt: bytes) -> DatasetEntry:
    """A dataset on offer, with the version that its records are of.

    Args:
        salt: Secret of the digests of records.

    Raises:
        InvalidInputError, DatasetError: Schema or records are not in order.
    """
    schema = read_schema(entry.schema_file)
    vault = _vault(entry, schema)
    digest = vault.digest(salt)
    return DatasetEntry(
        name=f"{PREFIX}{entry.name}",
        schema=schema,
        policy=entry.policy.policy(),
        data=entry.data,
        format=entry.format.format(),
        version=vault.version(salt, digest),
        digest=digest,
        holdout=_holdout(entry, schema, salt),
        declared=entry.measures.declared(),
    )


def check_records(entry: DatasetTable, *, holdout: bool = False) -> None:
    """Read every record once, of the holdout where it is meant: all keep to the schema.

    Raises:
        InvalidInputError, DatasetError: Schema or records are not in order.
    """
    schema = read_schema(entry.schema_file)
    with _naming(f"{PREFIX}{entry.name}: {'holdout' if holdout else 'data'}"):
        _vault(entry, schema, entry.holdout if holdout else None).check()


@dataclass(frozen=True, slots=True)
class SmallCells:
    """How many cells of a dataset's pairs hold few records: exact facts, for the steward alone.

    Args:
        pairs: Pairs of attributes that the policy allows.
        single: Cells that hold one record.
        few: Cells that hold one record or more, and fewer than ``FEW``.
        occupied: Cells that hold one record or more.
    """

    pairs: int
    single: int
    few: int
    occupied: int


FEW = 10
"""Records below which statistical offices usually hold a cell back."""


def small_cells(entry: DatasetTable, schema: PublicSchema) -> SmallCells:
    """Count the cells that an exact release of the pairs would show; raises DatasetError."""
    domain, policy = schema.coding.domain, entry.policy.policy()
    pairs = [
        pair for pair in combinations(domain.attributes, 2) if objection(pair, policy, domain) is None
    ]
    single = few = occupied = 0
    for counts in _vault(entry, schema).count(pairs) if pairs else ():
        single += int((counts == 1).sum())
        few += int(((counts > 0) & (counts < FEW)).sum())
        occupied += int((counts > 0).sum())
    return SmallCells(len(pairs), single, few, occupied)


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Say with an error which file it is about."""
    try:
        yield
    except GencardError as error:
        error.add_note(f"In {place}.")
        raise


def _holdout(entry: DatasetTable, schema: PublicSchema, salt: bytes) -> Holdout | None:
    if entry.holdout is None:
        return None
    vault = _vault(entry, schema, entry.holdout)
    digest = vault.digest(salt)
    return Holdout(entry.holdout, vault.version(salt, digest), digest)


def _vault(entry: DatasetTable, schema: PublicSchema, path: Path | None = None) -> Vault:
    return Vault(
        path or entry.data, schema.coding, schema.readings, entry.format.format(), schema.persons()
    )
