"""Fidelity in our hands: how well rows follow psi, as a table, as a page, as JSON. Needs no records."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gencard.client.common.display import (
    Displayable,
    Facts,
    Grid,
    Part,
    WrittenAsPage,
    named,
    page_module,
    percent,
)
from gencard.client.findings.findings import fidelity_result, sentence, unseen_words
from gencard.client.findings.numbers import NumberReport
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.typed_json import PLAIN
from gencard.measures.evaluation.utility_findings import FidelityFinding
from gencard.measures.utility.fidelity import FALSE_ALARMS, CellFidelity, Fidelity, MarginalFidelity

FORMAT = "gencard.fidelity.v1"
HEADS = ("Marginal", "Cells", "Total variation", "Expected", "Bound", "Worst cell: in psi, in the rows")
_MOST_MARGINALS = 20


@dataclass(frozen=True, repr=False)
class FidelityReport(WrittenAsPage, Displayable):
    """Total variation between rows and psi for each marginal, with expected sampling error.

    Args:
        facts: The numbers, in shares of 1.
        coding: What the codes mean.
        about: Where the rows are from.
    """

    facts: Fidelity
    coding: Coding
    about: str = ""

    @property
    def wording(self) -> str:
        """The finding in a sentence."""
        return fidelity_result(self.facts)

    @property
    def numbers(self) -> NumberReport | None:
        """Means, deviations, quantiles, frequent values and correlations; None without a number."""
        return None if self.facts.numbers is None else NumberReport(self.facts.numbers, self.coding)

    @property
    def unseen(self) -> list[str]:
        """Effects that the comparison cannot show: those inside levels, and below the noise in psi."""
        return unseen_words(self.facts)

    def __repr__(self) -> str:
        return f"<FidelityReport: {sentence(FidelityFinding(self.facts))}>"

    def ordered(self) -> list[MarginalFidelity]:
        """The marginals, largest excess over the bound first."""
        return FidelityFinding(self.facts).ordered

    def lines(self) -> list[tuple[str, str]]:
        """The finding in names and values."""
        return [
            *(("Not seen", words) for words in self.unseen),
            ("Result", self.wording),
            *self._about_rows(),
        ]

    def _about_rows(self) -> list[tuple[str, str]]:
        largest = self.facts.largest
        most = max(marginal.stddev for marginal in self.facts.marginals)
        noise = f"at most ±{most:.3g} records on each count; not part of these distances"
        return [
            ("Rows", f"{self.facts.rows:,}"),
            (
                "Largest",
                f"total variation {percent(largest.total_variation)}, in {named(largest.clique)}",
            ),
            *([("Noise in psi", noise)] if most else []),
            *(self.numbers.left_out() if self.numbers else []),
        ]

    def grid(self) -> Iterator[tuple[str, ...]]:
        """One line for each marginal, the worst first, under ``HEADS``."""
        for marginal in self.ordered()[:_MOST_MARGINALS]:
            yield (
                named(marginal.clique),
                f"{marginal.cells:,}",
                percent(marginal.total_variation) + (" !" if marginal.beyond_chance else ""),
                percent(marginal.expected),
                percent(marginal.bound),
                self.worst(marginal),
            )
        if (more := len(self.facts.marginals) - _MOST_MARGINALS) > 0:
            yield (f"and {more:,} more", *[""] * (len(HEADS) - 1))

    def worst(self, marginal: MarginalFidelity) -> str:
        """The cell with the largest difference."""
        if not marginal.worst:
            return "none differs"
        cell = marginal.worst[0]
        level = named(self.levels(marginal.clique, cell))
        return f"{level}: {percent(cell.target)}, {percent(cell.released)}"

    def levels(self, clique: Clique, cell: CellFidelity) -> tuple[str, ...]:
        """Names of the levels of a cell."""
        pairs = zip(clique, cell.codes, strict=True)
        return tuple(self.coding.attribute(name).coding.level_names[code] for name, code in pairs)

    def _page(self) -> str:
        rendered: str = page_module("findings.pages").fidelity_page(
            self.ordered(),
            about=self.about,
            wording=self.wording,
            unseen=self.unseen,
            lines=self._about_rows(),
            levels=self.levels,
            numbers=self.numbers,
        )
        return rendered

    def document(self) -> dict[str, Any]:
        """All numbers as an object of JSON types, in psi's order."""
        return {
            "format": FORMAT,
            "about": self.about,
            "wording": self.wording,
            "unit": "shares of 1; stddev in records",
            "rows": self.facts.rows,
            "false_alarms": FALSE_ALARMS,
            "marginals": [self._object(marginal) for marginal in self.facts.marginals],
            # a schema without a step has the document of before
            **({} if self.numbers is None else {"unseen": self.unseen, **self.numbers.document()}),
        }

    def _object(self, marginal: MarginalFidelity) -> dict[str, Any]:
        cells = [
            PLAIN.write(cell) | {"levels": self.levels(marginal.clique, cell)} for cell in marginal.worst
        ]
        return asdict(marginal) | {"beyond_chance": marginal.beyond_chance, "worst": cells}

    def _panel(self) -> tuple[str, Sequence[Part]]:
        numbers = self.numbers.grids() if self.numbers else []
        title = f"Fidelity to psi: {self.about}" if self.about else "Fidelity to psi"
        return title, [Facts(self.lines()), *numbers, Grid(HEADS, self.grid())]
