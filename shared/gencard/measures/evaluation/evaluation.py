"""Evaluations: their needs, their disclosure, their price, and their results as numbers."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Any, Self, get_type_hints

from gencard.core.domain import Clique
from gencard.core.typed_json import PLAIN
from gencard.core.types import UNDEFINED
from gencard.measures.evaluation.material import AllowedTogether, Declared, Material

Line = tuple[str, float | None]
"""A number under its name in the literature; None where it is not defined."""


class Finding(ABC):
    """The result of one evaluation; a frozen dataclass of numbers. All shares are from 0 to 1.

    Sentences and figures are made by ``client.report``.
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
