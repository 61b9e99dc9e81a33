"""Audits of boxes on census records, one for each seed: p-values, level, power, time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import numpy as np
from scipy import stats

from benchmarks import bench
from benchmarks.applications import Application
from benchmarks.power import PowerCurve, power
from gencard.core.audit.report import AuditReport, Check, Effect
from gencard.core.audit.run import audit
from gencard.core.blackbox import BlackBox


@dataclass(frozen=True, slots=True)
class Series:
    """The audits of one box, one for each seed."""

    application: Application
    box: str
    reports: tuple[AuditReport, ...]
    seconds: tuple[float, ...]
    processor_seconds: tuple[float, ...]

    @property
    def p_values(self) -> list[float]:
        """P-values of the test of the mean, as in the paper."""
        return [_mean(report) for report in self.reports]

    @property
    def row(self) -> tuple[bench.Cell, ...]:
        first = self.reports[0]
        strongest = first.strongest
        return (
            f"{self.application.name}, {self.box}",
            median(self.p_values),
            max(self.p_values),
            first.p_value,
            _percent(first.effect),
            " x ".join(strongest.clique),
            strongest.z,
            max((abs(block.z) for block in first.blocks[1:]), default=None),
            median(self.seconds),
            median(self.processor_seconds),
        )

    @property
    def named(self) -> bool:
        """Whether the smuggled marginal came first each time."""
        return all(report.strongest.clique == self.application.smuggled for report in self.reports)


def series(application: Application, name: str, box: BlackBox, seeds: Sequence[int]) -> Series:
    reports: list[AuditReport] = []
    times = [_timed(partial(_audit, application, box, seed, reports)) for seed in seeds]
    wall, processor = zip(*times, strict=True)
    return Series(application, name, tuple(reports), wall, processor)


def _timed(function: Callable[[], None]) -> tuple[float, float]:
    """Wall and processor time of one call, in seconds: on a busy machine they differ."""
    begin = time.process_time()
    wall = bench.once(function)
    return wall, time.process_time() - begin


def _audit(application: Application, box: BlackBox, seed: int, reports: list[AuditReport]) -> None:
    reports.append(audit(box, application.dataset, application.plan(seed)))


@dataclass(frozen=True, slots=True)
class Level:
    """Share of honest boxes that were rejected at 5 %.

    Args:
        by_mean, by_any: Share of the audits, by the test of the mean and by all checks together.
        uniform: p-value of Kolmogorov and Smirnov for uniform p-values of the mean.
    """

    seeds: int
    by_mean: float
    by_any: float
    uniform: float


def calibration(application: Application, seeds: int) -> Level:
    honest = series(application, "honest", application.honest(), range(1000, 1000 + seeds))
    means = np.array(honest.p_values)
    overall = np.array([report.p_value for report in honest.reports])
    uniform = float(stats.kstest(means, "uniform").pvalue)
    return Level(seeds, float(np.mean(means <= 0.05)), float(np.mean(overall <= 0.05)), uniform)


def power_curve(application: Application, repeats: int) -> PowerCurve:
    """At level 0.05: alpha is 0.1, of which the first try spends half."""
    shares = (0.003, 0.005, 0.01, 0.02)
    plan = application.plan(0, alpha="0.1")
    return power(application.honest(), application.dataset, plan, shares=shares, repeats=repeats)


def _percent(effect: Effect) -> str:
    value, low, high = (f"{100 * share:.1f}" for share in (effect.value, effect.low, effect.high))
    return f"{value} % [{low}, {high}]"


def _mean(report: AuditReport) -> float:
    return next(result.p_value for result in report.checks if result.check is Check.MEAN)
