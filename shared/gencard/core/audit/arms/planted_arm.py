"""The arm of planted records: whether unique records are reproduced where they were planted."""

from dataclasses import dataclass

import numpy as np

from gencard.core.audit.arms.comparison import welch
from gencard.core.audit.arms.planted_pair import PlantedPair, planted_pair, uniform
from gencard.core.audit.arms.runs import Runner, Side, Step
from gencard.core.audit.arms.uniques import BoolArray, Presence, best_single, findable_alone, one_in
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import LEVEL_SHARES, Check, CheckResult, PlantedEvidence, PlantedRuns
from gencard.core.dataset import Dataset
from gencard.core.errors import NoExtremalPairError
from gencard.core.types import FloatArray

_STREAM = 3
"""Of the plan's seed: planting draws from a stream of its own."""

ALL_TOGETHER = "a statistic of Phi holds all attributes together"
NO_CUBE = "the records leave no empty cells to plant unique records in"


@dataclass(frozen=True, slots=True)
class PlantedArm:
    """Two datasets to run a box on; or why there are none.

    Args:
        pair: None where nothing can be planted.
        not_run: Why; "" where there is a pair.
    """

    pair: PlantedPair | None
    not_run: str = ""

    @classmethod
    def of(cls, dataset: Dataset, plan: AuditPlan) -> "PlantedArm":
        """Plant around a dataset, or where it leaves no empty cells around a uniform one of its length.

        The base need not have the dataset's psi: the two sides are compared with each other alone.

        Raises:
            TooLargeError: More sets of attributes than an audit goes through.
        """
        rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([plan.seed, _STREAM])))
        for base in (dataset, uniform(dataset.domain, len(dataset), rng=rng)):
            try:
                pair = planted_pair(base, plan.cliques, plan.linear, rows=plan.rows, rng=rng)
            except NoExtremalPairError:
                return cls(None, ALL_TOGETHER)
            if pair is not None:
                return cls(pair)
        return cls(None, NO_CUBE)

    def checks(
        self, runner: Runner, plan: AuditPlan
    ) -> tuple[tuple[CheckResult, ...], PlantedEvidence | None]:
        """Run the box on both datasets, and test the reproduced records.

        Where nothing can be planted progress is told all the same: it depends on no record.

        Raises:
            BlackBoxError: An output is not what the contract of the box says.
        """
        if self.pair is None:
            for side in (Side.LOW, Side.HIGH):
                runner.skip(Step.PLANTED, side)
            checks = (Check.PLANTED, Check.CANARY)
            return tuple(_not_run(check, self.not_run) for check in checks), None
        on_even = _presence(self.pair, runner, Side.LOW, self.pair.even)
        on_odd = _presence(self.pair, runner, Side.HIGH, self.pair.odd)
        return planted_checks(self.pair, on_even, on_odd, plan.level)


def planted_checks(
    pair: PlantedPair, on_even: BoolArray, on_odd: BoolArray, level: float
) -> tuple[tuple[CheckResult, ...], PlantedEvidence]:
    """Test which planted records came out on which side.

    Args:
        on_even, on_odd: Whether each planted record, the even ones first, came out in each run on
            that side: shape ``(runs, 2 planted)``.
        level: Of the whole audit.
    """
    planted = len(pair.even_corners)
    even, odd = _runs(on_even, planted), _runs(on_odd[:, ::-1], planted)
    compared = welch(-_surplus(odd), _surplus(even))
    own = np.hstack([on_even[:, :planted], on_odd[:, planted:]])
    other = np.hstack([on_odd[:, :planted], on_even[:, planted:]])
    p_single = best_single(own, other)
    shares = LEVEL_SHARES[Check.PLANTED], LEVEL_SHARES[Check.CANARY]
    checks = (
        CheckResult(Check.PLANTED, shares[0], compared.p_value, compared.direction),
        CheckResult(Check.CANARY, shares[1], p_single),
    )
    room = planted - float(np.mean([*even.other, *odd.other]))
    return checks, PlantedEvidence(
        pair.cubes,
        planted,
        pair.rare,
        even,
        odd,
        one_in(compared, len(on_even), room, 2, shares[0] * level),
        findable_alone(own, other, shares[1] * level),
    )


def _presence(pair: PlantedPair, runner: Runner, side: Side, dataset: Dataset) -> BoolArray:
    """Which planted records came out in each run on one side: shape ``(runs, 2 planted)``."""
    presence = Presence(np.vstack([pair.even_corners, pair.odd_corners]))
    for _ in presence.watched(runner.outputs(Step.PLANTED, side, dataset)):
        pass
    return presence.table


def _runs(table: BoolArray, planted: int) -> PlantedRuns:
    own, other = table[:, :planted].sum(axis=1), table[:, planted:].sum(axis=1)
    return PlantedRuns(tuple(own.tolist()), tuple(other.tolist()))


def _surplus(runs: PlantedRuns) -> FloatArray:
    """How many more of a side's own records came out than of the other side's, in each run."""
    return np.asarray(np.array(runs.own) - np.array(runs.other), dtype=np.float64)


def _not_run(check: Check, why: str) -> CheckResult:
    return CheckResult(check, LEVEL_SHARES[check], 1.0, not_run=why)
