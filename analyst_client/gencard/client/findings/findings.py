"""Findings in sentences; title, reading and limits of each evaluation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from math import floor, log10
from typing import Any

import numpy as np

from gencard.client.common.display import Grid, Part, interval, named, number, percent
from gencard.core.coding import Coding, Edges, date_of_days, time_text
from gencard.core.domain import Clique
from gencard.core.typed_json import PLAIN
from gencard.core.types import UNDEFINED
from gencard.measures.evaluation import risk_findings as risk
from gencard.measures.evaluation import utility_findings as utility
from gencard.measures.evaluation.evaluation import Finding
from gencard.measures.utility.fidelity import Fidelity
from gencard.measures.utility.numbers import NumberFigure, NumberTable, Source, Statistic

# Figures of numbers in words: one table for fidelity and utility, and what is not compared.

HEADS = ("Number", "Figure", "In psi", "In the rows", "Sampling error", "From")
"""Heads of the table that compares rows with psi."""

RECORD_HEADS = ("Number", "Figure", "In the records", "In the rows", "Sampling error")
"""Heads of the table that compares rows with records."""

MOST_NAMES = 6
"""Names in a sentence."""

_MOST_DECIMALS = 6
_MOST_DIGITS = 5
_MOST_FIGURES = 60
_NO_SD = "psi has no sum of squares and no exact counts, or noise hides it"
_NO_CORRELATION = (
    "psi lacks sums, products or squares over the records that have both, or noise hides it"
)
_CONSTANT = "the records have one value only, or none"


def is_of_psi(table: NumberTable) -> bool:
    """Return whether rows are compared with psi, and not with records."""
    return all(one.source is not Source.RECORDS for one in table.figures)


@dataclass(frozen=True, slots=True)
class NumberReport:
    """Figures of numbers, with the schema that says how numbers of an attribute are written."""

    table: NumberTable
    coding: Coding

    @property
    def heads(self) -> tuple[str, ...]:
        """Heads of the table's columns."""
        return HEADS if is_of_psi(self.table) else RECORD_HEADS

    def lines(self, most: int) -> Iterator[tuple[str, ...]]:
        """One line for each figure, under ``heads``; a last one says how many are not shown."""
        before: Clique = ()
        for one in self.table.figures[:most]:
            name = "" if one.attributes == before else named(one.attributes)
            before = one.attributes
            rows = UNDEFINED if one.rows is None else value_text(one, one.rows, self.coding)
            figures = (one.known, one.low, one.high)
            known, low, high = (value_text(one, each, self.coding) for each in figures)
            bounds = "" if low == high else f" ({low} to {high})"
            noise = f" ± {error_text(one, one.noise)}" if one.noise else ""
            cells = (
                name,
                figure_name(one, self.coding),
                f"{known}{bounds}{noise}",
                rows + (" !" if one.beyond_chance else ""),
                f"± {error_text(one, one.stderr)}",
                str(one.source),
            )
            yield cells[: len(self.heads)]
        if (more := len(self.table.figures) - most) > 0:
            yield (f"and {more:,} more", *[""] * (len(self.heads) - 1))

    def grids(self) -> list[Part]:
        """The table for terminals and notebooks; none without a figure."""
        return [Grid(self.heads, self.lines(_MOST_FIGURES), numbers=True)] if self.table.figures else []

    def document(self) -> dict[str, Any]:
        """The table as an object of JSON types, under its name."""
        return {"numbers": PLAIN.write(self.table)}

    def left_out(self) -> list[tuple[str, str]]:
        """Names of the figures that the table leaves out, with the reasons."""
        table, lines = self.table, []
        if table.without_numbers:
            reason = "the rows have levels in place of numbers"
            lines.append(f"{listed(table.without_numbers)}: {reason}")
        if table.without_sd:
            reason = _NO_SD if is_of_psi(self.table) else _CONSTANT
            lines.append(f"sd of {listed(table.without_sd)}: {reason}")
        if table.without_correlation:
            pairs = listed([named(pair) for pair in table.without_correlation])
            reason = _NO_CORRELATION if is_of_psi(self.table) else _CONSTANT
            lines.append(f"correlation of {pairs}: {reason}")
        return [("Not compared", line) for line in lines]


def figure_name(one: NumberFigure, coding: Coding) -> str:
    """The name of a figure, with the unit of a deviation of dates and times."""
    own = _edges(one, coding)
    match one.statistic:
        case Statistic.QUANTILE:
            return f"q{100 * (one.at or 0.0):02.0f}"
        case Statistic.SHARE:
            return f"share of {_on_scale(own, one.at or 0.0)}"
        case Statistic.SD if own.dates or own.times:
            return "sd, days" if own.dates else "sd, minutes"
    return str(one.statistic)


def value_text(one: NumberFigure, value: float, coding: Coding) -> str:
    """A figure as its attribute is written; means have the digits that errors leave."""
    own = _edges(one, coding)
    match one.statistic:
        case Statistic.SHARE:
            return percent(value)
        case Statistic.CORRELATION:
            return number(value, ".3f").replace("-", "−")
        case Statistic.QUANTILE:
            return _on_scale(own, value)
        case Statistic.MEAN if own.dates or own.times:
            return _on_scale(own, floor(value + 0.5))
    error = max(one.stderr, one.noise)
    digits = 1 - floor(log10(error)) if error > 0 else own.decimals or 0
    return f"{value:,.{min(max(digits, 0), _MOST_DECIMALS)}f}".replace("-", "−")


def error_text(one: NumberFigure, error: float) -> str:
    """A standard error, in the unit of its figure."""
    two_digits = float(f"{error:.2g}")
    return percent(two_digits) if one.statistic is Statistic.SHARE else f"{two_digits:,.7g}"


def _edges(one: NumberFigure, coding: Coding) -> Edges:
    own = coding.attribute(one.attributes[0]).coding
    if not isinstance(own, Edges):
        raise ValueError
    return own


def _on_scale(own: Edges, value: float) -> str:
    """A number of an attribute as its values are written, in ``_MOST_DIGITS`` digits."""
    if own.dates:
        return date_of_days(value).isoformat()
    if own.times:
        return time_text(value)
    whole = floor(log10(abs(value))) if value else 0
    places = min(own.decimals or 0, max(_MOST_DIGITS - 1 - whole, 0))
    text = f"{value:,.{places}f}".replace("-", "−")
    return text.rstrip("0").removesuffix(".") if places else text


def numbers_sentence(table: NumberTable | None) -> str:
    """Number of figures that differ, in a sentence; empty without a table."""
    if table is None or not table.figures:
        return ""
    differing, total = len(table.unexplained), len(table.figures)
    by = "bounds, noise and sampling error" if is_of_psi(table) else "sampling error"
    if not differing:
        return f"No figure of a number differs by more than {by}."
    return f"{differing:,} of {total:,} figures of numbers differ by more than {by}."


def listed(names: Sequence[str] | Clique) -> str:
    """Names in a sentence, the first ones of many.

    >>> listed(["a", "b"])
    'a, b'
    """
    more = len(names) - MOST_NAMES
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown


# Title, reading and limits of each evaluation, and its result in a sentence.

_DCR_LIMITS = (
    "DCR is no proof of privacy: records were reconstructed from generators that pass it "
    "(arXiv 2312.05114), and attacks by distance find only part of what leaks (arXiv 2405.10994)."
)
_MODEL = "what the rows say is the generator's model, no statistic of the records."
_ATTACK_LIMITS = "Another attack may succeed where this one failed; a risk of 0 is no proof of privacy."


@dataclass(frozen=True, slots=True)
class Explanation:
    """An evaluation for readers of a report: how to read it, and what it does not show."""

    title: str
    reading: str
    limits: str


EXPLANATIONS = {
    "fidelity": Explanation(
        "Fidelity to psi",
        "Dot: the rows, a diamond where they exceed the bound. Ring: expected sampling error. Tick: a "
        "bound that sampling error exceeds in about 1 % of releases.",
        "It compares the rows with psi and reads no record. It does not see what psi does not hold.",
    ),
    "row-uniques": Explanation(
        "Unique rows and small counts",
        "A unique row is made up, and points to a person only if the records hold the same one. A cell "
        "of psi that counts one record states a fact about one person.",
        "It reads no record: copies, nearness and attacks are other evaluations.",
    ),
    "dcr": Explanation(
        "Distance to the closest record",
        "The distances from rows to training records and to holdout records should have the same "
        "distribution. If rows are nearer to the training records, or more of them are copies, the "
        "release contains more of these people than similarity can explain.",
        _DCR_LIMITS,
    ),
    "clones": Explanation(
        "Clones",
        "Rows equal to a record. In small domains nearly every row equals some record by similarity "
        "alone. Without copying, rows equal as large a part of the training records as of the holdout "
        "records; a small holdout shows only many copies.",
        "A row that differs in one detail is no clone, and may still identify a person.",
    ),
    "nndr": Explanation(
        "Nearest neighbour distance ratio",
        "Near 0, a row points to one record; near 1, it is no nearer to one record than to another. "
        "Both lines should coincide.",
        _DCR_LIMITS,
    ),
    "replicated-uniques": Explanation(
        "Replicated uniques",
        "UiO: unique records. UiS: unique rows. UiOiS: unique records that equal some row. repU: "
        "records that are unique in both, which an intruder looks for.",
        "A unique row may equal a unique record by chance, above all with few attributes. Uniqueness on "
        "some of the attributes is not examined.",
    ),
    "disclosure": Explanation(
        "Disclosure of the target",
        "DiS: records whose keys have a single level of the target among the rows. DiSCO: those for "
        "which this level is correct. Grey: what the records themselves would disclose.",
        "It covers the declared keys and target only, and includes what anybody would have guessed.",
    ),
    "singling-out": Explanation(
        "Attack: singling out",
        "Predicates that exactly one row satisfies are tested on the records: how many single out one "
        "record. The excess over the control is due to the training records.",
        _ATTACK_LIMITS,
    ),
    "linkability": Explanation(
        "Attack: linkability",
        "Two parties know one half of the attributes each. They link the halves of a record if the "
        "nearest rows of both halves have a row in common.",
        _ATTACK_LIMITS,
    ),
    "inference": Explanation(
        "Attack: inference of the target",
        "The target of a record whose other attributes are known is predicted from the nearest row. The "
        "control shows what the rows reveal about everybody.",
        _ATTACK_LIMITS,
    ),
    "membership": Explanation(
        "Attack: membership by distance",
        "How often a training record is nearer to the rows than a holdout record.",
        f"Attacks by distance are weak: 50 % shows nothing. {_ATTACK_LIMITS}",
    ),
    "associations": Explanation(
        "Associations of pairs",
        "Bar: Cramér's V in the rows, from 0 to 1; mark: in psi. Largest differences first.",
        "It reads no record. Interactions of three and more attributes are not compared.",
    ),
    "marginals": Explanation(
        "Marginals of Phi",
        "How far the marginals of Phi in the release are from those of the records: the total error of "
        "noise, fitting and sampling.",
        "It says nothing about interactions that are not in Phi.",
    ),
    "gap": Explanation(
        "The declared gap",
        "Bar: the difference between the two groups in the release, by level, largest error first. "
        "Mark: the same among the records.",
        "Levels with few people vary by chance; each level has the same weight.",
    ),
    "tables": Explanation(
        "All tables of one, two and three attributes",
        "Heat map of the pairs: the deeper the colour, the larger S_pMSE. A value of 1 is as good as "
        "resampling the records; pairs that are not in Phi are usually the deepest.",
        "A table of four attributes may be wrong where all smaller tables are right.",
    ),
    "propensity": Explanation(
        "Telling rows from records",
        "A regression with interactions and a classification tree predict which rows are synthetic. At "
        "1 they do no better than on a resample of the records; larger values are worse.",
        "A model does not see interactions that it does not contain, nor say where rows differ.",
    ),
    "predictions": Explanation(
        "Predictions of the target",
        "Accuracy on the holdout of models trained on the release and on the records. Bars: accuracy "
        "that the forest loses when an attribute is permuted; marks: the same among the records.",
        "Another target, or another model, may give another result.",
    ),
}
"""By evaluation."""


@singledispatch
def sentence(finding: Finding) -> str:
    raise NotImplementedError(type(finding).__name__)


@sentence.register
def _(finding: utility.FidelityFinding) -> str:
    unseen = [f"Not seen: {words}." for words in unseen_words(finding.facts)]
    return " ".join([*unseen, fidelity_result(finding.facts)])


def result_sentence(finding: Finding) -> str:
    """The finding in words, without what it does not see: a report says that first."""
    if isinstance(finding, utility.FidelityFinding):
        return fidelity_result(finding.facts)
    return sentence(finding)


def fidelity_result(facts: Fidelity) -> str:
    """The result of a comparison with psi, without what it does not see."""
    exceeding, total = len(facts.unexplained), len(facts.marginals)
    text = f"{exceeding:,} of {total:,} marginals differ from psi by more than sampling error."
    if not exceeding:
        text = "All marginals match psi within sampling error."
    return " ".join(filter(None, [text, numbers_sentence(facts.numbers)]))


def unseen_words(facts: Fidelity) -> list[str]:
    """Return a clause for each kind of effect that a comparison with psi cannot show."""
    words, unseen = [], facts.unseen
    if unseen is not None and unseen.invented:
        names = ", ".join(unseen.invented)
        words.append(f"values inside levels are invented: {names}; distances are between levels")
    if unseen is not None and (unseen.by_levels or unseen.by_sums):
        pairs = ((unseen.by_levels, "psi has levels only of"), (unseen.by_sums, "psi has sums of"))
        known = [f"{has} {listed([named(pair) for pair in each])}" for each, has in pairs if each]
        words.append(f"effects inside levels, which rows do not have: {'; '.join(known)}")
    if unseen is not None and unseen.drowned:
        first, *others = unseen.drowned
        more = f"; {len(others):,} more likewise" if others else ""
        words.append(
            f"differences below the noise in psi, which moves about {percent(first.noise)} of the "
            f"records of {named(first.clique)}: rows are {percent(first.total_variation)} from psi{more}"
        )
    if facts.numbers is not None and facts.numbers.drowned:
        drowned = facts.numbers.drowned
        # the figure with the largest noise, in standard deviations of its number
        one = max(drowned, key=lambda one: one.noise / (one.spread or 1.0))
        what = f"share of {one.at:g}" if one.statistic is Statistic.SHARE else str(one.statistic)
        part = f", {percent(one.noise / one.spread)} of its sd" if one.spread not in (0.0, 1.0) else ""
        more = f"; {len(drowned) - 1:,} more likewise" if len(drowned) > 1 else ""
        words.append(
            f"differences of numbers below the noise in psi: {what} of {named(one.attributes)} "
            f"± {error_text(one, one.noise)}{part}{more}"
        )
    return words


@sentence.register
def _(finding: risk.DistanceFinding) -> str:
    text = (
        f"{percent(finding.share)} of the rows are closer to a training record than to a holdout record "
        f"({interval(finding.low, finding.high)}, equal numbers of both). Without copying, 50 % are "
        "expected"
    )
    if finding.copied is None:
        return f"{text}."
    result = "training records are nearer to the rows" if finding.copied else "no difference is found"
    return (
        f"By a test of all training and holdout records, {result}.{_detectable(finding.detectable)} "
        f"{text} on average over holdouts."
    )


def _detectable(share: float | None) -> str:
    """The copies that a test on all records would have shown; empty where a finding does not say."""
    if share is None:
        return ""
    if risk.shown_share(share) is None:
        return " The holdout is too small to show copies, whatever their share of the rows."
    less = f" It decides nothing about fewer than {percent(share)}." if share > risk.BLIND else ""
    return (
        f" The test shows copies from a share of {percent(share)} of the rows on, in 8 of 10 such "
        f"evaluations.{less}"
    )


@sentence.register
def _(finding: risk.CloneFinding) -> str:
    if finding.copied is not None:
        result = "no difference is found"
        if finding.copied:
            result = "more of the training records do than without copying"
        beyond = finding.stands_out and not finding.copied
        likeness = " But more rows equal a training record than likeness explains." if beyond else ""
        return (
            f"{percent(finding.train)} of the rows equal a training record; by likeness alone, about "
            f"{percent(finding.alike)} do, the share of training records that equal another one. "
            f"{percent(finding.records)} of the training records and {percent(finding.others)} of the "
            f"holdout records equal a row: by a test of all, {result}."
            f"{_detectable(finding.detectable)}{likeness}"
        )
    return (
        f"{percent(finding.train)} of the rows equal a training record. With equal numbers of training "
        f"and holdout records, {percent(finding.equal)} equal a training record and "
        f"{percent(finding.holdout)} a holdout record."
    )


@sentence.register
def _(finding: risk.RatioFinding) -> str:
    return (
        "For 5 % of the rows, the distance to the closest training record is at most "
        f"{number(finding.low_train, '.2g')} times that to the second closest; for holdout records "
        f"{number(finding.low_holdout, '.2g')} times."
    )


@sentence.register
def _(finding: risk.UniquesFinding) -> str:
    shares = dict(finding.shares)
    return (
        f"{percent(shares['repU'])} of the records are unique and equal a unique row (replicated "
        f"uniques); {percent(shares['UiO'])} of the records are unique."
    )


@sentence.register
def _(finding: risk.RowUniquesFinding) -> str:
    rows, single = f"{percent(finding.unique)} of the rows are unique in all attributes.", finding.single
    if single is None:
        return f"{rows} psi states no exact count."
    return f"{rows} {percent(single)} of the non-empty cells of psi count a single record."


@sentence.register
def _(finding: utility.AssociationsFinding) -> str:
    pairs, total = len(finding.pairs), len(finding.pairs) + finding.unmeasured
    if not pairs:
        return f"Phi holds none of the {total:,} pairs of attributes: {_MODEL}"
    one = finding.pairs[0]
    values = f"{number(one.rows, '.2f')} in the rows, {number(one.psi, '.2f')} in psi"
    among = f"Over the pairs in Phi ({pairs:,} of {total:,}), Cramér's V"
    if one.difference is not None:
        text = (
            f"{among} differs from psi by at most {one.difference:.2g}: {named(one.clique)}, {values}."
        )
    else:
        text = f"{among} is not defined in both psi and rows for all: {named(one.clique)}, {values}."
    return f"{text} Of the other pairs, {_MODEL}" if finding.unmeasured else text


@sentence.register
def _(finding: risk.DisclosureFinding) -> str:
    shares = dict(finding.shares)
    return (
        f"Given {', '.join(finding.keys)}, the rows disclose a level of {finding.target} for "
        f"{percent(shares['DiS'])} of the records, and the correct one for {percent(shares['DiSCO'])}. "
        f"The records themselves would disclose it for {percent(shares['Dorig'])}."
    )


@sentence.register
def _(finding: risk.AttackFinding) -> str:
    risk = finding.risk
    result = (
        f"{percent(finding.attack.share)} of the guesses about training records were right, "
        f"{percent(finding.control.share)} about holdout records and {percent(finding.naive.share)} at "
        f"random: a risk of {percent(risk.estimate)} ({interval(risk.low, risk.high)})."
    )
    weak = "The attack is no better than random guessing, so its risk is not meaningful."
    is_weak = not (finding.stands_out or finding.whole.beats_random_guessing())
    return f"{result} {weak}" if is_weak else result


@sentence.register
def _(finding: risk.MembershipFinding) -> str:
    return (
        "A training record is nearer to the rows than a holdout record with probability "
        f"{percent(finding.area)} ({interval(finding.low, finding.high)}); random guessing gives 50 %."
    )


@sentence.register
def _(finding: utility.MarginalsFinding) -> str:
    worst = finding.ordered[0]
    mean = float(np.mean([one.error for one in finding.marginals]))
    return (
        f"The cells of the marginals of Phi have a mean RMSE of {percent(mean)}; the largest total "
        f"variation is that of {named(worst.clique)}, {percent(worst.total_variation)}."
    )


@sentence.register
def _(finding: utility.GapFinding) -> str:
    if finding.error is None:
        return f"The gap {finding.gap} is undefined: no level has both enough records and rows."
    if finding.synthetic[0] is None:
        largest = f"the release has no rows at {finding.levels[0]}, where the records have a gap of"
        return (
            f"The gap {finding.gap} has an RMSE of {percent(finding.error)} over the levels with rows; "
            f"{largest} {percent(finding.original[0])}."
        )
    return (
        f"The gap {finding.gap} has an RMSE of {percent(finding.error)} over the levels; the largest "
        f"error is at {finding.levels[0]}, {percent(finding.synthetic[0])} in the release and "
        f"{percent(finding.original[0])} among the records."
    )


@sentence.register
def _(finding: utility.TablesFinding) -> str:
    means = []
    for one in finding.widths:
        over = f"the {one.tables:,} tables"
        if one.constant:
            over = f"{one.tables - one.constant:,} of {over}, the others constant,"
        attributes = ("one attribute", "two", "three")[one.width - 1]
        means.append(f"{number(dict(one.means)['S_pMSE'])} over {over} of {attributes}")
    text = f"Mean S_pMSE is {', '.join(means)}; 1 is as good as resampling the records."
    if not finding.valued_pairs():
        return text
    worst, value = max(finding.valued_pairs(), key=lambda pair: pair[1])
    return f"{text} The worst pair is {named(worst)}, {value:.3g}."


@sentence.register
def _(finding: utility.PropensityFinding) -> str:
    regression = f"S_pMSE {number(finding.regression)}" if finding.order else "has too many parameters"
    text = (
        f"Telling rows from records: regression {regression}, tree S_pMSE {number(finding.tree)}; "
        "1 is as good as resampling the records."
    )
    if finding.tree is not None:
        return text
    return (
        f"{text} The tree's pMSE is {finding.tree_pmse:.3g} and what is expected of it by chance not "
        "known: hardly any tree splits when rows and records are mixed at random."
    )


@sentence.register
def _(finding: utility.PredictionsFinding) -> str:
    return (
        f"Accuracy on the holdout: a forest trained on the release {percent(finding.forest.on_real)}, "
        f"on the records {percent(finding.forest.by_records)}; a regression "
        f"{percent(finding.regression.on_real)} and {percent(finding.regression.by_records)}."
    )
