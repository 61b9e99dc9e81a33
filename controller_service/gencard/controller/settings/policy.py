"""The settings tables of a dataset's policy, caps and evaluations."""

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from gencard.controller.settings.boxes import Name
from gencard.controller.settings.files import Section
from gencard.controller.state import ledger
from gencard.controller.state.ledger import Scope
from gencard.core.card.analyses import NO_ANALYSES
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.mechanism import Transform, noise_with
from gencard.core.card.noise import NOISES, AddedNoise, Mechanism
from gencard.core.domain import Clique
from gencard.core.evaluation.material import Declared
from gencard.core.evaluation.registry import EVALUATIONS
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.moment import MomentKind
from gencard.core.output_checks.rules import USUAL_RULES
from gencard.core.policy import AnalysesPolicy, AnswerRelease, MomentPolicy, Policy, TwoStewards
from gencard.core.privacy.distances.gower import Missing
from gencard.core.statistics.formula import Analysis
from gencard.core.utility.gap import GapWords


class GapTable(Section):
    """Difference between the shares of two groups, which the evaluation ``gap`` compares."""

    attribute: str
    """Attribute that defines the two groups."""
    first: str
    """Level of the first group."""
    second: str
    """Level of the second group; its share is subtracted."""
    within: str
    """Attribute in each level of which the difference is computed."""
    among: str = ""
    """Attribute that selects records; by default all records count. It needs ``levels``."""
    levels: tuple[str, ...] = ()
    """Levels of ``among`` whose records count."""

    def words(self) -> GapWords:
        return GapWords(**dict(self))


class MeasuresTable(Section):
    """What evaluations use; it is set here, so that analysts cannot vary it to learn more."""

    keys: Clique = ()
    """Attributes that an attacker may know of a person, for ``disclosure``. The target is not one of
    them."""
    target: str = ""
    """Attribute that an attacker wants to learn, for ``disclosure`` and ``inference``, or that a model
    predicts, for ``predictions``."""
    attacks: Annotated[int, Field(ge=10, le=10_000)] = 500
    """Records that each attack targets, 10 to 10,000 of the dataset and as many of the holdout."""
    missing: Missing = Missing.CATEGORY
    """Missing values in distances: ``category`` makes them a level, ``pairwise`` ignores an attribute
    that is missing in either record."""
    gap: GapTable | None = None
    """Difference of two groups, for ``gap``."""

    def declared(self) -> Declared:
        gap = self.gap.words() if self.gap else None
        return Declared(self.keys, self.target, self.attacks, self.missing, gap)


def _measure(name: str) -> str:
    if name not in EVALUATIONS:
        raise PydanticCustomError("no_measure", "no evaluation has this name")
    return name


MOST_DAYS = 36_500
"""Life of a card."""

MeasureName = Annotated[str, AfterValidator(_measure)]


_ADDED = [noise.mechanism for noise in NOISES]


def _one_of(allowed: Collection[Mechanism]) -> AfterValidator:
    """A generator's own noise measures no psi, and no policy names it."""

    def checked(mechanism: Mechanism) -> Mechanism:
        if mechanism not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return mechanism

    return AfterValidator(checked)


class Amounts(Section):
    """Amounts in the three currencies of the ledger; 0 permits nothing in a currency.

    The tables in ``[datasets.caps]`` have the same settings.
    """

    statistics: int = Field(default=0, ge=0)
    """Exact statistics: independent counts, and other numbers about the records, without noise."""
    epsilon: Decimal = Decimal(0)
    """Budget of Laplace noise and of black boxes with a pure guarantee, up to 1e9 in steps of 1e-9."""
    rho: Decimal = Decimal(0)
    """Budget of Gaussian noise and of black boxes with an approximate guarantee, up to 1e9 in steps of
    1e-9."""

    @model_validator(mode="after")
    def _is_a_price(self) -> "Amounts":
        self.price()
        return self

    def price(self) -> Price:
        return Price(self.statistics, self.epsilon, self.rho)

    def lowered_to(self, other: "Amounts") -> "Amounts":
        """Return the smaller amount in each currency."""
        return Amounts(
            statistics=min(self.statistics, other.statistics),
            epsilon=min(self.epsilon, other.epsilon),
            rho=min(self.rho, other.rho),
        )


class NoiseTable(Section):
    """Noise of a card for which the analyst requests none of the ``mechanisms``."""

    mechanism: Annotated[Mechanism, _one_of(_ADDED)]
    """``laplace`` or ``gaussian``; it must be one of ``mechanisms``."""
    neighbouring: Neighbouring
    """Neighbouring relation of all noise on the dataset: ``add-remove`` or ``replace-one``. After a
    change, a dataset that gave noise gives no more."""
    epsilon: Decimal | None = None
    """Budget of Laplace noise, from 1e-9 to 1,000,000; required for it, refused for Gaussian noise."""
    rho: Decimal | None = None
    """Budget of Gaussian noise, from 1e-9 to 1,000,000; required for it, refused for Laplace noise."""
    delta: Decimal | None = None
    """Delta at which cards with Gaussian noise also state an epsilon, from 1e-18 to below 1. It does not
    change the noise."""

    @model_validator(mode="after")
    def _is_a_privacy(self) -> "NoiseTable":
        self.privacy()
        return self

    def privacy(self) -> AddedNoise:
        parameters = {name: str(value) for name, value in dict(self).items() if value is not None}
        return noise_with(Mechanism(parameters.pop("mechanism")), parameters)


class TransformTable(Section):
    """Checks and rounding of exact counts. One cell that fails a check refuses the whole measurement.

    Each record contributes 1 to its cell. Numbers are at most 1,000,000, percentages at most 100.
    """

    threshold: int = 0
    """Fewest records in a cell that is not empty; 0 for no check."""
    freedom: int = 0
    """Fewest degrees of freedom of a marginal, which are records minus cells; 0 for no check."""
    dominance_count: int = 0
    """The n of the (n, k) dominance rule; 0 for no check."""
    dominance_percent: int = 0
    """The k of the (n, k) dominance rule: largest share of a cell, in percent, that its n largest
    contributions may have."""
    remainder_percent: int = 0
    """The p of the p% rule: smallest size of a cell without its two largest contributions, in percent of
    the largest; 0 for no check."""
    zeros: bool = False
    """``true`` refuses empty cells too, except structural zeros of the schema."""
    rounding: int = 1
    """Counts are rounded to multiples of this number; 1 for no rounding."""

    @model_validator(mode="after")
    def _is_a_transform(self) -> "TransformTable":
        self.transform()
        return self

    def transform(self) -> Transform:
        return Transform(**dict(self))


class MomentsTable(Section):
    """Moments of declared numbers that a card may contain besides marginals."""

    kinds: tuple[MomentKind, ...] = ()
    """Any of ``mean``, ``variance``, ``moment``, ``covariance``, ``group-sums`` and ``group-means``."""
    highest: PositiveInt = 2
    """Highest order of the kind ``moment``; Gencard computes orders up to 8."""


_CHECKS = USUAL_RULES.checks
_MOST_RECORDS = 1_000_000


class AnalysesTable(Section):
    """Runs on the records that a card may permit.

    Output rules check the answers of analyses; a steward reviews those of analysts' programs.
    """

    kinds: tuple[Analysis, ...] = ()
    """Analyses for checked runs, such as ``linear``, ``logistic`` or ``crosstab``. They need
    ``checked_runs``."""
    checked_runs: int = 0
    """Checked runs of one card, 0 to 1,000."""
    numbers: int = NO_ANALYSES.numbers
    """Numbers in the answer of one checked run, 1 to 10,000."""
    reviewed_runs: int = 0
    """Runs of analysts' programs of one card, 0 to 1,000. A steward reviews every answer."""
    libraries: tuple[str, ...] = ()
    """Libraries that programs may use: packages of Python, ``R``, and packages of R such as
    ``R-survival``. They need ``reviewed_runs``."""
    columns: tuple[str, ...] = ()
    """Attributes with edges whose numbers programs receive as recorded, not as intervals. They need
    ``reviewed_runs``."""
    program_numbers: int = NO_ANALYSES.program_numbers
    """Numbers in the answer of one program, 1 to 10,000."""
    stored: bool = False
    """``true`` permits means and quantiles of numbers as recorded in checked runs."""
    release: AnswerRelease = AnswerRelease.POLICY
    """Who releases answers of checked runs: ``policy`` (the output rules alone) or ``steward`` (a
    steward after them)."""
    threshold: Annotated[int, Field(ge=_CHECKS.threshold, le=_MOST_RECORDS)] = _CHECKS.threshold
    """Fewest records in a cell or group of a checked run, 10 to 1,000,000."""
    rounding: Annotated[int, Field(ge=_CHECKS.rounding, le=_MOST_RECORDS)] = _CHECKS.rounding
    """Counts in answers are rounded to multiples of this number, 5 to 1,000,000."""
    influence: Annotated[float, Field(gt=0, le=_MOST_RECORDS)] | Literal["off"] = 1.0
    """Most standard errors by which one record, put into any group, may move a mean or a difference of
    means, above 0 to 1,000,000. Above it, the answer of a checked run waits for a steward. ``"off"`` is
    no limit: who knows of one person with an extreme value may then read the person's group."""

    @model_validator(mode="after")
    def _is_a_policy(self) -> "AnalysesTable":
        self.policy()
        return self

    def policy(self) -> AnalysesPolicy:
        """Raises InvalidInputError or InvalidNumberError where it offers what there cannot be."""
        influence = None if self.influence == "off" else float(self.influence)
        return AnalysesPolicy(**dict(self) | {"influence": influence})


class PolicyTable(Section):
    """What a card may contain.

    A proposal that exceeds it gets the nearest permitted terms as an offer, or a refusal.
    """

    largest_order: PositiveInt
    """Attributes in one marginal. A marginal with more is replaced by smaller ones."""
    largest_marginal_cells: PositiveInt
    """Cells of one marginal. A marginal with more is replaced by smaller ones."""
    most_marginals: PositiveInt
    """Marginals of one card, and as many moments. The marginals with the most cells are dropped
    first."""
    most_rows: PositiveInt
    """Rows of one release. A proposal for more is offered this number."""
    most_per_card: Amounts
    """Highest price of one card."""
    forbidden: tuple[Clique, ...] = ()
    """Sets of attributes that no marginal may contain together, such as ``[["age", "occupation"]]``."""
    generators: tuple[Name, ...] = BY_CONSTRUCTION
    """Generators and black boxes that cards may name. The first that is suitable replaces others."""
    mechanisms: tuple[Annotated[Mechanism, _one_of([Mechanism.EXACT, *_ADDED])], ...] = (
        Mechanism.EXACT,
    )
    """How counts may be measured: any of ``exact``, ``laplace`` and ``gaussian``, at least one."""
    noise: NoiseTable | None = None
    """Default noise; required if ``mechanisms`` contains ``laplace`` or ``gaussian``."""
    transform: TransformTable = TransformTable()
    """Checks and rounding of exact counts."""
    moments: MomentsTable = MomentsTable()
    """Moments on offer. With checked or rounded counts, they are offered only with noise."""
    measures: tuple[MeasureName, ...] = ()
    """Evaluations on offer, by the names in the table below. They need exact counts without checks or
    rounding."""
    without_uniques: bool = False
    """``true`` lets a card request rows without replicated uniques."""
    analyses: AnalysesTable = AnalysesTable()
    """Runs on the records."""
    automatic: bool = False
    """``true`` offers a card at once; ``false`` leaves each proposal to a steward. It must be ``false``
    if two stewards decide on offers."""
    valid_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 90
    """Days for which an offer, and the card made from it, is valid: 1 to 36,500."""
    stewards: Annotated[int, Field(ge=1, le=2)] = 1
    """Stewards who take each decision on the dataset, 1 or 2. One is enough to reject a proposal or
    refuse an answer."""
    two_stewards: tuple[TwoStewards, ...] = ()
    """Decisions that need two stewards even if ``stewards`` is 1: ``exact-counts`` (offers of exact
    counts), ``reviewed-runs`` (answers of programs), ``revocation`` (revoking a card)."""

    @model_validator(mode="after")
    def _is_a_policy(self) -> "PolicyTable":
        self.policy()
        return self

    def policy(self) -> Policy:
        values = {
            "most_per_card": self.most_per_card.price(),
            "noise": None if self.noise is None else self.noise.privacy(),
            "transform": self.transform.transform(),
            "moments": MomentPolicy(**dict(self.moments)),
            "analyses": self.analyses.policy(),
        }
        return Policy(**dict(self) | values)


class Caps(Section):
    """Budgets: the most that may ever be spent on the dataset.

    Each card is charged to the budgets of the dataset, of its project and of its analyst.
    """

    dataset: Amounts
    """Budget of everybody together."""
    project: Amounts
    """Budget of each project."""
    analyst: Amounts
    """Budget of each analyst."""
    projects: dict[str, Amounts] = Field(default_factory=dict)
    """Budgets of single projects, by name, in place of ``project``."""
    analysts: dict[str, Amounts] = Field(default_factory=dict)
    """Budgets of single analysts, by name, in place of ``analyst``."""

    def lowered_to(self, other: "Caps") -> "Caps":
        """Return the caps of both that allow less, for everybody and for each named holder."""
        projects, analysts = (
            {
                name: own.get(name, usual).lowered_to(others.get(name, other_usual))
                for name in {**own, **others}
            }
            for own, usual, others, other_usual in (
                (self.projects, self.project, other.projects, other.project),
                (self.analysts, self.analyst, other.analysts, other.analyst),
            )
        )
        return Caps(
            dataset=self.dataset.lowered_to(other.dataset),
            project=self.project.lowered_to(other.project),
            analyst=self.analyst.lowered_to(other.analyst),
            projects=projects,
            analysts=analysts,
        )

    def caps(self) -> ledger.Caps:
        """Raises InvalidNumberError where one is too large for the ledger."""
        own = {(Scope.PROJECT, name): amounts.price() for name, amounts in self.projects.items()}
        own |= {(Scope.ANALYST, name): amounts.price() for name, amounts in self.analysts.items()}
        return ledger.Caps(self.dataset.price(), self.project.price(), self.analyst.price(), own)
