"""Running a black box on one dataset, again and again."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gencard.core.audit.plan import AuditPlan
from gencard.core.blackbox.canonical import in_domain
from gencard.core.blackbox.contract import BlackBox, Progress
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, GencardError


class Side(IntEnum):
    """Which dataset the box is given."""

    LOW = 0
    HIGH = 1
    ORIGINAL = 2


class Step(IntEnum):
    """What the runs are for."""

    LOOK = 1
    TEST = 2


_BEGIN_AND_END = {
    (Step.LOOK, Side.LOW): (0.20, 0.35),
    (Step.LOOK, Side.HIGH): (0.35, 0.50),
    (Step.TEST, Side.LOW): (0.70, 0.80),
    (Step.TEST, Side.HIGH): (0.80, 0.90),
    (Step.TEST, Side.ORIGINAL): (0.90, 1.00),
}
"""The share of the whole audit that is done; moves take the rest."""


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
        begin, end = _BEGIN_AND_END[step, side]
        runs = self.plan.terms.runs
        for run in range(runs):
            self.progress(step.name.lower(), round(begin + (end - begin) * run / runs, 4))
            output = self._run(dataset, run_seed(self.plan.seed, step, side, run))
            yield in_domain(output, dataset.domain, self.plan.rows)

    def _run(self, dataset: Dataset, seed: int) -> object:
        try:
            return self.box(dataset, self.plan.rows, seed=seed)
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
