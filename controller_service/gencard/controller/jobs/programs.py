"""Tasks that run an analyst's program: on synthetic rows, and on the records, once."""

from pathlib import Path

from gencard.controller.jobs.measurement import records_as_stored
from gencard.controller.jobs.tasks import Job
from gencard.controller.records.schema_file import schema_of_table
from gencard.controller.releases.rows_file import RowsFile
from gencard.controller.sandbox.analyses import SandboxedAnalysis
from gencard.core.coding import Coding
from gencard.core.domain import Clique
from gencard.core.errors import InvalidInputError
from gencard.core.program_outputs import difference_in_shape, outputs_of_json, outputs_to_json
from gencard.core.types import Progress
from gencard.run.levels import drawn_numbers


def rehearse(job: Job, progress: Progress) -> Job:
    """A program and synthetic rows -> its outputs, whose shape is the one that was agreed.

    Raises:
        InvalidInputError: They have another shape than in the analyst's own dry run.
        BlackBoxError, JobLimitError: The program failed; it has seen no record.
    """
    progress("run", 0.0)
    rows, agreed_outputs = RowsFile(Path(job["rows_file"])).dataset(), outputs_of_json(job["agreed"])
    coding = _coding_over(schema_of_table(job["schema"]).coding, rows.domain.attributes)
    stored_numbers = drawn_numbers(rows, coding, job["stored"], job["drawing_seed"])
    outputs = _program(job).outputs(rows, coding, stored_numbers, seed=job["seed"])
    if (name := difference_in_shape(agreed_outputs, outputs)) is not None:
        problem = (
            f"produces '{name}' in another shape than in the dry run; repeat the dry run on the "
            "same rows"
        )
        raise InvalidInputError(field="program", problem=problem)
    return outputs_to_json(outputs)


def run_once(job: Job, progress: Progress) -> Job:
    """A program and the records -> its outputs, rounded, in the agreed shape; a steward sees them next.

    Raises:
        BlackBoxError: It failed, or gave another shape; which, depends on records, and is not said.
    """
    progress("read", 0.0)
    agreed_outputs, whole = (
        outputs_of_json(job["agreed"]),
        schema_of_table(job["records"]["schema"]).coding,
    )
    coding = _coding_over(whole, tuple(job["attributes"]))
    dataset, stored_records = records_as_stored(
        [coding.domain.attributes],
        tuple(job["stored"]),
        job["records"],
        most_records=job["most_records"],
    )
    program = _program(job)
    return outputs_to_json(
        program.agreed_outputs(dataset, coding, agreed_outputs, stored_records, seed=job["seed"])
    )


def _program(job: Job) -> SandboxedAnalysis:
    return SandboxedAnalysis.of_recipe(job["recipe"], job["most_numbers"])


def _coding_over(coding: Coding, attributes: Clique) -> Coding:
    """The schema of these attributes alone; cells that cannot occur are not part of it."""
    return Coding(tuple(coding.attribute(name) for name in attributes))
