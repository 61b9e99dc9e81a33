"""Whom an attack is aimed at, and what of them it knows."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gencard.core.domain import Clique
from gencard.core.errors import (
    InvalidCliqueError,
    InvalidDatasetError,
    InvalidNumberError,
    UnknownAttributeError,
)
from gencard.core.privacy.records import Records, check_same_kinds


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Synthetic records, the real ones they were made from, and others of the same population.

    Raises:
        DomainMismatchError: The attributes differ.
        InvalidDatasetError: A table is empty.
    """

    synthetic: Records
    train: Records
    holdout: Records

    def __post_init__(self) -> None:
        for table in (self.synthetic, self.train, self.holdout):
            check_same_kinds(self.synthetic.kinds, table.kinds)
            if not len(table):
                raise InvalidDatasetError(problem="a table to attack has no records")


def check_known(clique: Clique, attributes: Iterable[str]) -> None:
    """Refuse a choice of attributes that is none.

    Raises:
        InvalidCliqueError: It is empty or names an attribute twice.
        UnknownAttributeError: It names what is not among the attributes.
    """
    if not clique or len(set(clique)) != len(clique):
        raise InvalidCliqueError(clique=", ".join(clique), problem="it is empty or repeats an attribute")
    for name in sorted(set(clique) - set(attributes)):
        raise UnknownAttributeError(attribute=name)


def drawn(records: Records, count: int, rng: np.random.Generator) -> Records:
    """So many different records, each as likely, in random order.

    Raises:
        InvalidNumberError: Fewer than 1, or more than there are.
    """
    if not 1 <= count <= len(records):
        expected = "at least 1, and at most the records of train and of holdout"
        raise InvalidNumberError(field="The number of attacks", expected=expected)
    return records.take(rng.choice(len(records), count, replace=False))
