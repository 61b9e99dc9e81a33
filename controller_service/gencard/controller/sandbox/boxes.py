"""Black boxes that run in a sandbox, programs of other authors or built-in, and recipes to build them.

A trial run tests whether a sandbox can be closed on this machine.
"""

import signal
import time
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

import numpy as np

from gencard.boxes.entry import Parameters, Surroundings
from gencard.boxes.reference import ReferenceRecipe
from gencard.boxes.registry import BOXES, box_named, complete
from gencard.controller.sandbox.environment import PYTHON, Environment, Runtime, modules_of
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Observed, Sandbox
from gencard.core.blackbox import BlackBox, FittingBox
from gencard.core.dataset import Dataset, code_dtype
from gencard.core.domain import Clique, Domain
from gencard.core.errors import (
    BlackBoxError,
    GencardError,
    GeneratorChangedError,
    InvalidInputError,
    IsolationError,
    JobLimitError,
)
from gencard.core.json_codecs import ScalarCodec, written
from gencard.core.statistics.linear import LinearStatistic
from gencard.core.typed_json import AS_IT_IS
from gencard.core.types import Progress, ignore_progress
from gencard.wire.black_box import (
    AnswerReader,
    BoxRequest,
    BoxTask,
    HundredthsReport,
    Values,
    error_of_refusal,
    rows_line,
)
from gencard.wire.canonical import document_of, json_bytes


def ignore_hundredths(_hundredths: int) -> None:
    """Drop the progress of a program: it may depend on records."""


_MOMENT = 0.5  # seconds of runs after which the environment is checked


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedProgram:
    """A program as a ``core.blackbox.BlackBox``; each call is a separate run.

    Args:
        values: For ordered attributes, the number that each code stands for, NaN for missing.
        relays: Whether its refusals of public input are raised as they are. Only a program that comes
            with Gencard may: a refusal in another program's own text may disclose records.
    """

    program: Program
    sandbox: Sandbox
    workload: tuple[Clique, ...] = ()
    values: Values = field(default_factory=dict)
    relays: bool = False

    def __call__(self, dataset: Dataset, rows: int, *, seed: int) -> Dataset:
        """Return the program's rows; its progress is dropped, because it may depend on records."""
        return self.ask(self.request(BoxTask.RUN, dataset, rows, seed)).rows()

    def runs_by_seed(self, dataset: Dataset, rows: int, *, seeds: Sequence[int]) -> Iterator[Dataset]:
        """Yield the result of a call with each seed, one after the other; raises as a call does.

        A check of the environment takes as long as a short run. Several runs therefore share one check,
        and their rows are yielded after it.
        """
        waiting: list[Dataset] = []
        checked = time.monotonic()
        for number, seed in enumerate(seeds, start=1):
            request = self.request(BoxTask.RUN, dataset, rows, seed)
            waiting.append(self.ask(request, checks=False).rows())
            if number == len(seeds) or time.monotonic() - checked >= _MOMENT:
                self.sandbox.check()
                checked = time.monotonic()
                yield from waiting
                waiting.clear()

    def ask(
        self, request: BoxRequest, *, report: HundredthsReport = ignore_hundredths, checks: bool = True
    ) -> AnswerReader:
        answer = self.sandbox.ask(self.program, request, report=report, checks=checks)
        if self.relays and (refusal := answer.refusal()):
            raise error_of_refusal(*refusal)
        return answer

    def explanation(
        self, error: BlackBoxError | JobLimitError, dataset: Dataset, rows: int, seed: int
    ) -> tuple[GencardError, str]:
        """Return the error of a run on made-up records, with cause and advice, and its standard error.

        The program is run once more. This must never be called on real records. The cause is a limit,
        the end of the process, or the first fault of the answer.
        """
        request, seen = self.request(BoxTask.RUN, dataset, rows, seed), Observed(error=error)
        limits = self.sandbox.limits
        if isinstance(error, BlackBoxError):
            seen = self.sandbox.observed(self.program, request)
        written = seen.written.decode(errors="replace")
        if isinstance(seen.error, JobLimitError):
            return _limit_error(seen.error, limits), written
        problem, advice = _cause(seen, request, limits, written)
        if written.strip():
            advice += " Below is what the program wrote to standard error."
        return BlackBoxError(problem=problem, advice=advice), written

    def request(
        self, task: BoxTask, dataset: Dataset, rows: int, seed: int, saved: bytes = b""
    ) -> BoxRequest:
        names = dataset.domain.attributes
        values = {name: self.values[name] for name in names if name in self.values}
        parameters = self.program.parameters
        return BoxRequest(task, dataset, rows, seed, parameters, self.workload, values, saved)


_SHOWN = 60  # characters of an answer that are quoted


def _limit_error(error: JobLimitError, limits: SandboxLimits) -> JobLimitError:
    what = error.fields["what"]
    for begin, value, key in (
        ("time", f"{limits.wall_seconds} s", "wall_seconds"),
        ("CPU time", f"{limits.cpu_seconds} s", "cpu_seconds"),
        ("memory", f"{limits.memory_mib} MiB", "memory_mib"),
    ):
        if what.startswith(begin):
            advice = (
                f"The limit is {value}. Look for a loop without end, use fewer records, or make the"
                f" program cheaper; or ask the steward to raise {key} in the black box's limits."
            )
            return JobLimitError(what=what, advice=advice)
    return error


def _cause(observed: Observed, request: BoxRequest, limits: SandboxLimits, text: str) -> tuple[str, str]:
    if observed.code:
        return _end(observed.code), _advice_on(text, limits)
    if observed.error is None:
        return (
            "it failed once and succeeded with the same seed when it was run again",
            "Take all randomness from the seed, and depend on nothing else, such as time.",
        )
    expected = rows_line(request.rows)
    if observed.code is None:
        return observed.error.fields["problem"], (
            f"Write a header of {len(expected)} bytes and the codes of {request.rows} rows to standard"
            " output, close it, and end."
        )
    if not observed.answer:
        return (
            "it ended with exit code 0 and wrote no answer",
            "In Python end the script with NAME.main(), where NAME is the decorated function, and do not"
            " call exit or os._exit before; in other languages write the header line and the codes.",
        )
    line, end, body = observed.answer.partition(b"\n")
    while line.startswith(b'{"done":') and end:  # lines of progress come before the header
        line, end, body = body.partition(b"\n")
    line += end
    if line != expected:
        return (
            f"its answer begins with {_quoted(line)} in place of {_quoted(expected)}",
            "Write nothing else to standard output: in Python print only after NAME.main() has begun, or"
            " to sys.stderr.",
        )
    wrong = _wrong_code(body, request)
    advice = "Give whole numbers from 0 to one less than the size of the attribute."
    return (wrong, advice) if wrong else (observed.error.fields["problem"], "Correct the program.")


def _quoted(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip("\n")
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _end(code: int) -> str:
    if code < 0 or code > 128:
        number = -code if code < 0 else code - 128
        with suppress(ValueError):
            return f"it was ended by signal {number} ({signal.Signals(number).name})"
    return f"it ended with exit code {code} before its answer was complete"


def _advice_on(written: str, limits: SandboxLimits) -> str:
    last = next((line for line in reversed(written.splitlines()) if line.strip()), "")
    if last.startswith(("ModuleNotFoundError", "ImportError")):
        return (
            "The sandbox has numpy, scipy and the packages that `libraries` of the black box names: add"
            " the package there, and install it where the controller runs."
        )
    if "MemoryError" in last or "annot allocate memory" in written:
        return (
            f"Each process has {limits.address_space} MiB of address space: use less memory, or ask the"
            " steward to raise memory_mib in the black box's limits."
        )
    if "start new thread" in last or "BlockingIOError" in last:
        return (
            f"The limit is {limits.tasks} processes or threads: start fewer, or ask the steward to raise"
            " `processes` in the black box's limits."
        )
    if "Function not implemented" in last or "Operation not permitted" in last:
        return (
            "The sandbox refuses this system call: it has no network, no sockets, and other processes"
            " only where `processes` in the black box's limits is above 1."
        )
    return "Correct the program, then try again."


def _wrong_code(body: bytes, request: BoxRequest) -> str:
    start, rows = 0, request.rows
    domain = request.dataset.domain
    sizes = dict(zip(domain.attributes, domain.sizes, strict=True))
    total = sum(rows * code_dtype(size).itemsize for size in sizes.values())
    if len(body) != total:
        return f"its answer has {len(body):,} bytes after the header in place of {total:,}"
    for name, size in sizes.items():
        wire = code_dtype(size).newbyteorder("<")
        codes = np.frombuffer(body, dtype=wire, count=rows, offset=start)
        start += rows * wire.itemsize
        if rows and int(codes.max()) >= size:
            row = int(codes.argmax())
            most = size - 1
            return f"attribute '{name}' has code {codes[row]} in row {row}; its codes are 0 to {most}"
    return ""


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedFit:
    """See ``core.blackbox.FittedBox``; ``inner`` are the bytes from the box."""

    box: "FittingProgram"
    domain: Domain
    inner: bytes = field(repr=False)

    def sample(self, rows: int, *, seed: int) -> Dataset:
        none = Dataset(self.domain, np.zeros((0, len(self.domain)), dtype=np.uint8))
        return self.box.ask(self.box.request(BoxTask.SAMPLE, none, rows, seed, self.inner)).rows()

    def save(self) -> bytes:
        """Return a line of JSON with the domain, then the bytes from the box."""
        domain = {"attributes": list(self.domain.attributes), "sizes": list(self.domain.sizes)}
        return json_bytes(domain) + b"\n" + self.inner


class FittingProgram(SandboxedProgram):
    """See ``core.blackbox.FittingBox``; fits and samples are made in sandboxes of their own."""

    __slots__ = ()

    def fit(self, dataset: Dataset, *, seed: int, progress: Progress = ignore_progress) -> SandboxedFit:
        """Fit to records; progress is reported, because this code is part of Gencard."""

        def report(hundredths: int) -> None:
            progress("fit", hundredths / 100)

        saved = self.ask(self.request(BoxTask.FIT, dataset, 0, seed), report=report).saved()
        return SandboxedFit(self, dataset.domain, saved)

    def load(self, saved: bytes) -> SandboxedFit:
        """Return a fit from the bytes of ``SandboxedFit.save``; raises BlackBoxError for other bytes.

        The box checks its own bytes when it samples.
        """
        head, _, inner = saved.partition(b"\n")
        with suppress(GencardError, KeyError, TypeError):
            header = document_of(head, "fit")
            domain = Domain(tuple(header["attributes"]), tuple(header["sizes"]))
            return SandboxedFit(self, domain, inner)
        raise BlackBoxError(problem="the bytes are not a saved fit")


_BUILT_IN = """# {name}, version {version}
from gencard.boxes.entry import Surroundings
from gencard.boxes.registry import box_named
from gencard.controller.noise import OpenDpNoise
from gencard.wire.black_box import serve


def box(request):
    around = Surroundings(request.workload, request.values, OpenDpNoise())
    return box_named("{name}", request.parameters, around)


serve(box)
"""


def built_in_program(name: str, parameters: Parameters) -> Program:
    """Return a box of the registry as a program; its digest changes with the algorithm's version."""
    _unconfined(name, parameters)
    entry = BOXES[name]
    text = _BUILT_IN.format(name=name, version=entry.version)
    files = (("box.py", text.encode()),)
    own, modules = dict(complete(entry, parameters)), modules_of(name)
    return Program((PYTHON, "./box.py"), files, own, entry.libraries, modules)


def sandboxed_box(
    name: str,
    parameters: Parameters,
    sandbox: Sandbox,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
) -> SandboxedProgram:
    """Return a box of the registry, in a sandbox; raises as ``built_in_program``."""
    program = built_in_program(name, parameters)
    fits = isinstance(_unconfined(name, parameters), FittingBox)
    kind = FittingProgram if fits else SandboxedProgram
    return kind(program, sandbox, workload, values or {}, relays=True)


def _unconfined(name: str, parameters: Parameters) -> BlackBox:
    """Return the box outside a sandbox, for inspection only; it must never be run."""
    from gencard.controller.noise import OpenDpNoise  # noqa: PLC0415 - OpenDP takes its time

    return box_named(name, parameters, Surroundings(noise=OpenDpNoise()))


_RESAMPLES = """
import ctypes
import os
import socket
from gencard.wire.black_box import black_box

if {hidden!r}:
    assert not os.path.exists({hidden!r})
    assert not os.path.exists("/proc") and not os.path.exists("/sys")
    assert os.uname().nodename == "cell"
    assert ctypes.CDLL(None).prctl({get_filter}, 0, 0, 0, 0) == {filtered}
    for family in socket.AF_INET, socket.AF_UNIX:
        try:
            socket.socket(family)
        except OSError:
            continue
        raise AssertionError

@black_box
def resample(table, rows, *, rng):
    return table.dataset.take(rng.integers(len(table), size=rows))

resample.main()
"""

_PR_GET_SECCOMP, _FILTERED = 21, 2
"""Option of prctl(2) that returns how calls are filtered, and its value for a filter by a program."""


def check_isolation(isolation: Isolation, hidden: Path) -> None:
    """Run a box that tries to see what it must not: sockets, a folder, /proc, calls without a filter.

    Args:
        hidden: A folder of the controller, which the sandbox must not show.

    Raises:
        IsolationError: The box did not answer: there is no bubblewrap, namespaces or filters of system
            calls are not allowed, this kind of machine has other calls, the sandbox's processes cannot
            be seen from outside, other users cannot read the interpreter, or the sandbox shows the
            folder.
    """
    visible_path = str(hidden) if isolation is Isolation.NAMESPACES else ""
    text = _RESAMPLES.format(hidden=visible_path, get_filter=_PR_GET_SECCOMP, filtered=_FILTERED)
    program = Program(("python", "./box.py"), (("box.py", text.encode()),))
    box = SandboxedProgram(
        program, Sandbox(SandboxLimits(wall_seconds=60), isolation, program.environment())
    )
    dataset = Dataset.of_columns(Domain.of({"a": 2}), [np.array([0, 1])])
    with suppress(GencardError):
        box(dataset, 1, seed=0)
        return
    raise IsolationError


# Recipes: how a job builds a black box, from the settings and from what was compared before.
#
# The service compares distributions with their RECORDs; a job refuses what has changed since, by the
# stamp, and reads the files of a program again. For another machine ``carried`` puts the files in place
# of folder, runtime and environment; ``received`` finds the others there.

PROGRAM = "program"

_FILES = ScalarCodec(
    lambda files: files and {path: b64encode(data).decode() for path, data in files.items()},
    lambda json: (
        None
        if json is None
        else {path: b64decode(AS_IT_IS[str].of_json(data), validate=True) for path, data in json.items()}
    ),
)


@dataclass(frozen=True, slots=True)
class ProgramRecipe:
    """A program, or a box of the registry, that runs in a sandbox.

    Args:
        box: Name in the registry; empty for a program of the settings.
        folder: Folder of the program; empty for a box of the registry, and on another machine.
        command, parameters, libraries: See ``program.Program``.
        digest: SHA-256, in hex, that cards name it by; it covers ``runtime``.
        cliques, linear: Statistics of the card; the box receives their attributes.
        values: For ordered attributes, the number of each code, None for missing.
        files: Content of each file by its path, if the program comes from another machine.
    """

    kind: str = field(init=False, default=PROGRAM)
    box: str
    folder: str
    command: tuple[str, ...]
    parameters: Mapping[str, str]
    libraries: tuple[str, ...]
    digest: str
    runtime: Runtime
    environment: Environment
    isolation: Isolation = Isolation.NAMESPACES
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    cliques: tuple[Clique, ...] = ()
    linear: tuple[LinearStatistic, ...] = ()
    values: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    files: Mapping[str, bytes] | None = field(default=None, metadata=written(scalar=_FILES))


Recipe = ReferenceRecipe | ProgramRecipe
"""Recipe by which a job builds a black box."""


def program_recipe(
    folder: Path,
    command: tuple[str, ...],
    parameters: Mapping[str, str],
    libraries: tuple[str, ...] = (),
) -> ProgramRecipe:
    """Return a program as it stands in its folder now.

    Raises:
        InvalidInputError: See ``Program.read`` and ``environment.checked``.
        GeneratorChangedError: A distribution changes while it is read.
    """
    program = Program.read(folder, command, parameters, libraries)
    return _recipe(program, box="", folder=str(folder))


def built_in_recipe(box: str, parameters: Mapping[str, str]) -> ProgramRecipe:
    """Return the recipe of a registry's box; raises as ``program_recipe`` and ``box_named``."""
    return _recipe(built_in_program(box, parameters), box=box, folder="")


def _recipe(program: Program, *, box: str, folder: str) -> ProgramRecipe:
    runtime = program.runtime()
    own = (tuple(program.command), dict(program.parameters), tuple(program.libraries))
    digest, environment = program.digest(runtime), program.environment()
    return ProgramRecipe(box, folder, *own, digest, runtime, environment)


def imports_of(recipe: ProgramRecipe) -> tuple[str, ...]:
    return _program_of(recipe).imports(recipe.environment)


def sandboxed_box_of(
    recipe: ProgramRecipe,
    *,
    workload: tuple[Clique, ...] = (),
    values: Values | None = None,
    check_seconds: float = 0.0,
) -> BlackBox:
    """Return the box of a recipe, from the very bytes whose digest the recipe has.

    Raises:
        GeneratorChangedError: The present files have another digest.
        InvalidInputError: Its program cannot be read.
    """
    recipe.environment.check_unchanged()
    sandbox = Sandbox(recipe.limits, recipe.isolation, recipe.environment, check_seconds=check_seconds)
    program = checked_program(recipe)
    if recipe.box:
        return sandboxed_box(recipe.box, program.parameters, sandbox, workload=workload, values=values)
    return SandboxedProgram(program, sandbox, workload, values or {})


def checked_program(recipe: ProgramRecipe) -> Program:
    """Return the program of a recipe from its present files, which must have the recipe's digest."""
    program = _program_of(recipe)
    if program.digest(recipe.runtime if program.is_python else program.runtime()) != recipe.digest:
        raise GeneratorChangedError.since_start()
    return program


def carried(recipe: ProgramRecipe) -> ProgramRecipe:
    """Return the recipe for another machine, which has no files of this one."""
    program = checked_program(recipe)
    files = {} if recipe.box else dict(program.files)
    return replace(recipe, folder="", runtime=Runtime(), environment=Environment(), files=files)


def received(recipe: ProgramRecipe, compiled: str = "") -> ProgramRecipe:
    """Return another machine's recipe for this one: the same program, by this interpreter.

    Raises:
        GeneratorChangedError: With the interpreter and the distributions here it has another digest.
    """
    # only its own files: a folder that the recipe names is one of the other machine
    here = replace(recipe, folder="", files=recipe.files or {})
    program = _program_of(here)
    runtime = program.runtime()
    if program.digest(runtime) != recipe.digest:
        raise GeneratorChangedError
    return replace(here, runtime=runtime, environment=program.environment(compiled))


def _program_of(recipe: ProgramRecipe) -> Program:
    if recipe.box:
        return built_in_program(recipe.box, recipe.parameters)
    if recipe.files is not None:
        # these come from another machine: no file may lie outside the program's folder
        if any(PurePosixPath(path).is_absolute() or ".." in path.split("/") for path in recipe.files):
            raise InvalidInputError(field="files", problem="has a path outside the program's folder")
        files = tuple(sorted(recipe.files.items()))
        return Program(recipe.command, files, recipe.parameters, recipe.libraries)
    return Program.read(Path(recipe.folder), recipe.command, recipe.parameters, recipe.libraries)
