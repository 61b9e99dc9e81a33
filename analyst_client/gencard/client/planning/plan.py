"""A plan: the statistics that an analysis needs, and the offer for them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from gencard.client.arguments import checked
from gencard.client.card import Card
from gencard.client.card_view import CHANGE_HEADS, CHANGED, change_lines
from gencard.client.display import Diff, Displayable, Facts, Grid, Part
from gencard.core.card.budget import Price
from gencard.core.card.card import Change
from gencard.core.card.terms import Proposal
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.statistics.formula import Analysis, Formula

_HEADS = ("Marginal", "Cells", "For")
_MOST_MARGINALS = 20


@dataclass(frozen=True, slots=True, repr=False)
class Plan(Displayable):
    """The smallest Phi that determines an analysis, with its price; nothing was stored or spent.

    Args:
        formula: Response and predictors.
        kind: Type of analysis.
        marginals: The smallest Phi.
        coding: The dataset's schema.
        answer: The card that the controller would offer, priced only.
        ask: Proposes these marginals on the dataset.
    """

    formula: Formula
    kind: Analysis
    marginals: tuple[Clique, ...]
    coding: Coding = field(repr=False)
    answer: Card
    ask: Callable[..., Card] = field(repr=False)

    @checked()
    def propose(self, *, purpose: str, generator: str | None = None, rows: int | None = None) -> Card:
        """Propose the card; generator and rows default to those of the plan.

        Raises:
            ProposalRefusedError: The policy refuses the proposal and has no counter-offer.
        """
        given = {"generator": generator, "rows": rows}
        others = {name: value for name, value in given.items() if value is not None}
        return self.ask(purpose=purpose, **others)

    @property
    def price(self) -> Price:
        """Price of the offer."""
        return self.answer.price

    @property
    def changes(self) -> tuple[Change, ...]:
        """Differences between the offer and the plan."""
        return self.answer.changes

    @property
    def lacking(self) -> tuple[Clique, ...]:
        """Marginals that the offer does not determine; if any, the analysis is impossible."""
        return self.lacking_in(self.answer.terms)

    def lacking_in(self, terms: Proposal) -> tuple[Clique, ...]:
        """Marginals that some terms do not determine."""
        offered = [frozenset(clique) for clique in terms.marginals]
        return tuple(
            clique for clique in self.marginals if not any(wide.issuperset(clique) for wide in offered)
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """Attributes of the formula that have a level "missing"."""
        attributes = map(self.coding.attribute, self.coding.domain.covered_by(self.marginals).attributes)
        return tuple(attribute.name for attribute in attributes if attribute.coding.missing)

    @property
    def next_step(self) -> str:
        """The next step."""
        if self.lacking:
            return "plan a smaller formula: the offer would not determine this one"
        return "propose(purpose=...)"

    def purposes(self) -> Iterator[tuple[Clique, str]]:
        """Each marginal, and the terms of the formula whose sufficient statistic it is."""
        response = {self.formula.response} - {None}
        for clique in self.marginals:
            inside = [":".join(term) for term in self.formula.terms if response | {*term} <= {*clique}]
            yield clique, ", ".join(inside) or self._beside_terms(clique)

    def lines(self) -> list[tuple[str, str]]:
        """The plan in names and values."""
        lines = [
            ("Analysis", str(self.kind)),
            ("Price", f"{self.price}{' (for the offered terms)' * bool(self.changes)}"),
            ("Next", self.next_step),
        ]
        if self.missing:
            note = "dropping these records would be a different analysis"
            lines.append(("Missing", f"a separate level of {', '.join(self.missing)}; {note}"))
        if self.lacking:
            lines.append(("Not determined", "; ".join(" × ".join(clique) for clique in self.lacking)))
        return lines

    def __repr__(self) -> str:
        return f"<Plan {self.formula}: {len(self.marginals)} marginals, {self.price}; {self.next_step}>"

    def _beside_terms(self, clique: Clique) -> str:
        return "the response" if clique == (self.formula.response,) else "features together"

    def _grid(self) -> list[tuple[str, str, str]]:
        """The first marginals, as table lines."""
        domain, more = self.coding.domain, len(self.marginals) - _MOST_MARGINALS
        lines = [
            (" × ".join(clique), f"{domain.project(clique).cells:,}", purpose)
            for clique, purpose in self.purposes()
        ]
        return lines if more <= 0 else [*lines[:_MOST_MARGINALS], (f"and {more:,} more", "", "")]

    def _panel(self) -> tuple[str, Sequence[Part]]:
        parts: list[Part] = [Facts(self.lines()), Grid(_HEADS, self._grid())]
        if self.changes:
            parts += [CHANGED, Diff(CHANGE_HEADS, change_lines(self.changes))]
        return str(self.formula), parts
