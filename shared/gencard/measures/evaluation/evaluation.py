"""Evaluations: their needs, their disclosure, their price, and their results as numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from html import escape
from typing import Any, Self, get_type_hints

import numpy as np

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.domain import Clique
from gencard.core.errors import EmptyDatasetError, InvalidPsiError
from gencard.core.statistics.psi import Psi
from gencard.core.typed_json import PLAIN
from gencard.core.types import UNDEFINED, FloatArray
from gencard.measures.privacy.attacks.attack import Tables
from gencard.measures.privacy.distances.gower import Gower, Missing, gower_of
from gencard.measures.privacy.distances.nearest import Nearest, nearest
from gencard.measures.privacy.records import Records, records_of
from gencard.measures.utility.gap import GapWords

# Inputs of evaluations: a release, the records behind it, and a holdout.


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


Line = tuple[str, float | None]
"""A number under its name in the literature; None where it is not defined."""


class Finding(ABC):
    """The result of one evaluation; a frozen dataclass of numbers. All shares are from 0 to 1.

    Sentences and figures are made by ``client.card_report``.
    """

    __slots__ = ()

    @property
    def stands_out(self) -> bool:
        """Whether it exceeds its own baseline; False for evaluations that have none."""
        return False

    @property
    def undecided(self) -> bool:
        """Whether it could not exceed its baseline: a number is undefined, or the holdout too small."""
        return False

    @property
    @abstractmethod
    def lines(self) -> tuple[Line, ...]:
        """The main numbers, for a table."""

    @abstractmethod
    def rounded(self, material: Material) -> Self:
        """The finding as it may be released: each number rounded to its sampling error.

        Args:
            material: Material that the finding was computed from.
        """

    def __str__(self) -> str:
        return "\n".join(f"{name}: {_plain(value)}" for name, value in self.lines)

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td>{_plain(value)}</td></tr>"
            for name, value in self.lines
        )
        return f"<table>{rows}</table>"


def finding_to_json_object(finding: Finding) -> dict[str, Any]:
    """The numbers of a finding by name; arrays are lists."""
    document: dict[str, Any] = PLAIN.write(finding)
    return document


def _plain(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:.4g}"


class Group(StrEnum):
    """Property that an evaluation examines."""

    FIDELITY = "fidelity"
    RISK = "risk"
    UTILITY = "utility"


class Need(StrEnum):
    """Inputs of an evaluation besides the release."""

    PSI = "psi"
    RECORDS = "records"
    HOLDOUT = "a holdout"
    TARGET = "a declared target among the attributes of the release"
    GAP = "a declared gap between attributes of the release"
    KEYS = "declared keys among the attributes of the release"


class Sight(StrEnum):
    """Attributes of the records that an evaluation combines."""

    NOTHING = "nothing"
    PHI = "each marginal of Phi"
    KEYS = "the declared keys with the target"
    GAP = "the attributes of the declared gap"
    TABLES = "small sets of attributes, as far as they may be examined together"
    WHOLE = "all attributes of the card"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation.

    Args:
        find: Computes it; may raise any GencardError if the records do not allow it.
        price: Most numbers in a finding about records, which is its price in statistics; or how many
            they are, given the attributes of the release and the marginals of Phi.
        sight: Attributes that the measure examines together.
    """

    name: str
    group: Group
    needs: tuple[Need, ...]
    find: Callable[[Material], Finding]
    price: int | Callable[[int, int], int]
    sight: Sight = Sight.WHOLE

    @property
    def kind(self) -> type[Finding]:
        """The type of its findings."""
        kind: type[Finding] = get_type_hints(self.find)["return"]
        return kind

    def numbers(self, attributes: int, marginals: int) -> int:
        """Return the price of the measure, in statistics.

        Args:
            attributes: Number of attributes of the release.
            marginals: Number of marginals of Phi.
        """
        return self.price if isinstance(self.price, int) else self.price(attributes, marginals)

    @property
    def reads_records(self) -> bool:
        return Need.RECORDS in self.needs

    def lacks(self, attributes: Clique, declared: Declared, *, holdout: bool) -> tuple[Need, ...]:
        """Missing inputs, as far as they are known without reading a record."""
        there = {
            Need.PSI: True,
            Need.RECORDS: True,
            Need.HOLDOUT: holdout,
            Need.TARGET: declared.target in attributes,
            Need.GAP: declared.gap is not None and set(declared.gap.attributes) <= set(attributes),
            Need.KEYS: any(name in attributes for name in declared.keys if name != declared.target),
        }
        return tuple(need for need in self.needs if not there[need])

    def why_not(
        self,
        together: AllowedTogether,
        attributes: Clique,
        declared: Declared,
        cliques: tuple[Clique, ...],
    ) -> str | None:
        """Why a policy does not allow this evaluation for a card; None if it does.

        Numbers of one named table need a policy that allows this table. Numbers of all attributes at
        once (distances, attacks, uniques, models) need that no forbidden set is among them; the largest
        order is about tables, and does not bind them.

        Args:
            attributes: Attributes of the card.
            cliques: Marginals of the card.
        """
        allowed = self._allowed(together, attributes, declared, cliques)
        return None if allowed else f"the policy does not allow examining {self.sight} together"

    def _allowed(
        self,
        together: AllowedTogether,
        attributes: Clique,
        declared: Declared,
        cliques: tuple[Clique, ...],
    ) -> bool:
        match self.sight:  # each case returns, so that mypy finds a sight without one
            case Sight.NOTHING | Sight.TABLES:
                return True
            case Sight.WHOLE:
                return together.allows(attributes)
            case Sight.PHI:
                return all(map(together.allows_table, cliques or [(name,) for name in attributes]))
            case Sight.GAP:
                return declared.gap is None or together.allows_table(declared.gap.attributes)
            case Sight.KEYS:
                known = tuple(name for name in declared.keys if name in attributes)
                return together.allows_table((*known, declared.target))
