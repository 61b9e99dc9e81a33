"""Running a black box on one dataset, again and again."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gencard.core.audit.plan import AuditPlan
from gencard.core.blackbox import BlackBox, in_domain, runs_of
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, GencardError
from gencard.core.types import Progress


class Side(IntEnum):
    """Which dataset the box is given; of planted ones ``LOW`` is the even and ``HIGH`` the odd one."""

    LOW = 0
    HIGH = 1
    ORIGINAL = 2


class Step(IntEnum):
    """What the runs are for."""

    LOOK = 1
    TEST = 2
    PLANTED = 3


_BEGIN_AND_END = {
    (Step.LOOK, Side.LOW): (0.20, 0.30),
    (Step.LOOK, Side.HIGH): (0.30, 0.40),
    (Step.TEST, Side.LOW): (0.56, 0.65),
    (Step.TEST, Side.HIGH): (0.65, 0.74),
    (Step.TEST, Side.ORIGINAL): (0.74, 0.83),
    (Step.PLANTED, Side.LOW): (0.83, 0.92),
    (Step.PLANTED, Side.HIGH): (0.92, 1.00),
}
"""The share of the whole audit that is done; moves take the rest."""


def calls(runs: int) -> int:
    """How often an audit calls the box that runs it so often on each side of each step.

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

    def outputs(self, step: Step, side: Side, dataset: Dataset) -> Iterator[Dataset]:
        """What the box makes of a dataset in each run, rows as they came.

        Raises:
            BlackBoxError: The output is not over the declared domain, has another number of rows, or
                the box raised an error that is not Gencard's (whose message is not handed on).
        """
        runs = range(self.plan.terms.runs)
        seeds = [run_seed(self.plan.seed, step, side, run) for run in runs]
        outputs = runs_of(self.box, dataset, self.plan.rows, seeds)
        for run in runs:
            self._tell(step, side, run)
            yield in_domain(_next(outputs), dataset.domain, self.plan.rows)

    def skip(self, step: Step, side: Side) -> None:
        """Tell progress as if the box were run: whether it is may depend on records."""
        for run in range(self.plan.terms.runs):
            self._tell(step, side, run)

    def _tell(self, step: Step, side: Side, run: int) -> None:
        """Say which call of how many comes now."""
        runs, parts = self.plan.terms.runs, list(_BEGIN_AND_END)
        begin, end = _BEGIN_AND_END[step, side]
        number = parts.index((step, side)) * runs + run + 1
        stage = f"{step.name.lower()}, run {number} of {calls(runs)}"
        self.progress(stage, round(begin + (end - begin) * run / runs, 4))


def _next(outputs: Iterator[Dataset]) -> object:
    try:
        return next(outputs)
    except GencardError:
        raise
    except Exception:
        raise BlackBoxError(problem="it raised an error") from None


def run_seed(seed: int, step: Step, side: Side, run: int) -> int:
    """The seed that the box is given for one run: derived from the plan's, and its own.

    Being different on the two sides, equal outputs mean more than an equal stream of random numbers.
    """
    sequence = np.random.SeedSequence([seed, int(step), int(side), run])
    return int(sequence.generate_state(1, np.uint64)[0])
