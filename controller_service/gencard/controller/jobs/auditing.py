"""The task that audits a black box around the real records."""

from gencard.controller.jobs.measurement import confirm, opened
from gencard.controller.jobs.recipes import box_of, cliques_of, linear_of
from gencard.controller.jobs.tasks import Job, Progress
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report_json import report_to_json_object
from gencard.core.audit.run import audit as core_audit
from gencard.core.card import AuditTerms


def audit(job: Job, progress: Progress) -> Job:
    """Records and a black box -> a report; its numbers depend on records."""
    progress("read", 0.0)
    vault, plan = opened(job["records"]), _plan(job["plan"])
    named = [*plan.cliques, *(statistic.clique for statistic in plan.linear)]
    attributes = vault.coding.domain.covered_by(named).attributes
    dataset = vault.dataset(attributes, most_records=job["most_records"])
    confirm(vault, job["records"])
    versions = [(name, version) for name, version in job["versions"]]
    report = core_audit(box_of(job["recipe"]), dataset, plan, versions=versions, progress=progress)
    return {"report": report_to_json_object(report)}


def _plan(plan: Job) -> AuditPlan:
    terms = AuditTerms(**plan["terms"])
    cliques, linear = cliques_of(plan["cliques"]), tuple(linear_of(plan))
    return AuditPlan(**plan | {"cliques": cliques, "terms": terms, "linear": linear})
