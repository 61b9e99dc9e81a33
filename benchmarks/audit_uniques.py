"""The audit's tests of unique records: how often boxes that copy some are found, honest ones accused.

Two settings, each with a chain of pairs as Phi: a made-up population of 2,000 records in 1,440 cells, of
which a few hundred are unique, and UCI Adult, where most are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks import bench
from benchmarks.adult import adult
from gencard.boxes.reference import CopiesRows, Honest
from gencard.core.audit.plan import AuditPlan, Runner
from gencard.core.audit.report import Check
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import PlantedArm, unique_records
from gencard.core.blackbox import BlackBox
from gencard.core.card.terms import AuditTerms
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique, Domain
from gencard.core.generators.contract import Generator, rng_of
from gencard.core.generators.family import graphical, ipf
from gencard.core.types import ignore_progress

FIRST_SEED = 5_000
"""Seeds below were used while the tests were built."""
_SIZES = (6, 5, 4, 4, 3)
_RECORDS = 2_000


@dataclass(frozen=True, slots=True)
class CopiesUniques:
    """An honest output in which unique records of the input replace the first rows.

    Args:
        honest: Makes the other rows.
        most: Copy at most so many of them, drawn anew in each run; all of them where it is None.
        rarest: Copy the rarest ones instead, by the product of the input's one-way margins: they are
            the same in each run.
    """

    honest: BlackBox
    most: int | None = None
    rarest: bool = False

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        rng = rng_of(seed)
        made = self.honest(dataset, rows, seed=int(rng.integers(2**63)))
        copied = self._copied(dataset, rng)[:rows]
        codes = made.codes.copy()
        codes[: len(copied)] = dataset.codes[copied]
        return Dataset(made.domain, codes[rng.permutation(rows)])

    def _copied(self, dataset: Dataset, rng: np.random.Generator) -> NDArray[np.intp]:
        """Positions of the records that are copied."""
        uniques = _uniques(dataset)
        if self.rarest:
            return uniques[np.argsort(_log_shares(dataset)[uniques], kind="stable")][: self.most]
        return rng.permutation(uniques)[: self.most]


def _uniques(dataset: Dataset) -> NDArray[np.intp]:
    """Positions of the records that no other one equals."""
    order = np.lexsort(dataset.codes.T)
    differs = (dataset.codes[order[1:]] != dataset.codes[order[:-1]]).any(axis=1)
    alone = np.r_[True, differs] & np.r_[differs, True]
    return np.sort(order[alone])


def _log_shares(dataset: Dataset) -> NDArray[np.float64]:
    """Return the logarithm of the product of the levels' shares for each record, shape ``(n,)``."""
    total = np.zeros(len(dataset))
    for column in dataset.codes.T:
        total += np.log(np.bincount(column) / len(dataset) + (np.bincount(column) == 0))[column]
    return total


@dataclass(frozen=True, slots=True)
class Setting:
    """Records, and a generator of a chain of pairs."""

    name: str
    dataset: Dataset
    generator: Generator

    @property
    def cliques(self) -> tuple[Clique, ...]:
        return tuple(pairwise(self.dataset.domain.attributes))

    def plan(self, seed: int) -> AuditPlan:
        return AuditPlan(self.cliques, len(self.dataset), seed, AuditTerms(runs=10, order=2))

    def honest(self) -> Honest:
        return Honest(self.generator, self.cliques)


@dataclass(frozen=True, slots=True)
class Detections:
    """In how many of some audits a box was found.

    Args:
        by: For each of the two tests of planted records, and under None for either of them.
    """

    setting: str
    box: str
    audits: int
    by: dict[Check | None, int]

    @property
    def row(self) -> tuple[bench.Cell, ...]:
        counts = (self.by[Check.PLANTED], self.by[Check.CANARY], self.by[None])
        return (f"{self.setting}, {self.box}", self.audits, *counts)


def population() -> Dataset:
    """Records of a Markov chain with skewed transitions; 274 of the 2,000 are unique."""
    rng = np.random.default_rng(0)
    columns = [rng.choice(_SIZES[0], p=rng.dirichlet([1.5] * _SIZES[0]), size=_RECORDS)]
    for size in _SIZES[1:]:
        transitions = rng.dirichlet([1.5] * size, size=max(_SIZES)).cumsum(axis=1)
        drawn = (rng.random(_RECORDS)[:, None] > transitions[columns[-1]]).sum(axis=1)
        columns.append(np.minimum(drawn, size - 1))
    domain = Domain.of({f"a{position}": size for position, size in enumerate(_SIZES)})
    return Dataset.of_columns(domain, columns)


def settings() -> tuple[Setting, Setting]:
    return Setting("population", population(), ipf()), Setting("Adult", adult(), graphical())


def boxes(honest: BlackBox) -> dict[str, BlackBox]:
    return {
        "honest": honest,
        "all uniques": CopiesUniques(honest),
        "20 uniques": CopiesUniques(honest, 20),
        "one outlier": CopiesUniques(honest, 1, rarest=True),
        "10 % of all rows": CopiesRows(honest, 0.1),
    }


def detections(setting: Setting, name: str, box: BlackBox, seeds: Sequence[int]) -> Detections:
    """Run the two tests of planted records alone, at their shares of the level of a whole audit."""
    by: dict[Check | None, int] = dict.fromkeys((Check.PLANTED, Check.CANARY, None), 0)
    for seed in seeds:
        plan = setting.plan(seed)
        checks, _ = PlantedArm.of(setting.dataset, plan).checks(Runner(box, plan, ignore_progress), plan)
        rejecting = [one.check for one in checks if one.p_value <= one.share * plan.level]
        for check in rejecting:
            by[check] += 1
        by[None] += bool(rejecting)
    return Detections(setting.name, name, len(seeds), by)


def accused(setting: Setting, seeds: Sequence[int]) -> dict[str, int]:
    """In how many whole audits of the honest box each check, and any of them, rejects at 5 %."""
    box, counts = setting.honest(), dict.fromkeys([*map(str, Check), "any"], 0)
    for seed in seeds:
        report = audit(box, setting.dataset, setting.plan(seed))
        for result in report.checks:
            counts[result.check.value] += result.p_value <= 0.05
        counts["any"] += report.p_value <= 0.05
    return counts


def run(quick: bool) -> bench.Result:
    chosen = settings()
    seeds = range(FIRST_SEED, FIRST_SEED + (10 if quick else 100))
    results = [
        detections(setting, name, box, seeds)
        for setting in chosen
        for name, box in boxes(setting.honest()).items()
    ]
    honest = range(FIRST_SEED, FIRST_SEED + (40 if quick else 400))
    counts = accused(chosen[0], honest)
    return bench.Result(
        [_found_table(results), _accused_table(counts, len(honest))],
        [*_found_targets(results), *_accused_targets(counts, len(honest))],
        {"unique records": {one.name: len(unique_records(one.dataset)) for one in chosen}},
    )


def _found_table(results: Sequence[Detections]) -> bench.Table:
    columns = ("setting, box", "audits", "found by planted", "by canary", "by either")
    title = "Tests of planted records alone, K = 10, at their shares of the level 0.025"
    return bench.Table(title, columns, [one.row for one in results])


def _accused_table(counts: dict[str, int], audits: int) -> bench.Table:
    return bench.Table(
        f"Population, honest, {audits} whole audits: rejected at 5 %",
        ("check", "audits"),
        list(counts.items()),
    )


def _found_targets(results: Sequence[Detections]) -> list[bench.Target]:
    least = {
        ("population", "all uniques"): 0.98,
        ("population", "20 uniques"): 0.9,
        ("Adult", "all uniques"): 0.98,
        ("Adult", "20 uniques"): 0.9,
        ("Adult", "one outlier"): 0.8,
    }
    return [
        bench.Target(f"{one.setting}, {one.box}, found", one.by[None] / one.audits, bound, "at least")
        for one in results
        for case, bound in least.items()
        if case == (one.setting, one.box)
    ]


def _accused_targets(counts: dict[str, int], audits: int) -> list[bench.Target]:
    """No more rejections than the central 99 % of the binomial distribution has."""
    most = float(stats.binom.interval(0.99, audits, 0.05)[1])
    return [
        bench.Target(f"honest rejected by {name}", count, most, "at most", "audits")
        for name, count in counts.items()
    ]


if __name__ == "__main__":
    bench.main("audit_uniques", run)
