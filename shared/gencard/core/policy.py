"""Bounds of a dataset's cards and rules for outputs, which its steward declares; no record enters.

The controller reads a policy from its settings and judges proposals by it. Analysts receive ``public``.
Names and defaults of the rules are those of ACRO 1.0 [1]_, the semi-automatic checking of outputs that
secure data centres of the United Kingdom use, with what it leaves to a person made a rule.

References:
    .. [1] J. Smith, M. Albashir, S. Bacon et al., "Semi-automated checking of research outputs",
       UNECE Expert Meeting on Statistical Data Confidentiality, 2023.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from gencard.core.card.budget import Price
from gencard.core.card.card import Change
from gencard.core.card.privacy import AS_COUNTED, USUAL_CHECKS, AddedNoise, Mechanism, Transform
from gencard.core.card.sums import MomentKind
from gencard.core.card.terms import NO_ANALYSES, Analyses, Proposal
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError, InvalidNumberError
from gencard.core.json_codecs import entries_of, written

RULES_VERSION = "4"
"""Version of all rules together; a receipt names it."""

OF_LEVELS = frozenset({"1", "2", "3"})
"""Versions under which numbers counted by levels, unless a run asked for those of the records."""

OF_PRESENT = frozenset({"1", "2"})
"""Versions under which a condition chose among records alone that have all numbers that it names."""

OUTPUT_RULES = "output-rules"
"""The one reason of each refusal that depends on the records. Which rule was broken, stewards see."""


class Colour(StrEnum):
    """DeliveryOutcome of a number: green leaves, amber waits for a steward, red stays."""

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
        survival: Fewest records at risk in a survival curve, and fewest events between its steps.
        missing: Whether missing values in a group are for a person to look at.
        influence: Most standard errors by which one record may move a mean or a contrast; above it the
            answer waits for a steward. None for no rule.

    Raises:
        InvalidNumberError: ``survival`` is below 1 or above a million, or ``influence`` is not above 0.
    """

    checks: Transform = field(default=replace(USUAL_CHECKS, zeros=True))
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


ROWS = "TOO_MANY_ROWS"


@dataclass(frozen=True, slots=True)
class MomentPolicy:
    """Moments of declared numbers that a card may contain besides marginals.

    Exact sums disclose more than their number says where declared numbers lie far apart: a sum of 1,
    1,000 and 1,000,000 discloses three counts. Check the numbers before exact moments are offered.

    Args:
        kinds: Any of ``mean``, ``variance``, ``moment``, ``covariance``, ``group-sums`` and
            ``group-means``.
        highest: Highest order of the kind ``moment``; Gencard computes orders up to 8.
    """

    kinds: tuple[MomentKind, ...] = ()
    highest: int = 2


class NumbersOffer(StrEnum):
    """Histograms or sums on offer: none, with noise, or also exact."""

    NEVER = "never"
    NOISE = "noise"
    EXACT = "exact"


class AnswerRelease(StrEnum):
    """Release of answers of checked runs: by the output rules alone, or by a steward after them."""

    POLICY = "policy"
    STEWARD = "steward"


_CHECKS = USUAL_RULES.checks
_OF_SUMS = ("threshold", "dominance_count", "dominance_percent", "remainder_percent")
"""Checks of counts that sums must pass too."""

_PRIVATE = written(private=True)


@dataclass(frozen=True, slots=True)
class AnalysesPolicy:
    """Runs on the records that a card may permit.

    Output rules check the answers of analyses; a steward reviews the outputs of analysts' programs.

    Args:
        kinds: Analyses for checked runs, such as ``linear``, ``logistic`` or ``crosstab``. They need
            ``checked_runs``.
        checked_runs: Checked runs of one card, 0 to 1,000.
        numbers: Numbers in the answer of one checked run, 1 to 10,000.
        reviewed_runs: Runs of analysts' programs of one card, 0 to 1,000. A steward reviews every
            answer.
        libraries: Libraries that programs may use: packages of Python, ``R``, and packages of R such
            as ``R-survival``. They need ``reviewed_runs``.
        columns: Attributes with edges whose numbers programs may receive as recorded; programs receive
            the levels of all others. From tables in databases, only numbers with a step. No effect
            without ``reviewed_runs``.
        program_numbers: Numbers in the answer of one program, 1 to 10,000.
        stored: If ``true``, checked runs of means, t tests, variance, regression, correlation and
            quantiles use numbers as recorded, if the schema declares a step. Otherwise each level is
            one number.
        release: Who releases answers of checked runs: ``policy`` (the output rules alone) or
            ``steward`` (a steward after them).
        threshold: Fewest records in a cell or group of a checked run, 10 to 1,000,000.
        rounding: Counts in answers are rounded to multiples of this number, 5 to 1,000,000.
        influence: Largest number of standard errors by which one record, in any group, may move a mean
            or a difference of means: above 0 to 1,000,000. Above this limit, the answer of a checked run
            waits for a steward. ``"off"`` is no limit: then an analyst who knows one person with an
            extreme value may infer the person's group.

    Raises:
        InvalidInputError, InvalidNumberError: As ``Analyses`` and ``Rules``.
    """

    kinds: tuple[str, ...] = ()
    checked_runs: int = NO_ANALYSES.checked_runs
    numbers: int = NO_ANALYSES.numbers
    reviewed_runs: int = NO_ANALYSES.reviewed_runs
    libraries: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    program_numbers: int = NO_ANALYSES.program_numbers
    stored: bool = field(default=False, metadata=_PRIVATE)
    release: AnswerRelease = AnswerRelease.POLICY
    threshold: int = field(default=_CHECKS.threshold, metadata=_PRIVATE)
    rounding: int = field(default=_CHECKS.rounding, metadata=_PRIVATE)
    influence: float | None = field(default=USUAL_RULES.influence, metadata=_PRIVATE)

    def __post_init__(self) -> None:
        _ = self.most, self.rules

    @property
    def most(self) -> Analyses:
        """Most that one card may permit; it names no program."""
        return Analyses(
            kinds=_sorted(self.kinds),
            checked_runs=self.checked_runs,
            numbers=self.numbers,
            reviewed_runs=self.reviewed_runs,
            libraries=_sorted(self.libraries),
            program_numbers=self.program_numbers,
            columns=_sorted(self.columns) if self.reviewed_runs else (),
        )

    @property
    def rules(self) -> Rules:
        """Rules by which every number of a checked run is judged."""
        checks = replace(_CHECKS, threshold=self.threshold, rounding=self.rounding)
        survival = max(USUAL_RULES.survival, self.threshold)
        return Rules(checks, survival=survival, influence=self.influence)

    @property
    def by_steward(self) -> bool:
        """Whether answers of checked runs wait for a steward, as those of programs always do."""
        return self.release is AnswerRelease.STEWARD


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(map(str, names)))


class TwoStewards(StrEnum):
    """Decisions on cards that two stewards may have to take."""

    EXACT_COUNTS = "exact-counts"
    REVIEWED_RUNS = "reviewed-runs"
    REVOCATION = "revocation"


@dataclass(frozen=True, slots=True)
class Policy:
    """Bounds on what a card may contain.

    A proposal that exceeds it gets the nearest permitted terms as an offer, or a refusal.

    Args:
        largest_order: Attributes in one marginal. A marginal with more is replaced by smaller ones.
        largest_order_exact: Attributes in one marginal of exact cards, exact runs and evaluations; by
            default ``largest_order``.
        largest_marginal_cells: Cells of one marginal. A marginal with more is replaced by smaller
            ones.
        most_marginals: Marginals of one card, and as many moments. The marginals with the most cells
            are dropped first.
        most_rows: Rows of one release. A proposal for more is offered this number.
        generators: Generators and black boxes that cards may name. The first that is suitable
            replaces others.
        most_per_card: Highest price of one card.
        forbidden: Sets of attributes that no marginal may contain together, such as
            ``[["age", "occupation"]]``.
        mechanisms: How counts may be measured: any of ``exact``, ``laplace`` and ``gaussian``, at
            least one.
        noise: Default noise; required if ``mechanisms`` contains more than ``exact``. All noisy cards
            have its neighbouring relation.
        transform: Checks and rounding of exact counts.
        moments: Moments on offer. With checked or rounded counts, they are offered only with noise.
        histograms: Counts of numbers with a step by the fine cells of the schema: ``never``,
            ``noise``, or ``exact``, which includes noise. ``largest_marginal_cells`` bounds the cells of
            a histogram, ``most_marginals`` the number of histograms, as of moments.
        sums: Sums of numbers with a step, and of products of two, by groups: ``never``, ``noise``, or
            ``exact``, which includes noise and is refused together with rounding. ``largest_order`` and
            ``forbidden`` cover all attributes of a sum.
        measures: Evaluations on offer, by the names in the table below. They need exact counts
            without checks or rounding.
        without_uniques: ``true`` lets a card request rows without replicated uniques.
        analyses: Runs on the records.
        automatic: ``true`` offers a card at once; ``false`` leaves each proposal to a steward. It must
            be ``false`` if two stewards decide on offers.
        valid_days: Days for which an offer, and the card made from it, is valid: 1 to 36,500.
        stewards: Stewards who take each decision on the dataset, 1 or 2. One is enough to reject a
            proposal or refuse an answer.
        two_stewards: Decisions that need two stewards even if ``stewards`` is 1: ``exact-counts``
            (offers of exact counts), ``reviewed-runs`` (answers of programs), ``revocation`` (revoking
            a card).
        most_records: Records of one person that count, by the schema; ``noise`` then protects the
            person. 0 if each record is protected by itself.

    Raises:
        InvalidInputError: ``automatic``, though two stewards decide on offers.
    """

    largest_order: int
    largest_marginal_cells: int
    most_marginals: int
    most_rows: int
    generators: tuple[str, ...]
    most_per_card: Price
    forbidden: tuple[Clique, ...] = ()
    mechanisms: tuple[Mechanism, ...] = (Mechanism.EXACT,)
    noise: AddedNoise | None = None
    transform: Transform = AS_COUNTED
    moments: MomentPolicy = MomentPolicy()
    histograms: NumbersOffer = field(default=NumbersOffer.NEVER, metadata=written(unset=True))
    sums: NumbersOffer = field(default=NumbersOffer.NEVER, metadata=written(unset=True))
    largest_order_exact: int | None = field(default=None, metadata=written(omit=True))
    measures: tuple[str, ...] = ()
    without_uniques: bool = False
    analyses: AnalysesPolicy = AnalysesPolicy()
    automatic: bool = False
    valid_days: int = 90
    stewards: int = field(default=1, metadata=_PRIVATE)
    two_stewards: tuple[TwoStewards, ...] = ()
    most_records: int = field(default=0, metadata=_PRIVATE)

    def __post_init__(self) -> None:
        if self.automatic and (self.stewards > 1 or TwoStewards.EXACT_COUNTS in self.two_stewards):
            problem = "must be false if two stewards decide on offers"
            raise InvalidInputError(field="policy.automatic", problem=problem)

    @property
    def public(self) -> "Policy":
        """The policy as analysts receive it; ``two_stewards`` names all decisions that two take.

        Fields marked ``private`` are at their defaults: the rules of checked runs, and whether these
        read recorded numbers.
        """
        analyses = _without_private(self.analyses)
        return replace(_without_private(self), analyses=analyses, two_stewards=self.decided_by_two)

    @property
    def sum_rules(self) -> Rules:
        """Rules by which exact sums are judged: checks of exact counts, else those of checked runs."""
        checks = {name: getattr(self.transform, name) for name in _OF_SUMS}
        rules = self.analyses.rules
        declared = {name: value for name, value in checks.items() if value}
        return replace(rules, checks=replace(rules.checks, **declared))

    def measuring(self, *, noisy: bool) -> "Policy":
        """Return the policy of what is measured with noise, or exactly."""
        exact = min(self.largest_order_exact or self.largest_order, self.largest_order)
        return self if noisy or exact == self.largest_order else replace(self, largest_order=exact)

    def for_persons(self, most_records: int) -> "Policy":
        """Return the policy of a dataset of which at most so many records of a person count."""
        noise = self.noise and replace(self.noise, most_records=most_records or None)
        return replace(self, noise=noise, most_records=most_records)

    def without_numbers(self, covered: Clique) -> "Policy":
        """Return the policy for records whose version does not cover all values: others come by levels.

        Histograms and sums stay, and so do numbers with a step, since each version covers whole steps.

        Args:
            covered: Attributes whose numbers have a step.
        """
        columns = tuple(name for name in self.analyses.columns if name in covered)
        stored = self.analyses.stored and bool(covered)
        return replace(self, analyses=replace(self.analyses, stored=stored, columns=columns))

    @property
    def decided_by_two(self) -> tuple[TwoStewards, ...]:
        """Kinds of decisions that two stewards take; all of them if two take every decision."""
        return tuple(TwoStewards) if self.stewards > 1 else self.two_stewards

    def within(self, terms: Proposal) -> tuple[Proposal, tuple[Change, ...]]:
        """Return the terms within the bounds that depend on no schema, and how they differ."""
        if terms.rows <= self.most_rows:
            return terms, ()
        fewer = Change("rows", str(terms.rows), str(self.most_rows), ROWS)
        return replace(terms, rows=self.most_rows), (fewer,)

    def kept_apart(self, attributes: Iterable[str]) -> Clique | None:
        """Return the first forbidden set that the attributes contain; None if they contain none."""
        present = set(attributes)
        return next((clique for clique in self.forbidden if present.issuperset(clique)), None)

    @property
    def order_text(self) -> str:
        """Most attributes of a statistic, in words."""
        exact = f" ({self.largest_order_exact} if exact)" if self.largest_order_exact else ""
        return f"{self.largest_order}{exact}"

    @property
    def summary(self) -> str:
        """The sentence that a card carries as its reason to be safe."""
        forbidden = "; ".join(" with ".join(clique) for clique in self.forbidden) or "none"
        moments = f"; moments: {', '.join(self.moments.kinds)}" if self.moments.kinds else ""
        for name, offer in (("histograms", self.histograms), ("sums", self.sums)):
            if offer is not NumbersOffer.NEVER:
                moments += f"; {name}: {offer}"
        return (
            f"marginals of at most {self.order_text} attributes and "
            f"{self.largest_marginal_cells} cells, at most {self.most_marginals} of them and "
            f"{self.most_per_card.statistics} independent statistics; forbidden together: {forbidden}; "
            f"measured {' or '.join(self.mechanisms)}; exact counts {self.transform}{moments}"
        )


_Part = TypeVar("_Part", Policy, AnalysesPolicy)


def _without_private(value: _Part) -> _Part:
    kind: type = type(value)
    private = (one for one in entries_of(kind) if one.options.private)
    return replace(value, **{one.name: one.default for one in private})
