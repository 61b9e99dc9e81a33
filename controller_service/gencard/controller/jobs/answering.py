"""The task that runs one of our own analyses on the records, once."""

from gencard.controller.jobs.measurement import confirm, opened
from gencard.controller.jobs.tasks import Job
from gencard.core.types import Progress

THRESHOLD = 10
"""Fewest records that an output may rest on."""

TOO_FEW = "TOO_FEW_RECORDS"
RULES = "1"


def answer(job: Job, progress: Progress) -> Job:
    """Records -> an answer, or the codes of the rules that refuse it. No reason holds a number."""
    progress("answer", 0.0)
    vault = opened(job["records"])
    attributes = vault.coding.domain.attributes
    dataset = vault.dataset(attributes, most_records=job["most_records"])
    confirm(vault, job["records"])
    if len(dataset) < THRESHOLD:
        return {"answer": None, "reasons": [TOO_FEW], "rules": RULES}
    found = {"kind": job["kind"], "formula": job["formula"], "n": len(dataset)}
    return {"answer": found, "reasons": [], "rules": RULES}
