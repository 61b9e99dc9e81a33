"""SynthPop as a black box, without a privacy guarantee; its fit can be saved."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gencard.boxes.entry import BoxEntry, Parameters, Surroundings
from gencard.boxes.synthpop.conditional import TreeScale, density_of, scales_of
from gencard.boxes.synthpop.fitted import FittedTrees, Step, fit_of, step_of
from gencard.boxes.synthpop.options import DEFAULTS, Options, PlannedStep, options_of, planned_steps
from gencard.boxes.synthpop.tree import Growth
from gencard.core.card.budget import Claim
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidDatasetError
from gencard.core.generators.contract import rng_of
from gencard.core.types import Progress, ignore_progress

_RANDOM_STATES = 2**32
"""Number of seeds that scikit-learn takes: 0 to 2**32 - 1."""


@dataclass(frozen=True, slots=True)
class SynthPop:
    """Each attribute drawn from the leaf of a tree grown on the attributes before it [1]_.

    The first attribute is a bootstrap of its records. Names are drawn by classification trees,
    numbers by regression trees; where numbers may be missing, first whether they are.

    Args:
        options: How trees are grown and used.
        values: For each attribute with numbers that of each code, NaN for missing.

    References:
        .. [1] B. Nowok, G. M. Raab, C. Dibben, "synthpop: Bespoke Creation of Synthetic Data in R",
           Journal of Statistical Software 74(11), 2016.
    """

    options: Options = field(default_factory=Options)
    values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        return self.fit(dataset, seed=seed).sample(rows, seed=seed)

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> FittedTrees:
        """Grow the trees; the seed decides between equally good splits.

        Raises:
            InvalidDatasetError: There is no record.
            InvalidInputError: Options or numbers do not fit the domain.
        """
        plans = planned_steps(self.options, dataset.domain)
        scales = scales_of(self.values, dataset.domain)
        if not len(dataset):
            raise InvalidDatasetError(problem="it has no records")
        rng = rng_of(seed)
        steps = []
        for number, step in enumerate(self._steps(dataset, plans, scales, rng)):
            steps.append(step)
            progress(f"tree of '{plans[number].attribute}'", (number + 1) / len(plans))
        return FittedTrees(dataset.domain, tuple(steps))

    def load(self, saved: bytes) -> FittedTrees:
        """A fit that was saved.

        Raises:
            BlackBoxError: The bytes are not what ``save`` gave.
        """
        return FittedTrees(*fit_of(saved))

    def _steps(
        self,
        dataset: Dataset,
        plans: tuple[PlannedStep, ...],
        scales: Mapping[str, TreeScale],
        rng: np.random.Generator,
    ) -> Iterator[Step]:
        options = self.options
        growth = Growth(options.minimum_leaf, options.complexity, options.pruning == "misclassification")
        for plan in plans:
            state = int(rng.integers(_RANDOM_STATES))
            step = step_of(plan, dataset, scales, growth, random_state=state)
            scale = scales.get(plan.attribute) if options.smoothing == "density" else None
            if scale:
                codes = dataset.column(plan.attribute)
                step = replace(step, density=density_of(scale.numbers, codes))
            yield step


_CLAIM = Claim(
    "No formal privacy is promised: rows repeat the codes of records, attribute by attribute."
)


def _make(parameters: Parameters, surroundings: Surroundings) -> SynthPop:
    return SynthPop(options_of(parameters), surroundings.values)


ENTRY = BoxEntry(
    description="Each attribute drawn from the leaves of a classification or regression tree on those "
    "before it (synthpop's CART).",
    parameters=DEFAULTS,
    claim=lambda _: _CLAIM,
    make=_make,
    libraries=("opendp", "scikit-learn"),
)
