"""The tasks that look at what would leave beside the records: evaluations, unique rows, risk of psi."""

from dataclasses import replace
from pathlib import Path

from gencard.controller.jobs.measurement import opened, records_over
from gencard.controller.jobs.tasks import Job, cliques_of
from gencard.controller.records.schema_file import schema_of_table
from gencard.controller.releases.rows_file import RowsFile
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.evaluation.evaluation import finding_to_json_object
from gencard.core.evaluation.material import Declared, Material, Together
from gencard.core.evaluation.registry import evaluate, evaluation_named
from gencard.core.privacy.distances.gower import Missing
from gencard.core.privacy.uniques import unique_free
from gencard.core.psi_risk.risk import failing_tables, psi_risk
from gencard.core.types import Progress
from gencard.core.utility.gap import GapWords
from gencard.wire.documents.card_document import transform_of_document
from gencard.wire.documents.psi_document import psi_of_document


def compare(job: Job, progress: Progress) -> Job:
    """Rows, psi and records -> findings, rounded; their numbers depend on records.

    An evaluation that is not possible at these records gives null, without a reason.
    """
    progress("read", 0.0)
    material = _material(job)
    findings = []
    for place, name in enumerate(job["measures"]):
        progress(name, place / len(job["measures"]))
        finding = evaluate(evaluation_named(name), material)
        document = None if finding is None else finding_to_json_object(finding.rounded(material))
        findings.append({"name": name, "found": document})
    return {"measures": findings}


def thin_out(job: Job, progress: Progress) -> Job:
    """Drawn rows and records -> rows in a file, without replicated uniques. Tells no number of them."""
    progress("uniques", 0.0)
    rows = RowsFile(Path(job["drawn"])).dataset()
    original = _read(job, "records", rows.domain.attributes)
    unique_free_rows = unique_free(original, rows, job["rows"])
    RowsFile(Path(job["rows_file"])).write(unique_free_rows)
    return {"digest": unique_free_rows.digest()}


def look(job: Job, progress: Progress) -> Job:
    """Records and cliques -> the risk of their exact tables, for stewards alone."""
    cliques, own = cliques_of(job["cliques"]), cliques_of(job["own"])
    records = records_over(cliques, job["records"], most_records=job["most_records"])
    coding = schema_of_table(job["records"]["schema"]).coding
    failing = failing_tables(records, own, transform_of_document(job["transform"]), coding)
    return {"risk": replace(psi_risk(records, cliques, progress=progress), failing=failing).json()}


def _material(job: Job) -> Material:
    rows = RowsFile(Path(job["rows_file"])).dataset()
    attributes = rows.domain.attributes
    coding = schema_of_table(job["schema"]).coding
    return Material(
        synthetic=rows,
        coding=Coding(tuple(coding.attribute(name) for name in attributes)),
        cliques=cliques_of(job["cliques"]),
        declared=_declared(job["declared"]),
        seed=job["seed"],
        original=_dataset(job, "records", attributes),
        holdout=_dataset(job, "holdout", attributes),
        psi=psi_of_document(job["psi"].encode()),
        together=Together(cliques_of(job["forbidden"]), job["largest_order"]),
    )


def _declared(declared: Job) -> Declared:
    keys, missing, words = tuple(declared["keys"]), Missing(declared["missing"]), declared["gap"]
    gap = None if words is None else GapWords(**words | {"levels": tuple(words["levels"])})
    return Declared(**declared | {"keys": keys, "missing": missing, "gap": gap})


def _dataset(job: Job, which: str, attributes: Clique) -> Dataset | None:
    """The records; None where none are to be read."""
    return _read(job, which, attributes) if which in job else None


def _read(job: Job, which: str, attributes: Clique) -> Dataset:
    """The records, if they are the version named before and after."""
    with opened(job[which]) as source:
        return source.dataset(attributes, most_records=job["most_records"])
