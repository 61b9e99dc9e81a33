"""The datasets on offer, as public facts: schema, policy, version. No record is read."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from gencard.controller.records.file_format import USUAL, FileFormat
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.records.table_address import TableAddress
from gencard.core.domain import Domain
from gencard.core.errors import NotFoundError
from gencard.core.policy import Policy, Rules
from gencard.core.types import VersionKind
from gencard.measures.evaluation.evaluation import NOTHING_DECLARED, Declared
from gencard.wire.psi import coding_digest

PREFIX = "datasets/"


class DatasetSource(Protocol):
    """A dataset before its records are read; a table of the settings is one.

    Records are opened by these facts, so that no room below the settings imports them.
    """

    @property
    def name(self) -> str:
        """Name without ``datasets/``."""

    @property
    def schema_file(self) -> Path: ...

    @property
    def data(self) -> Path | TableAddress: ...

    @property
    def holdout(self) -> Path | TableAddress | None:
        """Place of other records under the same schema."""

    @property
    def file_format(self) -> FileFormat: ...

    @property
    def policy(self) -> Policy: ...

    @property
    def measures(self) -> Declared:
        """Declarations for evaluations."""


@dataclass(frozen=True, slots=True)
class Holdout:
    """Place of the records, their version, and the salted digest of their file or table's place."""

    data: Path | TableAddress
    version: str
    digest: str


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """One dataset on offer.

    Args:
        name: datasets/{dataset}.
        data: Place of its records: a file or folder, which only the vault opens, or a table.
        version: Salted digest of the records and of how they are read, in hex.
        digest: Salted digest of their file alone, or of the place of their table.
        holdout: Other records under the same schema, that no release is made from, and their version.
        version_kind: Content of which the version is an HMAC.
        covers_values: Whether the version changes with each value; else no stored number is given out.
        coding_digest: Digest of the schema's coding, which cards name.
    """

    name: str
    schema: PublicSchema
    policy: Policy
    data: Path | TableAddress
    version: str
    digest: str
    holdout: Holdout | None = None
    declared: Declared = NOTHING_DECLARED
    format: FileFormat = USUAL
    version_kind: VersionKind = VersionKind.BYTES
    covers_values: bool = True
    coding_digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # here, so that no reloaded or replaced policy sells noise for a record as noise for a person,
        # or stored numbers of two states of a table under one version
        policy = self.policy.for_persons(self.schema.most_records)
        if not self.covers_values:
            policy = policy.without_numbers(self.schema.coding.with_step)
        object.__setattr__(self, "policy", policy)
        object.__setattr__(self, "coding_digest", coding_digest(self.schema.coding))

    @property
    def domain(self) -> Domain:
        return self.schema.coding.domain

    @property
    def run_rules(self) -> Rules:
        """Rules of checked runs, for persons if each may have several records."""
        return self.policy.analyses.rules.of_persons(self.schema.most_records)

    def covers(self, names: Iterable[str]) -> bool:
        """Whether the version changes with each number of some attributes: all do that have a step."""
        return self.covers_values or {*names} <= {*self.schema.coding.with_step}

    @property
    def versions(self) -> dict[str, str]:
        """Digests of schema and records for the log; digests of records are salted."""
        versions = {"schema_digest": self.coding_digest, "version": self.version}
        return versions | ({"holdout_version": self.holdout.version} if self.holdout else {})


class Catalogue:
    """All datasets on offer, by name."""

    def __init__(self, catalogue: Iterable[DatasetEntry]) -> None:
        self.set(catalogue)

    def set(self, catalogue: Iterable[DatasetEntry]) -> None:
        """Put these on offer, all at once."""
        self._by_name = {one.name: one for one in sorted(catalogue, key=lambda one: one.name)}

    def __iter__(self) -> Iterator[DatasetEntry]:
        return iter(self._by_name.values())

    def named(self, name: str) -> DatasetEntry:
        """Raises NotFoundError for a name that is not on offer."""
        if name not in self._by_name:
            raise NotFoundError(what=f"dataset '{name.removeprefix('datasets/')}'")
        return self._by_name[name]


def dataset_of(name: str) -> str:
    """Return the dataset that a resource below it belongs to.

    >>> dataset_of("datasets/census/cards/5f")
    'datasets/census'

    Raises:
        NotFoundError: The name is not below a dataset.
    """
    parts = name.split("/")
    if len(parts) < 2 or parts[0] != "datasets" or not all(parts):
        raise NotFoundError
    return "/".join(parts[:2])
