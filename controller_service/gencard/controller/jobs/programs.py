"""Tasks that run an analyst's program: on synthetic rows, and on the records, once."""

from gencard.controller.jobs.measurement import records_as_stored
from gencard.controller.jobs.rows_file import RowsFile
from gencard.controller.jobs.tasks import ProgramJob, ProgramResult, RehearsalJob
from gencard.controller.sandbox.analyses import SandboxedAnalysis
from gencard.core.errors import InvalidInputError
from gencard.core.program_outputs import difference_in_shape
from gencard.core.statistics.places import places_of
from gencard.core.types import Progress
from gencard.run.levels import drawn_numbers
from gencard.wire.documents.psi_document import psi_of_document


def rehearse(job: RehearsalJob, progress: Progress) -> ProgramResult:
    """Run a program on synthetic rows and return its outputs, which have the agreed shape.

    Raises:
        InvalidInputError: The outputs have another shape than in the analyst's own dry run.
        BlackBoxError, JobLimitError: The program failed; it has seen no record.
    """
    progress("run", 0.0)
    rows = RowsFile(job.rows_file).dataset()
    coding = job.schema.coding.over(rows.domain.attributes)
    program = job.program
    places = places_of(psi_of_document(job.psi), job.schema.coding) if job.psi else {}
    stored_numbers = drawn_numbers(rows, coding, program.stored, job.drawing_seed, places)
    analysis = SandboxedAnalysis.of_recipe(program.recipe, program.most_numbers)
    outputs = analysis.outputs(rows, coding, stored_numbers, seed=program.seed)
    if (name := difference_in_shape(program.agreed, outputs)) is not None:
        problem = (
            f"produces '{name}' in another shape than in the dry run; repeat the dry run on the "
            "same rows"
        )
        raise InvalidInputError(field="program", problem=problem)
    return ProgramResult(outputs)


def run_once(job: ProgramJob, progress: Progress) -> ProgramResult:
    """Run a program on the records and return its rounded outputs in the agreed shape, for a steward.

    Raises:
        BlackBoxError: The program failed, or its outputs have another shape; the error does not say
            which, because that depends on records.
    """
    progress("read", 0.0)
    coding, program = job.records.schema.coding.over(job.attributes), job.program
    dataset, numbers = records_as_stored([coding.domain.attributes], program.stored, job.records)
    analysis = SandboxedAnalysis.of_recipe(program.recipe, program.most_numbers)
    outputs = analysis.agreed_outputs(dataset, coding, program.agreed, numbers, seed=program.seed)
    return ProgramResult(outputs)
