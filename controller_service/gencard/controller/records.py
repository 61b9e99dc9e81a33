"""Datasets of the settings as they are offered; their records are read for a version, or a check."""

from collections.abc import Iterator
from contextlib import contextmanager

from gencard.controller.holdings import PREFIX, Holding, Holdout
from gencard.controller.schema_file import PublicSchema, read_schema
from gencard.controller.settings_tables import DatasetEntry
from gencard.controller.vault import Vault
from gencard.core.errors import GencardError


def holding_of(entry: DatasetEntry, salt: bytes) -> Holding:
    """A dataset on offer, with the version that its records are of.

    Args:
        salt: Secret of the digests of records.

    Raises:
        InvalidInputError, DatasetError: Schema or records are not in order.
    """
    schema = read_schema(entry.schema_file)
    return Holding(
        name=f"{PREFIX}{entry.name}",
        schema=schema,
        policy=entry.policy.policy(),
        data=entry.data,
        version=_vault(entry, schema).version(salt),
        holdout=_holdout(entry, schema, salt),
        declared=entry.measures.declared(),
    )


def check_records(entry: DatasetEntry) -> PublicSchema:
    """Read every record once; the schema that all of them keep to.

    Raises:
        InvalidInputError, DatasetError: Schema or records are not in order.
    """
    schema = read_schema(entry.schema_file)
    with _naming(f"{PREFIX}{entry.name}: data"):
        _vault(entry, schema).check()
    if entry.holdout is not None:
        with _naming(f"{PREFIX}{entry.name}: holdout"):
            Vault(entry.holdout, schema.coding, schema.absent).check()
    return schema


@contextmanager
def _naming(place: str) -> Iterator[None]:
    """Say with an error which file it is about."""
    try:
        yield
    except GencardError as error:
        error.add_note(f"In {place}.")
        raise


def _holdout(entry: DatasetEntry, schema: PublicSchema, salt: bytes) -> Holdout | None:
    if entry.holdout is None:
        return None
    return Holdout(entry.holdout, Vault(entry.holdout, schema.coding, schema.absent).version(salt))


def _vault(entry: DatasetEntry, schema: PublicSchema) -> Vault:
    return Vault(entry.data, schema.coding, schema.absent)
