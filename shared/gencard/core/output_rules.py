"""The rules that a number must pass before it leaves, and what a rule says of a number.

Names and defaults are those of ACRO 1.0 [1]_, the semi-automatic checking of outputs that secure data
centres of the United Kingdom use, with what it leaves to a person made a rule.

References:
    .. [1] J. Smith, M. Albashir, S. Bacon et al., "Semi-automated checking of research outputs",
       UNECE Expert Meeting on Statistical Data Confidentiality, 2023.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from gencard.core.card.privacy import Transform
from gencard.core.errors import InvalidNumberError
from gencard.core.json_codecs import written

RULES_VERSION = "4"
"""Version of all rules together; a receipt names it."""

OF_LEVELS = frozenset({"1", "2", "3"})
"""Versions under which numbers counted by levels, unless a run asked for those of the records."""

OF_PRESENT = frozenset({"1", "2"})
"""Versions under which a condition chose among records alone that have all numbers that it names."""

OUTPUT_RULES = "output-rules"
"""The one reason of each refusal that depends on the records. Which rule was broken, stewards see."""


class Colour(StrEnum):
    """Fate of a number: green leaves, amber waits for a steward, red stays."""

    GREEN = "green"
    AMBER = "amber"
    RED = "red"


class Rule(StrEnum):
    """The codes of the rules."""

    THRESHOLD = "threshold"
    """A cell, or a group that a number describes, holds too few records."""
    ZERO = "zero"
    """An empty cell: nobody has this value, which is said of everybody in its row."""
    DOMINANCE = "dominance"
    """The (n, k) rule: the n largest contributions are most of a sum."""
    REMAINDER = "p-percent"
    """The p per cent rule: a sum without its two largest contributions says what the largest is."""
    NEGATIVE = "negative"
    """Dominance is not defined where contributions may be negative."""
    FREEDOM = "degrees-of-freedom"
    """A model leaves too few degrees of freedom."""
    SATURATED = "saturated"
    """A model has as many parameters as its features have cells: it is their table."""
    LEVERAGE = "leverage"
    """A fitted value rests on too few records: one of them has a leverage above 1 / threshold."""
    SAME = "same-value"
    """All records of a group have the same value."""
    EXTREME = "extreme"
    """A smallest or largest value, or a residual: the value of one record."""
    RANK = "rank"
    """A quantile with too few records on one side of it."""
    SURVIVAL = "survival"
    """A survival curve with too few events for a single step."""
    MISSING = "missing"
    """A group with missing values."""
    DIFFERENCING = "differencing"
    """With an earlier output, the number would describe too few records."""
    DROWNED = "noise-drowns"
    """The noise of a run is too large for the analysis, which the noisy counts alone say."""
    INFLUENCE = "influence"
    """One record moves a number by more of its standard errors than the policy permits."""
    UNDECIDED = "undecided"
    """The search for what all outputs together tell of small counts is too large: a person decides."""
    UNKNOWN = "no-rule"
    """No rule covers the number: a person has to look."""
    UNANSWERED = "no-answer"
    """The analysis has no result at these records."""
    NUMBERS = "too-many-numbers"
    """The answer holds more numbers than the card grants."""
    FAILED = "failed"
    """The run failed at the records, or exceeded a limit of its process."""


_AMBER = {Rule.NEGATIVE, Rule.MISSING, Rule.INFLUENCE, Rule.UNDECIDED, Rule.UNKNOWN}

_MOST = 1_000_000
"""Largest threshold of records."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers in the rules.

    Args:
        checks: Of cells and models, and the multiple to which counts are rounded.
        survival: Fewest records at risk in a survival curve, and fewest events between its steps.
        missing: Whether missing values in a group are for a person to look at.
        influence: Most standard errors by which one record may move a mean or a contrast; above it the
            answer waits for a steward. None for no rule.

    Raises:
        InvalidNumberError: ``survival`` is below 1 or above a million, or ``influence`` is not above 0.
    """

    checks: Transform = field(
        default=Transform(
            threshold=10,
            freedom=10,
            dominance_count=2,
            dominance_percent=90,
            remainder_percent=10,
            zeros=True,
            rounding=5,
        )
    )
    survival: int = 10
    missing: bool = False
    influence: float | None = field(default=1.0, metadata=written(omit=True))

    def __post_init__(self) -> None:
        if self.influence is not None and not 0 < self.influence <= 1_000_000:
            raise InvalidNumberError(field="rules.influence", expected="above 0, to 1000000")
        if not 1 <= self.survival <= _MOST:
            raise InvalidNumberError(field="rules.survival", expected="from 1 to 1000000")

    def of_persons(self, most_records: int) -> "Rules":
        """The rules for records of persons of whom each may have several.

        As many records as the threshold says may be those of few persons. So thresholds and the p per
        cent are as many times as large, the largest contributions to a sum are those of whole persons,
        and the limit of influence is for all records of a person together.

        Args:
            most_records: Most records of a person that count; 0 and 1 change nothing.
        """
        k = max(most_records, 1)
        checks = replace(
            self.checks,
            threshold=min(k * self.checks.threshold, _MOST),
            freedom=min(k * self.checks.freedom, _MOST),
            dominance_count=k * self.checks.dominance_count,
            remainder_percent=min(k * self.checks.remainder_percent, 100),
        )
        influence = self.influence and self.influence / k
        return replace(self, checks=checks, survival=min(k * self.survival, _MOST), influence=influence)


USUAL_RULES = Rules()
"""Rules that apply if no others are set: ACRO's defaults."""


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Rules that one number breaks, without saying by how much.

    >>> RuleVerdict((Rule.NEGATIVE,)).colour, RuleVerdict().colour
    (<Colour.AMBER: 'amber'>, <Colour.GREEN: 'green'>)
    """

    broken: tuple[Rule, ...] = ()

    @property
    def colour(self) -> Colour:
        if set(self.broken) - _AMBER:
            return Colour.RED
        return Colour.AMBER if self.broken else Colour.GREEN


@dataclass(frozen=True, slots=True)
class Mark:
    """Verdict on one part of an answer, as stewards see it.

    Args:
        part: Part of the answer, such as "model" or "sex × edu"; "run" for the run as a whole.
        rules: Rules that its numbers break.
    """

    part: str
    colour: Colour
    rules: tuple[Rule, ...]


PASSED = RuleVerdict()


def together(verdicts: Iterable[RuleVerdict]) -> RuleVerdict:
    """All rules that some number breaks, in the order of ``Rule``."""
    broken = {rule for verdict in verdicts for rule in verdict.broken}
    return RuleVerdict(tuple(rule for rule in Rule if rule in broken))


def breaking(rules: Iterable[tuple[Rule, bool]]) -> RuleVerdict:
    """A verdict from rules and whether each is broken."""
    return RuleVerdict(tuple(rule for rule, broken in rules if broken))
