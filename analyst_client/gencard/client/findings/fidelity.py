"""Reports in our hands: fidelity of rows to psi, and utility beside records that the caller has."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from gencard.client.common.display import (
    Displayable,
    Facts,
    Grid,
    Part,
    WrittenAsPage,
    named,
    number,
    page_module,
    percent,
)
from gencard.client.findings.findings import (
    NumberReport,
    fidelity_result,
    numbers_sentence,
    sentence,
    unseen_words,
)
from gencard.core.card.sums import level_values
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import TooLargeError
from gencard.core.typed_json import PLAIN
from gencard.measures.evaluation.utility_findings import FidelityFinding
from gencard.measures.utility.fidelity import (
    FALSE_ALARMS,
    CellFidelity,
    Fidelity,
    GapWords,
    MarginalFidelity,
    gap_error,
    gap_of,
)
from gencard.measures.utility.numbers import NumberTable
from gencard.measures.utility.prediction import Predictions, Task, analyses, split
from gencard.measures.utility.propensity import Propensity, regression_propensity, tree_propensity
from gencard.measures.utility.table_utility import marginal_error, mean_measure, table_utilities

# Fidelity: how well rows follow psi. Needs no records.

FIDELITY_FORMAT = "gencard.fidelity.v1"
FIDELITY_HEADS = (
    "Marginal",
    "Cells",
    "Total variation",
    "Expected",
    "Bound",
    "Worst cell: in psi, in the rows",
)
_MOST_MARGINALS = 20


@dataclass(frozen=True, repr=False)
class FidelityReport(WrittenAsPage, Displayable):
    """Total variation between rows and psi for each marginal, with expected sampling error.

    Args:
        facts: The numbers, in shares of 1.
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
            *self.about_rows(),
        ]

    def about_rows(self) -> list[tuple[str, str]]:
        """Facts about the rows and the comparison, in names and values."""
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
        """One line for each marginal, the worst first, under ``FIDELITY_HEADS``."""
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
            yield (f"and {more:,} more", *[""] * (len(FIDELITY_HEADS) - 1))

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
        return str(page_module().fidelity_page(self))

    def document(self) -> dict[str, Any]:
        """All numbers as an object of JSON types, in psi's order."""
        marginals = []
        for marginal in self.facts.marginals:
            worst = [
                PLAIN.write(cell) | {"levels": self.levels(marginal.clique, cell)}
                for cell in marginal.worst
            ]
            own = {"beyond_chance": marginal.beyond_chance, "worst": worst}
            marginals.append(asdict(marginal) | own)
        return {
            "format": FIDELITY_FORMAT,
            "about": self.about,
            "wording": self.wording,
            "unit": "shares of 1; stddev in records",
            "rows": self.facts.rows,
            "false_alarms": FALSE_ALARMS,
            "marginals": marginals,
            # a schema without a step has the document of before
            **({} if self.numbers is None else {"unseen": self.unseen, **self.numbers.document()}),
        }

    def _panel(self) -> tuple[str, Sequence[Part]]:
        numbers = self.numbers.grids() if self.numbers else []
        title = f"Fidelity to psi: {self.about}" if self.about else "Fidelity to psi"
        return title, [Facts(self.lines()), *numbers, Grid(FIDELITY_HEADS, self.grid())]


# Utility: as a table and as JSON.

UTILITY_FORMAT = "gencard.utility.v1"
ACCURACY_HEADS = (
    "Trained on",
    "Model",
    "Accuracy on records",
    "Accuracy on rows",
    "Similarity of importances",
)
_WIDEST = 2


@dataclass(frozen=True, slots=True)
class UtilityOptions:
    """Evaluations in addition to tables and propensity scores.

    Args:
        target: Attribute to predict; empty for none.
        predictors: Its predictors; empty for all other attributes.
    """

    target: str = ""
    predictors: Clique = ()
    marginals: tuple[Clique, ...] = ()
    gap: GapWords | None = None


NO_OPTIONS = UtilityOptions()


@dataclass(frozen=True)
class UtilityReport(WrittenAsPage, Displayable):
    """Utility of rows compared with other records; None is what was not requested or not possible.

    Args:
        tables: Mean S_pMSE over the tables of so many attributes; see ``mean_measure``.
        worst: The pair of attributes with the largest S_pMSE.
        regression: None where it would have too many parameters.
        marginals: Marginals by name, and the root mean squared error of each, in shares.
        gap: Root mean squared error of the gap between two groups; None too where no level has both
            records and rows.
        numbers: Figures of numbers; None where no attribute has a step.
    """

    rows: int
    records: int
    tables: tuple[tuple[int, float | None], ...]
    worst: tuple[str, float | None]
    regression: Propensity | None
    tree: Propensity
    predictions: Predictions | None = None
    target: str = ""
    about: str = ""
    marginals: tuple[tuple[str, float], ...] = ()
    gap: float | None = None
    has_gap: bool = False
    numbers: NumberReport | None = None

    def lines(self) -> list[tuple[str, str]]:
        """The findings in names and values."""
        means = ", ".join(f"{number(mean)} of {width}" for width, mean in self.tables)
        words = numbers_sentence(self.numbers.table) if self.numbers else ""
        return [
            ("Compared", f"{self.rows:,} rows, {self.records:,} records"),
            *([("Numbers", words)] if words else []),
            *(self.numbers.left_out() if self.numbers else []),
            (
                "Tables",
                f"mean S_pMSE {means} attributes; worst {self.worst[0]}, {number(self.worst[1])}",
            ),
            ("Regression", _propensity_text(self.regression)),
            ("Tree", _propensity_text(self.tree)),
            ("S_pMSE", "1 is as good as a resample of the records; larger is worse"),
            *((f"Marginal {name}", f"RMSE {error:.3g}") for name, error in self.marginals),
            *([("Gap", f"RMSE {number(self.gap)}")] if self.has_gap else []),
            *([("Target", self.target)] if self.target else []),
        ]

    def grid(self) -> Grid:
        """Accuracies of predictions; empty without a target."""
        predictions = self.predictions
        if predictions is None:
            return Grid(ACCURACY_HEADS, [])
        real, synthetic = predictions.real_forest, predictions.forest
        of_regression = predictions.regression.on_real, predictions.regression.on_synthetic
        of_forest = synthetic.accuracies.on_real, synthetic.accuracies.on_synthetic
        lines = [
            ("records", "regression", percent(predictions.real_regression), "", ""),
            ("rows", "regression", *map(percent, of_regression), ""),
            ("records", "forest", percent(real.accuracy), "", ""),
            ("rows", "forest", *map(percent, of_forest), f"{synthetic.similarity:.3g}"),
        ]
        return Grid(ACCURACY_HEADS, lines)

    def document(self) -> dict[str, Any]:
        """All numbers as an object of JSON types."""
        content = asdict(replace(self, numbers=None))
        del content["has_gap"], content["numbers"]
        for name in ("regression", "tree"):
            propensity: Propensity | None = getattr(self, name)
            if propensity is not None:
                error = content[name].pop("expected_error")
                content[name]["standardised"] = propensity.standardised
                if propensity.standardised is None:  # what is expected is not known: say how badly
                    content[name]["expected_error"] = error if isfinite(error) else None
        return {"format": UTILITY_FORMAT, "unit": "shares of 1; S_pMSE is a ratio", **content} | {
            "tables": {str(width): mean for width, mean in self.tables},
            **({} if self.numbers is None else self.numbers.document()),
        }

    def _page(self) -> str:
        return str(page_module().utility_page(self))

    def _panel(self) -> tuple[str, Sequence[Part]]:
        predictions = [] if self.predictions is None else [self.grid()]
        numbers = self.numbers.grids() if self.numbers else []
        title = f"Utility: {self.about}" if self.about else "Utility"
        return title, [Facts(self.lines()), *numbers, *predictions]


def utility_report(
    synthetic: Dataset,
    original: Dataset,
    coding: Coding,
    options: UtilityOptions = NO_OPTIONS,
    *,
    rng: np.random.Generator,
    about: str = "",
    numbers: NumberTable | None = None,
) -> UtilityReport:
    """Compare rows with records.

    Args:
        numbers: Their numbers, already compared.

    Raises:
        DomainMismatchError: The domains differ.
        InvalidInputError: There is no record, too few for a prediction, scikit-learn is missing, or
            there is no such gap.
        UnknownAttributeError: An attribute is not there.
    """
    attributes = synthetic.domain.attributes
    gap = None if options.gap is None else gap_of(options.gap, coding)
    values = {name: each for name, each in level_values(coding).items() if name in attributes}
    widths = range(1, min(_WIDEST, len(attributes)) + 1)
    tables = {width: table_utilities(original, synthetic, width) for width in widths}
    worst, propensity = max(tables[widths[-1]].items(), key=lambda table: table[1].standardised or 0.0)
    means = ((k, mean_measure(tables[k].values(), "S_pMSE")) for k in widths)
    taught = None
    if options.target:
        others = options.predictors or tuple(name for name in attributes if name != options.target)
        kept = {name: each for name, each in values.items() if name in others}
        task = Task(options.target, others, kept)
        taught = analyses(task, split(original, task.target), synthetic, rng=rng)
    return UtilityReport(
        rows=len(synthetic),
        records=len(original),
        tables=tuple(means),
        worst=(named(worst), propensity.standardised),
        regression=_regression(original, synthetic, values),
        tree=tree_propensity(original, synthetic, values, rng=rng),
        predictions=taught,
        target=options.target,
        about=about,
        marginals=tuple(
            (named(one), marginal_error(original, synthetic, one)) for one in options.marginals
        ),
        gap=None if gap is None else gap_error(original, synthetic, gap, fewest=1),
        has_gap=gap is not None,
        numbers=None if numbers is None else NumberReport(numbers, coding),
    )


def _regression(original: Dataset, synthetic: Dataset, values: dict[str, Any]) -> Propensity | None:
    """With pair interactions if the model permits, else without; None if too large even then."""
    for order in (2, 1):
        try:
            return regression_propensity(original, synthetic, values, order=order)
        except TooLargeError:
            continue
    return None


def _propensity_text(propensity: Propensity | None) -> str:
    if propensity is None:
        return "too many parameters"
    parameters = f", {propensity.parameters:,} parameters" if propensity.parameters else ""
    return f"pMSE {propensity.pmse:.3g}, S_pMSE {number(propensity.standardised)}{parameters}"
