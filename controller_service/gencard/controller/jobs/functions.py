"""The functions behind the tasks; they run in a worker. The descriptions are in ``jobs.tasks``."""

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from gencard.controller.jobs.tasks import Job, Progress
from gencard.controller.rows_file import RowsFile
from gencard.controller.schema_file import schema_of_table
from gencard.controller.vault import Vault
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.report_json import report_to_json_object
from gencard.core.audit.run import audit as core_audit
from gencard.core.blackbox.adds_marginal import AddsMarginal
from gencard.core.blackbox.canonical import canonicalise
from gencard.core.blackbox.contract import BlackBox
from gencard.core.blackbox.copies_rows import CopiesRows
from gencard.core.blackbox.honest import Honest
from gencard.core.card import AuditTerms
from gencard.core.coding import StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.generators.registry import generator_named
from gencard.core.generators.replay import rng_of
from gencard.core.statistics import measure as door
from gencard.wire.psi_document import psi_document, psi_of_document


def measure(job: Job, progress: Progress) -> Job:
    """Records -> psi; they are the version named before and after, or nothing leaves."""
    vault = _vault(job["records"])
    progress("measure", 0.0)
    _confirm(vault, job["records"])
    psi = door.measure(vault, _cliques(job["cliques"]), vault.coding.domain)
    _confirm(vault, job["records"])
    return {"psi": psi_document(psi).decode()}


def synthesise(job: Job, progress: Progress) -> Job:
    """Psi -> model -> rows in a file."""
    psi = psi_of_document(job["psi"].encode())
    zeros = _zeros_within(job["zeros"], psi.domain.attributes)
    generator = generator_named(job["generator"], structural_zeros=zeros, max_cells=job["max_cells"])
    progress("fit", 0.0)
    model = generator.fit(psi, psi.domain)
    progress("sample", 0.5)
    return _left_in(job["rows_file"], model.sample(job["rows"], rng=rng_of(job["seed"])))


def audit(job: Job, progress: Progress) -> Job:
    """A black box judged around the real records; the report holds numbers that depend on them."""
    vault, plan = _vault(job["records"]), _plan(job["plan"])
    progress("read", 0.0)
    _confirm(vault, job["records"])
    attributes = vault.coding.domain.covered_by(plan.cliques).attributes
    dataset = vault.dataset(attributes, most_records=job["most_records"])
    _confirm(vault, job["records"])
    versions = [(name, version) for name, version in job["versions"]]
    report = core_audit(_box(job["recipe"]), dataset, plan, versions=versions, progress=progress)
    return {"report": report_to_json_object(report)}


def run_black_box(job: Job, progress: Progress) -> Job:
    """A made-up dataset -> what a black box makes of it, in canonical form."""
    dataset = RowsFile(Path(job["upload"])).dataset()
    box = _box(job["recipe"])
    progress("run", 0.0)
    output = box(dataset, job["rows"], seed=job["seed"])
    rng = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
    return _left_in(job["rows_file"], canonicalise(output, dataset.domain, job["rows"], rng=rng))


FUNCTIONS: Mapping[str, Callable[[Job, Progress], Job]] = {
    "measure": measure,
    "synthesise": synthesise,
    "audit": audit,
    "run_black_box": run_black_box,
}
"""Everything that a worker can be asked to do."""


def _vault(records: Job) -> Vault:
    schema = schema_of_table(records["schema"])
    return Vault(Path(records["data"]), schema.coding, schema.absent)


def _confirm(vault: Vault, records: Job) -> None:
    vault.confirm(records["version"], bytes.fromhex(records["salt"]))


def _left_in(path: str, dataset: Dataset) -> Job:
    RowsFile(Path(path)).write(dataset)
    return {"digest": dataset.digest()}


def _box(recipe: Job) -> BlackBox:
    cliques = _cliques(recipe["cliques"])
    extra = tuple(recipe.get("extra", ()))
    zeros = _zeros_within(recipe["zeros"], {*extra, *(name for clique in cliques for name in clique)})
    generator = generator_named(
        recipe["generator"], structural_zeros=zeros, max_cells=recipe["max_cells"]
    )
    match recipe["kind"]:
        case "honest":
            return Honest(generator, cliques)
        case "adds_marginal":
            return AddsMarginal(generator, cliques, extra)
        case "copies_rows":
            return CopiesRows(Honest(generator, cliques), float(recipe["share"]))
    raise InvalidInputError(field="black_box", problem="is of an unknown kind")


def _plan(plan: Job) -> AuditPlan:
    terms = AuditTerms(**plan["terms"])
    return AuditPlan(**plan | {"cliques": _cliques(plan["cliques"]), "terms": terms})


def _cliques(cliques: Sequence[Sequence[str]]) -> tuple[Clique, ...]:
    return tuple(tuple(clique) for clique in cliques)


def _zeros_within(zeros: Sequence[Job], attributes: Collection[str]) -> tuple[StructuralZeros, ...]:
    """Structural zeros that concern only these attributes."""
    return tuple(
        StructuralZeros(tuple(entry["clique"]), tuple(tuple(cell) for cell in entry["cells"]))
        for entry in zeros
        if set(entry["clique"]) <= set(attributes)
    )
