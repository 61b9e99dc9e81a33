"""The settings tables of a dataset's policy, caps and evaluations."""

from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from gencard.controller.policy import policy
from gencard.controller.policy.policy import AnalysesPolicy, MomentPolicy
from gencard.controller.settings.boxes import Name
from gencard.controller.settings.files import Section
from gencard.controller.state import accounts
from gencard.controller.state.accounts import Scope
from gencard.core.card.analyses import NO_ANALYSES, Analyses
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.mechanism import Transform, noise_with
from gencard.core.card.noise import NOISES, AddedNoise, Mechanism
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.evaluation.material import Declared
from gencard.core.evaluation.registry import EVALUATIONS
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.moment import MomentKind
from gencard.core.output_checks.rules import USUAL_RULES, Rules
from gencard.core.privacy.distances.gower import Missing
from gencard.core.statistics.formula import Analysis
from gencard.core.utility.gap import GapWords


class GapTable(Section):
    """A difference of two groups within levels of an attribute; see ``core.utility.gap.GapWords``."""

    attribute: str
    first: str
    second: str
    within: str
    among: str = ""
    levels: tuple[str, ...] = ()

    def words(self) -> GapWords:
        return GapWords(**dict(self))


class MeasuresTable(Section):
    """Keys, target and options of evaluations; see ``core.measures.material.Declared``."""

    keys: Clique = ()
    target: str = ""
    attacks: Annotated[int, Field(ge=10, le=10_000)] = 500
    missing: Missing = Missing.CATEGORY
    gap: GapTable | None = None

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
    """A price or cap in each currency of the ledger."""

    statistics: int = Field(default=0, ge=0)
    epsilon: Decimal = Decimal(0)
    rho: Decimal = Decimal(0)

    @model_validator(mode="after")
    def _is_a_price(self) -> "Amounts":
        self.price()
        return self

    def price(self) -> Price:
        return Price(self.statistics, self.epsilon, self.rho)


class NoiseTable(Section):
    """Noise on offer: default budget, and the neighbouring relation of all noisy cards."""

    mechanism: Annotated[Mechanism, _one_of(_ADDED)]
    neighbouring: Neighbouring
    epsilon: Decimal | None = None
    rho: Decimal | None = None
    delta: Decimal | None = None

    @model_validator(mode="after")
    def _is_a_privacy(self) -> "NoiseTable":
        self.privacy()
        return self

    def privacy(self) -> AddedNoise:
        parameters = {name: str(value) for name, value in dict(self).items() if value is not None}
        return noise_with(Mechanism(parameters.pop("mechanism")), parameters)


class TransformTable(Section):
    """Checks and rounding of exact counts; see ``core.card.mechanism.Transform``."""

    threshold: int = 0
    freedom: int = 0
    dominance_count: int = 0
    dominance_percent: int = 0
    remainder_percent: int = 0
    zeros: bool = False
    rounding: int = 1

    @model_validator(mode="after")
    def _is_a_transform(self) -> "TransformTable":
        self.transform()
        return self

    def transform(self) -> Transform:
        return Transform(**dict(self))


class MomentsTable(Section):
    """Moments on offer beside marginals; see ``moment_policy.MomentPolicy``."""

    kinds: tuple[MomentKind, ...] = ()
    highest: PositiveInt = 2


class Release(StrEnum):
    """Who lets answers of checked runs leave: the output rules alone, or a steward after them."""

    POLICY = "policy"
    STEWARD = "steward"


_CHECKS = USUAL_RULES.checks
_MOST_RECORDS = 1_000_000


class AnalysesTable(Section):
    """Runs on the records that a card may ask for; see ``policy.AnalysesPolicy``.

    The output rules may be made stricter than usual, and no laxer.
    """

    kinds: tuple[Analysis, ...] = ()
    checked_runs: int = 0
    numbers: int = NO_ANALYSES.numbers
    reviewed_runs: int = 0
    libraries: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    program_numbers: int = NO_ANALYSES.program_numbers
    stored: bool = False
    release: Release = Release.POLICY
    threshold: Annotated[int, Field(ge=_CHECKS.threshold, le=_MOST_RECORDS)] = _CHECKS.threshold
    rounding: Annotated[int, Field(ge=_CHECKS.rounding, le=_MOST_RECORDS)] = _CHECKS.rounding

    @model_validator(mode="after")
    def _is_a_policy(self) -> "AnalysesTable":
        self.policy()
        return self

    def policy(self) -> AnalysesPolicy:
        """Raises InvalidInputError or InvalidNumberError where it offers what there cannot be."""
        listed = ("kinds", "libraries", "columns")
        names = {name: tuple(sorted(map(str, getattr(self, name)))) for name in listed}
        others = {"release", "threshold", "rounding", "stored"}
        most = {name: value for name, value in dict(self).items() if name not in others} | names
        checks = replace(_CHECKS, threshold=self.threshold, rounding=self.rounding)
        rules = Rules(checks, survival=max(USUAL_RULES.survival, self.threshold))
        return AnalysesPolicy(Analyses(**most), self.release is Release.STEWARD, rules, self.stored)


class PolicyTable(Section):
    """What a proposal may ask for; see ``policy.Policy``."""

    largest_order: PositiveInt
    largest_marginal_cells: PositiveInt
    most_marginals: PositiveInt
    most_rows: PositiveInt
    most_per_card: Amounts
    forbidden: tuple[Clique, ...] = ()
    generators: tuple[Name, ...] = BY_CONSTRUCTION
    mechanisms: tuple[Annotated[Mechanism, _one_of([Mechanism.EXACT, *_ADDED])], ...] = (
        Mechanism.EXACT,
    )
    noise: NoiseTable | None = None
    transform: TransformTable = TransformTable()
    moments: MomentsTable = MomentsTable()
    measures: tuple[MeasureName, ...] = ()
    without_uniques: bool = False
    analyses: AnalysesTable = AnalysesTable()
    automatic: bool = False
    valid_days: Annotated[int, Field(ge=1, le=MOST_DAYS)] = 90
    stewards: Annotated[int, Field(ge=1, le=2)] = 1
    two_stewards: tuple[policy.TwoStewards, ...] = ()

    @model_validator(mode="after")
    def _somebody_looks(self) -> "PolicyTable":
        offers = self.stewards > 1 or policy.TwoStewards.EXACT_COUNTS in self.two_stewards
        if self.automatic and offers:
            problem = "must be false if two stewards decide on offers"
            raise InvalidInputError(field="policy.automatic", problem=problem)
        return self

    def policy(self) -> policy.Policy:
        values = {
            "most_per_card": self.most_per_card.price(),
            "noise": None if self.noise is None else self.noise.privacy(),
            "transform": self.transform.transform(),
            "moments": MomentPolicy(**dict(self.moments)),
            "analyses": self.analyses.policy(),
        }
        return policy.Policy(**dict(self) | values)


class Caps(Section):
    """Maximum total spending: on the dataset, by one project, by one analyst.

    ``projects`` and ``analysts`` name those that have another maximum than ``project`` or ``analyst``.
    """

    dataset: Amounts
    project: Amounts
    analyst: Amounts
    projects: dict[str, Amounts] = Field(default_factory=dict)
    analysts: dict[str, Amounts] = Field(default_factory=dict)

    def caps(self) -> accounts.Caps:
        """Raises InvalidNumberError where one is too large for the ledger."""
        own = {(Scope.PROJECT, name): amounts.price() for name, amounts in self.projects.items()}
        own |= {(Scope.ANALYST, name): amounts.price() for name, amounts in self.analysts.items()}
        return accounts.Caps(self.dataset.price(), self.project.price(), self.analyst.price(), own)
