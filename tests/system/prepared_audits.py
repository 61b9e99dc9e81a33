"""Reports of audits: of some that ran, and of others that say at once what a test wants."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from google.longrunning import operations_pb2

from gencard.boxes.reference import Honest
from gencard.client import Analyst
from gencard.controller.jobs.tasks import AuditJob, AuditResult
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport, Check, CheckResult
from gencard.core.audit.run import audit
from gencard.core.audit.uniques import made_up
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Domain
from gencard.core.generators.family import ipf
from gencard.v1 import audit_pb2
from tests.system.house import House
from tests.system.raw_calls import eventually
from tests.system.standbys import Controllers

MOST_WINDOWS = 8
"""Most windows of the tests here: no family has so many tries that more are pooled."""


def operation_of(analyst: Analyst, name: str) -> operations_pb2.Operation:
    connection = analyst._connection
    request = operations_pb2.GetOperationRequest(name=name)
    return connection.call(connection.operations.GetOperation, request)


def ended_audit(
    house: House | Controllers, analyst: Analyst, operation: str
) -> tuple[audit_pb2.Audit, bytes]:
    """The audit once it has ended, and its full report as the auditor gets it, without its seconds."""
    assert eventually(lambda: operation_of(analyst, operation).done, seconds=120)
    audit, ended = audit_pb2.Audit(), operation_of(analyst, operation)
    assert ended.response.Unpack(audit), ended
    with house.analyst("aud") as auditor:
        report = full_report(auditor, audit.name)
    del report["seconds"]
    return audit, json.dumps(report).encode()


def full_report(auditor: Analyst, audit: str) -> dict[str, Any]:
    """The full report of an audit, as the auditor receives it."""
    connection = auditor._connection
    request = audit_pb2.GetAuditReportRequest(name=audit)
    return dict(json.loads(connection.call(connection.audit.GetAuditReport, request).report))


def audit_answer(outcome: str | float, job: AuditJob) -> AuditResult:
    """Make the result of an audit's job.

    Args:
        outcome: "leakage", just found by the mean; "no-evidence", all p-values 1; or the p-value of this
            try alone, over all tests, by a mean that differs as step 1 expected.
    """
    given = job.plan
    plan = replace(
        _report().plan, attempt=given.attempt, seed=given.seed, rows=given.rows, terms=given.terms
    )
    words = {"leakage": plan.level / MOST_WINDOWS, "no-evidence": 1.0}
    p_value = words[outcome] if isinstance(outcome, str) else outcome
    checks = tuple(
        CheckResult(one.check, one.share, one.share * p_value, 1)
        if one.check is Check.MEAN and p_value < 1
        else CheckResult(one.check, one.share, 1.0)
        for one in _report().checks
    )
    return AuditResult(replace(_report(), plan=plan, checks=checks))


@cache
def _report() -> AuditReport:
    cliques = (("a",), ("b",))
    domain = Domain.of({"a": 2, "b": 2})
    records = made_up(domain, 40, rng=np.random.default_rng(0))
    return audit(Honest(ipf(), cliques), records, AuditPlan(cliques, 40, 0, AuditTerms(runs=6)))
