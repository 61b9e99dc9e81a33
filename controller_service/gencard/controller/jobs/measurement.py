"""The task that measures; and the vault as the tasks that need records open it."""

from pathlib import Path

from gencard.controller.jobs.recipes import cliques_of
from gencard.controller.jobs.tasks import Job, Progress
from gencard.controller.schema_file import schema_of_table
from gencard.controller.vault import Vault
from gencard.core.statistics import measure as door
from gencard.wire.psi_document import psi_document


def measure(job: Job, progress: Progress) -> Job:
    """Records -> psi; they are the version named before and after, or nothing leaves."""
    progress("measure", 0.0)
    vault = opened(job["records"])
    psi = door.measure(vault, cliques_of(job["cliques"]), vault.coding.domain)
    confirm(vault, job["records"])
    return {"psi": psi_document(psi).decode()}


def opened(records: Job) -> Vault:
    """The vault that a job describes.

    Raises:
        DatasetChangedError: It does not hold the version that the job names.
    """
    schema = schema_of_table(records["schema"])
    vault = Vault(Path(records["data"]), schema.coding, schema.absent)
    confirm(vault, records)
    return vault


def confirm(vault: Vault, records: Job) -> None:
    """Raises DatasetChangedError where the vault no longer holds the version that the job names."""
    vault.confirm(records["version"], bytes.fromhex(records["salt"]))
