"""The task that audits a black box at the real records; its runs are kept until the audit has ended."""

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.repetition import JournaledBox, NotRepeatableError, RepeatedBox
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import AuditJob, AuditResult, Records
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport
from gencard.core.audit.run import audit as core_audit
from gencard.core.blackbox import BlackBox
from gencard.core.errors import BlackBoxError, JobLimitError
from gencard.core.types import Progress


def audit(job: AuditJob, progress: Progress) -> AuditResult:
    """Records and a black box -> a report; its numbers depend on records.

    Raises:
        BlackBoxError: The box did not end its runs; why, depends on records too, and is not said.
    """
    progress("read", 0.0)
    cliques = [*job.plan.cliques, *(statistic.clique for statistic in job.plan.linear)]
    dataset = records_over(cliques, job.records)
    with suppress(BlackBoxError, JobLimitError):
        report = _audited(
            job,
            partial(
                core_audit,
                dataset=dataset,
                plan=job.plan,
                versions=job.versions,
                digest_key=_digest_key(job.records, job.plan),
                progress=progress,
            ),
        )
        return AuditResult(report)
    raise BlackBoxError(problem="its runs on the records did not finish correctly")


def _audited(job: AuditJob, audit_of: Callable[[BlackBox], AuditReport]) -> AuditReport:
    """Audit the box here, or on the workers of a cluster, whose runs are repeated in part.

    Raises:
        WorkerError: A worker gave a wrong answer.
        ClusterError: The workers perform no run.
    """
    if job.cluster is None:
        box = JournaledBox(box_of(job.recipe), job.journal)
        box.forget_runs()
        return audit_of(box)
    # loads gRPC, which audits without a cluster do not need
    from gencard.controller.jobs.cluster.executor import cluster_box  # noqa: PLC0415

    there = cluster_box(job.recipe, job.cluster)
    journaled = JournaledBox(there, job.journal, lambda seed: there.performers.get(seed, ""))
    # those that were refused since an earlier start
    journaled.forget_runs(journaled.performers() - job.cluster.workers.keys())
    repeated = RepeatedBox(journaled, there.here, job.cluster.repeated)
    with suppress(NotRepeatableError):
        report = audit_of(repeated)
        return replace(report, workers=repeated.worker_runs(report.plan.terms.runs))
    journaled.forget_runs()
    return audit_of(JournaledBox(there.here, job.journal))


def _digest_key(records: Records, plan: AuditPlan) -> bytes:
    """Return a secret key for the digests of one report; an audit that is resumed has the same one.

    Each audit has a seed of its own, of 64 bits.
    """
    return hmac.digest(records.salt, f"audit-report {plan.seed}".encode(), "sha256")
