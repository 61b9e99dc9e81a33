"""The task that audits a black box at the real records; its runs are kept until the audit has ended."""

import hmac
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.repetition import JournaledBox, NotRepeatableError, RepeatedBox
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import Job
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport
from gencard.core.audit.run import audit as core_audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.blackbox import BlackBox
from gencard.core.errors import BlackBoxError, JobLimitError
from gencard.core.typed_json import PLAIN
from gencard.core.types import Progress


def audit(job: Job, progress: Progress) -> Job:
    """Records and a black box -> a report; its numbers depend on records.

    Raises:
        BlackBoxError: The box did not end its runs; why, depends on records too, and is not said.
    """
    progress("read", 0.0)
    plan = PLAIN.read(AuditPlan, job["plan"], field="plan")
    cliques = [*plan.cliques, *(statistic.clique for statistic in plan.linear)]
    dataset = records_over(cliques, job["records"], most_records=job["most_records"])
    versions = [(name, version) for name, version in job["versions"]]
    with suppress(BlackBoxError, JobLimitError):
        report = _audited(
            job,
            partial(
                core_audit,
                dataset=dataset,
                plan=plan,
                versions=versions,
                digest_key=_digest_key(job["records"], plan),
                progress=progress,
            ),
        )
        return {"report": report_to_json_object(report)}
    raise BlackBoxError(problem="its runs on the records did not finish correctly")


def _audited(job: Job, audit_of: Callable[[BlackBox], AuditReport]) -> AuditReport:
    """Audit the box here, or on the workers of a cluster, whose runs are repeated in part.

    Raises:
        WorkerError: A worker gave a wrong answer.
        ClusterError: The workers perform no run.
    """
    folder = Path(job["journal"])
    if "cluster" not in job:
        box = JournaledBox(box_of(job["recipe"]), folder)
        box.forget_runs()
        return audit_of(box)
    # loads gRPC, which audits without a cluster do not need
    from gencard.controller.cluster.executor import cluster_box  # noqa: PLC0415

    there = cluster_box(job["recipe"], job["cluster"])
    journaled = JournaledBox(there, folder, lambda seed: there.performers.get(seed, ""))
    # those that were refused since an earlier start
    journaled.forget_runs(journaled.performers() - set(job["cluster"]["workers"]))
    repeated = RepeatedBox(journaled, there.here, job["cluster"]["repeated"])
    with suppress(NotRepeatableError):
        report = audit_of(repeated)
        return replace(report, workers=repeated.worker_runs(report.plan.terms.runs))
    journaled.forget_runs()
    return audit_of(JournaledBox(there.here, folder))


def _digest_key(records: Job, plan: AuditPlan) -> bytes:
    """A secret key for the digests of one report; an audit that is resumed has the same one.

    Each audit has a seed of its own, of 64 bits.
    """
    return hmac.digest(bytes.fromhex(records["salt"]), f"audit-report {plan.seed}".encode(), "sha256")
