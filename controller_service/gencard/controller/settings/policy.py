"""The settings tables of a dataset's policy, caps and evaluations, in the dataclasses that use them.

Docstrings of the dataclasses describe the settings; this module lists the differences of files.
"""

from collections.abc import Collection
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from gencard.controller.base.files import Section, TableOf
from gencard.controller.boxes.entries import Name
from gencard.core.card.budget import Neighbouring, Price
from gencard.core.card.privacy import NOISES, AddedNoise, Mechanism, noise_with
from gencard.core.generators.registry import BY_CONSTRUCTION
from gencard.core.policy import USUAL_RULES, AnalysesPolicy, MomentPolicy
from gencard.core.statistics.formula import Analysis
from gencard.measures.evaluation.registry import EVALUATIONS

MEASURES = TableOf(attacks=Annotated[int, Field(ge=10, le=10_000)])
"""Table of ``Declared``."""


def _measure(name: str) -> str:
    if name not in EVALUATIONS:
        raise PydanticCustomError("no_measure", "no evaluation has this name")
    return name


MOST_DAYS = 36_500
"""Life of a card."""

_ADDED = [noise.mechanism for noise in NOISES]


def _one_of(allowed: Collection[Mechanism]) -> AfterValidator:
    """Return a validator of mechanisms. It rejects a generator's own noise, which measures no psi."""

    def checked(mechanism: Mechanism) -> Mechanism:
        if mechanism not in allowed:
            raise ValueError(f"must be {' or '.join(allowed)}")
        return mechanism

    return AfterValidator(checked)


_PRICE = Annotated[Price, TableOf(statistics=Annotated[int, Field(ge=0)])]


class NoiseTable(Section):
    """Noise of a card for which the analyst requests none of the ``mechanisms``."""

    # a section, not a form of a dataclass: the mechanism chooses among several

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
        self.noise()
        return self

    def noise(self) -> AddedNoise:
        parameters = {name: str(value) for name, value in self if value is not None}
        return noise_with(Mechanism(parameters.pop("mechanism")), parameters)

    @classmethod
    def of(cls, noise: AddedNoise) -> dict[str, object]:
        """Return the table that states the noise."""
        return {name: getattr(noise, name, None) for name in cls.model_fields}


_CHECKS = USUAL_RULES.checks
_MOST_RECORDS = 1_000_000
_OFF: Literal["off"] = "off"
_INFLUENCE = Annotated[
    Annotated[float, Field(gt=0, le=_MOST_RECORDS)] | Literal["off"],
    AfterValidator(lambda number: None if number == _OFF else number),
    PlainSerializer(lambda number: _OFF if number is None else number),
]

ANALYSES = TableOf(
    kinds=tuple[Analysis, ...],
    threshold=Annotated[int, Field(ge=_CHECKS.threshold, le=_MOST_RECORDS)],
    rounding=Annotated[int, Field(ge=_CHECKS.rounding, le=_MOST_RECORDS)],
    influence=_INFLUENCE,
)
"""Table of ``AnalysesPolicy``."""


POLICY = TableOf(
    largest_order=PositiveInt,
    largest_order_exact=PositiveInt,
    largest_marginal_cells=PositiveInt,
    most_marginals=PositiveInt,
    most_rows=PositiveInt,
    generators=(tuple[Name, ...], BY_CONSTRUCTION),
    most_per_card=_PRICE,
    mechanisms=tuple[Annotated[Mechanism, _one_of([Mechanism.EXACT, *_ADDED])], ...],
    noise=Annotated[NoiseTable, AfterValidator(NoiseTable.noise), PlainSerializer(NoiseTable.of)] | None,
    moments=Annotated[MomentPolicy, TableOf(highest=PositiveInt)],
    measures=tuple[Annotated[str, AfterValidator(_measure)], ...],
    analyses=Annotated[AnalysesPolicy, ANALYSES],
    valid_days=Annotated[int, Field(ge=1, le=MOST_DAYS)],
    stewards=Annotated[int, Field(ge=1, le=2)],
    most_records=None,  # the schema states it
)
"""Table of ``Policy``."""

CAPS = TableOf(
    dataset=_PRICE,
    project=_PRICE,
    analyst=_PRICE,
    projects=dict[str, _PRICE],
    analysts=dict[str, _PRICE],
)
"""Table of ``Caps``."""
