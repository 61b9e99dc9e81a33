"""Where records come from: a file or folder in the vault, or a table of a database, by one interface."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import UndeclaredLevelError
from gencard.core.statistics.measure import MarginalSource
from gencard.core.types import FloatArray, VersionKind


class RecordSource(MarginalSource, Protocol):
    """Records under a public schema: they can be counted, checked, and read up to a bound.

    Every method may raise DatasetUnavailableError, MissingAttributeError, UndeclaredLevelError and
    EmptyDatasetError.
    """

    @property
    def coding(self) -> Coding:
        """What their values may be."""
        ...

    @property
    def version_kind(self) -> VersionKind:
        """What a version is an HMAC of."""
        ...

    def digest(self, salt: bytes) -> str:
        """Says whether two sources are the same one, in hex."""
        ...

    def version(self, salt: bytes, digest: str = "") -> str:
        """Says whether the records are the same, in hex: another one wherever their counts differ."""
        ...

    def confirm(self, version: str, salt: bytes) -> None:
        """Raises DatasetChangedError where the records are not the version named."""
        ...

    def check(self) -> None:
        """Raises UndeclaredLevelError, which names all attributes with undeclared values."""
        ...

    def dataset(self, attributes: Clique, *, most_records: int) -> Dataset:
        """The records on some attributes, in memory; raises TooManyRecordsError."""
        ...

    def read(
        self, attributes: Clique, uncoded: Clique, *, most_records: int
    ) -> tuple[Dataset, dict[str, FloatArray]]:
        """The same, and numbers of some attributes as they are stored; raises TooManyRecordsError."""
        ...


def checked_cliques(coding: Coding) -> list[Clique]:
    """What is counted to check records: each attribute, then each structural zero."""
    alone = [(name,) for name in coding.domain.attributes]
    return [*alone, *(entry.clique for entry in coding.structural_zeros)]


def check_zeros(coding: Coding, tables: Sequence[NDArray[np.int64]]) -> None:
    """Nothing occurs that cannot.

    Args:
        tables: Counts of ``checked_cliques``.

    Raises:
        UndeclaredLevelError: Names the attributes of a structural zero that occurs.
    """
    zeros = coding.structural_zeros
    for entry, table in zip(zeros, tables[len(tables) - len(zeros) :], strict=True):
        if any(table[cell] for cell in entry.cells):
            raise UndeclaredLevelError(attribute=", ".join(entry.clique))
