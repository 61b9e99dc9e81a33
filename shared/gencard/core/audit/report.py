"""The report of an audit: its evidence and verdict.

Names of fields and values of enumerations are the JSON of stored reports: do not rename them.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import comb, sqrt

from gencard.core.audit.exploration import BlockEvidence, Evidence, pooled_over_windows
from gencard.core.audit.plan import AuditPlan
from gencard.core.domain import Clique, Domain
from gencard.core.errors import InvalidNumberError
from gencard.core.json_codecs import written
from gencard.core.typed_json import DOMAIN_AS_PAIRS


@dataclass(frozen=True, slots=True)
class PlantedRuns:
    """Runs on one of the two planted datasets.

    Args:
        own: Number of records planted there that each run reproduced.
        other: Number of records planted on the other side that each run reproduced.
    """

    own: tuple[int, ...]
    other: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlantedEvidence:
    """Runs on two datasets with equal psi that differ only in planted unique records.

    Args:
        planted: Records planted on each side.
        rare: Records of both sides whose cells were expected to hold fewer than 0.05 rows of a run.
        one_in: A box that copies one unique record in so many is found by ``Check.PLANTED`` in about
            8 of 10 such audits; 0 where not even one that copies all of them is.
        alone: Number of planted records that ``Check.CANARY`` would detect, each alone, if every run on
            its side reproduced the record.
    """

    cubes: int
    planted: int
    rare: int
    even: PlantedRuns
    odd: PlantedRuns
    one_in: int
    alone: int


@dataclass(frozen=True, slots=True)
class UniquesEvidence:
    """Unique records of the dataset that were reproduced.

    Args:
        uniques: Unique records of the dataset that neither side of the pair holds.
        original: Number of them reproduced in each run on the dataset itself.
        twins: Number reproduced in each run on the sides of the pair, which have the same psi.
        one_in: N as in ``PlantedEvidence``, for a box that copies only on the dataset itself.
    """

    uniques: int
    original: tuple[int, ...]
    twins: tuple[int, ...]
    one_in: int


class Verdict(StrEnum):
    """The verdict of an audit. There is no value "safe": an audit cannot prove safety."""

    NO_EVIDENCE = "no-evidence"
    LEAKAGE = "leakage"


class Check(StrEnum):
    """The tests of an audit, each on new runs.

    The first four compare the two sides of the extremal pair. ``RECOGNITION`` and ``UNIQUES`` compare
    the dataset itself with them. ``PLANTED`` and ``CANARY`` compare two datasets that differ in
    planted unique records.
    """

    MEAN = "mean"
    SPREAD = "spread"
    SCATTER = "scatter"
    ORDER = "order"
    RECOGNITION = "recognition"
    UNIQUES = "uniques"
    PLANTED = "planted"
    CANARY = "canary"


LEVEL_SHARES = {
    Check.MEAN: 0.55,
    Check.SPREAD: 0.04,
    Check.SCATTER: 0.04,
    Check.ORDER: 0.04,
    Check.RECOGNITION: 0.04,
    Check.UNIQUES: 0.04,
    Check.PLANTED: 0.2,
    Check.CANARY: 0.05,
}
"""Rule that divides the level among the tests, so that together they keep it (Bonferroni).

Fixed before any run: the share of a test that cannot be made is not redistributed. Reports state the
shares used.
"""

LARGEST_EFFECT = 1e6
"""Represents "no effect would be detected"."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One test.

    Args:
        share: Share of the audit's level that this test uses.
        p_value: P value of this test alone, which rejects if ``p_value <= share * level``.
        direction: 1 if the outputs differ in the expected direction (of step 1 or of the inputs), -1 if
            in the other, 0 for a test without direction. Pooling over attempts needs it: differences in
            one direction add up, random ones cancel.
        not_run: Why the test was not made; empty if it was. The p-value is then 1, the direction 0.
    """

    check: Check
    share: float
    p_value: float
    direction: int = field(default=0, metadata=written(omit=True))
    not_run: str = field(default="", metadata=written(omit=True))

    def __post_init__(self) -> None:
        if self.direction not in (-1, 0, 1):
            raise InvalidNumberError(field="direction", expected="-1, 0 or 1")


@dataclass(frozen=True, slots=True)
class EarlierTry:
    """Evidence that an earlier audit of the same family of black boxes adds.

    A family is a black box's name and author on a dataset, whatever its bytes; see ``docs/audit.md``.

    Args:
        runs, rows: Runs on each side, and rows of each run.
        same_bytes: The black box had the digest of the one in the report.
    """

    runs: int
    rows: int
    same_bytes: bool
    checks: tuple[CheckResult, ...]

    def evidence(self, check: Check) -> Evidence | None:
        """Evidence of this attempt in one test; None if the test was not made."""
        results = (one for one in self.checks if one.check is check and not one.not_run)
        return next((_evidence(one, self.runs, self.rows) for one in results), None)


@dataclass(frozen=True, slots=True)
class Effect:
    """Share of the inputs' difference in one block that the outputs reproduce: 0 none, 1 all.

    Args:
        block: The strongest block of step 1.
        low, high: A 95 % confidence interval of ``value``, from the fresh runs of step 2.
        smallest: A box that reproduces this part of the inputs' whole difference is found by the
            test of the mean in about 80 % of such audits.
    """

    block: Clique
    value: float
    low: float
    high: float
    smallest: float


@dataclass(frozen=True, slots=True)
class PairProof:
    """Proof that both sides have the psi of the dataset: digests of their marginals.

    Args:
        original, low, high: HMAC-SHA-256, in hex, under a key of this report alone; equal, or there
            would be no report. At real records the key is secret, so that no count can be guessed.
        moved: Records of one side that the other does not hold.
    """

    step: int
    original: str
    low: str
    high: str
    moved: int


@dataclass(frozen=True, slots=True)
class WorkerRuns:
    """Runs that workers of a cluster made, and how many of them the controller repeated.

    Every repeated run had the same rows as the worker's, or there would be no report.

    Args:
        drawn: Runs of each side that it drew at random for this, after all answers of the side.
        weighed: Runs of each side that it repeated because they move the results most.
    """

    performed: int
    repeated: int
    drawn: int
    weighed: int

    def probability(self, false: int, runs: int) -> float:
        """Probability that the draw alone finds a false run on one side.

        The draw is without replacement: with ``f`` false runs of ``n``, of which ``m`` are drawn, none
        is found with probability :math:`\\binom{n-f}{m} / \\binom{n}{m}`.

        >>> WorkerRuns(70, 14, drawn=1, weighed=1).probability(5, 10)
        0.5
        """
        drawn = min(self.drawn, runs)
        return 1.0 - comb(runs - false, drawn) / comb(runs, drawn)


def false_runs(runs: int) -> tuple[int, ...]:
    """Numbers of false runs on a side for which documents state the probability to find one.

    >>> false_runs(10)
    (1, 2, 5, 10)
    """
    return tuple(sorted({1, max(1, runs // 4), max(1, runs // 2), runs}))


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All results of an audit. The numbers depend on the records of the dataset.

    Args:
        checks: In the order of ``Check``.
        blocks: Every block looked at, the strongest first.
        tested: The blocks whose differences beta* weighs, the heaviest first.
        g_low, g_high, g_original: ``g`` of each run of step 2 on the two sides and on the dataset.
        versions: Names and versions of what ran, as the caller gives them.
        seconds: How long the audit took, as the caller measured it.
        earlier: Comparable tries of the same family that have ended, oldest first; their evidence is
            pooled with that of ``checks``, and the verdict is that of all together.
        planted: Evidence from planted unique records; None if ``checks`` gives the reason.
        uniques: Evidence from the dataset's own unique records; None if ``checks`` gives the reason.
        recognised: A box that reproduces this part of the dataset's own difference from the pair, on
            the dataset alone, is found by ``Check.RECOGNITION`` in about 8 of 10 such audits. None, as
            the two before, in reports older than these fields.
        workers: Runs that workers of a cluster made; None where the controller made all runs.
        first_edition: Whether its document states its summary in the sentences of the first edition; no
            document holds this field.
    """

    plan: AuditPlan
    domain: Domain = field(metadata=written(scalar=DOMAIN_AS_PAIRS))
    records: int
    checks: tuple[CheckResult, ...]
    effect: Effect
    blocks: tuple[BlockEvidence, ...]
    tested: tuple[Clique, ...]
    g_low: tuple[float, ...] = field(metadata=written("g.low"))
    g_high: tuple[float, ...] = field(metadata=written("g.high"))
    g_original: tuple[float, ...] = field(metadata=written("g.original"))
    pairs: tuple[PairProof, ...]
    versions: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    earlier: tuple[EarlierTry, ...] = field(default=(), metadata=written(omit=True))
    planted: PlantedEvidence | None = field(default=None, metadata=written(omit=True))
    uniques: UniquesEvidence | None = field(default=None, metadata=written(omit=True))
    recognised: float | None = field(default=None, metadata=written(omit=True))
    workers: WorkerRuns | None = field(default=None, metadata=written(omit=True))
    first_edition: bool = field(default=False, metadata=written(omit=True))

    @property
    def pooled_checks(self) -> tuple[CheckResult, ...]:
        """``checks``, each with the pooled p-value of all attempts."""
        pooled = []
        for result in self.checks:
            p_value = 1.0
            if not result.not_run:
                tries = [(one.evidence(result.check), one.same_bytes) for one in self.earlier]
                now = _evidence(result, self.plan.terms.runs, self.plan.rows)
                made = [(evidence, same) for evidence, same in [*tries, (now, True)] if evidence]
                p_value = pooled_over_windows([one for one, _ in made], [same for _, same in made])
            pooled.append(replace(result, p_value=p_value))
        return tuple(pooled)

    @property
    def looks_at_uniques(self) -> bool:
        """Whether the audit has tests of unique records; reports of earlier versions have none."""
        return any(result.check is Check.PLANTED for result in self.checks)

    @property
    def p_value(self) -> float:
        """Combined p-value: the smallest pooled p-value divided by its share of the level."""
        return _smallest(self.pooled_checks)

    @property
    def p_value_alone(self) -> float:
        """Combined p-value of this attempt only."""
        return _smallest(self.checks)

    @property
    def verdict(self) -> Verdict:
        return Verdict.LEAKAGE if self.p_value <= self.plan.level else Verdict.NO_EVIDENCE

    @property
    def not_run(self) -> tuple[CheckResult, ...]:
        return tuple(result for result in self.checks if result.not_run)

    @property
    def rejecting(self) -> tuple[CheckResult, ...]:
        """The tests that found a difference, pooled over all attempts."""
        return tuple(
            result for result in self.pooled_checks if result.p_value <= result.share * self.plan.level
        )

    @property
    def strongest(self) -> BlockEvidence:
        """The block in which the outputs follow the inputs most clearly."""
        return self.blocks[0]


def _evidence(result: CheckResult, runs: int, rows: int) -> Evidence:
    """The weight is the standard error's: its inverse grows with the root of runs and of rows."""
    return Evidence(result.p_value, result.direction, sqrt(runs * rows))


def _smallest(results: tuple[CheckResult, ...]) -> float:
    return min(1.0, *(result.p_value / result.share for result in results))
