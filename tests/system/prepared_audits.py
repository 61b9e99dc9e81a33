"""Reports of audits that say at once what a test wants, in the form of real ones."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from gencard.boxes.reference import Honest
from gencard.core.audit.arms.planted_pair import made_up
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report import AuditReport, Check, CheckResult
from gencard.core.audit.run import audit
from gencard.core.audit.wording import report_to_json_object
from gencard.core.card.terms import AuditTerms
from gencard.core.domain import Domain
from gencard.core.generators.maximum_entropy.family import ipf
from gencard.core.typed_json import PLAIN

MOST_WINDOWS = 8
"""Of the tests here: no family has so many tries that more are pooled."""


def audit_answer(outcome: str | float, job: Mapping[str, Any]) -> dict[str, Any]:
    """What the job of an audit answers.

    Args:
        outcome: "leakage", just found by the mean; "no-evidence", all p-values 1; or the p-value of this
            try alone, over all tests, by a mean that differs as step 1 expected.
    """
    given = PLAIN.read(AuditPlan, job["plan"], field="plan")
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
    return {"report": report_to_json_object(replace(_report(), plan=plan, checks=checks))}


@cache
def _report() -> AuditReport:
    cliques = (("a",), ("b",))
    domain = Domain.of({"a": 2, "b": 2})
    records = made_up(domain, 40, rng=np.random.default_rng(0))
    return audit(Honest(ipf(), cliques), records, AuditPlan(cliques, 40, 0, AuditTerms(runs=6)))
