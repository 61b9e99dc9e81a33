"""How one attribute is drawn once those that come before it have been."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gencard.boxes.synthpop.conditional import Conditional, conditional
from gencard.boxes.synthpop.growth import Growth
from gencard.boxes.synthpop.rules import FREE, Rule, ruled
from gencard.boxes.synthpop.scale import Density, Scale
from gencard.boxes.synthpop.target import Target, nominal, numeric
from gencard.boxes.synthpop.visits import Visit
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Rules first, then one conditional after the other draws what is still ``FREE``.

    Args:
        axis: Of the attribute.
        rules: For it.
        conditionals: One; two where numbers may be missing: which code of a missing value if any,
            and then the number.
        density: Smooths what was drawn; None leaves it.
    """

    axis: int
    rules: tuple[Rule, ...]
    conditionals: tuple[Conditional, ...]
    density: Density | None = None

    def draw(self, codes: NDArray[Any], domain: Domain, rng: np.random.Generator) -> NDArray[np.int64]:
        """Codes of the attribute, from those ``(n, d)`` of the attributes before it: shape ``(n,)``."""
        drawn = ruled(self.rules, codes, domain)
        fixed = drawn != FREE
        for each in self.conditionals:
            free = np.flatnonzero(drawn == FREE)
            drawn[free] = each.draw(codes[free], rng)
        if self.density is None:
            return drawn
        return np.where(fixed, drawn, self.density.smooth(drawn, rng))


def step_of(
    visit: Visit, dataset: Dataset, scales: Mapping[str, Scale], growth: Growth, *, random_state: int
) -> Step:
    """Grown on the records for which no rule holds; on all of them where a rule holds for each."""
    fixed = ruled(visit.rules, dataset.codes, dataset.domain)
    free = np.flatnonzero(fixed == FREE)
    records = dataset.take(free) if 0 < len(free) < len(dataset) else dataset
    grow = partial(
        conditional,
        predictors=visit.predictors,
        scales=scales,
        growth=growth,
        random_state=random_state,
    )
    scale = scales.get(visit.attribute)
    axis = dataset.domain.axis(visit.attribute)
    return Step(axis, visit.rules, _conditionals(records, visit.attribute, scale, grow))


def _conditionals(
    records: Dataset, attribute: str, scale: Scale | None, grow: Callable[[Dataset, Target], Conditional]
) -> tuple[Conditional, ...]:
    codes = records.column(attribute)
    if scale is None:
        return (grow(records, nominal(codes)),)
    missing = np.isnan(scale.numbers[codes])
    if missing.all():
        return (grow(records, nominal(codes)),)
    known = records.take(np.flatnonzero(~missing))
    last = grow(known, numeric(codes[~missing], scale.numbers))
    if not missing.any():
        return (last,)
    which = nominal(np.where(missing, codes.astype(np.int64), FREE))
    return grow(records, which), last
