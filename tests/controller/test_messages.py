"""Messages of jobs: they cross as they are, and what is of another form is refused before any work."""

import io
import struct
import tracemalloc
from contextlib import suppress
from dataclasses import fields, replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencard.analysis.output_checks.differencing import Rounded
from gencard.boxes.reference import ReferenceKind, ReferenceRecipe
from gencard.controller.jobs import process
from gencard.controller.jobs.executor import ProcessExecutor
from gencard.controller.jobs.process import (
    MOST_BYTES,
    Crashed,
    Done,
    Failed,
    MalformedMessageError,
    Order,
    Reported,
    packed,
    read_frame,
    received,
    unpacked,
    write_frame,
)
from gencard.controller.jobs.synthesis import box_of
from gencard.controller.jobs.tasks import (
    ANSWER,
    JOBS,
    KEEP,
    MEASURE,
    SYNTHESISE,
    TASKS,
    AnswerJob,
    AnswerResult,
    AuditJob,
    AuditResult,
    Before,
    BlackBoxJob,
    ClusterPart,
    CompareJob,
    CompareResult,
    DrawJob,
    EndedQuestion,
    FindingDocument,
    KeepJob,
    KeepResult,
    MeasureJob,
    MeasureResult,
    ProgramJob,
    ProgramPart,
    ProgramResult,
    RecordsSource,
    RehearsalJob,
    RiskJob,
    RiskResult,
    RowsResult,
    SynthesisJob,
    ThinOutJob,
)
from gencard.controller.records.file_format import FileFormat
from gencard.controller.records.schema_file import PublicSchema
from gencard.controller.sandbox.analyses import AnalysisRecipe
from gencard.controller.sandbox.boxes import ProgramRecipe
from gencard.controller.sandbox.environment import Distribution, Environment, Runtime
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.core.audit.plan import AuditPlan
from gencard.core.audit.run import audit
from gencard.core.card.privacy import EXACT, USUAL_CHECKS, Mechanism, privacy_with
from gencard.core.card.terms import AuditTerms
from gencard.core.coding import Attribute, Coding, Derivation, Edges, Labels, Reading, StructuralZeros
from gencard.core.dataset import Dataset
from gencard.core.domain import Domain
from gencard.core.errors import GencardError, InvalidInputError, JobFailedError
from gencard.core.policy import USUAL_RULES, Colour, Mark, Rule
from gencard.core.program_outputs import Output, OutputKind
from gencard.core.statistics.linear import Function, LinearStatistic
from gencard.core.types import ignore_progress
from gencard.measures.evaluation.evaluation import AllowedTogether, Declared
from gencard.measures.privacy.psi_risk import psi_risk
from gencard.measures.utility.fidelity import GapWords
from gencard.wire.documents import Question

CANARY = "CANARY-Ann-Smith-HIV"
CODING = Coding(
    (
        Attribute("sex", Labels(("f", "m"), ordered=True)),
        Attribute("age", Edges((0.0, 18.5, 65.0, 120.0), missing=True)),
        Attribute("adult", Labels(("no", "yes")), "a", Derivation(("age",), (0, 1, 1, 0))),
    ),
    (StructuralZeros(("sex", "age"), ((0, 1), (1, 2))),),
)
CLIQUES = (("sex", "age"), ("adult",))
LINEAR = (LinearStatistic(("sex",), (Function("1", (1, 1)), Function("x", (-3, 2), 7))),)
NOISE = privacy_with(Mechanism.LAPLACE, {"epsilon": str(Decimal("0.1")), "neighbouring": "add-remove"})
SCHEMA = PublicSchema(
    "title",
    "description\nof two lines",
    "steward \ud800",  # half of a surrogate pair, as JSON can hold it
    True,
    CODING,
    {"age": Reading(("-8", ""), date(2019, 12, 31), None)},
    1_000,
    {"sex": {"all": ("f", "m")}},
    "id",
    3,
)
FORMAT = FileFormat(encoding="latin-1", delimiter=";", escape="\\", dates=("%d.%m.%Y",))
UNUSUAL = Path("/srv/\udcff è/records.csv")  # a name that is not UTF-8, as Python reads it
RECORDS = RecordsSource(
    str(UNUSUAL), False, FORMAT, SCHEMA, "0a" * 32, b"\0salt\xff", 2_000_000, "s3cret"
)
REFERENCE = ReferenceRecipe(
    ReferenceKind.COPIES_ROWS, "ipf", CLIQUES, LINEAR, None, 0.1, CODING.structural_zeros, 2**70
)
PROGRAM = ProgramRecipe(
    "",
    "/srv/box",
    ("python", "./box.py"),
    {"depth": "3"},
    ("tiny",),
    "0" * 64,
    Runtime("CPython 3", "glibc", (Distribution("tiny", "1", "ab"),)),
    Environment(("/usr",), (), (("/a", "b"),), "/c", ("/d",), "stamp", ("tiny",), "r"),
    Isolation.PROCESSES,
    SandboxLimits(processes=2),
    CLIQUES,
    LINEAR,
    {"age": (0.5, -1e300, None)},
    {"box.py": b"\0\xff"},
)
QUESTION = Question("linear", "age ~ sex", "age < 30", "drop", '{"q":[0.25,0.5]}')
RULES = replace(USUAL_RULES, influence=None)
OUTPUTS = (Output(OutputKind.TABLE, "n", ("a", "b"), ("c",), ((1.5,), (None,)), ("c",)),)
ANALYSIS = AnalysisRecipe("print(1)", (), Environment(), Isolation.NAMESPACES, SandboxLimits())
PART = ProgramPart(ANALYSIS, OUTPUTS, 500, 2**64 - 1, ("age",))
PLAN = AuditPlan(CLIQUES[:1], 40, 2**64 - 1, AuditTerms(6, 3), 2, LINEAR, CODING.structural_zeros)
ROWS = Dataset(Domain.of({"sex": 2, "age": 4}), [[0, 1], [1, 2], [1, 3], [0, 0]] * 10)
BEFORE = Before(
    (EndedQuestion(QUESTION, "2"), EndedQuestion(Question("means", "age ~ 1"))),
    (EndedQuestion(QUESTION),),
    CLIQUES,
    (Rounded(("sex",), USUAL_CHECKS),),
)
DECLARED = Declared(("sex",), "age", gap=GapWords("sex", "f", "m", "age", "adult", ("yes",)))
CLUSTER = ClusterPart({"w1": "10.0.0.6:8786"}, Path("/srv/cluster"), 0.1, 600, 4_096)
PSI = bytes(range(256)) * 3

REQUESTS = [
    MeasureJob(RECORDS, CLIQUES, LINEAR, NOISE, (1, 2), USUAL_CHECKS),
    MeasureJob(replace(RECORDS, is_table=True), CLIQUES, (), EXACT, (), USUAL_CHECKS),
    SynthesisJob(
        PSI, "ipf", CODING.structural_zeros, {"adult": Derivation(("age",), (0, 1))}, 9, 7, 5, UNUSUAL
    ),
    SynthesisJob(PSI, "ipf", (), {}, 9, 7, 5, UNUSUAL, PSI[::-1], True),
    AuditJob(RECORDS, PROGRAM, PLAN, (("gencard", "1"), ("numpy", "2")), Path("/j"), None),
    AuditJob(RECORDS, REFERENCE, PLAN, (), Path("/j"), CLUSTER),
    CompareJob(
        *(UNUSUAL, ("marginals",), PSI, CLIQUES, SCHEMA, DECLARED, AllowedTogether(CLIQUES, 3), 7),
        *(RECORDS, None),
    ),
    ThinOutJob(RECORDS, Path("/drawn"), 10, Path("/rows")),
    BlackBoxJob(PROGRAM, Path("/in"), 10, 2**64 - 1, Path("/out"), Path("/errors")),
    AnswerJob(RECORDS, QUESTION, None, 100, BEFORE, RULES),
    AnswerJob(RECORDS, QUESTION, NOISE, 100, Before(), USUAL_RULES),
    KeepJob(RECORDS, REFERENCE, 10, Path("/kept")),
    DrawJob(PROGRAM, ROWS.domain, {}, 10, Path("/kept"), Path("/rows")),
    RiskJob(RECORDS, CLIQUES, CLIQUES[:1], USUAL_CHECKS),
    RehearsalJob(PART, Path("/rows"), SCHEMA, 2**63),
    RehearsalJob(PART, Path("/rows"), SCHEMA, 0, b"{}"),
    ProgramJob(PART, RECORDS, ("sex", "age")),
]
MARKS = (Mark("sex × age", Colour.RED, (Rule.THRESHOLD, Rule.ZERO)), Mark("sums", Colour.GREEN, ()))


RESULTS = [
    MeasureResult(PSI),
    MeasureResult(b""),
    RowsResult("ab" * 32),
    RowsResult("ab" * 32, PSI),
    CompareResult((FindingDocument("marginals", {"kl": [0.5, None]}), FindingDocument("dcr", None))),
    AnswerResult({"tables": [[1.5, None]]}, (), "3", True, MARKS),
    AnswerResult(None, ("output-rules",), "3", False, None),
    KeepResult(),
    ProgramResult(OUTPUTS),
    RiskResult(psi_risk(ROWS, [("sex", "age")])),
]
TASK_OF = {task.request: task for task in TASKS.values()}


def sent(message):
    """The body of a message, as it arrives."""
    file = io.BytesIO()
    write_frame(file, packed(Done(), message))
    file.seek(0)
    return unpacked(read_frame(file))[1]


def test_each_task_is_among_the_samples():
    assert {type(one) for one in REQUESTS} == {task.request for task in TASKS.values()}
    results = {type(one) for one in RESULTS} | {AuditResult}
    assert results == {task.result for task in TASKS.values()}


@pytest.mark.parametrize("message", [*REQUESTS, *RESULTS], ids=lambda one: type(one).__name__)
def test_a_message_crosses_as_it_is(message):
    assert JOBS.read(type(message), sent(message), field="job") == message


def test_a_report_crosses_as_it_is():
    cliques = (("sex",), ("age",))
    box = box_of(replace(REFERENCE, zeros=(), linear=(), cliques=cliques))
    made = audit(box, ROWS, AuditPlan(cliques, 40, 7, AuditTerms(6, 2)))
    assert JOBS.read(AuditResult, sent(AuditResult(made)), field="result").report == made


def places_of(json, path=()):
    """Each place of a JSON value."""
    yield path
    if isinstance(json, dict | list):
        for key in json if isinstance(json, dict) else range(len(json)):
            yield from places_of(json[key], (*path, key))


def changed(json, path, change):
    """A copy in which one value is another, or is left out."""
    if not path:
        return change(json)
    copy = json.copy()
    content = changed(copy[path[0]], path[1:], change)
    if content is None and len(path) == 1:
        del copy[path[0]]
    else:
        copy[path[0]] = content
    return copy


FREE = {"found", "document", "answer", "parameters", "files", "computed", "readings", "groups", "values"}
"""Documents, which no field describes, and mappings, whose names are content."""


@pytest.mark.parametrize("message", [*REQUESTS, *RESULTS], ids=lambda one: type(one).__name__)
def test_every_field_is_checked(message):
    """One that is unknown or of another type, anywhere, is a typed error without its content."""
    body, tried = sent(message), 0
    for path in places_of(body):
        if FREE & {*path}:
            continue
        for change in (
            lambda _: [CANARY, [CANARY]],
            lambda one: {**one, CANARY: 1} if isinstance(one, dict) else {CANARY: 1},
            lambda _: (CANARY,),
        ):
            with pytest.raises(GencardError) as refused:
                JOBS.read(type(message), changed(body, path, change), field="job")
            assert CANARY not in f"{refused.value} {refused.value.fields}"
            tried += 1
    assert tried > len(fields(type(message)))


@pytest.mark.parametrize("message", [*REQUESTS, *RESULTS], ids=lambda one: type(one).__name__)
def test_no_field_of_a_message_may_be_missing(message):
    body = sent(message)
    for one in fields(type(message)):
        with pytest.raises(InvalidInputError, match="is missing"):
            JOBS.read(type(message), {n: v for n, v in body.items() if n != one.name}, field="job")


def test_truth_values_are_no_numbers_and_numbers_no_texts():
    body = sent(ThinOutJob(RECORDS, Path("/drawn"), 10, Path("/rows")))
    wrongs = {"rows": [True, 10.0, "10", None], "drawn": [1, "/a//b", "./a"]}
    for name, wrong in [(name, one) for name, ones in wrongs.items() for one in ones]:
        with pytest.raises(InvalidInputError, match="does not have the expected form"):
            JOBS.read(ThinOutJob, body | {name: wrong}, field="job")


def test_a_wrong_job_is_refused_before_any_work(monkeypatch):
    """Each task's function is replaced by one that fails the test."""
    for message in REQUESTS:
        task = TASK_OF[type(message)]
        monkeypatch.setattr(type(task), "function", lambda _: lambda *_: pytest.fail("work began"))
        with pytest.raises(InvalidInputError):
            task.run(sent(message) | {"more": 1}, ignore_progress)


class TestReceived:
    """The service believes no message of a worker that has another form."""

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"\0",
            b"\xff" * 64,
            struct.pack("<I", 2) + b"[]",
            struct.pack("<I", 2**32 - 1) + b"[]",
            struct.pack("<I", 9) + b"[1, 2, 3]",
            struct.pack("<I", 100_000) + b"[" * 100_000,
            packed(Done(), RowsResult("ab")) + b"\0",
            packed(Done(), MeasureResult(PSI))[:-1],
            packed(Done()),
            packed(Order("measure", 1, 1, stays=False)),
            packed(Failed("GENCARD", {}), RowsResult("ab")),
            packed(Reported("fit", 0.5), RowsResult("ab")),
        ],
    )
    def test_garbage(self, content):
        with pytest.raises(MalformedMessageError) as refused:
            received(MEASURE, content)
        assert str(refused.value) == "a message of another form"

    @pytest.mark.parametrize(
        "header",
        [
            b'[{"event": "progress", "stage": "s", "share": NaN}, null, {}]',
            b'[{"event": "progress", "stage": "s", "share": -Infinity}, null, {}]',
            b'[{"event": "progress", "stage": "s", "share": 1e999}, null, {}]',
            b'[{"event": "progress", "stage": "s", "share": "0.5"}, null, {}]',
            b'[{"event": "progress", "stage": "s", "share": 0.5, "more": 1}, null, {}]',
            b'[{"event": "result", "stays": false}, {}, {"psi": -1}]',
            b'[{"event": "result", "stays": false}, {}, {"psi": 1e3}]',
            b'[{"event": "result", "stays": false}, {"psi": "x"}, {"psi": 0}]',
            b'[{"event": "result", "stays": false}, {"psi": "x"}, {}]',
            b'[{"event": "result", "stays": false}, null, {"psi": 0}]',
            b'[{"event": "result", "stays": false}, {}, []]',
            b'[{"event": "result", "stays": 0}, {}, {"psi": 0}]',
            b'[{"event": "error", "reason": "A", "fields": {"a": 1}, "stays": false}, null, {}]',
            b'[{"event": "stranger"}, null, {}]',
            b'[{"event": "result", "stays": ' + b"9" * 5_000 + b"}, null, {}]",
        ],
    )
    def test_wrong_headers(self, header):
        with pytest.raises(MalformedMessageError):
            received(MEASURE, struct.pack("<I", len(header)) + header)

    @pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
    def test_the_result_of_another_task(self, task):
        for result in RESULTS:
            content = packed(Done(), result)
            if isinstance(result, task.result):
                assert received(task, content)[1] == result
            else:
                with pytest.raises(MalformedMessageError):
                    received(task, content)

    @given(st.binary(max_size=200))
    def test_any_bytes(self, content):
        for task in (MEASURE, ANSWER, KEEP):
            with pytest.raises(MalformedMessageError):
                received(task, content)

    @given(st.data())
    def test_any_changed_byte_is_refused_or_read(self, data):
        """Never another error: the text of one could quote a message."""
        content = bytearray(packed(Done(), RESULTS[data.draw(st.integers(0, len(RESULTS) - 1))]))
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        for task in TASKS.values():
            with suppress(MalformedMessageError):
                received(task, bytes(content))

    def test_every_end_crosses(self):
        result, failed = RowsResult("ab"), Failed("A", {"b": "c"}, stays=True)
        assert received(SYNTHESISE, packed(Done(stays=True), result)) == (Done(stays=True), result)
        for end in (failed, Crashed("KeyError", "a.py:1")):
            assert received(SYNTHESISE, packed(end)) == (end, None)


class TestFrames:
    def test_numbers_that_are_not_finite_are_not_written(self):
        for number in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match="JSON"):
                packed(Reported("fit", number))

    @pytest.mark.parametrize("size", [MOST_BYTES + 1, 2**40, 2**64 - 1])
    def test_a_size_above_the_bound_is_refused(self, size):
        with pytest.raises(MalformedMessageError):
            read_frame(io.BytesIO(struct.pack("<Q", size)))

    def test_memory_is_taken_for_what_comes_and_not_for_what_is_announced(self):
        tracemalloc.start()
        try:
            assert read_frame(io.BytesIO(struct.pack("<Q", MOST_BYTES) + b"few")) is None
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()

    @given(st.binary(max_size=100))
    def test_a_frame_cut_short_is_no_frame(self, content):
        file = io.BytesIO()
        write_frame(file, content)
        whole = file.getvalue()
        assert read_frame(io.BytesIO(whole)) == content
        for size in range(len(whole)):
            assert read_frame(io.BytesIO(whole[:size])) is None


@pytest.mark.parametrize(
    "frames",
    [
        struct.pack("<Q", 2**63) + b"few",
        struct.pack("<Q", 4) + b"none",
        struct.pack("<Q", 0),
        b'{"result": {"digest": "' + CANARY.encode() + b'"}}\n',
    ],
)
def test_a_worker_that_writes_garbage_is_killed_and_is_an_incident(monkeypatch, frames):
    octets = "".join(f"\\{byte:03o}" for byte in frames)
    shell = ("/bin/sh", "-c", f"printf '{octets}'; sleep 60")
    monkeypatch.setattr(process, "_COMMAND", shell)
    reports = []
    with ProcessExecutor(
        1, cpu_seconds=60, memory_mib=512, report=lambda *one: reports.append(one)
    ) as executor:
        error = executor.submit(KEEP, REQUESTS[10], series="one").exception(30)
    assert type(error) is JobFailedError
    assert reports[0][2] in ("a message of another form", "a frame that is too large")
    assert CANARY not in f"{error} {error.fields} {reports} {error.__context__}"
