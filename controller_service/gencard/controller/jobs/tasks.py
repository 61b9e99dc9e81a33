"""The tasks of worker processes, and the messages between the service and its workers.

A task is a name: nothing here opens a record, and the function behind the name is loaded where it runs.
A message is a frozen dataclass that ``JOBS`` writes and reads strictly: a field that is missing, unknown
or of another type is an error before any work. Fields of type ``bytes`` of a request or result travel
beside its JSON, as they are; see ``process``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from gencard.core.card.privacy import Mechanism, Privacy, Transform, privacy_with
from gencard.core.card.sums import Sum
from gencard.core.coding import Derivation, StructuralZeros
from gencard.core.domain import Clique, Domain
from gencard.core.json_codecs import Json, ScalarCodec, written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import ANY_JSON, PLAIN, JsonForm, text_scalar
from gencard.core.types import Progress, ignore_progress

if TYPE_CHECKING:
    from gencard.analysis.output_checks.differencing import Rounded
    from gencard.controller.records.file_format import FileFormat
    from gencard.controller.records.schema_file import PublicSchema
    from gencard.controller.sandbox.analyses import AnalysisRecipe
    from gencard.controller.sandbox.boxes import Recipe
    from gencard.core.audit.plan import AuditPlan
    from gencard.core.audit.report import AuditReport
    from gencard.core.policy import Mark, Rules
    from gencard.core.program_outputs import Outputs
    from gencard.measures.evaluation.evaluation import AllowedTogether, Declared
    from gencard.measures.privacy.psi_risk import PsiRisk
    from gencard.wire.documents import Question

_MODULES = {
    "AllowedTogether": "measures.evaluation.evaluation",
    "AnalysisRecipe": "controller.sandbox.analyses",
    "AuditPlan": "core.audit.plan",
    "AuditReport": "core.audit.report",
    "Declared": "measures.evaluation.evaluation",
    "FileFormat": "controller.records.file_format",
    "Mark": "core.policy",
    "Outputs": "core.program_outputs",
    "PsiRisk": "measures.privacy.psi_risk",
    "PublicSchema": "controller.records.schema_file",
    "Question": "wire.documents",
    "Recipe": "controller.sandbox.boxes",
    "Rounded": "analysis.output_checks.differencing",
    "Rules": "core.policy",
}


class _LateTypes(dict[str, Any]):
    """Types of fields that are loaded with the first message that has them.

    A worker starts for each job, and most jobs need few of these modules.
    """

    def __missing__(self, name: str) -> Any:
        if name not in _MODULES:
            raise KeyError(name)
        return getattr(import_module(f"gencard.{_MODULES[name]}"), name)


late_types = _LateTypes()
"""Types that this module imports for checkers alone; ``entries_of`` finds them here."""


def _bytes(value: object) -> bytes:
    if type(value) is not bytes:
        raise TypeError
    return value


def _decimal(text: str) -> Decimal:
    with suppress(InvalidOperation):
        return Decimal(text)
    raise ValueError


def _privacy(json: object) -> Privacy | None:
    if json is None:
        return None
    names = PLAIN.read(dict[str, str], json, field="privacy")
    return privacy_with(Mechanism(names.pop("mechanism", "")), names)


JOBS = JsonForm(
    {
        **PLAIN.scalars,
        bytes: ScalarCodec(lambda value: value, _bytes),
        date: text_scalar(date.isoformat, date.fromisoformat),
        Decimal: text_scalar(str, _decimal),
        Path: text_scalar(str, Path),
    }
)
"""Form of the messages."""

_HEX = text_scalar(bytes.hex, bytes.fromhex)
_PRIVACY = ScalarCodec(
    lambda value: value and {"mechanism": str(value.mechanism), **value.parameters}, _privacy
)
"""A mechanism with its parameters, or None."""


@dataclass(frozen=True, slots=True)
class RecordsSource:
    """Records that a job opens; they have the version before and after, or nothing leaves.

    Args:
        data: Path of a file or folder, or the address of a table.
        version: Salted digest of the records, in hex.
        most_records: Most of them that the job holds in memory.
        secret: Password of the table, read anew for each job; empty for none.
    """

    data: str
    is_table: bool
    format: FileFormat
    schema: PublicSchema
    version: str
    salt: bytes = field(repr=False, metadata=written(scalar=_HEX))
    most_records: int
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ClusterPart:
    """Workers that perform the runs of an audit.

    Args:
        workers: Address of each worker, by its name.
        folder: Files of the controller's certificate.
        repeated: Share of the runs that this machine repeats.
        cpu_seconds, memory_mib: Limits of all runs of the job in one process of a worker.
    """

    workers: Mapping[str, str]
    folder: Path
    repeated: float
    cpu_seconds: int
    memory_mib: int


@dataclass(frozen=True, slots=True)
class EndedQuestion:
    """Question of an earlier run, and the version of the output rules under which it ended.

    The version is empty if the question's condition means the same now.
    """

    question: Question
    rules: str = ""


@dataclass(frozen=True, slots=True)
class Before:
    """All that was or may be released of the same records before; statistics are exact unless rounded.

    Args:
        earlier: Questions of runs that are answered, or may be.
        refused: Questions of runs that were refused or have failed; their populations are remembered.
    """

    earlier: tuple[EndedQuestion, ...] = ()
    refused: tuple[EndedQuestion, ...] = ()
    released: tuple[Clique, ...] = ()
    rounded: tuple[Rounded, ...] = ()
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()


NOTHING_BEFORE = Before()
"""Value for records of which nothing was released."""


@dataclass(frozen=True, slots=True)
class MeasureJob:
    """Measure psi of the records.

    Args:
        weights: One for each statistic, by which noise is divided; empty for equal ones.
        rules: Rules for exact sums; None if there are no exact sums.
        before: Earlier disclosures of the same records, with which exact sums are judged.
    """

    records: RecordsSource
    cliques: tuple[Clique, ...]
    linear: tuple[LinearStatistic, ...]
    privacy: Privacy = field(metadata=written(scalar=_PRIVACY))
    weights: tuple[int, ...]
    transform: Transform
    histograms: Clique = ()
    sums: tuple[Sum, ...] = ()
    rules: Rules | None = None
    before: Before = NOTHING_BEFORE


@dataclass(frozen=True, slots=True)
class MeasureResult:
    psi: bytes


@dataclass(frozen=True, slots=True)
class SynthesisJob:
    """Fit a generator to psi and draw rows.

    The job receives psi and the structural zeros, and no other information about the dataset.

    Args:
        fit: Fit to psi that an earlier job returned; empty if there is none.
        generator_digest: Names the version of the generator; empty for that of today.
    """

    psi: bytes
    generator: str
    zeros: tuple[StructuralZeros, ...]
    computed: Mapping[str, Derivation]
    rows: int
    seed: int
    max_cells: int
    rows_file: Path
    fit: bytes = b""
    keep: bool = False
    generator_digest: str = ""


@dataclass(frozen=True, slots=True)
class RowsResult:
    """Digest, in hex, of the rows in the file that the job has written, and the fit if it is kept."""

    digest: str
    fit: bytes = b""


@dataclass(frozen=True, slots=True)
class AuditJob:
    """Audit a black box on the records.

    Args:
        versions: Pairs of name and version, which the report states.
        journal: Folder in which the runs are kept until the audit has ended.
        cluster: Workers that perform the runs; None for the process of the job.
    """

    records: RecordsSource
    recipe: Recipe
    plan: AuditPlan
    versions: tuple[tuple[str, str], ...]
    journal: Path
    cluster: ClusterPart | None


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The report of an audit; its numbers depend on records."""

    report: AuditReport


@dataclass(frozen=True, slots=True)
class CompareJob:
    """Evaluate rows beside psi and records.

    Args:
        together: Attributes that the policy allows to be combined.
        records: None if no evaluation reads them.
        holdout: None if no evaluation reads it, or there is none.
        derivations: Whether numbers of derived attributes are those of their sources.
    """

    rows_file: Path
    measures: tuple[str, ...]
    psi: bytes
    cliques: tuple[Clique, ...]
    schema: PublicSchema
    declared: Declared
    together: AllowedTogether
    seed: int
    records: RecordsSource | None
    holdout: RecordsSource | None
    derivations: bool = False


@dataclass(frozen=True, slots=True)
class FindingDocument:
    """Finding of an evaluation, stored and served as it is; None if the evaluation is not possible."""

    name: str
    document: Json | None = field(metadata=written(scalar=ANY_JSON))


@dataclass(frozen=True, slots=True)
class CompareResult:
    """Findings, rounded; their numbers depend on records."""

    findings: tuple[FindingDocument, ...]


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """Answer one question from the records, judged with all earlier disclosures of them.

    Args:
        privacy: Noise of the run; None for exact counts.
        numbers: Most numbers of the answer.
        stored: Whether numbers count as the records have them.
    """

    records: RecordsSource
    question: Question
    privacy: Privacy | None = field(metadata=written(scalar=_PRIVACY))
    numbers: int
    before: Before
    limits: Rules
    stored: bool = False


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """An answer that the output rules pass, or their reasons to refuse it.

    Args:
        answer: Document that the controller signs as it is; None if it was refused.
        reasons: One code for all refusals that depend on the records.
        marks: Verdict on each part, for stewards alone; None if nothing was judged.
    """

    answer: Json | None = field(metadata=written(scalar=ANY_JSON))
    reasons: tuple[str, ...]
    rules: str
    review: bool
    marks: tuple[Mark, ...] | None


@dataclass(frozen=True, slots=True)
class KeepJob:
    """Run a black box once on the records, and keep its fit in the folder, or else so many rows."""

    records: RecordsSource
    recipe: Recipe
    rows: int
    folder: Path


@dataclass(frozen=True, slots=True)
class KeepResult:
    """Empty: the fit or the rows are in the folder."""


@dataclass(frozen=True, slots=True)
class DrawJob:
    """Draw rows from what ``keep`` left of one run of a black box in the folder; no record is read."""

    recipe: Recipe
    domain: Domain
    computed: Mapping[str, Derivation]
    rows: int
    folder: Path
    rows_file: Path


@dataclass(frozen=True, slots=True)
class ThinOutJob:
    """Leave out drawn rows that replicate unique records, and write so many of the others."""

    records: RecordsSource
    drawn: Path
    rows: int
    rows_file: Path


@dataclass(frozen=True, slots=True)
class RiskJob:
    """Compute the risk of exact tables of the records, for stewards alone.

    Args:
        own: Tables of the card itself, which its checks may refuse.
        histograms: Released histograms, including the card's own.
        numbers: The card's own histograms and sums, as its measurement would judge them.
        with_step: Attributes with a step that the exact terms name.
        influence: Largest influence of a record that the policy permits; None for any.
    """

    records: RecordsSource
    cliques: tuple[Clique, ...]
    own: tuple[Clique, ...]
    transform: Transform
    histograms: Clique = ()
    numbers: MeasureJob | None = None
    with_step: Clique = ()
    influence: float | None = None


@dataclass(frozen=True, slots=True)
class RiskResult:
    """The risk of psi; its numbers depend on records."""

    risk: PsiRisk


@dataclass(frozen=True, slots=True)
class ProgramPart:
    """A program of an analyst.

    Args:
        agreed: Outputs of the analyst's own dry run, whose shape is agreed.
        stored: Attributes of which the program gets stored numbers.
    """

    recipe: AnalysisRecipe
    agreed: Outputs
    most_numbers: int
    seed: int
    stored: Clique


@dataclass(frozen=True, slots=True)
class RehearsalJob:
    """Run a program on synthetic rows.

    Args:
        drawing_seed: Seed of the numbers inside intervals, which take the place of stored ones.
        psi: Document of the card's psi, whose histograms place these numbers; empty if it has none.
    """

    program: ProgramPart
    rows_file: Path
    schema: PublicSchema
    drawing_seed: int
    psi: bytes = b""


@dataclass(frozen=True, slots=True)
class ProgramJob:
    """Run a program on the records, once; it gets these attributes."""

    program: ProgramPart
    records: RecordsSource
    attributes: Clique


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """Outputs of a program, rounded."""

    outputs: Outputs


@dataclass(frozen=True, slots=True)
class BlackBoxJob:
    """Run a lent black box on a dataset that its caller made up.

    Args:
        errors_file: File for the standard error of a program that fails.
    """

    recipe: Recipe
    upload: Path
    rows: int
    seed: int
    rows_file: Path
    errors_file: Path


_Request = TypeVar("_Request")
_Result = TypeVar("_Result")


def continue_at_once() -> None:
    """Do not delay the end of a job."""


@dataclass(frozen=True, slots=True)
class JobTask(Generic[_Request, _Result]):
    """A function that a worker knows by name, and the module of ``jobs`` that holds it.

    Args:
        steps: Steps of progress that an analyst sees of a job on records; None for all steps.
        at_records: Whether the job reads records, or runs a black box on what a fit has kept of them.
        lent: Whether the job runs a black box on a caller's own dataset. A lent job must not run at the
            same time as a job on records: a program can measure the load of other processes.
    """

    name: str
    module: str
    request: type[_Request]
    result: type[_Result]
    steps: int | None = None
    at_records: bool = False
    lent: bool = False

    def function(self) -> Callable[[_Request, Progress], _Result]:
        """Return the function, with all that it needs to run."""
        module = import_module(f"gencard.controller.jobs.{self.module}")
        function: Callable[[_Request, Progress], _Result] = getattr(module, self.name)
        return function

    def run(self, body: object, progress: Progress) -> _Result:
        """Do the job of a message.

        Raises:
            InvalidInputError: The message is of another form; the job has done nothing.
        """
        return self.function()(JOBS.read(self.request, body, field=self.name), progress)

    def __call__(
        self,
        job: _Request,
        *,
        owner: str = "",  # noqa: ARG002  # whose turn it is, for executors that take turns
        series: str = "",  # noqa: ARG002  # jobs that may share a process, where there are processes
        progress: Progress = ignore_progress,
        hold: Callable[[], None] = continue_at_once,
    ) -> _Result:
        """Do the job here, for executors without worker processes; ``hold`` holds its end back."""
        try:
            return self.function()(job, progress)
        finally:
            hold()


AnyTask = JobTask[Any, Any]
"""A task whose messages only the task itself knows."""

MEASURE = JobTask("measure", "measurement", MeasureJob, MeasureResult, steps=1, at_records=True)
SYNTHESISE = JobTask("synthesise", "synthesis", SynthesisJob, RowsResult)
AUDIT = JobTask("audit", "black_boxes", AuditJob, AuditResult, steps=10, at_records=True)
COMPARE = JobTask("compare", "comparison", CompareJob, CompareResult, steps=1, at_records=True)
THIN_OUT = JobTask("thin_out", "comparison", ThinOutJob, RowsResult, steps=1, at_records=True)
RUN_BLACK_BOX = JobTask("run_black_box", "synthesis", BlackBoxJob, RowsResult, lent=True)
ANSWER = JobTask("answer", "answering", AnswerJob, AnswerResult, steps=1, at_records=True)
KEEP = JobTask("keep", "black_boxes", KeepJob, KeepResult, steps=10, at_records=True)
DRAW = JobTask("draw", "black_boxes", DrawJob, RowsResult, at_records=True)
LOOK = JobTask("look", "comparison", RiskJob, RiskResult, at_records=True)
REHEARSE = JobTask("rehearse", "answering", RehearsalJob, ProgramResult, lent=True)
RUN_ONCE = JobTask("run_once", "answering", ProgramJob, ProgramResult, steps=1, at_records=True)

_RELEASING: tuple[AnyTask, ...] = (MEASURE, SYNTHESISE, KEEP, DRAW, THIN_OUT)
_ASKING: tuple[AnyTask, ...] = (AUDIT, COMPARE, LOOK, ANSWER, RUN_BLACK_BOX, REHEARSE, RUN_ONCE)
TASKS = {task.name: task for task in (*_RELEASING, *_ASKING)}
"""Everything that a worker can be asked to do."""


KEPT_FIT, KEPT_ROWS = "fit", "rows"
"""Files that ``keep`` leaves in its folder: one of them."""
