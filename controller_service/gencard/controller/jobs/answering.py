"""The task that runs one of our own analyses on the records, once."""

import json

from gencard.controller.jobs.measurement import confirm, opened
from gencard.controller.jobs.tasks import Job
from gencard.core.answers.margins import RecordMargins
from gencard.core.statistics.formula import analysis_of
from gencard.core.types import Progress
from gencard.formulas.answering import answer_of

THRESHOLD = 10
"""Fewest records that an output may rest on."""

TOO_FEW = "TOO_FEW_RECORDS"
RULES = "1"


def answer(job: Job, progress: Progress) -> Job:
    """Records -> an answer, or the codes of the rules that refuse it. No reason holds a number."""
    progress("answer", 0.0)
    vault = opened(job["records"])
    coding = vault.coding
    dataset = vault.dataset(coding.domain.attributes, most_records=job["most_records"])
    confirm(vault, job["records"])
    options = json.loads(job["options"] or "{}")
    result = answer_of(
        job["formula"],
        analysis_of(job["kind"]),
        RecordMargins.of(dataset),
        coding,
        values=options.pop("values", None),
        where=job["where"],
        missing=job["missing"],
        options=options,
    )
    if result.n < THRESHOLD:
        return {"answer": None, "reasons": [TOO_FEW], "rules": RULES}
    return {"answer": result.to_json(), "reasons": [], "rules": RULES}
