"""Table 4 of Houssiau et al. (2022): audits of honest generators, dishonest ones and SynthPop.

The dishonest ones add a marginal of which the card knows nothing; SynthPop reads records. They are
audited with 20 runs on each side, honest ones with 10: what is there to be found shows more clearly,
while the level is kept with any number of runs.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from benchmarks.applications import Application, applications
from benchmarks.paper_methods import GENERATORS, METHODS, box
from gencard.boxes.reference import AddsMarginal, Honest
from gencard.core.audit.report import AuditReport, Check, Verdict
from gencard.core.audit.run import audit
from gencard.core.blackbox import BlackBox
from gencard.core.domain import Clique

PRINTED = {
    ("IPF", "honest"): (0.54, 0.67, 0.67),
    ("IPF", "dishonest"): (8.9e-34, 2.9e-37, 5.7e-35),
    ("Private-PGM", "honest"): (0.89, 0.95, 0.47),
    ("Private-PGM", "dishonest"): (5.4e-66, 3.0e-69, 2.3e-33),
    ("SynthPop", "box"): (5.1e-35, 3.9e-38, 3.7e-34),
}
"""The paper's p-values, of Applications 1, 2 and 3."""

RUNS = {"honest": 10, "dishonest": 20, "box": 20}

_ALPHA = "0.1"
"""Level of the tests; the first try spends half of it: 5 %."""


@dataclass(frozen=True, slots=True)
class Job:
    """Some audits of one box, one for each seed."""

    application: str
    method: str
    kind: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One audit.

    Args:
        mean: p-value of the test of the mean, as in the paper.
        rejected: Whether all tests together find evidence of leakage at 5 %.
        strongest: The block that follows the input most clearly.
        low, high: g of each run on the two sides.
    """

    application: str
    method: str
    kind: str
    mean: float
    rejected: bool
    strongest: Clique
    smuggled: Clique
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def named(self) -> bool:
        """Whether the strongest block lies in the marginal that was smuggled in."""
        return set(self.strongest) <= set(self.smuggled)


def findings(job: Job) -> list[Finding]:
    """Run the audits of one job."""
    application = next(one for one in _chosen() if one.name == job.application)
    black_box = _box(application, job)
    plans = (application.plan(seed, _ALPHA, RUNS[job.kind]) for seed in job.seeds)
    reports = (audit(black_box, application.dataset, plan) for plan in plans)
    return [_finding(application, job, report) for report in reports]


def _box(application: Application, job: Job) -> BlackBox:
    if job.kind == "box":
        return box(next(one for one in METHODS if one.name == job.method))
    generator = GENERATORS[job.method]
    if job.kind == "honest":
        return Honest(generator, application.cliques)
    return AddsMarginal(generator, application.cliques, application.smuggled)


def _finding(application: Application, job: Job, report: AuditReport) -> Finding:
    return Finding(
        application=application.name,
        method=job.method,
        kind=job.kind,
        mean=next(one.p_value for one in report.checks if one.check is Check.MEAN),
        rejected=report.verdict is Verdict.LEAKAGE,
        strongest=report.strongest.clique,
        smuggled=application.smuggled,
        low=report.g_low,
        high=report.g_high,
    )


def figures(finding: Finding) -> dict[str, Any]:
    """For the JSON."""
    return {
        "application": finding.application,
        "generator": f"{finding.method}, {finding.kind}",
        "p_value": finding.mean,
        "rejected": finding.rejected,
        "strongest": " x ".join(finding.strongest),
    }


@cache
def _chosen() -> tuple[Application, ...]:
    return applications()
