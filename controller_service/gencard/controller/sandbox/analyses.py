"""Programs of analysts in a sandbox: one file of Python or R, declared libraries, outputs of one shape.

Only numbers of outputs whose shape was agreed before leave the sandbox. Everything else that happens on
the records is one error, the same for all causes.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from gencard.controller.sandbox.boxes import ignore_hundredths
from gencard.controller.sandbox.environment import (
    ANALYSES,
    PYTHON,
    Environment,
)
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.r_packages import (
    PACKAGE,
    check_installed,
    r_command,
    r_environment,
)
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, GencardError, InvalidInputError, JobLimitError
from gencard.core.program_outputs import START, Outputs, check_outputs, difference_in_shape
from gencard.run.r_language import R, bytes_of_r_request, is_r, start_file
from gencard.wire.box_request import NOTHING_STORED, BoxRequest, BoxTask, StoredNumbers
from gencard.wire.signatures.canonical import sha256

LIBRARIES = ("numpy", "scipy", *ANALYSES)
"""Distributions that a program in Python may declare."""

MOST_BYTES = 1 << 18
"""Largest size of a program, in bytes."""


def analysis_digest(text: bytes) -> str:
    """Return the SHA-256 of the file in hex, as ``sha256sum`` prints it and a card names it."""
    return sha256(text)


def analysis_program(text: str, libraries: Collection[str] = ()) -> Program:
    """Return a program with its start script; Python programs always have pandas.

    Raises:
        InvalidInputError: The text is empty or too long, declares libraries that no program may have, or
            is in R and R is not declared or not installed.
    """
    check_text(text)
    check_libraries(libraries)
    if is_r(text.encode()):
        return _program_in_r(text, libraries)
    files = (("analysis.py", text.encode()), ("start.py", START.encode()))
    declared_libraries = tuple(sorted({"pandas", *libraries} & {*LIBRARIES}))
    # it runs once in each sandbox, so nothing would be gained; and no person has read it yet
    return Program(
        (PYTHON, "./start.py", "./analysis.py"), files, {}, declared_libraries, preloads=False
    )


def check_text(text: str) -> None:
    """Raise InvalidInputError if a program is empty or too long."""
    if not text.strip() or len(text.encode()) > MOST_BYTES:
        raise InvalidInputError(field="program", problem=f"must have 1 to {MOST_BYTES} bytes")


def _program_in_r(text: str, libraries: Collection[str]) -> Program:
    if R not in libraries:
        problem = f"must name {R} for a program in R"
        raise InvalidInputError(field="libraries", problem=problem)
    files = (("analysis.R", text.encode()), ("start.R", start_file()))
    declared_packages = tuple(sorted(name for name in libraries if name not in LIBRARIES))
    command = r_command("./start.R", "./analysis.R")
    return Program(command, files, {}, declared_packages, encode=bytes_of_r_request)


def check_libraries(libraries: Iterable[str]) -> None:
    """Raise InvalidInputError for a library that is not R, a package of R or in ``LIBRARIES``."""
    for name in libraries:
        if name not in (R, *LIBRARIES) and not name.startswith(PACKAGE):
            offered = ", ".join((*LIBRARIES, R))
            problem = (
                f"name '{name}', which is not allowed; allowed are {offered}, and packages of "
                f"R such as {PACKAGE}survival"
            )
            raise InvalidInputError(field="libraries", problem=problem)
    check_installed(libraries)


def _environment(program: Program, compiled: str) -> Environment:
    """Return the environment of the program's sandbox; raises as ``analysis_recipe``."""
    return program.environment(compiled) if program.is_python else r_environment(program.libraries)


@dataclass(frozen=True, slots=True)
class AnalysisRecipe:
    """Recipe by which a job runs a program of an analyst.

    Args:
        program: Its text.
        libraries: Distributions or packages of R that it declares.
        environment: Parts of the machine that its sandbox shows.
    """

    program: str
    libraries: tuple[str, ...]
    environment: Environment
    isolation: Isolation
    limits: SandboxLimits


def analysis_recipe(
    text: str,
    libraries: Collection[str],
    limits: SandboxLimits,
    isolation: Isolation,
    *,
    compiled: str = "",
) -> AnalysisRecipe:
    """Describe how a job runs the program.

    Args:
        compiled: A folder of compiled copies; see ``environment.CompiledCopies``.

    Raises:
        InvalidInputError: See ``analysis_program``; or a distribution is not installed.
        GeneratorChangedError: A distribution changes while it is read.
    """
    program = analysis_program(text, libraries)
    return AnalysisRecipe(
        text,
        tuple(program.libraries),
        _environment(program, compiled),
        isolation,
        replace(limits, fit_mib=1),
    )


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedAnalysis:
    """A program as a function from records to outputs; each call is a run of its own.

    Args:
        most_numbers: That its outputs may have together.
    """

    program: Program
    sandbox: Sandbox
    most_numbers: int

    @classmethod
    def of_recipe(cls, recipe: AnalysisRecipe, most_numbers: int) -> "SandboxedAnalysis":
        """Read a recipe; raises GeneratorChangedError if a distribution changed since its comparison."""
        recipe.environment.check_unchanged()
        program = analysis_program(recipe.program, recipe.libraries)
        sandbox = Sandbox(recipe.limits, recipe.isolation, recipe.environment)
        return cls(program, sandbox, most_numbers)

    def outputs(
        self, dataset: Dataset, coding: Coding, stored: StoredNumbers = NOTHING_STORED, *, seed: int
    ) -> Outputs:
        """Run the program and return its rounded outputs.

        Args:
            coding: Coding of the attributes of ``dataset``.
            stored: Numbers in place of the midpoints of intervals.

        Raises:
            BlackBoxError: The program fails, or its answer is no valid outputs.
            JobLimitError: The program takes too long, or too much memory.
            IsolationError: This machine cannot run sandboxes.
        """
        request = BoxRequest(BoxTask.ANALYSE, dataset, 0, seed, coding=coding, stored=stored)
        outputs = self.sandbox.ask(self.program, request, report=ignore_hundredths).outputs()
        try:
            check_outputs(outputs, self.most_numbers)
        except GencardError:
            raise BlackBoxError(problem="its answer holds no valid outputs") from None
        return outputs

    def agreed_outputs(
        self,
        dataset: Dataset,
        coding: Coding,
        agreed: Outputs,
        stored: StoredNumbers = NOTHING_STORED,
        *,
        seed: int,
    ) -> Outputs:
        """Run the program on records: outputs of the agreed shape, or one error for every failure.

        Raises:
            BlackBoxError: The run failed; the reason depends on the records and is not disclosed.
        """
        with suppress(BlackBoxError, JobLimitError):
            outputs = self.outputs(dataset, coding, stored, seed=seed)
            if difference_in_shape(agreed, outputs) is None:
                return outputs
        raise BlackBoxError(problem="its run on the records did not finish correctly")
