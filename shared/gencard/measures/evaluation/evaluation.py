"""Evaluations: their needs, their disclosure, their price, and their results as rounded numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from html import escape
from math import ceil, floor, isfinite, log10, sqrt
from typing import Any, Self, TypeVar, assert_never, get_type_hints

import numpy as np

from gencard.core.coding import Coding
from gencard.core.dataset import Dataset, NumbersOf
from gencard.core.domain import Clique
from gencard.core.errors import EmptyDatasetError, InvalidPsiError
from gencard.core.statistics.psi import Psi
from gencard.core.typed_json import PLAIN
from gencard.core.types import UNDEFINED, FloatArray
from gencard.measures.privacy.attacks import Proportion, Tables
from gencard.measures.privacy.distances import Gower, Missing, Records, gower_of, records_of
from gencard.measures.privacy.nearest import Nearest, nearest
from gencard.measures.utility.fidelity import GapWords

# Rounding of numbers about records to their sampling error.
#
# A number is rounded to a multiple of the smallest of 1, 2 or 5 times a power of ten that is not below
# its standard error. The standard error is
#
# * of a share p of m records: :math:`\sqrt{\tilde p (1 - \tilde p) / m}`, where
#   :math:`\tilde p = (m p + 2) / (m + 4)` (Agresti and Coull 1998), which is not 0 at p = 0; and never
#   less than ten records, so that one record more or less seldom shows;
# * of another number between bounds that are ``span`` apart: span / 2 / sqrt(m), the largest of any
# mean;
# * of a number without bounds: its own size / sqrt(m), which no chi-squared statistic goes below.


Named = tuple[tuple[str, float | None], ...]
"""Numbers under their names in the literature; None for one that is not defined."""

_BETWEEN = {"JSD": 1.0, "SPECKS": 1.0, "dBhatt": 1.0, "MabsDD": 2.0, "PO50": 100.0}
"""Measures of tables that are bounded, and the width of their range."""

FEWEST = 10
"""Smallest number of records that a rounding step of a share represents."""


def step(error: float) -> float:
    """The smallest number of the form 1, 2 or 5 times a power of ten that is at least ``error``.

    >>> [step(error) for error in (0.0058, 0.2, 0.011, 3.0)]
    [0.01, 0.2, 0.02, 5.0]
    """
    power = floor(log10(error))
    return next(
        size
        for size in (float(f"{digit}e{power}") for digit in (1, 2, 5, 10))
        if size >= error * (1 - 1e-9)
    )


Value = TypeVar("Value", float, float | None)
"""A number, or one that may be None where it is not defined: then None stays."""


def rounded_share(share: Value, size: int) -> Value:
    """A share of ``size`` records.

    >>> [rounded_share(share, 1_000) for share in (0.0, 0.004, 0.3333, 1.0)]
    [0.0, 0.0, 0.34, 1.0]
    """
    if share is None:
        return share
    middle = (size * share + 2) / (size + 4)
    return _nearest(share, max(sqrt(middle * (1 - middle) / size), FEWEST / size))


def rounded_between(value: Value, size: int, span: float = 1.0) -> Value:
    """A bounded number whose range has width ``span``."""
    return value if value is None else _nearest(value, span / 2 / sqrt(size))


def rounded_freely(value: Value, size: int) -> Value:
    """A number without bounds, such as a chi-squared statistic.

    >>> rounded_freely(3.2713, 900)
    3.2
    """
    return _nearest(value, abs(value) / sqrt(size)) if value and isfinite(value) else value


def rounded_count(count: int) -> int:
    """A number of records.

    >>> [rounded_count(count) for count in (0, 500, 32_561)]
    [0, 500, 32600]
    """
    return round(_nearest(count, max(sqrt(count), 1.0)))


def rounded_outward(low: float, high: float, size: int) -> tuple[float, float]:
    """An interval of shares, rounded outwards."""
    width = step(1 / 2 / sqrt(size))
    ends = floor(low / width + 1e-9) * width, ceil(high / width - 1e-9) * width
    return max(0.0, _clean(ends[0])), min(1.0, _clean(ends[1]))


def rounded_shares(shares: Iterable[float], size: int) -> tuple[float, ...]:
    """Several shares of ``size`` records."""
    return tuple(rounded_share(share, size) for share in shares)


def rounded_named_shares(shares: Named, size: int) -> Named:
    """Shares of ``size`` records with their names."""
    return tuple((name, rounded_share(value, size)) for name, value in shares)


def rounded_measures(measures: Named, size: int) -> Named:
    """Measures of a table, bounded or not, with their names."""
    return tuple(
        (name, rounded_between(value, size, _BETWEEN[name]))
        if name in _BETWEEN
        else (name, rounded_freely(value, size))
        for name, value in measures
    )


def rounded_gaps(gaps: Iterable[float | None], sizes: Iterable[int]) -> tuple[float | None, ...]:
    """Gaps from -1 to 1, each of its own number of records; None where it is not defined.

    The gap of the rows in a level of fewer than ``FEWEST`` records is rounded as if it had so many.
    """
    return tuple(
        rounded_between(gap, max(size, FEWEST), 2.0) for gap, size in zip(gaps, sizes, strict=True)
    )


def rounded_proportion(proportion: Proportion) -> Proportion:
    """A proportion with rounded attempts."""
    attempts = max(1, rounded_count(proportion.attempts))
    return Proportion(round(rounded_share(proportion.share, attempts) * attempts), attempts)


def _nearest(value: float, error: float) -> float:
    width = step(error)
    return _clean(round(value / width) * width)


def _clean(value: float) -> float:
    """Rounded to the significant digits of floating point; never -0."""
    return float(f"{value:.12g}") + 0.0


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
        cliques: Phi's marginals.
        original: The records that the release was made from; None where they are not looked at.
        holdout: Records of the same population that it was not made from, where there are any.
        psi: What the generator saw, where it is known; all of psi where numbers are known.
        numbers: Numbers of the release, where they are compared with psi.
        seed: Of all draws: the same rows and seed give the same numbers.
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
        synthetic, train, holdout = (
            records_of(each, self.coding) for each in (self.synthetic, self.records, self.unseen)
        )
        return Tables(synthetic, train, holdout)

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

    def rng(self, measure: str) -> np.random.Generator:
        """Random generator of one evaluation, independent of the others that are run."""
        return np.random.Generator(np.random.PCG64([self.seed, *measure.encode()]))


def _there(dataset: Dataset | None) -> Dataset:
    if dataset is None:
        raise EmptyDatasetError
    return dataset


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
    def lines(self) -> Named:
        """The main numbers, for a table."""

    @abstractmethod
    def rounded(self, material: Material) -> Self:
        """The finding as it may be released: each number rounded to its sampling error."""

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
        """Return the price of the measure, in statistics."""
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
        """
        match self.sight:
            case Sight.NOTHING | Sight.TABLES:
                allowed = True
            case Sight.WHOLE:
                allowed = together.allows(attributes)
            case Sight.PHI:
                allowed = all(map(together.allows_table, cliques or [(name,) for name in attributes]))
            case Sight.GAP:
                allowed = declared.gap is None or together.allows_table(declared.gap.attributes)
            case Sight.KEYS:
                known = tuple(name for name in declared.keys if name in attributes)
                allowed = together.allows_table((*known, declared.target))
            case _:
                assert_never(self.sight)
        return None if allowed else f"the policy does not allow examining {self.sight} together"
