"""Programs of analysts in a sandbox: one file of Python or R, declared libraries, outputs of one shape.

Only numbers of outputs whose shape was agreed before leave the sandbox. Everything else that happens on
the records is one error, the same for all causes.
"""

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gencard.controller.sandbox.boxes import ignore_hundredths
from gencard.controller.sandbox.environment import ANALYSES, PYTHON, Environment, stamp_of
from gencard.controller.sandbox.limits import Isolation, SandboxLimits
from gencard.controller.sandbox.program import Program
from gencard.controller.sandbox.sandbox import Sandbox
from gencard.core.coding import Coding
from gencard.core.dataset import Dataset
from gencard.core.errors import BlackBoxError, GencardError, InvalidInputError, JobLimitError
from gencard.core.program_outputs import START, Outputs, check_outputs, difference_in_shape
from gencard.run.r_language import R, bytes_of_r_request, is_r, start_file
from gencard.wire.black_box import NOTHING_STORED, BoxRequest, BoxTask, StoredNumbers

# R in a sandbox: its place, its start, and the packages that a program finds.
#
# R's own front end is a shell script that starts other programs, which a sandbox does not allow.
# Therefore R's binary is started, with the variables that the script would set.

PACKAGE = f"{R}-"
"""Begins the name of a package of R, as a library of a card."""

_HOMES = ("/usr/lib/R", "/usr/lib64/R", "/usr/local/lib/R", "/usr/local/lib64/R")
"""Folders in which Linux distributions and R's own installer put R; a sandbox shows all of /usr."""

_FOLDERS = ("/usr/local/lib/R/site-library", "/usr/lib/R/site-library", "/usr/share/R/site-library")
"""Folders of packages besides R's own folder."""

_SHARED = {"R_SHARE_DIR": "share", "R_INCLUDE_DIR": "include", "R_DOC_DIR": "doc"}
_BASE = "Priority: base"
_NEEDS = ("Depends:", "Imports:", "LinkingTo:")


@cache
def home() -> Path | None:
    """Return R's folder; None if R is not installed."""
    homes = (Path(name) for name in _HOMES if (Path(name) / "bin" / "exec" / "R").is_file())
    return next(homes, None)


def r_command(start: str, program: str) -> tuple[str, ...]:
    """Return the command of a program in R by ``start.R``; raises InvalidInputError without R."""
    folder = _home()
    shared = Path("/usr/share/R") if Path("/usr/share/R").is_dir() else folder
    variables = {"R_HOME": folder, "LD_LIBRARY_PATH": folder / "lib", "R_DEFAULT_PACKAGES": "NULL"}
    variables |= {name: shared / below for name, below in _SHARED.items()}
    words = (f"{name}={value}" for name, value in variables.items())
    binary = str(folder / "bin" / "exec" / "R")
    return ("/usr/bin/env", *words, binary, "--vanilla", "--no-echo", "-f", start, "--args", program)


def r_environment(libraries: Iterable[str]) -> Environment:
    """Return the files for a program in R: base R, declared packages and their requirements."""
    installed = packages()
    open_ = set(_with_needed(packages_in(libraries), installed))
    hidden = sorted(str(path) for name, path in installed.items() if name not in open_)
    visible = tuple(str(installed[name]) for name in sorted(open_))
    return Environment(hidden=tuple(hidden), distributions=visible, stamp=stamp_of(visible))


def packages_in(libraries: Iterable[str]) -> list[str]:
    return [name.removeprefix(PACKAGE) for name in libraries if name.startswith(PACKAGE)]


def packages() -> dict[str, Path]:
    """Folders of all installed packages but the base ones; raises InvalidInputError without R."""
    folders = [Path(name) for name in _FOLDERS] + [_home() / "library"]
    entries = (entry for folder in folders if folder.is_dir() for entry in sorted(folder.iterdir()))
    described = ((entry, _description(entry)) for entry in entries)
    return {entry.name: entry for entry, text in described if text and _BASE not in text}


def check_installed(libraries: Iterable[str]) -> None:
    """Raise InvalidInputError if R, or a package of R that is named, is not installed."""
    names = [*libraries]
    if R in names or packages_in(names):
        _with_needed(packages_in(names), packages())


def _home() -> Path:
    folder = home()
    if folder is None:
        raise InvalidInputError(field="libraries", problem="name R, which is not installed here")
    return folder


def _with_needed(names: Iterable[str], installed: dict[str, Path]) -> list[str]:
    """Return packages with their requirements, each once; raises InvalidInputError if one is missing."""
    left, added = [*names], list[str]()
    for name in left:
        if name not in installed and _BASE not in _description(_home() / "library" / name):
            problem = f"name the package {name} of R, which is not installed here"
            raise InvalidInputError(field="libraries", problem=problem)
        if name in added or name not in installed:
            continue
        added.append(name)
        # packages that the description requires, without R itself
        fields = re.sub(r"\n\s+", " ", _description(installed[name])).splitlines()
        lists = [line.partition(":")[2] for line in fields if line.startswith(_NEEDS)]
        needed = [one.split("(")[0].strip() for text in lists for one in text.split(",")]
        left += [required for required in needed if required not in ("", R)]
    return added


def _description(folder: Path) -> str:
    file = folder / "DESCRIPTION"
    return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else ""


LIBRARIES = ("numpy", "scipy", *ANALYSES)
"""Distributions that a program in Python may declare."""

MOST_BYTES = 1 << 18
"""Largest size of a program, in bytes."""


def analysis_program(text: str, libraries: Collection[str] = ()) -> Program:
    """Return a program with its start script; Python programs always have pandas.

    Raises:
        InvalidInputError: The text is empty or too long, declares libraries that no program may have, or
            is in R and R is not declared or not installed.
    """
    check_text(text)
    check_libraries(libraries)
    if is_r(text.encode()):
        if R not in libraries:
            problem = f"must name {R} for a program in R"
            raise InvalidInputError(field="libraries", problem=problem)
        files_of_r = (("analysis.R", text.encode()), ("start.R", start_file()))
        packages = tuple(sorted(name for name in libraries if name not in LIBRARIES))
        command = r_command("./start.R", "./analysis.R")
        return Program(command, files_of_r, {}, packages, encode=bytes_of_r_request)
    files = (("analysis.py", text.encode()), ("start.py", START.encode()))
    declared_libraries = tuple(sorted({"pandas", *libraries} & {*LIBRARIES}))
    # it runs once in each sandbox, so nothing would be gained; and no person has read it yet
    return Program(
        (PYTHON, "./start.py", "./analysis.py"), files, {}, declared_libraries, preloads=False
    )


def check_text(text: str) -> None:
    if not text.strip() or len(text.encode()) > MOST_BYTES:
        raise InvalidInputError(field="program", problem=f"must have 1 to {MOST_BYTES} bytes")


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


@dataclass(frozen=True, slots=True)
class AnalysisRecipe:
    """Recipe by which a job runs a program of an analyst; ``program`` is its text."""

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
    """Describe how a job runs the program; raises as ``analysis_program`` and ``environment.checked``.

    ``compiled`` is a folder of compiled copies; see ``environment.CompiledCopies``.
    """
    program = analysis_program(text, libraries)
    names, bounds = tuple(program.libraries), replace(limits, fit_mib=1)
    environment = program.environment(compiled) if program.is_python else r_environment(names)
    return AnalysisRecipe(text, names, environment, isolation, bounds)


@dataclass(frozen=True, slots=True, eq=False)
class SandboxedAnalysis:
    """A program as a function from records to outputs of at most so many numbers; each call is a run."""

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
