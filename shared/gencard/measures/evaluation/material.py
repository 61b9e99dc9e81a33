"""Inputs of evaluations: a release, the records behind it, and a holdout."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.domain import Clique
from gencard.core.errors import EmptyDatasetError, InvalidPsiError
from gencard.core.statistics.psi import Psi
from gencard.core.types import FloatArray
from gencard.measures.privacy.attacks.attack import Tables
from gencard.measures.privacy.distances.gower import Gower, Missing, gower_of
from gencard.measures.privacy.distances.nearest import Nearest, nearest
from gencard.measures.privacy.records import Records, records_of
from gencard.measures.utility.gap import GapWords


@dataclass(frozen=True, slots=True)
class Declared:
    """Settings of evaluations; they are declared, so that analysts cannot vary them to learn more.

    Args:
        keys: Attributes that an attacker may know of a person, for ``disclosure``. The target is not one
            of them.
        target: Attribute that an attacker wants to learn, for ``disclosure`` and ``inference``, or that
            a model predicts, for ``predictions``.
        attacks: Records that each attack targets, 10 to 10,000 of the dataset and as many of the
            holdout.
        missing: Missing values in distances: ``category`` makes them a level, ``pairwise`` ignores an
            attribute that is missing in either record.
        gap: Difference of two groups, for ``gap``.
    """

    keys: Clique = ()
    target: str = ""
    attacks: int = 500
    missing: Missing = Missing.CATEGORY
    gap: GapWords | None = None


NOTHING_DECLARED = Declared()


@dataclass(frozen=True, slots=True)
class AllowedTogether:
    """Attributes that a policy allows to be combined.

    Args:
        forbidden: Attribute sets that nothing may hold together.
        largest_order: Most attributes in one table.
    """

    forbidden: tuple[Clique, ...]
    largest_order: int

    def allows(self, attributes: Iterable[str]) -> bool:
        """Whether numbers that depend on all these attributes jointly may be released."""
        present = set(attributes)
        return not any(present.issuperset(clique) for clique in self.forbidden)

    def allows_table(self, attributes: Clique) -> bool:
        """Whether the policy would allow a marginal of these attributes."""
        return len(set(attributes)) <= self.largest_order and self.allows(attributes)


EVERYTHING = AllowedTogether((), 1_000_000)
"""Allows everything: for public records."""


@dataclass(frozen=True)
class Material:
    """Inputs of one evaluation, over the attributes of the release.

    Args:
        coding: What the codes mean.
        cliques: Phi's marginals.
        original: The records that the release was made from; None where they are not looked at.
        holdout: Records of the same population that it was not made from, where there are any.
        psi: What the generator saw, where it is known; all of psi where numbers are known.
        numbers: Numbers of the release, where they are compared with psi.
        seed: Of all draws: the same rows and seed give the same numbers.
        together: Which attributes may be looked at together.
        schema: The whole schema, which numbers are compared under; None if ``coding`` is it.
    """

    synthetic: Dataset
    coding: Coding
    cliques: tuple[Clique, ...]
    declared: Declared
    seed: int
    original: Dataset | None = None
    holdout: Dataset | None = None
    psi: Psi | None = None
    numbers: NumbersOf | None = None
    together: AllowedTogether = EVERYTHING
    schema: Coding | None = None

    @property
    def records(self) -> Dataset:
        """The records; raises EmptyDatasetError if there are none."""
        return _there(self.original)

    @property
    def unseen(self) -> Dataset:
        """The holdout; raises EmptyDatasetError if there is none."""
        return _there(self.holdout)

    @property
    def measured(self) -> Psi:
        """psi; raises InvalidPsiError if it is not known."""
        if self.psi is None:
            raise InvalidPsiError(problem="it is not available here")
        return self.psi

    @cached_property
    def tables(self) -> Tables:
        """Release, records and holdout, with numeric attributes as numbers."""
        return Tables(*map(self.plain, (self.synthetic, self.records, self.unseen)))

    @cached_property
    def gower(self) -> Gower:
        """The Gower distance, scaled by the joint ranges of train and holdout."""
        return gower_of(self.tables.train, self.tables.holdout, missing=self.declared.missing)

    @cached_property
    def to_train(self) -> Nearest:
        return nearest(self.tables.synthetic, self.tables.train, self.gower)

    @cached_property
    def to_holdout(self) -> Nearest:
        return nearest(self.tables.synthetic, self.tables.holdout, self.gower)

    @cached_property
    def to_rows(self) -> tuple[FloatArray, FloatArray]:
        """Distance of each record of train, and of holdout, to the closest row."""
        ours, theirs = (
            nearest(table, self.tables.synthetic, self.gower, second=False).distance
            for table in (self.tables.train, self.tables.holdout)
        )
        return ours, theirs

    def targets(self, table: Records) -> int:
        """Number of records of a table that each attack aims at."""
        return min(self.declared.attacks, len(table))

    def plain(self, dataset: Dataset) -> Records:
        return records_of(dataset, self.coding)

    def rng(self, measure: str) -> np.random.Generator:
        """Random generator of one evaluation, independent of the others that are run."""
        return np.random.Generator(np.random.PCG64([self.seed, *measure.encode()]))


def _there(dataset: Dataset | None) -> Dataset:
    if dataset is None:
        raise EmptyDatasetError
    return dataset
