"""Smallest leak that an audit detects: plant leaks of known size and audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gencard.boxes.reference import CopiesRows
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport, Verdict
from gencard.core.audit.run import audit
from gencard.core.blackbox import BlackBox
from gencard.core.dataset import Dataset
from gencard.core.errors import InvalidNumberError
from gencard.core.types import Progress, ignore_progress

SHARES = (0.001, 0.003, 0.01, 0.03, 0.1)
REPEATS = 10


@dataclass(frozen=True, slots=True)
class PowerCurve:
    """Share of planted leaks that were detected.

    Args:
        shares: Share of the rows that were copied from the input, for each leak.
        detections: In how many audits each leak was found.
        repeats: Audits of each leak.
    """

    shares: tuple[float, ...]
    detections: tuple[int, ...]
    repeats: int

    @property
    def smallest(self) -> float | None:
        """The smallest planted leak found in at least 80 % of its audits; None where none was."""
        pairs = zip(self.shares, self.detections, strict=True)
        return min((share for share, number in pairs if number >= 0.8 * self.repeats), default=None)


@dataclass(frozen=True, slots=True)
class _Planted:
    honest: BlackBox
    dataset: Dataset
    plan: AuditPlan

    def found(self, share: float, repeat: int) -> bool:
        box = CopiesRows(self.honest, share)
        return self._report(box, repeat).verdict is Verdict.LEAKAGE

    def _report(self, box: BlackBox, repeat: int) -> AuditReport:
        words = np.random.SeedSequence([self.plan.seed, repeat]).generate_state(1, np.uint64)
        return audit(box, self.dataset, replace(self.plan, seed=int(words[0])))


def power(
    honest: BlackBox,
    dataset: Dataset,
    plan: AuditPlan,
    *,
    shares: Sequence[float] = SHARES,
    repeats: int = REPEATS,
    progress: Progress = ignore_progress,
) -> PowerCurve:
    """Repeat an audit on boxes that copy a known share of their rows from their input.

    Args:
        honest: Makes the other rows; it must not leak itself.
        dataset: As in the audit whose power is asked for.
        plan: The same; every repeat has a seed of its own.
        shares: Sizes of the leak, increasing.
        repeats: Audits for each size.

    Raises:
        InvalidNumberError: No repeat or no share.
        Everything that ``audit`` raises.
    """
    if repeats < 1 or not shares:
        raise InvalidNumberError(field="power.repeats", expected="one or more, for one share or more")
    planted = _Planted(honest, dataset, plan)
    detections = [0] * len(shares)
    for number in range(len(shares) * repeats):
        progress("power", number / (len(shares) * repeats))
        leak, repeat = divmod(number, repeats)
        detections[leak] += planted.found(shares[leak], repeat)
    return PowerCurve(tuple(shares), tuple(detections), repeats)
