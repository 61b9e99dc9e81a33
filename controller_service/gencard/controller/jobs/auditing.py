"""The task that audits a black box around the real records."""

from pathlib import Path

from gencard.controller.jobs.journal import JournaledBox
from gencard.controller.jobs.measurement import records_over
from gencard.controller.jobs.recipes import box_of, cliques_of, linear_of
from gencard.controller.jobs.tasks import Job, Progress
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report_json import report_to_json_object
from gencard.core.audit.run import audit as core_audit
from gencard.core.card import AuditTerms


def audit(job: Job, progress: Progress) -> Job:
    """Records and a black box -> a report; its numbers depend on records."""
    progress("read", 0.0)
    plan = _plan(job["plan"])
    named = [*plan.cliques, *(statistic.clique for statistic in plan.linear)]
    dataset = records_over(named, job["records"], most_records=job["most_records"])
    box = JournaledBox(box_of(job["recipe"]), Path(job["journal"]))
    versions = [(name, version) for name, version in job["versions"]]
    report = core_audit(box, dataset, plan, versions=versions, progress=progress)
    return {"report": report_to_json_object(report)}


def _plan(plan: Job) -> AuditPlan:
    terms = AuditTerms(**plan["terms"])
    cliques, linear = cliques_of(plan["cliques"]), tuple(linear_of(plan))
    return AuditPlan(**plan | {"cliques": cliques, "terms": terms, "linear": linear})
