"""The plan of an audit: settings that are fixed before any record is read, and the runs they ask for."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from gencard.core.blackbox import BlackBox, WeighedBox, in_domain, runs_of
from gencard.core.card.budget import decimal_of
from gencard.core.card.terms import MOST_ROWS, USUAL_AUDIT, AuditTerms
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import BlackBoxError, GencardError, InvalidCliqueError, InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import INTEGER_TEXT
from gencard.core.types import FloatArray, Progress

MOST_ATTEMPTS = 1_000_000


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Settings of one audit. With box and dataset they fix its report, except time and earlier tries.

    Args:
        cliques: Phi, the marginals that the card releases; with ``linear``, its linear statistics.
        seed: From which the audit's own choices and the seeds of all runs derive, 0 to 2**64 - 1.
        attempt: Which try of the family of black boxes this is on the dataset, from 1.
        structural_zeros: Cells that cannot occur. The audit puts no record there: a box may reject
            such a record, and its output on such a record is no evidence about real records.

    Raises:
        InvalidCliqueError: Phi is empty.
        InvalidNumberError: A number is out of its range.
    """

    cliques: tuple[Clique, ...]
    rows: int
    seed: int = field(metadata=written(scalar=INTEGER_TEXT))
    terms: AuditTerms = USUAL_AUDIT
    attempt: int = 1
    linear: tuple[LinearStatistic, ...] = field(default=(), metadata=written(omit=True))
    structural_zeros: tuple[StructuralZeros, ...] = field(default=(), metadata=written(omit=True))

    def __post_init__(self) -> None:
        if not self.cliques and not self.linear:
            raise InvalidCliqueError(clique="", problem="Phi names no statistic")
        if not 2 <= self.rows <= MOST_ROWS:
            raise InvalidNumberError(field="audit.rows", expected=f"from 2 to {MOST_ROWS}")
        if not 0 <= self.seed < 2**64:
            raise InvalidNumberError(field="audit.seed", expected="from 0 to 2**64 - 1")
        if not 1 <= self.attempt <= MOST_ATTEMPTS:
            raise InvalidNumberError(field="audit.attempt", expected=f"from 1 to {MOST_ATTEMPTS}")

    @property
    def level(self) -> float:
        """The level at which this attempt is tested."""
        return level(float(decimal_of(self.terms.alpha, "audit.alpha")), self.attempt)


def level(alpha: float, attempt: int) -> float:
    r"""The part of ``alpha`` spent on one attempt, :math:`\alpha / (m (m + 1))`.

    The parts of all tries, however many, sum to ``alpha``: an honest generator that is submitted again
    and again is accused with at most that probability. A leak does not gain by the smaller levels,
    because the evidence of all tries is pooled (``pooled_over_windows``).

    >>> [level(0.06, attempt) for attempt in (1, 2, 3)]
    [0.03, 0.01, 0.005]
    """
    return alpha / (attempt * (attempt + 1))


class Side(IntEnum):
    """Dataset that the box is given. Values enter ``run_seed``; callers unpack them in this order."""

    LOW = 0  # among the planted datasets: the even one
    HIGH = 1  # among the planted datasets: the odd one
    ORIGINAL = 2


class AuditStep(IntEnum):
    """Step of an audit in which a run is made; its value enters ``run_seed``."""

    LOOK = 1
    TEST = 2
    PLANTED = 3


_BEGIN_AND_END = {
    (AuditStep.LOOK, Side.LOW): (0.20, 0.30),
    (AuditStep.LOOK, Side.HIGH): (0.30, 0.40),
    (AuditStep.TEST, Side.LOW): (0.56, 0.65),
    (AuditStep.TEST, Side.HIGH): (0.65, 0.74),
    (AuditStep.TEST, Side.ORIGINAL): (0.74, 0.83),
    (AuditStep.PLANTED, Side.LOW): (0.83, 0.92),
    (AuditStep.PLANTED, Side.HIGH): (0.92, 1.00),
}
"""The share of the whole audit that is done; moves take the rest."""


def calls(runs: int) -> int:
    """Count the calls of a box by an audit with this number of runs on each side of each step.

    >>> calls(10)
    70
    """
    return runs * len(_BEGIN_AND_END)


@dataclass(frozen=True, slots=True)
class Runner:
    """A black box and how it is run."""

    box: BlackBox
    plan: AuditPlan
    progress: Progress

    def outputs(self, step: AuditStep, side: Side, dataset: Dataset) -> Iterator[Dataset]:
        """Yield the output of the box for a dataset in each run; rows keep their order.

        Raises:
            BlackBoxError: The output is not over the declared domain, has another number of rows, or
                the box raised an error that is not Gencard's (whose message is not handed on).
        """
        seeds = self._seeds(step, side)
        outputs = runs_of(self.box, dataset, self.plan.rows, seeds)
        for run in range(len(seeds)):
            self._report_call(step, side, run)
            try:
                output = next(outputs)
            except GencardError:
                raise
            except Exception:
                raise BlackBoxError(problem="it raised an error") from None
            yield in_domain(output, dataset.domain, self.plan.rows)

    def weigh(self, step: AuditStep, side: Side, values: FloatArray) -> None:
        """Give a box that repeats some of its runs the numbers that the audit computed from each run.

        Args:
            values: Shape ``(runs, numbers)``.
        """
        if isinstance(self.box, WeighedBox):
            self.box.weigh(self._seeds(step, side), values)

    def _seeds(self, step: AuditStep, side: Side) -> list[int]:
        return [run_seed(self.plan.seed, step, side, run) for run in range(self.plan.terms.runs)]

    def skip(self, step: AuditStep, side: Side) -> None:
        """Report progress as if the box had run, because whether it runs may depend on records."""
        for run in range(self.plan.terms.runs):
            self._report_call(step, side, run)

    def _report_call(self, step: AuditStep, side: Side, run: int) -> None:
        """Say which call of how many comes now."""
        runs, parts = self.plan.terms.runs, list(_BEGIN_AND_END)
        begin, end = _BEGIN_AND_END[step, side]
        number = parts.index((step, side)) * runs + run + 1
        stage = f"{step.name.lower()}, run {number} of {calls(runs)}"
        self.progress(stage, round(begin + (end - begin) * run / runs, 4))


def run_seed(seed: int, step: AuditStep, side: Side, run: int) -> int:
    """Return the seed of one run, derived from the plan's seed; every run has another seed.

    The sides have different seeds, so that equal outputs are not due to equal random numbers.
    """
    sequence = np.random.SeedSequence([seed, int(step), int(side), run])
    return int(sequence.generate_state(1, np.uint64)[0])
